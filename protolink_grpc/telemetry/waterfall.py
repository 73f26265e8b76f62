"""Draws spans as text: a line for each span, with its duration and its place in time."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from protolink_grpc.telemetry.spans import Span

WIDTH = 80
_DURATION_CHARS = 10
_LABELS = {"llm": "model ", "tool": "tool ", "agent_call": "call ", "approval": "approval ", "step": "step "}

_MARKS = {"approval": "."}
"""The character of a bar by kind; `=` for all others. Time that is spent waiting for a person is dotted."""


def waterfall(spans: Iterable[Span], width: int = WIDTH) -> Iterator[str]:
    """Yield lines of at most `width` characters, trace by trace: spans in order of time, each below its parent.

    `=` is work and `.` is waiting for a person. The duration of a span with an error is followed by `!`, and the errors are listed
    below.
    """
    traces: dict[str, list[Span]] = defaultdict(list)
    for span in sorted(spans, key=lambda each: (each.start_micros, -each.end_micros)):
        traces[span.trace_id].append(span)
    for number, (trace_id, members) in enumerate(traces.items()):
        if number:
            yield ""
        yield f"trace {trace_id}"[:width]
        yield from _lines(members, width)


def _lines(spans: Sequence[Span], width: int) -> Iterator[str]:
    began = min(span.start_micros for span in spans)
    whole = max(1, max(span.end_micros for span in spans) - began)
    label_chars = min(36, width // 2 - 4)
    bar_chars = width - label_chars - _DURATION_CHARS - 3
    failed: list[Span] = []
    for depth, span in _nested(spans):
        label = f"{'  ' * min(depth, 8)}{_LABELS.get(span.kind, '')}{_printable(span.name)}"
        if len(label) > label_chars:
            label = f"{label[: label_chars - 1]}~"
        start = (span.start_micros - began) * bar_chars // whole
        chars = max(1, span.duration_micros * bar_chars // whole)
        bar = " " * min(start, bar_chars - 1) + _MARKS.get(span.kind, "=") * chars
        duration = f"{duration_text(span.duration_micros)}{'!' if span.error else ' '}"
        yield f"{label:<{label_chars}} {duration:>{_DURATION_CHARS}} |{bar[:bar_chars]}".rstrip()
        if span.error:
            failed.append(span)
    for span in failed:
        reason = f"! {_LABELS.get(span.kind, '')}{_printable(span.name)}: {_printable(span.error)}"
        yield reason if len(reason) <= width else f"{reason[: width - 1]}~"


def _nested(spans: Sequence[Span]) -> Iterator[tuple[int, Span]]:
    """Yield the spans with their depths, each after its parent. A span whose parent is not among them has the depth 0."""
    known = {span.span_id for span in spans}
    children: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        children[span.parent_id if span.parent_id in known and span.parent_id != span.span_id else ""].append(span)
    pending = [(0, span) for span in reversed(children.pop("", []))]
    while pending:
        depth, span = pending.pop()
        yield depth, span
        pending += [(depth + 1, each) for each in reversed(children.pop(span.span_id, []))]


def duration_text(micros: int) -> str:
    """Format a duration in at most 9 characters, for instance `1.5 ms` or `2 min 5 s`."""
    if micros < 1_000_000:
        return f"{micros / 1000:.1f} ms"
    seconds = micros / 1_000_000
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 100 else f"{minutes // 60} h {minutes % 60} m"


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)
