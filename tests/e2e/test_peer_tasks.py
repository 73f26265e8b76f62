"""The ids of delegated tasks at other agents are in the log, and a recovered run finds an A2A agent's task by them."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.utils.errors import InternalError
from delegation_world import Handled, call, log_of, thinking
from foreign_world import GRPC, JSONRPC, REST, A2AServer, a2a_server

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    AppendedFacts,
    Limits,
    Message,
    Pipeline,
    Registry,
    RunEvent,
    SQLiteStore,
    Task,
    TaskNotFoundError,
    TaskState,
    UnavailableError,
    UncertainExecutionError,
)
from protolink_grpc.models.events import ActionStarted, PeerTaskLinked

Launch = Callable[..., Awaitable[Any]]

CALLER = """
    import asyncio, sys
    from protolink_grpc import Agent, AgentCard, Pipeline

    kind, path, peer, dies_at, faults = sys.argv[1:]
    sys.path.append(faults)
    from mortal_agent import Mortal

    class Caller(Agent):
        async def handle_task(self, task):
            if kind == "two calls":
                await self.call_agent(peer, "sweep")
            answer = await self.call_agent(peer, "work 1")
            return task.complete(answer.messages[-1].text)

    async def main():
        card = AgentCard(name="caller", description="calls", url="grpc://127.0.0.1:0")
        if kind == "flow":
            agent = Agent(card, flow=Pipeline([peer]), store=Mortal(path, int(dies_at)))
        else:
            agent = Caller(card, store=Mortal(path, int(dies_at)))
        await agent.serve()
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


FAULTS = Path(__file__).parents[1] / "faults"

DEATHS = range(2, 10)
"""Lengths of the log of a task that calls a peer: its first event is the submission, its last one the end."""


class Caller(Agent):
    """The agent of `CALLER`, in this process."""

    def __init__(self, kind: str, path: Path, peer: str) -> None:
        own = AgentCard(name="caller", description="calls", url="grpc://127.0.0.1:0")
        flow = Pipeline([peer]) if kind == "flow" else None
        super().__init__(own, flow=flow, store=SQLiteStore(path), recovery="resume", grace_s=0.1)
        self._kind = kind
        self._peer = peer

    async def handle_task(self, task: Task) -> Task:
        if self._kind == "flow":
            return await super().handle_task(task)
        first = await self.call_agent(self._peer, "sweep") if self._kind == "two calls" else None
        answer = await self.call_agent(self._peer, "work 1")
        before = "" if first is None else f"{first.state}: {first.get_output()}, {first.artifacts[0].name}, "
        return task.complete(before + answer.messages[-1].text)


def links(log: Sequence[RunEvent]) -> list[PeerTaskLinked]:
    return [event.payload for event in log if isinstance(event.payload, PeerTaskLinked)]


async def linked(client: AgentClient, task_id: str, number: int = 1) -> PeerTaskLinked:
    """The ids of a delegated task, as soon as they are in the log."""
    async for event in client.subscribe(task_id):
        if isinstance(event.payload, PeerTaskLinked):
            number -= 1
            if not number:
                return event.payload
    raise AssertionError("the log has no ids")


async def killed_while_the_peer_works(launch: Launch, kind: str, path: Path, server: A2AServer) -> tuple[str, str]:
    """Return the id of the task, and the id of the task that it has delegated."""
    program = await launch(CALLER, kind, path, server.url, 0, FAULTS)
    client = AgentClient(url=await program.line())
    task = await client.submit_task(None, Task.create("work 1"))
    link = await linked(client, task.id, 2 if kind == "two calls" else 1)
    await program.kill()
    return task.id, link.task_id


def finish(server: A2AServer) -> None:
    for _ in range(2):
        server.errands.released.release()


# -- ids in the log ----------------------------------------------------------------------------------------------------------


async def test_the_ids_at_an_agent_of_this_package_are_committed_with_the_start_of_the_action() -> None:
    appends: list[list[type[Any]]] = []

    def note(appended: AppendedFacts) -> None:
        appends.append([type(each) for each in appended.payloads])

    async def work(agent: Handled, task: Task) -> Task:
        return task.complete("worked")

    async def delegate(agent: Handled, task: Task) -> Task:
        answers = [await agent.call_agent(worker.card.url, str(number)) for number in range(2)]
        return task.complete(answers[1].id)

    async with Handled("worker", work) as worker, Handled("boss", delegate, observers=[note]) as boss:
        task = await AgentClient(url=boss.card.url).send_task(None, Task.create("go"))
        log = await log_of(boss, task.id)
        done = await AgentClient(url=worker.card.url).get_task(task.messages[-1].text)
        first, second = (event for event in log if isinstance(event.payload, PeerTaskLinked))
        assert done.session_id
        assert second.payload == PeerTaskLinked("", worker.card.url, "plgrpc", done.id, done.session_id)
        started = [event.action_id for event in log if isinstance(event.payload, ActionStarted)]
        assert [first.action_id, second.action_id] == started
    # The first call opens the connection meanwhile.
    assert [kinds[-2:] for kinds in appends if PeerTaskLinked in kinds][1] == [ActionStarted, PeerTaskLinked]


