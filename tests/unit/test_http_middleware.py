"""The middleware around every route, without a socket."""

import logging
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from protolink_grpc.edges.grpc.interceptors.status import abort_with_error
from protolink_grpc.edges.http.middleware import Hosts, Origins, error_response, with_middleware
from protolink_grpc.edges.http.options import HttpOptions, Listen
from protolink_grpc.errors import RULES, InvalidArgumentError, ResourceExhaustedError, UnauthenticatedError, classes
from protolink_grpc.net.tls import TLSConfig
from protolink_grpc.wire.status import to_status

Answer = tuple[int, dict[str, str], bytes]


async def ask(
    app: Any, *headers: tuple[str, str], method: str = "GET", kind: str = "http", version: str = "1.1"
) -> Any:
    """What is sent for one request with these headers, and a `Host` of ours unless they have one."""
    raw = [(name.encode(), value.encode()) for name, value in headers]
    if version == "1.1" and not any(name == b"host" for name, _ in raw):
        raw.append((b"host", b"127.0.0.1:8080"))
    scope = {"type": kind, "path": "/x", "headers": raw, "http_version": version}
    if kind == "http":
        scope["method"] = method
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    await app(scope, receive, send)
    return sent


async def answered(app: Any, *headers: tuple[str, str], **request: Any) -> Answer:
    start, *bodies = await ask(app, *headers, **request)
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], found, b"".join(each["body"] for each in bodies)


def responding(*headers: tuple[bytes, bytes], status: int = 200) -> Any:
    shared = list(headers)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": shared})
        await send({"type": "http.response.body", "body": b"ok"})

    return app


def raising(error: Exception) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise error

    return app


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8080",
        "agent.localhost:1",
        "127.0.0.1:9",
        "[::1]:8080",
        "10.1.2.3",
        "agents.example",
        "public.example:443",
        "a.b.wild.example",
    ],
)
def test_hosts_that_are_ours_are_allowed(host: str) -> None:
    options = HttpOptions(
        listen="agents.example:80", public_url="https://public.example/base", allowed_hosts=("*.wild.example",)
    )
    assert Hosts(options).allows(host.encode())


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "wild.example.evil", "wild.example", ""],
)
def test_a_host_of_somebody_else_is_refused(host: str) -> None:
    assert not Hosts(HttpOptions(allowed_hosts=("*.wild.example",))).allows(host.encode())


@given(st.binary(max_size=60))
def test_no_host_is_too_odd_to_judge(host: bytes) -> None:
    hosts = Hosts(HttpOptions())
    assert hosts.allows(host) == hosts.allows(host)


def test_a_star_allows_every_host() -> None:
    assert Hosts(HttpOptions(allowed_hosts=("*",))).allows(b"whatever.example")


async def test_a_request_for_another_host_is_misdirected() -> None:
    status, _, body = await answered(with_middleware(responding(), HttpOptions()), ("host", "evil.example"))
    assert status == 421
    assert "allowed_hosts" in orjson.loads(body)["error"]["message"]


async def test_two_hosts_are_one_too_many() -> None:
    status, _, _ = await answered(
        with_middleware(responding(), HttpOptions()), ("host", "localhost"), ("host", "localhost")
    )
    assert status == 400


async def test_only_http_1_0_may_leave_the_host_out() -> None:
    app = with_middleware(responding(), HttpOptions())
    assert (await answered(app, version="1.0"))[0] == 200
    sent = await ask(app, ("x", "y"), version="2")
    assert sent[0]["status"] == 400


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT"])
async def test_a_page_of_another_site_may_not_make_us_do_anything(method: str) -> None:
    app = with_middleware(responding(), HttpOptions())
    assert (await answered(app, ("origin", "https://evil.example"), method=method))[0] == 403
    assert (await answered(app, ("origin", "null"), method=method))[0] == 403
    assert (await answered(app, ("origin", "http://127.0.0.1:8080"), method=method))[0] == 200


@pytest.mark.parametrize("origin", [b"null", b"", b"file://"])
def test_a_page_without_a_site_is_not_of_this_one_where_the_host_is_left_out(origin: bytes) -> None:
    assert not Origins(HttpOptions()).allows(origin, b"")


