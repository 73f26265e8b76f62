"""The agents of the A2A suite. The first word of a message selects the behavior, and the test controls each step."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import httpx
from a2a_wires import Caller, Grpc, JsonRpc, Line, Rest
from a2a_wires_v03 import GrpcV03, JsonRpcV03, RestV03

from protolink_grpc import (
    A2AOptions,
    Agent,
    AgentCapabilities,
    AgentCard,
    Artifact,
    HttpOptions,
    Limits,
    Message,
    Part,
    Principal,
    PushOptions,
    Task,
)
from protolink_grpc.models.events import TaskProgress
from protolink_grpc.storage.port import TaskStore

PATIENCE_S = 30.0
"""How long what must happen may take; far more than it needs on a busy machine."""

DEMANDED, OFFERED = "urn:example:demanded", "urn:example:offered"
"""Extensions: what one of the agents requires, and what it merely knows."""

WIRES: dict[str, type[Caller]] = {each.name: each for each in (Grpc, JsonRpc, Rest, GrpcV03, JsonRpcV03, RestV03)}


class Script:
    """A task that does one step at a time, when the test says so."""

    def __init__(self) -> None:
        self.steps: asyncio.Queue[Any] = asyncio.Queue()

    async def does(self, *outputs: Any) -> None:
        """Let it do these steps, and wait until they are in the log."""
        for output in outputs:
            self.steps.put_nowait(output)
        async with asyncio.timeout(PATIENCE_S):
            await self.steps.join()

    def ends(self) -> None:
        self.steps.put_nowait(None)


def numbered(number: int) -> Artifact:
    return Artifact(parts=[Part("text", f"number {number}")], name=f"n{number}")


class Stage(Agent):
    """An agent whose messages say what it does."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.scripts: dict[str, Script] = {}
        self.works = 0

    def script(self) -> tuple[str, Script]:
        """A new script, and the text that begins it."""
        name = f"s{len(self.scripts)}"
        self.scripts[name] = Script()
        return f"follow {name}", self.scripts[name]

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        self.works += 1
        message = task.messages[-1]
        first = next((part.content for part in message.parts if part.type == "text"), "")
        word, _, rest = str(first).partition(" ")
        match word:
            case "echo":
                yield Artifact(parts=[part for part in message.parts if part.content != first], name="echo")
                task.begin().update_state("completed")  # an error that is echoed is none of its own
            case "many":
                yield TaskProgress(50, "half of it")
                for number in (1, 2, 3):
                    yield numbered(number)
                task.complete("all three")
            case "talk":
                task.add_message(Message.agent("first")).add_message(Message.agent("second"))
                task.complete("third")
            case "ask":
                task.require_input(rest or "What else?")
            case "login":
                task.require_auth("Sign in first")
            case "break":
                raise RuntimeError("it broke")
            case "refuse":
                task.reject("not today")
            case "reply":
                task.metadata["a2a"] = {"reply": "message"}
                task.complete(rest)
            case "modes":
                task.complete(str(task.metadata))
            case "follow":
                steps = self.scripts[rest].steps
                while (output := await steps.get()) is not None:
                    yield output
                    steps.task_done()
                task.complete("followed")
            case _:
                task.complete(f"did: {message.text}")


async def by_token(method: str, metadata: Mapping[str, str]) -> Principal | None:
    """`Bearer alice` is alice."""
    scheme, _, name = metadata.get("authorization", "").partition(" ")
    return Principal(name) if scheme == "Bearer" and name else None


def card(**fields: Any) -> AgentCard:
    given: dict[str, Any] = {
        "name": "stage",
        "description": "does what it is told",
        "url": "grpc://127.0.0.1:0",
        "input_formats": ["text/plain", "application/json", "image/png"],
        "capabilities": AgentCapabilities(max_concurrency=64),
    }
    return AgentCard(**(given | fields))


def push() -> PushOptions:
    return PushOptions(allow=("private",))


class World:
    """One running agent and the connections to it."""

    def __init__(self, agent: Agent, line: Line) -> None:
        self.agent = agent
        self.line = line
        self._names = 0

    @property
    def stage(self) -> Stage:
        assert isinstance(self.agent, Stage)
        return self.agent

    @property
    def url(self) -> str:
        return str(self.line.http.base_url).rstrip("/")

    def somebody(self) -> str:
        """A principal that owns nothing yet."""
        self._names += 1
        return f"user-{self._names}"

    def caller(self, binding: str, name: str = "", **headers: str) -> Caller:
        """A caller by that name, who says its version and who it is.

        Args:
            name: By default a principal that owns nothing yet; "-" sends no credentials.
        """
        wire = WIRES[binding]
        given = {"a2a-version": "1.0"} if wire.version == "1.0" else {}
        if name != "-":
            given["authorization"] = f"Bearer {name or self.somebody()}"
        return wire(self.line, given | headers)


@asynccontextmanager
async def playing(agent: Agent) -> AsyncIterator[World]:
    """The agent at work, on both of its ports."""
    async with agent:
        base = next(each.url for each in agent.card.interfaces if each.url.startswith("http"))
        transport = httpx.AsyncHTTPTransport(verify=False, limits=httpx.Limits(max_connections=None))
        target = agent.card.url.removeprefix("grpc://")
        async with (
            httpx.AsyncClient(base_url=base, transport=transport, timeout=PATIENCE_S) as http,
            grpc.aio.insecure_channel(target, [("grpc.use_local_subchannel_pool", 1)]) as channel,
        ):
            yield World(agent, Line(http, channel))


def agent_with(
    options: A2AOptions | None = None, *, store: TaskStore | None = None, authenticated: bool = True, **more: Any
) -> Stage:
    """An agent of the stage."""
    return Stage(
        more.pop("card", None) or card(),
        http=more.pop("http", None) or HttpOptions(),
        a2a=options or A2AOptions(),
        authenticator=by_token if authenticated else None,
        limits=Limits(max_concurrency=64),
        store=store,
        grace_s=0.2,
        **more,
    )


def said(message: Message | dict[str, Any] | None) -> str:
    """The words of a message of v1.0's JSON."""
    assert isinstance(message, dict)
    return " ".join(part["text"] for part in message["parts"] if "text" in part)
