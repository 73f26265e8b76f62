"""The HTTP port of an agent or a registry: its routes and middleware, its start and stop."""

from collections.abc import Callable, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from protolink_grpc.edges.http.drain import Drain
from protolink_grpc.edges.http.health import Health
from protolink_grpc.edges.http.hosted_app import HostedApp
from protolink_grpc.edges.http.http_server import HttpServer
from protolink_grpc.edges.http.metrics import Metrics, metrics_server
from protolink_grpc.edges.http.middleware import with_middleware
from protolink_grpc.edges.http.options import HttpOptions, Listen
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.edges.http.sse import OpenStreams
from protolink_grpc.logs import records_left_out

METRICS_METHOD = "/plgrpc.v1.Metrics/GetMetrics"
"""The method name of `/metrics` for access rules. There is no such RPC."""


class Gateway:
    """One HTTP port. The routes need its guard and its streams, so it is created first and then started with them, once.

    Args:
        about: Further fields of health checks, such as name and URL. They are public.
        obstacle: Returns why the server should get no work now, or an empty text.
        hosted: The application that another server runs; None means a port of its own.
    """

    def __init__(
        self,
        options: HttpOptions,
        guard: RequestGuard,
        *,
        about: Callable[[], dict[str, Any]] | None = None,
        obstacle: Callable[[], str] | None = None,
        challenges: Sequence[str] = (),
        hosted: HostedApp | None = None,
    ) -> None:
        self.options = options
        self.guard = guard
        self.drain = Drain()
        self.streams = OpenStreams()
        self.drain.watch(self.streams.drain)
        self.metrics = Metrics(options.metrics_registry)
        self._health = Health(self.drain, about, obstacle)
        self._challenges = challenges
        self._hosted = hosted
        self._server: HttpServer | None = None
        self._metrics_server: HttpServer | None = None

    @property
    def url(self) -> str:
        """The URL for callers."""
        if self.options.public_url:
            return self.options.public_url.rstrip("/")
        if self._hosted is not None:
            return Listen.parse(self.options.listen, self.options.tls).url
        return self._server.url if self._server is not None else ""

    async def start(self, routes: Sequence[BaseRoute]) -> str:
        """Listen, or open the hosted application. Returns the URL.

        Raises:
            AddressInUseError: A port is in use, or not permitted.
            InvalidArgumentError: The certificates are invalid.
        """
        app = self._build_app(routes)
        if self._hosted is not None:
            self.drain.clear()
        else:
            self._server = await self._listen(app)
        self._metrics_server = metrics_server(self.metrics, self.options)
        if self._metrics_server is not None:
            try:
                await self._metrics_server.start()
            except BaseException:
                await self.stop(0)
                raise
        if self._hosted is not None:
            self._hosted.open(app, max_message_bytes=self.options.max_websocket_message_bytes)
        return self.url

    async def _listen(self, app: ASGIApp) -> HttpServer:
        server = HttpServer(app, self.options, drain=self.drain, rejected=self.metrics.count_rejection)
        await server.start()
        self.metrics.observe(server)
        return server

    def _build_app(self, routes: Sequence[BaseRoute]) -> ASGIApp:
        """Build the application: the given routes and those for health and metrics, with all middleware."""
        own = [*self._health.routes(), *routes]
        if self.options.metrics_listen is None:
            own.append(self.metrics.route(admit=None if self.guard.is_open else self._admit_to_metrics))
        app = with_middleware(_build_router(own), self.options, challenges=self._challenges)
        self.streams.reopen()
        self.metrics.gauge(
            "log_records_left_out_total",
            "Records of this package that were counted instead of logged.",
            records_left_out,
            kind="counter",
        )
        return self.metrics.count_requests(app)

    async def _admit_to_metrics(self, request: Request) -> None:
        await self.guard.principal(request, METRICS_METHOD)

    async def begin_drain(self) -> None:
        """Announce the shutdown: readiness fails, and event streams end after their current batch."""
        self.drain.begin()

    async def stop(self, grace_s: float) -> None:
        """Refuse new requests, wait up to `grace_s` seconds for running ones, then cut the rest."""
        server, self._server = self._server, None
        metrics, self._metrics_server = self._metrics_server, None
        if self._hosted is not None:
            self.drain.begin()
            self._hosted.close()
        if server is not None:
            await server.stop(grace_s)
        if metrics is not None:
            await metrics.stop(0.2)


def _build_router(routes: Sequence[BaseRoute]) -> ASGIApp:
    """Build the application of the routes. For a request without a route it raises HTTPException."""
    router = Router(routes, redirect_slashes=False)
    # Most requests are for a path without parameters. Trying two dozen patterns costs as much as the response.
    plain: dict[tuple[str, str], Route] = {}
    allowed_methods: dict[str, set[str]] = {}
    patterns: list[BaseRoute] = []
    for route in routes:
        if isinstance(route, Route) and not route.param_convertors:
            for method in route.methods or ():
                plain.setdefault((method, route.path), route)
                allowed_methods.setdefault(route.path, set()).add(method)
        else:
            patterns.append(route)

    def has_pattern(scope: Scope) -> bool:
        """Return whether a route with parameters matches: the id of a task may be `stream`, which is a path of ProtoLink."""
        return any(route.matches(scope)[0] is Match.FULL for route in patterns)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (route := plain.get((scope["method"], scope["path"]))) is not None:
            scope["route"], scope["path_params"] = route, {}
            response = await route.endpoint(Request(scope, receive, send))
            await response(scope, receive, send)
            return
        if scope["type"] == "http" and (allowed := allowed_methods.get(scope["path"])) and not has_pattern(scope):
            raise HTTPException(405, "Method Not Allowed", {"Allow": ", ".join(sorted(allowed))})
        # With an application in the scope, starlette raises HTTPException. Without one it responds in plain text.
        scope["app"] = router
        await router(scope, receive, send)

    return app
