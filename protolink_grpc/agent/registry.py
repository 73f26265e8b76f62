"""Registry: the registry as a server that a user starts, beside agents or on its own: over gRPC, HTTP or both, or in process."""

import asyncio
import os
import re
from collections.abc import Sequence
from typing import Any, Self

from google.protobuf.descriptor import ServiceDescriptor
from plgrpc.v1 import registry_service_pb2
from starlette.types import ASGIApp

from protolink_grpc.agent.config import ServingConfig
from protolink_grpc.agent.edge_settings import check_hosted_url, edge_settings
from protolink_grpc.agent.identity import ANY_PORT, TRANSPORTS, resolve_transport
from protolink_grpc.agent.lifetime import close_from_thread, log_listening, stop_on_signal
from protolink_grpc.agent.local_registry import announce_registry, withdraw_registry
from protolink_grpc.agent.ports import WebPort
from protolink_grpc.auth.principal import Authenticate
from protolink_grpc.auth.rate import RateLimit
from protolink_grpc.auth.rules import Admission
from protolink_grpc.client.registry_client import RegistryClient
from protolink_grpc.compat.protolink.transports import Transport
from protolink_grpc.edges.grpc.app import GrpcServer, ServerOptions
from protolink_grpc.edges.grpc.binding import procedures
from protolink_grpc.edges.grpc.registry_servicer import RegistryServicer
from protolink_grpc.edges.http.hosted_app import HostedApp
from protolink_grpc.edges.http.options import HttpOptions
from protolink_grpc.errors import InvalidArgumentError, UnavailableError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.card import TRANSPORT_ALIASES
from protolink_grpc.net.address import RUNTIME_SCHEME, Address, WebAddress
from protolink_grpc.net.background_loop import background as shared_loop
from protolink_grpc.net.event_loops import run_server
from protolink_grpc.net.tls import TLSConfig
from protolink_grpc.registry.directory import DEFAULT_MAX_AGENTS, AgentDirectory
from protolink_grpc.registry.names import DEFAULT_NAME_HOLD_S
from protolink_grpc.registry.persistence import SQLiteDirectoryFile
from protolink_grpc.registry.service import MAX_SILENT_LEASE_S, SILENT_LEASE_S, OwnerOf, RegistryService
from protolink_grpc.wire.registry import MIN_LEASE_TTL_S

log = get_logger(__name__)


REGISTRY_OUTAGE_S = 2.0
"""How long a call to a registry is retried, in seconds. Short, because registrations are renewed by a loop of their own."""


