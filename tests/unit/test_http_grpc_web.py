"""The frames, headers and trailers of gRPC-Web, read and written without a server."""

from base64 import b64decode
from urllib.parse import unquote

import pytest
from google.rpc import code_pb2, error_details_pb2, status_pb2
from hypothesis import example, given
from hypothesis import strategies as st

from protolink_grpc.edges.http.grpc_web import frame, message_of, parse_timeout, trailers
from protolink_grpc.errors import InvalidArgumentError, UnimplementedError

HEAD = 5
LONGEST_TIMEOUT_S = 99_999_999 * 3600.0


def last_frame(body: bytes) -> dict[str, str]:
    """The lines of a frame of trailers, by name."""
    assert body[0] == 0x80
    assert int.from_bytes(body[1:HEAD], "big") == len(body) - HEAD
    text = body[HEAD:].decode("ascii")
    assert text.endswith("\r\n")
    return dict(line.split(": ", 1) for line in text.removesuffix("\r\n").split("\r\n"))


# -- frames ------------------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=300))
def test_a_message_in_a_frame_is_read_as_it_was(message: bytes) -> None:
    assert message_of(frame(message)) == message


@given(st.one_of(st.binary(max_size=40), st.builds(frame, st.binary(max_size=40), st.integers(0, 255))))
@example(b"")
@example(b"\x00\xff\xff\xff\xff")
def test_a_body_of_any_bytes_is_one_message_or_the_callers_mistake(body: bytes) -> None:
    whole = len(body) >= HEAD and len(body) - HEAD == int.from_bytes(body[1:HEAD], "big")
    if whole and body[0] == 0:
        assert frame(message_of(body)) == body
        return
    with pytest.raises((InvalidArgumentError, UnimplementedError)) as caught:
        message_of(body)
    assert isinstance(caught.value, UnimplementedError) is (whole and body[0] == 1)


@given(st.binary(max_size=60), st.data())
def test_a_frame_that_lacks_its_end_is_no_frame(message: bytes, data: st.DataObject) -> None:
    whole = frame(message)
    with pytest.raises(InvalidArgumentError) as caught:
        message_of(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert caught.value.field == "body"


def test_a_request_has_one_message() -> None:
    with pytest.raises(InvalidArgumentError, match="one complete gRPC-Web frame"):
        message_of(frame(b"one") + frame(b"two"))


def test_a_compressed_message_is_what_this_server_does_not_do() -> None:
    with pytest.raises(UnimplementedError, match="compressed"):
        message_of(frame(b"squeezed", 0x01))


@pytest.mark.parametrize("flags", [0x02, 0x80, 0x81, 0xFF])
def test_flags_that_no_request_has_are_named(flags: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{flags:#04x}"):
        message_of(frame(b"", flags))


# -- grpc-timeout ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [
        ("1H", 3600.0),
        ("2M", 120.0),
        ("3S", 3.0),
        ("300m", 0.3),
        ("40u", 40e-6),
        ("5n", 5e-9),
        ("0m", 0.0),
        ("007S", 7.0),
        ("99999999H", LONGEST_TIMEOUT_S),
    ],
)
def test_each_unit_of_a_timeout_is_its_number_of_seconds(timeout: str, seconds: float) -> None:
    assert parse_timeout(timeout) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "timeout",
    # The last two are digits elsewhere, and to `int` or `str.isdigit`.
    ["", "m", "5", "5s", "5h", "-5m", "+5m", " 5m", "5m ", "5 m", "1.5S", "1_0m", "100000000m", "\u0663S", "\u00b2S"],
)
def test_what_is_no_timeout_is_refused_and_names_its_header(timeout: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_timeout(timeout)
    assert caught.value.field == "grpc-timeout"


@given(st.one_of(st.text(max_size=12), st.from_regex(r"[0-9]{1,10}[HMSmunx]", fullmatch=True)))
def test_any_text_is_a_timeout_within_bounds_or_the_callers_mistake(timeout: str) -> None:
    try:
        seconds = parse_timeout(timeout)
    except InvalidArgumentError:
        assert not (timeout[:-1].isascii() and timeout[:-1].isdigit() and timeout[-1] in "HMSmun" and len(timeout) <= 9)
    else:
        assert 0 <= seconds <= LONGEST_TIMEOUT_S


# -- trailers ----------------------------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=80))
@example("100 % sure")
@example("line\r\ngrpc-status: 0\r\n")
@example("naïve 世界 \N{GRINNING FACE}")
def test_any_message_survives_its_way_through_the_trailers(message: str) -> None:
    lines = last_frame(trailers(status_pb2.Status(code=code_pb2.INTERNAL, message=message)))
    assert lines["grpc-status"] == "13"
    assert unquote(lines.get("grpc-message", ""), errors="strict") == message


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters="%"), min_size=1))
def test_plain_text_is_not_quoted(message: str) -> None:
    body = trailers(status_pb2.Status(code=code_pb2.NOT_FOUND, message=message))
    assert body[HEAD:] == f"grpc-status: 5\r\ngrpc-message: {message}\r\n".encode()


@given(st.dictionaries(st.text(st.characters(exclude_categories=("Cs",)), max_size=20), st.just("value"), max_size=4))
def test_the_details_are_the_whole_status_without_padding(metadata: dict[str, str]) -> None:
    status = status_pb2.Status(code=code_pb2.NOT_FOUND, message="no such task")
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="TASK_NOT_FOUND", metadata=metadata))
    encoded = last_frame(trailers(status))["grpc-status-details-bin"]
    assert not encoded.endswith("=")
    assert status_pb2.Status.FromString(b64decode(encoded + "=" * (-len(encoded) % 4))) == status


def test_a_call_that_went_well_says_only_that() -> None:
    assert last_frame(trailers(status_pb2.Status())) == {"grpc-status": "0"}
