"""The conformance program of the Python client: reports, and failing cases."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from protolink_grpc import RunEvent, Task
from protolink_grpc.errors import TaskNotFoundError
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.events import TaskArtifactUpdated
from protolink_grpc.models.part import Part
from protolink_grpc.testing.cases import CASES, Report, parse_report
from protolink_grpc.testing.conformance import SkipError, World, collect, expect_counted, expect_refusal, outcome, unary
from protolink_grpc.testing.judge import evaluate_reports

NOWHERE: Any = None
"""A world for cases that do not use it."""


async def ends_well(_: World) -> None:
    pass


async def finds_a_fault(_: World) -> None:
    raise AssertionError("the state is\n'failed'")


async def breaks(_: World) -> None:
    raise KeyError("surprise")


async def cannot(_: World) -> None:
    raise SkipError("there is no folder")


@pytest.mark.parametrize(
    ("case", "line"),
    [
        (ends_well, "PASS unary "),
        (finds_a_fault, "FAIL unary: the state is 'failed'"),
        (breaks, "FAIL unary: KeyError: 'surprise'"),
        (cannot, "SKIP unary: there is no folder"),
    ],
)
async def test_the_result_of_a_case_is_one_line(case: Any, line: str) -> None:
    said = await outcome("unary", case, NOWHERE)
    assert said.startswith(line)
    report = parse_report(said)
    assert report is not None
    assert (report.result, report.case) == (line.split()[0], "unary")


async def test_a_canceled_case_is_not_reported() -> None:
    async def canceled(_: World) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await outcome("unary", canceled, NOWHERE)


async def test_another_output_fails_the_case() -> None:
    class Deaf:
        async def send_task(self, _url: None, task: Task) -> Task:
            return task.complete("what?")

    world = World(Deaf(), "", "", "", "", NOWHERE, NOWHERE, "")  # type: ignore[arg-type]  # the only method that the case uses
    with pytest.raises(AssertionError, match="output is 'what\\?'"):
        await unary(world)


def events(*sequences: int) -> list[RunEvent]:
    return [
        RunEvent(payload=TaskArtifactUpdated(Artifact(parts=[Part.text(str(n))])), sequence=n, final=n == sequences[-1])
        for n in sequences
    ]


async def streamed(shown: list[RunEvent]) -> AsyncIterator[RunEvent]:
    for event in shown:
        yield event


async def test_a_whole_stream_is_collected() -> None:
    assert len(await collect(streamed(events(1, 2, 3)))) == 3
    expect_counted(events(1, 2, 3), 3)


@pytest.mark.parametrize("sequences", [(1, 3), (1, 2, 2, 3), (2, 3)])
async def test_a_gap_or_a_repetition_is_found(sequences: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError, match="list of sequences"):
        await collect(streamed(events(*sequences)))


async def test_a_stream_that_stops_early_is_found() -> None:
    with pytest.raises(AssertionError, match="final"):
        await collect(streamed(events(1, 2, 3)[:2]))


@pytest.mark.parametrize("count", [2, 4])
def test_a_missing_artifact_is_found(count: int) -> None:
    with pytest.raises(AssertionError, match="list of artifacts"):
        expect_counted(events(1, 2, 3), count)


async def test_a_missing_refusal_fails() -> None:
    with pytest.raises(AssertionError, match="TASK_NOT_FOUND"):
        async with expect_refusal(TaskNotFoundError):
            pass


def reported(*but: str) -> list[Report]:
    """Reports with every case passed, except the named ones, which are skipped with the reason after the colon."""
    skipped = dict(each.split(":") for each in but)
    return [Report("SKIP", case, skipped[case]) if case in skipped else Report("PASS", case) for case in CASES]


def test_a_case_may_be_skipped_only_with_a_reason() -> None:
    assert evaluate_reports(reported("vectors:no proto JSON here"), 0).passed
    assert evaluate_reports(reported("vectors:"), 0).problems == ["vectors was skipped without a reason"]


def test_the_cause_of_an_ended_program_is_the_first_problem() -> None:
    verdict = evaluate_reports(reported()[:-1], None, "it took longer than 1 s and was ended")
    assert verdict.problems == ["it took longer than 1 s and was ended", "vectors was not reported"]
