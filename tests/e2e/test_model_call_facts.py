"""Facts about model calls in the log: offered tools, omissions of the prompt, requested and responding models."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from protolink_grpc import (
    LLM,
    Agent,
    AgentClient,
    AgentHooks,
    CapabilityPolicy,
    InMemoryStorage,
    LLMModelProfile,
    Message,
    MockLLM,
    ModelInput,
    Part,
    Registry,
    RunBudget,
    RunContext,
    RunReport,
    ScriptedLLM,
    State,
    Task,
)
from protolink_grpc.llms import Media, ModelRequest, ModelResponse
from protolink_grpc.llms.port import ModelItem
from protolink_grpc.models.action import OmittedContext, OmittedItems, PolicyEffect
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.events import ContextPrepared, LlmCallCompleted, LlmCallStarted
from protolink_grpc.models.tool import OfferedTool, OfferedTools

ALLOW, DENY, ASK = PolicyEffect.ALLOW, PolicyEffect.DENY, PolicyEffect.REQUIRE_APPROVAL


async def prepared_by(agent: Agent, task: Task | str) -> list[ContextPrepared]:
    """Run a task and return its events of prompts."""
    done = await agent.run_task(task)
    done.raise_for_status()
    client = AgentClient(url=agent.card.url)
    return [event.payload async for event in client.subscribe(done.id) if isinstance(event.payload, ContextPrepared)]


def called(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool_call", "tool": name, "args": args}


def clerk(llm: LLM, **options: Any) -> Agent:
    agent = Agent("clerk", url="runtime://clerk", llm=llm, **options)

    @agent.tool(read_only=True)
    def look(number: int) -> int:
        """Look at a number."""
        return number

    @agent.tool(capabilities=["money.pay"], destructive=True)
    def pay() -> None:
        """Pay."""

    return agent


LOOK = OfferedTool("look", "local", read_only=True, idempotent=True, effect=ALLOW)
PAY = OfferedTool("pay", "local", destructive=True, effect=ASK)
POLICY = CapabilityPolicy({"money.*": "require_approval"})


async def test_the_tools_on_offer_are_recorded_once_in_a_run_of_many_steps() -> None:
    llm = ScriptedLLM([*(called("look", number=n) for n in range(30)), "done"])
    async with clerk(llm, policy=POLICY, budget=RunBudget(max_steps=40)) as agent:
        prepared = await prepared_by(agent, "look at all numbers")
    assert [each.offered for each in prepared] == [OfferedTools((LOOK, PAY)), *[None] * 30]


async def test_omissions_are_recorded_when_they_change() -> None:
    def look(request: ModelRequest) -> Any:
        return called("look", number=len(request.messages))

    message = Message.user("look")
    message.parts.append(Part("json", {"a": 1}))
    async with clerk(ScriptedLLM([look, look, "done"])) as agent:
        prepared = await prepared_by(agent, Task.create(message))
    given = OmittedItems((OmittedContext("part", f"{message.id}/1", "unsupported"),), 1)
    assert [each.omitted for each in prepared] == [given, None, None]


async def test_tools_that_a_hook_removes_are_not_on_offer_in_that_call() -> None:
    def without_pay(call: ModelInput) -> ModelRequest | None:
        kept = [each for each in call.request.tools if each.name != "pay"]
        return replace(call.request, tools=kept) if call.step == 2 else None

    llm = ScriptedLLM([called("look", number=1), called("look", number=2), "done"])
    async with clerk(llm, policy=POLICY, hooks=AgentHooks(before_model=without_pay)) as agent:
        prepared = await prepared_by(agent, "look")
    assert [each.offered for each in prepared] == [OfferedTools(each) for each in ((LOOK, PAY), (LOOK,), (LOOK, PAY))]


async def test_the_effect_is_that_of_the_policy_and_the_permissions_of_the_run() -> None:
    for permissions, effect in (({}, ASK), ({"money.pay": "deny"}, DENY), ({"money.pay": "allow"}, ASK)):
        async with clerk(MockLLM(), policy=POLICY) as agent:
            task = Task.create("hello")
            RunContext(permissions=permissions).attach_to_task(task)
            (prepared,) = await prepared_by(agent, task)
        assert prepared.offered is not None
        assert {each.name: each.effect for each in prepared.offered.tools} == {"look": ALLOW, "pay": effect}


async def test_without_tools_the_offer_is_empty_and_not_unset() -> None:
    async with Agent("clerk", url="runtime://clerk", llm=MockLLM()) as agent:
        (prepared,) = await prepared_by(agent, "hello")
    assert prepared.offered == OfferedTools()


async def test_peers_are_on_offer_with_the_effect_of_a_delegation() -> None:
    policy = CapabilityPolicy({"agent.delegate": "deny"})
    async with Registry(url="grpc://127.0.0.1:0") as registry:
        guide = Agent("guide", url="grpc://127.0.0.1:0", llm=MockLLM(), registry=registry)
        async with guide, clerk(MockLLM(), policy=policy, registry=registry) as agent:
            (prepared,) = await prepared_by(agent, "hello")
    assert prepared.offered is not None
    assert prepared.offered.tools[-1] == OfferedTool("guide", "agent:guide", effect=DENY)


# What the prompt leaves out


async def test_parts_that_a_model_cannot_take_are_named_by_their_position() -> None:
    async with clerk(MockLLM()) as agent:
        message = Message.user("hello")
        message.parts.append(Part("json", {"a": 1}))
        (prepared,) = await prepared_by(agent, Task.create(message))
    assert prepared.omitted == OmittedItems((OmittedContext("part", f"{message.id}/1", "unsupported"),), 1)


async def test_artifacts_of_the_caller_without_a_file_for_the_model_are_left_out() -> None:
    task = Task.create("hello")
    task.add_artifact(Artifact("notes", [Part("text", "a text")]))
    task.add_artifact(Artifact("picture", [Media("image/png", b"...").to_part()]))
    async with clerk(MockLLM()) as agent:
        (prepared,) = await prepared_by(agent, task)
    assert prepared.omitted == OmittedItems((OmittedContext("artifact", "notes", "unsupported"),), 1)


async def test_messages_beyond_the_window_of_the_conversation_are_left_out() -> None:
    async with clerk(MockLLM(), state=State(InMemoryStorage(), window=2)) as agent:
        older = OmittedItems((OmittedContext("history", "s", "limit"),), 1)
        for text, expected in (("one", None), ("two", None), ("three", older)):
            (prepared,) = await prepared_by(agent, Task.create(text, session_id="s"))
            assert prepared.omitted == expected


async def test_a_snapshot_of_the_context_shows_what_the_prompt_leaves_out() -> None:
    llm = MockLLM()
    llm.profile = LLMModelProfile(context_window=300)
    async with clerk(llm, storage=InMemoryStorage()) as agent:
        for _ in range(8):
            task = await agent.run_task(Task.create("word " * 40, session_id="s"))
        found = await AgentClient(url=agent.card.url).snapshots.context(task.id)
    assert found.omitted is not None
    assert {each.kind for each in found.omitted.items} == {"turn"}
    assert found.omitted.count == len(found.omitted.items) > 0
    assert found.offered == OfferedTools((LOOK, replace(PAY, effect=ALLOW)))
    assert [gap.part for gap in found.gaps] == ["context_refs", "context_warnings"]


# Models


class Router(LLM):
    """Selects a model itself."""

    native_tools = True
    requested_provider, requested_model = "any", "the-best"

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        yield ModelResponse("done", model="small-2026-01-01")


@pytest.mark.parametrize(
    ("llm", "requested", "answering"),
    [
        (Router("cheap", "small"), ("any", "the-best"), "small-2026-01-01"),
        (ScriptedLLM([ModelResponse("done", model="script")]), ("", ""), ""),
        (ScriptedLLM([ModelResponse("done", model="script-2")]), ("", ""), "script-2"),
        (ScriptedLLM([ModelResponse("done")]), ("", ""), ""),
    ],
)
async def test_a_call_names_the_models_that_differ_from_the_selected_one(
    llm: LLM, requested: tuple[str, str], answering: str
) -> None:
    async with Agent("clerk", url="runtime://clerk", llm=llm) as agent:
        task = await agent.run_task("hello")
        events = [event async for event in AgentClient(url=agent.card.url).subscribe(task.id)]
    (started,) = (event.payload for event in events if isinstance(event.payload, LlmCallStarted))
    (done,) = (event.payload for event in events if isinstance(event.payload, LlmCallCompleted))
    assert (started.requested_provider, started.requested_model) == requested
    assert (done.model, done.response_model) == (llm.model, answering)
    (call,) = RunReport.from_events(events).metrics
    assert (call.model, call.requested_model, call.response_model) == (llm.model, requested[1], answering)
