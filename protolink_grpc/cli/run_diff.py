"""`run diff`: two runs side by side, as a place where they part and a list of differences."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from protolink_grpc.cli import output
from protolink_grpc.cli.failure import CommandError, ExitCode, usage_error
from protolink_grpc.cli.output import WIDTH
from protolink_grpc.cli.runs import Source, read_report
from protolink_grpc.cli.settings import Settings
from protolink_grpc.cli.timeline import event_summary
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.report_diff import FirstDifference, RunReportDiff
from protolink_grpc.reports import diff_run_reports

MAX_PER_SECTION = 10
"""Number of differences that are shown for each section; `--json` has all."""


def diff(settings: Settings, runs: tuple[str, str], store: str, agent: str, ignore: Iterable[str]) -> int:
    """Print the differences between two runs and return the exit code."""
    if store and agent:
        raise usage_error("--agent cannot be combined with --store", "pass the one that has the tasks")
    try:
        first, second = (_read(settings, run, store, agent) for run in runs)
        found = diff_run_reports(first, second, ignore=[each.replace("-", "_") for each in ignore])
    except InvalidArgumentError as error:
        raise usage_error(str(error).replace("_", "-"), "plgrpc run diff --help lists the sections") from None
    except CommandError as error:
        if error.exit_code is ExitCode.FAILURE:
            error.exit_code = ExitCode.USAGE  # 1 means that the runs differ
        raise
    if settings.json:
        output.document(found.to_dict())
    else:
        for line in _lines(found, (first, second), runs):
            output.line(line)
    return ExitCode.OK if found.matches else ExitCode.FAILURE


def _read(settings: Settings, run: str, store: str, agent: str) -> RunReport:
    if Path(run).is_file():
        return read_report(settings, Source(run), "")
    if not store and not agent:
        raise usage_error(f"file {run} not found", "for the id of a task, pass --store FILE or --agent AGENT")
    return read_report(settings, Source(agent, run, store), "")


def _lines(found: RunReportDiff, reports: tuple[RunReport, RunReport], runs: tuple[str, str]) -> Iterator[str]:
    if found.first is None:
        ignored = f" apart from {', '.join(found.ignored).replace('_', '-')}" if found.ignored else ""
        yield f"The runs are equal{ignored}: {len(reports[0].events)} events."
        return
    for mark, name, report in zip("-+", runs, reports, strict=True):
        state = "" if report.final_task is None else f", {report.final_task.state}"
        yield output.one_line(f"{mark} {name} ({len(report.events)} events{state})", WIDTH)
    yield ""
    equal = found.first.index
    yield f"The runs part after {equal} equal events:" if equal else "The runs part at their first events:"
    yield from _first_lines(found.first)
    for section in found.changed_sections:
        differences = [each for each in found.differences if each.section == section]
        yield ""
        yield f"{section.replace('_', ' ').capitalize()}:"
        for each in differences[:MAX_PER_SECTION]:
            yield from (f"  {line}" for line in _wrap(str(each), WIDTH - 2))
        if len(differences) > MAX_PER_SECTION:
            yield f"  {len(differences) - MAX_PER_SECTION} more; --json shows all"


def _first_lines(first: FirstDifference) -> Iterator[str]:
    """Yield the events before, the pair that differs, how it differs, and the events that follow."""
    yield from _event_lines(" ", first.before)
    for mark, events in (("-", first.baseline), ("+", first.candidate)):
        yield from _event_lines(mark, events[:1]) if events else [f"{mark} (the run has no further events)"]
    for each in first.differences[:MAX_PER_SECTION]:
        yield from (f"    {line}" for line in _wrap(str(each), WIDTH - 4))
    yield from _event_lines("-", first.baseline[1:])
    yield from _event_lines("+", first.candidate[1:])


def _event_lines(mark: str, events: Iterable[RunEvent]) -> Iterator[str]:
    return (f"{mark} {event_summary(event, WIDTH - 2)}" for event in events)


def _wrap(text: str, width: int) -> Iterator[str]:
    """Yield a difference on one line, or with its two values on lines of their own if it is too long."""
    flat = output.one_line(text, 1000)
    if len(flat) <= width:
        yield flat
        return
    path, _, values = flat.partition(": ")
    old, arrow, new = values.partition(" -> ")
    yield f"{output.one_line(path, width - 1)}:"
    for mark, value in (("-", old), ("+", new)) if arrow else ((" ", values),):
        yield f"  {mark} {output.one_line(value, width - 4)}".rstrip()
