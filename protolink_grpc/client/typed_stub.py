"""Generated stubs of users over a client: with its channel, credentials, retries, trace headers and typed errors."""

import re
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import grpc.aio
from google.protobuf.message import Message

from protolink_grpc.client.backoff import Backoff, is_interruption
from protolink_grpc.client.channel import (
    ChannelOptions,
    call_error,
    call_stream,
    call_unary,
    channel_to,
    connect_channel,
    typed_errors,
)
from protolink_grpc.client.stub_calls import Note, StreamCall, UnaryCall, ignore_attempts
from protolink_grpc.client.uploads import Requests, call_upload
from protolink_grpc.errors import DeadlineExceededError, InvalidArgumentError, ProtolinkError, UnimplementedError
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.net.address import Address, Endpoint
from protolink_grpc.wire.typed_calls import REQUEST_ID, TASK_ID

Entry = tuple[str, str | bytes]
Metadata = Iterable[Entry] | None


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

    Each call has an idempotency key, the caller's `x-request-id` or a new one, so that a retry never runs twice on an agent.
    Its methods return `UnaryCall` and `StreamCall`, which raise the errors of this package.

    Args:
        channel: The channel below; its methods are those of `grpc.aio.Channel`.
        timeout_s: Default timeout of a unary call, retries included.
    """

    def __init__(self, channel: Any, address: Address, options: ChannelOptions, timeout_s: float | None) -> None:
        self._channel = channel
        self._address = address
        self._options = options
        self._timeout_s = timeout_s

    async def connect(self, timeout_s: float) -> bool:
        """Connect unless there is a connection. Return whether there is one.

        It fails when an attempt to connect fails, or after `timeout_s`.
        """
        return await connect_channel(self._address, self._options, timeout_s)

    def unary_unary(self, path: str, *serializers: Any, **settings: Any) -> Callable[..., UnaryCall[Any]]:
        """As `grpc.aio.Channel.unary_unary`."""
        return unary_callable(self.unary_method(path, *serializers, **settings).call)

    def unary_method(self, path: str, *serializers: Any, **settings: Any) -> "UnaryMethod":
        """As `unary_unary`, for callers that observe the calls."""
        method = self._channel.unary_unary(path, *serializers, **settings)
        return UnaryMethod(method, self._address, self._options, self._timeout_s)

    def unary_stream(self, path: str, *serializers: Any, **settings: Any) -> Callable[..., StreamCall[Any]]:
        """As `grpc.aio.Channel.unary_stream`."""
        return stream_callable(self.stream_method(path, *serializers, **settings).call)

    def stream_method(self, path: str, *serializers: Any, **settings: Any) -> "StreamMethod":
        """As `unary_stream`, for callers that observe the calls."""
        method = self._channel.unary_stream(path, *serializers, **settings)
        return StreamMethod(method, self._address, self._options)

    def stream_unary(self, path: str, *serializers: Any, **settings: Any) -> Callable[..., UnaryCall[Any]]:
        """As `grpc.aio.Channel.stream_unary`."""
        return unary_callable(self.upload_method(path, *serializers, **settings).call)

    def upload_method(self, path: str, *serializers: Any, **settings: Any) -> "UnaryMethod":
        """As `stream_unary`, for callers that observe the calls."""
        method = self._channel.stream_unary(path, *serializers, **settings)
        return UnaryMethod(method, self._address, self._options, self._timeout_s, takes_stream=True)

    def stream_stream(self, path: str, *_: Any, **__: Any) -> Callable[..., Any]:
        """Streams in both directions are not supported: a call raises UnimplementedError."""
        return refuse_two_streams(path)


class UnaryMethod:
    """A method of a stub with one response.

    Args:
        method: The method of the channel below.
        timeout_s: As for `StubChannel`.
        takes_stream: The request is a stream: an iterable of messages, or an asynchronous one. See `Requests` for its retries.
    """

    __slots__ = ("_address", "_method", "_options", "_takes_stream", "_timeout_s")

    def __init__(
        self,
        method: Any,
        address: Endpoint,
        options: ChannelOptions,
        timeout_s: float | None,
        *,
        takes_stream: bool = False,
    ) -> None:
        self._method = method
        self._takes_stream = takes_stream
        self._address = address
        self._options = options
        self._timeout_s = timeout_s

    async def call(
        self, request: Any, *, timeout: float | None = None, metadata: Metadata = None, note: Note = ignore_attempts
    ) -> Any:
        """Return the response. Raises the errors of this package.

        Args:
            timeout: Seconds, retries included. None means the default of the channel.
            metadata: Without an `x-request-id`, a new one is added.
            note: Receives each attempt.
        """
        method = self._method

        def start(request: Any, *, timeout: float | None, metadata: tuple[Entry, ...] | None) -> Any:
            call = method(request, timeout=timeout, metadata=metadata)
            note(call)
            return call

        return await self._retry(start, request, timeout, _with_request_id(metadata))

    async def call_observed(
        self, request: Any, observer: "CallObserver", *, timeout: float | None = None, metadata: Metadata = None
    ) -> Any:
        """As `call`. `observer` learns the headers of the response, and whether the request was sent."""
        method, address = self._method, self._address

        async def attempt(request: Any, *, timeout: float | None, metadata: tuple[Entry, ...] | None) -> Any:
            call = method(request, timeout=timeout, metadata=metadata)
            observer.note(call)
            try:
                response = await call
            except grpc.aio.AioRpcError as error:
                observer.take_error(call_error(error, address), error)
                raise
            observer.take_headers(await call.initial_metadata())
            return response

        return await self._retry(attempt, request, timeout, _with_request_id(metadata))

    async def _retry(self, method: Any, request: Any, timeout: float | None, own: tuple[Entry, ...]) -> Any:
        limit = self._timeout_s if timeout is None else timeout
        made = _with_metadata(method, own)
        if not self._takes_stream:
            _check_message(request)
        async with typed_errors(self._address):
            if not self._takes_stream:
                return await call_unary(made, request, self._address, self._options, limit)
            async with Requests(request) as requests:
                return await call_upload(made, requests, self._address, self._options, limit)


class StreamMethod:
    """A method of a stub whose responses are a stream.

    Args:
        method: The method of the channel below.
    """

    __slots__ = ("_address", "_method", "_options")

    def __init__(self, method: Any, address: Endpoint, options: ChannelOptions) -> None:
        self._method = method
        self._address = address
        self._options = options

    async def call(
        self,
        request: Message,
        *,
        timeout: float | None = None,
        metadata: Metadata = None,
        note: Note = ignore_attempts,
    ) -> AsyncGenerator[Any, None]:
        """Yield the responses. Raises the errors of this package.

        After an interruption the call is repeated with the same request id, and responses that were yielded are left out: if there
        were none, or if the response names a task, whose log has them. Any other stream ends with UnavailableError.

        Args:
            timeout: Seconds for the whole stream, repetitions included.
            metadata: Without an `x-request-id`, a new one is added.
            note: Receives each attempt.
        """
        async with aclosing(
            self.call_observed(request, CallObserver(note=note), timeout=timeout, metadata=metadata)
        ) as responses:
            async for response in responses:
                yield response

    async def call_observed(
        self, request: Message, observer: "CallObserver", *, timeout: float | None = None, metadata: Metadata = None
    ) -> AsyncGenerator[Any, None]:
        """As `call`. `observer` learns the metadata of the response, and whether the request was sent."""
        own, received, is_task = _with_request_id(metadata), 0, False
        _check_message(request)
        backoff = Backoff(self._options.outage_s, streams=True)
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            backoff.begin()
            known = received
            try:
                async with aclosing(self._attempt(request, observer, _seconds_until(end), own)) as responses:
                    async for response in responses:
                        if known:
                            known -= 1
                            continue
                        received += 1
                        backoff.reset()
                        yield response
                return
            except ProtolinkError as error:
                # An attempt that breaks before its headers does not have the id.
                is_task = is_task or TASK_ID in observer.headers
                if not is_interruption(error) or (received and not is_task):
                    raise
                await backoff.wait_after(error, most_s=_seconds_until(end))

    async def _attempt(
        self, request: Message, observer: "CallObserver", timeout_s: float | None, own: tuple[Entry, ...]
    ) -> AsyncGenerator[Any, None]:
        last: Any = None

        def start(request: Message, *, timeout: float | None, metadata: Any) -> Any:
            nonlocal last
            last = self._method(request, timeout=timeout, metadata=(*(metadata or ()), *own))
            observer.note(last)
            return last

        stream = call_stream(start, request, self._address, self._options, timeout_s)
        async with typed_errors(self._address), aclosing(stream) as responses:
            try:
                async for response in responses:
                    yield response
            except grpc.aio.AioRpcError as error:
                observer.take_error(call_error(error, self._address), error)
                raise
            observer.take_headers(await last.initial_metadata(), await last.trailing_metadata())


def _seconds_until(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())


@dataclass(slots=True)
class CallObserver:
    """What is known about a call, over all of its attempts.

    Args:
        headers: The metadata of the last response, which may be an error; of a stream also the trailing metadata.
        may_have_arrived: An attempt may have reached the server.
        was_interrupted: The connection of such an attempt broke, or its time was over, before there was a response.
        note: Receives each attempt.
    """

    headers: Mapping[str, str | bytes] = field(default_factory=dict)
    may_have_arrived: bool = False
    was_interrupted: bool = False
    note: Note = ignore_attempts

    def take_headers(self, headers: Any, trailers: Any = ()) -> None:
        """Note the metadata of a response."""
        self.may_have_arrived, self.headers = True, {**dict(headers or ()), **dict(trailers or ())}

    def take_error(self, error: ProtolinkError, cause: grpc.aio.AioRpcError) -> None:
        """Note a failed attempt."""
        if error.metadata.get("unreached"):
            return
        self.take_headers(cause.initial_metadata(), cause.trailing_metadata())
        if is_interruption(error) or isinstance(error, DeadlineExceededError):
            self.was_interrupted = True


def _with_request_id(metadata: Metadata) -> tuple[Entry, ...]:
    """Return the metadata of a call with a request id. Raises InvalidArgumentError for an entry that gRPC cannot send."""
    own = tuple(_read_entry(each) for each in metadata or ())
    if any(key == REQUEST_ID for key, _ in own):
        return own
    return (*own, (REQUEST_ID, new_uuid()))


_KEY = re.compile(r"[a-z0-9_.-]+")


def _read_entry(given: Any) -> Entry:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise InvalidArgumentError("must be pairs of a key and a value", field="metadata")
    key, value = given
    name = key.lower() if isinstance(key, str) else ""  # gRPC accepts only lower-case keys
    if not _KEY.fullmatch(name):
        raise InvalidArgumentError(f"{key!r} is not a key of gRPC metadata", field="metadata")
    if name.endswith("-bin"):
        if not isinstance(value, bytes):
            raise InvalidArgumentError(f"the value of {name} must be bytes", field="metadata")
    elif not isinstance(value, bytes) and not (isinstance(value, str) and value.isascii() and value.isprintable()):
        raise InvalidArgumentError(f"the value of {name} must be printable ASCII", field="metadata")
    return name, value


def _check_message(request: Any) -> None:
    # grpc.aio logs an error of a serializer, and then sends an empty message.
    if not isinstance(request, Message):
        raise InvalidArgumentError(f"must be a message of protobuf, not {type(request).__name__}", field="request")


def _with_metadata(method: Any, own: tuple[Entry, ...]) -> Callable[..., Any]:
    """Return the method with further metadata beside that of the client."""

    def call(request: Any, *, timeout: float | None, metadata: tuple[tuple[str, str], ...] | None) -> Any:
        return method(request, timeout=timeout, metadata=(*(metadata or ()), *own))

    return call


def unary_callable(method: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., UnaryCall[Any]]:
    """Return the method of a stub for a coroutine function with the parameter `note`."""

    @wraps(method)
    def start(request: Any, *, timeout: float | None = None, metadata: Metadata = None) -> UnaryCall[Any]:
        return UnaryCall(lambda note: method(request, timeout=timeout, metadata=metadata, note=note))

    return start


def stream_callable(method: Callable[..., AsyncGenerator[Any, None]]) -> Callable[..., StreamCall[Any]]:
    """Return the method of a stub for an async generator function with the parameter `note`."""

    @wraps(method)
    def start(request: Any, *, timeout: float | None = None, metadata: Metadata = None) -> StreamCall[Any]:
        return StreamCall(lambda note: method(request, timeout=timeout, metadata=metadata, note=note))

    return start


def refuse_two_streams(path: str) -> Callable[..., Any]:
    """Return a method that raises UnimplementedError, for one with streams in both directions."""

    async def call(*_: Any, **__: Any) -> Any:
        raise UnimplementedError(
            f"{path} has streams in both directions, which cannot be repeated: call it over a channel of grpc.aio"
        )

    return call
