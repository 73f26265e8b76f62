"""Start and stop of agents: ports, signals, drain, and callers that disconnect before the end of their task."""

import asyncio
import logging
import re
import signal
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import task_input_pb2, task_pb2
from ports import free_port
from warm_python import Ended, run_python

from protolink_grpc import (
    AddressInUseError,
    Agent,
    AgentCard,
    AgentClient,
    APIKeyAuth,
    DeadlineExceededError,
    InvalidArgumentError,
    Message,
    Registry,
    RegistryClient,
    RunEvent,
    SQLiteStore,
    Task,
    TaskState,
    Tool,
    UnavailableError,
    UnimplementedError,
)
from protolink_grpc.errors import AgentConflictError
from protolink_grpc.storage.port import TaskStore

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
TRANSPORTS = ("grpc://127.0.0.1:0", "runtime://gated")


class Gated(Agent):
    """Works until the test opens the gate."""

    def __init__(self, url: str = "grpc://127.0.0.1:0", **options: Any) -> None:
        super().__init__(name="gated", description="waits", url=url, **options)
        self.begun, self.gate = asyncio.Event(), asyncio.Event()

    async def handle_task(self, task: Task) -> Task:
        self.begun.set()
        await self.gate.wait()
        return task.complete("done")


# -- coming up and going down ------------------------------------------------------------------------------------------------


async def test_an_agent_starts_again_after_a_stop_with_its_tasks(store: TaskStore) -> None:
    agent = Gated(f"grpc://127.0.0.1:{free_port()}", store=store)
    agent.gate.set()
    tasks = []
    for _ in range(3):
        async with agent:
            client = AgentClient(url=agent.card.url)
            assert agent.is_running
            tasks.append(await client.send_task(None, Task.create("go")))
            for task in tasks:
                assert (await client.get_task(task.id)).to_dict() == task.to_dict()
        assert not agent.is_running


def test_an_agent_runs_beside_a_program_that_does_not_await() -> None:
    agent = Agent(name="calc", description="adds", url="grpc://127.0.0.1:0")

    @agent.tool
    def add(a: int, b: int) -> int:
        return a + b

    for _ in range(2):
        agent.start(background=True)
        client = AgentClient(url=agent.card.url).sync
        assert client.send_task(None, Task.create_tool_call("add", {"a": 1, "b": 2})).get_output() == 3
        agent.stop()
        assert agent.card.url == "grpc://127.0.0.1:0"
    agent.stop()  # once more does no harm


@pytest.mark.parametrize("server", [Gated(), Registry(url="grpc://127.0.0.1:0")], ids=["agent", "registry"])
async def test_a_server_in_the_foreground_is_refused_beside_a_running_event_loop(server: Agent | Registry) -> None:
    with pytest.raises(RuntimeError, match=r"`async with`, or call start\(background=True\)"):
        server.start()


async def test_a_stop_frees_the_port() -> None:
    port = free_port()
    async with Gated(f"grpc://127.0.0.1:{port}"):
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
    with socket.socket() as other:
        # As servers do: connections that have just ended do not count.
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()


async def test_a_taken_port_is_an_error_at_once() -> None:
    async with Gated() as first:
        second = Gated(first.card.url)
        async with asyncio.timeout(2.0):
            with pytest.raises(AddressInUseError) as error:
                await second.serve()
        assert error.value.metadata["url"] == first.card.url
        assert isinstance(error.value, OSError)
        assert not second.is_running
    # It left nothing behind that would keep it from coming up now.
    async with second:
        assert second.is_running


@pytest.mark.parametrize("url", TRANSPORTS)
async def test_an_agent_whose_card_is_too_large_does_not_start_and_says_how_large_it_is(url: str) -> None:
    agent = Agent(AgentCard("large", "d", url, metadata={"k": "v" * (1 << 20)}), store=SQLiteStore("/nowhere/tasks.db"))
    says = r"card: has 1,048,\d{3} bytes as encoded; a card has at most 1,048,576"
    with pytest.raises(InvalidArgumentError, match=says):  # before the store is opened
        await agent.serve()
    assert not agent.is_running


async def test_a_running_agent_refuses_a_tool_with_which_its_card_would_be_too_large() -> None:
    async with Agent(AgentCard("large", "d", "runtime://large-tool")) as agent:
        tool = Tool.from_callable(lambda: "done", name="huge", description="v" * (1 << 20))
        with pytest.raises(InvalidArgumentError, match="a card has at most 1,048,576"):
            agent.add_tool(tool)

        assert (agent.card.skills, agent.tools, agent.card.capabilities.tool_calling) == ([], {}, False)


