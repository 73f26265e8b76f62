"""The metrics of an HTTP server, exported by prometheus_client. They contain no raw paths and no callers' names.

Requests are counted in plain numbers, because only the server's event loop writes them: prometheus_client's own counters take a
lock, and add `_created` series that only a setting of the whole process turns off (docs/adr/0031).
"""

import asyncio
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from time import perf_counter
from typing import Literal

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from protolink_grpc.edges.http.http_server import HttpServer
from protolink_grpc.edges.http.middleware import with_middleware
from protolink_grpc.edges.http.options import HttpOptions, MetricsRegistry

OPERATION = "plgrpc.operation"
"""Key of an ASGI scope. A route with several methods (JSON-RPC) writes the method's name here.

It replaces the route in the labels. Only names of its own table are allowed, so that their number is bounded.
"""

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Buckets in seconds: from a response from memory to a task with model calls."""

MAX_SERIES = 2000
"""Maximum number of label combinations; further ones are counted as route `other`."""

BODILESS = frozenset({204, 304})
"""Statuses of responses without a body, and so without a length."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "WEBSOCKET"})


@dataclass(slots=True)
class _Latency:
    """`counts` by bucket, the last one for everything above."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    sum_s: float = 0.0


class Metrics:
    """The metrics of one server, as a collector of prometheus_client. They belong to the server's event loop.

    Args:
        also: Further metrics to show.

    Attributes:
        registry: What `/metrics` shows.
    """

    def __init__(self, also: MetricsRegistry | None = None) -> None:
        self._requests: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        self._latencies: defaultdict[tuple[str, str], _Latency] = defaultdict(_Latency)
        self._rejected: defaultdict[str, int] = defaultdict(int)
        self._numbers: dict[str, Callable[[], Metric]] = {}
        self.in_flight = 0
        self.event_streams = 0
        self.websockets = 0
        self.bytes_sent = 0
        self.gauge("http_requests_in_flight", "Requests being answered, streams included.", lambda: self.in_flight)
        self.gauge("http_event_streams", "Open streams of SSE, gRPC-Web and Connect.", lambda: self.event_streams)
        self.gauge("http_websockets", "Open WebSockets.", lambda: self.websockets)
        self.gauge("http_sent_bytes_total", "Bytes of response bodies.", lambda: self.bytes_sent, kind="counter")
        self.registry = CollectorRegistry()
        self.registry.register(self)
        if also is not None:
            self.registry.register(also)

    def count_requests(self, app: ASGIApp) -> ASGIApp:
        """Wrap the application to count its requests. It is the outermost layer, so that refused requests are counted too."""

        async def counting_app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "lifespan":
                await app(scope, receive, send)
                return
            exchange = _Exchange(self, send)
            self.in_flight += 1
            try:
                await app(scope, receive, exchange.send)
            finally:
                self.in_flight -= 1
                exchange.end(scope)

        return counting_app

    def count_rejection(self, reason: str) -> None:
        """Count a connection or request that was dropped because of its peer."""
        self._rejected[reason] += 1

    def gauge(
        self, name: str, text: str, read: Callable[[], float], *, kind: Literal["gauge", "counter"] = "gauge"
    ) -> None:
        """Add a metric without labels, or replace the one with the same name.

        Args:
            name: Without the prefix `plgrpc_`.
            text: Description in one sentence.
            read: Returns the value; called for each request of the metrics, so it must be fast.
            kind: `counter` for a number that only grows, whose name ends with `_total`.
        """
        family = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
        self._numbers[name] = lambda: family(f"plgrpc_{name}", text, read())

    def observe(self, server: HttpServer) -> None:
        """Add the metrics of the server itself."""
        self.gauge("http_connections", "Open connections, WebSockets included.", lambda: server.connections)
        self.gauge(
            "http_received_bytes_total",
            "Bytes of requests, headers included.",
            lambda: server.bytes_received,
            kind="counter",
        )

    def count(self, route: str, method: str, status: int, elapsed_s: float | None) -> None:
        """Count a completed request. `elapsed_s` is None for streams and WebSockets."""
        if len(self._requests) >= MAX_SERIES and (route, method, status) not in self._requests:
            route = "other"
        self._requests[route, method, status] += 1
        if elapsed_s is not None:
            latency = self._latencies[route, method]
            latency.counts[bisect_left(BUCKETS_S, elapsed_s)] += 1
            latency.sum_s += elapsed_s

    def route(self, path: str = "/metrics", admit: Callable[[Request], Awaitable[object]] | None = None) -> Route:
        """Create the route of the metrics: open, or for requests that pass `admit` without an error."""

        async def show(request: Request) -> Response:
            if admit is not None:
                await admit(request)
            # The counts are read on the event loop, which writes them. Their text takes much longer, so a thread writes it.
            snapshot = _Snapshot(list(self.registry.collect()))
            text = await asyncio.to_thread(generate_latest, snapshot)
            return Response(text, headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})

        return Route(path, show)

    def collect(self) -> Iterator[Metric]:
        """Yield the current values, for prometheus_client."""
        requests = CounterMetricFamily(
            "plgrpc_http_requests",
            "Requests that were answered, by route template.",
            labels=("route", "method", "status"),
        )
        for (route, method, status), count in sorted(self._requests.items()):
            requests.add_metric((route, method, str(status)), count)
        yield requests
        latencies = HistogramMetricFamily(
            "plgrpc_http_request_duration_seconds",
            "Time to the end of the response, without streams and WebSockets.",
            labels=("route", "method"),
        )
        for labels, latency in sorted(self._latencies.items()):
            buckets = zip((*map(str, BUCKETS_S), "+Inf"), accumulate(latency.counts), strict=True)
            latencies.add_metric(labels, list(buckets), latency.sum_s)
        yield latencies
        rejected = CounterMetricFamily(
            "plgrpc_http_rejected", "Dropped connections and requests, by reason.", labels=("reason",)
        )
        for reason, count in sorted(self._rejected.items()):
            rejected.add_metric((reason,), count)
        yield rejected
        for read in self._numbers.values():
            yield read()


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The values of a registry at one time, as a collector."""

    families: list[Metric]

    def collect(self) -> list[Metric]:
        return self.families


