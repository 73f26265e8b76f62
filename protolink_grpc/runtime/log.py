"""The log of one task: the only way to append to it, and its state in memory.

A LiveTask is shared by the run that works on the task and by requests that control it. Appends wait for a lock. Each append is
checked against the lifecycle and written to the store. Only after the commit it changes the state in memory and reaches the
observers, so that no reader sees an event which could still be lost.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from protolink_grpc.errors import (
    ApprovalNotFoundError,
    InvalidArgumentError,
    InvalidTransitionError,
    LeaseLostError,
    MessageTooLargeError,
    ProtolinkError,
    SequenceConflictError,
    StoreError,
    TaskNotFoundError,
)
from protolink_grpc.logs import get_logger
from protolink_grpc.models.action import ApprovalDecision
from protolink_grpc.models.clock import Clock
from protolink_grpc.models.events import (
    TYPES,
    ActionRequested,
    ApprovalDecided,
    ApprovalRequired,
    Payload,
    RunEvent,
    TaskArtifactUpdated,
    TaskInputReplaced,
    TaskMessagesAdded,
    TaskPaused,
    TaskPauseRequested,
    TaskProgress,
    TaskResumed,
    TaskRetried,
    TaskStatusChanged,
    TaskSubmitted,
    TextDelta,
)
from protolink_grpc.models.fold import AFFECTING, TaskFold
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TRANSITIONS, TaskState
from protolink_grpc.models.task_control import LinkKind
from protolink_grpc.net.exponential_delay import ExponentialDelay
from protolink_grpc.runtime.append_lock import AppendLock
from protolink_grpc.storage import links
from protolink_grpc.storage.approvals import APPROVALS, approval_rows
from protolink_grpc.storage.port import HELD, Append, RequestRecord, TaskHead, TaskStore
from protolink_grpc.storage.records import Put, Records
from protolink_grpc.storage.session_log import BESIDE_OTHERS, QueuedChange, SessionAppend
from protolink_grpc.storage.session_rows import OpenTurn, owner_of
from protolink_grpc.wire.events import EventEncoder, encode_envelope, replay

log = get_logger(__name__)

OUTAGE_DELAYS_S: Final = (0.1, 5.0)
"""The first and the longest delay, in seconds, between two reads of a store that is unavailable."""


Fact = Payload | RunEvent
"""What can be recorded: a payload, or an event with further fields of its envelope."""

Within = Callable[[Records], Sequence[str]]
"""Called in the transaction of an append, possibly more than once. It may refuse it. Returns the tasks that it has released."""

MAX_EVENT_BYTES = (4 << 20) - 4096
"""Maximum size of one encoded event: a response with this event alone stays below gRPC's default limit of 4 MiB."""

RETRIES = 8
"""Attempts of one append when other processes keep appending first."""


@dataclass(frozen=True, slots=True)
class AppendedFacts:
    """Facts that this process has committed to the log of a task.

    Args:
        fold: The task with these facts: `task_id`, `principal`, `agent_name`, `session_id`, `state`, `usage` and others. Read only.
        run_id: The run that they belong to.
        first_sequence: Sequence of the first fact; the others follow without gaps.
        micros: Time of the append, microseconds since the epoch, UTC.
        facts: Each a payload, or an event if it has more fields, for instance an action id. Read only.
    """

    fold: TaskFold
    run_id: str
    first_sequence: int
    micros: int
    facts: Sequence[Fact]

    @property
    def payloads(self) -> list[Payload | TextDelta | dict[str, Any] | None]:
        """The payload of each fact, as in a RunEvent; never a TextDelta."""
        return [fact.payload if isinstance(fact, RunEvent) else fact for fact in self.facts]


AppendObserver = Callable[[AppendedFacts], None]
"""Called on the event loop with each append of this process, after its commit and in the order of each log; it must not block."""


class AppendObservers:
    """Calls the observers of one service, for all of its tasks.

    An exception of an observer does not disturb the run, the other observers and later calls. The first one of each observer is
    logged.
    """

    __slots__ = ("_failed", "_observers")

    def __init__(self, observers: Sequence[AppendObserver] = ()) -> None:
        self._observers = tuple(observers)
        self._failed: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._observers)

    def notify(self, appended: AppendedFacts) -> None:
        for index, observe in enumerate(self._observers):
            try:
                observe(appended)
            except Exception:  # of any kind: the facts are in the log, and the run continues
                if index not in self._failed:
                    self._failed.add(index)
                    name = getattr(observe, "__qualname__", type(observe).__name__)
                    log.exception(
                        "the observer %s failed for task %s; its later failures are not logged",
                        name,
                        appended.fold.task_id,
                    )


