"""Three agents that call each other by generated stubs, found by name in a registry, over real sockets."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orders_world
import pytest
import typed_world
from delegation_world import PATIENCE_S, log_of, tasks_of
from orders_world import OrdersServicer
from orders_world import shop as order_shop
from typed_world import broker, generated, ledger, shop, typed_agent

from protolink_grpc import (
    Agent,
    AgentClient,
    APIKey,
    APIKeyAuth,
    Registry,
    RegistryClient,
    RunBudget,
    RunContext,
    ServerOptions,
    Task,
    TaskState,
    ToolFailedError,
    UnauthenticatedError,
    UnavailableError,
)
from protolink_grpc.errors import AgentNotFoundError, DeadlineExceededError, DelegationCycleError, InvalidArgumentError
from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.events import ActionEnded, ActionRequested, PeerTaskLinked, RunEvent
from protolink_grpc.models.payload import Payload, TypedMessage

Launch = Callable[..., Awaitable[Any]]
WORLD = Path(typed_world.__file__)


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with Registry() as registry:
        yield registry


def purchase(item: str = "tea", **fields: Any) -> Task:
    return Task.create_tool_call("buy", {"item": item}, **fields)


async def sent(agent: Agent, task: Task) -> Task:
    async with asyncio.timeout(PATIENCE_S):
        return await AgentClient(url=agent.card.url).send_task(None, task)


def payload_of(log: list[RunEvent], kind: type, name: str) -> Any:
    (found,) = [each.payload for each in log if isinstance(each.payload, kind) and _name(each.payload) == name]
    return found


def _name(payload: Any) -> str:
    return str(payload.action.name if isinstance(payload, ActionRequested) else payload.name)


async def test_a_call_by_a_stub_passes_three_agents_and_is_an_action_in_each_log(registry: Registry) -> None:
    async with ledger(registry) as leaf, broker(registry) as middle, shop(registry) as root:
        stub, messages = generated(root)
        response = await AgentClient(url=root.card.url).stub(stub).Buy(messages.BuyRequest(item="tea"))
        assert response.result == "bought tea #3"
        (task_id,) = await tasks_of(root)
        log = await log_of(root, task_id)
        requested, ended = payload_of(log, ActionRequested, "broker"), payload_of(log, ActionEnded, "broker")
        assert requested.action.payload == {
            "agent": "broker",
            "method": "/acme.broker.v1.Broker/Price",
            "url": middle.card.url,
            "request": {"item": "tea"},
        }
        assert ended.result == Payload(
            TypedMessage("acme.broker.v1.PriceResponse", b"\n\x06tea #3"), preview='{"result": "tea #3"}'
        )
        # The task has the id of the action, so that it is found again.
        assert await tasks_of(middle) == [requested.action.action_id]
        (link,) = [event.payload for event in log if isinstance(event.payload, PeerTaskLinked)]
        session_id = (await AgentClient(url=middle.card.url).get_task(link.task_id)).session_id
        assert link == PeerTaskLinked("broker", middle.card.url, "plgrpc", requested.action.action_id, session_id or "")
        (leaf_task,) = await tasks_of(leaf)
        context = (await AgentClient(url=leaf.card.url).get_task(leaf_task)).context
        assert context is not None
        assert context.agent_chain == ["shop", "broker", "ledger"]


async def test_the_middle_is_killed_between_request_and_answer_and_the_caller_gets_the_first_result(
    registry: Registry, tmp_path: Path, launch: Launch
) -> None:
    begun, go, entered = asyncio.Event(), asyncio.Event(), list[str]()

    async def record(item: str) -> int:
        entered.append(item)
        begun.set()
        await go.wait()
        return len(entered)

    async with ledger(registry, record) as leaf, shop(registry) as root:
        program = await launch(WORLD, "broker", registry.url, tmp_path / "broker.db", "grpc://127.0.0.1:0")
        url = await program.line()
        stub, messages = generated(root)
        call = asyncio.ensure_future(AgentClient(url=root.card.url).stub(stub).Buy(messages.BuyRequest(item="tea")))
        async with asyncio.timeout(PATIENCE_S):
            await begun.wait()
        await program.kill()
        go.set()
        await AgentClient(url=leaf.card.url).wait_task((await tasks_of(leaf))[0])
        program = await launch(WORLD, "broker", registry.url, tmp_path / "broker.db", url)
        assert await program.line() == url
        async with asyncio.timeout(PATIENCE_S):
            assert (await call).result == "bought tea #1"
        assert entered == ["tea"]
        assert len(await tasks_of(leaf)) == 1


# -- budgets, permissions, loops ----------------------------------------------------------------------------------------------


async def test_the_usage_of_the_whole_mesh_is_that_of_the_root(registry: Registry) -> None:
    async with ledger(registry), broker(registry), shop(registry) as root:
        done = await sent(root, purchase(budget=RunBudget(max_tool_calls=3)))
        assert done.get_output() == "bought tea #3"
        ended = payload_of(await log_of(root, done.id), ActionEnded, "broker")
        assert (ended.usage or BudgetUsage()).tool_calls == 2
        assert (done.usage or BudgetUsage()).tool_calls == 3


async def test_a_leaf_has_no_more_budget_than_its_callers_left(registry: Registry) -> None:
    entered: list[str] = []
    async with ledger(registry, entered.append), broker(registry), shop(registry) as root:
        done = await sent(root, purchase(budget=RunBudget(max_tool_calls=2)))
        assert done.state is TaskState.FAILED
        assert "max_tool_calls" in str(done.reason)
        assert entered == []
        assert (done.usage or BudgetUsage()).tool_calls == 2


async def test_a_permission_that_the_root_lacks_is_denied_at_the_leaf(registry: Registry) -> None:
    entered: list[str] = []
    async with ledger(registry, entered.append), broker(registry), shop(registry) as root:
        task = purchase()
        RunContext(permissions={"ledger.write": False}).attach_to_task(task)
        done = await sent(root, task)
        assert (done.state, entered) == (TaskState.FAILED, [])
        assert "ledger.write" in str(done.reason)


async def test_a_mesh_that_calls_in_a_circle_is_refused(registry: Registry) -> None:
    refused: list[Exception] = []
    async with broker(registry), shop(registry) as root:
        stub, messages = generated(root)

        async def call_back(item: str) -> int:
            try:
                await leaf.peer("shop").stub(stub).Buy(messages.BuyRequest(item=item))
            except DelegationCycleError as error:
                refused.append(error)
            return 7

        async with ledger(registry, call_back) as leaf:
            assert (await sent(root, purchase())).get_output() == "bought tea #7"
        assert "shop > broker > ledger" in str(refused[0])


# -- cancel -------------------------------------------------------------------------------------------------------------------


async def test_a_cancel_of_the_root_reaches_the_leaf(registry: Registry) -> None:
    begun = asyncio.Event()

    async def hang(item: str) -> int:
        begun.set()
        await asyncio.Event().wait()
        return 0

    async with ledger(registry, hang) as leaf, broker(registry), shop(registry) as root:
        client, task = AgentClient(url=root.card.url), purchase()
        await client.submit_task(None, task)
        async with asyncio.timeout(PATIENCE_S):
            await begun.wait()
            await client.cancel_task(None, task.id, reason="enough")
            ended = await AgentClient(url=leaf.card.url).wait_task((await tasks_of(leaf))[0])
        assert ended.state is TaskState.CANCELED


# -- instances ----------------------------------------------------------------------------------------------------------------


async def test_calls_rotate_over_the_instances_of_a_name_and_leave_out_a_dead_one(
    registry: Registry, tmp_path: Path, launch: Launch
) -> None:
    entered: list[str] = []

    def record(item: str) -> int:
        entered.append(item)
        return 1000

    client = typed_agent("client", registry)

    @client.tool
    async def enter(item: str) -> int:
        return int((await client.peer("ledger").stub(stub).Enter(messages.EnterRequest(item=item))).result)

    program = await launch(WORLD, "ledger", registry.url, tmp_path / "ledger.db", "grpc://127.0.0.1:0")
    await program.line()
    async with ledger(registry, record) as leaf, client:
        stub, messages = generated(leaf)
        outside = client.peer("ledger").stub(stub)

        async def numbers(calls: int) -> list[int]:
            return [int((await outside.Enter(messages.EnterRequest(item="tea"))).result) for _ in range(calls)]

        assert sorted(await numbers(4)) == [3, 3, 1000, 1000]
        own_id = (("x-request-id", "mine"),)
        same = [(await outside.Enter(messages.EnterRequest(item="tea"), metadata=own_id)).result for _ in range(3)]
        assert len(set(same)) == 1  # it stays at the instance that knows it
        entered.clear()
        assert await tasks_of(client) == []  # a plain call belongs to no run
        await program.kill()
        assert await numbers(4) == [1000] * 4
        for _ in range(2):
            done = await sent(client, Task.create_tool_call("enter", {"item": "tea"}))
            assert done.get_output() == 1000
        assert len(entered) == 6


async def test_a_run_that_recovers_repeats_a_call_at_the_instance_that_has_it(
    registry: Registry, tmp_path: Path, launch: Launch
) -> None:
    begun, go, entered = asyncio.Event(), asyncio.Event(), list[str]()

    async def record(item: str) -> int:
        entered.append(item)
        if item == "two":
            begun.set()
            await go.wait()
        return len(entered)

    async with ledger(registry, record) as first, ledger(registry, record) as second:
        program = await launch(WORLD, "clerk", registry.url, tmp_path / "clerk.db", "grpc://127.0.0.1:0")
        url, task = await program.line(), Task.create_tool_call("enter_two", {})
        await AgentClient(url=url).submit_task(None, task)
        async with asyncio.timeout(PATIENCE_S):
            await begun.wait()
        await program.kill()
        assert [len(await tasks_of(each)) for each in (first, second)] == [1, 1]
        program = await launch(WORLD, "clerk", registry.url, tmp_path / "clerk.db", url)
        await program.line()
        go.set()
        async with asyncio.timeout(PATIENCE_S):
            done = await AgentClient(url=url).wait_task(task.id)
        assert (done.get_output(), entered) == ([1, 2], ["one", "two"])
        assert [len(await tasks_of(each)) for each in (first, second)] == [1, 1]


async def test_a_mesh_goes_on_while_its_registry_is_away() -> None:
    registry = Registry()
    await registry.serve()
    client = RegistryClient(registry.url, timeout=0.5)
    async with ledger(client), broker(client), shop(client) as root:
        assert (await sent(root, purchase())).get_output() == "bought tea #3"
        await registry.aclose()
        assert (await sent(root, purchase("cake"))).get_output() == "bought cake #4"


async def test_an_unknown_name_is_an_error_of_its_own(registry: Registry) -> None:
    async with typed_agent("client", registry, typed=None) as client:
        stub, messages = generated(ledger(None))
        with pytest.raises(AgentNotFoundError):
            await client.peer("ledger").stub(stub).Enter(messages.EnterRequest(item="tea"))


# -- the call itself ----------------------------------------------------------------------------------------------------------


async def test_a_run_makes_many_calls_at_once(registry: Registry) -> None:
    entered: list[str] = []

    def record(item: str) -> int:
        entered.append(item)
        return int(item)

    client = typed_agent("client", registry)

    @client.tool
    async def enter(count: int) -> list[int]:
        ledgers = client.peer("ledger").stub(stub)
        calls = [ledgers.Enter(messages.EnterRequest(item=str(number % 20))) for number in range(count)]
        return [response.result for response in await asyncio.gather(*calls)]

    async with ledger(registry, record) as leaf, client:
        stub, messages = generated(leaf)
        done = await sent(client, Task.create_tool_call("enter", {"count": 40}))
        assert done.get_output() == [*range(20)] * 2
        assert len(entered) == 40  # equal requests are different calls


async def test_a_run_sets_its_own_ids(registry: Registry) -> None:
    client = typed_agent("client", registry)

    @client.tool
    async def enter(name: str) -> str:
        with pytest.raises(InvalidArgumentError, match="set by the run"):
            await client.peer("ledger").stub(stub).Enter(messages.EnterRequest(item="x"), metadata=((name, "mine"),))
        return "refused"

    async with ledger(registry) as leaf, client:
        stub, messages = generated(leaf)
        for name in ("x-request-id", "X-Task-Id", "x-session-id", "plgrpc-options-bin"):
            assert (await sent(client, Task.create_tool_call("enter", {"name": name}))).get_output() == "refused"
        assert await tasks_of(leaf) == []


async def test_credentials_are_sent_to_trusted_peers_only() -> None:
    async with ledger(None, authenticator=APIKeyAuth({"secret": ["shop"]})) as leaf:
        stub, messages = generated(leaf)
        request, url = messages.EnterRequest(item="tea"), leaf.card.url
        trusting = {"credentials": APIKey("secret"), "trusted_peers": [url]}
        assert (await Agent("trusting", **trusting).peer(url).stub(stub).Enter(request)).result == 3
        with pytest.raises(UnauthenticatedError, match="trusted_peers"):
            await Agent("wary", credentials=APIKey("secret")).peer(url).stub(stub).Enter(request)


async def test_the_session_of_a_run_is_that_of_its_calls_in_ascii(registry: Registry) -> None:
    async with ledger(registry) as leaf, broker(registry) as middle, shop(registry) as root:
        for session in ("kitchen", "küche"):
            task = purchase()
            task.session_id = session
            assert (await sent(root, task)).state is TaskState.COMPLETED
        for agent in (middle, leaf):
            sessions = [each.session_id for each in (await AgentClient(url=agent.card.url).list_tasks()).tasks]
            assert "kitchen" in sessions
            (other,) = [each for each in sessions if each != "kitchen"]
            assert re.fullmatch(r"kche~[0-9a-f]{32}", other)


async def test_a_context_that_no_metadata_can_have_is_refused_and_costs_nothing(registry: Registry) -> None:
    async with ledger(registry) as leaf, broker(registry), shop(registry) as root:
        task = purchase(budget=RunBudget(max_tool_calls=9))
        rules = {f"some.capability.{number:04}": False for number in range(1000)}
        RunContext(permissions=rules, budget=RunBudget(max_tool_calls=9)).attach_to_task(task)
        done = await sent(root, task)
        assert (done.state, (done.usage or BudgetUsage()).tool_calls) == (TaskState.FAILED, 1)
        assert "delegate with a task" in str(done.reason)
        assert await tasks_of(leaf) == []


async def test_an_instance_that_is_gone_after_the_call_was_sent_costs_the_whole_share(
    wire: Callable[[str], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("protolink_grpc.agent.lifecycle.OUTAGE_S", 0.2)
    begun = asyncio.Event()

    async def hang(item: str) -> int:
        begun.set()
        await asyncio.Event().wait()
        return 0

    client = typed_agent("client", None)

    @client.tool
    async def enter() -> str:
        with pytest.raises(UnavailableError):
            await client.peer(cut.url).stub(stub).Enter(messages.EnterRequest(item="x"))
        return "gone"

    async with ledger(None, hang) as leaf, client:
        cut, (stub, messages) = await wire(leaf.card.url), generated(leaf)
        call = asyncio.ensure_future(
            sent(client, Task.create_tool_call("enter", {}, budget=RunBudget(max_tool_calls=9)))
        )
        async with asyncio.timeout(PATIENCE_S):
            await begun.wait()
        await cut.sever()
        done = await call
        assert (done.get_output(), (done.usage or BudgetUsage()).tool_calls) == ("gone", 9)


async def test_a_failure_of_the_peers_tool_is_raised_in_the_run(registry: Registry) -> None:
    def fail(item: str) -> int:
        raise ValueError("no ink")

    client = typed_agent("client", registry)

    @client.tool
    async def enter() -> str:
        with pytest.raises(ToolFailedError, match="no ink"):
            await client.peer("ledger").stub(stub).Enter(messages.EnterRequest(item="x"))
        return "seen"

    async with ledger(registry, fail) as leaf, client:
        stub, messages = generated(leaf)
        done = await sent(client, Task.create_tool_call("enter", {}))
        assert done.get_output() == "seen"
        assert (done.usage or BudgetUsage()).tool_calls == 2


async def test_a_tool_in_a_thread_calls_by_a_blocking_stub_as_a_part_of_its_run(registry: Registry) -> None:
    customer = Agent("customer", url="grpc://127.0.0.1:0", registry=registry, grace_s=0.1)

    @customer.tool
    def buy(item: str) -> str:
        stub: Any = customer.peer("shop").stub_sync(orders_world.pb_grpc.OrdersStub)
        order = stub.Place(orders_world.pb.PlaceRequest(item=item)).order
        steps = [response.text for response in stub.Follow(orders_world.pb.FollowRequest(steps=2))]
        return f"{order}: {steps}"

    async with order_shop(registry=registry), customer:
        done = await sent(customer, Task.create_tool_call("buy", {"item": "tea"}))
        assert done.get_output() == "tea for anonymous: ['step 1', 'step 2']"
        ended = [each.payload for each in await log_of(customer, done.id) if isinstance(each.payload, ActionEnded)]
        assert [(each.kind, each.name) for each in ended] == [("agent.call", "shop")] * 2 + [("tool.call", "buy")]


async def test_a_call_of_a_run_outlasts_the_time_that_the_servers_calls_may_wait(registry: Registry) -> None:
    calls, go = 0, asyncio.Event()

    @asynccontextmanager
    async def count(call: Any) -> AsyncIterator[None]:
        nonlocal calls
        calls += "Enter" in call.method
        if calls == 2:
            go.set()
        yield

    async def record(item: str) -> int:
        await go.wait()
        return 1

    options = ServerOptions(max_wait_s=0.05, interceptors=(count,))
    async with ledger(registry, record, server=options) as leaf, broker(registry), shop(registry) as root:
        assert (await sent(root, purchase())).get_output() == "bought tea #1"
        assert len(await tasks_of(leaf)) == 1


async def test_a_timeout_of_a_call_ends_the_wait_and_not_the_work(registry: Registry) -> None:
    go = asyncio.Event()

    async def record(item: str) -> int:
        await go.wait()
        return 1

    client = typed_agent("client", registry)

    @client.tool
    async def enter() -> str:
        with pytest.raises(DeadlineExceededError):
            await client.peer("ledger").stub(stub).Enter(messages.EnterRequest(item="x"), timeout=0.1)
        return "late"

    async with ledger(registry, record) as leaf, client:
        stub, messages = generated(leaf)
        assert (await sent(client, Task.create_tool_call("enter", {}))).get_output() == "late"
        go.set()
        ended = await AgentClient(url=leaf.card.url).wait_task((await tasks_of(leaf))[0])
        assert ended.state is TaskState.COMPLETED


# -- streams ------------------------------------------------------------------------------------------------------------------


CUSTOMER = """
    import asyncio, sys
    registry, path, tests = sys.argv[1:]
    sys.path.append(tests)
    from orders_world import pb, pb_grpc
    from protolink_grpc import Agent, SQLiteStore

    agent = Agent(name="customer", url="grpc://127.0.0.1:0", registry=registry, store=SQLiteStore(path))
    attempts = 0

    @agent.tool(idempotent=True)
    async def follow() -> str:
        responses = agent.peer("shop").stub(pb_grpc.OrdersStub).Follow(pb.FollowRequest(steps=3))
        texts = [response.text async for response in responses]
        print("followed", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        return ", ".join(texts)

    @agent.tool(idempotent=True)
    async def total() -> str:
        async def items():
            for amount in (1, 2):
                yield pb.PlaceRequest(amount=amount)

        response = await agent.peer("shop").stub(pb_grpc.OrdersStub).Total(items())
        print("totaled", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        return response.order

    async def main():
        await agent.serve()
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


async def test_a_stream_within_a_run_is_one_action_and_is_not_called_again_after_a_crash(
    registry: Registry, tmp_path: Path, launch: Launch
) -> None:
    servicer = OrdersServicer()
    async with order_shop(servicer, registry=registry):
        arguments = registry.url, tmp_path / "customer.db", Path(orders_world.__file__).parent
        program = await launch(CUSTOMER, *arguments)
        task = Task.create_tool_call("follow", {})
        await AgentClient(url=await program.line()).submit_task(None, task)
        assert await program.line() == "followed"
        await program.kill()
        program = await launch(CUSTOMER, *arguments)
        # The tool may be called again before the port is open.
        lines = {await program.line(), await program.line()}
        client = AgentClient(url=(lines - {"followed"}).pop())
        program.say("end")
        async with asyncio.timeout(PATIENCE_S):
            done = await client.wait_task(task.id)
        assert done.get_output() == "step 1, step 2, step 3"
        assert servicer.calls == ["follow"]
        log = [event async for event in client.subscribe(task.id)]
        (ended,) = [
            each.payload for each in log if isinstance(each.payload, ActionEnded) and each.payload.name == "shop"
        ]
        assert len(ended.result["responses"]) == 3


async def test_a_stream_of_requests_within_a_run_is_not_sent_again_after_a_crash(
    registry: Registry, tmp_path: Path, launch: Launch
) -> None:
    servicer = OrdersServicer()
    async with order_shop(servicer, registry=registry):
        arguments = registry.url, tmp_path / "customer.db", Path(orders_world.__file__).parent
        program = await launch(CUSTOMER, *arguments)
        task = Task.create_tool_call("total", {})
        await AgentClient(url=await program.line()).submit_task(None, task)
        assert await program.line() == "totaled"
        await program.kill()
        program = await launch(CUSTOMER, *arguments)
        lines = {await program.line(), await program.line()}
        client = AgentClient(url=(lines - {"totaled"}).pop())
        program.say("end")
        async with asyncio.timeout(PATIENCE_S):
            done = await client.wait_task(task.id)
        assert done.get_output() == "2 items, 3 in all"
        assert servicer.calls == ["total"]


async def test_a_stream_yields_its_responses_as_they_arrive_within_a_run_and_outside(registry: Registry) -> None:
    servicer = OrdersServicer()
    servicer.go.clear()
    customer = Agent("customer", url="grpc://127.0.0.1:0", registry=registry, grace_s=0.1)
    seen: list[str] = []

    async def follow() -> None:
        responses = (
            customer.peer("shop").stub(orders_world.pb_grpc.OrdersStub).Follow(orders_world.pb.FollowRequest(steps=2))
        )
        async for response in responses:
            seen.append(response.text)
            servicer.go.set()

    customer.tool(follow)
    async with order_shop(servicer, registry=registry), customer:
        async with asyncio.timeout(PATIENCE_S):
            await follow()
            servicer.go.clear()
            done = await sent(customer, Task.create_tool_call("follow", {}))
        assert done.state is TaskState.COMPLETED
        assert seen == ["step 1", "step 2"] * 2


async def test_the_items_of_a_generator_tool_are_a_stream_whose_usage_is_counted(registry: Registry) -> None:
    client = typed_agent("client", registry)

    @client.tool
    async def read(count: int) -> list[str]:
        pages = client.peer("ledger").stub(stub).Pages(messages.PagesRequest(count=count))
        return [page.result async for page in pages]

    async with ledger(registry) as leaf, client:
        stub, messages = generated(leaf)
        for count in (0, 2):
            task = Task.create_tool_call("read", {"count": count}, budget=RunBudget(max_tool_calls=9))
            done = await sent(client, task)
            assert done.get_output() == [f"page {number}" for number in range(count)]
            assert (done.usage or BudgetUsage()).tool_calls == 2


async def test_a_canceled_run_cancels_the_task_of_its_stream(registry: Registry) -> None:
    servicer = OrdersServicer()
    servicer.go.clear()
    customer = Agent("customer", url="grpc://127.0.0.1:0", registry=registry, grace_s=0.1)
    begun = asyncio.Event()

    @customer.tool
    async def follow() -> None:
        stub = customer.peer("shop").stub(orders_world.pb_grpc.OrdersStub)
        async for _ in stub.Follow(orders_world.pb.FollowRequest(steps=2)):
            begun.set()

    async with order_shop(servicer, registry=registry) as shop_agent, customer:
        task = Task.create_tool_call("follow", {})
        client = AgentClient(url=customer.card.url)
        await client.submit_task(None, task)
        async with asyncio.timeout(PATIENCE_S):
            await begun.wait()
            await client.cancel_task(None, task.id)
            ended = await AgentClient(url=shop_agent.card.url).wait_task((await tasks_of(shop_agent))[0])
        assert ended.state is TaskState.CANCELED


async def test_a_method_that_is_no_task_uses_nothing_of_the_budget(registry: Registry) -> None:
    customer = Agent("customer", url="grpc://127.0.0.1:0", registry=registry, grace_s=0.1)

    @customer.tool
    async def price(item: str) -> int:
        request = orders_world.pb.PriceRequest(item=item)
        return int((await customer.peer("shop").stub(orders_world.pb_grpc.OrdersStub).Price(request)).cents)

    async with order_shop(registry=registry), customer:
        for item, output in (("tea", 300), ("unknown", None)):
            task = Task.create_tool_call("price", {"item": item}, budget=RunBudget(max_tool_calls=5))
            done = await sent(customer, task)
            assert (done.state is TaskState.COMPLETED, (done.usage or BudgetUsage()).tool_calls) == (
                output is not None,
                1,
            )
            assert not [event for event in await log_of(customer, done.id) if event.type == "action.peer_task"]


async def test_a_stream_that_is_cut_goes_on_after_the_last_response_that_was_seen(
    registry: Registry, wire: Callable[[str], Awaitable[Any]]
) -> None:
    servicer = OrdersServicer()
    servicer.go.clear()
    async with order_shop(servicer) as agent:
        cut = await wire(agent.card.url)
        stub = AgentClient(url=cut.url).stub(orders_world.pb_grpc.OrdersStub)
        seen: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            async for response in stub.Follow(orders_world.pb.FollowRequest(steps=3)):
                seen.append(response.text)
                if len(seen) == 1:
                    await cut.sever()
                    await cut.mend()
                    servicer.go.set()
        assert seen == ["step 1", "step 2", "step 3"]
        assert servicer.calls == ["follow"]
