"""The facts that a handler's work becomes: what it emits, what it changes in its task, and the status that ends its run."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, get_args

from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError
from protolink_grpc.models.action import BudgetUsage, OmittedItems
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.events import (
    ActionEnded,
    CancelRequested,
    ContextPrepared,
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
    LlmStep,
    Payload,
    RunEvent,
    TaskArtifactUpdated,
    TaskErrorReported,
    TaskMessagesAdded,
    TaskPatched,
    TaskProgress,
    TaskStatusChanged,
    TaskSubmitted,
    check_type,
)
from protolink_grpc.models.failure import MAX_REASON, RUN_LOST, Failure
from protolink_grpc.models.fold import CopyOnRead, TaskFold, copy_artifact, copy_message
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import ToolOutput
from protolink_grpc.models.references import References
from protolink_grpc.models.task import Task, stored_metadata
from protolink_grpc.models.task_metadata import own_metadata
from protolink_grpc.models.tool import OfferedTools
from protolink_grpc.runtime.live_text import LiveTexts
from protolink_grpc.runtime.log import Fact, LiveTask, payload_of
from protolink_grpc.wire.events import event_from_frame

GROUP = 256
"""Maximum number of emitted facts that wait to be written: one batch of a watch, so that live readers get full batches."""

FLOW_PROMPT = "prompt"
"""Key of `Task.flow_state` that holds a flow's prompt for the current step."""


class FailedAction(NamedTuple):
    action_id: str
    failure: Failure


