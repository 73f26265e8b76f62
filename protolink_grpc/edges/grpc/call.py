"""The current call: its metadata and its principal."""

import base64
from collections.abc import Iterable, Mapping, MutableMapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import grpc.aio

from protolink_grpc.auth.principal import ANONYMOUS
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.net.response_headers import ResponseHeaders
from protolink_grpc.net.trace_context import TRACEPARENT, TRACESTATE
from protolink_grpc.net.tracing import WAITING_RUNS, receive_origin

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


@dataclass(slots=True)
class Call:
    """A running RPC. `principal` is its caller; `authenticated` is true if an authenticator has checked it.

    `context` is None for a call that was not received by gRPC's server; then its metadata is in `headers`.
    `response_headers` are sent as headers of the HTTP response; over gRPC they are not sent.
    """

    method: str
    context: "grpc.aio.ServicerContext[Any, Any] | None"
    principal: str = ANONYMOUS
    scopes: frozenset[str] = frozenset()
    authenticated: bool = False
    headers: Mapping[str, str] | None = None
    response_headers: MutableMapping[str, str] = field(default_factory=ResponseHeaders)

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the request, without binary entries. Of repeated keys, the last value applies."""
        if self.headers is not None:
            return self.headers
        return {} if self.context is None else _text_metadata(self.context)


def _text_metadata(context: "Context") -> dict[str, str]:
    return {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}


def read_metadata(context: "Context | None") -> Mapping[str, str]:
    """Return the metadata of the current request, without binary entries. Of repeated keys, the last value applies."""
    if context is not None:
        return _text_metadata(context)
    call = _call.get()
    return call.metadata if call is not None else {}


def read_binary(context: "Context | None", name: str) -> bytes | None:
    """Return a binary entry of the metadata of the current request, or None.

    Args:
        name: Ends with `-bin`.

    Raises:
        InvalidArgumentError: The value of an HTTP header is not base64.
    """
    if context is not None:
        values = [value for key, value in context.invocation_metadata() or () if key == name]
        return values[-1] if values and isinstance(values[-1], bytes) else None
    text = read_metadata(None).get(name)
    if text is None:
        return None
    try:
        # Source: the gRPC protocol over HTTP/2, where padding is optional.
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), validate=True)
    except ValueError:
        raise InvalidArgumentError("must be base64", field=name) from None


async def set_response_headers(context: "Context | None", headers: Mapping[str, str | bytes]) -> None:
    """Send headers of the response before its first message. Called at most once for each call.

    Args:
        headers: Names that end with `-bin` have bytes, others text.
    """
    if context is not None:
        await context.send_initial_metadata(tuple(headers.items()))
    elif (call := _call.get()) is not None:
        for name, value in headers.items():
            text = value if isinstance(value, str) else base64.b64encode(value).decode().rstrip("=")
            call.response_headers[name] = text


def set_trailers(context: "Context | None", trailers: Iterable[tuple[str, str | bytes]]) -> None:
    """Set the trailing metadata of the response; over HTTP they are headers, and those that HTTP cannot send are left out."""
    if context is not None:
        context.set_trailing_metadata(tuple(trailers))
    elif (call := _call.get()) is not None:
        for key, value in trailers:
            with suppress(ValueError):
                call.response_headers[key] = base64.b64encode(value).decode() if isinstance(value, bytes) else value


_call: ContextVar[Call | None] = ContextVar("plgrpc_call", default=None)


def set_current_call(call: Call) -> None:
    """Set the current call. It is never reset, because each RPC and HTTP request has its own asyncio task."""
    _call.set(call)


def current_call() -> Call | None:
    """Return the current call of the asyncio task, or None."""
    return _call.get()


def caller_scopes() -> frozenset[str]:
    """Return the scopes of the current caller's credentials."""
    call = _call.get()
    return NO_SCOPES if call is None else call.scopes


NO_SCOPES: frozenset[str] = frozenset()


def caller() -> str:
    """Return the name of the current call's principal, or the anonymous one."""
    call = _call.get()
    return ANONYMOUS if call is None else call.principal


def take_origin(context: "Context | None") -> None:
    """Read the origin of this call from the metadata and set it for the asyncio task, for calls that start a run."""
    set_origin(context, read_metadata(context))


def set_origin(context: "Context | None", metadata: Mapping[str, str]) -> None:
    """As `take_origin`, with the metadata of the call."""
    state = metadata.get(TRACESTATE, "")
    if state and context is not None:  # it may be repeated
        state = ",".join(str(value) for key, value in context.invocation_metadata() or () if key == TRACESTATE)
    receive_origin(metadata.get(WAITING_RUNS, ""), metadata.get(TRACEPARENT, ""), state)
