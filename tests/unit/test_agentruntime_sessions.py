"""The events of a session in the format of the Agent Runtime contract."""

import gc
import io
import json
from collections import deque
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from valid_logs import violations_of

from protolink_grpc.agentruntime.validator.event_file import read_events
from protolink_grpc.agentruntime.validator.task_statuses import status_after
from protolink_grpc.agentruntime.view import AgentRuntimeView
from protolink_grpc.models import (
    ApprovalDecision,
    ApprovalRequest,
    Message,
    PolicyDecision,
    PolicyEffect,
    RunAction,
    RunContext,
    Task,
    TaskState,
    ToolCall,
)
from protolink_grpc.models import events as ev
from protolink_grpc.models import session as ses
from protolink_grpc.models.action import ContextManifest, OmittedItems
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.failure import Failure, FailureCategory
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.session import SessionEvent, SessionItem, WhenBusy
from protolink_grpc.models.task_control import LinkKind, TaskLink
from protolink_grpc.models.task_status import status_of
from protolink_grpc.models.tool import OfferedTools
from protolink_grpc.reports import RunExport, SessionExport
from protolink_grpc.runtime.facts import lost_status
from protolink_grpc.storage.quiet_positions import QuietPosition

WORKING, COMPLETED, CANCELED = TaskState.WORKING, TaskState.COMPLETED, TaskState.CANCELED
NOON = "2026-06-12T12:00:00.000001+00:00"
BOOK = RunAction("tool.call", "book", {"arguments": {"nights": 2}}, action_id="a1")
ASK = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "it costs")


def stream(*facts: Any) -> list[SessionItem]:
    """Return the items of a session `s`: its own facts, and facts of a task as a tuple of the task's id and the payload."""
    items: list[SessionItem] = []
    sequences: dict[str, int] = {}
    for position, fact in enumerate(facts, 1):
        if not isinstance(fact, tuple):
            items.append(SessionItem(position, SessionEvent(position, NOON, fact)))
            continue
        task_id, payload = fact
        sequences[task_id] = sequence = sequences.get(task_id, 0) + 1
        event = RunEvent(
            "",
            payload,
            task_id=task_id,
            sequence=sequence,
            run_id=f"run-{task_id}",
            session_id="s",
            agent_name="hotel",
            timestamp=NOON,
            action_id="a1"
            if isinstance(payload, ev.ActionRequested | ev.ActionPolicyEvaluated | ev.ActionEnded)
            else "",
        )
        items.append(SessionItem(position, event))
    return items


ACCOMPANYING = {"run.status", "evidence.changed", "snapshot.updated", "thread.updated"}
"""Types of records that follow others."""


def exported(items: list[SessionItem], after: int = 0, *, whole: bool = True) -> list[dict[str, Any]]:
    """Export a stream, if not `whole` without the records that accompany others."""
    export = SessionExport("s", "hotel", after)
    found = [(sequence, json.loads(line)) for sequence, line in export.lines(items)]
    assert [sequence for sequence, _ in found] == [record["sequence"] for _, record in found]
    return [record for _, record in found if whole or record["type"] not in ACCOMPANYING]


def submit(turn_id: str, task_id: str, *, after: int = 0, thread: str = "default", **more: Any) -> ses.TurnSubmitted:
    return ses.TurnSubmitted(turn_id, thread, task_id, after, when_busy=WhenBusy.ENQUEUE, **more)


def created(task_id: str) -> tuple[str, Any]:
    return task_id, ev.TaskSubmitted(Task(task_id, messages=[Message.user("hello")]), "ada", session_id="s")


def begun(task_id: str, attempt: int = 1, cause: str = "submitted") -> tuple[str, Any]:
    return task_id, ev.TaskStatusChanged(TaskState.SUBMITTED, WORKING, attempt=attempt, cause=cause)


def ended(task_id: str, state: TaskState = COMPLETED, failure: Failure | None = None) -> tuple[str, Any]:
    return task_id, ev.TaskStatusChanged(WORKING, state, failure)


