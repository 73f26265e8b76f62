"""One kind of agent behind every route by which a client can reach it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from delegation_world import PATIENCE_S

from protolink_grpc import Agent, AgentClient

ROUTES = ("runtime", "grpc", "http", "a2a", "ws")
"""In this process, over gRPC, over gRPC-Web, as an A2A agent, and over ProtoLink's WebSocket."""

A = TypeVar("A", bound=Agent)


class Routes(Generic[A]):
    """The agents and their URLs by route: one agent in this process, and one for all other routes."""

    def __init__(self, local: A, remote: A) -> None:
        over_http = remote.http_url
        self.agents = dict.fromkeys(ROUTES, remote) | {"runtime": local}
        self.urls = {
            "runtime": local.card.url,
            "grpc": remote.card.url,
            "http": over_http,
            "a2a": over_http,
            "ws": f"ws{over_http.removeprefix('http')}",
        }

    def client(self, route: str) -> AgentClient:
        return AgentClient("a2a" if route == "a2a" else "grpc", url=self.urls[route])


@asynccontextmanager
async def serving(local: A, remote: A) -> AsyncIterator[Routes[A]]:
    """Both agents running; `remote` has an HTTP port."""
    async with asyncio.timeout(PATIENCE_S), local, remote:
        yield Routes(local, remote)
