"""Opens and closes the ports of an agent: a gRPC port, an HTTP port, both, or none.

All ports use the same runtime. They are opened, drained and closed here; each is implemented in its own file.
"""

from collections.abc import Sequence
from typing import Protocol
from urllib.parse import urlsplit

from protolink_grpc.a2a.values import BINDINGS, GRPC, REST, V03, V1, Binding
from protolink_grpc.agent.edge_settings import EdgeSettings
from protolink_grpc.agent.grpc_port import ServedAgent, agent_services, open_grpc_port
from protolink_grpc.agent.identity import WEB
from protolink_grpc.edges.grpc.app import GrpcServer
from protolink_grpc.edges.http.hosted_app import HostedApp
from protolink_grpc.edges.http.options import Listen
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.card import AgentInterface
from protolink_grpc.net.address import RUNTIME_SCHEME, Address, is_loopback

log = get_logger(__name__)


class Stoppable(Protocol):
    """Anything that an agent must stop: A2A operations or a port."""

    async def stop(self, grace_s: float) -> None: ...


class WebPort(Stoppable, Protocol):
    """An HTTP port. Its class is imported only if it is needed; agents and registries have different ones."""

    @property
    def url(self) -> str: ...
    async def drain(self) -> None: ...


class AgentPorts:
    """The open ports of one running agent."""

    def __init__(self, settings: EdgeSettings, listen_at: Address | None, hosted: HostedApp | None) -> None:
        self._settings = settings
        self._hosted = hosted
        self._listen_at = listen_at
        self._grpc: GrpcServer | None = None
        self._grpc_target = ""
        self._http: WebPort | None = None
        self._operations: Stoppable | None = None

    @property
    def listens(self) -> bool:
        """Whether the agent has a port."""
        return self._grpc is not None or self._http is not None

    @property
    def http_url(self) -> str:
        """The public URL of the HTTP port, or empty."""
        return self._http.url if self._http is not None else ""

    async def open(self, served: ServedAgent) -> None:
        """Open the ports and write their URLs into the card.

        Raises:
            AddressInUseError: A port is taken.
            InvalidArgumentError: The certificates are not usable, or the A2A card would list no interface.
            StoreError: The webhooks cannot be read.
        """
        settings, card = self._settings, served.card
        configured, scheme = card.url, card.url.partition("://")[0]
        is_local = configured.startswith(RUNTIME_SCHEME)
        serves_grpc = scheme not in WEB and not is_local
        self._check_interfaces(serves_grpc=serves_grpc)
        operations, services = None, agent_services(served)
        if settings.a2a is not None and (serves_grpc or settings.http is not None):
            from protolink_grpc.agent.a2a_services import a2a_operations, a2a_services  # slow to import

            operations = a2a_operations(served, settings.a2a, settings, self._bindings)
            self._operations = operations
            await operations.start()
            services += a2a_services(operations) if serves_grpc else []
        if serves_grpc:
            server = await open_grpc_port(served, services, settings, self._listen_at)
            self._grpc, self._grpc_target = server, card.url.partition("://")[2]
            await server.serve()
        if settings.http is not None:
            from protolink_grpc.agent.http_port import HttpPort  # slow to import

            tls = settings.grpc.tls
            if self._hosted is None and settings.http.tls is None and tls is not None and tls.certfile is not None:
                log.warning(
                    "%s has certificates, but its HTTP port does not use TLS: set the URL https://%s",
                    card.name,
                    settings.http.listen,
                )
            port = self._http = HttpPort(settings.http, settings, served, operations, self._hosted)
            try:
                url = await port.open()
            except BaseException:
                self._http = None
                raise
            if scheme in WEB:
                card.url = actual_url(configured, url)
            elif all(each.url != url for each in card.interfaces):
                card.interfaces.append(AgentInterface(url, "http"))
        ports = self._unauthenticated_ports()
        if ports and served.toolbox.skills():
            log.warning(
                "%s has tools and listens on %s without authentication, so every caller can use them; give the agent an "
                "authenticator, or listen on 127.0.0.1",
                card.name,
                " and ".join(ports),
            )

    def _unauthenticated_ports(self) -> list[str]:
        """Return the ports that other machines can reach without credentials."""
        if self._settings.authenticate is not None:
            return []
        found = []
        if self._grpc is not None and not is_loopback(self._grpc.address.host):
            found.append(self._grpc.address.url)
        if self._settings.http is not None and self._hosted is None:
            listen = Listen.parse(self._settings.http.listen, self._settings.http.tls)
            found += [] if is_loopback(listen.host) else [listen.url]
        return found

    def _check_interfaces(self, *, serves_grpc: bool) -> None:
        """Check that the A2A card lists an interface. Raises InvalidArgumentError."""
        options, http = self._settings.a2a, self._settings.http
        if options is None or options.interfaces is None or (http is None and not serves_grpc):
            return
        if not any(serves_grpc if each == GRPC else http is not None for each in options.interfaces):
            raise InvalidArgumentError(
                f"lists {', '.join(options.interfaces)}, but this agent has no port for it", field="a2a.interfaces"
            )

    def _bindings(self) -> Sequence[Binding]:
        """Return the interfaces of the A2A card: v1.0 first, for clients that use the first one of a kind."""
        options = self._settings.a2a
        if options is None:
            return []
        base, found = self.http_url, list[Binding]()
        for version in (V1, V03) if options.v03 else (V1,):
            for binding in options.interfaces or BINDINGS:
                if binding == GRPC and self._grpc is not None:
                    found.append(Binding(self._grpc_target, GRPC, version))
                elif binding != GRPC and base:
                    found.append(Binding(base if (binding, version) == (REST, V1) else f"{base}/", binding, version))
        return found

    async def drain(self) -> None:
        """Report on all ports that the agent is stopping. Running calls continue."""
        if self._grpc is not None:
            await self._grpc.drain()
        if self._http is not None:
            await self._http.drain()

    async def close(self, grace_s: float) -> None:
        """Close the ports, after the service has stopped: the remaining watches receive their last events."""
        opened = (self._operations, self._http, self._grpc)
        self._operations = self._http = self._grpc = None
        for each in opened:
            if each is not None:
                await each.stop(grace_s)


def actual_url(configured: str, url: str) -> str:
    """Return the configured URL with the actual port instead of 0."""
    scheme = configured.partition("://")[0]
    parts = urlsplit(configured)
    if parts.port:
        return configured
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{scheme}://{host}:{url.rpartition(':')[2]}"
