"""Replays and assertions about runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import (
    ApprovalDecision,
    BudgetUsage,
    ContextManifest,
    PolicyDecision,
    PolicyEffect,
    TaskState,
)
from protolink_grpc.models import events as ev
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.report import RunReport
from protolink_grpc.reports import (
    RunExport,
    RunReplay,
    assert_budget_under,
    assert_no_denied_actions,
    assert_run_events,
)

TYPES = ["task.status", "task.progress", "task.progress", "own"]


def events() -> list[RunEvent]:
    payloads: list[Any] = [
        ev.TaskStatusChanged(TaskState.SUBMITTED, TaskState.WORKING, attempt=1),
        ev.TaskProgress(1.0, "a"),
        ev.TaskProgress(2.0, "b"),
    ]
    made = [RunEvent(payload=each, task_id="t", sequence=number, run_id="r") for number, each in enumerate(payloads, 1)]
    return [*made, RunEvent("own", {"room": 7}, task_id="t", sequence=4, run_id="r")]


def in_lines(path: Path) -> Path:
    path.write_text("\n".join(RunExport().lines(events())) + "\n\n")
    return path


def in_document(path: Path) -> Path:
    path.write_text(RunReport.from_events(events()).to_json())
    return path


def in_indented_document(path: Path) -> Path:
    import json

    path.write_text(json.dumps(RunReport.from_events(events()).to_dict(), indent=2))
    return path


SOURCES: dict[str, Callable[[Path], Any]] = {
    "events": lambda _: events(),
    "a generator": lambda _: iter(events()),
    "JSON of events": lambda _: [event.to_dict() for event in events()],
    "a report": lambda _: RunReport.from_events(events()),
    "JSON of a report": lambda _: RunReport.from_events(events()).to_dict(),
    "a replay": lambda _: RunReplay(events()),
    "a file of lines": in_lines,
    "a file with a document": in_document,
    "a file with an indented document": in_indented_document,
    "a file by its name": lambda path: str(in_document(path)),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_a_replay_reads_all_kinds_of_sources(source: Callable[[Path], Any], tmp_path: Path) -> None:
    replay = RunReplay(source(tmp_path / "run.json"))
    assert replay.event_types == TYPES
    assert [event.sequence for event in replay.events] == [1, 2, 3, 4]
    assert replay.report.run_id == "r"


def test_events_are_found_by_type() -> None:
    replay = RunReplay(events())
    assert [event.payload for event in replay.find_events("task.progress")] == [
        ev.TaskProgress(1.0, "a"),
        ev.TaskProgress(2.0, "b"),
    ]
    assert replay.find_events("none") == []
    assert list(replay.iter_events()) == replay.events


def test_the_list_of_events_is_a_copy() -> None:
    replay = RunReplay(events())
    replay.events.clear()
    assert replay.event_types == TYPES


@pytest.mark.parametrize("source", [7, None, {"events": 3}, [{"no": "type"}]])
def test_an_invalid_source_is_refused(source: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        RunReplay(source)


@pytest.mark.parametrize("text", ["", "hello", '{"type": "x"}\nnot json', "[]"])
def test_a_file_without_a_run_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(InvalidArgumentError):
        RunReplay(path)


def test_a_missing_file_is_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RunReplay(tmp_path / "none")


# -- assertions ----------------------------------------------------------------------------------------------------------


def holds(types: list[str], **mode: bool) -> bool:
    try:
        assert_run_events(events(), types, **mode)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(
    ("types", "subsequence", "exact", "among", "exactly_those"),
    [
        (TYPES, True, True, True, True),
        (["task.status", "own"], True, False, True, False),
        (["own", "task.status"], False, False, True, False),
        (["own", "task.progress", "task.status", "task.progress"], False, False, True, True),
        (["task.progress"] * 3, False, False, False, False),
        (["none"], False, False, False, False),
        ([], True, False, True, False),
    ],
)
def test_the_four_modes_of_assert_run_events(
    types: list[str], subsequence: bool, exact: bool, among: bool, exactly_those: bool
) -> None:
    assert holds(types) is subsequence
    assert holds(types, allow_extra=False) is exact
    assert holds(types, ordered=False) is among
    assert holds(types, ordered=False, allow_extra=False) is exactly_those


def test_a_replay_asserts_its_own_events() -> None:
    RunReplay(events()).assert_events(TYPES, allow_extra=False)
    with pytest.raises(AssertionError, match="none is missing"):
        RunReplay(events()).assert_events(["none"])


DENIALS: dict[str, RunEvent] = {
    "by policy": RunEvent(payload=ev.ActionPolicyEvaluated(PolicyDecision(PolicyEffect.DENY, "no"))),
    "by a person": RunEvent(payload=ev.ApprovalDecided(ApprovalDecision(False, "q1", "too dear", "ada"))),
    "at its end": RunEvent(payload=ev.ActionEnded("tool.call", "book", outcome="denied")),
    "in another shape": RunEvent("action.denied", {"reason": "no"}),
}


@pytest.mark.parametrize("denial", DENIALS.values(), ids=DENIALS)
def test_each_denial_is_found(denial: RunEvent) -> None:
    with pytest.raises(AssertionError, match="denied"):
        assert_no_denied_actions([*events(), denial])


def test_what_was_allowed_or_failed_was_not_denied() -> None:
    allowed = [
        RunEvent(payload=ev.ActionPolicyEvaluated(PolicyDecision(PolicyEffect.ALLOW))),
        RunEvent(payload=ev.ActionPolicyEvaluated(PolicyDecision(PolicyEffect.REQUIRE_APPROVAL))),
        RunEvent(payload=ev.ApprovalDecided(ApprovalDecision(True, "q1"))),
        RunEvent(payload=ev.ActionEnded("tool.call", "book", outcome="failed")),
    ]
    assert_no_denied_actions(allowed)


def calls(*tokens: tuple[int | None, int | None], estimate: int | None = None) -> list[RunEvent]:
    made: list[Any] = []
    for step, (sent, got) in enumerate(tokens, 1):
        if estimate is not None:
            made.append(ev.ContextPrepared(ContextManifest(user_tokens=estimate), step))
        made.append(ev.LlmCallStarted(f"c{step}", step=step))
        made.append(ev.LlmCallCompleted(f"c{step}", step=step, input_tokens=sent, output_tokens=got))
    return [RunEvent(payload=each) for each in made]


def test_a_satisfied_budget_returns_the_usage() -> None:
    used = assert_budget_under(
        calls((10, 4), (20, 6)), max_input_tokens=30, max_output_tokens=10, max_total_tokens=40, max_runtime_seconds=1
    )
    assert (used.input_tokens, used.output_tokens, used.llm_calls, used.steps) == (30, 10, 2, 2)


@pytest.mark.parametrize("limit", [{"max_input_tokens": 29}, {"max_output_tokens": 9}, {"max_total_tokens": 39}])
def test_an_exceeded_budget_fails(limit: dict[str, int]) -> None:
    with pytest.raises(AssertionError, match="at most"):
        assert_budget_under(calls((10, 4), (20, 6)), **limit)


def test_unknown_input_tokens_count_as_estimated() -> None:
    used = assert_budget_under(calls((None, 1), (5, 1), estimate=100), max_input_tokens=105)
    assert used.input_tokens == 105
    with pytest.raises(AssertionError, match="107 total tokens"):
        assert_budget_under(calls((None, 1), (5, 1), estimate=100), max_total_tokens=106)


@pytest.mark.parametrize("limit", ["max_input_tokens", "max_output_tokens", "max_total_tokens"])
def test_an_unknown_amount_exceeds_every_limit(limit: str) -> None:
    with pytest.raises(AssertionError, match="is unknown"):
        assert_budget_under(calls((None, None)), **{limit: 1_000_000})
    assert_budget_under(calls((None, None)))


def test_a_context_that_was_prepared_and_never_sent_counts() -> None:
    prepared = [RunEvent(payload=ev.ContextPrepared(ContextManifest(user_tokens=50), 1))]
    assert assert_budget_under(prepared).input_tokens == 50


def test_the_runtime_is_that_of_the_budget() -> None:
    done = ev.TaskStatusChanged(TaskState.WORKING, TaskState.COMPLETED, usage=BudgetUsage(runtime_seconds=2.5))
    assert assert_budget_under([RunEvent(payload=done)], max_runtime_seconds=2.5).runtime_seconds == 2.5
    with pytest.raises(AssertionError, match="runtime"):
        assert_budget_under([RunEvent(payload=done)], max_runtime_seconds=2)
