"""Submissions to a task service, and its limits. Values only."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from protolink_grpc.errors import DelegationCycleError, InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.context import RunContext, check_loose_budget
from protolink_grpc.models.events import TaskArtifactUpdated, TaskMessagesAdded, TaskPatched, TaskSubmitted
from protolink_grpc.models.fold import CopyOnRead, TaskFold
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import FileContent, Part, ToolCall, ToolOutput
from protolink_grpc.models.payload import Payload, PayloadRef, TypedMessage, UnknownForm
from protolink_grpc.models.permissions import check_permissions, permissions_json
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_metadata import own_metadata
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.runtime.log import Fact, unexpected_end_error

Recovery = Literal["auto", "lost", "resume"]
"""What becomes of a run whose process died: its task fails and says so, or another run goes on with it.

"auto" goes on where that repeats nothing: with the agent's own handler of tool calls and inference, which finds in the log what was
done. A handler of the user's begins anew, so its task fails unless "resume" is asked for. A run that waited for an approval goes on
in each case: nothing was under way.
"""

MAX_RESTARTS = 10
"""Runs of a task that may die in a row with nothing done that the next one builds on, however much they reported."""


@checks_arguments
@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one agent in one process.

    A request that would exceed one of the first four is refused with RESOURCE_EXHAUSTED and a retry hint.

    Args:
        max_concurrency: Runs that work at the same time; at least 1. What the agent's card says about it is advertised only.
        max_queue: Runs beyond these that may wait, for their turn or for an approval.
        max_task_bytes: Encoded bytes of the tasks that work and wait, together. Their objects in memory take two to three times
            as much.
        principal_share: Part of `max_queue`, `max_task_bytes`, `warm_bytes` and `max_live_text_bytes` that one principal may take;
            more than 0, at most 1. All anonymous callers are one principal: where there are no others, 1.0 gives them all.
        warm_tasks: Tasks that wait for input and are kept in memory, so that their next turn need not read their log.
        warm_bytes: Encoded bytes of these tasks, together. The ones used least recently go first.
        max_live_text_bytes: Bytes of the texts that models are producing, together; what goes beyond is not shown live.
        batch_events: Events in one batch of a watch at most.
        cancel_wait_s: How long a cancel waits for the run to end before it answers with the task as it is.
        lease_ttl_s: How long this process may be silent before others take over its tasks.
        max_resumes_without_progress: How often in a row a run is resumed whose process died while the run made no progress; then
            its task fails, for it may be what ends the process. Orderly stops do not count. At least 1.
        blocked_loop_s: How long the event loop may be blocked before the stack of its thread is logged, once; 0 never looks.
        delta_interval_s: Time between two batches of live text to one reader at least; the first piece is sent at once.

    Raises:
        InvalidArgumentError: A bound is out of range; names the field.
    """

    max_concurrency: int = 100
    max_queue: int = 1000
    max_task_bytes: int = 256 << 20
    principal_share: float = 0.5
    warm_tasks: int = 1000
    warm_bytes: int = 64 << 20
    max_live_text_bytes: int = 16 << 20
    batch_events: int = 256
    cancel_wait_s: float = 10.0
    lease_ttl_s: float = 15.0
    max_resumes_without_progress: int = 1
    blocked_loop_s: float = 10.0
    delta_interval_s: float = 0.025

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if not getattr(self, name) >= least:
                raise InvalidArgumentError(f"must be at least {least}", field=f"limits.{name}")
        if not 0 < self.principal_share <= 1:
            raise InvalidArgumentError("must be more than 0 and at most 1", field="limits.principal_share")
        if not self.lease_ttl_s > 0:
            raise InvalidArgumentError("must be more than 0", field="limits.lease_ttl_s")


_LEAST = {
    "max_concurrency": 1,
    "max_queue": 0,
    "max_task_bytes": 1,
    "warm_tasks": 0,
    "warm_bytes": 0,
    "max_live_text_bytes": 0,
    "batch_events": 1,
    "cancel_wait_s": 0,
    "delta_interval_s": 0,
}


