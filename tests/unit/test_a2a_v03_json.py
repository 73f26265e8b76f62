"""The JSON of A2A v0.3: requests mean the same as in v1.0, and responses fit the models of a2a-sdk."""

import base64
from contextlib import suppress
from typing import Any, get_args

import pytest
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as schema
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc import errors
from protolink_grpc.a2a import json_codec
from protolink_grpc.a2a.v03 import reading, writing
from protolink_grpc.a2a.v03.terms import NAMES, code_v03, error_json, require_v03, rest_error_json
from protolink_grpc.a2a.values import (
    A2A_KEY,
    V03,
    V1,
    ArtifactUpdate,
    CallerInfo,
    MessageReply,
    Status,
    StatusUpdate,
    TaskView,
)
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import FileContent, Part
from protolink_grpc.models.push_config import PushConfig

words = st.text(min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
metadata = st.none() | st.dictionaries(words, values, min_size=1, max_size=3)
media_types = st.none() | st.sampled_from(["text/markdown", "text/plain", "application/json", "image/png"])
files = st.builds(
    lambda body, name, media_type: FileContent(**body, name=name, media_type=media_type),
    st.binary(max_size=9).map(lambda data: {"data": data}) | words.map(lambda word: {"uri": f"https://a/{word}"}),
    st.none() | words,
    st.sampled_from(["text/plain", "application/octet-stream"]),
)
parts = st.one_of(
    st.builds(Part, st.just("text"), words, metadata, media_types),
    st.builds(Part, st.just("json"), values, metadata, media_types),
    st.builds(Part, st.sampled_from(["file", "image", "bytes"]), files, metadata),
    st.builds(Part, st.sampled_from(["status", "infer", "warning", "of_tomorrow"]), values, metadata),
    st.builds(Part, st.just("infer_output"), words, metadata, media_types),
    st.builds(lambda word, value: Part.tool_call(word, {"a": value}), words.filter(str.strip), values),
)

v03_data = st.builds(lambda data: {"kind": "data", "data": data}, st.dictionaries(words, values, max_size=3))
v03_text = st.builds(lambda text: {"kind": "text", "text": text}, words)
v03_file = st.builds(
    lambda body, rest: {"kind": "file", "file": body | rest},
    st.binary(max_size=9).map(lambda data: {"bytes": base64.b64encode(data).decode()})
    | words.map(lambda word: {"uri": f"https://a/{word}"}),
    st.fixed_dictionaries({}, optional={"mimeType": st.just("image/png"), "name": words}),
)
v03_parts = st.builds(
    lambda part, extra: part if extra is None else part | {"metadata": extra},
    v03_data | v03_text | v03_file,
    st.none() | st.dictionaries(words, values, max_size=3),
)


def _message(parts: list[Part], role: str = "user", metadata: dict[str, Any] | None = None) -> Message:
    return Message("m-1", role, parts, "2026-11-22T05:00:00.000000+00:00", metadata)


def _view(state: TaskState = TaskState.WORKING, message: Message | None = None, **rest: Any) -> TaskView:
    return TaskView("t-1", "c-1", Status(state, 1_700_000_000_123_456, message), **rest)


def _params(*parts: dict[str, Any], **rest: Any) -> dict[str, Any]:
    message = {"kind": "message", "messageId": "m-1", "role": "user", "parts": list(parts)}
    return {"message": message, **rest}


TEXT = {"kind": "text", "text": "to be"}


# -- round trips ---------------------------------------------------------------------------------------------------------


@given(st.lists(parts, min_size=1, max_size=3))
def test_a_message_means_the_same_in_both_versions(found: list[Part]) -> None:
    message = _message(found, metadata={"k": 1})
    through_v03 = reading.send_params({"message": writing.reply_json(MessageReply(message, "c-1"))})
    through_v1 = json_codec.send_params({"message": json_codec.message_json(message, "c-1")})
    assert through_v03.message.parts == through_v1.message.parts == found
    assert through_v03.message.metadata == through_v1.message.metadata
    assert through_v03.context_id == "c-1"


@given(st.lists(v03_parts, min_size=1, max_size=3))
def test_a_part_of_v03_comes_back_as_it_was(found: list[dict[str, Any]]) -> None:
    params = reading.send_params(_params(*found))
    written = writing.reply_json(MessageReply(params.message))
    assert written["parts"] == found


@given(st.lists(parts, min_size=1, max_size=3))
def test_what_is_written_fits_the_schema_of_v03(found: list[Part]) -> None:
    message = _message(found, "agent")
    view = _view(TaskState.COMPLETED, message, history=[message], artifacts=[Artifact("a-1", found)])
    task = schema.Task.model_validate(writing.task_json(view))
    assert task.model_dump(mode="json", by_alias=True, exclude_none=True)["id"] == "t-1"
    event = schema.TaskArtifactUpdateEvent.model_validate(
        writing.update_json(ArtifactUpdate("t-1", "c-1", Artifact("a-1", found)))
    )
    assert len(event.artifact.parts) == len(found)


def test_what_is_read_is_what_a2a_sdk_reads_of_it() -> None:
    message = {
        "kind": "message",
        "messageId": "m-1",
        "contextId": "c-1",
        "taskId": "t-1",
        "role": "agent",
        "referenceTaskIds": ["t-0"],
        "extensions": ["urn:x"],
        "metadata": {"k": "v"},
        "parts": [
            TEXT | {"metadata": {"a": "b"}},
            {"kind": "data", "data": {"deep": {"er": [True, "x"]}}},
            {"kind": "data", "data": {"value": ["bare"]}, "metadata": {"data_part_compat": True, "rest": "stays"}},
            {"kind": "file", "file": {"bytes": "aGk=", "mimeType": "text/plain", "name": "hi.txt"}},
            {"kind": "file", "file": {"uri": "https://a/b"}, "metadata": {"m": "n"}},
        ],
    }
    theirs = MessageToDict(conversions.to_core_message(schema.Message.model_validate(message)))
    assert reading._message_to_v1(message) == theirs


# -- what is read --------------------------------------------------------------------------------------------------------


def test_who_says_nothing_about_blocking_waits() -> None:
    assert reading.send_params(_params(TEXT)).return_immediately is False
    assert reading.send_params(_params(TEXT, configuration={})).return_immediately is False
    assert reading.send_params(_params(TEXT, configuration={"blocking": None})).return_immediately is False
    assert reading.send_params(_params(TEXT, configuration={"blocking": True})).return_immediately is False
    assert reading.send_params(_params(TEXT, configuration={"blocking": False})).return_immediately is True


def test_the_configuration_is_read() -> None:
    params = reading.send_params(
        _params(
            TEXT,
            metadata={"k": 1},
            configuration={
                "acceptedOutputModes": ["text/plain"],
                "historyLength": 3,
                "pushNotificationConfig": {
                    "url": "https://a/hook",
                    "id": "p-1",
                    "token": "tok",
                    "authentication": {"schemes": ["Bearer", "Basic"], "credentials": "x"},
                },
            },
        )
    )
    assert (params.metadata, params.accepted_output_modes, params.history_length) == ({"k": 1}, ("text/plain",), 3)
    assert params.push == PushConfig("https://a/hook", "p-1", "", "tok", "Bearer", "x")


@pytest.mark.parametrize(("said", "meant"), [(None, None), (0, None), (1, 1), (2**31 - 1, 2**31 - 1)])
def test_a_history_of_0_is_the_whole_history(said: int | None, meant: int | None) -> None:
    assert reading.history_length({"historyLength": said}) == meant
    assert reading.send_params(_params(TEXT, configuration={"historyLength": said})).history_length == meant


def test_extensions_and_referenced_tasks_are_kept_with_the_message() -> None:
    params = _params(TEXT)
    params["message"] |= {"extensions": ["urn:x"], "referenceTaskIds": ["t-0"], "taskId": "t-1", "contextId": None}
    read = reading.send_params(params)
    assert read.message.metadata == {A2A_KEY: {"extensions": ["urn:x"], "reference_task_ids": ["t-0"]}}
    assert (read.task_id, read.context_id) == ("t-1", "")


@pytest.mark.parametrize(
    "part", [TEXT, {"text": "to be"}, {"type": "text", "text": "to be"}, {"kind": None, "text": "to be"}]
)
def test_a_part_may_leave_its_kind_to_what_it_holds(part: dict[str, Any]) -> None:
    assert reading.send_params(_params(part)).message.parts == [Part("text", "to be")]


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ([], ""),
        ({}, "message"),
        ({"": "not_a_dict"}, "message"),
        ({"message": 1}, "message"),
        ({"message": {"role": "user", "parts": [TEXT]}}, "message.messageId"),
        ({"message": {"messageId": "m", "parts": [TEXT]}}, "message.role"),
        ({"message": {"messageId": "m", "role": ["user"], "parts": [TEXT]}}, "message.role"),
        ({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [TEXT]}}, "message.role"),
        ({"message": {"messageId": "m", "role": "user"}}, "message.parts"),
        ({"message": {"messageId": "m", "role": "user", "parts": "x"}}, "message.parts"),
        ({"message": {"kind": "task", "messageId": "m", "role": "user", "parts": [TEXT]}}, "message.kind"),
        (_params(), "message.parts"),
        (_params("x"), "message.parts[0]"),
        (_params(TEXT, {}), "message.parts[1].kind"),
        (_params({"type": "unsupported_type", "text": "x"}), "message.parts[0].kind"),
        (_params({"kind": ["text"], "text": "x"}), "message.parts[0].kind"),
        (_params({"kind": "text"}), "message.parts[0].text"),
        (_params({"kind": "text", "text": 1}), "message.parts[0].text"),
        (_params(TEXT | {"metadata": 1}), "message.parts[0].metadata"),
        (_params({"kind": "data", "data": [1]}), "message.parts[0].data"),
        (_params({"kind": "data"}), "message.parts[0].data"),
        (_params({"kind": "file"}), "message.parts[0].file"),
        (_params({"kind": "file", "file": {}}), "message.parts[0].file"),
        (_params({"kind": "file", "file": {"bytes": "", "uri": "https://a"}}), "message.parts[0].file"),
        (_params({"kind": "file", "file": {"bytes": "a"}}), "message.parts[0].file.bytes"),
        (_params({"kind": "file", "file": {"bytes": 1}}), "message.parts[0].file.bytes"),
        (_params({"kind": "file", "file": {"uri": "https://a", "name": 1}}), "message.parts[0].file.name"),
        (_params(TEXT, metadata=1), "metadata"),
        (_params(TEXT, configuration=1), "configuration"),
        (_params(TEXT, configuration={"blocking": "no"}), "configuration.blocking"),
        (_params(TEXT, configuration={"historyLength": -1}), "configuration.historyLength"),
        (_params(TEXT, configuration={"acceptedOutputModes": [1]}), "configuration.acceptedOutputModes[0]"),
        (
            _params(TEXT, configuration={"pushNotificationConfig": {"id": "p"}}),
            "configuration.pushNotificationConfig.url",
        ),
        (
            _params(
                TEXT,
                configuration={"pushNotificationConfig": {"url": "u", "authentication": {"credentials": "x"}}},
            ),
            "configuration.pushNotificationConfig.authentication.schemes",
        ),
    ],
)
def test_a_wrong_request_is_refused_with_its_path(params: Any, path: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        reading.send_params(params)
    assert caught.value.field == path


@given(values)
def test_any_params_are_read_or_refused(found: Any) -> None:
    for params in (
        found,
        {"message": found},
        _params(found),
        {"message": {"messageId": "m", "role": "user", "parts": found}},
    ):
        with suppress(errors.InvalidArgumentError):
            reading.send_params(params)


# -- what is written -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", list(TaskState))
def test_a_state_is_spelled_in_lower_case(state: TaskState) -> None:
    written = writing.task_json(_view(state))
    assert written == {
        "kind": "task",
        "id": "t-1",
        "contextId": "c-1",
        "status": {"state": str(state), "timestamp": "2023-11-14T22:13:20.123Z"},
    }
    assert schema.Task.model_validate(written).status.state.value == str(state)


@pytest.mark.parametrize(
    ("part", "written"),
    [
        (Part("text", "x"), {"kind": "text", "text": "x"}),
        (
            Part("text", "x", media_type="text/markdown"),
            {"kind": "text", "text": "x", "metadata": {"a2a_v1": {"mediaType": "text/markdown"}}},
        ),
        (Part("json", {"a": 1}), {"kind": "data", "data": {"a": 1}}),
        (Part("json", [1]), {"kind": "data", "data": {"value": [1]}, "metadata": {"data_part_compat": True}}),
        (
            Part("file", FileContent(b"hi", None, "hi.txt", "text/plain")),
            {"kind": "file", "file": {"bytes": "aGk=", "mimeType": "text/plain", "name": "hi.txt"}},
        ),
        (
            Part("file", FileContent(None, "https://a/b", None, "text/plain")),
            {"kind": "file", "file": {"uri": "https://a/b", "mimeType": "text/plain"}},
        ),
        (
            Part("status", {"s": 1}),
            {
                "kind": "data",
                "data": {"type": "status", "content": {"s": 1}},
                "metadata": {"a2a_v1": {"mediaType": "application/vnd.plgrpc.part+json"}},
            },
        ),
    ],
)
def test_a_part_is_written_as_its_kind(part: Part, written: dict[str, Any]) -> None:
    assert writing.reply_json(MessageReply(_message([part])))["parts"] == [written]


def test_an_update_says_its_kind_and_whether_it_is_the_last() -> None:
    status = Status(TaskState.INPUT_REQUIRED, 0, _message([Part("text", "which?")], "assistant"))
    last = writing.update_json(StatusUpdate("t-1", "c-1", status, {"k": 1}, final=True))
    assert (last["kind"], last["final"], last["metadata"]) == ("status-update", True, {"k": 1})
    assert (last["taskId"], last["contextId"], last["status"]["state"]) == ("t-1", "c-1", "input-required")
    assert last["status"]["message"]["role"] == "agent"
    assert writing.update_json(StatusUpdate("t-1", "c-1", Status(TaskState.WORKING, 0)))["final"] is False
    chunk = writing.update_json(
        ArtifactUpdate("t-1", "c-1", Artifact("a-1", [Part("text", "x")], name="n"), append=True, metadata={"k": 2})
    )
    assert (chunk["kind"], chunk["append"], chunk["lastChunk"], chunk["metadata"]) == (
        "artifact-update",
        True,
        False,
        {"k": 2},
    )
    assert (chunk["artifact"]["artifactId"], chunk["artifact"]["name"]) == ("a-1", "n")
    assert writing.update_json(_view())["kind"] == "task"
    assert writing.update_json(MessageReply(_message([Part("text", "x")], "agent"), "c-1"))["kind"] == "message"


def test_a_task_shows_its_history_artifacts_and_metadata() -> None:
    said = _message([Part("text", "x")])
    written = writing.push_body_v03(_view(history=[said], artifacts=[Artifact("a-1", said.parts)], metadata={"k": 1}))
    assert written["history"] == [
        {"kind": "message", "role": "user", "messageId": "m-1", "contextId": "c-1", "taskId": "t-1"}
        | {"parts": [{"kind": "text", "text": "x"}]}
    ]
    assert written["artifacts"] == [{"artifactId": "a-1", "parts": [{"kind": "text", "text": "x"}]}]
    assert written["metadata"] == {"k": 1}


@pytest.mark.parametrize(
    "config",
    [
        PushConfig("https://a/hook", task_id="t-1"),
        PushConfig("https://a/hook", "p-1", "t-1", "tok", "Bearer", "x"),
        PushConfig("https://a/hook", "p-1", "t-1", scheme="Basic"),
    ],
)
def test_a_push_config_comes_back_as_it_was(config: PushConfig) -> None:
    written = writing.push_json(config)
    schema.TaskPushNotificationConfig.model_validate(written)
    assert reading.push_config(written) == config


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"pushNotificationConfig": {"url": "u"}}, "taskId"),
        ({"taskId": "t"}, "pushNotificationConfig"),
        ({"taskId": "t", "pushNotificationConfig": {}}, "pushNotificationConfig.url"),
        ({"taskId": "t", "pushNotificationConfig": {"url": "u", "id": "x" * 129}}, "pushNotificationConfig.id"),
        ({"taskId": "t", "pushNotificationConfig": {"url": "u", "token": 1}}, "pushNotificationConfig.token"),
        (
            {"taskId": "t", "pushNotificationConfig": {"url": "u", "authentication": {"schemes": "x"}}},
            "pushNotificationConfig.authentication.schemes",
        ),
    ],
)
def test_a_wrong_push_config_is_refused_with_its_path(params: Any, path: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        reading.push_config(params)
    assert caught.value.field == path


# -- errors and versions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", sorted(errors.RULES))
def test_every_error_has_a_code_that_v03_knows(reason: str) -> None:
    known = {*range(-32007, -32000), -32600, -32601, -32602, -32603, -32700}
    error = errors.classes()[reason]("no")
    assert code_v03(error) in known
    assert error_json(error) == {"code": code_v03(error), "message": "no", "data": {"reason": reason, **error.metadata}}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.TaskNotFoundError("x"), -32001),
        (errors.TaskNotCancelableError("x"), -32002),
        (errors.PushNotSupportedError("x"), -32003),
        (errors.UnsupportedOperationError("x"), -32004),
        (errors.TaskFinishedError("x"), -32004),
        (errors.ContentTypeNotSupportedError("x"), -32005),
        (errors.InvalidAgentResponseError("x"), -32006),
        (errors.ExtendedCardNotConfiguredError("x"), -32007),
        (errors.ExtensionRequiredError("x"), -32603),
        (errors.VersionNotSupportedError("x"), -32603),
        (errors.UnauthenticatedError("x"), -32603),
        (errors.PermissionDeniedError("x"), -32603),
        (errors.InvalidArgumentError("x"), -32602),
        (errors.InternalError("x"), -32603),
    ],
)
def test_an_error_is_told_in_the_codes_of_v03(error: errors.ProtolinkError, code: int) -> None:
    assert code_v03(error) == code


