"""Compares two runs: where their events part, and what differs in state, output, actions, model answers, policy and usage."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.report_diff import (
    ALL_RUN_REPORT_SECTIONS,
    CONTEXT_EVENTS,
    FirstDifference,
    RunReportDiff,
    RunReportDifference,
    RunReportSection,
)
from protolink_grpc.reports.normalization import EventNormalizer, NormalizedEvent
from protolink_grpc.reports.replay import RunReplay


@checks_arguments
def diff_run_reports(baseline: Any, candidate: Any, *, ignore: Iterable[str] = ()) -> RunReportDiff:
    """Compare two runs. Ids, times, durations, waits for a slot, processes and ports of the loopback address are not compared.

    Events are compared in their order. Actions are matched by name and number, model calls by number. The cost is linear in the
    size of the runs.

    Args:
        baseline, candidate: Each a source as for `RunReplay`.
        ignore: Sections of ALL_RUN_REPORT_SECTIONS. An event that consists of ignored sections only is left out.

    Raises:
        InvalidArgumentError: A source is invalid, or a section is unknown; names the field.
    """
    ignored = tuple(_section(each) for each in dict.fromkeys(ignore))
    first, second = (_normalize(source, ignored) for source in (baseline, candidate))
    parting = _first_difference(first, second)
    if parting is None:
        return RunReportDiff(ignored=ignored)
    found = list(_compare(_records(first), _records(second)))
    if not found:
        found = [_order_difference(parting)]
    found.sort(key=lambda each: ALL_RUN_REPORT_SECTIONS.index(each.section))
    return RunReportDiff(tuple(found), parting, ignored)


def _section(name: str) -> RunReportSection:
    for section in ALL_RUN_REPORT_SECTIONS:
        if section == name:
            return section
    raise InvalidArgumentError(f"must be one of {', '.join(ALL_RUN_REPORT_SECTIONS)}, not {name!r}", field="ignore")


def _normalize(source: Any, ignored: Collection[RunReportSection]) -> list[NormalizedEvent]:
    normalizer = EventNormalizer(ignored)
    return [each for each in map(normalizer.normalize, RunReplay(source).events) if each is not None]


def _first_difference(
    baseline: Sequence[NormalizedEvent], candidate: Sequence[NormalizedEvent]
) -> FirstDifference | None:
    for index, (old, new) in enumerate(zip_longest(baseline, candidate)):
        if old is None or new is None or not old.matches(new):
            return FirstDifference(
                index,
                _events(baseline[max(0, index - CONTEXT_EVENTS) : index]),
                _events(baseline[index : index + CONTEXT_EVENTS]),
                _events(candidate[index : index + CONTEXT_EVENTS]),
                () if old is None or new is None or old.event.type != new.event.type else _differences(old, new),
            )
    return None


def _differences(baseline: NormalizedEvent, candidate: NormalizedEvent) -> tuple[RunReportDifference, ...]:
    return tuple(_compare(_records([baseline]), _records([candidate])))


def _events(found: Iterable[NormalizedEvent]) -> tuple[RunEvent, ...]:
    return tuple(each.event for each in found)


_Records = dict[tuple[RunReportSection, str], dict[str, Any]]


def _records(events: Iterable[NormalizedEvent]) -> _Records:
    """Join the facts of each subject; later values replace earlier ones."""
    found: _Records = {}
    for event in events:
        for section, subject, values in event.facts:
            found.setdefault((section, subject), {}).update(values)
    return found


def _compare(baseline: _Records, candidate: _Records) -> Iterator[RunReportDifference]:
    for key in dict.fromkeys((*baseline, *candidate)):
        section, subject = key
        if key not in candidate:
            yield RunReportDifference(section, subject, "removed", baseline[key])
        elif key not in baseline:
            yield RunReportDifference(section, subject, "added", None, candidate[key])
        else:
            yield from _compare_values(section, (subject, ""), baseline[key], candidate[key])


_MISSING: Any = object()


def _compare_values(
    section: RunReportSection, place: tuple[str, str], baseline: Any, candidate: Any
) -> Iterator[RunReportDifference]:
    subject, path = place
    if isinstance(baseline, dict) and isinstance(candidate, dict):
        for key in dict.fromkeys((*baseline, *candidate)):
            inner = subject, f"{path}.{key}" if path else key
            yield from _compare_values(section, inner, baseline.get(key, _MISSING), candidate.get(key, _MISSING))
    elif isinstance(baseline, list) and isinstance(candidate, list):
        for index, (old, new) in enumerate(zip_longest(baseline, candidate, fillvalue=_MISSING)):
            yield from _compare_values(section, (subject, f"{path}[{index}]"), old, new)
    elif baseline is _MISSING:
        yield RunReportDifference(section, f"{subject} {path}".strip(), "added", None, candidate)
    elif candidate is _MISSING:
        yield RunReportDifference(section, f"{subject} {path}".strip(), "removed", baseline)
    elif baseline != candidate:
        yield RunReportDifference(section, f"{subject} {path}".strip(), "changed", baseline, candidate)


def _order_difference(parting: FirstDifference) -> RunReportDifference:
    """Build the difference of two runs that consist of the same facts in another order, or of a repeated fact."""
    types = [events[0].type if events else None for events in (parting.baseline, parting.candidate)]
    return RunReportDifference("events", f"event {parting.index + 1}", "changed", *types)
