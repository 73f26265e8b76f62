"""The same clients for A2A v0.3. They convert requests from the dicts of v1.0, and responses to them.

The keys `a2a_v1` and `data_part_compat` in metadata carry what v0.3 has no field for; everything else is v0.3's own.
"""

from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator
from typing import Any, ClassVar

import grpc.aio
import httpx
from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a_wires import CODES, UNIMPLEMENTED_V03, V03_CODES, Caller, Json, JsonRpc, Refused, Rest, plain, refusal_of
from google.protobuf.json_format import MessageToDict, ParseDict

STATES = {
    "submitted": "TASK_STATE_SUBMITTED",
    "working": "TASK_STATE_WORKING",
    "completed": "TASK_STATE_COMPLETED",
    "failed": "TASK_STATE_FAILED",
    "canceled": "TASK_STATE_CANCELED",
    "input-required": "TASK_STATE_INPUT_REQUIRED",
    "rejected": "TASK_STATE_REJECTED",
    "auth-required": "TASK_STATE_AUTH_REQUIRED",
}
METHODS = {
    "SendMessage": "message/send",
    "SendStreamingMessage": "message/stream",
    "GetTask": "tasks/get",
    "CancelTask": "tasks/cancel",
    "SubscribeToTask": "tasks/resubscribe",
    "CreateTaskPushNotificationConfig": "tasks/pushNotificationConfig/set",
    "GetTaskPushNotificationConfig": "tasks/pushNotificationConfig/get",
    "ListTaskPushNotificationConfigs": "tasks/pushNotificationConfig/list",
    "DeleteTaskPushNotificationConfig": "tasks/pushNotificationConfig/delete",
    "GetExtendedAgentCard": "agent/getAuthenticatedExtendedCard",
}


def renamed(given: Json, names: dict[str, str]) -> Json:
    return {names.get(key, key): value for key, value in given.items()}


def put_aside(given: Json) -> Json:
    """The metadata of a part of v0.3 that says what only v1.0 has fields for."""
    found = dict(given.get("metadata", {}))
    kept = {key: given[key] for key in ("mediaType", "filename") if key in given}
    if "data" in given and not isinstance(given["data"], dict):
        found["data_part_compat"] = True
    if kept and ("text" in given or "data" in given):
        found["a2a_v1"] = kept
    return {"metadata": found} if found or "metadata" in given else {}


def brought_back(part: Json, metadata: Json | None) -> Json:
    """The part of v1.0 that `put_aside` was asked about."""
    if metadata is None:
        return part
    rest = dict(metadata)
    part = part | rest.pop("a2a_v1", {})
    if rest.pop("data_part_compat", False):
        part["data"] = part["data"]["value"]
    return part | ({"metadata": rest} if rest or not metadata else {})


def data_of(given: Json) -> Any:
    return given["data"] if isinstance(given["data"], dict) else {"value": given["data"]}


# -- JSON --------------------------------------------------------------------------------------------------------------------


def part_out(given: Json) -> Json:
    if "text" in given:
        found: Json = {"kind": "text", "text": given["text"]}
    elif "data" in given:
        found = {"kind": "data", "data": data_of(given)}
    else:
        file = {key: given[key] for key in ("raw", "url", "mediaType", "filename") if key in given}
        names = {"raw": "bytes", "url": "uri", "mediaType": "mimeType", "filename": "name"}
        found = {"kind": "file", "file": renamed(file, names)}
    return found | put_aside(given)


def part_in(given: Json) -> Json:
    kind = given["kind"]
    if kind == "file":
        names = {"bytes": "raw", "uri": "url", "mimeType": "mediaType", "name": "filename"}
        return brought_back(renamed(given["file"], names), given.get("metadata"))
    return brought_back({kind: given[kind]}, given.get("metadata"))


def message_out(given: Json) -> Json:
    role = given["role"].removeprefix("ROLE_").lower()
    return given | {"kind": "message", "role": role, "parts": [part_out(part) for part in given["parts"]]}


def message_in(given: Json) -> Json:
    rest = {key: value for key, value in given.items() if key != "kind"}
    assert given["kind"] == "message"
    return rest | {"role": f"ROLE_{given['role'].upper()}", "parts": [part_in(part) for part in given["parts"]]}


def status_in(given: Json) -> Json:
    found = given | {"state": STATES[given["state"]]}
    if "message" in given:
        found["message"] = message_in(given["message"])
    return found


