"""OpenAPI 3.1 description of the REST binding, from the messages of A2A v1.0.1. Served at `/openapi.json`.

Request schemas are open, because unknown fields are ignored; response schemas are closed. Requests are described in ProtoJSON's
canonical spelling; its other spellings (snake_case, null for absent, numbers as text) are accepted, too.
"""

from collections.abc import Callable
from typing import Any, Final

from protolink_grpc.edges.http.json_body import A2A_JSON, JSON
from protolink_grpc.models.card import AgentCard

Json = dict[str, Any]
ObjectSchema = Callable[..., Json]

_PRINTABLE: Final = r"^( |[^\p{C}\p{Z}])*$"
"""Source: `wire.tasks.check_id`."""

_OPTIONAL_ID: Final[Json] = {
    "type": "string",
    "maxLength": 128,
    "pattern": _PRINTABLE,
    "description": "At most 128 bytes of printable text.",
}
_REQUIRED_ID: Final[Json] = _OPTIONAL_ID | {"minLength": 1}
_ID: Final[Json] = {"type": "string", "minLength": 1}
_TEXT: Final[Json] = {"type": "string"}
_NON_EMPTY: Final[Json] = {"type": "string", "minLength": 1}
_FLAG: Final[Json] = {"type": "boolean"}
_OBJECT: Final[Json] = {"type": "object", "additionalProperties": True}
_TIME: Final[Json] = {"type": "string", "format": "date-time"}
_BASE64: Final[Json] = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}
_SCHEME: Final[Json] = {"type": "string", "pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$"}
_HEADER_VALUE: Final[Json] = {"type": "string", "pattern": "^([!-~]([ -~]*[!-~])?)?$", "maxLength": 8192}
_COUNT: Final[Json] = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}

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


def _open_object(properties: Json, *required: str) -> Json:
    """Return the schema of an object in a request; it allows further fields."""
    found: Json = {"type": "object", "properties": properties}
    return found | ({"required": list(required)} if required else {})


def _closed_object(properties: Json, *required: str) -> Json:
    """Return the schema of an object in a response; it allows no further fields."""
    return _open_object(properties, *required) | {"additionalProperties": False}


def _array(items: Json, **bounds: int) -> Json:
    return {"type": "array", "items": items, **bounds}


def _part_schema(shape: ObjectSchema) -> Json:
    facts: Json = {"metadata": _OBJECT, "filename": _TEXT, "mediaType": _TEXT}
    kinds: list[tuple[str, Json]] = [("text", _TEXT), ("raw", _BASE64), ("url", _TEXT), ("data", {})]
    return {"oneOf": [shape({name: kind, **facts}, name) for name, kind in kinds]}


def _message_schema(shape: ObjectSchema, identity: Json, part: str, required: Json, **bounds: int) -> Json:
    return shape(
        {
            "messageId": required,
            "contextId": identity,
            "taskId": identity,
            "role": {"type": "string", "enum": ["ROLE_USER", "ROLE_AGENT"]},
            "parts": _array(_ref(part), **bounds),
            "metadata": _OBJECT,
            "extensions": _array(_TEXT, maxItems=1000),
            "referenceTaskIds": _array(required, maxItems=1000),
        },
        "messageId",
        "role",
        "parts",
    )


def _push_config_schema(shape: ObjectSchema, identity: Json, *required: str) -> Json:
    authentication = shape({"scheme": _SCHEME, "credentials": _HEADER_VALUE}, "scheme")
    url = {"type": "string", "format": "iri", "pattern": "^https?://", "maxLength": 4096}
    ids = {"id": identity, "taskId": identity, "tenant": identity}
    return shape({**ids, "url": url, "token": _HEADER_VALUE, "authentication": authentication}, "url", *required)


_REQUEST_SCHEMAS: Final[Json] = {
    "NewPart": _part_schema(_open_object),
    "NewMessage": _message_schema(_open_object, _OPTIONAL_ID, "NewPart", _REQUIRED_ID, minItems=1, maxItems=1000),
    "NewPushConfig": _push_config_schema(_open_object, _OPTIONAL_ID),
    "SendMessageRequest": _open_object(
        {
            "tenant": _OPTIONAL_ID,
            "message": _ref("NewMessage"),
            "configuration": _open_object(
                {
                    "acceptedOutputModes": _array(_TEXT, maxItems=1000),
                    "historyLength": _COUNT,
                    "returnImmediately": _FLAG,
                    "taskPushNotificationConfig": _ref("NewPushConfig"),
                }
            ),
            "metadata": _OBJECT,
        },
        "message",
    ),
    "CancelTaskRequest": _open_object({"tenant": _OPTIONAL_ID, "metadata": _OBJECT}),
}

_TASK_EVENT: Final[Json] = {"taskId": _ID, "contextId": _ID, "metadata": _OBJECT}

