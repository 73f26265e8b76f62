"""The client with network faults of every kind, and its synchronous form."""

import asyncio
import itertools
import json
import random
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    DeadlineExceededError,
    InvalidArgumentError,
    Limits,
    MemoryStore,
    Message,
    Registry,
    RegistryClient,
    RunEvent,
    SQLiteStore,
    StopAt,
    Task,
    TaskNotFoundError,
    TaskProgress,
    TaskState,
    TaskStatusChanged,
    UnavailableError,
    UnimplementedError,
    current_run,
)
from protolink_grpc.agent.local_agent import LocalEndpoint, _endpoints
from protolink_grpc.client.channel import close_channels
from protolink_grpc.net.background_loop import background
from protolink_grpc.net.tracing import add_origin
from protolink_grpc.storage.port import Append, RequestRecord
from protolink_grpc.tools import Toolbox

MakeWire = Callable[[str], Awaitable[Any]]

WAIT_S = 20.0
"""Bound of what must happen soon; reached only by a failure."""


class Worker(Agent):
    """Does what the first word of the latest message says; `hold` waits for `release`. Counts its runs."""

    def __init__(self, url: str = "grpc://127.0.0.1:0", **options: Any) -> None:
        card = AgentCard(name="worker", description="does as told", url=url)
        super().__init__(card, grace_s=0.1, limits=Limits(max_concurrency=8, batch_events=16), **options)
        self.runs = 0
        self.holding = asyncio.Event()
        self.release = asyncio.Event()

    async def handle_task(self, task: Task) -> Task:
        self.runs += 1
        word, _, rest = task.messages[-1].text.partition(" ")
        run = current_run()
        assert run is not None
        match word:
            case "hold":
                self.holding.set()
                await self.release.wait()
            case "ask":
                return task.require_input(Message.agent("which one?"))
            case "count":
                for step in range(int(rest)):
                    await run.emit(TaskProgress(None, f"step {step}"))
                    # Now and then everything is on disk and the readers have caught up, as with real work.
                    if step % 50 == 0:
                        await run.flush()
        return task.complete(rest[:100])


