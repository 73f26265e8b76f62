"""What the conversion of a task to Agent Runtime events remembers from one event to the next.

`tasks` converts the events of the task itself, `calls` those of its actions and approvals, `model_calls` those of its model calls.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from protolink_grpc.models import events as ev
from protolink_grpc.models.action import PolicyEffect
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.failure import RUN_LOST, Failure
from protolink_grpc.models.json_value import to_camel_case
from protolink_grpc.models.lifecycle import SETTLED, TaskState
from protolink_grpc.models.references import References
from protolink_grpc.models.session import DEFAULT_THREAD
from protolink_grpc.models.task_control import TaskStatus
from protolink_grpc.models.task_status import status_of_run
from protolink_grpc.net.trace_context import span_id_of, trace_of

UNKNOWN: Final = "unknown"
UNAVAILABLE: Final = "unavailable"
"""The contract's words for a value that is not known, and for one that is not recorded."""

MAX_CLOSED: Final = 10
"""Maximum number of approvals, of actions and of model calls that the end of a task closes one by one; further ones are counted.

Together they are at most 50 records, and an event has at most 64.
"""

POLICIES: Final = MappingProxyType(
    {PolicyEffect.ALLOW: "allowed", PolicyEffect.DENY: "denied", PolicyEffect.REQUIRE_APPROVAL: "ask"}
)
"""The policies of tools and of their calls."""

Record = dict[str, Any]
Mapped = Iterator[tuple[str, Record]]
"""The type and the fields of each resulting event."""