async def test_a_page_of_another_site_may_open_no_websocket() -> None:
    async def accepting(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})

    app = with_middleware(accepting, HttpOptions())
    refused = await ask(app, ("origin", "https://evil.example"), kind="websocket")
    assert refused[0] == {"type": "websocket.http.response.start", "status": 403, "headers": refused[0]["headers"]}
    assert (await ask(app, kind="websocket"))[0]["type"] == "websocket.accept"


def test_origins_that_are_named_are_allowed_whatever_their_case_and_slash() -> None:
    origins = Origins(HttpOptions(cors_origins=("https://App.example/",)))
    assert origins.allows(b"https://app.EXAMPLE", b"localhost")
    assert not origins.allows(b"https://app.example.evil", b"localhost")


async def test_without_origins_no_answer_speaks_of_cors() -> None:
    _, headers, _ = await answered(with_middleware(responding(), HttpOptions()), ("origin", "https://app.example"))
    assert not [name for name in headers if name.startswith("access-control")]


async def test_a_named_origin_gets_its_preflight_and_reads_errors_too() -> None:
    options = HttpOptions(cors_origins=("https://app.example",), cors_headers=("X-Mine",))
    origin = ("origin", "https://app.example")
    asked = ("access-control-request-method", "POST"), ("access-control-request-headers", "authorization,x-mine")
    status, headers, _ = await answered(with_middleware(responding(), options), origin, *asked, method="OPTIONS")
    assert (status, headers["access-control-allow-origin"]) == (200, "https://app.example")
    broken = with_middleware(raising(UnauthenticatedError("who?")), options)
    status, headers, _ = await answered(broken, origin, method="POST")
    assert (status, headers["access-control-allow-origin"]) == (401, "https://app.example")


async def test_every_answer_has_the_security_headers() -> None:
    _, headers, _ = await answered(with_middleware(responding(), HttpOptions()))
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")


async def test_an_answer_keeps_the_caching_that_it_asks_for() -> None:
    app = with_middleware(responding((b"cache-control", b"max-age=60")), HttpOptions())
    assert (await answered(app))[1]["cache-control"] == "max-age=60"


async def test_a_response_that_is_sent_twice_has_its_headers_once() -> None:
    app = with_middleware(responding(), HttpOptions())
    await ask(app)
    start = (await ask(app))[0]
    assert len(start["headers"]) == len(dict(start["headers"]))


@pytest.mark.parametrize("name", ["x-request-id", "x-protolink-request-id"])
async def test_a_request_id_comes_back(name: str) -> None:
    app = with_middleware(responding(), HttpOptions())
    assert (await answered(app, (name, "abc-1")))[1][name] == "abc-1"


@pytest.mark.parametrize("value", ["", "x" * 129, "a\tb", "é"])
async def test_a_request_id_that_is_none_does_not_come_back(value: str) -> None:
    assert (
        "x-request-id" not in (await answered(with_middleware(responding(), HttpOptions()), ("x-request-id", value)))[1]
    )


async def test_a_401_says_how_to_authenticate_unless_the_route_has_said_so() -> None:
    challenges = ("Bearer", 'Basic realm="agent"')
    start = (await ask(with_middleware(responding(status=401), HttpOptions(), challenges=challenges)))[0]
    assert [value.decode() for name, value in start["headers"] if name == b"www-authenticate"] == list(challenges)
    own = with_middleware(responding((b"www-authenticate", b"Mine"), status=401), HttpOptions(), challenges=challenges)
    start = (await ask(own))[0]
    assert [value for name, value in start["headers"] if name == b"www-authenticate"] == [b"Mine"]


async def test_an_error_answers_with_the_row_of_the_table() -> None:
    error = InvalidArgumentError("must be a number", field="page_size")
    status, headers, body = await answered(with_middleware(raising(error), HttpOptions()))
    assert (status, headers["content-type"]) == (400, "application/json")
    found = orjson.loads(body)["error"]
    assert (found["code"], found["status"], found["message"]) == (
        400,
        "INVALID_ARGUMENT",
        "page_size: must be a number",
    )
    assert found["details"][0]["reason"] == "INVALID_ARGUMENT"
    assert found["details"][0]["metadata"] == {"field": "page_size"}


def test_every_reason_has_an_answer() -> None:
    for reason, cls in classes().items():
        status, body, _ = error_response(cls("no"))
        # About the body as a whole, as here, it is a status that HTTP has a word for.
        expected = 415 if reason == "CONTENT_TYPE_NOT_SUPPORTED" else RULES[reason].http
        assert (status, body["error"]["details"][0]["reason"]) == (expected, reason)


