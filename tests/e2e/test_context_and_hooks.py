"""The context policy and the hooks of an agent over gRPC, also in a run that another process continues."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from context_agent import LAST, WINDOW, Reader, build

from protolink_grpc import (
    Agent,
    AgentClient,
    AgentHooks,
    ContextPolicy,
    FinalOutput,
    InMemoryStorage,
    MockLLM,
    ModelInput,
    RunBudget,
    RunEvent,
    ScriptedLLM,
    Task,
    TaskState,
    create_llm,
)
from protolink_grpc.errors import ContextLimitError
from protolink_grpc.llms import ModelRequest
from protolink_grpc.models.events import ContextCompacted, ContextPrepared

PROGRAM = Path(__file__).parent / "context_agent.py"


async def talk(client: AgentClient, turns: int) -> None:
    for number in range(turns):
        task = await client.send_task(None, Task.create(f"{number}: {'word ' * 80}", session_id="s"))
        task.raise_for_status()


async def log_of(client: AgentClient, task: Task) -> list[RunEvent]:
    return [event async for event in client.subscribe(task.id)]


def prompts_by_run(events: list[RunEvent]) -> list[list[ContextPrepared]]:
    found: dict[str, list[ContextPrepared]] = {}
    for event in events:
        if isinstance(event.payload, ContextPrepared):
            found.setdefault(event.run_id, []).append(event.payload)
    return list(found.values())


async def test_a_long_session_over_grpc_stays_within_the_window(tmp_path: Path) -> None:
    agent = build(tmp_path, "this process")
    async with agent:
        client = AgentClient(url=agent.card.url)
        await talk(client, 30)
        task = await client.send_task(None, Task.create("read", session_id="s"))
        assert task.get_output() == "All numbers are read."
        events = await log_of(client, task)
        prepared = [event.payload for event in events if isinstance(event.payload, ContextPrepared)]
        compacted = [event.payload for event in events if isinstance(event.payload, ContextCompacted)]
        assert all(each.manifest.total_estimated_tokens <= WINDOW * 7 // 8 for each in prepared)
        # A summary in between is another prompt, and does not change the tools that the run offers.
        assert {each.manifest.purpose for each in prepared} == {"", "summary"}
        assert {each.offered for each in prepared if each.manifest.purpose} == {None}
        assert compacted[0].summary == "summary of this process"
        assert all(each.before_tokens > each.after_tokens for each in compacted)
        # The log has the whole results, and the conversation of the session is not shortened.
        results = [event.payload.result for event in events if event.type == "action.completed"]
        assert [len(each) for each in results if each is not None] == [10 + 150 * number for number in range(1, 9)]
        assert agent.state is not None
        assert len(await agent.state.of("anonymous").conversation.history("s")) > 60


@pytest.mark.parametrize("stop_after", [3, 6, 8])
async def test_a_run_that_another_process_continues_makes_the_same_call(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]], stop_after: int
) -> None:
    program = await launch(PROGRAM, tmp_path, stop_after)
    client = AgentClient(url=await program.line(), outage_s=0)
    await talk(client, 24)
    task = await client.submit_task(None, Task.create("read", session_id="s"))
    prompt = json.loads(await program.line())
    await talk(client, 1)  # a turn that ends meanwhile is not in the prompt of the next process
    await program.kill()
    agent = build(tmp_path, "the second process")
    assert isinstance(agent.llm, Reader)
    async with agent:
        client = AgentClient(url=agent.card.url)
        done = await client.wait_task(task.id)
        assert done.get_output() == "All numbers are read."
        assert agent.llm.prompts[0] == prompt
        events = await log_of(client, task)
        summaries = {event.payload.summary for event in events if isinstance(event.payload, ContextCompacted)}
        assert "summary of the first process" in summaries
        first, second = prompts_by_run(events)
        left_out = [each.omitted for each in first if each.omitted is not None][-1]
        assert left_out == second[0].omitted
        assert left_out.count > 0
        assert [each.offered for each in first if each.offered is not None][-1] == second[0].offered
        notes = [event for event in events if event.type == "action.started" and event.payload.name == "note"]
        assert len(notes) == LAST, "an action of a hook does not take the result of an action of another decision"


async def test_a_prompt_that_cannot_fit_fails_the_task_before_any_call() -> None:
    llm = create_llm("mock")
    async with Agent("a", url="grpc://127.0.0.1:0", llm=llm, context_policy=ContextPolicy(max_tokens=50)) as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.send_task(None, Task.create("word " * 200))
        assert task.state is TaskState.FAILED
        assert task.failure is not None
        assert task.failure.reason == "CONTEXT_LIMIT"
        assert "context_policy.max_tokens" in task.failure.message
        assert "llm.call.started" not in [event.type for event in await log_of(client, task)]


@pytest.mark.parametrize("shown", [True, False])
async def test_a_hook_that_raises_fails_the_task_and_is_named(shown: bool) -> None:
    def fail(call: ModelInput) -> None:
        raise KeyError("a detail")

    hooks = AgentHooks(before_model=fail)
    agent = Agent("a", url="grpc://127.0.0.1:0", llm=create_llm("mock"), hooks=hooks, expose_errors=shown)
    async with agent:
        task = await AgentClient(url=agent.card.url).send_task(None, Task.create("hello"))
        assert task.state is TaskState.FAILED
        assert task.failure is not None
        if shown:
            assert task.failure.message == "HookError: before_model failed: KeyError: 'a detail'"
        else:
            assert "a detail" not in str(task.to_dict())
            assert "incident" in task.failure.message


async def test_a_hook_asks_the_model_of_its_agent_without_being_called_for_that_question() -> None:
    async def judge(answer: FinalOutput) -> str | None:
        verdict = await agent.ask(f"Is this polite: {answer.content}")
        return None if verdict == "yes" else "Be polite."

    script = ["Go away.", "no", "Please go.", "yes"]
    agent = Agent(
        "a",
        url="grpc://127.0.0.1:0",
        llm=(llm := MockLLM(sequential_responses=script)),
        hooks=AgentHooks(before_complete=judge),
    )
    async with agent:
        task = await AgentClient(url=agent.card.url).send_task(None, Task.create("hello"))
    assert task.get_output() == "Please go."
    assert len(llm.requests) == 4


async def test_a_peer_that_a_hook_asks_has_its_own_hooks() -> None:
    judged: list[Any] = []
    peer = Agent("peer", llm=create_llm("mock"), hooks=AgentHooks(before_complete=lambda answer: judged.append("peer")))

    async def ask_peer(answer: FinalOutput) -> None:
        judged.append(await peer.ask("Is this polite?"))

    agent = Agent("a", llm=create_llm("mock"), hooks=AgentHooks(before_complete=ask_peer))
    await agent.run_task("hello")
    assert judged == ["peer", "This is a mock response."]


async def test_a_question_of_a_hook_that_exceeds_the_budget_fails_the_task_with_that_reason() -> None:
    async def judge(answer: FinalOutput) -> None:
        await agent.ask("Is this polite?")

    agent = Agent(
        "a", llm=create_llm("mock"), hooks=AgentHooks(before_complete=judge), budget=RunBudget(max_llm_calls=1)
    )
    task = await agent.run_task("hello")
    assert task.failure is not None
    assert task.failure.reason == "BUDGET_EXCEEDED"


async def test_a_tool_that_a_refused_prompt_did_not_offer_can_be_called_if_the_next_prompt_offers_it() -> None:
    seen: list[ModelInput] = []

    def only_once(call: ModelInput) -> ModelRequest | None:
        if call.request.messages[-1].content != "look":
            return None
        seen.append(call)
        return replace(call.request, tools=[]) if len(seen) == 1 else None

    def answer(request: ModelRequest) -> Any:
        if request.messages[-1].content != "look":
            return "word " * 400
        if len(seen) == 1:
            return ContextLimitError("the prompt is too long")
        return {"type": "tool_call", "tool": "look", "args": {}}

    llm = ScriptedLLM([answer, "done"])
    agent = Agent("a", llm=llm, hooks=AgentHooks(before_model=only_once), storage=InMemoryStorage())
    agent.tool("look", "Look.")(lambda: "seen it")
    for text in ("talk", "look"):
        task = await agent.run_task(Task.create(text, session_id="s"))
    assert task.get_output() == "done"
    assert "seen it" in llm.requests[-1].messages[-1].content
