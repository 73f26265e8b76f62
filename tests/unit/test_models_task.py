import copy
import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, SupportsIndex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.errors import InvalidArgumentError, InvalidTransitionError, TaskExecutionError
from protolink_grpc.models import (
    TRANSITIONS,
    Artifact,
    BudgetUsage,
    Message,
    Part,
    RunBudget,
    RunContext,
    Task,
    TaskState,
    check_transition,
    from_json,
    is_interrupted,
    is_terminal,
    to_json,
)

STATES = st.sampled_from(TaskState)
EARLY, LATE = "2026-01-01T00:00:00.000000+00:00", "2026-01-01T00:00:01.000000+00:00"


def moves(task: Task) -> list[str]:
    return [each["new_state"] for each in task.metadata["state_history"]]


def test_the_documented_moves_and_no_others_are_in_the_table():
    s = TaskState
    waiting = {s.WORKING, s.CANCELED, s.FAILED, s.REJECTED}
    assert dict(TRANSITIONS) == {
        s.SUBMITTED: waiting,
        s.WORKING: {s.COMPLETED, s.INPUT_REQUIRED, s.AUTH_REQUIRED, s.CANCELED, s.FAILED, s.REJECTED},
        s.INPUT_REQUIRED: waiting,
        s.AUTH_REQUIRED: waiting,
        s.COMPLETED: set(),
        s.CANCELED: set(),
        s.FAILED: set(),
        s.REJECTED: set(),
        s.UNKNOWN: set(s),
    }


def test_terminal_and_interrupted_states_are_told_apart():
    assert {state for state in TaskState if is_terminal(state)} == {"completed", "canceled", "failed", "rejected"}
    assert {state for state in TaskState if is_interrupted(state)} == {"input-required", "auth-required"}


@given(STATES, STATES)
def test_a_task_moves_exactly_where_the_table_says(current: TaskState, target: TaskState):
    task = Task(state=current)
    if target == current:
        assert task.update_state(target) is task
        assert task.metadata == {}
    elif target in TRANSITIONS[current]:
        check_transition(current, target)
        assert task.update_state(target.value).state is target
        assert moves(task) == [target]
    else:
        with pytest.raises(InvalidTransitionError):
            check_transition(current, target)
        with pytest.raises(ValueError, match=f"^Invalid task state transition: {current} -> {target}$"):
            task.update_state(target)
        assert task == Task(id=task.id, state=current, created_at=task.created_at)


def test_a_refused_move_says_it_for_machines_too():
    with pytest.raises(InvalidTransitionError) as caught:
        Task().update_state("completed")
    assert caught.value.metadata == {"current": "submitted", "target": "completed"}


def test_an_unknown_state_is_refused():
    with pytest.raises(InvalidArgumentError):
        Task().update_state("paused")


def test_each_move_is_recorded_with_its_time():
    task = Task().begin().complete("done")
    history = task.metadata["state_history"]
    assert [(each["previous_state"], each["new_state"]) for each in history] == [
        ("submitted", "working"),
        ("working", "completed"),
    ]
    assert all(each["timestamp"].endswith("+00:00") for each in history)


def test_a_foreign_state_history_is_left_alone():
    task = Task(metadata={"state_history": "mine"}).begin()
    assert (task.state, task.metadata) == ("working", {"state_history": "mine"})


def test_complete_passes_through_working():
    task = Task.create(Message.user("Hello")).complete("Hi")
    assert (task.state, task.messages[-1].text, moves(task)) == (TaskState.COMPLETED, "Hi", ["working", "completed"])


@pytest.mark.parametrize("state", [TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED])
def test_an_interrupted_task_completes_through_working(state: TaskState):
    assert moves(Task(state=state).complete("Hi")) == ["working", "completed"]


def test_requirements_pass_through_working_and_repeat_for_free():
    task = Task().require_input(Message.agent("which city?"))
    assert (moves(task), task.messages[-1].text) == (["working", "input-required"], "which city?")
    assert moves(task.require_input()) == ["working", "input-required"]
    assert moves(task.require_auth()) == ["working", "input-required", "working", "auth-required"]


def test_fail_cancel_and_reject_keep_the_reason():
    assert Task().fail("broken").metadata["error"] == "broken"
    assert Task().cancel("stopped").metadata["cancel_reason"] == "stopped"
    assert Task().reject("not mine").metadata["reject_reason"] == "not mine"
    assert "cancel_reason" not in Task().cancel().metadata


