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
    """One HTTP port: made first, because its guard and its streams belong to the routes, then started with them, once.

    Args:
        about: What health checks tell besides the state: name, URL and the like; everybody can read it.
        obstacle: Why it should get no work now; empty where it should.
        hosted: The application that another server runs; None listens on a port of its own.
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
        """Where callers reach it."""
        if self.options.public_url:
            return self.options.public_url.rstrip("/")
        if self._hosted is not None:
            return Listen.parse(self.options.listen, self.options.tls).url
        return self._server.url if self._server is not None else ""

    async def start(self, routes: Sequence[BaseRoute]) -> str:
        """Listen, or open the hosted application. Returns the URL.

        Raises:
            AddressInUseError: A port is taken, or not ours to take.
            InvalidArgumentError: The certificates are not usable.
        """
        app = self._application(routes)
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
        server = HttpServer(app, self.options, drain=self.drain, rejected=self.metrics.rejected)
        await server.start()
        self.metrics.observe(server)
        return server

    def _application(self, routes: Sequence[BaseRoute]) -> ASGIApp:
        """The routes with everything around them."""
        own = [*self._health.routes(), *routes]
        if self.options.metrics_listen is None:
            own.append(self.metrics.route(admit=None if self.guard.is_open else self._admit_to_metrics))
        app = with_middleware(_routed(own), self.options, challenges=self._challenges)
        self.streams.reopen()
        self.metrics.gauge(
            "log_records_left_out_total",
            "Records of this package that were counted instead of logged.",
            records_left_out,
            kind="counter",
        )
        return self.metrics.metered(app)

    async def _admit_to_metrics(self, request: Request) -> None:
        await self.guard.principal(request, METRICS_METHOD)

    async def begin_drain(self) -> None:
        """Say that it goes down: readiness fails, and event streams end where they are."""
        self.drain.begin()

    async def stop(self, grace_s: float) -> None:
        """Accept nothing more, let answers under way finish, cut the rest."""
        server, self._server = self._server, None
        metrics, self._metrics_server = self._metrics_server, None
        if self._hosted is not None:
            self.drain.begin()
            self._hosted.close()
        if server is not None:
            await server.stop(grace_s)
        if metrics is not None:
            await metrics.stop(0.2)


def _routed(routes: Sequence[BaseRoute]) -> ASGIApp:
    """The routes; what has none is an exception like any other, and so an answer in JSON."""
    router = Router(routes, redirect_slashes=False)
    # Most requests are for a path without parameters; trying two dozen patterns costs as much as answering.
    plain: dict[tuple[str, str], Route] = {}
    ways: dict[str, set[str]] = {}
    patterns: list[BaseRoute] = []
    for route in routes:
        if isinstance(route, Route) and not route.param_convertors:
            for method in route.methods or ():
                plain.setdefault((method, route.path), route)
                ways.setdefault(route.path, set()).add(method)
        else:
            patterns.append(route)

    def takes(scope: Scope) -> bool:
        """Whether a pattern stands for it: somebody's task may be called `stream`, as ProtoLink's path is."""
        return any(route.matches(scope)[0] is Match.FULL for route in patterns)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (route := plain.get((scope["method"], scope["path"]))) is not None:
            scope["route"], scope["path_params"] = route, {}
            response = await route.endpoint(Request(scope, receive, send))
            await response(scope, receive, send)
            return
        if scope["type"] == "http" and (allowed := ways.get(scope["path"])) is not None and not takes(scope):
            raise HTTPException(405, "Method Not Allowed", {"Allow": ", ".join(sorted(allowed))})
        scope["app"] = router  # starlette answers by itself, in plain text, where it thinks that nobody is around it
        await router(scope, receive, send)

    return app
