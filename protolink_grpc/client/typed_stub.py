"""Generated stubs of users over a client: with its channel, credentials, retries, trace headers and typed errors."""

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Any, Final

from google.protobuf.message import Message

from protolink_grpc.client.channel import ChannelOptions, call_stream, call_unary, channel_to, typed_errors
from protolink_grpc.errors import UnimplementedError
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.net.address import Address, Endpoint

REQUEST_ID: Final = "x-request-id"

Metadata = Iterable[tuple[str, str]] | None


class LoopChannel:
    """The channel of the current event loop, looked up at each call: a stub may be made outside of a loop and used in several."""

    def __init__(self, address: Address, options: ChannelOptions) -> None:
        self._address = address
        self._options = options

    def __getattr__(self, kind: str) -> Callable[..., Callable[..., Any]]:
        """Return `unary_unary` or another way to make a method."""

        def make(path: str, *serializers: Any, **settings: Any) -> Callable[..., Any]:
            # The method of the last channel, which is nearly always the same one: not built anew for each call.
            last: tuple[Any, Any] | None = None

            def call(*request: Any, **arguments: Any) -> Any:
                nonlocal last
                channel, known = channel_to(self._address, self._options), last
                if known is None or known[0] is not channel:
                    known = last = channel, getattr(channel, kind)(path, *serializers, **settings)
                return known[1](*request, **arguments)

            return call

        return make


class StubChannel:
    """The channel of a generated stub.

    Each unary call has an idempotency key, the caller's `x-request-id` or a new one, so that a retry never runs twice on an agent.
    Its methods are coroutines and async generators, which raise the errors of this package.

    Args:
        channel: The channel below; its methods are those of `grpc.aio.Channel`.
        timeout_s: Default timeout of a unary call, retries included.
    """

    def __init__(self, channel: Any, address: Endpoint, options: ChannelOptions, timeout_s: float | None) -> None:
        self._channel = channel
        self._address = address
        self._options = options
        self._timeout_s = timeout_s

    def unary_unary(self, path: str, *serializers: Any, **settings: Any) -> Callable[..., Any]:
        """As `grpc.aio.Channel.unary_unary`."""
        method = self._channel.unary_unary(path, *serializers, **settings)

        async def call(request: Message, *, timeout: float | None = None, metadata: Metadata = None) -> Any:
            own = tuple(metadata or ())
            if all(key.lower() != REQUEST_ID for key, _ in own):
                own = (*own, (REQUEST_ID, new_uuid()))
            limit = self._timeout_s if timeout is None else timeout
            async with typed_errors(self._address):
                return await call_unary(_with_metadata(method, own), request, self._address, self._options, limit)

        return call

    def unary_stream(self, path: str, *serializers: Any, **settings: Any) -> Callable[..., Any]:
        """As `grpc.aio.Channel.unary_stream`. A stream is not repeated after an interruption."""
        method = self._channel.unary_stream(path, *serializers, **settings)

        async def call(
            request: Message, *, timeout: float | None = None, metadata: Metadata = None
        ) -> AsyncGenerator[Any, None]:
            known = _with_metadata(method, tuple(metadata or ()))
            stream = call_stream(known, request, self._address, self._options, timeout)
            async with typed_errors(self._address), aclosing(stream) as responses:
                async for response in responses:
                    yield response

        return call

    def stream_unary(self, path: str, *_: Any, **__: Any) -> Callable[..., Any]:
        """Streams of requests are not supported yet: a call raises UnimplementedError."""
        return _unsupported(path)

    stream_stream = stream_unary


def _with_metadata(method: Any, own: tuple[tuple[str, str], ...]) -> Callable[..., Any]:
    """Return the method with further metadata beside that of the client."""

    def call(request: Message, *, timeout: float | None, metadata: tuple[tuple[str, str], ...] | None) -> Any:
        return method(request, timeout=timeout, metadata=(*(metadata or ()), *own))

    return call


def _unsupported(path: str) -> Callable[..., Any]:
    async def call(*_: Any, **__: Any) -> Any:
        raise UnimplementedError(f"{path} takes a stream of requests, which this client does not send yet")

    return call
