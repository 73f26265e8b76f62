"""A small mesh of agents that find each other, and tasks for it, for tests of delegation."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from protolink_grpc import (
    Agent,
    AgentCapabilities,
    AgentCard,
    AgentClient,
    Registry,
    RegistryClient,
    RunContext,
    RunEvent,
    ScriptedLLM,
    StopAt,
    Task,
    current_run,
)
from protolink_grpc.models.events import ActionEnded

PATIENCE_S = 30.0
"""How long something that must happen may take; far more than it needs on a busy machine."""

ANY_PORT = "grpc://127.0.0.1:0"


def card(name: str, url: str = ANY_PORT) -> AgentCard:
    return AgentCard(name=name, description=f"the {name}", url=url, capabilities=AgentCapabilities(max_concurrency=32))


def thinking(name: str, registry: "Registry | RegistryClient | str | None", *steps: Any, **wishes: Any) -> Agent:
    """An agent whose model plays a script, on a port of its own."""
    native, model = wishes.pop("native", True), wishes.pop("model", ScriptedLLM)
    llm = model(steps, native) if steps else None
    return Agent(card(name), registry=registry, llm=llm, grace_s=0.1, **wishes)


def call(agent: str, tool: str, **args: Any) -> dict[str, Any]:
    return {"type": "agent_call", "agent": agent, "action": "tool_call", "tool": tool, "args": args}


def ask(agent: str, prompt: str = "go on") -> dict[str, Any]:
    return {"type": "agent_call", "agent": agent, "action": "infer", "prompt": prompt}


def said_last(agent: Agent) -> str:
    """What the agent's model was told last."""
    requests = agent.llm.requests  # type: ignore[union-attr]  # a ScriptedLLM, see `thinking`
    return str(requests[-1].messages[-1].content)


async def answered(agent: Agent, prompt: str = "plan it", **fields: Any) -> Task:
    async with asyncio.timeout(PATIENCE_S):
        return await AgentClient(url=agent.card.url).send_task(None, Task.create_infer(prompt=prompt, **fields))


async def log_of(agent: Agent, task_id: str) -> list[RunEvent]:
    client = AgentClient(url=agent.card.url)
    return [event async for event in client.subscribe(task_id, stop_at=StopAt.CURRENT)]


async def ends(agent: Agent, task_id: str) -> list[tuple[str, str]]:
    """Type and name of every action that ended, in the order of the log."""
    log = await log_of(agent, task_id)
    return [(event.type, event.payload.name) for event in log if isinstance(event.payload, ActionEnded)]


async def tasks_of(agent: Agent) -> list[str]:
    return [each.id for each in (await AgentClient(url=agent.card.url).list_tasks()).tasks]


Handler = Callable[["Handled", Task], Awaitable[Task | None]]


class Handled(Agent):
    """An agent whose handler is a function of the test."""

    def __init__(self, name: str, handler: Handler, registry: Any = None, **wishes: Any) -> None:
        super().__init__(card(name), registry=registry, grace_s=0.1, **wishes)
        self.contexts: list[RunContext] = []
        self._does = handler

    async def handle_task(self, task: Task) -> Task:
        run = current_run()
        assert run is not None
        self.contexts.append(run.context.copy())
        return await self._does(self, task) or task


class CountingClient(RegistryClient):
    """Counts the calls that reach the registry, by name."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.calls: Counter[str] = Counter()

    @property
    def _stub(self) -> Any:
        return _Counted(super()._stub, self.calls)


class _Counted:
    def __init__(self, stub: Any, calls: Counter[str]) -> None:
        self._of, self._calls = stub, calls

    def __getattr__(self, name: str) -> Any:
        self._calls[name] += 1
        return getattr(self._of, name)


async def gathered(calls: Sequence[Awaitable[Any]]) -> list[Any]:
    return await asyncio.gather(*calls, return_exceptions=True)
