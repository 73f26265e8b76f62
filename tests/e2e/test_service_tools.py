"""Methods of a user's service as tools and skills: called by code, by callers, by models, each time in a task of its own."""

import asyncio
from typing import Any

import grpc.aio
import httpx
import pytest
from orders_world import SERVICE, OrdersServicer, pb, pb_grpc, shop, target

from protolink_grpc import (
    AccessRules,
    Agent,
    AgentClient,
    APIKeyAuth,
    CapabilityPolicy,
    InvalidArgumentError,
    Limits,
    RunContext,
    ScriptedLLM,
    Task,
    TaskState,
    ToolFailedError,
    ToolRejectedError,
    current_run,
    rpc,
)
from protolink_grpc.wire.typed_calls import RUN_OPTIONS, TASK_ID, USED, options_to_bytes

NESTED = {"children": {"a": {"texts": ["x"], "color": "COLOR_RED"}}, "when": "2026-01-01T00:00:00Z", "wrapped": "7"}


class Everything(pb_grpc.EverythingServicer):  # type: ignore[misc]  # generated at run time
    async def Echo(self, request: Any, context: Any) -> Any:
        """Return the thing."""
        return request


async def test_a_durable_method_without_streams_is_a_skill_with_schemas() -> None:
    agent = shop(OrdersServicer(), Everything())
    skills = {each.id: each for each in agent.card.skills}
    assert sorted(skills) == ["echo", "place"]
    place, echo = skills["place"], skills["echo"]
    assert (place.description, echo.description) == ("Place an order.", "Return the thing.")
    assert place.input_schema == {
        "type": "object",
        "properties": {"item": {"type": "string"}, "amount": {"type": ["integer", "string"]}},
        "required": [],
        "additionalProperties": False,
    }
    assert echo.input_schema is not None
    assert echo.input_schema["properties"]["color"] == {"type": "string", "enum": ["COLOR_UNSPECIFIED", "COLOR_RED"]}
    assert place.output_schema == {"type": "object", "properties": {"order": {"type": "string"}}, "required": []}


async def test_a_tool_call_runs_the_method_in_a_task_of_its_own() -> None:
    async with shop() as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.send_task(None, Task.create_tool_call("place", {"item": "tea"}))
        assert (task.state, task.get_output()) == (TaskState.COMPLETED, {"order": "tea for anonymous"})
        action_id = task.artifacts[0].action_id
        assert action_id is not None
        own = await client.get_task(action_id)
        assert own.metadata["plgrpc.service_call"] == f"/{SERVICE}/Place"
        assert (await agent.call_tool("place", item="tea")) == {"order": "tea for local"}


async def test_messages_keep_their_values_as_arguments_and_results() -> None:
    async with shop(Everything()) as agent:
        sent = NESTED | {"long": 1 << 60, "data": "AAE=", "left": "l", "free": {"a": [1.5]}}
        assert await agent.call_tool("echo", **sent) == sent | {"long": str(1 << 60)}


@pytest.mark.parametrize("arguments", [{"item": 5}, {"sort": "green"}, {"amount": "many"}])
async def test_arguments_that_are_no_request_are_rejected(arguments: dict[str, Any]) -> None:
    async with shop() as agent:
        with pytest.raises(ToolRejectedError, match=next(iter(arguments))):
            await agent.call_tool("place", **arguments)


async def test_a_status_of_the_method_is_the_failure_of_the_tool() -> None:
    async with shop() as agent:
        with pytest.raises(ToolFailedError, match="there is no such item") as error:
            await agent.call_tool("place", item="unknown")
        assert error.value.failure.reason == "NOT_FOUND"


async def test_a_model_calls_a_method() -> None:
    script: list[Any] = [{"type": "tool_call", "tool": "place", "args": {"item": "tea"}}, "It is on its way."]
    llm = ScriptedLLM(script)
    async with shop(llm=llm) as agent:
        task = await AgentClient(url=agent.card.url).send_task(None, Task.create("I need tea"))
        assert (task.state, task.get_output()) == (TaskState.COMPLETED, "It is on its way.")
        assert len((await AgentClient(url=agent.card.url).list_tasks()).tasks) == 2


