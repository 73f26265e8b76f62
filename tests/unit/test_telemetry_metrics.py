"""Metrics of runs and services: the same values for OpenTelemetry and for Prometheus."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest

from protolink_grpc import Agent, InvalidArgumentError, Limits, SQLiteStore, Task
from protolink_grpc.telemetry import MultiTelemetry, OpenTelemetryTelemetry, PrometheusTelemetry, Span, prometheus
from protolink_grpc.telemetry.metrics import OF_SERVICES, OF_SPANS


@pytest.fixture
def reader() -> Iterator[tuple[InMemoryMetricReader, OpenTelemetryTelemetry]]:
    found = InMemoryMetricReader()
    provider = MeterProvider([found])
    yield found, OpenTelemetryTelemetry(SimpleSpanProcessor(InMemorySpanExporter()), meter_provider=provider)
    provider.shutdown()


Reader = tuple[InMemoryMetricReader, OpenTelemetryTelemetry]


def values(found: InMemoryMetricReader) -> dict[str, Any]:
    """Return the value of each metric: the sum over its attributes, and the number of values of a histogram."""
    data = found.get_metrics_data()
    metrics = data.resource_metrics[0].scope_metrics[0].metrics if data is not None else []
    return {
        metric.name: sum(
            getattr(point, "count", None) or getattr(point, "value", 0) for point in metric.data.data_points
        )
        for metric in metrics
    }


async def test_the_current_numbers_of_an_agent_are_read_when_they_are_exported(reader: Reader) -> None:
    found, telemetry = reader
    working, release = asyncio.Event(), asyncio.Event()

    class Slow(Agent):
        async def handle_task(self, task: Task) -> Task:
            working.set()
            await release.wait()
            return task.complete("done")

    agent = Slow("slow", telemetry=telemetry, limits=Limits(max_concurrency=1))
    first = asyncio.create_task(agent.run_task(Task.create("one")))
    await working.wait()
    second = asyncio.create_task(agent.run_task(Task.create("two")))
    while values(found)["plgrpc.runs.queued"] != 1:
        await asyncio.sleep(0)
    seen = values(found)
    assert (seen["plgrpc.runs.running"], seen["plgrpc.runs.waiting"]) == (1, 0)
    release.set()
    await asyncio.gather(first, second)
    await agent.aclose()
    seen = values(found)
    assert "plgrpc.runs.running" not in seen
    assert seen["plgrpc.run.duration"] == 2


async def test_commits_of_the_store_are_counted_with_their_time(reader: Reader, tmp_path: Path) -> None:
    found, telemetry = reader
    store = SQLiteStore(tmp_path / "tasks.db")
    agent = Agent("a", telemetry=telemetry, store=store)
    await agent.run_task(Task.create_tool_call("missing"))
    seen = values(found)
    await agent.aclose()
    assert seen["plgrpc.store.commits"] >= 2
    assert 0 < seen["plgrpc.store.commit.time"] <= store.commits.seconds


async def test_telemetries_that_share_a_meter_provider_count_each_run_once() -> None:
    found = InMemoryMetricReader()
    provider = MeterProvider([found])
    telemetry, other = (
        OpenTelemetryTelemetry(SimpleSpanProcessor(InMemorySpanExporter()), meter_provider=provider) for _ in range(2)
    )
    agents = [
        Agent("a", telemetry=MultiTelemetry([telemetry, MultiTelemetry([other, telemetry])])),
        Agent("b", telemetry=other),
    ]
    for agent in agents:
        await agent.run_task(Task.create_tool_call("missing"))
        await agent.run_task(Task.create_tool_call("missing"))
    data = found.get_metrics_data()
    assert data is not None
    metrics = [each for scope in data.resource_metrics[0].scope_metrics for each in scope.metrics]
    assert len({each.name for each in metrics}) == len(metrics)
    points = {each.name: list(each.data.data_points) for each in metrics}
    assert len(points["plgrpc.watchers"]) == 2
    for agent in agents:
        await agent.aclose()
    assert values(found)["plgrpc.run.duration"] == 4
    provider.shutdown()


async def test_prometheus_gets_the_metrics_of_open_telemetry(reader: Reader) -> None:
    found, telemetry = reader
    counted = PrometheusTelemetry()
    agent = Agent("a", telemetry=MultiTelemetry([telemetry, counted]))

    @agent.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    await agent.run_task(Task.create_tool_call("add", {"a": 1, "b": 2}))
    await agent.run_task(Task.create_tool_call("missing"))
    await agent.aclose()
    seen = values(found)
    registry = CollectorRegistry()
    registry.register(counted)
    text = generate_latest(registry).decode()
    assert (seen["plgrpc.run.duration"], seen["plgrpc.action.duration"]) == (2, 1)
    labels = {"gen_ai_agent_name": "a", "plgrpc_state": "completed"}
    assert registry.get_sample_value("plgrpc_run_duration_seconds_count", labels) == 1
    labels = {"plgrpc_kind": "tool", "plgrpc_name": "add", "plgrpc_outcome": "completed"}
    assert registry.get_sample_value("plgrpc_action_duration_seconds_count", labels) == 1
    assert "# TYPE gen_ai_client_token_usage histogram" in text
    assert "# TYPE plgrpc_llm_cost_total counter" in text


def span_of(model: str, **facts: Any) -> Span:
    attributes = {"provider": "mock", "model": model, **facts}
    return Span("llm", model, "1", "2", "3", "task", "run", "a", 0, 2_000_000, attributes=attributes)


def test_tokens_and_costs_of_model_calls_are_counted() -> None:
    counted, registry = PrometheusTelemetry(), CollectorRegistry()
    registry.register(counted)
    for _ in range(2):
        counted.on_span(span_of("m", input_tokens=100, output_tokens=7, cost_micros=250_000, currency="EUR"))
    call = {
        "gen_ai_operation_name": "chat",
        "gen_ai_provider_name": "mock",
        "gen_ai_request_model": "m",
    }
    assert registry.get_sample_value("gen_ai_client_token_usage_sum", {**call, "gen_ai_token_type": "input"}) == 200
    assert registry.get_sample_value("plgrpc_llm_cost_total", {**call, "plgrpc_currency": "EUR"}) == 0.5
    bucket = {**call, "le": "2.5"}
    assert registry.get_sample_value("gen_ai_client_operation_duration_seconds_bucket", bucket) == 2


def test_the_number_of_label_combinations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "MAX_SERIES", 2)
    counted, registry = PrometheusTelemetry(), CollectorRegistry()
    registry.register(counted)
    for number in range(5):
        counted.on_span(span_of(f"m{number}"))
    labels = {"gen_ai_operation_name": "", "gen_ai_provider_name": "", "gen_ai_request_model": ""}
    assert registry.get_sample_value("gen_ai_client_operation_duration_seconds_count", labels) == 3


def test_the_names_of_metrics_are_unique() -> None:
    names = [each.name for each in OF_SPANS] + [each.name for each, _ in OF_SERVICES]
    assert len(set(names)) == len(names)


def test_two_destinations_of_metrics_are_refused() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        OpenTelemetryTelemetry(metrics_endpoint="http://collector:4318/v1/metrics", meter_provider=MeterProvider())
    assert caught.value.field == "metrics_endpoint"
    with pytest.raises(InvalidArgumentError) as caught:
        OpenTelemetryTelemetry(SimpleSpanProcessor(InMemorySpanExporter()), metrics_endpoint="http://collector:4318")
    assert caught.value.field == "metrics_endpoint"
