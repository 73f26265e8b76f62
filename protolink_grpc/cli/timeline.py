"""Formats reports and replays as fields, tables, and a line per event. This module prints nothing."""

from collections.abc import Iterator, Sequence

from protolink_grpc.cli.describe import SHORT_CHARS, event_detail, event_line
from protolink_grpc.cli.output import one_line
from protolink_grpc.models import events as ev
from protolink_grpc.models.action import BudgetDecision
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.report import RunReport
from protolink_grpc.reports import ReportedAction

LINE_CHARS = 240

Table = tuple[str, Sequence[str], list[Sequence[str]]]
"""Title, heads, rows."""


def span(micros: int | None) -> str:
    """Format a duration; empty if it is unknown."""
    if micros is None:
        return ""
    if micros < 1_000_000:
        return f"{micros / 1000:.1f} ms"
    seconds = micros / 1_000_000
    return f"{seconds:.2f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def amount(value: int | None) -> str:
    """Format a count, or `unknown`."""
    return "unknown" if value is None else f"{value:,}"


def timeline(report: RunReport) -> Iterator[str]:
    """Yield a line for each event: the time since the first event, a summary, and details such as tokens."""
    if not report.events:
        yield "no events"
        return
    began = micros_from_iso(report.events[0].timestamp)
    for event in report.events:
        after = micros_from_iso(event.timestamp) - began
        yield one_line(f"+{after / 1_000_000:.3f} s {event_line(event)}{_details(event)}", LINE_CHARS)


def event_summary(event: RunEvent, width: int) -> str:
    """Format an event without its time and process, in at most `width` characters."""
    match event.payload:
        case ev.ActionRequested(action=action):
            text = f"{action.name} {to_json(action.arguments)}"
        case ev.TaskStatusChanged():
            text = event_detail(event)
        case _:
            text = _details(event).removeprefix(" | ") or event_detail(event)
    return one_line(f"#{event.sequence} {event.type} {text}", width)


def _details(event: RunEvent) -> str:
    """Return the text of an event's line after its summary."""
    match event.payload:
        case ev.TaskStatusChanged(attempt=attempt, cause=cause, worker=worker) if attempt:
            by = "" if worker is None else f"by {worker.name} {worker.version} on {worker.host or 'an unknown host'}"
            found = f"run {attempt}, {cause} {by}"
        case ev.ActionRequested(action=action):
            found = to_json(action.payload.get("arguments", action.payload))
        case ev.ApprovalRequired(request=request):
            found = f"{request.request_id} {request.policy_decision.reason}"
        case ev.ApprovalDecided(decision=decision):
            verdict = "approved" if decision.approved else "denied"
            by = f" by {decision.decided_by}" if decision.decided_by else ""
            found = f"{decision.request_id} {verdict}{by} {decision.reason}"
        case ev.ContextPrepared(manifest=manifest, step=step, offered=offered, omitted=omitted):
            found = f"step {step}, about {amount(manifest.total_estimated_tokens)} tokens"
            found += f", {manifest.purpose.replace('_', ' ')}" if manifest.purpose else ""
            found += f", {omitted.count} left out" if omitted else ""
            found += f", tools: {', '.join(each.name for each in offered.tools)}" if offered and offered.tools else ""
        case ev.LlmCallStarted(provider=provider, model=model, step=step, attempt=attempt) as call:
            found = f"step {step}, {provider} {model}" + (f", attempt {attempt}" if attempt > 1 else "")
            requested = f"{call.requested_provider} {call.requested_model}".strip()
            found += f", requested {requested}" if requested else ""
        case ev.LlmCallCompleted() as call:
            tokens = f"{amount(call.input_tokens)} in, {amount(call.output_tokens)} out"
            tools = ", ".join(each.tool_name for each in call.tool_calls)
            by = f" by {call.response_model}" if call.response_model else ""
            found = f"{tokens}, {span(call.duration_micros)}{by} {f'calls {tools}' if tools else call.text}"
        case ev.LlmCallFailed(step=step) as failed:
            found = f"step {step}, {span(failed.duration_micros)}"
        case ev.ContextCompacted(strategy=strategy, summary=summary):
            found = f"{strategy} {summary}"
        case ev.BudgetReported(decision=decision):
            found = _limit(decision)
        case ev.LlmStep(kind=kind, content=content):
            found = f"{kind} {content}"
        case _:
            return ""
    return f" | {one_line(found, SHORT_CHARS)}" if found.strip() else ""