def shown(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the type and the turn of each record that accompanies no other."""
    return [(each["type"], each.get("turnId", "")) for each in records if each["type"] not in ACCOMPANYING]


def test_a_turn_has_its_records_around_those_of_its_task() -> None:
    records = exported(
        stream(
            ses.SessionCreated("Trip", {"vip": True}),
            submit("one", "t1"),
            created("t1"),
            begun("t1"),
            ended("t1"),
            ses.TurnEnded("one", COMPLETED),
            ses.SessionUpdated("Trip", archived=True),
        ),
        whole=False,
    )
    assert shown(records) == [
        ("session.created", ""),
        ("thread.started", ""),
        ("turn.submitted", "one"),
        ("task.created", "one"),
        ("task.started", "one"),
        ("task.attempt.started", "one"),
        ("turn.started", "one"),
        ("task.attempt.completed", "one"),
        ("task.completed", "one"),
        ("turn.completed", "one"),
        ("session.updated", ""),
    ]
    assert {(record["sessionId"], record["runtimeId"]) for record in records} == {("s", "protolink-grpc/hotel")}
    assert {record["threadId"] for record in records if record["type"][:7] != "session"} == {"default"}
    assert {record["taskId"] for record in records if record.get("turnId")} == {"t1"}
    assert records[0]["payload"] == {"title": "Trip", "metadata": {"vip": True}}
    assert records[2]["payload"] == {"status": "accepted", "policy": "enqueue", "inputRef": "t1/1"}


def test_the_queue_is_in_the_records_of_its_changes() -> None:
    records = exported(
        stream(
            ses.ThreadStarted("side", "Side"),
            submit("one", "t1", thread="side"),
            submit("two", "t2", thread="side", queued=True),
            submit("three", "t3", thread="side", queued=True),
            submit("now", "t4", thread="side", queued=True, first=True),
            ses.TurnPromoted("three"),
            ses.TurnEnded("two", CANCELED, "removed from the queue"),
            ses.TurnEnded("one", COMPLETED),
            ses.TurnStarted("three"),
        )
    )
    changes = [record for record in records if record["type"] == "queue.changed"]
    assert [(each["queueId"], each["payload"]["state"], each["payload"]["order"]) for each in changes] == [
        ("two", "queued", ["two"]),
        ("three", "queued", ["two", "three"]),
        ("now", "queued", ["now", "two", "three"]),
        ("three", "promoted", ["three", "now", "two"]),
        ("two", "removed", ["three", "now"]),
        ("three", "started", ["now"]),
    ]
    assert {each["threadId"] for each in changes} == {"side"}
    (removed,) = [record for record in records if record["type"] == "turn.failed"]
    assert (removed["turnId"], removed["payload"]["status"]) == ("two", "cancelled")


@pytest.mark.parametrize(
    ("state", "failure", "kind", "status", "category"),
    [
        (COMPLETED, None, "turn.completed", "completed", None),
        (TaskState.INPUT_REQUIRED, None, "turn.completed", "completed", None),
        (CANCELED, None, "turn.failed", "cancelled", "cancelled"),
        (TaskState.REJECTED, None, "turn.failed", "failed", "rejected"),
        (TaskState.FAILED, Failure("X", "no", FailureCategory.MODEL), "turn.failed", "failed", "model"),
        (TaskState.FAILED, Failure("X", "no", FailureCategory.TIMEOUT), "turn.failed", "timed_out", "timeout"),
        (TaskState.REJECTED, Failure("X", "no", FailureCategory.TIMEOUT), "turn.failed", "timed_out", "timeout"),
    ],
)
def test_the_end_of_a_turn_has_the_category_that_only_its_task_knows(
    state: TaskState, failure: Failure | None, kind: str, status: str, category: str | None
) -> None:
    end = ses.TurnEnded("one", state)
    facts = (submit("one", "t1"), created("t1"), begun("t1"), ended("t1", state, failure), end)
    *_, turn = exported(stream(*facts), whole=False)
    assert (turn["type"], turn["payload"]["status"], turn["payload"].get("failureCategory")) == (kind, status, category)


@pytest.mark.parametrize("state", [TaskState.FAILED, TaskState.REJECTED])
@pytest.mark.parametrize("category", FailureCategory)
def test_the_status_of_an_ended_task_is_that_of_its_snapshot(state: TaskState, category: FailureCategory) -> None:
    facts = [created("t1"), begun("t1"), ended("t1", state, Failure("X", "no", category))]
    fold = TaskFold("t1")
    for sequence, (_, fact) in enumerate(facts, 1):
        fold.apply(fact, sequence, sequence, "run-t1")
    *_, end = exported(stream(submit("one", "t1"), *facts), whole=False)
    assert end["payload"]["status"] == str(status_of(fold))


def test_a_task_that_asked_has_the_turn_of_its_answer() -> None:
    asks = TaskState.INPUT_REQUIRED
    records = exported(
        stream(
            submit("one", "t1"),
            created("t1"),
            begun("t1"),
            ended("t1", asks),
            ses.TurnEnded("one", asks),
            submit("two", "t1", after=3),
            ("t1", ev.TaskMessagesAdded((Message.user("Lyon"),))),
            begun("t1", 2, "continued"),
            ended("t1"),
            ses.TurnEnded("two", COMPLETED),
        ),
        whole=False,
    )
    first = [kind for kind, turn in shown(records) if turn == "one"]
    second = [kind for kind, turn in shown(records) if turn == "two"]
    assert first[-2:] == ["task.waiting", "turn.completed"]
    assert second == [
        "turn.submitted",
        "plgrpc.task.message",
        "task.resumed",
        "task.attempt.started",
        "turn.started",
        "task.attempt.completed",
        "task.completed",
        "turn.completed",
    ]
    reference = next(each["payload"]["inputRef"] for each in records if each["type"] == "turn.submitted")
    assert reference == "t1/1"
    assert records[len(first)]["payload"]["inputRef"] == "t1/4"
    assert records[len(first) + 1]["refs"]["sourceEventId"] == "t1/4"


def test_turns_of_several_tasks_do_not_mix() -> None:
    records = exported(
        stream(
            submit("one", "t1"),
            created("t1"),
            submit("two", "t2", thread="side"),
            created("t2"),
            begun("t2"),
            begun("t1"),
            ended("t2"),
            ses.TurnEnded("two", COMPLETED),
            ended("t1"),
            ses.TurnEnded("one", COMPLETED),
        ),
        whole=False,
    )
    found = {(each["taskId"], each["turnId"], each["threadId"]) for each in records}
    assert found == {("t1", "one", "default"), ("t2", "two", "side")}


def test_a_task_has_the_same_records_in_its_session_and_alone_except_for_its_turns() -> None:
    items = stream(submit("one", "t1"), *LONG)
    of_task = [item.event for item in items if isinstance(item.event, RunEvent) and item.event.task_id == "t1"]
    alone = [json.loads(line) for line in RunExport("agentruntime").lines(of_task)]
    both = [each for each in exported(items) if each.get("taskId") == "t1"]

    def facts(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        own = ("turnId", "threadId", "sequence")
        of_turns = {"turn.submitted", "turn.completed", "queue.changed", "snapshot.updated"}
        kept = [each for each in records if each["type"] not in of_turns]
        return [{key: value for key, value in each.items() if key not in own} for each in kept]

    assert facts(alone) == facts(both)


def test_what_this_version_does_not_know_is_a_record_of_its_own_type() -> None:
    (unknown,) = exported(stream(None))
    assert (unknown["type"], unknown["sequence"]) == ("plgrpc.session.unknown", 64)


def test_a_rollback_has_the_turns_that_it_removed_and_the_last_one_before() -> None:
    facts: list[Any] = [ses.SessionCreated("Trip")]
    for number in (1, 2, 3):
        turn, task = f"turn-{number}", f"t{number}"
        facts += [submit(turn, task), created(task), begun(task), ended(task), ses.TurnEnded(turn, COMPLETED)]
    facts += [submit("waits", "t4", queued=True), ses.ThreadRolledBack("default", "turn-2", "wrong city")]
    facts += [ses.ThreadRolledBack("default", "turn-1")]
    records = [each for each in exported(stream(*facts)) if each["type"].startswith("history.")]
    assert [each["type"].removeprefix("history.rollback.") for each in records] == ["started", "completed"] * 2
    assert [each["payload"]["targetTurnId"] for each in records] == ["turn-2"] * 2 + ["turn-1"] * 2
    assert [each["payload"].get("removedTurns") for each in records[1::2]] == [["turn-2", "turn-3"], ["turn-1"]]
    assert [each["payload"]["baseline"] for each in records[1::2]] == [{"turnId": "turn-1"}, {}]


def test_a_rollback_removes_turns_that_were_ended_in_the_queue_and_does_not_return_to_one_of_them() -> None:
    one, two = (
        [submit(turn, task), created(task), begun(task), ended(task), ses.TurnEnded(turn, COMPLETED)]
        for turn, task in (("one", "t1"), ("two", "t2"))
    )
    removed = [submit("removed", "t3", queued=True), created("t3"), ended("t3", CANCELED)]
    removed += [ses.TurnEnded("removed", CANCELED)]
    for facts, target, turns, baseline in (
        ([*one, *removed], "one", ["one", "removed"], {}),
        ([*one, *removed, *two], "two", ["two"], {"turnId": "one"}),
    ):
        *_, done = exported(stream(ses.SessionCreated(), *facts, ses.ThreadRolledBack("default", target)))
        assert (done["payload"]["removedTurns"], done["payload"]["baseline"]) == (turns, baseline)


def test_a_retry_is_a_turn_of_its_own_in_a_session_and_in_a_task_alone() -> None:
    model = [("t1", ev.LlmCallStarted("c1", "p", "m")), ("t1", ev.LlmCallCompleted("c1", "p", "m"))]
    failure = Failure("X", "no", FailureCategory.MODEL)
    items = stream(
        ses.SessionCreated("Trip"),
        submit("one", "t1"),
        created("t1"),
        begun("t1"),
        *model,
        ended("t1", TaskState.FAILED, failure),
        ses.TurnEnded("one", TaskState.FAILED),
        submit("again", "t1", after=5),
        ("t1", ev.TaskRetried(TaskState.FAILED, "once more", "ann", 1)),
        begun("t1", 2, "retried"),
        *model,
        ended("t1"),
        ses.TurnEnded("again", COMPLETED),
    )
    for item in items[9:]:
        if isinstance(item.event, RunEvent):
            item.event.run_id = "run-2"
    of_task = [item.event for item in items if isinstance(item.event, RunEvent)]
    alone = [json.loads(line) for line in RunExport("agentruntime").lines(of_task)]
    for records in (exported(items), alone):
        assert violations_of(records) == []
        calls = [each["modelRequestId"] for each in records if each["type"] == "model.completed"]
        assert calls == ["c1", "c1/retry/1"]
    turns = [each["turnId"] for each in alone if each["type"].startswith("turn.")]
    assert turns == ["t1/turn/1"] * 3 + ["t1/turn/2"] * 3


def test_a_retry_in_a_session_is_in_the_trace_of_its_task() -> None:
    trace_id = "0123456789abcdef" * 2
    task_id, submitted = created("t1")
    submitted.context = RunContext(trace_id=trace_id)
    records = exported(
        stream(
            ses.SessionCreated("Trip"),
            submit("one", task_id),
            (task_id, submitted),
            begun(task_id),
            ended(task_id),
            ses.TurnEnded("one", COMPLETED),
            submit("two", task_id, after=3),
            (task_id, ev.TaskRetried(COMPLETED)),
            begun(task_id, 2, "retried"),
            ended(task_id),
            ses.TurnEnded("two", COMPLETED),
        )
    )
    assert {record["traceId"] for record in records if record["type"].startswith("task.")} == {trace_id}


def test_a_stream_without_its_beginning_has_records_without_the_missing_ids() -> None:
    records = exported(stream(ses.TurnStarted("lost"), ses.TurnEnded("lost", COMPLETED), ended("t9")))
    assert shown(records) == [("turn.completed", "lost"), ("task.completed", "")]


# -- Resumption ------------------------------------------------------------------------------------------------------------

LONG = [
    created("t1"),
    begun("t1"),
    submit("two", "t2", queued=True),
    created("t2"),
    ("t1", ev.LlmCallCompleted("c1", tool_calls=(ToolCall("book", {"nights": 2}, "call-1"),))),
    ("t1", ev.ActionRequested(BOOK)),
    ("t1", ev.ActionPolicyEvaluated(ASK)),
    ("t1", ev.ApprovalRequired(ApprovalRequest(BOOK, ASK, request_id="q1", created_at=NOON))),
    begun("t1", 2, "recovered"),
    ("t1", ev.ApprovalDecided(ApprovalDecision(True, "q1", decided_at=NOON))),
    ended("t1"),
    ses.TurnEnded("one", COMPLETED),
    ses.TurnStarted("two"),
    begun("t2"),
    ended("t2", CANCELED),
    ses.TurnEnded("two", CANCELED, "enough"),
]
WHOLE = stream(ses.SessionCreated("Trip"), submit("one", "t1"), *LONG)


@st.composite
def cuts(draw: DrawFn) -> tuple[int, int]:
    """A number of items that a first reader gets, and a sequence after which another one continues."""
    records = exported(WHOLE)
    return draw(st.integers(0, len(WHOLE))), draw(st.sampled_from([0, *(each["sequence"] for each in records)]))


@given(cuts())
def test_any_prefix_and_the_rest_are_the_records_of_the_whole(cut: tuple[int, int]) -> None:
    items, after = cut
    whole = exported(WHOLE)
    assert [each["sequence"] for each in whole] == sorted({each["sequence"] for each in whole})
    assert len({each["eventId"] for each in whole}) == len(whole)
    prefix = exported(WHOLE[:items])
    assert prefix == whole[: len(prefix)]
    export = SessionExport("s", "hotel")
    parts = [*export.lines(WHOLE[:items]), *export.lines(WHOLE[items:])]
    assert [json.loads(line) for _, line in parts] == whole
    assert exported(WHOLE, after) == [each for each in whole if each["sequence"] > after]


# -- Records that accompany others -----------------------------------------------------------------------------------------


def statuses(records: list[dict[str, Any]], thread: str = "default") -> list[str]:
    found = [each for each in records if each["type"] == "thread.updated" and each["threadId"] == thread]
    return [each["payload"]["status"] for each in found]


def test_a_thread_has_a_record_of_each_change_of_its_status() -> None:
    asks = TaskState.INPUT_REQUIRED
    records = exported(
        stream(
            ses.SessionCreated("Trip"),
            submit("one", "t1"),
            created("t1"),
            begun("t1"),
            submit("two", "t2", queued=True),
            created("t2"),
            ("t1", ev.ApprovalRequired(ApprovalRequest(BOOK, ASK, request_id="q1", created_at=NOON))),
            ("t1", ev.ApprovalDecided(ApprovalDecision(True, "q1", decided_at=NOON))),
            ended("t1"),
            ses.TurnEnded("one", COMPLETED),
            ses.TurnStarted("two"),
            begun("t2"),
            ("t2", ev.TaskPaused()),
            ("t2", ev.TaskResumed()),
            ended("t2", asks),
            ses.TurnEnded("two", asks),
            ended("t2", CANCELED),
            submit("three", "t3", thread="side"),
            created("t3"),
            ended("t3", TaskState.FAILED),
            ses.TurnEnded("three", TaskState.FAILED),
        )
    )
    assert statuses(records) == [
        "running",
        "blocked",
        "running",
        "queued",
        "running",
        "blocked",
        "running",
        "blocked",
        "cancelled",
    ]
    assert statuses(records, "side") == ["running", "failed"]
    updates = [each for each in records if each["type"] == "thread.updated"]
    assert updates[0]["payload"]["activeTurnIds"] == ["one"]
    assert {frozenset(each).isdisjoint({"turnId", "runId", "taskId"}) for each in updates} == {True}


def test_the_end_of_a_turn_names_the_snapshots_and_the_position_that_they_reflect() -> None:
    facts = (submit("one", "t1"), created("t1"), begun("t1"), ended("t1"), ses.TurnEnded("one", COMPLETED))
    last = exported(stream(*facts))[-1]
    assert (last["type"], last["sequence"] // 64) == ("snapshot.updated", 5)
    assert last["payload"] == {"readModels": ["session_snapshot", "thread_read_model"], "position": 5}


def test_a_draft_is_blocked_by_open_tasks_of_its_session() -> None:
    blocked_by = [TaskLink(LinkKind.BLOCKED_BY, each, created_at=NOON) for each in ("t1", "gone", "t3")]
    draft = ev.TaskSubmitted(Task("t2", messages=[Message.user("hello")]), "ada", session_id="s", draft=True)
    records = exported(
        stream(
            ses.SessionCreated("Trip"),
            submit("one", "t1"),
            created("t1"),
            submit("three", "t3", thread="side"),
            created("t3"),
            begun("t3"),
            ended("t3"),
            ("t2", draft),
            *(("t2", ev.TaskLinked(each)) for each in blocked_by),
            submit("two", "t2", thread="side", after=4),
            ("t2", ev.TaskStartRequested("ada")),
            begun("t1"),
            ended("t1"),
            ses.TurnEnded("one", COMPLETED),
            begun("t2"),
        )
    )
    (blocked,) = [each for each in records if each["type"] == "task.blocked"]
    assert (blocked["taskId"], blocked["payload"]) == ("t2", {"status": "blocked", "blockedBy": ["t1"]})


def test_a_draft_without_open_blockers_in_its_session_is_not_known_to_be_blocked() -> None:
    draft = ev.TaskSubmitted(Task("t2", messages=[Message.user("hello")]), "ada", session_id="s", draft=True)
    link = TaskLink(LinkKind.BLOCKED_BY, "elsewhere", created_at=NOON)
    start = ev.TaskStartRequested("ada")
    facts = [("t2", draft), ("t2", ev.TaskLinked(link)), submit("two", "t2", after=2), ("t2", start)]
    assert "task.blocked" not in [each["type"] for each in exported(stream(ses.SessionCreated(), *facts))]


def task_statuses(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    kinds = ("task.paused", "task.waiting", "task.resumed", "task.retrying", "task.attempt.started")
    return [(each["type"], each["payload"]["status"]) for each in records if each["type"] in kinds]


def test_a_paused_task_is_paused_after_a_restart_too() -> None:
    paused = [("t1", ev.TaskPauseRequested("", "ada")), ("t1", ev.TaskPaused())]
    facts = [submit("one", "t1"), created("t1"), begun("t1"), *paused, begun("t1", 2, "recovered")]
    records = exported(stream(ses.SessionCreated(), *facts))
    assert task_statuses(records)[-3:] == [
        ("task.retrying", "running"),
        ("task.attempt.started", "running"),
        ("task.paused", "paused"),
    ]


def test_a_paused_task_stays_paused_while_another_branch_asks_and_retries_a_model_call() -> None:
    request = ApprovalRequest(BOOK, ASK, request_id="q1", created_at=NOON)
    failed = Failure("MODEL_UNAVAILABLE", "busy", FailureCategory.MODEL)
    facts = [
        submit("one", "t1"),
        created("t1"),
        begun("t1"),
        ("t1", ev.LlmCallStarted("m1", "mock", "mock", 1, 1)),
        ("t1", ev.ActionRequested(BOOK)),
        ("t1", ev.ActionPolicyEvaluated(ASK)),
        ("t1", ev.TaskPauseRequested("", "ada")),
        ("t1", ev.TaskPaused()),
        ("t1", ev.LlmCallFailed("m1", "mock", "mock", 1, 1, failed, will_retry=True)),
        ("t1", ev.ApprovalRequired(request)),
    ]
    records = exported(stream(ses.SessionCreated(), *facts))
    assert task_statuses(records)[-1] == ("task.paused", "paused")
    assert violations_of(records) == []
    resumed = exported(stream(ses.SessionCreated(), *facts, ("t1", ev.TaskResumed("", "ada"))))
    assert task_statuses(resumed)[-2:] == [("task.resumed", "running"), ("task.waiting", "waiting_permission")]
    decided = ev.ApprovalDecided(ApprovalDecision(True, request_id="q1", decided_by="ada", decided_at=NOON))
    records = exported(stream(ses.SessionCreated(), *facts, ("t1", decided)))
    assert task_statuses(records)[-1] == ("task.paused", "paused")
    assert violations_of(records) == violations_of(resumed) == []


class RunFacts:
    """Facts of a run that a log can have, in any order."""

    def __init__(self) -> None:
        self.facts: list[Any] = [created("t1")[1], begun("t1")[1]]
        self._asked: list[str] = []
        self._pause = self._is_paused = self._is_canceling = self._is_waiting = False

    def add(self, choice: int) -> None:
        """Add one of the facts that can be the next one."""
        kinds = ["answer"] * bool(self._asked) + ["resume"] * self._pause
        if self._is_waiting:
            kinds += ["continue"]
        else:
            kinds += ["ask", "call", "fail", "give_up", *["begin_pause"] * (self._pause and not self._is_paused)]
            kinds += [] if self._is_canceling else ["cancel", "recover", "wait", *["request_pause"] * (not self._pause)]
        self.facts.append(getattr(self, f"_{kinds[choice % len(kinds)]}")())

    def _ask(self) -> ev.ApprovalRequired:
        self._asked.append(f"q{len(self.facts)}")
        return ev.ApprovalRequired(ApprovalRequest(BOOK, ASK, request_id=self._asked[-1], created_at=NOON))

    def _answer(self) -> ev.ApprovalDecided:
        return ev.ApprovalDecided(ApprovalDecision(True, self._asked.pop(), decided_by="ada", decided_at=NOON))

    def _call(self) -> ev.LlmCallStarted:
        return ev.LlmCallStarted("c1", "p", "m")

    def _fail(self, *, will_retry: bool = True) -> ev.LlmCallFailed:
        failure = Failure("MODEL_RATE_LIMITED", "slow down", FailureCategory.LIMIT, True)
        return ev.LlmCallFailed("c1", "p", "m", 1, 1, failure, will_retry)

    def _give_up(self) -> ev.LlmCallFailed:
        return self._fail(will_retry=False)

    def _request_pause(self) -> ev.TaskPauseRequested:
        self._pause = True
        return ev.TaskPauseRequested("", "ada")

    def _begin_pause(self) -> ev.TaskPaused:
        self._is_paused = True
        return ev.TaskPaused()

    def _resume(self) -> ev.TaskResumed:
        self._pause = self._is_paused = False
        return ev.TaskResumed("", "ada")

    def _cancel(self) -> ev.CancelRequested:
        self._is_canceling = True
        return ev.CancelRequested("enough", "ada")

    def _recover(self) -> ev.TaskStatusChanged:
        return ev.TaskStatusChanged(WORKING, WORKING, attempt=len(self.facts), cause="recovered")

    def _wait(self) -> ev.TaskStatusChanged:
        self._is_waiting = True
        return ev.TaskStatusChanged(WORKING, TaskState.INPUT_REQUIRED)

    def _continue(self) -> ev.TaskStatusChanged:
        self._is_waiting = False
        return ev.TaskStatusChanged(TaskState.INPUT_REQUIRED, WORKING, attempt=len(self.facts), cause="continued")


@settings(max_examples=200)
@given(st.lists(st.integers(0, 200), max_size=15))
def test_the_status_of_a_run_is_that_of_its_fold_whatever_happens_together(choices: list[int]) -> None:
    run = RunFacts()
    for choice in choices:
        run.add(choice)
    fold = TaskFold("t1")
    for sequence, fact in enumerate(run.facts, 1):
        fold.apply(fact, sequence, sequence, "run-t1")
    records = exported(stream(ses.SessionCreated(), submit("one", "t1"), *(("t1", fact) for fact in run.facts)))
    status, expected = "", str(status_of(fold)).replace("preparing", "running")
    log = io.BytesIO(b"".join(json.dumps(each).encode() + b"\n" for each in records))
    for event in read_events(log):
        status = status_after(event, status)
    phases = [each["payload"]["phase"] for each in records if each["type"] == "run.status"]
    assert (status, phases[-1]) == (expected, expected)


def test_a_task_that_waits_for_input_still_does_after_an_answer_to_an_approval_and_after_the_end_of_a_pause() -> None:
    pause, answer = ev.TaskPauseRequested("", "ada"), ApprovalDecision(True, "q1", decided_by="ada", decided_at=NOON)
    before: list[Any] = [ev.ApprovalRequired(ApprovalRequest(BOOK, ASK, request_id="q1", created_at=NOON))]
    after: list[Any] = [ev.ApprovalDecided(answer)]
    for begin, end in ((before, after), ([pause, ev.TaskPaused()], [ev.TaskResumed("", "ada")])):
        facts = [created("t1"), begun("t1"), *(("t1", each) for each in begin), ended("t1", TaskState.INPUT_REQUIRED)]
        records = exported(stream(submit("one", "t1"), *facts, *(("t1", each) for each in end)))
        assert task_statuses(records)[-1] == ("task.waiting", "waiting_input")


def test_an_answer_that_waits_for_a_slot_is_queued_in_the_events_and_not_in_the_snapshot() -> None:
    asked, answer = TaskState.INPUT_REQUIRED, ev.TaskMessagesAdded((Message.user("blue"),))
    question = [submit("one", "t1"), created("t1"), begun("t1"), ended("t1", asked), ses.TurnEnded("one", asked)]
    more = [submit("two", "t1", after=3), ("t1", answer), ("t1", ev.TaskQueued(1, 0))]
    records = exported(stream(ses.SessionCreated(), *question, *more))
    attempt = {"run_id": "run-t1", "status": "completed", "started_at": NOON, "ended_at": NOON}
    snapshot = {"task_id": "t1", "session_id": "s", "run_id": "run-t1", "attempts": [attempt], "pending_approvals": []}
    assert violations_of(records, snapshot | {"status": "waiting_input"}) == []
    (found,) = violations_of(records, snapshot | {"status": "running"})
    assert found.startswith("R147.6 ")


def test_a_draft_is_accepted_once() -> None:
    draft = ev.TaskSubmitted(Task("t1", messages=[Message.user("hello")]), "ada", session_id="s", draft=True)
    starts = [("t1", ev.TaskStartRequested("ada", external)) for external in (False, True)]
    records = exported(stream(ses.SessionCreated(), ("t1", draft), submit("one", "t1", after=1), *starts))
    assert [each["type"] for each in records][-2:] == ["task.accepted", "task.updated"]
    assert records[-1]["payload"] == {"requestedBy": "ada", "external": True}


def test_a_lost_run_is_a_lost_task_and_a_failed_turn() -> None:
    lost = lost_status(WORKING, "the process died").failure
    facts = [submit("one", "t1"), created("t1"), begun("t1"), ended("t1", TaskState.FAILED, lost)]
    end = ses.TurnEnded("one", TaskState.FAILED, "run lost")
    records = exported(stream(ses.SessionCreated(), *facts, end))
    assert violations_of(records) == []
    statuses = {each["type"]: each["payload"]["status"] for each in records if "status" in each["payload"]}
    assert (statuses["task.lost"], statuses["task.attempt.failed"], statuses["turn.failed"]) == (
        "lost",
        "failed",
        "failed",
    )


def test_the_installation_of_a_session_is_the_one_that_its_first_event_names() -> None:
    for runtime_id, expected in (("house-7", "house-7"), ("", "protolink-grpc/hotel")):
        facts = (submit("one", "t1"), created("t1"), begun("t1"))
        records = exported(stream(ses.SessionCreated("Trip", runtime_id=runtime_id), *facts))
        assert {each["runtimeId"] for each in records} == {expected}


def test_only_what_began_before_the_start_of_a_view_needs_earlier_events() -> None:
    facts = [submit("one", "t1"), created("t1"), begun("t1"), ended("t1"), ses.TurnEnded("one", COMPLETED)]
    retry = [submit("two", "t1", after=3), ("t1", ev.TaskRetried(COMPLETED)), begun("t1", 2, "retried")]
    items = stream(*facts, *retry)
    view = AgentRuntimeView("s", "hotel", QuietPosition(100))
    for place, item in enumerate(items):
        assert not view.needs_earlier(items[place:])
        view.skip(item)
    older = AgentRuntimeView("s", "hotel", QuietPosition(100))
    for needy in (
        items[len(facts) :],
        [items[2]],
        stream(ses.TurnEnded("zero", COMPLETED)),
        stream(ses.TurnPromoted("zero")),
        stream(ses.TurnMerged("more", "zero")),
        stream(ses.ThreadRolledBack("default", "zero")),
        stream(created("t2"), ("t2", ev.TaskLinked(TaskLink(LinkKind.BLOCKED_BY, "t0", created_at=NOON)))),
    ):
        assert older.needs_earlier(needy)
    assert not older.needs_earlier(items)
    assert not older.needs_earlier(stream(ses.ThreadStarted("side"), ses.SessionUpdated("Trip")))


# -- Memory ----------------------------------------------------------------------------------------------------------------


def turns(count: int) -> list[Any]:
    """Return the facts of turns with a model call and a denied approval each; every second one waits in the queue."""
    facts: list[Any] = [ses.SessionCreated("Trip"), ses.ThreadStarted("side")]
    for number in range(count):
        turn, task, is_queued = f"turn-{number}", f"t{number}", bool(number % 2)
        request = ApprovalRequest(BOOK, ASK, request_id=f"q{number}", created_at=NOON)
        context = RunContext(trace_id=f"{number:032x}")
        facts += [submit(turn, task, thread=("default", "side")[number % 3 == 0], queued=is_queued), created(task)]
        facts += [ses.TurnStarted(turn)] if is_queued else []
        facts += [
            (task, ev.TaskStatusChanged(TaskState.SUBMITTED, WORKING, attempt=1, cause="submitted", context=context)),
            (task, ev.ContextPrepared(ContextManifest(), 1, OfferedTools(), OmittedItems())),
            (task, ev.LlmCallStarted(f"c{number}")),
            (task, ev.LlmCallCompleted(f"c{number}")),
            (task, ev.ActionRequested(BOOK)),
            (task, ev.ActionPolicyEvaluated(ASK)),
            (task, ev.ApprovalRequired(request)),
            (task, ev.ApprovalDecided(ApprovalDecision(False, request.request_id, decided_at=NOON))),
            (task, ev.ActionEnded("tool.call", "book", outcome="denied")),
            ended(task),
            ses.TurnEnded(turn, COMPLETED),
            (task, ev.TaskLinked(TaskLink(LinkKind.EVIDENCE, "https://reviews.example.com", created_at=NOON))),
        ]
    return facts


def kept_objects(root: object) -> int:
    """Return the number of objects that an object refers to, directly or through others."""
    shared = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
    seen: dict[int, object] = {}
    waiting = [root]
    while waiting:
        found = waiting.pop()
        if id(found) not in seen and not isinstance(found, shared):
            seen[id(found)] = found
            waiting += gc.get_referents(found)
    return len(seen)


def test_what_a_view_keeps_does_not_grow_with_the_number_of_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protolink_grpc.agentruntime.view.MAX_ENDED", 5)
    monkeypatch.setattr("protolink_grpc.agentruntime.threads.MAX_HISTORY", 5)
    items = stream(*turns(200))
    view = AgentRuntimeView("s", "hotel")
    kept = []
    for item in items:
        deque(view.of_session(item), maxlen=0)
        if isinstance(item.event, RunEvent) and isinstance(item.event.payload, ev.TaskLinked):
            kept.append(kept_objects(view))
    assert max(kept[100:]) <= max(kept[20:40])


def test_a_link_of_an_ended_task_has_the_thread_of_the_task() -> None:
    link = TaskLink(LinkKind.EVIDENCE, "https://reviews.example.com", created_at=NOON)
    facts = [submit("one", "t1", thread="side"), created("t1"), begun("t1"), ended("t1")]
    end = ses.TurnEnded("one", COMPLETED)
    records = exported(
        stream(ses.SessionCreated(), ses.ThreadStarted("side"), *facts, end, ("t1", ev.TaskLinked(link)))
    )
    assert [each["threadId"] for each in records if each["type"] == "task.dependency.updated"] == ["side"]


def test_what_a_view_does_not_know_of_an_old_task_is_unknown_and_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protolink_grpc.agentruntime.view.MAX_ENDED", 1)
    link = ("t0", ev.TaskLinked(TaskLink(LinkKind.EVIDENCE, "https://reviews.example.com", created_at=NOON)))
    records = exported(stream(*turns(3), link))
    last = [each for each in records if each["type"] == "task.dependency.updated"][-1]
    assert ("threadId" in last, last["traceId"]) == (False, "unknown")
    retry = [submit("again", "t0", after=11), ("t0", ev.TaskRetried(COMPLETED)), begun("t0", 2, "retried")]
    *_, attempt, _, _ = exported(stream(*turns(3), *retry))
    found = (attempt["type"], attempt["turnId"], attempt["threadId"], attempt["traceId"])
    assert found == ("task.attempt.started", "again", "default", "unknown")


def test_a_rollback_to_an_old_turn_says_that_it_does_not_name_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protolink_grpc.agentruntime.threads.MAX_HISTORY", 2)
    rollbacks = [ses.ThreadRolledBack("default", turn) for turn in ("turn-7", "turn-1")]
    records = exported(stream(*turns(9), *rollbacks))
    known, old = (each["payload"] for each in records if each["type"] == "history.rollback.completed")
    assert (known["removedTurns"], known["baseline"]) == (["turn-7", "turn-8"], {"turnId": "unknown"})
    assert (old["removedTurns"], old["baseline"]) == (["turn-1"], {"turnId": "unknown"})
    assert ("isTruncated" in known, old["isTruncated"]) == (False, True)


def test_of_many_ended_tasks_a_view_knows_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protolink_grpc.agentruntime.view.MAX_ENDED", 1)
    view = AgentRuntimeView("s", "hotel", QuietPosition(100))
    for name in ("1", "2"):
        end = ses.TurnEnded(name, COMPLETED)
        for item in stream(submit(name, f"t{name}"), created(f"t{name}"), begun(f"t{name}"), ended(f"t{name}"), end):
            view.skip(item)
    retries = [stream(submit("more", task_id, after=3)) for task_id in ("t1", "t2")]
    assert [view.needs_earlier(each) for each in retries] == [True, False]