async def test_a_port_of_another_program_is_taken_too() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(AddressInUseError):
            await Gated(f"grpc://127.0.0.1:{other.getsockname()[1]}").serve()


HEAD = "import sys; from protolink_grpc import *; url, path = sys.argv[1:]; "
START = {
    "agent": """Agent(name="second", description="d", url=url, store=SQLiteStore(path)).run()""",
    "registry": """Registry(url=url).run()""",
}


def run_server_program(folder: Path, kind: str, url: str, store: Path) -> Ended:
    """Run a program that only starts a server, to its end."""
    program = folder / "program.py"
    program.write_text(HEAD + START[kind])
    return run_python(str(program), url, str(store))


@pytest.mark.parametrize("kind", START)
def test_a_program_whose_port_is_taken_ends_with_one_line_that_says_what_to_do(kind: str, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = run_server_program(tmp_path, kind, f"grpc://127.0.0.1:{port}", tmp_path / "tasks.db")
    said = f"error: port {port} on 127.0.0.1 is in use; choose another port, or port 0 for a free one\n"
    assert (done.code, done.out, done.err) == (1, "", said)


def test_a_program_whose_store_is_no_database_ends_with_one_line_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    path.write_text("no database at all, and longer than a header of one: " + "x" * 100)
    done = run_server_program(tmp_path, "agent", "grpc://127.0.0.1:0", path)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ")
    assert str(path) in done.err
    assert done.err.count("\n") == 1


def test_a_thread_gets_the_error_of_a_port_that_is_taken() -> None:
    found: list[BaseException] = []

    def serve(url: str) -> None:
        try:
            Gated(url).run()
        except BaseException as error:
            found.append(error)

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        thread = threading.Thread(target=serve, args=(f"grpc://127.0.0.1:{other.getsockname()[1]}",))
        thread.start()
        thread.join()
    assert [type(each) for each in found] == [AddressInUseError]


async def test_a_runtime_name_is_taken_by_the_agent_that_has_it() -> None:
    async with Gated("runtime://gated"):
        with pytest.raises(AgentConflictError):
            await Gated("runtime://gated").serve()
    async with Gated("runtime://gated") as second:
        assert second.is_running


async def test_a_start_that_failed_does_not_touch_the_tasks_of_the_agent_that_runs(tmp_path: Path) -> None:
    async with Gated(store=SQLiteStore(tmp_path / "tasks.db")) as first:
        client = AgentClient(url=first.card.url)
        task = await client.submit_task(None, Task.create("go"))
        with pytest.raises(AddressInUseError):
            await Gated(first.card.url, store=SQLiteStore(tmp_path / "tasks.db"), recovery="resume").serve()
        first.gate.set()
        assert (await client.wait_task(task.id)).state is TaskState.COMPLETED


# -- what cannot work is said at once ----------------------------------------------------------------------------------------


class NotAsync(Agent):
    def handle_task(self, task: Task) -> Task:  # type: ignore[override]
        return task


class NotAGenerator(Agent):
    async def handle_task_streaming(self, task: Task) -> Any:  # type: ignore[override]
        return task


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (NotAsync, r"NotAsync\.handle_task must be async"),
        (NotAGenerator, r"NotAGenerator\.handle_task_streaming must be an async generator"),
    ],
)
def test_a_handler_of_the_wrong_kind_is_refused_by_name(kind: type[Agent], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        kind(name="x")


@pytest.mark.parametrize("argument", ["durability", "expose_chat", "llm_factory"])
def test_an_argument_that_is_not_built_yet_is_refused_by_name(argument: str) -> None:
    with pytest.raises(UnimplementedError, match=argument) as error:
        Agent(name="x", **{argument: object()})
    assert error.value.metadata == {"argument": argument}


def test_verbosity_is_accepted_and_an_unknown_argument_is_not() -> None:
    assert Agent(name="x", verbosity=2).card.name == "x"
    with pytest.raises(TypeError, match="verbostiy"):
        Agent(name="x", verbostiy=2)


def test_an_agent_in_the_foreground_that_listens_nowhere_says_so(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent(name="nowhere")
    with caplog.at_level(logging.WARNING):
        thread = threading.Thread(target=agent.run)
        thread.start()
        while not agent.is_running:
            thread.join(0.01)
            assert thread.is_alive()
        agent.stop()
        thread.join(5.0)
    (record,) = caplog.records
    assert "runtime://nowhere" in record.getMessage()
    assert "url" in record.getMessage()


async def test_an_agent_says_once_where_it_listens_and_once_each_that_it_stops(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "protolink_grpc.agent"):
        agent = Gated("grpc://127.0.0.1:0", http="127.0.0.1:0")
        async with agent:
            places = f"{agent.card.url} and {agent.http_url}"
    assert [record.getMessage() for record in caplog.records] == [
        f"agent gated listens on {places}",
        "agent gated is stopping",
        "agent gated has stopped",
    ]


async def test_an_agent_that_waits_for_its_tasks_says_for_how_long(caplog: pytest.LogCaptureFixture) -> None:
    agent = Gated()
    await agent.serve()
    client = AgentClient(url=agent.card.url)
    task = await client.submit_task(None, Task.create("go"))
    while (await client.get_task(task.id)).state is not TaskState.WORKING:
        await asyncio.sleep(0)
    with caplog.at_level(logging.INFO, "protolink_grpc.agent"):
        await agent.aclose(grace_s=0.01)
    said = "agent gated is stopping, and waits up to 0.01 s for 1 running task"
    assert said in [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("way", ["run()", "start()"])
async def test_an_agent_in_the_foreground_says_where_it_listens_also_without_logging(launch: Any, way: str) -> None:
    code = f"""
        from protolink_grpc import Agent, AgentCard
        import sys
        sys.stderr = sys.stdout
        Agent(AgentCard(name="hotel", description="rents", url="grpc://127.0.0.1:0"), http="127.0.0.1:0").{way}
    """
    line = await (await launch(code)).line()
    assert re.fullmatch(r"agent hotel listens on grpc://127\.0\.0\.1:\d+ and http://127\.0\.0\.1:\d+", line)


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        ({"listen": "grpc://0.0.0.0:0"}, True),
        ({"http": "0.0.0.0:0"}, True),
        ({"http": "127.0.0.1:0"}, False),
        ({"http": "localhost:0"}, False),
        ({"listen": "grpc://0.0.0.0:0", "authenticator": APIKeyAuth({"k" * 20: []})}, False),
    ],
    ids=["grpc", "http", "loopback", "localhost", "with credentials"],
)
async def test_tools_that_other_machines_reach_without_credentials_are_a_warning(
    caplog: pytest.LogCaptureFixture, options: dict[str, Any], warns: bool
) -> None:
    agent = Agent(AgentCard(name="hotel", description="rents", url="grpc://localhost:0"), **options)
    agent.tool(book)
    with caplog.at_level(logging.WARNING):
        async with agent:
            pass
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == warns
    assert all("without authentication" in each and "authenticator" in each for each in said)


async def test_without_tools_an_open_port_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with Gated("grpc://localhost:0", listen="grpc://0.0.0.0:0"):
            pass
    assert caplog.records == []


def book(nights: int) -> int:
    """Book a room."""
    return nights


@pytest.mark.parametrize("edge", ["grpc", "http"])
async def test_a_port_that_is_taken_is_one_sentence(edge: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options: dict[str, Any] = {"http": f"127.0.0.1:{port}"} if edge == "http" else {}
        agent = Gated(f"grpc://127.0.0.1:{port}" if edge == "grpc" else "grpc://127.0.0.1:0", **options)
        with pytest.raises(AddressInUseError) as caught:
            await agent.serve()
    assert str(caught.value) == f"port {port} on 127.0.0.1 is in use; choose another port, or port 0 for a free one"


@pytest.mark.parametrize("edge", ["grpc", "http"])
async def test_an_address_of_another_machine_is_one_sentence(edge: str) -> None:
    options: dict[str, Any] = {"http": "203.0.113.5:0"} if edge == "http" else {"listen": "grpc://203.0.113.5:0"}
    with pytest.raises(AddressInUseError, match=r"^203\.0\.113\.5 is not an address of this machine"):
        await Gated("grpc://127.0.0.1:0", **options).serve()


# -- the address that is listened at, and the one that others use ------------------------------------------------------------


async def test_an_agent_listens_at_one_address_and_advertises_another() -> None:
    port = free_port()
    async with Gated("grpc://agent.example:443", listen=f"grpc://127.0.0.1:{port}") as agent:
        told = await AgentClient(url=f"grpc://127.0.0.1:{port}").get_agent_card()
        assert (agent.card.url, told.url) == ("grpc://agent.example:443", "grpc://agent.example:443")


async def test_a_free_port_is_advertised_where_the_card_names_none() -> None:
    async with Registry() as registry:
        agent = Gated("grpc://localhost:0", listen="0.0.0.0:0", registry=registry.url)
        async with agent:
            assert agent.card.url.startswith("grpc://localhost:")
            assert not agent.card.url.endswith(":0")
            (found,) = await registry.client.discover()
            assert found.url == agent.card.url
            assert (await AgentClient(url=found.url).get_agent_card()).name == "gated"
        assert agent.card.url == "grpc://localhost:0"


@pytest.mark.parametrize("url", ["grpc://0.0.0.0:0", "grpc://[::]:0"])
def test_an_address_that_nobody_can_call_is_not_registered(url: str) -> None:
    with pytest.raises(InvalidArgumentError, match="listen=") as error:
        Gated(url, registry="grpc://127.0.0.1:1")
    assert error.value.field == "card.url"
    with pytest.raises(InvalidArgumentError, match="listen="):
        Gated(registry="grpc://127.0.0.1:1").relocate(url=url)
    with pytest.raises(InvalidArgumentError, match="listen="):
        Gated("grpc://127.0.0.1:0", listen=url).relocate(url=url, registry="grpc://127.0.0.1:1")


async def test_without_a_registry_such_an_address_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with Gated("grpc://0.0.0.0:0"):
            pass
        async with Gated("grpc://127.0.0.1:0", listen="grpc://0.0.0.0:0"):
            pass
    (record,) = caplog.records
    assert "listen=" in record.getMessage()


@pytest.mark.parametrize(
    ("url", "listen"), [("runtime://gated", "grpc://127.0.0.1:0"), ("grpc://127.0.0.1:0", "http://127.0.0.1:0")]
)
def test_a_place_to_listen_that_is_none_is_refused(url: str, listen: str) -> None:
    with pytest.raises(InvalidArgumentError) as error:
        Gated(url, listen=listen)
    assert error.value.field == "listen"


async def test_an_agent_that_moves_listens_where_it_moves_to() -> None:
    agent = Gated("grpc://agent.example:443", listen="grpc://127.0.0.1:0").relocate(url="grpc://127.0.0.1:0")
    async with agent:
        assert (await AgentClient(url=agent.card.url).get_agent_card()).name == "gated"
    agent.relocate(url="grpc://agent.example:443", listen="grpc://127.0.0.1:0")
    async with agent:
        assert agent.card.url == "grpc://agent.example:443"


async def test_an_agent_says_that_it_leaves_before_it_leaves_the_registry(channel: Callable[[str], Any]) -> None:
    async with Registry() as registry:
        seen: list[int] = []

        class Watching(RegistryClient):
            async def unregister(self, agent_url: str) -> bool:
                health = health_pb2_grpc.HealthStub(channel(agent_url))
                seen.append((await health.Check(health_pb2.HealthCheckRequest())).status)
                return await super().unregister(agent_url)

        async with Gated(registry=Watching(registry.url)):
            assert len(await registry.client.discover()) == 1
        assert seen == [NOT_SERVING]
        assert await registry.client.discover() == []


# -- callers that leave ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", TRANSPORTS)
async def test_a_run_goes_on_after_its_callers_deadline(url: str, store: TaskStore) -> None:
    async with Gated(url, store=store) as agent:
        task = Task.create("go")
        hasty = AgentClient(url=agent.card.url, timeout=0.2)
        with pytest.raises(DeadlineExceededError) as error:
            await hasty.send_task(None, task)
        assert error.value.metadata["task_id"] == task.id
        agent.gate.set()
        done = await AgentClient(url=agent.card.url).wait_task(task.id)
        assert (done.state, done.messages[-1].text) == (TaskState.COMPLETED, "done")


@pytest.mark.parametrize("url", TRANSPORTS)
async def test_a_run_goes_on_after_its_caller_has_hung_up(url: str, store: TaskStore) -> None:
    async with Gated(url, store=store) as agent:
        client = AgentClient(url=agent.card.url)
        task = Task.create("go")
        sending = asyncio.create_task(client.send_task(None, task))
        await agent.begun.wait()
        sending.cancel()
        await asyncio.wait([sending])
        assert (await client.get_task(task.id)).state is TaskState.WORKING
        agent.gate.set()
        assert (await client.wait_task(task.id)).state is TaskState.COMPLETED


@pytest.mark.parametrize("url", TRANSPORTS)
async def test_a_run_goes_on_after_its_stream_was_closed(url: str, store: TaskStore) -> None:
    async with Gated(url, store=store) as agent:
        client = AgentClient(url=agent.card.url)
        task = Task.create("go")
        stream: Any = client.send_task_streaming(None, task)
        first = await anext(stream)
        await stream.aclose()
        agent.gate.set()
        rest = [event async for event in client.subscribe(task.id, after=first.sequence or 0)]
        assert [event.state for event in rest if event.state] == [TaskState.WORKING, TaskState.COMPLETED]


async def test_a_run_goes_on_when_the_connection_breaks(store: TaskStore, channel: Callable[[str], Any]) -> None:
    async with Gated(store=store) as agent:
        broken = channel(agent.card.url)
        message = task_pb2.Message(parts=[{"text": "go"}])
        given = task_input_pb2.TaskInput(task_id="mine", target=task_input_pb2.TASK_TARGET_CREATE, messages=[message])
        request = pb.SendTaskRequest(input=given)
        sending = broken.unary_unary("/plgrpc.v1.AgentService/SendTask")(request.SerializeToString())
        await agent.begun.wait()
        await broken.close()
        with pytest.raises((asyncio.CancelledError, grpc.aio.AioRpcError)):
            await sending
        agent.gate.set()
        client = AgentClient(url=agent.card.url)
        assert (await client.wait_task("mine")).state is TaskState.COMPLETED


# -- signals and drain -------------------------------------------------------------------------------------------------------

DRAINED = """
    import asyncio, sys, threading
    from protolink_grpc import Agent, Message, SQLiteStore

    url, path, grace_s = sys.argv[1:]

    class Gated(Agent):
        async def handle_task(self, task):
            if task.messages[0].text == "ask" and len(task.messages) == 1:
                return task.require_input(Message.agent("which?"))
            if task.messages[0].text == "ask":
                return task.complete("this")
            loop, gate = asyncio.get_running_loop(), asyncio.Event()
            # A daemon, so that a run that is never let go does not keep the process.
            wait = lambda: sys.stdin.readline() and loop.call_soon_threadsafe(gate.set)
            threading.Thread(target=wait, daemon=True).start()
            print("begun", flush=True)
            await gate.wait()
            return task.complete("done")

    class Said(Gated):
        async def serve(self, *, register=True):
            await super().serve(register=register)
            print(self.card.url, flush=True)

    Said(name="gated", description="waits", url=url, store=SQLiteStore(path), grace_s=float(grace_s)).run()
    print("ended", flush=True)
"""


class Process:
    """An agent in a process of its own, its health under watch."""

    def __init__(self, program: Any, url: str, channel: grpc.aio.Channel) -> None:
        self.program = program
        self.url = url
        self.health = health_pb2_grpc.HealthStub(channel)
        self.client = AgentClient(url=url)

    def watch(self) -> AsyncIterator[Any]:
        request = health_pb2.HealthCheckRequest(service="plgrpc.v1.AgentService")
        return aiter(self.health.Watch(request))

    def terminate(self) -> None:
        self.program.signal(signal.SIGTERM)


@pytest.fixture
def process(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]], channel: Callable[[str], grpc.aio.Channel]
) -> Callable[..., Awaitable[Process]]:
    async def start(*, grace_s: float, url: str = "grpc://127.0.0.1:0") -> Process:
        program = await launch(DRAINED, url, tmp_path / "tasks.db", grace_s)
        found = await program.line()
        return Process(program, found, channel(found))

    return start


