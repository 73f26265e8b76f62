"""A run has one id in the events, the report, the store and the context: the caller's run id if there is one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from delegation_world import PATIENCE_S, card
from protolink.core.run_context import RunContext as PeerContext
from protolink.models import Task as PeerTask
from protolink_peer_world import TRANSPORTS, peer_client
from routes_world import ROUTES, Routes, serving

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    InvalidArgumentError,
    Message,
    Part,
    ProtolinkError,
    RunContext,
    SQLiteRunStore,
    Task,
    TaskState,
    current_run,
)

NUMBERED = ("runtime", "grpc", "http")
"""Routes that show the log as it is."""


class Clerk(Agent):
    """Does what the text says, and keeps the context of each run."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.contexts: list[RunContext] = []
        self.seen: list[dict[str, Any]] = []

    async def handle_task(self, task: Task) -> Task:
        run = current_run()
        assert run is not None
        self.contexts.append(run.context)
        self.seen.append(task.metadata["run_context"])
        text = task.messages[-1].text
        if text == "fail":
            raise ValueError("as asked")
        return task.require_input("which?") if text == "ask" else task.complete("done")


World = Routes[Clerk]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    local = Clerk(AgentCard(name="clerk", description="does it", url="runtime://clerk"))
    async with serving(local, Clerk(card("clerk"), http="127.0.0.1:0")) as world:
        yield world


def named(run_id: str, text: str = "go", **context: Any) -> Task:
    return Task.create(text, context=RunContext(run_id=run_id, **context))


# -- the caller's name -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("route", ROUTES)
async def test_a_run_has_the_name_that_its_caller_gives_it(world: World, route: str) -> None:
    done = await world.client(route).send_task(None, named("my run/1", agent_chain=["planner"]))
    told = done.metadata["run_context"]
    assert (told["run_id"], done.metadata["run_id"]) == ("my run/1", "my run/1")
    assert told["agent_chain"] == ["planner", "clerk"]
    context, seen = world.agents[route].contexts[0], world.agents[route].seen[0]
    assert (context.run_id, context.agent_chain) == ("my run/1", ["planner", "clerk"])
    assert (seen["run_id"], seen["agent_chain"]) == ("my run/1", ["planner", "clerk"])


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_real_protolink_client_names_the_run(world: World, transport: str) -> None:
    task = PeerTask.create("go")
    PeerContext(run_id="peer-run").attach_to_task(task)
    async with peer_client(transport) as client:
        done = await client.send_task(world.urls["ws" if transport == "websocket" else "http"], task)
    assert (done.metadata["run_id"], done.metadata["run_context"]["run_id"]) == ("peer-run", "peer-run")
    assert done.metadata["run_context"]["agent_chain"] == ["clerk"]


@pytest.mark.parametrize("route", NUMBERED)
async def test_events_report_and_list_have_the_callers_name(world: World, route: str) -> None:
    client = world.client(route)
    events = [event async for event in client.send_task_streaming(None, named("mine"))]
    assert {event.run_id for event in events} == {"mine"}
    task_id = events[0].task_id
    for report in (await client.get_run_report(None, task_id), await client.get_run_report(None, task_id, "mine")):
        assert report.run_id == "mine"
        assert report.context is not None
        assert report.context.agent_chain == ["clerk"]
        assert report.final_task is not None
        assert report.final_task.metadata["run_context"]["agent_chain"] == ["clerk"]
    assert [task.run_id for task in (await client.list_tasks()).tasks] == ["mine"]


@pytest.mark.parametrize("run_id", ["x" * 129, "é" * 65, "a\nb", "a\x00b"])
@pytest.mark.parametrize("route", ROUTES)
async def test_a_run_id_that_is_too_long_or_unprintable_is_refused(world: World, route: str, run_id: str) -> None:
    with pytest.raises(ProtolinkError, match="1 to 128 bytes of printable text") as refused:
        await world.client(route).send_task(None, named(run_id))
    if route in NUMBERED:
        assert isinstance(refused.value, InvalidArgumentError)
        assert refused.value.field == "input.options.run_id"
    assert ("input.options.run_id" if route in NUMBERED else "context.run_id") in str(refused.value)
    assert world.agents[route].contexts == []


