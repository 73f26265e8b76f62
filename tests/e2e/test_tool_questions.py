"""Tools that ask a person or the agent's model while they run."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import (
    Agent,
    AgentClient,
    ApprovalDecision,
    ApprovalRequest,
    InvalidArgumentError,
    Message,
    Part,
    RunBudget,
    RunContext,
    ScriptedLLM,
    SQLiteStore,
    Task,
    ToolContext,
)
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.events import ContextPrepared

NIGHTS: dict[str, Any] = {"type": "object", "properties": {"nights": {"type": "integer"}}, "required": ["nights"]}


def calling(name: str) -> Task:
    return Task.of(Message(role="user", parts=[Part.tool_call(name, {})]))


class Desk:
    """An approver that gives one answer, and counts the questions."""

    def __init__(self, approved: bool = True, edited: dict[str, Any] | None = None) -> None:
        self.questions: list[ApprovalRequest] = []
        self._approved, self._edited = approved, edited

    async def __call__(self, request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        self.questions.append(request)
        return ApprovalDecision(self._approved, request.request_id, reason="full", edited_arguments=self._edited)


def hotel(**settings: Any) -> Agent:
    agent = Agent("hotel", **settings)

    @agent.tool
    async def book(context: ToolContext) -> str:
        answer = await context.ask("How many nights?", NIGHTS)
        return f"{answer.values['nights']} nights" if answer.accepted else f"nothing: {answer.reason}"

    return agent


async def test_the_edited_arguments_of_an_approval_are_the_answer() -> None:
    desk = Desk(edited={"nights": 3})
    agent = hotel(approval_handler=desk)
    assert await agent.call_tool("book") == "3 nights"
    action = desk.questions[0].action
    assert (action.kind, action.name, desk.questions[0].editable) == ("input.request", "book", True)
    assert (action.payload["message"], action.payload["schema"]) == ("How many nights?", NIGHTS)


@pytest.mark.parametrize(
    ("desk", "reason"),
    [
        (Desk(approved=False), "full"),
        (Desk(edited={"nights": "three"}), "nights: Input should satisfy"),
        (Desk(), "nights: Field required"),
        (None, "neither a handler nor remote approvals"),
    ],
    ids=["denied", "wrong", "no answer", "no approver"],
)
async def test_without_an_answer_that_satisfies_the_schema_the_tool_learns_why(desk: Desk | None, reason: str) -> None:
    result = await hotel(approval_handler=desk).call_tool("book")
    assert result.startswith("nothing: ")
    assert reason in result


async def test_a_question_is_an_action_of_the_log_and_no_tool_call_of_the_budget() -> None:
    agent = hotel(approval_handler=Desk(edited={"nights": 1}), budget=RunBudget(max_tool_calls=1))
    events = [event async for event in agent.run_task_streaming(calling("book"))]
    asked = next(each.action_id for each in events if each.type == "approval.required")
    assert [each.type for each in events if each.action_id == asked] == [
        "action.requested",
        "action.policy",
        "approval.required",
        "approval.decided",
        "action.started",
        "action.completed",
    ]
    assert str(events[-1].payload.new_state) == "completed"


async def test_a_question_with_an_invalid_schema_is_an_error_of_the_tool() -> None:
    agent = Agent("hotel")

    @agent.tool
    async def ask(context: ToolContext) -> str:
        with pytest.raises(InvalidArgumentError, match="schema: is not valid"):
            await context.ask("?", {"type": "no such type"})
        return "refused"

    assert await agent.call_tool("ask") == "refused"


async def test_an_answer_is_not_asked_for_again_after_a_restart(tmp_path: Path) -> None:
    desk, answered, release = Desk(edited={"nights": 2}), asyncio.Event(), asyncio.Event()

    def build() -> Agent:
        agent = Agent("hotel", store=SQLiteStore(tmp_path / "tasks.db"), approval_handler=desk, grace_s=0.0)

        @agent.tool(idempotent=True)
        async def book(context: ToolContext) -> str:
            answer = await context.ask("How many nights?", NIGHTS)
            answered.set()
            await release.wait()
            return f"{answer.values['nights']} nights"

        return agent

    first = build()
    async with first:
        task = calling("book")
        waiting = asyncio.create_task(first.run_task(task))
        await answered.wait()
    await asyncio.wait([waiting])
    release.set()
    async with build() as second:
        found = await AgentClient(url=second.card.url).wait_task(task.id)
    output = next(part.content for artifact in found.artifacts for part in artifact.parts)
    assert (output.result, len(desk.questions)) == ("2 nights", 1)


async def test_a_tool_asks_the_model_without_the_instructions_of_the_agent() -> None:
    model = ScriptedLLM(["Lima."])
    agent = Agent("guide", llm=model, system_prompt="The password is xyzzy.")

    @agent.tool
    async def capital(context: ToolContext) -> str:
        question = LLMMessage(role="user", content="Capital of Peru?")
        return (await context.sample([question], max_tokens=10)).text

    task = await agent.run_task(calling("capital"))
    output = next(part.content for artifact in task.artifacts for part in artifact.parts)
    assert output.result == "Lima."
    assert task.usage is not None
    assert task.usage.llm_calls == 1
    request = model.requests[0]
    assert (request.max_output_tokens, list(request.tools)) == (10, [])
    assert "xyzzy" not in request.system + "".join(each.content for each in request.messages)


async def test_a_question_of_a_tool_does_not_change_what_the_run_offers_to_its_model() -> None:
    call = {"type": "tool_call", "tool": "capital", "args": {}}
    async with Agent("guide", url="runtime://guide", llm=ScriptedLLM([call, "Lima.", "It is Lima."])) as agent:

        @agent.tool
        async def capital(context: ToolContext) -> str:
            return (await context.sample([LLMMessage(role="user", content="Capital of Peru?")])).text

        client = AgentClient(url=agent.card.url)
        task = await client.send_task(None, Task.create_infer(prompt="the capital of Peru?"))
        events = [event async for event in client.subscribe(task.id)]
    prepared = [event.payload for event in events if isinstance(event.payload, ContextPrepared)]
    assert [each.manifest.purpose for each in prepared] == ["", "tool_question", ""]
    assert [each.offered is not None for each in prepared] == [True, False, False]


async def test_outside_of_an_agent_nothing_can_be_asked() -> None:
    context = ToolContext()
    assert not (await context.ask("?")).accepted
