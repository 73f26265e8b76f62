"""The caller and the service parameters of an A2A request over HTTP. The HTTP port's guard decides who may call."""

from dataclasses import replace

from starlette.requests import HTTPConnection

from protolink_grpc.a2a.values import CallerInfo
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.errors import InvalidArgumentError, VersionNotSupportedError
from protolink_grpc.net.trace_context import TRACEPARENT, TRACESTATE
from protolink_grpc.net.tracing import WAITING_RUNS, receive_origin

_WAITING_RUNS, _TRACEPARENT, _TRACESTATE = WAITING_RUNS.encode(), TRACEPARENT.encode(), TRACESTATE.encode()
_NO_EXTENSIONS: frozenset[str] = frozenset()


async def identify_caller(guard: RequestGuard, request: HTTPConnection, method: str = "") -> CallerInfo:
    """Return the caller and the service parameters of a request. With a method, also check that the caller may call it.

    Raises:
        UnauthenticatedError: No valid credentials.
        PermissionDeniedError: The caller may not call `method`.
        ResourceExhaustedError: The caller has reached a limit.
        VersionNotSupportedError, InvalidArgumentError: A header occurs twice, with different values.
    """
    principal = await (guard.principal(request, method) if method else guard.identify(request))
    version, named, key, waiting_runs, traceparent, tracestate = "", b"", "", "", "", b""
    # The raw header bytes are read, because starlette decodes all headers to look up one.
    for name, value in request.scope["headers"]:
        if name == b"a2a-version":
            text = value.decode("latin-1").strip()
            if version and text != version:
                raise VersionNotSupportedError("A2A-Version occurs twice with different values")
            version = text
        elif name in (b"a2a-extensions", b"x-a2a-extensions"):
            named = b"%b,%b" % (named, value) if named else value
        elif name == _WAITING_RUNS:
            waiting_runs = value.decode("latin-1")
        elif name == _TRACEPARENT:
            traceparent = value.decode("latin-1")
        elif name == _TRACESTATE:
            tracestate = b"%b,%b" % (tracestate, value) if tracestate else value
        elif name == b"idempotency-key":
            text = value.decode("latin-1").strip()
            if key and text != key:
                raise InvalidArgumentError("occurs twice with different values", field="Idempotency-Key")
            key = text
    receive_origin(waiting_runs, traceparent, tracestate.decode("latin-1") if tracestate else "")
    if not version and request.scope["query_string"]:
        version = request.query_params.get("A2A-Version", "")
    extensions = _split_names(named) if named else _NO_EXTENSIONS
    return CallerInfo(principal, not guard.is_open, version, extensions, key)


async def admit_caller(guard: RequestGuard, request: HTTPConnection, method: str, caller: CallerInfo) -> CallerInfo:
    """Check that a caller may call `method`, if it was identified before the method was read from the body.

    Raises as `identify_caller` with a method.
    """
    if guard.is_open:
        guard.admit(method, caller.principal)
        return caller
    return replace(caller, principal=await guard.principal(request, method))


def _split_names(header: bytes) -> frozenset[str]:
    """Return the members of a comma-separated header."""
    return frozenset(filter(None, (each.strip() for each in header.decode("latin-1").split(","))))
