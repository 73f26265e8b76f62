"""The complexity of a request is computed from its bytes, before it is parsed."""

import json
from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import part_pb2, task_input_pb2, task_pb2

from protolink_grpc.models.json_value import json_complexity
from protolink_grpc.wire.bounds import message_complexity

MOST = 1_000_000


def complexity(message: Message, most: int = MOST) -> int:
    return message_complexity(message.SerializeToString(), message.DESCRIPTOR, most)


def sending(*parts: part_pb2.Part) -> pb.SendTaskRequest:
    return pb.SendTaskRequest(input=task_input_pb2.TaskInput(messages=[task_pb2.Message(parts=parts)]))


def struct(value: dict[str, Any]) -> Struct:
    found = Struct()
    found.update(value)
    return found


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (pb.SendTaskRequest(), 0),
        (sending(part_pb2.Part(text="x" * 100_000)), 4),
        (sending(*[part_pb2.Part(text="{[,")] * 1000), 2 + 2000),
        (sending(part_pb2.Part(data={"json": "[{},{}]"})), 5 + 31),
        (pb.ListTasksRequest(states=[1, 2, 3]), 1 + 3),
        (struct({"a": [1.5, 1.5]}), 10 + 1 + (1 + 9) + 1 + 4),
    ],
    ids=["empty", "one long text", "texts are no JSON", "JSON texts", "packed", "struct"],
)
def test_each_field_of_a_message_counts_and_what_is_expensive_counts_more(message: Message, expected: int) -> None:
    assert complexity(message) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", 10),
        ('{"a":1,"b":2}', 10 + 8 + 1),
        ("[1,2,3]", 12),
        ('["{,[:", "\\\\\\"{"]', 11),
    ],
)
def test_containers_keys_and_values_of_a_json_text_count(text: str, expected: int) -> None:
    assert json_complexity(text.encode(), expected - 1) == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


def counted(value: Any) -> int:
    """The definition, over the parsed value."""
    if isinstance(value, dict):
        return 10 + 4 * len(value) + max(0, len(value) - 1) + sum(map(counted, value.values()))
    if isinstance(value, list):
        return 10 + max(0, len(value) - 1) + sum(map(counted, value))
    return 0


@given(json_values, st.sampled_from([0, 5, 20, 100]))
def test_a_text_is_above_its_bound_when_its_value_is_whatever_its_strings_hold(value: Any, most: int) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert (json_complexity(text.encode("utf-8", "surrogatepass"), most) > most) == (counted(value) > most)


@given(st.binary(max_size=60))
def test_junk_is_counted_or_refused_and_what_protobuf_parses_is_never_refused(data: bytes) -> None:
    try:
        pb.SendTaskRequest.FromString(data)
    except DecodeError:
        try:
            message_complexity(data, pb.SendTaskRequest.DESCRIPTOR, MOST)
        except DecodeError:
            return
    else:
        message_complexity(data, pb.SendTaskRequest.DESCRIPTOR, MOST)


@given(st.integers(1, 9))
def test_a_message_that_is_cut_off_is_refused_by_the_count_so_it_is_not_parsed(cut: int) -> None:
    data = sending(part_pb2.Part(text="long enough")).SerializeToString()[:-cut]
    with pytest.raises(DecodeError):
        message_complexity(data, pb.SendTaskRequest.DESCRIPTOR, MOST)


def test_the_walk_ends_above_its_bound() -> None:
    assert complexity(sending(*[part_pb2.Part()] * 10_000), most=50) == 51
