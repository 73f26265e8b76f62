"""Identity providers on loopback: rotated key sets, token endpoints, and failures of both."""

import asyncio
import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from protolink_grpc.auth import AnyOf, APIKeyAuth, BearerTokenAuth, OAuth2ClientCredentials
from protolink_grpc.auth.fetch import MAX_BYTES, JsonRequest, fetch_json
from protolink_grpc.auth.keys import MAX_STALE_S, RemoteKeys
from protolink_grpc.errors import UnauthenticatedError, UnavailableError

METHOD = "/plgrpc.v1.AgentService/SendTask"
HERE = "grpc://127.0.0.1:50051"


class Provider:
    """An HTTP server on loopback whose answers the test decides.

    Attributes:
        answer: Status and document of the next answers; bytes are sent as they are.
        asked: Headers and form of each request so far.
        held: While it is set to an event, answers wait for that.
    """

    def __init__(self) -> None:
        self.answer: tuple[int, Any] = (200, {})
        self.headers: dict[str, str] = {}
        self.asked: list[tuple[dict[str, str], dict[str, str]]] = []
        self.held: threading.Event | None = None
        self.drips = False
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.respond(self)

            do_POST = do_GET

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/doc"

    def respond(self, request: BaseHTTPRequestHandler) -> None:
        form = parse_qs(request.rfile.read(int(request.headers.get("content-length", 0))).decode())
        self.asked.append(
            ({k.lower(): v for k, v in request.headers.items()}, {k: ",".join(v) for k, v in form.items()})
        )
        if self.held is not None:
            self.held.wait(10)
        status, document = self.answer
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        try:
            request.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **self.headers}.items():
                request.send_header(name, value)
            request.end_headers()
            if self.drips:
                for byte in body:
                    request.wfile.write(bytes([byte]))
                    request.wfile.flush()
                    threading.Event().wait(0.02)
            else:
                request.wfile.write(body)
        except OSError:
            pass  # the client has had enough

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    if made.held is not None:
        made.held.set()
    made.close()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


KEYS = {kid: ec.generate_private_key(ec.SECP256R1()) for kid in ("one", "two")}


def key_set(*kids: str) -> dict[str, Any]:
    made = [jwt.algorithms.ECAlgorithm.to_jwk(KEYS[kid].public_key(), as_dict=True) for kid in kids]
    return {"keys": [{**key, "kid": kid} for key, kid in zip(made, kids, strict=True)]}


def token(kid: str, **changes: Any) -> str:
    claims = {"sub": "ann", "exp": int(time.time()) + 600, **changes}
    return jwt.encode(claims, KEYS[kid], "ES256", headers={"kid": kid})


async def name(auth: Any, value: str) -> str | None:
    found = await auth(METHOD, {"authorization": f"Bearer {value}"})
    return None if found is None else str(found.name)


# -- key sets ----------------------------------------------------------------------------------------------------------------


async def test_a_rotated_key_is_found_and_a_withdrawn_one_forgotten(provider: Provider) -> None:
    provider.answer = (200, key_set("one"))
    auth = BearerTokenAuth(jwks_url=provider.url, refetch_s=0)
    old, new = token("one"), token("two")
    assert await name(auth, old) == "ann"
    provider.answer = (200, key_set("two"))
    assert await name(auth, old) == "ann", "the key set has not been fetched again yet"
    assert await name(auth, new) == "ann"
    assert await name(auth, old) is None, "also where it had been verified before"


async def test_known_keys_cost_no_request(provider: Provider) -> None:
    provider.answer = (200, key_set("one", "two"))
    auth = BearerTokenAuth(jwks_url=provider.url, refetch_s=0)
    assert provider.asked == [], "nor does the start"
    for number in range(5):
        assert await name(auth, token("one", jti=str(number))) == "ann"
        assert await name(auth, token("two", jti=str(number))) == "ann"
    assert len(provider.asked) == 1


async def test_unknown_keys_cause_one_look_in_each_interval(provider: Provider) -> None:
    clock = Clock()
    provider.answer = (200, key_set("one"))
    keys = RemoteKeys(provider.url, refetch_s=30, clock=clock)
    assert await keys.find("one", "ES256") is not None
    for number in range(20):
        assert await keys.find(f"unknown-{number}", "ES256") is None
    assert len(provider.asked) == 1
    clock.now += 30
    provider.answer = (200, key_set("one", "two"))
    assert await keys.find("two", "ES256") is not None
    assert len(provider.asked) == 2


