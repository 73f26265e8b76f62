"""A task's log as A2A shows it: the view of a whole task, and the updates for each further event.

A2A has a single status for facts that are separate events in the log. Its status message is the last message of the agent in the
turn. A pending approval is shown as a task that waits for its caller (or for another person). A failure has its reason as the
message.
"""

from collections.abc import Callable, Iterable
from typing import Any

from plgrpc.v1 import event_pb2 as pb
from plgrpc.v1 import task_pb2
from plgrpc.v1.agent_service_pb2 import SubscribeTaskResponse

from protolink_grpc.a2a.attempts import shown_id
from protolink_grpc.a2a.values import (
    A2A_KEY,
    OWN_KEY,
    RETRY_OF,
    TASK_METADATA,
    ArtifactUpdate,
    MessageReply,
    Status,
    StatusUpdate,
    TaskView,
    TextArtifact,
    Update,
)
from protolink_grpc.models.action import ApprovalRequest
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.events import (
    ApprovalRequired,
    TaskArtifactUpdated,
    TaskErrorReported,
    TaskMessagesAdded,
    TaskPatched,
    TaskProgress,
    TaskStatusChanged,
)
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import SETTLED, TERMINAL, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.storage.port import TaskHead
from protolink_grpc.wire.payloads import check_understood, payload_from_pb
from protolink_grpc.wire.scalars import micros_from_pb

REPLY_KEY, AS_MESSAGE = "reply", "message"
"""A handler that sets `task.metadata["a2a"]["reply"] = "message"` replies with its message only, without a task."""

APPROVAL_TYPE = "approval"
"""Type of the data part that requests an approval."""

_AGENT_ROLES = frozenset({"agent", "assistant"})

MayAnswer = Callable[[ApprovalRequest], bool]
"""Returns whether the caller may answer an approval."""


