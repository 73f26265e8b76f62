"""Times and JSON objects in protobuf: precise to the microsecond and the digit, with errors for anything else."""

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from plgrpc.v1 import task_pb2
from wire_values import json_values, micros, times

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.clock import utc_now
from protolink_grpc.wire.scalars import (
    json_object_from_pb,
    json_object_to_pb,
    micros_from_pb,
    micros_to_pb,
    set_time,
    timestamp_from_pb,
    timestamp_to_pb,
)

relaxed = settings(deadline=None)  # a shared machine's pauses are no failure


@relaxed
@given(time=times)
def test_every_time_comes_back_to_the_microsecond(time: str) -> None:
    assert timestamp_from_pb(Timestamp.FromString(timestamp_to_pb(time).SerializeToString()), "t") == time


@relaxed
@given(moment=micros)
def test_a_time_is_written_as_protobuf_itself_writes_it(moment: int) -> None:
    expected = Timestamp()
    expected.FromMicroseconds(moment)
    assert micros_to_pb(moment) == expected
    assert micros_from_pb(expected, "t") == moment


def test_digits_below_a_microsecond_are_cut_off() -> None:
    assert micros_from_pb(Timestamp(seconds=1, nanos=999_999_999), "t") == 1_999_999
    assert micros_from_pb(Timestamp(seconds=-1, nanos=999), "t") == -1_000_000


@pytest.mark.parametrize(
    "time",
    [
        Timestamp(seconds=253_402_300_800),
        Timestamp(seconds=-62_135_596_801),
        Timestamp(nanos=-1),
        Timestamp(nanos=1_000_000_000),
        Timestamp(seconds=2**63 - 1),
    ],
)
def test_what_is_no_time_is_refused_by_the_name_of_its_field(time: Timestamp) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        timestamp_from_pb(time, "task.create_time")
    assert refused.value.field == "task.create_time"


def test_a_time_that_was_left_out_is_now_and_one_that_was_set_is_kept() -> None:
    before = utc_now()
    assert before <= set_time(task_pb2.Task(), "create_time", "task") <= utc_now()
    assert set_time(task_pb2.Task(create_time=Timestamp()), "create_time", "task") == "1970-01-01T00:00:00.000000+00:00"


@relaxed
@given(value=st.dictionaries(st.text(max_size=5), json_values, max_size=3))
def test_every_object_comes_back_equal(value: dict[str, Any]) -> None:
    assert json_object_from_pb(json_object_to_pb(value), "m") == value


def test_nothing_and_an_empty_object_are_no_text() -> None:
    assert json_object_to_pb(None) == json_object_to_pb({}) == ""
    assert json_object_from_pb("", "m") == json_object_from_pb("{}", "m") == {}


@pytest.mark.parametrize("text", ["[]", "null", "1", '"{}"', "{", "nonsense", '{"a":' * 101 + "1" + "}" * 101])
def test_what_is_no_object_is_refused_by_the_name_of_its_field(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        json_object_from_pb(text, "task.metadata_json")
    assert refused.value.field == "task.metadata_json"
