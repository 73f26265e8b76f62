"""Conversion of values of users and of failures: nothing is lost in either direction."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plgrpc.v1 import failure_pb2, payload_pb2

from protolink_grpc.errors import InvalidArgumentError, ToolTimeoutError
from protolink_grpc.models.failure import Failure, FailureCategory
from protolink_grpc.models.json_value import normalize
from protolink_grpc.models.payload import Payload, PayloadRef, TypedMessage, UnknownForm, read_value
from protolink_grpc.wire.values import (
    FAILURE,
    check_payload,
    object_from_pb,
    payload_from_pb,
    payload_to_pb,
)

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
FORMS = (
    st.builds(TypedMessage, TEXTS, st.binary(max_size=8))
    | st.builds(PayloadRef, TEXTS.filter(bool), st.integers(0, 2**63 - 1), st.binary(max_size=32))
    | st.binary(max_size=8)
)
PAYLOADS = st.builds(Payload, FORMS, TEXTS, TEXTS, TEXTS)
KEYS = st.sampled_from(("message", "code", "category", "retryable", "retry_delay_s", "origin", "cause", "details", "x"))
ERRORS = (
    JSON.filter(lambda value: value is not None)
    | st.dictionaries(KEYS, JSON | st.sampled_from(("TOOL_TIMEOUT", "timeout", "limit", 1.5)))
    | st.fixed_dictionaries({"message": TEXTS}, optional={"cause": st.dictionaries(KEYS, JSON)})
)


@given(PAYLOADS | JSON)
def test_a_payload_comes_back_as_it_was(value: Any) -> None:
    assert payload_from_pb(payload_to_pb(value), "value") == value


@given(PAYLOADS)
def test_a_payload_in_json_comes_back_as_it_was(payload: Payload) -> None:
    assert read_value(normalize(payload)) == payload


@given(JSON)
def test_plain_json_that_looks_like_a_payload_stays_what_it_is(value: Any) -> None:
    assert read_value({"$payload": value}) in ({"$payload": value}, read_value(value))


def test_a_form_of_a_later_version_is_passed_on_and_refused_in_requests() -> None:
    later = payload_pb2.Payload.FromString(
        b"\xfa\x01\x03abc" + payload_pb2.Payload(preview="a table").SerializeToString()
    )
    read = payload_from_pb(later, "value")
    assert isinstance(read, Payload)
    assert isinstance(read.value, UnknownForm)
    assert read.preview == "a table"
    assert payload_to_pb(read) == later
    with pytest.raises(InvalidArgumentError, match=r"^input\.data: must carry a value of a known form"):
        check_payload(later, "input.data")


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        (payload_pb2.Payload(json="[1]"), "arguments.json"),
        (payload_pb2.Payload(json="{"), "arguments.json"),
        (payload_pb2.Payload(data=b"{}"), "arguments"),
    ],
)
def test_what_must_be_a_json_object_is_refused_with_its_path(payload: payload_pb2.Payload, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        object_from_pb(payload, "arguments")
    assert caught.value.field == field


@given(ERRORS)
def test_an_error_value_comes_back_as_it_was(value: Any) -> None:
    failure = Failure.from_value(value)
    assert failure.to_value() == value
    assert FAILURE.from_pb(FAILURE.to_pb(failure)) == failure


def test_a_failure_says_what_kind_of_cause_it_has() -> None:
    failure = Failure.from_error(ToolTimeoutError("add took longer than 5 s"), origin="add")
    assert (failure.reason, failure.category, failure.origin) == ("TOOL_TIMEOUT", FailureCategory.TIMEOUT, "add")


def test_a_category_of_a_later_version_is_passed_on() -> None:
    later = failure_pb2.Failure(category=77)  # type: ignore[arg-type]
    assert FAILURE.to_pb(FAILURE.from_pb(later)) == later
