"""Arbitrary tasks, events, statuses and frames: read, or refused with the name of the invalid field."""

from collections.abc import Callable
from typing import Any

import pytest
from event_messages import event_to_pb
from google.protobuf.message import DecodeError, Message
from google.rpc import status_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plgrpc.v1 import agent_service_pb2, event_pb2, part_pb2, task_input_pb2, task_pb2
from random_messages import any_fields

from protolink_grpc.edges.grpc.convert import submission_from_pb
from protolink_grpc.errors import InvalidArgumentError, LogTooNewError, MessageTooLargeError, ProtolinkError
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.wire import events, parts, tasks
from protolink_grpc.wire.status import from_status

# Messages are built field by field from their descriptors, which hypothesis finds slow; a shared machine's pauses are no failure.
relaxed = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

Convert = Callable[..., Any]


def event_from_pb(pb: event_pb2.RunEvent, field: str) -> Any:
    """An event has no field of its own above it; its errors are named as if it had."""
    try:
        event = events.event_from_pb(pb)
    except InvalidArgumentError as error:
        raise error.within(field) from None
    event.timestamp = "1970-01-01T00:00:00.000000+00:00"
    return event


READERS: dict[type[Message], tuple[Convert, Convert]] = {
    part_pb2.Part: (parts.part_from_pb, parts.part_to_pb),
    task_pb2.Message: (tasks.MESSAGE.from_pb, tasks.MESSAGE.to_pb),
    task_pb2.Artifact: (tasks.ARTIFACT.from_pb, tasks.ARTIFACT.to_pb),
    task_pb2.Task: (tasks.task_from_pb, tasks.task_to_pb),
    event_pb2.RunEvent: (event_from_pb, lambda event: event_to_pb(event, 0)),
}
each_message = pytest.mark.parametrize("message", READERS, ids=lambda each: each.DESCRIPTOR.name)

PAYLOAD_FIELDS = list(event_pb2.RunEvent.DESCRIPTOR.oneofs_by_name["payload"].fields)


def any_message(message: type[Message]) -> st.SearchStrategy[Message]:
    return any_fields(message.DESCRIPTOR).map(lambda found: message(**found))


def any_payload(name: str) -> st.SearchStrategy[event_pb2.RunEvent]:
    field = event_pb2.RunEvent.DESCRIPTOR.fields_by_name[name]
    return any_fields(field.message_type).map(lambda found: event_pb2.RunEvent(**{name: found}))


def read(message: type[Message], pb: Message) -> Any:
    """The model, or None when it is refused as the sender's mistake; any other error fails the test."""
    try:
        return READERS[message][0](pb, "sent")
    except InvalidArgumentError as error:
        if error.field != "sent" and not error.field.startswith(("sent.", "sent[")):
            pytest.fail(f"names no field of the sender's: {error}")
        return None
    except LogTooNewError:
        return None  # of a format that only a later version writes


def check_stable(message: type[Message], value: Any) -> None:
    """What was read can be written, read again as the same, and written as the same."""
    from_pb, to_pb = READERS[message]
    written = to_pb(value).SerializeToString(deterministic=True)
    again = from_pb(message.FromString(written), "sent")
    assert to_pb(again).SerializeToString(deterministic=True) == written


