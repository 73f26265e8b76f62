"""Messages, artifacts, tasks and updates in A2A's JSON and protobuf."""

import json
from dataclasses import replace
from typing import Any

import pytest
import wire_values as values
from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc import Artifact, Message, Part, TaskState
from protolink_grpc.a2a import json_codec, pb_codec
from protolink_grpc.a2a.values import (
    ArtifactUpdate,
    MessageReply,
    PushPage,
    Status,
    StatusUpdate,
    TaskView,
    TaskViewPage,
)
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.models.push_config import PushConfig

MICROS = 1_767_777_777_123_456
TIME = "2026-01-07T09:22:57.123Z"

# Keys and values that mean something to one of the two sides, besides any other.
KEYS = st.sampled_from(
    ["plgrpc", "a2a", "own", "role", "kind", "uri", "action_id", "media_type", "extensions", "reference_task_ids", "description",
     "exact", "x"]
)  # fmt: skip
LEAVES = st.sampled_from(
    ["system", "assistant", "user", "result", "preview", "", '{"metadata":{}}', True, None, 1.5, ["e"]]
)
LOADED = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
METADATA = st.dictionaries(KEYS, LOADED, max_size=3)
PARTS = st.lists(values.texts.map(Part.text), min_size=1, max_size=2)
MESSAGES = st.builds(
    lambda role, parts, metadata: Message("m-1", role, parts, values.NOON, metadata or None),
    st.sampled_from(["user", "agent", "assistant", "system"]),
    PARTS,
    METADATA | values.objects,  # the latter with integers that protobuf cannot carry
)
ARTIFACTS = st.builds(
    Artifact,
    st.just("a-1"),
    PARTS,
    METADATA | values.objects,
    st.just(values.NOON),
    st.sampled_from(["result", "preview"]),
    *[values.maybe_names] * 4,
)
LISTS = st.lists(values.names.filter(str.isprintable), min_size=1, max_size=2)
A2A_MESSAGES = st.fixed_dictionaries(
    {
        "messageId": st.just("m-1"),
        "role": st.sampled_from(["ROLE_USER", "ROLE_AGENT"]),
        "parts": st.just([{"text": "hi"}]),
    },
    optional={"metadata": METADATA.filter(bool), "extensions": LISTS, "referenceTaskIds": LISTS},
)
A2A_ARTIFACTS = st.fixed_dictionaries(
    {"artifactId": st.just("a-1"), "parts": st.just([{"text": "hi"}])},
    optional={
        "metadata": METADATA.filter(bool),
        "extensions": LISTS,
        "name": values.names,
        "description": values.names,
    },
)


def as_received(found: Any) -> Any:
    """What a reader of its JSON text gets."""
    return from_json(to_json(found))


def without_time(found: Message | Artifact) -> dict[str, Any]:
    return found.to_dict() | {"timestamp": None}


# -- there and back ------------------------------------------------------------------------------------------------------


@given(MESSAGES)
def test_every_message_of_ours_comes_back(message):
    read, context_id, task_id = json_codec.message_from_json(as_received(json_codec.message_json(message, "c", "t")))
    assert without_time(read) == without_time(message)
    assert (context_id, task_id) == ("c", "t")
    sent = pb_codec.message_pb(message, "c", "t").SerializeToString()
    assert without_time(pb_codec.message_from_pb(pb.Message.FromString(sent))[0]) == without_time(message)


@given(A2A_MESSAGES)
def test_every_a2a_message_comes_back(found):
    message = json_codec.message_from_json(as_received(found))[0]
    assert json.dumps(json_codec.message_json(message), sort_keys=True) == json.dumps(found, sort_keys=True)
    logged = Message.from_dict(as_received(message.to_dict()))
    assert json_codec.message_json(logged) == found


@given(ARTIFACTS)
def test_every_artifact_of_ours_comes_back(artifact):
    read = json_codec.artifact_from_json(as_received(json_codec.artifact_json(artifact)))
    assert without_time(read) == without_time(artifact)
    sent = pb_codec.update_pb(ArtifactUpdate("t", "c", artifact)).artifact_update.artifact
    assert without_time(pb_codec.artifact_from_pb(pb.Artifact.FromString(sent.SerializeToString()))) == without_time(
        artifact
    )


@given(A2A_ARTIFACTS)
def test_every_a2a_artifact_comes_back(found):
    artifact = json_codec.artifact_from_json(as_received(found))
    assert json.dumps(json_codec.artifact_json(artifact), sort_keys=True) == json.dumps(found, sort_keys=True)


