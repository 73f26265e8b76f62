"""Clients that stall, flood, send wrong data and disconnect: each gets the right answer or none, and the server continues."""

import asyncio
import random
import resource
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson
import pytest
import websockets
from http_world import PATIENCE_S, Peer, World, on_both_loops, running

from protolink_grpc import Agent, AgentCapabilities, AgentCard, HttpOptions, Principal, RateLimit, Task

MIB = 1 << 20


@asynccontextmanager
async def hurried(**options: Any) -> AsyncIterator[World]:
    """A server with short timeouts, which must serve as before when the test is over."""
    times = {"header_timeout_s": 0.2, "body_timeout_s": 0.2, "idle_timeout_s": 0.3, "write_timeout_s": 0.3}
    async with running(**(times | options)) as world:
        yield world
        peer = await Peer.of(world)
        assert (await peer.get("/echo"))[0] == 200
        peer.close()


async def alone(world: World) -> None:
    """Return when no connection is left."""
    async with asyncio.timeout(PATIENCE_S):
        while world.server.connections:
            await asyncio.sleep(0.01)


@on_both_loops
async def test_a_connection_that_says_nothing_is_closed() -> None:
    async with hurried() as world:
        peer = await Peer.of(world)
        assert await peer.rest() == b""
        assert world.rejected("silent") == 1
        peer.close()


@on_both_loops
async def test_headers_that_dribble_in_get_408_whatever_their_pace() -> None:
    async with hurried() as world:
        peer = await Peer.of(world)

        async def dribble() -> None:
            await peer.say(b"GET /echo HTTP/1.1\r\nhost: localhost\r\n")
            while True:
                await peer.say(b"x: y\r\n")
                await asyncio.sleep(0.02)

        dribbling = asyncio.create_task(dribble())
        assert (await peer.head())[0] == 408
        dribbling.cancel()
        assert world.rejected("slow_headers") == 1
        peer.close()


