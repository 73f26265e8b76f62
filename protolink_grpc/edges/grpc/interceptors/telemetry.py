"""A server span per RPC, joined to the caller's trace by W3C `traceparent` metadata. Used only where a tracer is set up."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from protolink_grpc.edges.grpc.call import Call
from protolink_grpc.edges.grpc.interceptors import Interceptor
from protolink_grpc.errors import ProtolinkError


def telemetry(tracer: trace.Tracer) -> Interceptor:
    """Record a span for every call, named `package.Service/Method`. Source: OpenTelemetry's RPC semantic conventions."""

    @asynccontextmanager
    async def trace_call(call: Call) -> AsyncIterator[None]:
        service, _, method = call.method.removeprefix("/").partition("/")
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
        parent = propagate.extract(call.metadata)
        with tracer.start_as_current_span(
            f"{service}/{method}",
            context=parent,
            kind=SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except ProtolinkError as error:
                span.set_attribute("error.type", error.reason)
                if error.rule.http >= 500:
                    span.set_status(Status(StatusCode.ERROR, error.reason))
                raise
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise

    return trace_call
