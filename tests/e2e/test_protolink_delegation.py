"""Delegation over ProtoLink's protocol: agents of ProtoLink 0.8.3 delegate to agents of this package, and cycles are refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from delegation_world import Handled, card
from protolink import Agent as PeerAgent
from protolink.client import RegistryClient as PeerRegistryClient
from protolink.core.run_context import RunContext as PeerContext
from protolink.llms import MockLLM as PeerMockLLM
from protolink.models import Task as PeerTask
from protolink.models import TaskState as PeerState
from protolink.transport import get_transport
from protolink.transport.errors import TransportRemoteError
from protolink_peer_world import PATIENCE_S, TRANSPORTS, peer_client, serving

from protolink_grpc import Agent, AgentClient, RunContext, ScriptedLLM, Task, TaskState, current_run
from protolink_grpc.compat.protolink.edge.registry import registry_routes
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.registry.service import RegistryService


def desk(**wishes: Any) -> tuple[Agent, list[list[str]]]:
    """An agent of ours with a tool and a model, over HTTP, and the chain of each call of its tool."""
    chains: list[list[str]] = []
    agent = Agent(card("desk", "http://127.0.0.1:0"), llm=ScriptedLLM(["a table"]), **wishes)

    @agent.tool
    def add(a: int, b: int) -> int:
        """Add."""
        run = current_run()
        assert run is not None
        chains.append(run.context.agent_chain)
        return a + b

    return agent, chains


@asynccontextmanager
async def boss_of(agent: Agent, *steps: Any) -> AsyncIterator[PeerAgent]:
    """A ProtoLink agent whose model plays a script, and that finds `agent` in a registry."""
    service = RegistryService()
    async with (
        service,
        serving(lambda _: registry_routes(RequestGuard(), service, health=lambda: {"ready": True})) as url,
    ):
        await service.register(agent.card)
        carrier = get_transport("http", url=url, timeout=PATIENCE_S)
        own = get_transport("http", url="http://127.0.0.1:1", timeout=PATIENCE_S)
        model = PeerMockLLM(sequential_responses=list(steps))
        boss = PeerAgent(
            {"name": "boss", "description": "the boss", "url": "http://127.0.0.1:1"},
            transport=own,
            registry=PeerRegistryClient(carrier),
            llm=model,
            verbosity=0,
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield boss
        finally:
            await own.close_loop_resources()
            await carrier.close_loop_resources()


FINAL = {"type": "final", "content": "done"}


@pytest.mark.parametrize(
    ("asked", "observed"),
    [
        ({"action": "tool_call", "tool": "add", "args": {"a": 1, "b": 2}}, "3"),
        ({"action": "infer", "prompt": "find a table"}, "a table"),
    ],
    ids=["tool_call", "infer"],
)
async def test_an_agent_of_protolink_delegates_to_ours(asked: dict[str, Any], observed: str) -> None:
    agent, chains = desk()
    async with agent, boss_of(agent, {"type": "agent_call", "agent": "desk", **asked}, FINAL) as boss:
        done = await boss.run_task(PeerTask.create_infer(prompt="go"))
    assert done.state is PeerState.COMPLETED, done.metadata
    assert observed in str(done.metadata["run_events"])
    assert chains in ([], [["boss", "desk"]])


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("chain", "seen"),
    [(["boss"], ["boss", "desk"]), (["boss", "clerk"], ["boss", "clerk", "desk"]), (["Desk", "boss"], None)],
    ids=["by one", "through two", "cycle"],
)
async def test_only_work_that_an_agent_has_handled_before_is_refused(
    transport: str, chain: list[str], seen: list[str] | None
) -> None:
    agent, chains = desk()
    task = PeerTask.create_tool_call("add", {"a": 1, "b": 2})
    PeerContext(agent_chain=chain).child(agent_name="desk").attach_to_task(task)
    async with agent, peer_client(transport) as client:
        url = agent.http_url
        place = f"ws{url.removeprefix('http')}" if transport == "websocket" else url
        if seen is None:
            with pytest.raises(TransportRemoteError, match=r"DELEGATION_CYCLE|passed through"):
                await client.send_task(place, task)
            assert chains == []
        else:
            assert (await client.send_task(place, task)).get_output() == 3
            assert chains == [seen]


async def test_an_agent_of_ours_that_delegates_to_itself_over_that_wire_is_refused() -> None:
    async def again(self: Handled, task: Task) -> Task | None:
        return await self.call_agent(f"ws{self.http_url.removeprefix('http')}", Task.create("once more"))

    async with Handled("desk", again, http="127.0.0.1:0") as agent, asyncio.timeout(PATIENCE_S):
        # Another agent has handled it first: otherwise the chain would be too short to be misread.
        context = RunContext(agent_chain=["front"], parent_run_id="above")
        done = await AgentClient(url=agent.card.url).send_task(None, Task.create("go", context=context))
    assert done.state is TaskState.FAILED
    assert "passed through desk before" in done.metadata["error"]
    assert agent.contexts[0].agent_chain == ["front", "desk"]
    assert len(agent.contexts) == 1


@pytest.mark.parametrize("transport", ["grpc", "runtime"])
async def test_a_root_context_may_name_the_agents_of_earlier_work(transport: str) -> None:
    url = "grpc://127.0.0.1:0" if transport == "grpc" else "runtime://again"

    async def handle(self: Handled, task: Task) -> Task | None:
        return task.complete("done")

    agent = Handled("again", handle)
    agent.relocate(url=url)
    async with agent:
        context = RunContext(agent_chain=["again", "other"])
        done = await AgentClient(url=agent.card.url).send_task(None, Task.create("go", context=context))
    assert done.state is TaskState.COMPLETED
    assert agent.contexts[0].agent_chain == ["again", "other", "again"]