async def test_the_policy_decides_about_the_tool() -> None:
    policy = CapabilityPolicy({"orders.write": "deny"})
    async with shop(Renamed(), policy=policy) as agent:
        task = await AgentClient(url=agent.card.url).send_task(None, Task.create_tool_call("buy", {"item": "tea"}))
        assert (task.state, task.failure and task.failure.reason) == (TaskState.FAILED, "ACTION_DENIED")


async def test_access_rules_of_a_method_apply_to_its_tool() -> None:
    rules = AccessRules({f"/{SERVICE}/Place": "buy"})
    keys = {"key-of-ann": ["buy"], "key-of-bob": ["look"]}
    async with shop(authenticator=APIKeyAuth(keys), access=rules) as agent:
        ended = {}
        for key in keys:
            client = AgentClient(url=agent.card.url, metadata=(("x-api-key", key),))
            ended[key] = await client.send_task(None, Task.create_tool_call("place", {"item": "tea"}))
        assert ended["key-of-ann"].state is TaskState.COMPLETED
        assert ended["key-of-bob"].state is TaskState.FAILED
        assert f"/{SERVICE}/Place needs the scope buy" in ended["key-of-bob"].reason


async def test_canceling_the_calling_task_cancels_that_of_the_method() -> None:
    servicer = OrdersServicer()
    servicer.go.clear()
    async with shop(servicer) as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.submit_task(None, Task.create_tool_call("place", {"item": "late"}))
        own = ""
        async for event in client.subscribe(task.id):
            if event.type == "action.started":
                own = event.action_id
                break
        await client.cancel_task(None, task.id)
        assert (await client.wait_task(own)).state is TaskState.CANCELED


async def test_a_calling_run_needs_no_second_slot() -> None:
    async with shop(limits=Limits(max_concurrency=1)) as agent:
        client = AgentClient(url=agent.card.url)
        calls = (client.send_task(None, Task.create_tool_call("place", {"item": str(number)})) for number in range(5))
        assert [task.state for task in await asyncio.gather(*calls)] == [TaskState.COMPLETED] * 5


class Renamed(pb_grpc.OrdersServicer):  # type: ignore[misc]  # generated at run time
    @rpc(tool="buy", capabilities=["orders.write"])
    async def Place(self, request: Any, context: Any) -> Any:
        return pb.PlaceResponse()

    @rpc(tool=False)
    async def Price(self, request: Any, context: Any) -> Any:
        return pb.PriceResponse()


def test_a_method_chooses_the_name_of_its_tool_or_is_none() -> None:
    assert list(shop(Renamed()).tools) == ["buy"]


def place(item: str) -> str:
    """Place something."""
    return item


def test_names_of_tools_and_methods_do_not_collide() -> None:
    with pytest.raises(InvalidArgumentError, match="second tool named 'place'") as error:
        Agent("shop", tools=[place], services=[OrdersServicer()])
    assert error.value.field == "services"
    agent = shop()
    with pytest.raises(InvalidArgumentError, match="a tool named 'place'") as error:
        agent.add_tool(place)
    assert error.value.field == "tools"


async def test_a_typed_service_of_the_same_agent_has_its_functions_only() -> None:
    agent = shop(typed="acme.shop.v1")
    agent.tool(name="other")(place)
    assert [tool.name for tool in agent.function_tools] == ["other"]
    async with agent, httpx.AsyncClient() as http:
        answer = await http.post(f"{agent.http_url}/acme.shop.v1.Shop/Other", json={"item": "tea"})
        assert answer.json() == {"result": "tea"}
        missing = await http.post(f"{agent.http_url}/acme.shop.v1.Shop/Place", json={"item": "tea"})
        assert missing.status_code == 404


