"""Our client and our agents against a real A2A server, that of the official SDK, over each binding and both versions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing

import pytest
from cut_wire import Wire
from foreign_world import GRPC, JSONRPC, REST, A2AServer, a2a_server, listening, serving
from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Route

from protolink_grpc import (
    Agent,
    AgentClient,
    Message,
    Pipeline,
    Task,
    TaskExecutionError,
    TaskNotCancelableError,
    TaskNotFoundError,
    TaskState,
    UnauthenticatedError,
    UnavailableError,
    UncertainExecutionError,
)
from protolink_grpc.a2a.client import card_interfaces
from protolink_grpc.a2a.client import transport as a2a_way
from protolink_grpc.auth.credentials import BearerToken
from protolink_grpc.client.http_channel import close_http_channels
from protolink_grpc.errors import (
    AgentNotFoundError,
    InvalidAgentResponseError,
    UnimplementedError,
    UnsupportedOperationError,
)
from protolink_grpc.models.events import RunEvent, TaskArtifactUpdated, TaskMessagesAdded, TaskSubmitted
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.watch import StopAt

WAYS = [(JSONRPC, "1.0"), (REST, "1.0"), (GRPC, "1.0"), (JSONRPC, "0.3"), (REST, "0.3"), (GRPC, "0.3")]
interface = pytest.mark.parametrize(("binding", "version"), WAYS, ids=lambda value: str(value))


def folded(events: list[RunEvent]) -> TaskFold:
    """What the events add up to, if they are a log: numbered from 1, without gaps."""
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    fold = TaskFold(events[0].task_id)
    for event in events:
        assert not isinstance(event.payload, dict)
        fold.apply(event.payload, event.sequence or 0, 1, event.run_id)
    return fold


def texts(fold: TaskFold) -> list[str]:
    return [message.text for message in fold.messages]


# -- one turn ----------------------------------------------------------------------------------------------------------------


@interface
async def test_a_task_is_done_and_keeps_its_id(binding: str, version: str) -> None:
    async with a2a_server(binding, version=version) as server:
        task = Task.create("sweep")
        done = await AgentClient().send_task(server.url, task)
        assert (done.id, done.state, done.get_output()) == (task.id, TaskState.COMPLETED, "did: sweep")
        assert done.metadata["a2a"]["url"] == server.url
        assert done.metadata["a2a"]["task_id"] not in ("", task.id)
        assert [message.text for message in done.messages] == ["sweep"]
        assert [change["new_state"] for change in done.metadata["state_history"]] == ["working", "completed"]


@interface
async def test_it_is_a_step_of_a_flow_that_may_ask(binding: str, version: str) -> None:
    async def choose(task: Task) -> None:
        task.add_message(Message.agent("book"))

    async with a2a_server(binding, version=version) as server:
        flow = Pipeline([server.url, choose, server.url])
        asked = await flow.execute(Task.create("sweep"))
        assert (asked.state, asked.reason, asked.messages[-1].text) == (TaskState.INPUT_REQUIRED, "", "Which city?")
        done = await flow.execute(asked.add_message(Message.user("Rome")))
        assert (done.state, done.get_output()) == (TaskState.COMPLETED, "did: Rome")
        await flow.aclose()


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "blocking"])
async def test_a_failed_task_says_why(streaming: bool) -> None:
    async with a2a_server(streaming=streaming) as server:
        failed = await AgentClient().send_task(server.url, Task.create("fail"))
        assert (failed.state, failed.metadata["error"]) == (TaskState.FAILED, "out of paper")
        with pytest.raises(TaskExecutionError, match="out of paper"):
            failed.raise_for_status()


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "blocking"])
async def test_an_answer_without_a_task_is_a_completed_task_with_that_message(streaming: bool) -> None:
    async with a2a_server(streaming=streaming) as server:
        client = AgentClient()
        done = await client.send_task(server.url, Task.create("say it"))
        assert (done.state, done.get_output()) == (TaskState.COMPLETED, "said")
        assert done.metadata["a2a"].keys() == {"context_id", "url"}
        assert (await client.get_task(done.id, agent_url=server.url)).get_output() == "said"
        assert (await client.send_message(server.url, "say it")).text == "said"
        events = [event async for event in client.subscribe(done.id, agent_url=server.url)]
        assert (folded(events).state, events[-1].final) == (TaskState.COMPLETED, True)
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(server.url, done.id)


@interface
async def test_a_stream_is_a_log_of_the_whole_turn(binding: str, version: str) -> None:
    async with a2a_server(binding, version=version) as server:
        events: list[RunEvent] = []
        async for event in AgentClient().send_task_streaming(server.url, Task.create("work 2")):
            events.append(event)
            server.errands.released.release()
        fold = folded(events)
        assert isinstance(events[0].payload, TaskSubmitted)
        assert (fold.state, events[-1].final) == (TaskState.COMPLETED, True)
        assert [part.content for part in fold.artifacts[0].parts] == ["piece 0", "piece 1"]
        assert texts(fold) == ["work 2", "step 0", "step 1", "finished"]


async def test_the_stream_of_an_agent_without_streams_is_the_same_log() -> None:
    async with a2a_server(streaming=False) as server:
        events = [event async for event in AgentClient().send_task_streaming(server.url, Task.create("sweep"))]
        fold = folded(events)
        assert (fold.state, fold.artifacts[0].parts[0].content) == (TaskState.COMPLETED, "did: sweep")


# -- further turns -----------------------------------------------------------------------------------------------------------


@interface
async def test_a_task_that_asks_is_continued_where_it_waits(binding: str, version: str) -> None:
    async with a2a_server(binding, version=version) as server:
        client = AgentClient()
        asked = await client.send_task(server.url, Task.create("book"))
        assert (asked.state, asked.messages[-1].text) == (TaskState.INPUT_REQUIRED, "Which city?")
        done = await client.send_task(server.url, asked.add_message(Message.user("Rome")))
        assert (done.id, done.state, done.get_output()) == (asked.id, TaskState.COMPLETED, "did: Rome")
        assert [message.text for message in done.messages] == ["book", "Which city?", "Rome"]
        first, second = server.errands.heard
        assert (second.task_id, second.context_id) == (
            done.metadata["a2a"]["task_id"],
            done.metadata["a2a"]["context_id"],
        )
        assert first.context_id == second.context_id
        states = [change["new_state"] for change in done.metadata["state_history"]]
        assert states == ["working", "input-required", "working", "completed"]


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "blocking"])
async def test_a_task_is_continued_from_another_process_by_what_it_says_itself(streaming: bool) -> None:
    async with a2a_server(streaming=streaming) as server:
        asked = await AgentClient().send_task(server.url, Task.create("book"))
        carried = Task.from_dict(asked.to_dict()).add_message(Message.user("Rome"))
        done = await AgentClient().send_task(server.url, carried)
        assert (done.state, done.get_output()) == (TaskState.COMPLETED, "did: Rome")
        assert [message.text for message in done.messages] == ["book", "Which city?", "Rome"]
        assert server.errands.heard[1].task_id == asked.metadata["a2a"]["task_id"]


async def test_a_stream_of_a_further_turn_shows_that_turn() -> None:
    async with a2a_server() as server:
        client = AgentClient()
        asked = await client.send_task(server.url, Task.create("book"))
        stream = client.send_task_streaming(server.url, asked.add_message(Message.user("Rome")))
        events = [event async for event in stream]
        assert isinstance(events[0].payload, TaskMessagesAdded)
        assert [event.state for event in events if event.state] == [TaskState.WORKING, TaskState.COMPLETED]
        assert [event.sequence for event in events] == list(
            range(events[0].sequence or 0, (events[-1].sequence or 0) + 1)
        )


async def test_a_session_is_the_context_there() -> None:
    async with a2a_server() as server:
        await AgentClient().send_task(server.url, Task.create("sweep", session_id="monday"))
        assert server.errands.heard[0].context_id == "monday"


async def test_a_finished_task_takes_no_more() -> None:
    async with a2a_server() as server:
        client = AgentClient()
        done = await client.send_task(server.url, Task.create("sweep"))
        with pytest.raises(UnsupportedOperationError):
            await client.send_task(server.url, done.add_message(Message.user("more")))


# -- steering ----------------------------------------------------------------------------------------------------------------


@interface
async def test_a_submitted_task_is_found_watched_and_canceled(binding: str, version: str) -> None:
    async with a2a_server(binding, version=version) as server:
        client = AgentClient()
        task = await client.submit_task(server.url, Task.create("work 1"))
        assert task.state in (TaskState.SUBMITTED, TaskState.WORKING)
        await server.errands.working.wait()
        assert (await client.get_task(task.id, agent_url=server.url)).state is TaskState.WORKING
        canceled = await client.cancel_task(server.url, task.id, reason="enough")
        assert (canceled.id, canceled.state) == (task.id, TaskState.CANCELED)
        assert server.errands.canceled == [task.metadata["a2a"]["task_id"]]
        assert (await client.wait_task(task.id, agent_url=server.url)).state is TaskState.CANCELED


async def test_a_task_can_be_canceled_while_somebody_waits_for_it() -> None:
    async with a2a_server() as server:
        client, task = AgentClient(), Task.create("work 1")
        waiting = asyncio.create_task(client.send_task(server.url, task))
        # Once the first answer has arrived, it is known what the task is called there.
        assert await _first_known(client, server) == task.id
        await client.cancel_task(server.url, task.id)
        assert (await waiting).state is TaskState.CANCELED


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "polling"])
async def test_a_submitted_task_is_waited_for(streaming: bool) -> None:
    async with a2a_server(streaming=streaming) as server:
        client = AgentClient()
        task = await client.submit_task(server.url, Task.create("work 1"))
        waiting = asyncio.create_task(client.wait_task(task.id, agent_url=server.url))
        for _ in range(2):
            server.errands.released.release()
        done = await waiting
        assert (done.state, done.messages[-1].text) == (TaskState.COMPLETED, "finished")


async def test_tasks_are_listed_under_the_ids_that_they_have_here() -> None:
    async with a2a_server() as server:
        client = AgentClient()
        done = await client.send_task(server.url, Task.create("sweep", session_id="monday"))
        await client.send_task(server.url, Task.create("sweep", session_id="tuesday"))
        page = await client.list_tasks(agent_url=server.url, session_id="monday", states=["completed"])
        assert [(each.id, each.state, each.agent_name) for each in page.tasks] == [
            (done.id, TaskState.COMPLETED, "errands")
        ]


async def test_an_id_of_the_agents_own_is_understood() -> None:
    async with a2a_server() as server:
        done = await AgentClient().send_task(server.url, Task.create("sweep"))
        other = AgentClient()
        same = await other.get_task(done.metadata["a2a"]["task_id"], agent_url=server.url)
        assert same.get_output() == "did: sweep"
        with pytest.raises(TaskNotCancelableError):
            await other.cancel_task(server.url, done.metadata["a2a"]["task_id"])


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_a_finished_task_is_watched_from_its_beginning(version: str) -> None:
    async with a2a_server(version=version) as server:
        client = AgentClient()
        done = await client.send_task(server.url, Task.create("sweep"))
        events = [event async for event in client.subscribe(done.id, agent_url=server.url)]
        fold = folded(events)
        assert (fold.task_id, fold.state, texts(fold)) == (done.id, TaskState.COMPLETED, ["sweep"])
        rest = client.subscribe(done.id, agent_url=server.url, after=len(events), stop_at=StopAt.CURRENT)
        assert [event async for event in rest] == []


# -- cuts --------------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def cut_server(wire: Callable[[str], Awaitable[Wire]]) -> AsyncIterator[tuple[A2AServer, Wire]]:
    """An agent behind a wire, which its card names, too."""
    bound, port = listening()
    bound.close()
    strung = await wire(f"x://127.0.0.1:{port}")
    place = strung.url.replace("grpc://", "http://")
    async with a2a_server(JSONRPC, place=place, port=port) as server:
        server.url = place
        yield server, strung


async def test_a_stream_that_is_cut_goes_on_where_it_stopped(cut_server: tuple[A2AServer, Wire]) -> None:
    server, strung = cut_server
    client, events = AgentClient(), list[RunEvent]()
    async with aclosing(client.send_task_streaming(server.url, Task.create("work 4"))) as stream:
        async for event in stream:
            events.append(event)
            if isinstance(event.payload, TaskArtifactUpdated) and len(events) < 8:
                strung.cut()
            server.errands.released.release()
    fold = folded(events)
    assert strung.connections > 1
    assert [part.content for part in fold.artifacts[0].parts] == [f"piece {number}" for number in range(4)]
    assert texts(fold) == ["work 4", "step 0", "step 1", "step 2", "step 3", "finished"]
    assert len(server.errands.heard) == 1


async def test_what_happened_during_a_cut_is_told_after_it(cut_server: tuple[A2AServer, Wire]) -> None:
    server, strung = cut_server
    client, events = AgentClient(), list[RunEvent]()
    async with aclosing(client.send_task_streaming(server.url, Task.create("work 3"))) as stream:
        async for event in stream:
            events.append(event)
            if event.state is TaskState.WORKING:
                await strung.sever()
                for _ in range(4):
                    server.errands.released.release()
                await strung.mend()
    fold = folded(events)
    assert (fold.state, len(fold.artifacts[0].parts)) == (TaskState.COMPLETED, 3)
    assert texts(fold) == ["work 3", "step 0", "step 1", "step 2", "finished"]


async def test_a_wait_that_is_cut_is_taken_up_again(cut_server: tuple[A2AServer, Wire]) -> None:
    server, strung = cut_server
    client = AgentClient()
    waiting = asyncio.create_task(client.send_task(server.url, Task.create("work 1")))
    task_id = await _first_known(client, server)
    strung.cut()
    for _ in range(2):
        server.errands.released.release()
    done = await waiting
    assert (done.id, done.state) == (task_id, TaskState.COMPLETED)
    assert len(server.errands.heard) == 1


async def _first_known(client: AgentClient, server: A2AServer) -> str:
    while True:
        page = await client.list_tasks(agent_url=server.url)
        if page.tasks and page.tasks[0].id != page.tasks[0].run_id:
            return page.tasks[0].id


async def test_a_message_that_may_have_arrived_is_never_sent_twice(cut_server: tuple[A2AServer, Wire]) -> None:
    server, strung = cut_server
    client = AgentClient()
    await client.get_agent_card(server.url)
    await close_http_channels()
    strung.cut_after([0])
    with pytest.raises(UncertainExecutionError, match="is unknown"):
        async for _ in client.send_task_streaming(server.url, Task.create("sweep")):
            pass
    assert len(server.errands.heard) <= 1


# -- who calls, and whom -----------------------------------------------------------------------------------------------------


async def test_credentials_go_with_every_call() -> None:
    async with a2a_server(token="secret") as server:
        client = AgentClient(credentials=BearerToken("secret"), metadata=[("x-team", "blue")])
        assert (await client.send_task(server.url, Task.create("sweep"))).state is TaskState.COMPLETED
        assert {request.get("x-team") for request in server.requests} == {"blue"}
        with pytest.raises(UnauthenticatedError):
            await AgentClient().send_task(server.url, Task.create("sweep"))


class Renewed:
    """A credential that the peer refuses until it is renewed."""

    def __init__(self) -> None:
        self.tokens = ["old", "secret"]

    async def headers(self, audience_url: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.tokens[0]}"}

    async def refresh(self, refused: object = None) -> bool:
        self.tokens.pop(0)
        return True


@pytest.mark.parametrize("streaming", [True, False])
async def test_credentials_that_are_refused_are_renewed_once(streaming: bool) -> None:
    async with a2a_server(token="secret", streaming=streaming) as server:
        done = await AgentClient(credentials=Renewed()).send_task(server.url, Task.create("sweep"))
        assert done.state is TaskState.COMPLETED
        assert len(server.errands.heard) == 1


async def test_credentials_do_not_go_where_only_the_card_points() -> None:
    async with a2a_server() as elsewhere, a2a_server(place=elsewhere.url) as server:
        client = AgentClient(credentials=BearerToken("secret"), metadata=[("x-team", "blue")])
        await client.send_task(server.url, Task.create("sweep"))
        assert len(elsewhere.errands.heard) == 1
        assert not any("authorization" in request or "x-team" in request for request in elsewhere.requests)
        trusting = AgentClient(credentials=BearerToken("secret"), trusted_origins=[elsewhere.url])
        await trusting.send_task(server.url, Task.create("sweep"))
        assert elsewhere.requests[-1]["authorization"] == "Bearer secret"


async def test_with_credentials_the_interface_of_the_named_origin_is_preferred() -> None:
    async with a2a_server(GRPC, REST) as server:
        await AgentClient().send_task(server.url, Task.create("sweep"))
        assert not any(request["path"].startswith("/rest") for request in server.requests)
        await AgentClient(credentials=BearerToken("secret")).send_task(server.url, Task.create("sweep"))
        assert any(request["path"].startswith("/rest") for request in server.requests)


@pytest.mark.parametrize("binding", [JSONRPC, GRPC])
async def test_a_place_that_only_the_card_names_is_reached_at_the_address_that_was_judged(
    binding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look_up(host: str, port: int) -> list[str]:
        assert host == "errands.example"
        return ["127.0.0.1"]

    monkeypatch.setattr(card_interfaces, "resolve_by_system", look_up)
    async with a2a_server(binding) as server:
        (interface,) = server.card.supported_interfaces
        interface.url = interface.url.replace("127.0.0.1", "errands.example")
        done = await AgentClient().send_task(server.url, Task.create("sweep"))
        assert done.state is TaskState.COMPLETED
        if binding == JSONRPC:
            assert server.requests[-1]["host"].startswith("errands.example:")


async def test_a_card_whose_origin_is_taken_for_a_public_one_leads_to_nothing_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(a2a_way, "remote_address", lambda response, address: "93.184.216.34")
    async with a2a_server() as elsewhere, a2a_server(place=elsewhere.url.replace("127.0.0.1", "127.0.0.2")) as server:
        named = server.url.replace("127.0.0.1", "localhost")
        monkeypatch.setattr(card_interfaces, "is_loopback", lambda host: False)
        with pytest.raises(InvalidAgentResponseError, match="private network"):
            await AgentClient().send_task(named, Task.create("sweep"))
        assert elsewhere.requests == []


async def test_redirects_are_not_followed() -> None:
    bound, port = listening()
    async with a2a_server() as server:

        async def away(request: object) -> RedirectResponse:
            return RedirectResponse(server.url + "/.well-known/agent-card.json")

        app = Starlette(routes=[Route("/.well-known/agent-card.json", away), Route("/.well-known/agent.json", away)])
        async with serving(app, bound):
            with pytest.raises(AgentNotFoundError):
                await AgentClient().send_task(f"http://127.0.0.1:{port}", Task.create("sweep"))
        assert server.requests == []


async def test_what_is_no_agent_is_said_to_be_none() -> None:
    bound, port = listening()

    async def page(request: object) -> JSONResponse:
        return JSONResponse({"hello": "world"})

    async with serving(Starlette(routes=[Route("/.well-known/agent-card.json", page)]), bound):
        with pytest.raises(AgentNotFoundError, match="no agent answers"):
            await AgentClient().get_agent_card(f"http://127.0.0.1:{port}")


async def test_nobody_at_all_is_unavailable() -> None:
    bound, port = listening()
    bound.close()
    with pytest.raises(UnavailableError) as caught:
        await AgentClient().send_task(f"http://127.0.0.1:{port}", Task.create("sweep"))
    assert caught.value.metadata["unreached"] == "true"


async def test_an_unknown_task_is_not_found_and_what_is_not_a2a_says_so() -> None:
    async with a2a_server() as server:
        client = AgentClient()
        with pytest.raises(TaskNotFoundError):
            await client.get_task("nobody", agent_url=server.url)
        for verb in (client.describe_state(server.url), client.list_approvals(server.url)):
            with pytest.raises(UnimplementedError, match="is an A2A agent"):
                await verb
        with pytest.raises(UnimplementedError, match="is an A2A agent"):
            async for _ in client.export_task(server.url, "nobody"):
                pass


async def test_the_card_is_ours_under_the_url_that_was_called() -> None:
    async with a2a_server() as server:
        client = AgentClient(transport="a2a")
        card = await client.get_agent_card(f"{server.url}/.well-known/agent-card.json")
        assert (card.name, card.url) == ("errands", server.url)
        assert (await client.get_agent_card(server.url)).name == "errands"
        assert "if-none-match" in server.requests[-1]


# -- delegation --------------------------------------------------------------------------------------------------------------


async def test_one_of_our_agents_has_such_a_peer_do_its_work() -> None:
    async with a2a_server() as server, Agent(name="boss", url="runtime://boss") as boss:

        async def handle(task: Task) -> Task:
            done = await boss.peer(server.url).run_task(Task.create("sweep"))
            return task.complete(str(done.get_output()))

        boss.handle_task = handle  # type: ignore[method-assign]  # as a user would by subclassing
        done = await AgentClient().send_task("runtime://boss", Task.create("go"))
        assert (done.state, done.get_output()) == (TaskState.COMPLETED, "did: sweep")
        (context,) = [each["plgrpc"]["run_context"] for each in server.errands.metadata]
        assert context["agent_chain"] == ["boss"]
        assert "workspace_uri" not in context


async def test_canceling_the_work_cancels_what_was_delegated() -> None:
    async with a2a_server() as server, Agent(name="boss", url="runtime://boss") as boss:

        async def handle(task: Task) -> Task:
            await boss.peer(server.url).run_task(Task.create("work 1"))
            return task

        boss.handle_task = handle  # type: ignore[method-assign]  # as above
        client = AgentClient()
        task = await client.submit_task("runtime://boss", Task.create("go"))
        await server.errands.working.wait()
        await client.cancel_task("runtime://boss", task.id)
        assert (await client.wait_task(task.id, agent_url="runtime://boss")).state is TaskState.CANCELED
    assert len(server.errands.canceled) == 1


@pytest.mark.parametrize("transport", ["grpc", "a2a", "sse", "websocket"])
async def test_our_own_agents_are_reached_over_the_web_too(transport: str) -> None:
    async with Agent(name="own", url="grpc://127.0.0.1:0", http="127.0.0.1:0") as agent:

        @agent.tool
        def add(a: int, b: int) -> int:
            """Adds."""
            return a + b

        url = agent.card.interfaces[0].url
        client = AgentClient(transport=transport)
        assert await client.call_tool(url, "add", a=1, b=2) == 3
        task = Task.create_tool_call("add", {"a": 1, "b": 2})
        events = [event async for event in client.send_task_streaming(url, task)]
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        assert (events[-1].task_id, events[-1].state) == (task.id, TaskState.COMPLETED)
