"""One HTTP connection on a transport that records all calls."""

import asyncio
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.edges.http.connections import PEER_CERTIFICATE, Connections
from protolink_grpc.edges.http.http_server import HttpServer
from protolink_grpc.edges.http.options import HttpOptions
from protolink_grpc.edges.http.protocol import LINGER_BYTES, LINGER_S, MAX_PIPELINE, HttpConnection
from protolink_grpc.edges.http.websocket_protocol import MAX_FRAGMENTS

OPTIONS = HttpOptions(
    max_header_bytes=1024, header_timeout_s=10, idle_timeout_s=75, write_timeout_s=60, max_connections=20
)


class Timer:
    def __init__(self, at: float, callback: Any, arguments: tuple[Any, ...]) -> None:
        self.at, self.callback, self.arguments, self.is_off = at, callback, arguments, False

    def cancel(self) -> None:
        self.is_off = True


class Clock:
    """The part of a loop that a connection uses, with a time that only tests move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay_s: float, callback: Any, *arguments: Any) -> Timer:
        self.timers.append(Timer(self.now + delay_s, callback, arguments))
        return self.timers[-1]

    def create_task(self, coroutine: Any) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(coroutine)

    def pass_s(self, seconds: float) -> None:
        self.now += seconds
        for timer in [each for each in self.timers if each.at <= self.now]:
            self.timers.remove(timer)
            if not timer.is_off:
                timer.callback(*timer.arguments)

    @property
    def waiting(self) -> int:
        return sum(not each.is_off for each in self.timers)


class Wire(asyncio.Transport):
    """A transport whose peer takes what it is told to take."""

    def __init__(self, certificate: Any = None) -> None:
        super().__init__()
        self.written = bytearray()
        self.unsent = 0
        self.ended = self.closed = self.aborted = self.reading_paused = False
        self.protocol: Any = None
        self._certificate = certificate

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._certificate if name == "peercert" else default

    def write(self, data: Any) -> None:
        self.written += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def pause_reading(self) -> None:
        self.reading_paused = True

    def resume_reading(self) -> None:
        self.reading_paused = False

    def get_protocol(self) -> Any:
        return self.protocol

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol


class Stage:
    """One connection with all around it."""

    def __init__(self, app: Any, options: HttpOptions = OPTIONS, certificate: Any = None) -> None:
        self.rejected: list[str] = []
        self.clock = Clock()
        self.state = Connections(options.limits, self.rejected.append)
        self.config = HttpServer(app, options)._config()
        self.wire = Wire(certificate)
        self.connection = self.connect(self.wire)

    def connect(self, wire: Wire) -> Any:
        connection: Any = HttpConnection(self.config, self.state, {}, self.clock)  # type: ignore[arg-type]  # its part
        wire.protocol = connection
        connection.connection_made(wire)
        return connection

    async def send(self, *pieces: bytes) -> bytes:
        """Give the connection these bytes; what it has written when the application is done with them."""
        for piece in pieces:
            if not self.wire.closed:
                self.wire.protocol.data_received(piece)
        await self.settle()
        return bytes(self.wire.written)

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    def status(self) -> int:
        return int(bytes(self.wire.written[9:12]) or b"0")

    async def over(self) -> None:
        """The peer is gone."""
        self.wire.protocol.connection_lost(None)
        if self.state.tasks:
            await asyncio.wait(self.state.tasks, timeout=1)


async def echo(scope: Any, receive: Any, send: Any) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    headers = [(b"content-length", b"%d" % len(body)), *((k, v) for k, v in scope["headers"] if k == b"x-mine")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def hasty(scope: Any, receive: Any, send: Any) -> None:
    """Answers before it has read anything."""
    await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no"})


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage(echo)
    yield made
    await made.over()


def post(body: bytes = b"hello", *headers: bytes) -> bytes:
    lines = [b"POST / HTTP/1.1", b"host: a", b"content-length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def test_a_request_is_answered_and_the_connection_stays(stage: Stage) -> None:
    written = await stage.send(post())
    assert written.startswith(b"HTTP/1.1 200")
    assert written.endswith(b"hello")
    assert not stage.wire.closed
    assert (await stage.send(post(b"again"))).endswith(b"again")


async def test_a_request_in_a_pipeline_knows_nothing_of_the_one_before() -> None:
    whose = ContextVar("whose", default="nobody's")
    found = []

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        found.append(whose.get())
        whose.set("somebody's")
        await echo(scope, receive, send)

    stage = Stage(noting)
    await stage.send(post() + post(), post())
    await stage.over()
    assert found == ["nobody's"] * 3


@given(st.lists(st.integers(1, 160), max_size=30), st.binary(max_size=3000))
def test_a_request_is_the_same_however_it_is_cut(cuts: list[int], body: bytes) -> None:
    async def run() -> bytes:
        stage = Stage(echo)
        rest, pieces = post(body, b"x-mine: " + b"v" * 100), []
        for cut in cuts:
            pieces.append(rest[:cut])
            rest = rest[cut:]
        written = await stage.send(*filter(None, (*pieces, rest)))
        await stage.over()
        return written

    written = asyncio.run(run())
    assert written.startswith(b"HTTP/1.1 200")
    assert written.endswith(b"\r\n\r\n" + body)


@given(st.lists(st.binary(min_size=1, max_size=400), max_size=8))
def test_no_bytes_break_a_connection(pieces: list[bytes]) -> None:
    async def run() -> tuple[Stage, bytes]:
        stage = Stage(echo)
        written = await stage.send(*pieces)
        await stage.over()
        return stage, written

    stage, written = asyncio.run(run())
    assert written == b"" or written.startswith(b"HTTP/1.1 ")
    assert not stage.state.connections


@pytest.mark.parametrize(
    "head",
    [
        [b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"v" * 4000],
        [b"GET /" + b"p" * 4000],
        [b"GET / HTTP/1.1\r\nhost: a\r\n", *[b"x: y\r\n"] * 300],
        [b"\r\n"] * 600,
    ],
    ids=["value", "path", "count", "blank lines"],
)
async def test_a_head_without_end_is_refused_with_431(stage: Stage, head: list[bytes]) -> None:
    await stage.send(*head)
    assert (stage.status(), stage.rejected) == (431, ["headers_too_large"])
    assert stage.wire.ended


async def test_a_head_below_the_bound_is_taken_together_with_a_body_above_it(stage: Stage) -> None:
    written = await stage.send(post(b"b" * 5000, b"x-mine: " + b"v" * 700))
    assert written.endswith(b"b" * 5000)


async def test_trailers_without_end_are_refused(stage: Stage) -> None:
    head = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
    await stage.send(head, *[b"x-mine: y\r\n"] * 300)
    assert (stage.status(), stage.rejected) == (431, ["headers_too_large"])


async def test_trailers_do_not_become_headers(stage: Stage) -> None:
    head = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-mine: late\r\n\r\n"
    written = await stage.send(head)
    assert written.startswith(b"HTTP/1.1 200")
    assert b"late" not in written


async def test_a_chunk_extension_without_end_is_refused(stage: Stage) -> None:
    await stage.send(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3;", *[b"x=y;" * 16] * 40)
    assert stage.status() == 431


async def test_a_silent_connection_is_closed_without_a_word(stage: Stage) -> None:
    stage.clock.pass_s(OPTIONS.header_timeout_s)
    assert (stage.wire.closed, bytes(stage.wire.written), stage.rejected) == (True, b"", ["silent"])


async def test_a_head_that_dribbles_in_gets_408(stage: Stage) -> None:
    for byte in b"GET / HT":
        await stage.send(bytes([byte]))
        stage.clock.pass_s(1.25)
    assert stage.status() == 408
    stage.clock.pass_s(LINGER_S)
    assert stage.wire.aborted


async def test_the_second_head_has_its_own_time(stage: Stage) -> None:
    await stage.send(post())
    stage.clock.pass_s(60)
    await stage.send(b"GET / HT")
    stage.clock.pass_s(OPTIONS.header_timeout_s - 1)
    assert not stage.wire.closed
    stage.clock.pass_s(1)
    assert stage.rejected == ["slow_headers"]


async def test_an_idle_connection_is_closed(stage: Stage) -> None:
    await stage.send(post())
    stage.clock.pass_s(OPTIONS.idle_timeout_s)
    assert stage.wire.closed
    assert not stage.wire.aborted


async def test_a_body_that_comes_after_its_answer_is_thrown_away_and_the_connection_stays() -> None:
    stage = Stage(hasty)
    request = post(b"b" * 3000)
    await stage.send(request[:200])
    assert stage.status() == 413
    await stage.send(request[200:])
    stage.clock.pass_s(LINGER_S)
    assert not stage.wire.closed
    stage.clock.pass_s(OPTIONS.idle_timeout_s)
    assert stage.wire.closed
    await stage.over()


async def test_a_body_that_never_comes_ends_the_connection() -> None:
    stage = Stage(hasty)
    await stage.send(post(b"b" * 3000)[:200])
    stage.clock.pass_s(LINGER_S)
    assert stage.wire.aborted
    await stage.over()


async def test_more_than_the_bound_is_not_thrown_away() -> None:
    stage = Stage(hasty)
    await stage.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 999999999999\r\n\r\n")
    piece = b"b" * (1 << 20)
    for _ in range(LINGER_BYTES // len(piece)):
        await stage.send(piece)
    assert not stage.wire.closed
    await stage.send(piece)
    assert stage.wire.aborted
    await stage.over()


async def test_an_answer_that_closes_waits_for_the_rest_of_the_request() -> None:
    stage = Stage(hasty)
    request = post(b"b" * 3000, b"connection: close")
    await stage.send(request[:200])
    assert (stage.wire.ended, stage.wire.closed) == (True, False)
    await stage.send(request[200:])
    stage.clock.pass_s(LINGER_S)
    assert stage.wire.closed
    await stage.over()


@pytest.mark.parametrize(
    ("target", "path", "raw_path", "query"),
    [
        (b"/tasks/a%20b?x=%20", "/base/tasks/a b", b"/base/tasks/a%20b", b"x=%20"),
        (b"http://a", "/base/", b"/base/", b""),
        (b"http://a/x?y", "/base/x", b"/base/x", b"y"),
        (b"/%ff", "/base/\ufffd", b"/base/%ff", b""),
    ],
)
async def test_a_target_becomes_path_and_query(target: bytes, path: str, raw_path: bytes, query: bytes) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["path"], scope["raw_path"], scope["query_string"], scope["http_version"], scope["method"]))
        await hasty(scope, receive, send)

    stage = Stage(app, replace(OPTIONS, root_path="/base"))
    await stage.send(b"GET " + target + b" HTTP/1.0\r\n\r\n")
    assert seen == [(path, raw_path, query, "1.0", "GET")]
    assert stage.wire.closed
    await stage.over()


async def test_a_malformed_request_gets_400(stage: Stage) -> None:
    await stage.send(b"NONSENSE\r\n\r\n")
    assert (stage.status(), stage.rejected) == (400, ["malformed"])


async def test_a_malformed_body_gets_400_and_its_reader_hears_of_it(stage: Stage) -> None:
    await stage.send(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n", b"zz\r\n")
    assert stage.status() == 400
    assert not stage.state.tasks


async def test_what_follows_a_refusal_is_not_parsed(stage: Stage) -> None:
    written = await stage.send(b"NONSENSE\r\n\r\n")
    assert await stage.send(post()) == written


async def test_pipelined_requests_are_answered_in_their_order(stage: Stage) -> None:
    written = await stage.send(b"".join(post(b"<%d>" % number) for number in range(5)))
    assert [written.find(b"<%d>" % number) for number in range(5)] == sorted(
        written.find(b"<%d>" % number) for number in range(5)
    )
    assert written.count(b"HTTP/1.1 200") == 5


async def test_the_request_that_is_answered_hears_of_the_end_whatever_waits_behind_it() -> None:
    heard: list[str] = []

    async def patient(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            pass
        heard.append(f"{scope['path']} {message['type']}")

    stage = Stage(patient)
    await stage.send(b"GET /first HTTP/1.1\r\nhost: a\r\n\r\nGET /second HTTP/1.1\r\nhost: a\r\n\r\n")
    assert heard == []
    await stage.over()
    assert heard == ["/first http.disconnect"]


async def test_a_pipeline_has_a_length(stage: Stage) -> None:
    written = await stage.send(b"".join(post(b"<%d>" % number) for number in range(MAX_PIPELINE + 5)))
    while written.count(b"HTTP/1.1 ") < MAX_PIPELINE + 2:
        written = await stage.send(post(b"later"))  # of no use any more
    assert written.count(b"HTTP/1.1 200") == MAX_PIPELINE + 1
    assert b"<%d>" % MAX_PIPELINE in written
    assert b"<%d>" % (MAX_PIPELINE + 1) not in written
    assert b"later" not in written
    last = written[written.rfind(b"HTTP/1.1 ") :]
    assert last.startswith(b"HTTP/1.1 503")
    assert b"connection: close" in last
    assert (stage.wire.ended, stage.rejected) == (True, ["long_pipeline"])


async def test_a_peer_that_does_not_read_is_cut(stage: Stage) -> None:
    await stage.send(post())
    stage.connection.pause_writing()
    stage.clock.pass_s(OPTIONS.write_timeout_s - 1)
    assert not stage.wire.aborted
    stage.clock.pass_s(1)
    assert (stage.wire.aborted, stage.rejected) == (True, ["slow_reader"])


async def test_a_peer_that_reads_again_stays(stage: Stage) -> None:
    await stage.send(post())
    stage.connection.pause_writing()
    stage.connection.resume_writing()
    stage.clock.pass_s(OPTIONS.write_timeout_s)
    assert not stage.wire.aborted


async def test_a_closing_connection_waits_for_its_reader_only_so_long(stage: Stage) -> None:
    stage.wire.unsent = 1
    await stage.send(post(b"x", b"connection: close"))
    assert (stage.wire.closed, stage.wire.aborted) == (True, False)
    stage.clock.pass_s(OPTIONS.write_timeout_s)
    assert stage.wire.aborted


async def test_an_idle_connection_with_something_unread_is_cut(stage: Stage) -> None:
    await stage.send(post())
    stage.wire.unsent = 1
    stage.clock.pass_s(OPTIONS.idle_timeout_s)
    assert stage.wire.aborted


async def test_one_connection_too_many_is_told_so_and_many_are_cut() -> None:
    stage = Stage(echo)
    wires = [Wire() for _ in range(OPTIONS.max_connections + 2)]
    for wire in wires:
        stage.connect(wire)
    told, cut = wires[-3], wires[-1]
    assert told.written.startswith(b"HTTP/1.1 503")
    assert b"retry-after" in told.written
    assert not told.aborted
    assert cut.aborted
    assert not wires[0].written
    await stage.over()


async def test_a_connection_that_comes_while_the_server_stops_is_cut() -> None:
    stage = Stage(echo)
    stage.state.is_stopping = True
    late = Wire()
    stage.connect(late)
    assert late.aborted
    await stage.over()


async def test_an_application_that_talks_to_nobody_is_told_so_in_the_end() -> None:
    ended: list[type[BaseException]] = []

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
        except OSError as error:
            ended.append(type(error))

    stage = Stage(endless)
    stage.connection.data_received(post())
    stage.wire.abort()
    await stage.over()
    assert len(ended) == 1


async def test_an_upgrade_that_is_not_ours_is_answered_as_the_request_that_it_is(stage: Stage) -> None:
    h2c = post(b"hello", b"connection: upgrade, http2-settings", b"upgrade: h2c", b"http2-settings: AAMAAABk")
    assert (await stage.send(h2c)).endswith(b"hello")
    assert (await stage.send(post(b"next"))).endswith(b"next")
    for byte in h2c:
        written = await stage.send(bytes([byte]))
    assert written.endswith(b"hello")


@pytest.mark.parametrize("target", [b"a:443", b"/"])
async def test_nobody_gets_a_tunnel(stage: Stage, target: bytes) -> None:
    await stage.send(b"CONNECT " + target + b" HTTP/1.1\r\nhost: a\r\n\r\n")
    assert (stage.status(), stage.rejected) == (400, ["malformed"])


async def test_a_certificate_is_seen_by_the_application() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["state"].get(PEER_CERTIFICATE))
        await hasty(scope, receive, send)

    for certificate in ({"subject": "x"}, None):
        stage = Stage(app, certificate=certificate)
        await stage.send(post())
        await stage.over()
    assert seen == [{"subject": "x"}, None]


async def test_nothing_is_left_behind_by_a_connection(stage: Stage) -> None:
    await stage.send(post())
    stage.connection.pause_writing()
    await stage.over()
    assert stage.clock.waiting == 0
    stage.state.connections.add(stage.connection)  # the fixture says goodbye once more


HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def masked(opcode: int, data: bytes = b"", *, final: bool = True) -> bytes:
    return bytes([(0x80 if final else 0) | opcode, 0x80 | len(data), 0, 0, 0, 0]) + data


class Chat:
    """An application that accepts a WebSocket and reads when it is told to."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.go = asyncio.Semaphore(0)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while True:
            await self.go.acquire()
            self.got.append(await receive())
            if self.got[-1]["type"] == "websocket.disconnect":
                return

    async def read(self, count: int) -> None:
        for _ in range(count):
            self.go.release()
        for _ in range(4 * count + 20):
            await asyncio.sleep(0)


