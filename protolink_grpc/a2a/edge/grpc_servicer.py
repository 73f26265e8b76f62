"""A2A v1.0 over gRPC: converts the request, calls the operation, converts the result.

The message classes are those of a2a-sdk: a process can register A2A's messages only once.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import TypeVar

from a2a.types import a2a_pb2 as pb
from google.protobuf.empty_pb2 import Empty

from protolink_grpc.a2a import errors as a2a_errors
from protolink_grpc.a2a import pb_codec as codec
from protolink_grpc.a2a.card import card_pb
from protolink_grpc.a2a.negotiation import check_version
from protolink_grpc.a2a.operations import Operations
from protolink_grpc.a2a.values import IDEMPOTENCY_KEY, V1, CallerInfo, TaskViewPage, Update, is_large
from protolink_grpc.auth.principal import ANONYMOUS_PRINCIPAL, Principal
from protolink_grpc.edges.grpc.call import Context, current_call
from protolink_grpc.errors import InvalidArgumentError, VersionNotSupportedError
from protolink_grpc.net.trace_context import TRACEPARENT, TRACESTATE
from protolink_grpc.net.tracing import WAITING_RUNS, receive_origin
from protolink_grpc.wire.bounds import convert_message, run_in_thread

S = TypeVar("S", bound=Update | TaskViewPage)
T = TypeVar("T")


def caller_info(context: Context, version: str = "") -> CallerInfo:
    """Return the caller of this call and the service parameters in its metadata.

    Args:
        version: The version that the service supports; empty skips the check of the caller's version.

    Raises:
        VersionNotSupportedError: The caller's version is not supported, or the call has two different versions.
        InvalidArgumentError: The call has two different idempotency keys.
    """
    given, extensions, idempotency_key, waiting_runs, traceparent, tracestate = "", "", "", "", "", ""
    for key, value in context.invocation_metadata() or ():
        if key == "a2a-version":
            if given and str(value) != given:
                raise VersionNotSupportedError("a2a-version occurs twice with different values")
            given = str(value)
        elif key in ("a2a-extensions", "x-a2a-extensions"):
            extensions = f"{extensions},{value!s}"
        elif key == WAITING_RUNS:
            waiting_runs = str(value)
        elif key == TRACEPARENT:
            traceparent = str(value)
        elif key == TRACESTATE:
            tracestate = f"{tracestate},{value!s}"
        elif key == IDEMPOTENCY_KEY:
            if idempotency_key and str(value) != idempotency_key:
                raise InvalidArgumentError("occurs twice with different values", field=IDEMPOTENCY_KEY)
            idempotency_key = str(value)
    receive_origin(waiting_runs, traceparent, tracestate)
    named = frozenset(filter(None, (each.strip() for each in extensions.split(",")))) if extensions else frozenset()
    call = current_call()
    principal, authenticated = ANONYMOUS_PRINCIPAL, False
    if call is not None:
        principal, authenticated = Principal(call.principal, call.scopes), call.authenticated
    caller = CallerInfo(principal, authenticated, given, named, idempotency_key)
    if version:
        check_version(caller, version)
    return caller


async def convert_response(write: Callable[[S], T], response: S) -> T:
    """Return the message of a response; a large one is built in a thread, because each JSON value becomes a protobuf message."""
    return await run_in_thread(write, response) if is_large(response) else write(response)


class A2AServicer:
    """`lf.a2a.v1.A2AService` for one agent."""

    to_status = staticmethod(a2a_errors.to_status)

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def SendMessage(self, request: pb.SendMessageRequest, context: Context) -> pb.SendMessageResponse:
        caller = caller_info(context, V1)
        params = await convert_message(codec.send_params_from_pb, request)
        return await convert_response(codec.send_response_pb, await self._operations.send(caller, params))

    async def SendStreamingMessage(
        self, request: pb.SendMessageRequest, context: Context
    ) -> AsyncIterator[pb.StreamResponse]:
        caller = caller_info(context, V1)
        params = await convert_message(codec.send_params_from_pb, request)
        async with aclosing(self._operations.stream(caller, params)) as batches:
            async for updates in batches:
                for update in updates:
                    yield await convert_response(codec.update_pb, update)

    async def GetTask(self, request: pb.GetTaskRequest, context: Context) -> pb.Task:
        caller = caller_info(context, V1)
        length = request.history_length if request.HasField("history_length") else None
        return await convert_response(
            codec.task_pb, await self._operations.get(caller, request.tenant, request.id, length)
        )

    async def ListTasks(self, request: pb.ListTasksRequest, context: Context) -> pb.ListTasksResponse:
        caller = caller_info(context, V1)
        page = await self._operations.list_tasks(caller, codec.list_params_from_pb(request))
        return await convert_response(codec.page_pb, page)

    async def CancelTask(self, request: pb.CancelTaskRequest, context: Context) -> pb.Task:
        caller = caller_info(context, V1)
        metadata = await convert_message(codec.object_from_struct, request.metadata)
        view = await self._operations.cancel(caller, request.tenant, request.id, metadata)
        return await convert_response(codec.task_pb, view)

    async def SubscribeToTask(
        self, request: pb.SubscribeToTaskRequest, context: Context
    ) -> AsyncIterator[pb.StreamResponse]:
        caller = caller_info(context, V1)
        async with aclosing(self._operations.subscribe(caller, request.tenant, request.id)) as batches:
            async for updates in batches:
                for update in updates:
                    yield await convert_response(codec.update_pb, update)

    async def CreateTaskPushNotificationConfig(
        self, request: pb.TaskPushNotificationConfig, context: Context
    ) -> pb.TaskPushNotificationConfig:
        caller = caller_info(context, V1)
        return codec.push_config_pb(await self._operations.push.set(caller, codec.push_config_from_pb(request)))

    async def GetTaskPushNotificationConfig(
        self, request: pb.GetTaskPushNotificationConfigRequest, context: Context
    ) -> pb.TaskPushNotificationConfig:
        caller = caller_info(context, V1)
        found = await self._operations.push.get(caller, request.tenant, request.task_id, request.id)
        return codec.push_config_pb(found)

    async def ListTaskPushNotificationConfigs(
        self, request: pb.ListTaskPushNotificationConfigsRequest, context: Context
    ) -> pb.ListTaskPushNotificationConfigsResponse:
        caller = caller_info(context, V1)
        page = await self._operations.push.list(
            caller, request.tenant, request.task_id, request.page_size, request.page_token
        )
        return codec.push_page_pb(page)

    async def DeleteTaskPushNotificationConfig(
        self, request: pb.DeleteTaskPushNotificationConfigRequest, context: Context
    ) -> Empty:
        caller = caller_info(context, V1)
        await self._operations.push.delete(caller, request.tenant, request.task_id, request.id)
        return Empty()

    async def GetExtendedAgentCard(self, request: pb.GetExtendedAgentCardRequest, context: Context) -> pb.AgentCard:
        return card_pb(await self._operations.cards.extended(caller_info(context, V1), request.tenant))
