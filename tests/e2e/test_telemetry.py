"""OpenTelemetry: real spans at real receivers, over several processes and over a crash."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest
from otlp_receiver import Receiver, receiving, receiving_grpc
from warm_python import warm_executable

from protolink_grpc import Agent, AgentClient, InvalidArgumentError, Task
from protolink_grpc.telemetry import LangfuseTelemetry, LangSmithTelemetry, OpenTelemetryTelemetry, PrometheusTelemetry

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the exporter of the extra otel is not installed")

NEEDS_GRPC_EXPORTER = pytest.mark.skipif(
    find_spec("opentelemetry.exporter.otlp.proto.grpc") is None,
    reason="the exporter of the extra otel is not installed",
)
PROGRAM = Path(__file__).parent / "traced_agent.py"
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = ("traceparent", f"00-{TRACE}-{CALLER}-01")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as received:
        yield received


@pytest.fixture
def grpc_receiver() -> Iterator[Receiver]:
    with receiving_grpc() as received:
        yield received


SDK = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
)
"""What an agent that exports imports: once for all of them, because it takes longer than most tests."""


@contextmanager
def started(
    receiver: Receiver, *arguments: str, protocol: str = "http/protobuf", is_killed: bool = False
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Run an agent in a process of its own. Yield the process and the agent's URL.

    Args:
        is_killed: The test kills the process itself, so it must be the agent's own.
    """
    environment = os.environ | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_BSP_SCHEDULE_DELAY": "20",
        "OTEL_METRIC_EXPORT_INTERVAL": "100",
    }
    command = [sys.executable if is_killed else warm_executable(*SDK), str(PROGRAM), *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


async def test_one_trace_crosses_two_agents_in_two_processes(receiver: Receiver) -> None:
    with started(receiver, "desk") as (_, desk), started(receiver, "front", "--peer", desk) as (_, front):
        client = AgentClient(url=front, metadata=[TRACEPARENT])
        task = await client.send_task(None, Task.create_tool_call("ask", {"table": 7}))
        assert task.get_output() == "table 7"
        spans = receiver.wait_for(lambda found: len(found) >= 5)
    assert {span.trace_id for span in spans} == {TRACE}
    by_name = {(span.service, span.name): span for span in spans}
    chain = [
        by_name["front", "invoke_agent front"],
        by_name["front", "execute_tool ask"],
        by_name["front", f"invoke_agent {desk}"],
        by_name["desk", "invoke_agent desk"],
        by_name["desk", "execute_tool book"],
    ]
    assert chain[0].parent_id == CALLER
    # The tool's code requested the delegation, so both are actions of the run.
    assert [span.parent_id for span in chain[1:3]] == [chain[0].span_id] * 2
    assert [span.parent_id for span in chain[3:]] == [span.span_id for span in chain[2:4]]
    assert chain[0].attributes["plgrpc.state"] == "completed"
    assert not [key for span in spans for key in span.attributes if "arguments" in key or "result" in key]
    assert set(receiver.paths) <= {"/v1/traces", "/v1/metrics"}


async def test_a_resumed_run_continues_its_trace(receiver: Receiver, tmp_path: Path) -> None:
    store = str(tmp_path / "tasks.db")
    with started(receiver, "desk", "--store", store, "--hang", is_killed=True) as (process, url):
        client = AgentClient(url=url, metadata=[TRACEPARENT])
        stream = client.send_task_streaming(None, Task.create_tool_call("book", {"table": 7}))
        await anext(stream)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "begun"
        await stream.aclose()
        process.send_signal(signal.SIGKILL)
        process.wait()
    with started(receiver, "desk", "--store", store):
        spans = receiver.wait_for(lambda found: any(span.name == "invoke_agent desk" for span in found))
    run = next(span for span in spans if span.name == "invoke_agent desk")
    tool = next(span for span in spans if span.name == "execute_tool book")
    assert (run.trace_id, run.parent_id, run.attributes["plgrpc.cause"]) == (TRACE, CALLER, "recovered")
    assert (tool.trace_id, tool.parent_id) == (TRACE, run.span_id)


async def test_the_standard_variables_send_metrics_to_the_collector_too(receiver: Receiver) -> None:
    with started(receiver, "desk") as (_, desk):
        await AgentClient(url=desk).send_task(None, Task.create_tool_call("book", {"table": 7}))
        for name in ("plgrpc.run.duration", "plgrpc.action.duration", "plgrpc.runs.queued", "plgrpc.watchers"):
            receiver.wait_for_metric("desk", name)
    assert "/v1/metrics" in receiver.paths


async def test_metrics_are_sent_to_their_own_endpoint(receiver: Receiver) -> None:
    with started(receiver, "desk", "--metrics", f"{receiver.url}/own/metrics") as (_, desk):
        await AgentClient(url=desk).send_task(None, Task.create_tool_call("book", {"table": 7}))
        receiver.wait_for_metric("desk", "plgrpc.run.duration")
    assert set(receiver.paths) <= {"/v1/traces", "/own/metrics"}


async def test_the_http_port_shows_the_metrics_under_the_same_names() -> None:
    working, release = asyncio.Event(), asyncio.Event()

    class Slow(Agent):
        async def handle_task(self, task: Task) -> Task:
            working.set()
            await release.wait()
            return task.complete("done")

    async with (
        Slow("slow", url="grpc://127.0.0.1:0", http=0, telemetry=PrometheusTelemetry()) as agent,
        httpx.AsyncClient(base_url=agent.http_url) as http,
    ):
        stream = AgentClient(url=agent.card.url).send_task_streaming(None, Task.create("go"))
        await anext(stream)
        await working.wait()
        lines = (await http.get("/metrics")).text.splitlines()
        assert {"plgrpc_runs_running 1.0", "plgrpc_runs_queued 0.0", "plgrpc_watchers 1.0"} <= set(lines)
        assert "plgrpc_store_commits_total 0.0" in lines
        release.set()
        async for _ in stream:
            pass
        ended = 'plgrpc_run_duration_seconds_count{gen_ai_agent_name="slow",plgrpc_state="completed"} 1.0'
        async with asyncio.timeout(60):
            while ended not in (await http.get("/metrics")).text:
                await asyncio.sleep(0.01)


@NEEDS_GRPC_EXPORTER
async def test_the_standard_variable_selects_otlp_over_grpc(grpc_receiver: Receiver) -> None:
    with started(grpc_receiver, "desk", protocol="grpc") as (_, desk):
        client = AgentClient(url=desk, metadata=[TRACEPARENT])
        await client.send_task(None, Task.create_tool_call("book", {"table": 7}))
        spans = grpc_receiver.wait_for(lambda found: len(found) >= 2)
        grpc_receiver.wait_for_metric("desk", "plgrpc.run.duration")
    assert {(span.service, span.trace_id) for span in spans} == {("desk", TRACE)}
    assert {span.name for span in spans} == {"invoke_agent desk", "execute_tool book"}
    assert set(grpc_receiver.paths) == {"TraceService/Export", "MetricsService/Export"}


@NEEDS_GRPC_EXPORTER
async def test_the_arguments_select_otlp_over_grpc_with_headers(grpc_receiver: Receiver) -> None:
    telemetry = OpenTelemetryTelemetry(
        endpoint=grpc_receiver.url, headers={"authorization": "Bearer one"}, protocol="grpc"
    )
    agent = Agent("a", telemetry=telemetry)
    await agent.run_task(Task.create_tool_call("missing"))
    await agent.aclose()
    assert [span.name for span in grpc_receiver.spans][-1] == "invoke_agent a"
    assert grpc_receiver.headers[0]["authorization"] == "Bearer one"


def test_an_unknown_transport_of_otlp_is_refused_with_the_name_of_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgumentError, match="http/protobuf, grpc") as caught:
        OpenTelemetryTelemetry(protocol="http/json")  # type: ignore[arg-type]
    assert caught.value.field == "protocol"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
    with pytest.raises(InvalidArgumentError) as caught:
        OpenTelemetryTelemetry()
    assert caught.value.field == "OTEL_EXPORTER_OTLP_PROTOCOL"


