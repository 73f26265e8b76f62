"""`AgentClient.call_tool` over every way to reach an agent with a handler of its own."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from protolink_grpc import (
    ActionDeniedError,
    Agent,
    AgentCard,
    AgentClient,
    ApprovalRequiredError,
    CapabilityPolicy,
    DeadlineExceededError,
    ProtolinkError,
    Task,
    TaskExecutionError,
    TaskState,
    ToolContext,
    ToolRejectedError,
    ToolTimeoutError,
)
from protolink_grpc.errors import InvalidArgumentError, ToolFailedError
from protolink_grpc.models.ids import new_uuid

WAIT_S = 20.0
"""Bound of what must happen soon; reached only by a failure."""


class Owner(Agent):
    """Has a handler of its own, which knows nothing of tools."""

    async def handle_task(self, task: Task) -> Task:
        return task.complete("handled")


class Shop:
    """An agent's tools, and what became of their calls."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.begun, self.open = threading.Event(), threading.Event()

    async def echo(self, value: Any = None, request_id: str = "", session_id: str = "") -> Any:
        """Return what came."""
        self.calls.append({"value": value, "request_id": request_id, "session_id": session_id})
        return value

    async def whose(self, context: ToolContext) -> str:
        """Return the session."""
        return context.session_id

    async def fail(self) -> None:
        """Break."""
        raise ZeroDivisionError("nothing to divide")

    async def late(self) -> None:
        """Take too long."""
        await asyncio.Event().wait()

    def hold(self) -> str:
        """Wait until the test opens the shop."""
        self.begun.set()
        assert self.open.wait(WAIT_S)
        return "held"


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture(params=["grpc", "grpc-web", "runtime", "runtime on another loop"])
async def client(request: pytest.FixtureRequest, shop: Shop) -> AsyncIterator[AgentClient]:
    name = f"shop-{new_uuid()}"
    urls = {"grpc": "grpc://127.0.0.1:0", "grpc-web": "http://127.0.0.1:0"}
    url = urls.get(request.param, f"runtime://{name}")
    policy = CapabilityPolicy({"forbidden": "deny", "asked": "require_approval"})
    agent = Owner(AgentCard(name=name, description="sells", url=url), grace_s=0.1, policy=policy)
    for tool in (shop.echo, shop.whose, shop.fail, shop.hold):
        agent.add_tool(tool)
    agent.tool(timeout_s=0.01)(shop.late)
    agent.tool(name="forbidden", capabilities=["forbidden"])(shop.echo)
    agent.tool(name="asked", capabilities=["asked"])(shop.echo)
    if request.param == "runtime on another loop":
        await asyncio.to_thread(agent.start, background=True)
    else:
        await agent.serve()
    yield AgentClient(url=agent.card.url, timeout=WAIT_S)
    if request.param == "runtime on another loop":
        await asyncio.to_thread(agent.stop)
    else:
        await agent.aclose()


@pytest.mark.parametrize("value", [None, "", 0, 2**70, 0.5, [1, {"a": None}], {"tool_name": "x"}])
async def test_a_result_is_returned_as_it_is(client: AgentClient, value: Any) -> None:
    assert await client.call_tool(None, "echo", {"value": value}) == value
    assert await client.call_tool(None, "echo", value=value) == value


async def test_arguments_of_any_name_reach_the_tool(client: AgentClient, shop: Shop) -> None:
    await client.call_tool(None, "echo", {"request_id": "theirs", "session_id": "too"}, value=1, session_id="ours")
    assert shop.calls == [{"value": 1, "request_id": "theirs", "session_id": "too"}]


async def test_a_call_is_a_task_of_its_own_in_its_session(client: AgentClient) -> None:
    assert await client.call_tool(None, "whose", session_id="s") == "s"
    assert (await client.list_tasks(session_id="s", states=["completed"], include_total=True)).total_size == 1
    alone = await client.call_tool(None, "whose")
    assert (await client.get_task(alone)).state is TaskState.COMPLETED


async def test_a_repeated_request_is_answered_by_the_first_call(client: AgentClient, shop: Shop) -> None:
    first = client.call_tool(None, "echo", value=1, request_id="same")
    again = client.call_tool(None, "echo", value=2, request_id="same")
    # Whichever of the two arrives first.
    answers = await asyncio.gather(first, again)
    assert answers in ([1, 1], [2, 2])
    assert await client.call_tool(None, "echo", value=3, request_id="same") == answers[0]
    assert len(shop.calls) == 1


