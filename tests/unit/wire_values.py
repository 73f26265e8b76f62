"""Values for the tests of `wire`: arbitrary ones, and ones with all fields set."""

import operator
from dataclasses import replace
from math import inf
from typing import Any

from google.protobuf.message import Message as PbMessage
from hypothesis import strategies as st

from protolink_grpc.models import (
    ApprovalDecision,
    ApprovalRequest,
    Artifact,
    BudgetDecision,
    BudgetEffect,
    BudgetUsage,
    ContextItem,
    ContextManifest,
    FileContent,
    Message,
    OmittedContext,
    OmittedItems,
    Part,
    PartType,
    PolicyDecision,
    PolicyEffect,
    RouteDecision,
    RunAction,
    RunBudget,
    RunContext,
    Task,
    TaskState,
    ToolCall,
    ToolOutput,
)
from protolink_grpc.models import events as ev
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.cost import Cost
from protolink_grpc.models.failure import Failure, FailureCategory
from protolink_grpc.models.lifecycle import StateChange
from protolink_grpc.models.payload import Payload, PayloadRef, TypedMessage
from protolink_grpc.models.permissions import permissions_json, read_permissions
from protolink_grpc.models.state import StateStoreReport
from protolink_grpc.models.task_control import LinkKind, TaskDescription, TaskLink
from protolink_grpc.models.task_metadata import DERIVED_KEYS
from protolink_grpc.models.tool import OfferedTool, OfferedTools, ToolDescription