async def test_many_callers_at_once_wait_for_one_look(provider: Provider) -> None:
    provider.answer = (200, key_set("one"))
    provider.held = threading.Event()
    auth = BearerTokenAuth(jwks_url=provider.url)
    waiting = [asyncio.ensure_future(name(auth, token("one", jti=str(number)))) for number in range(20)]
    # The loop runs while the answer is held; otherwise nothing would release the answer.
    await asyncio.wait(waiting, timeout=0.01)
    provider.held.set()
    assert await asyncio.gather(*waiting) == ["ann"] * 20
    assert len(provider.asked) == 1


async def test_one_caller_that_gives_up_does_not_end_the_look_of_the_others(provider: Provider) -> None:
    provider.answer = (200, key_set("one"))
    provider.held = threading.Event()
    auth = BearerTokenAuth(jwks_url=provider.url)
    first, second = (asyncio.ensure_future(name(auth, token("one"))) for _ in range(2))
    await asyncio.wait([first, second], timeout=0.01)
    first.cancel()
    provider.held.set()
    assert await second == "ann"
    assert len(provider.asked) == 1


def test_several_event_loops_share_an_authenticator(provider: Provider) -> None:
    provider.answer = (200, key_set("one"))
    auth = BearerTokenAuth(jwks_url=provider.url)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: asyncio.run(name(auth, token("one"))), range(8)))
    assert found == ["ann"] * 8
    assert len(provider.asked) == 1


async def test_without_any_keys_nobody_is_refused_but_told_to_come_back(provider: Provider) -> None:
    provider.answer = (500, {"error": "secret internals"})
    auth = BearerTokenAuth(jwks_url=provider.url, refetch_s=0)
    with pytest.raises(UnavailableError) as caught:
        await name(auth, token("one"))
    assert "127.0.0.1" not in str(caught.value)
    assert "secret" not in str(caught.value)
    provider.answer = (200, key_set("one"))
    assert await name(auth, token("one")) == "ann"


async def test_while_keys_cannot_be_had_other_credentials_still_count(provider: Provider) -> None:
    provider.answer = (500, {})
    auth = AnyOf(BearerTokenAuth(jwks_url=provider.url), APIKeyAuth({"k-1": []}))
    found = await auth(METHOD, {"authorization": f"Bearer {token('one')}", "x-api-key": "k-1"})
    assert found is not None
    assert found.name.startswith("key-")


async def test_known_keys_outlive_an_outage_but_not_forever(provider: Provider) -> None:
    clock = Clock()
    provider.answer = (200, key_set("one"))
    keys = RemoteKeys(provider.url, refetch_s=30, max_age_s=3600, clock=clock)
    await keys.find("one", "ES256")
    provider.answer = (503, {})
    clock.now += 3601
    assert await keys.find("one", "ES256") is not None
    assert len(provider.asked) == 2
    clock.now += MAX_STALE_S
    with pytest.raises(UnavailableError):
        await keys.find("one", "ES256")


async def test_old_keys_are_looked_up_again_before_they_count(provider: Provider) -> None:
    clock = Clock()
    provider.answer = (200, key_set("one"))
    keys = RemoteKeys(provider.url, refetch_s=30, max_age_s=3600, clock=clock)
    await keys.find("one", "ES256")
    provider.answer = (200, key_set("two"))
    clock.now += 3601
    assert await keys.find("one", "ES256") is None


# -- documents that are none -------------------------------------------------------------------------------------------------


def too_large(provider: Provider) -> None:
    provider.answer = (200, b'"' + b"x" * MAX_BYTES + b'"')


def no_json(provider: Provider) -> None:
    provider.answer = (200, b"<html>")


def nested(provider: Provider) -> None:
    provider.answer = (200, b"[" * 100_000)


def packed(provider: Provider) -> None:
    provider.headers = {"Content-Encoding": "gzip"}
    provider.answer = (200, b"\x1f\x8b\x08\x00 not even gzip")


def cut(provider: Provider) -> None:
    provider.headers = {"Content-Length": "1000"}
    provider.answer = (200, b"{}")