NO_OBSERVERS = AppendObservers()


class LiveTask:
    """The fold of one task and the right to append to its log.

    Args:
        released: Called with the id of a held task that may start, after the append that has released it.

    Attributes:
        epoch: The epoch under which this process may append; 0 before the task exists.
        worker: Id of the worker that owns the task.
        opening: How the next request begins its turn in the session of the task.
        running: A run of this process works on the task. It keeps its epoch: a later one means that the task was taken.
        size: Encoded bytes of the events in the fold.
        turn: The latest turn of the session that this process has begun, as it was then; None before the first.
    """

    __slots__ = (
        "_clock",
        "_encoder",
        "_encoder_run",
        "_lock",
        "_observers",
        "_released",
        "_store",
        "agent_name",
        "epoch",
        "fold",
        "opening",
        "running",
        "size",
        "turn",
        "worker",
    )

    def __init__(
        self,
        task_id: str,
        *,
        agent_name: str,
        store: TaskStore,
        clock: Clock,
        observers: AppendObservers = NO_OBSERVERS,
        released: Callable[[str], None] = lambda task_id: None,
    ) -> None:
        self.fold = TaskFold(task_id)
        self.agent_name = agent_name
        self.epoch = 0
        self.worker = ""
        self.opening = BESIDE_OTHERS
        self.running = False
        self.size = 0
        self.turn: OpenTurn | None = None
        self._store = store
        self._clock = clock
        self._observers = observers
        self._released = released
        self._lock = AppendLock()
        self._encoder: EventEncoder | None = None
        self._encoder_run = ""

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def store(self) -> TaskStore:
        return self._store

    async def refresh(self) -> None:
        """Apply the events that other processes have appended.

        Raises:
            LeaseLostError: Another process has taken the task from a run of this process.
            StoreError: The store cannot be read.
        """
        if not self._lock.try_acquire():
            await self._lock.acquire()
        try:
            await self._catch_up()
        finally:
            self._lock.release()

    async def at_rest(self) -> None:
        """Wait for the current append, if there is one. Then all events that readers have seen are in the fold."""
        if not self._lock.try_acquire():
            await self._lock.acquire()
        self._lock.release()

    async def decision(self, request_id: str) -> ApprovalDecision:
        """Wait until the answer to an approval is in the log, and return it. Any process may append it.

        Raises:
            ApprovalNotFoundError: The approval was not requested, or the task ended first.
            LeaseLostError: Another process has taken the task from a run of this process.
            StoreError: The log cannot be read, although the store works.
        """
        fold, delay = self.fold, ExponentialDelay(*OUTAGE_DELAYS_S)
        while (answer := fold.decided.get(request_id)) is None:
            if request_id not in fold.asked:
                raise ApprovalNotFoundError(f"no approval {request_id} waits for an answer", approval_id=request_id)
            await self._wait_change(delay)
        return answer

    async def wait_resumed(self) -> None:
        """Wait until the log ends the pause of the task. Any process may append that. Raises as `decision`."""
        delay = ExponentialDelay(*OUTAGE_DELAYS_S)
        while self.fold.is_pause_requested:
            await self._wait_change(delay)

    async def _wait_change(self, delay: ExponentialDelay) -> None:
        """Wait until the log is longer, and read what was appended. May return early: after a delay if the store is unavailable.

        Nothing is lost by a wait for the store, because a run that waits has recorded all its work.
        """
        fold = self.fold
        try:
            await self._store.wait(fold.task_id, fold.sequence)
            await self.refresh()
            delay.reset()
        except StoreError as error:
            if error.reason != StoreError.reason:
                raise
            if not delay.has_begun:
                log.warning("task %s: its run continues to wait until the store works again: %s", fold.task_id, error)
            await asyncio.sleep(delay.next_s())

    async def _catch_up(self) -> None:
        fold = self.fold
        while frames := await self._store.read(fold.task_id, fold.sequence, 1024):
            replay(fold, frames)
            self.size += sum(map(len, frames))
        head = await self._store.head(fold.task_id)
        if head is None:
            raise self._deleted_error()
        if self.running and head.epoch != self.epoch:
            raise LeaseLostError("another worker runs this task", task_id=fold.task_id)
        self.epoch, self.worker = head.epoch, head.worker

    def _deleted_error(self) -> ProtolinkError:
        task_id = self.fold.task_id
        if self.running:
            # Only ended tasks are deleted: another worker has taken this one, and has ended it.
            return LeaseLostError("another worker has ended this task, and it was deleted", task_id=task_id)
        return TaskNotFoundError(f"task {task_id} is not in the store", task_id=task_id)

    async def record(
        self,
        facts: Sequence[Fact],
        *,
        run_id: str = "",
        request_id: str = "",
        claim: bool = False,
        held: bool = False,
        opens: bool = False,
        expected: int = 0,
        change: QueuedChange | None = None,
        within: Within | None = None,
    ) -> RequestRecord | None:
        """Append facts, all or none, and return after the commit.

        Args:
            run_id: Run of the facts; empty means the latest run.
            request_id: Stored with the task's principal in the same transaction.
            claim: Make this process the owner of the task.
            held: The task is new and must not start until it is released: see `HELD`.
            opens: The facts are those of a request, which begins a turn.
            expected: Required last sequence of the log before the facts; 0 means any.
            change: The facts change the input of a queued turn.
            within: Called in the transaction.

        Returns:
            None if the facts were recorded; the record of the earlier request if the request id is already stored.

        Raises:
            InvalidTransitionError: A status is not reachable from the current one, the task has ended, or a fact answers an
                approval that is not pending.
            LeaseLostError: Another process has taken the task.
            TaskNotFoundError: The task was deleted.
            SequenceConflictError: The log does not end with `expected`.
            MessageTooLargeError: A fact is larger than `MAX_EVENT_BYTES`.
            StoreError: The store failed; nothing was recorded.
        """
        if not self._lock.try_acquire():
            await self._lock.acquire()
        try:
            for _ in range(RETRIES):
                if expected and expected != self.fold.sequence:
                    break
                try:
                    worker = HELD if held else self._store.worker if claim else None
                    return await self._record(
                        facts, run_id or self.fold.run_id, request_id, worker, opens, change=change, within=within
                    )
                except SequenceConflictError:
                    if not self.fold.sequence:
                        raise
                    # Another process appended first, for example a cancel request. The epoch decides whether to retry.
                    await self._catch_up()
                except TaskNotFoundError:
                    raise self._deleted_error() from None
            if expected:
                raise unexpected_end_error(self.fold.task_id, expected, self.fold.sequence)
            raise SequenceConflictError(f"task {self.fold.task_id} is too busy", task_id=self.fold.task_id)
        finally:
            self._lock.release()

    async def _record(
        self,
        facts: Sequence[Fact],
        run_id: str,
        request_id: str,
        owner: str | None,
        opens: bool,
        *,
        change: QueuedChange | None,
        within: Within | None,
    ) -> RequestRecord | None:
        """As `record`, once. `owner` is the worker that takes the task; None leaves it unchanged."""
        fold = self.fold
        micros = self._clock.micros()
        expected = sequence = fold.sequence
        state, frames, asks = fold.state, [], False
        ended, is_stopping = state in TERMINAL, fold.cancel_requested is not None
        messages, artifacts, reason = len(fold.messages), fold.artifact_count, fold.reason
        new_artifacts: set[str] = set()
        encode = self._encoder_of(run_id).frame
        for fact in facts:
            if ended and payload_of(fact).__class__ is not TaskRetried:
                raise InvalidTransitionError(f"task {fold.task_id} is {state}: nothing can follow", current=str(state))
            sequence += 1
            payload, kind, envelope, has_summary = (
                _unpack(fact) if isinstance(fact, RunEvent) else (fact, "", b"", False)
            )
            written = payload
            # One lookup by class, because most facts of a long log, such as progress reports, are of other kinds.
            if payload.__class__ in _STEERING:
                if isinstance(payload, TaskStatusChanged):
                    _check(state, payload, is_stopping=is_stopping)
                    state, reason, ended = payload.new_state, payload.reason, payload.new_state in TERMINAL
                elif isinstance(payload, TaskMessagesAdded):
                    messages += len(payload.messages)
                elif isinstance(payload, TaskInputReplaced):
                    messages = fold.turn_message + len(payload.messages)
                elif isinstance(payload, TaskPauseRequested | TaskPaused | TaskResumed):
                    _check_pause(fold, payload)
                elif isinstance(payload, TaskRetried):
                    state, reason, ended, is_stopping = _retried(state), "", False, False
                    messages, artifacts = fold.input_end
                elif isinstance(payload, TaskSubmitted):
                    messages += len(payload.task.messages)
                    artifacts += len(payload.task.artifacts)
                elif isinstance(payload, TaskArtifactUpdated):
                    if not fold.has_artifact(payload.artifact.id):
                        new_artifacts.add(payload.artifact.id)
                elif isinstance(payload, ActionRequested):
                    before = [payload_of(each) for each in facts[: sequence - expected - 1]]
                    written = fold.references.abridged(payload, before)
                else:
                    asks = True
            frames.append(
                encode(written, sequence, micros, type=kind, final=ended, envelope=envelope, has_summary=has_summary)
            )
        size = _checked_size(facts, frames)
        records = self._approval_records(facts, micros, run_id) if asks or (ended and fold.asked) else ()
        epoch, worker = (self.epoch, self.worker) if owner is None else (self.epoch + 1, owner)
        head = TaskHead(
            fold.task_id,
            fold.principal,
            self.agent_name,
            fold.session_id,
            state,
            sequence,
            run_id,
            fold.create_micros or micros,
            micros,
            worker,
            epoch,
            messages,
            artifacts + len(new_artifacts),
            reason,
        )
        append = Append(head, frames, expected, self.epoch, request_id, records)
        if fold.session_id != fold.task_id or within is not None or fold.controls is not None:
            self._add_work(append, len(facts), opens, change, within)
        if (known := await self._store.append(append)) is not None:
            return known
        self.epoch, self.worker, self.size = epoch, worker, self.size + size
        self._apply(facts, micros, run_id)
        return None

    def _add_work(
        self, append: Append, count: int, opens: bool, change: QueuedChange | None, within: Within | None
    ) -> None:
        """Add to an append of `count` facts what else happens in its transaction, and after its commit."""
        if self.fold.session_id != self.fold.task_id:
            append.session = self._session_append(append.head, count, opens, change)
        work, released = self._link_work(append.head.state, within), list[str]()
        if work is not None:
            append.within = partial(_note_released, work, released)
        append.committed = partial(self._note_commit, append.session, released)

    def _note_commit(self, session: SessionAppend | None, released: Sequence[str]) -> None:
        """Called after the commit, also if the caller of the append has been canceled while it waited."""
        if session is not None:
            self.turn = session.turn or self.turn
            if session.released:
                self._released(session.released)
        for task_id in released:
            self._released(task_id)

    def _link_work(self, state: TaskState, within: Within | None) -> Within | None:
        """Return `within`, followed by the changes of other tasks' rows for an append that ends in `state`."""
        task_id, controls = self.fold.task_id, self.fold.controls
        if controls is None or not (state in TERMINAL or state in INTERRUPTED):
            return within
        owner = owner_of(self.agent_name, self.fold.principal)

        def work(records: Records) -> Sequence[str]:
            released = [*within(records)] if within is not None else []
            if state in INTERRUPTED:
                if links.targets_of(records, task_id, LinkKind.BLOCKS, 1):
                    records.keep_task(task_id)
                return released
            return released + links.end(records, owner, task_id)

        return work

    def _approval_records(self, facts: Sequence[Fact], micros: int, run_id: str) -> Sequence[Put]:
        payloads = [payload_of(fact) for fact in facts]
        return [Put(APPROVALS, row) for row in approval_rows(self.fold, self.agent_name, payloads, micros, run_id)]

    def _session_append(self, head: TaskHead, count: int, opens: bool, change: QueuedChange | None) -> SessionAppend:
        """Return what an append of `count` facts changes in the session. `head` is that after the append."""
        state = head.state
        changes = state is not self.fold.state
        return SessionAppend(
            owner_of(self.agent_name, head.principal),
            head.session_id,
            head.task_id,
            head.sequence - count + 1,
            count,
            head.update_micros,
            self.opening if opens else None,
            changes and state is TaskState.WORKING,
            (state, head.reason) if changes and (state in TERMINAL or state in INTERRUPTED) else None,
            change,
            self._store.runtime_id,
        )

    def _apply(self, facts: Sequence[Fact], micros: int, run_id: str) -> None:
        """Apply committed facts to the fold, and notify the observers."""
        fold = self.fold
        first, last = fold.sequence + 1, fold.sequence + len(facts)
        progress: TaskProgress | None = None
        for sequence, fact in enumerate(facts, first):
            if isinstance(fact, RunEvent):
                fold.apply(payload_of(fact), sequence, micros, run_id, fact.action_id)
            elif sequence == last or fact.__class__ in AFFECTING or fold.restarted:
                # Facts of other kinds only move the position: applying the last one is enough.
                fold.apply(fact, sequence, micros, run_id)
            elif fact.__class__ is TaskProgress:
                progress = fact
        if progress is not None and payload_of(facts[-1]).__class__ is not TaskProgress:
            fold.progress = progress
        if self._observers:
            self._observers.notify(AppendedFacts(fold, run_id, first, micros, facts))

    def _encoder_of(self, run_id: str) -> EventEncoder:
        if self._encoder is None or self._encoder_run != run_id:
            fold = self.fold
            self._encoder = EventEncoder(fold.task_id, run_id, fold.session_id, self.agent_name)
            self._encoder_run = run_id
        return self._encoder