_RESPONSE_SCHEMAS: Final[Json] = {
    "Part": _part_schema(_closed_object),
    "Message": _message_schema(_closed_object, _ID, "Part", _ID),
    "Artifact": _closed_object(
        {
            "artifactId": _ID,
            "name": _NON_EMPTY,
            "description": _NON_EMPTY,
            "parts": _array(_ref("Part")),
            "metadata": _OBJECT,
            "extensions": _array(_TEXT),
        },
        "artifactId",
        "parts",
    ),
    "TaskStatus": _closed_object(
        {"state": {"type": "string", "enum": STATES}, "message": _ref("Message"), "timestamp": _TIME},
        "state",
        "timestamp",
    ),
    "Task": _closed_object(
        {
            "id": _ID,
            "contextId": _ID,
            "status": _ref("TaskStatus"),
            "artifacts": _array(_ref("Artifact"), minItems=1),
            "history": _array(_ref("Message")),
            "metadata": _OBJECT,
        },
        "id",
        "contextId",
        "status",
    ),
    "Tasks": _closed_object(
        {"tasks": _array(_ref("Task"), maxItems=100), "nextPageToken": _TEXT, "pageSize": _COUNT, "totalSize": _COUNT},
        "tasks",
        "nextPageToken",
        "pageSize",
        "totalSize",
    ),
    "StatusUpdate": _closed_object(_TASK_EVENT | {"status": _ref("TaskStatus")}, "taskId", "contextId", "status"),
    "ArtifactUpdate": _closed_object(
        _TASK_EVENT | {"artifact": _ref("Artifact"), "append": _FLAG, "lastChunk": _FLAG},
        "taskId",
        "contextId",
        "artifact",
    ),
    "SendMessageResponse": {
        "oneOf": [
            _closed_object({"task": _ref("Task")}, "task"),
            _closed_object({"message": _ref("Message")}, "message"),
        ]
    },
    "StreamResponse": {
        "oneOf": [
            _closed_object({"task": _ref("Task")}, "task"),
            _closed_object({"message": _ref("Message")}, "message"),
            _closed_object({"statusUpdate": _ref("StatusUpdate")}, "statusUpdate"),
            _closed_object({"artifactUpdate": _ref("ArtifactUpdate")}, "artifactUpdate"),
        ]
    },
    "PushConfig": _push_config_schema(_closed_object, _ID, "id", "taskId"),
    "PushConfigs": _closed_object(
        {"configs": _array(_ref("PushConfig"), maxItems=100), "nextPageToken": _TEXT}, "configs", "nextPageToken"
    ),
    "Empty": _closed_object({}),
    "AgentInterface": _closed_object(
        {"url": _NON_EMPTY, "protocolBinding": _NON_EMPTY, "protocolVersion": _NON_EMPTY, "tenant": _NON_EMPTY},
        "url",
        "protocolBinding",
        "protocolVersion",
    ),
    "AgentSkill": _open_object(
        {"id": _NON_EMPTY, "name": _NON_EMPTY, "description": _NON_EMPTY, "tags": _array(_TEXT, minItems=1)},
        "id",
        "name",
        "description",
        "tags",
    ),
    "AgentCard": _open_object(
        {
            "name": _TEXT,
            "description": _TEXT,
            "version": _TEXT,
            "supportedInterfaces": _array(_ref("AgentInterface"), minItems=1),
            "capabilities": _open_object({"streaming": _FLAG, "pushNotifications": _FLAG, "extendedAgentCard": _FLAG}),
            "defaultInputModes": _array(_TEXT, minItems=1),
            "defaultOutputModes": _array(_TEXT, minItems=1),
            "skills": _array(_ref("AgentSkill")),
        },
        "name",
        "description",
        "version",
        "supportedInterfaces",
        "capabilities",
        "defaultInputModes",
        "defaultOutputModes",
        "skills",
    ),
    "Error": _closed_object(
        {
            "error": _closed_object(
                {
                    "code": {"type": "integer", "minimum": 400, "maximum": 599},
                    "status": {"type": "string", "pattern": "^[A-Z_]+$"},
                    "message": _NON_EMPTY,
                    "details": _array(_open_object({"@type": _NON_EMPTY}, "@type"), minItems=1),
                },
                "code",
                "status",
                "message",
            )
        },
        "error",
    ),
}

SCHEMAS: Final[Json] = _REQUEST_SCHEMAS | _RESPONSE_SCHEMAS

_EVENTS: Final[Json] = _closed_object(
    {
        "id": {"type": "string", "pattern": "^[0-9]+$", "description": "Value for Last-Event-ID."},
        "event": {"type": "string", "enum": ["message", "error"], "description": "`error` ends a stream that fails."},
        "retry": {"type": "integer"},
        "data": {
            "type": "string",
            "contentMediaType": JSON,
            "contentSchema": {"anyOf": [_ref("StreamResponse"), _ref("Error")]},
        },
    }
) | {"description": "One event of the stream."}


def _parameter(place: str, name: str, schema: Json, what: str, *, required: bool = False) -> Json:
    needed = required or place == "path"
    return {"in": place, "name": name, "required": needed, "schema": schema, "description": what}


