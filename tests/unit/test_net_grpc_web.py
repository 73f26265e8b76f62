"""Frames, trailers and timeouts of gRPC-Web, written and read."""

from collections.abc import AsyncIterator

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2

from protolink_grpc.edges.http.grpc_web import parse_timeout
from protolink_grpc.errors import InvalidAgentResponseError
from protolink_grpc.net.grpc_web import (
    HEAD_BYTES,
    TRAILERS,
    frame,
    frames_of,
    status_from_trailers,
    timeout_value,
    trailers,
)

BODY = frame(b"one") + frame(b"") + frame(b"x" * 300) + frame(b"grpc-status: 0", TRAILERS)


async def cut(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 299, 10_000])
async def test_frames_are_the_same_wherever_the_body_is_cut(size: int) -> None:
    found = [each async for each in frames_of(cut(BODY, size), 300)]
    assert found == [(0, b"one"), (0, b""), (0, b"x" * 300), (TRAILERS, b"grpc-status: 0")]


async def test_half_a_frame_at_the_end_is_an_error() -> None:
    for end in range(1, HEAD_BYTES + 3):
        with pytest.raises(EOFError):
            [each async for each in frames_of(cut(frame(b"one")[:end], 100), 300)]


async def test_a_frame_beyond_the_bound_is_refused_before_it_is_read() -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield (301).to_bytes(HEAD_BYTES, "big")
        raise AssertionError("asked for more")

    with pytest.raises(InvalidAgentResponseError, match="301 bytes"):
        [each async for each in frames_of(endless(), 300)]


def detailed() -> status_pb2.Status:
    detail = AnyMessage()
    detail.Pack(error_details_pb2.ErrorInfo(reason="R", domain="d", metadata={"k": "ü\n"}))
    return status_pb2.Status(code=5, message="nö: 100%\r\nreally", details=[detail])


@pytest.mark.parametrize(
    "status", [status_pb2.Status(), status_pb2.Status(code=3, message="ü % \n"), detailed()], ids=["ok", "plain", "all"]
)
def test_a_status_comes_back_from_its_trailers(status: status_pb2.Status) -> None:
    assert status_from_trailers(trailers(status)[HEAD_BYTES:]) == status


@pytest.mark.parametrize("details", ["!", "AAAA", "CAc="])
def test_details_that_are_none_or_of_another_code_leave_the_plain_status(details: str) -> None:
    lines = f"grpc-status: 5\r\ngrpc-message: gone\r\ngrpc-status-details-bin: {details}\r\n"
    assert status_from_trailers(lines.encode()) == status_pb2.Status(code=5, message="gone")


@pytest.mark.parametrize("lines", [b"", b"grpc-status: x", b"grpc-status: -1", b"grpc-status: 9999", b"\xff\xff"])
def test_trailers_without_a_status_are_refused(lines: bytes) -> None:
    with pytest.raises(InvalidAgentResponseError):
        status_from_trailers(lines)


@pytest.mark.parametrize(
    ("timeout_s", "value"),
    [(0.3, "300m"), (0.0, "1m"), (-5.0, "1m"), (300.0, "300000m"), (1e6, "1000000S"), (1e12, "99999999S")],
)
def test_a_timeout_is_written_as_servers_read_it(timeout_s: float, value: str) -> None:
    assert timeout_value(timeout_s) == value
    assert parse_timeout(value) == pytest.approx(min(max(timeout_s, 0.001), 99999999), rel=0.01)
