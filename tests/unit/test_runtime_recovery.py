"""A lease has lapsed if one of two clocks says so."""

import pytest

from protolink_grpc.runtime import recovery
from protolink_grpc.runtime.recovery import Lease


@pytest.mark.parametrize(
    ("wall_s", "awake_s", "held"),
    [(14.0, 14.0, True), (15.0, 0.0, False), (0.0, 15.0, False), (-100.0, 14.0, True), (-100.0, 16.0, False)],
    ids=[
        "in time",
        "the wall clock knows of a sleep",
        "the other one does",
        "a step back",
        "a sleep behind a step back",
    ],
)
def test_a_lease_is_held_until_either_clock_has_passed_its_end(
    monkeypatch: pytest.MonkeyPatch, wall_s: float, awake_s: float, held: bool
) -> None:
    now = {"wall": 1_000.0, "awake": 50.0}
    monkeypatch.setattr(recovery.time, "time", lambda: now["wall"])
    monkeypatch.setattr(recovery, "awake_s", lambda: now["awake"])
    lease = Lease(bounded=True)
    assert not lease.is_held()
    lease.extend(lease.term(15.0))
    assert lease.is_held()
    now["wall"] += wall_s
    now["awake"] += awake_s
    assert lease.is_held() is held


def test_a_lease_that_nobody_shares_is_always_held() -> None:
    lease = Lease(bounded=False)
    assert lease.is_held()
    lease.extend(lease.term(-1.0))
    assert lease.is_held()