@pytest.mark.parametrize("act", [lambda t: t.complete("x"), lambda t: t.fail("x"), lambda t: t.cancel("x")])
def test_a_rejected_task_takes_no_other_end_and_stays_as_it_is(act: Any):
    task = Task().reject("no")
    before = task.to_dict()
    with pytest.raises(InvalidTransitionError):
        act(task)
    assert task.to_dict() == before


def test_a_terminal_task_still_takes_messages_as_a_value():
    task = Task().complete("done").add_message(Message.user("thanks"))
    assert task.get_last_part_content() == "thanks"


def test_raise_for_status_lets_success_pass():
    task = Task().complete("done")
    assert task.raise_for_status() is task


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (Task(id="t").fail("broken"), "task t failed: broken"),
        (Task(id="t").cancel(), "task t was canceled"),
        (Task(id="t").reject("not mine"), "task t was rejected: not mine"),
    ],
)
def test_raise_for_status_carries_the_task(task: Task, words: str):
    with pytest.raises(TaskExecutionError) as caught:
        task.raise_for_status()
    assert str(caught.value) == words
    assert caught.value.task is task
    assert caught.value.metadata == {"task_id": "t", "state": task.state.value}


def test_create_takes_text_or_a_message():
    message = Message.agent("x")
    assert Task.create("hi").messages[0].role == "user"
    assert Task.create(message).messages == [message]
    assert Task.create(message).state is TaskState.SUBMITTED


def test_a_session_is_found_loose_or_in_the_context():
    context = RunContext(session_id="from-context")
    assert Task.create("x", session_id="s").session_id == "s"
    assert Task.create("x", context=context).session_id == "from-context"
    assert Task.create("x", session_id="s", context=context).session_id == "s"
    assert Task(metadata={"run_context": {"session_id": "deep"}}).session_id == "deep"
    assert Task(metadata={"session_id": 5, "run_context": []}).session_id is None


def test_create_copies_its_context():
    context = RunContext(run_id="r", permissions={"a": ["b"]})
    task = Task.create("x", context=context, budget=RunBudget(max_steps=2))
    task.metadata["run_context"]["permissions"]["a"].append("c")
    assert context.permissions == {"a": ["b"]}
    assert context.budget == RunBudget()
    assert RunContext.from_task(task).budget == RunBudget(max_steps=2)


def test_a_budget_alone_names_the_run_after_the_task():
    task = Task.create("x", budget=RunBudget(max_steps=1))
    assert task.metadata["run_id"] == task.id


def test_create_infer_and_create_tool_call_make_executable_tasks():
    infer = Task.create_infer("p", output_schema={"type": "object"}, session_id="s")
    assert infer.get_last_part() == Part.infer("p", output_schema={"type": "object"})
    assert infer.session_id == "s"
    call = Task.create_tool_call("add", {"a": 1}, call_id="c", budget=RunBudget(max_steps=1))
    assert call.get_last_part() == Part.tool_call("add", {"a": 1}, "c")


# The newest item


def test_the_last_item_follows_the_order_of_adding_whatever_the_clocks_say():
    artifact, message = Artifact(timestamp=LATE), Message(timestamp=EARLY)
    assert Task().add_artifact(artifact).add_message(message).get_last_item() is message
    assert Task().add_message(message).add_artifact(artifact).get_last_item() is artifact


@pytest.mark.parametrize(
    ("said", "made", "newest"),
    [
        (EARLY, LATE, "artifact"),
        (LATE, EARLY, "message"),
        (EARLY, EARLY, "artifact"),
        ("2026-01-01T01:30:00+01:00", "2026-01-01T01:00:00+00:00", "artifact"),
        ("2026-01-01T01:00:00Z", "2026-01-01T01:30:00+01:00", "message"),
        ("no time", EARLY, "artifact"),
    ],
)
def test_the_last_item_of_given_lists_is_decided_by_instants(said: str, made: str, newest: str):
    task = Task(messages=[Message(timestamp=said)], artifacts=[Artifact(timestamp=made)])
    assert task.get_last_item() is (task.artifacts[0] if newest == "artifact" else task.messages[0])


def test_the_last_item_notices_what_was_appended_past_the_task():
    task = Task().add_message(Message.user("x")).add_artifact(Artifact(timestamp=EARLY))
    task.messages.append(Message(timestamp=LATE))
    assert task.get_last_item() is task.messages[-1]


