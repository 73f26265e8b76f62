"""Slots for runs: how many runs work at the same time, how many wait, in which order, and the memory bound of their tasks.

Free slots are assigned round robin between principals, and first come, first served within one principal. Every operation is O(1)
in the number of runs, except `admit` for a run that other runs of the same agent wait for.
"""

import asyncio
from collections import OrderedDict
from math import ceil

from protolink_grpc.errors import DelegationCycleError, ResourceExhaustedError


class Ticket:
    """The admission of one run. Only `RunSlots` changes it.

    Attributes:
        size: Encoded bytes of the run's task.
        ahead: Number of runs that were in the queue when this one joined it. Set with `turn`.
        callers: Tickets of runs of the same agent that wait for this run.
        is_admitted: False after `leave`.
        holds_slot: The run may work.
        turn: Done when the run gets a slot; None unless the run is in the queue.
    """

    __slots__ = ("ahead", "callers", "holds_slot", "is_admitted", "principal", "size", "turn")

    ahead: int

    def __init__(self, principal: str, size: int, callers: "tuple[Ticket, ...]") -> None:
        self.principal = principal
        self.size = size
        self.callers = callers
        self.is_admitted = True
        self.holds_slot = False
        self.turn: asyncio.Future[None] | None = None


class _Share:
    """The runs of one principal, their bytes, and those that wait in the queue."""

    __slots__ = ("queue", "runs", "size")

    def __init__(self) -> None:
        self.runs = self.size = 0
        # Created on first use: creating it costs more than the rest of an admission.
        self.queue: OrderedDict[Ticket, None] | None = None