def _note_released(work: Within, released: list[str], records: Records) -> None:
    released[:] = work(records)


def unexpected_end_error(task_id: str, expected: int, last: int) -> SequenceConflictError:
    """Return the error for a request that expects another last sequence than the log has."""
    return SequenceConflictError(
        f"the last sequence of task {task_id} is {last}, not {expected}: read the task, then decide",
        task_id=task_id,
        expected_sequence=str(expected),
        last_sequence=str(last),
    )


def _unpack(event: RunEvent) -> tuple[Payload | dict[str, Any], str, bytes, bool]:
    """Return the payload of an event, its type unless it is the payload's only one, its encoded envelope, and `has_summary`."""
    if isinstance(event.payload, TextDelta):
        raise InvalidArgumentError("a delta cannot be recorded in the log", field="payload")
    payload = event.payload if event.payload is not None else {}
    kind = "" if TYPES.get(payload.__class__) == event.type else event.type
    return payload, kind, encode_envelope(event), bool(event.summary)


def payload_of(fact: Fact) -> Any:
    """Return the payload of a fact; an empty dict for an event without one."""
    if isinstance(fact, RunEvent):
        return {} if fact.payload is None else fact.payload
    return fact


def _checked_size(facts: Sequence[Fact], frames: Sequence[bytes]) -> int:
    """Return the encoded bytes of facts. Raises MessageTooLargeError if one of them is too large."""
    size = sum(map(len, frames))
    for fact, frame in zip(facts, frames, strict=True) if size > MAX_EVENT_BYTES else ():
        if len(frame) > MAX_EVENT_BYTES:
            kind = fact.type if isinstance(fact, RunEvent) else ""
            raise MessageTooLargeError(
                f"an event of {len(frame)} bytes is larger than the limit of {MAX_EVENT_BYTES} bytes",
                field=kind or type(payload_of(fact)).__name__,
            )
    return size