@each_message
@relaxed
@given(raw=st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(message: type[Message], raw: bytes) -> None:
    try:
        pb = message.FromString(raw)
    except DecodeError:
        return
    read(message, pb)


@each_message
@relaxed
@given(data=st.data())
def test_a_message_of_any_values_is_read_or_refused_and_what_was_read_stays_readable(
    message: type[Message], data: st.DataObject
) -> None:
    value = read(message, data.draw(any_message(message)))
    if value is not None:
        check_stable(message, value)


@pytest.mark.parametrize("name", [field.name for field in PAYLOAD_FIELDS])
@settings(relaxed, max_examples=25)
@given(data=st.data())
def test_a_payload_of_any_values_is_read_or_refused_and_what_was_read_stays_readable(
    name: str, data: st.DataObject
) -> None:
    value = read(event_pb2.RunEvent, data.draw(any_payload(name)))
    if value is not None:
        check_stable(event_pb2.RunEvent, value)


@each_message
@relaxed
@given(data=st.data(), at=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_a_message_with_one_wrong_byte_is_read_or_refused(
    message: type[Message], data: st.DataObject, at: float, byte: int
) -> None:
    raw = bytearray(data.draw(any_message(message)).SerializeToString())
    if raw:
        raw[int(at * len(raw))] = byte
    try:
        pb = message.FromString(bytes(raw))
    except DecodeError:
        return
    read(message, pb)


# -- requests ------------------------------------------------------------------------------------------------------------


@relaxed
@given(data=st.data())
def test_messages_of_any_request_are_read_or_refused_and_their_bytes_stay_readable(data: st.DataObject) -> None:
    sent = agent_service_pb2.SendTaskRequest(input=data.draw(any_message(task_input_pb2.TaskInput)))
    try:
        values, encoded = tasks.encoded_messages_from_pb(sent.input.messages, "input.messages")
        tasks.artifacts_from_pb(sent.input.artifacts, "input.artifacts")
    except InvalidArgumentError as error:
        assert error.field.startswith("input.")  # noqa: PT017 -- refusing is as right as reading
        return
    assert [tasks.MESSAGE.from_pb(task_pb2.Message.FromString(each)) for each in encoded] == values


@relaxed
@given(text=st.text(max_size=200))
def test_any_text_is_an_id_or_refused(text: str) -> None:
    try:
        assert tasks.check_id(text, "input.task_id") == text
    except InvalidArgumentError as error:
        assert error.field == "input.task_id"  # noqa: PT017 -- as above
    else:
        assert len(text.encode()) <= 128


DEEP = '{"a":' * 1000 + "1" + "}" * 1000
WRONG_JSON = [DEEP, "[" * 100_000, "{", "nonsense", '"\\ud800"', "[1,]", "NaN", "\x00"]


@pytest.mark.parametrize("text", WRONG_JSON, ids=lambda text: text[:8])
def test_json_that_is_too_deep_or_none_is_refused_wherever_it_stands(text: str) -> None:
    for sent, field in (
        (task_pb2.Task(metadata_json=text), "sent.metadata_json"),
        (task_pb2.Task(flow_state_json=text), "sent.flow_state_json"),
        (task_pb2.Task(artifacts=[{"metadata_json": text}]), "sent.artifacts[0].metadata_json"),
        (task_pb2.Task(messages=[{"parts": [{"data": {"json": text}}]}]), "sent.messages[0].parts[0].data.json"),
        (task_pb2.Task(context={"metadata_json": text}), "sent.context.metadata_json"),
    ):
        with pytest.raises(InvalidArgumentError) as refused:
            tasks.task_from_pb(sent, "sent")
        assert refused.value.field == field
        assert len(str(refused.value)) < 200  # what was sent is not sent back


@pytest.mark.parametrize("number", [-1, 9, 99, 2**31 - 1, -(2**31)])
def test_numbers_that_an_enum_has_no_name_for_are_refused_in_requests_and_kept_in_answers(number: int) -> None:
    sent = task_pb2.Task(id="t", state=number, messages=[{"id": "m", "role": number, "parts": [{"text": "x"}]}])
    with pytest.raises(InvalidArgumentError) as refused:
        submission_from_pb(agent_service_pb2.SendTaskRequest(input=task_input_pb2.TaskInput(target=number)))
    assert refused.value.field == "input.target"
    with pytest.raises(InvalidArgumentError) as refused:
        tasks.encoded_messages_from_pb(sent.messages, "input.messages")
    assert refused.value.field == "input.messages[0].role"
    kept = tasks.task_to_pb(tasks.task_from_pb(sent))
    assert (kept.state, kept.messages[0].role) == (number, number)


def test_ten_thousand_parts_are_too_many_for_a_request() -> None:
    sent = task_pb2.Task(messages=[{}, {"parts": [{"text": "x"}] * 10_000}], artifacts=[{"parts": [{}] * 10_000}])
    with pytest.raises(MessageTooLargeError) as refused:
        tasks.encoded_messages_from_pb(sent.messages, "input.messages")
    assert refused.value.field == "input.messages[1].parts"
    with pytest.raises(MessageTooLargeError) as refused:
        tasks.artifacts_from_pb(sent.artifacts, "input.artifacts")
    assert refused.value.field == "input.artifacts[0].parts"


def test_ten_thousand_messages_are_too_many_for_a_request() -> None:
    sent = task_pb2.Task(messages=[{}] * 10_000, artifacts=[{}] * 10_000)
    for read_all, items in ((tasks.encoded_messages_from_pb, sent.messages), (tasks.artifacts_from_pb, sent.artifacts)):
        with pytest.raises(MessageTooLargeError) as refused:
            read_all(items, "task.items")
        assert refused.value.field == "task.items"


# -- frames and logs -----------------------------------------------------------------------------------------------------


@relaxed
@given(raw=st.binary(max_size=100) | st.binary(max_size=100).map(b"\x0a".__add__))
def test_any_bytes_are_a_frame_or_refused(raw: bytes) -> None:
    for use in (events.event_from_frame, events.is_final, events.settles, events.unframe):
        try:
            use(raw)
        except (DecodeError, InvalidArgumentError):
            pass


@relaxed
@given(sent=st.lists(any_message(event_pb2.RunEvent), max_size=4))
def test_a_log_of_any_events_is_folded_or_refused(sent: list[Any]) -> None:
    fold = TaskFold("task")
    try:
        events.replay(fold, map(events.frame_event, sent))
    except InvalidArgumentError:
        return
    for view in task_pb2.TaskView.values():
        tasks.fold_to_bytes(fold, view)
    fold.to_task().to_dict()


# -- statuses ------------------------------------------------------------------------------------------------------------


@relaxed
@given(raw=st.binary(max_size=100))
def test_any_status_is_an_error_of_ours(raw: bytes) -> None:
    try:
        status = status_pb2.Status.FromString(raw)
    except DecodeError:
        return
    assert isinstance(from_status(status), ProtolinkError)
