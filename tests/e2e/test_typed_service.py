"""An agent's tools as a protobuf service, called over real sockets by stubs, by reflection and by plain JSON."""

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from plgrpc.v1 import task_input_pb2, usage_pb2

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    APIKey,
    APIKeyAuth,
    ApprovalDeniedError,
    Approvals,
    CapabilityPolicy,
    InvalidArgumentError,
    ToolFailedError,
    ToolRejectedError,
    UnauthenticatedError,
)
from protolink_grpc.typed.service import TypedService, build_typed_service, export_proto
from protolink_grpc.wire.typed_calls import RUN_OPTIONS, USED

PACKAGE = "acme.calculator.v1"
SERVICE = f"{PACKAGE}.Calculator"
BUF = str(Path(sys.executable).with_name("buf"))


@dataclass
class Trip:
    name: str
    legs: list[str]


def calculator(**settings: Any) -> Agent:
    card = AgentCard(name="calculator", description="Adds numbers.", url="grpc://127.0.0.1:0")
    agent = Agent(card, **{"typed": PACKAGE, "http": "127.0.0.1:0", **settings})
    agent.calls = []  # type: ignore[attr-defined]  # what the tools were called with

    @agent.tool
    def add(a: int, b: int = 2) -> int:
        """Add two integers."""
        agent.calls.append((a, b))  # type: ignore[attr-defined]  # as above
        return a + b

    @agent.tool
    def plan(trip: Trip) -> Trip:
        """Plan a trip."""
        return Trip(trip.name.upper(), trip.legs[::-1])

    @agent.tool
    def fail(text: str) -> None:
        """Fail."""
        raise ValueError(text)

    @agent.tool(capabilities=["payments.write"])
    def pay(amount: float) -> str:
        """Pay."""
        return f"{amount:.2f} paid"

    @agent.tool
    async def wait() -> None:
        """Wait until canceled."""
        await asyncio.Event().wait()

    return agent


class Stub:
    """What generated code would be: methods that take and return messages."""

    def __init__(self, agent: Agent, channel: grpc.aio.Channel) -> None:
        plan = export_proto("calculator", "", agent.tools.values(), PACKAGE).plan
        self.typed: TypedService = build_typed_service(plan)
        self._channel = channel

    def request(self, method: str, **fields: Any) -> Any:
        return GetMessageClass(self.typed.descriptor.methods_by_name[method].input_type)(**fields)

    def call(self, method: str, *, headers: dict[str, Any] | None = None, timeout: float = 20.0, **fields: Any) -> Any:
        request = self.request(method, **fields)
        kind: Any = GetMessageClass(self.typed.descriptor.methods_by_name[method].output_type)
        stub: Any = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=kind.FromString,
        )
        return stub(request, metadata=tuple((headers or {}).items()), timeout=timeout)


@pytest.fixture
async def agent() -> AsyncIterator[Agent]:
    async with calculator() as running:
        yield running


@pytest.fixture
async def stub(agent: Agent) -> AsyncIterator[Stub]:
    async with grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel:
        yield Stub(agent, channel)


def details(error: grpc.aio.AioRpcError) -> tuple[error_details_pb2.ErrorInfo, error_details_pb2.BadRequest]:
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    status: Any = rpc_status.from_call(error)
    for detail in status.details:
        detail.Unpack(info) or detail.Unpack(bad)
    return info, bad