class _Exchange:
    """One request and its response."""

    __slots__ = ("_begun", "_is_stream", "_is_websocket", "_metrics", "_send", "_status")

    def __init__(self, metrics: Metrics, send: Send) -> None:
        self._metrics = metrics
        self._send = send
        self._begun = perf_counter()
        self._status = 0
        self._is_stream = self._is_websocket = False

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.body":
            self._metrics.bytes_sent += len(message.get("body", b""))
        else:
            self._note(kind, message)
        await self._send(message)

    def _note(self, kind: str, message: Message) -> None:
        if kind == "http.response.start":
            self._status = message["status"]
            # Complete responses have a Content-Length if they may have a body; streams do not.
            is_whole = any(name == b"content-length" for name, _ in message.get("headers", ()))
            self._is_stream = not is_whole and self._status not in BODILESS
            self._metrics.event_streams += self._is_stream
        elif kind == "websocket.accept":
            self._status = 101
            self._is_websocket = True
            self._metrics.websockets += 1
        elif kind == "websocket.http.response.start":
            self._status = message["status"]

    def end(self, scope: Scope) -> None:
        metrics = self._metrics
        metrics.event_streams -= self._is_stream
        metrics.websockets -= self._is_websocket
        found = scope.get("route")
        route = scope.get(OPERATION) or (found.path if found is not None else "unmatched")
        method = scope.get("method", "WEBSOCKET")
        lasts = self._is_stream or self._is_websocket
        metrics.count(
            route,
            method if method in METHODS else "OTHER",
            # As proxies do: 499 means that the client disconnected before the response.
            self._status or 499,
            None if lasts else perf_counter() - self._begun,
        )


def metrics_server(metrics: Metrics, options: HttpOptions) -> HttpServer | None:
    """Create the server of `options.metrics_listen`, not started, or return None."""
    if options.metrics_listen is None:
        return None
    tls = options.tls if options.metrics_listen.startswith("https://") else None
    own = replace(options, listen=options.metrics_listen, metrics_listen=None, tls=tls, cors_origins=(), root_path="")
    return HttpServer(with_middleware(Router([metrics.route()]), own), own, rejected=metrics.count_rejection)
