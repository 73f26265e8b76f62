"""The protobuf of A2A v0.3, compared with that of v1.0 and with the conversions of a2a-sdk."""

import base64
import os
from contextlib import suppress
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb
from a2a.compat.v0_3 import proto_utils
from a2a.types import a2a_pb2 as v1
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc import errors
from protolink_grpc.a2a.v03 import protobuf, writing
from protolink_grpc.a2a.values import A2A_KEY, ArtifactUpdate, MessageReply, PushPage, Status, StatusUpdate, TaskView
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
media_types = st.none() | st.sampled_from(["text/markdown", "text/plain", "application/json"])
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
)


def _message(parts: list[Part], role: str = "user", metadata: dict[str, Any] | None = None) -> Message:
    return Message("m-1", role, parts, "2026-11-22T05:00:00.000000+00:00", metadata)


def _view(state: TaskState = TaskState.WORKING, message: Message | None = None, **rest: Any) -> TaskView:
    return TaskView("t-1", "c-1", Status(state, 1_700_000_000_123_000, message), **rest)


def _request(*content: pb.Part, **rest: Any) -> pb.SendMessageRequest:
    message = pb.Message(message_id="m-1", role=pb.ROLE_USER, content=content or [pb.Part(text="to be")])
    return pb.SendMessageRequest(request=message, **rest)


def _over_the_wire(request: pb.SendMessageRequest) -> pb.SendMessageRequest:
    return pb.SendMessageRequest.FromString(request.SerializeToString())


# -- round trips ---------------------------------------------------------------------------------------------------------


@given(st.lists(parts, min_size=1, max_size=3))
def test_a_message_comes_back_as_it_was(found: list[Part]) -> None:
    message = _message(found, metadata={"k": 1, A2A_KEY: {"extensions": ["urn:x"], "reference_task_ids": ["t-0"]}})
    reply = protobuf.reply_pb(MessageReply(message, "c-1"))
    params = protobuf.send_params_from_pb(_over_the_wire(pb.SendMessageRequest(request=reply.msg)))
    assert params.message.parts == found
    assert params.message.metadata == message.metadata
    assert params.context_id == "c-1"


@pytest.mark.parametrize("depth", [1, 20, 45])
def test_deep_data_comes_back_as_it_was(depth: int) -> None:
    value: Any = 2**60 + 1
    for _ in range(depth):
        value = [{"k": value}]
    reply = protobuf.reply_pb(_view(TaskState.COMPLETED, artifacts=[Artifact("a-1", [Part("json", value)])]))
    artifact = pb.SendMessageResponse.FromString(reply.SerializeToString()).task.artifacts[0]
    params = protobuf.send_params_from_pb(_request(*artifact.parts))
    assert params.message.parts == [Part("json", value)]


def test_what_is_written_is_what_a2a_sdk_reads_of_it() -> None:
    said = _message(
        [
            Part("text", "x", {"a": "b"}),
            Part("json", {"deep": {"er": [True, "y"]}}),
            Part("json", ["bare"]),
            Part("file", FileContent(b"\xff\x00", None, "f.bin", "image/png")),
            Part("file", FileContent(None, "https://a/b")),
        ],
        metadata={"k": "v"},
    )
    artifact = Artifact("a-1", said.parts, {"k": "v"}, name="n")
    view = _view(TaskState.AUTH_REQUIRED, said, history=[said], artifacts=[artifact], metadata={"k": "v"})
    theirs = proto_utils.FromProto.task(protobuf.task_pb(view)).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    assert theirs["artifacts"][0].pop("description") == ""  # theirs, of a field that is not set
    assert theirs == writing.task_json(view)


def test_a_file_is_read_as_a2a_sdk_writes_it_and_as_plain_bytes() -> None:
    encoded = pb.FilePart(file_with_bytes=base64.b64encode(b"\xffhi"), mime_type="image/png", name="f")
    plain = pb.FilePart(file_with_bytes=b"\xffhi", mime_type="image/png", name="f")
    params = protobuf.send_params_from_pb(_request(pb.Part(file=encoded), pb.Part(file=plain)))
    assert params.message.parts == [Part("file", FileContent(b"\xffhi", None, "f", "image/png"))] * 2


# -- what is read --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configuration", "immediately"),
    [
        (None, False),
        (pb.SendMessageConfiguration(), True),
        (pb.SendMessageConfiguration(blocking=True), False),
        (pb.SendMessageConfiguration(blocking=True, history_length=1), False),
        (pb.SendMessageConfiguration(history_length=1), True),
    ],
)
def test_blocking_counts_where_there_is_a_configuration(
    configuration: pb.SendMessageConfiguration | None, immediately: bool
) -> None:
    request = _over_the_wire(_request(configuration=configuration))
    assert protobuf.send_params_from_pb(request).return_immediately is immediately


