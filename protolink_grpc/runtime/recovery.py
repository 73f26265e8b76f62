"""The lease and the heartbeat of one process, and the recovery of tasks whose process is gone."""

import asyncio
import os
import socket
import time
from collections import Counter
from functools import cache
from typing import Literal

from protolink_grpc import __version__
from protolink_grpc.errors import InvalidTransitionError, LeaseLostError, SequenceConflictError, StoreError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.events import Worker
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.runtime.admission import Admission
from protolink_grpc.runtime.facts import canceled_status, lost_status
from protolink_grpc.runtime.log import LiveTask
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.tasks import Tasks
from protolink_grpc.storage.port import TaskHead

log = get_logger(__name__)

Recovery = Literal["auto", "lost", "resume"]
"""What becomes of a run whose process died: its task fails and says so, or another run goes on with it.

"auto" goes on where that repeats nothing: with the agent's own handler of tool calls and inference, which finds in the log what was
done. A handler of the user's begins anew, so its task fails unless "resume" is asked for. A run that waited for an approval goes on
in each case: nothing was under way.
"""

MAX_RESTARTS = 10
"""Runs of a task that may die in a row with nothing done that the next one builds on, however much they reported."""


SUSPECT = "suspect"
"""In the place of the worker of tasks that are to be resumed alone: no worker's id."""


def awake_s() -> float:
    """Seconds on a clock that never steps back; on Linux it counts the time in which the machine was suspended, too."""
    return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)


_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Lease:
    """Until when no other process may take the tasks that run here, as far as this process can tell.

    A process that was paused (SIGSTOP, a suspended machine) wakes up with a lease that may have lapsed. Two clocks tell: the wall
    clock, by which the others judge, and one that goes on while the machine sleeps and never steps back.

    Args:
        bounded: Other processes share the store. Where none do, the lease is always held.
    """

    __slots__ = ("_awake_s", "_wall_s")

    def __init__(self, *, bounded: bool) -> None:
        self._wall_s, self._awake_s = (0.0, 0.0) if bounded else (float("inf"), float("inf"))

    def is_held(self) -> bool:
        return time.time() < self._wall_s and awake_s() < self._awake_s

    def term(self, ttl_s: float) -> tuple[float, float]:
        """The ends, by both clocks, of a lease of `ttl_s` seconds that begins now."""
        return time.time() + ttl_s, awake_s() + ttl_s

    @property
    def was_held(self) -> bool:
        return self._wall_s > 0

    def extend(self, term: tuple[float, float]) -> None:
        """Hold it until the ends that `term` gave, before the renewal was written."""
        if self._wall_s != float("inf"):
            self._wall_s, self._awake_s = term


