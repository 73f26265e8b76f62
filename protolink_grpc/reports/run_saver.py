"""Passes finished runs to a run store of the application. Failures do not affect runs and callers."""

import asyncio
import inspect
from collections import deque
from typing import Any

from protolink_grpc.logs import get_logger
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.task import Task
from protolink_grpc.reports.builder import ReportBuilder
from protolink_grpc.reports.run_store import RunStore
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.wire.events import replay

log = get_logger(__name__)

MAX_WAITING = 10_000
"""Maximum number of runs that wait for a slow run store; further ones are not passed on. With two ids each, about 3 MB."""

PAGE_EVENTS = 1024


class RunSaver:
    """Calls `save_task` and `save_report` of a run store after each run, in the order in which the runs ended.

    Runs are saved one at a time in a thread, because these methods may block; a coroutine is awaited on the event loop. A failure
    is logged once until a run can be saved again.

    Args:
        store: The task store.
    """

    def __init__(self, run_store: RunStore, store: TaskStore) -> None:
        self._run_store = run_store
        self._store = store
        self._waiting: deque[tuple[str, str]] = deque()
        self._work: asyncio.Task[None] | None = None
        self._failing = False

    def run_ended(self, task_id: str, run_id: str) -> None:
        """Schedule saving of a run whose end is in the store."""
        if len(self._waiting) >= MAX_WAITING:
            self._log_failure(task_id, f"{MAX_WAITING} runs are already waiting")
            return
        self._waiting.append((task_id, run_id))
        if self._work is None or self._work.done():
            self._work = asyncio.get_running_loop().create_task(self._save_waiting())

    async def finish(self, timeout_s: float) -> None:
        """Wait until all runs are saved, for at most `timeout_s` seconds."""
        work, self._work = self._work, None
        if work is None or work.done():
            return
        await asyncio.wait([work], timeout=timeout_s)
        if not work.done():
            log.warning("the run store %s was too slow: %d runs were not saved", self._name, len(self._waiting) + 1)
            self._waiting.clear()
            work.cancel()
            await asyncio.wait([work])

    async def _save_waiting(self) -> None:
        while self._waiting:
            task_id, run_id = self._waiting.popleft()
            try:
                await self._save(task_id, run_id)
                self._failing = False
            except Exception as error:
                self._log_failure(task_id, f"{type(error).__name__}: {error}", error)

    async def _save(self, task_id: str, run_id: str) -> None:
        frames: list[bytes] = []
        while page := await self._store.read(task_id, len(frames), PAGE_EVENTS):
            frames += page
        task, report = await asyncio.to_thread(_read, task_id, run_id, frames)
        await _call(self._run_store.save_task, task)
        await _call(self._run_store.save_report, report)

    def _log_failure(self, task_id: str, why: str, error: Exception | None = None) -> None:
        if not self._failing:
            self._failing = True
            log.error(
                "the run store %s did not save a run of task %s: %s; further failures are not logged until it works again",
                self._name,
                task_id,
                why,
                exc_info=error,
            )

    @property
    def _name(self) -> str:
        return type(self._run_store).__name__


def _read(task_id: str, run_id: str, frames: list[bytes]) -> tuple[Task, RunReport]:
    """Read the current task and the report of one of its runs."""
    fold, builder = TaskFold(task_id), ReportBuilder(run_id)
    replay(fold, frames)
    builder.add_frames(frames)
    return fold.to_task(), builder.report_on(task_id)


async def _call(save: Any, value: Task | RunReport) -> None:
    if inspect.iscoroutinefunction(save):
        await save(value)
    else:
        await asyncio.to_thread(save, value)