async def refusal(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value


async def test_a_call_is_a_task_of_its_own_that_the_answers_headers_name(agent: Agent, stub: Stub) -> None:
    call = stub.call("Add", a=1 << 60, b=1)
    assert (await call).result == (1 << 60) + 1
    task_id = dict(await call.initial_metadata())["x-task-id"]
    events = [event.type async for event in AgentClient(url=agent.card.url).subscribe(task_id)]
    assert {"action.requested", "action.started", "action.completed"} <= {*events}


async def test_messages_and_defaults_reach_the_tool(stub: Stub) -> None:
    assert (await stub.call("Add", a=1)).result == 3
    answer = await stub.call("Plan", trip={"name": "rome", "legs": ["a", "b"]})
    assert (answer.result.name, list(answer.result.legs)) == ("ROME", ["b", "a"])


async def test_a_repeated_request_id_returns_the_first_answer(agent: Agent, stub: Stub) -> None:
    first = stub.call("Add", headers={"x-request-id": "r1"}, a=1, b=1)
    assert (await first).result == 2
    again = stub.call("Add", headers={"x-request-id": "r1"}, a=1, b=5)
    assert (await again).result == 2
    assert await again.initial_metadata() == await first.initial_metadata()
    assert agent.calls == [(1, 1)]  # type: ignore[attr-defined]  # see calculator


async def test_a_caller_chooses_the_task_and_its_session(agent: Agent, stub: Stub) -> None:
    await stub.call("Add", headers={"x-task-id": "mine", "x-session-id": "s1"}, a=1)
    task = await AgentClient(url=agent.card.url).get_task("mine")
    assert (task.session_id, task.get_output()) == ("s1", 3)


async def test_bad_values_are_named_as_fields(stub: Stub) -> None:
    error = await refusal(stub.call("Plan"))
    info, bad = details(error)
    assert (error.code(), info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "TOOL_REJECTED")
    assert [violation.field for violation in bad.field_violations] == ["trip"]


def options(**fields: Any) -> tuple[str, bytes]:
    """The metadata of a call by the run of another agent."""
    return RUN_OPTIONS, task_input_pb2.RunOptions(
        parent_run_id="r0", agent_chain=["planner"], **fields
    ).SerializeToString()


def unary(stub: Stub, method: str, *metadata: tuple[str, Any], **fields: Any) -> Any:
    return stub.call(method, headers=dict(metadata), **fields)


def used(headers: Any) -> usage_pb2.Usage:
    return usage_pb2.Usage.FromString(dict(headers)[USED])


async def test_the_options_of_a_calling_run_are_those_of_the_task_and_the_response_has_its_usage(
    agent: Agent, stub: Stub
) -> None:
    call = unary(stub, "Add", options(budget={"max_tool_calls": 1}), ("x-session-id", "s1"), a=1)
    assert (await call).result == 3
    headers = await call.initial_metadata()
    assert used(headers).tool_calls == 1
    context = (await AgentClient(url=agent.card.url).get_task(dict(headers)["x-task-id"])).context
    assert context is not None
    assert (context.agent_chain, context.parent_run_id, context.session_id) == (
        ["planner", "calculator"],
        "r0",
        "s1",
    )
    assert context.budget.max_tool_calls == 1


async def test_permissions_of_a_calling_run_narrow_and_a_refused_call_reports_its_usage(stub: Stub) -> None:
    rules = {"payments.write": {"effect": "POLICY_EFFECT_DENY"}}
    error = await refusal(unary(stub, "Pay", options(permissions=rules), amount=5))
    assert (error.code(), details(error)[0].reason) == (grpc.StatusCode.PERMISSION_DENIED, "ACTION_DENIED")
    assert used(error.initial_metadata()).tool_calls == 1


async def test_a_calling_run_that_came_through_this_agent_is_refused(stub: Stub) -> None:
    error = await refusal(
        unary(
            stub,
            "Add",
            (
                RUN_OPTIONS,
                task_input_pb2.RunOptions(parent_run_id="r0", agent_chain=["Calculator"]).SerializeToString(),
            ),
            a=1,
        )
    )
    assert (error.code(), details(error)[0].reason) == (grpc.StatusCode.FAILED_PRECONDITION, "DELEGATION_CYCLE")


async def test_options_that_are_no_message_are_refused_over_every_protocol(agent: Agent, stub: Stub) -> None:
    error = await refusal(unary(stub, "Add", (RUN_OPTIONS, b"\xff"), a=1))
    assert (error.code(), details(error)[1].field_violations[0].field) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        RUN_OPTIONS,
    )
    async with httpx.AsyncClient() as client:
        for value in ("/w", "?"):
            url, headers = f"{agent.http_url}/{SERVICE}/Add", {RUN_OPTIONS: value}
            assert (await client.post(url, json={"a": 1}, headers=headers)).status_code == 400
        chain = base64.b64encode(options()[1]).decode().rstrip("=")
        answer = await client.post(url, json={"a": 1}, headers={RUN_OPTIONS: chain})
    assert usage_pb2.Usage.FromString(base64.b64decode(answer.headers[USED] + "==")).tool_calls == 1


