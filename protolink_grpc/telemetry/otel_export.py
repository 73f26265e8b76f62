"""Converts spans to those of OpenTelemetry's SDK and records metrics. It imports the SDK, so `otel` loads it on first use."""

import os
from collections.abc import Sequence

from opentelemetry.metrics import MeterProvider, get_meter_provider
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from protolink_grpc import __version__
from protolink_grpc.telemetry import genai
from protolink_grpc.telemetry.spans import Span

SCOPE = "protolink_grpc"

FLUSH_TIMEOUT_MS = 3000

_KINDS = {"run": SpanKind.SERVER, "agent_call": SpanKind.CLIENT, "llm": SpanKind.CLIENT}

_NO_ERRORS = frozenset({"canceled", "interrupted"})
"""Errors of spans that do not count as failures."""


class SpanExport:
    """Passes spans to processors, and records the metrics of the runs.

    Args:
        meter_provider: None takes the provider of the process.
    """

    def __init__(self, processors: Sequence[SpanProcessor], meter_provider: MeterProvider | None = None) -> None:
        self._processors = processors
        self._scope = InstrumentationScope(SCOPE, __version__, genai.SCHEMA_URL)
        self._resources: dict[str, Resource] = {}
        meter = (meter_provider or get_meter_provider()).get_meter(SCOPE, __version__, genai.SCHEMA_URL)
        self._runs = meter.create_histogram(genai.RUN_DURATION, "s", "Duration of runs by agent and state.")
        self._calls = meter.create_histogram(genai.OPERATION_DURATION, "s", "Duration of model calls.")
        self._tokens = meter.create_histogram(genai.USAGE, "{token}", "Input and output tokens of model calls.")
        self._costs = meter.create_counter(genai.COST, "1", "Cost of model calls, in units of the currency.")
        self._actions = meter.create_histogram(genai.ACTION_DURATION, "s", "Duration of executed actions.")
        self._waits = meter.create_histogram(genai.APPROVAL_WAIT, "s", "Time until approvals were decided.")

    def export(self, span: Span) -> None:
        """Pass on a span that has ended, and record its metrics."""
        made = self._readable(span)
        for processor in self._processors:
            processor.on_end(made)
        self._record(span)

    def flush(self) -> None:
        for processor in self._processors:
            processor.force_flush(FLUSH_TIMEOUT_MS)

    def _readable(self, span: Span) -> ReadableSpan:
        is_failure = bool(span.error) and span.error not in _NO_ERRORS
        status = Status(StatusCode.ERROR, span.message or None) if is_failure else Status(StatusCode.UNSET)
        return ReadableSpan(
            genai.name_of(span),
            context=_context(span, span.span_id, is_remote=False),
            parent=_context(span, span.parent_id, is_remote=span.kind == "run") if span.parent_id else None,
            resource=self._resource(span.agent_name),
            attributes=genai.attributes_of(span),
            events=[Event(each.name, each.attributes, each.micros * 1000) for each in span.events],
            kind=_KINDS.get(span.kind, SpanKind.INTERNAL),
            status=status,
            start_time=span.start_micros * 1000,
            end_time=span.end_micros * 1000,
            instrumentation_scope=self._scope,
        )

    def _resource(self, agent_name: str) -> Resource:
        """Return the resource of an agent: the name of its service is the agent's, unless OTEL_SERVICE_NAME is set."""
        known = self._resources.get(agent_name)
        if known is None:
            own = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: agent_name}
            known = self._resources[agent_name] = Resource.create(own)
        return known

    def _record(self, span: Span) -> None:
        facts, seconds = span.attributes, span.duration_micros / 1e6
        match span.kind:
            case "run":
                self._runs.record(seconds, {"gen_ai.agent.name": span.agent_name, "plgrpc.state": facts["state"]})
            case "llm":
                self._record_call(span, seconds)
            case "tool" | "agent_call":
                outcome = str(facts.get("outcome", span.error))
                duration = facts.get("execution_micros", 0) / 1e6
                self._actions.record(
                    duration, {"plgrpc.kind": span.kind, "plgrpc.name": span.name, "plgrpc.outcome": outcome}
                )
            case "approval" if "decision" in facts:
                self._waits.record(seconds, {"plgrpc.name": span.name, "plgrpc.decision": facts["decision"]})

    def _record_call(self, span: Span, seconds: float) -> None:
        facts = span.attributes
        common = {
            "gen_ai.operation.name": genai.OPERATIONS["llm"],
            "gen_ai.provider.name": genai.provider_of(span),
            "gen_ai.request.model": facts["model"],
        }
        self._calls.record(seconds, common | ({genai.ERROR_TYPE: span.error} if span.error else {}))
        for kind in ("input", "output"):
            if (tokens := facts.get(f"{kind}_tokens")) is not None:
                self._tokens.record(tokens, common | {genai.USAGE_TYPE: kind})
        if (cost := facts.get("cost_micros")) is not None:
            self._costs.add(cost / 1e6, common | {"plgrpc.currency": facts["currency"]})


def _context(span: Span, span_id: str, *, is_remote: bool) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if span.is_sampled else TraceFlags.DEFAULT)
    return SpanContext(int(span.trace_id, 16), int(span_id, 16), is_remote=is_remote, trace_flags=flags)
