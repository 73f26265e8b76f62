"""W3C trace context of calls and runs, and the ids of spans.

The ids of spans follow from the ids in the log. Therefore the process that runs a task, a process that continues it, and a reader
of the log compute the same trace. The context of a call is its `traceparent` header, and `tracestate` has what tracing systems add
to it. `RunContext.metadata` stores both with the task. Source: https://www.w3.org/TR/trace-context/
"""

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from protolink_grpc.models.context import RunContext

TRACEPARENT = "traceparent"
"""The header, and the key in the metadata of a RunContext."""

TRACESTATE = "tracestate"
"""The header of the entries of tracing systems, and its key in the metadata of a RunContext."""

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_HEX = re.compile(r"[0-9a-f]{32}", re.ASCII)
_MAX_HEADER_CHARS = 512
_STATE_ENTRY = re.compile(
    r"[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]", re.ASCII
)
_MAX_STATE_ENTRIES, _MAX_READ_STATE_CHARS = 32, 8192
MAX_STATE_CHARS, _LONG_ENTRY_CHARS = 512, 128
"""Bound of a `tracestate` that is passed on, and the size above which an entry is left out first. Source: W3C, section 3.3.1.5."""

_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A position in a trace.

    Args:
        trace_id: 32 hex digits.
        span_id: 16 hex digits; empty above the first span of the trace.
        is_sampled: The spans of the trace are exported.
        has_spans: The current code runs in an agent whose telemetry makes a span of each run and action.
        state: The `tracestate` header, valid and at most `MAX_STATE_CHARS` long; empty without one.
    """

    trace_id: str
    span_id: str = ""
    is_sampled: bool = True
    has_spans: bool = False
    state: str = ""

    @classmethod
    def parse(cls, header: object, state: object = "") -> "TraceContext | None":
        """Return the context in a `traceparent` header and a `tracestate` header.

        None if `traceparent` is invalid. An invalid `tracestate` counts as none.
        """
        if not isinstance(header, str) or len(header) > _MAX_HEADER_CHARS:
            return None
        found = _FORM.fullmatch(header.strip())
        if found is None:
            return None
        version, trace_id, span_id, flags, rest = found.groups()
        if version == "ff" or (version == "00" and rest) or trace_id == _NO_TRACE or span_id == _NO_SPAN:
            return None
        return cls(trace_id, span_id, bool(int(flags, 16) & 1), state=parse_state(state) if state else "")

    @classmethod
    def stored(cls, context: RunContext | None) -> "TraceContext | None":
        """Return the context of the caller's span in the metadata of a RunContext; None without one."""
        if context is None or TRACEPARENT not in context.metadata:
            return None
        return cls.parse(context.metadata[TRACEPARENT], context.metadata.get(TRACESTATE, ""))

    def within(self, span_id: str) -> "TraceContext":
        """Return the context within a span of this trace that the telemetry makes."""
        return TraceContext(self.trace_id, span_id, self.is_sampled, has_spans=True, state=self.state)

    @property
    def header(self) -> str:
        """The `traceparent` header; empty above the first span."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.is_sampled else '00'}" if self.span_id else ""


def parse_state(header: object) -> str:
    """Return a `tracestate` header without empty entries and within `MAX_STATE_CHARS`; empty if it is invalid.

    Entries are left out whole: first those above 128 characters, then the last ones, which are the oldest.
    """
    if not isinstance(header, str) or len(header) > _MAX_READ_STATE_CHARS:
        return ""
    entries = [entry for each in header.split(",") if (entry := each.strip(" \t"))]
    keys = {each.partition("=")[0] for each in entries}
    if len(entries) > _MAX_STATE_ENTRIES or len(keys) < len(entries) or not all(map(_STATE_ENTRY.fullmatch, entries)):
        return ""
    while len(",".join(entries)) > MAX_STATE_CHARS:
        long = [each for each in entries if len(each) > _LONG_ENTRY_CHARS]
        entries.remove((long or entries)[-1])
    return ",".join(entries)


def span_id_of(*ids: str) -> str:
    """Return the id of the span of a run (task id, run id), an action (action id), or another object with unique ids."""
    return sha256("\0".join(ids).encode()).hexdigest()[:16]


def trace_of(context: RunContext | None, task_id: str) -> TraceContext:
    """Return the trace context above the runs of a task: the caller's span, or the start of a trace.

    Without a `traceparent`, the id of the trace is `RunContext.trace_id`, or the id of the task if there is none. A UUID or 32 hex
    digits are taken as they are written, without hyphens; another text is hashed.
    """
    if context is not None:
        if (caller := TraceContext.stored(context)) is not None:
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
    if trace is None or not trace.span_id:
        return context
    known = context.metadata
    if known.get(TRACEPARENT) == trace.header and known.get(TRACESTATE, "") == trace.state:
        return context
    metadata: dict[str, Any] = {**known, TRACEPARENT: trace.header}
    metadata.pop(TRACESTATE, None)
    if trace.state:
        metadata[TRACESTATE] = trace.state
    return replace(context, metadata=metadata, trace_id=context.trace_id or trace.trace_id)
