"""Invalid requests as bytes or through bare stubs: the error names the field, and the server continues to work."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from plgrpc.v1 import agent_card_pb2, agent_service_pb2, part_pb2, registry_service_pb2, task_input_pb2, task_pb2

from protolink_grpc import Agent, Registry, Task
from protolink_grpc.net.page_tokens import token_from_cursor

pb, rpb = agent_service_pb2, registry_service_pb2


class Echo(Agent):
    """Answers with the number of parts that it got."""

    async def handle_task(self, task: Task) -> Task:
        return task.complete(f"{len(task.messages[-1].parts)} parts")


@dataclass
class Edge:
    """A running server, seen from outside."""

    channel: grpc.aio.Channel

    async def call(self, method: str, request: Any) -> bytes:
        """The bytes of the answer, for a unary method; of the first answer, for a stream."""
        data = request if isinstance(request, bytes) else request.SerializeToString()
        if method.rpartition("/")[2] in ("StreamTask", "SubscribeTask", "WatchAgents"):
            async for answer in self.channel.unary_stream(method)(data):
                return bytes(answer)
            return b""
        return bytes(await self.channel.unary_unary(method)(data))

    async def refused(self, method: str, request: Any) -> "Refusal":
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.call(method, request)
        return Refusal(caught.value)


class Refusal:
    """What the answer to a bad request says."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        self.code = error.code()
        self.text = error.details() or ""
        self.fields: list[str] = []
        self.info = error_details_pb2.ErrorInfo()
        status = rpc_status.from_call(error)
        for detail in status.details if status is not None else ():
            request = error_details_pb2.BadRequest()
            if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                detail.Unpack(self.info)
            elif detail.Unpack(request):
                self.fields = [violation.field for violation in request.field_violations]

    def must_name(self, field: str, *, reason: str = "INVALID_ARGUMENT") -> None:
        assert self.code is grpc.StatusCode.INVALID_ARGUMENT, self.text
        assert (self.info.reason, self.info.domain) == (reason, "protolink-grpc.github.io")
        assert self.info.metadata["field"] == field
        assert self.fields == [field]
        assert self.text.startswith(f"{field}: ")
        assert len(self.text) < 500


AGENT, REGISTRY = "/plgrpc.v1.AgentService/", "/plgrpc.v1.RegistryService/"
SENDING = ("SendTask", "StreamTask")


@pytest.fixture
async def edge(channel: Callable[[str], grpc.aio.Channel]) -> AsyncIterator[Edge]:
    async with Echo(name="echo", description="echoes", url="grpc://127.0.0.1:0") as agent:
        found = Edge(channel(agent.card.url))
        yield found
        # Whatever the test sent, the same connection still serves.
        answer = pb.SendTaskResponse.FromString(await found.call(f"{AGENT}SendTask", send(text("well?"))))
        assert answer.task.state == task_pb2.TASK_STATE_COMPLETED
        assert answer.task.messages[-1].parts[0].text == "1 parts"


@pytest.fixture
async def registry(channel: Callable[[str], grpc.aio.Channel]) -> AsyncIterator[Edge]:
    async with Registry() as running:
        found = Edge(channel(running.url))
        yield found
        good = rpb.RegisterAgentRequest(card=card())
        answer = rpb.RegisterAgentResponse.FromString(await found.call(f"{REGISTRY}RegisterAgent", good))
        assert answer.lease_id


def text(content: str) -> part_pb2.Part:
    return part_pb2.Part(text=content)


def send(*parts: part_pb2.Part, **given: Any) -> Any:
    """A request to either sending method: the two have the same fields under the same numbers."""
    return pb.SendTaskRequest(input=task_input_pb2.TaskInput(messages=[task_pb2.Message(parts=parts)], **given))


MALFORMED = {
    "junk": b"\xff\xff\xff\xff",
    "cut off": b"\x0a\x7f\x01",
    "half a length": b"\x0a\x80",
    "text that is not UTF-8": b"\x0a\x01\xff",
    "groups inside groups": b"\x0b" * 5000,
}


@pytest.mark.parametrize("method", ["SendTask", "StreamTask", "SubscribeTask", "GetTask", "ListTasks", "CancelTask"])
@pytest.mark.parametrize("kind", MALFORMED)
async def test_malformed_bytes_are_the_callers_mistake(edge: Edge, method: str, kind: str) -> None:
    (await edge.refused(AGENT + method, MALFORMED[kind])).must_name("request")


