"""Registry: the registry as a server that a user starts, beside agents or on its own, over gRPC, HTTP or both."""

import asyncio
import logging
import os
from dataclasses import replace
from typing import Any, Self

from protolink_pb.v1 import registry_service_pb2

from protolink_grpc.agent.edges import http_options, reach_of
from protolink_grpc.agent.lifetime import close_from_outside, stop_on_signal
from protolink_grpc.auth.principal import Authenticate
from protolink_grpc.auth.rate import RateLimit
from protolink_grpc.auth.rules import Admission
from protolink_grpc.client.registry_client import RegistryClient
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.gateway.options import HttpOptions
from protolink_grpc.registry.persistence import SQLiteDirectoryFile
from protolink_grpc.registry.service import RegistryService
from protolink_grpc.runtime.background import background as shared_loop
from protolink_grpc.runtime.loops import run as run_loop
from protolink_grpc.server.app import GrpcServer, ServerOptions
from protolink_grpc.server.registry_servicer import RegistryServicer
from protolink_grpc.wire.address import Address
from protolink_grpc.wire.tls import TLSConfig

log = logging.getLogger(__name__)


class Registry:
    """Agent cards under leases, served over gRPC, and over ProtoLink's HTTP routes and WebSocket where there is an HTTP port.

    Args:
        transport: "grpc".
        url: Where to listen; port 0 takes a free one, and `url` then says which.
        http: Where to listen for HTTP, too: `host:port`, or HttpOptions.
        authenticator, access, rate_limit: Who may call, on every edge; see Agent.
        path: SQLite file in which registrations survive a restart; None keeps them in memory, and agents register again.
        server: How the gRPC server behaves.
        tls: Certificates for `grpcs://`.
    """

    def __init__(
        self,
        transport: str = "grpc",
        url: str = "grpc://127.0.0.1:0",
        *,
        path: str | os.PathLike[str] | None = None,
        http: HttpOptions | str | None = None,
        authenticator: Authenticate | None = None,
        access: Admission | None = None,
        rate_limit: RateLimit | None = None,
        server: ServerOptions | None = None,
        tls: TLSConfig | None = None,
    ) -> None:
        if transport != "grpc":
            raise InvalidArgumentError(
                f"{transport!r} is not a transport of a registry; use grpc, and http= for an HTTP port beside it",
                field="transport",
            )
        self._address = Address.parse(url)
        options = server or ServerOptions()
        self._reach = reach_of(
            replace(options, tls=options.tls or tls),
            http_options(http, url, tls),
            False,
            authenticator,
            access=access,
            rate=rate_limit,
        )
        self._path = path
        self._service: RegistryService | None = None
        self._server: GrpcServer | None = None
        self._gateway: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._url = self._address.url
        self._client = RegistryClient(self._url, tls=tls)

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._url

    @property
    def http_url(self) -> str:
        """Where its HTTP port is; empty where there is none."""
        return str(self._gateway.url) if self._gateway is not None else ""

    @property
    def is_running(self) -> bool:
        return self._loop is not None

    @property
    def client(self) -> RegistryClient:
        """A client of this registry, always the same one: it learns the port when the registry starts."""
        return self._client

    async def serve(self) -> None:
        """Come up on the running loop and return.

        Raises:
            AddressInUseError: The port is taken.
            StoreError: The file cannot be opened.
        """
        if self._loop is not None:
            return
        service = RegistryService(file=SQLiteDirectoryFile(self._path) if self._path is not None else None)
        await service.start()
        self._service = service
        try:
            await self._listen(service)
        except BaseException:
            await self.aclose(0)
            raise
        self._loop = asyncio.get_running_loop()
        log.info("registry serves at %s%s", self._url, self.http_url and f", and at {self.http_url}")

    async def _listen(self, service: RegistryService) -> None:
        descriptor = registry_service_pb2.DESCRIPTOR.services_by_name["RegistryService"]
        services = [(descriptor, RegistryServicer(service))]
        if self._reach.http is not None:
            # Here, not above: a registry without an HTTP port needs none of it.
            from protolink_grpc.gateway.app import Gateway
            from protolink_grpc.gateway.door import Door
            from protolink_grpc.gateway.grpc_web import grpc_web_routes
            from protolink_grpc.gateway.protolink_registry import registry_routes
            from protolink_grpc.gateway.protolink_socket import behind_guard

            gateway = self._gateway = Gateway(
                self._reach.http,
                Door(self._reach.authenticate, self._reach.admit, self._reach.http.bounds),
                about=lambda: {"transport": "http", "url": self.http_url},
                challenges=self._reach.challenges,
            )
            methods = self._reach.procedures(services)
            own = registry_routes(gateway.door, service, socket=behind_guard(gateway.options))
            await gateway.start([*own, *grpc_web_routes(gateway.door, gateway.streams, methods)])
        server = GrpcServer(self._address, services, options=self._reach.grpc_options)
        address = await server.start()
        self._server = server
        # The port stays the same over a restart: agents know it.
        self._address, self._url = address, address.url
        self._client.address = address
        await server.serve()

    async def aclose(self, grace_s: float = 1.0) -> None:
        """Go down on the running loop: end the watches, close ports and file."""
        if self._server is not None:
            await self._server.drain()
        if self._gateway is not None:
            await self._gateway.begin_drain()
        if self._service is not None:
            await self._service.aclose()
        if self._server is not None:
            await self._server.stop(grace_s)
        if self._gateway is not None:
            await self._gateway.stop(grace_s)
        self._service = self._server = self._gateway = self._loop = None
        stopped, self._stopped = self._stopped, None
        if stopped is not None:
            stopped.set()

    def start(self, *, background: bool = False) -> None:
        """Serve: in the foreground until a signal or `stop`, or beside the program. Raises as `serve`."""
        if background:
            shared_loop.run(self.serve())
        else:
            run_loop(self._run())

    def stop(self) -> None:
        """Go down, from any other thread. A stopped registry can be started again."""
        if self._loop is not None:
            close_from_outside(self._loop, self.aclose, "registry")

    async def _run(self) -> None:
        stopped = self._stopped = asyncio.Event()
        stop_on_signal(stopped)
        await self.serve()
        await stopped.wait()
        await self.aclose()

    async def __aenter__(self) -> Self:
        await self.serve()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