# -- a context after every run -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["go", "fail", "ask"])
@pytest.mark.parametrize("route", ROUTES)
async def test_every_run_leaves_a_context_in_its_task(world: World, route: str, text: str) -> None:
    done = await world.client(route).send_task(None, Task.create(text))
    told, own = done.metadata["run_context"], world.agents[route].contexts[0]
    assert told["agent_chain"] == own.agent_chain == ["clerk"]
    assert told["session_id"] == done.metadata["session_id"]
    assert told["run_id"] == done.metadata["run_id"] != ""
    if route != "a2a":  # A2A does not tell the name of a run that its caller has not given
        assert told["run_id"] == own.run_id
        assert RunContext.from_dict(told).created_at == own.created_at


async def test_the_context_is_the_same_over_all_routes_that_show_the_log(world: World) -> None:
    clerk = world.agents["grpc"]
    sent = await AgentClient(url=world.urls["grpc"]).send_task(None, Task.create("go"))
    got = await AgentClient(url=world.urls["grpc"]).get_task(sent.id)
    assert sent.metadata["run_context"] == got.metadata["run_context"]
    fold = await (await clerk._own_service()).get(sent.id, "anonymous")
    assert fold.to_task().metadata["run_context"] == got.metadata["run_context"]
    context = fold.run_context
    assert context is not None
    assert context.to_dict() == got.metadata["run_context"]


# -- several runs, several tasks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("route", NUMBERED)
@pytest.mark.parametrize("name", [None, "first", "second"])
async def test_a_further_run_has_a_name_of_its_own(world: World, route: str, name: str | None) -> None:
    client = world.client(route)
    asked = await client.send_task(None, named("first", "ask"))
    assert asked.state is TaskState.INPUT_REQUIRED
    asked.add_message(Message.user("this"))
    assert asked.context is not None
    asked.context = None if name is None else asked.context.copy(run_id=name)
    done = await client.send_task(None, asked)
    first, second = [context.run_id for context in world.agents[route].contexts]
    assert first == "first" != second
    assert done.context is not None
    assert done.context.run_id == done.metadata["run_context"]["run_id"] == second
    assert second == "second" if name == "second" else second not in ("", "second")
    assert (await client.get_run_report(None, done.id, "first")).run_id == "first"
    assert (await client.get_run_report(None, done.id)).run_id == second


async def test_two_tasks_may_have_runs_of_one_name(tmp_path: Path) -> None:
    store = SQLiteRunStore(tmp_path / "runs.db")
    async with asyncio.timeout(PATIENCE_S), Clerk(card("clerk"), run_store=store) as clerk:
        client = AgentClient(url=clerk.card.url)
        one, two = [await client.send_task(None, named("shared")) for _ in range(2)]
        reports = [await client.get_run_report(None, task.id, "shared") for task in (one, two)]
        assert [report.task_id for report in reports] == [one.id, two.id]
        assert {record.task_id for record in store.list_task_records(run_id="shared")} == {one.id, two.id}
        record = store.get_report_record("shared")
        assert record is not None
        assert (record.task_id, record.run_id) == (two.id, "shared")


async def test_delegated_work_has_the_name_that_its_parent_gave_it(world: World) -> None:
    class Boss(Agent):
        async def handle_task(self, task: Task) -> Task:
            answer = await self.call_agent(world.urls["grpc"], Task.create("go"))
            task.metadata["child"] = answer.metadata["run_context"]
            return task.complete("done")

    async with Boss(card("boss")) as boss:
        done = await AgentClient(url=boss.card.url).send_task(None, named("above"))
    child, context = done.metadata["child"], world.agents["grpc"].contexts[0]
    assert child["parent_run_id"] == context.parent_run_id == "above"
    assert child["agent_chain"] == context.agent_chain == ["boss", "clerk"]
    assert child["run_id"] == context.run_id != "above"


# -- times -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("route", ["runtime", "grpc", "http", "ws"])
async def test_the_times_of_a_caller_travel(world: World, route: str) -> None:
    made, said = "2020-01-02T03:04:05.000006+00:00", "2021-01-02T03:04:05.000006+00:00"
    task = Task(created_at=made, messages=[Message("m", "user", [Part.text("go")], said)])
    done = await world.client(route).send_task(None, task)
    assert (done.created_at, done.messages[0].timestamp) == (made, said)
    client = AgentClient(url=world.agents[route].card.url)
    kept = await client.get_task(task.id)
    assert (kept.created_at, kept.messages[0].timestamp) == (made, said)
    assert [each.created_at for each in (await client.list_tasks()).tasks] == [made]
    assert done.messages[-1].timestamp > said
