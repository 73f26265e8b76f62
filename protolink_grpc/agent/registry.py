"""Registry: the registry as a server that a user starts, beside agents or on its own."""

import asyncio
import logging
import os
from dataclasses import replace
from typing import Self

from protolink_pb.v1 import registry_service_pb2

from protolink_grpc.agent.lifetime import close_from_outside, stop_on_signal
from protolink_grpc.client.registry_client import RegistryClient
from protolink_grpc.errors import InvalidArgumentError
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
    """Agent cards under leases, served over gRPC.

    Args:
        transport: "grpc".
        url: Where to listen; port 0 takes a free one, and `url` then says which.
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
        server: ServerOptions | None = None,
        tls: TLSConfig | None = None,
    ) -> None:
        if transport != "grpc":
            raise InvalidArgumentError(f"{transport!r} is not a transport of a registry; use grpc", field="transport")
        self._address = Address.parse(url)
        self._path = path
        options = server or ServerOptions()
        self._options = replace(options, tls=options.tls or tls)
        self._service: RegistryService | None = None
        self._server: GrpcServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._url = self._address.url
        self._client = RegistryClient(self._url, tls=tls)

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._url

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
        descriptor = registry_service_pb2.DESCRIPTOR.services_by_name["RegistryService"]
        server = GrpcServer(self._address, [(descriptor, RegistryServicer(service))], options=self._options)
        try:
            address = await server.start()
        except BaseException:
            await service.aclose()
            raise
        # The port stays the same over a restart: agents know it.
        self._address, self._url = address, address.url
        self._client.address = address
        self._service, self._server = service, server
        self._loop = asyncio.get_running_loop()
        await server.serve()
        log.info("registry serves at %s", self._url)

    async def aclose(self, grace_s: float = 1.0) -> None:
        """Go down on the running loop: end the watches, close port and file."""
        if self._server is not None:
            await self._server.drain()
        if self._service is not None:
            await self._service.aclose()
        if self._server is not None:
            await self._server.stop(grace_s)
        self._service = self._server = self._loop = None
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