STATUSES = st.builds(Status, st.sampled_from(TaskState), st.just(MICROS), st.none() | MESSAGES)
VIEWS = st.builds(
    TaskView, st.just("t-1"), st.just("c-1"), STATUSES, st.none() | st.lists(MESSAGES, max_size=2),
    st.none() | st.lists(ARTIFACTS, max_size=2), METADATA,
)  # fmt: skip
UPDATES = st.one_of(
    VIEWS,
    st.builds(MessageReply, MESSAGES, st.sampled_from(["", "c-1"])),
    st.builds(StatusUpdate, st.just("t-1"), st.just("c-1"), STATUSES, METADATA),
    st.builds(ArtifactUpdate, st.just("t-1"), st.just("c-1"), ARTIFACTS, st.booleans(), st.booleans(), METADATA),
)


def without_defaults(found: Any) -> Any:
    """What protobuf does not tell: empty lists, and the zero of an enum."""
    if isinstance(found, list):
        return [without_defaults(each) for each in found]
    if not isinstance(found, dict):
        return float(found) if type(found) is int else found
    kept = {key: without_defaults(each) for key, each in found.items()}
    return {key: each for key, each in kept.items() if each not in ([], {}, "TASK_STATE_UNSPECIFIED")}


@given(UPDATES)
def test_both_codecs_write_the_same_update(update):
    written = json_format.MessageToDict(pb_codec.update_pb(update))
    if "exact" not in str(written):
        assert without_defaults(written) == without_defaults(as_received(json_codec.update_json(update)))


@given(UPDATES)
def test_an_update_is_read_from_protobuf_as_it_was_written(update):
    sent = pb_codec.update_pb(update)
    read = pb_codec.update_from_pb(pb.StreamResponse.FromString(sent.SerializeToString()))
    assert type(read) is type(update)
    assert pb_codec.update_pb(read) == sent


@given(VIEWS | st.builds(MessageReply, MESSAGES, st.sampled_from(["", "c-1"])))
def test_a_reply_is_the_first_update_of_a_stream(reply):
    sent, streamed = pb_codec.send_response_pb(reply), pb_codec.update_pb(reply)
    assert (sent.task, sent.message) == (streamed.task, streamed.message)
    assert type(pb_codec.update_from_pb(sent)) is type(reply)


# -- spelling ------------------------------------------------------------------------------------------------------------


