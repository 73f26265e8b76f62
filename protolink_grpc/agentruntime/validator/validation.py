"""Validates an event log: reads it once, asks every rule about every event, and collects the results."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, BinaryIO, Final

from protolink_grpc.agentruntime.validator import (
    channel_rules,
    envelope_rules,
    hook_rules,
    lifecycle_rules,
    lime_rules,
    model_rules,
    payload_rules,
    task_rules,
    tool_rules,
    turn_rules,
)
from protolink_grpc.agentruntime.validator.event_file import Event, read_events
from protolink_grpc.agentruntime.validator.log_state import LogState
from protolink_grpc.agentruntime.validator.rule import Level, LogRule, Rule, RuleResult, Status
from protolink_grpc.agentruntime.validator.snapshot import Snapshot
from protolink_grpc.agentruntime.validator.snapshot_rules import SNAPSHOT_RULES, SnapshotComparison
from protolink_grpc.agentruntime.validator.unjudged import unjudged

LOG_RULES: Final[tuple[LogRule, ...]] = tuple(
    sorted(
        (
            *channel_rules.RULES,
            *envelope_rules.RULES,
            *hook_rules.RULES,
            *lifecycle_rules.RULES,
            *lime_rules.RULES,
            *model_rules.RULES,
            *payload_rules.RULES,
            *task_rules.RULES,
            *tool_rules.RULES,
            *turn_rules.RULES,
        ),
        key=lambda each: each.id,
    )
)
"""The rules that need only the log."""

RULES: Final[tuple[Rule, ...]] = tuple(sorted((*LOG_RULES, *SNAPSHOT_RULES), key=lambda each: each.id))

NEEDS_BEGINNING: Final = "the events before the first one of the log"


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """The results of a validation.

    Args:
        events: Number of events, without repeated deliveries of the same event, which are `redelivered`.
        results: One for each rule, in order.
        uncompared: The names of the snapshots that could not be compared, each with the events that are missing.
    """

    events: int
    level: Level
    redelivered: int
    sessions: int
    last_sequence: int | None
    results: tuple[RuleResult, ...]
    uncompared: tuple[tuple[str, str], ...] = ()

    @property
    def is_valid(self) -> bool:
        return not self.of(Status.FAILED)

    def of(self, status: Status) -> list[RuleResult]:
        """Return the results with a status."""
        return [each for each in self.results if each.status is status]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form.

        `notCompared` has the snapshots without a comparison. `notJudged` has the rules of the contract without a check here, by
        what a check would need.
        """
        return {
            "valid": self.is_valid,
            "level": str(self.level),
            "events": self.events,
            "redelivered": self.redelivered,
            "sessions": self.sessions,
            "lastSequence": self.last_sequence,
            "counts": {str(status): len(self.of(status)) for status in Status},
            "rules": [each.to_dict() for each in self.results],
            "notCompared": [{"snapshot": name, "needs": needs} for name, needs in self.uncompared],
            "notJudged": [{"needs": needs, "rules": list(rules)} for needs, rules in unjudged(self.level).items()],
        }


def validate(file: BinaryIO, snapshots: Sequence[Snapshot] = (), level: Level = Level.CORE) -> ValidationReport:
    """Validate the event log in a file of JSON lines, and compare it with snapshots.

    The file is read once, line by line. An event that is delivered twice with equal content counts once.

    Raises:
        InvalidArgumentError: The file is not a log; names the line. See `read_events`.
        OSError: The file cannot be read.
    """
    log, judge = LogState(), _Judge(level)
    comparison = SnapshotComparison(snapshots)
    for event in read_events(file):
        log.note_beginning(event)
        if log.is_redelivered(event):
            log.redelivered += 1
            continue
        judge.check(event, log)
        log.apply(event)
        comparison.apply(event)
    last = max(log.sequences.values(), default=None)
    results = tuple(sorted((*judge.results(log), *comparison.results(level)), key=lambda each: each.rule.id))
    return ValidationReport(
        log.events, level, log.redelivered, len(log.sessions), last, results, tuple(comparison.uncompared())
    )


class _Judge:
    """Passes each event to the rules of its type."""

    def __init__(self, level: Level) -> None:
        self._results = [(rule, RuleResult(rule)) for rule in LOG_RULES if rule.level in (Level.CORE, level)]
        self._of_all = [each for each in self._results if not each[0].types]
        self._by_type: dict[str, list[tuple[LogRule, RuleResult]]] = {}
        for each in self._results:
            for kind in each[0].types:
                self._by_type.setdefault(kind, []).append(each)

    def check(self, event: Event, log: LogState) -> None:
        for rule, result in chain(self._of_all, self._by_type.get(event.type, ())):
            if rule.needs_beginning and not log.has_beginning:
                continue
            outcome = rule.check(event, log)
            if outcome is not None:
                result.checked += 1
                if outcome:
                    result.fail(event.line, event.text("eventId"), outcome)

    def results(self, log: LogState) -> list[RuleResult]:
        for rule, result in self._results:
            if rule.needs_beginning and not log.has_beginning:
                result.missing = NEEDS_BEGINNING
        return [result for _, result in self._results]