@pytest.fixture
async def worker() -> AsyncIterator[Worker]:
    worker = Worker()
    async with worker:
        yield worker


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams are taken up again almost at once, so that many cuts cost little time."""
    monkeypatch.setattr("protolink_grpc.client.backoff.FIRST_PAUSE_S", 0.001)


# -- cuts --------------------------------------------------------------------------------------------------------------------


def budgets(seed: int, cuts: int) -> list[int]:
    """Bytes that each connection carries before it breaks: sometimes not even the first message, sometimes several."""
    chance = random.Random(seed)
    return [chance.choice((40, 300, 3_000, 6_000, 12_000)) for _ in range(cuts)]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("seed", range(3))
async def test_a_subscription_delivers_every_event_once_over_many_cuts(
    worker: Worker, wire: MakeWire, seed: int
) -> None:
    done = await AgentClient(url=worker.card.url).send_task(None, Task.create("count 1500"))
    whole = [event async for event in AgentClient(url=worker.card.url).subscribe(done.id)]
    between = await wire(worker.card.url)
    between.cut_after(budgets(seed, 25))
    seen = [event async for event in AgentClient(url=between.url).subscribe(done.id)]
    assert seen == whole
    assert [event.sequence for event in seen] == list(range(1, len(seen) + 1))
    assert between.connections > 15


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("seed", range(3))
async def test_a_streamed_task_delivers_every_event_once_over_many_cuts_and_runs_once(
    worker: Worker, wire: MakeWire, seed: int
) -> None:
    between = await wire(worker.card.url)
    between.cut_after(budgets(seed, 25))
    task = Task.create("count 1500")
    seen = [event async for event in AgentClient(url=between.url).send_task_streaming(None, task)]
    assert seen == [event async for event in AgentClient(url=worker.card.url).subscribe(task.id)]
    assert (seen[-1].state, worker.runs) == (TaskState.COMPLETED, 1)
    assert between.connections > 15


@pytest.mark.usefixtures("impatient")
async def test_a_cut_in_the_middle_of_a_live_run_is_not_seen_by_the_reader(worker: Worker, wire: MakeWire) -> None:
    between = await wire(worker.card.url)
    stream = AgentClient(url=between.url).send_task_streaming(None, Task.create("hold on"))
    seen = [await anext(stream), await anext(stream)]
    rest = asyncio.ensure_future(anext(stream))
    between.cut()
    worker.release.set()
    seen += [await rest] + [event async for event in stream]
    assert [event.sequence for event in seen] == [1, 2, 3, 4]
    assert (between.connections, worker.runs) == (2, 1)


@pytest.mark.parametrize("padding", [0, 1 << 20], ids=["small", "1 MiB"])
async def test_a_send_that_is_cut_after_it_was_delivered_is_repeated_and_runs_once(
    worker: Worker, wire: MakeWire, padding: int
) -> None:
    between = await wire(worker.card.url)
    task = Task.create("hold on" + " " * padding)
    sending = asyncio.create_task(AgentClient(url=between.url).send_task(None, task))
    await worker.holding.wait()
    between.cut()
    # The repeated request comes over a new connection; only then may the run end.
    async with asyncio.timeout(WAIT_S):
        while between.connections < 2:
            await asyncio.wait([sending], timeout=0.01)
    worker.release.set()
    assert (await sending).state is TaskState.COMPLETED
    assert worker.runs == 1


class SlowStore(MemoryStore):
    """Holds its first append until it is let go, as a busy disk would."""

    def __init__(self) -> None:
        super().__init__()
        self.appending = asyncio.Event()
        self.go_on = asyncio.Event()

    async def append(self, append: Append) -> RequestRecord | None:
        self.appending.set()
        await self.go_on.wait()
        return await super().append(append)


async def test_a_send_that_is_cut_before_it_was_on_disk_is_repeated_and_runs_once(wire: MakeWire) -> None:
    store = SlowStore()
    async with Worker(store=store) as worker:
        between = await wire(worker.card.url)
        sending = asyncio.create_task(AgentClient(url=between.url).send_task(None, Task.create("echo hello")))
        await store.appending.wait()
        between.cut()
        async with asyncio.timeout(WAIT_S):
            while between.connections < 2:
                await asyncio.wait([sending], timeout=0.01)
        # The repetition has to arrive while the first copy still waits for the disk.
        await AgentClient(url=between.url).get_agent_card()
        store.go_on.set()
        assert (await sending).state is TaskState.COMPLETED
        assert worker.runs == 1


async def test_a_stream_gives_up_when_the_outage_lasts_too_long(worker: Worker, wire: MakeWire) -> None:
    between = await wire(worker.card.url)
    client = AgentClient(url=between.url, outage_s=0.3)
    task = Task.create("hold on")
    stream = client.send_task_streaming(None, task)
    assert [(await anext(stream)).sequence, (await anext(stream)).sequence] == [1, 2]
    await between.sever()
    began = asyncio.get_running_loop().time()
    with pytest.raises(UnavailableError) as caught:
        await anext(stream)
    assert asyncio.get_running_loop().time() - began >= 0.3
    assert (caught.value.metadata["url"], caught.value.metadata["task_id"]) == (between.url, task.id)
    # What was seen counts: the next reader begins behind it, once the wire is whole.
    await between.mend()
    worker.release.set()
    assert [event.sequence async for event in client.subscribe(task.id, after=2)] == [3, 4]


async def test_a_subscription_outlives_a_restart_of_the_agent(tmp_path: Path, wire: MakeWire) -> None:
    worker = Worker(store=SQLiteStore(tmp_path / "tasks.db"))
    await worker.serve()
    between = await wire(worker.card.url)
    client = AgentClient(url=between.url)
    asked = await client.send_task(None, Task.create("ask"))
    stream = client.subscribe(asked.id)
    seen = [await anext(stream) for _ in range(4)]
    following = asyncio.ensure_future(anext(stream))
    port = worker.card.url.rpartition(":")[2]
    await worker.aclose()
    again = Worker(f"grpc://127.0.0.1:{port}", store=SQLiteStore(tmp_path / "tasks.db"))
    async with again:
        await client.send_task(None, Task(id=asked.id, messages=[Message.user("echo x")]))
        seen += [await following] + [event async for event in stream]
    assert [event.sequence for event in seen] == list(range(1, 9))
    assert seen[-1].state is TaskState.COMPLETED


async def test_a_server_that_never_answers_is_left_after_the_timeout(worker: Worker, wire: MakeWire) -> None:
    between = await wire(worker.card.url)
    between.fall_silent()
    with pytest.raises(DeadlineExceededError) as caught:
        await AgentClient(url=between.url, timeout=0.3).get_agent_card()
    assert caught.value.metadata == {"url": between.url}


class CutAtTheEnd:
    """An agent whose streams deliver everything and are cut before they end. A second look would wait forever."""

    def __init__(self, last: TaskState) -> None:
        self.looks = 0
        self._events = [
            RunEvent(payload=TaskStatusChanged(TaskState.SUBMITTED, TaskState.WORKING), sequence=1),
            RunEvent(payload=TaskStatusChanged(TaskState.WORKING, last), sequence=2),
        ]

    async def stream(
        self, *_: Any, deltas: bool = False, timeout_s: float | None, **_target: Any
    ) -> AsyncGenerator[list[RunEvent], None]:
        self.looks += 1
        assert self.looks == 1
        yield self._events
        raise UnavailableError("cut")

    watch = stream


@pytest.mark.parametrize("last", [TaskState.COMPLETED, TaskState.INPUT_REQUIRED])
async def test_a_cut_of_nothing_but_the_end_is_the_end(last: TaskState, monkeypatch: pytest.MonkeyPatch) -> None:
    client = AgentClient(url="grpc://127.0.0.1:1")
    monkeypatch.setattr(client, "_agent", lambda _: CutAtTheEnd(last))
    sent = [event.sequence async for event in client.send_task_streaming(None, Task.create("x"))]
    seen = [event.sequence async for event in client.subscribe("x", stop_at=StopAt.INTERRUPTED)]
    assert sent == seen == [1, 2]


class QuietBetweenCuts:
    """An agent whose stream is cut, reached again, quiet for long, and cut once more."""

    def __init__(self, quiet_s: float, **metadata: str) -> None:
        self._quiet_s, self._metadata = quiet_s, metadata

    async def watch(
        self, task_id: str, after: int, *_: Any, deltas: bool = False, timeout_s: float | None
    ) -> AsyncGenerator[list[RunEvent], None]:
        self.looks = getattr(self, "looks", 0) + 1
        if self.looks == 3:
            yield [RunEvent(payload=TaskStatusChanged(TaskState.WORKING, TaskState.COMPLETED), sequence=2)]
            return
        if self.looks == 1:
            yield [RunEvent(payload=TaskStatusChanged(TaskState.SUBMITTED, TaskState.WORKING), sequence=1)]
        else:
            await asyncio.sleep(self._quiet_s)  # what the agent under test does, not what the test waits for
        raise UnavailableError("cut", **self._metadata)


@pytest.mark.usefixtures("impatient")
async def test_a_quiet_stream_between_two_cuts_ends_the_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protolink_grpc.client.backoff.OPEN_S", 0.05)
    client, agent = AgentClient(url="grpc://127.0.0.1:1", outage_s=0.2), QuietBetweenCuts(0.3)
    monkeypatch.setattr(client, "_agent", lambda _: agent)
    assert [event.sequence async for event in client.subscribe("x")] == [1, 2]


@pytest.mark.usefixtures("impatient")
async def test_an_attempt_that_takes_long_to_reach_nobody_does_not_end_the_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("protolink_grpc.client.backoff.OPEN_S", 0.05)
    client, agent = AgentClient(url="grpc://127.0.0.1:1", outage_s=0.2), QuietBetweenCuts(0.3, unreached="true")
    monkeypatch.setattr(client, "_agent", lambda _: agent)
    with pytest.raises(UnavailableError):
        _ = [event async for event in client.subscribe("x")]


class CutExports:
    """An agent whose exports are cut after one batch, after two, and so on; there are three."""

    looks = 0

    async def export(self, *_: Any) -> AsyncGenerator[tuple[str, ...], None]:
        self.looks += 1
        for batch in [("a", "b"), ("c",), ("d", "e")][: self.looks]:
            yield batch
        if self.looks < 3:
            raise UnavailableError("cut")


@pytest.mark.usefixtures("impatient")
async def test_an_export_that_is_cut_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    client, agent = AgentClient(url="grpc://127.0.0.1:1"), CutExports()
    monkeypatch.setattr(client, "_agent", lambda _: agent)
    assert [line async for line in client.export_task(None, "x")] == ["a", "b", "c", "d", "e"]
    assert agent.looks == 3


async def test_a_subscription_after_the_end_of_a_task_ends_without_an_event(worker: Worker) -> None:
    client = AgentClient(url=worker.card.url, outage_s=0)
    done = await client.send_task(None, Task.create("echo hello"))
    last = [event.sequence async for event in client.subscribe(done.id)][-1]
    for stop_at in StopAt:
        assert [event async for event in client.subscribe(done.id, after=last, stop_at=stop_at)] == []


async def test_a_task_is_continued_by_its_id_and_a_wrong_id_begins_nothing(worker: Worker) -> None:
    asked = await AgentClient(url=worker.card.url).send_task(None, Task.create("ask"))
    client = AgentClient(url=worker.card.url)  # which has not seen the task
    done = await client.send_task(None, "echo x", task_id=asked.id)
    assert (done.id, done.state) == (asked.id, TaskState.COMPLETED)
    runs = worker.runs
    for refused in (client.send_task, client.submit_task):
        with pytest.raises(TaskNotFoundError):
            await refused(None, "echo x", task_id="mistyped")
    with pytest.raises(TaskNotFoundError):
        _ = [event async for event in client.send_task_streaming(None, Message.user("echo x"), task_id="mistyped")]
    assert worker.runs == runs


@pytest.mark.parametrize("task_id", ["another", ""])
async def test_a_task_has_one_id(task_id: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        await AgentClient(url="grpc://127.0.0.1:1").send_task(None, Task.create("x"), task_id=task_id)
    assert refused.value.field == "task_id"


@pytest.mark.parametrize("header", ["authorization", "Proxy-Authorization", "X-API-Key", "cookie"])
@pytest.mark.parametrize("scheme", ["grpc", "http", "ws"])
async def test_a_secret_header_never_goes_to_another_machine_in_the_clear(header: str, scheme: str) -> None:
    client = AgentClient(url=f"{scheme}://agent.example:50051", metadata=[(header, "secret")])
    for refused in (client.get_agent_card(), client.send_task(None, "x"), anext(client.subscribe("x"))):
        with pytest.raises(InvalidArgumentError, match=r"unencrypted: use TLS, or allow it") as error:
            await refused
        assert (error.value.field, "secret" in str(error.value)) == ("metadata", False)
    with pytest.raises(InvalidArgumentError):
        RegistryClient("grpc://registry.example:50050", metadata=[(header, "secret")])


async def test_a_secret_header_may_stay_on_this_machine_or_go_where_that_is_allowed(worker: Worker) -> None:
    secret = [("x-api-key", "secret")]
    await AgentClient(url=worker.card.url, metadata=secret).get_agent_card()
    RegistryClient("grpcs://registry.example:50050", metadata=secret)
    RegistryClient("grpc://registry.example:50050", metadata=secret, insecure_ok=True)
    allowed = AgentClient(url="grpc://agent.invalid:50051", metadata=secret, insecure_ok=True, outage_s=0)
    with pytest.raises(UnavailableError):
        await allowed.get_agent_card()


async def test_a_repeated_request_is_followed_over_a_cut_to_the_task_that_it_began(
    worker: Worker, wire: MakeWire
) -> None:
    first = await AgentClient(url=worker.card.url).submit_task(None, Task.create("hold on"), request_id="same")
    between = await wire(worker.card.url)
    stream = AgentClient(url=between.url).send_task_streaming(None, Task.create("hold on"), request_id="same")
    seen = [await anext(stream), await anext(stream)]
    rest = asyncio.ensure_future(anext(stream))
    between.cut()
    worker.release.set()
    seen += [await rest] + [event async for event in stream]
    assert [event.sequence for event in seen] == [1, 2, 3, 4]
    assert ({event.task_id for event in seen}, worker.runs) == ({first.id}, 1)


# -- in the same process -----------------------------------------------------------------------------------------------------


async def test_a_subscription_goes_on_when_its_agent_is_started_anew_on_another_loop() -> None:
    worker = Worker("runtime://restarted")
    await worker.serve()
    client = AgentClient(url=worker.card.url, timeout=WAIT_S)
    asked = await client.send_task(None, Task.create("ask"))
    stream = client.subscribe(asked.id)
    seen = [await anext(stream) for _ in range(4)]
    await worker.aclose()
    await asyncio.to_thread(worker.start, background=True)
    try:
        await client.send_task(None, asked.add_message(Message.user("echo x")))
        async with asyncio.timeout(WAIT_S):
            seen += [event async for event in stream]
    finally:
        await asyncio.to_thread(worker.stop)
    assert [event.sequence for event in seen] == list(range(1, 9))


async def test_an_agent_whose_loop_is_closed_is_not_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    agent = Agent(name="gone")
    service: Any = object()
    monkeypatch.setitem(_endpoints, "runtime://gone", LocalEndpoint(service, loop, lambda: agent.card, Toolbox()))
    client = AgentClient(url="runtime://gone")
    for attempt in (client.get_task("x"), client.send_task(None, Task.create("x"))):
        with pytest.raises(UnavailableError, match=r"^runtime://gone is not reachable"):
            await attempt


# -- traces ------------------------------------------------------------------------------------------------------------------

TRACED = """
    import asyncio, json
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from protolink_grpc import Agent, AgentClient, Registry, Task

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)

    class Asker(Agent):
        async def handle_task(self, task):
            with trace.get_tracer("test").start_as_current_span("asking"):
                await self.peer("asked").run_task(Task.create("x"))
                async for _ in self.peer("asked").run_task_streaming(Task.create("x")):
                    pass
            return task.complete("done")

    class Asked(Agent):
        async def handle_task(self, task):
            return task.complete("done")

    async def main():
        async with Registry() as registry:
            async with Asked(name="asked", transport="grpc", registry=registry.url) as asked:
                async with Asker(name="asker", transport="grpc", registry=registry.url) as asker:
                    with trace.get_tracer("test").start_as_current_span("outside"):
                        await AgentClient(url=asker.card.url).send_task(None, Task.create("x"))
        print(json.dumps([
            [span.name.rpartition("/")[2], f"{span.context.span_id:x}", f"{span.parent.span_id:x}" if span.parent else ""]
            for span in exporter.get_finished_spans()
        ]), flush=True)

    asyncio.run(main())
