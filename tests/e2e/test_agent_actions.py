"""Actions of real agents, over gRPC and in process: policy, approvals, budgets, permissions, and the resulting tasks."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from typing import Any

import pytest
from pydantic import BaseModel

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    ApprovalDecision,
    ApprovalRequest,
    Artifact,
    CapabilityPolicy,
    InferSettings,
    Limits,
    Message,
    Part,
    RunAction,
    RunBudget,
    RunContext,
    RunEvent,
    Task,
    TaskState,
    ToolContext,
)
from protolink_grpc.errors import (
    ActionDeniedError,
    ApprovalRequiredError,
    BudgetExceededError,
    DelegationCycleError,
    ToolRejectedError,
)
from protolink_grpc.llms.mock import MockLLM, ScriptedLLM

PATIENCE_S = 30.0
"""How long something that must happen may take; far more than it needs on a busy machine."""

ASK = CapabilityPolicy({"money.spend": "ask"})

REQUESTED = ["action.requested", "action.policy"]
ASKED = ["approval.required", "approval.decided"]
RAN = ["action.started", "action.completed"]


@pytest.fixture(params=["grpc://127.0.0.1:0", "runtime://shop"], ids=["grpc", "runtime"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Shop:
    """An agent that sells, and what it has sold."""

    def __init__(self, url: str, kind: type[Agent] = Agent, *, name: str = "shop", slots: int = 4, **more: Any) -> None:
        card = AgentCard(name=name, description="sells", url=url)
        self.agent = kind(card, limits=Limits(max_concurrency=slots), **more)
        self.sold: list[int] = []
        self.agent.tool(capabilities=["money.spend"])(self.buy)
        self.agent.tool(read_only=True)(self.price)

    async def buy(self, amount: int) -> str:
        """Spend money."""
        self.sold.append(amount)
        return f"bought {amount}"

    async def price(self) -> int:
        """What things cost."""
        return 1


Open = Callable[..., Awaitable[Shop]]


@pytest.fixture
async def opened(url: str) -> AsyncIterator[Open]:
    """Starts shops; stops them at the end."""
    async with AsyncExitStack() as stack:

        async def start(*args: Any, **more: Any) -> Shop:
            shop = Shop(url, *args, **more)
            await stack.enter_async_context(shop.agent)
            return shop

        yield start


def client_of(shop: Shop) -> AgentClient:
    return AgentClient(url=shop.agent.card.url)


def buying(*amounts: int, **context: Any) -> Task:
    parts = [Part.tool_call("buy", {"amount": amount}) for amount in amounts]
    task = Task.create(Message(role="user", parts=parts))
    if context:
        RunContext(**context).attach_to_task(task)
    return task


async def events_of(shop: Shop, task: Task) -> list[RunEvent]:
    async with asyncio.timeout(PATIENCE_S):
        return [event async for event in client_of(shop).send_task_streaming(None, task)]


def actions_in(events: list[RunEvent]) -> list[str]:
    return [event.type for event in events if event.type.startswith(("action.", "approval."))]


def budget_in(events: list[RunEvent]) -> list[tuple[str, Any]]:
    return [
        (event.type, event.to_dict()["payload"]["decision"]["limit_name"])
        for event in events
        if event.type.startswith("budget.")
    ]


def said(task: Task) -> Any:
    """What each tool call gave, in order."""
    return [artifact.parts[0].as_tool_output().result for artifact in task.artifacts]


# Approvals by a handler of the application


async def test_a_question_is_seen_by_a_reader_of_the_log_before_the_handler_answers(opened: Open) -> None:
    asked, seen = asyncio.Event(), asyncio.Event()
    requests: list[ApprovalRequest] = []

    async def handler(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        requests.append(request)
        asked.set()
        await seen.wait()
        return ApprovalDecision(True, request.request_id, "go on", decided_by="ann")

    shop = await opened(policy=ASK, approval_handler=handler)
    client = client_of(shop)
    events: list[RunEvent] = []
    async with asyncio.timeout(PATIENCE_S):
        async with aclosing(client.send_task_streaming(None, buying(3))) as stream:
            async for event in stream:
                events.append(event)
                if event.type == "approval.required":
                    await asked.wait()
                    assert "approval.decided" not in [each.type for each in events]
                    assert shop.sold == []
                    seen.set()
    assert actions_in(events) == [*REQUESTED, *ASKED, *RAN]
    shown = next(event for event in events if event.type == "approval.required").to_dict()["payload"]["request"]
    assert (shown["request_id"], shown["action"]["name"]) == (requests[0].request_id, "buy")
    assert (shown["task_id"], shown["run_id"]) == (events[0].task_id, events[1].run_id)
    decided = next(event for event in events if event.type == "approval.decided")
    assert decided.summary == "approved by ann: go on"
    assert shop.sold == [3]


async def test_what_the_handler_denies_fails_the_task_with_the_reason(opened: Open) -> None:
    def handler(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        return ApprovalDecision(False, request.request_id, "too dear", decided_by="ann")

    shop = await opened(policy=ASK, approval_handler=handler)
    task = await client_of(shop).send_task(None, buying(3))
    assert (task.state, shop.sold) == (TaskState.FAILED, [])
    assert "too dear" in task.metadata["error"]
    assert task.messages[-1].parts[-1].content["code"] == "APPROVAL_DENIED"


async def test_without_anybody_to_ask_the_task_fails_and_says_so(opened: Open) -> None:
    shop = await opened(policy=ASK)
    events = await events_of(shop, buying(3))
    task = await client_of(shop).get_task(events[0].task_id)
    assert (task.state, shop.sold) == (TaskState.FAILED, [])
    assert task.messages[-1].parts[-1].content["code"] == "APPROVAL_REQUIRED"
    assert actions_in(events) == [*REQUESTED, "approval.required", "action.denied"]


async def test_a_handler_that_raises_fails_the_task_and_nothing_runs(opened: Open) -> None:
    def handler(request: ApprovalRequest, context: RunContext) -> bool:
        raise ZeroDivisionError("the approver is broken")

    shop = await opened(policy=ASK, approval_handler=handler)
    task = await client_of(shop).send_task(None, buying(3))
    assert (task.state, shop.sold) == (TaskState.FAILED, [])
    assert "the approver is broken" in task.metadata["error"]


async def test_a_preview_is_part_of_the_question(opened: Open) -> None:
    questions: list[ApprovalRequest] = []

    def handler(request: ApprovalRequest, context: RunContext) -> bool:
        questions.append(request)
        return True

    shop = await opened(policy=ASK, approval_handler=handler)

    def preview(arguments: dict[str, Any], context: RunContext) -> RunAction:
        action = RunAction("tool.call", "pay", {"arguments": arguments}, description=f"pay {arguments['amount']}")
        return action.with_artifacts([Artifact(name="bill", parts=[Part.text(f"{arguments['amount']} euros")])])

    @shop.agent.tool(capabilities=["money.spend"], action_builder=preview)
    async def pay(amount: int, context: ToolContext) -> str:
        return context.action_id

    task = await client_of(shop).send_task(None, Task.create_tool_call("pay", {"amount": 3}))
    (question,) = questions
    (bill,) = question.action.artifacts
    assert (bill.name, bill.parts[0].content) == ("bill", "3 euros")
    assert (question.action.description, sorted(question.action.capabilities)) == ("pay 3", ["money.spend"])
    assert task.get_output() == question.action.action_id == bill.action_id == task.artifacts[0].action_id


async def test_a_run_that_waits_for_a_person_gives_its_place_to_others(opened: Open) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def handler(request: ApprovalRequest, context: RunContext) -> bool:
        asked.set()
        await go.wait()
        return True

    shop = await opened(policy=ASK, approval_handler=handler, slots=1)
    client = client_of(shop)
    async with asyncio.timeout(PATIENCE_S):
        waiting = await client.submit_task(None, buying(3))
        await asked.wait()
        assert (await client.send_task(None, Task.create_tool_call("price", {}))).get_output() == 1
        assert (await client.get_task(waiting.id)).state is TaskState.WORKING
        go.set()
        assert said(await client.wait_task(waiting.id)) == ["bought 3"]


async def test_a_run_that_has_its_answer_queues_for_a_place_again(opened: Open) -> None:
    asked, go, begun, free = asyncio.Event(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler(request: ApprovalRequest, context: RunContext) -> bool:
        asked.set()
        await go.wait()
        return True

    shop = await opened(policy=ASK, approval_handler=handler, slots=1)

    @shop.agent.tool
    async def occupy() -> str:
        begun.set()
        await free.wait()
        return "left"

    client = client_of(shop)
    async with asyncio.timeout(PATIENCE_S):
        waiting = await client.submit_task(None, buying(3))
        await asked.wait()
        other = await client.submit_task(None, Task.create_tool_call("occupy", {}))
        await begun.wait()
        go.set()
        async for event in client.subscribe(waiting.id):
            if event.type == "approval.decided":
                break
        # The answer is there, the only place is not.
        assert shop.sold == []
        free.set()
        assert (await client.wait_task(other.id)).get_output() == "left"
        assert said(await client.wait_task(waiting.id)) == ["bought 3"]


async def test_a_run_that_waits_can_be_canceled(opened: Open) -> None:
    asked = asyncio.Event()

    async def handler(request: ApprovalRequest, context: RunContext) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    shop = await opened(policy=ASK, approval_handler=handler, slots=1)
    client = client_of(shop)
    async with asyncio.timeout(PATIENCE_S):
        task = await client.submit_task(None, buying(3))
        await asked.wait()
        canceled = await client.cancel_task(None, task.id, reason="never mind")
        assert (canceled.state, canceled.metadata["cancel_reason"]) == (TaskState.CANCELED, "never mind")
        # Its place was given back once, not twice.
        assert (await client.send_task(None, Task.create_tool_call("price", {}))).get_output() == 1
    events = [event async for event in client.subscribe(task.id)]
    assert actions_in(events) == [*REQUESTED, "approval.required"]
    assert shop.sold == []


# Permissions


@pytest.mark.parametrize(
    ("rules", "permissions", "allowed"),
    [
        ({}, {}, True),
        ({}, {"money.*": False}, False),
        ({}, {"capabilities": {"money.spend": "deny"}}, False),
        ({"money.spend": "deny"}, {"money.spend": True, "default": True}, False),
        ({"money.*": "allow"}, {"mail.*": False}, True),
    ],
)
async def test_the_permissions_of_a_caller_narrow_and_never_widen(
    opened: Open, rules: dict[str, Any], permissions: dict[str, Any], allowed: bool
) -> None:
    shop = await opened(policy=CapabilityPolicy(rules))
    task = await client_of(shop).send_task(None, buying(3, permissions=permissions))
    assert task.state is (TaskState.COMPLETED if allowed else TaskState.FAILED)
    assert shop.sold == ([3] if allowed else [])


# Tools called by the agent's own code


class Caller(Agent):
    """Does what the test says, with the context of the task."""

    work: Callable[["Caller", RunContext], Awaitable[Any]]

    async def handle_task(self, task: Task) -> Task:
        result = await type(self).work(self, RunContext.from_task(task))
        return task.complete(str(result))


def calling(work: Callable[[Any, RunContext], Awaitable[Any]]) -> type[Agent]:
    return type("Calling", (Caller,), {"work": staticmethod(work)})


async def test_a_tool_that_a_handler_calls_is_an_action_of_its_run(opened: Open) -> None:
    async def work(agent: Agent, context: RunContext) -> Any:
        return await agent.call_tool("buy", amount=3)

    shop = await opened(calling(work))
    events = await events_of(shop, Task.create("go"))
    assert actions_in(events) == [*REQUESTED, *RAN]
    assert events[-1].state is TaskState.COMPLETED
    assert shop.sold == [3]


async def test_a_handler_that_is_denied_a_tool_can_do_without(opened: Open) -> None:
    async def work(agent: Agent, context: RunContext) -> Any:
        with pytest.raises(ActionDeniedError):
            await agent.call_tool("buy", amount=3)
        return await agent.call_tool("price")

    shop = await opened(calling(work), policy=CapabilityPolicy({"money.*": "deny"}))
    task = await client_of(shop).send_task(None, Task.create("go"))
    assert (task.state, task.messages[-1].text, shop.sold) == (TaskState.COMPLETED, "1", [])


async def test_a_context_takes_permissions_away_for_one_call(opened: Open) -> None:
    async def work(agent: Agent, context: RunContext) -> Any:
        narrower = context.copy(permissions={"money.spend": False})
        with pytest.raises(ActionDeniedError):
            await agent.call_tool_in_context("buy", narrower, amount=1)
        wider = context.copy(permissions={"money.spend": True, "mail.send": True})
        with pytest.raises(ActionDeniedError):
            await agent.call_tool_in_context("mail", wider)
        return await agent.call_tool_in_context("buy", wider, amount=3)

    shop = await opened(calling(work))

    @shop.agent.tool(capabilities=["mail.send"])
    async def mail() -> None:
        raise AssertionError("the caller of the task has forbidden it")

    task = Task.create("go")
    RunContext(permissions={"mail.*": False}).attach_to_task(task)
    done = await client_of(shop).send_task(None, task)
    assert (done.metadata.get("error"), done.state, shop.sold) == (None, TaskState.COMPLETED, [3])


async def test_all_calls_of_a_run_share_its_budget(opened: Open) -> None:
    async def work(agent: Agent, context: RunContext) -> Any:
        await agent.call_tool("buy", amount=1)
        await agent.call_tool_in_context("buy", context, amount=2)
        with pytest.raises(BudgetExceededError):
            await agent.call_tool_in_context("buy", context.copy(run_id="another"), amount=3)
        return "enough"

    shop = await opened(calling(work))
    task = Task.create("go")
    RunContext(budget=RunBudget(max_tool_calls=2)).attach_to_task(task)
    done = await client_of(shop).send_task(None, task)
    assert (done.metadata.get("error"), shop.sold) == (None, [1, 2])
    assert done.metadata["budget_usage"]["tool_calls"] == 2


async def test_calls_outside_of_a_task_run_under_policy_too(url: str) -> None:
    shop = Shop(url, policy=ASK, approval_handler=lambda request, context: request.action.payload["arguments"] != {})
    async with shop.agent as agent:
        assert await agent.call_tool("buy", amount=3) == "bought 3"
        with pytest.raises(ActionDeniedError):
            await agent.call_tool_in_context("buy", RunContext(permissions={"money.*": False}), amount=3)
        with pytest.raises(ToolRejectedError):
            await agent.call_tool("buy", amount="much")
    assert shop.sold == [3]


async def test_calls_outside_of_a_task_fail_closed_where_nobody_can_be_asked(url: str) -> None:
    shop = Shop(url, policy=ASK)
    with pytest.raises(ApprovalRequiredError) as error:
        await shop.agent.call_tool("buy", amount=3)
    assert (error.value.request.action.name, shop.sold) == ("buy", [])


async def test_calls_in_one_context_outside_of_a_task_share_its_budget(url: str) -> None:
    shop = Shop(url, budget=RunBudget(max_tool_calls=2))
    generous, strict = RunContext(budget=RunBudget(max_tool_calls=9)), RunContext(budget=RunBudget(max_tool_calls=1))
    for context, allowed in ((generous, 2), (strict, 1)):
        for _ in range(allowed):
            await shop.agent.call_tool_in_context("buy", context, amount=1)
        with pytest.raises(BudgetExceededError):
            await shop.agent.call_tool_in_context("buy", context, amount=1)
    assert len(shop.sold) == 3


# Budgets


async def test_a_limit_warns_once_and_stops_the_run_before_the_work(opened: Open) -> None:
    shop = await opened()
    events = await events_of(shop, buying(1, 2, 3, 4, 5, 6, budget=RunBudget(max_tool_calls=5)))
    assert shop.sold == [1, 2, 3, 4, 5]
    assert budget_in(events) == [("budget.warning", "max_tool_calls"), ("budget.exceeded", "max_tool_calls")]
    task = await client_of(shop).get_task(events[0].task_id)
    assert (task.state, task.messages[-1].parts[-1].content["code"]) == (TaskState.FAILED, "BUDGET_EXCEEDED")
    # The sixth was not even requested.
    assert sum(event.type == "action.requested" for event in events) == 5
    assert said(task) == [f"bought {amount}" for amount in (1, 2, 3, 4, 5)]


TALK: list[Any] = [
    {"type": "tool_call", "tool": "buy", "args": {"amount": 1}},
    {"type": "tool_call", "tool": "buy", "args": {"amount": 2}},
    "all done",
]


@pytest.mark.parametrize(
    ("budget", "sold"),
    [
        (RunBudget(max_steps=2), [1, 2]),
        (RunBudget(max_llm_calls=2), [1, 2]),
        (RunBudget(max_tool_calls=1), [1]),
        (RunBudget(max_input_tokens=1), []),
        (RunBudget(max_output_tokens=1), []),
        (RunBudget(max_runtime_seconds=0), []),
    ],
    ids=lambda value: (
        next(iter(key for key, each in value.to_dict().items() if each is not None and key != "metadata"))
        if isinstance(value, RunBudget)
        else ""
    ),
)
async def test_each_limit_of_a_budget_stops_an_inference(opened: Open, budget: RunBudget, sold: list[int]) -> None:
    llm = ScriptedLLM(TALK)
    shop = await opened(llm=llm)
    task = Task.create("buy two things")
    RunContext(budget=budget).attach_to_task(task)
    events = await events_of(shop, task)
    (name,) = (key for key, value in budget.to_dict().items() if value is not None and key != "metadata")
    exceeded = [limit for kind, limit in budget_in(events) if kind == "budget.exceeded"]
    assert (exceeded, shop.sold) == ([name], sold)
    done = await client_of(shop).get_task(task.id)
    assert (done.state, done.messages[-1].parts[-1].content["code"]) == (TaskState.FAILED, "BUDGET_EXCEEDED")
    if name in ("max_steps", "max_llm_calls"):
        assert len(llm.requests) == 2
    elif name in ("max_input_tokens", "max_runtime_seconds"):
        assert llm.requests == []


async def test_a_caller_can_lower_the_agents_limits_and_not_raise_them(opened: Open) -> None:
    shop = await opened(budget=RunBudget(max_tool_calls=2))
    client = client_of(shop)
    for budget, sold in ((RunBudget(max_tool_calls=100), [1, 2]), (RunBudget(max_tool_calls=1), [1])):
        shop.sold.clear()
        task = await client.send_task(None, buying(1, 2, 3, budget=budget))
        assert (task.state, shop.sold) == (TaskState.FAILED, sold)


async def test_a_task_says_what_it_has_used(opened: Open) -> None:
    shop = await opened(llm=ScriptedLLM(TALK))
    task = await client_of(shop).send_task(None, Task.create("buy two things"))
    usage = task.metadata["budget_usage"]
    assert (usage["steps"], usage["llm_calls"], usage["tool_calls"]) == (3, 3, 2)
    assert usage["input_tokens"] > 0
    assert usage["output_tokens"] > 0
    assert usage["runtime_seconds"] > 0


async def test_what_earlier_turns_used_counts_in_later_ones(opened: Open) -> None:
    class Asks(Agent):
        async def handle_task(self, task: Task) -> Task:
            await self.call_tool("buy", amount=1)
            return task.require_input(Message.agent("more?"))

    shop = await opened(Asks, budget=RunBudget(max_tool_calls=2))
    client = client_of(shop)
    task = await client.send_task(None, Task.create("go"))
    for turn in (2, 3):
        task = await client.send_task(None, task.add_message(Message.user("again")))
        assert task.metadata["budget_usage"]["tool_calls"] == 2
        assert task.state is (TaskState.INPUT_REQUIRED if turn == 2 else TaskState.FAILED)
    assert shop.sold == [1, 1]


async def test_waiting_for_a_person_costs_no_time(opened: Open) -> None:
    waited: list[float] = []

    async def handler(request: ApprovalRequest, context: RunContext) -> bool:
        began = time.monotonic()
        await asyncio.sleep(0.3)  # only time passes while a person thinks
        waited.append(time.monotonic() - began)
        return True

    shop = await opened(policy=ASK, approval_handler=handler)
    began = time.monotonic()
    task = await client_of(shop).send_task(None, buying(3, budget=RunBudget(max_runtime_seconds=3600)))
    whole = time.monotonic() - began
    assert 0 < task.metadata["budget_usage"]["runtime_seconds"] <= whole - waited[0]


async def test_the_time_before_a_runs_first_action_counts(opened: Open) -> None:
    async def work(agent: Agent, context: RunContext) -> Any:
        began = time.monotonic()
        while time.monotonic() - began < 0.02:
            await asyncio.sleep(0)
        with pytest.raises(BudgetExceededError):
            await agent.call_tool("buy", amount=3)
        return "too late"

    shop = await opened(calling(work), budget=RunBudget(max_runtime_seconds=0.01))
    task = await client_of(shop).send_task(None, Task.create("go"))
    assert (task.metadata.get("error"), task.messages[-1].text, shop.sold) == (None, "too late", [])


# What an agent answers


async def test_a_text_to_an_agent_with_a_model_is_answered(opened: Open) -> None:
    shop = await opened(llm=MockLLM({"weather": "sunny"}))
    task = await client_of(shop).send_task(None, Task.create("how is the weather?"))
    assert (task.state, task.get_output()) == (TaskState.COMPLETED, "sunny")
    answer = await client_of(shop).send_message(None, "and the weather tomorrow?")
    assert answer.text == "sunny"


async def test_a_text_to_an_agent_without_a_model_is_told_what_it_can_do(opened: Open) -> None:
    shop = await opened()
    task = await client_of(shop).send_task(None, Task.create("hello"))
    assert task.state is TaskState.FAILED
    assert task.metadata["error"].endswith("send a tool_call part for one of: buy, price")
    assert task.messages[-1].parts[0].content["code"] == "UNSUPPORTED"


async def test_an_infer_part_without_a_model_is_refused(opened: Open) -> None:
    shop = await opened()
    task = await client_of(shop).send_task(None, Task.create_infer("how is the weather?"))
    assert task.state is TaskState.FAILED
    assert "no language model" in task.metadata["error"]


async def test_a_model_may_correct_a_call_that_its_tool_refuses(opened: Open) -> None:
    script: list[Any] = [
        {"type": "tool_call", "tool": "order", "args": {"day": "Sunday"}},
        {"type": "tool_call", "tool": "order", "args": {"day": "Monday"}},
        "ordered",
    ]
    llm = ScriptedLLM(script)
    shop = await opened(llm=llm)

    def checked(arguments: dict[str, Any], context: RunContext) -> RunAction:
        if arguments["day"] == "Sunday":
            raise ToolRejectedError("closed on Sundays", code="closed")
        return RunAction("tool.call", "order", {"arguments": arguments})

    @shop.agent.tool(action_builder=checked)
    async def order(day: str) -> str:
        return day

    task = await client_of(shop).send_task(None, Task.create("order something"))
    assert (task.state, task.get_output()) == (TaskState.COMPLETED, "ordered")
    assert "closed on Sundays" in str(llm.requests[1].messages[-1].content)


# Delegation


async def test_work_that_comes_back_to_an_agent_is_refused() -> None:
    urls: dict[str, str] = {}
    errors: list[BaseException] = []

    class PassesOn(Agent):
        async def handle_task(self, task: Task) -> Task:
            other = urls["b" if self.card.name == "a" else "a"]
            try:
                answer = await self.call_agent(other, Task.create("go on"))
            except DelegationCycleError as error:
                errors.append(error)
                raise
            return task.fail(str(answer.metadata.get("error"))) if answer.state is TaskState.FAILED else task

    async with AsyncExitStack() as stack:
        for name in ("a", "b"):
            agent = PassesOn(name=name, description="passes on", url="grpc://127.0.0.1:0")
            await stack.enter_async_context(agent)
            urls[name] = agent.card.url
        async with asyncio.timeout(PATIENCE_S):
            task = await AgentClient(url=urls["a"]).send_task(None, Task.create("go"))
    assert task.state is TaskState.FAILED
    assert "a > b" in task.metadata["error"]
    assert len(errors) == 1


async def test_a_delegated_task_runs_under_the_callers_remaining_budget_and_permissions() -> None:
    worker = Shop("grpc://127.0.0.1:0", name="worker")

    class Boss(Agent):
        async def handle_task(self, task: Task) -> Task:
            await self.call_agent(worker.agent.card.url, buying(1))
            answer = await self.call_agent(worker.agent.card.url, buying(2, 3))
            return task.complete(str(answer.state))

    async with worker.agent, Boss(name="boss", description="delegates", url="grpc://127.0.0.1:0") as boss:
        client = AgentClient(url=boss.card.url)
        task = Task.create("go")
        RunContext(budget=RunBudget(max_tool_calls=2)).attach_to_task(task)
        done = await client.send_task(None, task)
        assert (done.messages[-1].text, worker.sold) == ("failed", [1, 2])
        assert done.metadata["budget_usage"]["tool_calls"] == 2
        forbidden = Task.create("go")
        RunContext(permissions={"money.*": False}).attach_to_task(forbidden)
        assert (await client.send_task(None, forbidden)).messages[-1].text == "failed"
        assert worker.sold == [1, 2]


@pytest.mark.parametrize(("settings", "calls"), [(InferSettings(), 6), (InferSettings(repeat_limit=2), 4)])
async def test_a_model_that_repeats_an_action_is_stopped_after_as_many_rounds_as_configured(
    url: str, settings: InferSettings, calls: int
) -> None:
    ran: list[str] = []
    agent = Agent(
        name="watcher",
        description="watches",
        url=url,
        llm=ScriptedLLM([{"type": "tool_call", "tool": "look", "args": {"at": "door"}}] * 20),
        infer=settings,
    )

    @agent.tool
    def look(at: str) -> str:
        ran.append(at)
        return "closed"

    async with agent:
        task = await AgentClient(url=agent.card.url).send_task(None, Task.create_infer(prompt="wait for it"))
    assert task.state is TaskState.FAILED
    assert task.messages[-1].parts[0].content["code"] == "ACTION_REPEATED"
    assert len(ran) == calls


class Trip(BaseModel):
    city: str
    days: int = 1


async def test_a_model_class_is_the_schema_of_an_answer(url: str) -> None:
    model = ScriptedLLM(['{"city": 5}', '{"city": "Rome"}'] * 2)
    async with Agent(name="guide", description="guides", url=url, llm=model) as agent:
        task = Task.create_infer(prompt="where to", output_schema=Trip)
        answer = await AgentClient(url=agent.card.url).send_task(None, task)
    assert (answer.state, answer.get_output()) == (TaskState.COMPLETED, {"city": "Rome"})
    assert await model.infer("where to", output_schema=Trip) == {"city": "Rome"}


PROCESSES = """
import asyncio
import collections
import sys

from protolink_grpc import Agent, AgentClient, Task
from protolink_grpc.net.event_loops import run

agent = Agent(name="starter", url="grpc://127.0.0.1:0")


@agent.tool
async def start() -> int:
    process = await asyncio.create_subprocess_exec("true", start_new_session=True)
    return await process.wait()


async def main():
    async with agent:
        client = AgentClient(url=agent.card.url)
        answers = [await client.send_task(None, Task.create_tool_call("start")) for _ in range(100)]
        print(collections.Counter(answer.get_output() for answer in answers))


run(main())
"""


def test_processes_that_a_tool_starts_execute_their_program() -> None:
    done = subprocess.run([sys.executable, "-c", PROCESSES], capture_output=True, text=True, timeout=120)

    assert (done.stdout, done.stderr) == ("Counter({0: 100})\n", "")
