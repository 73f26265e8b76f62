"""The waist: every edge, gRPC, in process, HTTP, calls these verbs and nothing else.

A TaskService owns the tasks of one agent in one process. Sending starts a run and waits for its end; streaming starts a run and
watches the log; subscribing only watches. It is used from one event loop.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Any

from protolink_grpc.errors import (
    InvalidArgumentError,
    InvalidTransitionError,
    LeaseLostError,
    SequenceConflictError,
    SequenceOutOfRangeError,
    StoreError,
    TaskAlreadyExistsError,
    TaskAlreadyRunningError,
    TaskFinishedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnavailableError,
)
from protolink_grpc.logs import get_logger
from protolink_grpc.models.action import Approval, ApprovalDecision, ApprovalRequest
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.events import CancelRequested, TaskSubmitted
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_task_id
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState
from protolink_grpc.policy.redaction import DEFAULT_REDACTION_POLICY, RedactionPolicy
from protolink_grpc.runtime import watchdog
from protolink_grpc.runtime.approvals import ApprovalChanges, ApprovalDesk, ApprovalPage, Approvals, CheckEdit
from protolink_grpc.runtime.clock import Clock, SystemClock
from protolink_grpc.runtime.deltas import LiveTexts
from protolink_grpc.runtime.engine import Attempt, Handler, canceled
from protolink_grpc.runtime.live import Fact, LiveTask
from protolink_grpc.runtime.run import Controls
from protolink_grpc.runtime.run_saver import RunSaver
from protolink_grpc.runtime.slots import Place, Slots
from protolink_grpc.runtime.submission import (
    Limits,
    Recovery,
    StopAt,
    Submission,
    TaskTarget,
    finished_error,
    refuse_cycle,
)
from protolink_grpc.runtime.upkeep import Upkeep
from protolink_grpc.runtime.warm import WarmTasks
from protolink_grpc.runtime.watchdog import LoopWatchdog
from protolink_grpc.runtime.watching import Watching
from protolink_grpc.runtime.worker import this_worker
from protolink_grpc.store.port import ApprovalQuery, ForeignListener, TaskHead, TaskPage, TaskQuery, TaskStore
from protolink_grpc.wire.tracing import parse_waiting_run, waiting_run_prefix, waiting_runs

log = get_logger(__name__)


@dataclass(slots=True)
class Turn:
    """One accepted request: its task, the log's end before it, and the attempt where it runs in this process."""

    task_id: str
    after_sequence: int
    attempt: Attempt | None = None


