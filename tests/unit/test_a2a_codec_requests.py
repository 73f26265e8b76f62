"""Requests of A2A in JSON and protobuf: both are read the same, and errors name the field in the spelling of the sender."""

from typing import Any

import pytest
from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc import TaskState
from protolink_grpc.a2a import json_codec, pb_codec
from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError
from protolink_grpc.models.push_config import PushConfig

MESSAGE = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}

ids = st.text("abc-ü1", min_size=1, max_size=6)
small = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)
objects = st.dictionaries(st.text(max_size=4), small, max_size=3)
parts = st.one_of(
    st.fixed_dictionaries(
        {"text": st.text(max_size=4)}, optional={"metadata": objects, "mediaType": ids, "filename": ids}
    ),
    st.fixed_dictionaries({"data": small}, optional={"metadata": objects, "mediaType": ids}),
    st.fixed_dictionaries({"url": st.text(max_size=4)}, optional={"filename": ids}),
    st.fixed_dictionaries({"raw": st.sampled_from(["", "aGk=", "aGk"])}, optional={"mediaType": ids}),
)
messages = st.fixed_dictionaries(
    {
        "messageId": ids,
        "role": st.sampled_from(["ROLE_USER", "ROLE_AGENT"]),
        "parts": st.lists(parts, min_size=1, max_size=3),
    },
    optional={
        "contextId": ids | st.just(""),
        "taskId": ids,
        "metadata": objects,
        "extensions": st.lists(ids, max_size=2),
        "referenceTaskIds": st.lists(ids, max_size=2),
    },
)
push_configs = st.fixed_dictionaries(
    {"url": ids},
    optional={
        "id": ids,
        "taskId": ids,
        "token": ids,
        "tenant": ids,
        "authentication": st.fixed_dictionaries({"scheme": ids}, optional={"credentials": ids}),
    },
)
configurations = st.fixed_dictionaries(
    {},
    optional={
        "acceptedOutputModes": st.lists(ids, max_size=2),
        "historyLength": st.integers(0, 2**31 - 1),
        "returnImmediately": st.booleans(),
        "taskPushNotificationConfig": push_configs,
    },
)
sends = st.fixed_dictionaries(
    {"message": messages}, optional={"tenant": ids, "metadata": objects, "configuration": configurations}
)
lists = st.fixed_dictionaries(
    {},
    optional={
        "tenant": ids,
        "contextId": ids,
        "status": st.sampled_from([name for name in json_codec.STATES.values() if "UNSPECIFIED" not in name]),
        "pageSize": st.integers(1, 100),
        "pageToken": st.text(max_size=4),
        "historyLength": st.integers(0, 2**31 - 1),
        "statusTimestampAfter": st.sampled_from(
            ["2026-01-07T09:22:57Z", "2026-01-07T09:22:57.123456789+01:30", "1969-01-01T00:00:00Z"]
        ),
        "includeArtifacts": st.booleans(),
    },
)


def snake(found: Any) -> Any:
    """The same request with the other spelling of its fields; what is inside of metadata and data is left alone."""
    if isinstance(found, list):
        return [snake(each) for each in found]
    if not isinstance(found, dict):
        return found
    return {
        "".join(f"_{each.lower()}" if each.isupper() else each for each in key): each
        if key in ("metadata", "data")
        else snake(each)
        for key, each in found.items()
    }


def told(params: Any) -> Any:
    """A value without the time at which its message was read."""
    params.message.timestamp = ""
    return params


# -- both codecs ---------------------------------------------------------------------------------------------------------


@given(sends)
def test_both_codecs_and_both_spellings_read_the_same_request(found):
    request = json_format.ParseDict(found, pb.SendMessageRequest())
    expected = told(json_codec.send_params(found))
    assert told(pb_codec.send_params_from_pb(request)) == expected
    assert told(json_codec.send_params(snake(found))) == expected


@given(lists)
def test_both_codecs_and_both_spellings_read_the_same_list(found):
    expected = json_codec.list_params(found)
    assert pb_codec.list_params_from_pb(json_format.ParseDict(found, pb.ListTasksRequest())) == expected
    assert json_codec.list_params(snake(found)) == expected


def test_a_query_is_a_list_request_in_text():
    found = json_codec.list_params(
        {"pageSize": "7", "historyLength": "0", "includeArtifacts": "true", "status": "TASK_STATE_WORKING"}
    )
    assert (found.page_size, found.history_length, found.include_artifacts) == (7, 0, True)
    assert found.state is TaskState.WORKING