def test_the_configuration_is_read() -> None:
    push = pb.PushNotificationConfig(
        id="p-1",
        url="https://a/hook",
        token="tok",
        authentication=pb.AuthenticationInfo(schemes=["Bearer", "Basic"], credentials="x"),
    )
    configuration = pb.SendMessageConfiguration(
        accepted_output_modes=["text/plain"], push_notification=push, blocking=True, history_length=0
    )
    params = protobuf.send_params_from_pb(_request(configuration=configuration))
    assert (params.accepted_output_modes, params.history_length) == (("text/plain",), None)
    assert params.push == PushConfig("https://a/hook", "p-1", "", "tok", "Bearer", "x")


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        (pb.SendMessageRequest(), "message"),
        (pb.SendMessageRequest(request=pb.Message(role=pb.ROLE_USER, content=[pb.Part(text="x")])), "message.message"),
        (pb.SendMessageRequest(request=pb.Message(message_id="m", content=[pb.Part(text="x")])), "message.role"),
        (pb.SendMessageRequest(request=pb.Message(message_id="m", role=pb.ROLE_USER)), "message.content"),
        (_request(pb.Part(text="x"), pb.Part()), "message.content[1]"),
        (_request(pb.Part(file=pb.FilePart(name="f"))), "message.content[0]"),
        (
            _request(
                configuration=pb.SendMessageConfiguration(
                    push_notification=pb.PushNotificationConfig(
                        url="u", authentication=pb.AuthenticationInfo(credentials="x")
                    )
                )
            ),
            "configuration.push_notification.authentication.schemes",
        ),
        (
            _request(configuration=pb.SendMessageConfiguration(push_notification=pb.PushNotificationConfig(id="p"))),
            "configuration.push_notification.url",
        ),
    ],
)
def test_a_wrong_request_is_refused_with_its_path(request_: pb.SendMessageRequest, path: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        protobuf.send_params_from_pb(request_)
    assert caught.value.field.startswith(path)


@given(st.binary(max_size=200))
def test_any_request_is_read_or_refused(data: bytes) -> None:
    with suppress(DecodeError, errors.InvalidArgumentError):
        protobuf.send_params_from_pb(pb.SendMessageRequest.FromString(data))


@pytest.mark.parametrize("name", ["", "tasks", "tasks/", "tasks/a/b", "jobs/a", "/tasks/a", "a"])
def test_a_name_that_is_no_task_is_refused(name: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="name: must be tasks/"):
        protobuf.parse_task_name(name, "name")


@pytest.mark.parametrize(
    "name", ["", "tasks/a", "tasks/a/pushNotificationConfigs/", "tasks//pushNotificationConfigs/b", "tasks/a/x/b"]
)
def test_a_name_that_is_no_config_is_refused(name: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="name: must be tasks/"):
        protobuf.parse_config_name(name, "name")


def test_names_hold_ids() -> None:
    assert protobuf.parse_task_name("tasks/t-1", "name") == "t-1"
    assert protobuf.parse_config_name("tasks/t-1/pushNotificationConfigs/p-1", "name") == ("t-1", "p-1")


@pytest.mark.parametrize("parent", ["tasks/t-1", "tasks/t-1/pushNotificationConfigs"])
def test_a_config_is_created_under_its_task(parent: str) -> None:
    config = PushConfig("https://a/hook", "p-1", "t-1", "tok", "Bearer", "x")
    request = pb.CreateTaskPushNotificationConfigRequest(parent=parent, config=protobuf.push_pb(config))
    assert protobuf.push_config_from_pb(request) == config
    request.config_id = "p-2"
    assert protobuf.push_config_from_pb(request).id == "p-2"


# -- what is written -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", list(TaskState))
def test_a_state_keeps_its_meaning(state: TaskState) -> None:
    task = protobuf.task_pb(_view(state))
    assert proto_utils.FromProto.task(task).status.state.value == str(state)
    assert (task.id, task.context_id) == ("t-1", "c-1")


def test_no_state_of_v1_is_forgotten() -> None:
    assert set(protobuf._STATES) == set(v1.TaskState.values())
    assert set(protobuf._STATES.values()) == set(pb.TaskState.values())


def test_an_update_says_what_it_is_and_whether_it_is_the_last() -> None:
    status = Status(TaskState.INPUT_REQUIRED, 0, _message([Part("text", "which?")], "assistant"))
    last = protobuf.update_pb(StatusUpdate("t-1", "c-1", status, {"k": "v"}, final=True)).status_update
    assert (last.task_id, last.context_id, last.final, last.metadata["k"]) == ("t-1", "c-1", True, "v")
    assert last.status.update.role == pb.ROLE_AGENT
    assert not protobuf.update_pb(StatusUpdate("t-1", "c-1", status)).status_update.final
    chunk = protobuf.update_pb(
        ArtifactUpdate("t-1", "c-1", Artifact("a-1", [Part("text", "x")]), True, True, {"k": "v"})
    ).artifact_update
    assert (chunk.artifact.artifact_id, chunk.append, chunk.last_chunk, chunk.metadata["k"]) == ("a-1", True, True, "v")
    assert protobuf.update_pb(_view()).WhichOneof("payload") == "task"
    assert protobuf.update_pb(MessageReply(_message([Part("text", "x")]))).WhichOneof("payload") == "msg"


def test_a_page_of_configs_names_each() -> None:
    page = protobuf.push_page_pb(PushPage([PushConfig("u", "p-1", "t-1"), PushConfig("u", "p-2", "t-1")], "more"))
    assert [each.name for each in page.configs] == [f"tasks/t-1/pushNotificationConfigs/p-{n}" for n in (1, 2)]
    assert page.next_page_token == "more"


def test_random_bytes_of_a_file_survive() -> None:
    data = os.urandom(1000)
    reply = protobuf.reply_pb(MessageReply(_message([Part("file", FileContent(data))])))
    params = protobuf.send_params_from_pb(pb.SendMessageRequest(request=reply.msg))
    assert params.message.parts[0].content.data == data
