"""Approvals in the fold of a log and in the index of the store: both agree."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protolink_grpc.errors import InvalidArgumentError, InvalidTransitionError
from protolink_grpc.models import ApprovalDecision, ApprovalRequest, PolicyDecision, PolicyEffect, RunAction, Task
from protolink_grpc.models import events as ev
from protolink_grpc.models.action import Approval, ApprovalState
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import TERMINAL, TaskState
from protolink_grpc.storage.approvals import ApprovalRow, approval_rows

ACTION = RunAction("tool.call", "book", {"arguments": {"nights": 2}})
VERDICT = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "it costs money")


def asks(request_id: str) -> ev.ApprovalRequired:
    return ev.ApprovalRequired(ApprovalRequest(ACTION, VERDICT, request_id=request_id, task_id="task"))


def answers(request_id: str, approved: bool = True, **metadata: Any) -> ev.ApprovalDecided:
    return ev.ApprovalDecided(ApprovalDecision(approved, request_id, metadata=metadata))


def ends(state: TaskState = TaskState.FAILED) -> ev.TaskStatusChanged:
    return ev.TaskStatusChanged(TaskState.WORKING, state)


def grown(fold: TaskFold, *payloads: Any) -> list[ApprovalRow]:
    """Append to a fold; returns the rows of the append."""
    micros = fold.update_micros + 1_000_000
    rows = approval_rows(fold, "agent", payloads, micros)
    for payload in payloads:
        fold.apply(payload, fold.sequence + 1, micros, "run")
    return rows


@pytest.fixture
def fold() -> TaskFold:
    fold = TaskFold("task")
    fold.apply(ev.TaskSubmitted(Task("task"), "ada"), 1, 1_000_000, "run")
    fold.apply(ev.TaskStatusChanged(TaskState.SUBMITTED, TaskState.WORKING, attempt=1), 2, 1_000_000, "run")
    return fold


@pytest.mark.parametrize(
    ("approved", "expired", "state"),
    [
        (True, False, ApprovalState.APPROVED),
        (False, False, ApprovalState.DENIED),
        (False, True, ApprovalState.EXPIRED),
        (True, True, ApprovalState.APPROVED),  # time never says yes
    ],
)
def test_an_answer_says_where_it_leaves_the_question(approved: bool, expired: bool, state: ApprovalState) -> None:
    assert ApprovalDecision(approved, "r", expired=expired).state is state


def test_an_approval_survives_its_json_form() -> None:
    pending = Approval(asks("r").request, fingerprint="f" * 64)
    decided = replace(pending, state=ApprovalState.DENIED, decision=answers("r", False).decision)
    for approval in (pending, decided):
        assert Approval.from_dict(approval.to_dict()) == approval


def test_an_approval_without_a_fingerprint_shows_that_of_its_action() -> None:
    assert Approval(asks("r").request).to_dict()["fingerprint"] == ACTION.fingerprint


@pytest.mark.parametrize("state", ["", "maybe", None, 1])
def test_an_approval_in_no_known_state_is_refused(state: object) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        Approval.from_dict({**Approval(asks("r").request).to_dict(), "state": state})
    assert refused.value.field == "state"


def test_a_question_is_pending_until_it_is_answered(fold: TaskFold) -> None:
    first, second = asks("r1"), asks("r2")
    grown(fold, first, second)
    assert fold.pending_approvals == {"r1": first.request, "r2": second.request}
    assert fold.asked == {"r1": (3, 2_000_000), "r2": (4, 2_000_000)}
    answer = answers("r1")
    grown(fold, answer)
    assert fold.decided == {"r1": answer.decision}
    assert list(fold.pending_approvals) == list(fold.asked) == ["r2"]


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_nothing_is_pending_once_the_task_has_ended(fold: TaskFold, state: TaskState) -> None:
    grown(fold, asks("r1"), asks("r2"))
    grown(fold, answers("r1"))
    rows = grown(fold, ends(state))
    assert [(row.request_id, row.state, row.answer_sequence) for row in rows] == [("r2", ApprovalState.WITHDRAWN, 6)]
    assert not fold.pending_approvals
    assert list(fold.decided) == ["r1"]


def test_a_task_that_waits_for_input_withdraws_nothing(fold: TaskFold) -> None:
    grown(fold, asks("r1"))
    assert grown(fold, ends(TaskState.INPUT_REQUIRED)) == []
    assert list(fold.pending_approvals) == ["r1"]


def test_a_row_says_where_the_question_and_the_answer_are(fold: TaskFold) -> None:
    asked = ApprovalRow("r1", "agent", "ada", "task", ApprovalState.PENDING, 2_000_000, 3)
    (row,) = grown(fold, asks("r1"))
    assert replace(row, record=b"") == asked
    assert grown(fold, ev.TaskProgress(), answers("r1")) == [
        replace(asked, state=ApprovalState.APPROVED, answer_sequence=5)
    ]


def test_what_is_asked_and_answered_in_one_append_has_one_row(fold: TaskFold) -> None:
    (row,) = grown(fold, asks("r1"), answers("r1", False))
    assert (row.state, row.ask_sequence, row.answer_sequence) == (ApprovalState.DENIED, 3, 4)


@pytest.mark.parametrize("again", [[asks("r1")], [answers("r1"), asks("r1")]], ids=["pending", "answered at once"])
def test_a_question_with_the_id_of_an_earlier_one_is_refused(fold: TaskFold, again: list[Any]) -> None:
    grown(fold, asks("r1"))
    with pytest.raises(InvalidArgumentError) as refused:
        grown(fold, *again)
    assert refused.value.field == "request.request_id"


@pytest.mark.parametrize("request_id", ["", "  "])
def test_a_question_without_an_id_is_refused(fold: TaskFold, request_id: str) -> None:
    with pytest.raises(InvalidArgumentError):
        grown(fold, asks(request_id))


@pytest.mark.parametrize("before", [[], [asks("r1"), answers("r1")]], ids=["never asked", "answered"])
def test_an_answer_to_what_does_not_wait_is_refused(fold: TaskFold, before: list[Any]) -> None:
    grown(fold, *before)
    with pytest.raises(InvalidTransitionError):
        grown(fold, answers("r1", False))


facts = st.one_of(
    st.builds(asks, st.sampled_from("abcd")),
    st.builds(answers, st.sampled_from("abcd"), st.booleans()),
    st.builds(ends, st.sampled_from([TaskState.INPUT_REQUIRED, TaskState.COMPLETED])),
    st.builds(ev.TaskProgress),
)


@settings(deadline=None)  # a shared machine's pauses are no failure
@given(st.lists(st.lists(facts, min_size=1, max_size=3), max_size=8))
def test_the_index_says_of_every_approval_what_the_log_says(appends: list[list[Any]]) -> None:
    fold = TaskFold("task")
    index: dict[str, ApprovalRow] = {}
    for payloads in appends:
        try:
            rows = grown(fold, *payloads)
        except (InvalidArgumentError, InvalidTransitionError):
            continue  # refused as a whole: nothing was folded
        index |= {row.request_id: row for row in rows}
        if fold.is_terminal:
            break
    pending = {name for name, row in index.items() if row.state is ApprovalState.PENDING}
    decided = {name: row.state for name, row in index.items() if name in fold.decided}
    assert pending == set(fold.pending_approvals)
    assert decided == {name: decision.state for name, decision in fold.decided.items()}
    assert all(
        row.state is ApprovalState.WITHDRAWN
        for name, row in index.items()
        if name not in decided and name not in pending
    )
