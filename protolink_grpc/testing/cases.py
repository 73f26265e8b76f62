"""The conformance cases, and the lines in which a program reports their results."""

import re
from dataclasses import dataclass
from typing import Literal

CASES = (
    "unary",
    "stream",
    "resume",
    "cancel",
    "deadline",
    "errors",
    "metadata",
    "retry",
    "large",
    "approval",
    "budget",
    "registry",
    "tool",
    "typed-call",
    "typed-stream",
    "references",
    "sessions",
    "tasks",
    "snapshots",
    "unknown-event",
    "unknown-part",
    "unknown-enum",
    "missing-event",
    "outage",
    "reset",
    "early-ok",
    "cut-end",
    "idle-cuts",
    "flapping",
    "retry-bound",
    "deadline-in-outage",
    "cancel-in-pause",
    "decision-in-cut",
    "forgotten-task",
    "mistyped",
    "expected-sequence",
    "credentials",
    "leak",
    "vectors",
)
"""The names of the cases, in the order in which programs run them. docs/polyglot.md describes each."""

Result = Literal["PASS", "FAIL", "SKIP"]

_LINE = re.compile(r"(?P<result>PASS|FAIL|SKIP) (?P<case>[a-z][a-z0-9-]*)(?:: (?P<why>.+)| (?P<millis>\d+) ?ms)?\s*")


@dataclass(frozen=True, slots=True)
class Report:
    """The reported result of one case; `why` is the reason of a failure or skip."""

    result: Result
    case: str
    why: str = ""


def parse_report(line: str) -> Report | None:
    """Parse a line such as `PASS unary 12ms` or `FAIL resume: got sequence 41 twice`. Returns None for any other line."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    result: Result = "PASS" if found["result"] == "PASS" else "FAIL" if found["result"] == "FAIL" else "SKIP"
    return Report(result, found["case"], (found["why"] or "").strip())
