"""Run events as bytes: every kind is read back, frames equal protobuf's encoding, and unknown kinds are kept."""

import itertools
from dataclasses import replace
from typing import Any, get_args

import pytest
from event_messages import event_to_pb
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plgrpc.v1 import agent_service_pb2, payload_pb2, task_pb2
from plgrpc.v1 import event_pb2 as pb
from wire_values import (
    NOON,
    PAYLOADS,
    as_written,
    events,
    fields_defined,
    fields_set,
    full_event,
    full_payloads,
    full_task,
    micros,
    texts,
)

from protolink_grpc.errors import InvalidArgumentError, LogTooNewError
from protolink_grpc.models import BudgetDecision, BudgetEffect, Message, TaskState
from protolink_grpc.models import events as ev
from protolink_grpc.models.clock import iso_from_micros, micros_from_iso
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import TERMINAL
from protolink_grpc.models.summaries import MAX_SUMMARY, summary_of
from protolink_grpc.wire.events import (
    SEVERITIES,
    EventEncoder,
    encode_envelope,
    event_from_frame,
    event_from_pb,
    frame_event,
    is_final,
    replay,
    settles,
    unframe,
)
from protolink_grpc.wire.payloads import FIELDS, LOG_FORMAT, payload_from_pb, payload_to_pb

# A shared machine's pauses are no failure; each kind or type gets its own examples, so a few are many.
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
each_kind = pytest.mark.parametrize("kind", list(PAYLOADS), ids=lambda kind: kind.__name__)

ENCODER = EventEncoder(task_id="task", run_id="run", session_id="session", agent_name="agent")


def alone(payload: Any) -> ev.RunEvent:
    """The event that `ENCODER` makes of a payload at the epoch."""
    return ev.RunEvent(payload=payload, task_id="task", run_id="run", timestamp=iso_from_micros(0))


def payload_field(event: pb.RunEvent) -> str:
    return str(event.WhichOneof("payload"))


# -- totality ------------------------------------------------------------------------------------------------------------


def test_every_kind_of_payload_has_a_type_and_a_field() -> None:
    kinds = set(get_args(ev.Payload))
    assert set(ev.TYPES) == kinds - {ev.ActionEnded, ev.BudgetReported}, "their types follow from what they say"
    assert set(FIELDS) == {*kinds, dict}
    assert set(PAYLOADS) == set(full_payloads()) == {*kinds, dict}


def test_every_payload_field_of_the_contract_is_written_by_some_kind() -> None:
    fields = {field.name for field in pb.RunEvent.DESCRIPTOR.oneofs_by_name["payload"].fields}
    assert set(FIELDS.values()) == fields


def test_no_two_kinds_share_a_type() -> None:
    assert len(set(ev.TYPES.values())) == len(ev.TYPES)


def test_full_events_leave_no_field_of_the_contract_out() -> None:
    written: set[str] = set()
    for payload in full_payloads().values():
        written |= fields_set(event_to_pb(full_event(payload), micros_from_iso(NOON)))
    only_in_answers = {
        f"plgrpc.v1.Task.{name}"
        for name in (
            "update_time",
            "run_id",
            "sequence",
            "agent_name",
            "message_count",
            "artifact_count",
            "output_id",
            "first_message",
            "first_artifact",
            "omitted",
            # The unit tests of wire.tasks have these.
            "failure",
            "cancel_reason",
            "usage",
            "state_history",
        )
    }
    # Test_wire_values has the forms of a payload, test_wire_tasks the state changes of a task.
    values = ("plgrpc.v1.Payload", "plgrpc.v1.TypedMessage", "plgrpc.v1.StateChange")
    defined = {name for name in fields_defined(pb.RunEvent.DESCRIPTOR) if not name.startswith(values)}
    assert defined - written == {
        # A submitted task is written by the caller; what the log itself says is not repeated in it.
        *only_in_answers,
        # For later versions: nothing of this one sets them.
        "plgrpc.v1.Part.fallback_text",
        "plgrpc.v1.Task.first_sequence",
    }