class Emitter:
    """The part of a run that records what its handler emits. Used from the event loop that the handler runs in.

    Facts are appended in groups. While the store writes one group, the handler fills the next.

    Attributes:
        failed_action: The last action that failed; None if none has failed.
        last_output: The last artifact or agent message that the handler has published; None before the first.
        texts: The store of live text; None after the end of the run.
    """

    # Class-level defaults: an attribute that a run never sets costs nothing.
    last_output: Message | Artifact | None = None
    failed_action: FailedAction | None = None
    texts: LiveTexts | None = None
    _recording = 0
    _offered: OfferedTools | None = None
    _omitted = OmittedItems()
    _flushing: asyncio.Task[None] | None = None
    _scheduled: asyncio.Handle | None = None
    _failure: BaseException | None = None
    # Set when an append has taken the emitted facts; created when a handler first waits for that.
    _taken: asyncio.Event | None = None

    def __init__(self, live: LiveTask, run_id: str, principal: str) -> None:
        self.live = live
        self.run_id = run_id
        self.principal = principal
        self._pending: list[Fact] = []

    @property
    def task_id(self) -> str:
        return self.live.fold.task_id

    async def progress(self, percent: float | None, message: str = "") -> None:
        """Report progress: percent from 0 to 100, or None if it is unknown.

        Raises:
            InvalidArgumentError: Another value; names `progress`.
        """
        await self.emit(TaskProgress(percent, message))

    async def artifact(self, artifact: Artifact, *, append: bool = False, last_chunk: bool = False) -> None:
        """Publish an artifact. With `append`, its parts are added to the artifact with the same id."""
        await self.emit(TaskArtifactUpdated(copy_artifact(artifact), append, last_chunk))

    def has_artifact(self, artifact_id: str) -> bool:
        """Return whether an artifact with this id is in the log. Emitted artifacts are in the log after `flush`."""
        return self.live.fold.has_artifact(artifact_id)

    def has_message(self, message_id: str) -> bool:
        """Return whether a message with this id is in the log."""
        return message_id in self.live.fold.message_ids

    async def message(self, message: Message) -> None:
        """Publish a message."""
        await self.emit(TaskMessagesAdded((copy_message(message),)))

    async def emit(self, item: Any) -> None:
        """Record a fact in the next iteration of the event loop, together with all facts emitted until then.

        Args:
            item: A payload of `models.events`, a RunEvent, a Message, an Artifact, or a dict for an event of the application.

        Raises:
            InvalidArgumentError: Another type, or a fact that only the run itself may record.
            StoreError: An earlier fact could not be recorded.
        """
        if item.__class__ is TaskProgress:  # first, because handlers emit thousands of these
            item.check()
            self._pending.append(item)
        else:
            self._add(fact_from(item))
        if self._failure is not None:
            raise self._failure
        if len(self._pending) >= GROUP:
            await self._hand_over()
        elif self._scheduled is None:
            self._scheduled = asyncio.get_running_loop().call_soon(self._flush_soon)
        if self.live.fold.controls is not None and _is_of_handler(item):
            await self.wait_between_actions()

    async def wait_between_actions(self) -> None:
        """Wait until the task is not paused, unless the calling code belongs to an action that has begun."""
        raise NotImplementedError

    def _add(self, fact: Fact) -> None:
        payload: Any = fact
        if isinstance(fact, RunEvent):
            if fact.task_id and fact.task_id != self.task_id:
                fact = _fact_of_other_task(fact)
            payload = fact.payload
            if isinstance(payload, ActionEnded) and payload.failure is not None:
                self.failed_action = FailedAction(fact.action_id, payload.failure)
        self._pending.append(fact)
        note = _NOTES.get(payload.__class__)
        if note is not None:
            note(self, payload)

    def _note_output(self, payload: TaskMessagesAdded | TaskArtifactUpdated) -> None:
        self.last_output = find_last_output((payload,)) or self.last_output

    def _note_call(self, payload: LlmCallStarted | LlmCallCompleted | LlmCallFailed) -> None:
        self.end_delta(payload.call_id)

    def _note_prompt(self, payload: ContextPrepared) -> None:
        """Leave out the offered tools and the omissions that are those of the prompt before, as they are in most steps."""
        if payload.offered == self._offered:
            payload.offered = None
        self._offered = payload.offered or self._offered
        if payload.omitted == self._omitted:
            payload.omitted = None
        self._omitted = payload.omitted or self._omitted

    async def _hand_over(self) -> None:
        """Begin to write the emitted facts. Return when the handler may emit the next group, while the store writes this one.

        Always yields to the event loop: a handler that never awaits would block the readers of its reports.
        """
        self._flush_soon()
        while len(self._pending) >= GROUP and self._failure is None:
            if self._taken is None:
                self._taken = asyncio.Event()
            self._taken.clear()
            await self._taken.wait()

    def _flush_soon(self) -> None:
        self._scheduled = None
        if self._pending and (self._flushing is None or self._flushing.done()):
            self._flushing = asyncio.ensure_future(self._flush_quietly())

    async def _flush_quietly(self) -> None:
        try:
            await self.flush()
        except Exception as error:
            self._failure = error
        finally:
            if self._taken is not None:
                self._taken.set()

    async def flush(self) -> None:
        """Wait until everything emitted so far is recorded."""
        flushing = self._flushing
        if flushing is not None and flushing is not asyncio.current_task() and not flushing.done():
            await asyncio.shield(flushing)
        if self._failure is not None:
            raise self._failure
        while self._pending:
            facts, self._pending = self._pending[: 4 * GROUP], self._pending[4 * GROUP :]
            self._recording += len(facts)
            if self._taken is not None:
                self._taken.set()
            try:
                await self.record_all(facts)
            except Exception as error:
                self._failure = error
                raise
            finally:
                self._recording -= len(facts)
        if self._recording:
            # An append of another asyncio task of this run includes these facts.
            await self.live.at_rest()
            if self._failure is not None:
                raise self._failure

    async def record_all(self, facts: Sequence[Fact]) -> None:
        """Record facts in one append. If one of them is too large, record those before it and raise MessageTooLargeError."""
        try:
            await self.live.record(facts, run_id=self.run_id)
        except MessageTooLargeError:
            for fact in facts:
                await self.live.record([fact], run_id=self.run_id)

    def has_recorded(self, event: RunEvent) -> bool:
        """Return whether the event is from this task's log, as `recorded_during` yields them."""
        return event.sequence is not None and event.task_id == self.task_id

    async def recorded_during(self, work: "asyncio.Task[Any]") -> AsyncGenerator[RunEvent, None]:
        """Yield the events that are recorded until `work`, a part of this run, has ended: each once, in the order of the log.

        Closing the generator cancels `work` and waits for its end. An exception of `work` is raised after the last event.

        Raises:
            StoreError: The log cannot be read, or a fact could not be recorded.
        """
        live, store = self.live, self.live.store
        after, growth, references = live.fold.sequence, None, References()
        try:
            while True:
                if work.done():
                    await self.flush()
                for frame in await store.read(live.fold.task_id, after, 4 * GROUP):
                    after += 1
                    yield references.whole(event_from_frame(frame))
                if after < live.fold.sequence:
                    continue
                if work.done():
                    break
                growth = asyncio.ensure_future(store.wait(live.fold.task_id, after))
                await asyncio.wait([work, growth], return_when=asyncio.FIRST_COMPLETED)
                growth.cancel()
            work.result()
        finally:
            pending = [each for each in (work, growth) if each is not None and not each.done()]
            for each in pending:
                each.cancel()
            if pending:
                await asyncio.wait(pending)

    def delta(self, call_id: str, offset: int, text: str) -> None:
        """Send the next piece of a model's text to the readers of deltas, without waiting for them. Deltas are not stored.

        Emit the call's LlmCallStarted first. Another LlmCallStarted, for a retry, discards the text so far: it begins at offset 0
        again. LlmCallCompleted and the end of the run end the text; later pieces are ignored. Lone surrogates, which UTF-8 cannot
        encode, are replaced by `?`.

        Args:
            offset: Length of the text so far, in bytes of UTF-8; 0 begins a text.

        Raises:
            InvalidArgumentError: The text so far has another length.
        """
        if self.texts is not None:
            # Emitted facts are recorded in this order: a reader at this sequence has all of them.
            after = self.live.fold.sequence + self._recording + len(self._pending)
            self.texts.write(
                self.task_id, call_id, offset, text, after=after, principal=self.principal, run_id=self.run_id
            )

    def end_delta(self, call_id: str) -> None:
        """Delete the live text of a call. Emitting its LlmCallCompleted, or another LlmCallStarted, does the same."""
        if self.texts is not None:
            self.texts.end(self.task_id, call_id)

    def unrecorded_artifacts(self) -> dict[str, Artifact] | None:
        """Return the emitted artifacts that are not recorded yet, by id, if one append can have all emitted facts and the end.

        Returns:
            None if `flush` must record them first: facts are being recorded, could not be recorded, or change the task in another
            way than by a whole artifact.
        """
        if self._recording or self._failure is not None or (self._flushing is not None and not self._flushing.done()):
            return None
        found: dict[str, Artifact] = {}
        for fact in self._pending:
            payload = payload_of(fact)
            if isinstance(payload, TaskArtifactUpdated) and not payload.append:
                found[payload.artifact.id] = payload.artifact
            elif isinstance(payload, TaskArtifactUpdated | TaskMessagesAdded | TaskPatched):
                return None
        return found

    def take_unrecorded(self) -> list[Fact]:
        """Return and remove the emitted facts that are not recorded yet. The caller must record them."""
        facts, self._pending = self._pending, []
        return facts


