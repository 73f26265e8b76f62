"""The REST binding described for programs: OpenAPI 3.1, made of A2A v1.0.1's messages. Served at `/openapi.json`."""

from typing import Any, Final

from protolink_grpc.models.card import AgentCard

Json = dict[str, Any]

_ID: Final[Json] = {"type": "string", "minLength": 1, "maxLength": 128}
_TEXT: Final[Json] = {"type": "string"}
_OBJECT: Final[Json] = {"type": "object", "additionalProperties": True}
_COUNT: Final[Json] = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_SIZE: Final[Json] = {"type": "integer", "minimum": 1, "maximum": 100}

STATES: Final = [
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
]


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(properties: Json, *required: str) -> Json:
    found: Json = {"type": "object", "properties": properties}
    return found | ({"required": list(required)} if required else {})


def _list(items: Json, **bounds: int) -> Json:
    return {"type": "array", "items": items, **bounds}


_PART_FACTS: Final[Json] = {"metadata": _OBJECT, "filename": _TEXT, "mediaType": _TEXT}

SCHEMAS: Final[Json] = {
    "Part": {
        "oneOf": [
            _object({"text": _TEXT, **_PART_FACTS}, "text"),
            _object({"raw": {"type": "string", "contentEncoding": "base64"}, **_PART_FACTS}, "raw"),
            _object({"url": _TEXT, **_PART_FACTS}, "url"),
            _object({"data": {}, **_PART_FACTS}, "data"),
        ]
    },
    "Message": _object(
        {
            "messageId": _ID,
            "contextId": {"type": "string", "maxLength": 128},
            "taskId": {"type": "string", "maxLength": 128},
            "role": {"type": "string", "enum": ["ROLE_USER", "ROLE_AGENT"]},
            "parts": _list(_ref("Part"), minItems=1, maxItems=1000),
            "metadata": _OBJECT,
            "extensions": _list(_TEXT),
            "referenceTaskIds": _list(_ID),
        },
        "messageId",
        "role",
        "parts",
    ),
    "Artifact": _object(
        {
            "artifactId": _ID,
            "name": _TEXT,
            "description": _TEXT,
            "parts": _list(_ref("Part")),
            "metadata": _OBJECT,
            "extensions": _list(_TEXT),
        },
        "artifactId",
        "parts",
    ),
    "TaskStatus": _object(
        {
            "state": {"type": "string", "enum": STATES},
            "message": _ref("Message"),
            "timestamp": {"type": "string", "format": "date-time"},
        },
        "state",
    ),
    "Task": _object(
        {
            "id": _ID,
            "contextId": _TEXT,
            "status": _ref("TaskStatus"),
            "artifacts": _list(_ref("Artifact")),
            "history": _list(_ref("Message")),
            "metadata": _OBJECT,
        },
        "id",
        "status",
    ),
    "PushConfig": _object(
        {
            "id": {"type": "string", "maxLength": 128},
            "taskId": {"type": "string", "maxLength": 128},
            "tenant": _TEXT,
            "url": {"type": "string", "format": "uri"},
            "token": _TEXT,
            "authentication": _object({"scheme": _TEXT, "credentials": _TEXT}, "scheme"),
        },
        "url",
    ),
    "PushConfigs": _object({"configs": _list(_ref("PushConfig")), "nextPageToken": _TEXT}),
    "SendMessageRequest": _object(
        {
            "tenant": _TEXT,
            "message": _ref("Message"),
            "configuration": _object(
                {
                    "acceptedOutputModes": _list(_TEXT),
                    "historyLength": _COUNT,
                    "returnImmediately": {"type": "boolean"},
                    "taskPushNotificationConfig": _ref("PushConfig"),
                }
            ),
            "metadata": _OBJECT,
        },
        "message",
    ),
    "SendMessageResponse": {
        "oneOf": [_object({"task": _ref("Task")}, "task"), _object({"message": _ref("Message")}, "message")]
    },
    "CancelTaskRequest": _object({"metadata": _OBJECT}),
    "Tasks": _object(
        {"tasks": _list(_ref("Task")), "nextPageToken": _TEXT, "pageSize": _COUNT, "totalSize": _COUNT},
        "tasks",
        "nextPageToken",
        "pageSize",
        "totalSize",
    ),
    "AgentCard": _OBJECT,
    "Empty": _OBJECT,
    "Error": _object(
        {
            "error": _object(
                {"code": {"type": "integer"}, "status": _TEXT, "message": _TEXT, "details": _list(_OBJECT)},
                "code",
                "status",
                "message",
            )
        },
        "error",
    ),
}


