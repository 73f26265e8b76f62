"""The fold: the state of a task, computed from its events. No I/O lives here.

A fold owns the values of the applied events and never changes them. A Task made from a fold gets copies, each made on first access,
so the cost of a turn does not grow with the history of the task.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, SupportsIndex, TypeVar, cast

from protolink_grpc.models.action import ApprovalDecision, ApprovalRequest, BudgetUsage
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import iso_from_micros, micros_from_iso
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import (
    ActionEnded,
    ActionRequested,
    ActionStarted,
    ApprovalDecided,
    ApprovalRequired,
    CancelRequested,
    ContextPrepared,
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
    Payload,
    TaskArtifactUpdated,
    TaskDescribed,
    TaskInputReplaced,
    TaskLinked,
    TaskMessagesAdded,
    TaskPatched,
    TaskPaused,
    TaskPauseRequested,
    TaskProgress,
    TaskQueued,
    TaskResumed,
    TaskRetried,
    TaskStartRequested,
    TaskStatusChanged,
    TaskSubmitted,
    TaskUnlinked,
)
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, StateChange, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import FileContent, Part, RouteDecision, ToolCall, ToolOutput
from protolink_grpc.models.payload import copy_value
from protolink_grpc.models.references import RESOLVERS, References
from protolink_grpc.models.task import Task, postpone_context, stored_metadata
from protolink_grpc.models.task_control import LinkKind, TaskDescription, TaskLink

T = TypeVar("T")

_LASTING = (ActionRequested, ActionEnded, LlmCallCompleted, ApprovalRequired)
"""Payloads that record completed work, which a recovered run does not repeat."""

_BEGINNINGS = (TaskPaused, ActionStarted, ContextPrepared, LlmCallStarted, CancelRequested, TaskStatusChanged)
"""Payloads that a recovered run writes again at the same point, or that are not written by the run itself."""


FoldedChange = tuple[TaskState, TaskState, int, int, str, TaskStatusChanged | None]
"""A change of the state: previous state, new state, microseconds, sequence, run, and its fact; None for the one of a retry."""


@dataclass(slots=True)
class TaskControls:
    """What the owner of a task has said about it; most tasks have none.

    Attributes:
        description: None if none was set.
        links: By kind and target, oldest first.
        is_draft: The task was created and not started.
        is_external: The work is done outside of the agent.
        pause: The request for a pause that has not ended; None if there is none.
        is_paused: The run waits because of it.
        resumed_at: Sequence of the event that ended the latest pause of a run, or of the last one of the owner's events that
            follow it directly; 0 if there was none.
        retries: Number of retries.
        retried_at: Sequences of the retries, oldest first.
    """

    description: TaskDescription | None = None
    links: dict[tuple[LinkKind, str], TaskLink] = field(default_factory=dict)
    is_draft: bool = False
    is_external: bool = False
    pause: TaskPauseRequested | None = None
    is_paused: bool = False
    resumed_at: int = 0
    retries: int = 0
    retried_at: list[int] = field(default_factory=list)


class TaskFold:
    """The state of one task after `sequence` events.

    Attributes:
        messages: Oldest first; read only.
        encoded: Encoded form of each message, None if not available; used by `wire`.
        metadata, flow_state: Values of the caller and the agent, without `task_metadata.DERIVED_KEYS`; read only.
        flow_from_caller: Keys of `flow_state` that a caller has set; a run of the agent has set the others.
        history: Each change of the state, oldest first.
        failure, cancel_reason: Why the task ended without success; `reason` is the sentence of either.
        usage: Usage of the task at the end of its latest run, delegated work included; None means no usage.
        pending_approvals: Unanswered approval requests by request id, oldest first; empty after the task has ended.
        asked: (sequence, microseconds) of each pending approval, by request id.
        decided: Answers by request id.
        turn_message, turn_artifact, turn_change: Index of the latest turn's first message, artifact and state change.
        turn_sequence: Sequence of the last event before the latest turn.
        input_end: Number of messages and artifacts that the latest turn began with; a retry returns to them.
        input_flow_state: `flow_state` and `flow_from_caller` as the latest turn began with them; a retry returns to them, too.
        run_id: The latest run; `run_ids` are all runs, oldest first.
        run_sequence: Sequence of the event with which the latest run began.
        controls: What the owner has said about the task; None if nothing.
        progress: The latest report; None before the first.
        failed_call: The failed model call that the run waits to repeat; None if it does not wait.
        queued: The wait of the next run for a slot; None if it does not wait.
        context: The context as the caller sent it; see `run_context`.
        suspended: The latest action event is an approval request: no action is being executed.
        references: Values of the log that later events may refer to.
        stalled: Number of recovered runs in a row, including the latest, that wrote nothing new; repeated starts are not new.
        restarted: Number of recovered runs in a row, including the latest, that completed no work (see `_LASTING`).
    """

    __slots__ = (
        "_additions",
        "_artifact_at",
        "_artifacts",
        "agent_name",
        "asked",
        "attempt",
        "cancel_reason",
        "cancel_requested",
        "context",
        "controls",
        "create_micros",
        "decided",
        "encoded",
        "failed_call",
        "failure",
        "flow_from_caller",
        "flow_state",
        "history",
        "input_end",
        "input_flow_state",
        "message_ids",
        "messages",
        "metadata",
        "pending_approvals",
        "principal",
        "progress",
        "queued",
        "references",
        "restarted",
        "run_id",
        "run_ids",
        "run_sequence",
        "sequence",
        "session_id",
        "stalled",
        "state",
        "suspended",
        "task_id",
        "thread_id",
        "turn_artifact",
        "turn_change",
        "turn_message",
        "turn_sequence",
        "update_micros",
        "usage",
    )

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.principal = ""
        self.agent_name = ""
        self.session_id = ""
        self.thread_id = ""
        self.run_id = ""
        self.run_ids: list[str] = []
        self.attempt = 0
        self.state = TaskState.SUBMITTED
        self.sequence = 0
        self.create_micros = 0
        self.update_micros = 0
        self.failure: Failure | None = None
        self.cancel_reason = ""
        self.cancel_requested: CancelRequested | None = None
        self.context: RunContext | None = None
        self.usage: BudgetUsage | None = None
        self.pending_approvals: dict[str, ApprovalRequest] = {}
        self.asked: dict[str, tuple[int, int]] = {}
        self.decided: dict[str, ApprovalDecision] = {}
        self.messages: list[Message] = []
        self.encoded: list[bytes | None] = []
        self.message_ids: set[str] = set()
        self._artifacts: list[Artifact] = []
        # Parts to append to artifacts: joined when an artifact is read, so that many small appends take time by their number.
        self._additions: dict[str, list[Artifact]] = {}
        self._artifact_at: dict[str, int] = {}
        self.metadata: dict[str, Any] = {}
        self.flow_state: dict[str, Any] = {}
        self.flow_from_caller: frozenset[str] = frozenset()
        self.history: list[FoldedChange] = []
        self.turn_message = 0
        self.turn_artifact = 0
        self.turn_change = 0
        self.turn_sequence = 0
        self.input_end = (0, 0)
        self.input_flow_state: tuple[dict[str, Any], frozenset[str]] = ({}, frozenset())
        self.run_sequence = 0
        self.controls: TaskControls | None = None
        self.progress: TaskProgress | None = None
        self.failed_call: LlmCallFailed | None = None
        self.queued: TaskQueued | None = None
        self.references = References()
        self.suspended = False
        self.stalled = 0
        self.restarted = 0

    @property
    def reason(self) -> str:
        """Why the task ended without success, one sentence; empty in all other cases."""
        return self.failure.message if self.failure is not None else self.cancel_reason

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def is_settled(self) -> bool:
        """Whether the task is terminal or interrupted: it does not change without a further request."""
        return self.state in TERMINAL or self.state in INTERRUPTED

    @property
    def artifacts(self) -> list[Artifact]:
        """Oldest first; read only."""
        if self._additions:
            for artifact_id in [*self._additions]:
                self._join(artifact_id)
        return self._artifacts

    @property
    def artifact_count(self) -> int:
        return len(self._artifacts)

    def has_artifact(self, artifact_id: str) -> bool:
        return artifact_id in self._artifact_at

    def artifact(self, artifact_id: str) -> Artifact | None:
        """Return the current artifact with this id, or None; read only."""
        at = self._artifact_at.get(artifact_id)
        if at is None:
            return None
        if artifact_id in self._additions:
            self._join(artifact_id)
        return self._artifacts[at]

    def _join(self, artifact_id: str) -> None:
        added, at = self._additions.pop(artifact_id), self._artifact_at[artifact_id]
        known = self._artifacts[at]
        parts = [*known.parts, *(part for each in added for part in each.parts)]
        self._artifacts[at] = replace(known, parts=parts, timestamp=added[-1].timestamp)

    def apply(
        self,
        payload: Payload | dict[str, Any] | None,
        sequence: int,
        micros: int,
        run_id: str,
        action_id: str = "",
    ) -> None:
        """Apply the next event. Kinds that do not affect the task's state update only the sequence, the time and the run."""
        self.sequence = sequence
        self.update_micros = micros
        if run_id and run_id != self.run_id:
            self.run_id = run_id
            self.run_ids.append(run_id)
        # Two look-ups by class: most events of a long log, such as progress reports, are in neither table.
        kind = payload.__class__
        resolve = RESOLVERS.get(kind)
        if resolve is not None:
            payload = resolve(self.references, payload, action_id)
        if self.restarted:
            self._note_progress(payload)
        read = _READERS.get(kind)
        if read is not None:
            read(self, payload)

    def _open(self, payload: TaskSubmitted) -> None:
        task = payload.task
        self.principal = payload.principal
        self.create_micros = micros_from_iso(task.created_at)
        self.metadata = stored_metadata(task)
        self.flow_state = task.flow_state
        self.flow_from_caller = frozenset(task.flow_state)
        self.context = payload.context
        self.session_id = payload.session_id or self.task_id
        self.thread_id = payload.thread_id
        if payload.draft:
            self.set_controls().is_draft = True
        self._add_messages(task.messages, payload.encoded)
        for artifact in task.artifacts:
            self._put_artifact(artifact)

    def _continue(self, payload: TaskMessagesAdded) -> None:
        if self.state in INTERRUPTED:
            self.turn_message, self.turn_artifact = len(self.messages), len(self._artifacts)
            self.turn_change = len(self.history)
            self.turn_sequence = self.sequence - 1
        self._add_messages(payload.messages, payload.encoded)

    def _patch(self, payload: TaskPatched) -> None:
        self.metadata = _patched(self.metadata, payload.metadata)
        if payload.flow_state:
            self._patch_flow_state(payload.flow_state)

    def _patch_flow_state(self, patch: dict[str, Any]) -> None:
        self.flow_state = _patched(self.flow_state, patch)
        # A run patches the flow state only while the task is working; a caller's patch is written before the turn begins.
        by_run = self.state is TaskState.WORKING
        self.flow_from_caller = self.flow_from_caller - patch.keys() if by_run else self.flow_from_caller | patch.keys()

    def _change_state(self, payload: TaskStatusChanged) -> None:
        before, self.state = self.state, payload.new_state
        self.history.append(
            (payload.previous_state, payload.new_state, self.update_micros, self.sequence, self.run_id, payload)
        )
        self.failure, self.cancel_reason = payload.failure, payload.cancel_reason
        # The turn's first run begins, or the turn ends without one. The owner who ends a task begins no turn.
        by_owner = payload.cause == "external" and before in INTERRUPTED
        begins = payload.attempt or self.turn_sequence >= self.run_sequence
        if begins and before is not TaskState.WORKING and not by_owner:
            self.input_end = (len(self.messages), len(self._artifacts))
            self.input_flow_state = self.flow_state, self.flow_from_caller
        if payload.attempt:
            # Not counted: a task that is paused or waits for an approval executes nothing that could crash its process, and a task
            # that was only submitted had no run before.
            is_resting = bool(self.asked) or self.is_paused
            if payload.cause == "recovered" and before is TaskState.WORKING and not is_resting:
                self.stalled, self.restarted = self.stalled + 1, self.restarted + 1
            else:
                self.stalled = self.restarted = 0
            self.attempt = payload.attempt
            self.run_sequence, self.failed_call = self.sequence, None
            self.cancel_requested = self.queued = None
        if payload.context is not None:
            self.context = payload.context
        if payload.usage is not None:
            self.usage = payload.usage
        if self.state is TaskState.CANCELED:
            self.context = self._canceled_context()
        if self.state in TERMINAL:
            self.queued = None
            if self.asked:
                self.pending_approvals.clear()
                self.asked.clear()
            if self.controls is not None:
                self.controls.pause, self.controls.is_paused = None, False

    def _request_cancel(self, payload: CancelRequested) -> None:
        self.cancel_requested = payload

    def _resume(self, payload: ActionStarted | ActionEnded) -> None:
        self.suspended = False

    def _ask(self, payload: ApprovalRequired) -> None:
        request = payload.request
        self.suspended = True
        self.pending_approvals[request.request_id] = request
        self.asked[request.request_id] = (self.sequence, self.update_micros)

    def _decide(self, payload: ApprovalDecided) -> None:
        decision = payload.decision
        self.pending_approvals.pop(decision.request_id, None)
        self.asked.pop(decision.request_id, None)
        # The first answer counts; a log has no second one.
        self.decided.setdefault(decision.request_id, decision)

    # -- control by the owner --------------------------------------------------------------------------------------------

    def set_controls(self) -> TaskControls:
        """Return `controls`, which are created if necessary."""
        if self.controls is None:
            self.controls = TaskControls()
        return self.controls

    @property
    def links(self) -> list[TaskLink]:
        """Oldest first."""
        return [] if self.controls is None else list(self.controls.links.values())

    def _call_model(self, payload: LlmCallStarted) -> None:
        self.failed_call = None

    def _fail_call(self, payload: LlmCallFailed) -> None:
        self.failed_call = payload if payload.will_retry else None

    def _wait_for_slot(self, payload: TaskQueued) -> None:
        self.queued = payload

    def _report(self, payload: TaskProgress) -> None:
        self.progress = payload

    def _describe(self, payload: TaskDescribed) -> None:
        self._controls_of_owner().description = payload.description

    def _replace_input(self, payload: TaskInputReplaced) -> None:
        del self.messages[self.turn_message :], self.encoded[self.turn_message :]
        self.message_ids = {message.id for message in self.messages}
        self._add_messages(payload.messages, ())

    def _request_start(self, payload: TaskStartRequested) -> None:
        controls = self.set_controls()
        controls.is_draft, controls.is_external = False, payload.external

    @property
    def is_pause_requested(self) -> bool:
        """Whether the run is to wait at its next point at which it can, or waits already."""
        return self.controls is not None and self.controls.pause is not None

    @property
    def is_paused(self) -> bool:
        """Whether the run waits because of a pause."""
        return self.controls is not None and self.controls.is_paused

    @property
    def retries(self) -> int:
        """How often the task was retried."""
        return 0 if self.controls is None else self.controls.retries

    @property
    def rests_in_pause(self) -> bool:
        """Whether the run is paused, or was paused until it was resumed and has written nothing since."""
        controls = self.controls
        return controls is not None and (controls.is_paused or controls.resumed_at == self.sequence)

    def _controls_of_owner(self) -> TaskControls:
        """Return the controls for an event of the owner, which does not change `rests_in_pause`."""
        controls = self.set_controls()
        if controls.resumed_at and controls.resumed_at == self.sequence - 1:
            controls.resumed_at = self.sequence
        return controls

    def _request_pause(self, payload: TaskPauseRequested) -> None:
        self._controls_of_owner().pause = payload

    def _pause(self, payload: TaskPaused) -> None:
        self.set_controls().is_paused = True

    def _end_pause(self, payload: TaskResumed) -> None:
        controls = self._controls_of_owner()
        controls.resumed_at = self.sequence if self.rests_in_pause else 0
        controls.pause, controls.is_paused = None, False

    def _retry(self, payload: TaskRetried) -> None:
        controls = self.set_controls()
        controls.retries, controls.is_draft = payload.retry, False
        controls.retried_at.append(self.sequence)
        messages, artifacts = self.input_end
        for message in self.messages[messages:]:
            self.message_ids.discard(message.id)
        del self.messages[messages:], self.encoded[messages:]
        for artifact in self.artifacts[artifacts:]:
            del self._artifact_at[artifact.id]
        del self._artifacts[artifacts:]
        self.flow_state, self.flow_from_caller = self.input_flow_state
        if self.context is not None and self.context.canceled:
            self.context = replace(self.context, canceled=False, cancel_reason=None)
        self.turn_change, self.turn_sequence = len(self.history), self.sequence - 1
        self.history.append((self.state, TaskState.SUBMITTED, self.update_micros, self.sequence, self.run_id, None))
        self.state, self.failure, self.cancel_reason = TaskState.SUBMITTED, None, ""
        self.cancel_requested, self.progress = None, None
        self.stalled = self.restarted = 0

    def _link(self, payload: TaskLinked) -> None:
        link = payload.link
        self._controls_of_owner().links[link.kind, link.target] = link

    def _unlink(self, payload: TaskUnlinked) -> None:
        link = payload.link
        self._controls_of_owner().links.pop((link.kind, link.target), None)

    def _note_progress(self, payload: Payload | dict[str, Any] | None) -> None:
        if isinstance(payload, _LASTING):
            self.stalled = self.restarted = 0
        elif not isinstance(payload, _BEGINNINGS):
            self.stalled = 0

    def _canceled_context(self) -> RunContext:
        """Return the context, canceled with the task's reason; a task without a context gets a new one."""
        known = self.context
        if known is None:
            begun = iso_from_micros(self.create_micros)
            known = RunContext(self.run_id or self.task_id, self.session_id, created_at=begun)
        return known.cancel(self.reason)

    def _add_messages(self, messages: Sequence[Message], encoded: tuple[bytes, ...]) -> None:
        self.messages.extend(messages)
        self.message_ids.update([message.id for message in messages])
        self.encoded.extend(encoded if len(encoded) == len(messages) else [None] * len(messages))

    def _put_artifact(self, artifact: Artifact) -> None:
        at = self._artifact_at.get(artifact.id)
        if at is None:
            self._artifact_at[artifact.id] = len(self._artifacts)
            self._artifacts.append(artifact)
        else:
            self._additions.pop(artifact.id, None)
            self._artifacts[at] = artifact

    def _update_artifact(self, payload: TaskArtifactUpdated) -> None:
        artifact = payload.artifact
        if payload.append and artifact.id in self._artifact_at:
            self._additions.setdefault(artifact.id, []).append(artifact)
        else:
            self._put_artifact(artifact)

    @property
    def run_context(self) -> RunContext | None:
        """The context of the latest run, with its run id, the task's session, and the agent at the end of the chain.

        Before the first run, the context as the caller sent it; None if the caller sent none.
        """
        return _run_context(self.context, self.run_id, self.session_id, self.agent_name, self.create_micros)

    def _first_change(self, latest: int | None, turn: bool) -> int:
        if turn:
            return self.turn_change
        return 0 if latest is None else max(0, len(self.history) - latest)

    def _own_messages(self, first: int) -> list[Message]:
        """Return copies of the messages from that index on."""
        messages = self.messages[first:] if first else self.messages
        # The message of a new task is read by nearly every handler: it needs no lazy list.
        return CopyOnRead(messages, copy_message) if len(messages) > 1 else [copy_message(each) for each in messages]

    def _own_artifacts(self, first: int) -> list[Artifact]:
        artifacts = self.artifacts[first:] if first else self.artifacts
        return CopyOnRead(artifacts, copy_artifact) if artifacts else []

    def to_task(self, *, changes: int | None = None, turn: bool = False) -> Task:
        """Return a Task that shares nothing with the fold.

        Args:
            changes: Number of latest state changes in its `state_history`; None means all.
            turn: Include only the messages, artifacts and state changes of the latest turn.
        """
        state_history = [
            StateChange(before, after, iso_from_micros(micros))
            for before, after, micros, *_ in self.history[self._first_change(changes, turn) :]
        ]
        task = Task(  # by position, which takes a third of the time of keywords
            self.task_id,
            self.state,
            self._own_messages(self.turn_message if turn else 0),
            self._own_artifacts(self.turn_artifact if turn else 0),
            plain(self.metadata) if self.metadata else {},
            plain(self.flow_state) if self.flow_state else {},
            iso_from_micros(self.create_micros),
            None if self.failure is None else self.failure.copy(),
            None,
            self.session_id,
            state_history,
            self.cancel_reason,
            None if self.usage is None else replace(self.usage, metadata=plain(self.usage.metadata)),
        )
        if self.run_id or self.context is not None:
            known = (self.context, self.run_id, self.session_id, self.agent_name, self.create_micros)
            postpone_context(task, lambda: _own_context(*known))
        return task