def test_what_is_not_said_has_its_default():
    found = json_codec.list_params({})
    assert found == pb_codec.list_params_from_pb(pb.ListTasksRequest())
    assert (found.page_size, found.history_length, found.updated_after_micros) == (None, None, 0)
    params = json_codec.send_params({"message": MESSAGE, "configuration": None, "metadata": None, "unknown": 1})
    assert not params.return_immediately
    assert params.push is None
    assert params.history_length is None


def test_the_fields_of_a_request_arrive_where_they_belong():
    params = json_codec.send_params(
        {
            "tenant": "ten",
            "message": MESSAGE | {"contextId": "c", "taskId": "t"},
            "metadata": {"k": 1},
            "configuration": {
                "acceptedOutputModes": ["text/plain"],
                "historyLength": 3,
                "returnImmediately": True,
                "taskPushNotificationConfig": {"url": "https://x", "authentication": {"scheme": "Bearer"}},
            },
        }
    )
    assert (params.tenant, params.context_id, params.task_id, params.metadata) == ("ten", "c", "t", {"k": 1})
    assert (params.accepted_output_modes, params.history_length, params.return_immediately) == (
        ("text/plain",),
        3,
        True,
    )
    assert params.push == PushConfig("https://x", scheme="Bearer")
    assert params.message.id == "m-1"
    assert params.message.text == "hi"


# -- refusals ------------------------------------------------------------------------------------------------------------


def with_message(**changes: Any) -> dict[str, Any]:
    return {"message": MESSAGE | changes}


def configured(**changes: Any) -> dict[str, Any]:
    return {"message": MESSAGE, "configuration": changes}


@pytest.mark.parametrize(
    ("found", "field"),
    [
        (None, ""),
        ([], ""),
        ({}, "message"),
        ({"message": []}, "message"),
        ({"message": MESSAGE, "metadata": []}, "metadata"),
        ({"message": MESSAGE, "tenant": 5}, "tenant"),
        ({"message": MESSAGE, "configuration": 5}, "configuration"),
        (with_message(messageId=""), "message.messageId"),
        (with_message(messageId=None), "message.messageId"),
        (with_message(messageId=None, message_id=5), "message.message_id"),
        (with_message(messageId="x" * 129), "message.messageId"),
        (with_message(messageId="a\nb"), "message.messageId"),
        (with_message(taskId="a\x00"), "message.taskId"),
        (with_message(contextId=["c"]), "message.contextId"),
        (with_message(context_id=["c"]), "message.context_id"),
        (with_message(role="user"), "message.role"),
        (with_message(role="ROLE_UNSPECIFIED"), "message.role"),
        (with_message(role=True), "message.role"),
        (with_message(role=["ROLE_USER"]), "message.role"),
        (with_message(parts=[]), "message.parts"),
        (with_message(parts=None), "message.parts"),
        (with_message(parts={}), "message.parts"),
        (with_message(parts=[{"text": "a"}, {"text": 5}]), "message.parts[1].text"),
        (with_message(parts=[{"text": "a"}, 5]), "message.parts[1]"),
        (with_message(parts=[{"text": "a", "url": "b"}]), "message.parts[0]"),
        (with_message(metadata=5), "message.metadata"),
        (with_message(extensions=[1]), "message.extensions[0]"),
        (with_message(referenceTaskIds=["\x00"]), "message.referenceTaskIds"),
        (with_message(referenceTaskIds=[""]), "message.referenceTaskIds"),
        (configured(historyLength=-1), "configuration.historyLength"),
        (configured(history_length=2**31), "configuration.history_length"),
        (configured(historyLength=True), "configuration.historyLength"),
        (configured(historyLength=1.5), "configuration.historyLength"),
        (configured(historyLength="many"), "configuration.historyLength"),
        (configured(returnImmediately="true"), "configuration.returnImmediately"),
        (configured(acceptedOutputModes="text/plain"), "configuration.acceptedOutputModes"),
        (configured(taskPushNotificationConfig={}), "configuration.taskPushNotificationConfig.url"),
        (
            configured(taskPushNotificationConfig={"url": "x", "authentication": {}}),
            "configuration.taskPushNotificationConfig.authentication.scheme",
        ),
    ],
)
def test_a_wrong_request_is_refused_by_the_path_of_what_is_wrong(found, field):
    with pytest.raises(InvalidArgumentError) as error:
        json_codec.send_params(found)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("found", "field"),
    [
        ({"pageSize": 0}, "pageSize"),
        ({"page_size": 101}, "page_size"),
        ({"historyLength": -1}, "historyLength"),
        ({"status": "TASK_STATE_UNSPECIFIED"}, "status"),
        ({"status": "TASK_STATE_BOGUS"}, "status"),
        ({"status": ["TASK_STATE_WORKING"]}, "status"),
        ({"statusTimestampAfter": "yesterday"}, "statusTimestampAfter"),
        ({"statusTimestampAfter": "2026-01-07"}, "statusTimestampAfter"),
        ({"statusTimestampAfter": "2026-13-07T00:00:00Z"}, "statusTimestampAfter"),
        ({"includeArtifacts": "yes"}, "includeArtifacts"),
        ({"includeArtifacts": 1}, "includeArtifacts"),
    ],
)
def test_a_wrong_list_is_refused_by_the_field(found, field):
    with pytest.raises(InvalidArgumentError) as error:
        json_codec.list_params(found)
    assert error.value.field == field


