"""The envelopes, headers and errors of the Connect protocol, without a server."""

import json
from base64 import b64decode
from typing import Any

import pytest
from google.rpc import code_pb2, error_details_pb2, status_pb2
from hypothesis import example, given
from hypothesis import strategies as st
from shop_world import Order

from protolink_grpc.edges.http.call_format import Deadline
from protolink_grpc.edges.http.connect import (
    CODES,
    ConnectStream,
    ConnectUnary,
    JsonCodec,
    error_to_json,
    read_deadline,
    unpack_envelope,
)
from protolink_grpc.errors import (
    RULES,
    InvalidArgumentError,
    MessageTooLargeError,
    ResourceExhaustedError,
    TaskNotFoundError,
    UnimplementedError,
)
from protolink_grpc.net.grpc_web import frame
from protolink_grpc.wire.codec import BinaryCodec
from protolink_grpc.wire.status import to_status

HEAD = 5
UNARY = ConnectUnary(("application/json",), JsonCodec(1000))
STREAM = ConnectStream(("application/connect+proto",), BinaryCodec())


def unpadded(encoded: str) -> bytes:
    assert not encoded.endswith("=")
    return b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)


# -- envelopes ---------------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=300))
def test_a_message_in_an_envelope_is_read_as_it_was(message: bytes) -> None:
    assert unpack_envelope(STREAM.pack(message)) == message


@given(st.one_of(st.binary(max_size=40), st.builds(frame, st.binary(max_size=40), st.integers(0, 255))))
@example(b"")
@example(b"\x00\xff\xff\xff\xff")
@example(b"\x00\x00\x00\x00\x00" * 2)
def test_a_body_of_any_bytes_is_one_message_or_the_callers_mistake(body: bytes) -> None:
    is_whole = len(body) >= HEAD and len(body) - HEAD == int.from_bytes(body[1:HEAD], "big")
    if is_whole and body[0] == 0:
        assert frame(unpack_envelope(body)) == body
        return
    with pytest.raises((InvalidArgumentError, UnimplementedError)):
        unpack_envelope(body)


@given(st.binary(max_size=60), st.data())
def test_an_envelope_without_its_end_is_invalid(message: bytes, data: st.DataObject) -> None:
    whole = frame(message)
    with pytest.raises(InvalidArgumentError) as caught:
        unpack_envelope(whole[: data.draw(st.integers(1, len(whole) - 1))])
    assert caught.value.field == "body"


@pytest.mark.parametrize("body", [b"", frame(b"one") + frame(b"two"), frame(b"one") + b"\x00", frame(b"zipped", 1)])
def test_no_message_several_messages_and_a_compressed_message_are_not_supported(body: bytes) -> None:
    with pytest.raises(UnimplementedError):
        unpack_envelope(body)


