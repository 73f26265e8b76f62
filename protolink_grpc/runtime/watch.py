"""Watching logs: readers pull from a position, first stored events, then new ones, without gaps. No access checks here."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from protolink_grpc.errors import UnavailableError
from protolink_grpc.models.lifecycle import TERMINAL
from protolink_grpc.models.watch import StopAt, WatchPosition
from protolink_grpc.runtime.live_text import LiveTexts
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.wire.events import is_final, settles
from protolink_grpc.wire.watch import position_frame


class LogWatcher:
    """The readers of one service's logs; each has its own position, and none of them keeps a writer waiting.

    Args:
        batch_events: Events that one batch has at most.
        runs_here: Whether a task is being worked on in this process.
        is_stopped: Whether the service is down, so that no log grows in this process.
    """

    def __init__(
        self,
        agent_name: str,
        store: TaskStore,
        texts: LiveTexts,
        batch_events: int,
        *,
        runs_here: Callable[[str], bool],
        is_stopped: Callable[[], bool],
    ) -> None:
        self._agent_name = agent_name
        self._store = store
        self._texts = texts
        self._batch_events = batch_events
        self._runs_here = runs_here
        self._is_stopped = is_stopped

    async def events(
        self, task_id: str, after: int, stop_at: StopAt, *, deltas: bool, head: int | None = None
    ) -> AsyncGenerator[list[bytes], None]:
        """Batches of frames after a position; delta frames come in batches of their own.

        Args:
            head: End of the log when the reader came. The batch that reaches it, and a first batch that does not, end with the
                frame of a position. None leaves positions out.
        """
        store, limit = self._store, self._batch_events
        texts = self._texts.reader(task_id) if deltas else None
        first = True
        if head is not None and after >= head:
            yield [position_frame(WatchPosition(after, after, caught_up=True))]
            head = None
        while True:
            frames = await store.read(task_id, after, limit)
            if not frames:
                if stop_at is StopAt.CURRENT or await self._is_over(task_id, after):
                    if texts is not None and (pieces := texts.frames(after)):
                        yield pieces
                    return
                if texts is None:
                    await self.growth(task_id, after)
                    continue
                async with aclosing(texts.until(self.growth(task_id, after), after)) as batches:
                    async for pieces in batches:
                        yield pieces
                continue
            ended = is_final(frames[-1])
            if stop_at is StopAt.INTERRUPTED:
                for index, frame in enumerate(frames):
                    if settles(frame):
                        frames, ended = frames[: index + 1], True
                        break
            after += len(frames)
            if head is None:
                yield frames
            else:
                caught_up = after >= head
                where = WatchPosition(after, max(after, head), caught_up=caught_up)
                yield [*frames, position_frame(where)] if first or caught_up else frames
                first, head = False, None if caught_up else head
            if ended:
                return
            if texts is not None:
                # Also while the log grows faster than it is read: text must not wait for its end.
                texts.passed(frames)
                if pieces := texts.frames(after):
                    yield pieces
            elif stop_at is not StopAt.CURRENT and self._runs_here(task_id):
                # While a run writes, this batch is mostly the last one: to wait asks a store once, to read again and then
                # wait asks it twice. Where the log goes on already, `growth` returns at once.
                await self.growth(task_id, after)

    async def growth(self, task_id: str, after: int) -> None:
        """Return when the log has events after a position.

        Raises:
            UnavailableError: The service is down: the log does not grow in this process any more.
        """
        # Before, too: a store that others still use stays open, and wakes only those that wait when the service leaves it.
        self._require_running()
        await self._store.wait(task_id, after)
        self._require_running()

    def _require_running(self) -> None:
        if self._is_stopped():
            raise UnavailableError(f"agent {self._agent_name} was stopped", agent=self._agent_name)

    async def _is_over(self, task_id: str, after: int) -> bool:
        if self._runs_here(task_id):
            return False
        head = await self._store.head(task_id)
        return head is None or (head.state in TERMINAL and head.sequence <= after)
