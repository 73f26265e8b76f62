"""EvaluationReport: the samples of an evaluation with their scores, saved and loaded as JSON, and what they add up to."""

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.evaluation.cases import EvaluationCase, check_cases
from protolink_grpc.evaluation.samples import EvaluationSample, EvaluationScore
from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.json_form import JsonForm, read_fields, to_object
from protolink_grpc.models.kinds import Count, Time
from protolink_grpc.models.report import read_json_object

REPORT_VERSION = "1"


@dataclass(frozen=True, slots=True)
class ScorerResult:
    """The scores of one scorer.

    Args:
        passed: Number of samples that it passed.
        samples: Number of all samples, those of failed agents included.
        errors: Number of samples for which the scorer failed.
        mean: Mean value over the samples that have a score without an error; None without such samples.
    """

    name: str
    passed: int
    samples: int
    errors: int
    mean: float | None

    @property
    def pass_rate(self) -> float:
        return self.passed / self.samples if self.samples else 0.0


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The samples of one case: how many passed, and for how many the agent failed. The others were scored too low."""

    case: EvaluationCase
    samples: int
    passed: int
    agent_failed: int
    mean: float | None

    @property
    def scored_low(self) -> int:
        return self.samples - self.passed - self.agent_failed


@dataclass(slots=True)
class EvaluationReport(JsonForm):
    """An evaluation: its cases and the finished samples.

    Args:
        cases: In the order in which they are listed.
        samples: Finished samples, by case and number.
        samples_per_case: Number of samples of each case.
        scorers: Names of the scorers.
        evaluation_id: Identifies the samples of the evaluation: continuing it finds their tasks again.
        agent: Name or URL of the agent.
        store: File with the logs of the tasks; empty if it is not known.
    """

    cases: list[EvaluationCase] = field(default_factory=list)
    samples: list[EvaluationSample] = field(default_factory=list)
    samples_per_case: Count = 1
    scorers: list[str] = field(default_factory=list)
    evaluation_id: str = field(default_factory=new_uuid)
    agent: str = ""
    store: str = ""
    created_at: Time = field(default_factory=utc_now)

    @property
    def is_complete(self) -> bool:
        """Whether each sample of each case has run. A sample that the agent did not accept has not."""
        done = sum(bool(sample.task_id) for sample in self.samples)
        return bool(self.cases) and done >= len(self.cases) * self.samples_per_case

    @property
    def passed(self) -> int:
        """Number of samples that passed."""
        return sum(sample.passed for sample in self.samples)

    @property
    def agent_failed(self) -> int:
        """Number of samples for which the agent failed."""
        return sum(sample.agent_failed for sample in self.samples)

    @property
    def pass_rate(self) -> float:
        """Share of the finished samples that passed; those of failed agents did not. 0 without samples."""
        return self.passed / len(self.samples) if self.samples else 0.0

    @property
    def usage(self) -> BudgetUsage:
        """What the tasks used, as far as it is known."""
        return _sum(sample.usage for sample in self.samples)

    @property
    def scorer_usage(self) -> BudgetUsage:
        """What the scorers used themselves."""
        return _sum(score.usage for sample in self.samples for score in sample.scores)

    @property
    def scorer_results(self) -> list[ScorerResult]:
        """The result of each scorer, in the order of `scorers`."""
        return [self._scorer_result(name) for name in self.scorers]

    def _scorer_result(self, name: str) -> ScorerResult:
        scores = [score for sample in self.samples for score in sample.scores if score.name == name]
        errors = sum(bool(score.error) for score in scores)
        passed = sum(bool(score.passed) for score in scores)
        return ScorerResult(name, passed, len(self.samples), errors, _mean(scores))

    @property
    def case_results(self) -> list[CaseResult]:
        """The result of each case, in the order of `cases`."""
        found: dict[str, list[EvaluationSample]] = defaultdict(list)
        for sample in self.samples:
            found[sample.case_id].append(sample)
        return [_case_result(case, found[case.id]) for case in self.cases]

    def sort(self) -> None:
        """Sort the samples by case, in the order of `cases`, and number."""
        places = {case.id: index for index, case in enumerate(self.cases)}
        self.samples.sort(key=lambda sample: (places.get(sample.case_id, len(places)), sample.number))

    def format(self, width: int = 80) -> str:
        """Return the report as a table for a terminal."""
        from protolink_grpc.evaluation.text import report_lines  # imported here, because it imports this module

        return "\n".join(report_lines(self, width))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, with sums for readers that are not programs of this package; `from_dict` ignores them."""
        scorers = [
            {
                "name": each.name,
                "passed": each.passed,
                "samples": each.samples,
                "errors": each.errors,
                "pass_rate": each.pass_rate,
                "mean": each.mean,
            }
            for each in self.scorer_results
        ]
        sums = {
            "is_complete": self.is_complete,
            "passed": self.passed,
            "agent_failed": self.agent_failed,
            "pass_rate": self.pass_rate,
            "scorers": scorers,
            "usage": self.usage.to_dict(),
            "scorer_usage": self.scorer_usage.to_dict(),
        }
        return {"version": REPORT_VERSION, "totals": sums, **to_object(self)}

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object; unknown keys are skipped.

        Raises:
            InvalidArgumentError: A value of the wrong type, or a report of a later version; names its path.
        """
        found = read_fields(cls, data)
        version = data.get("version") if isinstance(data, dict) else None
        if version != REPORT_VERSION:
            raise InvalidArgumentError(f"must be {REPORT_VERSION!r}, not {version!r}", field="version")
        report = cls(**found)
        if report.cases:  # an evaluation that was interrupted at its start has none
            check_cases(report.cases)
        cases = {case.id: case for case in report.cases}
        for index, sample in enumerate(report.samples):
            if sample.case_id not in cases:
                raise InvalidArgumentError("is not the id of a case", field=f"samples[{index}].case_id")
            sample.case = cases[sample.case_id]
        return report

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON form to a file. An existing file is replaced completely or not at all. Raises OSError."""
        file = Path(path)
        part = file.with_name(f"{file.name}.part")
        part.write_text(json.dumps(self.to_dict(), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        part.replace(file)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file that `save` wrote. Raises OSError, and as `from_dict`."""
        file = Path(path)
        try:
            return cls.from_dict(read_json_object(file.read_bytes(), ""))
        except InvalidArgumentError as error:
            where = f"{file.name}: {error.field}" if error.field else file.name
            raise InvalidArgumentError(error.detail, field=where) from None


def _case_result(case: EvaluationCase, samples: list[EvaluationSample]) -> CaseResult:
    scores = [score for sample in samples for score in sample.scores]
    failed = sum(sample.agent_failed for sample in samples)
    return CaseResult(case, len(samples), sum(sample.passed for sample in samples), failed, _mean(scores))


def _mean(scores: Iterable[EvaluationScore]) -> float | None:
    values = [score.value for score in scores if not score.error]
    return sum(values) / len(values) if values else None


def _sum(usages: Iterable[BudgetUsage | None]) -> BudgetUsage:
    total = BudgetUsage()
    for usage in usages:
        total = total if usage is None else total.plus(usage)
    return total
