import os
import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.clock import (
    format_iso8601,
    iso_from_micros,
    micros_from_iso,
    parse_iso8601,
    utc_now,
)
from protolink_grpc.models.ids import IDGenerator, new_task_id, new_uuid, uuid_source

NOON_NS = 1_781_265_600_000_000_000


def test_an_id_is_a_canonical_uuid_of_version_7():
    text = new_uuid()
    parsed = uuid.UUID(text)
    assert (str(parsed), parsed.version, parsed.variant) == (text, 7, uuid.RFC_4122)


def test_an_id_carries_the_millisecond_of_its_making():
    text = uuid_source(now=lambda: NOON_NS + 7_999_999)()
    assert uuid.UUID(text).int >> 80 == NOON_NS // 1_000_000 + 7


def test_an_early_clock_keeps_its_leading_zeros():
    assert uuid_source(now=lambda: 1_000_000, random=bytes)() == "00000000-0001-7000-8000-000000000000"


def test_ids_ascend_while_the_clock_stands_still():
    new = uuid_source(now=lambda: NOON_NS)
    made = [new() for _ in range(10_000)]  # more than the 4096 steps of a millisecond
    assert made == sorted(set(made))


def test_ids_ascend_when_the_clock_steps_back():
    times = iter([NOON_NS, NOON_NS - 5_000_000_000, NOON_NS + 1_000_000])
    new = uuid_source(now=lambda: next(times))
    first, second, third = new(), new(), new()
    assert first < second < third


def test_ids_of_many_threads_are_distinct_and_ascend_in_each():
    made: list[list[str]] = [[] for _ in range(8)]

    def work(own: list[str]) -> None:
        own.extend(new_uuid() for _ in range(2_000))

    threads = [threading.Thread(target=work, args=(own,)) for own in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({text for own in made for text in own}) == 16_000
    assert all(own == sorted(own) for own in made)


def test_62_bits_of_an_id_come_from_the_random_source():
    low = uuid_source(now=lambda: NOON_NS, random=lambda n: b"\x00" * n)()
    high = uuid_source(now=lambda: NOON_NS, random=lambda n: b"\xff" * n)()
    assert (uuid.UUID(low).int ^ uuid.UUID(high).int) == (1 << 62) - 1


def test_a_source_draws_again_in_a_forked_child(monkeypatch: pytest.MonkeyPatch):
    hooks: list[Callable[[], None]] = []
    monkeypatch.setattr(os, "register_at_fork", lambda *, after_in_child: hooks.append(after_in_child), raising=False)
    draws: list[int] = []
    source = uuid_source(random=lambda count: os.urandom(draws.append(count) or count))
    source()
    source()
    assert len(draws) == 1
    (forget,) = hooks
    forget()
    source()
    assert len(draws) == 2


def test_the_generator_puts_its_prefix_before_the_id():
    prefix, _, rest = IDGenerator.generate_task_id("task").partition("_")
    assert prefix == "task"
    assert uuid.UUID(rest).version == 7
    assert uuid.UUID(new_task_id()).version == uuid.UUID(IDGenerator.generate_uuid()).version == 7


@pytest.mark.parametrize("name", ["message", "artifact", "context", "tool_call", "tool_output"])
def test_the_generator_has_every_documented_name(name: str):
    made = getattr(IDGenerator, f"generate_{name}_id")
    assert made() < made()
    assert made("p").startswith("p_")


def test_now_is_utc_with_microseconds():
    text = utc_now()
    assert len(text) == 32
    assert text.endswith("+00:00")
    assert text[19] == "."
    assert abs(datetime.now(UTC) - parse_iso8601(text)) < timedelta(minutes=1)


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7)), timezone(timedelta(hours=13))])))
def test_micros_are_exact_for_every_time(moment: datetime):
    micros = micros_from_iso(moment.isoformat())
    assert micros == (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if 1 < moment.year < 9999:
        assert parse_iso8601(iso_from_micros(micros)) == moment
        assert format_iso8601(moment) == iso_from_micros(micros)


@given(st.integers(min_value=-62_135_596_800_000_000, max_value=253_402_300_799_999_999))
def test_micros_survive_their_text(micros: int):
    text = iso_from_micros(micros)
    assert micros_from_iso(text) == micros
    assert len(text) == 32


@pytest.mark.parametrize("text", ["2026-06-12T08:30:00Z", "2026-06-12T10:30:00+02:00", "2026-06-12T08:30:00.000000"])
def test_one_instant_has_one_number_in_every_spelling(text: str):
    assert micros_from_iso(text) == 1_781_253_000_000_000


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z", "12", None, 5])
def test_junk_is_no_time_and_the_field_is_named(text: object):
    with pytest.raises(InvalidArgumentError) as caught:
        micros_from_iso(text, field="created_at")  # type: ignore[arg-type]  # callers may hold anything
    assert caught.value.field == "created_at"


@pytest.mark.parametrize("micros", [10**18, -(10**18), 10**40])
def test_a_number_outside_the_calendar_is_refused(micros: int):
    with pytest.raises(InvalidArgumentError):
        iso_from_micros(micros)


def test_a_naive_datetime_is_read_as_utc():
    assert format_iso8601(datetime(2026, 6, 12, 8, 30)) == "2026-06-12T08:30:00.000000+00:00"