# -- there and back ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ev.ApprovalRequired, ev.LlmStep, dict])
@relaxed
@given(data=st.data())
def test_a_payload_that_is_not_converted_by_a_codec_alone_comes_back_equal(kind: type, data: st.DataObject) -> None:
    payload = data.draw(PAYLOADS[kind])
    event = unframe(ENCODER.frame(payload, 1, 0))
    assert payload_from_pb(event) == as_written(alone(payload)).payload


@each_kind
def test_every_full_payload_comes_back_equal_and_of_its_class(kind: type) -> None:
    payload = full_payloads()[kind]
    event = unframe(ENCODER.frame(payload, 1, 0))
    back = payload_from_pb(event)
    assert payload_field(event) == FIELDS[kind]
    assert back == as_written(alone(payload)).payload
    assert type(back) is kind


@relaxed
@given(event=events)
def test_every_event_comes_back_equal_with_its_envelope(event: ev.RunEvent) -> None:
    moment = micros_from_iso(event.timestamp)
    encoder = EventEncoder(
        task_id=event.task_id, run_id=event.run_id, session_id=event.session_id, agent_name=event.agent_name
    )
    frame = encoder.frame(
        event.payload,
        event.sequence or 0,
        moment,
        type=event.type,
        final=event.final,
        envelope=encode_envelope(event),
    )
    summarized = replace(as_written(event), summary=event.summary or summary_of(event.payload))
    assert event_from_frame(frame) == summarized
    assert event_from_pb(pb.RunEvent.FromString(event_to_pb(event, moment).SerializeToString())) == summarized
    assert is_final(frame) is event.final


@each_kind
def test_a_payload_without_a_type_gets_its_usual_one(kind: type) -> None:
    frame = ENCODER.frame(full_payloads()[kind], 1, 0)
    assert (
        unframe(frame).event_type
        == ev.type_of(full_payloads()[kind])
        == ev.RunEvent(payload=full_payloads()[kind]).type
    )


def test_a_dictionary_of_another_class_is_a_payload_like_any() -> None:
    class Ordered(dict[str, Any]):
        pass

    event = unframe(ENCODER.frame(Ordered(a=1), 1, 0, type="app.fact"))
    assert payload_from_pb(event) == {"a": 1}
    assert event.event_type == "app.fact"


def test_a_first_sequence_that_is_missing_is_none() -> None:
    assert event_from_pb(pb.RunEvent()).sequence is None
    assert event_from_pb(pb.RunEvent(sequence=1)).sequence == 1


@pytest.mark.parametrize(("number", "severity"), [(0, "info"), (77, "info"), *[(n, s) for s, n in SEVERITIES.items()]])
def test_a_severity_that_is_unset_or_unknown_is_info(number: int, severity: str) -> None:
    assert event_from_pb(pb.RunEvent(severity=number)).severity == severity


# -- what happened is in the payload -------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["completed", "failed", "denied", "rejected", "canceled"])
def test_the_type_of_an_ended_action_follows_from_its_outcome(outcome: str) -> None:
    ended = ev.ActionEnded("tool.call", "add", outcome=outcome)
    event = unframe(ENCODER.frame(ended, 1, 0))
    assert event.event_type == ev.RunEvent(payload=ended).type == f"action.{outcome}"
    assert pb.ActionOutcome.Name(event.action_ended.outcome) == f"ACTION_OUTCOME_{outcome.upper()}"


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        ("completed", "action.failed"),
        ("failed", "action.completed"),
        ("denied", "action.of_later"),
        ("completed", "unknown"),
        ("unknown-77", "action.completed"),
    ],
)
def test_a_type_that_contradicts_the_outcome_is_not_written(outcome: str, kind: str) -> None:
    event = ev.RunEvent(kind, ev.ActionEnded("tool.call", "add", outcome=outcome))
    with pytest.raises(InvalidArgumentError) as refused:
        event_to_pb(event, 0)
    assert refused.value.field == "type"
    with pytest.raises(InvalidArgumentError):
        ENCODER.frame(event.payload, 1, 0, type=kind)