_VERSION: Final = _parameter(
    "header", "A2A-Version", {"type": "string", "enum": ["1.0"]}, "Must be 1.0.", required=True
)
_LAST_EVENT_ID: Final = _parameter(
    "header",
    "Last-Event-ID",
    {"type": "string", "pattern": "^[0-9]{1,18}$"},
    "Id of the last received event; the stream continues after it.",
)
_TASK: Final = _parameter("path", "id", _REQUIRED_ID, "The task.")
_CONFIG: Final = _parameter("path", "config", _REQUIRED_ID, "The push config.")
_LENGTH: Final = _parameter(
    "query", "historyLength", _COUNT, "Maximum number of messages; the newest ones are returned."
)
_TOKEN: Final = _parameter("query", "pageToken", _TEXT, "The `nextPageToken` of the previous page.")


def _page_size(least: int) -> Json:
    return _parameter(
        "query",
        "pageSize",
        {"type": "integer", "minimum": least, "maximum": 100},
        "Maximum number of items of the page.",
    )


_LIST: Final = [
    _parameter("query", "contextId", _OPTIONAL_ID, "Only tasks of this context."),
    _parameter("query", "status", {"type": "string", "enum": STATES}, "Only tasks in this state."),
    _page_size(1),
    _TOKEN,
    _LENGTH,
    _parameter("query", "statusTimestampAfter", _TIME, "Only tasks that changed after this time."),
    _parameter("query", "includeArtifacts", _FLAG, "Include artifacts."),
]
_CONFIGS: Final = "/tasks/{id}/pushNotificationConfigs"
_STREAM: Final = ""
"""Marks an event stream, in the place of a response schema."""

_SEND: Final = ("SendMessageRequest", "SendMessageResponse")

_OPERATIONS: Final[list[tuple[str, str, str, str, str | None, str, list[Json]]]] = [
    ("/message:send", "post", "SendMessage", "Begin or continue a task.", *_SEND, []),
    (
        "/message:stream",
        "post",
        "SendStreamingMessage",
        "Begin or continue a task and stream it.",
        _SEND[0],
        _STREAM,
        [],
    ),
    ("/tasks", "get", "ListTasks", "List the caller's tasks, last changed first.", None, "Tasks", _LIST),
    ("/tasks/{id}", "get", "GetTask", "Get the current state of a task.", None, "Task", [_TASK, _LENGTH]),
    ("/tasks/{id}:cancel", "post", "CancelTask", "Cancel a task.", "CancelTaskRequest", "Task", [_TASK]),
    ("/tasks/{id}:subscribe", "post", "SubscribeToTask", "Watch a task.", None, _STREAM, [_TASK, _LAST_EVENT_ID]),
    (
        "/tasks/{id}:subscribe",
        "get",
        "WatchTask",
        "Watch a task, with GET.",
        None,
        _STREAM,
        [_TASK, _LAST_EVENT_ID],
    ),
    (
        _CONFIGS,
        "post",
        "CreateTaskPushNotificationConfig",
        "Register a webhook.",
        "NewPushConfig",
        "PushConfig",
        [_TASK],
    ),
    (
        _CONFIGS,
        "get",
        "ListTaskPushNotificationConfigs",
        "List the webhooks of a task.",
        None,
        "PushConfigs",
        [_TASK, _page_size(0), _TOKEN],
    ),
    (
        f"{_CONFIGS}/{{config}}",
        "get",
        "GetTaskPushNotificationConfig",
        "Get a webhook.",
        None,
        "PushConfig",
        [_TASK, _CONFIG],
    ),
    (
        f"{_CONFIGS}/{{config}}",
        "delete",
        "DeleteTaskPushNotificationConfig",
        "Delete a webhook.",
        None,
        "Empty",
        [_TASK, _CONFIG],
    ),
    ("/extendedAgentCard", "get", "GetExtendedAgentCard", "Get the extended card.", None, "AgentCard", []),
]
"""Path, method, operation, summary, request schema, response schema, parameters."""

_STATUSES: Final = (400, 401, 403, 404, 413, 415, 429, 500, 501, 503, 504)


def openapi_json(card: AgentCard) -> Json:
    """Return the OpenAPI description of one agent's REST binding."""
    paths: Json = {}
    for path, method, name, what, body, response, parameters in _OPERATIONS:
        paths.setdefault(path, {})[method] = _operation(name, what, body, response, parameters)
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


def _operation(name: str, what: str, body: str | None, response: str, parameters: list[Json]) -> Json:
    success = _content(response) if response else {"text/event-stream": {"schema": _EVENTS}}
    failure = {"description": "Error.", "content": _content("Error")}
    found: Json = {
        "operationId": name,
        "summary": what,
        "parameters": [_VERSION, *parameters],
        "responses": {
            "200": {"description": "Success.", "content": success},
            **{str(status): failure for status in _STATUSES},
        },
    }
    if body is not None:
        found["requestBody"] = {"required": True, "content": _content(body)}
    return found


def _content(schema: str) -> Json:
    """Return a schema for both media types, plain JSON and A2A's own; a response has the one that the caller uses."""
    return {media_type: {"schema": _ref(schema)} for media_type in (JSON, A2A_JSON)}
