"""The origin of a call in its metadata: its W3C trace context, and the runs that wait for its answer.

The latter are for the peer's admission (`runtime.slots`): a run must not wait for a slot that it holds itself. They are apart from
`RunContext.agent_chain`, which only delegated work has, because a handler may call any agent with a plain client.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from urllib.parse import quote, unquote

from protolink_grpc.net.trace_context import TRACEPARENT, TRACESTATE, TraceContext, parse_state, span_id_of

Metadata = tuple[tuple[str, str], ...]

WAITING_RUNS = "plgrpc-waiting-runs"
"""Metadata of a call made by a run: entries `agent name/run id`, both percent-encoded, joined by commas, oldest run first."""

MAX_WAITING_RUNS_BYTES = 2048
"""Bound of that header: gRPC receives 8 KiB of metadata by default. The oldest runs are left out."""

WaitingRun = tuple[str, str]
"""A run that waits for a call: the name of its agent, and its id."""

_waiting: ContextVar[tuple[WaitingRun, ...]] = ContextVar("plgrpc_waiting_runs", default=())


class _RunTrace:
    """The trace context of a run, computed at its first use: most runs make no call that needs it."""

    __slots__ = ("_find", "_found")

    def __init__(self, find: Callable[[], TraceContext]) -> None:
        self._find = find
        self._found: TraceContext | None = None

    def get(self) -> TraceContext:
        if self._found is None:
            self._found = self._find()
        return self._found


_current: ContextVar[TraceContext | _RunTrace | None] = ContextVar("plgrpc_trace", default=None)


def _own_trace() -> TraceContext | None:
    """Return the trace context that was set for the current code."""
    current = _current.get()
    return current.get() if isinstance(current, _RunTrace) else current


def is_tracing() -> bool:
    """Whether the process has a tracer provider of its own."""
    # If the module has not been imported, no provider is set. Importing it here would slow down programs without tracing.
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return False
    return not isinstance(trace.get_tracer_provider(), (trace.ProxyTracerProvider, trace.NoOpTracerProvider))


def caller_trace() -> TraceContext | None:
    """Return the trace context of the caller, for the work that it requests; None without one."""
    return _own_trace() or _otel_trace()


def current_trace() -> TraceContext | None:
    """Return the trace context of the current code, for the calls that it makes: a span, else that of its caller, else None."""
    return _otel_trace() or _own_trace()


def _otel_trace() -> TraceContext | None:
    """Return the current span of OpenTelemetry."""
    if not is_tracing():
        return None
    from opentelemetry import trace  # see is_tracing

    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    state = parse_state(span.trace_state.to_header()) if span.trace_state else ""
    return TraceContext(f"{span.trace_id:032x}", f"{span.span_id:016x}", span.trace_flags.sampled, state=state)


def receive_trace(header: str, state: str = "") -> None:
    """Set the trace context of the asyncio task from a caller's `traceparent` and `tracestate`; invalid ones count as none."""
    _set(TraceContext.parse(header, state) if header else None)


def enter_run_trace(trace: TraceContext | None) -> None:
    """Set the trace context of a run without a span: its caller's. It is never reset, because each run has its own asyncio task."""
    _set(trace)


def enter_run_span(find: Callable[[], TraceContext]) -> None:
    """Set the trace context of a run with a span. It is never reset.

    Args:
        find: Returns the context; called at most once.
    """
    run = _RunTrace(find)
    _current.set(run)
    if is_tracing():
        _attach(run.get())


def _set(trace: TraceContext | None) -> None:
    if trace is not None or _current.get() is not None:
        _current.set(trace)


