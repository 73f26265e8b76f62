"""ProtoLink's stream events as classes: the items of a stream over a transport object. `edge.events` converts RunEvents to them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from protolink_grpc.compat.protolink.edge.events import StreamEvents, is_last
from protolink_grpc.compat.protolink.stream_events import event_from_task_event
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.ids import new_event_id
from protolink_grpc.models.json_form import JsonForm
from protolink_grpc.models.task import Task


class _TaskEvent(JsonForm):
    """An event of a task. Its JSON form has the key `type` beside the fields."""

    __slots__ = ()
    type: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type, **super().to_dict()}


@dataclass(slots=True)
class TaskStatusUpdateEvent(_TaskEvent):
    """A change of a task's state. The last event of a stream is `final`, and its metadata has the complete task as `task`."""

    type: ClassVar[str] = "task_status_update"

    event_id: str = field(default_factory=new_event_id)
    task_id: str = ""
    previous_state: str | None = None
    new_state: str = ""
    timestamp: str = field(default_factory=utc_now)
    final: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def task(self) -> Task | None:
        """The complete task of the last event of a stream; None in other events."""
        found = self.metadata.get("task")
        return None if found is None else Task.from_dict(found)


@dataclass(slots=True)
class TaskArtifactUpdateEvent(_TaskEvent):
    """A new artifact."""

    type: ClassVar[str] = "task_artifact_update"

    event_id: str = field(default_factory=new_event_id)
    task_id: str = ""
    artifact: Artifact | None = None
    timestamp: str = field(default_factory=utc_now)
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class TaskProgressEvent(_TaskEvent):
    """Progress in percent."""

    type: ClassVar[str] = "task_progress"

    event_id: str = field(default_factory=new_event_id)
    task_id: str = ""
    progress: float = 0
    message: str | None = None
    timestamp: str = field(default_factory=utc_now)
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class TaskLLMStreamEvent(_TaskEvent):
    """A step of an inference: a piece of text, an action, a call of a tool or its result. `final` ends the inference only."""

    type: ClassVar[str] = "task_llm_stream"

    event_id: str = field(default_factory=new_event_id)
    task_id: str = ""
    agent_name: str = ""
    llm_event_type: str = ""
    step: int | None = None
    content: Any = None
    final: bool = False
    timestamp: str = field(default_factory=utc_now)
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class TaskErrorEvent(_TaskEvent):
    """An error in a task."""

    type: ClassVar[str] = "task_error"

    event_id: str = field(default_factory=new_event_id)
    task_id: str = ""
    error_code: str = ""
    error_message: str = ""
    recoverable: bool = False
    timestamp: str = field(default_factory=utc_now)
    metadata: dict[str, Any] = field(default_factory=dict)


TaskEvent = (
    TaskStatusUpdateEvent | TaskArtifactUpdateEvent | TaskProgressEvent | TaskLLMStreamEvent | TaskErrorEvent | RunEvent
)
"""An item of a stream: one of ProtoLink's events, or a RunEvent that has no equivalent among them."""

_KINDS: dict[str, Any] = {
    each.type: each
    for each in (
        TaskStatusUpdateEvent,
        TaskArtifactUpdateEvent,
        TaskProgressEvent,
        TaskLLMStreamEvent,
        TaskErrorEvent,
    )
}


def fact_of(item: Any) -> Any:
    """Return what the log records for an item that a handler yields: the payload of one of ProtoLink's events, and its task.

    None for a status, which the run records itself. Other items are returned unchanged.
    """
    if isinstance(item, TaskStatusUpdateEvent):
        return None
    if not isinstance(item, _TaskEvent):
        return item
    event = event_from_task_event(item, None, None)
    return RunEvent(payload=event.payload, task_id=event.task_id)


class TaskEvents:
    """Converts the events of one stream.

    Args:
        get_task: Returns the task with that id, for the final status.
    """

    def __init__(self, get_task: Callable[[str], Awaitable[Task]]) -> None:
        self._get_task = get_task
        self._events = StreamEvents()

    async def of(self, event: RunEvent) -> list[TaskEvent]:
        """Convert an event. The submission of the reader's own task is left out."""
        return [await self._convert(event, fields) for fields in self._events.of(event)]

    async def _convert(self, event: RunEvent, fields: dict[str, Any]) -> TaskEvent:
        kind = _KINDS.get(fields["type"])
        if kind is None:
            return event
        if is_last(fields):
            task = await self._get_task(event.task_id)
            fields["metadata"]["task"] = task.to_dict() | {"state": fields["new_state"]}
        found: TaskEvent = kind.from_dict(fields)
        return found
