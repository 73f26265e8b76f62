"""Writes responses in v0.3's JSON, by converting the output of the v1.0 codec."""

from typing import Any, assert_never

from protolink_grpc.a2a import json_codec
from protolink_grpc.a2a.v03.terms import BARE_VALUE, ROLES, STATES, V1_KEY
from protolink_grpc.a2a.values import ArtifactUpdate, MessageReply, StatusUpdate, TaskView, Update
from protolink_grpc.models.push_config import PushConfig

Json = dict[str, Any]

_MESSAGE_FIELDS = ("messageId", "contextId", "taskId", "referenceTaskIds", "extensions", "metadata")
_ARTIFACT_FIELDS = ("artifactId", "name", "description", "extensions", "metadata")


def task_json(view: TaskView) -> Json:
    return _task_to_v03(json_codec.task_json(view))


def push_body_v03(view: TaskView) -> Json:
    """Return the body of a notification for a webhook that was registered with v0.3: the current task, without a wrapper."""
    return task_json(view)


def reply_json(reply: TaskView | MessageReply) -> Json:
    """Return the result of `message/send`: a task or a message, without a wrapper."""
    if isinstance(reply, TaskView):
        return task_json(reply)
    return _message_to_v03(json_codec.message_json(reply.message, reply.context_id, ""))


def update_json(update: Update) -> Json:
    """Return one event of a stream; `kind` is its type."""
    match update:
        case TaskView() | MessageReply():
            return reply_json(update)
        case StatusUpdate():
            return _status_update_to_v03(json_codec.update_json(update)["statusUpdate"], update.final)
        case ArtifactUpdate():
            return _artifact_update_to_v03(json_codec.update_json(update)["artifactUpdate"])
        case _:
            assert_never(update)


def push_json(config: PushConfig) -> Json:
    """Return a `TaskPushNotificationConfig`."""
    found: Json = {"url": config.url}
    if config.id:
        found["id"] = config.id
    if config.token:
        found["token"] = config.token
    if config.scheme or config.credentials:
        found["authentication"] = {"schemes": [config.scheme] if config.scheme else []}
        if config.credentials:
            found["authentication"]["credentials"] = config.credentials
    return {"taskId": config.task_id, "pushNotificationConfig": found}


def _task_to_v03(given: Json) -> Json:
    found: Json = {
        "kind": "task",
        "id": given["id"],
        "contextId": given["contextId"],
        "status": _status_to_v03(given["status"]),
    }
    if "history" in given:
        found["history"] = [_message_to_v03(message) for message in given["history"]]
    if "artifacts" in given:
        found["artifacts"] = [_artifact_to_v03(artifact) for artifact in given["artifacts"]]
    if "metadata" in given:
        found["metadata"] = given["metadata"]
    return found


def _status_to_v03(given: Json) -> Json:
    found: Json = {"state": STATES[given["state"]]}
    if "message" in given:
        found["message"] = _message_to_v03(given["message"])
    if "timestamp" in given:
        found["timestamp"] = given["timestamp"]
    return found


def _status_update_to_v03(given: Json, final: bool) -> Json:
    found: Json = {
        "kind": "status-update",
        "taskId": given["taskId"],
        "contextId": given["contextId"],
        "status": _status_to_v03(given["status"]),
        "final": final,
    }
    if "metadata" in given:
        found["metadata"] = given["metadata"]
    return found


def _artifact_update_to_v03(given: Json) -> Json:
    found: Json = {
        "kind": "artifact-update",
        "taskId": given["taskId"],
        "contextId": given["contextId"],
        "artifact": _artifact_to_v03(given["artifact"]),
        "append": given.get("append", False),
        "lastChunk": given.get("lastChunk", False),
    }
    if "metadata" in given:
        found["metadata"] = given["metadata"]
    return found


def _message_to_v03(given: Json) -> Json:
    found: Json = {
        "kind": "message",
        "role": ROLES[given["role"]],
        "parts": [_part_to_v03(part) for part in given["parts"]],
    }
    for key in _MESSAGE_FIELDS:
        if key in given:
            found[key] = given[key]
    return found


def _artifact_to_v03(given: Json) -> Json:
    found = {key: given[key] for key in _ARTIFACT_FIELDS if key in given}
    found["parts"] = [_part_to_v03(part) for part in given.get("parts", ())]
    return found


def _part_to_v03(given: Json) -> Json:
    if len(given) == 1 and "text" in given:  # by far the most common
        return {"kind": "text", "text": given["text"]}
    added: Json = {}
    if "text" in given:
        found: Json = {"kind": "text", "text": given["text"]}
    elif "data" in given:
        data = given["data"]
        if not isinstance(data, dict):
            data, added[BARE_VALUE] = {"value": data}, True
        found = {"kind": "data", "data": data}
    else:
        file = {"bytes": given["raw"]} if "raw" in given else {"uri": given["url"]}
        for name, spelled in (("mediaType", "mimeType"), ("filename", "name")):
            if given.get(name):
                file[spelled] = given[name]
        found = {"kind": "file", "file": file}
    if found["kind"] != "file":
        kept = {name: given[name] for name in ("mediaType", "filename") if given.get(name)}
        if kept:
            added[V1_KEY] = kept
    if added or "metadata" in given:
        found["metadata"] = given.get("metadata", {}) | added
    return found