def artifact_in(given: Json) -> Json:
    return given | {"parts": [part_in(part) for part in given["parts"]]}


def task_in(given: Json) -> Json:
    found = {key: value for key, value in given.items() if key != "kind"}
    assert given["kind"] == "task"
    found["status"] = status_in(given["status"])
    if "history" in given:
        found["history"] = [message_in(each) for each in given["history"]]
    if "artifacts" in given:
        found["artifacts"] = [artifact_in(each) for each in given["artifacts"]]
    return found


def event_in(given: Json) -> Json:
    rest = {key: value for key, value in given.items() if key != "kind"}
    match given["kind"]:
        case "task":
            return {"task": task_in(given)}
        case "message":
            return {"message": message_in(given)}
        case "status-update":
            return {"statusUpdate": rest | {"status": status_in(given["status"])}}
        case "artifact-update":
            flags = {key: True for key in ("append", "lastChunk") if rest.pop(key, False)}
            return {"artifactUpdate": rest | flags | {"artifact": artifact_in(given["artifact"])}}
        case other:
            raise AssertionError(f"there is no event of kind {other}")


def webhook_out(given: Json) -> Json:
    found = {key: given[key] for key in ("id", "url", "token") if key in given}
    if "authentication" in given:
        own = given["authentication"]
        found["authentication"] = {"schemes": [own["scheme"]], "credentials": own["credentials"]}
    return found


def webhook_in(task_id: str, given: Json) -> Json:
    found = given | {"taskId": task_id}
    if "authentication" in given:
        own = given["authentication"]
        found["authentication"] = {"scheme": own["schemes"][0], "credentials": own["credentials"]}
    return found


def configuration_out(given: Json, webhook_key: str) -> Json:
    found = {key: value for key, value in given.items() if key in ("historyLength", "acceptedOutputModes")}
    if "returnImmediately" in given:
        found["blocking"] = not given["returnImmediately"]
    if "taskPushNotificationConfig" in given:
        found[webhook_key] = webhook_out(given["taskPushNotificationConfig"])
    return found


class JsonRpcV03(JsonRpc):
    name = "jsonrpc-0.3"
    version = "0.3"

    def expected(self, reason: str) -> int | str:
        return V03_CODES.get(reason, CODES[reason][0])

    def method(self, operation: str) -> str:
        return METHODS[operation]

    def written(self, operation: str, params: Json) -> Json:
        if operation in ("SendMessage", "SendStreamingMessage"):
            found = params | {"message": message_out(params["message"])}
            # v0.3's own default is to answer at once where nothing is said; that is asked for like everything else.
            found["configuration"] = {"blocking": True} | configuration_out(
                params.get("configuration", {}), "pushNotificationConfig"
            )
            return found
        if operation == "CreateTaskPushNotificationConfig":
            return {"taskId": params["taskId"], "pushNotificationConfig": webhook_out(params)}
        if "PushNotificationConfig" in operation:
            return renamed(params, {"taskId": "id", "id": "pushNotificationConfigId"})
        return params

    def read(self, operation: str, result: Any) -> Any:
        match operation:
            case "SendMessage" | "SendStreamingMessage" | "SubscribeToTask":
                return event_in(result)
            case "GetTask" | "CancelTask":
                return task_in(result)
            case "CreateTaskPushNotificationConfig" | "GetTaskPushNotificationConfig":
                return webhook_in(result["taskId"], result["pushNotificationConfig"])
            case "ListTaskPushNotificationConfigs":
                configs = [webhook_in(each["taskId"], each["pushNotificationConfig"]) for each in result]
                return {"configs": configs, "nextPageToken": ""}
            case _:
                return result

    def refusal(self, error: Json) -> Refused:
        assert set(error) <= {"code", "message", "data"}, error
        return refused(error["code"], error)


def refused(code: int, error: Json) -> Refused:
    """An error as v0.3 writes it: a code of JSON-RPC, and data that are the server's own."""
    data = dict(error["data"])
    own = data.pop("reason")
    reason = next((each for each, row in CODES.items() if row[0] == error["code"]), own)
    fields = [plain(data["field"])] if "field" in data else []
    return Refused(code, reason, error["message"], metadata=data, fields=fields)


# -- protobuf, and its JSON over REST ----------------------------------------------------------------------------------------