def dripping(provider: Provider) -> None:
    provider.drips = True
    provider.answer = (200, b'"' + b"x" * 1000 + b'"')


def silent(provider: Provider) -> None:
    provider.held = threading.Event()


@pytest.mark.parametrize("trouble", [too_large, no_json, nested, packed, cut, dripping, silent])
def test_an_endpoint_that_misbehaves_is_unavailable_within_its_bounds(
    provider: Provider, trouble: Callable[[Provider], None]
) -> None:
    trouble(provider)
    began = time.monotonic()
    with pytest.raises(UnavailableError):
        fetch_json(JsonRequest(provider.url, timeout_s=0.3))
    assert time.monotonic() - began < 5


def test_a_redirect_is_not_followed(provider: Provider) -> None:
    provider.headers = {"Location": "/elsewhere"}
    provider.answer = (302, {})
    assert fetch_json(JsonRequest(provider.url))[0] == 302
    assert len(provider.asked) == 1


def test_nobody_listening_is_unavailable(provider: Provider) -> None:
    with pytest.raises(UnavailableError):
        fetch_json(JsonRequest("http://127.0.0.1:1/keys?secret=1"))


# -- tokens of a client ------------------------------------------------------------------------------------------------------


def issued(value: str, expires_in: Any = 300, **more: Any) -> tuple[int, dict[str, Any]]:
    return 200, {"access_token": value, "token_type": "Bearer", "expires_in": expires_in, **more}


def bearer(value: str) -> dict[str, str]:
    return {"authorization": f"Bearer {value}"}


async def test_a_client_asks_with_its_own_id_and_secret(provider: Provider) -> None:
    provider.answer = issued("t-1")
    client = OAuth2ClientCredentials(provider.url, "my agent", "s:cret&", "read pay", "agents")
    assert await client.headers(HERE) == bearer("t-1")
    ((headers, form),) = provider.asked
    assert form == {"grant_type": "client_credentials", "scope": "read pay", "audience": "agents"}
    assert headers["content-type"] == "application/x-www-form-urlencoded"
    said = base64.b64decode(headers["authorization"].removeprefix("Basic ")).decode()
    assert said == "my+agent:s%3Acret%26"  # RFC 6749, section 2.3.1: encoded as in a form, then as Basic


async def test_id_and_secret_can_go_in_the_form(provider: Provider) -> None:
    provider.answer = issued("t-1")
    await OAuth2ClientCredentials(provider.url, "me", "s:cret", secret_in_body=True).headers(HERE)
    ((headers, form),) = provider.asked
    assert form == {"grant_type": "client_credentials", "client_id": "me", "client_secret": "s:cret"}
    assert "authorization" not in headers


async def test_a_token_serves_until_shortly_before_its_end_and_is_renewed_behind_the_calls(provider: Provider) -> None:
    clock = Clock()
    client = OAuth2ClientCredentials(provider.url, "me", "secret", clock=clock)
    provider.answer = issued("t-1")
    await client.headers(HERE)
    provider.answer = issued("t-2")
    clock.now += 239
    assert await client.headers(HERE) == bearer("t-1")
    assert len(provider.asked) == 1
    clock.now += 2
    provider.held = threading.Event()
    assert await client.headers(HERE) == bearer("t-1"), "the call does not wait for the new one"
    assert await client.headers(HERE) == bearer("t-1")
    provider.held.set()
    await client._fetch.result()
    assert await client.headers(HERE) == bearer("t-2")
    assert len(provider.asked) == 2


async def test_a_renewal_that_fails_is_tried_again_and_the_old_token_serves_to_its_end(provider: Provider) -> None:
    clock = Clock()
    client = OAuth2ClientCredentials(provider.url, "me", "secret", clock=clock)
    provider.answer = issued("t-1")
    await client.headers(HERE)
    provider.answer = (503, {})
    clock.now += 250
    for _ in range(3):
        assert await client.headers(HERE) == bearer("t-1")
    with pytest.raises(UnavailableError):
        await client._fetch.result()
    clock.now += 51
    with pytest.raises(UnavailableError):
        await client.headers(HERE)
    provider.answer = issued("t-2")
    assert await client.headers(HERE) == bearer("t-2")


