"""Invalid A2A requests to a whole agent: each gets the right status, and starts no task.

How connections behave is in test_http_faults; here is what becomes of what they carry: A2A in both versions, ProtoLink's own routes
and its WebSocket.
"""

import gzip
import json
import os
import random
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest
from hostile_world import PATIENCE_S, V1, Hostile, hostile_world
from websockets.sync.client import ClientConnection, connect

Json = dict[str, Any]

MIB = 1 << 20
JSON_BODY = {"content-type": "application/json"}

MESSAGE: Json = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
OLD_MESSAGE: Json = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}

GOOD: dict[str, tuple[str, Json]] = {
    "rest": ("/message:send", {"message": MESSAGE}),
    "rest v0.3": ("/v1/message:send", {"message": OLD_MESSAGE}),
    "json-rpc": ("/", {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}}),
    "json-rpc v0.3": ("/", {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": OLD_MESSAGE}}),
    "protolink": ("/tasks/", {"messages": [{"role": "user", "parts": [{"type": "text", "content": "hello"}]}]}),
}
"""A request of each kind that begins a task."""

each_door = pytest.mark.parametrize("door", GOOD)


def version_of(door: str) -> dict[str, str]:
    return {} if "0.3" in door else V1


@pytest.fixture(scope="module")
def world() -> Iterator[Hostile]:
    with hostile_world() as found:
        yield found


@pytest.fixture(autouse=True)
def unharmed(request: pytest.FixtureRequest, world: Hostile) -> Iterator[None]:
    with world.within(32 * MIB):
        yield
        world.still_answers()
        world.comes_to_rest()
    assert not world.complaints()


@contextmanager
def no_new_task(world: Hostile, *, websockets: int = 0) -> Iterator[None]:
    """Nothing of what happens here begins a task."""

    def tasks() -> int:
        return int(world.http.get("/tasks", params={"pageSize": 1}, headers=V1).json()["totalSize"])

    before = tasks()
    yield
    world.comes_to_rest(websockets=websockets)
    assert tasks() == before


def refusal(world: Hostile, door: str, body: bytes, **headers: str) -> tuple[int, int]:
    """HTTP status and JSON-RPC code (0 elsewhere) of the answer to a body."""
    with no_new_task(world):
        answer = world.http.post(GOOD[door][0], content=body, headers=JSON_BODY | version_of(door) | headers)
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()
    error = found["error"]
    assert len(answer.content) < 2000
    return answer.status_code, error["code"] if door.startswith("json-rpc") else 0


# -- what a body says that it is -----------------------------------------------------------------------------------------


@each_door
def test_a_good_request_is_done(world: Hostile, door: str) -> None:
    """Else the tests below would say nothing."""
    path, body = GOOD[door]
    answer = world.http.post(path, json=body, headers=version_of(door))
    assert answer.status_code == 200
    assert "error" not in answer.json()


@pytest.mark.parametrize(
    "door",
    [
        "rest",
        "rest v0.3",
        "json-rpc",
        "json-rpc v0.3",
        "protolink",
    ],
)
@pytest.mark.parametrize(
    "given",
    [
        "text/plain",
        "application/xml",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "*/*",
        "json",
        "text/plain, application/json",
        "text/plain; x=application/json",
    ],
)
def test_a_body_that_says_it_is_no_json_is_refused(world: Hostile, door: str, given: str) -> None:
    body = orjson.dumps(GOOD[door][1])
    assert refusal(world, door, body, **{"content-type": given})[0] == 415


@each_door
@pytest.mark.parametrize(
    "given",
    ["APPLICATION/JSON", "application/json; charset=utf-16", 'application/json;;="', "application/json ; charset=x"],
)
def test_parameters_of_a_media_type_change_nothing(world: Hostile, door: str, given: str) -> None:
    path, body = GOOD[door]
    headers = version_of(door) | {"content-type": given}
    assert world.http.post(path, content=orjson.dumps(body), headers=headers).status_code == 200


@each_door
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "x-gzip, gzip", "unheard-of"])
def test_a_compressed_body_is_refused_as_such(world: Hostile, door: str, coding: str) -> None:
    body = gzip.compress(orjson.dumps(GOOD[door][1]))
    assert refusal(world, door, body, **{"content-encoding": coding})[0] == 415