async def test_a_peer_of_the_registry_has_its_name_and_the_called_instance() -> None:
    async with Registry() as registry:
        worker = thinking("worker", registry)
        worker.add_tool(double)
        boss = thinking("boss", registry, call("worker", "double", n=2), {"type": "final", "content": "done"})
        async with worker, boss:
            task = await AgentClient(url=boss.card.url).send_task(None, Task.create_infer(prompt="go"))
            (link,) = links(await log_of(boss, task.id))
            assert (link.agent_name, link.url, link.protocol) == ("worker", worker.card.url, "plgrpc")
            assert (await AgentClient(url=worker.card.url).get_task(link.task_id)).state is TaskState.COMPLETED


def double(n: int) -> int:
    """Double a number."""
    return 2 * n


async def test_an_agent_of_this_package_is_called_over_its_own_protocol_also_at_its_http_port() -> None:
    async def work(agent: Handled, task: Task) -> Task:
        return task.complete("worked")

    async with Handled("worker", work, http="127.0.0.1:0") as worker:
        url = worker.http_url

        async def delegate(agent: Handled, task: Task) -> Task:
            return task.complete((await agent.call_agent(url, "go")).id)

        async with Handled("boss", delegate) as boss:
            task = await AgentClient(url=boss.card.url).send_task(None, Task.create("go"))
            (link,) = links(await log_of(boss, task.id))
            assert (link.url, link.protocol, link.task_id) == (url, "plgrpc", task.messages[-1].text)


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "blocking"])
@pytest.mark.parametrize("binding", [JSONRPC, REST, GRPC])
async def test_the_ids_at_an_a2a_agent_are_in_the_log(binding: str, streaming: bool) -> None:
    async with a2a_server(binding, streaming=streaming) as server:

        async def delegate(agent: Handled, task: Task) -> Task:
            answer = await agent.call_agent(server.url, Task.create("sweep", session_id="trip"))
            return task.complete(str(answer.get_output()))

        async with Handled("boss", delegate) as boss:
            task = await AgentClient(url=boss.card.url).send_task(None, Task.create("go"))
            assert task.messages[-1].text == "did: sweep"
            (heard,) = server.errands.heard
            (link,) = links(await log_of(boss, task.id))
            assert (link.agent_name, link.url, link.protocol) == ("errands", server.url, "a2a")
            assert (link.task_id, link.context_id) == (heard.task_id, heard.context_id)


async def test_a_call_that_is_stopped_before_the_first_response_passes_the_ids_on() -> None:
    async with a2a_server() as server:
        received, responds = asyncio.Event(), asyncio.Event()
        execute, noted = server.errands.execute, list[PeerTaskLinked]()

        async def respond_late(context: RequestContext, event_queue: EventQueue) -> None:
            received.set()
            await responds.wait()
            await execute(context, event_queue)

        async def note(link: PeerTaskLinked) -> None:
            noted.append(link)

        server.errands.execute = respond_late  # type: ignore[method-assign]
        client, task = AgentClient(), Task.create("work 1")
        with client.a2a_tasks(server.url).note_ids(task.id, note):
            sending = asyncio.ensure_future(client.send_task(server.url, task))
            await received.wait()
            sending.cancel()
            responds.set()
            with pytest.raises(asyncio.CancelledError):
                await sending
        (heard,) = server.errands.heard
        assert [(link.agent_name, link.task_id, link.context_id) for link in noted] == [
            ("errands", heard.task_id, heard.context_id)
        ]
        finish(server)
        await server.errands.done.wait()


async def test_a_response_without_a_task_has_no_ids() -> None:
    async with a2a_server() as server:

        async def delegate(agent: Handled, task: Task) -> Task:
            return task.complete(str((await agent.call_agent(server.url, "say it")).get_output()))

        async with Handled("boss", delegate) as boss:
            task = await AgentClient(url=boss.card.url).send_task(None, Task.create("go"))
            assert task.messages[-1].text == "said"
            assert links(await log_of(boss, task.id)) == []