class OrphanRecovery:
    """The heartbeat of one service, and the recovery of tasks whose process is gone.

    A run may be what ended its process, by a crash or by blocking the event loop until it was killed. So a recovered run whose
    process dies again, before the run has made progress, is a suspect. Where nothing else ran in that process its task fails. Where
    others did, the suspects are resumed one at a time, and the one whose process dies then fails.

    Args:
        lease: The lease of this process.
        lease_ttl_s: How long it is valid without a renewal.
        max_resumes_without_progress: As in `Limits`.
        resumes: Working tasks are continued; otherwise they fail.

    Attributes:
        unrecorded: Runs whose end could not be written, by task id.
    """

    def __init__(
        self,
        tasks: Tasks,
        admission: Admission,
        lease: Lease,
        *,
        lease_ttl_s: float,
        max_resumes_without_progress: int,
        resumes: bool,
    ) -> None:
        self.unrecorded: dict[str, Run] = {}
        self._tasks = tasks
        self._admission = admission
        self._lease = lease
        self._lease_ttl_s = lease_ttl_s
        self._max_resumes = max(1, max_resumes_without_progress)
        self._resumes = resumes
        self._suspect: Run | None = None
        self._trusted_s = 0.0  # until then, others count as alive

    async def run(self) -> None:
        """Until canceled, three times per lease."""
        while True:
            await self._pause(self._lease_ttl_s / 3)
            try:
                await self.heartbeat()
                await self._settle_unrecorded()
                if self._tasks.store.shared and awake_s() >= self._trusted_s:
                    await self.recover()
            except StoreError as error:
                log.warning("upkeep of %s failed, will try again: %s", self._tasks.agent_name, error)
            except Exception:  # whatever it is: without heartbeats, others take over all our tasks
                log.exception("upkeep of %s failed, will try again", self._tasks.agent_name)

    async def _pause(self, pause_s: float) -> None:
        """Wait; not longer than the suspect under way, for others wait for its end."""
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
                # A locked store, say, may have kept the others from renewing their leases, too: they get the time to do so now.
                self._trusted_s = awake_s() + ttl_s
            # From here on no other process takes our tasks. The store says which tasks were taken before.
            await self._tasks.confirm_runs()
        self._lease.extend(term)

    async def recover(self) -> None:
        """Settle or resume tasks that are submitted or working while their worker is dead."""
        orphans = await self._tasks.store.orphans(self._tasks.agent_name)
        active = set(self._tasks.active_task_ids) if orphans else set()
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
            except Exception as error:  # a damaged log, say: the others are taken over all the same
                log.error("task %s: cannot be taken over, will try again: %r", head.task_id, error)
                continue
        if suspects:
            await self._try_one(suspects)

    async def _take_over(self, head: TaskHead, *, alone: bool) -> LiveTask | None:
        """End or resume a task without a worker, or return it as a suspect; `alone`: nothing else ran in its process."""
        live = await self._tasks.read(head)
        if live.epoch != head.epoch:
            raise LeaseLostError("another worker runs this task", task_id=head.task_id)
        fold, cancellation = live.fold, live.fold.cancel_requested
        if cancellation is not None:
            await live.record([canceled_status(fold.state, cancellation)], claim=True)
        elif not (self._resumes or fold.state is TaskState.SUBMITTED or fold.suspended):
            await self._fail(live, "the process that worked on this task ended before the task was done")
        elif not head.worker:
            # Left by an orderly stop, which says nothing about the run.
            log.info("task %s: was left by an orderly stop, another run goes on", head.task_id)
            self._admission.resume(live, "continued" if fold.state is TaskState.WORKING else "recovered")
        elif (beyond := fold.stalled - self._max_resumes) >= 0:
            if not alone and not beyond:
                return live
            why = f"{fold.stalled + 1} processes in a row ended while this task ran and made no progress"
            await self._fail(live, f"{why}: it may be what ends them; send a new task to try again")
        elif fold.restarted >= MAX_RESTARTS:
            await self._fail(live, f"{fold.restarted + 1} processes in a row ended while this task ran")
        else:
            # A submitted task was never begun, and one that waits for an answer has nothing under way.
            log.info("task %s: its process is gone, another run goes on", head.task_id)
            self._admission.resume(live, "recovered")
        return None

    async def _try_one(self, suspects: list[LiveTask]) -> None:
        """Resume the first of them, unless another suspect is under way; the others wait for a later look."""
        # Written before any of them runs: should this process end as well, none is taken for the only one that ran in another.
        await self._tasks.store.release([live.fold.task_id for live in suspects], to=SUSPECT)
        current = self._suspect
        if current is None or current.has_ended or not current.live.fold.stalled:
            task_id, died = suspects[0].fold.task_id, suspects[0].fold.stalled + 1
            log.warning("task %s: %d processes in a row ended while it ran, it goes on alone", task_id, died)
            self._suspect = self._admission.resume(suspects[0], "recovered")

    async def _fail(self, live: LiveTask, why: str) -> None:
        log.warning("task %s fails: %s", live.fold.task_id, why)
        await live.record([lost_status(live.fold.state, why)], claim=True)

    async def _settle_unrecorded(self) -> None:
        """Write ends that could not be written when they came, now that the store may be well again."""
        for task_id, run in list(self.unrecorded.items()):
            try:
                await self._settle(run)
            except (LeaseLostError, InvalidTransitionError):
                pass  # another process has it, or it has ended meanwhile
            except Exception as error:  # as in `recover`
                log.error("task %s: its end cannot be recorded, will try again: %r", task_id, error)
                continue
            del self.unrecorded[task_id]

    @staticmethod
    async def _settle(run: Run) -> None:
        live = run.live
        live.running = True  # it keeps to its epoch: what another process has taken meanwhile is not ended
        try:
            end = run.unwritten or [lost_status(live.fold.state, "the end of the run could not be recorded")]
            await live.record(end, run_id=run.run_id)
        finally:
            live.running = False


def this_worker() -> Worker:
    """The same value throughout a process, another one in each process."""
    return _worker_of(os.getpid())


@cache
def _worker_of(pid: int) -> Worker:  # the key keeps a forked process from using the name of its parent
    # The end of a UUIDv7 is random.
    return Worker(new_uuid()[-12:], __version__, socket.gethostname())