async def test_what_a_caller_does_to_its_values_is_not_seen_by_the_agent(client: AgentClient, shop: Shop) -> None:
    value = [1]
    result = await client.call_tool(None, "echo", {"value": value}, request_id="same")
    value.append(2)
    result.append(3)
    assert await client.call_tool(None, "echo", request_id="same") == [1]


async def test_a_wrong_name_or_argument_is_rejected_with_its_facts_and_makes_no_task(client: AgentClient) -> None:
    with pytest.raises(ToolRejectedError, match="not found") as unknown:
        await client.call_tool(None, "ecco")
    assert (unknown.value.code, unknown.value.suggestion) == ("unknown_tool", "Did you mean 'echo'?")
    assert "echo" in unknown.value.details["available_tools"]
    with pytest.raises(ToolRejectedError) as wrong:
        await client.call_tool(None, "echo", {"request_id": 5})
    assert [each["path"] for each in wrong.value.details["errors"]] == ["request_id"]
    assert (await client.list_tasks(include_total=True)).total_size == 0


@pytest.mark.parametrize(
    ("tool", "kind", "said"),
    [
        ("fail", ToolFailedError, "nothing to divide"),
        ("late", ToolTimeoutError, "late"),
        ("forbidden", ActionDeniedError, "forbidden"),
        ("asked", ApprovalRequiredError, "approval"),
    ],
)
async def test_a_call_that_does_not_succeed_raises_what_it_means(
    client: AgentClient, shop: Shop, tool: str, kind: type[ProtolinkError], said: str
) -> None:
    for _ in range(2):
        with pytest.raises(kind, match=said) as caught:
            await client.call_tool(None, tool, request_id="same")
        assert type(caught.value) is kind
    assert shop.calls == []


async def test_a_deadline_ends_the_wait_and_not_the_call(client: AgentClient, shop: Shop) -> None:
    hurried = AgentClient(url=client.url, timeout=0.2)
    with pytest.raises(DeadlineExceededError) as late:
        await hurried.call_tool(None, "hold", request_id="same")
    assert (await client.get_task(late.value.metadata["task_id"])).state is TaskState.WORKING
    shop.open.set()
    assert await client.call_tool(None, "hold", request_id="same") == "held"


async def test_a_call_that_is_canceled_says_so(client: AgentClient, shop: Shop) -> None:
    waiting = asyncio.ensure_future(client.call_tool(None, "hold", task_id="held"))
    assert await asyncio.to_thread(shop.begun.wait, WAIT_S)
    await client.cancel_task(None, "held", reason="enough")
    shop.open.set()
    with pytest.raises(TaskExecutionError, match="canceled"):
        await waiting


async def test_the_caller_chooses_the_id_of_the_task_that_the_call_becomes(client: AgentClient) -> None:
    assert await client.call_tool(None, "echo", {"value": 1}, task_id="mine", request_id="same") == 1
    assert await client.call_tool(None, "echo", {"value": 2}, task_id="other", request_id="same") == 1
    assert [each.id for each in (await client.list_tasks()).tasks] == ["mine"]
    with pytest.raises(ToolFailedError) as failed:
        await client.call_tool(None, "fail", task_id="failed")
    assert failed.value.metadata["task_id"] == "failed"


async def test_tools_are_listed_by_name_and_page(client: AgentClient) -> None:
    names: list[str] = []
    token = ""
    while True:
        page = await client.list_tools(page_size=2, page_token=token)
        assert 1 <= len(page.tools) <= 2
        names += [tool.name for tool in page.tools]
        if not (token := page.next_page_token):
            break
    everything = (await client.list_tools()).tools
    assert names == [tool.name for tool in everything] == sorted(names)
    echo = next(tool for tool in everything if tool.name == "echo")
    assert (echo.description, echo.read_only, echo.effect) == ("Return what came.", False, None)
    assert "value" in echo.input_schema["properties"]


@pytest.mark.parametrize("request_", [{"page_size": -1}, {"page_size": 1001}, {"page_token": "no token"}])
async def test_a_page_of_tools_that_cannot_be_is_refused(client: AgentClient, request_: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await client.list_tools(**request_)
    assert caught.value.field == next(iter(request_))


@pytest.mark.parametrize("field", ["request_id", "session_id", "task_id"])
async def test_an_id_that_is_too_long_is_refused(client: AgentClient, field: str) -> None:
    ids: dict[str, Any] = {field: "x" * 10_000}
    with pytest.raises(InvalidArgumentError) as caught:
        await client.call_tool(None, "echo", **ids)
    assert caught.value.field == field


async def test_the_synchronous_facade_calls_tools_too(client: AgentClient) -> None:
    assert await asyncio.to_thread(client.sync.call_tool, None, "echo", {"value": [1]}) == [1]
