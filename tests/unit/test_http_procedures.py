"""The methods of a user's service over gRPC-Web and Connect, by an application in this process."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from shop_world import SERVICE, Order, ShopServicer
from starlette.routing import Router

from protolink_grpc.edges.grpc.binding import procedures
from protolink_grpc.edges.http.middleware import with_middleware
from protolink_grpc.edges.http.options import HttpOptions
from protolink_grpc.edges.http.procedures import procedure_routes
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.edges.http.sse import OpenStreams
from protolink_grpc.net.grpc_web import frame
from protolink_grpc.wire.bounds import RequestBounds

PLACE, WATCH = "/shop.v1.ShopService/Place", "/shop.v1.ShopService/Watch"


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    options = HttpOptions(cors_origins=("https://app.example",))
    methods = procedures(SERVICE, ShopServicer(), interceptors=(), bounds=RequestBounds(1000, 100))
    app = with_middleware(
        Router(procedure_routes(RequestGuard(bounds=options.bounds), OpenStreams(), methods)), options
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client


async def post(http: httpx.AsyncClient, path: str, kind: str, body: bytes, **headers: str) -> httpx.Response:
    return await http.post(path, content=body, headers={"content-type": kind, **headers})


def envelopes(body: bytes) -> list[tuple[int, bytes]]:
    found = []
    while body:
        end = 5 + int.from_bytes(body[1:5], "big")
        assert len(body) >= end
        found.append((body[0], body[5:end]))
        body = body[end:]
    return found


ORDER = Order(int64=5, any={"type_url": "x/shop.v1.Order", "value": Order(string="in").SerializeToString()})
ORDER_JSON = {"int64": "5", "any": {"@type": "x/shop.v1.Order", "string": "in"}}


async def test_the_content_type_selects_the_protocol(http: httpx.AsyncClient) -> None:
    data, text = ORDER.SerializeToString(), json.dumps(ORDER_JSON).encode()
    for kind, body in (
        ("application/json", text),
        ("Application/JSON; charset=utf-8", text),
        ("application/proto", data),
        ("application/grpc-web+proto", frame(data)),
    ):
        response = await post(http, PLACE, kind, body)
        assert (response.status_code, response.headers["content-type"]) == (200, kind.partition(";")[0].lower())
        assert int(response.headers["content-length"]) == len(response.content)
        if "json" in response.headers["content-type"]:
            assert response.json() == ORDER_JSON
        elif kind == "application/proto":
            assert Order.FromString(response.content) == ORDER
        else:
            assert Order.FromString(envelopes(response.content)[0][1]) == ORDER


@pytest.mark.parametrize(("path", "kind"), [(PLACE, "application/connect+json"), (WATCH, "application/json")])
async def test_a_unary_method_and_a_stream_have_content_types_of_their_own(
    http: httpx.AsyncClient, path: str, kind: str
) -> None:
    response = await post(http, path, kind, b"{}")
    assert response.status_code == 415
    kinds = {PLACE: ["application/json", "application/proto"]}
    accepted = kinds.get(path, ["application/connect+json", "application/connect+proto"])
    assert all(each in response.json()["error"]["message"] for each in ("application/grpc-web+proto", *accepted))


@pytest.mark.parametrize("kind", ["application/connect+json", "application/connect+proto"])
async def test_a_stream_has_an_envelope_for_each_message_and_one_for_its_end(
    http: httpx.AsyncClient, kind: str
) -> None:
    is_json = kind.endswith("json")
    body = b'{"int32":3}' if is_json else Order(int32=3).SerializeToString()
    response = await post(http, WATCH, kind, frame(body))
    assert (response.status_code, response.headers["content-type"]) == (200, kind)
    assert response.headers["x-task-id"] == "t-1"
    *messages, end = envelopes(response.content)
    assert [flags for flags, _ in messages] == [0, 0, 0]
    if is_json:
        assert [json.loads(each) for _, each in messages] == [{}, {"int64": "1"}, {"int64": "2"}]
    else:
        assert [Order.FromString(each).int64 for _, each in messages] == [0, 1, 2]
    assert (end[0], json.loads(end[1])) == (2, {"metadata": {"x-cost": ["7"]}})


async def test_a_stream_that_fails_ends_with_the_error_after_its_messages(http: httpx.AsyncClient) -> None:
    response = await post(http, WATCH, "application/connect+json", frame(b'{"int32":1,"string":"break"}'))
    assert response.status_code == 200
    (first, _), (flags, end) = envelopes(response.content)
    found = json.loads(end)
    assert (first, flags, found["error"]["code"], found["metadata"]) == (0, 2, "internal", {"x-cost": ["7"]})
    assert b"secret" not in response.content


async def test_headers_of_a_stream_without_messages_are_headers(http: httpx.AsyncClient) -> None:
    response = await post(http, WATCH, "application/connect+json", frame(b"{}"))
    assert (response.headers["x-task-id"], response.headers["x-cost"]) == ("t-1", "7")
    assert envelopes(response.content) == [(2, b"{}")]


async def test_headers_of_a_servicer_are_in_responses_and_errors_and_pages_may_read_them(
    http: httpx.AsyncClient,
) -> None:
    for kind, wrap in (("application/json", bytes), ("application/grpc-web", frame)):
        body = b"{}" if kind.endswith("json") else b""
        response = await post(http, PLACE, kind, wrap(body), origin="https://app.example")
        assert response.headers["x-task-id"] == "t-1"
        assert "*" in response.headers["access-control-expose-headers"].split(", ")
    failed = await post(http, PLACE, "application/json", b'{"string":"missing"}')
    assert (failed.status_code, failed.headers["x-task-id"]) == (404, "t-1")


async def test_trailing_metadata_of_grpc_web_is_in_its_trailers(http: httpx.AsyncClient) -> None:
    response = await post(http, WATCH, "application/grpc-web", frame(Order(int32=1).SerializeToString()))
    assert response.headers["x-task-id"] == "t-1"
    assert envelopes(response.content)[-1] == (0x80, b"grpc-status: 0\r\nx-cost: 7\r\n")


async def test_an_error_has_its_status_and_a_retry_delay_its_header(http: httpx.AsyncClient) -> None:
    full = await post(http, PLACE, "application/proto", Order(string="full").SerializeToString())
    assert (full.status_code, full.headers["content-type"]) == (429, "application/json")
    assert (full.json()["code"], full.headers["retry-after"]) == ("resource_exhausted", "3")


@pytest.mark.parametrize("string", ["break", "bad header"])
async def test_a_fault_of_the_servicer_is_an_incident(http: httpx.AsyncClient, string: str) -> None:
    response = await post(http, PLACE, "application/json", json.dumps({"string": string}).encode())
    assert (response.status_code, response.json()["code"]) == (500, "internal")
    assert "incident" in response.json()["message"]
    assert b"secret" not in response.content


async def test_the_bounds_of_a_message_are_those_of_its_binary_encoding(http: httpx.AsyncClient) -> None:
    for order in ({"string": "x" * 1000}, {"orders": [{"string": "x" * 100}] * 20}):
        response = await post(http, PLACE, "application/json", json.dumps(order).encode())
        details: Any = response.json()["details"]
        assert (response.status_code, details[0]["debug"]["reason"]) == (400, "MESSAGE_TOO_LARGE")
