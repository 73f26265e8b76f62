"""`conformance agentruntime`: validates an event log and prints the results of the rules."""

import json
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from protolink_grpc.agentruntime.validator.rule import Level, RuleResult, Status
from protolink_grpc.agentruntime.validator.snapshot import Snapshot
from protolink_grpc.agentruntime.validator.snapshot_file import read_snapshot
from protolink_grpc.agentruntime.validator.unjudged import unjudged
from protolink_grpc.agentruntime.validator.validation import ValidationReport, validate
from protolink_grpc.cli import output
from protolink_grpc.cli.failure import CommandError, ExitCode, usage_error
from protolink_grpc.cli.output import WIDTH
from protolink_grpc.cli.settings import Settings
from protolink_grpc.errors import InvalidArgumentError

MAX_SHOWN: Final = 3
"""Number of violations of each rule that are shown; `--json` has more."""


def validate_file(settings: Settings, path: str, snapshots: Sequence[str], level: str) -> int:
    """Validate a log, print the results and return the exit code."""
    read = [_read_snapshot(each) for each in snapshots]
    try:
        with _open(path) as file:
            report = validate(file, read, Level(level))
    except OSError as error:
        raise _unreadable_error(path, error, "FILE is a file of JSON lines, or - for standard input") from None
    except InvalidArgumentError as error:
        raise usage_error(
            f"{_name(path)} is not an event log: {error}",
            "a log has one JSON object per line, as plgrpc session export writes it",
        ) from None
    if settings.json:
        output.document(report.to_dict())
    else:
        for line in _lines(report, _name(path)):
            output.line(line)
    return ExitCode.OK if report.is_valid else ExitCode.FAILURE


def _open(path: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if path == "-" else Path(path).open("rb")


def _name(path: str) -> str:
    return "standard input" if path == "-" else path


SNAPSHOT_HINT: Final = "--snapshots takes the output of plgrpc snapshot session AGENT SESSION --json, for instance"


def _unreadable_error(path: str, error: OSError, hint: str) -> CommandError:
    return usage_error(f"cannot read {path}: {error.strerror}", hint)


def _read_snapshot(path: str) -> Snapshot:
    try:
        return replace(read_snapshot(json.loads(Path(path).read_bytes())), name=path)
    except OSError as error:
        raise _unreadable_error(path, error, SNAPSHOT_HINT) from None
    except (ValueError, RecursionError) as error:  # such as InvalidArgumentError and JSONDecodeError
        raise usage_error(f"{path} is not a snapshot: {error}", SNAPSHOT_HINT) from None


def _lines(report: ValidationReport, name: str) -> Iterator[str]:
    yield output.one_line(f"Log: {name}", WIDTH)
    again = f", {report.redelivered:,} of them delivered again" if report.redelivered else ""
    yield f"Events: {report.events + report.redelivered:,}{again}"
    yield f"Level: {report.level}"
    shown = [each for each in Status if each is not Status.WAIVED or report.of(each)]
    counts = ", ".join(f"{len(report.of(status))} {status}" for status in shown)
    yield f"Rules: {len(report.results)}: {counts}"
    for result in report.of(Status.FAILED):
        yield ""
        yield from _failure_lines(result)
    if waived := report.of(Status.WAIVED):
        yield ""
        yield "Waived, because of defects of the profile's schema:"
    for result in waived:
        events = "1 event" if result.failures == 1 else f"{result.failures:,} events"
        yield from _wrap(f"{result.rule.id} {events}. {result.rule.waiver}", "  ")
    yield from _group("Not exercised", [each.rule.id for each in report.of(Status.NOT_EXERCISED)])
    yield from _groups("Not checkable", ((each.missing, each.rule.id) for each in report.of(Status.NOT_CHECKABLE)))
    yield from _groups("Snapshots not compared", ((needs, name) for name, needs in report.uncompared))
    yield ""
    yield f"{sum(map(len, unjudged(report.level).values()))} further rules of the contract are not judged; --json lists them."


def _failure_lines(result: RuleResult) -> Iterator[str]:
    rule = result.rule
    yield from _wrap(f"failed {rule.id} {rule.sentence} ({rule.source})", "")
    for each in result.findings[:MAX_SHOWN]:
        event = f", event {each.event_id}" if each.event_id else ""
        where = f"line {each.line}{event}" if each.line else f"snapshot {each.snapshot}"
        yield from _wrap(output.one_line(where, WIDTH - 3) + ":", "  ")
        yield from _wrap(output.one_line(each.problem, 300), "    ")
    if result.failures > MAX_SHOWN:
        yield f"  {result.failures - MAX_SHOWN} more"


def _groups(title: str, found: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the lines of names that are grouped by what is missing."""
    names: dict[str, list[str]] = {}
    for missing, name in found:
        names.setdefault(missing, []).append(name)
    for missing, those in names.items():
        yield from _group(f"{title} without {missing}", those)


def _group(title: str, names: list[str]) -> Iterator[str]:
    if names:
        yield ""
        yield from _wrap(f"{title}:", "")
        yield from _wrap(" ".join(names), "  ")


def _wrap(text: str, indent: str) -> list[str]:
    """Break a text into lines of at most `WIDTH` characters; words that are longer are broken, too."""
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  " * bool(not indent)) or [
        indent
    ]
