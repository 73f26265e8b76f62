"""Binds a servicer to gRPC: one generic handler per service, built from its descriptor. Interceptors are composed once at start.

Requests are parsed here, within the status boundary, so that invalid bytes are INVALID_ARGUMENT and not INTERNAL. A method with
client streaming gets an async iterator of its requests. Responses may be messages or bytes: stored events are sent unchanged.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import grpc
from google.protobuf.descriptor import Descriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from protolink_grpc.auth.principal import Principal
from protolink_grpc.auth.stream_quota import StreamQuota
from protolink_grpc.edges.grpc.call import Call, Context, set_current_call
from protolink_grpc.edges.grpc.interceptors import Interceptor
from protolink_grpc.edges.grpc.interceptors.status import ToStatus, abort_with_error
from protolink_grpc.wire.bounds import RequestBounds, RequestReader, run_in_thread
from protolink_grpc.wire.codec import MessageCodec
from protolink_grpc.wire.status import to_status

Behavior = Callable[[Any, Any], Any]
"""A servicer's method, called with a request and gRPC's context, which only some servicers need."""

Receive = Callable[[Any], Awaitable[Any]]
"""Returns the request of a call for its method: a message, or an iterator of messages. It gets bytes, or an iterator of bytes."""


def bind(
    service: ServiceDescriptor,
    servicer: object,
    *,
    interceptors: Sequence[Interceptor],
    bounds: RequestBounds,
    quota: StreamQuota,
) -> grpc.GenericRpcHandler:
    """Create the handler of one service.

    Args:
        service: The descriptor of the service.
        servicer: Has a method for each method of the service, and optionally `to_status`, which converts errors.
        interceptors: Outermost first.
        quota: The open streams of each caller, shared by all services of the port.
    """
    settings = _ServiceSettings(interceptors, getattr(servicer, "to_status", to_status), quota)
    handlers = {
        method.name: _method_handler(
            f"/{service.full_name}/{method.name}",
            method,
            _receiver(method.input_type, bounds),
            getattr(servicer, method.name),
            settings,
        )
        for method in service.methods
    }
    return grpc.method_handlers_generic_handler(service.full_name, handlers)


@dataclass(frozen=True, slots=True)
class Procedure:
    """One method of a servicer, for an edge without a gRPC server: from bytes to bytes.

    Attributes:
        name: Full name, such as `/plgrpc.v1.AgentService/SendTask`.
        streams: Whether it returns a stream of messages.
        reads_stream: Whether its request is a stream of messages, which is complete before the call.
        request_type, response_type: The types of its messages.
        to_status: Converts an error to a status.
    """

    name: str
    streams: bool
    reads_stream: bool
    request_type: type[Message]
    response_type: type[Message]
    to_status: ToStatus
    _receive: Receive
    _behavior: Behavior
    _interceptors: Sequence[Interceptor]

    @property
    def has_stream(self) -> bool:
        """Whether its request or its response is a stream."""
        return self.streams or self.reads_stream

    async def responses(
        self,
        data: bytes | Iterable[bytes],
        principal: Principal,
        headers: Mapping[str, str],
        *,
        authenticated: bool,
        codec: MessageCodec,
        response_headers: MutableMapping[str, str],
    ) -> AsyncGenerator[bytes, None]:
        """Yield the encoded responses to an encoded request of `principal`. Each call needs its own asyncio task.

        Args:
            data: The request; its messages if it is a stream.
            codec: The encoding of the request and the responses.
            response_headers: See `Call`.

        Raises:
            ProtolinkError: From the servicer or an interceptor, or the request is too large or invalid.
        """
        call = Call(self.name, None, principal.name, principal.scopes, authenticated, headers, response_headers)
        async with AsyncExitStack() as stack:
            await _enter_call(call, self._interceptors, stack)
            request = await self._read(data, codec) if isinstance(data, bytes) else self._read_stream(data, codec)
            if not self.streams:
                yield await codec.encode(await self._behavior(request, None), self.response_type)
                return
            async for response in await stack.enter_async_context(aclosing(self._behavior(request, None))):
                yield await codec.encode(response, self.response_type)

    async def _read(self, data: bytes, codec: MessageCodec) -> Message:
        message: Message = await self._receive(await codec.to_binary(data, self.request_type))
        return message

    async def _read_stream(self, messages: Iterable[bytes], codec: MessageCodec) -> AsyncIterator[Message]:
        for data in messages:
            yield await self._read(data, codec)


def procedures(
    service: ServiceDescriptor, servicer: object, *, interceptors: Sequence[Interceptor], bounds: RequestBounds
) -> list[Procedure]:
    """Create the procedures of one service, whose servicer must not use gRPC's context.

    Args:
        interceptors: Outermost first, without those for authentication and access, which the edge checks itself.
    """
    return [
        Procedure(
            f"/{service.full_name}/{method.name}",
            method.server_streaming,
            method.client_streaming,
            GetMessageClass(method.input_type),
            GetMessageClass(method.output_type),
            getattr(servicer, "to_status", to_status),
            _receiver(method.input_type, bounds),
            getattr(servicer, method.name),
            interceptors,
        )
        for method in service.methods
    ]


class _ServiceSettings(NamedTuple):
    """The settings that the methods of a service share. `quota` counts the open streams of each caller."""

    interceptors: Sequence[Interceptor]
    to_status: ToStatus
    quota: StreamQuota


async def _enter_call(call: Call, interceptors: Sequence[Interceptor], stack: AsyncExitStack) -> None:
    """Set the current call of the asyncio task and enter its interceptors."""
    set_current_call(call)
    for each in interceptors:
        await stack.enter_async_context(each(call))


def _method_handler(
    name: str, method: MethodDescriptor, receive: Receive, behavior: Behavior, settings: _ServiceSettings
) -> "grpc.RpcMethodHandler[Any, Any]":
    if not method.client_streaming and not method.server_streaming:
        return grpc.unary_unary_rpc_method_handler(_unary_handler(name, receive, behavior, settings), None, _serialize)
    settings = settings._replace(interceptors=(*settings.interceptors, _count_streams(settings.quota)))
    if method.client_streaming:
        receive = _stream_receiver(receive)
    if not method.server_streaming:
        return grpc.stream_unary_rpc_method_handler(_unary_handler(name, receive, behavior, settings), None, _serialize)
    handler = _stream_handler(name, receive, behavior, settings)
    if method.client_streaming:
        return grpc.stream_stream_rpc_method_handler(handler, None, _serialize)
    return grpc.unary_stream_rpc_method_handler(handler, None, _serialize)


def _receiver(descriptor: Descriptor, bounds: RequestBounds) -> Receive:
    reader = RequestReader(descriptor, bounds)

    async def receive(data: bytes) -> Message:
        return reader.parse(data) if reader.is_light(data) else await run_in_thread(reader.parse_counted, data)

    return receive


def _stream_receiver(receive_one: Receive) -> Receive:
    async def messages(requests: AsyncIterator[bytes]) -> AsyncIterator[Message]:
        async for data in requests:
            yield await receive_one(data)

    async def receive(requests: AsyncIterator[bytes]) -> AsyncIterator[Message]:
        return messages(requests)

    return receive


def _count_streams(quota: StreamQuota) -> Interceptor:
    @asynccontextmanager
    async def count(call: Call) -> AsyncIterator[None]:
        slot = quota.take(Principal(call.principal, call.scopes))
        try:
            yield
        finally:
            slot.release()

    return count


def _serialize(response: Message | bytes) -> bytes:
    return response if isinstance(response, bytes) else response.SerializeToString()


def _unary_handler(
    name: str, receive: Receive, behavior: Behavior, settings: _ServiceSettings
) -> Callable[[Any, Context], Any]:
    interceptors, to_status, _ = settings

    async def handle(data: Any, context: Context) -> Any:
        try:
            return await behavior(await receive(data), context)
        except Exception as error:
            await abort_with_error(error, name, context, to_status)

    async def handle_with_interceptors(data: Any, context: Context) -> Any:
        try:
            async with AsyncExitStack() as stack:
                await _enter_call(Call(name, context), interceptors, stack)
                return await behavior(await receive(data), context)
        except Exception as error:
            await abort_with_error(error, name, context, to_status)

    return handle_with_interceptors if interceptors else handle


def _stream_handler(
    name: str, receive: Receive, behavior: Behavior, settings: _ServiceSettings
) -> Callable[[Any, Context], AsyncIterator[Any]]:
    interceptors, to_status, _ = settings

    async def handle(data: Any, context: Context) -> AsyncIterator[Any]:
        try:
            async with AsyncExitStack() as stack:
                await _enter_call(Call(name, context), interceptors, stack)
                # Closed now and not by the garbage collector, because its `finally` releases the log.
                responses = await stack.enter_async_context(aclosing(behavior(await receive(data), context)))
                async for response in responses:
                    yield response
        except Exception as error:
            await abort_with_error(error, name, context, to_status)

    return handle