NOON = "2026-06-12T12:00:00.000001+00:00"
FIRST_MICROS, LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999."""

PART_TYPES = [value for name, value in vars(PartType).items() if name.isupper()]
FILE_TYPES = ["file", "image", "audio", "video", "bytes", "uri"]

# -- arbitrary -----------------------------------------------------------------------------------------------------------

texts = st.text(max_size=8)
names = st.text(min_size=1, max_size=8)
spoken_names = names.filter(lambda text: not text.isspace())
maybe_texts = st.none() | texts
maybe_names = st.none() | names
micros = st.integers(FIRST_MICROS, LAST_MICROS)
times = micros.map(iso_from_micros)
counts = st.integers(0, 2**63 - 1)
small_counts = st.integers(0, 2**31 - 1)
amounts = st.floats(0, 1e15)
spans = st.integers(0, 2**50)
seconds = spans.map(lambda each: each / 1e6)
"""Microseconds survive."""
currencies = st.sampled_from(["EUR", "JPY", "USD"])
costs = st.builds(Cost, counts, currencies)
cost_sums = st.dictionaries(currencies, counts).map(lambda sums: tuple(Cost(sums[each], each) for each in sorted(sums)))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, json_values, max_size=2)
full_objects = st.dictionaries(texts, json_values, min_size=1, max_size=2)

spelled_rules = st.sampled_from(["allow", "deny", "require_approval", True, False]) | st.fixed_dictionaries(
    {"effect": st.sampled_from(["allow", "deny", "ask"])},
    optional={
        "editable": st.booleans(),
        "expires_s": st.integers(1, 10**15).map(lambda each: each / 1e6),
        "own": json_values,
    },
)
permissions = st.dictionaries(
    texts | st.sampled_from(["a.*", "*", "default", "capabilities"]), json_values | spelled_rules, max_size=3
).map(lambda each: permissions_json(*read_permissions(each)))
"""In the one form of several that comes back."""

payload_forms = (
    st.builds(TypedMessage, texts.filter(bool), st.binary(max_size=8))
    | st.builds(PayloadRef, names, st.integers(0, 2**63 - 1), st.just(b"") | st.binary(min_size=32, max_size=32))
    | st.binary(max_size=8)
)
user_payloads = st.builds(Payload, payload_forms, texts, texts, texts) | st.builds(
    Payload, json_values, names, texts, texts
)
values = json_values | user_payloads

tool_calls = st.builds(ToolCall, names, objects | user_payloads, names)
tool_outputs = st.builds(ToolOutput, texts, values, json_values)
finite_routes = st.builds(
    RouteDecision, names, maybe_texts, st.none() | st.floats(allow_nan=False, allow_infinity=False), objects
)
# One with an empty reason travels as JSON, which has no infinities.
routes = finite_routes | st.builds(RouteDecision, names, maybe_names, st.sampled_from([inf, -inf]), objects)
# Empty names and media types mean "none" on the wire, as they do in the models' JSON.
files = (
    st.builds(FileContent, st.binary(max_size=8), st.none(), maybe_names, names)
    | st.builds(FileContent, st.none(), maybe_texts, maybe_names, names)
    | st.builds(FileContent.of, user_payloads, maybe_names)
)
infers = st.fixed_dictionaries(
    {}, optional={"prompt": texts, "user": texts, "output_schema": full_objects, "metadata": full_objects}
)
failures = st.fixed_dictionaries(
    {"code": texts | st.just("TOOL_TIMEOUT"), "message": texts, "retryable": st.booleans()},
    optional={
        "details": json_values,
        "category": json_values | st.sampled_from(("limit", "timeout")),
        "retry_delay_s": json_values | st.just(1.5),
        "origin": json_values,
        "cause": json_values | st.just({"message": "why"}),
    },
)
notes = st.fixed_dictionaries({"state": texts, "message": maybe_texts})
contents: st.SearchStrategy[tuple[str, Any]] = st.one_of(
    st.tuples(st.just("text"), texts),
    st.tuples(st.just("tool_call"), tool_calls),
    st.tuples(st.just("tool_output"), tool_outputs),
    st.tuples(st.just("route"), routes),
    st.tuples(st.just("decision"), finite_routes),
    st.tuples(st.sampled_from(FILE_TYPES), files),
    st.tuples(st.just("infer"), infers),
    st.tuples(st.just("error"), failures),
    st.tuples(st.just("status"), notes),
    # Any type with any JSON: what has not the usual shape of its type is carried as it is.
    st.tuples(st.sampled_from(PART_TYPES) | names, values),
)
parts = st.builds(
    lambda typed, metadata, media_type: Part(*typed, metadata, media_type), contents, st.none() | objects, maybe_names
)
messages = st.builds(
    Message,
    names,
    st.sampled_from(["user", "agent", "assistant", "system", "tool"]),
    st.lists(parts, max_size=2),
    times,
    st.none() | st.dictionaries(names, json_values, min_size=1, max_size=2),
)
artifacts = st.builds(
    Artifact,
    names,
    st.lists(parts, max_size=2),
    objects,
    times,
    names,
    *[maybe_names] * 4,
)
budgets = st.builds(
    RunBudget,
    *[st.none() | counts] * 3,
    st.none() | seconds,
    *[st.none() | counts] * 2,
    objects,
    st.none() | costs,
)
contexts = st.builds(
    RunContext,
    names,
    maybe_names,
    maybe_names,
    maybe_names,
    maybe_names,
    st.lists(texts, max_size=3),
    permissions,
    budgets,
    st.just(False),  # the state of the task says it
    objects,
    st.none(),
    times,
    maybe_names,
    st.lists(names, max_size=2).map(tuple),
)
options = contexts.map(lambda context: replace(context, session_id=None, principal=None, scopes=()))
state_changes = st.fixed_dictionaries(
    {
        "previous_state": st.sampled_from(TaskState).map(str),
        "new_state": st.sampled_from(TaskState).map(str),
        "timestamp": times,
    }
)
loose_keys = st.text(max_size=8).filter(lambda key: key not in DERIVED_KEYS)
metadata_with_derived_keys = st.fixed_dictionaries(
    {},
    optional={
        "session_id": json_values,
        "trace_id": json_values,
        "error": json_values,
        "reject_reason": json_values,
        "cancel_reason": json_values,
        "canceled": json_values,
        "state_history": st.lists(state_changes, max_size=2) | json_values,
    },
)


states = st.sampled_from(TaskState)


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """A task whose free metadata may carry the derived keys too, with or without a context."""
    task = Task(
        draw(names),
        draw(states.filter(lambda state: state is not TaskState.UNKNOWN)),  # which no task of ours has
        draw(st.lists(messages, max_size=2)),
        draw(st.lists(artifacts, max_size=2)),
        draw(st.dictionaries(loose_keys, json_values, max_size=2)),
        draw(objects),
        draw(times),
    )
    if draw(st.booleans()):
        context = draw(contexts)
        if task.state is TaskState.CANCELED:
            context = context.cancel(draw(maybe_names))
        context.attach_to_task(task)
        task.metadata.update(draw(st.fixed_dictionaries({}, optional={"error": texts, "reject_reason": texts})))
    else:
        task.metadata.update(draw(metadata_with_derived_keys))
    return task


actions = st.builds(
    RunAction,
    spoken_names,
    spoken_names,
    objects,
    st.frozensets(texts, max_size=2),
    st.lists(artifacts, max_size=1).map(tuple),
    texts,
    objects,
    names,
    times,
)
# Values that have fields of their own, and values that can only be in the metadata.
decision_facts = st.builds(
    operator.or_,
    objects,
    st.fixed_dictionaries(
        {},
        optional={
            "editable": st.booleans() | texts,
            "expires_s": st.integers(1, 10**15).map(lambda micros: micros / 1e6)
            | st.sampled_from([None, 0, True, "1"]),
            "sources": st.lists(st.sampled_from(["policy", "context", "unknown-9"])) | st.just(["mine"]) | texts,
            "rule": texts | st.none(),
        },
    ),
)
policy_decisions = st.builds(
    PolicyDecision, st.sampled_from(PolicyEffect), texts, texts, st.lists(texts, max_size=2).map(tuple), decision_facts
)
approval_requests = st.builds(
    ApprovalRequest,
    actions,
    policy_decisions,
    maybe_names,
    spoken_names,
    times,
    objects,
    texts,
    st.none() | times,
    *[st.booleans()] * 2,
)
approval_decisions = st.builds(
    ApprovalDecision, st.booleans(), spoken_names, texts, texts, objects, times, st.none() | objects
)
context_items = st.builds(ContextItem, names.filter(lambda text: not text.isspace()), texts, counts, objects)
abridged_actions = actions.map(lambda action: replace(action, payload={}))
recorded_decisions = approval_decisions.map(lambda each: replace(each, request_id="request", fingerprint=""))
omissions = st.builds(OmittedContext, names.filter(lambda text: not text.isspace()), texts, texts, st.none() | counts)
# The wire counts tools beside the system prompt, the model inside it: a manifest has at least as much of the latter.
manifests = st.builds(
    lambda tools, system, **rest: ContextManifest(tool_prompt_tokens=tools, system_tokens=tools + system, **rest),
    st.integers(0, 2**61),
    st.integers(0, 2**61),
    run_id=maybe_names,
    session_id=maybe_names,
    agent_name=maybe_names,
    provider=maybe_names,
    model=maybe_names,
    history_tokens=counts,
    user_tokens=counts,
    context_items=st.lists(context_items, max_size=2).map(tuple),
    context_window=st.none() | counts,
    estimated=st.booleans(),
    metadata=objects,
    created_at=times,
)
offers = st.builds(OfferedTool, names, texts, *[st.booleans()] * 3, st.none() | st.sampled_from(PolicyEffect))
omitted_items = st.builds(OmittedItems, st.lists(omissions, max_size=2).map(tuple), small_counts)
offered_tools = st.builds(OfferedTools, st.lists(offers, max_size=2).map(tuple))
usages = st.builds(BudgetUsage, *[counts] * 5, seconds, objects, cost_sums, counts, counts)
workers = st.builds(ev.Worker, texts, texts, texts)
budget_decisions = st.builds(
    BudgetDecision,
    st.sampled_from(BudgetEffect),
    maybe_names,
    st.none() | amounts,
    st.none() | amounts,
    texts,
    usages,
    objects,
    times,
)

store_reports = st.builds(
    StateStoreReport,
    name=spoken_names,
    enabled=st.booleans(),
    exists=st.booleans(),
    item_count=counts,
    message_count=counts,
    cleared=st.booleans(),
    compacted=st.booleans(),
    data=json_values,
    metadata=objects,
    error=maybe_names,
)
descriptions = st.builds(
    TaskDescription,
    *(texts, texts, texts, texts),
    st.lists(texts, max_size=2).map(tuple),
    st.lists(texts, max_size=2).map(tuple),
)
links = st.builds(TaskLink, st.sampled_from(LinkKind), names, texts, st.none() | times)
tools = st.builds(
    ToolDescription,
    name=names,
    title=texts,
    description=texts,
    input_schema=objects,
    output_schema=objects,
    request_type=texts,
    response_type=texts,
    read_only=st.booleans(),
    idempotent=st.booleans(),
    destructive=st.booleans(),
    streaming=st.booleans(),
    capabilities=st.lists(texts, max_size=3).map(tuple),
    effect=st.none() | st.sampled_from(PolicyEffect),
    timeout_s=st.none() | st.integers(1, 10**9).map(lambda millis: millis / 1000),
    tags=st.lists(texts, max_size=3).map(tuple),
)

whole_failures = st.recursive(
    st.none(),
    lambda cause: st.builds(
        Failure,
        *(texts, texts, st.none() | st.sampled_from(FailureCategory), st.booleans()),
        st.none() | st.integers(0, 10**12).map(lambda micros: micros / 1_000_000),
        *(texts, st.none() | json_values, cause),
    ),
    max_leaves=4,
).filter(lambda failure: failure is not None)
strategies = st.sampled_from(["", "recent", "tokens", "summary", "unknown-77"])
causes = st.sampled_from(["", "submitted", "continued", "recovered", "unknown-77"])
PAYLOADS: dict[type, st.SearchStrategy[Any]] = {
    ev.TaskSubmitted: st.builds(
        lambda submitted, thread_id, runtime_id: replace(submitted, thread_id=thread_id, runtime_id=runtime_id),
        st.builds(ev.TaskSubmitted.of, tasks(), texts, texts),
        texts,
        texts,
    ),
    ev.TaskStatusChanged: st.builds(
        ev.TaskStatusChanged,
        *(states, states, st.none() | whole_failures, texts, small_counts, causes, st.none() | contexts),
        *(st.none() | usages, st.none() | workers),
    ),
    ev.TaskMessagesAdded: st.builds(ev.TaskMessagesAdded, st.lists(messages, max_size=2).map(tuple), texts),
    ev.TaskArtifactUpdated: st.builds(ev.TaskArtifactUpdated, artifacts, st.booleans(), st.booleans()),
    ev.TaskPatched: st.builds(ev.TaskPatched, objects, objects),
    ev.TaskProgress: st.builds(ev.TaskProgress, st.none() | st.floats(allow_nan=False), texts),
    ev.TaskErrorReported: st.builds(
        ev.TaskErrorReported, whole_failures, st.sampled_from([*ev.ERROR_EFFECTS, "unknown-77"])
    ),
    ev.CancelRequested: st.builds(ev.CancelRequested, texts, texts, objects),
    ev.ActionRequested: st.builds(ev.ActionRequested, actions, texts),
    ev.ActionPolicyEvaluated: st.builds(ev.ActionPolicyEvaluated, policy_decisions),
    ev.ApprovalRequired: st.builds(ev.ApprovalRequired, approval_requests),
    ev.ApprovalDecided: st.builds(ev.ApprovalDecided, approval_decisions),
    ev.ActionStarted: st.builds(ev.ActionStarted, texts, texts, st.none() | objects),
    ev.ActionEnded: st.builds(
        ev.ActionEnded,
        *(texts, texts, json_values, json_values, spans),
        outcome=st.sampled_from([*ev.OUTCOME_TYPES.values(), "unknown-77"]),
    ),
    ev.ContextPrepared: st.builds(
        ev.ContextPrepared, manifests, small_counts, st.none() | offered_tools, st.none() | omitted_items
    ),
    ev.LlmCallStarted: st.builds(
        ev.LlmCallStarted, texts, texts, texts, small_counts, small_counts, st.booleans(), texts, texts
    ),
    ev.LlmCallCompleted: st.builds(
        lambda cost, *args: ev.LlmCallCompleted(*args[:7], *cost, *args[7:]),
        st.just((None, "")) | costs.map(lambda cost: (cost.micros, cost.currency)),
        *(texts, texts, texts, small_counts, texts),
        *[st.none() | counts] * 2,
        *(spans, objects, st.lists(tool_calls, max_size=1).map(tuple), texts),
        *[st.none() | st.integers(1, 2**63 - 1)] * 2,
        texts,
    ),
    ev.BudgetReported: st.builds(ev.BudgetReported, budget_decisions),
    ev.LlmCallFailed: st.builds(
        ev.LlmCallFailed,
        texts,
        texts,
        texts,
        small_counts,
        small_counts,
        whole_failures,
        st.booleans(),
        st.integers(0, 10**15),
    ),
    ev.ContextCompacted: st.builds(ev.ContextCompacted, counts, counts, strategies, texts),
    ev.TaskDescribed: st.builds(ev.TaskDescribed, descriptions, texts),
    ev.TaskInputReplaced: st.builds(ev.TaskInputReplaced, st.lists(messages, max_size=2).map(tuple), texts),
    ev.TaskStartRequested: st.builds(ev.TaskStartRequested, texts, st.booleans()),
    ev.TaskPauseRequested: st.builds(ev.TaskPauseRequested, texts, texts),
    ev.TaskPaused: st.just(ev.TaskPaused()),
    ev.TaskResumed: st.builds(ev.TaskResumed, texts, texts),
    ev.TaskRetried: st.builds(ev.TaskRetried, states, texts, texts, small_counts),
    ev.TaskLinked: st.builds(ev.TaskLinked, links),
    ev.TaskUnlinked: st.builds(ev.TaskUnlinked, links),
    ev.TaskQueued: st.builds(ev.TaskQueued, small_counts, small_counts),
    ev.PeerTaskLinked: st.builds(ev.PeerTaskLinked, texts, texts, texts, texts, texts),
    ev.LlmStep: st.builds(ev.LlmStep, texts, small_counts, texts, objects),
    dict: objects,
}
events = st.one_of(*PAYLOADS.values()).flatmap(
    lambda payload: st.builds(
        ev.RunEvent,
        st.just("")
        if isinstance(payload, ev.ActionEnded | ev.LlmStep)
        else names,  # no other type may stand beside an outcome
        st.just(payload),
        texts,
        st.none() | st.integers(1, 2**63 - 1),
        texts,
        texts,
        texts,
        times,
        st.sampled_from(["info", "warning", "error"]),
        texts,
        st.booleans(),
        texts,
        objects,
    )
)

# -- full ----------------------------------------------------------------------------------------------------------------

FACTS = {"fact": [1, 2.5, None, {"deep": True}]}
FULL_PARTS = [
    Part("text", "to be", FACTS, "text/markdown"),
    Part.json(FACTS),
    Part("file", FileContent(b"\x00\xff", None, "a.bin", "application/x-bin")),
    Part("image", FileContent(None, "https://example.org/a.png", "a.png", "image/png")),
    Part("tool_call", ToolCall("search", FACTS, "call")),
    Part("json", Payload(TypedMessage("acme.v1.Point", b"\x08\x01"), "", "", "a point")),
    Part("file", FileContent.of(Payload(PayloadRef("file:///b", 3, bytes(32)), "text/csv", "", "a table"), "b.csv")),
    Part("file", FileContent.of(Payload(b"\x01", "text/csv", "aes"), "c.csv")),
    Part("tool_output", ToolOutput("call", FACTS)),
    Part("tool_output", ToolOutput("call", None, {"code": "E", "message": "broken"})),
    Part.infer("instruction", "question", FACTS, FACTS),
    Part.infer_output("answer"),
    Part.infer_output(FACTS),
    Part("error", {"code": "E", "message": "broken", "retryable": True, "details": FACTS}),
    Part(
        "error",
        {
            "code": "E",
            "message": "no",
            "retryable": False,
            "category": "peer",
            "retry_delay_s": 1.5,
            "origin": "weather",
        }
        | {"cause": {"code": "E", "message": "deeper"}},
    ),
    Part.status("working", "half way"),
    Part("route", RouteDecision("left", "because", 0.5, FACTS)),
    Part("decision", RouteDecision("right", "because", 0.25, FACTS)),
    Part("trace", FACTS),
]
FULL_MESSAGE = Message("message", "agent", FULL_PARTS, NOON, {"tone": "kind"})
FULL_ARTIFACT = Artifact("artifact", FULL_PARTS, FACTS, NOON, "preview", "name", "file:///a", "text/plain", "action")
FULL_BUDGET = RunBudget(1, 2, 3, 4.5, 5, 6, FACTS, Cost(7, "EUR"))
FULL_CONTEXT = RunContext(
    "run",
    "session",
    "trace",
    "file:///w",
    "parent",
    ["a", "b"],
    {"a.*": {"effect": "require_approval", "editable": True, "expires_s": 1.5, "paths": ["/a"]}, "default": "deny"},
    FULL_BUDGET,
    False,
    FACTS,
    None,
    NOON,
    principal="alice",
    scopes=("pay", "read"),
)
FULL_OPTIONS = replace(FULL_CONTEXT, session_id=None, principal=None, scopes=())
FULL_ACTION = RunAction(
    "tool.call", "delete", FACTS, frozenset({"files"}), (FULL_ARTIFACT,), "says what", FACTS, "action", NOON, "call"
)
FULL_VERDICT = PolicyDecision(
    *(PolicyEffect.REQUIRE_APPROVAL, "it deletes", "files", ("files",)),
    {**FACTS, "editable": True, "expires_s": 1.5, "sources": ["policy", "context"], "rule": "files.*"},
)
FULL_REQUEST = ApprovalRequest(FULL_ACTION, FULL_VERDICT, "run", "request", NOON, FACTS, "task", NOON, True, True)
FULL_ANSWER = ApprovalDecision(True, "request", "go on", "ada", FACTS, NOON, FACTS)
FULL_TOOL = ToolDescription(
    *("name", "title", "what it does", FACTS, FACTS, "acme.v1.In", "acme.v1.Out", True, True, True, True),
    *(("files",), PolicyEffect.DENY, 1.5, ("math",)),
)
FULL_RECORD = replace(FULL_ANSWER, fingerprint="")
FULL_MANIFEST = ContextManifest(
    *("run", "session", "agent", "provider", "model"),
    *(100, 20, 30, 4),
    (ContextItem("file", "a.txt", 5, FACTS),),
    8000,
    True,
    FACTS,
    NOON,
)
FULL_OMITTED = OmittedItems((OmittedContext("artifact", "report", "too_large", 900),), 2)
FULL_OFFERED = OfferedTools((OfferedTool("book", "mcp:hotel", True, True, True, PolicyEffect.DENY),))
FULL_USAGE = BudgetUsage(1, 2, 3, 4, 5, 6.5, FACTS, (Cost(7, "EUR"), Cost(8, "USD")), 9, 10)
FULL_LIMIT = BudgetDecision(BudgetEffect.WARN, "max_steps", 9.0, 10.0, "nearly", FULL_USAGE, FACTS, NOON)


def full_task() -> Task:
    """A task with everything that a task can have, made anew: tasks can be changed."""
    task = Task("task", TaskState.FAILED, [FULL_MESSAGE], [FULL_ARTIFACT], dict(FACTS), dict(FACTS), NOON)
    FULL_CONTEXT.attach_to_task(task)
    task.failure, task.usage = Failure(message="broken"), FULL_USAGE
    task.state_history = [StateChange(TaskState.SUBMITTED, TaskState.WORKING, NOON)]
    return task


FULL_FAILURE = Failure(
    *("E", "broken", FailureCategory.PEER, True, 1.5, "hotel", FACTS),
    Failure("TOOL_FAILED", "no rooms", FailureCategory.TOOL, origin="book"),
)


FULL_DESCRIPTION = TaskDescription("Title", "Goal", "high", "ada", ("it works",), ("no network",))
FULL_LINK = TaskLink(LinkKind.BLOCKED_BY, "other", "first things first", NOON)


def full_payloads() -> dict[type, Any]:
    """One of each kind, every field set to something that is not its default."""
    return {
        ev.TaskSubmitted: replace(
            ev.TaskSubmitted.of(full_task(), "ada", "request"), thread_id="side", draft=True, runtime_id="installation"
        ),
        ev.TaskStatusChanged: ev.TaskStatusChanged(
            *(TaskState.SUBMITTED, TaskState.WORKING, FULL_FAILURE, "why", 2, "continued", FULL_CONTEXT, FULL_USAGE),
            ev.Worker("w", "1.0", "h"),
        ),
        ev.TaskMessagesAdded: ev.TaskMessagesAdded((FULL_MESSAGE,), "request"),
        ev.TaskArtifactUpdated: ev.TaskArtifactUpdated(FULL_ARTIFACT, True, True),
        ev.TaskPatched: ev.TaskPatched(FACTS, FACTS),
        ev.TaskProgress: ev.TaskProgress(50.0, "half"),
        ev.TaskErrorReported: ev.TaskErrorReported(FULL_FAILURE, "continues"),
        ev.CancelRequested: ev.CancelRequested("enough", "ada", FACTS),
        ev.ActionRequested: ev.ActionRequested(FULL_ACTION, "message/0"),
        ev.ActionPolicyEvaluated: ev.ActionPolicyEvaluated(FULL_VERDICT),
        ev.ApprovalRequired: ev.ApprovalRequired(FULL_REQUEST),
        ev.ApprovalDecided: ev.ApprovalDecided(FULL_ANSWER, "request id"),
        ev.ActionStarted: ev.ActionStarted("tool.call", "delete", FACTS),
        ev.ActionEnded: ev.ActionEnded("tool.call", "delete", FACTS, FACTS, 7, FULL_USAGE),
        ev.ContextPrepared: ev.ContextPrepared(FULL_MANIFEST, 3, FULL_OFFERED, FULL_OMITTED),
        ev.LlmCallStarted: ev.LlmCallStarted(
            "call", "provider", "model", 2, 3, True, "wanted provider", "wanted model"
        ),
        ev.LlmCallCompleted: ev.LlmCallCompleted(
            *("call", "provider", "model", 3, "answer", 1, 2, 3, "EUR", 7, dict(FACTS)),
            (ToolCall("delete", dict(FACTS), "call"),),
            "tool_calls",
            *(4, 5),
            "model-1",
        ),
        ev.BudgetReported: ev.BudgetReported(FULL_LIMIT),
        ev.LlmCallFailed: ev.LlmCallFailed("call", "provider", "model", 3, 2, FULL_FAILURE, True, 7),
        ev.ContextCompacted: ev.ContextCompacted(900, 90, "summary", "They want to travel."),
        ev.TaskDescribed: ev.TaskDescribed(FULL_DESCRIPTION, "ada"),
        ev.TaskInputReplaced: ev.TaskInputReplaced((FULL_MESSAGE,), "ada"),
        ev.TaskStartRequested: ev.TaskStartRequested("ada", True),
        ev.TaskPauseRequested: ev.TaskPauseRequested("later", "ada"),
        ev.TaskPaused: ev.TaskPaused(),
        ev.TaskResumed: ev.TaskResumed("now", "ada"),
        ev.TaskRetried: ev.TaskRetried(TaskState.FAILED, "again", "ada", 2),
        ev.TaskLinked: ev.TaskLinked(FULL_LINK),
        ev.TaskUnlinked: ev.TaskUnlinked(FULL_LINK),
        ev.TaskQueued: ev.TaskQueued(4, 2),
        ev.PeerTaskLinked: ev.PeerTaskLinked("peer", "https://example.org", "a2a", "task", "context"),
        ev.LlmStep: ev.LlmStep("llm_step", 3, "text", FACTS),
        dict: dict(FACTS),
    }


def as_written(event: ev.RunEvent) -> ev.RunEvent:
    """What is read of an event alone: a question names its action and no more."""
    required = event.payload
    if not isinstance(required, ev.ApprovalRequired):
        return event
    unknown = RunAction(ev.UNKNOWN_ACTION, ev.UNKNOWN_ACTION, action_id=event.action_id, created_at=event.timestamp)
    request = replace(
        required.request,
        action=unknown,
        policy_decision=PolicyDecision(PolicyEffect.REQUIRE_APPROVAL),
        run_id=event.run_id or None,
        task_id=event.task_id,
        created_at=event.timestamp,
    )
    return replace(event, payload=ev.ApprovalRequired(request))


def full_event(payload: Any) -> ev.RunEvent:
    return ev.RunEvent(
        type="",
        payload=payload,
        task_id="task",
        sequence=7,
        run_id="run",
        session_id="session",
        agent_name="agent",
        timestamp=NOON,
        severity="warning",
        summary="in short",
        final=True,
        action_id="action",
        metadata=FACTS,
    )


def fields_set(message: PbMessage) -> set[str]:
    """Full names of all fields that are set in `message` and in what it contains."""
    found: set[str] = set()
    for field, value in message.ListFields():
        found.add(field.full_name)
        inner = value if field.is_repeated else [value]
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            found.update(*[fields_set(each) for each in value.values() if isinstance(each, PbMessage)])
        elif field.message_type is not None:
            found.update(*[fields_set(each) for each in inner])
    return found


def fields_defined(descriptor: Any, seen: set[str] | None = None) -> set[str]:
    """Full names of all fields of a message type, and of our own types that it contains."""
    seen = set() if seen is None else seen
    if descriptor.full_name in seen or not descriptor.full_name.startswith("plgrpc."):
        return set()
    seen.add(descriptor.full_name)
    is_map = descriptor.GetOptions().map_entry
    found = set() if is_map else {field.full_name for field in descriptor.fields}
    for field in descriptor.fields:
        if field.message_type is not None:
            found |= fields_defined(field.message_type, seen)
    return found