# -- recovery ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["handler", "flow"])
@pytest.mark.parametrize(
    ("binding", "version"), [(JSONRPC, "1.0"), (GRPC, "1.0"), (REST, "0.3")], ids=lambda value: str(value)
)
async def test_a_killed_agent_continues_the_task_that_an_a2a_agent_has(
    kind: str, binding: str, version: str, tmp_path: Path, launch: Launch
) -> None:
    async with a2a_server(binding, version=version) as server:
        task_id, remote_id = await killed_while_the_peer_works(launch, kind, tmp_path / "tasks.db", server)
        async with Caller(kind, tmp_path / "tasks.db", server.url) as agent:
            client = AgentClient(url=agent.card.url)
            finish(server)
            task = await client.wait_task(task_id)
            assert (task.state, task.messages[-1].text) == (TaskState.COMPLETED, "finished")
            assert [message.task_id for message in server.errands.heard] == [remote_id]
            log = await log_of(agent, task_id)
            assert [link.task_id for link in links(log)] == [remote_id]
            assert len([event for event in log if event.type == "action.started"]) == 2


@pytest.mark.parametrize("dies_at", DEATHS)
async def test_wherever_the_log_ends_the_a2a_agent_has_one_task(dies_at: int, tmp_path: Path, launch: Launch) -> None:
    async with a2a_server() as server:
        program = await launch(CALLER, "handler", tmp_path / "tasks.db", server.url, dies_at, FAULTS)
        finish(server)
        task = Task.create("go")
        with suppress(UnavailableError, UncertainExecutionError):
            await AgentClient(url=await program.line(), outage_s=0).submit_task(None, task)
        assert await program.end() == -signal.SIGKILL
        async with Caller("handler", tmp_path / "tasks.db", server.url) as agent:
            done = await AgentClient(url=agent.card.url).wait_task(task.id)
            assert (done.state, done.messages[-1].text) == (TaskState.COMPLETED, "finished")
        assert len(server.errands.heard) == 1


async def test_a_task_that_ended_while_its_caller_was_dead_is_read(tmp_path: Path, launch: Launch) -> None:
    async with a2a_server() as server:
        task_id, _ = await killed_while_the_peer_works(launch, "handler", tmp_path / "tasks.db", server)
        finish(server)
        await server.errands.done.wait()
        async with Caller("handler", tmp_path / "tasks.db", server.url) as agent:
            task = await AgentClient(url=agent.card.url).wait_task(task_id)
            assert (task.state, task.messages[-1].text) == (TaskState.COMPLETED, "finished")
        assert len(server.errands.heard) == 1


async def test_a_task_that_the_agent_has_lost_is_sent_again(tmp_path: Path, launch: Launch) -> None:
    async with a2a_server() as server:
        task_id, first = await killed_while_the_peer_works(launch, "handler", tmp_path / "tasks.db", server)
        port = int(server.url.rpartition(":")[2])
        finish(server)
        await server.errands.done.wait()
    async with a2a_server(port=port) as server, Caller("handler", tmp_path / "tasks.db", server.url) as agent:
        finish(server)
        task = await AgentClient(url=agent.card.url).wait_task(task_id)
        assert (task.state, task.messages[-1].text) == (TaskState.COMPLETED, "finished")
        (heard,) = server.errands.heard
        assert [link.task_id for link in links(await log_of(agent, task_id))] == [first, heard.task_id]


@pytest.mark.parametrize("binding", [JSONRPC, REST, GRPC])
async def test_a_task_is_not_sent_again_while_its_agent_fails(binding: str, tmp_path: Path, launch: Launch) -> None:
    async with a2a_server(binding) as server:
        task_id, remote_id = await killed_while_the_peer_works(launch, "handler", tmp_path / "tasks.db", server)
        get_task, failed = server.handler.on_get_task, asyncio.Semaphore(0)

        async def fail(*_: Any) -> Any:
            failed.release()
            raise InternalError("the database is away")

        server.handler.on_get_task = fail
        async with Caller("handler", tmp_path / "tasks.db", server.url) as agent:
            for _ in range(2):
                await failed.acquire()
            server.handler.on_get_task = get_task
            finish(server)
            task = await AgentClient(url=agent.card.url).wait_task(task_id)
            assert (task.state, task.messages[-1].text) == (TaskState.COMPLETED, "finished")
        assert [message.task_id for message in server.errands.heard] == [remote_id]