def test_a_task_has_what_is_required_and_nothing_that_is_empty():
    view = TaskView("t-1", "c-1", Status(TaskState.COMPLETED, MICROS))
    expected = {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED", "timestamp": TIME}}
    assert json_codec.task_json(view) == expected
    assert json_format.MessageToDict(pb_codec.task_pb(view)) == expected


def test_an_empty_history_is_shown_where_it_was_asked_for():
    found = json_codec.task_json(TaskView("t", "c", Status(TaskState.WORKING, MICROS), history=[], artifacts=[]))
    assert found["history"] == found["artifacts"] == []


def test_messages_of_a_task_name_it():
    message = Message("m-1", "agent", [Part.text("hi")])
    view = TaskView("t-1", "c-1", Status(TaskState.INPUT_REQUIRED, MICROS, message), [message])
    found = json_codec.task_json(view)
    expected = {
        "messageId": "m-1",
        "contextId": "c-1",
        "taskId": "t-1",
        "role": "ROLE_AGENT",
        "parts": [{"text": "hi"}],
    }
    assert found["status"]["message"] == expected
    assert found["history"] == [expected]


@pytest.mark.parametrize("state", TaskState)
def test_every_state_has_one_name(state):
    status = Status(state, MICROS)
    name = json_codec.status_json(status, "c", "t")["state"]
    assert pb.TaskState.Value(name) == pb_codec.STATES[state]
    assert name == f"TASK_STATE_{state.name}" or state is TaskState.UNKNOWN


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (999, "1970-01-01T00:00:00.000Z"),
        (MICROS, TIME),
        (-1, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_times_are_utc_with_milliseconds(micros, text):
    assert json_codec.time_json(micros) == text
    written = pb_codec.task_pb(TaskView("t", "c", Status(TaskState.WORKING, micros))).status.timestamp
    assert written.ToMilliseconds() == micros // 1000


def test_updates_are_wrapped_by_their_kind():
    status = Status(TaskState.WORKING, MICROS)
    artifact = Artifact("a-1", [Part.text("x")], name="n", kind="preview")
    assert json_codec.update_json(StatusUpdate("t", "c", status, {"k": 1}, final=True, sequence=7)) == {
        "statusUpdate": {
            "taskId": "t",
            "contextId": "c",
            "status": {"state": "TASK_STATE_WORKING", "timestamp": TIME},
            "metadata": {"k": 1},
        }
    }
    assert json_codec.update_json(ArtifactUpdate("t", "c", artifact, append=True, last_chunk=True)) == {
        "artifactUpdate": {
            "taskId": "t",
            "contextId": "c",
            "artifact": {
                "artifactId": "a-1",
                "parts": [{"text": "x"}],
                "name": "n",
                "metadata": {"plgrpc": {"kind": "preview"}},
            },
            "append": True,
            "lastChunk": True,
        }
    }
    assert json_codec.update_json(MessageReply(Message("m", "agent", [Part.text("x")]), "c")) == {
        "message": {"messageId": "m", "contextId": "c", "role": "ROLE_AGENT", "parts": [{"text": "x"}]}
    }


def test_a_page_says_everything_even_when_it_is_the_last():
    assert json_codec.page_json(TaskViewPage([], "", 50, 0)) == {
        "tasks": [],
        "nextPageToken": "",
        "pageSize": 50,
        "totalSize": 0,
    }
    view = TaskView("t", "c", Status(TaskState.WORKING, MICROS))
    page = TaskViewPage([view], "next", 1, 2)
    assert json_format.MessageToDict(pb_codec.page_pb(page)) == json_codec.page_json(page)
    assert json_codec.push_page_json(PushPage([])) == {"configs": [], "nextPageToken": ""}


def test_a_push_config_shows_only_what_is_set():
    bare = PushConfig("https://x")
    assert json_codec.push_json(bare) == {"url": "https://x"}
    full = PushConfig("https://x", "p", "t", "tok", "Bearer", "secret", "ten")
    assert json_codec.push_json(full) == {
        "tenant": "ten",
        "id": "p",
        "taskId": "t",
        "url": "https://x",
        "token": "tok",
        "authentication": {"scheme": "Bearer", "credentials": "secret"},
    }
    for config in (bare, full):
        assert json_codec.push_config(json_codec.push_json(config)) == config
        assert pb_codec.push_config_from_pb(pb_codec.push_config_pb(config)) == config
    page = PushPage([full], "next")
    assert json_format.MessageToDict(pb_codec.push_page_pb(page)) == json_codec.push_page_json(page)


# -- roles ---------------------------------------------------------------------------------------------------------------


def test_a_callers_message_is_the_callers_whatever_its_metadata_say():
    found = {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": [{"text": "x"}],
        "metadata": {"plgrpc": {"role": "system"}},
    }
    message = json_codec.message_from_json(found)[0]
    assert message.role == "user"
    assert json_codec.message_json(message) == found


def test_extensions_and_referenced_tasks_are_kept_beside_our_metadata():
    found = {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": [{"text": "x"}],
        "extensions": ["urn:e"],
        "referenceTaskIds": ["t"],
    }
    message = json_codec.message_from_json(found)[0]
    assert message.metadata == {"a2a": {"extensions": ["urn:e"], "reference_task_ids": ["t"]}}


@given(A2A_MESSAGES)
def test_a_message_that_the_log_calls_otherwise_has_its_senders_id(found):
    message = json_codec.message_from_json(as_received(found))[0]
    own = dict(message.metadata or {})
    logged = replace(message, id="log-1", metadata=own | {"a2a": {**own.get("a2a", {}), "message_id": message.id}})
    assert json_codec.message_json(logged) == found
    assert pb_codec.message_pb(logged) == pb_codec.message_pb(message)


# -- answers of other agents ---------------------------------------------------------------------------------------------


def test_an_answer_may_lack_what_a_request_must_have():
    task = pb.Task(id="t", status=pb.TaskStatus(state=pb.TASK_STATE_WORKING, message=pb.Message()))
    task.artifacts.add()
    view = pb_codec.task_from_pb(task)
    assert view.status.message is not None
    assert view.status.message.role == "agent"
    assert view.status.message.id
    assert view.artifacts is not None
    assert view.artifacts[0].id


def test_a_state_of_a_newer_peer_is_unknown():
    assert pb_codec.task_from_pb(pb.Task(id="t", status=pb.TaskStatus(state=99))).status.state is TaskState.UNKNOWN  # type: ignore[arg-type]  # protobuf enums are open


def test_a_response_that_holds_nothing_is_refused():
    for empty in (pb.StreamResponse(), pb.SendMessageResponse()):
        with pytest.raises(ValueError, match="must hold"):
            pb_codec.update_from_pb(empty)
