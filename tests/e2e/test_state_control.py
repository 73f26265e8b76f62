"""An agent's state over ControlService and in process, for the caller's own sessions only."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import Agent, AgentCard, AgentClient, Principal, ScriptedLLM, ServerOptions, Task, current_run
from protolink_grpc.errors import (
    ActionDeniedError,
    InvalidArgumentError,
    SessionNotFoundError,
    UnimplementedError,
)
from protolink_grpc.models.action import PolicyDecision, PolicyEffect, RunAction
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import HistoryCompactionRequest, LLMMessage
from protolink_grpc.models.events import ContextCompacted
from protolink_grpc.models.state import StateOperationRequest, StateOperationResult
from protolink_grpc.policy.capabilities import CapabilityPolicy
from protolink_grpc.state import InMemoryStorage, SQLiteStorage, State
from protolink_grpc.tools.context import ToolContext


async def by_name(method: str, metadata: Mapping[str, str]) -> Principal | None:
    name = metadata.get("authorization")
    return Principal(name) if name else None


class Listener(Agent):
    """Remembers what it is told, and one of its tools counts."""

    async def handle_task(self, task: Task) -> Task:
        run = current_run()
        assert run is not None
        assert self.state is not None
        own = self.state.of(run.principal)
        if own.conversation is not None:
            heard = [LLMMessage("user", task.messages[-1].text), LLMMessage("assistant", "I see")]
            await own.conversation.remember(run.session_id, task.id, heard)
        if own.tools is not None:
            await own.tools.session(run.session_id).set("last", task.messages[-1].text)
        return task.complete("I see")


@asynccontextmanager
async def listening(url: str = "grpc://127.0.0.1:0", **options: Any) -> AsyncIterator[Listener]:
    options.setdefault("state", State(enabled=("conversation", "tools")))
    card = AgentCard(name="listener", description="listens", url=url)
    async with Listener(card, server=ServerOptions(authenticate=by_name), **options) as agent:
        yield agent


def client(agent: Agent, name: str = "ann") -> AgentClient:
    return AgentClient(url=agent.card.url, timeout=20.0, metadata=[("authorization", name)])


async def tell(caller: AgentClient, session_id: str, *words: str) -> None:
    for word in words:
        (await caller.send_task(None, Task.create(word, session_id=session_id))).raise_for_status()


def counts(result: StateOperationResult) -> dict[str, tuple[int, int]]:
    return {store.name: (store.item_count, store.message_count) for store in result.stores}


@pytest.fixture(params=["grpc://127.0.0.1:0", "runtime://listener"], ids=["grpc", "runtime"])
async def agent(request: pytest.FixtureRequest) -> AsyncIterator[Listener]:
    async with listening(request.param) as agent:
        yield agent


async def test_a_session_is_described_with_its_content(agent: Listener) -> None:
    ann = client(agent)
    await tell(ann, "s", "one", "two")
    assert counts(await ann.describe_state(session_id="s")) == {"conversation": (4, 4), "tools": (1, 0)}
    result = await ann.describe_state(session_id="s", include_data=True)
    shown = [message["content"] for message in result.stores[0].data]
    assert shown == ["one", "I see", "two", "I see"]
    assert result.stores[1].data == {"last": "two"}
    assert (result.operation, result.session_id, result.missing) == ("describe", "s", ())


async def test_all_sessions_of_the_caller_are_described_together(agent: Listener) -> None:
    ann = client(agent)
    await tell(ann, "s", "one")
    await tell(ann, "r", "two", "three")
    assert counts(await ann.describe_state()) == {"conversation": (2, 6), "tools": (2, 0)}
    assert counts(await ann.describe_state(stores=["tools"])) == {"tools": (2, 0)}


async def test_a_reset_tells_what_was_there_and_leaves_other_sessions(agent: Listener) -> None:
    ann = client(agent)
    await tell(ann, "s", "one")
    await tell(ann, "r", "two")
    result = await ann.reset_state(session_id="s", stores=["conversation"])
    assert result.cleared == ("conversation",)
    assert result.stores[0].metadata["before"]["message_count"] == 2
    assert result.stores[0].metadata["after"]["message_count"] == 0
    assert counts(await ann.describe_state()) == {"conversation": (1, 2), "tools": (2, 0)}
    assert (await ann.reset_state()).cleared == ("conversation", "tools")
    assert not any(store.exists for store in (await ann.describe_state()).stores)
    await tell(ann, "s", "three")
    assert counts(await ann.describe_state(session_id="s"))["conversation"] == (2, 2)


async def test_a_conversation_is_compacted_as_state_and_as_history(agent: Listener) -> None:
    ann = client(agent)
    await tell(ann, "s", "one", "two", "three")
    result = await ann.compact_state(None, StateOperationRequest("s", strategy="recent", max_messages=4))
    assert (result.compacted, counts(result)) == (("conversation",), {"conversation": (4, 4)})
    done = await ann.compact_history(None, strategy="tokens", max_tokens=3, session_id="s")
    assert (done.strategy, done.before_messages, done.after_messages, done.changed) == ("tokens", 4, 1, True)
    again = await ann.compact_history(None, HistoryCompactionRequest(session_id="s"))
    assert not again.changed


async def test_an_agent_compacts_the_history_of_its_own_sessions(agent: Listener) -> None:
    for text in ("one", "two", "three"):
        await agent.run_task(Task.create(text, session_id="s"))
    done = await agent.compact_history(HistoryCompactionRequest("recent", max_messages=4, session_id="s"))
    assert (done.strategy, done.before_messages, done.after_messages) == ("recent", 6, 4)
    done = await agent.compact_history({"session_id": "s", "strategy": "tokens"}, max_tokens=3)
    assert (done.strategy, done.before_messages, done.after_messages) == ("tokens", 4, 1)
    assert not (await agent.compact_history(session_id="s")).changed


class Compacting(Listener):
    """Summarizes its conversation when it is told to."""

    async def handle_task(self, task: Task) -> Task:
        if task.messages[-1].text == "compact":
            await self.compact_state(session_id=task.session_id, strategy="summary", preserve_recent=0)
            return task.complete("done")
        return await super().handle_task(task)


async def test_the_event_of_a_compaction_has_the_summary_that_replaced_messages() -> None:
    async with Compacting("listener", state="conversation", llm=ScriptedLLM(["They greeted."])) as agent:
        await agent.run_task(Task.create("hello", session_id="s"))
        task = Task.create("compact", session_id="s")
        events = [event.payload async for event in agent.run_task_streaming(task)]
    (done,) = [each for each in events if isinstance(each, ContextCompacted)]
    assert (done.strategy, done.summary) == ("summary", "They greeted.")
    assert done.before_tokens > 0


async def test_the_run_of_another_caller_gets_no_event_of_the_agents_own_conversation() -> None:
    url = "grpc://127.0.0.1:0"
    async with Compacting("listener", url=url, state="conversation", llm=ScriptedLLM(["They greeted."])) as agent:
        await agent.run_task(Task.create("hello", session_id="s"))
        caller = AgentClient(url=agent.card.url)
        task = Task.create("compact", session_id="s")
        events = [event.payload async for event in caller.send_task_streaming(None, task)]
        assert not any(isinstance(each, ContextCompacted) for each in events)


async def test_wrong_requests_are_refused_by_name(agent: Listener) -> None:
    ann = client(agent)
    await tell(ann, "s", "one")
    with pytest.raises(InvalidArgumentError, match=r"Task\.flow_state"):
        await ann.describe_state(stores=["flow"])
    with pytest.raises(InvalidArgumentError, match="session"):
        await ann.compact_history(None, HistoryCompactionRequest())
    with pytest.raises(InvalidArgumentError, match="language model"):
        await ann.compact_history(None, strategy="summary", session_id="s")
    with pytest.raises(SessionNotFoundError, match="session unknown not found"):
        await ann.reset_state(session_id="unknown")


def test_the_synchronous_facade_has_the_same_verbs() -> None:
    agent = Listener(name="listener", url="runtime://facade", state=State())
    agent.start(background=True)
    try:
        caller = AgentClient(url=agent.card.url).sync
        caller.send_task(None, Task.create("one", session_id="s")).raise_for_status()
        assert caller.describe_state(session_id="s").stores[0].message_count == 2
        assert caller.reset_state(session_id="s").cleared == ("conversation",)
    finally:
        agent.stop()


async def test_a_session_of_somebody_else_does_not_exist() -> None:
    async with listening() as agent:
        ann, bob = client(agent), client(agent, "bob")
        await tell(ann, "s", "one")
        await tell(bob, "r", "two")
        result = await bob.describe_state(session_id="s", include_data=True)
        assert [store.exists for store in result.stores] == [False, False]
        assert result.stores == (await bob.describe_state(session_id="unknown", include_data=True)).stores
        assert counts(await bob.describe_state()) == {"conversation": (1, 2), "tools": (1, 0)}
        with pytest.raises(SessionNotFoundError):
            await bob.reset_state(session_id="s")
        with pytest.raises(SessionNotFoundError):
            await bob.compact_history(None, session_id="s", max_messages=2)
        await bob.reset_state()
        assert counts(await ann.describe_state(session_id="s")) == {"conversation": (2, 2), "tools": (1, 0)}


@asynccontextmanager
async def advising(path: Path) -> AsyncIterator[tuple[Agent, ScriptedLLM]]:
    """An agent with a model and a tool that remembers; its tasks end with it, its memory is in a file."""
    model = ScriptedLLM(["I see"])
    agent = Agent(
        AgentCard(name="advisor", description="advises", url="grpc://127.0.0.1:0"),
        server=ServerOptions(authenticate=by_name),
        llm=model,
        state=State(SQLiteStorage(path), ("conversation", "tools")),
    )

    @agent.tool
    async def note(context: ToolContext, text: str = "") -> Any:
        """Note a text; returns the one before."""
        before = await context.memory.get("text")
        await context.memory.set("text", text)
        return before

    async with agent:
        yield agent, model


async def noted(caller: AgentClient, text: str) -> Any:
    task = await caller.send_task(None, Task.create_tool_call("note", {"text": text}, session_id="s"))
    return task.raise_for_status().get_output()


async def test_a_session_that_the_task_store_has_forgotten_is_still_its_principals(tmp_path: Path) -> None:
    async with advising(tmp_path / "state.db") as (agent, _):
        await tell(client(agent), "s", "my secret")
        assert await noted(client(agent), "my note") is None
    async with advising(tmp_path / "state.db") as (agent, model):
        bob = client(agent, "bob")
        await tell(bob, "s", "hello")
        assert await noted(bob, "his note") is None
        (asked,) = model.requests
        assert "my secret" not in str(asked.messages)
        assert counts(await bob.describe_state(session_id="s")) == {"conversation": (2, 2), "tools": (1, 0)}
        await bob.reset_state()
    async with advising(tmp_path / "state.db") as (agent, model):
        await tell(client(agent), "s", "and now?")
        (asked,) = model.requests
        assert "my secret" in str(asked.messages)
        assert await noted(client(agent), "another") == "my note"


@pytest.mark.parametrize("url", ["grpc://127.0.0.1:0", "runtime://listener"])
async def test_policy_decides_about_memory_too(url: str) -> None:
    policy = CapabilityPolicy({"state.reset": "deny", "llm.history.compact": "deny"})
    async with listening(url, policy=policy) as agent:
        ann = client(agent)
        await tell(ann, "s", "one", "two")
        with pytest.raises(ActionDeniedError):
            await ann.reset_state(session_id="s")
        with pytest.raises(ActionDeniedError):
            await ann.compact_state(None, StateOperationRequest("s", max_messages=2))
        assert counts(await ann.describe_state(session_id="s"))["conversation"] == (4, 4)


@pytest.mark.parametrize(("url", "principal"), [("grpc://127.0.0.1:0", "ann"), ("runtime://listener", "local")])
async def test_a_policy_for_state_gets_the_caller_as_the_principal_of_the_context(url: str, principal: str) -> None:
    callers: list[tuple[str | None, Any]] = []

    class Recording:
        async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
            callers.append((context.principal, context.metadata["principal"]))
            return PolicyDecision(PolicyEffect.ALLOW)

    async with listening(url, policy=Recording()) as agent:
        await client(agent).describe_state(session_id="s")
    assert callers == [(principal, principal)]


@pytest.mark.parametrize("url", ["grpc://127.0.0.1:0", "runtime://forgetful"])
async def test_an_agent_without_state_says_so(url: str) -> None:
    async with Agent(AgentCard(name="forgetful", description="forgets", url=url)) as agent:
        caller = AgentClient(url=agent.card.url, timeout=20.0)
        for use in (
            caller.describe_state(),
            caller.reset_state(),
            caller.compact_history(None, session_id="s"),
        ):
            with pytest.raises(UnimplementedError, match="this agent has no state"):
                await use


async def test_memory_in_a_file_outlives_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with listening(state=State(SQLiteStorage(path))) as agent:
        await tell(client(agent), "s", "one")
    async with listening(state=State(SQLiteStorage(path))) as agent:
        await tell(client(agent), "s", "two")
        result = await client(agent).describe_state(session_id="s", include_data=True)
        assert [message["content"] for message in result.stores[0].data] == ["one", "I see", "two", "I see"]


async def test_a_tool_remembers_from_one_task_of_a_session_to_the_next() -> None:
    agent = Agent(name="counter", url="runtime://counter", state=State(InMemoryStorage(), ("tools",)))

    @agent.tool
    async def count(context: ToolContext) -> int:
        """Count."""
        seen = int(await context.memory.get("seen", 0)) + 1
        await context.memory.set("seen", seen)
        return seen

    async with agent:
        caller = AgentClient(url=agent.card.url)
        answers = []
        for session_id in ("s", "s", "r"):
            task = await caller.send_task(None, Task.create_tool_call("count", session_id=session_id))
            answers.append(task.artifacts[-1].parts[0].content.result)
        assert answers == [1, 2, 1]
        assert (await caller.describe_state(session_id="s", include_data=True)).stores[0].data == {"seen": 2}


async def test_a_session_is_described_and_reset_with_its_threads() -> None:
    llm = ScriptedLLM(["yes"])
    async with Agent("chat", url="grpc://127.0.0.1:0", llm=llm, state=State()) as agent:
        ann = AgentClient(url=agent.card.url, timeout=20.0)
        await ann.sessions.start_thread("s", "side")

        async def say(word: str, thread_id: str) -> None:
            turn = await ann.sessions.submit("s", word, thread_id=thread_id)
            async for _ in ann.sessions.stream("s", turn):
                pass

        await say("first", "default")
        await say("second", "side")
        described = (await ann.describe_state(session_id="s")).stores[0]
        assert described.metadata["threads"] == {"default": 2, "side": 2}
        assert (await ann.reset_state(session_id="s")).cleared == ("conversation",)
        await say("third", "side")
        assert not [message for message in llm.requests[-1].messages if "second" in message.content]
        assert (await ann.describe_state(session_id="s")).stores[0].message_count == 2
