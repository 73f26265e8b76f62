"""The gRPC port with generated stubs: health, reflection, statuses, and the options of a server."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import approval_pb2, control_service_pb2, task_input_pb2, task_pb2
from plgrpc.v1.agent_service_pb2_grpc import AgentServiceStub
from plgrpc.v1.control_service_pb2_grpc import ControlServiceStub

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    Approvals,
    DeadlineExceededError,
    Limits,
    MemoryStore,
    Message,
    Principal,
    ServerOptions,
    Task,
    TaskProgress,
    TaskState,
    UnavailableError,
    current_run,
)
from protolink_grpc.edges.grpc.call import Call
from protolink_grpc.edges.grpc.interceptors import Interceptor
from protolink_grpc.errors import DOMAIN

Channel = Callable[[str], grpc.aio.Channel]
Stub = Callable[[str], Any]

WAIT_S = 20.0
"""Bound of what must happen soon; reached only by a failure."""

AGENT_SERVICE = "plgrpc.v1.AgentService"
CONTROL_SERVICE = "plgrpc.v1.ControlService"


class Worker(Agent):
    """Does what the first word of the latest message says; `hold` waits for `release`."""

    def __init__(self, **options: Any) -> None:
        card = AgentCard(name="worker", description="does as told", url="grpc://127.0.0.1:0")
        super().__init__(card, grace_s=options.pop("grace_s", 0.1), **options)
        self.holding = asyncio.Event()
        self.release = asyncio.Event()

    async def handle_task(self, task: Task) -> Task:
        word, _, rest = task.messages[-1].text.partition(" ")
        if word == "hold":
            self.holding.set()
            await self.release.wait()
        if word == "ask":
            return task.require_input(Message.agent("which one?"))
        if word == "count":
            run = current_run()
            assert run is not None
            for step in range(int(rest)):
                await run.emit(TaskProgress(None, f"step {step}"))
        return task.complete(rest)


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Worker]:
    worker = Worker(**options)
    async with worker:
        yield worker


@pytest.fixture
async def worker() -> AsyncIterator[Worker]:
    async with serving() as running:
        yield running


def asking(text: str, task_id: str = "", **fields: Any) -> task_input_pb2.TaskInput:
    """The input of a new task, or with `target` of another."""
    message = task_pb2.Message(role=task_pb2.MESSAGE_ROLE_USER, parts=[{"text": text}])
    given = {"task_id": task_id, "target": task_input_pb2.TASK_TARGET_CREATE} | fields
    return task_input_pb2.TaskInput(messages=[message], **given)


def continuing(text: str, task_id: str, **fields: Any) -> task_input_pb2.TaskInput:
    return asking(text, task_id, target=task_input_pb2.TASK_TARGET_UNSPECIFIED, **fields)


def submitted(text: str, task_id: str = "") -> pb.SendTaskRequest:
    return pb.SendTaskRequest(input=asking(text, task_id), wait_for=pb.WAIT_FOR_ACCEPTED)


async def events_of(call: Any) -> list[Any]:
    return [event async for response in call for event in response.events]


@dataclass
class Refusal:
    """A status as a caller in another language reads it."""

    code: str
    message: str
    info: error_details_pb2.ErrorInfo
    details: dict[str, Any]


async def refused(call: Any) -> Refusal:
    """The status of a call that must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (call.read() if hasattr(call, "read") else call)
    return refusal(caught.value)


def refusal(error: grpc.aio.AioRpcError) -> Refusal:
    status = rpc_status.from_call(error)
    assert status is not None, f"{error.code()} without details: {error.details()}"
    assert (status.code, status.message) == (error.code().value[0], error.details())
    details: dict[str, Any] = {}
    for detail in status.details:
        for kind in (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo):
            message = kind()
            if detail.Unpack(message):
                details[kind.DESCRIPTOR.name] = message
    assert details["ErrorInfo"].domain == DOMAIN
    return Refusal(error.code().name, status.message, details["ErrorInfo"], details)


