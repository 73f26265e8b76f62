"""The differences between two runs, as values. `reports.diff` finds them."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.json_value import to_json

RunReportSection = Literal[
    "state",
    "input",
    "output",
    "actions",
    "arguments",
    "results",
    "policy",
    "approvals",
    "model_calls",
    "model_text",
    "prompts",
    "usage",
    "events",
]
"""A part of a run that is compared, and that a comparison can ignore."""

ALL_RUN_REPORT_SECTIONS: tuple[RunReportSection, ...] = get_args(RunReportSection)
"""All sections, in the order in which differences are listed."""

RunReportDifferenceKind = Literal["added", "removed", "changed"]
"""Whether only the candidate has the value, only the baseline, or both with different values."""

CONTEXT_EVENTS = 3
"""Number of events that are shown before and after the place where two runs part."""

VALUE_CHARS = 60


@dataclass(frozen=True, slots=True)
class RunReportDifference:
    """A value that differs.

    Args:
        path: The subject and the keys within it, for instance `add #2 arguments.a`: an argument of the second action named add.
        baseline, candidate: The normalised values; None on the side that does not have it.
    """

    section: RunReportSection
    path: str
    kind: RunReportDifferenceKind
    baseline: Any = None
    candidate: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "section": self.section,
            "path": self.path,
            "kind": self.kind,
            "baseline": self.baseline,
            "candidate": self.candidate,
        }

    def __str__(self) -> str:
        match self.kind:
            case "added":
                return f"{self.path}: only in the second run: {_short(self.candidate)}"
            case "removed":
                return f"{self.path}: only in the first run: {_short(self.baseline)}"
            case _:
                return f"{self.path}: {_short_pair(self.baseline, self.candidate)}"


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The place where the events of two runs part.

    Args:
        index: Number of equal events before it.
        before: The last of these, at most `CONTEXT_EVENTS`, of the baseline.
        baseline, candidate: The events from this place on, at most `CONTEXT_EVENTS`; empty if the run has ended.
        differences: What differs in the first of them, if both have the same type.
    """

    index: int
    before: tuple[RunEvent, ...]
    baseline: tuple[RunEvent, ...]
    candidate: tuple[RunEvent, ...]
    differences: tuple[RunReportDifference, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, with the events as they are in the logs."""
        events = {
            name: [each.to_dict() for each in getattr(self, name)] for name in ("before", "baseline", "candidate")
        }
        return {"index": self.index, "differences": [each.to_dict() for each in self.differences], **events}


@dataclass(frozen=True, slots=True)
class RunReportDiff:
    """The differences between two runs.

    Args:
        differences: In the order of ALL_RUN_REPORT_SECTIONS, and within a section in the order of the runs.
        first: Where the events part; None if the runs are equal.
        ignored: The sections that were not compared.
    """

    differences: tuple[RunReportDifference, ...] = ()
    first: FirstDifference | None = None
    ignored: tuple[RunReportSection, ...] = ()

    @property
    def matches(self) -> bool:
        """Whether the runs are equal, apart from the ignored sections."""
        return self.first is None

    @property
    def changed_sections(self) -> tuple[RunReportSection, ...]:
        """The sections with differences."""
        return tuple(dict.fromkeys(each.section for each in self.differences))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "matches": self.matches,
            "ignored": list(self.ignored),
            "changed_sections": list(self.changed_sections),
            "first": None if self.first is None else self.first.to_dict(),
            "differences": [each.to_dict() for each in self.differences],
        }

    def format(self, limit: int = 10) -> str:
        """Return a line for each difference, at most `limit` for each section."""
        lines = []
        for section in self.changed_sections:
            found = [each for each in self.differences if each.section == section]
            lines += [f"{section}: {each}" for each in found[:limit]]
            if len(found) > limit:
                lines.append(f"{section}: {len(found) - limit} more")
        return "\n".join(lines) or "the runs are equal"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else to_json(value)
    flat = " ".join(text.split())
    return flat if len(flat) <= VALUE_CHARS else flat[: VALUE_CHARS - 1] + "…"


def _short_pair(baseline: Any, candidate: Any) -> str:
    """Format two values. Long texts begin shortly before the place where they differ."""
    if not (isinstance(baseline, str) and isinstance(candidate, str)):
        return f"{_short(baseline)} -> {_short(candidate)}"
    pairs = enumerate(zip(baseline, candidate, strict=False))
    same = next((i for i, (old, new) in pairs if old != new), min(len(baseline), len(candidate)))
    start = max(0, same - VALUE_CHARS // 3) if max(len(baseline), len(candidate)) > VALUE_CHARS else 0
    mark = "…" if start else ""
    return f"{_short(mark + baseline[start:]) or '(empty)'} -> {_short(mark + candidate[start:]) or '(empty)'}"
