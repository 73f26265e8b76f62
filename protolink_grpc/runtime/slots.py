"""How many runs an agent works on at once, and how many may wait. Runs get their turn in the order in which they came."""

import asyncio
from collections import deque

from protolink_grpc.errors import ResourceExhaustedError


class Slots:
    """A counting semaphore with a bounded queue.

    Args:
        running: Runs at the same time; at least 1.
        waiting: Runs that may wait for a slot; 0 refuses at once when all are busy.
    """

    __slots__ = ("_free", "_queue", "running", "waiting")

    def __init__(self, *, running: int, waiting: int) -> None:
        self.running = running
        self.waiting = waiting
        self._free = running
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def busy(self) -> int:
        """Slots in use."""
        return self.running - self._free

    @property
    def queued(self) -> int:
        """Runs that wait."""
        return len(self._queue)

    def check_room(self) -> None:
        """Raises ResourceExhaustedError when a further run could neither start nor wait."""
        if self._free <= 0 and len(self._queue) >= self.waiting:
            raise ResourceExhaustedError(
                f"all {self.running} slots are busy and {len(self._queue)} runs wait",
                running=str(self.running),
                waiting=str(len(self._queue)),
            )

    def take_now(self) -> bool:
        """Take a slot if one is free and nobody was here before."""
        if self._free > 0 and not self._queue:
            self._free -= 1
            return True
        return False

    async def take(self) -> None:
        """Wait for a slot. A canceled wait leaves nothing behind."""
        if self.take_now():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the slot came together with the cancellation
            elif turn in self._queue:
                self._queue.remove(turn)
            raise

    def release(self) -> None:
        """Give a slot back, to the first in the queue if there is one."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