async def test_a_recorded_answer_is_read_from_the_log_without_a_call_of_the_agent(
    tmp_path: Path, launch: Launch
) -> None:
    async with a2a_server() as server:
        task_id, _ = await killed_while_the_peer_works(launch, "two calls", tmp_path / "tasks.db", server)
        port = int(server.url.rpartition(":")[2])
        finish(server)
        await server.errands.done.wait()
    # This one has lost both tasks.
    async with a2a_server(port=port) as server, Caller("two calls", tmp_path / "tasks.db", server.url) as agent:
        finish(server)
        task = await AgentClient(url=agent.card.url).wait_task(task_id)
        assert (task.state, task.messages[-1].text) == (
            TaskState.COMPLETED,
            "completed: did: sweep, result, finished",
        )
        assert [part.text for message in server.errands.heard for part in message.parts] == ["work 1"]


async def test_only_the_task_with_the_same_context_is_taken_up() -> None:
    async with a2a_server() as server:
        first = await AgentClient().send_task(server.url, Task.create("sweep"))
        ids = first.metadata["a2a"]
        sent = Task.create("sweep")
        tasks = AgentClient().a2a_tasks(server.url)
        right = PeerTaskLinked("errands", server.url, "a2a", ids["task_id"], ids["context_id"])
        assert not await tasks.adopt(sent, replace(right, context_id="another"), 10)
        with pytest.raises(TaskNotFoundError):
            await tasks.adopt(sent, replace(right, task_id="another"), 10)
        assert await tasks.adopt(sent, right, 10)


async def test_a_question_is_taken_as_the_answer_to_a_message_only_if_the_agent_has_the_message() -> None:
    async with a2a_server() as server:
        asked = await AgentClient().send_task(server.url, Task.create("book"))
        ids = asked.metadata["a2a"]
        link = PeerTaskLinked("errands", server.url, "a2a", ids["task_id"], ids["context_id"])
        client = AgentClient()
        assert await client.a2a_tasks(server.url).adopt(Task.create("book"), link, 10)
        continued = asked.add_message(Message.user("book"))
        assert not await client.a2a_tasks(server.url).adopt(continued, link, 10)
        await AgentClient().send_task(server.url, continued)
        assert await client.a2a_tasks(server.url).adopt(continued, link, 10)


async def test_a_cancel_of_a_recovered_task_reaches_the_a2a_agent(tmp_path: Path, launch: Launch) -> None:
    async with a2a_server() as server:
        task_id, remote_id = await killed_while_the_peer_works(launch, "handler", tmp_path / "tasks.db", server)
        get_task, asked = server.handler.on_get_task, asyncio.Event()

        async def note(*given: Any) -> Any:
            asked.set()
            return await get_task(*given)

        server.handler.on_get_task = note
        async with Caller("handler", tmp_path / "tasks.db", server.url) as agent:
            await asked.wait()
            await AgentClient(url=agent.card.url).cancel_task(None, task_id)
            await server.errands.stopped.wait()
        assert server.errands.canceled == [remote_id]


async def ended_as_canceled(agent: Agent, task_id: str) -> None:
    """The task is canceled, and its log has the end of the delegation before that."""
    task = await AgentClient(url=agent.card.url).wait_task(task_id)
    assert task.state is TaskState.CANCELED
    kinds = [event.type for event in await log_of(agent, task_id)]
    assert kinds.count("action.canceled") == 1
    assert kinds.index("action.canceled") < len(kinds) - 1


async def test_a_cancel_whose_process_died_reaches_the_a2a_agent_after_the_restart(
    tmp_path: Path, launch: Launch
) -> None:
    async with a2a_server() as server:
        cancel_request = 7
        program = await launch(CALLER, "handler", tmp_path / "tasks.db", server.url, cancel_request, FAULTS)
        client = AgentClient(url=await program.line(), outage_s=0)
        task = await client.submit_task(None, Task.create("go"))
        link = await linked(client, task.id)
        with suppress(UnavailableError):
            await client.cancel_task(None, task.id, reason="no longer needed")
        assert await program.end() == -signal.SIGKILL
        assert server.errands.canceled == []
        async with Caller("handler", tmp_path / "tasks.db", server.url) as agent:
            await ended_as_canceled(agent, task.id)
            assert server.errands.canceled == [link.task_id]
        async with Caller("handler", tmp_path / "tasks.db", server.url):
            pass
        assert server.errands.canceled == [link.task_id]


