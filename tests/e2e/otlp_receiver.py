"""Receivers of OTLP over HTTP and gRPC, with the messages and services of OpenTelemetry's protocol. They keep what they receive."""

import gzip
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc

WAIT_S = 60.0


@dataclass(frozen=True)
class ReceivedSpan:
    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    micros: int
    attributes: dict[str, Any]


@dataclass
class Receiver:
    port: int = 0
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    spans: list[ReceivedSpan] = field(default_factory=list)
    metrics: set[tuple[str, str]] = field(default_factory=set)
    """The services and the names of their metrics."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_for(self, is_enough: Callable[[list[ReceivedSpan]], bool]) -> list[ReceivedSpan]:
        """Wait until the spans satisfy the condition, and return them."""
        with self.changed:
            assert self.changed.wait_for(lambda: is_enough(self.spans), WAIT_S), [each.name for each in self.spans]
            return list(self.spans)

    def wait_for_metric(self, service: str, name: str) -> None:
        """Wait until a metric has a value."""
        with self.changed:
            assert self.changed.wait_for(lambda: (service, name) in self.metrics, WAIT_S), self.metrics

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        with self.changed:
            self.paths.append(path)
            self.headers.append(headers)
            if "etrics" in path:
                self.metrics |= set(_metrics_of(ExportMetricsServiceRequest.FromString(body)))
            else:
                self.spans += _spans_of(ExportTraceServiceRequest.FromString(body))
            self.changed.notify_all()


def _metrics_of(request: Any) -> Iterator[tuple[str, str]]:
    for resource in request.resource_metrics:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                yield service, metric.name


def _spans_of(request: Any) -> Iterator[ReceivedSpan]:
    for resource in request.resource_spans:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    service,
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.kind,
                    (span.end_time_unix_nano - span.start_time_unix_nano) // 1000,
                    _attributes(span.attributes),
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@contextmanager
def receiving_grpc() -> Iterator[Receiver]:
    """Serve OTLP's services for traces and metrics on a free port of this machine."""
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

    received = Receiver()

    class TraceService(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request: Any, context: grpc.ServicerContext) -> Any:
            headers = {key: str(value) for key, value in context.invocation_metadata()}
            received.take("TraceService/Export", headers, request.SerializeToString())
            return trace_service_pb2.ExportTraceServiceResponse()

    class MetricsService(metrics_service_pb2_grpc.MetricsServiceServicer):
        def Export(self, request: Any, context: grpc.ServicerContext) -> Any:
            received.take("MetricsService/Export", {}, request.SerializeToString())
            return metrics_service_pb2.ExportMetricsServiceResponse()

    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(MetricsService(), server)
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(TraceService(), server)
        received.port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield received
        finally:
            server.stop(None).wait()


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Serve OTLP over HTTP on a free port of this machine."""
    received = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            received.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