class TaskService:
    """The tasks of one agent.

    Args:
        agent_name: Owner of the tasks; a store may hold those of several agents.
        handler: What the agent does with a task.
        recovery: What to do with runs that a dead process left behind.
        controls: What the agent imposes on its runs.
        replayable: The handler can begin again without repeating what it has done, because everything that it does is in the log.
        approvals: Who may answer approvals from outside; None shows them and lets nobody answer.
        redaction: What is struck out of the approvals that are shown.
        check_edit: Looks at the edited arguments of an answer; None accepts all that policy lets be edited.
        run_saver: Is told of each run that has ended in this process.
    """

    def __init__(
        self,
        agent_name: str,
        store: TaskStore,
        handler: Handler,
        *,
        limits: Limits | None = None,
        recovery: Recovery = "auto",
        controls: Controls | None = None,
        replayable: bool = False,
        approvals: Approvals | None = None,
        redaction: RedactionPolicy = DEFAULT_REDACTION_POLICY,
        check_edit: CheckEdit | None = None,
        run_saver: RunSaver | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.agent_name = agent_name
        self.store = store
        self.limits = limits or Limits()
        self._handler = handler
        self._run_saver = run_saver
        self._controls = controls or Controls()
        self._clock = clock or SystemClock()
        bounds = self.limits
        self._slots = Slots(
            running=bounds.max_concurrency,
            waiting=bounds.max_queue,
            max_bytes=bounds.max_task_bytes,
            principal_share=bounds.principal_share,
        )
        self._attempts: dict[str, Attempt] = {}
        self._by_run: dict[str, Attempt] = {}
        self._waiting_run_prefix = waiting_run_prefix(agent_name)
        self._worker = this_worker()
        self._texts = LiveTexts(
            bounds.delta_interval_s, max_bytes=bounds.max_live_text_bytes, principal_share=bounds.principal_share
        )
        self._requests: dict[tuple[str, str], asyncio.Future[Turn]] = {}
        self._warm = WarmTasks(bounds.warm_tasks, bounds.warm_bytes, bounds.principal_share)
        self._listener = ForeignListener(lambda: list(self._attempts), self._look_at)
        resumes = recovery == "resume" or (recovery == "auto" and replayable)
        self._upkeep = Upkeep(self, resumes, self._clock, self._resume)
        self._keeper: asyncio.Task[None] | None = None
        self._watchdog: LoopWatchdog | None = None
        self._accepting = False
        self._stopped = False
        self._left: list[str] = []
        # What the next start finds and goes on with needs no end now.
        self._resumable = (UNBEGUN | {TaskState.WORKING} if resumes else UNBEGUN) if store.durable else frozenset()
        self._starting = asyncio.Lock()
        self._watching = Watching(
            agent_name,
            store,
            self._texts,
            self.limits.batch_events,
            runs_here=self._attempts.__contains__,
            is_stopped=lambda: self._stopped,
        )
        self._desk = ApprovalDesk(
            agent_name,
            store,
            clock=self._clock,
            setting=approvals,
            redaction=redaction,
            check_edit=check_edit,
            live_of=self._live_of,
            is_stopped=lambda: self._stopped,
        )

    # -- life ------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store, settle what a dead process left behind, begin to accept.

        Raises:
            StoreError: The store cannot be opened.
        """
        async with self._starting:
            if self._accepting:
                return
            await self.store.open()
            self.store.listeners.append(self._listener)
            if self.limits.blocked_loop_s > 0:  # before recovery: what blocked the loop last time may do so at once
                self._watchdog = watchdog.watch(self.limits.blocked_loop_s)
            try:
                await self._upkeep.heartbeat()
                self._accepting, self._stopped = True, False
                await self._upkeep.recover()
            except BaseException:
                # A service that did not start must not keep the store, nor accept.
                self._accepting, self._stopped = False, True
                self.store.listeners.remove(self._listener)
                self._unwatch()
                await self.store.close()
                raise
            self._keeper = asyncio.get_running_loop().create_task(self._upkeep.run())

    @property
    def is_accepting(self) -> bool:
        """Between `start` and `stop`."""
        return self._accepting

    async def stop(self, grace_s: float = 5.0) -> None:
        """Refuse new work, let runs finish for `grace_s` seconds, end the rest, close the store.

        The rest is recorded as lost; in a durable store, what the next start would begin or resume stays as it is.
        """
        self._accepting = False
        for attempt in list(self._attempts.values()):
            if attempt.is_resting:
                attempt.abandon()
        if self._attempts and grace_s > 0:
            await self._all_ended(grace_s)
        for attempt in list(self._attempts.values()):
            attempt.abandon()
        await self._all_ended(max(grace_s, 1.0))
        self._unwatch()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            self._keeper = None
        self.store.listeners.remove(self._listener)
        self._warm.clear()
        await self._release_left()
        if self._run_saver is not None:
            await self._run_saver.finish(max(grace_s, 1.0))
        self._stopped = True
        for _ in range(2):
            # Readers that found the service running a moment ago begin to wait in the next turns of the loop: closing wakes them.
            await asyncio.sleep(0)
        await self.store.close()

    def _unwatch(self) -> None:
        if self._watchdog is not None:
            self._watchdog.leave()
            self._watchdog = None

    async def _release_left(self) -> None:
        left, self._left = self._left, []
        if not left:
            return
        try:
            await self.store.release(left)
        except StoreError as error:
            log.warning("%d tasks wait for the end of this process: %s", len(left), error)

    async def _all_ended(self, timeout_s: float) -> None:
        waits = [attempt.ended.wait_quietly(timeout_s) for attempt in self._attempts.values()]
        await asyncio.gather(*waits)

    @property
    def active_task_ids(self) -> list[str]:
        """Tasks that run or wait for a slot in this process, and are in the store: they can be canceled."""
        return [task_id for task_id, attempt in self._attempts.items() if attempt.live.fold.sequence]

    @property
    def load(self) -> tuple[int, int]:
        """Runs that work, and runs that wait for their turn."""
        return self._slots.busy, self._slots.queued

    def attempt(self, task_id: str) -> Attempt | None:
        """The attempt under way at that task in this process."""
        return self._attempts.get(task_id)

    # -- sending ---------------------------------------------------------------------------------------------------------

    async def send(self, submission: Submission, principal: str) -> TaskFold:
        """Start or continue a task and wait until it is settled.

        Canceling the wait does not cancel the run.

        Raises:
            InvalidArgumentError, TaskNotFoundError, TaskAlreadyExistsError, SequenceConflictError, TaskFinishedError,
            TaskAlreadyRunningError, ResourceExhaustedError, DelegationCycleError: As `submit`.
            StoreError: As `submit`; or the end of the run could not be recorded.
        """
        submission.waiting_runs = waiting_runs()
        return await self.settled(await self._submit(submission, principal, to_end=True))

    async def settled(self, turn: Turn) -> TaskFold:
        """Wait for the end of a turn, wherever it runs."""
        attempt = turn.attempt
        if attempt is not None:
            await attempt.ended.wait()
            if attempt.live.fold.is_settled:
                return attempt.live.fold
        with self._reading():
            while True:
                head = await self.store.head(turn.task_id)
                if head is None:
                    raise _not_found(turn.task_id)
                if head.sequence > turn.after_sequence and (head.state in TERMINAL or head.state in INTERRUPTED):
                    return (await self._load(head)).fold
                await self._watching.growth(turn.task_id, head.sequence)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Around a wait for what the log will say: a store that was closed under it means that the service has stopped."""
        try:
            yield
        except StoreError:
            if self._stopped:
                raise UnavailableError(f"agent {self.agent_name} was stopped", agent=self.agent_name) from None
            raise

    async def submit(self, submission: Submission, principal: str, *, waits: bool = False) -> Turn:
        """Accept a request: when this returns, it is in the log.

        Args:
            waits: The caller is going to wait for the end of the turn.

        Raises:
            DelegationCycleError: The work has passed through this agent before; or a run of this agent waits for this one, while
                every slot is held by such a run: none of them would ever go on.
            InvalidArgumentError: There is nothing to do, the submission contradicts itself, or the task has ended before it was
                sent here.
            TaskNotFoundError: The task to continue is unknown, or not the caller's.
            TaskAlreadyExistsError: The id of the task to create is taken, by whatever principal.
            SequenceConflictError: The task to continue does not end where the caller expects it.
            TaskFinishedError: It is terminal.
            TaskAlreadyRunningError: It works already.
            ResourceExhaustedError: There is no room for another run, or for its bytes; see `Limits`.
            UnavailableError: The service is stopping.
            StoreError: The store refused; nothing was accepted.
        """
        submission.waiting_runs = waiting_runs() if waits else ()
        return await self._submit(submission, principal)

    async def _submit(self, submission: Submission, principal: str, *, to_end: bool = False) -> Turn:
        """`submit`; with `to_end`, return when the run has ended, which saves a caller that waits anyhow a second wait."""
        if not self._accepting:
            raise UnavailableError(f"agent {self.agent_name} is not accepting tasks", agent=self.agent_name)
        if not submission.request_id:
            return await self._accept(submission, principal, to_end=to_end)
        key = (principal, submission.request_id)
        while (known := self._requests.get(key)) is not None:
            try:
                return await asyncio.shield(known)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not known.cancelled() or (task is not None and task.cancelling()):
                    raise
                # The caller that came first has hung up in the middle; this one takes its place.
        # Repetitions that arrive while the first is being accepted share its outcome; later ones find it in the store.
        first: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._requests[key] = first
        try:
            turn = await self._accept(submission, principal)
        except BaseException as error:
            del self._requests[key]
            if isinstance(error, Exception):
                first.set_exception(error)
                first.exception()
            else:
                first.cancel()
            raise
        first.set_result(turn)
        # From here on the store knows the request.
        del self._requests[key]
        return turn

    async def _accept(self, submission: Submission, principal: str, *, to_end: bool = False) -> Turn:
        submission.check_target()
        if submission.target is TaskTarget.CONTINUE:
            return await self._continue(submission, principal)
        task_id = submission.task_id or new_task_id()
        warm = self._warm.get(task_id) if submission.task_id else None
        if task_id in self._attempts or warm is not None:
            return await self._continue(submission, principal)
        if submission.state in TERMINAL and not await self._knows(submission, principal):
            raise finished_error(submission.state)
        if not submission.messages and not submission.artifacts:
            raise InvalidArgumentError("a new task needs a message", field="input.messages")
        submission.check_sequence(task_id, 0)
        live = LiveTask(task_id, agent_name=self.agent_name, store=self.store, clock=self._clock)
        live.fold.principal = principal
        live.fold.agent_name = self.agent_name
        live.fold.session_id = submission.session_id or task_id
        if submission.context is not None:
            refuse_cycle(submission.context, self.agent_name)
        submission.known_as(principal)
        task = submission.opening(task_id)
        live.fold.create_micros = micros_from_iso(task.created_at, field="input.create_time")
        opening = TaskSubmitted(task, principal, submission.request_id, submission.encoded)
        try:
            return await self._opened(self._begin(live, [opening], principal, submission), to_end=to_end)
        except SequenceConflictError:
            # Somebody knows this id already: the caller means that task.
            return await self._continue(submission, principal)

    async def _knows(self, submission: Submission, principal: str) -> bool:
        """Whether the log has this request, or a task of this id: such a submission is not answered by what it says itself."""
        if submission.request_id and await self.store.request(self.agent_name, principal, submission.request_id):
            return True
        return bool(submission.task_id) and await self.store.head(submission.task_id) is not None

    async def _continue(self, submission: Submission, principal: str) -> Turn:
        task_id, creates = submission.task_id, submission.target is TaskTarget.CREATE
        # Whoever has the id that is to be new: the answer is the same.
        attempt = self._attempts.get(task_id) if creates else self._under_way(task_id, principal)
        if attempt is not None:
            # It may be this very request, its first caller gone before it was on disk.
            await attempt.accepted.wait_quietly(None)
            error = attempt.accepted.error
            if error is not None and not isinstance(error, (SequenceConflictError, LeaseLostError)):
                if isinstance(error, (StoreError, UnavailableError)):
                    raise error  # that the store could not take it does not mean that there is no such task
                if submission.target is not TaskTarget.CONTINUE:
                    return await self._accept(submission, principal)  # that one was refused; this one may not be
            # The caller may have seen its last event before the run itself has ended.
            await attempt.live.at_rest()
            await self._confirmed(task_id)
            attempt = self._under_way(task_id, principal)
        if creates:
            return await self._first_turn(submission, principal)
        live = attempt.live if attempt is not None else await self._known(task_id, principal)
        fold = live.fold
        if fold.principal != principal:
            raise _not_found(task_id)
        if submission.request_id and (turn := await self.turn_of(submission.request_id, principal)) is not None:
            return turn
        submission.check_sequence(task_id, fold.sequence)
        if fold.is_terminal:
            raise TaskFinishedError(
                f"task {task_id} is {fold.state}; send a new task instead", task_id=task_id, state=str(fold.state)
            )
        # An attempt may be under way that has not written its first event yet.
        if fold.state not in INTERRUPTED or self._under_way(task_id, principal) is not None:
            raise TaskAlreadyRunningError(
                f"task {task_id} is {fold.state}; wait for it or cancel it", task_id=task_id, state=str(fold.state)
            )
        facts = submission.additions(fold)
        try:
            attempt = self._begin(live, facts, principal, submission, cause="continued", scopes=submission.scopes)
            return await self._opened(attempt)
        except SequenceConflictError:
            # A repetition that came at the same time through another process may be what has moved the task.
            if submission.request_id and (turn := await self.turn_of(submission.request_id, principal)) is not None:
                return turn
            raise
        except LeaseLostError:
            raise TaskAlreadyRunningError(
                f"task {task_id} is being continued by another process", task_id=task_id, state=str(fold.state)
            ) from None

    async def _first_turn(self, submission: Submission, principal: str) -> Turn:
        """The turn that began with the very request to create a task whose id is taken. Raises TaskAlreadyExistsError: none did."""
        if submission.request_id and (turn := await self.turn_of(submission.request_id, principal)) is not None:
            return turn
        raise TaskAlreadyExistsError(
            f"there is a task {submission.task_id} already; continue it, or choose another id",
            task_id=submission.task_id,
        )

    async def turn_of(self, request_id: str, principal: str) -> Turn | None:
        """The turn that began with the request of that id; None where the store knows none. Raises StoreError."""
        record = await self.store.request(self.agent_name, principal, request_id)
        if record is None:
            return None
        return Turn(record.task_id, record.after_sequence, self._attempts.get(record.task_id))

    def _under_way(self, task_id: str, principal: str) -> Attempt | None:
        """The attempt at that task in this process, as the principal may know it.

        What somebody else opens under the same id, and the store is about to refuse, must not hide the principal's own task.
        """
        attempt = self._attempts.get(task_id)
        if attempt is None or attempt.taken:
            return None
        if not attempt.live.fold.sequence and attempt.live.fold.principal != principal:
            return None
        return attempt

    async def _confirmed(self, task_id: str) -> Attempt | None:
        """The attempt at that task in this process; None where another process may have taken the task, and has.

        Raises:
            StoreError: Whether it has cannot be read.
        """
        attempt = self._attempts.get(task_id)
        if attempt is None or not attempt.live.fold.sequence:
            return attempt
        if not self._upkeep.lease.is_held():
            await attempt.confirm()
        return None if attempt.taken else attempt

    async def confirm_runs(self) -> None:
        """End the runs whose tasks other processes have taken. Raises StoreError: the store cannot be read."""
        found = [self._confirmed(task_id) for task_id in self._attempts]
        for outcome in await asyncio.gather(*found, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _resume(self, live: LiveTask, cause: str) -> Attempt:
        fold = live.fold
        # A run that was accepted and never began has done nothing: the first one that begins has its name.
        run_id = "" if fold.attempt else fold.run_id
        return self._begin(live, [], fold.principal, cause=cause, run_id=run_id)

    def _admit(self, live: LiveTask, principal: str, submission: Submission | None) -> Place:
        """A place for a further run of a task. Raises as `Slots.admit`."""
        if submission is None:
            # Recovered: it was admitted once. It waits for its turn like others, and is not refused.
            return self._slots.join(principal, live.size)
        callers: tuple[Place, ...] = ()
        chain = ""
        if submission.waiting_runs:
            callers = self._places_of(submission.waiting_runs)
            names = [parse_waiting_run(each)[0] for each in submission.waiting_runs]
            chain = " > ".join([*names, self.agent_name])
        return self._slots.admit(principal, live.size + submission.size, callers, chain)

    def _places_of(self, entries: tuple[str, ...]) -> tuple[Place, ...]:
        """Those of the runs that are under way here, and of those that wait for them in turn."""
        found: dict[Place, None] = {}
        for entry in entries:
            attempt = self._by_run.get(parse_waiting_run(entry)[1])
            if attempt is not None:
                found |= dict.fromkeys((attempt.place, *attempt.place.callers))
        return tuple(found)

    def _begin(
        self,
        live: LiveTask,
        opening: list[Fact],
        principal: str,
        submission: Submission | None = None,
        *,
        cause: str = "submitted",
        scopes: frozenset[str] | None = None,
        run_id: str = "",
    ) -> Attempt:
        attempt = Attempt(
            live,
            opening,
            handler=self._handler,
            slots=self._slots,
            place=self._admit(live, principal, submission),
            principal=principal,
            run_id=run_id if submission is None else submission.run_id_for(live.fold),
            request_id=submission.request_id if submission is not None else "",
            expected_sequence=submission.expected_sequence if submission is not None else 0,
            cause=cause,
            scopes=scopes,
            controls=self._controls,
            resumable=self._resumable,
            waiting_runs=submission.waiting_runs if submission is not None else (),
            own_entry=self._waiting_run_prefix,
            worker=self._worker,
            on_end=self._retire,
        )
        attempt.run.texts = self._texts
        self._attempts[live.fold.task_id] = attempt
        self._by_run[attempt.run.run_id] = attempt
        attempt.start()
        return attempt

    async def _opened(self, attempt: Attempt, *, to_end: bool = False) -> Turn:
        after = attempt.live.fold.sequence
        if to_end:
            await attempt.ended.opened()
        record = await attempt.accepted.wait()
        if record is not None:
            return Turn(record.task_id, record.after_sequence, self._attempts.get(record.task_id))
        return Turn(attempt.live.fold.task_id, after, attempt)

    def _retire(self, attempt: Attempt) -> None:
        error, fold = attempt.ended.error, attempt.live.fold
        task_id = fold.task_id
        if self._by_run.get(attempt.run.run_id) is attempt:  # callers may give two tasks one run id
            del self._by_run[attempt.run.run_id]
        if self._attempts.get(task_id) is attempt:
            del self._attempts[task_id]
            self._texts.drop(task_id)
        attempt.run.texts = None
        if attempt.left:
            self._left.append(task_id)
            return
        if self._run_saver is not None and fold.is_settled and fold.run_id == attempt.run.run_id:
            self._run_saver.run_ended(task_id, fold.run_id)
        unrecorded = isinstance(error, StoreError) or (error is not None and not fold.is_settled)
        if unrecorded and not isinstance(error, LeaseLostError) and fold.sequence:
            self._upkeep.unrecorded[task_id] = attempt
        elif fold.state in INTERRUPTED:
            # It will be continued: the next turn need not read its log again.
            self._warm.keep(attempt.live)
        else:
            self._warm.forget(task_id)

    # -- reading ---------------------------------------------------------------------------------------------------------

    async def get(self, task_id: str, principal: str) -> TaskFold:
        """The current reading of a task.

        Raises:
            TaskNotFoundError: Unknown, or not the caller's.
        """
        attempt = await self._confirmed(task_id)
        if attempt is not None and attempt.live.fold.sequence:
            await attempt.live.at_rest()
            if attempt.live.fold.principal != principal:
                raise _not_found(task_id)
            return attempt.live.fold
        return (await self._known(task_id, principal)).fold

    async def head(self, task_id: str, principal: str) -> TaskHead:
        """What is known about a task without reading its log. Raises TaskNotFoundError as `get`."""
        head = await self.store.head(task_id)
        if head is None or head.principal != principal or head.agent_name != self.agent_name:
            raise _not_found(task_id)
        return head

    async def find(self, query: TaskQuery) -> TaskPage:
        """One page of the heads of the principal's tasks, last changed first."""
        return await self.store.find(query)

    async def _known(self, task_id: str, principal: str) -> LiveTask:
        return await self._load(await self.head(task_id, principal))

    async def _load(self, head: TaskHead) -> LiveTask:
        warm = self._warm.get(head.task_id)
        if warm is not None:
            if warm.fold.sequence != head.sequence or warm.epoch != head.epoch:
                await warm.refresh()
            return warm
        return await LiveTask.load(head, store=self.store, clock=self._clock)

    # -- watching --------------------------------------------------------------------------------------------------------

    async def stream(
        self, submission: Submission, principal: str, *, deltas: bool = False, positions: bool = False
    ) -> AsyncGenerator[list[bytes], None]:
        """Start or continue a task and show the events of its turn, framed, until it is settled. Raises as `submit`.

        Args:
            positions: As in `watch`.
        """
        turn = await self.submit(submission, principal, waits=True)
        end = await self._end_of(turn) if positions else None
        events = self._watching.events(turn.task_id, turn.after_sequence, StopAt.INTERRUPTED, deltas=deltas, head=end)
        with self._reading():
            async with aclosing(events):
                async for frames in events:
                    yield frames

    async def _end_of(self, turn: Turn) -> int:
        """Sequence of the last event in the log of a turn's task."""
        if turn.attempt is not None:
            return turn.attempt.live.fold.sequence
        head = await self.store.head(turn.task_id)
        return turn.after_sequence if head is None else head.sequence

    async def watch(
        self,
        task_id: str,
        principal: str,
        *,
        after: int = 0,
        stop_at: StopAt = StopAt.TERMINAL,
        deltas: bool = False,
        positions: bool = False,
    ) -> AsyncGenerator[list[bytes], None]:
        """Events after a position, framed, ascending without gaps: first what is stored, then what comes.

        Args:
            deltas: Show live text too: that of the calls under way so far, then what comes. Only runs of this process have any.
            positions: End a batch with the frame of a WatchPosition, where watch.proto asks for one.

        Yields:
            Batches, shape [k], 1 <= k <= `Limits.batch_events`, then the frame of a position. An event is shown only after its
            commit. Delta frames come in batches of their own, and so does a position with no events.

        Raises:
            InvalidArgumentError: `after` is negative.
            TaskNotFoundError: Unknown, or not the caller's.
            SequenceOutOfRangeError: `after` lies behind the end of this log.
        """
        if after < 0:
            raise InvalidArgumentError("must not be negative", field="after_sequence")
        head = await self.head(task_id, principal)
        if after > head.sequence:
            raise SequenceOutOfRangeError(
                f"after_sequence {after} is not in the log of task {task_id}, which ends with {head.sequence}",
                after_sequence=str(after),
                last_sequence=str(head.sequence),
            )
        if after == head.sequence and head.state in TERMINAL and not positions:
            return
        end = head.sequence if positions else None
        events = self._watching.events(task_id, after, stop_at, deltas=deltas, head=end)
        with self._reading():
            async with aclosing(events):
                async for frames in events:
                    yield frames

    # -- steering --------------------------------------------------------------------------------------------------------

    async def cancel(
        self, task_id: str, principal: str, *, reason: str = "", metadata: dict[str, Any] | None = None
    ) -> TaskFold:
        """Record the wish, interrupt the run, and return the task once it has ended, or as it is after `cancel_wait_s`.

        Raises:
            TaskNotFoundError: Unknown, or not the caller's.
            TaskNotCancelableError: It has ended otherwise.
        """
        attempt = self._attempts.get(task_id)
        if attempt is not None:
            # What is being appended may be the end of the run: the wish is for what comes after.
            await attempt.live.at_rest()
            attempt = self._attempts.get(task_id)
        if attempt is not None and not attempt.live.fold.sequence:
            attempt = None  # nobody was told yet that there is such a task
        wish = CancelRequested(reason, principal, metadata or {})
        try:
            return await self._cancel(task_id, principal, wish, attempt)
        except LeaseLostError:
            # Another process took the task between our look and our append; the wish is for whoever has it now.
            return await self._cancel(task_id, principal, wish, None)

    async def _cancel(self, task_id: str, principal: str, wish: CancelRequested, attempt: Attempt | None) -> TaskFold:
        live = attempt.live if attempt is not None else await self._known(task_id, principal)
        fold = live.fold
        if fold.principal != principal:
            raise _not_found(task_id)
        if fold.state is TaskState.CANCELED:
            return fold
        elsewhere = attempt is None and fold.state not in INTERRUPTED and live.worker != self.store.worker
        try:
            if attempt is not None or elsewhere:
                await live.record([wish])
            else:
                await live.record([wish, canceled(fold.state, wish)])
        except InvalidTransitionError:
            if live.fold.state is TaskState.CANCELED:
                return fold
            raise TaskNotCancelableError(
                f"task {task_id} is {fold.state}", task_id=task_id, state=str(fold.state)
            ) from None
        if attempt is not None:
            attempt.cancel(wish.reason)
            await attempt.ended.wait_quietly(self.limits.cancel_wait_s)
        elif elsewhere:
            fold = await self._canceled_elsewhere(live)
        else:
            self._warm.forget(task_id)
        return fold

    async def _canceled_elsewhere(self, live: LiveTask) -> TaskFold:
        """The process that runs the task hears of the wish through the store."""
        turn = Turn(live.fold.task_id, live.fold.sequence)
        try:
            async with asyncio.timeout(self.limits.cancel_wait_s):
                return await self.settled(turn)
        except TimeoutError:
            await live.refresh()
            return live.fold

    async def _live_of(self, task_id: str) -> LiveTask:
        attempt = await self._confirmed(task_id)
        if attempt is not None and attempt.live.fold.sequence:
            return attempt.live
        head = await self.store.head(task_id)
        if head is None:
            raise _not_found(task_id)
        return await self._load(head)

    # -- approvals -------------------------------------------------------------------------------------------------------

    async def approvals(self, principal: str, query: ApprovalQuery | None = None) -> ApprovalPage:
        """One page of the approvals that the principal may answer or has asked for, oldest first; without a query, all of them.

        Secrets are struck out. The query's agent and principal mean nothing here.
        """
        return await self._desk.page(principal, query or ApprovalQuery())

    async def watch_approvals(
        self, principal: str, task_id: str = "", *, after_revision: int = 0
    ) -> AsyncGenerator[ApprovalChanges, None]:
        """What `approvals` would show, of one task or of all, as it changes: first what waits, then what is asked for and answered.

        Args:
            after_revision: Where an earlier watch ended; what has changed since then takes the place of what waits.

        Yields:
            Batches with positions, by the rules of watch.proto. An approval that changes twice at once may be shown only as it is
            in the end.

        Raises:
            InvalidArgumentError: `after_revision` is negative.
        """
        with self._reading():
            async with aclosing(self._desk.watch(principal, task_id, after_revision)) as batches:
                async for batch in batches:
                    yield batch

    async def question(self, approval_id: str) -> ApprovalRequest | None:
        """What an approval of this agent asks, as it was asked; None for an unknown one. For edges that know who may see it."""
        return await self._desk.question(approval_id)

    async def respond(
        self, decision: ApprovalDecision, principal: str, request_id: str = "", *, any_etag: bool = False
    ) -> tuple[Approval, bool]:
        """Answer an approval, wherever its run waits.

        Who decided, and when, is set here.

        Args:
            decision: One that approves has the approval's etag as its fingerprint.
            request_id: When the principal gives the same answer under it again, the first one counts.
            any_etag: An approval without an etag counts, too: it came over a protocol that has none.

        Returns:
            The approval as it is then, and whether it had been decided before: then nothing was changed.

        Raises:
            ApprovalNotFoundError: There is none, or not for this principal's eyes.
            PermissionDeniedError: It is not this principal's to answer.
            ApprovalChangedError: The etag is that of something else.
            InvalidArgumentError: It approves without an etag; the arguments must not be edited, or not so; the request id brought
                another answer to this approval.
            UnimplementedError: The agent takes no answers from outside.
            StoreError: The store refused; nothing was recorded.
        """
        return await self._desk.respond(decision, principal, request_id, any_etag=any_etag)

    def _look_at(self, task_id: str) -> None:
        """Another process appended to a task that runs here: it may be a wish to cancel."""
        attempt = self._attempts.get(task_id)
        if attempt is not None:
            attempt.heed()


UNBEGUN = frozenset({TaskState.SUBMITTED})
"""States of tasks without a worker that every start begins; one that resumes goes on with those that are working, too."""


def _not_found(task_id: str) -> TaskNotFoundError:
    return TaskNotFoundError(f"task {task_id} not found", task_id=task_id)
