"""The operations on tasks. Every transport (gRPC, HTTP, in process) calls these methods.

A TaskService owns the tasks of one agent in one process. `send` starts a run and waits for its end, `stream` starts a run and
watches the log, `watch` only watches. A service is used from one event loop.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from protolink_grpc.errors import (
    InvalidArgumentError,
    InvalidTransitionError,
    LeaseLostError,
    StoreError,
    TaskNotCancelableError,
)
from protolink_grpc.logs import get_logger
from protolink_grpc.models.cancellation import CancellationToken
from protolink_grpc.models.clock import Clock, SystemClock
from protolink_grpc.models.events import CancelRequested, PeerTaskLinked
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState
from protolink_grpc.models.redaction import DEFAULT_REDACTION_POLICY, RedactionPolicy
from protolink_grpc.models.watch import StopAt
from protolink_grpc.net import loop_watchdog
from protolink_grpc.net.loop_watchdog import LoopWatchdog
from protolink_grpc.net.tracing import caller_trace, waiting_runs
from protolink_grpc.reports.run_saver import RunSaver
from protolink_grpc.runtime.actions.approvals import Approvals, ApprovalService, CheckEdit
from protolink_grpc.runtime.admission import AcceptedTurn, Admission
from protolink_grpc.runtime.controls import Controls
from protolink_grpc.runtime.delegations import Delegations
from protolink_grpc.runtime.facts import canceled_status
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.live_text import LiveTexts
from protolink_grpc.runtime.log import AppendObserver, AppendObservers, LiveTask
from protolink_grpc.runtime.recovery import Lease, OrphanRecovery, Recovery, resumption, this_worker
from protolink_grpc.runtime.run import Handler, Run, RunActions, RunHost
from protolink_grpc.runtime.sessions import SessionService
from protolink_grpc.runtime.slots import RunSlots
from protolink_grpc.runtime.snapshots import Inventory, SnapshotService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.runtime.task_control import TaskControl
from protolink_grpc.runtime.task_snapshots import TaskSnapshots
from protolink_grpc.runtime.tasks import Tasks, WarmTasks, not_found_error
from protolink_grpc.runtime.watch import LogWatcher, ReadStart, check_position
from protolink_grpc.storage.port import HELD, ForeignListener, TaskHead, TaskPage, TaskQuery, TaskStore
from protolink_grpc.storage.webhooks import WebhookRows

log = get_logger(__name__)

READERS_WAIT_S = 2.0
"""How long a stop waits for readers that have not read all events yet, in seconds."""


@dataclass(frozen=True, slots=True)
class ServiceGauges:
    """The current numbers of a service, for metrics.

    Args:
        running, queued, waiting: Runs that hold a slot, that wait for one, and that wait for a person without one.
        watchers: Readers of logs, for instance open streams.
        commits, commit_s: Number of commits of the store since it was created, and their time in seconds.
    """

    running: int
    queued: int
    waiting: int
    watchers: int
    commits: int
    commit_s: float


class TaskService:
    """The tasks of one agent.

    Args:
        agent_name: Agent that owns the tasks. A store may hold tasks of several agents.
        handler: Called with each task to work on.
        recovery: What to do with the runs of a dead process.
        controls: Settings that apply to all runs of the agent.
        replayable: Returns whether the handler can start again on a task without repeating its work, because all of that is in the
            log. None means that it never can.
        approvals: Settings for remote answers to approvals. None lists approvals but refuses answers.
        redaction: Policy for secrets in approvals that are shown.
        check_edit: Validates the edited arguments of an answer. None accepts every edit that the policy allows.
        run_saver: Called for each run that has ended in this process.
        observers: Called with each append of this process to a log, after its commit.
        has_spans: The telemetry makes a span of each run and action, so calls to other agents name them as their parents.
        actions: The actions that code of the handler can request of its run.
        inventory: Returns the tools and peers for a principal with these scopes. None: the agent has no tools.
        cancel_delegated: Cancels a task at another agent; see `Delegations`. None: the agent delegates nothing.

    Attributes:
        approvals: Lists, watches and answers the approvals of the tasks.
        sessions: The sessions, and the turns that are submitted to them.
        control: Drafts, links, progress, pauses and retries of single tasks.
        snapshots: Read models of sessions and tasks.
        webhooks: The receivers of the tasks' events.
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
        replayable: Callable[[TaskFold], bool] | None = None,
        approvals: Approvals | None = None,
        redaction: RedactionPolicy = DEFAULT_REDACTION_POLICY,
        check_edit: CheckEdit | None = None,
        run_saver: RunSaver | None = None,
        observers: Sequence[AppendObserver] = (),
        has_spans: bool = False,
        actions: RunActions | None = None,
        inventory: Inventory | None = None,
        cancel_delegated: Callable[[PeerTaskLinked, str], Awaitable[None]] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.agent_name = agent_name
        self.store = store
        self.limits = limits or Limits()
        self._run_saver = run_saver
        bounds, clock = self.limits, clock or SystemClock()
        lease = Lease(bounded=store.shared)
        self._tasks = Tasks(
            agent_name,
            store,
            clock=clock,
            warm=WarmTasks(bounds.warm_tasks, bounds.warm_bytes, bounds.principal_share),
            observers=AppendObservers(observers),
            is_lease_held=lease.is_held,
        )
        self._slots = RunSlots(
            running=bounds.max_concurrency,
            waiting=bounds.max_queue,
            max_bytes=bounds.max_task_bytes,
            principal_share=bounds.principal_share,
        )
        self._texts = LiveTexts(
            bounds.delta_interval_s, max_bytes=bounds.max_live_text_bytes, principal_share=bounds.principal_share
        )
        resumes = resumption(recovery, replayable)
        host = RunHost(
            handler,
            self._slots,
            controls or Controls(),
            self._texts,
            resumes,
            store.durable,
            this_worker(),
            self._retire,
            actions,
            has_spans,
            None if cancel_delegated is None else Delegations(store, cancel_delegated),
        )
        self._admission = Admission(self._tasks, host)
        self.control = TaskControl(self._tasks, self._admission, TaskSnapshots(self._tasks))
        self._recovery_task: asyncio.Task[None] | None = None
        self._listener = ForeignListener(lambda: list(self._tasks.runs), self._notice_foreign_append)
        self._watchdog: LoopWatchdog | None = None
        self._starting = asyncio.Lock()
        self._stopped = False
        self._left: list[str] = []
        self._watching = LogWatcher(
            agent_name,
            store,
            self._texts,
            bounds.batch_events,
            runs_here=self._tasks.runs.__contains__,
            may_be_retried=self._tasks.may_be_retried,
            is_stopped=lambda: self._stopped,
        )
        self.webhooks = WebhookRows(agent_name, store)
        self.sessions = SessionService(self._tasks, self._admission, self._watching, self.cancel, self.watch)
        self._recovery = OrphanRecovery(
            self._tasks,
            self._admission,
            lease,
            delegations=host.delegations,
            repairs=(self.control.links.repair, self.sessions.continue_rollbacks),
            lease_ttl_s=bounds.lease_ttl_s,
            max_resumes_without_progress=bounds.max_resumes_without_progress,
            resumes=resumes,
        )
        self.approvals = ApprovalService(
            agent_name,
            store,
            clock=clock,
            setting=approvals,
            redaction=redaction,
            check_edit=check_edit,
            find_task=self._tasks.find,
            is_stopped=lambda: self._stopped,
        )
        self.snapshots = SnapshotService(
            agent_name,
            store,
            approvals=self.approvals,
            read_task=self.get,
            read_head=self.head,
            describe_tasks=self.control.snapshots.in_brief,
            inventory=inventory,
        )

    # -- life ------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store, recover the tasks of dead processes and begin to accept requests.

        Raises:
            StoreError: The store cannot be opened.
        """
        async with self._starting:
            if self._admission.is_open:
                return
            await self.store.open()
            self.store.listeners.append(self._listener)
            if self.limits.blocked_loop_s > 0:  # before recovery: a recovered run may block the loop at once
                self._watchdog = loop_watchdog.watch(self.limits.blocked_loop_s)
            try:
                await self._recovery.heartbeat()
                self._admission.is_open, self._stopped = True, False
                await self._recovery.recover()
            except BaseException:
                # A service that failed to start must release the store and accept nothing.
                self._admission.is_open, self._stopped = False, True
                self.store.listeners.remove(self._listener)
                self._stop_watchdog()
                await self.store.close()
                raise
            self._recovery_task = asyncio.get_running_loop().create_task(self._recovery.run())

    @property
    def is_accepting(self) -> bool:
        """True between `start` and `stop`."""
        return self._admission.is_open

    async def stop(self, grace_s: float = 5.0) -> None:
        """Refuse new work, wait `grace_s` seconds for runs to finish, end the remaining runs and close the store.

        The remaining runs are recorded as lost. In a durable store, tasks that the next start would begin or resume stay
        unchanged.
        """
        self._admission.is_open = False
        for run in list(self._tasks.runs.values()):
            run.abandon_at_rest()
        if self._tasks.runs and grace_s > 0:
            await self._all_ended(grace_s)
        for run in list(self._tasks.runs.values()):
            run.abandon()
        await self._all_ended(max(grace_s, 1.0))
        self._stop_watchdog()
        if self._recovery_task is not None:
            self._recovery_task.cancel()
            await asyncio.wait([self._recovery_task])
            self._recovery_task = None
        await self._recovery.aclose()
        self.store.listeners.remove(self._listener)
        self._tasks.warm.clear()
        await self._release_left()
        if self._run_saver is not None:
            await self._run_saver.finish(max(grace_s, 1.0))
        await self._watching.finish(min(grace_s, READERS_WAIT_S))
        self._stopped = True
        for _ in range(2):
            # Readers that have just checked `is_stopped` begin to wait in the next iterations of the loop. `close` wakes them.
            await asyncio.sleep(0)
        await self.store.close()

    def _stop_watchdog(self) -> None:
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
        waits = [run.wait_ended(timeout_s) for run in self._tasks.runs.values()]
        await asyncio.gather(*waits)

    @property
    def active_task_ids(self) -> list[str]:
        """Ids of tasks that run or wait for a slot in this process and are already in the store, so they can be canceled."""
        return self._tasks.active_task_ids

    @property
    def load(self) -> tuple[int, int]:
        """Number of runs that hold a slot, and number of runs that wait for one."""
        return self._slots.busy, self._slots.queued

    @property
    def gauges(self) -> ServiceGauges:
        """The current numbers of this service. May be read from any thread."""
        slots, commits = self._slots, self.store.commits
        running, queued = slots.busy, slots.queued
        return ServiceGauges(
            running,
            queued,
            max(0, slots.runs - running - queued),
            self._watching.readers,
            commits.count,
            commits.seconds,
        )

    def cancellation_token(self, task_id: str) -> CancellationToken | None:
        """Return the token of a task's run in this process, or None if the task does not run here."""
        run = self._tasks.runs.get(task_id)
        return None if run is None else run.token

    def owner_of_run(self, task_id: str) -> str | None:
        """Return the principal of a task's run in this process, or None if the task does not run here."""
        run = self._tasks.runs.get(task_id)
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
        submission.waiting_runs, submission.trace = waiting_runs(), caller_trace()
        return await self.settled(await self._admission.accept(submission, principal, to_end=True))

    async def settled(self, turn: AcceptedTurn) -> TaskFold:
        """Wait for the end of a turn, in whatever process it runs."""
        run = turn.run
        if run is not None:
            if not run.has_ended:
                await run.wait_ended()
            if run.failure is not None:
                raise run.failure
            if run.live.fold.is_settled:
                return run.live.fold
        self._watching.enter()
        try:
            while True:
                head = await self.store.head(turn.task_id)
                if head is None:
                    raise not_found_error(turn.task_id)
                if head.sequence > turn.after_sequence and (head.state in TERMINAL or head.state in INTERRUPTED):
                    return (await self._tasks.load(head)).fold
                await self._watching.wait_growth(turn.task_id, head.sequence)
        except StoreError:
            if self._stopped:  # and its store closed
                raise self._watching.stopped_error() from None
            raise
        finally:
            self._watching.leave()

    async def submit(self, submission: Submission, principal: str, *, waits: bool = False) -> AcceptedTurn:
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
        submission.waiting_runs, submission.trace = waiting_runs() if waits else (), caller_trace()
        return await self._admission.accept(submission, principal)

    async def turn_of(self, request_id: str, principal: str) -> AcceptedTurn | None:
        """Return the turn that began with a request, or None if the store has no such request. Raises StoreError."""
        return await self._admission.turn_of(request_id, principal)

    def turn_after(self, task_id: str, sequence: int) -> AcceptedTurn:
        """Return the turn of a task that continues after a position of its log. The caller has checked the task's owner."""
        return AcceptedTurn(task_id, sequence, self._tasks.runs.get(task_id))

    def _retire(self, run: Run) -> None:
        error, fold = run.failure, run.live.fold
        task_id = fold.task_id
        if self._tasks.remove(run):
            self._texts.drop(task_id)
        run.texts = None
        if run.is_left:
            self._left.append(task_id)
            return
        if self._run_saver is not None and fold.is_settled and fold.run_id == run.run_id:
            self._run_saver.run_ended(task_id, fold.run_id)
        unrecorded = isinstance(error, StoreError) or (error is not None and not fold.is_settled)
        if unrecorded and not isinstance(error, LeaseLostError) and fold.sequence:
            self._recovery.unrecorded[task_id] = run
        elif fold.state in INTERRUPTED or run.is_streamed:
            # The task will be continued, or read by the reader of its stream: neither needs to read its log again.
            self._tasks.warm.keep(run.live)
        else:
            self._tasks.warm.forget(task_id)

    # -- reading ---------------------------------------------------------------------------------------------------------

    async def get(self, task_id: str, principal: str) -> TaskFold:
        """Return the current state of a task.

        Raises:
            TaskNotFoundError: The task is unknown, or belongs to another principal.
        """
        run = await self._tasks.confirmed_run(task_id)
        if run is not None and run.live.fold.sequence and run.live.fold.principal == principal:
            await run.live.at_rest()
            return run.live.fold
        return (await self._tasks.get(task_id, principal)).fold

    async def get_after(self, turn: AcceptedTurn, principal: str) -> TaskFold:
        """Return the task after the last event of a turn. Another caller may have continued it since.

        The log is not read again if the turn has ended the task in this process. Raises TaskNotFoundError as `get`.
        """
        fold = turn.run.live.fold if turn.run is not None else None
        if fold is not None and fold.is_terminal and fold.principal == principal:
            return fold
        return await self.get(turn.task_id, principal)

    async def head(self, task_id: str, principal: str) -> TaskHead:
        """Return the head of a task, without reading its log. Raises TaskNotFoundError as `get`."""
        return await self._tasks.head(task_id, principal)

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

    # -- watching --------------------------------------------------------------------------------------------------------

    def stream(
        self, submission: Submission, principal: str, *, deltas: bool = False, positions: bool = False
    ) -> AsyncGenerator[list[bytes], None]:
        """Start or continue a task at the first pull, and yield the framed events of its turn until it is settled.

        Args:
            positions: As in `watch`.

        Raises:
            As `submit`, at the first pull.
        """

        async def find_start() -> ReadStart:
            turn = await self.submit(submission, principal, waits=True)
            if turn.run is not None:
                self._keep_for_reader(turn.run)
            return ReadStart(turn.task_id, turn.after_sequence, await self._end_of(turn) if positions else None)

        return self._watching.batches(find_start, StopAt.INTERRUPTED, deltas=deltas)

    def _keep_for_reader(self, run: Run) -> None:
        """Keep the task in memory after its end: a caller usually gets the task after the last event of its stream."""
        run.is_streamed = True
        if run.has_ended and run.live.fold.is_terminal:
            self._tasks.warm.keep(run.live)

    async def _end_of(self, turn: AcceptedTurn) -> int:
        """Return the sequence of the last event of the turn's task."""
        if turn.run is not None:
            return turn.run.live.fold.sequence
        head = await self.store.head(turn.task_id)
        return turn.after_sequence if head is None else head.sequence

    def watch(
        self,
        task_id: str,
        principal: str,
        *,
        after: int = 0,
        stop_at: StopAt = StopAt.TERMINAL,
        deltas: bool = False,
        positions: bool = False,
        first_end: bool = False,
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield framed events after a position, ascending without gaps: first the stored events, then new ones.

        Args:
            deltas: Yield live text too: first the text so far of unfinished model calls, then new text. Only runs of this
                process have live text.
            positions: End a batch with the frame of a WatchPosition where watch.proto requires one.
            first_end: Stop at the first end of the task after the position. Otherwise an end that a retry had followed when the
                watch began does not count.

        Yields:
            Batches, shape [k], 1 <= k <= `Limits.batch_events`, then the frame of a position. An event is yielded only after
            its commit. Delta frames come in separate batches, and so does a position without events.

        Raises:
            At the first pull:
            InvalidArgumentError: `after` is negative.
            TaskNotFoundError: The task is unknown, or belongs to another principal.
            SequenceOutOfRangeError: `after` is greater than the last sequence of the log.
        """

        async def find_start() -> ReadStart | None:
            if after < 0:
                raise InvalidArgumentError("must not be negative", field="after_sequence")
            head = await self.head(task_id, principal)
            check_position(after, head.sequence, task_id)
            if after == head.sequence and head.state in TERMINAL and not positions:
                return None
            run = self._tasks.runs.get(task_id)
            if run is not None and stop_at is not StopAt.CURRENT:
                self._keep_for_reader(run)
            return ReadStart(
                task_id, after, head.sequence if positions else None, known=0 if first_end else head.sequence
            )

        return self._watching.batches(find_start, stop_at, deltas=deltas)

    # -- steering --------------------------------------------------------------------------------------------------------

    async def cancel(
        self, task_id: str, principal: str, *, reason: str = "", metadata: dict[str, Any] | None = None
    ) -> TaskFold:
        """Record the cancellation, interrupt the run, and return the task after its end, or its state after `cancel_wait_s`.

        Raises:
            TaskNotFoundError: The task is unknown, or belongs to another principal.
            TaskNotCancelableError: The task has already ended in another state than canceled.
        """
        run = self._tasks.own_run(task_id, principal)
        if run is not None:
            # The append in progress may be the end of the run: wait for it, then look at the run again.
            await run.live.at_rest()
            run = self._tasks.own_run(task_id, principal)
        if run is not None and not run.live.fold.sequence:
            run = None  # the task is not in the log yet
        cancellation = CancelRequested(reason, principal, metadata or {})
        try:
            return await self._cancel(task_id, principal, cancellation, run)
        except LeaseLostError:
            # Another process took the task between the read and the append: record the cancellation for that process. Or a run
            # began here in the meantime.
            latest = self._tasks.own_run(task_id, principal)
            return await self._cancel(task_id, principal, cancellation, None if latest is run else latest)

    async def _cancel(self, task_id: str, principal: str, cancellation: CancelRequested, run: Run | None) -> TaskFold:
        live = run.live if run is not None else await self._tasks.get(task_id, principal)
        fold = live.fold
        if fold.state is TaskState.CANCELED:
            return fold
        without_worker = live.worker in (self.store.worker, HELD, "")
        elsewhere = run is None and fold.state not in INTERRUPTED and not without_worker
        ends_here = run is None and not elsewhere and fold.state not in TERMINAL
        delegated = await self._recovery.find_delegations(fold) if ends_here else []
        try:
            if run is not None or elsewhere or delegated:
                if fold.cancel_requested is None or fold.is_terminal:  # otherwise it is stopping already
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
        elif delegated:
            ending = self._recovery.end_canceled(live, delegated, cancellation)
            await asyncio.wait([ending], timeout=self.limits.cancel_wait_s)
            await live.refresh()  # another call may have begun it, with a fold of its own
        elif elsewhere:
            fold = await self._canceled_elsewhere(live)
        else:
            self._tasks.warm.forget(task_id)
        return fold

    async def _canceled_elsewhere(self, live: LiveTask) -> TaskFold:
        """Wait until the process that runs the task has read the cancellation from the store and ended the task."""
        turn = AcceptedTurn(live.fold.task_id, live.fold.sequence)
        try:
            async with asyncio.timeout(self.limits.cancel_wait_s):
                return await self.settled(turn)
        except TimeoutError:
            await live.refresh()
            return live.fold

    def _notice_foreign_append(self, task_id: str) -> None:
        """Handle an append by another process to a task that runs here: it may be a cancellation."""
        run = self._tasks.runs.get(task_id)
        if run is not None and run.live.fold.sequence:
            run.notice_foreign_append()
