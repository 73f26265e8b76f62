"""Thin clients of A2A's three bindings with one interface: dicts in the spelling of v1.0, one type of error, no SDK, no retries.

A wire checks the shape of what it reads: an error without its ErrorInfo, or an answer of another media type, fails the test.
"""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import quote

import grpc.aio
import httpx
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from google.protobuf.json_format import MessageToDict, ParseDict
from google.rpc import error_details_pb2, status_pb2

Json = dict[str, Any]

V1_NAMES = ("grpc", "jsonrpc", "rest")
V03_NAMES = ("grpc-0.3", "jsonrpc-0.3", "rest-0.3")

A2A_DOMAIN = "a2a-protocol.org"
TYPE = "type.googleapis.com/google.rpc."

CODES: dict[str, tuple[int, str, int]] = {
    "TASK_NOT_FOUND": (-32001, "NOT_FOUND", 404),
    "TASK_NOT_CANCELABLE": (-32002, "FAILED_PRECONDITION", 400),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (-32003, "FAILED_PRECONDITION", 400),
    "UNSUPPORTED_OPERATION": (-32004, "FAILED_PRECONDITION", 400),
    "CONTENT_TYPE_NOT_SUPPORTED": (-32005, "INVALID_ARGUMENT", 400),
    "INVALID_AGENT_RESPONSE": (-32006, "INTERNAL", 500),
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": (-32007, "FAILED_PRECONDITION", 400),
    "EXTENSION_SUPPORT_REQUIRED": (-32008, "FAILED_PRECONDITION", 400),
    "VERSION_NOT_SUPPORTED": (-32009, "FAILED_PRECONDITION", 400),
    "INVALID_ARGUMENT": (-32602, "INVALID_ARGUMENT", 400),
}
"""JSON-RPC code, gRPC status and HTTP status. Source: A2A v1.0.1 section 5.4."""

V03_CODES = {"EXTENSION_SUPPORT_REQUIRED": -32603, "VERSION_NOT_SUPPORTED": -32603}
"""What v0.3's JSON-RPC has no code of its own for."""

UNIMPLEMENTED_V03 = ("UNSUPPORTED_OPERATION", "PUSH_NOTIFICATION_NOT_SUPPORTED")
"""UNIMPLEMENTED in v0.3's gRPC. Source: A2A v1.0.0 section 5.4, which wrote down what v0.3's peers do."""


@dataclass
class Refused(Exception):
    """An error answer.

    Attributes:
        code: The binding's own: a JSON-RPC code, a gRPC status name, an HTTP status.
        reason: A2A's where it has one.
        fields: What the BadRequest names, spelled without case and underscores.
    """

    code: int | str
    reason: str
    message: str
    domain: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    fields: list[str] = field(default_factory=list)

    def shape(self, *ids: str) -> tuple[Any, ...]:
        """All that a caller can see of it, without these ids."""
        text = json.dumps([self.message, self.metadata, self.fields], sort_keys=True)
        for each in ids:
            text = text.replace(each, "<id>")
        return self.code, self.reason, self.domain, text


def plain(name: str) -> str:
    return name.replace("_", "").lower()


def from_details(code: int | str, message: str, details: list[Json]) -> Refused:
    """The error that `google.rpc` details tell of; exactly one ErrorInfo must be among them."""
    infos = [each for each in details if each["@type"] == f"{TYPE}ErrorInfo"]
    assert len(infos) == 1, details
    info = infos[0]
    metadata = info.get("metadata", {})
    assert all(isinstance(key, str) and isinstance(value, str) for key, value in metadata.items())
    fields = [
        plain(violation["field"])
        for each in details
        if each["@type"] == f"{TYPE}BadRequest"
        for violation in each["fieldViolations"]
    ]
    # Wrong arguments have one reason for SDKs, and ours beside it.
    reason = metadata.pop("cause") if info["reason"] == "INVALID_PARAMS" else info["reason"]
    return Refused(code, reason, message, info["domain"], metadata, fields)


@dataclass
class Line:
    """One agent's ports, as connections that many callers share."""

    http: httpx.AsyncClient
    channel: grpc.aio.Channel