Start = Callable[..., Awaitable[Process]]


async def test_sigterm_lets_a_run_finish_within_its_grace(process: Start) -> None:
    agent = await process(grace_s=20)
    health = agent.watch()
    assert (await anext(health)).status == SERVING
    sending = asyncio.create_task(agent.client.send_task(None, Task.create("go")))
    assert await agent.program.line() == "begun"
    agent.terminate()
    # First it says that it is leaving, then it waits for the run.
    assert (await anext(health)).status == NOT_SERVING
    assert not sending.done()
    agent.program.say("go on")
    done = await sending
    assert (done.state, done.messages[-1].text) == (TaskState.COMPLETED, "done")
    assert await agent.program.line() == "ended"
    assert await agent.program.end() == 0


async def test_a_draining_agent_takes_no_new_work_and_says_so(process: Start, stub: Callable[[str], Any]) -> None:
    agent = await process(grace_s=20)
    health = agent.watch()
    assert (await anext(health)).status == SERVING
    calls = stub(agent.url)
    await calls.GetAgentCard(pb.GetAgentCardRequest())  # connected before the drain
    running = await agent.client.submit_task(None, Task.create("go"))
    assert await agent.program.line() == "begun"
    agent.terminate()
    assert (await anext(health)).status == NOT_SERVING
    message = task_pb2.Message(parts=[{"text": "more"}])
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await calls.SendTask(pb.SendTaskRequest(input=task_input_pb2.TaskInput(messages=[message])))
    info = error_details_pb2.ErrorInfo()
    assert rpc_status.from_call(error.value).details[0].Unpack(info)
    assert (error.value.code(), info.reason) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
    # What runs can still be watched to its end.
    watch = agent.client.subscribe(running.id)
    await anext(watch)  # under way before the run may end, and the agent with it
    agent.program.say("go on")
    assert (await collect(watch))[-1].state is TaskState.COMPLETED
    assert await agent.program.line() == "ended"


