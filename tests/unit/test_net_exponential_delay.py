"""Delays between attempts."""

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.net.exponential_delay import ExponentialDelay


def delays(delay: ExponentialDelay, count: int) -> list[float]:
    return list(islice(iter(delay.next_s, None), count))


@given(st.integers(1, 5000), st.floats(0, 1, exclude_max=True))
def test_a_delay_is_between_half_and_all_of_what_it_may_be(failures: int, chance: float) -> None:
    delay = ExponentialDelay(0.5, 60.0, chance=lambda: chance)
    last = delays(delay, failures)[-1]
    longest = min(60.0, 0.5 * 2 ** min(failures - 1, 20))
    assert longest / 2 <= last <= longest


def test_delays_double_without_end_where_no_maximum_is_given() -> None:
    assert delays(ExponentialDelay(0.5, chance=lambda: 1.0), 4) == [0.5, 1.0, 2.0, 4.0]


def test_progress_begins_with_the_first_delay_again() -> None:
    delay = ExponentialDelay(0.5, 60.0, chance=lambda: 1.0)
    delays(delay, 3)
    delay.reset()
    assert delay.next_s() == 0.5