async def test_a_failed_tool_is_aborted_and_its_task_is_named(agent: Agent, stub: Stub) -> None:
    error = await refusal(stub.call("Fail", text="no luck"))
    info, _ = details(error)
    assert (error.code(), info.reason) == (grpc.StatusCode.ABORTED, "TOOL_FAILED")
    assert "no luck" in str(error.details())
    task = await AgentClient(url=agent.card.url).get_task(info.metadata["task_id"])
    assert str(task.state) == "failed"


async def test_policy_decides_typed_calls_too() -> None:
    async with (
        calculator(policy=CapabilityPolicy({"payments.write": "deny"})) as agent,
        grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel,
    ):
        error = await refusal(Stub(agent, channel).call("Pay", amount=5))
    assert (error.code(), details(error)[0].reason) == (grpc.StatusCode.PERMISSION_DENIED, "ACTION_DENIED")


async def test_a_typed_call_that_an_approver_denies_fails_a_precondition_and_stays_denied() -> None:
    policy = CapabilityPolicy({"payments.write": "require_approval"})
    async with (
        calculator(policy=policy, approvals=Approvals()) as agent,
        grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel,
    ):
        headers = {"x-request-id": "pay", "x-task-id": "pay"}
        call = asyncio.ensure_future(_answer(Stub(agent, channel).call("Pay", headers=headers, amount=5)))
        client = AgentClient(url=agent.card.url)
        async for approval in client.watch_approvals():
            await client.respond_approval(None, approval, False, reason="not today")
            break
        for denied in (call, Stub(agent, channel).call("Pay", headers=headers, amount=5)):
            error = await refusal(denied)
            info, _ = details(error)
            assert (error.code(), info.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "APPROVAL_DENIED")
            assert "not today" in str(error.details())
            assert info.metadata["task_id"] == "pay"
        stub: Any = client.stub(CalculatorStub)
        with pytest.raises(ApprovalDeniedError, match="not today"):
            await stub.Pay(stub.PayRequest(amount=5), metadata=(("x-request-id", "pay"),))
        with pytest.raises(ApprovalDeniedError, match="not today"):
            await client.call_tool(None, "pay", {"amount": 5}, request_id="pay")


async def test_a_typed_call_waits_for_its_approval() -> None:
    policy = CapabilityPolicy({"payments.write": "require_approval"})
    async with (
        calculator(policy=policy, approvals=Approvals()) as agent,
        grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel,
    ):
        call = asyncio.ensure_future(_answer(Stub(agent, channel).call("Pay", amount=5)))
        client = AgentClient(url=agent.card.url)
        async for approval in client.watch_approvals():
            assert approval.request.action.payload["arguments"] == {"amount": 5.0}
            await client.respond_approval(None, approval, True)
            break
        assert (await call).result == "5.00 paid"


async def _answer(call: Any) -> Any:
    return await call


async def test_a_deadline_ends_the_wait_and_the_request_id_finds_the_task_again(agent: Agent, stub: Stub) -> None:
    headers = {"x-request-id": "slow", "x-task-id": "slow"}
    error = await refusal(stub.call("Wait", headers=headers, timeout=0.5))
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    client = AgentClient(url=agent.card.url)
    assert str((await client.get_task("slow")).state) == "working"
    again = asyncio.ensure_future(_answer(stub.call("Wait", headers=headers)))
    await client.cancel_task(None, "slow")
    error = await refusal(again)
    assert error.code() is grpc.StatusCode.ABORTED


async def test_reflection_shows_the_service_so_that_buf_curl_calls_it_with_json(agent: Agent) -> None:
    url = f"http://{agent.card.url.removeprefix('grpc://')}/{SERVICE}/Add"
    arguments = ("curl", "--protocol", "grpc", "--http2-prior-knowledge", "--data", '{"a": 20, "b": 22}', url)
    program = await asyncio.create_subprocess_exec(BUF, *arguments, stdout=asyncio.subprocess.PIPE)
    output, _ = await program.communicate()
    assert json.loads(output) == {"result": "42"}


