"""One rule about an event log, and its result. The rules themselves are in the modules that end in `_rules`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from protolink_grpc.agentruntime.validator.event_file import Event
from protolink_grpc.agentruntime.validator.log_state import LogState
from protolink_grpc.agentruntime.validator.snapshot import Snapshot
from protolink_grpc.agentruntime.validator.snapshot_fold import SnapshotFold

Outcome = str | None
"""Empty: the event follows the rule. Any other text: why it does not. None: the rule does not apply to the event."""

Check = Callable[[Event, LogState], Outcome]
"""Checks an event. The state is that of the log before the event."""

HOLDS: Final = ""

MAX_FINDINGS: Final = 20
"""Number of violations of a rule that are kept; further ones are counted."""


class Level(StrEnum):
    """Which rules apply. `LIME`: the rules of the contract's core, and those of its profile Lime."""

    CORE = "core"
    LIME = "lime"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Args:
        id: The number of the requirement, with a part after a dot where it has several parts. X: it follows from the contract's
            tables.
        sentence: What the rule demands, for people.
        source: Documents and lines of the contract.
        level: It applies at this level; those of the core apply at both.
        waiver: Why violations do not make a log invalid: they follow from a defect of the profile's schema, with its number.
    """

    id: str
    sentence: str
    source: str
    level: Level = field(default=Level.CORE, kw_only=True)
    waiver: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class LogRule(Rule):
    """A rule about events.

    Args:
        types: The types of events that it checks; empty means all.
        needs_beginning: It cannot be judged if the log does not begin with a session, a thread, a turn or a task.
    """

    types: tuple[str, ...]
    check: Check
    needs_beginning: bool = False


class RuleSet(list[LogRule]):
    """The rules of a module, in order. All have the same level."""

    def __init__(self, level: Level = Level.CORE) -> None:
        super().__init__()
        self._level = level

    def rule(
        self, rule_id: str, sentence: str, source: str, *types: str, needs_beginning: bool = False, waiver: str = ""
    ) -> Callable[[Check], Check]:
        """Declare the decorated function as the check of a rule. The arguments are those of LogRule."""

        def declare(check: Check) -> Check:
            found = LogRule(rule_id, sentence, source, types, check, needs_beginning, level=self._level, waiver=waiver)
            self.append(found)
            return check

        return declare


Comparison = Callable[[SnapshotFold, Snapshot], Iterator[str]]
"""Yields an outcome for each compared fact: empty if it is equal in both. Nothing: the snapshot has no such facts."""


@dataclass(frozen=True, slots=True)
class SnapshotRule(Rule):
    """A rule about a snapshot and the events that it reflects."""

    compare: Comparison


class SnapshotRuleSet(list[SnapshotRule]):
    """The rules of a module, in order. All have the same level."""

    def __init__(self, level: Level = Level.CORE) -> None:
        super().__init__()
        self._level = level

    def rule(self, rule_id: str, sentence: str, source: str) -> Callable[[Comparison], Comparison]:
        """Declare the decorated function as the comparison of a rule."""

        def declare(compare: Comparison) -> Comparison:
            self.append(SnapshotRule(rule_id, sentence, source, compare, level=self._level))
            return compare

        return declare


class Status(StrEnum):
    """`WAIVED`: violated, and the rule has a waiver. `NOT_EXERCISED`: the log has no event that the rule applies to.
    `NOT_CHECKABLE`: something beside the log is missing.
    """

    PASSED = "passed"
    FAILED = "failed"
    WAIVED = "waived"
    NOT_EXERCISED = "not exercised"
    NOT_CHECKABLE = "not checkable"


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation. `line` counts from 1; 0 means a snapshot, which `snapshot` names. `event_id` may be empty."""

    line: int
    event_id: str
    problem: str
    snapshot: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"line": self.line, "eventId": self.event_id, "snapshot": self.snapshot, "problem": self.problem}


@dataclass(slots=True)
class RuleResult:
    """The result of a rule for a log.

    Args:
        checked: Number of events, or of facts of a snapshot, that the rule applied to.
        failures: Number of violations. `findings` are the first `MAX_FINDINGS`.
        missing: What is missing to judge the rule; empty if it was judged.
    """

    rule: Rule
    checked: int = 0
    failures: int = 0
    findings: list[Finding] = field(default_factory=list)
    missing: str = ""

    @property
    def status(self) -> Status:
        if self.failures:
            return Status.WAIVED if self.rule.waiver else Status.FAILED
        if self.missing:
            return Status.NOT_CHECKABLE
        return Status.PASSED if self.checked else Status.NOT_EXERCISED

    def fail(self, line: int, event_id: str, problem: str, snapshot: str = "") -> None:
        """Count a violation."""
        self.failures += 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(line, event_id, problem, snapshot))

    def to_dict(self) -> dict[str, Any]:
        return {
            "rule": self.rule.id,
            "sentence": self.rule.sentence,
            "source": self.rule.source,
            "level": str(self.rule.level),
            "waiver": self.rule.waiver,
            "status": str(self.status),
            "checked": self.checked,
            "failures": self.failures,
            "findings": [each.to_dict() for each in self.findings],
            "missing": self.missing,
        }
