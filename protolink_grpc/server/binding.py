"""Puts a servicer on the wire: one generic handler per service, built from its descriptor, interceptors composed once at start.

Requests arrive as bytes and are parsed here, inside the boundary, so that junk is the caller's INVALID_ARGUMENT and not our
INTERNAL. Responses may be messages or bytes: a stream of log events is sent as it lies in the store.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from protolink_grpc.auth.principal import Principal
from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError
from protolink_grpc.server.call import Call, Context, enter
from protolink_grpc.server.interceptors import Interceptor
from protolink_grpc.server.interceptors.status import ToStatus, answer
from protolink_grpc.wire.status import to_status

Behavior = Callable[[Any, Any], Any]
"""A servicer's method, of a request and gRPC's context; only servicers that look at theirs need one."""


def bind(
    service: ServiceDescriptor,
    servicer: object,
    *,
    interceptors: Sequence[Interceptor],
    max_request_bytes: int,
) -> grpc.GenericRpcHandler:
    """The handler of one service.

    Args:
        service: Its descriptor; the servicer has a method of the same name for each of its methods. Where it has a `to_status`,
            that is how its errors are worded.
        interceptors: Outermost first.
        max_request_bytes: Larger requests are refused with MESSAGE_TOO_LARGE.
    """
    words: ToStatus = getattr(servicer, "to_status", to_status)
    handlers = {
        method.name: _method(
            f"/{service.full_name}/{method.name}",
            _parser(method, max_request_bytes),
            getattr(servicer, method.name),
            (interceptors, words),
            streams=method.server_streaming,
        )
        for method in service.methods
    }
    return grpc.method_handlers_generic_handler(service.full_name, handlers)


@dataclass(frozen=True, slots=True)
class Procedure:
    """One method of a servicer, for an edge that has no gRPC server: bytes in, bytes out.

    Attributes:
        name: Full, like `/protolink.v1.AgentService/SendTask`.
        streams: It answers with any number of messages, and else with one.
        status: How the service words an error.
    """

    name: str
    streams: bool
    status: ToStatus
    _parse: Callable[[bytes], Message]
    _behavior: Behavior
    _interceptors: Sequence[Interceptor]

    async def answers(
        self, data: bytes, principal: Principal, headers: Mapping[str, str], *, authenticated: bool
    ) -> AsyncGenerator[bytes, None]:
        """The encoded answers to an encoded request, as `principal`'s; to be iterated in a task of the call's own.

        Raises:
            ProtolinkError: As the servicer or an interceptor does; the request is too large, or junk.
        """
        call = Call(self.name, None, principal.name, principal.scopes, authenticated, headers)
        async with AsyncExitStack() as around:
            await _entered(call, self._interceptors, around)
            request = self._parse(data)
            if not self.streams:
                yield _serialize(await self._behavior(request, None))
                return
            async for response in await around.enter_async_context(aclosing(self._behavior(request, None))):
                yield _serialize(response)


def procedures(
    service: ServiceDescriptor, servicer: object, *, interceptors: Sequence[Interceptor], max_request_bytes: int
) -> list[Procedure]:
    """The methods of one service, as `bind` makes them; servicers that read their call's context are not for this.

    Args:
        interceptors: Outermost first; who calls, and whether they may, the edge has found out before.
    """
    words: ToStatus = getattr(servicer, "to_status", to_status)
    return [
        Procedure(
            f"/{service.full_name}/{method.name}",
            method.server_streaming,
            words,
            _parser(method, max_request_bytes),
            getattr(servicer, method.name),
            interceptors,
        )
        for method in service.methods
    ]


Surroundings = tuple[Sequence[Interceptor], ToStatus]
"""What is around every method of a service: interceptors, and how errors are worded."""


async def _entered(call: Call, interceptors: Sequence[Interceptor], around: AsyncExitStack) -> None:
    """Make this the call of the running task, inside of its interceptors."""
    enter(call)
    for each in interceptors:
        await around.enter_async_context(each(call))


def _method(
    name: str, parse: Callable[[bytes], Message], behavior: Behavior, around: Surroundings, *, streams: bool
) -> "grpc.RpcMethodHandler[Any, Any]":
    if streams:
        return grpc.unary_stream_rpc_method_handler(_stream(name, parse, behavior, around), None, _serialize)
    return grpc.unary_unary_rpc_method_handler(_unary(name, parse, behavior, around), None, _serialize)


def _parser(method: MethodDescriptor, max_bytes: int) -> Callable[[bytes], Message]:
    kind = GetMessageClass(method.input_type)

    def parse(data: bytes) -> Message:
        if len(data) > max_bytes:
            raise MessageTooLargeError(
                f"has {len(data)} bytes, at most {max_bytes} are accepted",
                field="request",
                max_bytes=str(max_bytes),
            )
        try:
            return kind.FromString(data)
        except DecodeError:
            raise InvalidArgumentError(f"is not a valid {method.input_type.full_name}", field="request") from None

    return parse


def _serialize(response: Message | bytes) -> bytes:
    return response if isinstance(response, bytes) else response.SerializeToString()


def _unary(
    name: str, parse: Callable[[bytes], Message], behavior: Behavior, around_all: Surroundings
) -> Callable[[bytes, Context], Any]:
    interceptors, words = around_all

    async def plain(data: bytes, context: Context) -> Any:
        try:
            return await behavior(parse(data), context)
        except Exception as error:
            await answer(error, name, context, words)

    async def guarded(data: bytes, context: Context) -> Any:
        try:
            async with AsyncExitStack() as around:
                await _entered(Call(name, context), interceptors, around)
                return await behavior(parse(data), context)
        except Exception as error:
            await answer(error, name, context, words)

    return guarded if interceptors else plain


def _stream(
    name: str, parse: Callable[[bytes], Message], behavior: Behavior, around_all: Surroundings
) -> Callable[[bytes, Context], AsyncIterator[Any]]:
    interceptors, words = around_all

    async def handle(data: bytes, context: Context) -> AsyncIterator[Any]:
        try:
            async with AsyncExitStack() as around:
                await _entered(Call(name, context), interceptors, around)
                # Closed here and now, not when the collector comes by: its `finally` lets go of the log.
                responses = await around.enter_async_context(aclosing(behavior(parse(data), context)))
                async for response in responses:
                    yield response
        except Exception as error:
            await answer(error, name, context, words)

    return handle
