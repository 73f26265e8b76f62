"""The HTTP port of a registry: ProtoLink's routes, gRPC-Web, Connect, health and metrics.

It is imported only if a registry has an HTTP port, because starlette and uvicorn take as long to import as everything else.
"""

from collections.abc import Sequence

from google.protobuf.descriptor import ServiceDescriptor

from protolink_grpc.agent.edge_settings import EdgeSettings
from protolink_grpc.compat.protolink.edge.registry import registry_routes
from protolink_grpc.compat.protolink.edge.websocket import limits_of_port
from protolink_grpc.edges.http.app import Gateway
from protolink_grpc.edges.http.hosted_app import HostedApp
from protolink_grpc.edges.http.options import HttpOptions
from protolink_grpc.edges.http.procedures import procedure_routes
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.registry.service import RegistryService


class RegistryHttpPort:
    """The HTTP server of a registry."""

    def __init__(
        self,
        options: HttpOptions,
        settings: EdgeSettings,
        service: RegistryService,
        services: Sequence[tuple[ServiceDescriptor, object]],
        *,
        lease_ttl_s: float,
        hosted: HostedApp | None,
    ) -> None:
        self._settings, self._service, self._services, self._lease_ttl_s = settings, service, services, lease_ttl_s
        self.gateway = Gateway(
            options,
            RequestGuard(settings.authenticate, settings.admit, options.bounds),
            about=lambda: {"transport": "http", "url": self.url},
            challenges=settings.challenges,
            hosted=hosted,
        )

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
        gateway = self.gateway
        web = procedure_routes(gateway.guard, gateway.streams, self._settings.procedures(self._services))
        own = registry_routes(
            gateway.guard, self._service, lease_ttl_s=self._lease_ttl_s, socket=limits_of_port(gateway.options)
        )
        return await gateway.start([*own, *web])

    async def drain(self) -> None:
        """Report that the registry is not ready; event streams end where they are."""
        await self.gateway.begin_drain()

    async def stop(self, grace_s: float) -> None:
        """Accept no more requests, wait for running responses, then close the remaining connections."""
        await self.gateway.stop(grace_s)
