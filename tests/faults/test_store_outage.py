"""A store that fails for a while: every method over every port reports it as UNAVAILABLE, and works again afterwards."""

import asyncio
import json
import logging
import resource
import shutil
import sqlite3
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import agent_service_pb2_grpc, approval_pb2, control_service_pb2_grpc, task_input_pb2
from plgrpc.v1 import control_service_pb2 as control_pb

from protolink_grpc import (
    Agent,
    AgentCapabilities,
    AgentCard,
    AgentClient,
    Approvals,
    CapabilityPolicy,
    Limits,
    Message,
    RunContext,
    SQLiteStore,
    Task,
    TaskState,
)
from protolink_grpc.errors import RULES, StoreError
from protolink_grpc.models.clock import SystemClock
from protolink_grpc.models.events import TaskStatusChanged
from protolink_grpc.models.ids import new_task_id
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.runtime.admission import AcceptedTurn
from protolink_grpc.runtime.log import LiveTask
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.memory import MemoryStore
from protolink_grpc.storage.port import Append, RequestRecord
from protolink_grpc.storage.sqlite import file

PATIENCE_S = 30.0
EDGES = ("grpc", "jsonrpc", "rest", "protolink")


class Clerk(Agent):
    """Does what the first word says; `hold` waits until the test lets it go."""

    go: asyncio.Event
    runs = 0

    async def handle_task(self, task: Task) -> Task:
        self.runs += 1
        match task.messages[-1].text:
            case "ask":
                return task.require_input(Message.agent("which?"))
            case "hold":
                await self.go.wait()
            case "pay":
                return task.complete(await self.call_tool_in_context("pay", RunContext.from_task(task)))
        return task.complete("done")


class Breakable(SQLiteStore):
    """Its file fails when the test says so: what a file on a disk that is gone does."""

    broken = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        read, write, probe = self._engine.read, self._engine.write, self._engine.start_probe

        def check() -> None:
            if self.broken:
                raise StoreError(f"{self.path}: disk I/O error")

        async def checked_read(*args: Any, **options: Any) -> Any:
            check()
            return await read(*args, **options)

        async def checked_write(*args: Any, **options: Any) -> Any:
            check()
            return await write(*args, **options)

        def checked_probe() -> Any:
            if not self.broken:
                return probe()
            failed = asyncio.get_running_loop().create_future()
            failed.set_exception(StoreError(f"{self.path}: disk I/O error"))
            return failed

        self._engine.read, self._engine.write, self._engine.start_probe = checked_read, checked_write, checked_probe


# -- outages -----------------------------------------------------------------------------------------------------------------


