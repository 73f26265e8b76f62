"""ProtoLink's frames over WebSocket: every frame is answered, requests do not wait for each other, and memory is bounded."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.auth.principal import Principal
from protolink_grpc.compat.protolink.edge.verbs import Verb, VerbCall
from protolink_grpc.compat.protolink.edge.websocket import SocketLimits, socket_route
from protolink_grpc.edges.http.connections import TEXTS
from protolink_grpc.edges.http.options import Bounds
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.errors import PermissionDeniedError, TaskNotFoundError

PATIENCE_S = 10.0
"""Bound of what must happen soon; reached only by a failure."""

SERVICE = "/plgrpc.v1.AgentService"


class Stage:
    """Verbs that do what a test wants, and what they were asked."""

    def __init__(self) -> None:
        self.asked: list[VerbCall] = []
        self.begun = 0
        self.ends: list[str] = []
        self.pulled = 0
        self.release = asyncio.Event()
        self.batches = 3

    def table(self) -> list[Verb]:
        return [
            Verb("POST", "/echo", f"{SERVICE}/Echo", self.echo),
            Verb("POST", "/work", f"{SERVICE}/Work", self.work, is_work=True),
            Verb("POST", "/steer", f"{SERVICE}/Steer", self.work),
            Verb("POST", "/fail", f"{SERVICE}/Fail", self.fail),
            Verb("POST", "/tasks/stream", f"{SERVICE}/Stream", stream=self.stream, is_work=True),
            Verb("GET", "/open", f"{SERVICE}/Open", self.echo, is_open=True),
        ]

    async def echo(self, call: VerbCall) -> Any:
        self.asked.append(call)
        return call.data

    async def work(self, call: VerbCall) -> Any:
        self.begun += 1
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.ends.append("canceled")
            raise
        self.ends.append("done")
        return call.data

    async def fail(self, call: VerbCall) -> Any:
        if call.data == "on purpose":
            raise TaskNotFoundError("task x not found", task_id="x")
        raise ZeroDivisionError("the secret of the house")

    async def stream(self, call: VerbCall) -> AsyncGenerator[list[dict[str, Any]], None]:
        try:
            for number in range(self.batches):
                self.pulled += 1
                yield [{"type": "task_progress", "progress": number}]
            if call.data == "fail":
                raise TaskNotFoundError("task x not found", task_id="x")
            yield [{"type": "task_status_update", "new_state": "completed", "final": True}]
        finally:
            self.ends.append("closed")


class Peer:
    """The other side of one connection, without a network."""

    def __init__(self, route: Any, headers: Mapping[str, str], extensions: Mapping[str, Any] | None = None) -> None:
        self.received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.reading = asyncio.Event()
        self.reading.set()
        self._sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._sent.put_nowait({"type": "websocket.connect"})
        scope = {
            "type": "websocket",
            "path": "/",
            "query_string": b"",
            "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
            "extensions": {"websocket.http.response": {}, **(extensions or {})},
        }
        self.session = asyncio.ensure_future(route.app(scope, self._sent.get, self._take))

    async def _take(self, message: dict[str, Any]) -> None:
        await self.reading.wait()
        self.received.put_nowait(message)

    def say(self, frame: Any) -> None:
        text = frame if isinstance(frame, str) else json.dumps(frame)
        self._sent.put_nowait({"type": "websocket.receive", "text": text})

    def call(self, request_id: Any, path: str, data: Any = None, **more: Any) -> None:
        self.say({"id": request_id, "method": "POST", "path": path, "data": data} | more)

    def leave(self) -> None:
        self._sent.put_nowait({"type": "websocket.disconnect", "code": 1005})

    async def message(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            return await self.received.get()

    async def answer(self) -> dict[str, Any]:
        message = await self.message()
        assert message["type"] == "websocket.send"
        found = json.loads(message["text"])
        assert isinstance(found, dict)
        return found

    async def end(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.session


@asynccontextmanager
async def connected(
    stage: Stage,
    guard: RequestGuard | None = None,
    limits: SocketLimits | None = None,
    headers: Mapping[str, str] | None = None,
    extensions: Mapping[str, Any] | None = None,
) -> AsyncIterator[Peer]:
    route = socket_route(guard or RequestGuard(), stage.table(), limits or SocketLimits())
    peer = Peer(route, headers or {}, extensions)
    assert (await peer.message())["type"] == "websocket.accept"
    yield peer
    peer.leave()
    peer.reading.set()
    stage.release.set()
    await peer.end()


async def reached(what: Callable[[], bool]) -> None:
    """Let the loop go on until something is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not what():
            await asyncio.sleep(0)