@pytest.mark.parametrize("flags", [0x02, 0x03, 0x80])
def test_flags_that_no_request_has_are_named(flags: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{flags:#04x}"):
        unpack_envelope(frame(b"", flags))


# -- headers -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call_format", [UNARY, STREAM])
async def test_without_headers_of_connect_a_request_is_accepted(call_format: Any) -> None:
    assert isinstance(call_format.read_headers({}), Deadline)
    headers = {"connect-protocol-version": "1", "content-encoding": "identity", "connect-content-encoding": "Identity"}
    assert isinstance(call_format.read_headers(headers), Deadline)


@pytest.mark.parametrize("version", ["", "2", "1.0"])
async def test_another_version_of_the_protocol_is_refused(version: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read_deadline({"connect-protocol-version": version})
    assert caught.value.field == "connect-protocol-version"


@pytest.mark.parametrize("timeout", ["0", "1", "0005000", "9999999999"])
async def test_a_timeout_is_a_number_of_milliseconds(timeout: str) -> None:
    assert read_deadline({"connect-timeout-ms": timeout}).timeout_s == int(timeout) / 1000


@pytest.mark.parametrize("timeout", ["", "-1", "+1", "1.5", "1s", " 1", "10000000000", "\u0663", "\u00b2"])
async def test_what_is_no_timeout_is_refused_and_names_its_header(timeout: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read_deadline({"connect-timeout-ms": timeout})
    assert caught.value.field == "connect-timeout-ms"


@pytest.mark.parametrize(
    ("call_format", "name"),
    [(UNARY, "content-encoding"), (STREAM, "content-encoding"), (STREAM, "connect-content-encoding")],
)
@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "identity, gzip", "x" * 100])
async def test_only_identity_is_supported_and_the_error_says_so(call_format: Any, name: str, encoding: str) -> None:
    with pytest.raises(UnimplementedError, match="only identity is"):
        call_format.read_headers({name: encoding})


# -- errors ------------------------------------------------------------------------------------------------------------------


def test_every_code_has_a_name_and_a_status() -> None:
    assert set(CODES) == set(code_pb2.Code.values()) - {code_pb2.OK}
    names = {name for name, _ in CODES.values()}
    assert names == {code_pb2.Code.Name(each).lower().replace("ll", "l") for each in CODES}
    assert {code_pb2.Code.Value(rule.grpc) for rule in RULES.values()} <= set(CODES)


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_unary_error_has_the_status_of_its_code(code: int) -> None:
    response = UNARY.error_response(status_pb2.Status(code=code), {"x-task-id": "t-1"})
    name, http = CODES[code]
    assert (response.status_code, json.loads(response.body)) == (http, {"code": name})
    assert (response.headers["content-type"], response.headers["x-task-id"]) == ("application/json", "t-1")


@pytest.mark.parametrize("code", [17, 99, -1])
def test_a_code_that_connect_does_not_have_is_unknown(code: int) -> None:
    assert error_to_json(status_pb2.Status(code=code, message="x")) == {"code": "unknown", "message": "x"}


def test_details_are_encoded_and_readable() -> None:
    found = error_to_json(to_status(InvalidArgumentError("is bad", field="input.task_id")))
    assert (found["code"], found["message"]) == ("invalid_argument", "input.task_id: is bad")
    info, request = found["details"]
    assert (info["type"], request["type"]) == ("google.rpc.ErrorInfo", "google.rpc.BadRequest")
    assert error_details_pb2.ErrorInfo.FromString(unpadded(info["value"])).reason == info["debug"]["reason"]
    (violation,) = error_details_pb2.BadRequest.FromString(unpadded(request["value"])).field_violations
    assert (violation.field, violation.description) == ("input.task_id", "is bad")
    assert request["debug"] == {"fieldViolations": [{"field": "input.task_id", "description": "is bad"}]}


def test_a_detail_of_another_type_is_passed_on() -> None:
    status = status_pb2.Status(code=code_pb2.ABORTED)
    status.details.add(type_url="example.org/shop.v1.Nothing", value=b"\xff\x00")
    assert error_to_json(status)["details"] == [{"type": "shop.v1.Nothing", "value": "/wA"}]


def test_a_retry_delay_is_a_detail_and_a_header() -> None:
    response = UNARY.error_response(to_status(ResourceExhaustedError("full", retry_after_s=2.5)), {})
    assert (response.status_code, response.headers["retry-after"]) == (429, "3")
    _, retry = json.loads(response.body)["details"]
    assert (retry["type"], retry["debug"]) == ("google.rpc.RetryInfo", {"retryDelay": "2.500s"})
    delay = error_details_pb2.RetryInfo.FromString(unpadded(retry["value"])).retry_delay
    assert delay.ToMilliseconds() == 2500


def last_envelope(end: bytes) -> Any:
    assert end[0] == 2
    assert len(end) == HEAD + int.from_bytes(end[1:HEAD], "big")
    return json.loads(end[HEAD:])


def test_the_end_of_a_stream_has_its_error_and_its_metadata() -> None:
    assert last_envelope(STREAM.pack_end(status_pb2.Status(), {})) == {}
    assert last_envelope(STREAM.pack_end(status_pb2.Status(), {"x-cost": "7"})) == {"metadata": {"x-cost": ["7"]}}
    status = to_status(TaskNotFoundError("there is none"))
    assert last_envelope(STREAM.pack_end(status, {})) == {"error": error_to_json(status)}
    assert STREAM.is_end(STREAM.pack_end(status, {}))
    assert not STREAM.is_end(STREAM.pack(b"\x02"))


def test_a_stream_that_does_not_begin_is_a_response_with_its_end_alone() -> None:
    response = STREAM.error_response(to_status(TaskNotFoundError("there is none")), {})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/connect+proto")
    assert last_envelope(bytes(response.body))["error"]["code"] == "not_found"


# -- JSON --------------------------------------------------------------------------------------------------------------------


async def test_json_is_converted_to_the_binary_encoding_and_back() -> None:
    codec = JsonCodec(1000)
    data = await codec.to_binary(b'{"int64":"5","innerOrder":{"string":"x"}}', Order)
    order = Order(int64=5, inner_order={"string": "x"})
    assert Order.FromString(data) == order
    expected = {"int64": "5", "innerOrder": {"string": "x"}}
    assert json.loads(await codec.encode(order, Order)) == expected
    assert json.loads(await codec.encode(order.SerializeToString(), Order)) == expected
    assert json.loads(await codec.encode(Order(double=1e300), Order)) == {"double": 1e300}


async def test_long_json_is_converted_too() -> None:
    text = "x" * 100_000
    data = await JsonCodec(1000).to_binary(json.dumps({"string": text}).encode(), Order)
    assert Order.FromString(data) == Order(string=text)
    assert json.loads(await JsonCodec(1000).encode(data, Order)) == {"string": text}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'"\\ud800"',
        b'{"int64":NaN}',
        b'{"int64":1,"int64":2}',
        b'{"struct":' + b'{"a":' * 200 + b"1" + b"}" * 201,
        b"[" * 100_000,
        b'{"int32":' + b"9" * 5000 + b"}",
        b'{"double":1e999}',
    ],
    ids=lambda body: body[:20],
)
async def test_json_that_is_no_message_is_the_callers_mistake(body: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        await JsonCodec(250_000).to_binary(body, Order)


async def test_complex_json_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(MessageTooLargeError):
        await JsonCodec(1000).to_binary(b'{"orders":[' + b"{}," * 200 + b"{}]}", Order)
