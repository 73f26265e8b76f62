"""The task of another system as events of this package: each response is converted to the events that are new.

Such a system has no sequence. A reading numbers its events itself; after a reconnect, the next snapshot is compared with the events
already shown, and only the difference becomes events. This module does no I/O.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from protolink_grpc.a2a.values import (
    A2A_KEY,
    OWN_KEY,
    TASK_METADATA,
    ArtifactUpdate,
    MessageReply,
    Status,
    StatusUpdate,
    TaskView,
    Update,
)
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import iso_from_micros, micros_from_iso, utc_now
from protolink_grpc.models.events import (
    Payload,
    RunEvent,
    TaskArtifactUpdated,
    TaskMessagesAdded,
    TaskPatched,
    TaskStatusChanged,
    TaskSubmitted,
)
from protolink_grpc.models.fold import TaskFold, copy_artifact, copy_message
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TRANSITIONS, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.summaries import summary_of
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_metadata import DERIVED_KEYS


class Reading:
    """The events of a task that one reader has received, as a log. Each event is applied to the fold before it is yielded.

    Args:
        task_id: Id of the task in this client.
        agent_name: The agent that works on the task.
        sequence: Last sequence that the reader has.

    Attributes:
        fold: The task computed from the events so far; empty before the first event.
        remote_id, context_id: The peer's ids of the task and its session; empty until they are known.
        run_id: The caller's id of the run. If empty, events have the peer's task id as their run id.
        busy: A reader uses this reading; only that reader may change it.
    """

    def __init__(self, task_id: str, agent_name: str, sequence: int = 0) -> None:
        self.fold = TaskFold(task_id)
        self.fold.agent_name = self.agent_name = agent_name
        self.run_id = ""
        self.sequence = sequence
        self.remote_id = ""
        self.context_id = ""
        self.busy = False

    def for_new_reader(self) -> "Reading":
        """Return this reading for another reader: itself, or a copy if it is in use."""
        if not self.busy:
            return self
        twin = copy.deepcopy(self)
        twin.busy = False
        return twin

    def begin(self, task: Task, link: Mapping[str, Any]) -> Iterator[RunEvent]:
        """Yield the events that begin a turn: the submitted task if it is new to this reading, otherwise its new messages.

        Args:
            link: The new value of `metadata["a2a"]`; empty leaves the metadata unchanged.
        """
        if self.fold.sequence == 0:
            context = task.given_context()
            if context is not None:
                self.run_id = context.run_id
            yield self._append(TaskSubmitted.of(_copy_task(task, self.context_id, link)))
        else:
            unseen = [copy_message(each) for each in task.messages if each.id not in self.fold.message_ids]
            if unseen:
                yield self._append(TaskMessagesAdded(tuple(unseen)))
            for payload, micros in self._artifact_changes([copy_artifact(artifact) for artifact in task.artifacts]):
                yield self._append(payload, micros)
            if link and self.fold.metadata.get(A2A_KEY) != link:
                yield self._append(TaskPatched({A2A_KEY: dict(link)}))
            if self.fold.state in INTERRUPTED:
                yield self._append(TaskStatusChanged(self.fold.state, TaskState.WORKING))

    def read(self, update: Update, link: Mapping[str, Any], *, stale: bool = False) -> Iterator[RunEvent]:
        """Yield the events of an update that were not shown before, in order.

        Args:
            stale: The update is a snapshot from before the message just sent, so an interrupted state in it is ignored.
        """
        if self.fold.sequence == 0:
            yield from self.begin(_first_messages(self.fold.task_id, update), link)
        metadata = update.metadata if isinstance(update, StatusUpdate | ArtifactUpdate) else {}
        for payload, micros in self._changes(update, stale):
            yield self._append(payload, micros, metadata)

    def _append(self, payload: Payload, micros: int = 0, metadata: Mapping[str, Any] | None = None) -> RunEvent:
        when = iso_from_micros(micros) if micros else utc_now()
        self.sequence += 1
        run_id = self.run_id or self.remote_id
        self.fold.apply(payload, self.sequence, micros_from_iso(when), run_id)
        changed = payload if isinstance(payload, TaskStatusChanged) else None
        return RunEvent(
            payload=payload,
            task_id=self.fold.task_id,
            sequence=self.sequence,
            run_id=run_id,
            session_id=self.fold.session_id,
            agent_name=self.agent_name,
            timestamp=when,
            severity="error" if changed is not None and changed.new_state is TaskState.FAILED else "info",
            summary=summary_of(payload),
            final=changed is not None and changed.new_state in TERMINAL,
            metadata=dict(metadata or {}),
        )

    def _changes(self, update: Update, stale: bool) -> Iterator[tuple[Payload, int]]:
        match update:
            case TaskView(status=status):
                yield from self._new_messages(update.history or (), 0)
                yield from self._artifact_changes(update.artifacts or ())
                yield from self._store_patch(update.metadata)
                if stale and status.state in INTERRUPTED:
                    return
                yield from self._status_changes(status, _reason_of(update.metadata))
            case StatusUpdate(status=status):
                yield from self._store_patch(_task_metadata(update.metadata))
                yield from self._status_changes(status)
            case ArtifactUpdate():
                yield from self._store_patch(_task_metadata(update.metadata))
                artifact = update.whole_artifact
                known = self.fold.artifact(artifact.id)
                if update.append and known is not None:
                    yield TaskArtifactUpdated(artifact, True, update.last_chunk), 0
                elif known is None or known.parts != artifact.parts or update.last_chunk:
                    yield TaskArtifactUpdated(artifact, False, update.last_chunk), 0
            case MessageReply(message=message):
                yield from self._new_messages((message,), 0)
                yield from self._status_changes(Status(TaskState.COMPLETED, 0))

    def _new_messages(self, messages: Sequence[Message], micros: int) -> Iterator[tuple[Payload, int]]:
        for message in messages:
            if message.id not in self.fold.message_ids:
                yield TaskMessagesAdded((message,)), micros

    def _artifact_changes(self, artifacts: Sequence[Artifact]) -> Iterator[tuple[Payload, int]]:
        for artifact in artifacts:
            known = self.fold.artifact(artifact.id)
            shown = 0 if known is None else len(known.parts)
            if known is None or known.parts != artifact.parts[:shown]:
                yield TaskArtifactUpdated(artifact), 0
            elif len(artifact.parts) > shown:
                yield TaskArtifactUpdated(replace(artifact, parts=artifact.parts[shown:]), append=True), 0

    def _store_patch(self, metadata: Mapping[str, Any]) -> Iterator[tuple[Payload, int]]:
        known = self.fold.metadata
        patch = {
            key: plain(value)
            for key, value in metadata.items()
            if key not in DERIVED_KEYS and key != A2A_KEY and known.get(key) != value
        }
        if patch:
            yield TaskPatched(patch), 0

    def _status_changes(self, status: Status, reason: str = "") -> Iterator[tuple[Payload, int]]:
        """Yield the status message, then the change of state, through `working` if the lifecycle requires it.

        Args:
            reason: Reason why a task ended without success, used if there is no message with a reason.
        """
        if status.message is not None:
            yield from self._new_messages((status.message,), status.micros)
        state, current = status.state, self.fold.state
        if state is current or current in TERMINAL or state is TaskState.UNKNOWN:
            return
        if state not in TRANSITIONS[current] and TaskState.WORKING in TRANSITIONS[current]:
            yield TaskStatusChanged(current, TaskState.WORKING), status.micros
            current = TaskState.WORKING
        if state is not current:
            yield TaskStatusChanged.because(current, state, _reason(status) or reason), status.micros


WITHOUT_SUCCESS = TERMINAL - {TaskState.COMPLETED}
"""States that have a reason."""


def _reason(status: Status) -> str:
    if status.message is None or status.state not in WITHOUT_SUCCESS:
        return ""
    return status.message.text


def _task_metadata(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the changes of the task's metadata in an update; only agents of this package send them."""
    own = metadata.get(OWN_KEY)
    found = own.get(TASK_METADATA) if isinstance(own, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _reason_of(metadata: Mapping[str, Any]) -> str:
    """Return the reason in a task's metadata why it ended without success; empty if there is none."""
    found = (metadata.get(key) for key in ("error", "cancel_reason", "reject_reason"))
    return next((text for text in found if isinstance(text, str) and text), "")


def _copy_task(task: Task, context_id: str, link: Mapping[str, Any]) -> Task:
    metadata = plain(task.metadata)
    if link:
        metadata[A2A_KEY] = dict(link)
    return Task(
        task.id,
        TaskState.SUBMITTED,
        [copy_message(message) for message in task.messages],
        [copy_artifact(artifact) for artifact in task.artifacts],
        metadata,
        plain(task.flow_state),
        task.created_at,
        context=task.context,
        session_id=task.session_id or context_id or None,
    )


def _first_messages(task_id: str, update: Update) -> Task:
    """Return the beginning of a task that another client sent: the messages before the agent's first one."""
    messages: list[Message] = []
    if isinstance(update, TaskView):
        for message in update.history or ():
            if message.role != "user":
                break
            messages.append(message)
    return Task(id=task_id, messages=messages)


def view_of_task(task: Task) -> TaskView:
    """Return a task of this package as a snapshot, with copies of its messages and artifacts."""
    messages = [copy_message(message) for message in task.messages]
    artifacts = [copy_artifact(artifact) for artifact in task.artifacts]
    return TaskView(task.id, task.session_id or "", Status(task.state, 0), messages, artifacts, task.metadata)