"""


async def test_what_an_agent_asks_another_one_is_a_child_of_the_span_that_asked(
    launch: Callable[..., Awaitable[Any]],
) -> None:
    program = await launch(TRACED)
    spans = json.loads(await program.line())
    assert await program.end() == 0
    names = {own: name for name, own, _ in spans}
    family = {(name, names.get(parent, "")) for name, _, parent in spans}
    assert {("outside", ""), ("SendTask", "outside"), ("asking", "SendTask")} <= family
    assert {("GetAgent", "asking"), ("SendTask", "asking"), ("StreamTask", "asking")} <= family


def test_without_a_tracer_nothing_is_added_to_a_call() -> None:
    assert add_origin(()) is None
    assert add_origin((("authorization", "x"),)) == (("authorization", "x"),)


# -- what a client is told ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://127.0.0.1:1", "must begin with grpc:// or grpcs://"),
        ("grpc://127.0.0.1", "must name a host and a port"),
        ("grpc://127.0.0.1:1/agent", "must consist of scheme, host and port only"),
        ("", "the client has no url"),
    ],
)
async def test_a_url_that_is_none_is_the_callers_mistake(url: str, says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says) as caught:
        await AgentClient().get_agent_card(url)
    assert caught.value.field == "agent_url"


def test_a_client_of_an_unknown_transport_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="is not one of grpc, runtime"):
        AgentClient("carrier-pigeon")


async def test_a_url_without_a_scheme_is_of_the_clients_transport(worker: Worker) -> None:
    assert (await AgentClient().get_agent_card(worker.card.url.removeprefix("grpc://"))).name == "worker"
    async with Agent(name="nearby"):
        assert (await AgentClient("runtime").get_agent_card("nearby")).name == "nearby"


async def test_an_unreachable_agent_is_named_with_its_url() -> None:
    with pytest.raises(UnavailableError, match=r"^grpc://127\.0\.0\.1:1 is not reachable: .*refused") as caught:
        await AgentClient(url="grpc://127.0.0.1:1", outage_s=0).get_agent_card()
    assert isinstance(caught.value, ConnectionError)


async def test_an_http_port_is_named_as_one() -> None:
    async with Agent(name="web", http=0) as agent:
        address = agent.http_url.replace("http://", "grpc://")
        with pytest.raises(UnavailableError) as caught:
            await AgentClient(url=address, outage_s=0).get_agent_card()
    assert (caught.value.metadata["protocol"], caught.value.metadata["unreached"]) == ("HTTP/1", "true")


async def test_a_server_without_the_service_is_named() -> None:
    async with Registry() as registry:
        with pytest.raises(UnimplementedError, match=f"^{registry.url} does not have this service$") as caught:
            await AgentClient(url=registry.url).get_agent_card()
    assert caught.value.metadata["url"] == registry.url


# -- the synchronous face ----------------------------------------------------------------------------------------------------


def everything(url: str) -> list[Any]:
    """One use of each kind of verb."""
    client = AgentClient(url=url, timeout=WAIT_S)
    task = Task.create("echo hello")
    card = client.sync.get_agent_card()
    done = client.sync.send_task(None, task)
    events = list(client.sync.subscribe(task.id))
    partly = list(itertools.islice(client.sync.send_task_streaming(None, Task.create("count 100")), 3))
    with pytest.raises(TaskNotFoundError):
        client.sync.get_task("nobody")
    return [card.name, done.messages[-1].text, [event.sequence for event in events], len(partly)]


EVERYTHING: list[Any] = ["worker", "hello", [1, 2, 3, 4], 3]


@pytest.fixture
def url() -> Any:
    """An agent on the background loop, as a program without a loop of its own has it."""
    worker = Worker()
    worker.start(background=True)
    yield worker.card.url
    worker.stop()
    background.run(close_channels())


def test_sync_works_without_a_loop(url: str) -> None:
    assert everything(url) == EVERYTHING


def test_sync_works_in_a_thread(url: str) -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(everything(url)))
    thread.start()
    thread.join(WAIT_S)
    assert found == EVERYTHING


def test_sync_works_in_many_threads_at_once(url: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(everything, [url] * 16)) == [EVERYTHING] * 16


async def test_sync_works_in_a_thread_of_a_running_loop(worker: Worker) -> None:
    assert await asyncio.to_thread(everything, worker.card.url) == EVERYTHING


async def test_sync_works_directly_inside_a_running_loop_as_in_a_notebook(url: str) -> None:
    assert everything(url) == EVERYTHING


async def test_sync_on_its_own_loop_is_an_error_instead_of_a_standstill(url: str) -> None:
    async def within() -> Any:
        return AgentClient(url=url).sync.get_agent_card()

    with pytest.raises(RuntimeError, match="await the async method instead"):
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(within(), background.loop))


def test_sync_has_the_verbs_of_the_client_and_nothing_else() -> None:
    verbs = {"get_agent_card", "send_task", "send_task_streaming", "subscribe", "list_tasks", "cancel_task"}
    sync = AgentClient().sync
    assert verbs <= set(dir(sync))
    assert "sync" not in dir(sync)
    with pytest.raises(AttributeError, match=r"AgentClient\.sync has no fly"):
        sync.fly()
    assert {"register", "watch", "list_agents"} <= set(dir(RegistryClient("grpc://127.0.0.1:1").sync))


SCRIPT = """
    from protolink_grpc import Agent, AgentClient, Registry, Task

    registry = Registry()
    registry.start(background=True)
    agent = Agent(name="adder", transport="grpc", registry=registry.url)

    @agent.tool
    def add(a: int, b: int) -> int:
        return a + b

    agent.start(background=True)
    client = AgentClient(url=agent.card.url)
    print(client.sync.send_task(None, Task.create_tool_call("add", {"a": 2, "b": 3})).get_output())
    for event in client.sync.send_task_streaming(None, Task.create_tool_call("add", {"a": 2, "b": 3})):
        break
    print([agent.card.name for agent in registry.client.sync.list_agents()])
    %s
"""


@pytest.mark.parametrize(
    "ending", ["agent.stop(); registry.stop()", "pass", "raise SystemExit(0)"], ids=["stopped", "just ends", "exits"]
)
async def test_a_plain_script_works_and_ends_without_a_warning(tmp_path: Path, ending: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(dedent(SCRIPT % ending))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        str(script),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert (out.decode().split("\n"), err.decode(), process.returncode) == (["5", "['adder']", ""], "", 0)
