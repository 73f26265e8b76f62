"""W3C trace context from callers on every port, and spans over a restart."""

from pathlib import Path

import httpx
import pytest

from protolink_grpc import (
    Agent,
    AgentClient,
    ApprovalRequired,
    Approvals,
    CapabilityPolicy,
    Message,
    RunContext,
    SQLiteStore,
    Task,
)
from protolink_grpc.telemetry import Span, Telemetry

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{CALLER}-01"
TRACESTATE = "vendor=t61rcWkgMzE"


class Spans(Telemetry):
    """Keeps the spans."""

    def __init__(self) -> None:
        self.ended: list[Span] = []

    def on_span(self, span: Span) -> None:
        self.ended.append(span)


class Echo(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.complete("done")


async def post(url: str, path: str, body: object, **headers: str) -> None:
    async with httpx.AsyncClient(
        base_url=url, headers={"traceparent": TRACEPARENT, "tracestate": TRACESTATE, **headers}
    ) as http:
        (await http.post(path, json=body)).raise_for_status()


@pytest.mark.parametrize("port", ["grpc", "grpc-web", "connect", "a2a", "protolink"])
async def test_the_run_is_a_child_of_the_callers_span_on_every_port(port: str) -> None:
    seen = Spans()
    async with Echo("echo", url="grpc://127.0.0.1:0", http=0, telemetry=seen) as agent:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        match port:
            case "grpc" | "grpc-web":
                url = agent.card.url if port == "grpc" else agent.http_url
                client = AgentClient(metadata=[("traceparent", TRACEPARENT), ("tracestate", TRACESTATE)])
                await client.send_task(url, Task.create("hello"))
            case "connect":
                sent = {"input": {"messages": [{"role": "MESSAGE_ROLE_USER", "parts": [{"text": "hello"}]}]}}
                await post(agent.http_url, "/plgrpc.v1.AgentService/SendTask", sent)
            case "a2a":
                await post(agent.http_url, "/message:send", {"message": message}, **{"A2A-Version": "1.0"})
            case "protolink":
                await post(agent.http_url, "/tasks/", Task.create("hello").to_dict())
    (run,) = seen.ended
    assert (run.trace_id, run.parent_id, run.trace_state) == (TRACE, CALLER, TRACESTATE)


async def test_a_tracestate_in_several_entries_is_one() -> None:
    seen = Spans()
    async with Echo("echo", url="grpc://127.0.0.1:0", http=0, telemetry=seen) as agent:
        headers = [("traceparent", TRACEPARENT), ("tracestate", "a=1"), ("tracestate", "b=2")]
        await AgentClient(metadata=headers).send_task(agent.card.url, Task.create("hello"))
        body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
        async with httpx.AsyncClient(base_url=agent.http_url, headers=[*headers, ("A2A-Version", "1.0")]) as http:
            (await http.post("/message:send", json=body)).raise_for_status()
    assert [span.trace_state for span in seen.ended] == ["a=1,b=2"] * 2


async def test_the_caller_of_a_further_message_is_the_parent_of_its_run() -> None:
    class Asking(Agent):
        async def handle_task(self, task: Task) -> Task:
            return task.complete("thanks") if len(task.messages) > 1 else task.require_input("where to?")

    seen = Spans()
    async with Asking("asking", url="grpc://127.0.0.1:0", telemetry=seen) as agent:
        task = await AgentClient(url=agent.card.url).send_task(None, Task.create("a trip"))
        second = AgentClient(url=agent.card.url, metadata=[("traceparent", TRACEPARENT)])
        await second.send_task(None, task.add_message(Message.user("Athens")))
    first, further = seen.ended
    assert (first.parent_id, first.attributes["state"]) == ("", "input-required")
    assert (further.trace_id, further.parent_id, further.attributes["cause"]) == (TRACE, CALLER, "continued")


async def test_an_agent_without_telemetry_passes_the_callers_span_on() -> None:
    seen = Spans()
    async with Echo("echo", url="grpc://127.0.0.1:0", telemetry=seen) as echo:

        class Middle(Agent):
            async def handle_task(self, task: Task) -> Task:
                return await self.call_agent(echo.card.url, Task.create("hello"))

        async with Middle("middle", url="grpc://127.0.0.1:0") as middle:
            headers = [("traceparent", TRACEPARENT), ("tracestate", TRACESTATE)]
            await AgentClient(url=middle.card.url, metadata=headers).send_task(None, Task.create("hello"))
    assert [(span.trace_id, span.parent_id, span.trace_state) for span in seen.ended] == [(TRACE, CALLER, TRACESTATE)]


async def test_a_caller_without_a_header_names_its_span_in_the_context() -> None:
    seen = Spans()
    agent = Echo("echo", telemetry=seen)
    task = RunContext(metadata={"traceparent": TRACEPARENT}).attach_to_task(Task.create("hello"))
    await agent.run_task(task)
    await agent.aclose()
    assert [(span.trace_id, span.parent_id) for span in seen.ended] == [(TRACE, CALLER)]


async def test_the_span_of_an_approval_contains_the_wait_over_a_restart(tmp_path: Path) -> None:
    def clerk(telemetry: Telemetry) -> Agent:
        agent = Agent(
            "clerk",
            url="grpc://127.0.0.1:0",
            store=SQLiteStore(tmp_path / "tasks.db"),
            policy=CapabilityPolicy({"money.*": "require_approval"}),
            approvals=Approvals(remote=True),
            telemetry=telemetry,
        )

        @agent.tool(capabilities=["money.pay"])
        def pay(amount: int) -> str:
            """Pay."""
            return f"paid {amount}"

        return agent

    before, after = Spans(), Spans()
    async with clerk(before) as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.submit_task(None, Task.create_tool_call("pay", {"amount": 7}))
        async for event in client.subscribe(task.id):
            if isinstance(event.payload, ApprovalRequired):
                break
        (asked,) = (await client.list_approvals()).approvals
    async with clerk(after) as agent:
        client = AgentClient(url=agent.card.url)
        await client.respond_approval(None, asked, True)
        async for _ in client.subscribe(task.id):
            pass
    assert [(span.kind, span.error) for span in before.ended] == [("run", "interrupted")]
    approval, tool, run = after.ended
    assert [span.kind for span in after.ended] == ["approval", "tool", "run"]
    assert approval.start_micros < run.start_micros < approval.end_micros
    assert (approval.parent_id, tool.start_micros) == (tool.span_id, approval.start_micros)
    assert (approval.name, run.attributes["cause"]) == ("pay", "continued")
