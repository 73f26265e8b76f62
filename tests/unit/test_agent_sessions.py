"""The id of an owner's session at a peer, where all owners are the same agent."""

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from protolink_grpc.agent.peer_tasks import marked_session
from protolink_grpc.wire.tasks import MAX_ID_BYTES, check_id

names = st.text(min_size=1, max_size=40)
printable = st.characters(codec="utf-8", exclude_categories=["C", "Z"], include_characters=" ")
short_ids = st.text(printable, min_size=1, max_size=MAX_ID_BYTES // 4)


@given(names, short_ids)
@example("ann", "x" * MAX_ID_BYTES)
@example("ann", "é" * (MAX_ID_BYTES // 2))
def test_a_marked_session_can_be_the_id_of_a_session(owner: str, session: str) -> None:
    marked = marked_session(owner, session)
    assert check_id(marked, "session") == marked == marked_session(owner, session)


@given(st.sets(st.tuples(names, short_ids), min_size=2, max_size=5))
@example({("a", "bc"), ("ab", "c")})
@example({("1", "1:a"), ("11", ":a")})
@example({("a", "x" * MAX_ID_BYTES), ("a", "x" * (MAX_ID_BYTES - 1) + "y")})
def test_no_two_sessions_get_one_name(sessions: set[tuple[str, str]]) -> None:
    marked = [marked_session(*each) for each in sessions]
    assert len(set(marked)) == len(sessions)


@given(st.lists(names, min_size=1, max_size=5))
def test_a_session_stays_recognizable_through_any_number_of_agents(owners: list[str]) -> None:
    hops = list(itertools.accumulate(owners, lambda session, owner: marked_session(owner, session), initial="trip"))
    assert len(set(hops)) == len(hops)
    assert {hop.partition("~")[0] for hop in hops} == {"trip"}
    assert {len(hop) for hop in hops[1:]} == {len("trip~") + 32}