def test_an_endpoint_for_http_without_a_scheme_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^endpoint: must begin with http:// or https://$"):
        OpenTelemetryTelemetry(endpoint="127.0.0.1:4318")


async def test_langfuse_and_langsmith_get_spans_at_their_endpoints_with_their_headers(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk-lf-1")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-lf-2")
    monkeypatch.setenv("LANGFUSE_BASE_URL", receiver.url)
    monkeypatch.setenv("LANGSMITH_API_KEY", "ls-3")
    monkeypatch.setenv("LANGSMITH_PROJECT", "mesh")
    monkeypatch.setenv("LANGSMITH_ENDPOINT", receiver.url)
    for telemetry in (LangfuseTelemetry(), LangSmithTelemetry()):
        agent = Agent("a", telemetry=telemetry)
        await agent.run_task(Task.create_tool_call("missing"))
        await agent.aclose()
    assert receiver.paths == ["/api/public/otel/v1/traces", "/otel/v1/traces"]
    langfuse, langsmith = receiver.headers
    assert langfuse["authorization"] == "Basic cGstbGYtMTpzay1sZi0y"
    assert (langsmith["x-api-key"], langsmith["langsmith-project"]) == ("ls-3", "mesh")


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANGFUSE_PUBLIC_KEY", "LANGSMITH_API_KEY", "LANGCHAIN_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidArgumentError, match="LANGFUSE_PUBLIC_KEY"):
        LangfuseTelemetry()
    with pytest.raises(InvalidArgumentError, match="LANGSMITH_API_KEY"):
        LangSmithTelemetry()
