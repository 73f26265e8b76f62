"""The lease and the heartbeat of one process, and the recovery of tasks whose process is gone."""

import asyncio
import os
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from typing import Literal

from protolink_grpc import __version__
from protolink_grpc.errors import InvalidTransitionError, LeaseLostError, SequenceConflictError, StoreError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.events import CancelRequested, Worker
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.session import ROLLED_BACK, ThreadRolledBack
from protolink_grpc.runtime.admission import Admission
from protolink_grpc.runtime.delegations import Delegations
from protolink_grpc.runtime.facts import canceled_status, lost_status
from protolink_grpc.runtime.journal import Delegation
from protolink_grpc.runtime.log import LiveTask
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.tasks import Tasks
from protolink_grpc.storage.port import TaskHead
from protolink_grpc.storage.session_queries import find_rollback
from protolink_grpc.storage.session_rows import owner_of

log = get_logger(__name__)

Recovery = Literal["auto", "lost", "resume"]
"""What happens to a task whose process died: "lost" fails it, "resume" continues it with another run.

"auto" resumes if no work is repeated: with the agent's own handler of tool calls and inference, which reads finished work from the
log. A handler of the application, or a method of a user's service, would start again from the beginning, so its task fails. A run
that waited for an approval, or was paused, is resumed in each case.
"""


def resumption(recovery: Recovery, replayable: Callable[[TaskFold], bool] | None) -> Callable[[TaskFold], bool]:
    """Return the function that returns whether another run continues a task that was working."""
    if recovery == "auto" and replayable is not None:
        return replayable
    return lambda _: recovery == "resume"


MAX_RESTARTS = 10
"""Maximum number of runs of a task that may die in a row without a result that the next run can use."""


SUSPECT = "suspect"
"""Value of the worker field of tasks that are to be resumed one at a time. No worker has this id."""


def awake_s() -> float:
    """Return the seconds of a clock that never steps back. On Linux it includes the time while the machine was suspended."""
    return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)


_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Lease:
    """The time until which no other process may take over the tasks that run here, as far as this process can know.

    The lease of a process that was paused (SIGSTOP, a suspended machine) may have expired. Two clocks are compared: the wall clock,
    which the other processes use, and a clock that includes suspended time and never steps back.

    Args:
        bounded: Other processes share the store. Otherwise the lease never expires.
    """

    __slots__ = ("_awake_s", "_wall_s")

    def __init__(self, *, bounded: bool) -> None:
        self._wall_s, self._awake_s = (0.0, 0.0) if bounded else (float("inf"), float("inf"))

    def is_held(self) -> bool:
        return time.time() < self._wall_s and awake_s() < self._awake_s

    def term(self, ttl_s: float) -> tuple[float, float]:
        """Return the ends, on both clocks, of a lease of `ttl_s` seconds that begins now."""
        return time.time() + ttl_s, awake_s() + ttl_s

    @property
    def was_held(self) -> bool:
        return self._wall_s > 0

    def extend(self, term: tuple[float, float]) -> None:
        """Extend the lease to the ends that `term` returned before the renewal was written."""
        if self._wall_s != float("inf"):
            self._wall_s, self._awake_s = term