async def websocket() -> tuple[Stage, Chat]:
    chat = Chat()
    stage = Stage(chat)
    await stage.send(HANDSHAKE)
    assert stage.status() == 101
    return stage, chat


async def test_a_websocket_keeps_few_messages_that_nobody_has_read() -> None:
    stage, chat = await websocket()
    await stage.send(masked(1, b"x") * 8_000)
    assert stage.wire.protocol.queue.qsize() < 1000
    assert stage.wire.reading_paused
    await chat.read(8_000)
    assert [each["text"] for each in chat.got] == ["x"] * 8_000
    assert not stage.wire.reading_paused
    await stage.over()


async def test_a_message_has_only_so_many_fragments() -> None:
    stage, _ = await websocket()
    await stage.send(masked(1, b"", final=False), masked(0, b"", final=False) * (MAX_FRAGMENTS + 1))
    assert (stage.rejected, stage.wire.closed) == (["too_many_fragments"], True)
    await stage.over()


async def test_a_websocket_that_does_not_read_is_not_read_either_and_then_cut() -> None:
    stage, _ = await websocket()
    connection = stage.wire.protocol
    connection.loop = stage.clock
    connection.pause_writing()
    assert stage.wire.reading_paused
    stage.clock.pass_s(OPTIONS.write_timeout_s)
    assert (stage.wire.aborted, stage.rejected) == (True, ["slow_reader"])
    await stage.over()


async def test_a_websocket_that_reads_again_goes_on() -> None:
    stage, chat = await websocket()
    stage.wire.protocol.pause_writing()
    stage.wire.protocol.resume_writing()
    assert not stage.wire.reading_paused
    await stage.send(masked(1, b"x"))
    await chat.read(1)
    assert chat.got[0]["text"] == "x"
    await stage.over()