@dataclass(slots=True)
class Submission:
    """What a caller contributes to a task.

    Args:
        task_id: The task; empty lets the service choose the id of a new one.
        target: Whether that task is to be created, to be continued, or either.
        expected_sequence: What the last sequence of a task that is continued has to be; 0 means any.
        messages: New messages; those whose id the log knows are left out.
        request_id: The same id from the same principal is the same request.
        encoded: The messages as bytes, where an edge has them; see `TaskSubmitted`.
        scopes: What the caller's credentials allow, as the edge has found out.
        waiting_runs: Runs, of any agent, that wait for the end of this turn; entries of `net.tracing`. Set by the service.
        created_at: When the caller has made the task, ISO 8601; empty means now.
        state: Where the task stands, as its caller says. A new task must not be terminal; of one that exists, the log knows better.
    """

    messages: list[Message] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    task_id: str = ""
    target: TaskTarget = TaskTarget.CREATE_OR_CONTINUE
    expected_sequence: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    flow_state: dict[str, Any] = field(default_factory=dict)
    session_id: str = ""
    context: RunContext | None = None
    request_id: str = ""
    encoded: tuple[bytes, ...] = ()
    scopes: frozenset[str] = frozenset()
    state: TaskState = TaskState.SUBMITTED
    created_at: str = ""
    waiting_runs: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """About how many bytes it has: those of its encoded messages where they are at hand, else of its texts and contents."""
        found = sum(map(len, self.encoded)) if self.encoded else content_size(self.messages)
        if self.artifacts or self.metadata or self.flow_state:
            found += content_size([self.artifacts, self.metadata, self.flow_state])
        return found

    def known_as(self, principal: str) -> None:
        """Set principal and scopes of the context from the credentials, overwriting the caller's values.

        The caller's cancellation fields are cleared: only the log records a cancellation.
        """
        context, scopes = self.context, tuple(sorted(self.scopes))
        if context is None and scopes:
            context = RunContext(session_id=self.session_id or None)
        if context is not None and (context.canceled or context.cancel_reason):
            context = replace(context, canceled=False, cancel_reason=None)
        if context is not None and (scopes or context.principal or context.scopes):
            context = replace(context, principal=principal, scopes=scopes)
        self.context = context

    def check_target(self) -> None:
        """Pass when the target, the id and the expected sequence go together. Raises InvalidArgumentError."""
        if not self.task_id and self.target is TaskTarget.CONTINUE:
            raise InvalidArgumentError("must name the task to continue", field="input.task_id")
        if self.expected_sequence and self.target is TaskTarget.CREATE:
            raise InvalidArgumentError("is for a task that is continued", field="input.expected_sequence")
        if self.expected_sequence < 0:
            raise InvalidArgumentError("must not be negative", field="input.expected_sequence")

    def check_sequence(self, task_id: str, last: int) -> None:
        """Pass when the task ends where the caller expects it. Raises SequenceConflictError."""
        if self.expected_sequence and self.expected_sequence != last:
            raise unexpected_end_error(task_id, self.expected_sequence, last)

    @classmethod
    def of(cls, task: Task, *, request_id: str = "") -> "Submission":
        """Return the submission for `task`; the server alone decides its history."""
        return cls(
            messages=task.messages,
            artifacts=task.artifacts,
            task_id=task.id,
            metadata=task.metadata,
            flow_state=task.flow_state,
            session_id=task.session_id or "",
            context=RunContext.from_task(task) if "run_context" in task.metadata else None,
            request_id=request_id,
            state=task.state,
            created_at=task.created_at,
        )

    def run_id_for(self, fold: TaskFold) -> str:
        """The name that the caller gives to the run; empty where it gives none, or that of an earlier run of the task."""
        context = self.context
        return context.run_id if context is not None and context.run_id not in fold.run_ids else ""

    def opening(self, task_id: str, principal: str) -> TaskSubmitted:
        """The first event of the task that this submission creates.

        Raises:
            InvalidArgumentError: An `output_schema` cannot be used, or a limit or a permission is none; names it.
        """
        check_loose_budget(self.metadata)
        for index, message in enumerate(self.messages):
            _check_output_schemas(message, index)
        free = own_metadata(self.metadata)
        task = Task(
            id=task_id,
            messages=self.messages,
            artifacts=self.artifacts,
            metadata=free,
            flow_state=self.flow_state,
            created_at=self.created_at or utc_now(),
        )
        session_id, context = self.session_id or task_id, self.context
        if context is not None:
            context = context.with_loose_keys(free)
            if context.permissions:
                # The run sees them as a later run reads them from the log.
                rules = check_permissions(context.permissions, "input.options.permissions")
                context = replace(context, permissions=permissions_json(*rules))
            if not context.session_id:
                context = replace(context, session_id=session_id)
        return TaskSubmitted(task, principal, self.request_id, session_id, context, self.encoded)

    def additions(self, fold: TaskFold) -> list[Fact]:
        """What this submission adds to a task that exists; what the log knows already is left out. Raises like `opening`."""
        added = [index for index, each in enumerate(self.messages) if each.id not in fold.message_ids]
        for index in added:
            _check_output_schemas(self.messages[index], index)
        messages = tuple(self.messages[index] for index in added)
        encoded = tuple(self.encoded[index] for index in added) if self.encoded else ()
        facts: list[Fact] = [TaskMessagesAdded(messages, self.request_id, encoded)]
        facts += [TaskArtifactUpdated(each) for each in self.artifacts if fold.artifact(each.id) is None]
        free = own_metadata(self.metadata)
        patch = TaskPatched(_changed(fold.metadata, free), _changed(fold.flow_state, self.flow_state))
        if patch.metadata or patch.flow_state:
            facts.append(patch)
        return facts


