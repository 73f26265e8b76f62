"""Runs sync functions on a bounded number of threads, also if some never return.

A thread cannot be stopped. If the caller of a job no longer waits (timeout, cancellation), the job's thread is *abandoned*: it
leaves the pool, and another one may be started in its place. If it returns later, it rejoins the pool if there is room, or ends.
`ThreadPoolExecutor` supports none of this: its size is fixed, its queue is unbounded, and the interpreter waits for its threads
at exit, so one blocked tool would keep the process alive. Threads here are daemons.

One lock protects all state and is held for a few instructions; jobs run outside of it. A thread is in one of three groups: free (or
starting), running a job from `_running`, or abandoned. `_workers` counts the first two.
"""

import asyncio
import concurrent.futures
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Self, TypeVar

from protolink_grpc.errors import ProtolinkError, ResourceExhaustedError, UnavailableError

T = TypeVar("T")

IDLE_S = 10.0
"""Idle threads end after this time, in seconds, so that a pool that is never closed holds no threads."""


MAX_WORKERS = 32
"""Default number of threads: sync tools mostly wait for a network or a disk, and idle threads end."""


class ToolRunner:
    """A bounded pool of threads for one or several event loops.

    Args:
        max_workers: Maximum number of threads, at least 1.
        max_queued: Maximum number of jobs that wait for a thread.
        max_abandoned: Number of abandoned threads beyond which each further one reduces the size of the pool.
        timeout_s: Default timeout of tools in seconds; None means no timeout.
    """

    def __init__(
        self,
        *,
        max_workers: int = MAX_WORKERS,
        max_queued: int = 1000,
        max_abandoned: int = 16,
        timeout_s: float | None = None,
    ) -> None:
        if max_workers < 1 or max_queued < 0 or max_abandoned < 0:
            raise ValueError("max_workers must be at least 1, max_queued and max_abandoned at least 0")
        self.max_workers = max_workers
        self.max_queued = max_queued
        self.max_abandoned = max_abandoned
        self.timeout_s = check_timeout(timeout_s)
        self._changed = threading.Condition()
        self._waiting: deque[_Job] = deque()
        self._running: set[_Job] = set()
        self._workers = 0
        self._abandoned = 0
        self._closed = False

    @property
    def abandoned(self) -> int:
        """The number of blocked threads without a caller."""
        return self._abandoned

    async def run(self, call: Callable[[], T]) -> T:
        """Call a function in a thread, with the caller's context variables, and wait for the result.

        Canceling the wait removes a waiting job, and abandons the thread of a running one.

        Raises:
            ResourceExhaustedError: The queue is full or every thread is blocked; the function is not called.
            UnavailableError: The runner is closed; the function is not called.
        """
        job = self._submit(call)
        try:
            result: T = await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            self._abandon(job)
            raise
        return result

    async def aclose(self, *, grace_s: float = 5.0) -> None:
        """Refuse new and waiting jobs, and wait up to `grace_s` seconds for running ones."""
        with self._changed:
            self._closed = True
            self._fail_waiting(UnavailableError("the tool runner is closed"))
            self._changed.notify_all()
            futures = [job.future for job in self._running]
        if futures:
            await asyncio.to_thread(concurrent.futures.wait, futures, grace_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def _submit(self, call: Callable[[], Any]) -> "_Job":
        with self._changed:
            if self._closed:
                raise UnavailableError("the tool runner is closed")
            if self._free_workers() <= len(self._waiting):
                self._start_worker()
            if not self._workers:
                raise _all_blocked_error(self._abandoned)
            if len(self._waiting) >= self._free_workers() + self.max_queued:
                raise ResourceExhaustedError(
                    f"{self.max_queued} tool calls are already waiting", max_queued=str(self.max_queued)
                )
            job = _Job(call)
            self._waiting.append(job)
            self._changed.notify()
            return job

    def _free_workers(self) -> int:
        return self._workers - len(self._running)

    def _start_worker(self) -> None:
        places = min(self.max_workers, self.max_workers + self.max_abandoned - self._abandoned)
        if self._workers >= places:
            return
        try:
            threading.Thread(target=self._work, name="tool-worker", daemon=True).start()
        except RuntimeError:
            return  # The system has no more threads: the running ones will take the job.
        self._workers += 1

    def _work(self) -> None:
        while self._serve_one():
            pass

    def _serve_one(self) -> bool:
        """Run one job.

        Returns whether the thread still belongs to the pool. A separate function, so that an idle thread holds no result.
        """
        job = self._take()
        if job is None:
            return False
        job.run()
        return self._settle(job)

    def _take(self) -> "_Job | None":
        with self._changed:
            while True:
                while self._waiting:
                    job = self._waiting.popleft()
                    if job.future.set_running_or_notify_cancel():
                        self._running.add(job)
                        return job
                if self._closed or not (self._changed.wait(IDLE_S) or self._waiting):
                    self._workers -= 1
                    return None

    def _settle(self, job: "_Job") -> bool:
        with self._changed:
            if not job.abandoned:
                self._running.discard(job)
                return True
            self._abandoned -= 1
            if self._closed or self._workers >= self.max_workers:
                return False
            self._workers += 1
            return True

    def _abandon(self, job: "_Job") -> None:
        with self._changed:
            if job.future.cancel():
                if job in self._waiting:
                    self._waiting.remove(job)
                return
            if job.future.done() or job.abandoned:
                return
            job.abandoned = True
            self._running.discard(job)
            self._workers -= 1
            self._abandoned += 1
            if self._waiting:
                self._start_worker()
                if not self._workers:
                    self._fail_waiting(_all_blocked_error(self._abandoned))

    def _fail_waiting(self, error: ProtolinkError) -> None:
        while self._waiting:
            job = self._waiting.popleft()
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)


class _Job:
    __slots__ = ("_call", "_context", "abandoned", "future")

    def __init__(self, call: Callable[[], Any]) -> None:
        self.future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self.abandoned = False
        self._call = call
        self._context = contextvars.copy_context()

    def run(self) -> None:
        try:
            result = self._context.run(self._call)
        except StopIteration as error:
            # A future cannot contain it: the waiting coroutine would never wake.
            failure = RuntimeError("the function raised StopIteration")
            failure.__cause__ = error
            self.future.set_exception(failure)
        except BaseException as error:  # The thread survives any exception, which is passed to the caller.
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


def check_timeout(timeout_s: float | None) -> float | None:
    """Return the timeout. Raises ValueError unless it is None or more than 0 seconds."""
    if timeout_s is not None and not timeout_s > 0:
        raise ValueError(f"timeout_s must be more than 0 or None, got {timeout_s}")
    return timeout_s


def _all_blocked_error(abandoned: int) -> ResourceExhaustedError:
    return ResourceExhaustedError(
        f"all threads for tools are blocked, {abandoned} of them by abandoned calls", abandoned=str(abandoned)
    )