def _parameter(place: str, name: str, schema: Json, what: str) -> Json:
    return {"in": place, "name": name, "required": place == "path", "schema": schema, "description": what}


_VERSION: Final = _parameter("header", "A2A-Version", {"type": "string", "enum": ["1.0"]}, "Must be 1.0.") | {
    "required": True
}
_TASK: Final = _parameter("path", "id", _ID, "The task.")
_CONFIG: Final = _parameter("path", "config", _ID, "The push config.")
_LENGTH: Final = _parameter("query", "historyLength", _COUNT, "Messages at most, the newest.")
_PAGE: Final = [
    _parameter("query", "pageSize", _SIZE, "Items of a page at most."),
    _parameter("query", "pageToken", _TEXT, "Where the page before ended."),
]
_LIST: Final = [
    _parameter("query", "contextId", {"type": "string", "maxLength": 128}, "Only tasks of this context."),
    _parameter("query", "status", {"type": "string", "enum": STATES}, "Only tasks in this state."),
    *_PAGE,
    _LENGTH,
    _parameter("query", "statusTimestampAfter", {"type": "string", "format": "date-time"}, "Only tasks changed after."),
    _parameter("query", "includeArtifacts", {"type": "boolean"}, "Show artifacts, too."),
]
_CONFIGS: Final = "/tasks/{id}/pushNotificationConfigs"

_OPERATIONS: Final[list[tuple[str, str, str, str, str | None, str, list[Json]]]] = [
    (
        "/message:send",
        "post",
        "SendMessage",
        "Begin or continue a task.",
        "SendMessageRequest",
        "SendMessageResponse",
        [],
    ),
    ("/message:stream", "post", "SendStreamingMessage", "The same, shown as it happens.", "SendMessageRequest", "", []),
    ("/tasks", "get", "ListTasks", "The caller's tasks, last changed first.", None, "Tasks", _LIST),
    ("/tasks/{id}", "get", "GetTask", "A task as it is now.", None, "Task", [_TASK, _LENGTH]),
    ("/tasks/{id}:cancel", "post", "CancelTask", "Cancel a task.", "CancelTaskRequest", "Task", [_TASK]),
    ("/tasks/{id}:subscribe", "post", "SubscribeToTask", "Watch a task.", None, "", [_TASK]),
    (_CONFIGS, "post", "CreateTaskPushNotificationConfig", "Register a webhook.", "PushConfig", "PushConfig", [_TASK]),
    (_CONFIGS, "get", "ListTaskPushNotificationConfigs", "A task's webhooks.", None, "PushConfigs", [_TASK, *_PAGE]),
    (
        f"{_CONFIGS}/{{config}}",
        "get",
        "GetTaskPushNotificationConfig",
        "One webhook.",
        None,
        "PushConfig",
        [_TASK, _CONFIG],
    ),
    (
        f"{_CONFIGS}/{{config}}",
        "delete",
        "DeleteTaskPushNotificationConfig",
        "Forget a webhook.",
        None,
        "Empty",
        [_TASK, _CONFIG],
    ),
    ("/extendedAgentCard", "get", "GetExtendedAgentCard", "What known callers are told.", None, "AgentCard", []),
]
"""Path, method, operation, sentence, request schema, answer schema (empty for an event stream), parameters."""


def openapi_json(card: AgentCard) -> Json:
    """The description of one agent's REST binding."""
    paths: Json = {}
    for path, method, name, what, body, answer, parameters in _OPERATIONS:
        paths.setdefault(path, {})[method] = _operation(name, what, body, answer, parameters)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"{card.name}: A2A over HTTP+JSON",
            "description": card.description,
            "version": card.version,
        },
        "paths": paths,
        "components": {"schemas": SCHEMAS},
    }


def _operation(name: str, what: str, body: str | None, answer: str, parameters: list[Json]) -> Json:
    failed = {"description": "What is wrong.", "content": {"application/json": {"schema": _ref("Error")}}}
    shown = {"application/json": {"schema": _ref(answer)}} if answer else {"text/event-stream": {"schema": _TEXT}}
    found: Json = {
        "operationId": name,
        "summary": what,
        "parameters": [_VERSION, *parameters],
        "responses": {
            "200": {"description": "Done.", "content": shown},
            **{str(status): failed for status in (400, 401, 403, 404, 413, 415, 429, 500, 501, 503, 504)},
        },
    }
    if body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": _ref(body)}}}
    return found