_NOTES: dict[Any, Callable[[Emitter, Any], None]] = {
    TaskMessagesAdded: Emitter._note_output,
    TaskArtifactUpdated: Emitter._note_output,
    ContextPrepared: Emitter._note_prompt,
    LlmCallStarted: Emitter._note_call,
    LlmCallCompleted: Emitter._note_call,
    LlmCallFailed: Emitter._note_call,
}
"""What a run does for emitted payloads, by class: one lookup, because a handler may emit many thousands."""


def _is_of_handler(item: Any) -> bool:
    """Return whether an emitted item is the handler's own, not the record of an action or of a model call that has begun."""
    if isinstance(item, RunEvent):
        return isinstance(item.payload, _OF_HANDLER) and not item.action_id
    return isinstance(item, _OF_HANDLER)


_OF_HANDLER = (TaskProgress, TaskMessagesAdded, TaskArtifactUpdated, Message, Artifact, dict)


def fact_from(item: Any) -> Fact:
    """Return an emitted item as a fact.

    Raises:
        InvalidArgumentError: The item cannot be recorded; the message lists what can.
    """
    is_event = isinstance(item, RunEvent)
    payload = item.payload if is_event else item
    if payload.__class__ in _READY:
        if is_event and payload.__class__ is ActionEnded:
            check_type(item.type, payload)
        ready: Fact = item
        return ready
    match payload:
        case TaskProgress():
            payload.check()
            made: Fact = item
            return made
        case Message():
            return TaskMessagesAdded((copy_message(payload),))
        case Artifact():
            return TaskArtifactUpdated(copy_artifact(payload))
        case TaskSubmitted() | TaskStatusChanged():
            raise InvalidArgumentError(
                f"{type(payload).__name__} is recorded by the run itself; change the task's state instead",
                field="event",
            )
        case dict():
            return item if isinstance(item, RunEvent) else RunEvent(type="custom", payload=plain(payload))
        case None if isinstance(item, RunEvent):
            return item
        case _:
            raise InvalidArgumentError(
                f"a value of type {type(item).__name__} cannot be recorded; emit a RunEvent, Message, Artifact, "
                "a payload such as TaskProgress, or a dict",
                field="event",
            )


