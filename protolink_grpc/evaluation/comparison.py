"""Compares two evaluations of the same cases by the number of samples that passed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import comb
from typing import Any

from protolink_grpc.evaluation.report import CaseResult, EvaluationReport
from protolink_grpc.models.arguments import checks_arguments

NOISE_LEVEL = 0.05
"""Maximum probability with which chance alone may cause a change that counts as clear."""


@dataclass(frozen=True, slots=True)
class CaseChange:
    """The number of samples of a case that passed in two evaluations, and of those for which the agent failed."""

    case_id: str
    old_passed: int
    old_samples: int
    new_passed: int
    new_samples: int
    old_failed: int = 0
    new_failed: int = 0

    @property
    def difference(self) -> float:
        """Change of the share of samples that passed: below 0 for a regression."""
        return self.new_passed / self.new_samples - self.old_passed / self.old_samples

    @property
    def chance(self) -> float:
        """The probability of a change at least as large in this direction if nothing has changed.

        Source: Fisher's exact test, one-sided. It is at least 0.5 for one sample each, and 0.05 for 3 of 3 against 0 of 3.
        """
        passed, drawn = self.old_passed + self.new_passed, self.new_samples
        total = self.old_samples + self.new_samples
        if self.difference < 0:
            counts = range(max(0, drawn - (total - passed)), self.new_passed + 1)
        else:
            counts = range(self.new_passed, min(passed, drawn) + 1)
        return sum(comb(passed, count) * comb(total - passed, drawn - count) for count in counts) / comb(total, drawn)

    @property
    def is_clear(self) -> bool:
        """Whether the change is more than noise: `chance` is at most `NOISE_LEVEL`."""
        return self.chance <= NOISE_LEVEL + 1e-9  # 1/20 is not exact as a float

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "case_id": self.case_id,
            "old_passed": self.old_passed,
            "old_samples": self.old_samples,
            "old_failed": self.old_failed,
            "new_passed": self.new_passed,
            "new_samples": self.new_samples,
            "new_failed": self.new_failed,
            "chance": round(self.chance, 6),
            "is_clear": self.is_clear,
        }


@dataclass(frozen=True, slots=True)
class EvaluationComparison:
    """The changes between two evaluations, in the order of the new one's cases.

    Args:
        regressions, improvements, unchanged: Cases of both evaluations, by the share of their samples that passed.
        added, removed: Ids of cases of one evaluation only.
        not_compared: Ids of cases whose input or expected value changed, or that have no samples in one evaluation.
        total: All samples of the compared cases together; None without any.
    """

    regressions: list[CaseChange] = field(default_factory=list)
    improvements: list[CaseChange] = field(default_factory=list)
    unchanged: list[CaseChange] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    total: CaseChange | None = None

    def format(self, width: int = 80) -> str:
        """Return the changes as a table for a terminal."""
        from protolink_grpc.evaluation.text import comparison_lines  # imported here, because it imports this module

        return "\n".join(comparison_lines(self, width))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "regressions": [each.to_dict() for each in self.regressions],
            "improvements": [each.to_dict() for each in self.improvements],
            "unchanged": [each.to_dict() for each in self.unchanged],
            "added": self.added,
            "removed": self.removed,
            "not_compared": self.not_compared,
            "total": None if self.total is None else self.total.to_dict(),
        }


@checks_arguments
def compare_evaluations(old: EvaluationReport, new: EvaluationReport) -> EvaluationComparison:
    """Compare two evaluations case by case.

    A case is a regression if a smaller share of its samples passed than before, and an improvement if a larger share did. With few
    samples, a change may be noise: see `CaseChange.is_clear`.
    """
    before = {result.case.id: result for result in old.case_results}
    found = EvaluationComparison(removed=[name for name in before if name not in {case.id for case in new.cases}])
    changes: list[CaseChange] = []
    for result in new.case_results:
        earlier = before.get(result.case.id)
        if earlier is None:
            found.added.append(result.case.id)
        elif not _are_comparable(earlier, result):
            found.not_compared.append(result.case.id)
        else:
            changes.append(_change(result.case.id, [earlier], [result]))
    for change in changes:
        kind = found.regressions if change.difference < 0 else found.improvements
        (kind if change.difference else found.unchanged).append(change)
    if not changes:
        return found
    return EvaluationComparison(
        found.regressions,
        found.improvements,
        found.unchanged,
        found.added,
        found.removed,
        found.not_compared,
        _total(changes),
    )


def _are_comparable(old: CaseResult, new: CaseResult) -> bool:
    return old.case.digest == new.case.digest and old.samples > 0 and new.samples > 0


def _change(name: str, old: list[CaseResult], new: list[CaseResult]) -> CaseChange:
    def sums(results: list[CaseResult]) -> Iterator[int]:
        yield sum(each.passed for each in results)
        yield sum(each.samples for each in results)

    failed = (sum(each.agent_failed for each in results) for results in (old, new))
    return CaseChange(name, *sums(old), *sums(new), *failed)


def _total(changes: list[CaseChange]) -> CaseChange:
    names = ("old_passed", "old_samples", "new_passed", "new_samples", "old_failed", "new_failed")
    return CaseChange("total", *(sum(getattr(each, name) for each in changes) for name in names))