async def test_a_run_longer_than_the_grace_is_recorded_as_lost(process: Start, tmp_path: Path) -> None:
    agent = await process(grace_s=0.2)
    sending = asyncio.create_task(agent.client.send_task(None, Task.create("go")))
    assert await agent.program.line() == "begun"
    agent.terminate()
    told = await sending
    assert told.state is TaskState.FAILED
    assert told.metadata["error"] == "run lost: the agent was stopped before the task was done"
    assert await agent.program.line() == "ended"
    assert await agent.program.end() == 0
    # It was recorded by the process that stopped; the next one finds it so.
    again = await process(grace_s=1)
    assert (await again.client.get_task(told.id)).to_dict() == told.to_dict()


async def test_a_subscriber_goes_through_a_restart_by_itself(process: Start) -> None:
    port = free_port()
    agent = await process(grace_s=1, url=f"grpc://127.0.0.1:{port}")
    asked = await agent.client.send_task(None, Task.create("ask"))
    assert asked.state is TaskState.INPUT_REQUIRED
    seen: asyncio.Queue[RunEvent] = asyncio.Queue()

    async def follow() -> None:
        async for event in agent.client.subscribe(asked.id):
            seen.put_nowait(event)

    following = asyncio.create_task(follow())
    events = [await seen.get() for _ in range(4)]
    agent.terminate()
    assert await agent.program.end() == 0
    again = await process(grace_s=1, url=f"grpc://127.0.0.1:{port}")
    asked.add_message(Message.user("that one"))
    done = await again.client.send_task(None, asked)
    assert done.state is TaskState.COMPLETED
    await following
    events += [seen.get_nowait() for _ in range(seen.qsize())]
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert events[-1].state is TaskState.COMPLETED