def a_message(**changes: Any) -> pb.SendMessageRequest:
    return json_format.ParseDict(with_message(**changes), pb.SendMessageRequest())


def a_list(**changes: Any) -> pb.ListTasksRequest:
    return pb.ListTasksRequest(**changes)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.SendMessageRequest(), "message"),
        (a_message(messageId=""), "message.message_id"),
        (a_message(role="ROLE_UNSPECIFIED"), "message.role"),
        (a_message(role=7), "message.role"),
        (a_message(parts=[]), "message.parts"),
        (a_message(parts=[{"text": "a"}, {}]), "message.parts[1]"),
        (a_message(taskId="\n"), "message.task_id"),
        (pb.SendMessageRequest(message=pb.Message(message_id="m", role=pb.ROLE_USER)), "message.parts"),
    ],
)
def test_a_wrong_protobuf_request_is_refused_by_the_path(request_, field):
    with pytest.raises(InvalidArgumentError) as error:
        pb_codec.send_params_from_pb(request_)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"page_size": 0}, "page_size"),
        ({"page_size": 101}, "page_size"),
        ({"history_length": -1}, "history_length"),
        ({"status": 99}, "status"),
        ({"status_timestamp_after": {"nanos": -1}}, "status_timestamp_after"),
    ],
)
def test_a_wrong_protobuf_list_is_refused_by_the_field(changes, field):
    with pytest.raises(InvalidArgumentError) as error:
        pb_codec.list_params_from_pb(a_list(**changes))
    assert error.value.field == field


def test_a_message_of_too_many_parts_is_too_large():
    with pytest.raises(MessageTooLargeError) as error:
        json_codec.send_params(with_message(parts=[{"text": ""}] * 1001))
    assert error.value.field == "message.parts"
    with pytest.raises(MessageTooLargeError):
        pb_codec.send_params_from_pb(a_message(parts=[{"text": ""}] * 1001))
    with pytest.raises(MessageTooLargeError):
        json_codec.send_params(with_message(extensions=["x"] * 1001))
    assert len(json_codec.send_params(with_message(parts=[{"text": ""}] * 1000)).message.parts) == 1000


# -- anything at all -----------------------------------------------------------------------------------------------------

NAMES = ["message", "messageId", "role", "parts", "text", "raw", "url", "data", "metadata", "mediaType", "configuration", "taskId",
         "historyLength", "taskPushNotificationConfig", "authentication", "extensions", "pageSize", "status", "plgrpc", "a2a",
         "type", "content", "statusTimestampAfter"]  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
    | st.sampled_from(["ROLE_USER", "application/vnd.plgrpc.part+json", "tool_call", "2026-01-07T09:22:57Z"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=15,
)  # fmt: skip


@given(anything)
def test_no_json_breaks_a_reader(found):
    for read in (json_codec.send_params, json_codec.list_params, json_codec.push_config, json_codec.part_from_json):
        for given_ in (
            found,
            {"message": found},
            {"message": MESSAGE | {"parts": found}},
            MESSAGE | {"parts": [found]},
        ):
            try:
                read(given_)
            except InvalidArgumentError:
                pass


@given(st.binary(max_size=60))
def test_no_bytes_break_a_reader(raw):
    for kind, read in (
        (pb.SendMessageRequest, pb_codec.send_params_from_pb),
        (pb.ListTasksRequest, pb_codec.list_params_from_pb),
        (pb.TaskPushNotificationConfig, pb_codec.push_config_from_pb),
        (pb.StreamResponse, pb_codec.update_from_pb),
        (pb.Part, pb_codec.part_from_pb),
    ):
        found = kind()
        try:
            found.ParseFromString(raw)
        except Exception:
            continue  # no message at all: the transport refuses it
        try:
            read(found)
        except InvalidArgumentError:
            pass