def test_an_error_over_rest_says_its_name_where_clients_look_for_it() -> None:
    assert rest_error_json(errors.TaskNotFoundError("x", task_id="t")) == {
        "code": -32001,
        "message": "x",
        "data": {"reason": "TASK_NOT_FOUND", "task_id": "t"},
        "type": "TaskNotFoundError",
        "error": "TaskNotFoundError",
    }
    assert "type" not in rest_error_json(errors.UnauthenticatedError("x"))  # its status says it


def test_the_names_of_errors_are_those_of_v03_but_for_the_one_that_its_sdk_calls_otherwise() -> None:
    models = {
        each.model_fields["code"].default: each.__name__
        for each in get_args(schema.A2AError.model_fields["root"].annotation)
    }
    known = {code: name for code, name in NAMES.items() if code in models}
    assert {code: models[code] for code in known} == known | {-32007: "AuthenticatedExtendedCardNotConfiguredError"}


def test_an_error_names_the_field_in_its_data() -> None:
    error = errors.InvalidArgumentError("must be short", field="message.parts")
    assert error_json(error)["data"] == {"reason": "INVALID_ARGUMENT", "field": "message.parts"}


@pytest.mark.parametrize("version", ["", V03, "0.3.0"])
def test_a_caller_of_v03_is_known_as_one_whatever_it_says(version: str) -> None:
    assert require_v03(CallerInfo(version=version)).version == V03


@pytest.mark.parametrize("version", [V1, "0.2", "3"])
def test_a_caller_of_another_version_is_refused(version: str) -> None:
    with pytest.raises(errors.VersionNotSupportedError):
        require_v03(CallerInfo(version=version))
