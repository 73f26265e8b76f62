"""The HTTP port as an ASGI application: mounted in a host application, or run by uvicorn."""

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp
from websockets.asyncio.client import connect

import protolink_grpc
from protolink_grpc import Agent, AgentClient, HttpOptions, InvalidArgumentError, Registry, RegistryClient, Task
from protolink_grpc.auth import APIKeyAuth

ROOT = Path(__file__).parents[2]


class _Server(uvicorn.Server):
    """Says when it has started, and leaves signals to the test."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(frozen=True, slots=True)
class Port:
    """A taken port, for one server."""

    taken: socket.socket
    url: str


@pytest.fixture
def port() -> Iterator[Port]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield Port(taken, f"http://127.0.0.1:{taken.getsockname()[1]}")


@asynccontextmanager
async def uvicorn_runs(app: ASGIApp, port: Port) -> AsyncIterator[None]:
    """Uvicorn as its command starts it, on a socket of ours."""
    server = _Server(uvicorn.Config(app, log_level="critical", lifespan="on", timeout_graceful_shutdown=1))
    running = asyncio.create_task(server.serve([port.taken]))
    try:
        await asyncio.wait_for(server.ready.wait(), 20)
        yield
    finally:
        server.should_exit = True
        await running


class Echo(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.complete(f"echo {task.messages[-1].text}")


def echo(port: Port, prefix: str = "", **settings: Any) -> Echo:
    options = HttpOptions(public_url=port.url + prefix, **settings)
    return Echo("echo", http=options)


def mounted(agent: Agent) -> Starlette:
    """A host application with the agent under /agent."""

    @asynccontextmanager
    async def lifespan(host: Starlette) -> AsyncIterator[None]:
        async with agent:
            yield

    return Starlette(routes=[Mount("/agent", agent.asgi_app())], lifespan=lifespan)


async def test_a_mounted_agent_answers_under_its_prefix(port: Port) -> None:
    agent = echo(port, "/agent")
    async with uvicorn_runs(mounted(agent), port):
        client = AgentClient()
        done = await client.send_task(agent.http_url, Task.create("hi"))

    assert done.messages[-1].text == "echo hi"


async def test_the_card_of_a_mounted_agent_names_the_public_url(port: Port) -> None:
    async with uvicorn_runs(mounted(echo(port, "/agent")), port), httpx.AsyncClient() as http:
        card = (await http.get(f"{port.url}/agent/.well-known/agent-card.json")).json()

    assert all(each["url"].startswith(f"{port.url}/agent") for each in card["supportedInterfaces"])


async def test_a_mounted_agent_streams(port: Port) -> None:
    agent = echo(port, "/agent")
    async with uvicorn_runs(mounted(agent), port):
        client = AgentClient()
        events = [each async for each in client.send_task_streaming(agent.http_url, Task.create("hi"))]

    assert events[-1].final


async def test_uvicorn_starts_and_stops_the_agent_with_itself(port: Port) -> None:
    agent = echo(port)
    async with uvicorn_runs(agent.asgi_app(), port), httpx.AsyncClient() as http:
        ready = (await http.get(f"{port.url}/readyz")).status_code
        was_running = agent.is_running

    assert (ready, was_running, agent.is_running) == (200, True, False)


async def test_an_agent_that_was_not_started_answers_with_503_and_what_to_do(port: Port) -> None:
    host = Starlette(routes=[Mount("/agent", echo(port, "/agent").asgi_app())])
    async with uvicorn_runs(host, port), httpx.AsyncClient() as http:
        refused = await http.get(f"{port.url}/agent/readyz")

    assert refused.status_code == 503
    assert "agent echo does not run; start it in the lifespan" in refused.json()["error"]["message"]


async def test_an_agent_of_another_loop_answers_with_503(port: Port) -> None:
    agent = echo(port, "/agent")
    host = Starlette(routes=[Mount("/agent", agent.asgi_app())])
    await asyncio.to_thread(agent.start, background=True)
    try:
        async with uvicorn_runs(host, port), httpx.AsyncClient() as http:
            refused = await http.get(f"{port.url}/agent/readyz")
    finally:
        await asyncio.to_thread(agent.stop)

    assert refused.status_code == 503
    assert "runs on another event loop" in refused.json()["error"]["message"]


async def test_an_agent_that_cannot_start_fails_the_lifespan() -> None:
    class Broken(Echo):
        async def serve(self, *, register: bool = True) -> None:
            raise RuntimeError("no disk")

    app = Broken("broken", http=HttpOptions(public_url="http://127.0.0.1:1")).asgi_app()
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "lifespan"}, receive, send)

    assert sent == [{"type": "lifespan.startup.failed", "message": "agent broken cannot start: no disk"}]


async def test_an_application_without_a_known_url_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"http\.public_url"):
        Echo("echo").asgi_app()


async def test_an_agent_that_listens_already_has_no_application(port: Port) -> None:
    async with Echo("echo", http="127.0.0.1:0") as agent:
        with pytest.raises(RuntimeError, match="before the start"):
            agent.asgi_app()


async def test_an_agent_with_an_application_listens_on_no_port_of_its_own(port: Port) -> None:
    agent = Echo("echo", url=port.url)  # taken: a port of its own would fail
    agent.asgi_app()
    async with agent:
        assert agent.http_url == port.url


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"Host": "evil.example"}, 421, id="another name"),
        pytest.param({"Origin": "https://evil.example"}, 403, id="a page of another origin"),
        pytest.param({}, 401, id="no credentials"),
    ],
)
async def test_the_bounds_of_requests_hold_in_another_server(port: Port, headers: dict[str, str], status: int) -> None:
    options = HttpOptions(public_url=f"{port.url}/agent")
    agent = Echo("echo", http=options, authenticator=APIKeyAuth({"secret": ["tasks"]}))
    async with uvicorn_runs(mounted(agent), port), httpx.AsyncClient() as http:
        answer = await http.post(f"{port.url}/agent/tasks/", json={}, headers=headers)

    assert answer.status_code == status


async def test_a_body_that_is_too_large_is_refused_in_another_server(port: Port) -> None:
    agent = echo(port, "/agent", max_body_bytes=100)
    async with uvicorn_runs(mounted(agent), port), httpx.AsyncClient() as http:
        answer = await http.post(f"{port.url}/agent/tasks/", json={"text": "x" * 200})

    assert answer.status_code == 413


@pytest.mark.parametrize("message", ["x" * 101, "ä" * 60, b"x" * 101], ids=["text", "bytes of text", "bytes"])
async def test_a_websocket_message_that_is_too_large_ends_its_websocket(port: Port, message: str | bytes) -> None:
    agent = echo(port, "/agent", max_websocket_message_bytes=100)
    async with uvicorn_runs(mounted(agent), port), connect(f"ws{port.url[4:]}/agent/") as websocket:
        await websocket.send(message)
        await websocket.wait_closed()

    assert websocket.close_code == 1009


async def test_a_stopped_agent_answers_again_after_its_next_start(port: Port) -> None:
    agent = echo(port)
    host = Starlette(routes=[Mount("/", agent.asgi_app())])
    statuses = []
    async with uvicorn_runs(host, port), httpx.AsyncClient() as http:
        for _ in range(2):
            async with agent:
                statuses.append((await http.get(f"{port.url}/readyz")).status_code)
            statuses.append((await http.get(f"{port.url}/readyz")).status_code)

    assert statuses == [200, 503, 200, 503]


async def test_a_registry_answers_as_an_application(port: Port) -> None:
    registry = Registry(http=HttpOptions(public_url=port.url))
    async with uvicorn_runs(registry.asgi_app(), port):
        assert await RegistryClient(registry.http_url).list_agents() == []


async def test_the_host_application_in_the_documents_runs(port: Port) -> None:
    text = (ROOT / "docs/http.md").read_text().partition("## In another server")[2]
    [snippet] = re.findall(r"^```python\n(.*?)^```", text.partition("\n## ")[0], re.DOTALL | re.MULTILINE)
    names = {name: getattr(protolink_grpc, name) for name in protolink_grpc.__all__}
    exec(snippet.replace("http://127.0.0.1:8000", port.url), names)
    async with uvicorn_runs(names["host"], port):
        client = AgentClient()
        card = await client.get_agent_card(f"{port.url}/agent")

    assert [skill.id for skill in card.skills] == ["greet"]


async def test_a_server_that_cannot_answer_a_handshake_closes_it(port: Port) -> None:
    app = echo(port).asgi_app()
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "websocket", "path": "/", "headers": [], "http_version": "1.1"}, receive, send)

    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_an_answer_over_http2_names_no_connection(port: Port) -> None:
    agent = echo(port, max_body_bytes=10)
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"x" * 20}

    async def send(message: Any) -> None:
        sent.append(message)

    app = agent.asgi_app()
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"20")]
    scope = {"type": "http", "method": "POST", "path": "/tasks/", "headers": headers, "query_string": b""}
    async with agent:
        await app({**scope, "http_version": "2"}, receive, send)

    assert sent[0]["status"] == 413
    assert "connection" not in {name.decode().lower() for name, _ in sent[0]["headers"]}
