"""Delegation: agents find each other by name, the policy is checked before a request, and permissions only become stricter."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from delegation_world import (
    PATIENCE_S,
    CountingClient,
    Handled,
    answered,
    ask,
    call,
    ends,
    log_of,
    said_last,
    tasks_of,
    thinking,
)

from protolink_grpc import (
    Agent,
    AgentClient,
    CapabilityPolicy,
    Message,
    Registry,
    RegistryClient,
    RunContext,
    Task,
    TaskExecutionError,
    TaskState,
    ToolRejectedError,
)
from protolink_grpc.models.events import ActionEnded


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with Registry() as registry:
        yield registry


def weather(registry: Any, **wishes: Any) -> Agent:
    agent = thinking("weather", registry, **wishes)
    agent.forecasts = []  # type: ignore[attr-defined]  # what it was asked for

    @agent.tool
    def forecast(city: str, days: int = 1) -> dict[str, Any]:
        """How it will be."""
        if city == "Atlantis":
            raise ToolRejectedError("no such place", code="unknown_city", suggestion="Take a real one.")
        agent.forecasts.append(city)  # type: ignore[attr-defined]  # as above
        return {"city": city, "sun": 7 * days}

    return agent


async def test_the_inventory_of_an_agent_with_a_model_has_its_peers(registry: Registry) -> None:
    policy = CapabilityPolicy({"agent.delegate": "ask"})
    boss = thinking("boss", registry, "done", policy=policy)
    async with weather(registry), boss, thinking("plain", registry) as plain:
        found = await AgentClient(url=boss.card.url).snapshots.tools()
        assert [(each.tool.name, str(each.tool.effect), each.runtime_owner) for each in found.tools] == [
            ("plain", "require_approval", "agent:plain"),
            ("weather", "require_approval", "agent:weather"),
        ]
        gaps = [each.part for each in found.gaps]
        assert (found.tools[1].tool.description, gaps) == ("the weather", ["tools.concurrency_safe"])
        assert (await AgentClient(url=plain.card.url).snapshots.tools()).tools == ()


# -- by a model ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("native", [True, False], ids=["native", "json"])
async def test_a_model_calls_a_peers_tool_by_name_and_reads_its_result(registry: Registry, native: bool) -> None:
    steps = (call("weather", "forecast", city="Rome", days=2), {"type": "final", "content": "go"})
    async with weather(registry) as peer, thinking("planner", registry, *steps, native=native) as planner:
        done = await answered(planner)
        assert (done.state, done.get_output()) == (TaskState.COMPLETED, "go")
        assert '"sun":14' in said_last(planner).replace(" ", "")
        assert peer.forecasts == ["Rome"]  # type: ignore[attr-defined]  # see `weather`
        (ended,) = [e.payload for e in await log_of(planner, done.id) if isinstance(e.payload, ActionEnded)]
        assert (ended.kind, ended.name, ended.result) == ("agent.call", "weather", {"city": "Rome", "sun": 14})
        (action_id,) = {event.action_id for event in await log_of(planner, done.id) if event.action_id}
        assert await tasks_of(peer) == [action_id]  # named after the action, so that it is found again


async def test_a_model_asks_a_peers_model(registry: Registry) -> None:
    async with (
        thinking("guide", registry, {"type": "final", "content": "the Forum"}) as guide,
        thinking("planner", registry, ask("guide", "What to see?"), {"type": "final", "content": "seen"}) as planner,
    ):
        done = await answered(planner)
        assert done.get_output() == "seen"
        assert "the Forum" in said_last(planner)
        assert said_last(guide) == "What to see?"


async def test_wrong_arguments_are_sent_back_with_the_field_and_never_reach_the_peer(registry: Registry) -> None:
    steps = (
        call("weather", "forecast", town="Rome"),
        call("weather", "forecast", city="Rome"),
        {"type": "final", "content": "go"},
    )
    async with weather(registry) as peer, thinking("planner", registry, *steps) as planner:
        done = await answered(planner)
        assert done.state is TaskState.COMPLETED
        feedback = str(planner.llm.requests[1].messages[-1].content)  # type: ignore[union-attr]  # a ScriptedLLM
        assert "city" in feedback
        assert "invalid_arguments" in feedback
        assert len(await tasks_of(peer)) == 1
        assert await ends(planner, done.id) == [("action.completed", "weather")]


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (call("wether", "forecast", city="Rome"), "Did you mean 'weather'?"),
        (call("weather", "forcast", city="Rome"), "Did you mean 'forecast'?"),
        (ask("weather", "how is it?"), "it only runs its tools"),
        (ask("planner", "plan it"), "'planner' is you"),
    ],
    ids=["unknown agent", "unknown tool", "agent without a model", "itself"],
)
async def test_a_call_that_nobody_could_answer_is_corrected(
    registry: Registry, wrong: dict[str, Any], hint: str
) -> None:
    steps = (wrong, call("weather", "forecast", city="Rome"), {"type": "final", "content": "go"})
    async with weather(registry) as peer, thinking("planner", registry, *steps) as planner:
        done = await answered(planner)
        assert done.state is TaskState.COMPLETED
        assert hint in str(planner.llm.requests[1].messages[-1].content)  # type: ignore[union-attr]  # a ScriptedLLM
        assert len(await tasks_of(peer)) == 1
        assert await tasks_of(planner) == [done.id]


async def test_what_a_peers_tool_refuses_comes_back_as_a_rejection(registry: Registry) -> None:
    steps = (call("weather", "forecast", city="Atlantis"), {"type": "final", "content": "stay"})
    async with weather(registry), thinking("planner", registry, *steps) as planner:
        done = await answered(planner)
        assert (done.state, done.get_output()) == (TaskState.COMPLETED, "stay")
        for said in ("no such place", "unknown_city", "Take a real one."):
            assert said in said_last(planner)
        assert await ends(planner, done.id) == [("action.rejected", "weather")]


async def test_work_does_not_come_back_to_an_agent_that_it_has_passed_through(registry: Registry) -> None:
    final = {"type": "final", "content": "given up"}
    async with (
        thinking("first", registry, ask("second"), final) as first,
        thinking("second", registry, ask("first"), final) as second,
    ):
        done = await answered(first)
        assert done.state is TaskState.COMPLETED
        assert "has passed through first before: first > second" in said_last(second)
        assert await tasks_of(first) == [done.id]


async def test_a_child_that_fails_rejects_or_asks_is_an_observation_that_says_so(registry: Registry) -> None:
    async def fail(agent: Handled, task: Task) -> Task:
        match task.messages[0].parts[0].content["prompt"]:
            case "fail":
                raise ValueError("the roof is gone")
            case "reject":
                return task.reject("not on sundays")
            case _:
                return task.require_input(Message.agent("which day?"))

    steps = (ask("child", "fail"), ask("child", "reject"), ask("child", "ask"), {"type": "final", "content": "enough"})
    async with Handled("child", fail, registry), thinking("planner", registry, *steps) as planner:
        done = await answered(planner)
        assert done.get_output() == "enough"
        told = [str(request.messages[-1].content) for request in planner.llm.requests[1:]]  # type: ignore[union-attr]
        assert "the roof is gone" in told[0]
        assert "not on sundays" in told[1]
        assert "ended input-required: which day?" in told[2]
        assert await ends(planner, done.id) == [("action.failed", "child")] * 3


# -- by a handler -------------------------------------------------------------------------------------------------------------


async def test_a_child_knows_whose_child_it_is(registry: Registry) -> None:
    async def forward(agent: Handled, task: Task) -> Task:
        return task.complete((await agent.peer("leaf").send_message("hello")).text)

    async def hear(agent: Handled, task: Task) -> Task:
        return task.complete("heard")

    context = RunContext(session_id="journey", trace_id="trace-1", workspace_uri="file:///w", metadata={"tenant": "t"})
    async with (
        Handled("leaf", hear, registry) as leaf,
        Handled("middle", forward, registry) as middle,
        thinking("top", registry, ask("middle"), {"type": "final", "content": "done"}) as top,
    ):
        done = await answered(top, context=context)
        assert done.get_output() == "done"
        (below,), (deep,) = middle.contexts, leaf.contexts
        for each in (below, deep):
            assert (each.session_id, each.trace_id) == ("journey", "trace-1")
            assert (each.workspace_uri, each.metadata) == ("file:///w", {"tenant": "t"})
        run_id = (await log_of(top, done.id))[-1].run_id
        assert below.parent_run_id == run_id
        assert deep.parent_run_id == below.run_id
        assert len({run_id, below.run_id, deep.run_id}) == 3
        assert below.agent_chain == ["top", "middle"]
        assert deep.agent_chain == ["top", "middle", "leaf"]


def clerk(registry: Any, written: list[str]) -> Agent:
    """Writes if no policy forbids it, and has a tool that tries to get more permissions."""
    agent = thinking("clerk", registry, policy=CapabilityPolicy({"records.write": "allow"}))

    @agent.tool(capabilities=["records.write"])
    def write(text: str) -> str:
        written.append(text)
        return "written"

    @agent.tool
    async def write_anyway(text: str) -> Any:
        own = RunContext(permissions={"records.write": "allow", "default": "allow"})
        return await agent.call_tool_in_context("write", own, text=text)

    return agent


@pytest.mark.parametrize("tool", ["write", "write_anyway"])
@pytest.mark.parametrize("forbidden", [False, True], ids=["allowed", "forbidden"])
async def test_a_child_may_do_nothing_that_its_caller_may_not(registry: Registry, tool: str, forbidden: bool) -> None:
    written: list[str] = []

    async def delegate(agent: Handled, task: Task) -> Task:
        # A context of the task's own can take away, not add.
        widening = RunContext(permissions={"records.write": "allow"})
        child = Task.create_tool_call(tool, {"text": "x"}, context=widening)
        match task.messages[0].text:
            case "run":
                answer = await agent.peer("clerk").run_task(child)
            case "call":
                answer = await agent.call_agent("clerk", child)
            case _:
                stream = agent.peer("clerk").run_task_streaming(child)
                states = [event.state async for event in stream if event.state is not None]
                return task.complete(str(states[-1]))
        return task.complete(str(answer.state))

    permissions = {"records.write": "deny"} if forbidden else {}
    async with clerk(registry, written), Handled("boss", delegate, registry) as boss:
        client = AgentClient(url=boss.card.url)
        for way in ("run", "call", "stream"):
            context = RunContext(permissions=permissions)
            done = await client.send_task(None, Task.create(way, context=context))
            assert done.messages[-1].text == ("failed" if forbidden else "completed")
        assert written == [] if forbidden else ["x"] * 3


async def test_a_caller_cannot_give_a_child_what_the_child_denies(registry: Registry) -> None:
    peer = thinking("clerk", registry, policy=CapabilityPolicy({"records.write": "deny"}))

    @peer.tool(capabilities=["records.write"])
    def write() -> str:
        raise AssertionError("it may not")

    context = RunContext(permissions={"records.write": "allow"})
    async with peer, thinking("boss", registry, call("clerk", "write"), {"type": "final", "content": "no"}) as boss:
        assert (await answered(boss, context=context)).get_output() == "no"
        assert "denied" in said_last(boss)


async def test_a_child_that_asks_is_answered_in_the_same_task(registry: Registry) -> None:
    async def greet(agent: Handled, task: Task) -> Task:
        if len(task.messages) == 1:
            return task.require_input(Message.agent("your name?"))
        return task.complete(f"hello {task.messages[-1].text}")

    async def forward(agent: Handled, task: Task) -> Task:
        peer = agent.peer("greeter")
        asked = await peer.run_task(Task.create("greet"))
        assert asked.state is TaskState.INPUT_REQUIRED
        asked.add_message(Message.user("Ada"))
        return task.complete((await peer.run_task(asked)).messages[-1].text)

    async with Handled("greeter", greet, registry) as greeter, Handled("front", forward, registry) as front:
        done = await AgentClient(url=front.card.url).send_task(None, Task.create("hi"))
        assert done.messages[-1].text == "hello Ada"
        assert len(await tasks_of(greeter)) == 1
        assert await ends(front, done.id) == [("action.completed", "greeter")] * 2


async def test_a_task_that_is_passed_on_as_it_is_counts_as_delegated(registry: Registry) -> None:
    async def hear(agent: Handled, task: Task) -> Task:
        return task.complete("heard")

    async def forward(agent: Handled, task: Task) -> Task:
        return await agent.call_agent("leaf", task)

    async with Handled("leaf", hear, registry) as leaf, Handled("front", forward, registry) as front:
        done = await AgentClient(url=front.card.url).send_task(None, Task.create("hi"))
        assert (done.state, done.messages[-1].text) == (TaskState.COMPLETED, "heard")
        assert leaf.contexts[0].agent_chain == ["front", "leaf"]
        assert await ends(front, done.id) == [("action.completed", "leaf")]


async def test_a_failed_child_is_returned_to_a_handler_and_raised_by_call_tool(registry: Registry) -> None:
    async def forward(agent: Handled, task: Task) -> Task:
        peer = agent.peer("weather")
        answer = await peer.run_task(Task.create_tool_call("forecast", {"city": "Atlantis"}))
        assert answer.state is TaskState.FAILED
        with pytest.raises(TaskExecutionError, match="no such place"):
            await peer.call_tool("forecast", city="Atlantis")
        return task.complete("seen")

    async with weather(registry), Handled("front", forward, registry) as front:
        assert (await AgentClient(url=front.card.url).send_task(None, Task.create("hi"))).messages[-1].text == "seen"


async def test_a_tool_in_a_thread_calls_peers_as_a_part_of_its_run(registry: Registry) -> None:
    begun = asyncio.Event()
    front, back = thinking("front", registry), thinking("back", registry)

    @front.tool
    def outer(tool: str) -> int:
        return 1 + int(front.peer("back").call_tool_sync(tool))

    @back.tool
    async def count() -> int:
        return 41

    @back.tool
    async def hang() -> int:
        begun.set()
        await asyncio.Event().wait()
        return 0

    async with front, back:
        client = AgentClient(url=front.card.url)
        done = await client.send_task(None, Task.create_tool_call("outer", {"tool": "count"}))
        assert done.get_output() == 42
        assert await ends(front, done.id) == [("action.completed", "back"), ("action.completed", "outer")]
        task = await client.submit_task(None, Task.create_tool_call("outer", {"tool": "hang"}))
        await begun.wait()
        await client.cancel_task(None, task.id, reason="enough")
        there = AgentClient(url=back.card.url)
        ended = await there.wait_task((await there.list_tasks()).tasks[0].id)
        assert (ended.state, ended.metadata["cancel_reason"]) == (TaskState.CANCELED, "enough")


async def test_a_reader_that_leaves_a_childs_stream_leaves_the_child_alone(registry: Registry) -> None:
    go = asyncio.Event()

    async def work(agent: Handled, task: Task) -> Task:
        await go.wait()
        return task.complete("done")

    async def peek(agent: Handled, task: Task) -> Task:
        child = Task.create("work")
        stream = agent.peer("worker").run_task_streaming(child)
        async for event in stream:
            if event.state is TaskState.WORKING:
                break
        await stream.aclose()
        return task.complete(child.id)

    async with Handled("worker", work, registry) as worker, Handled("front", peek, registry) as front:
        child_id = (await AgentClient(url=front.card.url).send_task(None, Task.create("hi"))).messages[-1].text
        go.set()
        ended = await AgentClient(url=worker.card.url).wait_task(child_id)
        assert ended.state is TaskState.COMPLETED


# -- the registry -------------------------------------------------------------------------------------------------------------


def offered(agent: Agent, nth: int = -1) -> str:
    request = agent.llm.requests[nth]  # type: ignore[union-attr]  # a ScriptedLLM
    return f"{request.system} {[each.content for each in request.messages]} {request.tools}"


async def test_peers_are_followed_and_not_asked_for_again(registry: Registry) -> None:
    counting = CountingClient(registry.url)
    steps = (call("weather", "forecast", city="Rome"), {"type": "final", "content": "go"})
    async with weather(registry), thinking("planner", counting, *steps) as planner:
        for _ in range(3):
            assert (await answered(planner)).state is TaskState.COMPLETED
        asked = {name: times for name, times in counting.calls.items() if name not in ("RegisterAgent", "RenewLease")}
        assert asked == {"WatchAgents": 1}
        assert "guide" not in offered(planner)
        async with thinking("guide", registry, {"type": "final", "content": "x"}):
            async with asyncio.timeout(PATIENCE_S):
                while "the guide" not in offered(planner):
                    await answered(planner)
        asked = {name: times for name, times in counting.calls.items() if name not in ("RegisterAgent", "RenewLease")}
        assert asked == {"WatchAgents": 1}
        # It has left: it is offered no more.
        async with asyncio.timeout(PATIENCE_S):
            while "the guide" in offered(planner):
                await answered(planner)


async def test_an_agent_goes_on_delegating_while_its_registry_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protolink_grpc.agent.lifecycle.UNREGISTER_WAIT_S", 0.05)

    async def forward(agent: Handled, task: Task) -> Task:
        return task.complete(str(await agent.peer("weather").call_tool("forecast", city="Rome")))

    steps = (call("weather", "forecast", city="Rome"), {"type": "final", "content": "go"})
    registry = Registry()
    await registry.serve()
    client = RegistryClient(registry.url, timeout=0.5)
    async with (
        weather(registry) as peer,
        thinking("planner", client, *steps) as planner,
        Handled("front", forward, client) as front,
    ):
        for away in (False, True):
            if away:
                await registry.aclose()
            assert (await answered(planner)).state is TaskState.COMPLETED
            done = await AgentClient(url=front.card.url).send_task(None, Task.create("hi"))
            assert done.state is TaskState.COMPLETED
        assert len(peer.forecasts) == 4  # type: ignore[attr-defined]  # see `weather`


async def test_an_agent_thinks_also_where_no_registry_was_ever_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protolink_grpc.agent.peers.FIRST_CARDS_S", 0.05)
    monkeypatch.setattr("protolink_grpc.agent.lifecycle.REGISTER_WAIT_S", 0.05)
    async with thinking("planner", "grpc://127.0.0.1:1", {"type": "final", "content": "alone"}) as planner:
        assert (await answered(planner)).get_output() == "alone"


# -- time and death -----------------------------------------------------------------------------------------------------------


async def test_a_child_may_take_longer_than_one_call_waits(registry: Registry) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def work(agent: Handled, task: Task) -> Task:
        begun.set()
        await go.wait()
        return task.complete("done at last")

    async def forward(agent: Handled, task: Task) -> Task:
        agent._clients.own.timeout = 0.1
        sending = asyncio.ensure_future(agent.peer("worker").run_task(Task.create("work")))
        await begun.wait()
        await asyncio.wait([sending], timeout=0.5)  # several times what one call waits
        go.set()
        return task.complete((await sending).messages[-1].text)

    async with Handled("worker", work, registry) as worker, Handled("front", forward, registry) as front:
        done = await AgentClient(url=front.card.url).send_task(None, Task.create("hi"))
        assert done.messages[-1].text == "done at last"
        assert len(worker.contexts) == 1


PARENT = """
    import asyncio, sys
    from protolink_grpc import Agent, AgentCard, ScriptedLLM, SQLiteStore

    registry, path, url = sys.argv[1:]
    call = {"type": "agent_call", "agent": "worker", "action": "tool_call", "tool": "work", "args": {}}
    llm = ScriptedLLM([call, {"type": "final", "content": "all done"}])
    agent = Agent(AgentCard(name="parent", description="d", url=url), registry=registry, llm=llm, store=SQLiteStore(path))

    async def main():
        await agent.serve()
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