@on_both_loops
async def test_a_body_that_dribbles_in_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protolink_grpc.edges.http.protocol.LINGER_S", 0.2)
    async with hurried() as world:
        peer = await Peer.of(world)

        async def dribble() -> None:
            await peer.say(b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n")
            while True:
                await peer.say(b"x")
                await asyncio.sleep(0.02)

        dribbling = asyncio.create_task(dribble())
        status, _, body = await peer.answer()
        assert (status, orjson.loads(body)["error"]["details"][0]["reason"]) == (408, "REQUEST_TIMEOUT")
        await alone(world)  # although it still dribbles
        dribbling.cancel()
        peer.close()


@on_both_loops
async def test_a_kept_connection_that_falls_silent_is_closed() -> None:
    async with hurried() as world:
        peer = await Peer.of(world)
        assert (await peer.get("/echo"))[0] == 200
        assert await peer.rest() == b""
        peer.close()


HUNDRED_MB = 100_000_000


@pytest.mark.parametrize(
    ("head", "chunked"),
    [
        (b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000000\r\n\r\n", False),
        (b"POST /echo HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 100000000\r\n\r\n", False),
        (b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n", True),
    ],
    ids=["length", "closing", "chunked"],
)
@on_both_loops
async def test_a_client_that_sends_100_mb_before_it_looks_still_finds_its_413(head: bytes, chunked: bool) -> None:
    async with running() as world:
        peer = await Peer.of(world)
        piece = b"x" * 1_000_000
        await peer.say(head)
        for _ in range(HUNDRED_MB // len(piece)):
            await peer.say(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        status, headers, body = await peer.answer()
        assert (status, headers["connection"]) == (413, "close")
        assert orjson.loads(body)["error"]["details"][0]["reason"] == "MESSAGE_TOO_LARGE"
        assert await peer.rest() == b""
        peer.close()


@on_both_loops
async def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(world: World) -> None:
    peer = await Peer.of(world)
    await peer.say(
        b"POST /echo HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 100000000\r\n\r\n"
    )
    assert (await peer.head())[0] == 413
    peer.close()


@on_both_loops
async def test_100_kb_of_headers_get_431() -> None:
    async with hurried() as world:
        for headers in (b"x: " + b"v" * 100_000, b"x: y\r\n" * 17_000):
            peer = await Peer.of(world)
            await peer.say(b"GET /echo HTTP/1.1\r\nhost: localhost\r\n" + headers)
            assert (await peer.head())[0] == 431
            peer.close()
        assert world.rejected("headers_too_large") == 2


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\nhello",
        b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nhost: localhost\r\n x: folded\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nhost : localhost\r\n\r\n",
        b"GET /echo HTTP/9.9\r\nhost: localhost\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
@on_both_loops
async def test_a_request_that_can_be_read_in_two_ways_or_in_none_is_refused(request_: bytes) -> None:
    async with hurried() as world:
        peer = await Peer.of(world)
        await peer.say(request_)
        status, headers = await peer.head()
        assert (status, headers["connection"]) == (400, "close")
        peer.close()


@on_both_loops
async def test_noise_harms_nobody() -> None:
    noise = random.Random(4)
    async with hurried() as world:
        for _ in range(100):
            peer = await Peer.of(world)
            start = noise.choice([b"", b"GET /", b"POST /echo HTTP/1.1\r\nhost: localhost\r\n"])
            peer.writer.write(start + noise.randbytes(noise.randrange(1, 3000)))
            if noise.random() < 0.5:
                peer.writer.transport.abort()
            else:
                peer.close()
        await alone(world)


@on_both_loops
async def test_a_client_that_vanishes_midway_ends_its_stream() -> None:
    async with hurried() as world:
        peer = await Peer.of(world)
        await peer.say(b"GET /flood HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await peer.reader.readexactly(100_000)
        peer.writer.transport.abort()
        async with asyncio.timeout(PATIENCE_S):
            await world.gone.wait()
        await alone(world)
        assert world.metrics.registry.get_sample_value("plgrpc_http_event_streams") == 0


@on_both_loops
async def test_a_client_that_vanishes_from_an_idle_stream_ends_it() -> None:
    async with hurried() as world:
        peer = await Peer.of(world)
        await peer.say(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await peer.reader.readuntil(b"data: {}\n\n")
        peer.writer.transport.abort()
        async with asyncio.timeout(PATIENCE_S):
            await world.gone.wait()


@on_both_loops
async def test_a_reader_that_never_reads_costs_little_and_is_cut() -> None:
    async with hurried() as world:
        peer = await Peer.of(world, limit=1024)
        await peer.say(b"GET /flood HTTP/1.1\r\nhost: localhost\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            await world.gone.wait()
        # What the system's own socket buffers take, and 64 KiB of ours.
        assert world.written < 16 * MIB
        assert world.rejected("slow_reader") == 1
        await alone(world)
        peer.close()


@on_both_loops
async def test_a_reader_that_never_reads_does_not_hold_up_a_stop(world: World) -> None:
    peer = await Peer.of(world, limit=1024)
    await peer.say(b"GET /flood HTTP/1.1\r\nhost: localhost\r\n\r\n")
    await peer.reader.readexactly(10)
    async with asyncio.timeout(PATIENCE_S):
        await world.server.stop(0.1)
        await world.gone.wait()
    peer.close()


@on_both_loops
async def test_2000_connections_are_open_at_once_and_one_more_is_told_to_come_back() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 5000:
        pytest.skip("the system allows too few open files for both ends of so many connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 5000), hard))
    try:
        async with running(max_connections=2000, header_timeout_s=60.0, write_timeout_s=60.0) as world:
            peers = [await Peer.of(world) for _ in range(2000)]
            statuses = await asyncio.gather(*(peer.get("/echo") for peer in peers))
            assert {status for status, _, _ in statuses} == {200}
            late = await Peer.of(world)
            status, headers, _ = await late.answer()
            assert (status, headers["retry-after"]) == (503, "1")
            assert (await peers[0].get("/echo"))[0] == 200
            for peer in (*peers, late):
                peer.close()
            await alone(world)
            again = await Peer.of(world)
            assert (await again.get("/echo"))[0] == 200
            again.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# -- callers of an agent -----------------------------------------------------------------------------------------------------


class Patient(Agent):
    """Works until it is told to end."""

    def __init__(self, **options: Any) -> None:
        http = options.pop("http", None) or HttpOptions()
        card = AgentCard(
            name="patient",
            description="waits",
            url="runtime://patient",
            capabilities=AgentCapabilities(max_concurrency=64),
        )
        super().__init__(card, http=http, grace_s=0.2, **options)
        self.begun, self.release = asyncio.Event(), asyncio.Event()

    async def handle_task(self, task: Task) -> Task:
        self.begun.set()
        await self.release.wait()
        return task.complete("done")

    @property
    def requests(self) -> set[asyncio.Task[Any]]:
        """What its HTTP server is at."""
        ports: Any = self._ports
        found: set[asyncio.Task[Any]] = ports._http.gateway._server._connections.tasks
        return found

    async def states(self, http: httpx.AsyncClient) -> list[str]:
        return [each["status"]["state"] for each in (await http.get("/tasks", headers=V1)).json()["tasks"]]


@asynccontextmanager
async def at_work(agent: Patient) -> AsyncIterator[httpx.AsyncClient]:
    async with agent, httpx.AsyncClient(base_url=agent.http_url, timeout=PATIENCE_S, trust_env=False) as http:
        try:
            yield http
        finally:
            agent.release.set()


V1 = {"a2a-version": "1.0"}
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
MESSAGE_V03 = {"messageId": "m", "kind": "message", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
TASK = {"messages": [{"role": "user", "parts": [{"type": "text", "content": "hello"}]}]}


def call(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "json-rpc": ("/", call("SendMessage", message=MESSAGE)),
    "json-rpc v0.3": ("/", call("message/send", message=MESSAGE_V03)),
    "rest": ("/message:send", {"message": MESSAGE}),
    "rest v0.3": ("/v1/message:send", {"message": MESSAGE_V03}),
    "protolink": ("/tasks/", TASK),
}

each_way = pytest.mark.parametrize("way", WAYS)


def version_of(way: str) -> dict[str, str]:
    return {} if "v0.3" in way else V1


async def without_requests(agent: Patient) -> None:
    """Return when no request is being answered any more."""
    async with asyncio.timeout(PATIENCE_S):
        while agent.requests:
            await asyncio.sleep(0.01)


async def by_name(method: str, metadata: Mapping[str, str]) -> Principal | None:
    name = metadata.get("x-name", "")
    return Principal(name) if name else None


@each_way
async def test_a_caller_that_hangs_up_is_not_waited_for_and_its_run_goes_on(way: str) -> None:
    agent = Patient()
    async with at_work(agent) as http:
        path, said = WAYS[way]
        body = orjson.dumps(said)
        port = int(agent.http_url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        version = b"" if "v0.3" in way else b"a2a-version: 1.0\r\n"
        head = b"POST %b HTTP/1.1\r\nhost: localhost\r\n%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % (path.encode(), version, len(body)) + body)
        async with asyncio.timeout(PATIENCE_S):
            await agent.begun.wait()
        writer.transport.abort()
        await without_requests(agent)
        assert await agent.states(http) == ["TASK_STATE_WORKING"]
        agent.release.set()
        async with asyncio.timeout(PATIENCE_S):
            while await agent.states(http) != ["TASK_STATE_COMPLETED"]:
                await asyncio.sleep(0.01)


@each_way
async def test_a_wait_has_the_bound_that_the_server_sets_and_the_run_goes_on(way: str) -> None:
    agent = Patient(http=HttpOptions(max_wait_s=0.2))
    async with at_work(agent) as http:
        path, said = WAYS[way]
        answer = await http.post(path, json=said, headers=version_of(way))
        assert answer.status_code == (200 if path == "/" else 504)
        assert "the server waits at most 0.2 s" in answer.text
        assert await agent.states(http) == ["TASK_STATE_WORKING"]


async def test_a_wait_over_websocket_has_the_same_bound() -> None:
    agent = Patient(http=HttpOptions(max_wait_s=0.1))
    async with at_work(agent), websockets.connect(agent.http_url.replace("http", "ws")) as socket:
        await socket.send(orjson.dumps({"id": "1", "method": "POST", "path": "/tasks/", "data": TASK}).decode())
        answer = orjson.loads(await socket.recv())
        assert (answer["ok"], answer["error"]["reason"]) == (False, "DEADLINE_EXCEEDED")


JUNK: dict[str, dict[str, Any]] = {
    "no json": {"content": b"{", "headers": {"content-type": "application/json"}},
    "no request": {"json": []},
    "no method of ours": {"json": call("Shake")},
    "no media type": {"content": b"{}"},
}


@pytest.mark.parametrize("junk", JUNK)
async def test_junk_costs_its_sender_what_a_call_costs(junk: str) -> None:
    async with at_work(Patient(authenticator=by_name, rate_limit=RateLimit(0.001, burst=2))) as http:
        given = JUNK[junk]
        headers = given.get("headers", {}) | {"x-name": "ann"}
        for _ in range(2):
            assert (await http.post("/", **given | {"headers": headers})).status_code in (200, 415)
        refused = await http.post("/", **given | {"headers": headers})
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, -32603)
        assert int(refused.headers["retry-after"]) > 0
        late = await http.post("/", json=call("GetTask", id="x"), headers=V1 | {"x-name": "ann"})
        assert late.json()["error"]["data"][0]["reason"] == "RESOURCE_EXHAUSTED"
        other = await http.post("/", json=call("GetTask", id="x"), headers=V1 | {"x-name": "bob"})
        assert other.json()["error"]["data"][0]["reason"] == "TASK_NOT_FOUND"


async def test_junk_of_strangers_is_bounded_and_a_call_of_theirs_still_says_what_it_needs() -> None:
    async with at_work(Patient(authenticator=by_name, rate_limit=RateLimit(0.001, burst=2))) as http:
        statuses = [(await http.post("/", json=[])).status_code for _ in range(3)]
        assert statuses == [401, 401, 429]
        assert (await http.post("/", json=call("GetTask", id="x"), headers=V1)).status_code == 401


async def test_frames_that_ask_for_nothing_cost_too() -> None:
    agent = Patient(rate_limit=RateLimit(0.001, burst=1))
    async with at_work(agent), websockets.connect(agent.http_url.replace("http", "ws")) as socket:
        answers = []
        for _ in range(2):
            await socket.send("{")
            answers.append(orjson.loads(await socket.recv())["error"])
        assert answers[0]["type"] == "JSONDecodeError"
        assert answers[1]["reason"] == "RESOURCE_EXHAUSTED"


async def test_who_calls_over_json_rpc_is_asked_once() -> None:
    told: list[str] = []

    async def hook(method: str, metadata: Mapping[str, str]) -> Principal | None:
        told.append(method)
        return Principal("ann")

    async with at_work(Patient(authenticator=hook)) as http:
        await http.post("/", json=call("GetTask", id="x"), headers=V1)
        assert told == ["/lf.a2a.v1.A2AService/GetTask"]
        await http.post("/", json=call("tasks/get", id="x"))
        assert told[1:] == ["/a2a.v1.A2AService/GetTask"]


async def test_a_large_body_of_a_stranger_is_not_read() -> None:
    async with at_work(Patient(authenticator=by_name)) as http:
        body = call("GetTask", id="x" * 100_000)
        assert (await http.post("/", json=body, headers=V1)).status_code == 401
        known = await http.post("/", json=body, headers=V1 | {"x-name": "ann"})
        assert known.json()["error"]["code"] == -32602


STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "json-rpc": ("/", call("SendStreamingMessage", message=MESSAGE)),
    "json-rpc v0.3": ("/", call("message/stream", message=MESSAGE_V03)),
    "rest": ("/message:stream", {"message": MESSAGE}),
    "rest v0.3": ("/v1/message:stream", {"message": MESSAGE_V03}),
    "protolink": ("/tasks/stream", TASK),
}


@pytest.mark.parametrize("way", STREAMS)
async def test_a_caller_has_only_so_many_streams_at_a_time(way: str) -> None:
    agent = Patient(authenticator=by_name, http=HttpOptions(max_streams_per_principal=1))
    async with at_work(agent) as http:
        path, said = STREAMS[way]
        ann, bob = version_of(way) | {"x-name": "ann"}, version_of(way) | {"x-name": "bob"}
        async with http.stream("POST", path, json=said, headers=ann) as first:
            assert first.headers["content-type"].startswith("text/event-stream")
            begun = anext(first.aiter_bytes())
            assert await begun
            refused = await http.post(path, json=said, headers=ann)
            assert refused.status_code == (200 if path == "/" else 429)
            assert "max_streams_per_principal" in refused.text
            async with http.stream("POST", path, json=said, headers=bob) as other:
                assert other.headers["content-type"].startswith("text/event-stream")
        await without_requests(agent)
        async with http.stream("POST", path, json=said, headers=ann) as again:
            assert again.headers["content-type"].startswith("text/event-stream")


async def test_a_websocket_is_a_stream_and_so_is_each_on_it() -> None:
    agent = Patient(http=HttpOptions(max_streams_per_principal=2))
    url = "/tasks/stream"
    async with at_work(agent):
        address = agent.http_url.replace("http", "ws")
        async with websockets.connect(address) as socket:
            for number in ("1", "2"):
                frame = {"id": number, "method": "POST", "path": url, "data": TASK}
                await socket.send(orjson.dumps(frame).decode())
            answers = [orjson.loads(await socket.recv())]
            while answers[-1]["ok"]:
                answers.append(orjson.loads(await socket.recv()))
            assert (answers[-1]["id"], answers[-1]["error"]["reason"]) == ("2", "RESOURCE_EXHAUSTED")
            with pytest.raises(websockets.InvalidStatus) as caught:
                await websockets.connect(address)
            assert caught.value.response.status_code == 429
        await without_requests(agent)
        async with websockets.connect(address):
            pass


async def test_a_task_may_be_called_like_a_path() -> None:
    agent = Patient()
    agent.release.set()
    async with at_work(agent) as http:
        for name in ("stream", "cancel"):
            assert (await http.post("/tasks/", json=TASK | {"id": name})).status_code == 200
            found = await http.get(f"/tasks/{name}", headers=V1)
            assert (found.status_code, found.json()["id"]) == (200, name)
        wrong = await http.get("/tasks/")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
