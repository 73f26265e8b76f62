"""Admission: how many runs work at once, how many wait, whose turn is next, and how many bytes of tasks they hold in memory.

Turns go round robin between principals, and first come, first served within one principal. Every operation is O(1) in the number of
runs, but for the check of a run that other runs of the same agent wait for.
"""

import asyncio
from collections import OrderedDict
from math import ceil

from protolink_grpc.errors import DelegationCycleError, ResourceExhaustedError


class Place:
    """One run as admission sees it. Only `RunAdmission` changes it.

    Attributes:
        size: Encoded bytes of its task.
        callers: Runs of the same agent that wait for this one.
        is_admitted: It has not left.
        holds_slot: It may work.
        turn: Done once a slot has become its own; None while it does not queue.
    """

    __slots__ = ("callers", "holds_slot", "is_admitted", "principal", "size", "turn")

    def __init__(self, principal: str, size: int, callers: "tuple[Place, ...]") -> None:
        self.principal = principal
        self.size = size
        self.callers = callers
        self.is_admitted = True
        self.holds_slot = False
        self.turn: asyncio.Future[None] | None = None


class _Share:
    """What one principal has: runs, bytes, and those of the runs that queue for a slot."""

    __slots__ = ("queue", "runs", "size")

    def __init__(self) -> None:
        self.runs = self.size = 0
        # Made when it is needed: that costs more than all the rest of an admission.
        self.queue: OrderedDict[Place, None] | None = None


