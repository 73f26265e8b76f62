"""Agents of this package behind ProtoLink's routes, for tests with a real ProtoLink 0.8.3 client."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import uvicorn
from protolink.client import AgentClient as PeerClient
from protolink.transport import get_transport
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from protolink_grpc import Agent, AgentCapabilities, AgentCard, Limits
from protolink_grpc.compat.protolink.edge.routes import agent_routes
from protolink_grpc.edges.http.request_guard import RequestGuard

PATIENCE_S = 30.0
"""How long something that must happen may take; far more than it needs on a busy machine."""

TRANSPORTS = ("http", "sse", "websocket")


@asynccontextmanager
async def serving(routes: Callable[[Callable[[], str]], Sequence[BaseRoute]], **config: Any) -> AsyncIterator[str]:
    """An HTTP server for these routes; its URL, which the routes may ask for."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        app = Starlette(routes=routes(lambda: url))
        settings = uvicorn.Config(app, lifespan="off", log_level="critical", ws="websockets-sansio", **config)
        settings.load()
        server = uvicorn.Server(settings)
        server.lifespan = settings.lifespan_class(settings)
        await server.startup(sockets=[listening])
        try:
            yield url
        finally:
            server.force_exit = True
            await server.shutdown(sockets=[listening])


@dataclass
class World:
    """One of our agents, and where ProtoLink's clients find it."""

    agent: Agent
    url: str

    def at(self, transport: str) -> str:
        return f"ws{self.url.removeprefix('http')}" if transport == "websocket" else self.url


def our_card(name: str) -> AgentCard:
    return AgentCard(
        name=name,
        description=f"the {name}",
        url=f"runtime://{name}",
        capabilities=AgentCapabilities(max_concurrency=64),
        tags=["t1"],
    )


@asynccontextmanager
async def behind_the_gateway(agent: Agent, *, guard: RequestGuard | None = None, **more: Any) -> AsyncIterator[World]:
    config = more.pop("config", {})
    async with agent:
        service, control = await agent._own_service(), agent._components.control

        def routes(url: Callable[[], str]) -> Sequence[BaseRoute]:
            more.setdefault("health", lambda: {"status": "ready", "ready": True})
            return agent_routes(guard or RequestGuard(), service, lambda: agent.card, control, public_url=url, **more)

        async with serving(routes, **config) as url:
            yield World(agent, url)


@asynccontextmanager
async def peer_client(transport: str, **options: Any) -> AsyncIterator[PeerClient]:
    """ProtoLink's own client; its connections are closed at the end."""
    here = "ws://127.0.0.1:1" if transport == "websocket" else "http://127.0.0.1:1"
    carrier = get_transport(transport, url=here, timeout=PATIENCE_S, **options)
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield PeerClient(carrier)
    finally:
        await carrier.close_loop_resources()


class Held:
    """A tool that waits, once it has been called, until it is let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.release = asyncio.Event()
        self.ends: list[str] = []

    async def hold(self) -> str:
        """Wait."""
        self.begun.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.ends.append("canceled")
            raise
        self.ends.append("done")
        return "held"


def calculator(held: Held | None = None, **wishes: Any) -> Agent:
    """An agent with a tool that adds, and one that waits."""
    agent = Agent(our_card("calculator"), limits=Limits(max_concurrency=64), **wishes)

    @agent.tool
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    if held is not None:
        agent.add_tool(held.hold)
    return agent


async def events_of(client: PeerClient, url: str, task: Any) -> list[dict[str, Any]]:
    return [event async for event in client.send_task_streaming(url, task)]


async def ended(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