async def test_malformed_bytes_to_the_registry_are_the_callers_mistake(registry: Edge) -> None:
    for method in ("RegisterAgent", "RenewLease", "GetAgent", "ListAgents", "WatchAgents"):
        (await registry.refused(REGISTRY + method, b"\xff\xff\xff\xff")).must_name("request")


PARTS = "input.messages[0].parts"
DEEP = "[" * 1000 + "]" * 1000
BAD_PARTS = {
    "no content": (part_pb2.Part(), f"{PARTS}[0]"),
    "metadata only": (part_pb2.Part(metadata_json='{"a":1}'), f"{PARTS}[0]"),
    "no JSON": (part_pb2.Part(data={"json": "{nope"}), f"{PARTS}[0].data.json"),
    "empty JSON": (part_pb2.Part(data={"json": ""}), f"{PARTS}[0].data.json"),
    "JSON with a tail": (part_pb2.Part(data={"json": "1 2"}), f"{PARTS}[0].data.json"),
    "NaN": (part_pb2.Part(data={"json": "NaN"}), f"{PARTS}[0].data.json"),
    "deep JSON": (part_pb2.Part(data={"json": DEEP}), f"{PARTS}[0].data.json"),
    "deep JSON objects": (part_pb2.Part(data={"json": '{"a":' * 1000 + "1" + "}" * 1000}), f"{PARTS}[0].data.json"),
    "deep arguments": (
        part_pb2.Part(tool_call={"tool_name": "add", "arguments": {"json": '{"a":' + DEEP + "}"}}),
        f"{PARTS}[0].tool_call.arguments.json",
    ),
    "arguments that are a list": (
        part_pb2.Part(tool_call={"tool_name": "add", "arguments": {"json": "[1]"}}),
        f"{PARTS}[0].tool_call.arguments.json",
    ),
    "a call of nothing": (part_pb2.Part(tool_call={}), f"{PARTS}[0].tool_call.tool_name"),
    "a custom part of no kind": (part_pb2.Part(custom={"content": {"json": "1"}}), f"{PARTS}[0].custom.type"),
    "a route to nowhere": (part_pb2.Part(route={}), f"{PARTS}[0].route.route_key"),
    "a file without a value": (part_pb2.Part(file={"content": {}}), f"{PARTS}[0].file.content"),
    "a reference to nowhere": (part_pb2.Part(file={"content": {"ref": {}}}), f"{PARTS}[0].file.content.ref.uri"),
    "a message of no type": (part_pb2.Part(data={"message": {}}), f"{PARTS}[0].data.message.type_name"),
    "metadata that is no object": (part_pb2.Part(text="a", metadata_json="1"), f"{PARTS}[0].metadata_json"),
}


@pytest.mark.parametrize("method", SENDING)
@pytest.mark.parametrize("kind", BAD_PARTS)
async def test_a_bad_part_is_refused_by_its_path(edge: Edge, method: str, kind: str) -> None:
    part, field = BAD_PARTS[kind]
    (await edge.refused(AGENT + method, send(part))).must_name(field)
    (await edge.refused(AGENT + method, send(text("fine"), part))).must_name(field.replace("parts[0]", "parts[1]"))


def many_messages() -> Any:
    return pb.SendTaskRequest(input=task_input_pb2.TaskInput(messages=[task_pb2.Message(parts=[text("a")])] * 1001))


OVERSIZED = {
    "10,000 parts": (lambda: send(*[text("a")] * 10_000), PARTS),
    "1,001 messages": (many_messages, "input.messages"),
    "5 MB of text": (lambda: send(text("a" * 5_000_000)), "request"),
    "an agent chain of 65": (lambda: send(text("a"), options={"agent_chain": ["a"] * 65}), "input.options.agent_chain"),
}


@pytest.mark.parametrize("method", SENDING)
@pytest.mark.parametrize("kind", OVERSIZED)
async def test_what_is_too_large_is_refused_with_its_limit(edge: Edge, method: str, kind: str) -> None:
    make, field = OVERSIZED[kind]
    (await edge.refused(AGENT + method, make())).must_name(field, reason="MESSAGE_TOO_LARGE")


