"""One HTTP server from its start to its stop, with well-behaved clients."""

import asyncio
import datetime
import ipaddress
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import websockets
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from http_world import PATIENCE_S, Peer, World, on_both_loops, running
from prometheus_client import CollectorRegistry, Counter, generate_latest

from protolink_grpc import (
    AccessRules,
    AddressInUseError,
    Agent,
    AgentCard,
    HttpOptions,
    InvalidArgumentError,
    Principal,
    TLSConfig,
)
from protolink_grpc.edges.http import http_server
from protolink_grpc.edges.http.http_server import HttpServer
from protolink_grpc.edges.http.metrics import Metrics, metrics_server


def post(body: bytes = b"hello", path: str = "/echo", *headers: bytes) -> bytes:
    lines = [b"POST %b HTTP/1.1" % path.encode(), b"host: localhost", b"content-length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@on_both_loops
async def test_one_connection_serves_many_requests(world: World) -> None:
    peer = await Peer.of(world)
    for number in range(3):
        assert (await peer.get(f"/echo?n={number}"))[2] == b'{"bytes":0,"n":"%d"}' % number
    assert world.server.connections == 1
    peer.close()


@on_both_loops
async def test_pipelined_requests_are_answered_in_their_order(world: World) -> None:
    peer = await Peer.of(world)
    await peer.say(b"".join(post(b"x" * number, f"/echo?n={number}") for number in range(10)))
    answers = [orjson.loads((await peer.answer())[2]) for _ in range(10)]
    assert answers == [{"bytes": number, "n": str(number)} for number in range(10)]
    peer.close()


@on_both_loops
async def test_a_request_too_many_in_a_pipeline_is_answered_after_those_before_it_and_ends_the_connection(
    world: World,
) -> None:
    peer = await Peer.of(world)
    await peer.say(b"".join(post(b"x" * number, f"/echo?n={number}") for number in range(100)))
    statuses = [(await peer.answer())[0] for _ in range(34)]
    assert statuses == [200] * 33 + [503]
    assert await peer.rest() == b""
    peer.close()


@on_both_loops
async def test_a_client_that_waits_for_leave_to_send_its_body_gets_it(world: World) -> None:
    peer = await Peer.of(world)
    await peer.say(post(b"", "/echo", b"expect: 100-continue").replace(b"length: 0", b"length: 5"))
    assert (await peer.head())[0] == 100
    await peer.say(b"hello")
    assert orjson.loads((await peer.answer())[2])["bytes"] == 5
    peer.close()


@on_both_loops
async def test_a_client_that_offers_http_2_is_answered_in_http_1(world: World) -> None:
    peer = await Peer.of(world)
    offer = b"connection: upgrade, http2-settings", b"upgrade: h2c", b"http2-settings: AAMAAABkAAQAAP__"
    for size in (5, 100_000):
        await peer.say(post(b"x" * size, "/echo", *offer))
        assert orjson.loads((await peer.answer())[2])["bytes"] == size
    peer.close()


@on_both_loops
async def test_answers_have_a_date_and_no_name_of_the_server(world: World) -> None:
    peer = await Peer.of(world)
    _, headers, _ = await peer.get("/echo")
    assert headers["date"].endswith("GMT")
    assert "server" not in headers
    peer.close()


@on_both_loops
async def test_another_host_is_refused_and_the_connection_stays(world: World) -> None:
    peer = await Peer.of(world)
    assert (await peer.get("/echo", host="evil.example"))[0] == 421
    assert (await peer.get("/echo", host="127.0.0.1"))[0] == 200
    peer.close()


@on_both_loops
async def test_a_page_of_another_site_opens_no_websocket(world: World) -> None:
    url = f"ws://127.0.0.1:{world.port}/ws"
    with pytest.raises(websockets.InvalidStatus) as caught:
        await websockets.connect(url, origin=websockets.Origin("https://evil.example"))
    assert caught.value.response.status_code == 403
    async with websockets.connect(url, origin=websockets.Origin(f"http://127.0.0.1:{world.port}")) as chat:
        await chat.send("hello")
        assert await chat.recv() == "hello"


@on_both_loops
async def test_a_websocket_has_a_bound_on_its_messages() -> None:
    async with running(max_websocket_message_bytes=1000) as world:
        chat = await websockets.connect(f"ws://127.0.0.1:{world.port}/ws")
        await chat.send("x" * 1000)
        assert len(await chat.recv()) == 1000
        await chat.send("x" * 1001)
        with pytest.raises(websockets.ConnectionClosed):
            await chat.recv()
        assert chat.close_code == 1009


@on_both_loops
async def test_a_websocket_whose_peer_does_not_answer_pings_is_closed() -> None:
    async with running(ping_interval_s=0.05, ping_timeout_s=0.05) as world:
        peer = await Peer.of(world)
        await peer.get(
            "/ws",
            "Connection: upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        )
        assert b"ping timeout" in await peer.rest()
        peer.close()


@on_both_loops
async def test_a_failure_midway_closes_the_connection_and_is_logged_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await Peer.of(world)
    await peer.say(b"GET /fail HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert (await peer.head())[0] == 200
    assert await peer.rest() == b"first"
    told = [each for each in caplog.records if each.exc_info and "midway" in str(each.exc_info[1])]
    assert len(told) == 1
    peer.close()


@on_both_loops
async def test_a_taken_port_is_an_error_at_once(world: World) -> None:
    with pytest.raises(AddressInUseError) as caught:
        await HttpServer(_nothing, HttpOptions(listen=world.server.url)).start()
    assert caught.value.metadata["url"] == world.server.url


@on_both_loops
async def test_an_address_of_another_machine_is_an_error_at_once() -> None:
    for listen in ("192.0.2.1:0", "no-such-host.invalid:0"):
        with pytest.raises(AddressInUseError):
            await HttpServer(_nothing, HttpOptions(listen=listen)).start()


@on_both_loops
async def test_localhost_is_one_port_on_all_of_its_addresses() -> None:
    async with running(listen="localhost:0") as world:
        found = await asyncio.get_running_loop().getaddrinfo("localhost", world.port, type=socket.SOCK_STREAM)
        for family, _, _, _, address in found:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setblocking(False)
                await asyncio.get_running_loop().sock_connect(probe, address)


@on_both_loops
async def test_a_server_starts_again_on_its_port(world: World) -> None:
    url = world.server.url
    for _ in range(3):
        peer = await Peer.of(world)
        assert (await peer.get("/readyz"))[0] == 200
        await world.server.stop(1)
        assert await peer.rest() == b""
        peer.close()
        with pytest.raises(ConnectionRefusedError):
            await Peer.of(world)
        assert await world.server.start() == url


@on_both_loops
async def test_a_server_touches_neither_signals_nor_loggers() -> None:
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    names = ("", "uvicorn", "uvicorn.error", "uvicorn.access")
    before = [(each.level, list(each.handlers), each.propagate) for each in map(logging.getLogger, names)]
    async with running():
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
        assert [(each.level, list(each.handlers), each.propagate) for each in map(logging.getLogger, names)] == before


@on_both_loops
async def test_a_draining_server_is_not_ready_and_still_answers(world: World) -> None:
    peer = await Peer.of(world)
    assert (await peer.get("/readyz"))[0] == 200
    await world.server.drain()
    assert (await peer.get("/readyz"))[0] == 503
    assert (await peer.get("/healthz"))[0] == 200
    assert (await peer.get("/echo"))[0] == 200
    peer.close()


@on_both_loops
async def test_draining_ends_a_stream_in_order(world: World) -> None:
    peer = await Peer.of(world)
    await peer.say(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert (await peer.head())[0] == 200
    await peer.reader.readuntil(b"data: {}\n\n")
    await world.server.drain()
    await world.server.stop(PATIENCE_S)
    assert (await peer.rest()).endswith(b": going\n\n\r\n0\r\n\r\n")
    peer.close()


@on_both_loops
async def test_stopping_waits_for_an_answer_under_way(world: World) -> None:
    peer = await Peer.of(world)
    await peer.say(b"GET /wait HTTP/1.1\r\nhost: localhost\r\n\r\n")
    await world.held.wait()
    stopping = asyncio.create_task(world.server.stop(PATIENCE_S))
    await asyncio.wait([stopping], timeout=0.05)
    assert not stopping.done()
    world.go.set()
    status, headers, body = await peer.answer()
    assert (status, headers["connection"], body) == (200, "close", b"done")
    await stopping
    peer.close()


@on_both_loops
async def test_stopping_cuts_what_takes_longer_than_its_grace(world: World) -> None:
    peer = await Peer.of(world)
    await peer.say(b"GET /wait HTTP/1.1\r\nhost: localhost\r\n\r\n")
    await world.held.wait()
    async with asyncio.timeout(PATIENCE_S):
        await world.server.stop(0.05)
    assert await peer.rest() == b""
    assert not world.server.is_running
    peer.close()


@on_both_loops
async def test_stopping_leaves_behind_what_does_not_want_to_end(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("protolink_grpc.edges.http.http_server.CUT_S", 0.05)
    peer = await Peer.of(world)
    await peer.say(b"GET /stubborn HTTP/1.1\r\nhost: localhost\r\n\r\n")
    await world.held.wait()
    async with asyncio.timeout(PATIENCE_S):
        await world.server.stop(0.05)
    assert "1 requests are still running" in caplog.text
    world.go.set()
    peer.close()


@on_both_loops
async def test_stopping_says_goodbye_to_websockets(world: World) -> None:
    async with websockets.connect(f"ws://127.0.0.1:{world.port}/ws") as chat:
        await chat.send("hello")
        await chat.recv()
        await world.server.stop(1)
        with pytest.raises(websockets.ConnectionClosed):
            await chat.recv()
        assert chat.close_code == 1012
    assert world.gone.is_set()


@on_both_loops
async def test_metrics_tell_of_requests_and_connections(world: World) -> None:
    world.metrics.observe(world.server)
    peer = await Peer.of(world)
    await peer.get("/echo")
    text = (await peer.get("/metrics"))[2].decode()
    assert 'plgrpc_http_requests_total{method="GET",route="/echo",status="200"} 1.0\n' in text
    assert "plgrpc_http_connections 1.0\n" in text
    peer.close()


@on_both_loops
async def test_metrics_can_have_a_port_of_their_own() -> None:
    metrics = Metrics()
    metrics.count("/x", "GET", 200, 0.1)
    server = metrics_server(metrics, HttpOptions(metrics_listen="127.0.0.1:0"))
    assert server is not None
    await server.start()
    peer = Peer(*await asyncio.open_connection("127.0.0.1", server.listen.port))
    status, headers, body = await peer.get("/metrics")
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert body == generate_latest(metrics.registry)
    peer.close()
    await server.stop(1)


async def by_name(method: str, metadata: Mapping[str, str]) -> Principal | None:
    return Principal("ann") if "x-name" in metadata else None


async def test_metrics_on_the_port_of_everybody_are_for_known_callers() -> None:
    card = AgentCard(name="quiet", description="Quiet", url="runtime://quiet")
    rules = AccessRules({"/plgrpc.v1.Metrics/*": "operate"})
    for options, expected in (({}, 200), ({"access": rules}, 403)):
        agent = Agent(card, http=HttpOptions(), authenticator=by_name, **options)
        async with agent, httpx.AsyncClient(trust_env=False) as http:
            metrics = f"{agent.http_url}/metrics"
            assert (await http.get(metrics)).status_code == 401
            assert (await http.get(metrics, headers={"x-name": "ann"})).status_code == expected
            assert (await http.get(f"{agent.http_url}/healthz")).status_code == 200


async def test_metrics_are_open_where_nobody_is_known_and_on_a_port_of_their_own() -> None:
    card = AgentCard(name="quiet", description="Quiet", url="runtime://quiet")
    async with Agent(card, http=HttpOptions()) as agent, httpx.AsyncClient(trust_env=False) as http:
        assert (await http.get(f"{agent.http_url}/metrics")).status_code == 200
    options = HttpOptions(metrics_listen="127.0.0.1:0")
    async with Agent(card, http=options, authenticator=by_name) as agent, httpx.AsyncClient(trust_env=False) as http:
        ports: Any = agent._ports
        assert (await http.get(f"{ports._http.gateway._metrics_server.url}/metrics")).status_code == 200
        assert (await http.get(f"{agent.http_url}/metrics")).status_code == 404


async def test_agents_in_one_process_have_their_own_metrics_and_show_those_of_the_application() -> None:
    registry = CollectorRegistry()
    Counter("orders", "Orders that were placed.", registry=registry).inc(3)
    first, second = (Agent(name, http=HttpOptions(metrics_registry=registry)) for name in ("first", "second"))
    async with first, second, httpx.AsyncClient(trust_env=False) as http:
        await http.get(f"{first.http_url}/healthz")
        texts = [(await http.get(f"{each.http_url}/metrics")).text for each in (first, second)]
    assert ['route="/healthz"' in text for text in texts] == [True, False]
    assert ["orders_total 3.0\n" in text for text in texts] == [True, True]


# -- TLS ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def issue(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], TLSConfig]:
    """Certificates of an authority of the test's own, for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    ca_key, ca_name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")]),
    )

    def built(subject: x509.Name, key: Any, extension: x509.ExtensionType, critical: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(ca_name).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
        builder = builder.not_valid_after(now + datetime.timedelta(hours=1)).add_extension(extension, critical)
        return builder.sign(ca_key, hashes.SHA256())

    ca = folder / "ca.pem"
    ca.write_bytes(
        built(ca_name, ca_key, x509.BasicConstraints(ca=True, path_length=None), True).public_bytes(
            serialization.Encoding.PEM
        )
    )

    def made(name: str) -> TLSConfig:
        key = ec.generate_private_key(ec.SECP256R1())
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        certificate = built(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key, address, False)
        keyfile, certfile = folder / f"{name}.key", folder / f"{name}.crt"
        keyfile.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        certfile.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return TLSConfig(str(certfile), str(keyfile), str(ca))

    return made


def client_context(trusting: TLSConfig, own: TLSConfig | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=trusting.cafile)
    if own is not None and own.certfile is not None:
        context.load_cert_chain(own.certfile, own.keyfile)
    return context


@on_both_loops
async def test_a_server_with_certificates_speaks_https(issue: Callable[[str], TLSConfig]) -> None:
    tls = issue("server")
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(running(tls=tls))
        assert world.server.url.startswith("https://")
        peer = await Peer.of(world, ssl=client_context(tls))
        assert (await peer.get("/echo"))[0] == 200
        assert (await peer.get("/certificate"))[2] == b"null"
        large = await Peer.of(world, ssl=client_context(tls))
        await large.say(post(b"x" * 6_000_000))
        assert (await large.answer())[0] == 413
        for each in (peer, large):
            each.close()


@on_both_loops
async def test_a_client_with_a_certificate_is_seen_with_it(issue: Callable[[str], TLSConfig]) -> None:
    tls = issue("server")
    strict = TLSConfig(tls.certfile, tls.keyfile, tls.cafile, require_client_cert=True)
    async with running(tls=strict) as world:
        peer = await Peer.of(world, ssl=client_context(tls, issue("client")))
        subject = orjson.loads((await peer.get("/certificate"))[2])["subject"]
        assert subject == [[["commonName", "client"]]]
        peer.close()
        stranger = await Peer.of(world, ssl=client_context(tls))
        # The refusal comes after the client's own part of the handshake.
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await stranger.reader.readexactly(1)


@on_both_loops
async def test_certificates_that_are_none_are_named(tmp_path: Path, issue: Callable[[str], TLSConfig]) -> None:
    good = issue("server")
    (tmp_path / "bad.pem").write_text("no certificate")
    bad = str(tmp_path / "bad.pem")
    for tls, field in [
        (TLSConfig(), "tls.certfile"),
        (TLSConfig(bad, good.keyfile), "tls.certfile"),
        (TLSConfig(good.certfile, good.keyfile, bad), "tls.cafile"),
        (TLSConfig(good.certfile, good.keyfile, require_client_cert=True), "tls.cafile"),
    ]:
        with pytest.raises(InvalidArgumentError) as caught:
            await HttpServer(_nothing, HttpOptions(tls=tls)).start()
        assert caught.value.field == field


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("this route is not called")


def test_an_accepted_connection_is_known_as_tcp_so_that_answers_are_not_held_back() -> None:
    # asyncio sets TCP_NODELAY on sockets that say their protocol, and on no others.
    with (
        http_server._listen_at(socket.AF_INET, ("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()),
    ):
        listening.setblocking(True)
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP
