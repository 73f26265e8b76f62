"""W3C trace context between processes: whether there is a trace, and how a call says that it is part of it."""

import sys

Metadata = tuple[tuple[str, str], ...]


def is_tracing() -> bool:
    """Whether the process has a tracer provider of its own."""
    # Where nobody has imported it there is none, and programs that do not trace need not load it.
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return False
    return not isinstance(trace.get_tracer_provider(), (trace.ProxyTracerProvider, trace.NoOpTracerProvider))


def joined_to_trace(metadata: Metadata) -> Metadata | None:
    """Metadata of a call, with the current span as `traceparent` where the process traces. What is given already stays."""
    if is_tracing():
        from opentelemetry import propagate  # see is_tracing

        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        given = {key.lower() for key, _ in metadata}
        # gRPC takes keys in lower case only.
        metadata += tuple((key.lower(), value) for key, value in carrier.items() if key.lower() not in given)
    return metadata or None