async def test_an_answer_has_the_id_of_its_request() -> None:
    async with connected(Stage()) as peer:
        for request_id in ("1", 7):
            peer.call(request_id, "/echo", {"a": 1})
            assert await peer.answer() == {"id": request_id, "ok": True, "result": {"a": 1}}


@pytest.mark.parametrize(
    ("frame", "request_id", "error"),
    [
        ({"method": "POST"}, None, {"message": "Missing required fields: id/method/path", "type": "ValueError"}),
        ({"id": "1"}, "1", {"message": "Missing required fields: id/method/path", "type": "ValueError"}),
        (
            {"id": "3", "method": "POST", "path": "/tasks"},
            "3",
            {"message": "No endpoint registered for POST /tasks", "type": "ValueError"},
        ),
        (
            {"id": "3", "method": "get", "path": "/echo"},
            "3",
            {"message": "No endpoint registered for GET /echo", "type": "ValueError"},
        ),
        ([1], None, {"message": "a frame must be a JSON object", "type": "ValueError"}),
        ("not json", None, {"message": "frame: must be valid JSON", "type": "JSONDecodeError"}),
    ],
)
async def test_what_is_no_request_is_refused_in_protolinks_words(frame: Any, request_id: Any, error: Any) -> None:
    async with connected(Stage()) as peer:
        peer.say(frame)
        assert await peer.answer() == {"id": request_id, "ok": False, "error": error}
        peer.call("after", "/echo")
        assert (await peer.answer())["ok"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FRAMES = JSON | st.fixed_dictionaries(
    {},
    optional={
        "id": JSON,
        "method": JSON | st.sampled_from(["GET", "POST"]),
        "path": JSON | st.sampled_from(["/echo", "/fail", "/open", "/tasks/stream"]),
        "data": JSON,
        "params": JSON,
        "idempotency_key": JSON,
    },
)


@given(st.lists(FRAMES, max_size=5))
async def test_every_frame_is_answered_and_none_ends_the_connection(frames: list[Any]) -> None:
    stage = Stage()
    stage.batches = 0
    async with connected(stage) as peer:
        for frame in frames:
            peer.say(frame)
            answer = await peer.answer()
            assert answer["ok"] or answer["error"]["message"]
        peer.call("after", "/echo", "still here")
        assert await peer.answer() == {"id": "after", "ok": True, "result": "still here"}


async def test_answers_come_in_the_order_in_which_they_are_ready() -> None:
    stage = Stage()
    async with connected(stage) as peer:
        peer.call("slow", "/work")
        await reached(lambda: stage.begun == 1)
        peer.call("quick", "/echo")
        assert (await peer.answer())["id"] == "quick"
        stage.release.set()
        assert (await peer.answer())["id"] == "slow"


async def test_what_steers_is_answered_although_there_is_no_room_for_work() -> None:
    stage = Stage()
    async with connected(stage, limits=SocketLimits(max_work=2)) as peer:
        for request_id in ("1", "2", "3"):
            peer.call(request_id, "/work")
        refused = await peer.answer()
        assert (refused["id"], refused["ok"], refused["error"]["reason"]) == ("3", False, "RESOURCE_EXHAUSTED")
        peer.call("steer", "/echo")
        assert await peer.answer() == {"id": "steer", "ok": True, "result": None}
        stage.release.set()
        assert {(await peer.answer())["id"], (await peer.answer())["id"]} == {"1", "2"}
        peer.call("4", "/work")
        assert (await peer.answer())["id"] == "4"


async def test_what_steers_has_a_bound_too() -> None:
    stage = Stage()
    async with connected(stage, limits=SocketLimits(max_steering=1)) as peer:
        peer.call("1", "/steer")
        peer.call("2", "/steer")
        assert (await peer.answer())["error"]["reason"] == "RESOURCE_EXHAUSTED"


async def test_a_stream_ends_with_its_last_event() -> None:
    async with connected(Stage()) as peer:
        peer.call("s", "/tasks/stream")
        frames = [await peer.answer() for _ in range(4)]
        assert [each["final"] for each in frames] == [False, False, False, True]
        assert frames[0] == {
            "id": "s",
            "ok": True,
            "result": {"type": "task_progress", "progress": 0},
            "final": False,
            "stream": True,
        }


async def test_a_stream_that_fails_ends_with_a_final_error() -> None:
    stage = Stage()
    async with connected(stage) as peer:
        peer.call("s", "/tasks/stream", "fail")
        *shown, last = [await peer.answer() for _ in range(4)]
        assert all(each["ok"] for each in shown)
        assert (last["id"], last["ok"], last["final"], last["error"]["type"]) == ("s", False, True, "TaskNotFoundError")


async def test_a_batch_is_one_write_of_the_same_frames_where_the_server_can_do_that() -> None:
    class Wide(Stage):
        async def stream(self, call: VerbCall) -> AsyncGenerator[list[dict[str, Any]], None]:
            yield [{"type": "task_progress", "progress": number} for number in range(3)]
            yield [{"type": "task_status_update", "new_state": "completed", "final": True}]

    async with connected(Wide()) as peer:
        peer.call("1", "/tasks/stream")
        one_by_one = [(await peer.message())["text"] for _ in range(4)]
    async with connected(Wide(), extensions={TEXTS: {}}) as peer:
        peer.call("1", "/tasks/stream")
        batch, last = await peer.message(), await peer.message()
    assert [text.decode() for text in batch[TEXTS]] + [last["text"]] == one_by_one


async def test_streams_and_answers_take_turns() -> None:
    stage = Stage()
    async with connected(stage) as peer:
        peer.reading.clear()
        peer.call("s", "/tasks/stream")
        await reached(lambda: stage.pulled == 1)
        peer.call("e", "/echo")
        await reached(lambda: bool(stage.asked))
        peer.reading.set()
        order = [(await peer.answer())["id"] for _ in range(5)]
        assert order[0] == "s"
        assert order.index("e") <= 2


async def test_a_slow_reader_makes_its_stream_wait_and_not_its_server_grow() -> None:
    stage = Stage()
    stage.batches = 1000
    async with connected(stage) as peer:
        peer.reading.clear()
        peer.call("s", "/tasks/stream")
        await reached(lambda: stage.pulled == 1)
        for _ in range(100):
            await asyncio.sleep(0)
        assert stage.pulled == 1


async def test_a_peer_that_takes_nothing_is_given_up() -> None:
    stage = Stage()
    stage.batches = 1000
    async with connected(stage, limits=SocketLimits(write_timeout_s=0.01)) as peer:
        peer.call("w", "/work")
        await reached(lambda: stage.begun == 1)
        peer.reading.clear()
        peer.call("s", "/tasks/stream")
        await peer.end()
        assert sorted(stage.ends) == ["canceled", "closed"]


async def test_waiting_ends_with_the_connection_and_steering_is_finished() -> None:
    stage = Stage()
    async with connected(stage) as peer:
        peer.call("w", "/work")
        peer.call("s", "/steer")
        await reached(lambda: stage.begun == 2)
        peer.leave()
        await reached(lambda: stage.ends == ["canceled"])
        stage.release.set()
        await peer.end()
        assert stage.ends == ["canceled", "done"]


async def test_a_cancel_counts_also_if_its_sender_leaves_at_once() -> None:
    stage = Stage()
    stage.release.set()
    async with connected(stage) as peer:
        peer.call("s", "/steer")
        peer.leave()
        await peer.end()
        assert stage.ends == ["done"]


async def test_a_frame_that_is_too_large_closes_the_connection() -> None:
    async with connected(Stage(), RequestGuard(bounds=Bounds(max_body_bytes=100))) as peer:
        peer.call("1", "/echo", "é" * 60)
        closed = await peer.message()
        assert (closed["type"], closed["code"]) == ("websocket.close", 1009)
        await peer.end()


async def test_what_went_wrong_is_told_and_what_is_secret_is_not(caplog: pytest.LogCaptureFixture) -> None:
    async with connected(Stage()) as peer:
        peer.call("1", "/fail", "on purpose")
        error = {"message": "task x not found", "type": "TaskNotFoundError", "reason": "TASK_NOT_FOUND"}
        assert (await peer.answer())["error"] == error
        peer.call("2", "/fail")
        internal = (await peer.answer())["error"]
    assert internal["reason"] == "INTERNAL"
    assert "secret" not in internal["message"]
    assert "the secret of the house" in caplog.text


async def test_the_query_and_the_key_of_a_request_reach_the_verb() -> None:
    stage = Stage()
    async with connected(stage) as peer:
        peer.call("1", "/echo", params={"tags": ["a"]}, idempotency_key="k")
        await peer.answer()
    assert [(call.params, call.key, call.socket) for call in stage.asked] == [({"tags": ["a"]}, "k", True)]


# -- who connects ------------------------------------------------------------------------------------------------------------


async def refusal(
    guard: RequestGuard, headers: Mapping[str, str], limits: SocketLimits | None = None
) -> tuple[int, Any]:
    peer = Peer(socket_route(guard, Stage().table(), limits or SocketLimits()), headers)
    start, body = await peer.message(), await peer.message()
    await peer.end()
    return start["status"], json.loads(body["body"])


@pytest.mark.parametrize("origin", ["https://evil.example", "null", ""])
async def test_pages_of_browsers_are_refused(origin: str) -> None:
    status, body = await refusal(RequestGuard(), {"origin": origin})
    assert (status, body["reason"]) == (403, "PERMISSION_DENIED")


async def test_pages_that_are_allowed_may_connect() -> None:
    limits = SocketLimits(allowed_origins=frozenset({"https://console.example"}))
    async with connected(Stage(), limits=limits, headers={"origin": "https://console.example"}) as peer:
        peer.call("1", "/echo")
        assert (await peer.answer())["ok"]
    status, _ = await refusal(RequestGuard(), {"origin": "https://console.example.evil"}, limits)
    assert status == 403


class Gate:
    """Knows one key, for as long as it is valid, and keeps what methods it was asked about."""

    def __init__(self) -> None:
        self.valid = True
        self.methods: list[str] = []

    async def __call__(self, method: str, metadata: Mapping[str, str]) -> Principal | None:
        self.methods.append(method)
        return Principal("ann", frozenset({"all"})) if self.valid and metadata.get("x-api-key") == "k" else None


async def test_a_stranger_is_refused_at_the_handshake() -> None:
    status, body = await refusal(RequestGuard(Gate()), {})
    assert (status, body["reason"]) == (401, "UNAUTHENTICATED")


async def test_credentials_are_looked_at_for_each_request() -> None:
    gate, stage = Gate(), Stage()
    async with connected(stage, RequestGuard(gate), headers={"x-api-key": "k"}) as peer:
        peer.call("1", "/echo")
        assert (await peer.answer())["ok"]
        gate.valid = False
        peer.call("2", "/echo")
        assert (await peer.answer())["error"]["reason"] == "UNAUTHENTICATED"
        peer.call("3", "/open", method="GET")
        assert (await peer.answer())["ok"]
    assert [call.principal.name for call in stage.asked] == ["ann", "anonymous"]
    assert gate.methods[1:] == [f"{SERVICE}/Echo"] * 2


async def test_what_one_may_not_do_is_refused_and_the_rest_is_answered() -> None:
    def admit(method: str, principal: Principal) -> None:
        if method != f"{SERVICE}/Echo":
            raise PermissionDeniedError(f"{principal.name} may not call {method}")

    async with connected(Stage(), RequestGuard(Gate(), admit), headers={"x-api-key": "k"}) as peer:
        peer.call("1", "/work")
        assert (await peer.answer())["error"]["reason"] == "PERMISSION_DENIED"
        peer.call("2", "/echo")
        assert (await peer.answer())["ok"]
