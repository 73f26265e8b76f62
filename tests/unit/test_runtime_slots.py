"""Slots of runs: invariants under any order of operations, and the order of the queue."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.errors import DelegationCycleError, ResourceExhaustedError
from protolink_grpc.runtime.slots import RunSlots, Ticket

RUNNING, WAITING, MAX_BYTES = 3, 8, 100

steps = st.lists(
    st.tuples(
        st.sampled_from(["join", "nested", "rest", "resume", "cancel", "leave", "leave twice", "set size"]),
        st.sampled_from("abc"),
        st.integers(0, 40),
    ),
    max_size=80,
)


def check_invariants(slots: RunSlots, tickets: list[Ticket]) -> None:
    holding = [each for each in tickets if each.holds_slot]
    queued = [each for each in tickets if each.turn is not None and not each.turn.done()]
    assert slots.busy == len(holding) <= RUNNING
    assert not (queued and slots.busy < RUNNING), "a slot is free while a run waits for one"
    assert not set(holding) & set(queued)
    assert slots.runs == len(tickets)
    assert slots.size == sum(each.size for each in tickets)
    assert set(slots._shares) == {each.principal for each in tickets}  # names of callers would pile up here
    assert all(any(each in ticket.callers for ticket in tickets) for each in slots._awaiting)


@given(steps)
async def test_in_any_order_no_slot_is_lost_or_given_twice_and_no_byte_is_forgotten(
    actions: list[tuple[str, str, int]],
) -> None:
    slots = RunSlots(running=RUNNING, waiting=WAITING, max_bytes=MAX_BYTES, principal_share=0.5)
    tickets: list[Ticket] = []
    for action, principal, number in actions:
        chosen = tickets[number % len(tickets)] if tickets else None
        if action in ("join", "nested"):
            callers = (chosen,) if action == "nested" and chosen is not None and chosen.holds_slot else ()
            before = slots.runs, slots.size
            try:
                tickets.append(slots.admit(principal, number, callers))
            except (ResourceExhaustedError, DelegationCycleError):
                assert (slots.runs, slots.size) == before
                continue
            assert slots.runs <= RUNNING + WAITING
            assert sum(each.principal == principal for each in tickets) <= RUNNING + WAITING / 2
        elif chosen is None:
            continue
        elif action == "rest":
            slots.rest(chosen)
        elif action == "resume":
            slots.resume(chosen)
        elif action == "set size":
            slots.set_size(chosen, number)
        else:
            if action == "cancel" and chosen.turn is not None:
                chosen.turn.cancel()  # as `await turn` does when its task is canceled; the run leaves afterwards
            slots.leave(chosen)
            tickets.remove(chosen)
            if action == "leave twice":
                slots.leave(chosen)
        check_invariants(slots, tickets)
    for each in tickets:
        slots.leave(each)
    check_invariants(slots, [])
    assert not slots._turns
    assert not slots._awaiting


@given(st.lists(st.sampled_from("abcd"), min_size=2, max_size=60))
async def test_no_principal_gets_two_turns_while_another_one_waits(principals: list[str]) -> None:
    slots = RunSlots(running=1, waiting=100)
    first = slots.join("z")
    queue = [slots.join(each) for each in principals]
    holder, order = first, []
    for _ in queue:
        slots.leave(holder)
        (holder,) = [each for each in queue if each.holds_slot]
        order.append(holder)
    left = list(queue)
    last: Ticket | None = None
    for ticket in order:
        left.remove(ticket)
        if last is not None and last.principal == ticket.principal:
            assert {each.principal for each in left} <= {ticket.principal}
        # Within a principal, first come, first served.
        assert all(queue.index(ticket) < queue.index(each) for each in left if each.principal == ticket.principal)
        last = ticket


async def test_a_newcomer_waits_for_one_turn_of_each_other_principal_however_long_their_queues_are() -> None:
    slots = RunSlots(running=1, waiting=1000)
    holder = slots.join("flood")
    flood = [slots.join("flood") for _ in range(500)]
    other = slots.join("other")
    slots.leave(holder)
    slots.leave(flood[0])
    assert other.holds_slot


async def test_one_principal_leaves_room_for_others() -> None:
    slots = RunSlots(running=2, waiting=10, principal_share=0.5)
    for _ in range(7):
        slots.admit("flood")
    with pytest.raises(ResourceExhaustedError, match="7 runs of flood") as refused:
        slots.admit("flood")
    assert refused.value.retry_after_s > 0
    for _ in range(5):
        slots.admit("other")
    with pytest.raises(ResourceExhaustedError, match="2 runs work and 10 wait"):
        slots.admit("third")


async def test_runs_that_wait_for_an_approval_count_as_waiting() -> None:
    slots = RunSlots(running=1, waiting=2)
    for _ in range(3):
        slots.rest(slots.admit("ann"))
    assert slots.busy == 0
    with pytest.raises(ResourceExhaustedError, match="0 runs work and 3 wait"):
        slots.admit("bob")


async def test_bytes_are_bounded_for_all_and_for_each_principal() -> None:
    slots = RunSlots(running=10, waiting=0, max_bytes=100, principal_share=0.5)
    slots.join("ann", 30)
    with pytest.raises(
        ResourceExhaustedError, match="the tasks of ann hold 30 bytes; 21 more would exceed the limit of 50"
    ):
        slots.admit("ann", 21)
    slots.join("bob", 50)
    with pytest.raises(ResourceExhaustedError, match="the tasks of all runs hold 80 bytes"):
        slots.admit("carl", 21)


async def test_a_run_goes_on_after_an_approval_before_those_of_its_principal_that_have_not_begun() -> None:
    slots = RunSlots(running=1, waiting=10)
    resting = slots.join("ann")
    slots.rest(resting)
    holder, queued = slots.join("ann"), slots.join("ann")
    slots.resume(resting)
    assert resting.turn is not None
    slots.leave(holder)
    assert (resting.holds_slot, queued.holds_slot) == (True, False)


async def test_a_run_waits_for_its_own_agent_as_long_as_another_run_may_give_it_a_slot() -> None:
    slots = RunSlots(running=2, waiting=10)
    parent, unrelated = slots.join("ann"), slots.join("bob")
    child = slots.admit("peer", callers=(parent,))
    # Now the run in the other slot would wait as well, and no run could continue.
    with pytest.raises(DelegationCycleError, match="A > B > A"):
        slots.admit("peer", callers=(unrelated,), chain="A > B > A")
    slots.leave(unrelated)
    assert child.holds_slot


async def test_a_child_that_waits_for_an_approval_still_keeps_its_parent_waiting() -> None:
    slots = RunSlots(running=2, waiting=10)
    parent = slots.join("ann")
    child = slots.join("peer", callers=(parent,))
    slots.rest(child)
    other = slots.join("bob")
    with pytest.raises(DelegationCycleError):
        slots.admit("peer", callers=(other,))


async def test_a_canceled_turn_goes_to_the_next_of_the_same_principal() -> None:
    slots = RunSlots(running=1, waiting=10)
    holder = slots.join("z")
    canceled, second, other = slots.join("a"), slots.join("a"), slots.join("b")
    waiting = asyncio.ensure_future(_wait(canceled))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    slots.leave(holder)
    assert (second.holds_slot, other.holds_slot) == (True, False)
    slots.leave(canceled)
    assert slots.busy == 1


async def _wait(ticket: Ticket) -> None:
    assert ticket.turn is not None
    await ticket.turn
