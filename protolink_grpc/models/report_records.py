"""The records of a report: actions, approvals, model calls, steps, and the totals. `reports.builder` collects them.

Times are ISO 8601 UTC, empty if the event did not happen. An amount of None is unknown, never zero.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from protolink_grpc.models.action import ApprovalDecision, ApprovalRequest, BudgetUsage, PolicyDecision, RunAction
from protolink_grpc.models.json_form import JsonForm, read_fields, to_object
from protolink_grpc.models.kinds import ONLY_IF_SET

AGENT_CALL = "agent.call"


@dataclass(slots=True)
class ReportedAction(JsonForm):
    """One action from its request to its end.

    Args:
        arguments: Arguments of the execution; before it starts, those of the request.
        step: Step of the inference that requested the action; 0 if no inference did.
        run_id: Run that requested the action.
        approval_ids: Approvals of the action, oldest first.
        starts: Number of starts; more than one if a later run repeated the action.
        duration_micros: Duration of the execution; None until it ends.
        outcome: requested, waiting, approved, running, completed, failed, rejected, denied or canceled.
    """

    action_id: str
    kind: str = ""
    name: str = ""
    arguments: dict[str, Any] | None = None
    action: RunAction | None = None
    position: str = ""
    step: int = 0
    run_id: str = ""
    policy: PolicyDecision | None = None
    approval_ids: list[str] = field(default_factory=list)
    requested_at: str = ""
    started_at: str = ""
    ended_at: str = ""
    starts: int = 0
    duration_micros: int | None = None
    outcome: str = "requested"
    result: Any = None
    error: Any = None
    usage: BudgetUsage | None = None


@dataclass(slots=True)
class ReportedApproval(JsonForm):
    """An approval. `state` is pending, approved, denied, expired, or withdrawn if the task ended before a decision."""

    request_id: str
    action_id: str = ""
    run_id: str = ""
    state: str = "pending"
    request: ApprovalRequest | None = None
    decision: ApprovalDecision | None = None
    asked_at: str = ""
    decided_at: str = ""
    waited_micros: int | None = None


@dataclass(slots=True)
class ReportedCall(JsonForm):
    """One model call, its retries included.

    Args:
        attempts: Number of attempts.
        estimated_input_tokens: Total of the manifest that preceded the call.
        completed: False if the call has no response; its usage is unknown.
        metrics: Further metrics of the call.
        requested_provider, requested_model: What was requested; empty if it is `provider` and `model`.
        response_model: Model that the response names; empty if it is `model`.
    """

    call_id: str
    run_id: str = ""
    step: int = 0
    provider: str = ""
    model: str = ""
    streaming: bool = False
    attempts: int = 0
    completed: bool = False
    started_at: str = ""
    ended_at: str = ""
    duration_micros: int | None = None
    estimated_input_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_micros: int | None = None
    currency: str = ""
    finish_reason: str = ""
    metrics: dict[str, Any] = field(default_factory=dict)
    requested_provider: str = field(default="", metadata=ONLY_IF_SET)
    requested_model: str = field(default="", metadata=ONLY_IF_SET)
    response_model: str = field(default="", metadata=ONLY_IF_SET)


@dataclass(slots=True)
class ReportedStep(JsonForm):
    """One step of an inference, with the ids of its model calls and of the actions that they requested."""

    step: int
    run_id: str = ""
    started_at: str = ""
    call_ids: list[str] = field(default_factory=list)
    action_ids: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ReportTotals(JsonForm):
    """Sums over the records of a report. A sum is None if one of its amounts is unknown.

    Args:
        cost_micros: Millionths of a unit of `currency`; None also if the calls have several currencies.
        runtime_micros: Time in which the task was working.
        waited_micros: Time until approvals were decided.
    """

    steps: int = 0
    llm_calls: int = 0
    tool_calls: int = 0
    actions: int = 0
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cost_micros: int | None = 0
    currency: str = ""
    llm_micros: int = 0
    action_micros: int = 0
    waited_micros: int = 0
    runtime_micros: int = 0

    @classmethod
    def of(
        cls,
        steps: int,
        actions: Sequence[ReportedAction],
        approvals: Sequence[ReportedApproval],
        calls: Sequence[ReportedCall],
        runtime_micros: int,
    ) -> Self:
        """Compute the sums over these records."""
        currencies = {call.currency for call in calls}
        return cls(
            steps=steps,
            llm_calls=sum(max(call.attempts, 1) for call in calls),
            tool_calls=sum(each.kind != AGENT_CALL and each.starts > 0 for each in actions),
            actions=len(actions),
            input_tokens=_sum_known(call.input_tokens for call in calls),
            output_tokens=_sum_known(call.output_tokens for call in calls),
            # Amounts of several currencies have no sum.
            cost_micros=_sum_known(call.cost_micros for call in calls) if len(currencies) < 2 else None,
            currency=currencies.pop() if len(currencies) == 1 else "",
            llm_micros=sum(call.duration_micros or 0 for call in calls),
            action_micros=sum(each.duration_micros or 0 for each in actions),
            waited_micros=sum(each.waited_micros or 0 for each in approvals),
            runtime_micros=runtime_micros,
        )

    @property
    def total_tokens(self) -> int | None:
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form with the computed total, which `from_dict` ignores."""
        return to_object(self) | {"total_tokens": self.total_tokens}

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object. An amount that is missing or null is unknown: None, not the default 0."""
        unknown: dict[str, Any] = dict.fromkeys(("input_tokens", "output_tokens", "cost_micros"))
        return cls(**unknown | read_fields(cls, data))


def _sum_known(amounts: Iterable[int | None]) -> int | None:
    """Return the sum; None if an amount is unknown."""
    total = 0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total