@pytest.mark.parametrize("method", SENDING)
async def test_what_is_far_too_large_is_refused_before_it_is_read(edge: Edge, method: str) -> None:
    refusal = await edge.refused(AGENT + method, send(text("a" * 40_000_000)))
    assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_what_is_just_within_the_limits_is_done(edge: Edge) -> None:
    answer = pb.SendTaskResponse.FromString(await edge.call(f"{AGENT}SendTask", send(*[text("a" * 3000)] * 1000)))
    assert answer.task.messages[-1].parts[0].text == "1000 parts"


LONG = "x" * 129


def bad_requests() -> Iterator[tuple[str, str, Any, str]]:
    message = task_pb2.Message(parts=[text("a")])
    for method in SENDING:
        yield "long task id", method, send(text("a"), task_id=LONG), "input.task_id"
        yield "task id with a line break", method, send(text("a"), task_id="a\nb"), "input.task_id"
        yield "long session id", method, send(text("a"), session_id=LONG), "input.session_id"
        yield "no message", method, pb.SendTaskRequest(), "input.messages"
        yield "unknown target", method, send(text("a"), target=99), "input.target"
        yield "no task to continue", method, send(text("a"), target=2), "input.task_id"
        yield "negative sequence", method, send(text("a"), task_id="a", expected_sequence=-1), "input.expected_sequence"
        yield "sequence of a new task", method, send(text("a"), expected_sequence=1), "input.expected_sequence"
        yield "long run id", method, send(text("a"), options={"run_id": LONG}), "input.options.run_id"
        yield "metadata no object", method, send(text("a"), metadata_json="[]"), "input.metadata_json"
        yield "metadata no JSON", method, send(text("a"), metadata_json="{"), "input.metadata_json"
        yield "flow state no JSON", method, send(text("a"), flow_state_json="{"), "input.flow_state_json"
        message = task_pb2.Message(parts=[text("a")], role=99)
        yield "unknown role", method, pb.SendTaskRequest(input={"messages": [message]}), "input.messages[0].role"
        message = task_pb2.Message(parts=[text("a")], id=LONG)
        yield "long message id", method, pb.SendTaskRequest(input={"messages": [message]}), "input.messages[0].id"
        message = task_pb2.Message(parts=[text("a")], create_time=Timestamp(seconds=1 << 60))
        yield "no time", method, pb.SendTaskRequest(input={"messages": [message]}), "input.messages[0].create_time"
        message = task_pb2.Message(parts=[text("a")])
        request = pb.SendTaskRequest(input={"messages": [message]}, request_id=LONG)
        yield "long request id", method, request, "request_id"
        for limit, amount, below in (
            ("max_steps", -1, ""),
            ("max_tool_calls", -(2**63), ""),
            ("max_runtime", {"seconds": -1}, ""),
            ("max_cost", {"micros": -1, "currency": "USD"}, ".micros"),
            ("max_cost", {"micros": 1, "currency": "dollars"}, ".currency"),
        ):
            request = send(text("a"), options={"budget": {limit: amount}})
            yield f"{limit} of {amount}", method, request, f"input.options.budget.{limit}{below}"
        for name, rule, field in (
            ("without an effect", {}, "effect"),
            ("with an unknown effect", {"effect": 77}, "effect"),
            ("with an unknown edit", {"effect": 3, "edit": 77}, "edit"),
            ("without time to answer", {"effect": 3, "approval_ttl": {}}, "approval_ttl"),
        ):
            request = send(text("a"), options={"permissions": {"shell": rule}})
            yield f"permission {name}", method, request, f"input.options.permissions.shell.{field}"
        request = send(text("a"), metadata_json='{"permissions": {"shell": "perhaps"}}', options={"run_id": "r"})
        yield "permission among the metadata", method, request, "input.options.permissions.shell"
        request = send(text("a"), metadata_json='{"budget": {"max_steps": -1}}')
        yield "negative budget among the metadata", method, request, "input.metadata_json.budget.max_steps"
        infer = part_pb2.Part(infer={"prompt": "a", "output_schema_json": '{"pattern": "(?=a)"}'})
        yield "unusable schema", method, send(infer), f"{PARTS}[0].output_schema"
    yield "unknown view", "SendTask", pb.SendTaskRequest(input={"messages": [message]}, view=99), "view"
    yield "unknown wait", "SendTask", pb.SendTaskRequest(input={"messages": [message]}, wait_for=99), "wait_for"
    yield "unknown deltas", "StreamTask", pb.StreamTaskRequest(input={"messages": [message]}, deltas=99), "deltas"
    yield "unknown deltas", "SubscribeTask", pb.SubscribeTaskRequest(task_id="a", deltas=99), "deltas"
    yield "unknown view", "GetTask", pb.GetTaskRequest(task_id="a", view=99), "view"
    yield "no task id", "GetTask", pb.GetTaskRequest(), "task_id"
    yield "long task id", "GetTask", pb.GetTaskRequest(task_id=LONG), "task_id"
    yield "no task id", "SubscribeTask", pb.SubscribeTaskRequest(), "task_id"
    yield "long task id", "SubscribeTask", pb.SubscribeTaskRequest(task_id=LONG), "task_id"
    yield "unknown end", "SubscribeTask", pb.SubscribeTaskRequest(task_id="a", stop_at=99), "stop_at"
    yield (
        "negative position",
        "SubscribeTask",
        pb.SubscribeTaskRequest(task_id="a", after_sequence=-1),
        "after_sequence",
    )
    yield "no task id", "CancelTask", pb.CancelTaskRequest(), "task_id"
    yield "long task id", "CancelTask", pb.CancelTaskRequest(task_id=LONG), "task_id"
    yield "metadata no object", "CancelTask", pb.CancelTaskRequest(task_id="a", metadata_json="1"), "metadata_json"
    yield "unknown state", "ListTasks", pb.ListTasksRequest(states=[99]), "states[0]"
    yield "no state", "ListTasks", pb.ListTasksRequest(states=[1, 0]), "states[1]"
    yield "unknown view", "ListTasks", pb.ListTasksRequest(view=99), "view"
    yield "negative page", "ListTasks", pb.ListTasksRequest(page_size=-1), "page_size"
    yield "large page", "ListTasks", pb.ListTasksRequest(page_size=1001), "page_size"
    yield "long session id", "ListTasks", pb.ListTasksRequest(session_id=LONG), "session_id"
    no_time = Timestamp(nanos=-5)
    yield "no time", "ListTasks", pb.ListTasksRequest(updated_after=no_time), "updated_after"
    for name, token in JUNK_TOKENS.items():
        yield name, "ListTasks", pb.ListTasksRequest(page_token=token), "page_token"


