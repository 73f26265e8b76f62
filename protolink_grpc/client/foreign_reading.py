"""A task of another system as events of ours: what each of its answers adds to what was shown before.

Such a system has no sequence. A reading numbers what it shows; after a cut, the next snapshot is compared with what was shown, and
only the difference is told. Pure: what is asked, and when, is decided elsewhere.
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
from protolink_grpc.models.context import CONTEXT_KEY, RunContext
from protolink_grpc.models.events import (
    Payload,
    RunEvent,
    TaskArtifactUpdated,
    TaskMessagesAdded,
    TaskPatched,
    TaskStatusChanged,
    TaskSubmitted,
)
from protolink_grpc.models.fold import DERIVED_KEYS, TaskFold, copy_artifact, copy_message
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TRANSITIONS, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.summaries import summary_of
from protolink_grpc.models.task import Task


class Reading:
    """What one reader was shown of a task, as a log: each event is applied before it is given away.

    Args:
        task_id: The task's id here, whatever it is called there.
        agent_name: Who works on it.
        sequence: Last sequence that the reader has.

    Attributes:
        fold: What the events so far add up to; empty before the first.
        remote_id, context_id: What the task and its session are called there; empty until that is known.
        run_id: What the caller calls the run; empty where it leaves that to the agent, and the events then name the task there.
        busy: Somebody is reading; he alone may change it.
    """

    def __init__(self, task_id: str, agent_name: str, sequence: int = 0) -> None:
        self.fold = TaskFold(task_id)
        self.fold.agent_name = self.agent_name = agent_name
        self.run_id = ""
        self.sequence = sequence
        self.remote_id = ""
        self.context_id = ""
        self.busy = False

    def free(self) -> "Reading":
        """This reading for one more reader: itself, or a copy where it is in use."""
        if not self.busy:
            return self
        twin = copy.deepcopy(self)
        twin.busy = False
        return twin

    def begin(self, task: Task, link: Mapping[str, Any]) -> Iterator[RunEvent]:
        """A turn begins with what was sent: a task that is new to this reading, or further messages.

        Args:
            link: What `metadata["a2a"]` says from now on; nothing where it is empty.
        """
        if self.fold.sequence == 0:
            if CONTEXT_KEY in task.metadata:
                self.run_id = RunContext.from_task(task).run_id
            yield self._append(TaskSubmitted(_copy(task, self.context_id, link)))
        else:
            unseen = [copy_message(each) for each in task.messages if each.id not in self.fold.message_ids]
            if unseen:
                yield self._append(TaskMessagesAdded(tuple(unseen)))
            for payload, micros in self._made([copy_artifact(artifact) for artifact in task.artifacts]):
                yield self._append(payload, micros)
            if link and self.fold.metadata.get(A2A_KEY) != link:
                yield self._append(TaskPatched({A2A_KEY: dict(link)}))
            if self.fold.state in INTERRUPTED:
                yield self._append(TaskStatusChanged(self.fold.state, TaskState.WORKING))

    def read(self, update: Update, link: Mapping[str, Any], *, stale: bool = False) -> Iterator[RunEvent]:
        """What the update says that was not shown yet, in order.

        Args:
            stale: A snapshot from before the turn that was just sent: that the task waits is no news.
        """
        if self.fold.sequence == 0:
            yield from self.begin(_first(self.fold.task_id, update), link)
        metadata = update.metadata if isinstance(update, StatusUpdate | ArtifactUpdate) else {}
        for payload, micros in self._news(update, stale):
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

    def _news(self, update: Update, stale: bool) -> Iterator[tuple[Payload, int]]:
        match update:
            case TaskView(status=status):
                yield from self._said(update.history or (), 0)
                yield from self._made(update.artifacts or ())
                yield from self._patched(update.metadata)
                if stale and status.state in INTERRUPTED:
                    return
                yield from self._entered(status, _told(update.metadata))
            case StatusUpdate(status=status):
                yield from self._patched(_task_metadata(update.metadata))
                yield from self._entered(status)
            case ArtifactUpdate():
                yield from self._patched(_task_metadata(update.metadata))
                artifact = update.whole_artifact
                known = self.fold.artifact(artifact.id)
                if update.append and known is not None:
                    yield TaskArtifactUpdated(artifact, True, update.last_chunk), 0
                elif known is None or known.parts != artifact.parts or update.last_chunk:
                    yield TaskArtifactUpdated(artifact, False, update.last_chunk), 0
            case MessageReply(message=message):
                yield from self._said((message,), 0)
                yield from self._entered(Status(TaskState.COMPLETED, 0))

    def _said(self, messages: Sequence[Message], micros: int) -> Iterator[tuple[Payload, int]]:
        for message in messages:
            if message.id not in self.fold.message_ids:
                yield TaskMessagesAdded((message,)), micros

    def _made(self, artifacts: Sequence[Artifact]) -> Iterator[tuple[Payload, int]]:
        for artifact in artifacts:
            known = self.fold.artifact(artifact.id)
            shown = 0 if known is None else len(known.parts)
            if known is None or known.parts != artifact.parts[:shown]:
                yield TaskArtifactUpdated(artifact), 0
            elif len(artifact.parts) > shown:
                yield TaskArtifactUpdated(replace(artifact, parts=artifact.parts[shown:]), append=True), 0

    def _patched(self, metadata: Mapping[str, Any]) -> Iterator[tuple[Payload, int]]:
        known = self.fold.metadata
        patch = {
            key: plain(value)
            for key, value in metadata.items()
            if key not in DERIVED_KEYS and key != A2A_KEY and known.get(key) != value
        }
        if patch:
            yield TaskPatched(patch), 0

    def _entered(self, status: Status, told: str = "") -> Iterator[tuple[Payload, int]]:
        """What the agent says, then the state that it is about; through `working` where the lifecycle asks for it.

        Args:
            told: Why a task ended without success, where no message says it.
        """
        if status.message is not None:
            yield from self._said((status.message,), status.micros)
        state, current = status.state, self.fold.state
        if state is current or current in TERMINAL or state is TaskState.UNKNOWN:
            return
        if state not in TRANSITIONS[current] and TaskState.WORKING in TRANSITIONS[current]:
            yield TaskStatusChanged(current, TaskState.WORKING), status.micros
            current = TaskState.WORKING
        if state is not current:
            yield TaskStatusChanged.because(current, state, _reason(status) or told), status.micros


WITHOUT_SUCCESS = TERMINAL - {TaskState.COMPLETED}
"""States of which a reason is told."""


def _reason(status: Status) -> str:
    if status.message is None or status.state not in WITHOUT_SUCCESS:
        return ""
    return status.message.text


def _task_metadata(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The changes of the task's metadata that an update brings; only agents of this package send any."""
    own = metadata.get(OWN_KEY)
    found = own.get(TASK_METADATA) if isinstance(own, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _told(metadata: Mapping[str, Any]) -> str:
    """Why a task ended without success, as the metadata of our tasks say it."""
    found = (metadata.get(key) for key in ("error", "cancel_reason", "reject_reason"))
    return next((text for text in found if isinstance(text, str) and text), "")


def _copy(task: Task, context_id: str, link: Mapping[str, Any]) -> Task:
    metadata = plain(task.metadata)
    if link:
        metadata[A2A_KEY] = dict(link)
    if context_id and not task.session_id:
        metadata["session_id"] = context_id
    return Task(
        task.id,
        TaskState.SUBMITTED,
        [copy_message(message) for message in task.messages],
        [copy_artifact(artifact) for artifact in task.artifacts],
        metadata,
        plain(task.flow_state),
        task.created_at,
    )


def _first(task_id: str, update: Update) -> Task:
    """The beginning of a task that somebody else sent: the messages up to the agent's first."""
    messages: list[Message] = []
    if isinstance(update, TaskView):
        for message in update.history or ():
            if message.role != "user":
                break
            messages.append(message)
    return Task(id=task_id, messages=messages)


def view_of_task(task: Task) -> TaskView:
    """A whole task of ours as a snapshot; it shares nothing with the task."""
    messages = [copy_message(message) for message in task.messages]
    artifacts = [copy_artifact(artifact) for artifact in task.artifacts]
    return TaskView(task.id, task.session_id or "", Status(task.state, 0), messages, artifacts, task.metadata)
