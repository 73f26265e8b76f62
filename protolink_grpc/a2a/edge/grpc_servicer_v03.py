"""A2A v0.3 over gRPC, `a2a.v1.A2AService`: converts the request, calls the operation, converts the result."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb
from google.protobuf.empty_pb2 import Empty
from google.rpc import code_pb2, status_pb2

from protolink_grpc.a2a import errors as a2a_errors
from protolink_grpc.a2a.edge.grpc_servicer import caller_info, convert_response
from protolink_grpc.a2a.operations import Operations
from protolink_grpc.a2a.v03 import protobuf
from protolink_grpc.a2a.v03.cards import card_pb
from protolink_grpc.a2a.v03.terms import code_v03, name_v03, require_v03
from protolink_grpc.a2a.values import CallerInfo
from protolink_grpc.edges.grpc.call import Context
from protolink_grpc.errors import ProtolinkError
from protolink_grpc.wire.bounds import convert_message

_UNIMPLEMENTED = frozenset({-32003, -32004})
"""JSON-RPC codes of errors that have the status UNIMPLEMENTED in v0.3. To a v0.3 client, FAILED_PRECONDITION means that a task
cannot be canceled or that there is no extended card."""


def to_status(error: ProtolinkError) -> status_pb2.Status:
    """Return the v1.0 status with the gRPC codes of v0.3. The message begins with the error's name, where v0.3 clients read it."""
    status = a2a_errors.to_status(error)
    name = name_v03(error)
    if name is not None:
        status.message = f"{name}: {status.message}"
    if code_v03(error) in _UNIMPLEMENTED:
        status.code = code_pb2.UNIMPLEMENTED
    return status


class A2AV03Servicer:
    """`a2a.v1.A2AService` for one agent."""

    to_status = staticmethod(to_status)

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def SendMessage(self, request: pb.SendMessageRequest, context: Context) -> pb.SendMessageResponse:
        caller = _caller(context)
        params = await convert_message(protobuf.send_params_from_pb, request)
        return await convert_response(protobuf.reply_pb, await self._operations.send(caller, params))

    async def SendStreamingMessage(
        self, request: pb.SendMessageRequest, context: Context
    ) -> AsyncIterator[pb.StreamResponse]:
        caller = _caller(context)
        params = await convert_message(protobuf.send_params_from_pb, request)
        async with aclosing(self._operations.stream(caller, params)) as batches:
            async for updates in batches:
                for update in updates:
                    yield await convert_response(protobuf.update_pb, update)

    async def TaskSubscription(
        self, request: pb.TaskSubscriptionRequest, context: Context
    ) -> AsyncIterator[pb.StreamResponse]:
        caller = _caller(context)
        async with aclosing(
            self._operations.subscribe(caller, "", protobuf.parse_task_name(request.name, "name"))
        ) as batches:
            async for updates in batches:
                for update in updates:
                    yield await convert_response(protobuf.update_pb, update)

    async def GetTask(self, request: pb.GetTaskRequest, context: Context) -> pb.Task:
        caller, task_id = _caller(context), protobuf.parse_task_name(request.name, "name")
        length = request.history_length or None  # v0.3: 0 means all
        return await convert_response(protobuf.task_pb, await self._operations.get(caller, "", task_id, length))

    async def CancelTask(self, request: pb.CancelTaskRequest, context: Context) -> pb.Task:
        caller, task_id = _caller(context), protobuf.parse_task_name(request.name, "name")
        return await convert_response(protobuf.task_pb, await self._operations.cancel(caller, "", task_id, {}))

    async def CreateTaskPushNotificationConfig(
        self, request: pb.CreateTaskPushNotificationConfigRequest, context: Context
    ) -> pb.TaskPushNotificationConfig:
        caller, config = _caller(context), protobuf.push_config_from_pb(request)
        return protobuf.push_pb(await self._operations.push.set(caller, config))

    async def GetTaskPushNotificationConfig(
        self, request: pb.GetTaskPushNotificationConfigRequest, context: Context
    ) -> pb.TaskPushNotificationConfig:
        caller, (task_id, config_id) = _caller(context), protobuf.parse_config_name(request.name, "name")
        return protobuf.push_pb(await self._operations.push.get(caller, "", task_id, config_id))

    async def ListTaskPushNotificationConfig(
        self, request: pb.ListTaskPushNotificationConfigRequest, context: Context
    ) -> pb.ListTaskPushNotificationConfigResponse:
        caller, task_id = _caller(context), protobuf.parse_task_name(request.parent, "parent")
        page = await self._operations.push.list(caller, "", task_id, request.page_size, request.page_token)
        return protobuf.push_page_pb(page)

    async def DeleteTaskPushNotificationConfig(
        self, request: pb.DeleteTaskPushNotificationConfigRequest, context: Context
    ) -> Empty:
        caller, (task_id, config_id) = _caller(context), protobuf.parse_config_name(request.name, "name")
        await self._operations.push.delete(caller, "", task_id, config_id)
        return Empty()

    async def GetAgentCard(self, request: pb.GetAgentCardRequest, context: Context) -> pb.AgentCard:
        """Return the extended card if the agent has one, which requires credentials; otherwise the public card."""
        caller, public = _caller(context), self._operations.cards.public()
        return card_pb(await self._operations.cards.extended(caller) if public.extended_card else public)


def _caller(context: Context) -> CallerInfo:
    return require_v03(caller_info(context))