# -- bodies --------------------------------------------------------------------------------------------------------------


def spoiled(door: str, what: bytes) -> bytes:
    """The good request with something in place of its first text."""
    good = orjson.dumps(GOOD[door][1])
    assert b'"hello"' in good
    return good.replace(b'"hello"', what)


UNREADABLE = {
    "1e400": b"1e400",
    "400 digits": b"9" * 400,
    "5,000 digits": b"9" * 5000,
    "NaN": b"NaN",
    "Infinity": b"-Infinity",
    "half a surrogate": b'"\\ud800"',
    "the wrong half": b'"\\udc00\\ud800"',
    "encoded surrogate": b'"\xed\xa0\x80"',
    "overlong": b'"\xc0\xaf"',
    "latin-1": b'"\xe9"',
    "NUL": b'"\x00"',
    "line break": b'"a\nb"',
    "comment": b"/* */ 1",
    "trailing comma": b"[1,]",
    "hexadecimal": b"0x10",
    "leading zero": b"01",
    "10,000 lists": b"[" * 10_000 + b"]" * 10_000,
    "10,000 objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "no end": b'{"a":' * 10_000,
    "a key twice": b'{"a":1,"a":2}',
    "a key twice, spelled differently": b'{"a":1,"\\u0061":2}',
}


@each_door
@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_is_no_json_is_refused(world: Hostile, door: str, kind: str) -> None:
    body = spoiled(door, UNREADABLE[kind])
    status, code = refusal(world, door, body)
    assert (status, code) == ((200, -32700) if door.startswith("json-rpc") else (400, 0))


WHOLE = {
    "nothing": b"",
    "spaces": b" \r\n\t",
    "a BOM": b"\xef\xbb\xbf{}",
    "UTF-16": '{"message": 1}'.encode("utf-16"),
    "UTF-32": '{"message": 1}'.encode("utf-32-le"),
    "two values": b"{}{}",
    "NUL after it": b"{}\x00",
    "a list": b"[]",
    "null": b"null",
    "a text": b'"{}"',
    "a form": b"message=1&x=2",
    "noise": random.Random(4).randbytes(5000),
}


@each_door
@pytest.mark.parametrize("kind", WHOLE)
def test_a_body_that_is_no_request_is_refused(world: Hostile, door: str, kind: str) -> None:
    status, code = refusal(world, door, WHOLE[kind])
    if door.startswith("json-rpc"):
        assert status == 200
        assert code in (-32700, -32600)
    else:
        assert status == 400


def many_parts(door: str, count: int) -> bytes:
    body = json.loads(json.dumps(GOOD[door][1]))
    message = body["messages"][0] if door == "protolink" else body.get("params", body)["message"]
    message["parts"] *= count
    return orjson.dumps(body)


@each_door
def test_a_message_has_1000_parts_at_most(world: Hostile, door: str) -> None:
    path = GOOD[door][0]
    most = world.http.post(path, content=many_parts(door, 1000), headers=JSON_BODY | version_of(door))
    assert most.status_code == 200
    assert "error" not in most.json()
    status, code = refusal(world, door, many_parts(door, 1001))
    assert (status, code) == ((200, -32602) if door.startswith("json-rpc") else (413, 0))


@each_door
@pytest.mark.parametrize("text", ["x" * MIB, "x" * 129, "é" * 65, "\\u0000", "a\\nb", "\\u202e"])
def test_an_id_is_short_and_printable(world: Hostile, door: str, text: str) -> None:
    body = orjson.dumps(GOOD[door][1])
    spoiled_id = f'"{text}"'.encode()
    if door == "protolink":
        body = body.replace(b'{"messages"', b'{"id":%b,"messages"' % spoiled_id)
    else:
        body = body.replace(b'"messageId":"m"', b'"messageId":%b' % spoiled_id)
    status, code = refusal(world, door, body)
    assert (status, code) == ((200, -32602) if door.startswith("json-rpc") else (400, 0))