@contextmanager
def locked(store: Breakable) -> Iterator[None]:
    """Another process holds the file for itself."""
    db = sqlite3.connect(store.path, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    yield
    db.execute("ROLLBACK")
    db.close()


@contextmanager
def full(store: Breakable) -> Iterator[None]:
    """The disk that the file is on has no space left."""
    place, filler = store.path.parent, store.path.with_name("filler")
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    assert shutil.disk_usage(place).free == 0
    yield
    filler.unlink()


@contextmanager
def limited(store: Breakable) -> Iterator[None]:
    """No file of this process may grow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = store.path.with_name(f"{store.path.name}-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def broken(store: Breakable) -> Iterator[None]:
    """Nothing can be read or written."""
    store.broken = True
    yield
    store.broken = False


OUTAGES: dict[str, Callable[[Breakable], AbstractContextManager[None]]] = {
    each.__name__: each for each in (locked, full, limited, broken)
}


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Where the store is; a small disk of its own for the test that fills it."""
    if request.node.callspec.params["outage"] != "full":
        yield tmp_path
        return
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


# -- what each edge can be asked ---------------------------------------------------------------------------------------------

Ask = Callable[..., Awaitable[str]]
"""What a verb answers: OK, or the gRPC code of the refusal, whatever the edge calls it."""


@dataclass
class Desk:
    """An agent with a task of each kind, and the verbs of one edge on it.

    Attributes:
        finished, waiting, held, unpaid: Ids of the task that is done, waits for input, works, waits for an approval.
    """

    agent: Clerk
    http: httpx.AsyncClient
    channel: grpc.aio.Channel
    finished: str = ""
    waiting: str = ""
    held: str = ""
    unpaid: str = ""
    approval: str = ""
    etag: str = ""
    ids: dict[str, str] = field(default_factory=dict)

    # gRPC

    @property
    def stub(self) -> Any:
        return agent_service_pb2_grpc.AgentServiceStub(self.channel)

    async def grpc(self, verb: str) -> str:
        control = control_service_pb2_grpc.ControlServiceStub(self.channel)
        new = task_input_pb2.TaskInput(messages=[{"parts": [{"text": "go"}]}])
        first = task_input_pb2.TaskInput(
            task_id=self.finished,
            target=task_input_pb2.TASK_TARGET_CREATE,
            messages=[{"id": "first message", "parts": [{"text": "go"}]}],
        )
        calls: dict[str, Callable[[], Any]] = {
            "send": lambda: self.stub.SendTask(pb.SendTaskRequest(input=new)),
            "repeat": lambda: self.stub.SendTask(pb.SendTaskRequest(input=first, request_id="first")),
            "repeat anew": lambda: self.stub.SendTask(pb.SendTaskRequest(input=new, request_id="first")),
            "stream": lambda: _drained(self.stub.StreamTask(pb.StreamTaskRequest(input=new))),
            "subscribe": lambda: _drained(self.stub.SubscribeTask(pb.SubscribeTaskRequest(task_id=self.finished))),
            "get": lambda: self.stub.GetTask(pb.GetTaskRequest(task_id=self.waiting)),
            "list": lambda: self.stub.ListTasks(pb.ListTasksRequest()),
            "cancel": lambda: self.stub.CancelTask(pb.CancelTaskRequest(task_id=self.held)),
            "approve": lambda: control.RespondApproval(
                control_pb.RespondApprovalRequest(
                    approval_id=self.approval, verdict=approval_pb2.APPROVAL_VERDICT_APPROVE, etag=self.etag
                )
            ),
            "approvals": lambda: control.ListApprovals(control_pb.ListApprovalsRequest()),
        }
        try:
            await calls[verb]()
        except grpc.aio.AioRpcError as error:
            return str(error.code().name)
        return "OK"

    # A2A

    def _params(self, verb: str) -> tuple[str, str, str, Any]:
        """Method, HTTP method, path and parameters."""

        def said(text: str, **more: str) -> Any:
            return {"message": {"messageId": new_task_id(), "role": "ROLE_USER", "parts": [{"text": text}], **more}}

        return {
            "send": ("SendMessage", "POST", "/message:send", said("go")),
            "continue": ("SendMessage", "POST", "/message:send", said("ask", taskId=self.waiting)),
            "stream": ("SendStreamingMessage", "POST", "/message:stream", said("go")),
            "subscribe": ("SubscribeToTask", "POST", f"/tasks/{self.waiting}:subscribe", {"id": self.waiting}),
            "get": ("GetTask", "GET", f"/tasks/{self.waiting}", {"id": self.waiting}),
            "list": ("ListTasks", "GET", "/tasks", {}),
            "cancel": ("CancelTask", "POST", f"/tasks/{self.held}:cancel", {"id": self.held}),
            "approve": ("SendMessage", "POST", "/message:send", said("approve", taskId=self.unpaid)),
        }[verb]

    async def jsonrpc(self, verb: str) -> str:
        method, _, _, params = self._params(verb)
        sent = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = await self._first("POST", "/", sent)
        return _code_of(answer["error"]["data"][0]["reason"]) if "error" in answer else "OK"

    async def rest(self, verb: str) -> str:
        _, method, path, params = self._params(verb)
        answer = await self._first(method, path, params if method == "POST" else None)
        return str(answer["error"]["status"]) if "error" in answer else "OK"

    # ProtoLink

    async def protolink(self, verb: str) -> str:
        def task(text: str, **more: Any) -> Any:
            message = {"id": f"message of {text}", "role": "user", "parts": [{"type": "text", "content": text}]}
            return {"id": new_task_id(), "messages": [message], **more}

        path, body, key = {
            "send": ("/tasks/", task("go"), ""),
            "repeat": ("/tasks/", task("go", id=self.ids.setdefault("protolink", new_task_id())), "the key"),
            "stream": ("/tasks/stream", task("go"), ""),
            "cancel": ("/tasks/cancel", {"id": self.held}, ""),
        }[verb]
        answer = await self._first("POST", path, body, **({"idempotency-key": key} if key else {}))
        if "ok" in answer:
            return "OK" if answer["ok"] else _code_of(answer["error"]["reason"])
        return _code_of(answer["reason"]) if "reason" in answer else "OK"

    async def _first(self, method: str, path: str, body: Any, **headers: str) -> Any:
        """The answer, or the first event of a stream."""
        headers |= {"A2A-Version": "1.0"}
        async with self.http.stream(method, path, json=body, headers=headers) as response:
            if response.headers["content-type"].startswith("text/event-stream"):
                async for line in response.aiter_lines():
                    if line.startswith("data:"):
                        return json.loads(line.removeprefix("data:"))
                raise AssertionError("a stream of nothing")
            return json.loads(await response.aread())


VERBS = {
    "grpc": ("send", "repeat", "repeat anew", "stream", "subscribe", "get", "list", "approvals", "approve", "cancel"),
    "jsonrpc": ("send", "continue", "stream", "subscribe", "get", "list", "approve", "cancel"),
    "rest": ("send", "continue", "stream", "subscribe", "get", "list", "approve", "cancel"),
    "protolink": ("send", "repeat", "stream", "cancel"),
}
NOTHING_TO_WRITE = {"subscribe", "get", "list", "approvals", "repeat", "repeat anew"}
"""What may be answered while nothing can be written."""


def _code_of(reason: str) -> str:
    return RULES[reason].grpc


async def _drained(call: Any) -> None:
    async for _ in call:
        pass


async def furnish(agent: Clerk, http: httpx.AsyncClient, channel: grpc.aio.Channel) -> Desk:
    desk = Desk(agent, http, channel)
    client = AgentClient(url=agent.card.url)
    first = Task(new_task_id(), messages=[Message(role="user", parts=Message.user("go").parts, id="first message")])
    desk.finished = (await client.send_task(None, first, request_id="first")).id
    desk.waiting = (await client.send_task(None, Task.create("ask"))).id
    desk.held = (await client.submit_task(None, Task.create("hold"))).id
    desk.unpaid = (await client.submit_task(None, Task.create("pay"))).id
    async for approval in client.watch_approvals():
        desk.approval, desk.etag = approval.approval_id, approval.etag
        break
    return desk


class Noticed(logging.Handler):
    """Sets `event` at the first record with this text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.event, self._text = asyncio.Event(), text

    def emit(self, record: logging.LogRecord) -> None:
        if self._text in record.getMessage():
            self.event.set()


async def test_a_run_that_waits_for_an_approval_survives_an_outage(tmp_path: Path) -> None:
    store, noticed = Breakable(tmp_path / "tasks.db"), Noticed("continues to wait until the store works again")
    agent = Agent(
        AgentCard(name="clerk", description="clerk", url="grpc://127.0.0.1:0"),
        store=store,
        policy=CapabilityPolicy({"money.spend": "ask"}),
        approvals=Approvals(),
    )

    @agent.tool(capabilities=["money.spend"])
    def pay() -> str:
        return "paid"

    log = logging.getLogger("protolink_grpc.runtime.log")
    log.addHandler(noticed)
    try:
        async with agent, asyncio.timeout(PATIENCE_S):
            client = AgentClient(url=agent.card.url)
            task = await client.submit_task(None, Task.create_tool_call("pay", {}))
            approval = await anext(client.watch_approvals())
            with broken(store):
                await noticed.event.wait()
            await client.respond_approval(None, approval, True)
            assert (await client.wait_task(task.id)).get_output() == "paid"
    finally:
        log.removeHandler(noticed)


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("outage", OUTAGES)
async def test_every_verb_is_unavailable_while_the_store_is_and_works_again_afterwards(
    outage: str, edge: str, folder: Path, monkeypatch: pytest.MonkeyPatch, channel: Callable[[str], grpc.aio.Channel]
) -> None:
    monkeypatch.setattr(file, "BUSY_MS", 50)
    store = Breakable(folder / "tasks.db")
    agent = Clerk(
        AgentCard(
            name="clerk",
            description="clerk",
            url="grpc://127.0.0.1:0",
            capabilities=AgentCapabilities(max_concurrency=16),
        ),
        store=store,
        http="http://127.0.0.1:0",
        policy=CapabilityPolicy({"money.spend": "ask"}),
        approvals=Approvals(),
        limits=Limits(cancel_wait_s=5.0),
    )
    agent.go = asyncio.Event()

    @agent.tool(capabilities=["money.spend"])
    def pay() -> str:
        return "paid"

    async with agent, httpx.AsyncClient(base_url=agent.http_url, timeout=PATIENCE_S) as http:
        desk = await furnish(agent, http, channel(agent.card.url))
        ask: Ask = getattr(desk, edge)
        if edge == "protolink":
            assert await ask("repeat") == "OK"
        runs = agent.runs
        with OUTAGES[outage](store):
            during = {verb: await ask(verb) for verb in VERBS[edge]}
        allowed = {"UNAVAILABLE"} if outage == "broken" else {"UNAVAILABLE", "OK"}
        for verb, answer in during.items():
            assert answer in (allowed if verb in NOTHING_TO_WRITE else {"UNAVAILABLE"}), during
        assert agent.runs == runs
        after = {verb: await ask(verb) for verb in VERBS[edge]}
        assert after == dict.fromkeys(VERBS[edge], "OK")
        agent.go.set()
        client = AgentClient(url=agent.card.url)
        async with asyncio.timeout(PATIENCE_S):
            assert (await client.wait_task(desk.held)).state is TaskState.CANCELED
            if edge != "protolink":  # which has no word for an approval
                assert (await client.wait_task(desk.unpaid)).get_output() == "paid"


async def test_a_lock_that_outlasts_the_leases_costs_no_process_its_runs(tmp_path: Path) -> None:
    go, path = asyncio.Event(), tmp_path / "tasks.db"

    async def handler(task: Task, run: Run) -> Task:
        await go.wait()
        return task.complete("done")

    stores = [Breakable(path) for _ in range(3)]
    services = [TaskService("clerk", store, handler, limits=Limits(lease_ttl_s=0.5)) for store in stores]
    for each in services:
        await each.start()
    turns = [await each.submit(Submission.of(Task.create("go")), "ann") for each in services]
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    await asyncio.sleep(1.0)  # twice a lease: no process can renew its own
    db.execute("ROLLBACK")
    db.close()
    await asyncio.sleep(1.5)  # looks for tasks of the dead come by time alone
    go.set()
    for service, turn in zip(services, turns, strict=True):
        async with asyncio.timeout(PATIENCE_S):
            assert (await service.settled(turn)).reason == ""
    for each in services:
        await each.stop()


class Refusing(MemoryStore):
    """Holds the first append back until the test says so, and refuses appends while it is out."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived, self.gate, self.out = asyncio.Event(), asyncio.Event(), True

    async def append(self, append: Append) -> RequestRecord | None:
        self.arrived.set()
        await self.gate.wait()
        if self.out:
            raise StoreError("out of order")
        return await super().append(append)


@pytest.mark.parametrize("ending", ["done", "failed", "canceled"])
async def test_what_a_run_ends_with_during_an_outage_is_recorded_after_it(ending: str) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def handler(task: Task, run: Run) -> Task:
        begun.set()
        try:
            await go.wait()
        except asyncio.CancelledError:
            store.out = True  # after the wish was recorded
            raise
        if ending == "failed":
            raise ValueError("no luck")
        return task.complete("done")

    store = Refusing()
    store.gate.set()
    store.out = False
    service = TaskService("clerk", store, handler, limits=Limits(lease_ttl_s=0.06))
    await service.start()
    turn = await service.submit(Submission.of(Task.create("go"), request_id="same"), "ann")
    await begun.wait()
    if ending == "canceled":
        await service.cancel(turn.task_id, "ann", reason="enough")
    else:
        store.out = True
        go.set()
    with pytest.raises(StoreError, match="out of order"):
        await service.settled(turn)
    store.out = False
    async with asyncio.timeout(PATIENCE_S):
        fold = await service.settled(AcceptedTurn(turn.task_id, turn.after_sequence))
    assert (
        fold.state
        is {
            "done": TaskState.COMPLETED,
            "failed": TaskState.FAILED,
            "canceled": TaskState.CANCELED,
        }[ending]
    )
    assert fold.reason == {"done": "", "failed": "ValueError: no luck", "canceled": "enough"}[ending]
    await service.stop()


async def test_an_end_that_comes_late_does_not_end_what_another_process_has_taken() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def handler(task: Task, run: Run) -> Task:
        begun.set()
        await go.wait()
        return task.complete("done")

    store = Refusing()
    store.gate.set()
    store.out = False
    service = TaskService("clerk", store, handler)
    await service.start()
    turn = await service.submit(Submission.of(Task.create("go")), "ann")
    await begun.wait()
    store.out = True
    go.set()
    with pytest.raises(StoreError, match="out of order"):
        await service.settled(turn)
    store.out = False
    head = await store.head(turn.task_id)
    assert head is not None
    other = LiveTask(head.task_id, agent_name=head.agent_name, store=store, clock=SystemClock())
    await other.refresh()
    begin = TaskStatusChanged(TaskState.WORKING, TaskState.WORKING, attempt=2, cause="recovered")
    await other.record([begin], run_id="another", claim=True)
    await service._recovery._settle_unrecorded()
    assert service._recovery.unrecorded == {}
    assert (await service.get(turn.task_id, "ann")).state is TaskState.WORKING
    await service.stop()


@pytest.mark.parametrize("request_id", ["same", ""], ids=["repeated", "another request"])
@pytest.mark.parametrize("target", TaskTarget)
async def test_a_task_that_the_store_could_not_take_is_not_called_unknown(request_id: str, target: TaskTarget) -> None:
    runs = 0

    async def handler(task: Task, run: Run) -> Task:
        nonlocal runs
        runs += 1
        return task.complete("done")

    store = Refusing()
    service = TaskService("clerk", store, handler)
    await service.start()
    task = Task.create("go")
    first = asyncio.create_task(service.send(Submission.of(task, request_id=request_id), "ann"))
    await store.arrived.wait()
    first.cancel()  # it hangs up while the store has not answered
    await asyncio.wait([first])
    again = Submission.of(task, request_id=request_id)
    again.target = target
    second = asyncio.create_task(service.send(again, "ann"))
    await asyncio.sleep(0)  # one turn of the loop: it finds the first under way
    store.gate.set()
    with pytest.raises(StoreError, match="out of order"):
        await second
    assert runs == 0
    store.out = False
    assert (await service.send(Submission.of(task, request_id=request_id), "ann")).state is TaskState.COMPLETED
    assert runs == 1
    await service.stop()