class Caller:
    """What one principal can do over one binding.

    Args:
        headers: Sent with each request, names in lower case.
    """

    version: ClassVar[str] = "1.0"
    name: ClassVar[str] = ""

    def __init__(self, line: Line, headers: Mapping[str, str], tenant: str = "") -> None:
        self.line = line
        self.headers = dict(headers)
        self.tenant = tenant

    @property
    def is_v1(self) -> bool:
        return self.version == "1.0"

    def with_headers(self, **headers: str | None) -> "Caller":
        """The same with other headers; None takes one away."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        merged = self.headers | {name: value for name, value in named.items() if value is not None}
        gone = {name for name, value in named.items() if value is None}
        return type(self)(self.line, {name: value for name, value in merged.items() if name not in gone}, self.tenant)

    def in_tenant(self, tenant: str) -> "Caller":
        return type(self)(self.line, self.headers, tenant)

    async def call(self, operation: str, params: Json) -> Any:
        raise NotImplementedError

    def stream(self, operation: str, params: Json) -> AsyncGenerator[Json, None]:
        raise NotImplementedError

    def expected(self, reason: str) -> int | str:
        """The code of an A2A error on this binding."""
        raise NotImplementedError

    # -- the operations --------------------------------------------------------------------------------------------------

    def asked(self, **params: Any) -> Json:
        return ({"tenant": self.tenant} if self.tenant else {}) | {
            key: value for key, value in params.items() if value is not None
        }

    def sending(self, given: Json | str, **more: Any) -> Json:
        """The params that send a message, or one of a single text."""
        given = message(given) if isinstance(given, str) else given
        configuration = more.pop("configuration", None)
        return self.asked(message=given, configuration=configuration, **more)

    async def send(self, given: Json | str, **more: Any) -> Json:
        found = await self.call("SendMessage", self.sending(given, **more))
        assert isinstance(found, dict)
        assert len(found) == 1, found
        return found

    async def task(self, given: Json | str, **more: Any) -> Json:
        """Send, and the task that is the answer."""
        found = await self.send(given, **more)
        task: Json = found["task"]
        return task

    async def begin(self, given: Json | str, **more: Any) -> Json:
        """Send without waiting for the end."""
        return await self.task(given, configuration={"returnImmediately": True}, **more)

    def streaming(self, given: Json | str, **more: Any) -> AsyncGenerator[Json, None]:
        return self.stream("SendStreamingMessage", self.sending(given, **more))

    async def streamed(self, given: Json | str, **more: Any) -> list[Json]:
        return await everything(self.streaming(given, **more))

    async def get(self, task_id: str, history_length: int | None = None) -> Json:
        found: Json = await self.call("GetTask", self.asked(id=task_id, historyLength=history_length))
        return found

    async def listed(self, **params: Any) -> Json:
        found: Json = await self.call("ListTasks", self.asked(**params))
        return found

    async def cancel(self, task_id: str) -> Json:
        found: Json = await self.call("CancelTask", self.asked(id=task_id))
        return found

    def subscribe(self, task_id: str) -> AsyncGenerator[Json, None]:
        return self.stream("SubscribeToTask", self.asked(id=task_id))

    async def subscribed(self, task_id: str) -> list[Json]:
        return await everything(self.subscribe(task_id))

    async def set_push(self, task_id: str, url: str, **more: Any) -> Json:
        found: Json = await self.call("CreateTaskPushNotificationConfig", self.asked(taskId=task_id, url=url, **more))
        return found

    async def get_push(self, task_id: str, config_id: str) -> Json:
        found: Json = await self.call("GetTaskPushNotificationConfig", self.asked(taskId=task_id, id=config_id))
        return found

    async def list_push(self, task_id: str, **more: Any) -> Json:
        found: Json = await self.call("ListTaskPushNotificationConfigs", self.asked(taskId=task_id, **more))
        return found

    async def delete_push(self, task_id: str, config_id: str) -> Any:
        return await self.call("DeleteTaskPushNotificationConfig", self.asked(taskId=task_id, id=config_id))

    async def extended_card(self) -> Json:
        found: Json = await self.call("GetExtendedAgentCard", self.asked())
        return found


async def everything(events: AsyncGenerator[Json, None]) -> list[Json]:
    async with aclosing(events):
        return [event async for event in events]


_numbers = iter(range(1, 1 << 60))


def message(text: str = "", /, **fields: Any) -> Json:
    """A user's message with an id of its own."""
    parts = [{"text": text}] if text else []
    return {"messageId": f"m{next(_numbers)}", "role": "ROLE_USER", "parts": parts} | fields


