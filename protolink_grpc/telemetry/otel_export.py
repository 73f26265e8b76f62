"""Converts spans to those of OpenTelemetry's SDK and records metrics. It imports the SDK, so `otel` loads it on first use."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from weakref import WeakSet, WeakValueDictionary

from opentelemetry.metrics import (
    CallbackOptions,
    Counter,
    Histogram,
    MeterProvider,
    Observation,
    get_meter_provider,
)
from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from protolink_grpc import __version__
from protolink_grpc.runtime.service import ServiceGauges
from protolink_grpc.telemetry import genai
from protolink_grpc.telemetry.metrics import OF_SERVICES, OF_SPANS, measurements_of
from protolink_grpc.telemetry.spans import Span

ReadGauges = Callable[[], ServiceGauges | None]

SCOPE = "protolink_grpc"

FLUSH_TIMEOUT_MS = 3000

MAX_RECORDED = 10_000
"""Number of spans by which one export may be behind another one that shares its meter provider."""

_KINDS = {"run": SpanKind.SERVER, "agent_call": SpanKind.CLIENT, "llm": SpanKind.CLIENT}

_SAMPLED, _NOT_SAMPLED, _UNSET = (
    TraceFlags(TraceFlags.SAMPLED),
    TraceFlags(TraceFlags.DEFAULT),
    Status(StatusCode.UNSET),
)

_NO_ERRORS = frozenset({"canceled", "interrupted"})
"""Errors of spans that do not count as failures."""


class SpanExport:
    """Passes spans to processors, and records the metrics of the runs.

    Args:
        provider_of: Returns the meter provider for the metrics of an agent, whose resource it gets.
    """

    def __init__(self, processors: Sequence[SpanProcessor], provider_of: Callable[[Resource], MeterProvider]) -> None:
        self._processors = processors
        self._scope = InstrumentationScope(SCOPE, __version__, genai.SCHEMA_URL)
        self._resources: dict[str, Resource] = {}
        self._provider_of = provider_of
        self._meters: dict[str, _Meters] = {}
        """By agent. Agents, and other exports, may share the instruments of a provider."""

    def export(self, span: Span) -> None:
        """Pass on a span that has ended, and record its metrics."""
        made = self._readable(span)
        for processor in self._processors:
            processor.on_end(made)
        self._meters_of(span.agent_name).record(span)

    def add_service(self, agent_name: str, gauges: ReadGauges) -> None:
        """Export the current numbers of an agent."""
        self._meters_of(agent_name).add_service(agent_name, gauges)

    def flush(self) -> None:
        for processor in self._processors:
            processor.force_flush(FLUSH_TIMEOUT_MS)
        for meters in set(self._meters.values()):
            if isinstance(meters.provider, SdkMeterProvider):
                meters.provider.force_flush(FLUSH_TIMEOUT_MS)

    def _readable(self, span: Span) -> ReadableSpan:
        is_failure = bool(span.error) and span.error not in _NO_ERRORS
        status = Status(StatusCode.ERROR, span.message or None) if is_failure else _UNSET
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

    def _meters_of(self, agent_name: str) -> "_Meters":
        meters = self._meters.get(agent_name)
        if meters is None:
            meters = self._meters[agent_name] = _share_meters(self._provider_of(self._resource(agent_name)), self)
        return meters


class _Meters:
    """The instruments of one meter provider. Several exports may share them: each span and each service counts once.

    Attributes:
        provider: Creates the instruments, and exports them.
        users: The exports that use them.
    """

    def __init__(self, provider: MeterProvider) -> None:
        self.provider = provider
        self.users = WeakSet[SpanExport]()
        self._recorded: OrderedDict[tuple[str, str], None] = OrderedDict()
        """The latest spans of exports that share the instruments, by trace and span id, oldest first."""
        self._services: list[tuple[str, ReadGauges]] = []
        meter = provider.get_meter(SCOPE, __version__, genai.SCHEMA_URL)
        self._spans: dict[str, Histogram | Counter] = {}
        for each in OF_SPANS:
            create = meter.create_counter if each.kind == "counter" else meter.create_histogram
            self._spans[each.name] = create(each.name, each.unit, each.description)
        for each, read in OF_SERVICES:
            observe = partial(self._observe, read)
            if each.kind == "counter":
                meter.create_observable_counter(each.name, [observe], each.unit, each.description)
            else:
                meter.create_observable_gauge(each.name, [observe], each.unit, each.description)

    def record(self, span: Span) -> None:
        """Record the values of a span that has ended, unless another export has recorded them."""
        if len(self.users) > 1 and self._is_recorded(span):
            return
        for instrument, value, attributes in measurements_of(span):
            made = self._spans[instrument.name]
            if isinstance(made, Counter):
                made.add(value, attributes)
            else:
                made.record(value, attributes)

    def add_service(self, agent_name: str, gauges: ReadGauges) -> None:
        """Export the numbers of a service, until it stops."""
        if (agent_name, gauges) not in self._services:
            self._services.append((agent_name, gauges))

    def _is_recorded(self, span: Span) -> bool:
        """Note a span, and return whether it was noted before. The exports call this in threads of their own."""
        key = (span.trace_id, span.span_id)
        with _LOCK:
            if key in self._recorded:
                return True
            self._recorded[key] = None
            if len(self._recorded) > MAX_RECORDED:
                self._recorded.popitem(last=False)
        return False

    def _observe(self, read: Callable[[ServiceGauges], float], _: CallbackOptions) -> Iterator[Observation]:
        for service in list(self._services):
            agent_name, gauges = service
            now = gauges()
            if now is not None:
                yield Observation(read(now), {"gen_ai.agent.name": agent_name})
            elif service in self._services:
                self._services.remove(service)


_LOCK = threading.Lock()
_METERS = WeakValueDictionary[int, _Meters]()
"""By the identity of their provider, which they keep alive."""


def _share_meters(provider: MeterProvider, user: SpanExport) -> _Meters:
    """Return the instruments of a provider: two exports with instruments of their own would count everything twice."""
    with _LOCK:
        meters = _METERS.get(id(provider))
        if meters is None:
            meters = _METERS[id(provider)] = _Meters(provider)
        meters.users.add(user)
        return meters


def _context(span: Span, span_id: str, *, is_remote: bool) -> SpanContext:
    flags = _SAMPLED if span.is_sampled else _NOT_SAMPLED
    state = TraceState.from_header([span.trace_state]) if span.trace_state else None
    return SpanContext(int(span.trace_id, 16), int(span_id, 16), is_remote, flags, state)


def process_meter_provider(_: Resource) -> MeterProvider:
    """Return the meter provider of the process; without one, a provider whose instruments begin to record when it is set."""
    return get_meter_provider()


def has_process_meter_provider() -> bool:
    """Whether the process has a meter provider of OpenTelemetry's SDK."""
    return isinstance(get_meter_provider(), SdkMeterProvider)


def exporting_meter_provider(exporter: Callable[[], MetricExporter], resource: Resource) -> MeterProvider:
    """Create a meter provider that exports in the interval of `OTEL_METRIC_EXPORT_INTERVAL` and when the process ends."""
    return SdkMeterProvider([PeriodicExportingMetricReader(exporter())], resource)
