"""One walk over all derived codecs: a value is read back equal, no field is missing, and a wrong value names its path.

A codec that is new needs one entry in `VALUES`. What a codec does beyond this is tested beside the others of its kind.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import card_values
import pytest
import wire_values as values
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plgrpc.v1.session_service_pb2 import SessionSegment

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import events as ev
from protolink_grpc.models import session
from protolink_grpc.models.action import Approval, ApprovalState, PolicyEffect
from protolink_grpc.models.cost import Cost
from protolink_grpc.models.json_form import inner_of, own_fields
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.models.kinds import Kind
from protolink_grpc.models.lifecycle import StateChange, TaskState
from protolink_grpc.models.part import RouteDecision, ToolOutput
from protolink_grpc.models.session import DeletedSession, Session, Thread, ThreadResumption, Turn, TurnState, WhenBusy
from protolink_grpc.models.snapshot import (
    ActionCount,
    ArtifactsSnapshot,
    ArtifactSummary,
    Availability,
    CompactionSummary,
    ContextBoundarySnapshot,
    DeliveryState,
    EvidenceSnapshot,
    Gap,
    LinkedTask,
    PolicyCount,
    QueuedTurn,
    QueueHold,
    QueueSnapshot,
    SessionSnapshot,
    TaskAttempt,
    TaskSnapshot,
    ThreadSnapshot,
    ThreadStatus,
    ToolInventoryEntry,
    ToolInventorySnapshot,
)
from protolink_grpc.models.state import StateStoreReport
from protolink_grpc.models.task_control import TaskStatus
from protolink_grpc.models.watch import WatchPosition
from protolink_grpc.wire import (
    actions,
    cards,
    context,
    parts,
    payloads,
    registry,
    sessions,
    snapshots,
    state,
    tasks,
    tools,
    usage,
    watch,
)
from protolink_grpc.wire.compile import Codec, Computed, LeftOut, Special
from protolink_grpc.wire.values import FAILURE

PAYLOADS = values.full_payloads()
REQUEST = {
    "action": values.FULL_ACTION,
    "policy_decision": values.FULL_VERDICT,
    "run_id": "run",
    "task_id": "task",
    "created_at": values.NOON,
}
"""What the event says of an approval request."""

FULL_TURN = Turn(
    *("turn", "side", "task", 1, TurnState.ENDED, TaskState.FAILED, "why", 2, values.NOON, values.NOON),
    when_busy=WhenBusy.REJECT,
    rolled_back=True,
)
FULL_THREAD = Thread("side", "Side", values.NOON, "default", "turn", 2)
policies = st.sampled_from(WhenBusy)
threads = st.builds(
    Thread,
    *(values.names, values.texts, st.none() | values.times, values.texts, values.texts, st.integers(0, 2**31 - 1)),
)
results = st.sampled_from([state for state in TaskState if state is not TaskState.UNKNOWN])
turns = st.builds(
    Turn,
    *(values.names, values.names, values.names, values.counts, st.sampled_from(TurnState), st.none() | results),
    *(values.texts, values.counts, st.none() | values.times, st.none() | values.times, policies, st.booleans()),
)
SESSION_EVENTS: dict[type, tuple[Any, st.SearchStrategy[Any]]] = {
    session.SessionCreated: (
        session.SessionCreated("t", values.FACTS, "installation"),
        st.builds(session.SessionCreated, values.texts, values.objects, values.texts),
    ),
    session.SessionUpdated: (
        session.SessionUpdated("t", values.FACTS, True),
        st.builds(session.SessionUpdated, values.texts, values.objects, st.booleans()),
    ),
    session.ThreadStarted: (
        session.ThreadStarted("side", "Side", "default", "turn"),
        st.builds(session.ThreadStarted, values.names, values.texts, values.texts, values.texts),
    ),
    session.TurnSubmitted: (
        session.TurnSubmitted("turn", "side", "task", 1, True, WhenBusy.INTERRUPT, True),
        st.builds(
            session.TurnSubmitted,
            *(values.names, values.names, values.names, values.counts, st.booleans(), policies, st.booleans()),
        ),
    ),
    session.TurnPromoted: (session.TurnPromoted("turn"), st.builds(session.TurnPromoted, values.names)),
    session.TurnStarted: (session.TurnStarted("turn"), st.builds(session.TurnStarted, values.names)),
    session.TurnEnded: (
        session.TurnEnded("turn", TaskState.FAILED, "why"),
        st.builds(session.TurnEnded, values.names, results, values.texts),
    ),
    session.ThreadRolledBack: (
        session.ThreadRolledBack("side", "turn", "why"),
        st.builds(session.ThreadRolledBack, values.names, values.names, values.texts),
    ),
    session.TurnMerged: (
        session.TurnMerged("turn", "other"),
        st.builds(session.TurnMerged, values.names, values.names),
    ),
}

GAP = Gap("sandbox", Availability.UNAVAILABLE, "none is applied")
LINKED = LinkedTask(values.FULL_LINK, TaskState.WORKING)
ATTEMPT = TaskAttempt(
    *("run", 2, "retried", TaskState.FAILED, TaskStatus.TIMED_OUT, ev.Worker("w", "1.0", "h")),
    *(values.NOON, values.NOON, values.FULL_FAILURE, 7),
)
gaps = st.builds(Gap, values.names, st.sampled_from(Availability), values.texts)
linked_tasks = st.builds(LinkedTask, values.links, st.none() | results)
statuses = st.sampled_from(TaskStatus)
small = st.integers(0, 2**31 - 1)
attempts = st.builds(
    TaskAttempt,
    *(values.names, small, st.sampled_from(["", "submitted", "retried", "external"]), results, statuses),
    *(st.none() | values.workers, st.none() | values.times, st.none() | values.times),
    *(st.none() | values.whole_failures, values.counts),
)
snapshots_of_tasks = st.builds(
    TaskSnapshot,
    *(values.names, values.counts, statuses, values.texts, results, st.none() | values.descriptions, values.objects),
    *(values.texts, values.texts, values.texts, values.texts),
    *[st.none() | values.times] * 4,
    *(values.texts, st.tuples(attempts), small, small, st.tuples(linked_tasks), st.tuples(values.names)),
    *(st.none() | values.PAYLOADS[ev.TaskProgress], st.none() | values.whole_failures, values.texts, small, small),
    *(st.none() | values.usages, st.sampled_from(DeliveryState), st.booleans(), st.tuples(gaps), values.texts),
)
FULL_SNAPSHOT = TaskSnapshot(
    *("task", 9, TaskStatus.PAUSED, "later", TaskState.WORKING, values.FULL_DESCRIPTION, values.FACTS),
    *("session", "side", "agent", "ada", values.NOON, values.NOON, values.NOON, values.NOON, "run"),
    *((ATTEMPT,), 2, 1, (LINKED,), ("approval",), ev.TaskProgress(50.0, "half"), values.FULL_FAILURE, "why"),
    *(3, 4, values.FULL_USAGE, DeliveryState.FAILED, True, (GAP,), "status 410"),
)

APPROVAL = Approval(
    replace(values.FULL_REQUEST, task_id="task"),
    ApprovalState.APPROVED,
    values.FULL_RECORD,
    values.FULL_REQUEST.action.fingerprint,
)
COMPACTION = CompactionSummary(7, values.NOON, PAYLOADS[ev.ContextCompacted])
BOUNDARY = ContextBoundarySnapshot(
    "task", 9, 8, values.FULL_MANIFEST, 2, (COMPACTION,), (GAP,), values.FULL_OFFERED, values.FULL_OMITTED
)
PRODUCT = ArtifactSummary(
    *("task", "artifact", "report", "name", "file:///a", "text/plain", "action", 2, 3, "begin", values.NOON)
)
THREAD_VIEW = ThreadSnapshot(
    *("session", FULL_THREAD, 9, ThreadStatus.BLOCKED, "paused", (FULL_TURN,), (FULL_TURN,), FULL_TURN, (FULL_TURN,)),
    *(FULL_TURN, (APPROVAL,), (FULL_SNAPSHOT,), BOUNDARY, (GAP,)),
)
FULL_SESSION = Session(
    *("s", "t", values.FACTS, True, 1, values.NOON, values.NOON, (FULL_THREAD,), (FULL_TURN,), 2),
)
ENTRY = ToolInventoryEntry(values.FULL_TOOL, "mcp:files")
COUNT = ActionCount("tool.call", "completed", 2)
approvals = st.just(APPROVAL)
compactions = st.builds(CompactionSummary, values.counts, values.times, values.PAYLOADS[ev.ContextCompacted])
boundaries = st.builds(
    ContextBoundarySnapshot,
    *(values.names, values.counts, values.counts, st.none() | values.manifests, small),
    *(st.tuples(compactions), st.tuples(gaps), st.none() | values.offered_tools, st.none() | values.omitted_items),
)
products = st.builds(
    ArtifactSummary,
    *[values.names, values.names, *[values.texts] * 5, small, values.counts, values.texts, st.none() | values.times],
)
thread_views = st.builds(
    ThreadSnapshot,
    *(values.names, threads, values.counts, st.sampled_from(ThreadStatus), values.texts, st.tuples(turns)),
    *(st.tuples(turns), st.none() | turns, st.tuples(turns), st.none() | turns, st.tuples(approvals)),
    *(st.tuples(snapshots_of_tasks), st.none() | boundaries, st.tuples(gaps)),
)
queued_turns = st.builds(QueuedTurn, turns, small, values.texts)
holds = st.builds(QueueHold, values.names, st.tuples(turns), st.booleans())
tool_entries = st.builds(ToolInventoryEntry, values.tools, values.texts)
outcomes = st.sampled_from(["", "completed", "denied", "unknown-77"])
action_counts = st.builds(ActionCount, values.names, outcomes, values.counts)
policy_counts = st.builds(PolicyCount, st.sampled_from(PolicyEffect), values.counts)
arbitrary_sessions = st.builds(
    Session,
    *(values.names, values.texts, values.objects, st.booleans(), values.counts, values.times, values.times),
    *(st.tuples(threads), st.tuples(turns), values.counts),
)
SNAPSHOTS: dict[Codec[Any, Any], tuple[Any, st.SearchStrategy[Any]]] = {
    snapshots.GAP: (GAP, gaps),
    snapshots.LINKED_TASK: (LINKED, linked_tasks),
    snapshots.TASK_ATTEMPT: (ATTEMPT, attempts),
    snapshots.TASK_SNAPSHOT: (FULL_SNAPSHOT, snapshots_of_tasks),
    snapshots.COMPACTION: (COMPACTION, compactions),
    snapshots.CONTEXT_BOUNDARY: (BOUNDARY, boundaries),
    snapshots.ARTIFACT_SUMMARY: (PRODUCT, products),
    snapshots.ARTIFACTS: (
        ArtifactsSnapshot("task", 9, (PRODUCT,), (GAP,)),
        st.builds(ArtifactsSnapshot, values.names, values.counts, st.tuples(products), st.tuples(gaps)),
    ),
    snapshots.THREAD_SNAPSHOT: (THREAD_VIEW, thread_views),
    snapshots.SESSION_SNAPSHOT: (
        SessionSnapshot(FULL_SESSION, (THREAD_VIEW,), (FULL_TURN,), "more", (APPROVAL,), (PRODUCT,), (GAP,)),
        st.builds(
            SessionSnapshot,
            *(arbitrary_sessions, st.tuples(thread_views), st.tuples(turns), values.texts, st.tuples(approvals)),
            *(st.tuples(products), st.tuples(gaps)),
        ),
    ),
    snapshots.QUEUED_TURN: (QueuedTurn(FULL_TURN, 1, "begin"), queued_turns),
    snapshots.QUEUE_HOLD: (QueueHold("side", (FULL_TURN,), True), holds),
    snapshots.QUEUE_SNAPSHOT: (
        QueueSnapshot("s", 9, (QueuedTurn(FULL_TURN, 1, "begin"),), (QueueHold("side", (FULL_TURN,), True),), (GAP,)),
        st.builds(
            QueueSnapshot, values.names, values.counts, st.tuples(queued_turns), st.tuples(holds), st.tuples(gaps)
        ),
    ),
    snapshots.TOOL_ENTRY: (ENTRY, tool_entries),
    snapshots.TOOL_INVENTORY: (
        ToolInventorySnapshot(values.NOON, (ENTRY,), (GAP,)),
        st.builds(ToolInventorySnapshot, st.none() | values.times, st.tuples(tool_entries), st.tuples(gaps)),
    ),
    snapshots.ACTION_COUNT: (COUNT, action_counts),
    snapshots.POLICY_COUNT: (PolicyCount(PolicyEffect.DENY, 2), policy_counts),
    snapshots.EVIDENCE: (
        EvidenceSnapshot(
            *("task", 9, "trace", ("run",), (COUNT,), 1, 2, 3, (PolicyCount(PolicyEffect.DENY, 2),)),
            *((values.FULL_LINK,), (GAP,)),
        ),
        st.builds(
            EvidenceSnapshot,
            *(values.names, values.counts, values.texts, st.tuples(values.names), st.tuples(action_counts)),
            *[values.counts] * 3,
            *(st.tuples(policy_counts), st.tuples(values.links), st.tuples(gaps)),
        ),
    ),
}

VALUES: dict[Codec[Any, Any], tuple[Any, st.SearchStrategy[Any]]] = {
    FAILURE: (values.FULL_FAILURE, values.whole_failures),
    tools.TOOL: (values.FULL_TOOL, values.tools),
    usage.COST: (Cost(7, "EUR"), values.costs),
    usage.BUDGET: (values.FULL_BUDGET, values.budgets),
    usage.USAGE: (values.FULL_USAGE, values.usages),
    usage.BUDGET_DECISION: (values.FULL_LIMIT, values.budget_decisions),
    context.CONTEXT: (values.FULL_CONTEXT, values.contexts),
    context.OPTIONS: (values.FULL_OPTIONS, values.options),
    context.CONTEXT_ITEM: (values.FULL_MANIFEST.context_items[0], values.context_items),
    context.OMITTED: (values.FULL_OMITTED.items[0], values.omissions),
    context.OMITTED_ITEMS: (values.FULL_OMITTED, values.omitted_items),
    context.MANIFEST: (values.FULL_MANIFEST, values.manifests),
    tasks.ARTIFACT: (values.FULL_ARTIFACT, values.artifacts),
    actions.ACTION: (values.FULL_ACTION, values.actions),
    actions.ABRIDGED_ACTION: (replace(values.FULL_ACTION, payload={}), values.abridged_actions),
    actions.POLICY_DECISION: (values.FULL_VERDICT, values.policy_decisions),
    actions.APPROVAL_DECISION: (values.FULL_RECORD, values.recorded_decisions),
    actions.APPROVAL_REQUEST: (values.FULL_REQUEST, values.approval_requests),
    tasks.MESSAGE: (values.FULL_MESSAGE, values.messages),
    tasks.STATE_CHANGE: (
        StateChange(TaskState.SUBMITTED, TaskState.WORKING, values.NOON),
        st.builds(StateChange, values.states, values.states, values.times),
    ),
    parts.ROUTE: (
        RouteDecision("left", "because", 0.5, values.FACTS),
        st.builds(RouteDecision, values.names, values.maybe_names, st.none() | values.amounts, values.objects),
    ),
    parts.TOOL_OUTPUT: (
        ToolOutput("call", None, {"code": "E", "message": "broken"}),
        st.builds(ToolOutput, values.texts, values.values)
        | st.builds(ToolOutput, values.texts, st.none(), values.json_values),
    ),
    cards.INTERFACE: (card_values.FULL_CARD.interfaces[0], card_values.interfaces),
    cards.SIGNATURE: (card_values.FULL_SIGNATURE, card_values.signatures),
    cards.SKILL: (card_values.FULL_SKILL, card_values.skills),
    cards.CARD: (card_values.FULL_CARD, card_values.cards),
    registry.FILTER: (registry.AgentFilter("n", "r", ("t",), ("s",), {"k": "v"}, ("rag",)), card_values.filters),
    registry.INSTANCE_STATUS: (
        registry.InstanceStatus(registry.InstanceState.DRAINING, 1, 2),
        card_values.statuses,
    ),
    registry.REGISTERED_AGENT: (card_values.FULL_AGENT, card_values.agents),
    registry.AGENT_CHANGE: (
        registry.AgentChange(registry.AgentChangeKind.EXPIRED, card_values.FULL_AGENT, 9),
        card_values.changes,
    ),
    watch.POSITION: (
        WatchPosition(1, 2, True, True),
        st.builds(WatchPosition, values.counts, values.counts, st.booleans(), st.booleans()),
    ),
    state.STORE_REPORT: (
        StateStoreReport("n", True, True, 1, 2, True, True, values.FACTS, values.FACTS, "error"),
        values.store_reports,
    ),
    payloads.WORKER: (ev.Worker("w", "1.0", "h"), values.workers),
    payloads.APPROVAL_REQUIRED: (
        replace(values.FULL_REQUEST, **REQUEST),
        values.approval_requests.map(lambda request: replace(request, **REQUEST)),
    ),
    sessions.THREAD: (FULL_THREAD, threads),
    sessions.TURN: (FULL_TURN, turns),
    sessions.DELETED: (
        DeletedSession(1, 2, 3, 4, {"conversation": 5}),
        st.builds(
            DeletedSession,
            *[values.counts] * 4,
            st.dictionaries(values.names, values.counts, max_size=3),
        ),
    ),
    sessions.RESUMPTION: (
        ThreadResumption((FULL_TURN,), (FULL_TURN,), FULL_TURN),
        st.builds(ThreadResumption, st.tuples(turns), st.tuples(turns), st.none() | turns),
    ),
    sessions.SESSION: (FULL_SESSION, arbitrary_sessions),
    payloads.DESCRIPTION: (values.FULL_DESCRIPTION, values.descriptions),
    payloads.LINK: (values.FULL_LINK, values.links),
    payloads.OFFERED_TOOL: (values.FULL_OFFERED.tools[0], values.offers),
    payloads.OFFERED_TOOLS: (values.FULL_OFFERED, values.offered_tools),
    **SNAPSHOTS,
    **{codec: SESSION_EVENTS[codec.cls] for codec in sessions.PAYLOADS.values()},
    **{codec: (PAYLOADS[codec.cls], values.PAYLOADS[codec.cls]) for codec in payloads.CODECS},
}
"""A value with every field set, and arbitrary ones."""

GIVEN: dict[Codec[Any, Any], dict[str, Any]] = {
    actions.APPROVAL_DECISION: {"request_id": "request"},
    payloads.APPROVAL_REQUIRED: REQUEST,
}
"""What a caller of the codec says, because the message does not."""

UNSET: dict[Codec[Any, Any], set[str]] = {actions.ABRIDGED_ACTION: {"fingerprint"}, parts.TOOL_OUTPUT: {"result"}}
"""Fields that follow from what a value of this codec does not have, or exclude another one."""

ASKED = {registry.INSTANCE_STATUS}
"""Codecs of requests, which refuse numbers of a later version."""

READ_WITH_ANOTHER = {"role", "approval_id", "state", "max_concurrency", "edit", "approval_ttl", "sources", "rule"}
"""Computed fields that the reader of another field uses."""


def read(codec: Codec[Any, Any], pb: Message, field: str = "") -> Any:
    return codec.from_pb(pb, field, **GIVEN.get(codec, {}))


def name_of(codec: Codec[Any, Any]) -> str:
    return f"{codec.cls.__name__}-{codec.message.DESCRIPTOR.name}"


each_codec = pytest.mark.parametrize("codec", VALUES, ids=name_of)
# A shared machine's pauses are no failure.
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_every_codec_is_walked() -> None:
    assert set(Codec.known) == VALUES.keys()


@each_codec
def test_every_field_has_a_partner_or_a_reason(codec: Codec[Any, Any]) -> None:
    codec.compile()  # raises for one without
    assert all(line.reason for line in codec.lines.values() if isinstance(line, LeftOut))


@each_codec
@relaxed
@given(data=st.data())
def test_every_valid_value_comes_back_equal(codec: Codec[Any, Any], data: st.DataObject) -> None:
    value = data.draw(VALUES[codec][1])
    encoded = codec.to_pb(value).SerializeToString()
    assert read(codec, codec.message.FromString(encoded)) == value


OTHER_JSON = {
    # Their parts may hold an infinity, which has no JSON form. `test_wire_actions` draws other parts for this claim.
    *(tasks.ARTIFACT, tasks.MESSAGE, actions.ACTION, actions.ABRIDGED_ACTION, actions.APPROVAL_REQUEST),
    payloads.APPROVAL_REQUIRED,
    *payloads.CODECS,  # `test_reports_events` has whole events
    *(cards.CARD, cards.INTERFACE),  # an empty field is the default in JSON: see `test_registry_cards`
    *(registry.FILTER, registry.INSTANCE_STATUS, registry.REGISTERED_AGENT, registry.AGENT_CHANGE),
    watch.POSITION,  # no JSON form, like those of the registry and of sessions
    *(
        sessions.THREAD,
        sessions.TURN,
        sessions.SESSION,
        sessions.RESUMPTION,
        sessions.DELETED,
        *sessions.PAYLOADS.values(),
    ),
    *SNAPSHOTS,
}


@pytest.mark.parametrize("codec", [each for each in VALUES if each not in OTHER_JSON], ids=name_of)
@relaxed
@given(data=st.data())
def test_every_valid_value_survives_its_json_form(codec: Codec[Any, Any], data: st.DataObject) -> None:
    value = data.draw(VALUES[codec][1])
    assert codec.cls.from_dict(from_json(to_json(value.to_dict()))) == value


@each_codec
def test_a_full_value_sets_every_field_of_both_sides(codec: Codec[Any, Any]) -> None:
    # Otherwise a field that is forgotten could come back equal by its default.
    full = VALUES[codec][0]
    pb = codec.to_pb(full)
    left_out = {name for name, line in codec.lines.items() if isinstance(line, LeftOut)}
    assert {each.name for each in pb.DESCRIPTOR.fields} - {
        each.name for each, _ in pb.ListFields()
    } <= left_out | UNSET.get(codec, set())
    empty = {each.name for each in fields(full) if each.compare and not getattr(full, each.name)}
    assert empty <= left_out | UNSET.get(codec, set())
    assert read(codec, pb) == full


def wrong_values(pb: Message, path: str) -> Iterator[tuple[Message, str, Any, str]]:
    """The message, the field, a wrong value and the path of the field, for each field that has one by its type alone."""
    for field, value in pb.ListFields():
        here = f"{path}.{field.name}"
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue  # rules of permissions, for one, are read by hand: `test_wire_permissions`
        if field.is_repeated:
            if field.message_type is not None:
                yield from wrong_values(value[0], f"{here}[0]")
        elif isinstance(value, Timestamp | Duration):
            yield value, "nanos", -1, here
        elif field.name.endswith("_json"):
            yield pb, field.name, "{", here
        elif field.message_type is not None:
            yield from wrong_values(value, here)


@each_codec
def test_a_wrong_value_anywhere_is_refused_by_its_path(codec: Codec[Any, Any]) -> None:
    message = codec.to_pb(VALUES[codec][0])
    paths = [path for *_, path in wrong_values(message, "outer[3]")]
    for index, path in enumerate(paths):
        fresh = codec.message.FromString(message.SerializeToString())
        owner, field, wrong, _ = list(wrong_values(fresh, "outer[3]"))[index]
        setattr(owner, field, wrong)
        with pytest.raises(InvalidArgumentError) as refused:
            read(codec, fresh, "outer[3]")
        assert refused.value.field == path


@each_codec
def test_a_number_that_its_kind_does_not_allow_is_refused_by_its_path(codec: Codec[Any, Any]) -> None:
    for name, (_, hint) in own_fields(codec.cls).items():
        inner = inner_of(hint)[0]
        kinds = [each for each in getattr(inner, "__metadata__", ()) if isinstance(each, Kind)]
        line = codec.lines.get(name, name) if name not in codec.grouped else None
        if isinstance(line, Special) and line.read is None:
            line = line.field
        if not kinds or inner.__origin__ not in (int, float) or not isinstance(line, str):
            continue
        pb = codec.to_pb(VALUES[codec][0])
        if pb.DESCRIPTOR.fields_by_name[line].message_type is not None:
            continue  # a length of time: see above
        setattr(pb, line, -1)
        with pytest.raises(InvalidArgumentError) as refused:
            read(codec, pb, "outer")
        assert refused.value.field == f"outer.{line}"


@each_codec
def test_a_value_that_has_no_form_is_refused_by_its_path(codec: Codec[Any, Any]) -> None:
    full = VALUES[codec][0]
    for name, (_, hint) in own_fields(codec.cls).items():
        line = codec.lines.get(name, name) if name not in codec.grouped else None
        if inner_of(hint)[0] is not str or not isinstance(line, str):
            continue
        wrong = object.__new__(codec.cls)
        for each in fields(full):
            object.__setattr__(wrong, each.name, "\ud800" if each.name == name else getattr(full, each.name))
        with pytest.raises(InvalidArgumentError) as refused:
            codec.to_pb(wrong)
        assert refused.value.field == line


UNKNOWN_IS_NOT_KEPT = {"verdict", "edit"}
"""Enums that are read as a bool, which an unknown number must not set."""


@each_codec
def test_a_number_of_an_enum_of_a_later_version_is_kept_and_passed_on(codec: Codec[Any, Any]) -> None:
    for field in codec.message.DESCRIPTOR.fields:
        if field.enum_type is None or field.name in UNKNOWN_IS_NOT_KEPT or codec in ASKED:
            continue
        if isinstance(codec.lines.get(field.name), LeftOut) or field.name in READ_WITH_ANOTHER - {"role"}:
            continue
        pb = codec.to_pb(VALUES[codec][0])
        setattr(pb, field.name, 77)
        assert codec.to_pb(read(codec, pb)) == pb


def test_computed_fields_are_written_and_never_read() -> None:
    for codec, (full, _) in VALUES.items():
        for name in [name for name, line in codec.lines.items() if isinstance(line, Computed)]:
            if name in READ_WITH_ANOTHER:
                continue
            pb = codec.to_pb(full)
            assert getattr(pb, name) or name in UNSET[codec]
            pb.ClearField(name)
            assert read(codec, pb) == full


@pytest.mark.parametrize("kind", SESSION_EVENTS, ids=lambda kind: kind.__name__)
@relaxed
@given(data=st.data())
def test_the_frame_of_a_session_event_has_the_bytes_of_its_codec(kind: type, data: st.DataObject) -> None:
    payload = data.draw(SESSION_EVENTS[kind][1])
    frame = sessions.encode_event(payload, 7, 1_500_000)
    (event,) = SessionSegment.FromString(frame).session_events
    name = event.WhichOneof("payload")
    assert (event.position, event.create_time.ToMicroseconds()) == (7, 1_500_000)
    assert getattr(event, name) == sessions.PAYLOADS[name].to_pb(payload)
    assert frame.endswith(sessions.PAYLOADS[name].to_pb(payload).SerializeToString())
