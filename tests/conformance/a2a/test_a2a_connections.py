"""Limits of one HTTP connection: HEAD, long ids, interrupted bodies, WebSockets of web pages."""

import asyncio
import json
import logging
from typing import Any

import pytest
import websockets
from a2a_stage import PATIENCE_S, World, agent_with, playing
from websockets.exceptions import InvalidStatus

from protolink_grpc import HttpOptions, Registry

V1 = {"a2a-version": "1.0"}


async def opened(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = url.removeprefix("http://").partition(":")
    return await asyncio.open_connection(host, int(port))


def requests_of(world: World) -> set[asyncio.Task[Any]]:
    """What the server of that agent is at."""
    ports: Any = world.agent._ports
    found: set[asyncio.Task[Any]] = ports._http.gateway._server._connections.tasks
    return found


async def test_the_head_of_a_stream_is_a_whole_answer() -> None:
    async with playing(agent_with(authenticated=False)) as world:
        text, script = world.stage.script()
        task = await world.caller("rest", "-").begin(text)
        reader, writer = await opened(world.url)
        common = "HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\n\r\n"
        writer.write(f"HEAD /tasks/{task['id']}:subscribe {common}GET /healthz {common}".encode())
        async with asyncio.timeout(PATIENCE_S):
            assert b"text/event-stream" in await reader.readuntil(b"\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.close()
        script.ends()


async def test_an_id_that_is_long_is_not_repeated() -> None:
    async with playing(agent_with(authenticated=False)) as world:
        body = {"jsonrpc": "2.0", "method": "GetTask", "params": {"id": "unknown"}}
        for size, code in ((1024, -32001), (1025, -32600)):
            answer = await world.line.http.post("/", json=body | {"id": "i" * size}, headers=V1)
            assert answer.json()["error"]["code"] == code
            assert len(answer.content) < 2048
        async with websockets.connect(world.url.replace("http", "ws")) as socket:
            await socket.send(json.dumps({"id": "i" * 1025, "method": "GET", "path": "/.well-known/agent.json"}))
            refused = json.loads(await socket.recv())
            assert (refused["id"], refused["ok"]) == (None, False)


@pytest.mark.parametrize("path", ["/", "/message:send", "/v1/message:send", "/tasks/", "/agents/"])
async def test_a_body_that_breaks_off_is_no_incident(path: str, caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry(http=HttpOptions())
    async with playing(agent_with(authenticated=False)) as world, registry:
        url, tasks = world.url, requests_of(world)
        if path == "/agents/":
            gateway: Any = registry._http.gateway
            url, tasks = registry.http_url, gateway._server._connections.tasks
        version = "" if path.startswith("/v1") else "A2A-Version: 1.0\r\n"
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{version}Content-Type: application/json\r\n"
        _, writer = await opened(url)
        with caplog.at_level(logging.WARNING):
            writer.write(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
            async with asyncio.timeout(PATIENCE_S):
                while not tasks:
                    await asyncio.sleep(0)
                writer.close()
                while tasks:
                    await asyncio.sleep(0)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    ("options", "origin"),
    [
        (HttpOptions(cors_origins=("*",)), "https://any.example"),
        (HttpOptions(cors_origins=("https://app.example/",)), "https://app.example"),
        (HttpOptions(), "http://127.0.0.1"),
    ],
)
async def test_pages_that_may_call_may_open_a_websocket(options: HttpOptions, origin: str) -> None:
    async with playing(agent_with(http=options, authenticated=False)) as world:
        if origin == "http://127.0.0.1":
            origin = world.url  # a page of the agent's own
        async with websockets.connect(world.url.replace("http", "ws"), origin=origin) as socket:  # type: ignore[arg-type]  # an Origin is a str
            await socket.send(json.dumps({"id": "1", "method": "GET", "path": "/.well-known/agent.json"}))
            assert json.loads(await socket.recv())["ok"]


async def test_other_pages_may_not_open_a_websocket() -> None:
    async with playing(agent_with(authenticated=False)) as world, Registry(http=HttpOptions()) as registry:
        for url in (world.url, registry.http_url):
            with pytest.raises(InvalidStatus, match="403"):
                await websockets.connect(url.replace("http", "ws"), origin="https://evil.example")  # type: ignore[arg-type]  # see above