async def test_the_http_port_takes_plain_json(agent: Agent) -> None:
    async with httpx.AsyncClient() as client:
        answer = await client.post(f"{agent.http_url}/{SERVICE}/Add", json={"a": 20, "b": 22})
        assert (answer.status_code, answer.json()) == (200, {"result": "42"})
        assert answer.headers["x-task-id"]
        wrong = await client.post(f"{agent.http_url}/{SERVICE}/Plan", json={})
        assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_argument")


@pytest.mark.parametrize("name", ["x-task-id", "x-request-id", "x-session-id"])
async def test_an_id_that_is_not_ascii_is_refused(agent: Agent, name: str) -> None:
    async with httpx.AsyncClient() as client:
        url, headers = f"{agent.http_url}/{SERVICE}/Add", {name: b"t\xe4"}
        wrong = await client.post(url, json={"a": 20, "b": 22}, headers=headers)
    assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_argument")
    assert wrong.json()["details"][1]["debug"]["fieldViolations"][0]["field"] == name


async def test_an_agent_whose_tools_cannot_be_typed_does_not_start() -> None:
    agent = calculator()

    @agent.tool
    def odd(pair: tuple[int, ...] | set[frozenset[Any]] | complex) -> None: ...

    with pytest.raises(InvalidArgumentError, match="typed"):
        await agent.serve()


class CalculatorStub:
    """A stub as protoc generates it."""

    def __init__(self, channel: Any) -> None:
        typed = build_typed_service(export_proto("calculator", "", calculator().tools.values(), PACKAGE).plan)
        for name, method in typed.descriptor.methods_by_name.items():
            request: Any = GetMessageClass(method.input_type)
            answer: Any = GetMessageClass(method.output_type)
            made = channel.unary_unary(
                f"/{SERVICE}/{name}",
                request_serializer=request.SerializeToString,
                response_deserializer=answer.FromString,
                _registered_method=True,
            )
            setattr(self, name, made)
            setattr(self, f"{name}Request", request)


async def test_a_clients_stub_returns_messages_and_raises_typed_errors(agent: Agent) -> None:
    stub: Any = AgentClient(url=agent.card.url).stub(CalculatorStub)
    assert (await stub.Add(stub.AddRequest(a=1, b=2))).result == 3
    with pytest.raises(ToolRejectedError, match="trip"):
        await stub.Plan(stub.PlanRequest())
    with pytest.raises(ToolFailedError, match="no luck"):
        await stub.Fail(stub.FailRequest(text="no luck"))


def test_a_clients_stub_works_without_await() -> None:
    agent = calculator()
    agent.start(background=True)
    try:
        client = AgentClient(url=agent.card.url)
        request = client.stub(CalculatorStub).AddRequest(a=1, b=2)  # type: ignore[attr-defined]  # generated
        stub: Any = client.sync.stub(CalculatorStub)
        assert stub.Add(request).result == 3
    finally:
        agent.stop()


async def test_a_clients_stub_sends_credentials_and_retries_with_one_request_id() -> None:
    async with calculator(authenticator=APIKeyAuth({"secret-of-ann": ["add"]})) as agent:
        agent.calls = calls = []  # type: ignore[attr-defined]  # see calculator
        stub: Any = AgentClient(url=agent.card.url, credentials=APIKey("secret-of-ann")).stub(CalculatorStub)
        for _ in range(2):
            await stub.Add(stub.AddRequest(a=1), metadata=(("x-request-id", "r1"),))
        assert calls == [(1, 2)]
        with pytest.raises(UnauthenticatedError):
            await AgentClient(url=agent.card.url).stub(CalculatorStub).Add(stub.AddRequest(a=1))  # type: ignore[attr-defined]  # generated


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "runtime://calculator"])
def test_a_stub_needs_a_url_of_grpc(url: str) -> None:
    with pytest.raises(InvalidArgumentError, match="agent_url"):
        AgentClient(url=url).stub(CalculatorStub)