_READY: frozenset[Any] = frozenset(get_args(Payload)) - {TaskProgress, TaskSubmitted, TaskStatusChanged}
"""Classes of payloads that are recorded unchanged."""


FORWARDED: Final = "forwarded."
"""Prefix of the types of events of other tasks whose kind would otherwise count as this task's own, such as model calls."""

_OUTPUT = (TaskProgress, TaskMessagesAdded, TaskArtifactUpdated, TaskErrorReported, dict)
"""Payloads that a handler may pass on as its own: they have no effect but to be a part of the task."""


def _fact_of_other_task(event: RunEvent) -> RunEvent:
    """Return an event of another task, which a handler passes on, as a fact of this one.

    Messages, artifacts, progress and errors become those of this task. Model calls, actions, approvals and all other kinds become
    events of the application that name the other task, because readers of the log, such as a recovered run, would take them as
    work of this task.
    """
    payload = event.payload
    if isinstance(payload, TaskPatched):  # its flow prompt would count as the agent's own
        return replace(event, payload=TaskPatched(payload.metadata, _without_flow_prompt(payload.flow_state)))
    if isinstance(payload, LlmStep):  # its metadata can name a decision that a recovered run reads
        return replace(event, payload=replace(payload, step=0), metadata={})
    if payload is None or isinstance(payload, _OUTPUT):
        return event
    source = {"task_id": event.task_id, "sequence": event.sequence, "action_id": event.action_id}
    found = source | {"agent_name": event.agent_name, "payload": event.to_dict()["payload"]}
    return RunEvent(FORWARDED + event.type, found, severity=event.severity, summary=event.summary)


def _without_flow_prompt(flow_state: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in flow_state.items() if key != FLOW_PROMPT}


@dataclass(slots=True)
class HandlerTask:
    """The task that a run gave to its handler, and the original lists of that task: the handler may replace the lists.

    `artifact_count` and `metadata` are those of the log when the handler received the task.
    """

    task: Task
    messages: list[Message]
    artifacts: list[Artifact]
    artifact_count: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)


def find_changes(
    fold: TaskFold,
    task: Task,
    *,
    given: HandlerTask | None = None,
    emitted: Mapping[str, Artifact] | None = None,
    last: bool = False,
) -> list[Fact]:
    """Return the differences between a handler's task and the log, as facts.

    The time depends on what was added, not on the length of the log. Messages that are already in the log stay unchanged.

    Args:
        given: The task that the handler received. Its own lists are known to begin with the items of the log. Any other list,
            such as the lazy list of a peer's response, is compared item by item. A metadata key that is missing was removed if
            `task` is the given task; any other task only adds keys, and its flow prompt is left out, because the log must show
            which code set a prompt, and the task may be a peer's.
        emitted: Artifacts, by id, that will be recorded before the returned facts; they count as recorded.
        last: The task ends with these facts, so messages need not be copied for later turns.
    """
    added = _find_added_messages(fold, task.messages, None if given is None else given.messages)
    messages = tuple(added) if last else tuple(copy_message(message) for message in added)
    spoken: list[Fact] = [TaskMessagesAdded(messages)] if messages else []
    new = _find_changed_artifacts(fold, task.artifacts, None if given is None else given.artifacts, emitted)
    made: list[Fact] = [TaskArtifactUpdated(copy_artifact(each)) for each in new]
    last_is_artifact = bool(spoken and made) and isinstance(task.get_last_item(), Artifact)
    facts = spoken + made if last_is_artifact else made + spoken
    stored = stored_metadata(task)
    free = own_metadata(stored) if stored else {}
    is_given = given is not None and given.task is task
    metadata = _patch(fold.metadata, free, removing=is_given)
    if is_given and given is not None and given.metadata is not fold.metadata:
        # Others, such as the owner, have changed the metadata since: only what the handler has changed counts.
        own = _patch(given.metadata, free, removing=True)
        metadata = {key: value for key, value in metadata.items() if key in own}
    flow_state = _patch(fold.flow_state, task.flow_state, removing=is_given)
    if not is_given:
        flow_state.pop(FLOW_PROMPT, None)
    if metadata or flow_state:
        facts.append(TaskPatched(metadata, flow_state))
    return facts


