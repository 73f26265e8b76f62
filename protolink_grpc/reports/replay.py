"""Replays: a read-only view of a run's events. A replay executes nothing."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.report import RunReport, read_json_object


@checks_arguments
class RunReplay:
    """The events of a run, complete or not.

    Args:
        source: A report or its JSON form; events or their JSON forms, oldest first; or the path of a file with a report as one JSON
            document or events as JSON lines, as written by `plgrpc run report` and by exports.

    Raises:
        InvalidArgumentError: The source has another form; names the path within it.
        OSError: The file cannot be read.
    """

    def __init__(self, source: Any) -> None:
        self._report = _read_source(source)

    @property
    def report(self) -> RunReport:
        """The given report, or a report of the events."""
        return self._report

    @property
    def events(self) -> list[RunEvent]:
        """A copy of the list, oldest first."""
        return list(self._report.events)

    @property
    def event_types(self) -> list[str]:
        """The type of each event, oldest first."""
        return [event.type for event in self._report.events]

    def iter_events(self, type: str | None = None) -> Iterator[RunEvent]:  # noqa: A002 -- the documented name
        """The events of that type, or all, oldest first."""
        return (event for event in self._report.events if type is None or event.type == type)

    def find_events(self, type: str) -> list[RunEvent]:  # noqa: A002 -- the documented name
        """The events of that type, oldest first."""
        return list(self.iter_events(type))

    def assert_events(self, types: Sequence[str], *, ordered: bool = True, allow_extra: bool = True) -> None:
        """See `assert_run_events`."""
        from protolink_grpc.reports.assertions import assert_run_events  # imported here, because it imports this module

        assert_run_events(self, types, ordered=ordered, allow_extra=allow_extra)


def _read_source(source: Any) -> RunReport:
    if isinstance(source, RunReplay):
        return source.report
    if isinstance(source, RunReport):
        return source
    if isinstance(source, str | os.PathLike):
        return _read_file(Path(source))
    if isinstance(source, Mapping):
        return RunReport.from_dict(dict(source))
    if not isinstance(source, Iterable):
        raise InvalidArgumentError("must be a report, events, or the path of a file", field="source")
    return RunReport.from_events(RunEvent.from_task_event(each) for each in source)


def _read_file(path: Path) -> RunReport:
    """Read a file with one document or lines of events, which its first line distinguishes."""
    with path.open("rb") as file:
        first = next((line for line in file if line.strip()), b"")
        try:
            opening = read_json_object(first, "line 1")
        except InvalidArgumentError:
            opening = {}  # the first line of an indented document
        if "events" in opening or not opening:
            file.seek(0)
            document = read_json_object(file.read(), path.name)
            if "events" not in document:  # otherwise any JSON object would be an empty report
                raise InvalidArgumentError("must be a report, with `events`", field=path.name)
            return RunReport.from_dict(document)
        rest = (
            read_json_object(line, f"{path.name} line {number}") for number, line in enumerate(file, 2) if line.strip()
        )
        return RunReport.from_events(RunEvent.from_dict(each) for each in (opening, *rest))
