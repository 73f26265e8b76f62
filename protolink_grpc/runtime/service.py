"""The operations on tasks. Every transport (gRPC, HTTP, in process) calls these methods.

A TaskService owns the tasks of one agent in one process. `send` starts a run and waits for its end, `stream` starts a run and
watches the log, `watch` only watches. A service is used from one event loop.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
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
from protolink_grpc.models.clock import Clock, SystemClock, micros_from_iso
from protolink_grpc.models.events import CancelRequested
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_task_id
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState
from protolink_grpc.models.redaction import DEFAULT_REDACTION_POLICY, RedactionPolicy
from protolink_grpc.models.task_target import TaskTarget, finished_error
from protolink_grpc.models.watch import ApprovalChanges, StopAt
from protolink_grpc.net import loop_watchdog
from protolink_grpc.net.loop_watchdog import LoopWatchdog
from protolink_grpc.net.tracing import parse_waiting_run, waiting_run_prefix, waiting_runs
from protolink_grpc.reports.run_saver import RunSaver
from protolink_grpc.runtime.actions.approvals import ApprovalPage, Approvals, ApprovalService, CheckEdit
from protolink_grpc.runtime.admission import Limits, Recovery, Submission, refuse_cycle
from protolink_grpc.runtime.facts import canceled_status
from protolink_grpc.runtime.live_text import LiveTexts
from protolink_grpc.runtime.log import AppendObserver, Fact, LiveTask, WarmTasks
from protolink_grpc.runtime.recovery import OrphanRecovery, this_worker
from protolink_grpc.runtime.run import Controls, Handler, Run, RunHost
from protolink_grpc.runtime.slots import RunSlots, Ticket
from protolink_grpc.runtime.watch import LogWatcher
from protolink_grpc.storage.approvals import ApprovalQuery, ApprovalRow
from protolink_grpc.storage.port import ForeignListener, TaskHead, TaskPage, TaskQuery, TaskStore
from protolink_grpc.storage.records import Page
from protolink_grpc.storage.webhooks import WebhookRows

log = get_logger(__name__)


@dataclass(slots=True)
class Turn:
    """An accepted request: its task, the last sequence of the log before it, and its run if that is in this process."""

    task_id: str
    after_sequence: int
    run: Run | None = None


class TaskService:
    """The tasks of one agent.

    Args:
        agent_name: Agent that owns the tasks. A store may hold tasks of several agents.
        handler: Called with each task to work on.
        recovery: What to do with the runs of a dead process.
        controls: Settings that apply to all runs of the agent.
        replayable: The handler can start again without repeating its work, because all of its work is in the log.
        approvals: Settings for remote answers to approvals. None lists approvals but refuses answers.
        redaction: Policy for secrets in approvals that are shown.
        check_edit: Validates the edited arguments of an answer. None accepts every edit that the policy allows.
        run_saver: Called for each run that has ended in this process.
        observers: Called with each append of this process to a log, after its commit.
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
        observers: Sequence[AppendObserver] = (),
        clock: Clock | None = None,
    ) -> None:
        self.agent_name = agent_name
        self.store = store
        self.limits = limits or Limits()
        self.observers = tuple(observers)
        self._run_saver = run_saver
        self._clock = clock or SystemClock()
        bounds = self.limits
        self._slots = RunSlots(
            running=bounds.max_concurrency,
            waiting=bounds.max_queue,
            max_bytes=bounds.max_task_bytes,
            principal_share=bounds.principal_share,
        )
        self._runs: dict[str, Run] = {}
        self._by_run: dict[str, Run] = {}
        self._texts = LiveTexts(
            bounds.delta_interval_s, max_bytes=bounds.max_live_text_bytes, principal_share=bounds.principal_share
        )
        self._requests: dict[tuple[str, str], asyncio.Future[Turn]] = {}
        self._warm = WarmTasks(bounds.warm_tasks, bounds.warm_bytes, bounds.principal_share)
        self._listener = ForeignListener(lambda: list(self._runs), self._look_at)
        resumes = recovery == "resume" or (recovery == "auto" and replayable)
        self._upkeep = OrphanRecovery(self, resumes, self._clock, self._resume)
        self._keeper: asyncio.Task[None] | None = None
        self._watchdog: LoopWatchdog | None = None
        self._accepting = False
        self._stopped = False
        self._left: list[str] = []
        # Tasks in these states are not ended at a stop: the next start continues them.
        resumable = (UNBEGUN | {TaskState.WORKING} if resumes else UNBEGUN) if store.durable else frozenset[TaskState]()
        self._host = RunHost(
            handler,
            self._slots,
            controls or Controls(),
            self._texts,
            resumable,
            waiting_run_prefix(agent_name),
            this_worker(),
            self._retire,
        )
        self._starting = asyncio.Lock()
        self._watching = LogWatcher(
            agent_name,
            store,
            self._texts,
            self.limits.batch_events,
            runs_here=self._runs.__contains__,
            is_stopped=lambda: self._stopped,
        )
        self.webhooks = WebhookRows(agent_name, store)
        self._desk = ApprovalService(
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
        """Open the store, recover the tasks of dead processes and begin to accept requests.

        Raises:
            StoreError: The store cannot be opened.
        """
        async with self._starting:
            if self._accepting:
                return
            await self.store.open()
            self.store.listeners.append(self._listener)
            if self.limits.blocked_loop_s > 0:  # before recovery: a recovered run may block the loop at once
                self._watchdog = loop_watchdog.watch(self.limits.blocked_loop_s)
            try:
                await self._upkeep.heartbeat()
                self._accepting, self._stopped = True, False
                await self._upkeep.recover()
            except BaseException:
                # A service that failed to start must release the store and accept nothing.
                self._accepting, self._stopped = False, True
                self.store.listeners.remove(self._listener)
                self._unwatch()
                await self.store.close()
                raise
            self._keeper = asyncio.get_running_loop().create_task(self._upkeep.run())

    @property
    def is_accepting(self) -> bool:
        """True between `start` and `stop`."""
        return self._accepting

    async def stop(self, grace_s: float = 5.0) -> None:
        """Refuse new work, wait `grace_s` seconds for runs to finish, end the remaining runs and close the store.

        The remaining runs are recorded as lost. In a durable store, tasks that the next start would begin or resume stay
        unchanged.
        """
        self._accepting = False
        for run in list(self._runs.values()):
            if run.is_resting:
                run.abandon()
        if self._runs and grace_s > 0:
            await self._all_ended(grace_s)
        for run in list(self._runs.values()):
            run.abandon()
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
            # Readers that have just checked `is_stopped` begin to wait in the next iterations of the loop. `close` wakes them.
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
        waits = [run.wait_ended(timeout_s) for run in self._runs.values()]
        await asyncio.gather(*waits)

    @property
    def active_task_ids(self) -> list[str]:
        """Ids of tasks that run or wait for a slot in this process and are already in the store, so they can be canceled."""
        return [task_id for task_id, run in self._runs.items() if run.live.fold.sequence]

    @property
    def load(self) -> tuple[int, int]:
        """Number of runs that hold a slot, and number of runs that wait for one."""
        return self._slots.busy, self._slots.queued

    def run_of(self, task_id: str) -> Run | None:
        """Return the run of a task in this process, or None."""
        return self._runs.get(task_id)

    def owner_of_run(self, task_id: str) -> str | None:
        """Return the principal of a task's run in this process, or None if the task does not run here."""
        run = self._runs.get(task_id)
        return None if run is None else run.principal

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
        """Wait for the end of a turn, in whatever process it runs."""
        run = turn.run
        if run is not None:
            await run.wait_ended()
            if run.failure is not None:
                raise run.failure
            if run.live.fold.is_settled:
                return run.live.fold
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
        """Convert a StoreError into UnavailableError if the service was stopped, and its store closed, during a wait for events."""
        try:
            yield
        except StoreError:
            if self._stopped:
                raise UnavailableError(f"agent {self.agent_name} was stopped", agent=self.agent_name) from None
            raise

    async def submit(self, submission: Submission, principal: str, *, waits: bool = False) -> Turn:
        """Accept a request and return after it is committed to the log.

        Args:
            waits: The caller is going to wait for the end of the turn.

        Raises:
            DelegationCycleError: This agent has already handled the delegated work. Or a run of this agent waits for the new run
                while such waiting runs hold every slot, which would be a deadlock.
            InvalidArgumentError: The submission is empty or contradicts itself, or its task is already terminal.
            TaskNotFoundError: The task to continue is unknown, or belongs to another principal.
            TaskAlreadyExistsError: The id of the task to create is taken, by this or another principal.
            SequenceConflictError: The log of the task to continue does not end with the expected sequence.
            TaskFinishedError: The task to continue is terminal.
            TaskAlreadyRunningError: The task to continue is already being worked on.
            ResourceExhaustedError: The new run or its bytes would exceed a bound of `Limits`.
            UnavailableError: The service is stopping.
            StoreError: The store failed; nothing was accepted.
        """
        submission.waiting_runs = waiting_runs() if waits else ()
        return await self._submit(submission, principal)

    async def _submit(self, submission: Submission, principal: str, *, to_end: bool = False) -> Turn:
        """Accept a request as `submit` does. With `to_end`, return after the end of the run: one wait instead of two."""
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
                # The first caller disconnected before the request was accepted; this call takes its place.
        # Repetitions that arrive while the first request is being accepted share its result. Later ones find it in the store.
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
        # From here on the request is in the store.
        del self._requests[key]
        return turn

    async def _accept(self, submission: Submission, principal: str, *, to_end: bool = False) -> Turn:
        submission.check_target()
        if submission.target is TaskTarget.CONTINUE:
            return await self._continue(submission, principal)
        task_id = submission.task_id or new_task_id()
        warm = self._warm.get(task_id) if submission.task_id else None
        if task_id in self._runs or warm is not None:
            return await self._continue(submission, principal)
        if submission.state in TERMINAL and not await self._knows(submission, principal):
            raise finished_error(submission.state)
        if not submission.messages and not submission.artifacts:
            raise InvalidArgumentError("a new task needs a message", field="input.messages")
        submission.check_sequence(task_id, 0)
        live = LiveTask(
            task_id, agent_name=self.agent_name, store=self.store, clock=self._clock, observers=self.observers
        )
        live.fold.principal = principal
        live.fold.agent_name = self.agent_name
        live.fold.session_id = submission.session_id or task_id
        if submission.context is not None:
            refuse_cycle(submission.context, self.agent_name)
        submission.known_as(principal)
        opening = submission.opening(task_id, principal)
        live.fold.create_micros = micros_from_iso(opening.task.created_at, field="input.create_time")
        try:
            return await self._opened(self._begin(live, [opening], principal, submission), to_end=to_end)
        except SequenceConflictError:
            # A task with this id already exists: continue it.
            return await self._continue(submission, principal)

    async def _knows(self, submission: Submission, principal: str) -> bool:
        """Return whether the store has this request, or a task with this id: then the log decides the response."""
        if submission.request_id and await self.store.request(self.agent_name, principal, submission.request_id):
            return True
        return bool(submission.task_id) and await self.store.head(submission.task_id) is not None

    async def _continue(self, submission: Submission, principal: str) -> Turn:
        task_id, creates = submission.task_id, submission.target is TaskTarget.CREATE
        # A CREATE is refused in the same way whether the existing task belongs to this principal or to another.
        run = self._runs.get(task_id) if creates else self._under_way(task_id, principal)
        if run is not None:
            # The run may belong to this same request, if its first caller disconnected before the commit.
            await run.wait_decided()
            error = run.refusal
            if error is not None and not isinstance(error, (SequenceConflictError, LeaseLostError)):
                if isinstance(error, (StoreError, UnavailableError)):
                    raise error  # a failed store does not mean that the task does not exist
                if submission.target is not TaskTarget.CONTINUE:
                    return await self._accept(submission, principal)  # the other request was refused; this one may pass
            # The caller may have received the last event before the run itself has ended.
            await run.live.at_rest()
            await self._confirmed(task_id)
            run = self._under_way(task_id, principal)
        if creates:
            return await self._first_turn(submission, principal)
        live = run.live if run is not None else await self._known(task_id, principal)
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
        # A run may exist that has not written its first event yet.
        if fold.state not in INTERRUPTED or self._under_way(task_id, principal) is not None:
            raise TaskAlreadyRunningError(
                f"task {task_id} is {fold.state}; wait for it or cancel it", task_id=task_id, state=str(fold.state)
            )
        facts = submission.additions(fold)
        try:
            run = self._begin(live, facts, principal, submission, cause="continued", scopes=submission.scopes)
            return await self._opened(run)
        except SequenceConflictError:
            # Another process may have appended a repetition of this request at the same time.
            if submission.request_id and (turn := await self.turn_of(submission.request_id, principal)) is not None:
                return turn
            raise
        except LeaseLostError:
            raise TaskAlreadyRunningError(
                f"task {task_id} is being continued by another process", task_id=task_id, state=str(fold.state)
            ) from None

    async def _first_turn(self, submission: Submission, principal: str) -> Turn:
        """Return the turn that this request has already begun on the existing task, else raise TaskAlreadyExistsError."""
        if submission.request_id and (turn := await self.turn_of(submission.request_id, principal)) is not None:
            return turn
        raise TaskAlreadyExistsError(
            f"there is a task {submission.task_id} already; continue it, or choose another id",
            task_id=submission.task_id,
        )

    async def turn_of(self, request_id: str, principal: str) -> Turn | None:
        """Return the turn that began with a request, or None if the store has no such request. Raises StoreError."""
        record = await self.store.request(self.agent_name, principal, request_id)
        if record is None:
            return None
        return Turn(record.task_id, record.after_sequence, self._runs.get(record.task_id))

    def _under_way(self, task_id: str, principal: str) -> Run | None:
        """Return the task's run in this process if it is visible to the principal.

        Another principal may open a run under the same id, which the store is about to refuse. It must not hide the
        principal's own task.
        """
        run = self._runs.get(task_id)
        if run is None or run.is_taken:
            return None
        if not run.live.fold.sequence and run.live.fold.principal != principal:
            return None
        return run

    async def _confirmed(self, task_id: str) -> Run | None:
        """Return the task's run in this process; None if there is none, or if another process has taken the task.

        While the lease is held the store is not read.

        Raises:
            StoreError: The store cannot be read.
        """
        run = self._runs.get(task_id)
        if run is None or not run.live.fold.sequence:
            return run
        if not self._upkeep.lease.is_held():
            await run.confirm()
        return None if run.is_taken else run

    async def confirm_runs(self) -> None:
        """End the runs whose tasks other processes have taken. Raises StoreError if the store cannot be read."""
        found = [self._confirmed(task_id) for task_id in self._runs]
        for outcome in await asyncio.gather(*found, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _resume(self, live: LiveTask, cause: str) -> Run:
        fold = live.fold
        # A run that was accepted but never began has done nothing: the new run takes its id.
        run_id = "" if fold.attempt else fold.run_id
        return self._begin(live, [], fold.principal, cause=cause, run_id=run_id)

    def _admit(self, live: LiveTask, principal: str, submission: Submission | None) -> Ticket:
        """Return a ticket for another run of a task. Raises as `RunSlots.admit`."""
        if submission is None:
            # A recovered run was admitted before. It queues like others but is not refused.
            return self._slots.join(principal, live.size)
        callers: tuple[Ticket, ...] = ()
        chain = ""
        if submission.waiting_runs:
            callers = self._tickets_of(submission.waiting_runs)
            names = [parse_waiting_run(each)[0] for each in submission.waiting_runs]
            chain = " > ".join([*names, self.agent_name])
        return self._slots.admit(principal, live.size + submission.size, callers, chain)

    def _tickets_of(self, entries: tuple[str, ...]) -> tuple[Ticket, ...]:
        """Return the tickets of the listed runs that are in this process, and of the runs that wait for those."""
        found: dict[Ticket, None] = {}
        for entry in entries:
            run = self._by_run.get(parse_waiting_run(entry)[1])
            if run is not None:
                found |= dict.fromkeys((run.ticket, *run.ticket.callers))
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
    ) -> Run:
        run = Run(
            live,
            opening,
            self._host,
            self._admit(live, principal, submission),
            principal=principal,
            run_id=run_id if submission is None else submission.run_id_for(live.fold),
            request_id=submission.request_id if submission is not None else "",
            expected_sequence=submission.expected_sequence if submission is not None else 0,
            cause=cause,
            scopes=scopes,
            waiting_runs=submission.waiting_runs if submission is not None else (),
        )
        self._runs[live.fold.task_id] = run
        self._by_run[run.run_id] = run
        run.start()
        return run

    async def _opened(self, run: Run, *, to_end: bool = False) -> Turn:
        after = run.live.fold.sequence
        if to_end:
            await run.wait_ended()
        record = await run.wait_accepted()
        if record is not None:
            return Turn(record.task_id, record.after_sequence, self._runs.get(record.task_id))
        return Turn(run.live.fold.task_id, after, run)

    def _retire(self, run: Run) -> None:
        error, fold = run.failure, run.live.fold
        task_id = fold.task_id
        if self._by_run.get(run.run_id) is run:  # callers may give two tasks one run id
            del self._by_run[run.run_id]
        if self._runs.get(task_id) is run:
            del self._runs[task_id]
            self._texts.drop(task_id)
        run.texts = None
        if run.is_left:
            self._left.append(task_id)
            return
        if self._run_saver is not None and fold.is_settled and fold.run_id == run.run_id:
            self._run_saver.run_ended(task_id, fold.run_id)
        unrecorded = isinstance(error, StoreError) or (error is not None and not fold.is_settled)
        if unrecorded and not isinstance(error, LeaseLostError) and fold.sequence:
            self._upkeep.unrecorded[task_id] = run
        elif fold.state in INTERRUPTED:
            # The task will be continued: the next turn need not read its log again.
            self._warm.keep(run.live)
        else:
            self._warm.forget(task_id)

    # -- reading ---------------------------------------------------------------------------------------------------------

    async def get(self, task_id: str, principal: str) -> TaskFold:
        """Return the current state of a task.

        Raises:
            TaskNotFoundError: The task is unknown, or belongs to another principal.
        """
        run = await self._confirmed(task_id)
        if run is not None and run.live.fold.sequence:
            await run.live.at_rest()
            if run.live.fold.principal != principal:
                raise _not_found(task_id)
            return run.live.fold
        return (await self._known(task_id, principal)).fold

    async def head(self, task_id: str, principal: str) -> TaskHead:
        """Return the head of a task, without reading its log. Raises TaskNotFoundError as `get`."""
        head = await self.store.head(task_id)
        if head is None or head.principal != principal or head.agent_name != self.agent_name:
            raise _not_found(task_id)
        return head

    async def find(self, query: TaskQuery) -> TaskPage:
        """Return one page of the heads of the principal's tasks, last changed first."""
        return await self.store.find(query)

    async def read_log(self, task_id: str, after: int, limit: int) -> list[bytes]:
        """Return framed events of a task, as `LogStore.read`. The caller has already checked the task's owner."""
        return await self.store.read(task_id, after, limit)

    async def last_sequence(self, task_id: str) -> int:
        """Return the sequence of a task's last event, 0 for an unknown task. The caller has already checked the task's owner."""
        head = await self.store.head(task_id)
        return 0 if head is None else head.sequence

    async def _known(self, task_id: str, principal: str) -> LiveTask:
        return await self._load(await self.head(task_id, principal))

    async def _load(self, head: TaskHead) -> LiveTask:
        warm = self._warm.get(head.task_id)
        if warm is not None:
            if warm.fold.sequence != head.sequence or warm.epoch != head.epoch:
                await warm.refresh()
            return warm
        return await LiveTask.load(head, store=self.store, clock=self._clock, observers=self.observers)

    # -- watching --------------------------------------------------------------------------------------------------------

    async def stream(
        self, submission: Submission, principal: str, *, deltas: bool = False, positions: bool = False
    ) -> AsyncGenerator[list[bytes], None]:
        """Start or continue a task and yield the framed events of its turn until it is settled. Raises as `submit`.

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
        """Return the sequence of the last event of the turn's task."""
        if turn.run is not None:
            return turn.run.live.fold.sequence
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
        """Yield framed events after a position, ascending without gaps: first the stored events, then new ones.

        Args:
            deltas: Yield live text too: first the text so far of unfinished model calls, then new text. Only runs of this
                process have live text.
            positions: End a batch with the frame of a WatchPosition where watch.proto requires one.

        Yields:
            Batches, shape [k], 1 <= k <= `Limits.batch_events`, then the frame of a position. An event is yielded only after
            its commit. Delta frames come in separate batches, and so does a position without events.

        Raises:
            InvalidArgumentError: `after` is negative.
            TaskNotFoundError: The task is unknown, or belongs to another principal.
            SequenceOutOfRangeError: `after` is greater than the last sequence of the log.
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
        """Record the cancellation, interrupt the run, and return the task after its end, or its state after `cancel_wait_s`.

        Raises:
            TaskNotFoundError: The task is unknown, or belongs to another principal.
            TaskNotCancelableError: The task has already ended in another state than canceled.
        """
        run = self._runs.get(task_id)
        if run is not None:
            # The append in progress may be the end of the run: wait for it, then look at the run again.
            await run.live.at_rest()
            run = self._runs.get(task_id)
        if run is not None and not run.live.fold.sequence:
            run = None  # the task is not in the log yet
        cancellation = CancelRequested(reason, principal, metadata or {})
        try:
            return await self._cancel(task_id, principal, cancellation, run)
        except LeaseLostError:
            # Another process took the task between the read and the append: record the cancellation for that process.
            return await self._cancel(task_id, principal, cancellation, None)

    async def _cancel(self, task_id: str, principal: str, cancellation: CancelRequested, run: Run | None) -> TaskFold:
        live = run.live if run is not None else await self._known(task_id, principal)
        fold = live.fold
        if fold.principal != principal:
            raise _not_found(task_id)
        if fold.state is TaskState.CANCELED:
            return fold
        elsewhere = run is None and fold.state not in INTERRUPTED and live.worker != self.store.worker
        try:
            if run is not None or elsewhere:
                await live.record([cancellation])
            else:
                await live.record([cancellation, canceled_status(fold.state, cancellation)])
        except InvalidTransitionError:
            if live.fold.state is TaskState.CANCELED:
                return fold
            raise TaskNotCancelableError(
                f"task {task_id} is {fold.state}", task_id=task_id, state=str(fold.state)
            ) from None
        if run is not None:
            run.cancel(cancellation.reason)
            await run.wait_ended(self.limits.cancel_wait_s)
        elif elsewhere:
            fold = await self._canceled_elsewhere(live)
        else:
            self._warm.forget(task_id)
        return fold

    async def _canceled_elsewhere(self, live: LiveTask) -> TaskFold:
        """Wait until the process that runs the task has read the cancellation from the store and ended the task."""
        turn = Turn(live.fold.task_id, live.fold.sequence)
        try:
            async with asyncio.timeout(self.limits.cancel_wait_s):
                return await self.settled(turn)
        except TimeoutError:
            await live.refresh()
            return live.fold

    async def _live_of(self, task_id: str) -> LiveTask:
        run = await self._confirmed(task_id)
        if run is not None and run.live.fold.sequence:
            return run.live
        head = await self.store.head(task_id)
        if head is None:
            raise _not_found(task_id)
        return await self._load(head)

    # -- approvals -------------------------------------------------------------------------------------------------------

    async def approvals(self, principal: str, query: ApprovalQuery | None = None) -> ApprovalPage:
        """Return one page of the approvals that the principal may answer or whose task it owns, oldest first.

        Without a query no approval is filtered out. Secrets are redacted. The query's agent and principal are ignored.
        """
        return await self._desk.page(principal, query or ApprovalQuery())

    async def approval_rows(self, query: ApprovalQuery) -> Page[ApprovalRow]:
        """Return one page of approval rows: their states, without the requests. The query names the owner."""
        return await self._desk.find(query)

    async def watch_approvals(
        self, principal: str, task_id: str = "", *, after_revision: int = 0
    ) -> AsyncGenerator[ApprovalChanges, None]:
        """Yield the approvals of one task, or of all: first the pending ones, then each that is requested or answered.

        Args:
            after_revision: Revision at which an earlier watch ended. The changes since then replace the list of pending ones.

        Yields:
            Batches with positions, by the rules of watch.proto. If an approval changes twice quickly, only its last state may
            be yielded.

        Raises:
            InvalidArgumentError: `after_revision` is negative.
        """
        with self._reading():
            async with aclosing(self._desk.watch(principal, task_id, after_revision)) as batches:
                async for batch in batches:
                    yield batch

    async def question(self, approval_id: str) -> ApprovalRequest | None:
        """Return the request of an approval, unredacted; None for an unknown one. The caller has checked who may see it."""
        return await self._desk.question(approval_id)

    async def respond(
        self, decision: ApprovalDecision, principal: str, request_id: str = "", *, any_etag: bool = False
    ) -> tuple[Approval, bool]:
        """Answer an approval, in whatever process its run waits.

        `decided_by` and `decided_at` are set here.

        Args:
            decision: If it approves, its fingerprint must be the etag of the approval.
            request_id: Idempotency key. A repetition of the same answer with the same id returns the first result.
            any_etag: Accept a decision without an etag, for a protocol that has none.

        Returns:
            The approval after the call, and whether it had already been decided, in which case nothing was changed.

        Raises:
            ApprovalNotFoundError: The approval does not exist, or is not visible to the principal.
            PermissionDeniedError: The principal may see the approval but not answer it.
            ApprovalChangedError: The etag belongs to another action.
            InvalidArgumentError: The decision approves without an etag; or the arguments may not be edited, or are invalid; or
                the request id was used for another answer to this approval.
            UnimplementedError: The agent accepts no remote answers.
            StoreError: The store failed; nothing was recorded.
        """
        return await self._desk.respond(decision, principal, request_id, any_etag=any_etag)

    def _look_at(self, task_id: str) -> None:
        """Handle an append by another process to a task that runs here: it may be a cancellation."""
        run = self._runs.get(task_id)
        if run is not None:
            run.notice_foreign_append()


UNBEGUN = frozenset({TaskState.SUBMITTED})
"""States of tasks without a worker that every start recovers; a service that resumes recovers WORKING as well."""


def _not_found(task_id: str) -> TaskNotFoundError:
    return TaskNotFoundError(f"task {task_id} not found", task_id=task_id)
