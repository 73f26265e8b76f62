"""Our client and our agents against real ProtoLink 0.8.3 agents, over HTTP, server-sent events and WebSocket."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from textwrap import dedent

import pytest
from cut_wire import Wire
from foreign_world import listening

from protolink_grpc import (
    Agent,
    AgentClient,
    HistoryCompactionRequest,
    Message,
    Pipeline,
    Task,
    TaskNotFoundError,
    TaskState,
    ToolRejectedError,
    ToolStep,
    UnauthenticatedError,
    UncertainExecutionError,
)
from protolink_grpc.auth.credentials import APIKey
from protolink_grpc.errors import RemoteError, UnimplementedError
from protolink_grpc.models.events import PeerTaskLinked, TaskSubmitted
from protolink_grpc.models.watch import StopAt

PEERS = """
    import asyncio
    import sys

    from protolink import Agent, Message
    from protolink.llms.mock_client import MockLLM
    from protolink.security.auth import APIKeyAuth

    class Desk(Agent):
        async def handle_task(self, task):
            part = task.get_last_part()
            if part.type != "text":
                return await super().handle_task(task)
            if part.content == "book":
                return task.require_input(Message.agent("Which city?"))
            return task.complete(f"booked {part.content} after {len(task.messages)} messages")

    def desk(transport, port, **more):
        scheme = "ws" if transport == "websocket" else "http"
        url = f"{scheme}://127.0.0.1:{port}"
        agent = Desk(name="desk", description="Books.", url=url, transport=transport, verbosity=0, **more)

        @agent.tool(name="add", description="Adds.")
        def add(a: int, b: int) -> int:
            return a + b

        @agent.tool(name="hold", description="Waits for a cancellation.")
        async def hold() -> str:
            await asyncio.Event().wait()

        agent.start(register=False, background=True)
        return agent

    def thinker(port, **more):
        url = f"http://127.0.0.1:{port}"
        llm = MockLLM(default_response="indeed")
        agent = Agent(name="thinker", description="Thinks.", url=url, transport="sse", llm=llm, verbosity=0, **more)
        agent.start(register=False, background=True)
        return agent

    http, sse, ws, closed, thinking, forgetful = sys.argv[1:]
    auth = APIKeyAuth({"the-key": ["all"]})
    agents = [desk("http", http), desk("sse", sse), desk("websocket", ws), desk("sse", closed, authenticator=auth)]
    agents += [thinker(thinking, state=["conversation"]), thinker(forgetful)]
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Agents by transport; `closed` asks for a key."""
    ports = []
    for _ in range(6):
        bound, port = listening()
        bound.close()
        ports.append(str(port))
    program: Path = tmp_path_factory.mktemp("protolink") / "peers.py"
    program.write_text(dedent(PEERS))
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, str(program), *ports], stdin=pipe, stdout=pipe, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    names = ("http", "sse", "websocket", "closed", "thinking", "forgetful")
    schemes = {"websocket": "ws"}
    yield {name: f"{schemes.get(name, 'http')}://127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)}
    process.kill()  # its agents do not always stop when they are asked to
    process.wait()
    process.stdin.close()
    process.stdout.close()


each = pytest.mark.parametrize("transport", ["http", "sse", "websocket"])


@each
async def test_the_card_tells_what_it_is(urls: dict[str, str], transport: str) -> None:
    card = await AgentClient().get_agent_card(urls[transport])
    assert (card.name, card.transport, card.protocol_version) == ("desk", transport, "0.8.3")
    assert [skill.id for skill in card.skills] == ["add", "hold"]


@each
async def test_a_tool_runs_and_gives_its_result(urls: dict[str, str], transport: str) -> None:
    client = AgentClient()
    done = await client.send_task(urls[transport], Task.create_tool_call("add", {"a": 1, "b": 2}))
    assert (done.state, done.get_output()) == (TaskState.COMPLETED, 3)
    assert await client.call_tool(urls[transport], "add", a=3, b=4) == 7
    with pytest.raises(ToolRejectedError):
        await client.call_tool(urls[transport], "subtract", a=3, b=4)


@each
async def test_a_stream_tells_the_whole_turn(urls: dict[str, str], transport: str) -> None:
    client, task = AgentClient(), Task.create_tool_call("add", {"a": 1, "b": 2})
    events = [event async for event in client.send_task_streaming(urls[transport], task)]
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert isinstance(events[0].payload, TaskSubmitted)
    assert {event.task_id for event in events} == {task.id}
    assert (events[-1].state, events[-1].final) == (TaskState.COMPLETED, True)
    assert (await client.get_task(task.id, agent_url=urls[transport])).get_output() == 3
    again = client.subscribe(task.id, agent_url=urls[transport], stop_at=StopAt.CURRENT)
    assert [event.state async for event in again][-1] is TaskState.COMPLETED


@each
async def test_a_task_that_asks_is_continued_with_all_that_was_said(urls: dict[str, str], transport: str) -> None:
    client = AgentClient()
    asked = await client.send_task(urls[transport], Task.create("book"))
    assert (asked.state, asked.messages[-1].text) == (TaskState.INPUT_REQUIRED, "Which city?")
    done = await client.send_task(urls[transport], asked.add_message(Message.user("Rome")))
    assert (done.state, done.messages[-1].text) == (TaskState.COMPLETED, "booked Rome after 3 messages")
    assert [message.text for message in done.messages[:3]] == ["book", "Which city?", "Rome"]


@each
async def test_it_is_a_step_of_a_flow_that_may_ask(urls: dict[str, str], transport: str) -> None:
    flow = Pipeline([urls[transport], ToolStep(urls[transport], "add", {"a": 1, "b": 2})])
    asked = await flow.execute(Task.create("book"))
    assert (asked.state, asked.messages[-1].text) == (TaskState.INPUT_REQUIRED, "Which city?")
    done = await flow.execute(asked.add_message(Message.user("Rome")))
    assert (done.state, done.reason, done.messages[-1].text) == (
        TaskState.COMPLETED,
        "",
        "booked Rome after 3 messages",
    )
    assert done.get_output() == 3
    await flow.aclose()


@pytest.mark.parametrize("transport", ["sse", "websocket"])
async def test_work_under_way_is_canceled(urls: dict[str, str], transport: str) -> None:
    client, task, states = AgentClient(), Task.create_tool_call("hold"), []
    async with aclosing(client.send_task_streaming(urls[transport], task)) as stream:
        async for event in stream:
            states.append(event.state)
            if event.type == "action.started":
                canceled = await client.cancel_task(urls[transport], task.id, reason="enough")
                assert canceled.state is TaskState.CANCELED
    assert states[-1] is TaskState.CANCELED


@each
async def test_nothing_under_way_is_no_task_to_cancel(urls: dict[str, str], transport: str) -> None:
    with pytest.raises(TaskNotFoundError):
        await AgentClient().cancel_task(urls[transport], "nobody")


@each
async def test_its_memory_is_described_and_reset(urls: dict[str, str], transport: str) -> None:
    client = AgentClient()
    assert (await client.describe_state(urls[transport], session_id="s")).operation == "describe"
    assert (await client.reset_state(urls[transport], session_id="s")).operation == "reset"


@each
async def test_what_such_an_agent_does_not_do_is_said(urls: dict[str, str], transport: str) -> None:
    client, url = AgentClient(), urls[transport]
    for verb in (client.list_tasks(agent_url=url), client.get_task("old", agent_url=url), client.list_approvals(url)):
        with pytest.raises(UnimplementedError, match="is a ProtoLink agent"):
            await verb


@pytest.mark.parametrize("transport", ["websocket", "sse"])
async def test_what_the_caller_says_it_is_is_not_asked_for(urls: dict[str, str], transport: str) -> None:
    bare = urls[transport].partition("://")[2]
    client = AgentClient(transport=transport, url=bare)
    assert (await client.send_task(None, Task.create_tool_call("add", {"a": 1, "b": 2}))).get_output() == 3


async def test_a_key_opens_what_is_closed(urls: dict[str, str]) -> None:
    task = Task.create_tool_call("add", {"a": 1, "b": 2})
    done = await AgentClient(credentials=APIKey("the-key")).send_task(urls["closed"], task)
    assert done.get_output() == 3
    with pytest.raises(UnauthenticatedError):
        await AgentClient().send_task(urls["closed"], task)


@pytest.mark.parametrize("transport", ["sse", "websocket"])
async def test_a_stream_that_is_cut_is_no_end(
    urls: dict[str, str], transport: str, wire: Callable[[str], Awaitable[Wire]]
) -> None:
    strung = await wire(urls[transport])
    place = f"{urls[transport].partition('://')[0]}://{strung.url.partition('://')[2]}"
    types: list[str] = []

    async def follow() -> None:
        task = Task.create_tool_call("hold")
        async with aclosing(AgentClient().send_task_streaming(place, task)) as stream:
            async for event in stream:
                types.append(event.type)
                if event.type == "action.started":
                    strung.cut()

    with pytest.raises(UncertainExecutionError, match="the outcome of task"):
        await follow()
    assert types[-1] == "action.started"


async def test_an_answer_that_was_cut_off_is_asked_for_again_and_not_worked_out_again(
    urls: dict[str, str], wire: Callable[[str], Awaitable[Wire]]
) -> None:
    strung = await wire(urls["http"])
    client = AgentClient(transport="http")
    strung.cut_after([0])
    place = strung.url.replace("grpc://", "http://")
    done = await client.send_task(place, Task.create("Rome"))
    assert done.messages[-1].text == "booked Rome after 1 messages"
    assert strung.connections == 2


async def test_one_of_our_agents_has_such_a_peer_do_its_work(urls: dict[str, str]) -> None:
    async with Agent(name="boss", url="runtime://boss") as boss:

        async def handle(task: Task) -> Task:
            sums = [boss.peer(urls[name]).call_tool("add", a=1, b=2) for name in ("http", "sse", "websocket")]
            return task.complete(str(await asyncio.gather(*sums)))

        boss.handle_task = handle  # type: ignore[method-assign]  # as a user would by subclassing
        done = await AgentClient().send_task("runtime://boss", Task.create("go"))
        assert (done.state, done.get_output()) == (TaskState.COMPLETED, "[3, 3, 3]")
        log = [event async for event in AgentClient(url="runtime://boss").subscribe(done.id)]
        links = {event.payload.url: event.payload for event in log if isinstance(event.payload, PeerTaskLinked)}
        assert links.keys() == {urls[name] for name in ("http", "sse", "websocket")}
        assert {(link.protocol, bool(link.task_id)) for link in links.values()} == {("protolink", True)}


# -- memory ------------------------------------------------------------------------------------------------------------------


async def test_a_conversation_is_compacted(urls: dict[str, str]) -> None:
    client, url = AgentClient(), urls["thinking"]
    for number in range(4):
        done = await client.send_task(url, Task.create_infer(f"thought {number}", session_id="monday"))
        assert done.state is TaskState.COMPLETED
    before = await client.describe_state(url, session_id="monday")
    done = await client.compact_history(url, session_id="monday", strategy="recent", max_messages=3)
    assert (done.strategy, done.changed) == ("recent", True)
    assert done.before_messages - done.removed_messages == done.after_messages <= 3
    after = await client.describe_state(url, session_id="monday")
    assert after.stores[0].message_count < before.stores[0].message_count


async def test_the_history_of_an_agent_without_state_is_compacted(urls: dict[str, str]) -> None:
    client, url = AgentClient(), urls["forgetful"]
    await client.send_task(url, Task.create_infer("a thought"))
    done = await client.compact_history(url, HistoryCompactionRequest(strategy="tokens", max_tokens=10_000))
    assert (done.strategy, done.changed, done.removed_messages) == ("tokens", False, 0)


async def test_an_agent_without_a_model_says_that_it_has_none(urls: dict[str, str]) -> None:
    with pytest.raises(RemoteError):
        await AgentClient().compact_history(urls["sse"])