def _limit(decision: BudgetDecision) -> str:
    if decision.limit_name is None:
        return decision.message
    return f"{decision.effect} {decision.limit_name}: {_number(decision.observed)} of {_number(decision.limit)}"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"


def report_fields(report: RunReport) -> list[tuple[str, str]]:
    """Return the fields that identify a run, its result, and its usage."""
    context, task, totals = report.context, report.final_task, report.totals
    first = report.events[0].timestamp if report.events else ""
    denied = sum(action.outcome == "denied" for action in report.actions)
    waited = f", {span(totals.waited_micros)} waiting for approval" if totals.waited_micros else ""
    tokens = (
        f"{amount(totals.input_tokens)} in, {amount(totals.output_tokens)} out, {amount(totals.total_tokens)} in total"
    )
    return [
        ("Task", report.task_id),
        ("Run", report.run_id),
        ("Session", (context.session_id or "") if context is not None else ""),
        ("Agent", ", ".join(dict.fromkeys(event.agent_name for event in report.events if event.agent_name))),
        ("State", str(task.state) if task is not None else ""),
        ("Reason", task.reason if task is not None else ""),
        ("Started", first),
        ("Runtime", span(totals.runtime_micros) + waited if report.events else ""),
        ("Steps", str(totals.steps) if totals.steps else ""),
        ("Model calls", f"{totals.llm_calls}, {span(totals.llm_micros)}" if totals.llm_calls else ""),
        ("Tokens", tokens if totals.llm_calls else ""),
        ("Cost", _cost(report)),
        ("Actions", _actions(report, denied)),
        ("Events", str(len(report.events))),
    ]


def _cost(report: RunReport) -> str:
    totals = report.totals
    if not totals.llm_calls:
        return ""
    if totals.cost_micros is None:
        return "unknown"
    return f"{totals.cost_micros / 1_000_000:.6f} {totals.currency}".rstrip()


def _actions(report: RunReport, denied: int) -> str:
    if not report.actions:
        return ""
    suffix = f", {denied} denied" if denied else ""
    return f"{len(report.actions)}, {span(report.totals.action_micros)}{suffix}"


def report_tables(report: RunReport) -> Iterator[Table]:
    """Yield tables of the actions, approvals and model calls of a run."""
    if report.actions:
        heads = ("ACTION", "KIND", "OUTCOME", "TIME", "ARGUMENTS")
        yield "Actions", heads, [_action_row(action) for action in report.actions]
    if report.approvals:
        rows: list[Sequence[str]] = [
            (
                each.request_id,
                each.state,
                each.request.action.name if each.request is not None else "",
                each.decision.decided_by if each.decision is not None else "",
                span(each.waited_micros),
                each.decision.reason if each.decision is not None else "",
            )
            for each in report.approvals
        ]
        yield "Approvals", ("REQUEST", "STATE", "ACTION", "BY", "WAITED", "REASON"), rows
    if report.metrics:
        rows = [
            (
                str(call.step),
                f"{call.provider} {call.response_model or call.model}".strip(),
                amount(call.input_tokens),
                amount(call.output_tokens),
                span(call.duration_micros),
                call.finish_reason if call.completed else "no answer",
            )
            for call in report.metrics
        ]
        yield "Model calls", ("STEP", "MODEL", "IN", "OUT", "TIME", "END"), rows


def _action_row(action: ReportedAction) -> Sequence[str]:
    again = f" ({action.starts} times)" if action.starts > 1 else ""
    arguments = "" if action.arguments is None else one_line(to_json(action.arguments), SHORT_CHARS)
    return action.name, action.kind, action.outcome + again, span(action.duration_micros), arguments


def budget_lines(report: RunReport) -> Iterator[str]:
    """Yield the limits and the usage of a run, then the budget's warnings."""
    budget = report.context.budget if report.context is not None else None
    usage = report.usage
    if usage is not None:
        used = usage.to_dict()
        for name, value in used.items():
            if name not in ("metadata", "costs") and value:
                limit = getattr(budget, f"max_{name}", None)
                yield f"{name}: {value:g}" + ("" if limit is None else f" of {limit:g}")
        most = budget.max_cost if budget is not None else None
        for cost in usage.costs:
            yield f"cost: {cost}" + (f" of {most}" if most is not None and most.currency == cost.currency else "")
    for decision in report.budget_decisions:
        yield _limit(decision)