JUNK_TOKENS = {
    "token of letters": "junk",
    "token of no alphabet": "\u00e4\u00f6\u00fc",
    "token of other JSON": token_from_cursor((1, "a"))[:-4] + "AAAA",
    "token with a number of 31 digits": token_from_cursor((10**30, "a")),
    "token with a negative number of 31 digits": token_from_cursor((-(10**30), "a")),
    "token with a truth in place of a number": token_from_cursor((True, "a")),
    "very long token": "A" * 100_000,
}


@pytest.mark.parametrize(
    ("method", "request_", "field"),
    [pytest.param(method, request, field, id=f"{method}: {name}") for name, method, request, field in bad_requests()],
)
async def test_a_bad_request_is_refused_by_its_field(edge: Edge, method: str, request_: Any, field: str) -> None:
    (await edge.refused(AGENT + method, request_)).must_name(field)


async def test_a_refused_request_leaves_no_task_behind(edge: Edge) -> None:
    for part, _ in BAD_PARTS.values():
        await edge.refused(f"{AGENT}SendTask", send(part, task_id="mine", target=1))
    answer = pb.ListTasksResponse.FromString(
        await edge.call(f"{AGENT}ListTasks", pb.ListTasksRequest(include_total=True))
    )
    assert answer.total_size == 0


async def test_a_position_after_the_end_of_a_log_is_out_of_range(edge: Edge) -> None:
    sent = pb.SendTaskResponse.FromString(await edge.call(f"{AGENT}SendTask", send(text("a"))))
    request = pb.SubscribeTaskRequest(task_id=sent.task.id, after_sequence=1 << 62)
    refusal = await edge.refused(f"{AGENT}SubscribeTask", request)
    assert refusal.code is grpc.StatusCode.OUT_OF_RANGE
    assert refusal.info.reason == "SEQUENCE_OUT_OF_RANGE"
    assert refusal.info.metadata["last_sequence"] == str(sent.task.sequence)


async def test_fields_of_a_newer_contract_are_ignored(edge: Edge) -> None:
    unknown = b"\xfa\x3f\x03new"  # field 1023
    data = send(text("a")).SerializeToString() + unknown
    answer = pb.SendTaskResponse.FromString(await edge.call(f"{AGENT}SendTask", data))
    assert answer.task.state == task_pb2.TASK_STATE_COMPLETED