@pytest.mark.parametrize("outcome", ["", "done", "unknown-", "UNKNOWN-7"])
def test_an_outcome_that_is_none_is_not_written(outcome: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        ENCODER.frame(ev.ActionEnded("tool.call", "add", outcome=outcome), 1, 0)
    assert refused.value.field == "outcome"


def test_an_outcome_of_a_later_version_is_kept_shown_and_passed_on() -> None:
    later = pb.RunEvent(sequence=1, event_type="action.parked", action_ended={"name": "add", "outcome": 77})  # type: ignore[dict-item]  # on purpose
    read = event_from_pb(later)
    assert isinstance(read.payload, ev.ActionEnded)
    assert (read.type, read.payload.outcome) == ("action.parked", "unknown-77")
    assert summary_of(read.payload) == "Action unknown-77: add"
    assert ev.RunEvent.from_dict(read.to_dict()) == read
    again = event_to_pb(read, 0)
    assert (again.event_type, again.action_ended) == ("action.parked", later.action_ended)


def test_the_payload_counts_where_the_type_of_another_writer_says_something_else() -> None:
    event = pb.RunEvent(event_type="action.completed", action_ended={"outcome": pb.ACTION_OUTCOME_DENIED})
    read = event_from_pb(event)
    assert isinstance(read.payload, ev.ActionEnded)
    assert read.payload.outcome == "denied"


@pytest.mark.parametrize(("kind", "outcome"), [("action.denied", "denied"), ("", "unknown-0"), ("own", "unknown-0")])
def test_a_log_from_before_outcomes_names_them_in_its_types(kind: str, outcome: str) -> None:
    read = event_from_pb(pb.RunEvent(event_type=kind, action_ended=pb.ActionEnded(name="add")))
    assert isinstance(read.payload, ev.ActionEnded)
    assert read.payload.outcome == outcome


def test_an_event_without_a_type_gets_that_of_its_payload() -> None:
    assert event_from_pb(pb.RunEvent(action_ended={"outcome": pb.ACTION_OUTCOME_FAILED})).type == "action.failed"
    assert event_from_pb(pb.RunEvent(task_progress=pb.TaskProgress())).type == "task.progress"


@pytest.mark.parametrize(
    ("effect", "kind"),
    [
        *((effect, "budget.exceeded" if effect == "deny" else "budget.warning") for effect in BudgetEffect),
        (BudgetEffect("unknown-77"), "budget.warning"),
    ],
)
def test_the_type_of_a_budget_report_follows_from_its_effect(effect: BudgetEffect, kind: str) -> None:
    payload = ev.BudgetReported(BudgetDecision(effect))
    event = unframe(ENCODER.frame(payload, 1, 0))
    assert event.event_type == ev.RunEvent(payload=payload).type == kind
    assert payload_from_pb(event) == payload


@pytest.mark.parametrize(("cause", "number"), [("", 0), ("submitted", 1), ("continued", 2), ("recovered", 3)])
def test_why_a_run_begins_is_a_number_of_the_contract(cause: str, number: int) -> None:
    payload = ev.TaskStatusChanged(TaskState.WORKING, TaskState.WORKING, attempt=2, cause=cause)
    event = unframe(ENCODER.frame(payload, 1, 0))
    assert event.task_status.run.cause == number
    assert payload_from_pb(event) == payload


def test_a_cause_of_a_later_version_is_kept_and_another_text_is_refused() -> None:
    later = pb.RunEvent(task_status=pb.TaskStatusChanged(run={"cause": 77}))  # type: ignore[arg-type]  # on purpose
    read = payload_from_pb(later)
    assert isinstance(read, ev.TaskStatusChanged)
    assert read.cause == "unknown-77"
    assert payload_to_pb(read).run.cause == 77
    with pytest.raises(InvalidArgumentError) as refused:
        ENCODER.frame(replace(read, cause="because"), 1, 0)
    assert refused.value.field == "cause"


# -- frames --------------------------------------------------------------------------------------------------------------


@relaxed
@given(
    payload=st.one_of(*PAYLOADS.values()),
    sequence=st.integers(0, 2**63 - 1),
    moment=micros,
    kind=texts,
    final=st.booleans(),
    names=st.tuples(texts, texts, texts, texts),
)
def test_a_frame_is_what_protobuf_itself_would_have_read(
    payload: Any, sequence: int, moment: int, kind: str, final: bool, names: tuple[str, str, str, str]
) -> None:
    task_id, run_id, session_id, agent_name = names
    if isinstance(payload, ev.ActionEnded):
        kind = ""  # its own type only
    encoder = EventEncoder(task_id=task_id, run_id=run_id, session_id=session_id, agent_name=agent_name)
    expected = pb.RunEvent(
        task_id=task_id,
        run_id=run_id,
        session_id=session_id,
        agent_name=agent_name,
        sequence=sequence,
        event_type=kind or ev.type_of(payload),
        last=final,
        must_understand=type(payload) in ev.MUST_UNDERSTAND,
        summary=summary_of(payload),
        **{FIELDS[type(payload)]: payload_to_pb(payload)},
    )
    expected.create_time.FromMicroseconds(moment)
    for _ in range(2):  # the second time with what the encoder and the payload have kept
        frame = encoder.frame(payload, sequence, moment, type=kind, final=final)
        assert unframe(frame).SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)
        assert agent_service_pb2.SubscribeTaskResponse.FromString(frame).events[0].sequence == sequence