# -- gRPC --------------------------------------------------------------------------------------------------------------------

_GRPC: dict[str, Any] = {
    "SendMessage": pb.SendMessageRequest,
    "SendStreamingMessage": pb.SendMessageRequest,
    "GetTask": pb.GetTaskRequest,
    "ListTasks": pb.ListTasksRequest,
    "CancelTask": pb.CancelTaskRequest,
    "SubscribeToTask": pb.SubscribeToTaskRequest,
    "CreateTaskPushNotificationConfig": pb.TaskPushNotificationConfig,
    "GetTaskPushNotificationConfig": pb.GetTaskPushNotificationConfigRequest,
    "ListTaskPushNotificationConfigs": pb.ListTaskPushNotificationConfigsRequest,
    "DeleteTaskPushNotificationConfig": pb.DeleteTaskPushNotificationConfigRequest,
    "GetExtendedAgentCard": pb.GetExtendedAgentCardRequest,
}


def refusal_of(error: grpc.aio.AioRpcError) -> Refused:
    """The error of a call, whose status must be told in full by its trailer."""
    trailer = dict(error.trailing_metadata() or ())
    assert "grpc-status-details-bin" in trailer, error
    status = status_pb2.Status.FromString(trailer["grpc-status-details-bin"])
    assert (status.code, status.message) == (error.code().value[0], error.details())
    details: list[Json] = []
    for each in status.details:
        kind = each.type_url.removeprefix(TYPE)
        known = getattr(error_details_pb2, kind)()
        assert each.Unpack(known)
        details.append({"@type": each.type_url} | MessageToDict(known))
    return from_details(error.code().name, status.message, details)


class Grpc(Caller):
    name = "grpc"

    @property
    def metadata(self) -> list[tuple[str, str]]:
        return list(self.headers.items())

    def expected(self, reason: str) -> int | str:
        return CODES[reason][1]

    async def call(self, operation: str, params: Json) -> Any:
        stub = a2a_pb2_grpc.A2AServiceStub(self.line.channel)
        request = ParseDict(params, _GRPC[operation]())
        try:
            answer = await getattr(stub, operation)(request, metadata=self.metadata, timeout=30)
        except grpc.aio.AioRpcError as error:
            raise refusal_of(error) from None
        found = MessageToDict(answer)
        # What protobuf has no way to leave out.
        if operation == "ListTasks":
            found = {"tasks": [], "nextPageToken": "", "totalSize": 0, "pageSize": 0} | found
        if operation == "ListTaskPushNotificationConfigs":
            found = {"configs": [], "nextPageToken": ""} | found
        return found

    async def stream(self, operation: str, params: Json) -> AsyncGenerator[Json, None]:
        stub = a2a_pb2_grpc.A2AServiceStub(self.line.channel)
        events = getattr(stub, operation)(ParseDict(params, _GRPC[operation]()), metadata=self.metadata, timeout=60)
        try:
            async for event in events:
                yield MessageToDict(event)
        except grpc.aio.AioRpcError as error:
            raise refusal_of(error) from None
        finally:
            events.cancel()


# -- JSON-RPC ----------------------------------------------------------------------------------------------------------------


@dataclass
class Frame:
    """One server-sent event."""

    data: Json
    id: str = ""
    event: str = ""


async def frames_of(response: httpx.Response, comments: list[str] | None = None) -> AsyncGenerator[Frame, None]:
    """The events of a response, read as a browser reads them; comments are put aside."""
    assert response.headers["content-type"].split(";")[0] == "text/event-stream"
    names: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line.startswith(":"):
            if comments is not None:
                comments.append(line)
        elif line:
            name, _, value = line.partition(":")
            assert name in ("id", "data", "event", "retry"), line
            assert name not in names, f"{name} is there twice"
            names[name] = value.removeprefix(" ")
        elif "data" in names:
            yield Frame(json.loads(names["data"]), names.get("id", ""), names.get("event", ""))
            names = {}
        else:
            names = {}


