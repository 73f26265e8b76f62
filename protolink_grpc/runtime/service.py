"""The waist: every edge, gRPC, in process, HTTP, calls these verbs and nothing else.

A TaskService owns the tasks of one agent in one process. Sending starts a run and waits for its end; streaming starts a run and
watches the log; subscribing only watches. It is used from one event loop.
"""

import asyncio
import logging
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
    TaskAlreadyRunningError,
    TaskFinishedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnavailableError,
)
from protolink_grpc.models.action import Approval, ApprovalDecision
from protolink_grpc.models.events import CancelRequested, TaskSubmitted
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_task_id
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState
from protolink_grpc.policy.redaction import DEFAULT_REDACTION_POLICY, RedactionPolicy
from protolink_grpc.runtime.approvals import ApprovalDesk, ApprovalPage, Approvals, CheckEdit
from protolink_grpc.runtime.clock import Clock, SystemClock
from protolink_grpc.runtime.deltas import LiveTexts
from protolink_grpc.runtime.engine import Attempt, Handler, canceled
from protolink_grpc.runtime.live import Fact, LiveTask
from protolink_grpc.runtime.run import Controls
from protolink_grpc.runtime.slots import Slots
from protolink_grpc.runtime.submission import Limits, Recovery, StopAt, Submission, refuse_cycle
from protolink_grpc.runtime.upkeep import Upkeep
from protolink_grpc.runtime.warm import WarmTasks
from protolink_grpc.runtime.watching import Watching
from protolink_grpc.store.port import ApprovalQuery, ForeignListener, TaskHead, TaskPage, TaskQuery, TaskStore