@pytest.mark.parametrize("sequence", [2047, 2048, (1 << 14) - 1, 1 << 14, (1 << 21) - 1, 1 << 21])
@pytest.mark.parametrize("percent", [None, 0, 0.0, 33.25, 100])
@pytest.mark.parametrize(
    "message", ["", "half way", "ä" * MAX_SUMMARY, "x" * (MAX_SUMMARY + 1), "two\nlines", "x" * 3000, "\x00"]
)
def test_a_report_of_progress_is_encoded_in_one_step_like_any_other_event(
    sequence: int, percent: float | None, message: str
) -> None:
    payload = ev.TaskProgress(percent, message)
    event = unframe(ENCODER.frame(payload, sequence, 0))
    assert event.sequence == sequence
    assert event.event_type == "task.progress"
    assert event.summary == summary_of(payload)
    assert event.task_progress == payload_to_pb(payload)


@relaxed
@given(payloads=st.lists(st.one_of(*PAYLOADS.values()), max_size=4))
def test_frames_end_to_end_are_the_body_of_an_answer(payloads: list[Any]) -> None:
    frames = [ENCODER.frame(payload, number, number) for number, payload in enumerate(payloads, 1)]
    answer = agent_service_pb2.SubscribeTaskResponse.FromString(b"".join(frames))
    assert [event.SerializeToString(deterministic=True) for event in answer.events] == [
        unframe(frame).SerializeToString(deterministic=True) for frame in frames
    ]
    assert [event.sequence for event in answer.events] == list(range(1, len(payloads) + 1))


def test_answers_with_events_have_them_where_frames_put_them() -> None:
    for answer in (agent_service_pb2.SubscribeTaskResponse, agent_service_pb2.StreamTaskResponse):
        field = answer.DESCRIPTOR.fields_by_name["events"]
        assert (field.number, field.message_type.full_name, field.is_repeated) == (1, "plgrpc.v1.RunEvent", True)


@pytest.mark.parametrize("size", [0, 1, 100, 127, 128, 129, 16_383, 16_384, 20_000, 3_000_000])
def test_frames_of_every_length_of_their_length_are_read(size: int) -> None:
    payload = ev.TaskProgress(None, "x" * size)
    frame = ENCODER.frame(payload, 1, 1)
    assert event_from_frame(frame).payload == payload
    assert len(agent_service_pb2.SubscribeTaskResponse.FromString(frame * 2).events) == 2


@pytest.mark.parametrize("moment", [0, -1, 1, -62_135_596_800_000_000, 253_402_300_799_999_999, 1_781_265_600_000_001])
def test_every_time_is_written_as_it_is(moment: int) -> None:
    encoder = EventEncoder(task_id="task", run_id="run", session_id="session", agent_name="agent")
    assert event_from_frame(encoder.frame({}, 1, moment)).timestamp == iso_from_micros(moment)