def view_of(fold: TaskFold, may_answer: MayAnswer, *, history: int | None, artifacts: bool = True) -> TaskView:
    """Return the view of the current task.

    Args:
        history: Maximum number of messages to show, the newest ones; None means all, 0 omits the field.
    """
    status, shown = _status_of(fold, may_answer)
    metadata, task_id = visible(fold.metadata), shown_id(fold)
    if task_id != fold.task_id:
        metadata = {**metadata, OWN_KEY: {**_object(metadata.get(OWN_KEY)), RETRY_OF: fold.task_id}}
    return TaskView(
        task_id,
        fold.session_id,
        status,
        _history(fold.messages, len(fold.messages) - shown, history),
        list(fold.artifacts) if artifacts and fold.artifacts else None,
        metadata,
        fold.sequence,
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _history(messages: list[Message], end: int, most: int | None) -> list[Message] | None:
    if most == 0 or end <= 0:
        return None
    first = 0 if most is None else max(0, end - most)
    return messages[first:end]


def visible(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return a task's metadata without the key that only A2A uses."""
    if A2A_KEY not in metadata:
        return metadata
    return {key: value for key, value in metadata.items() if key != A2A_KEY}


def head_view(head: TaskHead) -> TaskView:
    """Return the view of a task in a list, from its head only, without reading its log."""
    message = None
    if head.reason:
        message = _agent_message(f"{head.task_id}/{head.sequence}", head.reason, head.update_micros)
    return TaskView(
        head.task_id, head.session_id, Status(head.state, head.update_micros, message), sequence=head.sequence
    )


def reply_of(fold: TaskFold) -> MessageReply | None:
    """Return the direct message reply of a turn, if its handler requested one; None if the task is the response."""
    options = fold.metadata.get(A2A_KEY)
    if fold.state is not TaskState.COMPLETED or not isinstance(options, dict) or options.get(REPLY_KEY) != AS_MESSAGE:
        return None
    for message in reversed(fold.messages[fold.turn_message :]):
        if message.role in _AGENT_ROLES:
            return MessageReply(message, fold.session_id, fold.sequence)
    return None


def _status_of(fold: TaskFold, may_answer: MayAnswer) -> tuple[Status, int]:
    """Return the status, and the number of last messages that move from the history into the status."""
    task_id = shown_id(fold)
    if fold.pending_approvals and not fold.is_settled:
        request = next(iter(fold.pending_approvals.values()))
        sequence, micros = fold.asked[request.request_id]
        return _approval_status(task_id, request, sequence, micros, may_answer), 0
    micros = fold.update_micros
    if fold.state in SETTLED:
        last = fold.messages[-1] if len(fold.messages) > fold.turn_message else None
        if last is not None and last.role in _AGENT_ROLES:
            return Status(fold.state, micros, _add_reason(last, fold.state, fold.reason)), 1
        if fold.reason:
            return Status(fold.state, micros, _agent_message(f"{task_id}/{fold.sequence}", fold.reason, micros)), 0
    return Status(fold.state, micros), 0


def _add_reason(message: Message, state: TaskState, reason: str) -> Message:
    """Add the reason as text to the message of a failure that has no text part: it may hold a machine-readable error only."""
    if state is not TaskState.FAILED or not reason or any(part.type == "text" for part in message.parts):
        return message
    return Message(
        message.id, message.role, [Part("text", reason), *message.parts], message.timestamp, message.metadata
    )


def _agent_message(message_id: str, text: str, micros: int) -> Message:
    return Message(message_id, "agent", [Part("text", text)], iso_from_micros(micros))


def _approval_status(
    task_id: str, request: ApprovalRequest, sequence: int, micros: int, may_answer: MayAnswer
) -> Status:
    """Return the status of a pending approval: INPUT_REQUIRED if the caller may answer it, otherwise AUTH_REQUIRED."""
    action = request.action
    what = action.description or f"{action.kind} {action.name}"
    own, why = may_answer(request), request.policy_decision.reason
    how = f"answer {' or '.join(ANSWERS)}" if own else "another person must approve it"
    content = {
        "request_id": request.request_id,
        "action_id": action.action_id,
        "kind": action.kind,
        "name": action.name,
        "reason": why,
        "answerable": own,
    }
    message = _agent_message(f"{task_id}/{sequence}", f"Approval needed: {what}. {why} ({how})", micros)
    message.parts.append(Part(APPROVAL_TYPE, content))
    return Status(TaskState.INPUT_REQUIRED if own else TaskState.AUTH_REQUIRED, micros, message)


ANSWERS = ("approve", "deny")
"""Texts with which a person can answer an approval; programs send a data part of type `approval_decision`."""


class Updates:
    """Converts the events of one task to updates, in order. Each stream has its own instance.

    The sequence of an update is the position after which a reader can resume without losing updates. So if an event has several
    updates, only the last one has the event's sequence; and while a message is held back, the updates keep an earlier sequence.

    Args:
        after: Sequence of the last event already shown.
    """

    __slots__ = (
        "_context_id",
        "_held",
        "_may_answer",
        "_patch",
        "_seen",
        "_task_id",
        "approval_requests",
        "waits_for_approval",
    )

    def __init__(self, task_id: str, context_id: str, may_answer: MayAnswer, after: int = 0) -> None:
        self._task_id = task_id
        self._seen = after
        self._context_id = context_id
        self._may_answer = may_answer
        self._held: tuple[Message, int, int] | None = None
        # Changes of the task's metadata that no update contains yet.
        self._patch: dict[str, Any] = {}
        self.approval_requests: dict[str, ApprovalRequest] = {}
        """Approval requests of the next events, by id. The events themselves contain only a reference to them."""
        self.waits_for_approval = False
        """Whether the last status shown is that the task waits for an approval."""

    @property
    def holds_message(self) -> bool:
        """Whether a message is held back until the next event. If the log has no such event yet, call `release_message`."""
        return self._held is not None

    def read(self, frames: Iterable[bytes]) -> list[Update]:
        """Return the updates of these events.

        Many events have none. The agent's last message is held back until the next event, because it may belong to its status.
        """
        found: list[Update] = []
        # Concatenated frames are a valid message; to parse them together takes half the time.
        for event in SubscribeTaskResponse.FromString(b"".join(frames)).events:
            kind = event.WhichOneof("payload")
            if kind is None:
                check_understood(event)
            read = _READERS.get(kind)
            if read is None:
                if self._held is None:
                    self._seen = event.sequence
                continue
            first = len(found)
            read(self, event, found)
            if self._patch:
                self._add_patch(found[first:])
            if self._held is not None:
                for update in found[first:]:
                    update.sequence = self._seen
                continue
            for update in found[first:-1]:
                update.sequence = self._seen
            self._seen = event.sequence
        return found

    def release_message(self) -> list[Update]:
        """Return the update of the message that is held back, for use when no event follows it yet."""
        found: list[Update] = []
        held = self._held
        if held is not None:
            self._seen = held[2]
            self._release_held(found)
            self._add_patch(found)
        return found

    def _read_artifact(self, event: pb.RunEvent, found: list[Update]) -> None:
        self._release_held(found)
        made = event.task_artifact
        artifact: Artifact | TextArtifact | None = _text_artifact(made.artifact)
        if artifact is None:
            payload = payload_from_pb(event)
            if not isinstance(payload, TaskArtifactUpdated):
                return
            artifact = payload.artifact
        found.append(
            ArtifactUpdate(
                self._task_id,
                self._context_id,
                artifact,
                made.append,
                made.last_chunk,
                sequence=event.sequence,
            )
        )

    def _read_messages(self, event: pb.RunEvent, found: list[Update]) -> None:
        payload = payload_from_pb(event)
        if not isinstance(payload, TaskMessagesAdded):
            return
        for message in payload.messages:
            if message.role in _AGENT_ROLES:
                self._release_held(found)
                # This message may belong to the status in the next event.
                self._held = message, _micros(event), event.sequence

    def _release_held(self, found: list[Update]) -> None:
        held, self._held = self._held, None
        if held is not None:
            message, micros, sequence = held
            found.append(self._working_update(message, micros, sequence))

    def _working_update(
        self, message: Message | None, micros: int, sequence: int, metadata: dict[str, Any] | None = None
    ) -> StatusUpdate:
        status = Status(TaskState.WORKING, micros, message)
        return StatusUpdate(self._task_id, self._context_id, status, metadata or {}, sequence=sequence)

    def _read_status(self, event: pb.RunEvent, found: list[Update]) -> None:
        payload = payload_from_pb(event)
        if not isinstance(payload, TaskStatusChanged):
            return
        state, message, micros = payload.new_state, None, _micros(event)
        self.waits_for_approval = False
        if state in SETTLED and self._held is not None:
            message, self._held = _add_reason(self._held[0], state, payload.reason), None
        elif state in SETTLED and payload.reason:
            message = _agent_message(f"{self._task_id}/{event.sequence}", payload.reason, micros)
        self._release_held(found)
        status = Status(state, micros, message)
        found.append(
            StatusUpdate(self._task_id, self._context_id, status, final=state in TERMINAL, sequence=event.sequence)
        )

    def _read_patch(self, event: pb.RunEvent, found: list[Update]) -> None:
        """Store a change of the task's metadata for the next update; A2A has no update of its own for it."""
        payload = payload_from_pb(event)
        if isinstance(payload, TaskPatched):
            self._patch |= visible(payload.metadata)

    def _add_patch(self, updates: list[Update]) -> None:
        update = updates[-1] if updates else None
        if self._patch and isinstance(update, StatusUpdate | ArtifactUpdate):
            own = update.metadata.get(OWN_KEY, {})
            update.metadata = {**update.metadata, OWN_KEY: {**own, TASK_METADATA: self._patch}}
            self._patch = {}

    def _read_progress(self, event: pb.RunEvent, found: list[Update]) -> None:
        payload = payload_from_pb(event)
        if not isinstance(payload, TaskProgress):
            return
        self._release_held(found)
        micros = _micros(event)
        message = (
            _agent_message(f"{self._task_id}/{event.sequence}", payload.message, micros) if payload.message else None
        )
        metadata = {} if payload.progress is None else {OWN_KEY: {"progress": payload.progress}}
        found.append(self._working_update(message, micros, event.sequence, metadata))

    def _read_error(self, event: pb.RunEvent, found: list[Update]) -> None:
        payload = payload_from_pb(event)
        if not isinstance(payload, TaskErrorReported):
            return
        self._release_held(found)
        micros = _micros(event)
        error = Part.error(payload.error_code, payload.error_message, payload.recoverable)
        message = Message(f"{self._task_id}/{event.sequence}", "agent", [error], iso_from_micros(micros))
        found.append(self._working_update(message, micros, event.sequence))

    def _read_approval_request(self, event: pb.RunEvent, found: list[Update]) -> None:
        payload = payload_from_pb(event)
        if not isinstance(payload, ApprovalRequired):
            return
        self._release_held(found)
        request = self.approval_requests.pop(payload.request.request_id, payload.request)
        status = _approval_status(self._task_id, request, event.sequence, _micros(event), self._may_answer)
        found.append(StatusUpdate(self._task_id, self._context_id, status, sequence=event.sequence))
        self.waits_for_approval = True

    def _read_approval_answer(self, event: pb.RunEvent, found: list[Update]) -> None:
        self._release_held(found)
        found.append(self._working_update(None, _micros(event), event.sequence))
        self.waits_for_approval = False


def _text_artifact(artifact: task_pb2.Artifact) -> TextArtifact | None:
    """Return an artifact that has only plain text parts, without building the models (faster); None for any other artifact."""
    if (
        artifact.metadata_json
        or artifact.uri
        or artifact.media_type
        or artifact.action_id
        or artifact.kind not in ("", "result")
        or not artifact.parts
    ):
        return None
    texts = []
    for part in artifact.parts:
        if part.WhichOneof("content") != "text" or part.metadata_json or part.media_type:
            return None
        texts.append(part.text)
    return TextArtifact(artifact.id, texts, artifact.name or None)


def _micros(event: pb.RunEvent) -> int:
    return micros_from_pb(event.create_time, "create_time")


_READERS: dict[str | None, Callable[[Updates, pb.RunEvent, list[Update]], None]] = {
    "task_artifact": Updates._read_artifact,
    "task_messages": Updates._read_messages,
    "task_patched": Updates._read_patch,
    "task_status": Updates._read_status,
    "task_progress": Updates._read_progress,
    "task_error": Updates._read_error,
    "approval_required": Updates._read_approval_request,
    "approval_decided": Updates._read_approval_answer,
}
"""Readers by kind of event. Events of other kinds have no A2A update."""
