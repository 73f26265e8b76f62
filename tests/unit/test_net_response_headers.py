"""The headers that a servicer adds to its response."""

import pytest

from protolink_grpc.net.response_headers import ResponseHeaders


def test_headers_before_the_first_message_are_headers_and_later_ones_are_trailers() -> None:
    headers = ResponseHeaders()
    headers["x-task-id"] = "t-1"
    headers.update({"x-cost": "1"})
    assert headers.trailers == {}
    assert headers.begin() == {"x-task-id": "t-1", "x-cost": "1"}
    headers["x-cost"], headers["x-rows"] = "2", "3"
    assert headers.trailers == {"x-cost": "2", "x-rows": "3"}


@pytest.mark.parametrize(
    "name",
    ["", "X-Task-Id", "x task", "x:y", "x\r\n", "ü", "content-type", "connection", "grpc-status", "trailer-x", "date"],
)
def test_a_name_that_is_no_header_or_is_reserved_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a servicer may set"):
        ResponseHeaders()[name] = "x"


@pytest.mark.parametrize("value", ["a\r\nset-cookie: b", "ü", "\x00", "\x7f"])
def test_a_value_that_could_begin_another_header_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII"):
        ResponseHeaders().update({"x-task-id": value})