def test_the_last_item_stays_the_same_over_json():
    task = Task.create("x").begin().add_artifact(Artifact().add_text("y"))
    again = Task.from_dict(from_json(to_json(task.to_dict())))
    assert again.get_last_item() == task.get_last_item() == task.artifacts[0]


def test_an_empty_task_has_no_last_anything():
    task = Task()
    assert (task.get_last_item(), task.get_last_part(), task.get_last_part_content()) == (None, None, None)
    assert Task(messages=[Message()]).get_last_part() is None


class LazyMessages(list[Message]):
    """A list whose elements are made when asked for, and counted."""

    def __init__(self, count: int) -> None:
        super().__init__([None] * count)  # type: ignore[list-item]  # placeholders, as a lazy list has them
        self.asked: list[int] = []

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        position = range(len(self))[index]
        assert isinstance(position, int)
        self.asked.append(position)
        return Message(id=str(position), role="agent", parts=[Part.text(str(position))])

    def __iter__(self) -> Iterator[Message]:
        return (self[index] for index in range(len(self)))


def test_a_lazy_list_is_kept_and_only_asked_for_what_is_needed():
    messages = LazyMessages(1_000)
    task = Task(messages=messages)
    assert task.messages is messages
    assert messages.asked == []
    assert task.get_last_part_content() == "999"
    assert set(messages.asked) == {999}
    assert task.get_output() == "999"
    assert set(messages.asked) == {999}
    assert [each["id"] for each in task.to_dict()["messages"]][:2] == ["0", "1"]


# Output


def result(*parts: Part, kind: str = "result") -> Artifact:
    return Artifact(parts=list(parts), kind=kind)


@pytest.mark.parametrize(
    ("task", "output"),
    [
        (Task.create("q"), "none"),
        (Task.create("q").complete("Hi"), "Hi"),
        (Task.create("q").add_artifact(result(Part.infer_output("three"))), "three"),
        (Task.create("q").add_artifact(result(Part.tool_output("c", {"sum": 3}))), {"sum": 3}),
        (Task.create("q").add_artifact(result(Part.tool_output("c", None))), None),
        (Task.create("q").add_artifact(result(Part.tool_output("c", error="no"))), "none"),
        (Task.create("q").add_artifact(result(Part.json([1]))), [1]),
        (Task.create("q").add_artifact(result(Part.text("a"), Part.route("left"))), "a"),
        (Task.create("q").add_artifact(result(Part.text("seen"), kind="preview")), "none"),
        (Task.create("q").add_artifact(result(Part.text("old"))).complete("new"), "new"),
        (Task.create("q").add_message(Message.assistant("old")).add_artifact(result(Part.text("new"))), "new"),
        (Task.create("q").add_artifact(result(Part.text("a"))).add_message(Message.user("more?")), "a"),
        (Task.create("q").add_message(Message.system("s")), "none"),
    ],
)
def test_the_output_is_the_newest_result_unwrapped(task: Task, output: object):
    assert task.get_output("none") == output


# JSON


def test_a_fresh_task_has_its_documented_json_shape():
    task = Task.create(Message.user("x"))
    assert task.to_dict() == {
        "id": task.id,
        "state": "submitted",
        "messages": [task.messages[0].to_dict()],
        "artifacts": [],
        "metadata": {},
        "flow_state": {},
        "created_at": task.created_at,
    }


def test_what_is_missing_or_null_is_made_and_unknown_keys_are_skipped():
    for data in ({}, dict.fromkeys(["id", "state", "messages", "artifacts", "metadata", "created_at"]), {"new": 1}):
        task = Task.from_dict(data)
        assert task.id
        assert task.created_at
        assert task.state is TaskState.SUBMITTED
        assert task.messages == []


def test_states_of_every_peer_are_read():
    assert Task.from_dict({"state": "rejected"}).is_terminal
    assert not Task.from_dict({"state": "auth-required"}).is_terminal


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ("task", ""),
        ({"id": 7}, "id"),
        ({"state": "paused"}, "state"),
        ({"state": ["working"]}, "state"),
        ({"state": 1}, "state"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{}, {}, {"parts": [{}]}]}, "messages[2].parts[0].type"),
        ({"messages": [{"role": "martian"}]}, "messages[0].role"),
        ({"artifacts": [7]}, "artifacts[0]"),
        ({"artifacts": [{"metadata": 1}]}, "artifacts[0].metadata"),
        ({"metadata": []}, "metadata"),
        ({"flow_state": "x"}, "flow_state"),
        ({"created_at": "soon"}, "created_at"),
    ],
)
def test_a_wrong_task_names_the_path(data: object, field: str):
    with pytest.raises(InvalidArgumentError) as caught:
        Task.from_dict(data)
    assert caught.value.field == field


