"""LocalTraceTelemetry: keeps traces in memory and appends them to a JSONL file. No other process is needed."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.clock import iso_from_micros, micros_from_iso
from protolink_grpc.models.json_value import from_json, plain, to_json
from protolink_grpc.telemetry.base import Telemetry
from protolink_grpc.telemetry.spans import Span, SpanKind

_KINDS = {"run": "task"}
"""Kinds of spans that have another name in ProtoLink's traces."""


@dataclass(slots=True)
class TraceEvent:
    """A point in time within a span."""

    type: str
    timestamp: str
    span_id: str | None = None
    payload: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "timestamp": self.timestamp,
            "span_id": self.span_id,
            "payload": plain(self.payload),
        }


@dataclass(slots=True)
class TraceSpan:
    """A span in ProtoLink's form. `kind` is task, llm, tool, agent_call or approval; times are ISO 8601 UTC."""

    id: str
    trace_id: str
    name: str
    kind: str
    parent_id: str | None
    started_at: str
    ended_at: str
    duration_ms: float
    status: str = "ok"
    input: Any = None
    output: Any = None
    error: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    events: list[TraceEvent] = field(default_factory=list)

    @classmethod
    def of(cls, span: Span) -> "TraceSpan":
        """Convert a span that has ended."""
        error = ": ".join(filter(None, (span.error, span.message))) or None
        return cls(
            id=span.span_id,
            trace_id=span.trace_id,
            name=span.name,
            kind=_KINDS.get(span.kind, span.kind),
            parent_id=span.parent_id or None,
            started_at=iso_from_micros(span.start_micros),
            ended_at=iso_from_micros(span.end_micros),
            duration_ms=span.duration_micros / 1000,
            status="ok" if error is None else "error",
            input=span.input,
            output=span.output,
            error=error,
            metadata=dict(span.attributes),
            events=[
                TraceEvent(each.name, iso_from_micros(each.micros), span.span_id, dict(each.attributes))
                for each in span.events
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        own = {name: plain(getattr(self, name)) for name in self.__slots__ if name != "events"}
        return own | {"events": [each.to_dict() for each in self.events]}


@dataclass(slots=True)
class TraceRecord:
    """The spans of one run, oldest first; the first is the run itself, of the kind task.

    Args:
        status: ok or error.
        metadata: `run_id`, `final_state`, and the usage of the task.
    """

    trace_id: str
    task_id: str
    agent_name: str
    started_at: str
    ended_at: str
    duration_ms: float
    status: str
    metadata: dict[str, Any] = field(default_factory=dict)
    spans: list[TraceSpan] = field(default_factory=list)

    @property
    def events(self) -> list[TraceEvent]:
        """The events of all spans, oldest first."""
        return sorted((event for span in self.spans for event in span.events), key=lambda event: event.timestamp)

    def to_dict(self) -> dict[str, Any]:
        own = {name: plain(getattr(self, name)) for name in self.__slots__ if name != "spans"}
        spans = [each.to_dict() for each in self.spans]
        return own | {"spans": spans, "events": [each.to_dict() for each in self.events]}


class LocalTraceRecorder:
    """Keeps traces, and appends them to a file. Several telemetries, of several agents, may share it.

    Args:
        path: JSONL file to which each trace is appended as one line; None keeps traces in memory only.
        max_traces: Maximum number of traces in memory; the oldest ones are removed first. 0 means no limit.
    """

    def __init__(self, path: str | Path | None = None, *, max_traces: int = 1000) -> None:
        self.path = None if path is None else Path(path).expanduser()
        self._traces: deque[TraceRecord] = deque(maxlen=max_traces if max_traces > 0 else None)
        self._lock = threading.Lock()

    @property
    def traces(self) -> list[TraceRecord]:
        """The traces in memory, in the order in which the runs ended."""
        return list(self._traces)

    def record(self, trace: TraceRecord) -> None:
        """Keep a trace, and append it to the file. Raises OSError if the file cannot be written."""
        self._traces.append(trace)
        if self.path is not None:
            line = f"{to_json(trace.to_dict())}\n".encode()
            with self._lock:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                # Unbuffered, because several processes may append to the file: each line is one write.
                with self.path.open("ab", buffering=0) as file:
                    file.write(line)

    def clear(self) -> None:
        """Remove the traces in memory. The file stays."""
        self._traces.clear()

    def replay(self, trace_id: str | None = None) -> list[dict[str, Any]]:
        """Return the traces in memory as JSON objects; with `trace_id`, only those of this trace."""
        return [each.to_dict() for each in self.traces if trace_id is None or each.trace_id == trace_id]

    @classmethod
    def load_jsonl(cls, path: str | Path) -> list[dict[str, Any]]:
        """Read the traces in a file; a missing file has none.

        Raises:
            InvalidArgumentError: A line is not a JSON object; names the line.
        """
        source = Path(path).expanduser()
        if not source.exists():
            return []
        found: list[dict[str, Any]] = []
        for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
            if line.strip():
                value = from_json(line, field=f"line {number}")
                if not isinstance(value, dict):
                    raise InvalidArgumentError("must be a JSON object", field=f"line {number}")
                found.append(value)
        return found


def spans_of_record(record: Mapping[str, Any]) -> list[Span]:
    """Return the spans of a trace that was read from a file.

    Raises:
        InvalidArgumentError: A field is missing or has a wrong type; names it.
    """
    try:
        return [_span_of(record, each) for each in record["spans"]]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidArgumentError(f"is not a trace: {error!r}", field="spans") from error


def _span_of(record: Mapping[str, Any], span: Mapping[str, Any]) -> Span:
    kinds: dict[str, SpanKind] = {kind: kind for kind in get_args(SpanKind)}
    return Span(
        kinds.get(span["kind"], "run"),
        str(span["name"]),
        str(span["trace_id"]),
        str(span["id"]),
        str(span["parent_id"] or ""),
        str(record["task_id"]),
        str(record["metadata"]["run_id"]),
        str(record["agent_name"]),
        micros_from_iso(span["started_at"]),
        micros_from_iso(span["ended_at"]),
        error=str(span["error"] or ""),
        attributes=dict(span["metadata"]),
    )


class LocalTraceTelemetry(Telemetry):
    """Records each run as a TraceRecord.

    Args:
        recorder: A recorder that several agents share; None creates one from `path` and `max_traces`.
        path: As for LocalTraceRecorder.
        redactor: Changes the input and output of a span, after the agent's redaction.
        capture_payloads: Record inputs, outputs and error messages.
        max_traces: As for LocalTraceRecorder.

    Raises:
        InvalidArgumentError: `recorder` and `path` are both given.
    """

    def __init__(
        self,
        recorder: LocalTraceRecorder | None = None,
        *,
        path: str | Path | None = None,
        redactor: Callable[[Any], Any] | None = None,
        capture_payloads: bool = False,
        max_traces: int = 1000,
    ) -> None:
        if recorder is not None and path is not None:
            raise InvalidArgumentError("is an argument of the recorder", field="path")
        self.recorder = recorder or LocalTraceRecorder(path, max_traces=max_traces)
        self.capture_content = capture_payloads
        self._redactor = redactor
        self._spans: dict[tuple[str, str], list[TraceSpan]] = {}

    def on_span(self, span: Span) -> None:
        made, run = TraceSpan.of(span), (span.task_id, span.run_id)
        if self._redactor is not None and self.capture_content:
            made.input, made.output = self._redactor(made.input), self._redactor(made.output)
        if span.kind != "run":
            self._spans.setdefault(run, []).append(made)
            return
        children = sorted(self._spans.pop(run, []), key=lambda each: each.started_at)
        metadata = {"run_id": span.run_id, "final_state": span.attributes["state"], **span.attributes}
        self.recorder.record(
            TraceRecord(
                trace_id=span.trace_id,
                task_id=span.task_id,
                agent_name=span.agent_name,
                started_at=made.started_at,
                ended_at=made.ended_at,
                duration_ms=made.duration_ms,
                status=made.status,
                metadata=metadata,
                spans=[made, *children],
            )
        )