async def test_many_calls_at_once_ask_for_one_token(provider: Provider) -> None:
    provider.answer = issued("t-1")
    provider.held = threading.Event()
    client = OAuth2ClientCredentials(provider.url, "me", "secret")
    waiting = [asyncio.ensure_future(client.headers(HERE)) for _ in range(20)]
    await asyncio.wait(waiting, timeout=0.01)
    provider.held.set()
    assert await asyncio.gather(*waiting) == [bearer("t-1")] * 20
    assert len(provider.asked) == 1


def test_several_event_loops_share_a_client(provider: Provider) -> None:
    provider.answer = issued("t-1")
    client = OAuth2ClientCredentials(provider.url, "me", "secret")
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: asyncio.run(client.headers(HERE)), range(8)))  # type: ignore[arg-type]  # a coroutine's Mapping
    assert found == [bearer("t-1")] * 8
    assert len(provider.asked) == 1


async def test_a_refused_token_is_renewed_once_for_all_who_were_refused(provider: Provider) -> None:
    clock = Clock()
    client = OAuth2ClientCredentials(provider.url, "me", "secret", clock=clock)
    provider.answer = issued("t-1")
    refused = await client.headers(HERE)
    clock.now += 10
    provider.answer = issued("t-2")
    assert await client.refresh(refused)
    assert await client.headers(HERE) == bearer("t-2")
    assert await client.refresh(refused), "this one was still the old token"
    assert await client.headers(HERE) == bearer("t-2")
    assert len(provider.asked) == 2


async def test_a_peer_that_refuses_every_token_does_not_make_us_ask_for_more(provider: Provider) -> None:
    clock = Clock()
    client = OAuth2ClientCredentials(provider.url, "me", "secret", clock=clock)
    provider.answer = issued("t-1")
    for _ in range(10):
        await client.headers(HERE)
        assert not await client.refresh()
    assert len(provider.asked) == 1


async def test_a_client_that_is_refused_says_why_and_no_secret(provider: Provider) -> None:
    provider.answer = (401, {"error": "invalid_client", "error_description": "the secret s3cret is wrong"})
    with pytest.raises(UnauthenticatedError) as caught:
        await OAuth2ClientCredentials(provider.url, "me", "s3cret").headers(HERE)
    assert str(caught.value) == "the token endpoint refuses this client: invalid_client"


@pytest.mark.parametrize("error", [None, 7, "two words", "x" * 41, "", {"a": 1}])
async def test_an_error_code_that_is_none_is_not_repeated(provider: Provider, error: Any) -> None:
    provider.answer = (400, {"error": error})
    with pytest.raises(UnauthenticatedError, match="HTTP 400"):
        await OAuth2ClientCredentials(provider.url, "me", "secret").headers(HERE)


@pytest.mark.parametrize(
    "answer",
    [
        (500, {}),
        (302, {}),
        (200, {}),
        (200, []),
        (200, b"no json"),
        (200, {"access_token": ""}),
        (200, {"access_token": 7}),
        (200, {"access_token": "two words"}),
        (200, {"access_token": "t", "token_type": "mac"}),
        (200, {"access_token": "t", "token_type": 7}),
    ],
)
async def test_an_answer_without_a_bearer_token_is_no_token(provider: Provider, answer: tuple[int, Any]) -> None:
    provider.answer = answer
    with pytest.raises(UnavailableError):
        await OAuth2ClientCredentials(provider.url, "me", "secret").headers(HERE)


@pytest.mark.parametrize(
    ("said", "lives_s"),
    [(100, 100), ("100", 100), (None, 300), ("soon", 300), (-5, 300), (0, 300), (True, 300), (1e12, 86_400), ([], 300)],
)
async def test_the_life_of_a_token_is_read_with_care(provider: Provider, said: Any, lives_s: float) -> None:
    clock = Clock()
    client = OAuth2ClientCredentials(provider.url, "me", "secret", clock=clock)
    provider.answer = issued("t-1", said)
    await client.headers(HERE)
    provider.answer = issued("t-2")
    clock.now += lives_s - 0.5
    provider.held = threading.Event()
    assert await client.headers(HERE) == bearer("t-1")
    provider.held.set()
    clock.now += 1
    assert await client.headers(HERE) == bearer("t-2")
