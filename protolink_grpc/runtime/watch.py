"""Readers of logs: each has its own position and pulls from it, first stored events, then new ones, without gaps.

A writer never waits for a reader. A reader is one generator for its whole stream, from the check of the request to the last batch.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from protolink_grpc.errors import SequenceOutOfRangeError, StoreError, TaskNotFoundError, UnavailableError
from protolink_grpc.models.lifecycle import TERMINAL
from protolink_grpc.models.watch import StopAt, WatchPosition
from protolink_grpc.runtime.live_text import LiveTexts
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.wire.events import find_final, find_settling
from protolink_grpc.wire.watch import position_frame


@dataclass(frozen=True, slots=True)
class ReadStart:
    """Where a reader of a log begins.

    Args:
        after: Sequence of the last event that the reader already has.
        known: Sequence of the last event of the log when the reader opened it. If the task ended before that event, a retry has
            followed, and the stream continues. 0 if the stream begins after all events.
        end: End of the log when the reader opened it. The batch that reaches it, and a first batch that does not, end with the
            frame of a position. None leaves positions out.
    """

    task_id: str
    after: int
    end: int | None = None
    known: int = 0


def check_position(after: int, last: int, task_id: str) -> None:
    """Raise SequenceOutOfRangeError if a log that ends with `last` does not have the position of a reader."""
    if after > last:
        raise SequenceOutOfRangeError(
            f"after_sequence {after} is not in the log of task {task_id}, which ends with {last}",
            after_sequence=str(after),
            last_sequence=str(last),
        )


class LogWatcher:
    """Reads the logs of one service for any number of readers. It checks no access.

    Args:
        batch_events: Maximum number of events in one batch.
        runs_here: Returns whether a task runs in this process.
        may_be_retried: Returns whether events may follow an end of a task; true if this process does not know.
        is_stopped: Returns whether the service is stopped, so that no log grows in this process.
    """

    def __init__(
        self,
        agent_name: str,
        store: TaskStore,
        texts: LiveTexts,
        batch_events: int,
        *,
        runs_here: Callable[[str], bool],
        may_be_retried: Callable[[str], bool],
        is_stopped: Callable[[], bool],
    ) -> None:
        self._agent_name = agent_name
        self._store = store
        self._texts = texts
        self._batch_events = batch_events
        self._runs_here = runs_here
        self._may_be_retried = may_be_retried
        self._is_stopped = is_stopped
        self._reading = 0
        self._waits: dict[object, Callable[[], Awaitable[bool]]] = {}
        """For each waiting reader, whether it lacks stored events. A reader that an append has woken is here until it runs."""
        self._moved: asyncio.Event | None = None
        """Set when a reader begins or ends to wait, and when it leaves; None until `finish` is called."""

    async def batches(
        self, find_start: Callable[[], Awaitable[ReadStart | None]], stop_at: StopAt, *, deltas: bool
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield the batches of one reader.

        Args:
            find_start: Called at the first pull; its errors are raised there. None means that there is nothing to read.

        Yields:
            Framed events, shape [k], 1 <= k <= `batch_events`, with the frame of a position where one is due. Delta frames come in
            separate batches, and so does a position without events.

        Raises:
            TaskNotFoundError: The task was deleted before its last event was read.
            UnavailableError: The service was stopped during a pull.
        """
        growth: asyncio.Task[None] | None = None
        try:
            start = await self._begin(find_start)
            if start is None:
                return
            task_id, after, end, is_first = start.task_id, start.after, start.end, True
            texts = self._texts.reader(task_id) if deltas else None
            if end is not None and after >= end:
                yield [position_frame(WatchPosition(after, after, caught_up=True))]
                end = None
            while True:
                frames = await self._store.read(task_id, after, self._batch_events)
                if not frames:
                    if stop_at is StopAt.CURRENT or await self._has_ended(task_id, after):
                        if texts is not None and (pieces := texts.frames(after)):
                            yield pieces
                        return
                    if texts is None:
                        await self.wait_growth(task_id, after)
                    else:
                        # One task for the growth of the log, however many pieces of text arrive before it.
                        growth = asyncio.get_running_loop().create_task(self.wait_growth(task_id, after))
                        while not growth.done():
                            if pieces := texts.frames(after):
                                yield pieces
                            else:
                                await texts.wait(growth, after)
                        growth.result()
                    continue
                frames, has_ended = self._cut_at_end(task_id, frames, stop_at, start.known - after - 1)
                after += len(frames)
                if end is None:
                    yield frames
                else:
                    caught_up = after >= end
                    position = position_frame(WatchPosition(after, max(after, end), caught_up=caught_up))
                    yield [*frames, position] if is_first or caught_up else frames
                    is_first, end = False, None if caught_up else end
                if has_ended:
                    return
                if texts is not None:
                    # Also while the log grows faster than it is read: text must not wait for its end.
                    texts.note_sent(frames)
                    if pieces := texts.frames(after):
                        yield pieces
                elif stop_at is not StopAt.CURRENT and self._runs_here(task_id):
                    # While a run writes, the last batch was mostly the end of the log: waiting first calls the store once,
                    # reading first calls it twice. If the log has already grown, the wait returns at once.
                    await self.wait_growth(task_id, after)
        except StoreError:
            if self._is_stopped():  # and its store closed
                raise self.stopped_error() from None
            raise
        finally:
            await self._end(growth)

    async def _begin(self, find_start: Callable[[], Awaitable[ReadStart | None]]) -> ReadStart | None:
        self.enter()
        return await find_start()

    async def _end(self, growth: "asyncio.Task[None] | None") -> None:
        if growth is not None:
            if not growth.done():
                growth.cancel()
                await asyncio.wait([growth])
            if not growth.cancelled():
                growth.exception()  # retrieved, so that asyncio does not log it
        self.leave()

    @property
    def readers(self) -> int:
        """Number of current readers."""
        return self._reading

    def enter(self) -> None:
        """Count a reader, until it calls `leave`: `finish` waits for it."""
        self._reading += 1

    def leave(self) -> None:
        self._reading -= 1
        self._notice_move()

    async def finish(self, timeout_s: float) -> None:
        """Wait until each reader has all stored events, at most `timeout_s` seconds. Called before the store is closed.

        Otherwise a reader that has just been woken by the last event of its task would find the store closed.
        """
        with suppress(TimeoutError, StoreError):  # a store that fails must not prevent the stop
            async with asyncio.timeout(timeout_s):
                moved = self._moved = asyncio.Event()
                while len(self._waits) < self._reading or await self._any_behind():
                    await moved.wait()
                    moved.clear()
        self._moved = None

    async def _any_behind(self) -> bool:
        """Return whether a waiting reader lacks stored events. It reads them soon, because each append wakes its readers."""
        for is_behind in list(self._waits.values()):
            if await is_behind():
                return True
        return False

    async def _has_grown(self, task_id: str, after: int) -> bool:
        head = await self._store.head(task_id)
        return head is not None and head.sequence > after

    def _notice_move(self) -> None:
        if self._moved is not None:
            self._moved.set()

    async def wait_growth(self, task_id: str, after: int) -> None:
        """Wait until the log has events after a position. Called between `enter` and `leave`.

        Raises:
            UnavailableError: The service was stopped: the log does not grow in this process any more.
        """
        await self.wait(self._store.wait(task_id, after), partial(self._has_grown, task_id, after))

    async def wait(self, change: Coroutine[Any, Any, None], is_behind: Callable[[], Awaitable[bool]]) -> None:
        """Wait for a change in the store. Called between `enter` and `leave`.

        Args:
            is_behind: Returns whether the reader lacks stored events.

        Raises:
            UnavailableError: The service was stopped.
        """
        # Checked before the wait, too: a store that others still use stays open, and wakes only readers that wait when the
        # service leaves it.
        if self._is_stopped():
            change.close()
            raise self.stopped_error()
        reader = object()
        self._waits[reader] = is_behind
        self._notice_move()
        try:
            await change
        finally:
            del self._waits[reader]
            self._notice_move()
        if self._is_stopped():
            raise self.stopped_error()

    def stopped_error(self) -> UnavailableError:
        return UnavailableError(f"agent {self._agent_name} was stopped", agent=self._agent_name)

    async def _has_ended(self, task_id: str, after: int) -> bool:
        """Return whether the log is complete and read to its end. Raises TaskNotFoundError if the task was deleted."""
        if self._runs_here(task_id):
            return False
        head = await self._store.head(task_id)
        if head is None:
            raise TaskNotFoundError(f"task {task_id} was deleted", task_id=task_id)
        return head.state in TERMINAL and head.sequence <= after

    def _cut_at_end(self, task_id: str, frames: list[bytes], stop_at: StopAt, start: int) -> tuple[list[bytes], bool]:
        """Return the frames up to the event that ends the stream, and whether there is such an event.

        Args:
            start: Index of the first frame that may be the end of the task; not positive if all may be.
        """
        if stop_at is StopAt.INTERRUPTED:
            first = find_settling(frames)
        elif self._may_be_retried(task_id):
            first = find_final(frames, max(0, start))
        else:  # only the last event can be the end, and a search in all of them takes longer
            first = find_final(frames, max(start, len(frames) - 1))
        return (frames, False) if first is None else (frames[: first + 1], True)