@pytest.mark.parametrize("ended_meanwhile", [False, True], ids=["the child still works", "the child has ended"])
async def test_a_parent_that_was_killed_finds_the_child_that_it_began(
    registry: Registry, tmp_path: Path, launch: Callable[..., Awaitable[Any]], ended_meanwhile: bool
) -> None:
    begun, go, runs = asyncio.Event(), asyncio.Event(), 0
    worker = thinking("worker", registry)

    @worker.tool
    async def work() -> str:
        nonlocal runs
        runs += 1
        begun.set()
        await go.wait()
        return "worked"

    async with worker:
        parent = await launch(PARENT, registry.url, tmp_path / "parent.db", "grpc://127.0.0.1:0")
        task = Task.create_infer(prompt="do it")
        await AgentClient(url=await parent.line()).submit_task(None, task)
        async with asyncio.timeout(PATIENCE_S):
            await begun.wait()
        await parent.kill()
        if ended_meanwhile:
            go.set()
            await AgentClient(url=worker.card.url).wait_task((await tasks_of(worker))[0])
        parent = await launch(PARENT, registry.url, tmp_path / "parent.db", "grpc://127.0.0.1:0")
        client = AgentClient(url=await parent.line())
        if not ended_meanwhile:
            async with asyncio.timeout(PATIENCE_S):
                async for event in client.subscribe(task.id):
                    if event.type == "action.started" and event.run_id != (await first_run(client, task.id)):
                        break
            go.set()
        async with asyncio.timeout(PATIENCE_S):
            done = await client.wait_task(task.id)
        assert (done.state, done.get_output()) == (TaskState.COMPLETED, "all done")
        assert runs == 1
        assert len(await tasks_of(worker)) == 1