def _attach(trace: TraceContext) -> Any:
    """Make a span of the log the current span of OpenTelemetry, so that spans of libraries are within it. Return a token."""
    if not is_tracing():
        return None
    from opentelemetry import context  # see is_tracing
    from opentelemetry import trace as api

    flags = api.TraceFlags(api.TraceFlags.SAMPLED if trace.is_sampled else api.TraceFlags.DEFAULT)
    state = api.TraceState.from_header([trace.state]) if trace.state else None
    span = api.SpanContext(int(trace.trace_id, 16), int(trace.span_id, 16), False, flags, state)
    return context.attach(api.set_span_in_context(api.NonRecordingSpan(span)))


@contextmanager
def action_trace(action_id: str) -> Iterator[None]:
    """Make the span of an action current, if the run has one."""
    run = _own_trace()
    if run is None or not run.has_spans:
        yield
        return
    action = run.within(span_id_of(action_id))
    token, attached = _current.set(action), _attach(action)
    try:
        yield
    finally:
        _current.reset(token)
        if attached is not None:
            from opentelemetry import context  # see is_tracing

            context.detach(attached)


def add_origin(metadata: Metadata) -> Metadata | None:
    """Return the metadata of a call with its origin, or None if it is empty.

    The origin is the current run, action or span as `traceparent`, if there is one, and the waiting runs. Existing entries are
    kept.
    """
    runs = _waiting.get()
    if runs:
        metadata += ((WAITING_RUNS, waiting_runs_header(runs)),)
    trace = current_trace()
    if trace is not None or is_tracing():
        carrier = _inject(trace)
        given = {key.lower() for key, _ in metadata}
        # gRPC accepts only lower-case keys.
        metadata += tuple((key.lower(), value) for key, value in carrier.items() if key.lower() not in given)
    return metadata or None


def _inject(trace: TraceContext | None) -> dict[str, str]:
    """Return the headers of a trace context, with the further ones of the process's propagators, such as baggage.

    The baggage of a caller is not passed on: only code of the process can set baggage.
    """
    carrier: dict[str, str] = {}
    if is_tracing():
        from opentelemetry import propagate  # see is_tracing

        propagate.inject(carrier)
    if trace is not None and trace.header and carrier.get(TRACEPARENT) != trace.header:
        carrier.pop(TRACESTATE, None)  # of another span
        carrier[TRACEPARENT] = trace.header
        if trace.state:
            carrier[TRACESTATE] = trace.state
    return carrier


def receive_origin(waiting_runs: str, traceparent: str, tracestate: str = "") -> None:
    """Set the waiting runs and the trace context of the asyncio task from a caller's headers.

    Args:
        tracestate: All headers of this name, joined by commas.
    """
    receive_waiting_runs(waiting_runs)
    receive_trace(traceparent, tracestate)


def waiting_runs() -> tuple[WaitingRun, ...]:
    """Return the runs that wait for the current code, oldest first."""
    return _waiting.get()


def set_waiting_runs(runs: tuple[WaitingRun, ...]) -> None:
    """Set the waiting runs of the asyncio task. They are never reset, because each run and each request has its own task."""
    if runs or _waiting.get():
        _waiting.set(runs)


def receive_waiting_runs(header: str) -> None:
    """Set the waiting runs of the asyncio task from a caller's header."""
    set_waiting_runs(parse_waiting_runs(header) if header else ())


def waiting_runs_header(runs: tuple[WaitingRun, ...]) -> str:
    """Encode the latest runs that fit into a header."""
    entries: list[str] = []
    size = 0
    for name, run_id in reversed(runs):
        entry = f"{quote(name, safe='')}/{quote(run_id, safe='')}"
        size += len(entry) + 1
        if size > MAX_WAITING_RUNS_BYTES:
            break
        entries.append(entry)
    return ",".join(reversed(entries))


def parse_waiting_runs(header: str) -> tuple[WaitingRun, ...]:
    """Parse the entries of a header. Invalid entries are ignored, and so is a header that is too long."""
    if len(header) > MAX_WAITING_RUNS_BYTES:
        return ()
    entries = [each.split("/") for each in header.split(",")]
    return tuple((unquote(entry[0]), unquote(entry[1])) for entry in entries if len(entry) == 2)