async def test_a_method_that_is_not_in_the_contract_is_unimplemented(edge: Edge) -> None:
    assert (await edge.refused(f"{AGENT}EatTask", b"")).code is grpc.StatusCode.UNIMPLEMENTED


def card(**fields: Any) -> agent_card_pb2.AgentCard:
    first = agent_card_pb2.AgentInterface(url="grpc://h:1", transport="grpc")
    return agent_card_pb2.AgentCard(**{"name": "a", "description": "b", "interfaces": [first], **fields})


BAD_CARDS = {
    "no card": (rpb.RegisterAgentRequest(), "card.name"),
    "no name": (rpb.RegisterAgentRequest(card=card(name="")), "card.name"),
    "no description": (rpb.RegisterAgentRequest(card=card(description="")), "card.description"),
    "no interface": (rpb.RegisterAgentRequest(card=card(interfaces=[])), "card.interfaces"),
    "no url": (rpb.RegisterAgentRequest(card=card(interfaces=[{"transport": "grpc"}])), "card.interfaces[0].url"),
    "no transport": (rpb.RegisterAgentRequest(card=card(interfaces=[{"url": "u"}])), "card.interfaces[0].transport"),
    "long instance": (rpb.RegisterAgentRequest(card=card(), instance_id="i" * 129), "instance_id"),
    "long name": (rpb.RegisterAgentRequest(card=card(name="\u00e4" * 65)), "card.name"),
    "skill without id": (rpb.RegisterAgentRequest(card=card(skills=[{}])), "card.skills[0].id"),
    "schema no JSON": (
        rpb.RegisterAgentRequest(card=card(skills=[{"id": "s", "input_schema_json": "{"}])),
        "card.skills[0].input_schema_json",
    ),
    "deep schema": (
        rpb.RegisterAgentRequest(card=card(skills=[{"id": "s", "input_schema_json": '{"a":' + DEEP + "}"}])),
        "card.skills[0].input_schema_json",
    ),
    "a skill twice": (rpb.RegisterAgentRequest(card=card(skills=[{"id": "s"}] * 2)), "card.skills[1].id"),
    "negative concurrency": (
        rpb.RegisterAgentRequest(card=card(max_concurrency=-1)),
        "card.max_concurrency",
    ),
    "negative lease": (rpb.RegisterAgentRequest(card=card(), lease_ttl={"seconds": -1}), "lease_ttl"),
}


@pytest.mark.parametrize("kind", BAD_CARDS)
async def test_a_bad_card_is_refused_by_its_path(registry: Edge, kind: str) -> None:
    request, field = BAD_CARDS[kind]
    (await registry.refused(f"{REGISTRY}RegisterAgent", request)).must_name(field)
    listed = rpb.ListAgentsResponse.FromString(await registry.call(f"{REGISTRY}ListAgents", rpb.ListAgentsRequest()))
    assert not listed.agents


@pytest.mark.parametrize("token", JUNK_TOKENS)
async def test_a_junk_page_token_to_the_registry_is_refused(registry: Edge, token: str) -> None:
    request = rpb.ListAgentsRequest(page_token=JUNK_TOKENS[token])
    (await registry.refused(f"{REGISTRY}ListAgents", request)).must_name("page_token")


async def test_other_bad_requests_to_the_registry_are_refused_by_their_field(registry: Edge) -> None:
    (await registry.refused(f"{REGISTRY}RenewLease", rpb.RenewLeaseRequest())).must_name("lease_id")
    (await registry.refused(f"{REGISTRY}GetAgent", rpb.GetAgentRequest())).must_name("name")
    (await registry.refused(f"{REGISTRY}ListAgents", rpb.ListAgentsRequest(page_size=-1))).must_name("page_size")
    (await registry.refused(f"{REGISTRY}GetAgent", rpb.GetAgentRequest(name="grpc://h:1"))).must_name("name")
    (await registry.refused(f"{REGISTRY}GetAgent", rpb.GetAgentRequest(url="h:1"))).must_name("url")
    for field, value in (("running", -1), ("queued", -1), ("state", 99)):
        beat = rpb.RenewLeaseRequest(lease_id="l", **{field: value})
        (await registry.refused(f"{REGISTRY}RenewLease", beat)).must_name(field)
    watch = rpb.WatchAgentsRequest(after_revision=-1)
    (await registry.refused(f"{REGISTRY}WatchAgents", watch)).must_name("after_revision")