class JsonRpc(Caller):
    name = "jsonrpc"

    def expected(self, reason: str) -> int | str:
        return CODES[reason][0]

    def method(self, operation: str) -> str:
        return operation

    def written(self, operation: str, params: Json) -> Json:
        """The params as this version spells them."""
        return params

    def read(self, operation: str, result: Any) -> Any:
        """A result, or one of a stream, in v1.0's spelling."""
        return result

    def refusal(self, error: Json) -> Refused:
        assert set(error) <= {"code", "message", "data"}, error
        return from_details(error["code"], error["message"], error["data"])

    def envelope(self, operation: str, params: Json) -> Json:
        call_id = f"call-{next(_numbers)}"
        return {
            "jsonrpc": "2.0",
            "id": call_id,
            "method": self.method(operation),
            "params": self.written(operation, params),
        }

    def result(self, sent: Json, answer: Json) -> Any:
        assert (answer["jsonrpc"], answer["id"]) == ("2.0", sent["id"])
        assert len(answer) == 3, answer
        if "error" in answer:
            raise self.refusal(answer["error"])
        return answer["result"]

    async def call(self, operation: str, params: Json) -> Any:
        sent = self.envelope(operation, params)
        response = await self.line.http.post("/", json=sent, headers=self.headers)
        assert response.headers["content-type"].split(";")[0] == "application/json"
        return self.read(operation, self.answer(sent, response))

    def answer(self, sent: Json, response: httpx.Response) -> Any:
        """The result of an answer; what was refused before it was read has an HTTP status and no id."""
        body = response.json()
        if response.status_code != 200:
            assert body["jsonrpc"] == "2.0"
            assert body["id"] in (None, sent["id"])
            raise Refused(response.status_code, "", body["error"]["message"])
        return self.result(sent, body)

    async def stream(self, operation: str, params: Json) -> AsyncGenerator[Json, None]:
        sent = self.envelope(operation, params)
        async with self.line.http.stream("POST", "/", json=sent, headers=self.headers) as response:
            if response.headers["content-type"].split(";")[0] != "text/event-stream":
                await response.aread()
                self.answer(sent, response)
                raise AssertionError(f"a stream answered with {response.text}")
            async with aclosing(frames_of(response)) as frames:
                async for frame in frames:
                    yield self.read(operation, self.result(sent, frame.data))


# -- HTTP+JSON ---------------------------------------------------------------------------------------------------------------

PATHS: dict[str, tuple[str, str]] = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "GetTask": ("GET", "/tasks/{id}"),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": ("POST", "/tasks/{id}:subscribe"),
    "CreateTaskPushNotificationConfig": ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
    "GetTaskPushNotificationConfig": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "ListTaskPushNotificationConfigs": ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
    "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
}


class Rest(Caller):
    name = "rest"
    paths: ClassVar[dict[str, tuple[str, str]]] = PATHS

    def expected(self, reason: str) -> int | str:
        return CODES[reason][2]

    def written(self, operation: str, params: Json) -> Json:
        return params

    def read(self, operation: str, result: Any) -> Any:
        return result

    def request(self, operation: str, params: Json) -> tuple[str, str, Json]:
        """Method, path with query, and what goes to httpx besides."""
        method, path = self.paths[operation]
        rest = self.written(operation, params)
        tenant = rest.pop("tenant", "") if self.is_v1 else ""
        for key in ("taskId", "id"):
            if f"{{{key}}}" in path:
                path = path.replace(f"{{{key}}}", quote(str(rest.pop(key)), safe=""))
        if tenant:
            path = f"/{tenant}{path}"
        if method == "POST":
            return method, path, {"json": rest}
        query = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in rest.items()}
        return method, path, {"params": query}

    def refusal(self, response: httpx.Response) -> Refused:
        body = response.json()
        assert set(body) == {"error"}, body
        error = body["error"]
        assert set(error) == {"code", "status", "message", "details"}, error
        assert error["code"] == response.status_code or response.status_code == 415
        return from_details(response.status_code, error["message"], error["details"])

    async def call(self, operation: str, params: Json) -> Any:
        method, path, more = self.request(operation, dict(params))
        response = await self.line.http.request(method, path, headers=self.headers, **more)
        assert response.headers["content-type"].split(";")[0] == "application/json", response.text
        if response.status_code != 200:
            raise self.refusal(response)
        return self.read(operation, response.json())

    async def stream(self, operation: str, params: Json) -> AsyncGenerator[Json, None]:
        method, path, more = self.request(operation, dict(params))
        async with self.line.http.stream(method, path, headers=self.headers, **more) as response:
            if response.status_code != 200:
                await response.aread()
                raise self.refusal(response)
            async with aclosing(frames_of(response)) as frames:
                async for frame in frames:
                    assert not frame.event, frame
                    yield self.read(operation, frame.data)