# -- health ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", ["", AGENT_SERVICE, CONTROL_SERVICE])
async def test_health_is_serving_for_the_server_and_each_of_its_services(
    worker: Worker, channel: Channel, service: str
) -> None:
    health = health_pb2_grpc.HealthStub(channel(worker.card.url))
    answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_health_of_a_service_that_is_not_here_is_not_found(worker: Worker, channel: Channel) -> None:
    health = health_pb2_grpc.HealthStub(channel(worker.card.url))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await health.Check(health_pb2.HealthCheckRequest(service="plgrpc.v1.RegistryService"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_drain_says_not_serving_first_and_lets_runs_finish(channel: Channel, stub: Stub) -> None:
    worker = Worker(grace_s=WAIT_S)
    await worker.serve()
    url = worker.card.url
    health = health_pb2_grpc.HealthStub(channel(url))
    watch = health.Watch(health_pb2.HealthCheckRequest(service=AGENT_SERVICE))
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
    waiting = asyncio.ensure_future(stub(url).SendTask(pb.SendTaskRequest(input=asking("hold on"))))
    await worker.holding.wait()
    closing = asyncio.create_task(worker.aclose())
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
    late = await refused(stub(url).SendTask(pb.SendTaskRequest(input=asking("echo too late"))))
    assert (late.code, late.info.reason) == ("UNAVAILABLE", "UNAVAILABLE")
    worker.release.set()
    assert (await waiting).task.state == task_pb2.TASK_STATE_COMPLETED
    watch.cancel()
    await closing


# -- reflection --------------------------------------------------------------------------------------------------------------


async def test_reflection_lets_a_stranger_list_build_and_call(worker: Worker) -> None:
    """The whole way of a generic client: nothing of the contract is compiled in, all is learned from the server."""

    def explore() -> tuple[set[str], Any]:
        with grpc.insecure_channel(worker.card.url.removeprefix("grpc://")) as channel:
            database = ProtoReflectionDescriptorDatabase(channel)
            services = set(database.get_services())
            method = DescriptorPool(database).FindServiceByName(AGENT_SERVICE).methods_by_name["GetAgentCard"]
            call = channel.unary_unary(
                f"/{AGENT_SERVICE}/GetAgentCard",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            return services, call(GetMessageClass(method.input_type)())

    services, response = await asyncio.to_thread(explore)
    assert services == {
        AGENT_SERVICE,
        CONTROL_SERVICE,
        "plgrpc.v1.SessionService",
        "plgrpc.v1.SnapshotService",
        "plgrpc.v1.TaskControlService",
        "lf.a2a.v1.A2AService",
        "a2a.v1.A2AService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    assert response.card.name == "worker"


async def test_buf_curl_sends_a_task_by_reflection(worker: Worker, tmp_path: Path) -> None:
    request = {"input": {"messages": [{"role": "MESSAGE_ROLE_USER", "parts": [{"text": "echo by curl"}]}]}}
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("buf")),
        "curl",
        "--protocol=grpc",
        "--http2-prior-knowledge",
        f"--data={json.dumps(request)}",
        f"{worker.card.url.replace('grpc://', 'http://')}/{AGENT_SERVICE}/SendTask",
        env={**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    task = json.loads(out)["task"]
    assert (task["state"], task["messages"][-1]["parts"]) == ("TASK_STATE_COMPLETED", [{"text": "by curl"}])


# -- ControlService ----------------------------------------------------------------------------------------------------------

CONTROL = control_service_pb2.DESCRIPTOR.services_by_name["ControlService"]
AGENT = pb.DESCRIPTOR.services_by_name["AgentService"]
ANSWERED = {"GetAgentCard", "ListTasks", "ListApprovals", "WatchApprovals", "ListTools"}
"""Methods to which an empty request is a good one, on any agent."""
SETTINGS = {
    "RespondApproval": (
        control_service_pb2.RespondApprovalRequest(approval_id="nobody", verdict=approval_pb2.APPROVAL_VERDICT_DENY),
        "approvals",
    ),
    "DescribeState": (control_service_pb2.DescribeStateRequest(), "state"),
    "ResetState": (control_service_pb2.ResetStateRequest(), "state"),
    "CompactState": (
        control_service_pb2.CompactStateRequest(scope=control_service_pb2.StateScope(session_id="s")),
        "state",
    ),
}
"""Methods whose behavior depends on what the agent was given: a request, and the name of the setting."""


async def reason_of(call: Any) -> str:
    """Why a call is refused, empty for one that is answered."""
    try:
        await (call.read() if hasattr(call, "read") else call)
    except grpc.aio.AioRpcError as error:
        return refusal(error).info.reason
    call.cancel()
    return ""


@pytest.mark.parametrize("method", [*AGENT.methods, *CONTROL.methods], ids=lambda method: method.name)
async def test_every_method_has_its_behavior(channel: Channel, method: MethodDescriptor) -> None:
    async with serving(state=["conversation", "tools"], approvals=Approvals()) as worker:
        kind = AgentServiceStub if method.containing_service is AGENT else ControlServiceStub
        call = getattr(kind(channel(worker.card.url)), method.name)
        reason = await reason_of(call(GetMessageClass(method.input_type)()))
    assert reason != "UNIMPLEMENTED"
    assert bool(reason) == (method.name not in ANSWERED | {"DescribeState", "ResetState"})


@pytest.mark.parametrize("method", SETTINGS)
async def test_a_method_without_its_setting_names_it(worker: Worker, channel: Channel, method: str) -> None:
    request, setting = SETTINGS[method]
    answer = await refused(getattr(ControlServiceStub(channel(worker.card.url)), method)(request))
    assert (answer.code, answer.info.reason) == ("UNIMPLEMENTED", "UNIMPLEMENTED")
    assert setting in answer.message.partition(": ")[2]


async def test_tools_are_listed_by_name_with_their_schemas(channel: Channel) -> None:
    def subtract(a: int, b: int = 1) -> int:
        """Take b from a."""
        return a - b

    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    async with serving(tools=[subtract, add]) as worker:
        control = ControlServiceStub(channel(worker.card.url))
        tools = (await control.ListTools(control_service_pb2.ListToolsRequest())).tools
    assert [(tool.name, tool.description) for tool in tools] == [("add", "Add."), ("subtract", "Take b from a.")]
    assert json.loads(tools[1].input_schema_json)["required"] == ["a"]


# -- statuses ----------------------------------------------------------------------------------------------------------------


async def test_an_unknown_task_is_not_found_with_its_id(worker: Worker, stub: Stub) -> None:
    answer = await refused(stub(worker.card.url).GetTask(pb.GetTaskRequest(task_id="nobody")))
    assert (answer.code, answer.info.reason) == ("NOT_FOUND", "TASK_NOT_FOUND")
    assert dict(answer.info.metadata) == {"task_id": "nobody"}


@pytest.mark.parametrize(
    ("method", "request_", "field"),
    [
        ("GetTask", pb.GetTaskRequest(), "task_id"),
        ("CancelTask", pb.CancelTaskRequest(), "task_id"),
        ("CancelTask", pb.CancelTaskRequest(task_id="x", metadata_json="[1]"), "metadata_json"),
        ("SubscribeTask", pb.SubscribeTaskRequest(), "task_id"),
        ("SubscribeTask", pb.SubscribeTaskRequest(task_id="x", stop_at=99), "stop_at"),
        ("SubscribeTask", pb.SubscribeTaskRequest(task_id="x", after_sequence=-1), "after_sequence"),
        ("GetTask", pb.GetTaskRequest(task_id="x", view=99), "view"),
        ("ListTasks", pb.ListTasksRequest(page_size=-1), "page_size"),
        ("ListTasks", pb.ListTasksRequest(page_size=1001), "page_size"),
        ("ListTasks", pb.ListTasksRequest(page_token="x"), "page_token"),
        ("ListTasks", pb.ListTasksRequest(states=[1, 99]), "states[1]"),
        ("SendTask", pb.SendTaskRequest(), "input.messages"),
        ("SendTask", pb.SendTaskRequest(input=asking("x", target=99)), "input.target"),
        ("StreamTask", pb.StreamTaskRequest(input=asking("x", target=-1)), "input.target"),
        ("SendTask", pb.SendTaskRequest(input=asking("x", target=2)), "input.task_id"),
        ("SendTask", pb.SendTaskRequest(input=asking("x", expected_sequence=1)), "input.expected_sequence"),
        ("SendTask", pb.SendTaskRequest(input=continuing("x", "x", expected_sequence=-1)), "input.expected_sequence"),
        ("SendTask", pb.SendTaskRequest(input=asking("x"), wait_for=99), "wait_for"),
        ("StreamTask", pb.StreamTaskRequest(input=asking("x"), deltas=99), "deltas"),
        ("SubscribeTask", pb.SubscribeTaskRequest(task_id="x", deltas=99), "deltas"),
        ("SendTask", pb.SendTaskRequest(input={"messages": [{"role": 99}]}), "input.messages[0].role"),
        ("StreamTask", pb.StreamTaskRequest(input={"metadata_json": "{"}), "input.metadata_json"),
        ("StreamTask", pb.StreamTaskRequest(input=asking("x"), request_id="r" * 129), "request_id"),
    ],
)
async def test_a_wrong_field_is_named(worker: Worker, stub: Stub, method: str, request_: Any, field: str) -> None:
    answer = await refused(getattr(stub(worker.card.url), method)(request_))
    assert (answer.code, answer.info.reason) == ("INVALID_ARGUMENT", "INVALID_ARGUMENT")
    assert answer.info.metadata["field"] == field
    (violation,) = answer.details["BadRequest"].field_violations
    assert violation.field == field
    assert answer.message == f"{field}: {violation.description}"


async def test_a_full_queue_says_when_to_come_back(stub: Stub) -> None:
    async with serving(limits=Limits(max_concurrency=1, max_queue=0)) as worker:
        agent = stub(worker.card.url)
        await agent.SendTask(submitted("hold on"))
        await worker.holding.wait()
        answer = await refused(agent.SendTask(submitted("echo x")))
        assert (answer.code, answer.info.reason) == ("RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED")
        assert answer.details["RetryInfo"].retry_delay.ToMilliseconds() > 0


async def test_a_request_over_the_limit_is_refused_with_the_limit(stub: Stub) -> None:
    async with serving(server=ServerOptions(max_request_bytes=1000)) as worker:
        agent = stub(worker.card.url)
        answer = await refused(agent.SendTask(pb.SendTaskRequest(input=asking("echo " + "x" * 1000))))
        assert (answer.code, answer.info.reason) == ("INVALID_ARGUMENT", "MESSAGE_TOO_LARGE")
        assert answer.info.metadata["max_bytes"] == "1000"
        assert (await agent.SendTask(pb.SendTaskRequest(input=asking("echo x")))).task.message_count == 2


class BrokenStore(MemoryStore):
    """Fails with an unexpected exception."""

    async def head(self, task_id: str) -> Any:
        raise KeyError("the password is hunter2")


@pytest.mark.parametrize("method", ["GetTask", "SubscribeTask"])
async def test_what_nobody_expected_is_internal_with_an_incident_and_nothing_else(
    stub: Stub, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    request: Any = pb.GetTaskRequest if method == "GetTask" else pb.SubscribeTaskRequest
    with caplog.at_level(logging.ERROR):
        async with serving(store=BrokenStore()) as worker:
            answer = await refused(getattr(stub(worker.card.url), method)(request(task_id="x")))
    assert (answer.code, answer.info.reason) == ("INTERNAL", "INTERNAL")
    incident = answer.info.metadata["incident"]
    assert answer.message == f"internal error, incident {incident}"
    (record,) = [record for record in caplog.records if incident in record.getMessage()]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)


# -- views -------------------------------------------------------------------------------------------------------------------


async def test_a_turn_shows_what_the_turn_added_and_counts_the_rest(worker: Worker, stub: Stub) -> None:
    agent = stub(worker.card.url)
    asked = (await agent.SendTask(pb.SendTaskRequest(input=asking("ask", "t")))).task
    assert (asked.state, len(asked.messages)) == (task_pb2.TASK_STATE_INPUT_REQUIRED, 2)
    done = (await agent.SendTask(pb.SendTaskRequest(input=continuing("echo this", "t")))).task
    assert (done.message_count, [part.text for message in done.messages for part in message.parts]) == (
        4,
        ["echo this", "this"],
    )


@pytest.mark.parametrize(
    ("view", "messages"), [("TASK_VIEW_HEADER", 0), ("TASK_VIEW_TURN", 2), ("TASK_VIEW_FULL", 4), (None, 4)]
)
async def test_get_shows_as_much_as_was_asked_for(worker: Worker, stub: Stub, view: str | None, messages: int) -> None:
    agent = stub(worker.card.url)
    await agent.SendTask(pb.SendTaskRequest(input=asking("ask", "t")))
    await agent.SendTask(pb.SendTaskRequest(input=continuing("echo x", "t")))
    task = (await agent.GetTask(pb.GetTaskRequest(task_id="t", view=view))).task
    assert (len(task.messages), task.message_count, task.id) == (messages, 4, "t")
    (listed,) = (await agent.ListTasks(pb.ListTasksRequest(view=view or "TASK_VIEW_FULL"))).tasks
    assert listed == task


async def test_a_page_of_large_tasks_ends_early_and_the_next_goes_on_right_there(worker: Worker, stub: Stub) -> None:
    agent = stub(worker.card.url)
    for index, kilobytes in enumerate((150, 150, 150, 800, 1)):
        await agent.SendTask(pb.SendTaskRequest(input=asking(f"echo {'x' * (kilobytes << 10)}", f"t{index}")))
    pages, token = [], ""
    while token or not pages:
        request = pb.ListTasksRequest(view="TASK_VIEW_FULL", page_token=token, include_total=True)
        page = await agent.ListTasks(request)
        assert page.total_size == 5
        pages.append([task.id for task in page.tasks])
        token = page.next_page_token
    # Each is there twice, asked and answered; one that is too large by itself has a page by itself.
    assert pages == [["t4"], ["t3"], ["t2", "t1", "t0"]]
    whole = await agent.ListTasks(pb.ListTasksRequest(view="TASK_VIEW_HEADER"))
    assert ([task.id for task in whole.tasks], whole.next_page_token) == (["t4", "t3", "t2", "t1", "t0"], "")


async def test_a_task_to_continue_must_exist(worker: Worker, stub: Stub) -> None:
    answer = await refused(stub(worker.card.url).SendTask(pb.SendTaskRequest(input=continuing("x", "nobody"))))
    assert answer.info.reason == "TASK_NOT_FOUND"


async def test_a_submitted_request_that_is_repeated_to_wait_is_answered_when_its_task_settles(
    worker: Worker, stub: Stub
) -> None:
    agent = stub(worker.card.url)
    request = pb.SendTaskRequest(input=asking("hold on"), request_id="order-7", wait_for=pb.WAIT_FOR_ACCEPTED)
    accepted = (await agent.SendTask(request)).task
    request.wait_for = pb.WAIT_FOR_SETTLED
    waiting = asyncio.ensure_future(agent.SendTask(request))
    await worker.holding.wait()
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    assert not done
    worker.release.set()
    settled = (await waiting).task
    assert (settled.id, settled.state) == (accepted.id, task_pb2.TASK_STATE_COMPLETED)


# -- streams -----------------------------------------------------------------------------------------------------------------


async def test_a_stored_log_arrives_in_few_messages(worker: Worker, stub: Stub) -> None:
    agent = stub(worker.card.url)
    done = (await agent.SendTask(pb.SendTaskRequest(input=asking("count 2000", "t")))).task
    sizes, sequences = [], []
    async for response in agent.SubscribeTask(pb.SubscribeTaskRequest(task_id="t")):
        sizes.append(len(response.events))
        sequences += [event.sequence for event in response.events]
    assert sequences == list(range(1, done.sequence + 1))
    assert done.sequence > 2000
    assert max(sizes) <= 256
    assert len(sizes) == -(-done.sequence // 256)


async def test_a_batch_has_as_many_events_as_it_is_told_to(stub: Stub) -> None:
    async with serving(limits=Limits(batch_events=10)) as worker:
        agent = stub(worker.card.url)
        await agent.SendTask(pb.SendTaskRequest(input=asking("count 21", "t")))
        call = agent.SubscribeTask(pb.SubscribeTaskRequest(task_id="t"))
        sizes = [len(response.events) async for response in call]
    assert sizes == [10, 10, 5]


async def test_a_streamed_turn_ends_when_the_task_waits(worker: Worker, stub: Stub) -> None:
    events = await events_of(stub(worker.card.url).StreamTask(pb.StreamTaskRequest(input=asking("ask"))))
    assert events[-1].task_status.new_state == task_pb2.TASK_STATE_INPUT_REQUIRED
    assert not events[-1].last


@pytest.mark.parametrize(
    ("stop_at", "after", "expected"),
    [
        (pb.STOP_AT_UNSPECIFIED, 0, range(1, 9)),
        (pb.STOP_AT_TERMINAL, 0, range(1, 9)),
        (pb.STOP_AT_INTERRUPTED, 0, range(1, 5)),
        (pb.STOP_AT_INTERRUPTED, 3, range(4, 5)),
        (pb.STOP_AT_INTERRUPTED, 4, range(5, 9)),
        (pb.STOP_AT_CURRENT, 0, range(1, 9)),
        (pb.STOP_AT_CURRENT, 8, range(0)),
        (pb.STOP_AT_TERMINAL, 8, range(0)),
    ],
)
async def test_a_subscription_stops_where_it_was_told_to(
    worker: Worker, stub: Stub, stop_at: int, after: int, expected: range
) -> None:
    agent = stub(worker.card.url)
    await agent.SendTask(pb.SendTaskRequest(input=asking("ask", "t")))
    await agent.SendTask(pb.SendTaskRequest(input=continuing("echo x", "t")))
    request = pb.SubscribeTaskRequest(task_id="t", after_sequence=after, stop_at=stop_at)
    async with asyncio.timeout(WAIT_S):
        events = await events_of(agent.SubscribeTask(request))
    assert [event.sequence for event in events] == list(expected)


async def test_a_subscription_to_what_is_stored_ends_while_the_task_waits(worker: Worker, stub: Stub) -> None:
    agent = stub(worker.card.url)
    await agent.SendTask(pb.SendTaskRequest(input=asking("ask", "t")))
    request = pb.SubscribeTaskRequest(task_id="t", stop_at=pb.STOP_AT_CURRENT)
    async with asyncio.timeout(WAIT_S):
        assert len(await events_of(agent.SubscribeTask(request))) == 4


async def test_a_stream_of_a_task_says_once_that_its_reader_has_caught_up(stub: Stub) -> None:
    async with serving(limits=Limits(batch_events=3)) as agent_:
        agent = stub(agent_.card.url)
        await agent.SendTask(pb.SendTaskRequest(input=asking("ask", "t")))
        await agent.SendTask(pb.SendTaskRequest(input=continuing("echo x", "t")))

        async def told(after: int, stop_at: int) -> list[tuple[int, tuple[int, int, bool] | None]]:
            found = []
            request = pb.SubscribeTaskRequest(task_id="t", after_sequence=after, stop_at=stop_at)
            async for response in agent.SubscribeTask(request):
                at = response.position
                has_one = response.HasField("position")
                found.append((len(response.events), (at.revision, at.head, at.caught_up) if has_one else None))
            return found

        async with asyncio.timeout(WAIT_S):
            everything = [(3, (3, 8, False)), (3, None), (2, (8, 8, True))]
            assert await told(0, pb.STOP_AT_TERMINAL) == await told(0, pb.STOP_AT_CURRENT) == everything
            assert await told(6, pb.STOP_AT_TERMINAL) == [(2, (8, 8, True))]
            assert await told(8, pb.STOP_AT_TERMINAL) == await told(8, pb.STOP_AT_CURRENT) == [(0, (8, 8, True))]
            # It ends before what exists has been shown.
            assert await told(0, pb.STOP_AT_INTERRUPTED) == [(3, (3, 8, False)), (1, None)]


async def test_a_reader_at_the_end_of_a_waiting_task_is_told_so_at_once_and_then_has_news(
    worker: Worker, stub: Stub
) -> None:
    agent = stub(worker.card.url)
    await agent.SendTask(pb.SendTaskRequest(input=asking("ask", "t")))
    watch = aiter(agent.SubscribeTask(pb.SubscribeTaskRequest(task_id="t", after_sequence=4)))
    async with asyncio.timeout(WAIT_S):
        first = await anext(watch)
        assert first == pb.SubscribeTaskResponse(position={"revision": 4, "head": 4, "caught_up": True})
        await agent.SendTask(pb.SendTaskRequest(input=continuing("echo x", "t")))
        rest = [response async for response in watch]
    assert [event.sequence for response in rest for event in response.events] == [5, 6, 7, 8]
    assert not any(response.HasField("position") for response in rest)


async def test_a_streamed_turn_catches_up_with_what_was_there_when_it_began(worker: Worker, stub: Stub) -> None:
    agent = stub(worker.card.url)
    responses = [response async for response in agent.StreamTask(pb.StreamTaskRequest(input=asking("ask", "t")))]
    assert responses[0].position.caught_up
    assert responses[0].position.revision == responses[0].events[-1].sequence
    assert not any(response.HasField("position") for response in responses[1:])


@pytest.mark.parametrize("after", [5, 2**62])
async def test_a_position_behind_the_end_is_out_of_range(worker: Worker, stub: Stub, after: int) -> None:
    agent = stub(worker.card.url)
    await agent.SendTask(pb.SendTaskRequest(input=asking("ask", "t")))
    answer = await refused(agent.SubscribeTask(pb.SubscribeTaskRequest(task_id="t", after_sequence=after)))
    assert (answer.code, answer.info.reason) == ("OUT_OF_RANGE", "SEQUENCE_OUT_OF_RANGE")
    assert dict(answer.info.metadata) == {"after_sequence": str(after), "last_sequence": "4"}


# -- limits ------------------------------------------------------------------------------------------------------------------


async def accepted(agent: Any) -> bool:
    try:
        await agent.GetAgentCard(pb.GetAgentCardRequest())
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise
        return False
    return True


async def test_calls_beyond_the_limit_are_refused_at_once(stub: Stub) -> None:
    async with serving(server=ServerOptions(max_concurrent_rpcs=1)) as worker:
        held = asyncio.ensure_future(stub(worker.card.url).SendTask(pb.SendTaskRequest(input=asking("hold on"))))
        await worker.holding.wait()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub(worker.card.url).GetAgentCard(pb.GetAgentCardRequest())
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        worker.release.set()
        assert (await held).task.state == task_pb2.TASK_STATE_COMPLETED
        async with asyncio.timeout(10):
            # The server takes the call off its count a moment after the answer has gone out.
            while not await accepted(stub(worker.card.url)):
                await asyncio.sleep(0)


async def test_the_server_waits_only_as_long_as_it_is_told_to_and_the_task_goes_on(stub: Stub) -> None:
    async with serving(server=ServerOptions(max_wait_s=0.1)) as worker:
        agent = stub(worker.card.url)
        answer = await refused(agent.SendTask(pb.SendTaskRequest(input=asking("hold on", "t"))))
        assert (answer.code, answer.info.reason) == ("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED")
        assert dict(answer.info.metadata) == {"max_wait_s": "0.1"}
        client = AgentClient(url=worker.card.url)
        with pytest.raises(DeadlineExceededError, match="the task continues"):
            await client.send_task(None, Task.create("hold on"))
        assert (await client.get_task("t")).state is TaskState.WORKING
        # Streams are not waits: this one outlasts the bound.
        watch = client.subscribe("t")
        assert (await anext(watch)).sequence == 1
        await refused(agent.SendTask(pb.SendTaskRequest(input=asking("hold on"))))
        worker.release.set()
        assert [event.sequence async for event in watch] == [2, 3, 4]


async def test_an_own_timeout_of_a_call_is_not_taken_for_the_bound(stub: Stub) -> None:
    @asynccontextmanager
    async def impatient(call: Call) -> AsyncIterator[None]:
        raise TimeoutError("the identity provider did not answer")
        yield

    options = ServerOptions(max_wait_s=WAIT_S, interceptors=(impatient,))
    async with serving(server=options) as worker:
        answer = await refused(stub(worker.card.url).SendTask(pb.SendTaskRequest(input=asking("echo x"))))
    assert answer.info.reason == "INTERNAL"


# -- interceptors ------------------------------------------------------------------------------------------------------------


def noting(name: str, notes: list[str]) -> Interceptor:
    @asynccontextmanager
    async def around(call: Call) -> AsyncIterator[None]:
        notes.append(f"{name} in {call.method.rpartition('/')[2]} for {call.principal}")
        try:
            yield
        finally:
            notes.append(f"{name} out")

    return around


@pytest.mark.parametrize("method", ["GetAgentCard", "StreamTask"])
async def test_interceptors_run_in_order_around_unary_calls_and_streams_after_authentication(
    stub: Stub, method: str
) -> None:
    notes: list[str] = []

    async def authenticate(method: str, metadata: Any) -> Principal:
        notes.append("authenticated")
        return Principal("ann")

    interceptors = (noting("outer", notes), noting("inner", notes))
    async with serving(server=ServerOptions(authenticate=authenticate, interceptors=interceptors)) as worker:
        agent = stub(worker.card.url)
        if method == "GetAgentCard":
            await agent.GetAgentCard(pb.GetAgentCardRequest())
        else:
            await events_of(agent.StreamTask(pb.StreamTaskRequest(input=asking("echo x"))))
    assert notes == [
        "authenticated",
        f"outer in {method} for ann",
        f"inner in {method} for ann",
        "inner out",
        "outer out",
    ]


async def test_an_interceptor_is_left_when_the_caller_hangs_up(stub: Stub) -> None:
    left = asyncio.Event()

    @asynccontextmanager
    async def around(call: Call) -> AsyncIterator[None]:
        try:
            yield
        finally:
            left.set()

    async with serving(server=ServerOptions(interceptors=(around,))) as worker:
        call = stub(worker.card.url).StreamTask(pb.StreamTaskRequest(input=asking("hold on")))
        await call.read()
        call.cancel()
        async with asyncio.timeout(WAIT_S):
            await left.wait()


async def test_an_interceptor_may_refuse_with_any_error_of_the_table(stub: Stub) -> None:
    @asynccontextmanager
    async def closed(call: Call) -> AsyncIterator[None]:
        raise UnavailableError("closed on Sundays", day="Sunday")
        yield

    async with serving(server=ServerOptions(interceptors=(closed,))) as worker:
        agent = stub(worker.card.url)
        for call in (
            agent.GetAgentCard(pb.GetAgentCardRequest()),
            agent.SubscribeTask(pb.SubscribeTaskRequest(task_id="x")),
        ):
            answer = await refused(call)
            assert (answer.code, answer.message) == ("UNAVAILABLE", "closed on Sundays")
            assert dict(answer.info.metadata) == {"day": "Sunday"}


# -- connections -------------------------------------------------------------------------------------------------------------


async def test_a_peer_that_vanished_without_a_word_is_noticed(
    wire: Callable[[str], Awaitable[Any]], stub: Stub
) -> None:
    """A connection that is silent in both directions and never closed: only keepalive can tell."""
    left = asyncio.Event()

    @asynccontextmanager
    async def around(call: Call) -> AsyncIterator[None]:
        try:
            yield
        finally:
            left.set()

    async with serving(server=ServerOptions(keepalive_s=1.0, interceptors=(around,))) as worker:
        between = await wire(worker.card.url)
        call = stub(between.url).StreamTask(pb.StreamTaskRequest(input=asking("hold on")))
        await call.read()
        between.fall_silent()
        async with asyncio.timeout(WAIT_S):
            await left.wait()
        call.cancel()


# -- telemetry ---------------------------------------------------------------------------------------------------------------

TRACED = """
    import asyncio, json
    import grpc.aio
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from plgrpc.v1 import agent_service_pb2 as pb, agent_service_pb2_grpc
    from protolink_grpc import Agent

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)

    async def main():
        caller = (("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),)
        async with Agent(name="traced", transport="grpc") as agent:
            async with grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel:
                stub = agent_service_pb2_grpc.AgentServiceStub(channel)
                await stub.GetAgentCard(pb.GetAgentCardRequest(), metadata=caller)
                try:
                    async for _ in stub.SubscribeTask(pb.SubscribeTaskRequest(task_id="nobody"), metadata=caller):
                        pass
                except grpc.aio.AioRpcError:
                    pass
        print(json.dumps([
            {"name": span.name, "kind": span.kind.name, "trace": f"{span.context.trace_id:032x}",
             "parent": f"{span.parent.span_id:016x}", "status": span.status.status_code.name, **span.attributes}
            for span in exporter.get_finished_spans()
        ]), flush=True)

    asyncio.run(main())
"""


async def test_each_call_is_a_server_span_in_the_callers_trace(launch: Callable[..., Awaitable[Any]]) -> None:
    program = await launch(TRACED)
    card, subscribe = json.loads(await program.line())
    assert await program.end() == 0
    for span, method in ((card, "GetAgentCard"), (subscribe, "SubscribeTask")):
        assert span["name"] == f"{AGENT_SERVICE}/{method}"
        assert span["kind"] == "SERVER"
        assert (span["trace"], span["parent"]) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
        assert (span["rpc.system"], span["rpc.service"], span["rpc.method"]) == ("grpc", AGENT_SERVICE, method)
    assert "error.type" not in card
    # A caller's mistake is no failure of the server.
    assert (subscribe["error.type"], subscribe["status"]) == ("TASK_NOT_FOUND", "UNSET")