def refuse_cycle(context: RunContext, agent_name: str) -> None:
    """Refuse delegated work that this agent has handled before, else two agents could delegate to each other for ever.

    Work is delegated where its context names a parent run. A root context may name any agents: nobody has delegated it.

    Raises:
        DelegationCycleError: The agent is in the context's chain, in whatever case.
    """
    chain = context.agent_chain
    if context.parent_run_id and agent_name.casefold() in (each.casefold() for each in chain):
        raise DelegationCycleError(
            f"the work has passed through {agent_name} before: {' > '.join(chain)}", agent=agent_name
        )


def content_size(value: object) -> int:
    """About how many bytes a value of messages, artifacts or JSON has encoded. Costs its number of items, not its bytes."""
    found: int = 0
    rest: list[Any] = [value]
    while rest:
        each = rest.pop()
        items = _ITEMS_OF.get(each.__class__)
        if items is not None:
            rest += items(each)
        else:
            found += len(each) if isinstance(each, str | bytes) else ITEM_BYTES
    return found


_ITEMS_OF: dict[type, Callable[[Any], Iterable[Any]]] = {
    list: lambda items: items,
    tuple: lambda items: items,
    dict: lambda items: (*items.keys(), *items.values()),
    CopyOnRead: lambda items: items,
    Message: lambda message: (*message.parts, message.metadata) if message.metadata else message.parts,
    Artifact: lambda artifact: (*artifact.parts, artifact.metadata),
    Part: lambda part: (part.content, part.metadata) if part.metadata else (part.content,),
    Payload: lambda payload: (payload.value, payload.preview),
    TypedMessage: lambda message: (message.type_name, message.value),
    PayloadRef: lambda ref: (ref.uri,),
    UnknownForm: lambda form: (form.encoded,),
    ToolCall: lambda call: (call.args,),
    ToolOutput: lambda output: (output.result, output.error),
    FileContent: lambda file: (file.data, file.uri) if file.payload is None else (file.payload,),
}
"""What else there is to count of a value of that type."""

ITEM_BYTES = 8
"""What a number, or anything else that is small, counts."""


def _check_output_schemas(message: Message, index: int) -> None:
    for place, part in enumerate(message.parts):
        if part.type == "infer" and isinstance(part.content, dict) and "output_schema" in part.content:
            # Only here, because clients import this module, too.
            from protolink_grpc.llms.checks import OutputCheck

            try:
                OutputCheck.of(part.content["output_schema"])
            except InvalidArgumentError as error:
                raise error.within(f"input.messages[{index}].parts[{place}]") from None


def _changed(known: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in now.items() if known.get(key) != value}