class RunSlots:
    """The slots of one agent and the queue for them.

    A run holds a slot, waits in the queue for one, or rests: it waits for a person without a slot. All three count as runs.

    Args:
        running: Maximum number of runs that hold a slot at the same time; at least 1.
        waiting: Maximum number of further runs, in the queue or resting.
        max_bytes: Maximum encoded bytes of the tasks of all runs.
        principal_share: Part of `waiting` and of `max_bytes` that one principal may use; more than 0, at most 1.
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
        # Principals with queued runs; the first one gets the next slot.
        self._turns: OrderedDict[str, OrderedDict[Ticket, None]] = OrderedDict()
        # Runs that wait for runs without a slot, with the number of those.
        self._awaiting: dict[Ticket, int] = {}

    @property
    def busy(self) -> int:
        """Number of slots in use."""
        return self.running - self._free

    @property
    def queued(self) -> int:
        """Number of runs in the queue."""
        return self._queued

    @property
    def runs(self) -> int:
        """Number of all runs: working, queued and resting."""
        return self._runs

    @property
    def size(self) -> int:
        """Encoded bytes of the tasks of all runs."""
        return self._size

    def admit(self, principal: str, size: int = 0, callers: tuple[Ticket, ...] = (), chain: str = "") -> Ticket:
        """Admit a run if there is room for it, as `join` does.

        Args:
            size: Encoded bytes of the run's task.
            callers: Tickets of runs of this agent that wait for the new run.
            chain: Names of these runs, for the error.

        Raises:
            ResourceExhaustedError: The number of runs or the bytes of their tasks would exceed a bound.
            DelegationCycleError: The run would wait forever: every slot is held by a run that waits for this one, or for another
                one without a slot.
        """
        share = self._shares.get(principal)
        runs, held = (share.runs, share.size) if share is not None else (0, 0)
        if self._runs >= self.max_runs:
            raise ResourceExhaustedError(
                f"the agent is at its limit: {self.busy} runs work and {self._runs - self.busy} wait for a slot or an approval",
                running=str(self.busy),
                waiting=str(self._runs - self.busy),
            )
        if runs >= self.max_principal_runs:
            raise ResourceExhaustedError(
                f"{runs} runs of {principal} work or wait; the limit is {self.max_principal_runs}",
                runs=str(runs),
                max_runs=str(self.max_principal_runs),
            )
        if self._size + size > self.max_bytes:
            raise _bytes_error("the tasks of all runs", self._size, size, self.max_bytes)
        if held + size > self.max_principal_bytes:
            raise _bytes_error(f"the tasks of {principal}", held, size, self.max_principal_bytes)
        if callers and self._free <= 0:
            stuck = {ticket for ticket in (*self._awaiting, *callers) if ticket.holds_slot}
            if len(stuck) >= self.running:
                raise DelegationCycleError(
                    f"the run would wait for itself: all {self.running} slots are held by runs that wait for others of the "
                    f"same agent: {chain}; raise Limits.max_concurrency, or do not wait for the answer",
                    chain=chain,
                    max_concurrency=str(self.running),
                )
        return self.join(principal, size, callers)

    def join(self, principal: str, size: int = 0, callers: tuple[Ticket, ...] = ()) -> Ticket:
        """Admit a run without a check: it takes a free slot, or the last position in its principal's queue."""
        ticket = Ticket(principal, size, callers)
        share = self._shares.get(principal)
        if share is None:
            share = self._shares[principal] = _Share()
        share.runs += 1
        share.size += size
        self._runs += 1
        self._size += size
        if self._free > 0:
            self._free -= 1
            ticket.holds_slot = True
        else:
            self._note_wait(ticket)
            self._enqueue(ticket, share)
        return ticket

    def set_size(self, ticket: Ticket, size: int) -> None:
        """Set the bytes of a run's task. The bounds are not checked."""
        if ticket.is_admitted and size != ticket.size:
            self._shares[ticket.principal].size += size - ticket.size
            self._size += size - ticket.size
            ticket.size = size

    def rest(self, ticket: Ticket) -> None:
        """Release the slot of a run. It still counts as a run."""
        if ticket.holds_slot:
            self._note_wait(ticket)
            self._release(ticket)

    def resume(self, ticket: Ticket) -> None:
        """Take a slot for a resting run, or queue before its principal's runs that have not begun."""
        if not ticket.is_admitted or ticket.holds_slot or ticket.turn is not None:
            return
        if self._free > 0:
            self._free -= 1
            ticket.holds_slot = True
            self._note_end_of_wait(ticket)
        else:
            self._enqueue(ticket, self._shares[ticket.principal], first=True)

    def leave(self, ticket: Ticket) -> None:
        """Remove a run that has ended, from its slot or from the queue. A second call does nothing."""
        if not ticket.is_admitted:
            return
        ticket.is_admitted = False
        share = self._shares[ticket.principal]
        share.runs -= 1
        share.size -= ticket.size
        self._runs -= 1
        self._size -= ticket.size
        if ticket.holds_slot:
            self._release(ticket)
        else:
            self._note_end_of_wait(ticket)
            if ticket.turn is not None and share.queue is not None:
                del share.queue[ticket]
                self._queued -= 1
                if not share.queue:
                    del self._turns[ticket.principal]
        if not share.runs:
            del self._shares[ticket.principal]

    def _enqueue(self, ticket: Ticket, share: _Share, *, first: bool = False) -> None:
        ticket.turn = asyncio.get_running_loop().create_future()
        ticket.ahead = self._queued
        if share.queue is None:
            share.queue = OrderedDict()
        share.queue[ticket] = None
        self._queued += 1
        if first:
            share.queue.move_to_end(ticket, last=False)
        self._turns.setdefault(ticket.principal, share.queue)

    def _release(self, ticket: Ticket) -> None:
        ticket.holds_slot = False
        while self._turns:
            principal, queue = next(iter(self._turns.items()))
            found, _ = queue.popitem(last=False)
            self._queued -= 1
            turn, found.turn = found.turn, None
            # A turn that is already done was canceled: its run is about to leave, so this does not count for its principal.
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

    def _note_wait(self, ticket: Ticket) -> None:
        for caller in ticket.callers:
            self._awaiting[caller] = self._awaiting.get(caller, 0) + 1

    def _note_end_of_wait(self, ticket: Ticket) -> None:
        for caller in ticket.callers:
            left = self._awaiting.pop(caller) - 1
            if left:
                self._awaiting[caller] = left


def _bytes_error(whose: str, held: int, size: int, most: int) -> ResourceExhaustedError:
    return ResourceExhaustedError(
        f"{whose} hold {held} bytes; {size} more would exceed the limit of {most} bytes",
        held_bytes=str(held),
        max_bytes=str(most),
    )