def _run_context(
    known: RunContext | None, run_id: str, session_id: str, name: str, create_micros: int
) -> RunContext | None:
    """Return the context of a task's latest run; see `TaskFold.run_context`."""
    if not run_id:
        return known
    chain = [] if known is None else known.agent_chain
    if name and (not chain or chain[-1] != name):
        chain = [*chain, name]
    if known is None:
        return RunContext(run_id, session_id, agent_chain=chain, created_at=iso_from_micros(create_micros))
    return replace(known, run_id=run_id, session_id=session_id, agent_chain=chain)


def _own_context(*known: Any) -> RunContext | None:
    """Return a copy of what `_run_context` returns."""
    context = _run_context(*known)
    return None if context is None else context.copy()


_READERS: dict[Any, Callable[[TaskFold, Any], None]] = {
    TaskSubmitted: TaskFold._open,
    TaskStatusChanged: TaskFold._change_state,
    TaskMessagesAdded: TaskFold._continue,
    TaskArtifactUpdated: TaskFold._update_artifact,
    TaskPatched: TaskFold._patch,
    CancelRequested: TaskFold._request_cancel,
    ActionStarted: TaskFold._resume,
    ActionEnded: TaskFold._resume,
    ApprovalRequired: TaskFold._ask,
    ApprovalDecided: TaskFold._decide,
    TaskProgress: TaskFold._report,
    TaskQueued: TaskFold._wait_for_slot,
    LlmCallStarted: TaskFold._call_model,
    LlmCallFailed: TaskFold._fail_call,
    TaskDescribed: TaskFold._describe,
    TaskInputReplaced: TaskFold._replace_input,
    TaskStartRequested: TaskFold._request_start,
    TaskPauseRequested: TaskFold._request_pause,
    TaskPaused: TaskFold._pause,
    TaskResumed: TaskFold._end_pause,
    TaskRetried: TaskFold._retry,
    TaskLinked: TaskFold._link,
    TaskUnlinked: TaskFold._unlink,
}
"""The method that applies each kind of payload to the fold."""