def test_an_encoder_writes_each_events_own_time() -> None:
    times = [5, 5, 6, 5, 0, 0, 7]
    assert [event_from_frame(ENCODER.frame({}, 1, each)).timestamp for each in times] == list(
        map(iso_from_micros, times)
    )


def test_a_type_may_be_any_text() -> None:
    for kind in ("x", "x" * 300, "Größe.geändert", "🦊"):
        assert unframe(ENCODER.frame({}, 1, 1, type=kind)).event_type == kind


def test_a_message_becomes_a_frame_and_a_frame_the_message() -> None:
    for payload in full_payloads().values():
        event = event_to_pb(full_event(payload), micros_from_iso(NOON))
        assert unframe(frame_event(event)) == event


@pytest.mark.parametrize("raw", [b"", b"\x0a", b"\x0a\xff", b"\x0a\x80\x80", b"\x0a\x02\x0a\xff", b"\x0a\x01\xff"])
def test_bytes_that_are_no_frame_are_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        unframe(raw)


# -- kinds of a newer version --------------------------------------------------------------------------------------------


def field_bytes(number: int, value: bytes) -> bytes:
    tag = number << 3 | 2
    return bytes([tag & 0x7F | 0x80, tag >> 7, len(value)]) + value


@pytest.mark.parametrize("number", [200, 201, 999])
def test_an_unknown_kind_is_shown_by_its_type_and_its_summary(number: int) -> None:
    known = pb.RunEvent(task_id="task", sequence=7, event_type="future.fact", summary="something new", last=True)
    raw = known.SerializeToString() + field_bytes(number, b"whatever this is")
    frame = b"\x0a" + bytes([len(raw)]) + raw
    event = event_from_frame(frame)
    assert event.payload is None
    assert (event.type, event.summary, event.sequence, event.final) == ("future.fact", "something new", 7, True)
    assert is_final(frame)
    assert frame_event(unframe(frame))[2:].endswith(field_bytes(number, b"whatever this is"))


def test_a_fold_goes_past_an_unknown_kind() -> None:
    fold = TaskFold("task")
    newer = pb.RunEvent(sequence=2, event_type="future.fact").SerializeToString() + field_bytes(200, b"?")
    replay(
        fold,
        [
            ENCODER.frame(ev.TaskSubmitted(full_task(), "ada"), 1, 1_000),
            b"\x0a" + bytes([len(newer)]) + newer,
            ENCODER.frame(ev.TaskPatched({"after": True}), 3, 3_000),
        ],
    )
    assert fold.sequence == 3
    assert fold.metadata["after"] is True


def test_a_fold_stops_at_an_unknown_kind_that_must_be_understood() -> None:
    fold = TaskFold("task")
    newer = pb.RunEvent(task_id="task", sequence=2, event_type="task.archived", must_understand=True)
    raw = newer.SerializeToString() + field_bytes(200, b"?")
    with pytest.raises(LogTooNewError, match=r"event 2 of task task \(task\.archived\)"):
        replay(
            fold,
            [ENCODER.frame(ev.TaskSubmitted(full_task(), "ada"), 1, 1_000), b"\x0a" + bytes([len(raw)]) + raw],
        )
    assert fold.sequence == 1


def test_a_reader_stops_at_a_run_whose_events_have_a_later_format() -> None:
    begins = pb.TaskStatusChanged(run={"attempt": 1, "log_format": LOG_FORMAT + 1})
    later = pb.RunEvent(task_id="task", sequence=2, event_type="task.status", task_status=begins)
    fold = TaskFold("task")
    with pytest.raises(LogTooNewError, match=r"event 2 of task task \(task\.status\)"):
        replay(fold, [ENCODER.frame(ev.TaskSubmitted(full_task(), "ada"), 1, 1_000), frame_event(later)])
    assert fold.sequence == 1
    with pytest.raises(LogTooNewError):
        event_from_pb(later)