ASKING = """
    import asyncio, sys
    from protolink_grpc import Agent, ScriptedLLM, SQLiteStore

    registry, path = sys.argv[1:]
    steps = [{"type": "tool_call", "tool": name, "args": {}} for name in ("ask", "pause", "ask")]
    llm = ScriptedLLM([*steps, lambda request: request.messages[-1].content])
    agent = Agent(name="asking", url="grpc://127.0.0.1:0", registry=registry, llm=llm, store=SQLiteStore(path))

    @agent.tool
    async def ask() -> int:
        return await agent.peer("worker").call_tool("count")

    @agent.tool(idempotent=True)
    async def pause() -> None:
        await agent.peer("worker").call_tool("pause")

    async def main():
        await agent.serve()
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


async def test_a_tool_that_is_called_again_after_a_crash_asks_its_peer_again(
    registry: Registry, tmp_path: Path, launch: Callable[..., Awaitable[Any]]
) -> None:
    begun, go, counts = asyncio.Event(), asyncio.Event(), 0
    worker = thinking("worker", registry)

    @worker.tool
    async def count() -> int:
        nonlocal counts
        counts += 1
        return counts

    @worker.tool
    async def pause() -> None:
        begun.set()
        await go.wait()

    async with worker:
        asking = await launch(ASKING, registry.url, tmp_path / "asking.db")
        task = Task.create_infer(prompt="count")
        await AgentClient(url=await asking.line()).submit_task(None, task)
        async with asyncio.timeout(PATIENCE_S):
            await begun.wait()
        await asking.kill()
        go.set()
        asking = await launch(ASKING, registry.url, tmp_path / "asking.db")
        async with asyncio.timeout(PATIENCE_S):
            done = await AgentClient(url=await asking.line()).wait_task(task.id)
    assert (done.state, done.get_output(), counts) == (TaskState.COMPLETED, "2", 2)


async def first_run(client: AgentClient, task_id: str) -> str:
    async for event in client.subscribe(task_id):
        if event.state is TaskState.WORKING:
            return event.run_id
    raise AssertionError("it has never run")
