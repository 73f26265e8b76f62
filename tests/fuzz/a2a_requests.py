"""Valid requests to send a message, in the JSON of both versions of A2A."""

from typing import Any

Json = dict[str, Any]

PART: Json = {"text": "hello", "metadata": {"a": [1]}, "mediaType": "text/plain", "filename": "f"}
PARTS = [
    PART,
    {"raw": "AAEC"},
    {"url": "https://files.example/1", "mediaType": "image/png"},
    {"data": {"a": [1, None]}},
]
PLGRPC_PART: Json = {
    "data": {"type": "tool_call", "content": {"tool_name": "t", "args": {}, "call_id": "c"}},
    "mediaType": "application/vnd.plgrpc.part+json",
    "metadata": {"plgrpc": {"type": "image"}},
}
WEBHOOK: Json = {
    "url": "http://127.0.0.1:9/x",
    "token": "t",
    "authentication": {"scheme": "Bearer", "credentials": "c"},
}
OLD_PARTS = [
    {"kind": "text", "text": "hello", "metadata": {"a2a_v1": {"mediaType": "text/plain"}}},
    {"kind": "file", "file": {"bytes": "AAEC", "mimeType": "image/png", "name": "f"}},
    {"kind": "file", "file": {"uri": "https://files.example/1"}},
    {"kind": "data", "data": {"value": 1}, "metadata": {"data_part_compat": True}},
]
OLD_WEBHOOK: Json = {"url": "http://127.0.0.1:9/x", "authentication": {"schemes": ["Bearer"], "credentials": "c"}}


def v1_send(task_id: str) -> Json:
    return {
        "message": {
            "messageId": "m",
            "role": "ROLE_USER",
            "parts": [*PARTS, PLGRPC_PART],
            "contextId": "c",
            "metadata": {"a": 1},
            "extensions": ["urn:x"],
            "referenceTaskIds": [task_id],
        },
        "configuration": {
            "acceptedOutputModes": ["text/plain"],
            "historyLength": 1,
            "returnImmediately": False,
            "taskPushNotificationConfig": WEBHOOK,
        },
        "metadata": {"plgrpc": {"run_context": {"metadata": {"a": 1}, "budget": {"max_steps": 3}}}},
        "tenant": "t",
    }


def v03_send(task_id: str) -> Json:
    return {
        "message": {
            "kind": "message",
            "messageId": "m",
            "role": "user",
            "parts": OLD_PARTS,
            "contextId": "old",
            "referenceTaskIds": [task_id],
            "metadata": {"a": 1},
        },
        "configuration": {
            "acceptedOutputModes": ["text/plain"],
            "historyLength": 1,
            "blocking": True,
            "pushNotificationConfig": OLD_WEBHOOK,
        },
        "metadata": {},
    }