def test_a_run_begins_in_the_format_that_this_version_writes_and_no_other_status_names_one() -> None:
    begins = payload_to_pb(ev.TaskStatusChanged(TaskState.SUBMITTED, TaskState.WORKING, attempt=1, cause="submitted"))
    assert begins.run.log_format == LOG_FORMAT == 1
    assert not payload_to_pb(ev.TaskStatusChanged(TaskState.WORKING, TaskState.COMPLETED)).HasField("run")


@pytest.mark.parametrize("counts", [*itertools.product((None, 0), repeat=4), (4, 3, 2, 1)])
def test_numbers_of_tokens_that_the_provider_did_not_report_are_unset(counts: tuple[int | None, ...]) -> None:
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")
    call = ev.LlmCallCompleted("call", **dict(zip(names, counts, strict=True)))  # type: ignore[arg-type]  # counts only
    encoded = payload_to_pb(call)
    assert encoded.HasField("usage") is any(count is not None for count in counts)
    assert [encoded.usage.HasField(name) for name in names] == [count is not None for count in counts]
    assert payload_from_pb(unframe(ENCODER.frame(call, 1, 0))) == call


def test_states_and_roles_of_a_later_version_are_kept_and_passed_on() -> None:
    event = pb.RunEvent(
        sequence=1,
        event_type="task.status",
        create_time={"seconds": 1},
        task_status=pb.TaskStatusChanged(previous_state=task_pb2.TASK_STATE_WORKING),
    )
    event.task_status.new_state = 77  # type: ignore[assignment]  # what a newer peer may write
    read = event_from_pb(event)
    assert isinstance(read.payload, ev.TaskStatusChanged)
    assert (read.state, read.payload.new_state in TERMINAL) == ("unknown-77", False)
    assert ev.RunEvent.from_dict(read.to_dict()) == read
    again = event_to_pb(read, 1_000_000)
    assert again.task_status == event.task_status
    said = pb.RunEvent(
        task_messages=pb.TaskMessagesAdded(messages=[task_pb2.Message(id="m", create_time={"seconds": 1})])
    )
    said.task_messages.messages[0].role = 9  # type: ignore[assignment]  # as above
    payload = payload_from_pb(said)
    assert isinstance(payload, ev.TaskMessagesAdded)
    assert payload.messages[0].role == "unknown-9"
    assert payload_to_pb(payload) == said.task_messages


def test_an_event_without_a_payload_stays_without_one() -> None:
    event = full_event(None)
    event.type = "future.fact"
    assert event_from_pb(event_to_pb(event, micros_from_iso(NOON))) == event


def test_an_event_without_a_type_is_of_an_unknown_one() -> None:
    assert event_from_pb(pb.RunEvent()).type == "unknown"


# -- folding from frames -------------------------------------------------------------------------------------------------


def test_a_log_that_is_read_says_what_its_writer_knew() -> None:
    payloads = full_payloads()
    facts = [payloads[ev.TaskSubmitted], *[each for kind, each in payloads.items() if kind is not ev.TaskSubmitted]]
    written, read = TaskFold("task"), TaskFold("task")
    written.agent_name = "agent"
    frames, about = [], encode_envelope(ev.RunEvent("", action_id="action"))
    for sequence, fact in enumerate(facts, 1):
        frames.append(ENCODER.frame(fact, sequence, sequence * 1_000, envelope=about))
        written.apply(fact, sequence, sequence * 1_000, "run", "action")
    replay(read, frames[:5])
    replay(read, frames[5:])
    for name in TaskFold.__slots__:
        if name not in ("encoded", "references"):  # bytes for the next reading; what later events may refer to
            assert getattr(read, name) == getattr(written, name), name
    assert read.to_task() == written.to_task()


def changed(state: TaskState) -> bytes:
    return ENCODER.frame(
        ev.TaskStatusChanged(TaskState.WORKING, state), 5, 5, final=state in (TaskState.COMPLETED, TaskState.FAILED)
    )