@pytest.mark.parametrize(("wait_s", "said"), [(0.2, "1"), (3.2, "4")])
async def test_a_full_server_says_when_to_come_back(wait_s: float, said: str) -> None:
    app = with_middleware(raising(ResourceExhaustedError("full", retry_after_s=wait_s)), HttpOptions())
    status, headers, _ = await answered(app)
    assert (status, headers["retry-after"]) == (429, said)


async def test_an_incident_is_told_in_the_same_words_on_both_ports(caplog: pytest.LogCaptureFixture) -> None:
    class Context:
        said = ""

        def trailing_metadata(self) -> None:
            """As of a call whose servicer has set none."""

        async def abort(self, code: Any, details: str, trailing_metadata: Any) -> None:
            self.said = details

    context: Any = Context()
    with caplog.at_level(logging.ERROR):
        await abort_with_error(RuntimeError("secret"), "a call", context, to_status)
        _, body, _ = error_response(RuntimeError("secret"))
    one, other = (record.name for record in caplog.records)
    assert one == other
    number = body["error"]["details"][0]["metadata"]["incident"]
    assert body["error"]["message"].replace(number, "") == context.said[: -len(number)]


async def test_what_was_not_meant_is_an_incident_that_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    status, _, body = await answered(with_middleware(raising(ValueError("the password is x")), HttpOptions()))
    message = orjson.loads(body)["error"]["message"]
    assert status == 500
    assert "password" not in body.decode()
    assert message.rpartition(" ")[2] in caplog.text
    assert "the password is x" in caplog.text


async def test_a_missing_page_is_json_too() -> None:
    error = HTTPException(405, "no such method", {"Allow": "GET"})
    status, headers, body = await answered(with_middleware(raising(error), HttpOptions()))
    assert (status, headers["allow"]) == (405, "GET")
    assert orjson.loads(body)["error"]["status"] == "METHOD_NOT_ALLOWED"


async def test_an_error_midway_leaves_the_answer_without_an_end(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError("midway")

    sent = await ask(with_middleware(app, HttpOptions()))
    assert [each["type"] for each in sent] == ["http.response.start"]
    assert "midway" in caplog.text


async def test_an_error_in_a_websocket_closes_it() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})
        raise UnauthenticatedError("who?")

    sent = await ask(with_middleware(app, HttpOptions()), kind="websocket")
    assert (sent[-1]["type"], sent[-1]["code"]) == ("websocket.close", 1008)


async def test_an_error_before_a_websocket_is_open_is_a_status() -> None:
    sent = await ask(with_middleware(raising(UnauthenticatedError("who?")), HttpOptions()), kind="websocket")
    assert (sent[0]["type"], sent[0]["status"]) == ("websocket.http.response.start", 401)


async def test_a_client_that_has_left_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert await ask(with_middleware(raising(ClientDisconnect()), HttpOptions())) == []
    assert not [record for record in caplog.records if record.name.startswith("protolink_grpc")]


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("localhost:0", "http://localhost:0"),
        ("http://[::1]:80/", "http://[::1]:80"),
        ("[::]:80", "http://[::]:80"),
    ],
)
def test_where_to_listen_is_a_host_and_a_port(listen: str, url: str) -> None:
    assert Listen.parse(listen).url == url


@pytest.mark.parametrize(
    "listen",
    [
        "",
        "localhost",
        ":8080",
        "grpc://a:1",
        "http://a:1/x",
        "http://u@a:1",
        "a:b",
        "a:99999",
        "https://a:1",
        "[::1:80",
    ],
)
def test_anything_else_is_no_place_to_listen(listen: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Listen.parse(listen, field="http")
    assert caught.value.field == "http"


def test_certificates_mean_https() -> None:
    assert Listen.parse("a:1", TLSConfig()).url == "https://a:1"
    with pytest.raises(InvalidArgumentError):
        Listen.parse("http://a:1", TLSConfig())


@given(st.text(max_size=40))
def test_whatever_is_written_is_a_place_or_an_argument_error(listen: str) -> None:
    try:
        found = Listen.parse(listen)
    except InvalidArgumentError:
        return
    assert found.host
    assert 0 <= found.port <= 65535