@checks_arguments
class Registry:
    """A server of agent cards under leases, over gRPC, and with an HTTP port also over gRPC-Web, Connect and ProtoLink's protocol.

    Args:
        transport: A name as in `Agent`, by default that of the URL, or an object of `protolink_grpc.transport`.
        url: Address to listen on; by default a free port of this machine, over gRPC. Port 0 selects a free one, and `url` then
            contains it. A registry with an `http://` or `ws://` URL has only an HTTP port, and one with a `runtime://` URL has no
            port and is for agents in this process.
        http: Address of an additional HTTP port: `host:port`, or HttpOptions.
        authenticator, access, rate_limit: As in Agent, for every port.
        path: SQLite file for registrations and owners of names. None keeps them in memory, and agents register again after a
            restart.
        name_hold_s: How long a name stays reserved for its owner after its last registration, in seconds; 0 frees it at once.
            Names of anonymous callers are not reserved.
        owner_of: Returns the owner of a principal's registrations. None means the principal's own name;
            `lambda caller: "fleet" if "fleet" in caller.scopes else caller.name` makes all callers with a scope one owner.
        admin_scope: Callers with this scope may register names and URLs of other owners, whose agents are then removed. A name of
            such a caller is free as soon as it is deregistered. None means that no caller may.
        max_agents_per_principal: Maximum number of registered agents of one owner.
        protolink_lease_s: How long an agent that registered over ProtoLink's routes stays listed without heartbeats, which
            ProtoLink does not send by default. From 1 s to a year; the default is a day.
        server: Options of the gRPC server.
        tls: Certificates for `grpcs://` and `https://`.
        verbosity: Accepted as in ProtoLink, and ignored.
    """

    def __init__(
        self,
        transport: str | Transport | None = None,
        url: str | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        http: HttpOptions | str | int | None = None,
        authenticator: Authenticate | None = None,
        access: Admission | None = None,
        rate_limit: RateLimit | None = None,
        server: ServerOptions | None = None,
        tls: TLSConfig | None = None,
        name_hold_s: float = DEFAULT_NAME_HOLD_S,
        owner_of: OwnerOf | None = None,
        admin_scope: str | None = None,
        max_agents_per_principal: int = DEFAULT_MAX_AGENTS,
        protolink_lease_s: float = SILENT_LEASE_S,
        verbosity: Any = None,
    ) -> None:
        if isinstance(transport, Transport):
            if url is not None or authenticator is not None or tls is not None:
                raise InvalidArgumentError("has its own url, authenticator and certificates", field="transport")
            url, authenticator, tls = transport.url, transport.authenticator, transport.tls
        name = transport.transport_type if isinstance(transport, Transport) else transport
        if url is None:
            if name not in (None, "grpc"):
                raise InvalidArgumentError(f"is required with transport {name!r}", field="url")
            url = ANY_PORT
        name = resolve_transport(url, name, field="url")
        # WebSocket is a route of the HTTP port.
        self._url = re.sub("^ws", "http", url) if name == "websocket" else url
        self._address = Address.parse(url) if name == "grpc" else None
        serving = ServingConfig(
            http=http,
            a2a=False,
            authenticator=authenticator,
            access=access,
            rate_limit=rate_limit,
            server=server,
            tls=tls,
        )
        self._settings = edge_settings(serving, self._url)
        self._path = path
        self._owner_of, self._admin_scope = owner_of, admin_scope
        self._name_hold_s, self._max_agents = name_hold_s, max_agents_per_principal
        self._new_directory()  # raises errors of its options now
        if not MIN_LEASE_TTL_S <= protolink_lease_s <= MAX_SILENT_LEASE_S:
            raise InvalidArgumentError(
                f"must be from {MIN_LEASE_TTL_S:g} to {MAX_SILENT_LEASE_S:,.0f} seconds", field="protolink_lease_s"
            )
        self._protolink_lease_s = protolink_lease_s
        self._service: RegistryService | None = None
        self._server: GrpcServer | None = None
        self._http: WebPort | None = None
        self._is_announced = False
        self._hosted: HostedApp | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        if self._address is not None:
            self._url = self._address.url
        self._client = RegistryClient(self._url, tls=tls, outage_s=REGISTRY_OUTAGE_S)
        if isinstance(transport, Transport):
            transport.attach(self)

    @property
    def url(self) -> str:
        """The URL of the gRPC port; without one that of the HTTP port, or the `runtime://` URL."""
        return self._url

    @property
    def http_url(self) -> str:
        """The URL of the HTTP port, or empty."""
        return self._http.url if self._http is not None else ""

    @property
    def authenticates(self) -> bool:
        """Whether callers are authenticated, by an authenticator or client certificates. Otherwise all callers are one owner."""
        return self._settings.authenticate is not None

    @property
    def is_running(self) -> bool:
        return self._loop is not None

    @property
    def client(self) -> RegistryClient:
        """The client of this registry. It gets the actual port when the registry starts."""
        return self._client

    def asgi_app(self) -> ASGIApp:
        """Return the HTTP port as an ASGI application, and open no HTTP port from now on; see `Agent.asgi_app`.

        Raises:
            InvalidArgumentError: The public URL is missing; names `http.public_url`.
            RuntimeError: The registry runs, and listens already.
        """
        if self._hosted is None:
            if self.is_running:
                raise RuntimeError("asgi_app() is for registries that are not running; call it before the start")
            check_hosted_url(self._settings.http)
            self._hosted = HostedApp("registry", self.serve, self.aclose)
        return self._hosted

    async def serve(self) -> None:
        """Start on the running event loop.

        Raises:
            AddressInUseError: The port is taken.
            StoreError: The file cannot be opened.
        """
        if self._loop is not None:
            return
        service = RegistryService(
            self._new_directory(),
            SQLiteDirectoryFile(self._path) if self._path is not None else None,
            owner_of=self._owner_of,
            admin_scope=self._admin_scope,
        )
        await service.start()
        self._service = service
        try:
            await self._listen(service)
        except BaseException:
            await self.aclose(0)
            raise
        self._loop = asyncio.get_running_loop()
        urls = dict.fromkeys(filter(None, (self._url, self.http_url)))
        log_listening(log, "registry", urls, foreground=self._stopped is not None)

    def _new_directory(self) -> AgentDirectory:
        return AgentDirectory(name_hold_s=self._name_hold_s, max_agents=self._max_agents)

    async def release_name(self, name: str) -> bool:
        """Release a name of any owner and remove its registered agents. Returns whether the name was owned.

        Raises:
            UnavailableError: The registry is not running.
        """
        if self._service is None:
            raise UnavailableError("the registry is not running")
        return await self._service.release_name(name)

    async def _listen(self, service: RegistryService) -> None:
        descriptor = registry_service_pb2.DESCRIPTOR.services_by_name["RegistryService"]
        services = [(descriptor, RegistryServicer(service))]
        if self._settings.http is not None:
            from protolink_grpc.agent.registry_http_port import RegistryHttpPort  # slow to import

            port = RegistryHttpPort(
                self._settings.http,
                self._settings,
                service,
                services,
                lease_ttl_s=self._protolink_lease_s,
                hosted=self._hosted,
            )
            self._http = port
            await port.open()
        if self._address is None:
            self._open_without_grpc(*services)
            return
        server = GrpcServer(self._address, services, options=self._settings.grpc_options)
        address = await server.start()
        self._server = server
        # The port stays the same after a restart, because agents use it.
        self._address, self._url = address, address.url
        self._client.address = address
        await server.serve()

    def _open_without_grpc(self, service: tuple[ServiceDescriptor, object]) -> None:
        if self._url.startswith(RUNTIME_SCHEME):
            bounds = self._settings.grpc.request_bounds
            announce_registry(self._url, procedures(*service, interceptors=(), bounds=bounds))
            self._is_announced = True
        elif self.http_url:
            self._url = self.http_url
            self._client.address = WebAddress.parse(self._url)

    async def aclose(self, grace_s: float = 1.0) -> None:
        """Stop on the running event loop: end the watches, close the ports and the file."""
        was_running = self.is_running
        if was_running:
            log.info("registry is stopping")
        if self._is_announced:
            withdraw_registry(self._url)
            self._is_announced = False
        if self._server is not None:
            await self._server.drain()
        if self._http is not None:
            await self._http.drain()
        if self._service is not None:
            await self._service.aclose()
        if self._server is not None:
            await self._server.stop(grace_s)
        if self._http is not None:
            await self._http.stop(grace_s)
        self._service = self._server = self._http = self._loop = None
        if was_running:
            log.info("registry has stopped")
        stopped, self._stopped = self._stopped, None
        if stopped is not None:
            stopped.set()

    def start(self, *, background: bool = False) -> None:
        """Start in the foreground until a signal or `stop`, or in the background. Raises as `serve`."""
        if background:
            shared_loop.run(self.serve())
        else:
            self.run()

    def run(self) -> None:
        """Run in the foreground until SIGTERM, SIGINT or `stop`. Raises as `serve`.

        In the main thread, a port in use and an unusable store end the program with one line of text (SystemExit).
        """
        run_server(self._run())

    def stop(self) -> None:
        """Stop, from any other thread. A stopped registry can be started again."""
        if self._loop is not None:
            close_from_thread(self._loop, self.aclose, "registry")

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


def registry_client(
    registry: str | Registry | RegistryClient | None,
    registry_url: str | None,
    tls: TLSConfig | None,
    metadata: Sequence[tuple[str, str]],
) -> RegistryClient | None:
    """Create the registry client of an agent, or return None without a registry.

    Raises:
        InvalidArgumentError: The registry is given by its transport, without a URL.
    """
    if isinstance(registry, RegistryClient):
        return registry
    if isinstance(registry, Registry):
        return registry.client
    url = registry_url if registry is None or registry in TRANSPORTS or registry in TRANSPORT_ALIASES else registry
    if url is None:
        if registry is not None:
            raise InvalidArgumentError("name the registry's url", field="registry_url")
        return None
    return RegistryClient(url, tls=tls, metadata=metadata, outage_s=REGISTRY_OUTAGE_S)
