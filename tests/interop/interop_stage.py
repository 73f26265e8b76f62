"""The agents that foreign clients call. The first word of a message selects the behavior, and no test waits for time."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import jwt

from protolink_grpc import (
    A2AOptions,
    Agent,
    AgentCapabilities,
    AgentCard,
    AgentSkill,
    Artifact,
    BearerTokenAuth,
    Extension,
    HttpOptions,
    Limits,
    Part,
    Principal,
    PushOptions,
    Task,
)
from protolink_grpc.models.events import TaskArtifactUpdated, TaskProgress

PATIENCE_S = 30.0
"""How long what must happen may take; far more than it needs on a busy machine."""

SECRET = "a secret for tests alone, 32 bytes at least"

OFFERED, DEMANDED = "urn:example:offered", "urn:example:demanded"


def token(name: str) -> str:
    """Credentials of that principal."""
    return jwt.encode({"sub": name, "exp": int(time.time()) + 3600}, SECRET, "HS256")


class Errands(Agent):
    """Does what the first word says; any other text it answers with `did: ...`.

    `hold NAME` works until another message says `release NAME`: a client can watch, leave and come back meanwhile.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._released: dict[str, asyncio.Event] = {}

    def _gate(self, name: str) -> asyncio.Event:
        return self._released.setdefault(name, asyncio.Event())

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        message = task.messages[-1]
        text = next((str(part.content) for part in message.parts if part.type == "text"), "")
        word, _, rest = text.partition(" ")
        match word:
            case "echo":
                yield Artifact(parts=[part for part in message.parts if part.content != text], name="echo")
                task.complete("echoed")
            case "count":
                yield TaskProgress(50, "half of it")
                yield Artifact(parts=[Part("text", "one")], name="n1")
                first = Artifact(parts=[Part("text", "two ")], name="n2")
                yield TaskArtifactUpdated(first)
                yield TaskArtifactUpdated(
                    Artifact(id=first.id, parts=[Part("text", "and a half")], name="n2"), append=True, last_chunk=True
                )
                task.complete("counted")
            case "ask":
                task.require_input("Which city?")
            case "login":
                task.require_auth("Sign in first")
            case "hold":
                yield Artifact(parts=[Part("text", "holding")], name="held")
                await self._gate(rest).wait()
                task.complete("let go")
            case "release":
                self._gate(rest).set()
                task.complete("released")
            case "say":
                task.metadata["a2a"] = {"reply": "message"}
                task.complete(rest)
            case "fail":
                raise RuntimeError("out of paper")
            case "refuse":
                task.reject("not today")
            case _:
                task.complete(f"did: {text}")


def card(**fields: Any) -> AgentCard:
    given: dict[str, Any] = {
        "name": "errands",
        "description": "Does what it is told.",
        "url": "grpc://127.0.0.1:0",
        "input_formats": ["text/plain", "application/json", "image/png"],
        "skills": [AgentSkill("errands", "All of them.", tags=["all"])],
        "capabilities": AgentCapabilities(max_concurrency=64),
    }
    return AgentCard(**(given | fields))


def extended(principal: Principal) -> AgentCard | None:
    """An extended card for each caller, except for callers with certain names."""
    if principal.name.startswith("stranger"):
        return None
    return replace(card(), description=f"knows {principal.name}")


@dataclass(frozen=True, slots=True)
class World:
    """A running agent, known by its URL alone: the rest is for its clients to find."""

    agent: Errands
    url: str


@asynccontextmanager
async def running(options: A2AOptions, *, authenticated: bool = False) -> AsyncIterator[World]:
    agent = Errands(
        card(),
        http=HttpOptions(),
        a2a=options,
        skills="fixed",
        authenticator=BearerTokenAuth(SECRET) if authenticated else None,
        limits=Limits(max_concurrency=64),
        grace_s=0.2,
    )
    async with agent:
        yield World(agent, next(each.url for each in agent.card.interfaces if each.url.startswith("http")))


KINDS: dict[str, tuple[A2AOptions, bool]] = {
    "full": (
        A2AOptions(
            push=PushOptions(allow=("private",)),
            extended_card=extended,
            extensions=(Extension(OFFERED),),
        ),
        True,
    ),
    "bare": (A2AOptions(streaming=False), False),
    "speaking": (A2AOptions(message_replies=True), False),
    "demanding": (A2AOptions(extensions=(Extension(DEMANDED, required=True),)), False),
}
"""Options of the agents, and whether one wants credentials: one that can do all, one that can do little, one that answers with
messages, one that demands an extension."""
