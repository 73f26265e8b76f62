"""The HTTP port of an agent: ProtoLink's routes, gRPC-Web, Connect, health, metrics, MCP, and optionally A2A's.

It is imported only if an agent has an HTTP port, because starlette and uvicorn take as long to import as everything else.
"""

from starlette.routing import BaseRoute

from protolink_grpc.a2a.edge.routes import a2a_routes
from protolink_grpc.a2a.operations import Operations
from protolink_grpc.agent.edge_settings import EdgeSettings
from protolink_grpc.agent.grpc_port import ServedAgent, agent_services
from protolink_grpc.compat.protolink.edge.routes import agent_routes
from protolink_grpc.compat.protolink.edge.websocket import limits_of_port
from protolink_grpc.edges.http.app import Gateway
from protolink_grpc.edges.http.hosted_app import HostedApp
from protolink_grpc.edges.http.metrics import Metrics
from protolink_grpc.edges.http.options import HttpOptions
from protolink_grpc.edges.http.procedures import procedure_routes
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.edges.http.session_events import SessionEvents
from protolink_grpc.mcp.edge.http import McpRoute
from protolink_grpc.mcp.edge.server import McpAgent
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.telemetry.metrics import OF_SERVICES
from protolink_grpc.telemetry.prometheus import prometheus_name


class HttpPort:
    """The HTTP server of an agent."""

    def __init__(
        self,
        options: HttpOptions,
        settings: EdgeSettings,
        served: ServedAgent,
        operations: Operations | None,
        hosted: HostedApp | None,
    ) -> None:
        card, service = served.card, served.service
        self._mcp: McpRoute | None = None
        self._options, self._settings, self._served, self._operations = options, settings, served, operations
        self.gateway = Gateway(
            options,
            RequestGuard(settings.authenticate, settings.admit, options.bounds),
            about=lambda: {"name": card.name, "transport": card.transport, "url": self.url},
            obstacle=lambda: "" if service.is_accepting else "stopping",
            challenges=settings.challenges,
            hosted=hosted,
        )
        self.gateway.metrics.gauge(
            "active_tasks", "Tasks that run or wait for a slot.", lambda: len(service.active_task_ids)
        )
        _add_gauges(self.gateway.metrics, service)
        for collector in served.collectors:
            self.gateway.metrics.registry.register(collector)

    @property
    def url(self) -> str:
        """The public URL; empty before the port is open."""
        return self.gateway.url

    async def open(self) -> str:
        """Listen, or open the hosted application. Returns the URL.

        Raises:
            AddressInUseError: The port is taken.
            InvalidArgumentError: The certificates are not usable.
        """
        gateway, operations = self.gateway, self._operations
        a2a = a2a_routes(gateway, operations) if operations is not None else []
        methods = self._settings.procedures(agent_services(self._served))
        web = procedure_routes(gateway.guard, gateway.streams, methods)
        # ProtoLink's paths first, because `/tasks/stream` would match A2A's `/tasks/{id}`.
        mcp = self._mcp_routes() if self._options.mcp else []
        events = SessionEvents(
            gateway.guard, self._served.service, gateway.streams, self._served.card.name, self._served.redaction
        )
        return await gateway.start([*self._protolink_routes(), *web, *events.routes(), *a2a, *mcp])

    def _mcp_routes(self) -> list[BaseRoute]:
        served = self._served
        agent = McpAgent(served.service, served.toolbox, served.card, served.approvals, served.redaction)
        self._mcp = McpRoute(self.gateway.guard, agent)
        return [*self._mcp.routes()]

    def _protolink_routes(self) -> list[BaseRoute]:
        gateway, served, a2a = self.gateway, self._served, self._settings.a2a
        card = served.card
        return agent_routes(
            gateway.guard,
            served.service,
            lambda: card,
            served.control,
            public_url=lambda: gateway.url,
            streams=gateway.streams,
            public_card=a2a is None or a2a.public_card,
            socket=limits_of_port(self._options),
        )

    async def drain(self) -> None:
        """Report that the agent is not ready; event streams end where they are."""
        await self.gateway.begin_drain()

    async def stop(self, grace_s: float) -> None:
        """Accept no more requests, wait for running responses, then close the remaining connections."""
        await self.gateway.stop(grace_s)
        if self._mcp is not None:
            await self._mcp.stop()


def _add_gauges(metrics: Metrics, service: TaskService) -> None:
    """Show the current numbers of a service, under the names that telemetry exports."""
    for instrument, read in OF_SERVICES:
        name, is_counter = prometheus_name(instrument).removeprefix("plgrpc_"), instrument.kind == "counter"
        metrics.gauge(
            f"{name}_total" if is_counter else name,
            instrument.description,
            lambda read=read: read(service.gauges),  # type: ignore[misc]  # a default argument has no type in a lambda
            kind="counter" if is_counter else "gauge",
        )
