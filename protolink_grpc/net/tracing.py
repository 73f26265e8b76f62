"""The origin of a call in its metadata: its W3C trace context, and the runs that wait for its answer.

The latter are for the peer's admission (`runtime.slots`): a run must not wait for a slot that it holds itself. They are apart from
`RunContext.agent_chain`, which only delegated work has, because a handler may call any agent with a plain client.
"""

import sys
from contextvars import ContextVar
from urllib.parse import quote, unquote

Metadata = tuple[tuple[str, str], ...]

WAITING_RUNS = "plgrpc-waiting-runs"
"""Metadata of a call made by a run: entries `agent name/run id`, both percent-encoded, joined by commas, oldest run first."""

MAX_WAITING_RUNS_BYTES = 2048
"""Bound of that header: gRPC receives 8 KiB of metadata by default. The oldest runs are left out."""

WaitingRun = tuple[str, str]
"""A run that waits for a call: the name of its agent, and its id."""

_waiting: ContextVar[tuple[WaitingRun, ...]] = ContextVar("plgrpc_waiting_runs", default=())


def is_tracing() -> bool:
    """Whether the process has a tracer provider of its own."""
    # If the module has not been imported, no provider is set. Importing it here would slow down programs without tracing.
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return False
    return not isinstance(trace.get_tracer_provider(), (trace.ProxyTracerProvider, trace.NoOpTracerProvider))


def add_origin(metadata: Metadata) -> Metadata | None:
    """Return the metadata of a call with its origin, or None if it is empty.

    The origin is the current span as `traceparent`, if the process has tracing, and the waiting runs. Existing entries are kept.
    """
    runs = _waiting.get()
    if runs:
        metadata += ((WAITING_RUNS, waiting_runs_header(runs)),)
    if is_tracing():
        from opentelemetry import propagate  # see is_tracing

        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        given = {key.lower() for key, _ in metadata}
        # gRPC accepts only lower-case keys.
        metadata += tuple((key.lower(), value) for key, value in carrier.items() if key.lower() not in given)
    return metadata or None


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
