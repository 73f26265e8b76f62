"""Assertions about runs, for tests.

Each takes the same arguments as `RunReplay`, and its AssertionError contains the actual values.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from protolink_grpc.models import events as ev
from protolink_grpc.models.action import BudgetUsage, PolicyEffect
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.report import RunReport
from protolink_grpc.reports.diff import diff_run_reports
from protolink_grpc.reports.replay import RunReplay


def assert_run_events(source: Any, types: Sequence[str], *, ordered: bool = True, allow_extra: bool = True) -> None:
    """Assert that the run has events of these types.

    Args:
        ordered: Whether they must be in this order; otherwise each must occur at least as often as it is named.
        allow_extra: Whether there may be other events.
    """
    found, wanted = RunReplay(source).event_types, list(types)
    if ordered and allow_extra:
        missing = _first_missing(found, wanted)
        if missing is not None:
            raise AssertionError(f"{missing} is missing or too early in {found}; expected {wanted} in this order")
    elif ordered:
        if found != wanted:
            raise AssertionError(f"expected exactly {wanted}, found {found}")
    else:
        lacking, extra = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
        if lacking:
            raise AssertionError(f"missing {sorted(lacking.elements())} in {found}")
        if extra and not allow_extra:
            raise AssertionError(f"unexpected {sorted(extra.elements())}, expected only {wanted}")


def _first_missing(found: Iterable[str], wanted: Iterable[str]) -> str | None:
    """Return the first of `wanted` that is missing after the previous ones, or None."""
    rest = iter(found)
    return next((each for each in wanted if each not in rest), None)


def assert_run_matches(baseline: Any, candidate: Any, *, ignore: Iterable[str] = ()) -> None:
    """Assert that two runs are equal; see `diff_run_reports`."""
    found = diff_run_reports(baseline, candidate, ignore=ignore)
    if found.first is not None:
        raise AssertionError(f"the runs differ after {found.first.index} equal events:\n{found.format()}")


def assert_no_denied_actions(source: Any) -> None:
    """Assert that no action was denied by a policy or an approver, or failed for lack of an answer."""
    denied = [text for text in map(_describe_denial, RunReplay(source).events) if text]
    if denied:
        raise AssertionError(f"denied: {'; '.join(denied)}")


def _describe_denial(event: RunEvent) -> str:
    about = event.action_id or "an action"
    match event.payload:
        case ev.ActionPolicyEvaluated(decision=decision) if decision.effect is PolicyEffect.DENY:
            return f"{about} by policy {decision.policy_name} {decision.reason}".rstrip()
        case ev.ApprovalDecided(decision=decision) if not decision.approved:
            return f"request {decision.request_id} by {decision.decided_by or 'an unknown approver'} {decision.reason}".rstrip()
        case ev.ActionEnded(name=name, outcome="denied"):
            return f"{about} {name} {event.summary}".rstrip()
        case dict() if event.type == "action.denied":  # in a form that this version cannot read
            return f"{about} {event.summary}".rstrip()
    return ""


def assert_budget_under(
    source: Any,
    *,
    max_input_tokens: int | None = None,
    max_output_tokens: int | None = None,
    max_total_tokens: int | None = None,
    max_runtime_seconds: float | None = None,
) -> BudgetUsage:
    """Assert that the usage of the run is at most the given amounts. Returns the usage.

    If a model did not report the input tokens of a call, the estimate of its manifest is used. An unknown amount exceeds every
    limit.
    """
    report = RunReplay(source).report
    inputs, outputs = _input_tokens(report), report.totals.output_tokens
    total = None if inputs is None or outputs is None else inputs + outputs
    runtime = _runtime_seconds(report)
    for name, used, limit in (
        ("input tokens", inputs, max_input_tokens),
        ("output tokens", outputs, max_output_tokens),
        ("total tokens", total, max_total_tokens),
        ("seconds of runtime", runtime, max_runtime_seconds),
    ):
        if limit is None:
            continue
        if used is None:
            raise AssertionError(f"the number of {name} is unknown; at most {limit} are allowed")
        if used > limit:
            raise AssertionError(f"{used} {name} were used; at most {limit} are allowed")
    return BudgetUsage(
        steps=report.totals.steps,
        llm_calls=report.totals.llm_calls,
        tool_calls=report.totals.tool_calls,
        input_tokens=inputs or 0,
        output_tokens=outputs or 0,
        runtime_seconds=runtime,
    )


def _input_tokens(report: RunReport) -> int | None:
    if not report.metrics:
        # Prepared, but not sent to the model.
        return sum(manifest.total_estimated_tokens for manifest in report.context_manifests)
    total = 0
    for call in report.metrics:
        tokens = call.estimated_input_tokens if call.input_tokens is None else call.input_tokens
        if tokens is None:
            return None
        total += tokens
    return total


def _runtime_seconds(report: RunReport) -> float:
    """The working time counted by the budget, which excludes waiting for approvals, or otherwise the time between events."""
    if report.usage is not None:
        return report.usage.runtime_seconds
    return report.totals.runtime_micros / 1_000_000