@each_door
def test_a_body_that_is_announced_as_too_large_is_refused_before_it_comes(world: Hostile, door: str) -> None:
    with no_new_task(world), Raw(world) as raw:
        raw.say(post(door, b"", "Content-Length: 100000000"))
        status, _, body = raw.answer()
        assert status == 413
        assert orjson.loads(body)["error"]


@each_door
def test_a_body_that_becomes_too_large_in_pieces_is_refused_and_not_kept(world: Hostile, door: str) -> None:
    piece = b"%x\r\n%b\r\n" % (MIB, b" " * MIB)
    with no_new_task(world), world.within(32 * MIB), Raw(world) as raw:
        raw.say(post(door, b"", "Transfer-Encoding: chunked"))
        for _ in range(24):
            raw.say(piece)
        assert raw.answer()[0] == 413


# -- headers -------------------------------------------------------------------------------------------------------------


class Raw:
    """A connection that says what it likes."""

    def __init__(self, world: Hostile) -> None:
        self._socket = socket.create_connection(("127.0.0.1", world.port), timeout=PATIENCE_S)
        self._held = b""

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def say(self, data: bytes) -> None:
        self._socket.sendall(data)

    def hang_up(self) -> None:
        """Go without a goodbye."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The next answer; status 0 where the connection ends instead."""
        while b"\r\n\r\n" not in self._held:
            if not self._more():
                return 0, {}, self._held
        head, _, self._held = self._held.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        size = int(headers.get("content-length", "0"))
        while len(self._held) < size and self._more():
            pass
        body, self._held = self._held[:size], self._held[size:]
        return int(first.split()[1]), headers, body

    def rest(self) -> bytes:
        """What comes until the connection ends."""
        while self._more():
            pass
        return self._held

    def read(self, size: int) -> bytes:
        while len(self._held) < size and self._more():
            pass
        found, self._held = self._held[:size], self._held[size:]
        return found

    def _more(self) -> bool:
        try:
            found = self._socket.recv(65536)
        except ConnectionResetError:
            return False
        self._held += found
        return bool(found)