def _check(state: TaskState, payload: TaskStatusChanged, *, is_stopping: bool) -> None:
    if payload.attempt and is_stopping and state not in INTERRUPTED:
        raise InvalidTransitionError("the cancellation was requested before the run could begin", current=str(state))
    target = payload.new_state
    # A run that continues a lost one begins an attempt, and the state stays working.
    if target not in TRANSITIONS.get(state, frozenset()) and not (
        payload.attempt and state == target == TaskState.WORKING
    ):
        raise InvalidTransitionError(
            f"Invalid task state transition: {state} -> {target}", current=str(state), target=str(target)
        )


def _check_pause(fold: TaskFold, payload: TaskPauseRequested | TaskPaused | TaskResumed) -> None:
    state, is_requested = fold.state, fold.is_pause_requested
    if isinstance(payload, TaskPauseRequested):
        if is_requested:
            raise InvalidTransitionError("a pause was requested before", current=str(state))
        controls = fold.controls
        if state not in (TaskState.SUBMITTED, TaskState.WORKING) or (controls is not None and controls.is_draft):
            name = "a draft" if state is TaskState.SUBMITTED else str(state)
            raise InvalidTransitionError(
                f"the task is {name}, and only one that works or is about to can be paused", current=str(state)
            )
        if controls is not None and controls.is_external:
            raise InvalidTransitionError(
                "the task is worked on outside of the agent, and only work of the agent can be paused",
                current=str(state),
            )
        if fold.cancel_requested is not None:
            raise InvalidTransitionError(
                "the cancellation of the task was requested, so it cannot be paused", current=str(state)
            )
    elif not is_requested or (isinstance(payload, TaskPaused) and fold.is_paused):
        raise InvalidTransitionError("the pause has ended, or has begun before", current=str(state))


def _retried(state: TaskState) -> TaskState:
    """Return the state after a retry."""
    if state not in TERMINAL:
        raise InvalidTransitionError(f"the task is {state}, and only an ended one can be retried", current=str(state))
    return TaskState.SUBMITTED


_STEERING = frozenset(
    {
        TaskSubmitted,
        TaskStatusChanged,
        TaskMessagesAdded,
        TaskArtifactUpdated,
        TaskInputReplaced,
        TaskPauseRequested,
        TaskPaused,
        TaskResumed,
        TaskRetried,
        ActionRequested,
        ApprovalRequired,
        ApprovalDecided,
    }
)
"""Kinds of payloads that an append examines; all others are only written."""
