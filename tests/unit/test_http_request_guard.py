"""The request guard: allowed requests, their cost, and their destinations, without a socket."""

from collections.abc import Mapping
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from protolink_grpc.auth import AccessRules, RateLimit, admission
from protolink_grpc.auth.principal import ANONYMOUS_PRINCIPAL, Principal
from protolink_grpc.edges.http.app import _build_router
from protolink_grpc.edges.http.json_body import check_json
from protolink_grpc.edges.http.options import Bounds
from protolink_grpc.edges.http.request_guard import SMALL_BYTES, RequestGuard
from protolink_grpc.errors import (
    ContentTypeNotSupportedError,
    MessageTooLargeError,
    ResourceExhaustedError,
    UnauthenticatedError,
)


def request(*headers: tuple[str, str], method: str = "POST", path: str = "/") -> Request:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    return Request({"type": "http", "method": method, "path": path, "headers": raw, "query_string": b""})


async def by_name(method: str, metadata: Mapping[str, str]) -> Principal | None:
    return Principal(metadata["name"]) if "name" in metadata else None


LENGTH = ("content-length", "2")


@pytest.mark.parametrize(
    "headers",
    [
        [("content-type", "application/json"), LENGTH],
        [("content-type", "Application/A2A+JSON; charset=utf-8"), LENGTH],
        [("content-type", "application/vnd.example+json"), ("transfer-encoding", "chunked")],
        [],
        [("content-length", "0")],
    ],
)
def test_a_body_of_json_passes_and_so_does_none(headers: list[tuple[str, str]]) -> None:
    check_json(request(*headers))


@pytest.mark.parametrize(
    "headers",
    [
        [LENGTH],
        [("transfer-encoding", "chunked")],
        [("content-type", "text/plain"), LENGTH],
        [("content-type", "text/plain")],
        [("content-type", "application/jsonp"), LENGTH],
    ],
)
def test_a_body_that_does_not_say_that_it_is_json_is_refused(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(ContentTypeNotSupportedError):
        check_json(request(*headers))


@pytest.mark.parametrize(
    ("headers", "first"),
    [
        ([("content-length", str(SMALL_BYTES))], True),
        ([("content-length", str(SMALL_BYTES + 1))], False),
        ([("content-length", "9" * 5000)], False),
        ([("transfer-encoding", "chunked")], False),
    ],
)
def test_only_a_small_body_is_read_of_a_stranger(headers: list[tuple[str, str]], first: bool) -> None:
    assert RequestGuard(by_name).reads_body_first(request(*headers)) is first
    assert RequestGuard().reads_body_first(request(*headers))


async def test_what_is_no_call_costs_its_sender_what_a_call_costs() -> None:
    guard = RequestGuard(by_name, RateLimit(0.001, burst=1))
    await guard.charge_sender(request(("name", "ann")))
    with pytest.raises(ResourceExhaustedError):
        await guard.principal(request(("name", "ann")), "/x.Y/Z")
    await guard.principal(request(("name", "bob")), "/x.Y/Z")


async def test_strangers_share_the_bucket_of_everybody_anonymous() -> None:
    guard = RequestGuard(by_name, RateLimit(0.001, burst=1))
    with pytest.raises(UnauthenticatedError):
        await guard.charge_sender(request())
    with pytest.raises(ResourceExhaustedError):
        await guard.charge_sender(request())
    with pytest.raises(ResourceExhaustedError):
        guard.charge(ANONYMOUS_PRINCIPAL)


async def test_no_rule_is_about_what_is_no_call() -> None:
    rate = RateLimit(0.001, burst=1)
    guard = RequestGuard(by_name, admission(rate, AccessRules({}, default=False)))
    await guard.charge_sender(request(("name", "ann")))
    with pytest.raises(ResourceExhaustedError):
        await guard.charge_sender(request(("name", "ann")))


async def asked(app: Any, method: str, path: str) -> bytes:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await app(request(method=method, path=path).scope, None, send)
    found: bytes = sent[-1]["body"]
    return found


def saying(text: str) -> Any:
    async def endpoint(request: Request) -> Response:
        return Response(text)

    return endpoint


async def test_a_path_of_another_method_may_be_somebodys_name() -> None:
    app = _build_router(
        [
            Route("/tasks/stream", saying("stream"), methods=["POST"]),
            Route("/tasks/", saying("send"), methods=["POST"]),
            Route("/tasks/{id}", saying("task"), methods=["GET"]),
        ]
    )
    assert await asked(app, "POST", "/tasks/stream") == b"stream"
    assert await asked(app, "GET", "/tasks/stream") == b"task"
    for method, path in (("GET", "/tasks/"), ("DELETE", "/tasks/stream")):
        with pytest.raises(HTTPException) as caught:
            await asked(app, method, path)
        assert (caught.value.status_code, caught.value.headers) == (405, {"Allow": "POST"})


class Delivery:
    """A request whose body has arrived, or comes in two pieces."""

    def __init__(self, body: bytes, *, has_arrived: bool) -> None:
        self._body = body
        self._has_arrived = has_arrived
        self.received = 0

    def take_arrived_body(self) -> bytes | None:
        return self._body if self._has_arrived else None

    async def receive(self) -> dict[str, Any]:
        self.received += 1
        piece = self._body[: len(self._body) // 2] if self.received == 1 else self._body[len(self._body) // 2 :]
        return {"type": "http.request", "body": piece, "more_body": self.received == 1}


@pytest.mark.parametrize(("has_arrived", "receptions"), [(True, 0), (False, 2)])
async def test_a_body_is_the_same_whether_it_has_arrived_or_comes_later(has_arrived: bool, receptions: int) -> None:
    delivery = Delivery(b"x" * 10, has_arrived=has_arrived)
    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    assert await RequestGuard().body(Request(scope, delivery.receive)) == b"x" * 10
    assert delivery.received == receptions


@pytest.mark.parametrize("has_arrived", [True, False])
async def test_a_body_above_the_limit_is_refused_whether_it_has_arrived_or_comes_later(has_arrived: bool) -> None:
    delivery = Delivery(b"x" * 10, has_arrived=has_arrived)
    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    with pytest.raises(MessageTooLargeError, match="more than 9 bytes"):
        await RequestGuard(bounds=Bounds(max_body_bytes=9)).body(Request(scope, delivery.receive))