log = logging.getLogger(__name__)


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
        clock: Clock | None = None,
    ) -> None:
        self.agent_name = agent_name
        self.store = store
        self.limits = limits or Limits()
        self._handler = handler
        self._controls = controls or Controls()
        self._clock = clock or SystemClock()
        self._slots = Slots(running=self.limits.max_concurrency or 1, waiting=self.limits.max_queue)
        self._attempts: dict[str, Attempt] = {}
        self._texts = LiveTexts(self.limits.delta_interval_s)
        self._requests: dict[tuple[str, str], asyncio.Future[Turn]] = {}
        self._warm = WarmTasks(self.limits.warm_tasks, self.limits.warm_items)
        self._listener = ForeignListener(lambda: list(self._attempts), self._look_at)
        resumes = recovery == "resume" or (recovery == "auto" and replayable)
        self._upkeep = Upkeep(self, resumes, self._clock, self._resume)
        self._keeper: asyncio.Task[None] | None = None
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
            try:
                await self._upkeep.heartbeat()
                self._accepting, self._stopped = True, False
                await self._upkeep.recover()
            except BaseException:
                # A service that did not start must not keep the store, nor accept.
                self._accepting, self._stopped = False, True
                self.store.listeners.remove(self._listener)
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
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            self._keeper = None
        self.store.listeners.remove(self._listener)
        self._warm.clear()
        await self._release_left()
        self._stopped = True
        await self.store.close()

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

    def attempt(self, task_id: str) -> Attempt | None:
        """The attempt under way at that task in this process."""
        return self._attempts.get(task_id)

    # -- sending ---------------------------------------------------------------------------------------------------------

    async def send(self, submission: Submission, principal: str) -> TaskFold:
        """Start or continue a task and wait until it is settled.

        Canceling the wait does not cancel the run.

        Raises:
            InvalidArgumentError, TaskNotFoundError, TaskFinishedError, TaskAlreadyRunningError, ResourceExhaustedError,
            StoreError: As `submit`; or the end of the run could not be recorded.
        """
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

    async def submit(self, submission: Submission, principal: str) -> Turn:
        """Accept a request: when this returns, it is in the log.

        Raises:
            InvalidArgumentError: There is nothing to do.
            TaskNotFoundError: The task to continue is unknown, or not the caller's.
            TaskFinishedError: It is terminal.
            TaskAlreadyRunningError: It works already.
            ResourceExhaustedError: All slots are busy and the queue is full.
            UnavailableError: The service is stopping.
            StoreError: The store refused; nothing was accepted.
        """
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
        if submission.must_exist:
            return await self._continue(submission, principal)
        task_id = submission.task_id or new_task_id()
        warm = self._warm.get(task_id) if submission.task_id else None
        if task_id in self._attempts or warm is not None:
            return await self._continue(submission, principal)
        if not submission.messages and not submission.artifacts:
            raise InvalidArgumentError("a new task needs a message", field="task.messages")
        live = LiveTask(task_id, agent_name=self.agent_name, store=self.store, clock=self._clock)
        live.fold.principal = principal
        live.fold.agent_name = self.agent_name
        live.fold.session_id = submission.session_id or task_id
        if submission.context is not None:
            refuse_cycle(submission.context, self.agent_name)
        submission.known_as(principal)
        opening = TaskSubmitted(submission.opening(task_id), principal, submission.request_id, submission.encoded)
        try:
            return await self._opened(self._begin(live, [opening], principal, submission.request_id), to_end=to_end)
        except SequenceConflictError:
            # Somebody knows this id already: the caller means that task.
            return await self._continue(submission, principal)

    async def _continue(self, submission: Submission, principal: str) -> Turn:
        task_id = submission.task_id
        attempt = self._under_way(task_id, principal)
        if attempt is not None:
            if submission.request_id:
                # It may be this very request, its first caller gone before it was on disk.
                await attempt.accepted.wait_quietly(None)
            # The caller may have seen its last event before the run itself has ended.
            await attempt.live.at_rest()
            attempt = self._under_way(task_id, principal)
        live = attempt.live if attempt is not None else await self._known(task_id, principal)
        fold = live.fold
        if fold.principal != principal:
            raise _not_found(task_id)
        if submission.request_id:
            record = await self.store.request(self.agent_name, principal, submission.request_id)
            if record is not None:
                return Turn(record.task_id, record.after_sequence, self._attempts.get(record.task_id))
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
            attempt = self._begin(
                live, facts, principal, submission.request_id, cause="continued", scopes=submission.scopes
            )
            return await self._opened(attempt)
        except LeaseLostError:
            raise TaskAlreadyRunningError(
                f"task {task_id} is being continued by another process", task_id=task_id, state=str(fold.state)
            ) from None

    def _under_way(self, task_id: str, principal: str) -> Attempt | None:
        """The attempt at that task in this process, as the principal may know it.

        What somebody else opens under the same id, and the store is about to refuse, must not hide the principal's own task.
        """
        attempt = self._attempts.get(task_id)
        if attempt is not None and not attempt.live.fold.sequence and attempt.live.fold.principal != principal:
            return None
        return attempt

    def _resume(self, live: LiveTask) -> None:
        self._begin(live, [], live.fold.principal, cause="recovered")

    def _begin(
        self,
        live: LiveTask,
        opening: list[Fact],
        principal: str,
        request_id: str = "",
        *,
        cause: str = "submitted",
        scopes: frozenset[str] | None = None,
    ) -> Attempt:
        if cause != "recovered":
            self._slots.check_room()
        attempt = Attempt(
            live,
            opening,
            handler=self._handler,
            slots=self._slots,
            principal=principal,
            request_id=request_id,
            cause=cause,
            scopes=scopes,
            controls=self._controls,
            resumable=self._resumable,
            on_end=self._retire,
        )
        attempt.run.texts = self._texts
        self._attempts[live.fold.task_id] = attempt
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
        if self._attempts.get(task_id) is attempt:
            del self._attempts[task_id]
            self._texts.drop(task_id)
        attempt.run.texts = None
        if attempt.left:
            self._left.append(task_id)
            return
        unrecorded = isinstance(error, StoreError) or (error is not None and not fold.is_settled)
        if unrecorded and not isinstance(error, LeaseLostError) and fold.sequence:
            self._upkeep.unrecorded[task_id] = "the end of the run could not be recorded"
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
        attempt = self._attempts.get(task_id)
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
        self, submission: Submission, principal: str, *, deltas: bool = False
    ) -> AsyncGenerator[list[bytes], None]:
        """Start or continue a task and show the events of its turn, framed, until it is settled. Raises as `submit`."""
        turn = await self.submit(submission, principal)
        events = self._watching.events(turn.task_id, turn.after_sequence, StopAt.INTERRUPTED, deltas=deltas)
        with self._reading():
            async with aclosing(events):
                async for frames in events:
                    yield frames

    async def watch(
        self,
        task_id: str,
        principal: str,
        *,
        after: int = 0,
        stop_at: StopAt = StopAt.TERMINAL,
        deltas: bool = False,
    ) -> AsyncGenerator[list[bytes], None]:
        """Events after a position, framed, ascending without gaps: first what is stored, then what comes.

        Args:
            deltas: Show live text too: that of the calls under way so far, then what comes. Only runs of this process have any.

        Yields:
            Batches, shape [k], 1 <= k <= `Limits.batch_events`. An event is shown only after its commit. Delta frames come in
            batches of their own.

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
        if after == head.sequence and head.state in TERMINAL:
            return
        events = self._watching.events(task_id, after, stop_at, deltas=deltas)
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
        attempt = self._attempts.get(task_id)
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

    async def watch_approvals(self, principal: str, task_id: str = "") -> AsyncGenerator[list[Approval], None]:
        """What `approvals` would show, of one task or of all, as it changes: first what waits, then what is asked for and answered.

        Yields:
            Batches. The first empty one says that all that waited has been shown. An approval that changes twice at once may be
            shown only as it is in the end.
        """
        with self._reading():
            async with aclosing(self._desk.watch(principal, task_id)) as batches:
                async for batch in batches:
                    yield batch

    async def respond(self, decision: ApprovalDecision, principal: str) -> tuple[Approval, bool]:
        """Answer an approval, wherever its run waits.

        Who decided, and when, is set here.

        Returns:
            The approval as it is then, and whether it had been decided before: then nothing was changed.

        Raises:
            ApprovalNotFoundError: There is none, or not for this principal's eyes.
            PermissionDeniedError: It is not this principal's to answer.
            ApprovalChangedError: The fingerprint is that of another action.
            InvalidArgumentError: The arguments must not be edited, or not so.
            UnimplementedError: The agent takes no answers from outside.
            StoreError: The store refused; nothing was recorded.
        """
        return await self._desk.respond(decision, principal)

    def _look_at(self, task_id: str) -> None:
        """Another process appended to a task that runs here: it may be a wish to cancel."""
        attempt = self._attempts.get(task_id)
        if attempt is not None:
            attempt.heed()


UNBEGUN = frozenset({TaskState.SUBMITTED})
"""States of tasks without a worker that every start begins; one that resumes goes on with those that are working, too."""


def _not_found(task_id: str) -> TaskNotFoundError:
    return TaskNotFoundError(f"task {task_id} not found", task_id=task_id)