def post(door: str, body: bytes, *headers: str, length: bool = False) -> bytes:
    """The bytes of a POST; with `length`, one that says how long its body is."""
    lines = [f"POST {GOOD[door][0]} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in version_of(door).items()]
    lines += [f"Content-Length: {len(body)}"] * length
    return "\r\n".join([*lines, *headers, "", ""]).encode("latin-1") + body


HELLO = orjson.dumps(GOOD["rest"][1])


def asked(world: Hostile, *headers: str, path: str = "/tasks") -> tuple[int, Json]:
    """The answer to a GET with these headers."""
    with Raw(world) as raw:
        raw.say("\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode("latin-1"))
        status, _, body = raw.answer()
        return status, orjson.loads(body)


@pytest.mark.parametrize("first", ["1.0", "0.3"])
def test_two_versions_that_contradict_each_other_are_none(world: Hostile, first: str) -> None:
    # Each order: a proxy may look at either of them.
    other = {"1.0": "0.3", "0.3": "1.0"}[first]
    versions = f"A2A-Version: {first}", f"a2a-version: {other}"
    status, body = asked(world, *versions, path="/tasks")
    assert (status, body["error"]["status"]) == (400, "FAILED_PRECONDITION")
    status, body = asked(world, *versions, path="/v1/tasks/x")
    assert (status, body["type"]) == (400, "VersionNotSupportedError")


def test_the_same_version_twice_is_that_version(world: Hostile) -> None:
    assert asked(world, "A2A-Version: 1.0", "A2A-Version: 1.0")[0] == 200


@pytest.mark.parametrize("version", ["9" * 20_000, "1.0,0.3", "1", "v1.0", "1.\xb2", "1.0\t;"])
def test_a_version_that_is_none_is_refused(world: Hostile, version: str) -> None:
    status, body = asked(world, f"A2A-Version: {version}")
    assert status == 400
    assert body["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


@pytest.mark.parametrize("name", ["Accept", "A2A-Extensions", "X-Request-ID", "Idempotency-Key", "Cookie", "Referer"])
@pytest.mark.parametrize("value", ["x" * 25_000, ",".join("x" * 8000), "\xff\xfe\x80", "(){:;};", "%00%0d%0a"])
def test_odd_values_of_headers_do_no_harm(world: Hostile, name: str, value: str) -> None:
    assert asked(world, "A2A-Version: 1.0", f"{name}: {value}")[0] == 200


@pytest.mark.parametrize("value", ["-1", "+1", "1.0", "x", "9" * 19, "\xb2", "0x1", "1 1"])
def test_a_last_event_id_of_no_stream_is_refused(world: Hostile, value: str) -> None:
    path = f"/tasks/{world.finished_task()}:subscribe"
    status, body = asked(world, "A2A-Version: 1.0", f"Last-Event-ID: {value}", path=path)
    assert (status, body["error"]["status"]) == (400, "INVALID_ARGUMENT")


def test_a_last_event_id_of_the_future_is_out_of_range(world: Hostile) -> None:
    path = f"/tasks/{world.finished_task()}:subscribe"
    status, body = asked(world, "A2A-Version: 1.0", "Last-Event-ID: 999999999999999999", path=path)
    assert (status, body["error"]["status"]) == (400, "OUT_OF_RANGE")


SMUGGLED = post("rest", HELLO, length=True)
"""A whole request that hides in the body of another one."""

AMBIGUOUS = {
    "length and chunks": ["Content-Length: 5", "Transfer-Encoding: chunked"],
    "chunks and length": ["Transfer-Encoding: chunked", "Content-Length: 5"],
    "two lengths": ["Content-Length: 0", f"Content-Length: {len(SMUGGLED)}"],
    "a list of lengths": [f"Content-Length: 0, {len(SMUGGLED)}"],
    "a signed length": ["Content-Length: +0"],
    "a length with an underscore": ["Content-Length: 1_0"],
    "a hexadecimal length": ["Content-Length: 0x0"],
    "a length without an end": ["Content-Length: " + "9" * 40],
    "chunks by another name": ["Transfer-Encoding: xchunked"],
    "chunks and nothing": ["Transfer-Encoding: chunked, identity"],
    "chunks twice": ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
    "chunks in quotes": ['Transfer-Encoding: "chunked"'],
    "chunks behind a tab": ["Transfer-Encoding:\x0bchunked"],
    "a name with a space": ["Transfer-Encoding : chunked"],
    "a folded name": ["X: y", " Transfer-Encoding: chunked"],
    "a carriage return alone": ["X: y\rTransfer-Encoding: chunked"],
    "a name with a NUL": ["Content-Len\x00gth: 0"],
}


@pytest.mark.parametrize("kind", AMBIGUOUS)
def test_a_request_in_the_body_of_an_ambiguous_one_is_not_seen(world: Hostile, kind: str) -> None:
    with no_new_task(world), Raw(world) as raw:
        raw.say(post("json-rpc", b"0\r\n\r\n" + SMUGGLED, *AMBIGUOUS[kind]))
        status, headers, _ = raw.answer()
        assert (status, headers.get("connection")) == (400, "close")
        assert raw.rest() == b""


@pytest.mark.parametrize(
    "chunks",
    [
        b"-1\r\n",
        b"+0\r\n\r\n",
        b"0x0\r\n\r\n",
        b"FFFFFFFFFFFFFFFFF\r\n",
        b"1\r\nab\r\n0\r\n\r\n",
        b"\r\n\r\n",
        b" 0\r\n\r\n",
        b"g\r\n",
        b"0\n\n",
        b"1;\x00=1\r\n{\r\n0\r\n\r\n",
    ],
)
def test_chunks_that_are_none_end_the_connection(world: Hostile, chunks: bytes) -> None:
    with no_new_task(world), Raw(world) as raw:
        raw.say(post("json-rpc", chunks + SMUGGLED, "Transfer-Encoding: chunked"))
        assert raw.answer()[0] in (0, 400)
        assert raw.rest() == b""


def test_a_request_behind_one_that_asks_to_close_is_not_seen(world: Hostile) -> None:
    with Raw(world) as raw:
        raw.say(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        with no_new_task(world):
            raw.say(SMUGGLED)
            assert raw.answer()[0] == 200
            assert raw.rest() == b""


def test_a_body_of_a_get_is_no_request(world: Hostile) -> None:
    with no_new_task(world), Raw(world) as raw:
        head = f"GET /tasks HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n"
        raw.say(head.encode() + SMUGGLED)
        assert raw.answer()[0] == 200
        raw.say(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert raw.answer()[0] == 200


def test_pipelined_calls_are_answered_in_their_order_up_to_the_broken_one(world: Hostile) -> None:
    def call(number: int) -> bytes:
        body = orjson.dumps({"jsonrpc": "2.0", "id": number, "method": "ListTasks", "params": {"pageSize": 1}})
        return post("json-rpc", body, length=True)

    with no_new_task(world), Raw(world) as raw:
        raw.say(b"".join(map(call, range(20))))
        for number in range(20):
            status, _, body = raw.answer()
            assert (status, orjson.loads(body)["id"]) == (200, number)
        raw.say(call(20) + b"BROKEN\r\n\r\n" + SMUGGLED)
        status, _, body = raw.answer()
        # The refusal may come before the answer, which is given up then: never in its middle.
        assert status in (0, 200, 400)
        raw.rest()


@each_door
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_caller_that_leaves_in_its_body_begins_nothing_and_is_no_news(
    world: Hostile, door: str, share: float
) -> None:
    body = orjson.dumps(GOOD[door][1])
    head = post(door, body, "Expect: 100-continue", length=True).removesuffix(body)
    with no_new_task(world):
        with Raw(world) as raw:
            raw.say(head)
            assert raw.answer()[0] == 100
            raw.say(body[: int(share * len(body))])
            raw.hang_up()
        world.loses_its_callers()
    assert not world.complaints()


@pytest.mark.parametrize(
    "path", [b"/tasks/\xff", b"/tasks/a b", b"\\tasks", b"/\x00", b"", b"tasks", b"http://[/", b"*"]
)
def test_a_target_that_is_none_is_refused(world: Hostile, path: bytes) -> None:
    with Raw(world) as raw:
        raw.say(b"GET %b HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\nConnection: close\r\n\r\n" % path)
        assert raw.answer()[0] in (400, 404)


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PROPFIND", "BREW", "OPTIONS", "PATCH", "get"])
@pytest.mark.parametrize("path", ["/", "/tasks", "/message:send", "/tasks/stream", "/.well-known/agent-card.json"])
def test_a_method_of_nobodys_is_refused(world: Hostile, method: str, path: str) -> None:
    with no_new_task(world), Raw(world) as raw:
        raw.say(
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\nConnection: close\r\n\r\n".encode()
        )
        assert raw.answer()[0] in (400, 404, 405, 501)


# -- WebSocket -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def connection(world: Hostile) -> Iterator[ClientConnection]:
    with connect(f"ws://127.0.0.1:{world.port}/", max_size=None, compression=None, proxy=None) as found:
        yield found


def told(connection: ClientConnection, frame: str | bytes) -> Json:
    connection.send(frame)
    found = json.loads(connection.recv(timeout=PATIENCE_S))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_a_frame_that_is_no_json_is_refused_and_the_next_one_answered(
    world: Hostile, connection: ClientConnection, kind: str, binary: bool
) -> None:
    frame = b'{"id":1,"method":"POST","path":"/tasks/","data":' + UNREADABLE[kind] + b"}"
    # A text frame that is not UTF-8 ends its connection: see below.
    is_text = not binary and kind not in ("encoded surrogate", "overlong", "latin-1")
    with no_new_task(world, websockets=1):
        answer = told(connection, frame.decode() if is_text else frame)
        assert (answer["id"], answer["ok"]) == (None, False)
    assert told(connection, '{"id":"after","method":"GET","path":"/healthz"}')["id"] == "after"


@pytest.mark.parametrize("call_id", [2**64, -(10**300), "\x00\n\u2028", "x" * 100, "\U0010ffff"])
def test_an_id_of_a_frame_comes_back_exactly(connection: ClientConnection, call_id: Any) -> None:
    answer = told(connection, json.dumps({"id": call_id, "method": "GET", "path": "/.well-known/agent.json"}))
    assert (answer["id"], answer["ok"]) == (call_id, True)


def test_frames_of_noise_are_answered_one_by_one(world: Hostile, connection: ClientConnection) -> None:
    noise = random.Random(4)
    with no_new_task(world, websockets=1):
        for _ in range(200):
            assert not told(connection, noise.randbytes(noise.randrange(1, 300)))["ok"]


def frame_of(opcode: int, payload: bytes, *, fin: bool = True, masked: bool = True, reserved: int = 0) -> bytes:
    first = (0x80 if fin else 0) | reserved << 4 | opcode
    size = len(payload)
    length = bytes([size]) if size < 126 else b"\x7e" + struct.pack(">H", size)
    if not masked:
        return bytes([first]) + length + payload
    key = os.urandom(4)
    body = bytes(byte ^ key[index % 4] for index, byte in enumerate(payload))
    return bytes([first, length[0] | 0x80]) + length[1:] + key + body


BROKEN_FRAMES = {
    "text that is not UTF-8": (frame_of(1, b'"\xff"'), 1007),
    "half a surrogate in UTF-8": (frame_of(1, b'"\xed\xa0\x80"'), 1007),
    "no mask": (frame_of(1, b"{}", masked=False), 1002),
    "a reserved bit": (frame_of(1, b"{}", reserved=4), 1002),
    "a reserved opcode": (frame_of(3, b"{}"), 1002),
    "a long ping": (frame_of(9, b"x" * 126), 1002),
    "half a ping": (frame_of(9, b"x", fin=False), 1002),
    "a continuation of nothing": (frame_of(0, b"{}"), 1002),
    "a text inside of a text": (frame_of(1, b"{", fin=False) + frame_of(1, b"}"), 1002),
    "a close of one byte": (frame_of(8, b"\x03"), 1002),
    "a close of no kind": (frame_of(8, struct.pack(">H", 999)), 1002),
    "a frame of 2**62 bytes": (b"\x81\xff" + struct.pack(">Q", 1 << 62) + b"abcd", 1009),
    "a negative length": (b"\x81\xff" + b"\xff" * 8 + b"abcd", (1002, 1009)),
}


@pytest.mark.parametrize("kind", list(BROKEN_FRAMES))
def test_a_broken_frame_ends_its_connection_with_the_right_code_and_is_no_news(world: Hostile, kind: str) -> None:
    data, codes = BROKEN_FRAMES[kind]
    with Raw(world) as raw:
        raw.say(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert raw.answer()[0] == 101
        raw.say(data)
        opcode, size = raw.read(2)
        assert opcode == 0x88
        (code,) = struct.unpack(">H", raw.read(size)[:2])
        assert code in (codes if isinstance(codes, tuple) else (codes,))
    assert not world.complaints()


@pytest.mark.parametrize(
    "change",
    [
        (b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Version: 12"),
        (b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", b""),
        (b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", b"Sec-WebSocket-Key: short"),
        (b"GET /", b"POST /"),
        (b"GET / ", b"GET /nowhere "),
        (b"Host: localhost", b"Host: evil.example"),
        (b"Upgrade: websocket", b"Upgrade: websocket\r\nOrigin: https://evil.example"),
    ],
)
def test_a_handshake_that_is_none_opens_no_websocket(world: Hostile, change: tuple[bytes, bytes]) -> None:
    hello = (
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert change[0] in hello
    with Raw(world) as raw:
        raw.say(hello.replace(*change))
        assert 400 <= raw.answer()[0] < 500