class OrphanRecovery:
    """The heartbeat of one service, and the recovery of tasks whose process is gone.

    A run can be the cause of its process's death: by a crash, or by blocking the event loop until the process is killed. So a
    recovered run whose process dies again before it made progress is a suspect. If no other task ran in that process, its
    task fails. Otherwise the suspects are resumed one at a time, and a suspect whose process dies again fails.

    Args:
        lease: The lease of this process.
        repairs: Complete or undo other unfinished work of dead processes, such as links and rollbacks. They must return soon,
            because the heartbeat waits for them.
        delegations: The delegated tasks of tasks without a run; None if the agent delegates nothing.
        lease_ttl_s: How long it is valid without a renewal.
        max_resumes_without_progress: As in `Limits`.
        resumes: Returns whether a working task is continued; otherwise it fails.

    Attributes:
        unrecorded: Runs whose end could not be written, by task id.
    """

    def __init__(
        self,
        tasks: Tasks,
        admission: Admission,
        lease: Lease,
        *,
        repairs: Sequence[Callable[[], Awaitable[None]]] = (),
        delegations: Delegations | None = None,
        lease_ttl_s: float,
        max_resumes_without_progress: int,
        resumes: Callable[[TaskFold], bool],
    ) -> None:
        self.unrecorded: dict[str, Run] = {}
        self._tasks = tasks
        self._admission = admission
        self._lease = lease
        self._lease_ttl_s = lease_ttl_s
        self._max_resumes = max(1, max_resumes_without_progress)
        self._resumes = resumes
        self._repairs = repairs
        self._delegations = delegations
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._suspect: Run | None = None
        self._trusted_s = 0.0  # until then, other processes are assumed to be alive

    async def run(self) -> None:
        """Send heartbeats and recover tasks, three times per lease, until canceled."""
        while True:
            await self._pause(self._lease_ttl_s / 3)
            try:
                await self.heartbeat()
                await self._settle_unrecorded()
                if self._tasks.store.shared and awake_s() >= self._trusted_s:
                    await self.recover()
            except StoreError as error:
                log.warning("the upkeep of %s failed and will be retried: %s", self._tasks.agent_name, error)
            except Exception:  # of any kind: without heartbeats, other processes take over all tasks of this one
                log.exception("the upkeep of %s failed and will be retried", self._tasks.agent_name)

    async def _pause(self, pause_s: float) -> None:
        """Wait, at most until the end of the suspect that runs: others wait for it."""
        if self._suspect is None or self._suspect.has_ended:
            await asyncio.sleep(pause_s)
        else:
            await self._suspect.wait_ended(pause_s)

    async def heartbeat(self) -> None:
        ttl_s = self._lease_ttl_s
        term = self._lease.term(ttl_s)
        await self._tasks.store.heartbeat(ttl_s)
        if not self._lease.is_held():
            if self._lease.was_held:
                # The cause, such as a locked store, may have affected the other processes, too: give them time to renew.
                self._trusted_s = awake_s() + ttl_s
            # From here on no other process takes tasks of this one. The store shows which tasks were taken before.
            await self._tasks.confirm_runs()
        self._lease.extend(term)

    async def recover(self) -> None:
        """End or resume the submitted and working tasks whose worker is dead, and repair what else dead workers have left."""
        await self._recover_tasks()
        for repair in self._repairs:
            await repair()

    async def _recover_tasks(self) -> None:
        orphans = await self._tasks.store.orphans(self._tasks.agent_name)
        active = {*self._tasks.active_task_ids, *self._ending} if orphans else set()
        working = Counter(head.worker for head in orphans if head.state is TaskState.WORKING)
        suspects: list[LiveTask] = []
        for head in orphans:
            if head.task_id in active:
                continue
            try:
                alone = working[head.worker] == 1 and head.worker != SUSPECT
                suspect = await self._take_over(head, alone=alone)
                if suspect is not None:
                    suspects.append(suspect)
            except (LeaseLostError, SequenceConflictError, InvalidTransitionError):
                continue  # another process was faster, or the task ended
            except Exception as error:  # for example a damaged log: the other tasks are still recovered
                log.error("task %s: the recovery failed and will be retried: %r", head.task_id, error)
                continue
        if suspects:
            await self._try_one(suspects)

    async def _take_over(self, head: TaskHead, *, alone: bool) -> LiveTask | None:
        """End or resume a task without a worker, or return it as a suspect. `alone`: no other task ran in its process."""
        live = await self._tasks.read(head)
        if live.epoch != head.epoch or head.task_id in self._tasks.runs:
            raise LeaseLostError("another worker runs this task", task_id=head.task_id)
        fold, cancellation = live.fold, live.fold.cancel_requested
        if cancellation is None and (rollback := await self._find_rollback(fold)) is not None:
            # The process that rolled the turn back ended before it canceled it.
            cancellation = CancelRequested(rollback.reason or ROLLED_BACK)
        if cancellation is not None:
            delegated = await self.find_delegations(fold)
            if delegated:
                self.end_canceled(live, delegated, cancellation)
            else:
                await live.record([canceled_status(fold.state, cancellation)], claim=True)
        elif not (self._resumes(fold) or fold.state is TaskState.SUBMITTED or fold.suspended or fold.rests_in_pause):
            await self._fail(live, "the process that worked on this task ended before the task was done")
        elif not head.worker:
            # An orderly stop left the task, so the run did not crash its process.
            log.info("task %s: left by an orderly stop, a new run continues it", head.task_id)
            self._admission.resume(live, "continued" if fold.state is TaskState.WORKING else "recovered")
        elif (beyond := fold.stalled - self._max_resumes) >= 0:
            if not alone and not beyond:
                return live
            why = f"{fold.stalled + 1} processes in a row ended while this task ran and made no progress"
            await self._fail(live, f"{why}, so the task may be the cause; send a new task to try again")
        elif fold.restarted >= MAX_RESTARTS:
            await self._fail(live, f"{fold.restarted + 1} processes in a row ended while this task ran")
        else:
            # A submitted task has not begun, and a task that is paused or waits for an answer is doing nothing.
            log.info("task %s: its process died, a new run continues it", head.task_id)
            self._admission.resume(live, "recovered")
        return None

    async def find_delegations(self, fold: TaskFold) -> list[Delegation]:
        """Return the delegated tasks to cancel before a task without a run ends as canceled. Raises StoreError."""
        return [] if self._delegations is None else await self._delegations.find_open(fold)

    def end_canceled(
        self, live: LiveTask, delegated: Sequence[Delegation], cancellation: CancelRequested
    ) -> asyncio.Task[None]:
        """Cancel the delegated tasks of a task without a run, and then end it as canceled. Returns the asyncio task that does it.

        A crash in between leaves the task to the next recovery.
        """
        task_id = live.fold.task_id
        ending = self._ending.get(task_id)
        if ending is None:
            ending = asyncio.get_running_loop().create_task(self._end_canceled(live, delegated, cancellation))
            self._ending[task_id] = ending
            ending.add_done_callback(lambda _: self._ending.pop(task_id, None))
        return ending

    async def _end_canceled(
        self, live: LiveTask, delegated: Sequence[Delegation], cancellation: CancelRequested
    ) -> None:
        if self._delegations is None:
            return
        try:
            ends = await self._delegations.cancel(delegated, cancellation.reason)
            await live.record([*ends, canceled_status(live.fold.state, cancellation)])
        except (LeaseLostError, SequenceConflictError, InvalidTransitionError):
            pass  # another process was faster, or the task ended
        except Exception as error:  # as in `recover`
            log.error("task %s: its cancellation failed and will be retried: %r", live.fold.task_id, error)

    async def aclose(self) -> None:
        """Stop the cancellations of delegated tasks. The next start continues them."""
        ending = list(self._ending.values())
        for each in ending:
            each.cancel()
        if ending:
            await asyncio.wait(ending)

    async def _find_rollback(self, fold: TaskFold) -> ThreadRolledBack | None:
        """Return the rollback that took the turn of a task out of its conversation, or None."""
        if fold.session_id == fold.task_id:
            return None
        owner = owner_of(fold.agent_name, fold.principal)
        return await self._tasks.store.view(
            partial(find_rollback, owner=owner, session_id=fold.session_id, task_id=fold.task_id)
        )

    async def _try_one(self, suspects: list[LiveTask]) -> None:
        """Resume the first suspect unless another one is running; the others wait for a later call of `recover`."""
        # Written before any of them runs: if this process dies too, the next one still knows them as suspects.
        await self._tasks.store.release([live.fold.task_id for live in suspects], to=SUSPECT)
        current = self._suspect
        if current is None or current.has_ended or not current.live.fold.stalled:
            task_id, died = suspects[0].fold.task_id, suspects[0].fold.stalled + 1
            log.warning("task %s: %d processes in a row ended while it ran; it is resumed alone", task_id, died)
            self._suspect = self._admission.resume(suspects[0], "recovered")

    async def _fail(self, live: LiveTask, why: str) -> None:
        log.warning("task %s fails: %s", live.fold.task_id, why)
        await live.record([lost_status(live.fold.state, why)], claim=True)

    async def _settle_unrecorded(self) -> None:
        """Retry to record the ends that could not be recorded when their runs ended."""
        for task_id, run in list(self.unrecorded.items()):
            try:
                await self._settle(run)
            except (LeaseLostError, InvalidTransitionError):
                pass  # another process has taken the task, or it has ended
            except Exception as error:  # as in `recover`
                log.error("task %s: recording its end failed and will be retried: %r", task_id, error)
                continue
            del self.unrecorded[task_id]

    @staticmethod
    async def _settle(run: Run) -> None:
        live = run.live
        live.running = True  # keeps the epoch of the run: a task that another process has taken is not ended
        try:
            end = run.unwritten or [lost_status(live.fold.state, "the end of the run could not be recorded")]
            await live.record(end, run_id=run.run_id)
        finally:
            live.running = False


def this_worker() -> Worker:
    """Return the identity of this process. It is constant within the process."""
    return _worker_of(os.getpid())


@cache
def _worker_of(pid: int) -> Worker:  # keyed by pid: a forked process must not use the identity of its parent
    # The end of a UUIDv7 is random.
    return Worker(new_uuid()[-12:], __version__, socket.gethostname())
