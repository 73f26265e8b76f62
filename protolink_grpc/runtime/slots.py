"""How many runs an agent works on at once, and how many may wait. Runs get their turn in the order in which they came."""

import asyncio
from collections import deque

from protolink_grpc.errors import ResourceExhaustedError

Place = asyncio.Future[None] | None
"""What `Slots.join` gives and `Slots.leave` takes back."""


class Slots:
    """A counting semaphore with a bounded queue.

    Args:
        running: Runs at the same time; at least 1.
        waiting: Runs that may wait for a slot; 0 refuses at once when all are busy.

    A place is None for a slot that was free, else a future that is done once a slot has become ours.
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

    def join(self) -> Place:
        """Take a slot, or the last place in the queue, at once: whoever asks later for room sees it taken."""
        if self._free > 0 and not self._queue:
            self._free -= 1
            return None
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        return turn

    def leave(self, place: Place) -> None:
        """Give a slot back, to the first in the queue if there is one, or a place in the queue up."""
        if place is not None and (place.cancelled() or not place.done()):
            if place in self._queue:
                self._queue.remove(place)
            return
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