class RunAdmission:
    """The runs of one agent.

    A run queues for a slot, holds one, or rests: it waits for a person, without a slot. All three count.

    Args:
        running: Runs that hold a slot at the same time; at least 1.
        waiting: Runs beyond these, whether they queue or rest.
        max_bytes: Encoded bytes of their tasks together.
        principal_share: Part of `waiting` and of `max_bytes` that one principal may take; more than 0, at most 1.
    """

    def __init__(self, *, running: int, waiting: int, max_bytes: int = 256 << 20, principal_share: float = 1.0) -> None:
        self.running = running
        self.max_runs = running + waiting
        self.max_bytes = max_bytes
        self.max_principal_runs = running + ceil(waiting * principal_share)
        self.max_principal_bytes = ceil(max_bytes * principal_share)
        self._free = running
        self._runs = self._size = self._queued = 0
        self._shares: dict[str, _Share] = {}
        # Principals with runs that queue; the first one has the next turn.
        self._turns: OrderedDict[str, OrderedDict[Place, None]] = OrderedDict()
        # Runs that wait for runs without a slot, and for how many.
        self._awaiting: dict[Place, int] = {}

    @property
    def busy(self) -> int:
        """Slots in use."""
        return self.running - self._free

    @property
    def queued(self) -> int:
        """Runs that queue for a slot."""
        return self._queued

    @property
    def runs(self) -> int:
        """All runs: working, queueing, resting."""
        return self._runs

    @property
    def size(self) -> int:
        """Bytes of their tasks."""
        return self._size

    def admit(self, principal: str, size: int = 0, callers: tuple[Place, ...] = (), chain: str = "") -> Place:
        """`join`, where there is room.

        Args:
            size: Encoded bytes of the run's task.
            callers: Runs of this agent that wait for it.
            chain: Names them, for the error.

        Raises:
            ResourceExhaustedError: It could neither start nor wait, or its task is too large for the bytes that are left.
            DelegationCycleError: It would wait for ever: every slot is held by a run that waits for this one, or for another one
                that waits for a slot.
        """
        share = self._shares.get(principal)
        runs, held = (share.runs, share.size) if share is not None else (0, 0)
        if self._runs >= self.max_runs:
            raise ResourceExhaustedError(
                f"the agent is full: {self.busy} runs work and {self._runs - self.busy} wait for their turn or an approval",
                running=str(self.busy),
                waiting=str(self._runs - self.busy),
            )
        if runs >= self.max_principal_runs:
            raise ResourceExhaustedError(
                f"{runs} runs of {principal} work or wait already, of at most {self.max_principal_runs}",
                runs=str(runs),
                max_runs=str(self.max_principal_runs),
            )
        if self._size + size > self.max_bytes:
            raise _bytes_error("all tasks under way", self._size, size, self.max_bytes)
        if held + size > self.max_principal_bytes:
            raise _bytes_error(f"the tasks of {principal}", held, size, self.max_principal_bytes)
        if callers and self._free <= 0:
            stuck = {place for place in (*self._awaiting, *callers) if place.holds_slot}
            if len(stuck) >= self.running:
                raise DelegationCycleError(
                    f"the run would wait for itself: all {self.running} slots are held by runs that wait for others of the "
                    f"same agent: {chain}; raise Limits.max_concurrency, or do not wait for the answer",
                    chain=chain,
                    max_concurrency=str(self.running),
                )
        return self.join(principal, size, callers)

    def join(self, principal: str, size: int = 0, callers: tuple[Place, ...] = ()) -> Place:
        """Take a slot, or the last place in the principal's queue, at once: later requests find it taken.

        Never refused.
        """
        place = Place(principal, size, callers)
        share = self._shares.get(principal)
        if share is None:
            share = self._shares[principal] = _Share()
        share.runs += 1
        share.size += size
        self._runs += 1
        self._size += size
        if self._free > 0:
            self._free -= 1
            place.holds_slot = True
        else:
            self._note_wait(place)
            self._enqueue(place, share)
        return place

    def weigh(self, place: Place, size: int) -> None:
        """Its task has that many bytes now. Refuses nothing."""
        if place.is_admitted and size != place.size:
            self._shares[place.principal].size += size - place.size
            self._size += size - place.size
            place.size = size

    def rest(self, place: Place) -> None:
        """Give its slot to the next in turn; it stays one of the runs."""
        if place.holds_slot:
            self._note_wait(place)
            self._release(place)

    def resume(self, place: Place) -> None:
        """Take a slot again, or queue for one before those of its principal that have not begun."""
        if not place.is_admitted or place.holds_slot or place.turn is not None:
            return
        if self._free > 0:
            self._free -= 1
            place.holds_slot = True
            self._note_end_of_wait(place)
        else:
            self._enqueue(place, self._shares[place.principal], first=True)

    def leave(self, place: Place) -> None:
        """The run has ended, whatever it was doing: its slot or its place in the queue is free. Again does nothing."""
        if not place.is_admitted:
            return
        place.is_admitted = False
        share = self._shares[place.principal]
        share.runs -= 1
        share.size -= place.size
        self._runs -= 1
        self._size -= place.size
        if place.holds_slot:
            self._release(place)
        else:
            self._note_end_of_wait(place)
            if place.turn is not None and share.queue is not None:
                del share.queue[place]
                self._queued -= 1
                if not share.queue:
                    del self._turns[place.principal]
        if not share.runs:
            del self._shares[place.principal]

    def _enqueue(self, place: Place, share: _Share, *, first: bool = False) -> None:
        place.turn = asyncio.get_running_loop().create_future()
        if share.queue is None:
            share.queue = OrderedDict()
        share.queue[place] = None
        self._queued += 1
        if first:
            share.queue.move_to_end(place, last=False)
        self._turns.setdefault(place.principal, share.queue)

    def _release(self, place: Place) -> None:
        place.holds_slot = False
        while self._turns:
            principal, queue = next(iter(self._turns.items()))
            found, _ = queue.popitem(last=False)
            self._queued -= 1
            turn, found.turn = found.turn, None
            # One that is done was canceled: its run is about to leave, and this is no turn of its principal.
            is_live = turn is not None and not turn.done()
            if not queue:
                del self._turns[principal]
            elif is_live:
                self._turns.move_to_end(principal)
            if turn is not None and is_live:
                found.holds_slot = True
                self._note_end_of_wait(found)
                turn.set_result(None)
                return
        self._free += 1

    def _note_wait(self, place: Place) -> None:
        for caller in place.callers:
            self._awaiting[caller] = self._awaiting.get(caller, 0) + 1

    def _note_end_of_wait(self, place: Place) -> None:
        for caller in place.callers:
            left = self._awaiting.pop(caller) - 1
            if left:
                self._awaiting[caller] = left


def _bytes_error(whose: str, held: int, size: int, most: int) -> ResourceExhaustedError:
    return ResourceExhaustedError(
        f"{whose} hold {held} bytes; {size} more would exceed the limit of {most} bytes",
        held_bytes=str(held),
        max_bytes=str(most),
    )