def test_a_task_shares_nothing_with_its_json():
    data: dict[str, Any] = {
        "metadata": {"a": {"b": []}},
        "flow_state": {"c": []},
        "artifacts": [{"metadata": {"d": []}, "parts": [{"type": "json", "content": {"e": []}}]}],
    }
    pristine = from_json(to_json(data))
    task = Task.from_dict(data)
    task.metadata["a"]["b"].append(1)
    task.flow_state["c"].append(1)
    task.artifacts[0].metadata["d"].append(1)
    task.artifacts[0].parts[0].content["e"].append(1)
    assert data == pristine
    written = task.to_dict()
    written["metadata"]["a"]["b"].append(2)
    written["artifacts"][0]["parts"][0]["content"]["e"].append(2)
    assert task.metadata["a"]["b"] == [1]
    assert task.artifacts[0].parts[0].content["e"] == [1]


# -- typed facts and the user's metadata ---------------------------------------------------------------------------------------


def told() -> Task:
    """A failed task with every fact that ProtoLink keeps in the metadata, and a key of the user's."""
    context = RunContext("r", "s", trace_id="t", created_at=EARLY)
    task = context.attach_to_task(Task("task", metadata={"mine": 1})).begin().fail("broken")
    task.usage = BudgetUsage(steps=2)
    return task


FACTS = {"run_context", "run_id", "session_id", "trace_id", "state_history", "error", "budget_usage"}


def test_only_the_keys_of_the_user_are_stored_in_the_metadata():
    task = told()
    assert (list(task.metadata), len(task.metadata), {**task.metadata}) == (["mine"], 1, {"mine": 1})
    assert task.metadata == {"mine": 1}


def test_every_typed_fact_answers_under_its_protolink_key():
    task = told()
    metadata = task.to_dict()["metadata"]
    assert metadata.keys() == FACTS | {"mine"}
    assert {key: task.metadata[key] for key in FACTS} == {key: metadata[key] for key in FACTS}
    assert all(key in task.metadata for key in FACTS)
    assert "reject_reason" not in task.metadata
    assert task.metadata.get("reject_reason", "none") == "none"


def test_a_task_of_protolink_json_has_typed_facts():
    task = Task.from_dict(told().to_dict())
    assert dict(task.metadata) == {"mine": 1}
    assert task.context == RunContext("r", "s", trace_id="t", created_at=EARLY)
    assert (task.session_id, task.usage, task.reason) == ("s", BudgetUsage(steps=2), "broken")
    assert [change.new_state for change in task.state_history] == [TaskState.WORKING, TaskState.FAILED]


def test_a_change_of_a_computed_value_changes_nothing():
    task = told()
    task.metadata["run_context"]["run_id"] = "other"
    assert task.context is not None
    assert task.context.run_id == task.metadata["run_id"] == "r"


def test_a_key_that_the_user_has_written_comes_first_and_becomes_a_field_where_the_task_is_sent():
    task = told()
    task.metadata["run_context"] = {"run_id": "own"}
    task.metadata["session_id"] = "elsewhere"
    assert (task.metadata["run_context"], task.session_id) == ({"run_id": "own"}, "elsewhere")
    settled = task.settled()
    assert settled.context is not None
    assert settled.context.run_id == "own"
    assert (settled.session_id, dict(settled.metadata)) == ("elsewhere", {"mine": 1})
    assert dict(task.metadata).keys() == {"mine", "run_context", "session_id"}


def test_a_copy_of_a_task_has_metadata_of_its_own():
    task = told()
    copies = [replace(task), copy.deepcopy(task), pickle.loads(pickle.dumps(task))]
    for each in copies:
        assert each == task
        each.metadata["mine"] = 2
        each.cancel_reason = "why"
        assert each.metadata["cancel_reason"] == "why"
    assert task.metadata["mine"] == 1
    assert "cancel_reason" not in task.metadata