@dataclass(slots=True)
class Call:
    """An action that has not ended. `is_shown`: it has its `tool.started`. `is_running`: its execution has begun.

    `execution` counts the tool calls of the same action: an action that an orderly stop has canceled may be executed again.
    """

    kind: str
    name: str
    arguments: Any = None
    child_task_id: str = ""
    execution: int = 1
    was_asked: bool = False
    is_shown: bool = False
    is_running: bool = False


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A model call that has not ended. Each attempt of a call is a request with an id of its own."""

    request_id: str
    started: ev.LlmCallStarted
    run_id: str


@dataclass(slots=True)
class TaskRecords:
    """What the conversion of one task remembers.

    Attributes:
        turn_id: The turn that the next events belong to.
        attempt_id, run_id: The current or last attempt, and its run; empty before the first one.
        trace_id: Of the spans of the task; see `telemetry.spans`.
        state: The last known state.
        failure: Of the last status, if it had one.
        runtime_id: Of the store's installation; empty if unknown.
        offered, omitted: Ids of the run's last events with the tools that are offered and with what a prompt leaves out.
        blockers: The tasks that must end before it starts.
    """

    thread_id: str = DEFAULT_THREAD
    turn_id: str = ""
    attempt_id: str = ""
    run_id: str = ""
    trace_id: str = ""
    state: TaskState = TaskState.SUBMITTED
    failure: Failure | None = None
    runtime_id: str = ""
    offered: str = ""
    destructive: frozenset[str] = frozenset()
    """The offered tools that are destructive, also those of an earlier run."""
    omitted: str = ""
    blockers: set[str] = field(default_factory=set)
    calls: dict[str, Call] = field(default_factory=dict)
    stopped: dict[str, Call] = field(default_factory=dict)
    """The actions that were canceled."""
    approvals: dict[str, str] = field(default_factory=dict)
    """The action of each open approval."""
    models: dict[str, ModelCall] = field(default_factory=dict)
    """The model calls that have not ended."""
    requests: Counter[str] = field(default_factory=Counter)
    """The number of requests of each model call since the last retry of the task."""
    is_started: bool = False
    """It is no draft any more, or never was one."""
    is_turn_started: bool = False
    has_called_model: bool = False
    """A model was called in the turn."""
    is_attempt_open: bool = False
    is_canceling: bool = False
    is_paused: bool = False
    """Its status is `paused`, whatever parts of the run that still work do."""
    failed_call: ev.LlmCallFailed | None = None
    """The failed model call that the run waits to repeat."""
    shown: TaskStatus = TaskStatus.RUNNING
    """The status of the run that was shown last."""
    retry: int = 0
    _references: References = field(default_factory=References)

    def begin_turn(self, thread_id: str, turn_id: str) -> None:
        self.thread_id, self.turn_id, self.is_turn_started, self.has_called_model = thread_id, turn_id, False, False

    def begin_run(self, attempt_id: str, run_id: str) -> None:
        self.attempt_id, self.run_id, self.is_attempt_open = attempt_id, run_id, True
        self.is_canceling, self.failed_call, self.shown = False, None, TaskStatus.RUNNING
        self.offered, self.omitted = "", ""

    @property
    def status(self) -> TaskStatus:
        """The status of the run."""
        return status_of_run(
            is_canceling=self.is_canceling,
            is_paused=self.is_paused,
            has_questions=bool(self.approvals),
            repeats_call=self.failed_call is not None,
        )

    def prepare(self, event: RunEvent) -> RunEvent:
        """Note the trace of the next event, and return the event without references to earlier ones."""
        event = self._references.whole(event)
        context = getattr(event.payload, "context", None)
        if context is not None or not self.trace_id:
            self.trace_id = trace_of(context, event.task_id).trace_id
        return event


_UNCHANGED: Final = frozenset(
    (
        "args",
        "arguments",
        "content",
        "data",
        "details",
        "flow_state",
        "metadata",
        "payload",
        "permissions",
        "preview",
        "result",
    )
)
"""Keys whose values belong to users: their keys stay unchanged."""


def to_camel(value: Any) -> Any:
    """Return the JSON form of an object of this package with the names of its fields as in the contract."""
    if isinstance(value, list):
        return [to_camel(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {to_camel_case(name): each if name in _UNCHANGED else to_camel(each) for name, each in value.items()}


def amount(value: float | None) -> float | str:
    return UNKNOWN if value is None else value


def duration_ms(micros: int) -> float | str:
    """Return a duration in milliseconds. 0 means that it is not recorded."""
    return micros / 1000 if micros else UNKNOWN


def run_id_of(task_id: str, run_id: str) -> str:
    """Return the id of a run. A caller may give it the id of the task; the contract wants different ids for different things."""
    return f"{run_id}/run" if run_id == task_id else run_id


def run_status(task: TaskRecords, event: RunEvent, phase: str, title: str, detail: str = "") -> tuple[str, Record]:
    """Return the status of the current run, in words for people."""
    payload = {"phase": phase, "title": title} | ({"detail": detail} if detail else {})
    return "run.status", {"runId": run_id_of(event.task_id, task.run_id or event.run_id), "payload": payload}


def ids_of_run(event: RunEvent, run_id: str) -> Record:
    """Return the ids of an earlier run of the same task."""
    return {"runId": run_id_of(event.task_id, run_id), "spanId": span_id_of(event.task_id, run_id)}


def category_of(failure: Failure | None, otherwise: str) -> str:
    if failure is None:
        return otherwise
    if failure.reason == RUN_LOST:
        return "run_lost"
    return str(failure.category or failure.reason.lower() or otherwise)


def show_status(task: TaskRecords, event: RunEvent, cause: str) -> Mapped:
    """Show the status of the run, if it has changed. `task.cancel_requested` shows a cancellation.

    A task that has ended or waits for input has no run: an answer to one of its approvals does not change its status.

    Args:
        cause: Why the run continues, in words for people.
    """
    status = task.status
    if status is task.shown or task.state in SETTLED:
        return
    task.shown = status
    payload = {"status": str(status), "nativeStatus": str(TaskState.WORKING)}
    match status:
        case TaskStatus.PAUSED:
            yield "task.paused", {"payload": payload}
            yield run_status(task, event, status, "The run is paused")
        case TaskStatus.WAITING_PERMISSION:
            yield "task.waiting", {"payload": payload | {"actionIds": [*task.approvals]}}
            yield run_status(task, event, status, "The run waits for an approval")
        case TaskStatus.WAITING_RESOURCE:
            reason = "" if task.failed_call is None else task.failed_call.failure.message
            yield "task.waiting", {"payload": payload | {"statusReason": reason}}
            yield run_status(task, event, status, "The run waits to repeat a model call", reason)
        case TaskStatus.RUNNING:
            yield resumed()
            yield run_status(task, event, status, cause)


def resumed() -> tuple[str, Record]:
    payload = {"status": "running", "nativeStatus": str(TaskState.WORKING), "statusReason": ""}
    return "task.resumed", {"payload": payload}
