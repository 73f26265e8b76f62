"""W3C trace context of calls and runs, and the ids of spans.

The ids of spans follow from the ids in the log. Therefore the process that runs a task, a process that continues it, and a reader
of the log compute the same trace. The context of a call is its `traceparent` header. `RunContext.metadata["traceparent"]` stores
it with the task. Source: https://www.w3.org/TR/trace-context/
"""

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from protolink_grpc.models.context import RunContext

TRACEPARENT = "traceparent"
"""The header, and the key in the metadata of a RunContext."""

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_HEX = re.compile(r"[0-9a-f]{32}", re.ASCII)
_MAX_HEADER_CHARS = 512
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A position in a trace.

    Args:
        trace_id: 32 hex digits.
        span_id: 16 hex digits; empty above the first span of the trace.
        is_sampled: The spans of the trace are exported.
        has_spans: The current code runs in an agent whose telemetry makes a span of each run and action.
    """

    trace_id: str
    span_id: str = ""
    is_sampled: bool = True
    has_spans: bool = False

    @classmethod
    def parse(cls, header: object) -> "TraceContext | None":
        """Return the context in a `traceparent` header; None if the header is invalid."""
        if not isinstance(header, str) or len(header) > _MAX_HEADER_CHARS:
            return None
        found = _FORM.fullmatch(header.strip())
        if found is None:
            return None
        version, trace_id, span_id, flags, rest = found.groups()
        if version == "ff" or (version == "00" and rest) or trace_id == _NO_TRACE or span_id == _NO_SPAN:
            return None
        return cls(trace_id, span_id, bool(int(flags, 16) & 1))

    def within(self, span_id: str) -> "TraceContext":
        """Return the context within a span of this trace that the telemetry makes."""
        return TraceContext(self.trace_id, span_id, self.is_sampled, has_spans=True)

    @property
    def header(self) -> str:
        """The `traceparent` header; empty above the first span."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.is_sampled else '00'}" if self.span_id else ""


def span_id_of(*ids: str) -> str:
    """Return the id of the span of a run (task id, run id), an action (action id), or another object with unique ids."""
    return sha256("\0".join(ids).encode()).hexdigest()[:16]


def trace_of(context: RunContext | None, task_id: str) -> TraceContext:
    """Return the trace context above the runs of a task: the caller's span, or the start of a trace.

    Without a `traceparent`, the id of the trace is `RunContext.trace_id`, or the id of the task if there is none. A UUID or 32 hex
    digits are taken as they are written, without hyphens; another text is hashed.
    """
    if context is not None:
        if (caller := TraceContext.parse(context.metadata.get(TRACEPARENT))) is not None:
            return caller
        if context.trace_id:
            return TraceContext(_trace_id_of(context.trace_id))
    return TraceContext(_trace_id_of(task_id))


def _trace_id_of(text: str) -> str:
    digits = text.replace("-", "").lower()
    is_id = _HEX.fullmatch(digits) is not None and digits != _NO_TRACE
    return digits if is_id else sha256(text.encode()).hexdigest()[:32]


def with_trace(context: RunContext, trace: TraceContext | None) -> RunContext:
    """Return the context of a task whose caller is at `trace`. Without a span, it is returned unchanged."""
    if trace is None or not trace.span_id or context.metadata.get(TRACEPARENT) == trace.header:
        return context
    metadata: dict[str, Any] = {**context.metadata, TRACEPARENT: trace.header}
    return replace(context, metadata=metadata, trace_id=context.trace_id or trace.trace_id)