@pytest.mark.parametrize(
    ("frame", "settled"),
    [
        (changed(TaskState.INPUT_REQUIRED), True),
        (changed(TaskState.AUTH_REQUIRED), True),
        (changed(TaskState.COMPLETED), True),
        (changed(TaskState.FAILED), True),
        (changed(TaskState.WORKING), False),
        (ENCODER.frame(ev.TaskMessagesAdded((Message.user("x"),)), 5, 5), False),
        (ENCODER.frame({}, 5, 5), False),
        (ENCODER.frame({}, 5, 5, final=True), True),
    ],
)
def test_a_task_settles_when_it_ends_or_waits_for_someone(frame: bytes, settled: bool) -> None:
    assert settles(frame) is settled


# -- payloads of others --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (pb.RunEvent(task_patched=pb.TaskPatched(metadata_json="[]")), "task_patched.metadata_json"),
        (pb.RunEvent(action_requested=pb.ActionRequested()), "action_requested.action.kind"),
        (pb.RunEvent(approval_required=pb.ApprovalRequired()), "approval_required.approval_id"),
        (pb.RunEvent(approval_decided=pb.ApprovalDecided()), "approval_decided.approval_id"),
        (
            pb.RunEvent(action_started=pb.ActionStarted(edited_arguments=payload_pb2.Payload(json="1"))),
            "action_started.edited_arguments.json",
        ),
        (pb.RunEvent(action_ended=pb.ActionEnded(result={"json": "{"})), "action_ended.result.json"),
        (
            pb.RunEvent(task_status=pb.TaskStatusChanged(failure={"cause": {"details": {"json": "{"}}})),
            "task_status.failure",
        ),
        (pb.RunEvent(custom=pb.CustomEvent(payload={"json": "{"})), "custom.payload.json"),
        (pb.RunEvent(metadata_json="[]"), "metadata_json"),
        (pb.RunEvent(create_time={"nanos": -1}), "create_time"),
        (pb.RunEvent(sequence=-1), "sequence"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_contract_does_not_allow_is_refused_by_the_name_of_its_field(event: pb.RunEvent, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        event_from_pb(event)
    assert refused.value.field == field or refused.value.field.startswith(f"{field}.")


# -- summaries -----------------------------------------------------------------------------------------------------------


@each_kind
def test_every_kind_of_event_has_a_summary_of_one_line(kind: type) -> None:
    payload = full_payloads()[kind]
    summary = event_from_frame(ENCODER.frame(payload, 1, 0)).summary
    assert summary == summary_of(payload)
    assert (summary == "") is (kind is dict)
    assert len(summary) <= MAX_SUMMARY
    assert summary.isprintable()


@pytest.mark.parametrize(
    ("payload", "kind", "expected"),
    [
        (ev.TaskStatusChanged(TaskState.SUBMITTED, TaskState.WORKING), "", "Task state changed to working"),
        (
            ev.TaskStatusChanged(TaskState.WORKING, TaskState.FAILED, Failure(message="broken")),
            "",
            "Task finished with state failed: broken",
        ),
        (ev.TaskProgress(40.0), "", "Task progress 40%"),
        (ev.TaskProgress(), "", "Task progress"),
        (ev.TaskProgress(40.0, "half\nway"), "", "half way"),
        (ev.TaskProgress(None, "x" * 1000), "", "x" * (MAX_SUMMARY - 1) + "…"),
        (ev.ActionStarted("tool.call", "add"), "", "Action started: add"),
        (ev.ActionEnded("tool.call", "add", 3), "", "Action completed: add"),
        (ev.ActionEnded("tool.call", "add", error={"message": "no"}, outcome="failed"), "", "Action failed: add: no"),
        (ev.TaskErrorReported(Failure("E", "it broke")), "", "it broke"),
        ({"own": 1}, "app.fact", ""),
    ],
)
def test_summaries_say_what_happened(payload: Any, kind: str, expected: str) -> None:
    assert event_from_frame(ENCODER.frame(payload, 1, 0, type=kind)).summary == expected


def test_the_summary_of_the_writer_counts() -> None:
    event = ev.RunEvent(payload=ev.TaskProgress(40.0), summary="nearly there")
    assert (
        event_from_frame(ENCODER.frame(event.payload, 1, 0, envelope=encode_envelope(event))).summary == "nearly there"
    )