async def test_a_cancel_whose_process_died_reaches_an_agent_of_this_package_after_the_restart(
    tmp_path: Path, launch: Launch
) -> None:
    async def work(agent: Handled, task: Task) -> None:
        await asyncio.Event().wait()

    async with Handled("worker", work) as worker:
        program = await launch(CALLER, "handler", tmp_path / "tasks.db", worker.card.url, 7, FAULTS)
        client = AgentClient(url=await program.line(), outage_s=0)
        task = await client.submit_task(None, Task.create("go"))
        link = await linked(client, task.id)
        with suppress(UnavailableError):
            await client.cancel_task(None, task.id, reason="no longer needed")
        assert await program.end() == -signal.SIGKILL
        async with Caller("handler", tmp_path / "tasks.db", worker.card.url) as agent:
            await ended_as_canceled(agent, task.id)
            child = await AgentClient(url=worker.card.url).wait_task(link.task_id)
            assert (child.state, child.cancel_reason) == (TaskState.CANCELED, "no longer needed")


async def test_a_task_ends_as_canceled_after_a_failed_cancel_of_its_delegated_task_is_repeated(
    tmp_path: Path, launch: Launch
) -> None:
    async with a2a_server() as server:
        program = await launch(CALLER, "handler", tmp_path / "tasks.db", server.url, 7, FAULTS)
        client = AgentClient(url=await program.line(), outage_s=0)
        task = await client.submit_task(None, Task.create("go"))
        link = await linked(client, task.id)
        with suppress(UnavailableError):
            await client.cancel_task(None, task.id)
        assert await program.end() == -signal.SIGKILL
        cancel_task, refusals = server.handler.on_cancel_task, [1, 2]

        async def fail(*given: Any) -> Any:
            if refusals:
                refusals.pop()
                raise InternalError("the database is away")
            return await cancel_task(*given)

        server.handler.on_cancel_task = fail
        async with Caller("handler", tmp_path / "tasks.db", server.url) as agent:
            await ended_as_canceled(agent, task.id)
        assert server.errands.canceled == [link.task_id]


class Late(Caller):
    """An agent that is canceled before it comes to its delegation."""

    def __init__(self, path: Path, peer: str) -> None:
        super().__init__("handler", path, peer)
        self.begun = asyncio.Event()

    async def handle_task(self, task: Task) -> Task:
        self.begun.set()
        await asyncio.Event().wait()
        return task


async def test_a_cancel_of_a_recovered_run_reaches_delegations_that_it_has_not_come_to(
    tmp_path: Path, launch: Launch
) -> None:
    async with a2a_server() as server:
        task_id, remote_id = await killed_while_the_peer_works(launch, "handler", tmp_path / "tasks.db", server)
        async with Late(tmp_path / "tasks.db", server.url) as agent:
            await agent.begun.wait()
            await AgentClient(url=agent.card.url).cancel_task(None, task_id)
            await ended_as_canceled(agent, task_id)
        assert server.errands.canceled == [remote_id]


async def test_a_cancel_of_a_retry_that_waits_reaches_what_the_lost_attempt_has_delegated(
    tmp_path: Path, launch: Launch
) -> None:
    async with a2a_server() as server:
        task_id, remote_id = await killed_while_the_peer_works(launch, "handler", tmp_path / "tasks.db", server)

        async def wait(agent: Handled, task: Task) -> None:
            await asyncio.Event().wait()

        store, limits = SQLiteStore(tmp_path / "tasks.db"), Limits(max_concurrency=1)
        async with Handled("caller", wait, store=store, recovery="lost", limits=limits) as agent:
            client = AgentClient(url=agent.card.url)
            assert (await client.wait_task(task_id)).state is TaskState.FAILED
            await client.submit_task(None, Task.create("take the slot"))
            await client.tasks.retry(task_id)
            await client.cancel_task(None, task_id)
            await ended_as_canceled(agent, task_id)
        assert server.errands.canceled == [remote_id]


async def test_an_orderly_stop_leaves_the_task_to_the_next_process(tmp_path: Path) -> None:
    async with a2a_server() as server:
        async with Caller("handler", tmp_path / "tasks.db", server.url) as agent:
            client = AgentClient(url=agent.card.url)
            task = await client.submit_task(None, Task.create("go"))
            await linked(client, task.id)
        assert server.errands.canceled == []
        async with Caller("handler", tmp_path / "tasks.db", server.url) as agent:
            finish(server)
            done = await AgentClient(url=agent.card.url).wait_task(task.id)
            assert (done.state, done.messages[-1].text) == (TaskState.COMPLETED, "finished")
        assert len(server.errands.heard) == 1
