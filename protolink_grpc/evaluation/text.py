"""Evaluations and comparisons as lines of text for a terminal. Nothing is printed here."""

from collections.abc import Iterator, Sequence

from protolink_grpc.evaluation.comparison import CaseChange, EvaluationComparison
from protolink_grpc.evaluation.report import EvaluationReport
from protolink_grpc.evaluation.samples import EvaluationSample
from protolink_grpc.logs import escape
from protolink_grpc.models.action import BudgetUsage

MAX_LISTED = 20
"""Number of samples that are listed with their reasons; the JSON report has all."""


def report_lines(report: EvaluationReport, width: int = 80) -> Iterator[str]:
    """Yield the results by case and by scorer, the totals, and the samples that did not pass."""
    rows = [
        (
            each.case.title,
            f"{each.passed}/{each.samples}",
            *_counts(each.scored_low, each.agent_failed),
            _number(each.mean),
        )
        for each in report.case_results
    ]
    yield from _table(("CASE", "PASSED", "LOW", "FAILED", "MEAN"), rows, width)
    yield ""
    scorers = [
        (each.name, f"{each.passed}/{each.samples}", f"{each.pass_rate:.2f}", _number(each.mean), *_counts(each.errors))
        for each in report.scorer_results
    ]
    yield from _table(("SCORER", "PASSED", "RATE", "MEAN", "ERRORS"), scorers, width)
    yield ""
    yield from _totals(report)
    listed = [sample for sample in report.samples if not sample.passed]
    if listed:
        yield ""
        yield "Not passed:"
    for sample in listed[:MAX_LISTED]:
        yield from _sample_lines(sample, width)
    if len(listed) > MAX_LISTED:
        yield f"  {len(listed) - MAX_LISTED} more"


def _totals(report: EvaluationReport) -> Iterator[str]:
    done, planned = len(report.samples), len(report.cases) * report.samples_per_case
    low = done - report.passed - report.agent_failed
    unfinished = f", {planned - done} of {planned} not finished" if done < planned else ""
    yield f"Samples: {done}: {report.passed} passed, {low} scored too low, {report.agent_failed} failed{unfinished}"
    yield f"Pass rate: {report.pass_rate:.2f}"
    yield from _usage_lines("", report.usage)
    if report.scorer_usage.llm_calls:
        yield from _usage_lines(" of scorers", report.scorer_usage)


def _usage_lines(whose: str, usage: BudgetUsage) -> Iterator[str]:
    tools = f", {_plural(usage.tool_calls, 'tool call')}" if usage.tool_calls else ""
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    yield f"Usage{whose}: {_plural(usage.llm_calls, 'model call')}{tools}, {tokens}"
    if usage.costs:
        yield f"Cost{whose}: {', '.join(map(str, usage.costs))}"


def _sample_lines(sample: EvaluationSample, width: int) -> Iterator[str]:
    yield _cut(f"  {sample.case_id} #{sample.number}" + (f"  task {sample.task_id}" if sample.task_id else ""), width)
    if sample.agent_failed:
        yield _cut(f"    {sample.state or 'not run'}: {sample.reason or 'no reason given'}", width)
    for score in sample.scores:
        if not score.passed:
            why = f"error: {score.error}" if score.error else f"{score.value:.2f} {score.comment}"
            yield _cut(f"    {score.name}: {why}", width)


def comparison_lines(found: EvaluationComparison, width: int = 80) -> Iterator[str]:
    """Yield the cases that changed, with their counts, and whether the change is more than noise."""
    for title, changes in (("Regressions", found.regressions), ("Improvements", found.improvements)):
        if changes:
            yield f"{title}:"
            yield from _table(("  CASE", "BEFORE", "NOW", "CHANGE"), [_change_row(each) for each in changes], width)
            yield ""
    for title, names in (("New", found.added), ("Removed", found.removed), ("Not compared", found.not_compared)):
        if names:
            yield _cut(f"{title}: {', '.join(names)}", width)
    total = found.total
    if total is None:
        yield "The evaluations have no case in common that can be compared."
        return
    counts = (
        _plural(len(found.regressions), "regression"),
        _plural(len(found.improvements), "improvement"),
        f"{len(found.unchanged)} unchanged",
    )
    yield f"Compared: {', '.join(counts)}"
    yield f"Passed in total: {_before(total)} before, {_now(total)} now: {_verdict(total)}"


def _change_row(change: CaseChange) -> tuple[str, ...]:
    return f"  {change.case_id}", _before(change), _now(change), _verdict(change)


def _before(change: CaseChange) -> str:
    return _fraction(change.old_passed, change.old_samples, change.old_failed)


def _now(change: CaseChange) -> str:
    return _fraction(change.new_passed, change.new_samples, change.new_failed)


def _fraction(passed: int, samples: int, failed: int) -> str:
    return f"{passed}/{samples}" + (f" ({failed} failed)" if failed else "")


def _verdict(change: CaseChange) -> str:
    if not change.difference:
        return "unchanged"
    return "clear" if change.is_clear else f"may be noise, p={change.chance:.2f}"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _counts(*numbers: int) -> tuple[str, ...]:
    return tuple(str(number) if number else "-" for number in numbers)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield lines whose first column is cut to the width that the other columns, aligned to the right, leave."""
    table = [heads, *rows]
    widths = [max(len(row[index]) for row in table) for index in range(len(heads))]
    widths[0] = min(widths[0], width - sum(widths[1:]) - 2 * (len(widths) - 1))
    for row in table:
        cells = [_cut(row[0], widths[0]).ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        yield "  ".join(cells).rstrip()


def _cut(text: str, limit: int) -> str:
    # Ids and reasons come from files and agents: control characters are shown as escapes.
    lead = text[: len(text) - len(text.lstrip())]
    flat = lead + " ".join(escape(text).split())
    return flat if len(flat) <= limit else flat[: max(limit - 1, 0)] + "…"