async def test_a_typed_service_has_a_name_of_its_own() -> None:
    agent = Agent("orders", url="grpc://127.0.0.1:0", typed="acme.orders.v1", services=[OrdersServicer()])
    agent.tool(name="other")(place)
    with pytest.raises(InvalidArgumentError, match=SERVICE) as error:
        await agent.serve()
    assert error.value.field == "typed"


class Front(pb_grpc.OrdersServicer):  # type: ignore[misc]  # generated at run time
    """Delegates: to a tool of its agent, and to another agent."""

    async def Place(self, request: Any, context: Any) -> Any:
        run = current_run()
        assert run is not None
        packed = await run.call_tool("pack", item=request.item)
        answer = await run.call_agent("runtime://courier", Task.create_tool_call("carry", {"what": packed}))
        return pb.PlaceResponse(order=str(answer.get_output()))


async def test_a_method_calls_tools_and_agents_as_actions_of_its_run() -> None:
    courier = Agent("courier", url="runtime://courier")
    front = shop(Front())

    @courier.tool
    def carry(what: str) -> str:
        """Carry something."""
        return f"carried {what}"

    @front.tool
    def pack(item: str) -> str:
        """Pack an item."""
        return f"a box of {item}"

    async with courier, front:
        client = AgentClient(url=front.card.url)
        stub: Any = client.stub(pb_grpc.OrdersStub)
        headers = (("x-task-id", "t1"),)
        assert (await stub.Place(pb.PlaceRequest(item="tea"), metadata=headers)).order == "carried a box of tea"
        kinds = [event.type async for event in client.subscribe("t1")]
        assert kinds.count("action.completed") == 2


async def test_another_agent_calls_the_methods_by_a_stub_as_actions_of_its_run() -> None:
    servicer = OrdersServicer()
    front = Agent("front", url="grpc://127.0.0.1:0")
    async with shop(servicer, limits=Limits(max_concurrency=1)) as agent:

        @front.tool
        async def buy(item: str) -> list[str]:
            """Buy an item, and follow it."""
            stub: Any = front.peer(agent.card.url).stub(pb_grpc.OrdersStub)
            placed = await stub.Place(pb.PlaceRequest(item=item))
            return [placed.order, *[each.text async for each in stub.Follow(pb.FollowRequest(steps=2))]]

        async with front:
            client = AgentClient(url=front.card.url)
            task = await client.send_task(None, Task.create_tool_call("buy", {"item": "tea"}))
            assert task.get_output() == ["tea for anonymous", "step 1", "step 2"]
            actions = {e.action_id async for e in client.subscribe(task.id) if e.type == "action.completed"}
            theirs = {each.id for each in (await AgentClient(url=agent.card.url).list_tasks()).tasks}
            assert len(actions) == 3
            assert theirs < actions
            failed = await client.send_task(None, Task.create_tool_call("buy", {"item": "unknown"}))
            assert "there is no such item" in failed.reason


async def test_permissions_and_budget_of_the_caller_apply_to_the_run() -> None:
    agent = shop(Front(), policy=CapabilityPolicy({}))

    @agent.tool(capabilities=["orders.write"])
    def pack(item: str) -> str:
        """Pack an item."""
        return item

    context = RunContext(permissions={"orders.write": "deny"})
    headers = ((RUN_OPTIONS, options_to_bytes(context)),)
    async with agent, grpc.aio.insecure_channel(target(agent)) as channel:
        call = pb_grpc.OrdersStub(channel).Place(pb.PlaceRequest(item="tea"), metadata=headers)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await call
        assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert {TASK_ID, USED} <= dict(await call.initial_metadata()).keys()


async def test_parallel_calls_do_not_disturb_each_other() -> None:
    async with shop() as agent:
        calls = (agent.call_tool("place", item=str(number)) for number in range(20))
        assert await asyncio.gather(*calls) == [{"order": f"{number} for local"} for number in range(20)]