AFFECTING = (frozenset(_READERS) - {TaskProgress}) | frozenset(RESOLVERS)
"""Kinds of payloads of which each one changes a fold. All others only move its position, unless the run is a restarted one, and of
progress reports the last one counts."""


def _patched(known: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    if not patch:
        return known
    return {key: value for key, value in {**known, **patch}.items() if value is not None or key not in patch}


def copy_part(part: Part) -> Part:
    content = part.content
    if type(content) is str and part.metadata is None:
        return Part(part.type, content, None, part.media_type)
    if isinstance(content, ToolCall):
        content = ToolCall(content.tool_name, copy_value(content.args), content.call_id)
    elif isinstance(content, ToolOutput):
        content = ToolOutput(content.call_id, copy_value(content.result), plain(content.error))
    elif isinstance(content, RouteDecision):
        content = replace(content, metadata=plain(content.metadata))
    elif not isinstance(content, _UNCHANGING):
        content = copy_value(content)
    return Part(part.type, content, None if part.metadata is None else plain(part.metadata), part.media_type)


_UNCHANGING = (str, int, float, bytes, FileContent, type(None))
"""Immutable contents, which need no copy. `copied` converts all other contents to the form that a reader of the log gets."""


def copy_message(message: Message) -> Message:
    """Return a deep copy."""
    metadata = None if message.metadata is None else plain(message.metadata)
    return Message(message.id, message.role, [copy_part(part) for part in message.parts], message.timestamp, metadata)


def copy_artifact(artifact: Artifact) -> Artifact:
    """Return a deep copy."""
    return Artifact(  # not `replace`, which takes three times as long
        artifact.id,
        [copy_part(part) for part in artifact.parts],
        plain(artifact.metadata) if artifact.metadata else {},
        artifact.timestamp,
        artifact.kind,
        artifact.name,
        artifact.uri,
        artifact.media_type,
        artifact.action_id,
    )


class CopyOnRead(list[T], Generic[T]):
    """A list whose elements are copied on first access.

    Until then it refers to the original values, so its construction costs one pointer per element. Every read of an element from
    Python makes the copy. `json.dumps` and other C code that reads lists directly would see the originals; therefore `to_dict` and
    `wire`, which iterate, encode a Task.
    """

    __slots__ = ("_copy", "_limit", "_owned", "_source")

    def __init__(self, originals: Iterable[T], copy: Callable[[T], T]) -> None:
        super().__init__(originals)
        self._copy = copy
        # The list that this one extends, if it is the result of `+`; None otherwise.
        self._source: CopyOnRead[T] | None = None
        # Positions below the limit hold originals unless they are in `_owned`; later positions hold elements that were added.
        self._limit = super().__len__()
        self._owned: dict[int, T] = {}
        """The original of each position that holds a copy."""

    def extends(self, other: object) -> bool:
        """Whether this list is `other` or the result of `other + more`. Elements without a copy are then those of `other`."""
        return self is other or (self._source is not None and self._source is other)

    @property
    def first_added(self) -> int:
        """Index of the first added element; 0 after an operation that moved or replaced elements."""
        return self._limit

    def changed(self) -> list[int]:
        """Return the ascending positions of elements that were changed or added.

        After an operation that moved or replaced elements, all positions count as changed.
        """
        if not self._limit:
            return list(range(len(self)))
        read = [at for at in sorted(self._owned) if self[at] != self._owned[at]]
        return [*read, *range(self._limit, len(self))]

    def _own(self, index: int) -> T:
        value = super().__getitem__(index)
        if index < self._limit and index not in self._owned:
            original, value = value, self._copy(value)
            super().__setitem__(index, value)
            self._owned[index] = original  # last: if the copy fails, the position still holds the original
        return value

    def _own_all(self) -> None:
        for index in range(self._limit):
            self._own(index)
        self._limit = 0

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if isinstance(index, slice):
            return [self._own(at) for at in range(*index.indices(len(self)))]
        at = index.__index__()
        if at < 0:
            at += len(self)
            if at < 0:
                raise IndexError("list index out of range")
        return self._own(at)

    def __iter__(self) -> Iterator[T]:
        index = 0
        while index < len(self):
            yield self._own(index)
            index += 1

    def __reversed__(self) -> Iterator[T]:
        for index in range(len(self) - 1, -1, -1):
            if index >= len(self):  # the list has shrunk during the iteration; a plain list also stops here
                return
            yield self._own(index)

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, list):
            raise TypeError(f'can only concatenate list (not "{type(other).__name__}") to list')
        # `task.messages + [reply]` is common in agents and must not copy a long history.
        joined = CopyOnRead([*super().__iter__(), *other], self._copy)
        joined._limit, joined._owned = self._limit, dict(self._owned)
        joined._source = self if self._source is None else self._source
        return joined

    def __radd__(self, other: Any) -> Any:
        return [*other, *self] if isinstance(other, list) else NotImplemented

    def extend(self, items: Iterable[T]) -> None:
        if items is self:  # `list.extend` reads itself without iterating, and would add the originals
            self._own_all()
        super().extend(items)

    def __iadd__(self, items: Any) -> Any:
        self.extend(items)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list) and list(self) == list(cast("list[T]", other))

    __hash__ = None

    def __contains__(self, item: object) -> bool:
        return item in list(self)

    def copy(self) -> list[T]:
        return list(self)

    def index(self, *args: Any) -> int:
        return list(self).index(*args)

    def count(self, value: Any) -> int:
        return list(self).count(value)

    # Methods that move or replace elements first copy all of them, because positions no longer match the originals afterwards.

    def _moving(self, name: str, *args: Any, **kwargs: Any) -> Any:
        self._own_all()
        return getattr(super(), name)(*args, **kwargs)

    def pop(self, *args: Any) -> T:
        return cast("T", self._moving("pop", *args))

    def insert(self, *args: Any) -> None:
        self._moving("insert", *args)

    def remove(self, *args: Any) -> None:
        self._moving("remove", *args)

    def clear(self) -> None:
        self._moving("clear")

    def reverse(self) -> None:
        self._moving("reverse")

    def sort(self, **kwargs: Any) -> None:
        self._moving("sort", **kwargs)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._moving("__setitem__", index, value)

    def __delitem__(self, index: Any) -> None:
        self._moving("__delitem__", index)

    def __imul__(self, count: Any) -> Any:
        return self._moving("__imul__", count)

    def __mul__(self, count: Any) -> Any:
        return list(self) * count

    __rmul__ = __mul__

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (list, (list(self),))
