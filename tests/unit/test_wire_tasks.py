"""Conversion of tasks, messages and artifacts: nothing is lost; requests are bounded, logs and answers are not."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plgrpc.v1 import context_pb2, event_pb2, part_pb2
from plgrpc.v1 import task_pb2 as pb
from wire_values import (
    FACTS,
    FULL_ARTIFACT,
    FULL_CONTEXT,
    FULL_MESSAGE,
    NOON,
    fields_set,
    full_payloads,
    full_task,
    messages,
    tasks,
    whole_failures,
)

from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError
from protolink_grpc.models import Artifact, Message, Part, RunContext, Task, TaskState
from protolink_grpc.models import events as ev
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.part import ToolOutput
from protolink_grpc.wire.events import EventEncoder, encode_payload, replay
from protolink_grpc.wire.tasks import (
    MAX_ARTIFACTS,
    MAX_ID_BYTES,
    MAX_MESSAGES,
    MAX_PARTS,
    MESSAGE,
    ROLES,
    STATES,
    artifacts_from_pb,
    check_id,
    encode_message,
    encoded_messages_from_pb,
    fold_to_bytes,
    fold_to_pb,
    task_from_pb,
    task_to_pb,
)

# A shared machine's pauses are no failure; each kind or type gets its own examples, so a few are many.
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def travelled(task: Task) -> Task:
    return task_from_pb(pb.Task.FromString(task_to_pb(task).SerializeToString()))


# -- there and back ------------------------------------------------------------------------------------------------------


plain_messages = st.builds(
    replace,
    messages,
    parts=st.lists(st.builds(Part, st.just("text"), st.text(max_size=300), st.sampled_from([None, {}])), max_size=3),
)


@relaxed
@given(message=plain_messages | messages)
def test_a_message_that_is_put_together_by_hand_is_what_protobuf_would_have_written(message: Message) -> None:
    assert pb.Message.FromString(encode_message(message)) == MESSAGE.to_pb(message)


@pytest.mark.parametrize("size", [0, 1, 123, 124, 125, 126, 127, 128, 2047, 2048, 16_381, 16_384, 3_000_000])
def test_text_of_every_length_of_its_length_is_put_together_rightly(size: int) -> None:
    message = Message("m" * (size % 5000), "agent", [Part("text", "x" * size), Part("text", "é" * size)], NOON)
    assert pb.Message.FromString(encode_message(message)) == MESSAGE.to_pb(message)


@pytest.mark.parametrize(
    "message",
    [Message(role="robot"), Message(parts=[Part("text", "\ud800")]), Message(timestamp="yesterday")],
    ids=["role", "text", "time"],
)
def test_what_cannot_be_written_is_refused_by_hand_too(message: Message) -> None:
    for write in (MESSAGE.to_pb, encode_message):
        with pytest.raises(InvalidArgumentError):
            write(message)


@relaxed
@given(task=tasks())
def test_every_task_comes_back_equal(task: Task) -> None:
    before = task.to_dict()
    read = travelled(task)
    assert read.to_dict() == before
    assert travelled(read) == read
    assert task.to_dict() == before  # and writing it changed nothing


def test_a_full_task_comes_back_equal() -> None:
    assert travelled(full_task()) == full_task()


def test_every_state_has_one_number_and_the_contract_has_no_other() -> None:
    assert set(STATES) == set(TaskState)
    assert set(STATES.values()) == set(pb.TaskState.values())
    assert [STATES.read(number) for number in STATES.values()] == list(STATES)


def test_every_role_has_one_number_and_the_contract_has_no_other() -> None:
    assert {*ROLES.values(), pb.MESSAGE_ROLE_UNSPECIFIED} == set(pb.MessageRole.values())
    assert {MESSAGE.from_pb(pb.Message(role=number)).role for number in ROLES.values()} == set(ROLES)


def test_a_time_with_an_offset_comes_back_as_the_same_instant_in_utc() -> None:
    message = Message("message", "user", [], "2026-06-12T14:00:00.5+02:00")
    assert MESSAGE.from_pb(MESSAGE.to_pb(message)).timestamp == "2026-06-12T12:00:00.500000+00:00"


def test_the_first_instant_of_1970_is_a_time_like_any_other() -> None:
    epoch = "1970-01-01T00:00:00.000000+00:00"
    task = Task("task", messages=[Message("m", "user", [], epoch)], created_at=epoch)
    assert travelled(task) == task


# -- typed facts in the metadata -----------------------------------------------------------------------------------------


def test_typed_facts_travel_in_their_own_fields_and_not_in_the_metadata() -> None:
    out = task_to_pb(full_task())
    assert out.metadata_json == '{"fact":[1,2.5,null,{"deep":true}]}'
    assert (out.context.run_id, out.context.trace_id) == ("run", "trace")
    assert (out.session_id, out.failure.message) == ("session", "broken")
    assert len(out.state_history) == 1


@pytest.mark.parametrize(
    ("state", "key"),
    [(state, "reject_reason" if state is TaskState.REJECTED else "error") for state in TaskState],
)
def test_the_reason_is_kept_under_the_key_of_its_state(state: TaskState, key: str) -> None:
    task = Task("task", state, metadata={key: "because"})
    out = task_to_pb(task)
    assert (out.failure.message, out.metadata_json) == ("because", "")
    read = task_from_pb(out)
    assert (read.failure, read.metadata[key], dict(read.metadata)) == (Failure(message="because"), "because", {})


def test_that_a_run_was_canceled_is_said_by_the_state_of_its_task_alone() -> None:
    task = Task("task", TaskState.CANCELED)
    RunContext("run", "session", created_at=NOON).cancel("enough").attach_to_task(task)
    out = task_to_pb(task)
    assert (out.state, out.cancel_reason, out.metadata_json) == (pb.TASK_STATE_CANCELED, "enough", "")
    assert travelled(task).to_dict() == task.to_dict()


def test_a_cancellation_that_the_state_does_not_say_stays_among_the_metadata() -> None:
    task = Task("task")
    RunContext("run", "session", created_at=NOON).cancel("enough").attach_to_task(task)
    out = travelled(task)
    assert (out.metadata["canceled"], out.metadata["cancel_reason"]) == (True, "enough")
    assert RunContext.from_task(out) == RunContext.from_task(task)


def test_a_loose_error_of_a_rejected_task_is_no_reject_reason() -> None:
    task = Task("task", TaskState.REJECTED, metadata={"error": "loose", "reject_reason": "not mine"})
    read = travelled(task)
    assert (read.to_dict()["metadata"], read.reason) == (dict(task.metadata), "not mine")


@pytest.mark.parametrize(
    "history",
    [
        None,
        [],
        "a word",
        17,
        {"previous_state": "working"},
        [{}],
        ["submitted"],
        [{"previous_state": "submitted", "new_state": "working"}],
        [{"previous_state": "submitted", "new_state": "sleeping", "timestamp": NOON}],
        [{"previous_state": "submitted", "new_state": "working", "timestamp": "yesterday"}],
        [{"previous_state": "submitted", "new_state": "working", "timestamp": "2026-06-12T12:00:00Z"}],
        [{"previous_state": "submitted", "new_state": "working", "timestamp": NOON, "by": "ada"}],
    ],
)
def test_a_history_of_another_shape_stays_as_it_is(history: Any) -> None:
    task = Task("task", metadata={"state_history": history})
    assert not task_to_pb(task).state_history
    assert travelled(task) == task


def test_a_context_that_is_none_is_refused_when_it_is_written() -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        task_to_pb(Task("task", metadata={"run_context": "no context"}))
    assert refused.value.field == "metadata.run_context"


def test_a_context_keeps_falsy_keys_beside_it() -> None:
    task = Task("task", metadata={"canceled": False, "session_id": None, "trace_id": ""})
    RunContext("run", created_at=NOON).attach_to_task(task)
    assert travelled(task) == task


@pytest.mark.parametrize("loose", [True, False], ids=["repeated", "in the context only"])
def test_the_session_of_a_context_is_in_the_field_where_a_server_looks_for_it(loose: bool) -> None:
    task = Task("task")
    RunContext("run", "of the context", created_at=NOON).attach_to_task(task)
    if not loose:
        task.session_id = None
    assert task_to_pb(task).session_id == "of the context"
    assert travelled(task).session_id == "of the context"


def test_a_session_beside_another_one_in_the_context_wins_again() -> None:
    task = Task("task")
    RunContext("run", "of the context", created_at=NOON).attach_to_task(task)
    task.metadata["session_id"] = "of the task"
    assert travelled(task).to_dict() == task.to_dict()
    assert travelled(task).session_id == "of the task"


# -- what is missing, what is wrong --------------------------------------------------------------------------------------


def test_what_a_sender_leaves_out_is_made() -> None:
    before = utc_now()
    task = task_from_pb(pb.Task(messages=[pb.Message()], artifacts=[pb.Artifact()]))
    assert task.state is TaskState.SUBMITTED
    assert len({task.id, task.messages[0].id, task.artifacts[0].id}) == 3
    assert (task.messages[0].role, task.artifacts[0].kind) == ("user", "result")
    for made in (task.created_at, task.messages[0].timestamp, task.artifacts[0].timestamp):
        assert before <= made <= utc_now()


def test_a_message_of_an_unknown_role_is_refused_when_it_is_written() -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        MESSAGE.to_pb(Message(role="robot"))
    assert refused.value.field == "role"


LATE = {"seconds": 253_402_300_800}


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (pb.Task(metadata_json="[]"), "sent.metadata_json"),
        (pb.Task(flow_state_json="{"), "sent.flow_state_json"),
        (pb.Task(create_time=LATE), "sent.create_time"),
        (pb.Task(messages=[{"create_time": LATE}]), "sent.messages[0].create_time"),
        (pb.Task(artifacts=[{"parts": [{"data": {"json": "{"}}]}]), "sent.artifacts[0].parts[0].data.json"),
        (pb.Task(artifacts=[{"metadata_json": "1"}]), "sent.artifacts[0].metadata_json"),
        (pb.Task(artifacts=[{"create_time": LATE}]), "sent.artifacts[0].create_time"),
        (pb.Task(context=context_pb2.RunContext(permissions={"a": {}})), "sent.context.permissions.a.effect"),
        (
            pb.Task(state_history=[{"previous_state": 1, "new_state": 1, "change_time": LATE}]),
            "sent.state_history[0].change_time",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_contract_does_not_allow_is_refused_by_the_name_of_its_field(message: pb.Task, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        task_from_pb(message, "sent")
    assert refused.value.field == field


@pytest.mark.parametrize("number", [-1, 9, 2**31 - 1])
def test_a_number_that_is_no_state_is_refused_in_a_request(number: int) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        STATES.read_request(number, "states[3]")
    assert refused.value.field == "states[3]"


# -- bounds --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "x", "x" * MAX_ID_BYTES, "é" * (MAX_ID_BYTES // 2), "🦊" * (MAX_ID_BYTES // 4)])
def test_an_id_may_have_as_many_bytes_as_the_contract_says(text: str) -> None:
    assert check_id(text, "id") == text


@pytest.mark.parametrize(
    "text",
    ["x" * (MAX_ID_BYTES + 1), "é" * (MAX_ID_BYTES // 2 + 1), "🦊" * (MAX_ID_BYTES // 4 + 1), "a\nb", "\x00", "\u202e"],
)
def test_an_id_that_is_too_long_or_not_printable_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        check_id(text, "input.task_id")
    assert refused.value.field == "input.task_id"


FULL = pb.TASK_VIEW_FULL
WORDS = [part_pb2.Part(text="x")]


def messages_from_pb(messages: Any, field: str) -> list[Message]:
    return encoded_messages_from_pb(messages, field)[0]


@pytest.mark.parametrize(
    ("read", "item", "most"),
    [(messages_from_pb, pb.Message, MAX_MESSAGES), (artifacts_from_pb, pb.Artifact, MAX_ARTIFACTS)],
    ids=["messages", "artifacts"],
)
def test_a_request_is_held_to_the_bounds_of_the_contract(read: Any, item: Any, most: int) -> None:
    assert len(read([item()] * most, "task.items")) == most
    assert len(read([item(parts=WORDS * MAX_PARTS)], "task.items")[0].parts) == MAX_PARTS
    for sent, field in (
        ([item()] * (most + 1), "task.items"),
        ([item(), item(parts=WORDS * (MAX_PARTS + 1))], "task.items[1].parts"),
        ([item(parts=WORDS * 10_000)], "task.items[0].parts"),
        ([item(parts=WORDS * MAX_PARTS)] * 10 + [item(parts=WORDS)], "task.items"),
    ):
        with pytest.raises(MessageTooLargeError) as refused:
            read(sent, "task.items")
        assert refused.value.field == field
    with pytest.raises(InvalidArgumentError) as refused:
        read([item(), item(id="x" * (MAX_ID_BYTES + 1))], "task.items")
    assert refused.value.field == "task.items[1].id"


def test_an_answer_and_a_log_are_read_however_much_a_task_has_grown() -> None:
    many = [Part("text", "x")] * (MAX_PARTS + 1)
    task = Task(
        "an id that is\nnot printable and " + "long" * 100,
        messages=[Message("m" * 500, "agent", many, NOON)] * (MAX_MESSAGES // 100)
        + [Message(str(number), "agent", [], NOON) for number in range(MAX_MESSAGES)],
        artifacts=[Artifact("a\t", many, timestamp=NOON)]
        + [Artifact(str(number), timestamp=NOON) for number in range(MAX_ARTIFACTS)],
        session_id="s" * 500,
    )
    assert travelled(task) == task


printable_ids = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8)

# -- messages that keep their bytes --------------------------------------------------------------------------------------


@relaxed
@given(sent=st.lists(st.builds(replace, messages, id=printable_ids), max_size=2))
def test_messages_of_a_request_and_their_bytes_say_the_same(sent: list[Message]) -> None:
    values, encoded = encoded_messages_from_pb([MESSAGE.to_pb(message) for message in sent], "input.messages")
    assert values == sent
    assert [MESSAGE.from_pb(pb.Message.FromString(each)) for each in encoded] == sent


def test_what_a_sender_leaves_out_is_the_same_in_the_message_and_in_its_bytes() -> None:
    call = part_pb2.Part(tool_call=part_pb2.ToolCall(tool_name="search"))
    values, encoded = encoded_messages_from_pb([pb.Message(parts=[call, *WORDS]), pb.Message()], "input.messages")
    for _ in range(2):  # each reading is the same reading
        assert [MESSAGE.from_pb(pb.Message.FromString(each)) for each in encoded] == values


def test_bytes_of_a_message_keep_fields_of_a_newer_version() -> None:
    newer = pb.Message(id="m").SerializeToString() + b"\xc2\x3e\x03new"  # field 1000, three bytes
    _, encoded = encoded_messages_from_pb([pb.Message.FromString(newer)], "input.messages")
    assert b"\xc2\x3e\x03new" in encoded[0]


# -- a fold in its views -------------------------------------------------------------------------------------------------


def fold_of(*payloads: Any) -> TaskFold:
    """A fold of these payloads, one a second from second 1 on, of run `run`."""
    fold = TaskFold("task")
    fold.agent_name = "agent"
    for sequence, payload in enumerate(payloads, 1):
        fold.apply(payload, sequence, sequence * 1_000_000, "run")
    return fold


def status(before: TaskState, after: TaskState, **more: Any) -> ev.TaskStatusChanged:
    return ev.TaskStatusChanged(before, after, **more)


@pytest.mark.parametrize("number", [77, 2**31 - 1, -1, -(2**31)])
def test_a_state_of_a_later_version_keeps_its_number_in_all_that_is_encoded_by_hand(number: int) -> None:
    later = STATES.read(number)
    submitted = ev.TaskSubmitted(Task(state=later))
    assert event_pb2.TaskSubmitted.FromString(encode_payload(submitted)).task.state == number
    fold = fold_of(submitted, status(TaskState.WORKING, later), status(later, later))
    answer = pb.Task.FromString(fold_to_bytes(fold, pb.TASK_VIEW_FULL))
    assert answer.state == number
    assert [(each.previous_state, each.new_state) for each in answer.state_history] == [
        (pb.TASK_STATE_WORKING, number),
        (number, number),
    ]


TWO_TURNS = (
    ev.TaskSubmitted(
        Task(
            "task",
            messages=[Message("m1", "user", [], NOON)],
            metadata=dict(FACTS),
            created_at="1970-01-01T00:00:01.000000+00:00",
        ),
        "ada",
    ),
    status(TaskState.SUBMITTED, TaskState.WORKING, attempt=1, context=FULL_CONTEXT),
    ev.TaskArtifactUpdated(replace(FULL_ARTIFACT, id="a1")),
    status(TaskState.WORKING, TaskState.INPUT_REQUIRED),
    ev.TaskMessagesAdded((Message("m2", "user", [], NOON),)),
    status(TaskState.INPUT_REQUIRED, TaskState.WORKING, attempt=2),
    ev.TaskMessagesAdded((Message("m3", "agent", [], NOON),)),
    ev.TaskArtifactUpdated(replace(FULL_ARTIFACT, id="a2")),
    ev.TaskPatched({"patched": 1}, {"step": 2}),
    status(TaskState.WORKING, TaskState.FAILED, failure=Failure("E", "broken")),
)


def test_the_full_view_is_the_whole_task() -> None:
    fold = fold_of(*TWO_TURNS)
    out = fold_to_pb(fold, pb.TASK_VIEW_FULL)
    assert task_from_pb(out) == fold.to_task()
    assert [each.id for each in out.messages] == ["m1", "m2", "m3"]
    assert [each.id for each in out.artifacts] == ["a1", "a2"]
    assert len(out.state_history) == 4
    assert (out.message_count, out.artifact_count) == (3, 2)
    assert (out.sequence, out.run_id, out.agent_name, out.session_id) == (10, "run", "agent", "task")
    assert (out.create_time.seconds, out.update_time.seconds) == (1, 10)
    assert (out.state, out.failure.message) == (pb.TASK_STATE_FAILED, "broken")


@pytest.mark.parametrize("view", [pb.TASK_VIEW_HEADER, pb.TASK_VIEW_TURN, pb.TASK_VIEW_FULL])
def test_a_fold_read_from_its_log_answers_like_the_one_that_wrote_it(view: Any) -> None:
    written, read = fold_of(*TWO_TURNS), TaskFold("task")
    encoder = EventEncoder(task_id="task", run_id="run", session_id="task", agent_name="agent")
    replay(read, [encoder.frame(each, number, number * 1_000_000) for number, each in enumerate(TWO_TURNS, 1)])
    for _ in range(2):  # the second time from the bytes that the first has kept
        assert fold_to_bytes(read, view) == fold_to_bytes(written, view)


def test_the_header_view_has_neither_messages_nor_artifacts_nor_history() -> None:
    out = fold_to_pb(fold_of(*TWO_TURNS), pb.TASK_VIEW_HEADER)
    assert (len(out.messages), len(out.artifacts), len(out.state_history)) == (0, 0, 0)
    assert (out.message_count, out.artifact_count, out.sequence) == (3, 2, 10)


def test_the_view_of_a_turn_has_what_came_since_the_last_interruption() -> None:
    fold = fold_of(*TWO_TURNS)
    out = fold_to_pb(fold, pb.TASK_VIEW_TURN)
    assert [each.id for each in out.messages] == ["m2", "m3"]
    assert [each.id for each in out.artifacts] == ["a2"]
    assert [(change.previous_state, change.new_state) for change in out.state_history] == [
        (pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_WORKING),
        (pb.TASK_STATE_WORKING, pb.TASK_STATE_FAILED),
    ]
    whole = fold_to_pb(fold, pb.TASK_VIEW_FULL)
    assert (out.first_message, out.first_artifact) == (1, 1)
    for name in ("messages", "artifacts", "state_history", "first_message", "first_artifact"):
        out.ClearField(name)
        whole.ClearField(name)
    assert out == whole


def said(name: str, role: str, *parts: Part) -> ev.TaskMessagesAdded:
    return ev.TaskMessagesAdded((Message(name, role, list(parts), NOON),))


def made(name: str, *parts: Part, kind: str = "result", at: str = NOON) -> ev.TaskArtifactUpdated:
    return ev.TaskArtifactUpdated(Artifact(name, list(parts), kind=kind, timestamp=at))


BEFORE_NOON = "2026-01-02T11:59:59.000000+00:00"
DONE, BROKEN = Part("tool_output", ToolOutput("c", result=3)), Part("tool_output", ToolOutput("c", error="no"))


@pytest.mark.parametrize(
    ("added", "output"),
    [
        ([], ""),
        ([said("m2", "user", Part("text", "and?"))], ""),
        ([said("m2", "agent", Part("text", "yes")), said("m3", "user", Part("text", "so?"))], "m2"),
        ([said("m2", "agent", Part("text", "yes")), made("a1", Part("text", "it"))], "a1"),
        ([said("m2", "agent", Part("text", "yes")), made("a1", Part("text", "it"), at=BEFORE_NOON)], "m2"),
        ([said("m2", "agent", Part("text", "yes")), made("a1", Part("text", "it"), kind="preview")], "m2"),
        ([said("m2", "agent", DONE), said("m3", "agent", BROKEN)], "m2"),
        ([said("m2", "agent", Part("status", {"state": "x", "message": None}))], ""),
        ([said("m2", "assistant", Part("infer_output", 3))], "m2"),
    ],
)
def test_an_answer_names_the_message_or_artifact_that_is_the_output(added: list[Any], output: str) -> None:
    fold = fold_of(*TWO_TURNS[:2], *added)
    out = fold_to_pb(fold, pb.TASK_VIEW_FULL)
    assert out.output_id == output
    assert fold_to_pb(fold, pb.TASK_VIEW_HEADER).output_id == ""
    task = fold.to_task()
    items: list[Message | Artifact] = [*task.messages, *task.artifacts]
    wanted = next((each.parts[-1].content for each in items if each.id == output), None)
    assert task.get_output() == (wanted.result if isinstance(wanted, ToolOutput) else wanted)


def test_the_output_of_a_turn_is_not_that_of_an_earlier_one() -> None:
    earlier = [said("m2", "agent", Part("text", "first")), status(TaskState.WORKING, TaskState.INPUT_REQUIRED)]
    again = [said("m3", "user", Part("text", "more")), status(TaskState.INPUT_REQUIRED, TaskState.WORKING, attempt=2)]
    fold = fold_of(*TWO_TURNS[:2], *earlier, *again)
    assert fold_to_pb(fold, pb.TASK_VIEW_FULL).output_id == "m2"
    assert fold_to_pb(fold, pb.TASK_VIEW_TURN).output_id == ""


@pytest.mark.parametrize(
    ("state", "field"),
    [(TaskState.CANCELED, "cancel_reason"), (TaskState.FAILED, "failure"), (TaskState.REJECTED, "failure")],
)
def test_the_reason_of_an_end_is_in_the_field_of_its_state(state: TaskState, field: str) -> None:
    fold = fold_of(TWO_TURNS[0], ev.TaskStatusChanged.because(TaskState.SUBMITTED, state, "because"))
    out = fold_to_pb(fold, pb.TASK_VIEW_FULL)
    assert {each.name for each, _ in out.ListFields()} & {"failure", "cancel_reason"} == {field}
    read = task_from_pb(out)
    assert read == fold.to_task()
    assert read.failure == fold.to_task().failure == fold.failure


@relaxed
@given(failure=whole_failures)
def test_the_whole_failure_of_a_task_comes_back_and_its_message_is_the_reason(failure: Failure) -> None:
    read = travelled(Task("task", TaskState.WORKING).fail(failure))
    assert read.failure == failure
    assert read.metadata.get("error", "") == failure.message


def test_a_reason_that_was_written_into_the_metadata_later_counts() -> None:
    task = Task("task", TaskState.WORKING).fail(Failure("E", "first"))
    task.metadata["error"] = "second"
    assert travelled(task).failure == Failure(message="second")


def test_a_task_and_its_fold_together_leave_no_field_of_the_contract_out() -> None:
    payloads = full_payloads()
    fold = fold_of(
        payloads[ev.TaskSubmitted],
        payloads[ev.TaskStatusChanged],
        status(TaskState.WORKING, TaskState.FAILED, failure=Failure("E", "broken")),
    )
    fold.flow_state = dict(FACTS)
    canceled = Task("task", TaskState.CANCELED, metadata={"cancel_reason": "enough"})
    written = set().union(
        *[fields_set(out) for out in (task_to_pb(full_task()), task_to_pb(canceled), fold_to_pb(fold, FULL))]
    )
    defined = {
        field.full_name
        for message in (pb.Task, pb.Message, pb.Artifact, pb.StateChange)
        for field in message.DESCRIPTOR.fields
    }
    # A log is always whole: no store drops events yet. The others are of tasks that do not fit into one answer.
    of_others = ("first_sequence", "first_message", "first_artifact", "omitted")
    assert defined - written == {f"plgrpc.v1.Task.{name}" for name in of_others}


@relaxed
@given(text=st.text(max_size=3))
def test_the_same_message_is_written_in_the_same_bytes(text: str) -> None:
    message = replace(FULL_MESSAGE, parts=[Part("text", text)])
    assert MESSAGE.to_pb(message).SerializeToString() == MESSAGE.to_pb(replace(message)).SerializeToString()