def find_last_output(facts: Sequence[Fact]) -> Message | Artifact | None:
    """Return the last artifact or agent message among the facts; None without one. Messages of users are input."""
    for fact in reversed(facts):
        if isinstance(fact, TaskArtifactUpdated):
            return fact.artifact
        for message in reversed(fact.messages) if isinstance(fact, TaskMessagesAdded) else ():
            if message.role in ("agent", "assistant"):
                return message
    return None


def _find_added_messages(fold: TaskFold, messages: list[Message], given: list[Message] | None) -> Iterator[Message]:
    # The first elements of the given list are the log's own; the handler added those after them.
    first = messages.first_added if isinstance(messages, CopyOnRead) and messages.extends(given) else 0
    for index in range(first, len(messages)):
        if messages[index].id not in fold.message_ids:
            yield messages[index]


def _find_changed_artifacts(
    fold: TaskFold, artifacts: list[Artifact], given: list[Artifact] | None, emitted: Mapping[str, Artifact] | None
) -> Iterator[Artifact]:
    indexes: Any = range(len(artifacts))
    if isinstance(artifacts, CopyOnRead) and artifacts.extends(given):
        # The log's own artifact may have grown since the handler received its copy, which is no change of the handler.
        indexes = artifacts.changed()
    for index in indexes:
        artifact = artifacts[index]
        known = emitted.get(artifact.id) if emitted else None
        if (fold.artifact(artifact.id) if known is None else known) != artifact:
            yield artifact


def _patch(known: dict[str, Any], now: dict[str, Any], *, removing: bool) -> dict[str, Any]:
    if not known and not now:
        return {}
    patch = {key: plain(value) for key, value in now.items() if key not in known or known[key] != value}
    if removing:
        patch.update(dict.fromkeys(known.keys() - now.keys()))
    return patch


def closing_status(
    state: TaskState,
    task: Task,
    output: Message | Artifact | None = None,
    usage: BudgetUsage | None = None,
    action: Failure | None = None,
) -> TaskStatusChanged:
    """Return the status that ends a run: the state of the handler's task, or the state that its output implies.

    Args:
        output: The last message or artifact of the run; None without one.
        action: The failure of the action that the output belongs to; it has more details than the output.
    """
    target = task.state
    if target not in TERMINAL and target not in INTERRUPTED:
        target, why = implied_state(output)
        if why is not None and action is not None:
            why = action
    elif target is TaskState.CANCELED:
        return TaskStatusChanged.because(state, target, task.reason[:MAX_REASON], usage=usage)
    else:
        why = task.known_failure() if target in TERMINAL else None
    return TaskStatusChanged(
        state, target, None if why is None else why.cleaned(str, MAX_REASON).bounded(), usage=usage
    )


def implied_state(output: Message | Artifact | None) -> tuple[TaskState, Failure | None]:
    """Return the state that the parts of an output imply, and its failure if it has one. An error outranks a question."""
    requested: TaskState | None = None
    for part in output.parts if output is not None else ():
        content: Any = part.content
        match part.type:
            case "error":
                return TaskState.FAILED, _failure_of(content)
            case "tool_output":
                error = content.error if isinstance(content, ToolOutput) else None
                if error:
                    return TaskState.FAILED, _failure_of(error)
            case "status":
                state = content.get("state") if isinstance(content, dict) else None
                requested = requested or (_INPUT_STATES.get(state) if isinstance(state, str) else None)
    return requested or TaskState.COMPLETED, None


def _failure_of(error: Any) -> Failure:
    failure = Failure.from_value(error)
    if failure.message:
        return failure
    text = error.get("message") or error.get("code") or "unknown error" if isinstance(error, dict) else error
    return replace(failure, message=str(text))


_INPUT_STATES = {spelling: state for state in INTERRUPTED for spelling in (state.value, state.value.replace("-", "_"))}
"""States of a status part that request input from the caller. Other states do not change the state of the task."""


def lost_status(state: TaskState, why: str) -> TaskStatusChanged:
    """Return the status of a task whose run was lost."""
    return TaskStatusChanged(state, TaskState.FAILED, Failure.of(RUN_LOST, f"run lost: {why}"))


def canceled_status(state: TaskState, request: CancelRequested) -> TaskStatusChanged:
    """Return the status of a task whose cancellation was requested."""
    return TaskStatusChanged(state, TaskState.CANCELED, cancel_reason=request.reason)
