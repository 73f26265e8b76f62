"""Retries of interrupted calls, and their end. The clock is simulated."""

import asyncio
from functools import partial
from typing import Any

import pytest

from protolink_grpc import TaskNotFoundError, UnavailableError
from protolink_grpc.client.backoff import FIRST_PAUSE_S, LONGEST_PAUSE_S, Backoff, is_interruption
from protolink_grpc.errors import InternalError, RemoteError, ResourceExhaustedError, StoreFullError
from protolink_grpc.net.exponential_delay import ExponentialDelay

CUT = UnavailableError("cut")


class Clock:
    """The time of a loop that stands still unless it is told to go on."""

    now = 100.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: clock)
    return clock


@pytest.fixture
def longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are not made shorter by chance."""
    longest = partial(ExponentialDelay, chance=lambda: 1.0)
    monkeypatch.setattr("protolink_grpc.client.backoff.ExponentialDelay", longest)


def attempt(backoff: Backoff, clock: Clock, lasting_s: float, error: Any = CUT) -> float | None:
    """One attempt that is cut after so long, and the pause after it, which passes."""
    backoff.begin()
    clock.now += lasting_s
    pause_s = backoff.next_s(error)
    clock.now += pause_s or 0.0
    return pause_s


@pytest.mark.usefixtures("longest")
def test_pauses_double_up_to_the_longest(clock: Clock) -> None:
    backoff = Backoff(60.0)
    found = [attempt(backoff, clock, 0.0) for _ in range(8)]
    assert found == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_a_pause_is_between_half_of_it_and_all_of_it(clock: Clock) -> None:
    found = [attempt(Backoff(60.0), clock, 0.0) for _ in range(200)]
    assert all(pause_s is not None and FIRST_PAUSE_S / 2 <= pause_s <= FIRST_PAUSE_S for pause_s in found)
    assert len(set(found)) > 1


def test_no_patience_repeats_nothing(clock: Clock) -> None:
    assert attempt(Backoff(0.0), clock, 0.0) is None


def test_patience_runs_from_the_first_cut_and_the_last_attempt_comes_at_its_end(clock: Clock) -> None:
    backoff = Backoff(2.0)
    clock.now += 50.0  # a call that lasted long and was cut then
    began = clock.now
    while attempt(backoff, clock, 0.0) is not None:
        pass
    assert clock.now == pytest.approx(began + 2.0)


@pytest.mark.usefixtures("longest")
def test_an_event_sets_patience_and_pauses_back(clock: Clock) -> None:
    backoff = Backoff(2.0, streams=True)
    for _ in range(20):
        assert attempt(backoff, clock, 0.0) == 0.1
        clock.now += 1.5
        backoff.reset()


@pytest.mark.usefixtures("longest")
def test_a_stream_that_was_open_sets_patience_back_and_not_the_pauses(clock: Clock) -> None:
    backoff = Backoff(6.0, streams=True)
    assert [attempt(backoff, clock, 1.0) for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


@pytest.mark.parametrize(
    ("streams", "lasting_s", "metadata"),
    [(True, 0.9, {}), (False, 1.0, {}), (True, 1.0, {"unreached": "true"})],
    ids=["not for long", "one answer", "never connected"],
)
def test_any_other_attempt_is_no_progress(
    clock: Clock, streams: bool, lasting_s: float, metadata: dict[str, str]
) -> None:
    backoff = Backoff(2.5, streams=streams)
    error, attempts = UnavailableError("cut", **metadata), 0
    while attempt(backoff, clock, lasting_s, error) is not None:
        attempts += 1
        assert attempts < 10


def test_the_agent_says_the_least_pause(clock: Clock) -> None:
    error = UnavailableError("back soon")
    error.retry_after_s = 1.5
    assert attempt(Backoff(60.0), clock, 0.0, error) == 1.5
    assert attempt(Backoff(1.0), clock, 0.0, error) is None


async def test_who_gives_up_raises_the_last_error() -> None:
    with pytest.raises(UnavailableError) as raised:
        await Backoff(0.0).wait_after(CUT)
    assert raised.value is CUT


@pytest.mark.parametrize(
    ("error", "cut"),
    [
        (CUT, True),
        (StoreFullError("full"), True),
        (RemoteError("away", remote_reason="AWAY", code="UNAVAILABLE"), True),
        (RemoteError("strange", code="UNKNOWN"), False),
        (InternalError("ours"), False),
        (ResourceExhaustedError("later"), False),
        (TaskNotFoundError("none"), False),
    ],
)
def test_only_what_is_unavailable_is_repeated(error: Any, cut: bool) -> None:
    assert is_interruption(error) is cut


@pytest.mark.usefixtures("longest")
@pytest.mark.parametrize(("most_s", "waited_s"), [(None, 0.1), (0.05, 0.05), (0.0, 0.0), (5.0, 0.1)])
async def test_a_wait_is_no_longer_than_what_is_left_of_the_timeout(
    most_s: float | None, waited_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("protolink_grpc.client.backoff.asyncio.sleep", sleep)
    backoff = Backoff(60.0)
    backoff.begin()
    await backoff.wait_after(CUT, most_s=most_s)
    assert waits == [waited_s]