def pb_part_out(given: Json) -> Json:
    if "text" in given:
        found: Json = {"text": given["text"]}
    elif "data" in given:
        found = {"data": {"data": data_of(given)}}
    else:
        names = {"raw": "fileWithBytes", "url": "fileWithUri", "mediaType": "mimeType", "filename": "name"}
        found = {"file": renamed({key: given[key] for key in names if key in given}, names)}
        if "raw" in given:
            # The field of protobuf holds base64 text, and is bytes: in JSON it is base64 twice.
            found["file"]["fileWithBytes"] = b64encode(given["raw"].encode()).decode()
    return found | put_aside(given)


def pb_part_in(given: Json) -> Json:
    metadata = given.get("metadata")
    if "file" in given:
        names = {"fileWithBytes": "raw", "fileWithUri": "url", "mimeType": "mediaType", "name": "filename"}
        file = renamed(given["file"], names)
        if "raw" in file:
            file["raw"] = b64decode(file["raw"], validate=True).decode()
        return brought_back(file, metadata)
    if "data" in given:
        return brought_back({"data": given["data"].get("data", {})}, metadata)
    return brought_back({"text": given.get("text", "")}, metadata)


def pb_message_out(given: Json) -> Json:
    rest = {key: value for key, value in given.items() if key != "parts"}
    return rest | {"content": [pb_part_out(part) for part in given["parts"]]}


def pb_message_in(given: Json) -> Json:
    rest = {key: value for key, value in given.items() if key != "content"}
    return rest | {"parts": [pb_part_in(part) for part in given.get("content", ())]}


def pb_status_in(given: Json) -> Json:
    found = given | {"state": given["state"].replace("CANCELLED", "CANCELED")}
    if "message" in given:
        found["message"] = pb_message_in(given["message"])
    return found


def pb_artifact_in(given: Json) -> Json:
    return given | {"parts": [pb_part_in(part) for part in given.get("parts", ())]}


def pb_task_in(given: Json) -> Json:
    found = given | {"status": pb_status_in(given["status"])}
    if "history" in given:
        found["history"] = [pb_message_in(each) for each in given["history"]]
    if "artifacts" in given:
        found["artifacts"] = [pb_artifact_in(each) for each in given["artifacts"]]
    return found


def pb_event_in(given: Json) -> Json:
    ((kind, body),) = given.items()
    match kind:
        case "task":
            return {"task": pb_task_in(body)}
        case "message":
            return {"message": pb_message_in(body)}
        case "statusUpdate":
            return {"statusUpdate": {"final": False} | body | {"status": pb_status_in(body["status"])}}
        case _:
            return {"artifactUpdate": body | {"artifact": pb_artifact_in(body["artifact"])}}


def pb_webhook_in(given: Json) -> Json:
    task_id = given["name"].split("/")[1]
    assert given["name"] == f"tasks/{task_id}/pushNotificationConfigs/{given['pushNotificationConfig']['id']}"
    return webhook_in(task_id, given["pushNotificationConfig"])


def pb_written(operation: str, params: Json) -> Json:
    """A request of v0.3's protobuf, as JSON."""
    task = f"tasks/{params.get('taskId') or params.get('id')}"
    config = f"{task}/pushNotificationConfigs/{params.get('id')}"
    match operation:
        case "SendMessage" | "SendStreamingMessage":
            rest = {key: params[key] for key in ("metadata",) if key in params}
            configuration = configuration_out(params.get("configuration", {}), "pushNotification")
            if configuration.get("blocking") is False:
                # A configuration that says nothing else is empty in protobuf, and so not there.
                configuration.setdefault("acceptedOutputModes", ["text/plain"])
            return rest | {
                "message": pb_message_out(params["message"]),
                "configuration": {"blocking": True} | configuration,
            }
        case "GetTask" | "CancelTask" | "SubscribeToTask":
            length = {"historyLength": params["historyLength"]} if "historyLength" in params else {}
            return {"name": task} | length
        case "CreateTaskPushNotificationConfig":
            own = {"configId": params["id"]} if "id" in params else {}
            return {"parent": task, "config": {"pushNotificationConfig": webhook_out(params)}} | own
        case "ListTaskPushNotificationConfigs":
            return {"parent": task} | {key: params[key] for key in ("pageSize", "pageToken") if key in params}
        case "GetExtendedAgentCard":
            return {}
        case _:
            return {"name": config}


