"""Samples and their scores. A sample is one run of one case: a task of its own."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.evaluation.cases import EvaluationCase
from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.json_form import JsonForm
from protolink_grpc.models.kinds import ONLY_IF_SET, Count, Seconds
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.task import Task

PASSING_VALUE = 0.5
"""The least value of a score that passes, if the scorer does not decide it."""

SCORED_STATES = frozenset({TaskState.COMPLETED, TaskState.INPUT_REQUIRED})
"""States whose output is scored. A question to the caller may be what a case expects."""


_NO_CASE = EvaluationCase("not known")
"""The case of a sample that is read from JSON, until the report of the sample sets it."""


@dataclass(slots=True)
class EvaluationScore(JsonForm):
    """The result of one scorer for one sample.

    Args:
        value: From 0 (worst) to 1 (best).
        passed: None means that `value` is at least `PASSING_VALUE`.
        comment: The reason, one sentence.
        error: Why the scorer failed; the value is 0 then, and the score does not pass.
        data: Further values, for instance the answers of a judge.
        usage: What the scorer itself used; None if nothing.

    Raises:
        InvalidArgumentError: The value is not a number from 0 to 1; names it.
    """

    name: str
    value: float = 0.0
    passed: bool | None = None
    comment: str = ""
    error: str = ""
    data: dict[str, Any] = field(default_factory=dict, metadata=ONLY_IF_SET)
    usage: BudgetUsage | None = field(default=None, metadata=ONLY_IF_SET)

    def __post_init__(self) -> None:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or not isfinite(self.value):
            raise InvalidArgumentError(f"must be a number from 0 to 1, not {self.value!r}", field="value")
        if not 0 <= self.value <= 1:
            raise InvalidArgumentError(f"must be a number from 0 to 1, not {self.value:g}", field="value")
        if self.passed is None:
            self.passed = not self.error and self.value >= PASSING_VALUE


@dataclass(slots=True)
class EvaluationSample(JsonForm):
    """One run of one case.

    Args:
        case_id: The id of the case.
        number: Number of the sample within its case, from 1.
        task_id: The task of the sample; empty if the agent did not accept one.
        run_id: The last run of the task; empty if it is not known.
        state: The final state of the task; empty if it is not known.
        reason: Why there is no output to score: the reason of the task, or the error of the call.
        output: The output of the task (`Task.get_output`) as a JSON value.
        duration_s: Time until the task ended, in seconds. A task that was found finished took no time.
        usage: What the task used, delegated work included; None if that is not known.
        scores: One for each scorer; empty if the agent failed.
        case: The case.
        task: The task, for scorers; None after the evaluation.
        report: The report of its last run, for scorers; None after the evaluation, and if the agent has no reports.
    """

    case_id: str
    number: Count = 1
    task_id: str = ""
    run_id: str = ""
    state: str = ""
    reason: str = ""
    output: Any = None
    duration_s: Seconds = 0.0
    usage: BudgetUsage | None = None
    scores: list[EvaluationScore] = field(default_factory=list)
    case: EvaluationCase = field(default=_NO_CASE, compare=False, repr=False)
    task: Task | None = field(default=None, compare=False, repr=False)
    report: RunReport | None = field(default=None, compare=False, repr=False)

    @property
    def agent_failed(self) -> bool:
        """Whether there is no output to score: the task failed, was canceled or rejected, or could not be sent."""
        return self.state not in SCORED_STATES

    @property
    def passed(self) -> bool:
        """Whether the agent did not fail and each score passed."""
        return not self.agent_failed and all(score.passed for score in self.scores)


Scored = bool | float | EvaluationScore

Scorer = Callable[[EvaluationSample], Scored | Awaitable[Scored]]
"""A function that scores a sample. True is 1, False is 0. Its name in reports is its `__name__`."""