async def test_a_stopped_agent_is_unavailable(process: Start) -> None:
    agent = await process(grace_s=1)
    agent.terminate()
    assert await agent.program.end() == 0
    with pytest.raises(UnavailableError) as error:
        await AgentClient(url=agent.url, outage_s=0).get_agent_card()
    assert agent.url in str(error.value)


async def test_a_signal_while_an_agent_comes_up_is_an_orderly_end(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]]
) -> None:
    # The line is printed inside of `serve`, which then takes its time.
    source = DRAINED.replace("print(self.card.url, flush=True)", "print('up', flush=True); await asyncio.sleep(0.5)")
    program = await launch(source, "grpc://127.0.0.1:0", tmp_path / "tasks.db", 1)
    assert await program.line() == "up"
    program.signal(signal.SIGTERM)
    assert await program.line() == "ended"
    assert await program.end() == 0


def test_stop_ends_an_agent_that_runs_in_the_foreground() -> None:
    agent = Agent(name="calc", description="adds", url="grpc://127.0.0.1:0")
    for _ in range(2):
        thread = threading.Thread(target=agent.run)
        thread.start()
        while not agent.is_running:
            thread.join(0.01)
            assert thread.is_alive()
        agent.stop()
        thread.join(5.0)
        assert not thread.is_alive()


async def collect(events: AsyncIterator[RunEvent]) -> list[RunEvent]:
    return [event async for event in events]