def pb_read(operation: str, found: Json) -> Any:
    match operation:
        case "SendMessage" | "SendStreamingMessage" | "SubscribeToTask":
            return pb_event_in(found)
        case "GetTask" | "CancelTask":
            return pb_task_in(found)
        case "CreateTaskPushNotificationConfig" | "GetTaskPushNotificationConfig":
            return pb_webhook_in(found)
        case "ListTaskPushNotificationConfigs":
            configs = [pb_webhook_in(each) for each in found.get("configs", ())]
            return {"configs": configs, "nextPageToken": found.get("nextPageToken", "")}
        case _:
            return found


_GRPC: dict[str, tuple[str, Any]] = {
    "SendMessage": ("SendMessage", pb.SendMessageRequest),
    "SendStreamingMessage": ("SendStreamingMessage", pb.SendMessageRequest),
    "GetTask": ("GetTask", pb.GetTaskRequest),
    "CancelTask": ("CancelTask", pb.CancelTaskRequest),
    "SubscribeToTask": ("TaskSubscription", pb.TaskSubscriptionRequest),
    "CreateTaskPushNotificationConfig": (
        "CreateTaskPushNotificationConfig",
        pb.CreateTaskPushNotificationConfigRequest,
    ),
    "GetTaskPushNotificationConfig": ("GetTaskPushNotificationConfig", pb.GetTaskPushNotificationConfigRequest),
    "ListTaskPushNotificationConfigs": ("ListTaskPushNotificationConfig", pb.ListTaskPushNotificationConfigRequest),
    "DeleteTaskPushNotificationConfig": (
        "DeleteTaskPushNotificationConfig",
        pb.DeleteTaskPushNotificationConfigRequest,
    ),
    "GetExtendedAgentCard": ("GetAgentCard", pb.GetAgentCardRequest),
}


class GrpcV03(Caller):
    name = "grpc-0.3"
    version = "0.3"

    def expected(self, reason: str) -> int | str:
        return "UNIMPLEMENTED" if reason in UNIMPLEMENTED_V03 else CODES[reason][1]

    def _begun(self, operation: str, params: Json) -> Any:
        name, request = _GRPC[operation]
        stub = a2a_v0_3_pb2_grpc.A2AServiceStub(self.line.channel)
        sent = ParseDict(pb_written(operation, params), request())
        return getattr(stub, name)(sent, metadata=list(self.headers.items()), timeout=60)

    async def call(self, operation: str, params: Json) -> Any:
        try:
            return pb_read(operation, MessageToDict(await self._begun(operation, params)))
        except grpc.aio.AioRpcError as error:
            raise refusal_of(error) from None

    async def stream(self, operation: str, params: Json) -> AsyncGenerator[Json, None]:
        events = self._begun(operation, params)
        try:
            async for event in events:
                yield pb_read(operation, MessageToDict(event))
        except grpc.aio.AioRpcError as error:
            raise refusal_of(error) from None
        finally:
            events.cancel()


class RestV03(Rest):
    name = "rest-0.3"
    version = "0.3"
    paths: ClassVar[dict[str, tuple[str, str]]] = {
        operation: (verb, f"/v1{path}")
        for operation, (verb, path) in {
            "SendMessage": ("POST", "/message:send"),
            "SendStreamingMessage": ("POST", "/message:stream"),
            "GetTask": ("GET", "/tasks/{id}"),
            "CancelTask": ("POST", "/tasks/{id}:cancel"),
            "SubscribeToTask": ("GET", "/tasks/{id}:subscribe"),
            "CreateTaskPushNotificationConfig": ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
            "GetTaskPushNotificationConfig": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
            "ListTaskPushNotificationConfigs": ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
            "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
            "GetExtendedAgentCard": ("GET", "/card"),
        }.items()
    }

    def written(self, operation: str, params: Json) -> Json:
        ids = {key: params[key] for key in ("taskId", "id") if key in params}
        body = pb_written(operation, params)
        if operation in ("GetTask", "CancelTask", "SubscribeToTask", "ListTaskPushNotificationConfigs"):
            return ids | {key: value for key, value in body.items() if key not in ("name", "parent")}
        if operation in ("GetTaskPushNotificationConfig", "DeleteTaskPushNotificationConfig"):
            return ids
        if operation == "CreateTaskPushNotificationConfig":
            return {"taskId": params["taskId"]} | body
        return body

    def read(self, operation: str, result: Any) -> Any:
        return pb_read(operation, result)

    def refusal(self, response: httpx.Response) -> Refused:
        body = response.json()
        assert set(body) <= {"code", "message", "data", "type", "error"}, body
        return refused(response.status_code, body)
