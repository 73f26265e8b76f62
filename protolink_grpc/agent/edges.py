"""Where an agent can be reached: its gRPC port, its HTTP port, both, or neither for an agent of its own process.

Each edge is a reading of the same runtime; here they are made, opened, drained and closed, in this order and back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from google.protobuf.descriptor import ServiceDescriptor
from plgrpc.v1 import agent_service_pb2, control_service_pb2

from protolink_grpc.a2a.options import A2AOptions
from protolink_grpc.a2a.values import BINDINGS, GRPC, REST, V03, V1, Binding, own_services
from protolink_grpc.agent.identity import WEB, advertised, is_everywhere
from protolink_grpc.auth.principal import Authenticate
from protolink_grpc.auth.rules import Admission, admission
from protolink_grpc.auth.schemes import MutualTLS
from protolink_grpc.client.local_agent import SCHEME
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.gateway.options import HttpOptions, Listen
from protolink_grpc.logs import get_logger
from protolink_grpc.models.card import AgentCard, AgentInterface
from protolink_grpc.policy.redaction import RedactionPolicy
from protolink_grpc.runtime.approvals import Approvals
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.server.agent_servicer import AgentServicer
from protolink_grpc.server.app import GrpcServer, ServerOptions, tracers
from protolink_grpc.server.binding import Procedure, procedures
from protolink_grpc.server.control_servicer import ControlServicer
from protolink_grpc.server.interceptors.authorization import authorization
from protolink_grpc.state.control import StateControl
from protolink_grpc.tools.toolbox import Toolbox
from protolink_grpc.wire.address import Address, is_loopback
from protolink_grpc.wire.tls import TLSConfig

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Reach:
    """How an agent wants to be reached.

    Args:
        http: The HTTP port; None where there is none.
        a2a: How it behaves as an A2A agent; None where it is none.
        access: What an identified caller may call.
        rate: Whether that caller may call now.
    """

    grpc: ServerOptions
    http: HttpOptions | None = None
    a2a: A2AOptions | None = None
    authenticator: Authenticate | None = None
    access: Admission | None = None
    rate: Admission | None = None

    def __post_init__(self) -> None:
        if self.authenticator is not None and self.grpc.authenticate is not None:
            raise InvalidArgumentError(
                "is given twice: once more as ServerOptions(authenticate=...)", field="authenticator"
            )

        if self.a2a is not None and self.a2a.extended_card is not None and self.authenticate is None:
            raise InvalidArgumentError(
                "needs an authenticator, because only authenticated callers may read the extended card",
                field="a2a.extended_card",
            )

    @property
    def admit(self) -> Admission | None:
        """What every call passes once it is known who makes it."""
        # The rate first: refusals cost, too.
        checks = [check for check in (self.rate, self.access) if check is not None]
        return admission(*checks) if checks else None

    @property
    def grpc_options(self) -> ServerOptions:
        """The gRPC server's options, with who may call."""
        options = self.grpc
        if self.authenticator is not None:
            options = replace(options, authenticate=self.authenticator)
        admit = self.admit
        if admit is not None:
            options = replace(options, interceptors=(authorization(admit), *options.interceptors))
        return options

    @property
    def authenticate(self) -> Authenticate | None:
        """Who calls, on HTTP; gRPC finds the identity of a certificate by itself where nothing else is asked for."""
        known = self.authenticator or self.grpc.authenticate
        if known is not None:
            return known
        files = (self.grpc.tls, self.http.tls if self.http is not None else None)
        return MutualTLS() if any(tls is not None and tls.require_client_cert for tls in files) else None

    def procedures(self, services: Sequence[tuple[ServiceDescriptor, object]]) -> list[Procedure]:
        """The methods of these services for an edge that has no gRPC server. Who calls is the edge's business."""
        around, bounds = [*tracers(), *self.grpc.interceptors], self.grpc.request_bounds
        return [each for pair in services for each in procedures(*pair, interceptors=around, bounds=bounds)]

    @property
    def sends_push(self) -> bool:
        return self.a2a is not None and self.a2a.push is not None

    @property
    def security_schemes(self) -> dict[str, Any]:
        """What the card says about credentials."""
        schemes = getattr(self.authenticate, "schemes", None)
        found: dict[str, Any] = schemes() if callable(schemes) else {}
        return found

    @property
    def challenges(self) -> list[str]:
        """Values of WWW-Authenticate; a hook that names no schemes reads tokens, mostly."""
        found = []
        for scheme in self.security_schemes.values():
            if scheme.get("type") == "http":
                name = str(scheme.get("scheme") or "bearer").capitalize()
                found.append('Basic realm="plgrpc"' if name == "Basic" else name)  # RFC 7617 demands a realm
            elif scheme.get("type") == "apiKey":
                found.append("ApiKey")
        return found or ["Bearer"]


@dataclass(frozen=True, slots=True)
class Served:
    """What the edges serve. `card` is the agent's own, which learns here where it is reached."""

    service: TaskService
    card: AgentCard
    toolbox: Toolbox
    control: StateControl | None
    redaction: RedactionPolicy
    approvals: Approvals | None


def reach_of(
    grpc: ServerOptions,
    http: HttpOptions | None,
    a2a: A2AOptions | bool,
    authenticator: Authenticate | None,
    *,
    access: Admission | None = None,
    rate: Admission | None = None,
) -> Reach:
    """What the arguments of `Agent` mean together."""
    options = a2a if isinstance(a2a, A2AOptions) else (A2AOptions() if a2a else None)
    return Reach(grpc, http, options, authenticator, access, rate)


def http_options(http: HttpOptions | str | int | None, url: str, tls: TLSConfig | None) -> HttpOptions | None:
    """The HTTP port that an agent wants besides its URL, or because of it.

    Raises:
        InvalidArgumentError: The URL and `http` name two ports, or one is no address.
    """
    scheme, _, rest = url.partition("://")
    if isinstance(http, int):
        http = f"127.0.0.1:{http}"
    options = HttpOptions(listen=http) if isinstance(http, str) else http
    if scheme in WEB:
        if options is not None and isinstance(http, str):
            raise InvalidArgumentError(f"the agent is at {url} already; leave one of both out", field="http")
        if options is None:
            secure = scheme in ("https", "wss")
            if secure and tls is None:
                raise InvalidArgumentError(f"{url} needs certificates", field="tls")
            options = HttpOptions(listen=rest.rstrip("/"), tls=tls if secure else None)
    if options is None:
        return None
    if options.tls is None and options.listen.startswith("https://"):
        options = replace(options, tls=tls)
    Listen.parse(options.listen, options.tls, field="http")
    return options


class Edges:
    """The open ports of one running agent."""

    def __init__(self, reach: Reach, listen_at: Address | None) -> None:
        self._reach = reach
        self._listen_at = listen_at
        self._grpc: GrpcServer | None = None
        self._grpc_target = ""
        self._gateway: Any = None
        self._operations: Any = None

    @property
    def listens(self) -> bool:
        """Whether there is any port."""
        return self._grpc is not None or self._gateway is not None

    @property
    def http_url(self) -> str:
        """Where the HTTP port is reached; empty where there is none."""
        return str(self._gateway.url) if self._gateway is not None else ""

    async def open(self, served: Served) -> None:
        """Listen, and write into the card where.

        Raises:
            AddressInUseError: A port is taken.
            InvalidArgumentError: The certificates are not usable, or the A2A card would list no interface.
            StoreError: What is to be notified cannot be read.
        """
        card, configured = served.card, served.card.url
        is_local = configured.startswith(SCHEME)
        self._check_interfaces(serves_grpc=configured.partition("://")[0] not in WEB and not is_local)
        if self._reach.a2a is not None and not (is_local and self._reach.http is None):
            # Here, not above: an agent that nobody reaches over a network needs none of it, and it takes 0.2 s.
            from protolink_grpc.a2a.operations import Operations

            options = self._reach.a2a
            if self._reach.http is not None:
                names = [service.full_name for service, _ in _services(served)]
                options = replace(options, extensions=(*options.extensions, own_services(names)))
            self._operations = Operations(
                served.service,
                lambda: card,
                self._bindings,
                options,
                approvals=served.approvals,
                access=self._reach.access,
            )
            await self._operations.start()
        if configured.partition("://")[0] not in WEB and not is_local:
            await self._open_grpc(served, configured)
        if self._reach.http is not None:
            await self._open_http(served, self._reach.http, configured)
        unguarded = self._unguarded()
        if unguarded and served.toolbox.skills():
            log.warning(
                "%s has tools and listens on %s without authentication: anyone who reaches it can use them; give the agent an "
                "authenticator, or listen on 127.0.0.1",
                card.name,
                " and ".join(unguarded),
            )

    def _unguarded(self) -> list[str]:
        """The ports that other machines reach without credentials."""
        if self._reach.authenticate is not None:
            return []
        found = []
        if self._grpc is not None and not is_loopback(self._grpc.address.host):
            found.append(self._grpc.address.url)
        if self._reach.http is not None:
            listen = Listen.parse(self._reach.http.listen, self._reach.http.tls)
            found += [] if is_loopback(listen.host) else [listen.url]
        return found

    def _check_interfaces(self, *, serves_grpc: bool) -> None:
        """Pass when the A2A card will list an interface. Raises InvalidArgumentError."""
        options, http = self._reach.a2a, self._reach.http
        if options is None or options.interfaces is None or (http is None and not serves_grpc):
            return
        if not any(serves_grpc if each == GRPC else http is not None for each in options.interfaces):
            raise InvalidArgumentError(
                f"names {', '.join(options.interfaces)}, and this agent has no port for that", field="a2a.interfaces"
            )

    async def _open_grpc(self, served: Served, configured: str) -> None:
        card = served.card
        services = [*_services(served), *self._a2a_services()]
        public = Address.parse(configured)
        if self._listen_at is None and is_everywhere(public):
            log.warning(
                "%s has the URL %s, which nobody else can call; give its card the name that others use and listen=%r",
                card.name,
                configured,
                configured,
            )
        server = GrpcServer(self._listen_at or public, services, options=self._reach.grpc_options)
        address = await server.start()
        self._grpc = server
        card.url = advertised(public, address)
        self._grpc_target = card.url.partition("://")[2]
        await server.serve()

    def _a2a_services(self) -> list[tuple[ServiceDescriptor, object]]:
        if self._operations is None:
            return []
        from a2a.types import a2a_pb2  # here: see `open`

        from protolink_grpc.server.a2a_servicer import A2AServicer

        found: list[tuple[ServiceDescriptor, object]] = [
            (_service(a2a_pb2, "A2AService"), A2AServicer(self._operations))
        ]
        if self._operations.options.v03:
            from a2a.compat.v0_3 import a2a_v0_3_pb2

            from protolink_grpc.server.a2a_v03_servicer import A2AV03Servicer

            found.append((_service(a2a_v0_3_pb2, "A2AService"), A2AV03Servicer(self._operations)))
        return found

    async def _open_http(self, served: Served, options: HttpOptions, configured: str) -> None:
        # Here: starlette and uvicorn take as long to import as everything else.
        from protolink_grpc.gateway.agent_app import a2a_routes, protolink_routes
        from protolink_grpc.gateway.app import Gateway
        from protolink_grpc.gateway.door import Door
        from protolink_grpc.gateway.grpc_web import grpc_web_routes

        card, reach, service = served.card, self._reach, served.service
        if options.tls is None and reach.grpc.tls is not None and reach.grpc.tls.certfile is not None:
            log.warning(
                "%s has certificates, and its HTTP port is in the clear: say https://%s", card.name, options.listen
            )
        door = Door(reach.authenticate, reach.admit, options.bounds)
        gateway = Gateway(
            options,
            door,
            about=lambda: {"name": card.name, "transport": card.transport, "url": self.http_url},
            obstacle=lambda: "" if service.is_accepting else "stopping",
            challenges=reach.challenges,
        )
        gateway.metrics.gauge(
            "active_tasks", "Tasks that run or wait for a slot.", lambda: len(service.active_task_ids)
        )
        public = reach.a2a is None or reach.a2a.public_card
        routes = a2a_routes(gateway, self._operations) if self._operations is not None else []
        # ProtoLink's paths first: `/tasks/stream` is no task of A2A's.
        own = protolink_routes(gateway, service, lambda: card, served.control, public=public)
        methods = reach.procedures(_services(served))
        self._gateway = gateway
        try:
            url = await gateway.start([*own, *grpc_web_routes(gateway.door, gateway.streams, methods), *routes])
        except BaseException:
            self._gateway = None
            raise
        if configured.partition("://")[0] in WEB:
            card.url = taken_url(configured, url)
        elif all(each.url != url for each in card.interfaces):
            card.interfaces.append(AgentInterface(url, "http"))

    def _bindings(self) -> Sequence[Binding]:
        """What the A2A card says: v1.0 first, for readers that take the first of a kind."""
        options = self._reach.a2a
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
        """Say that the agent goes down; what is under way goes on."""
        if self._grpc is not None:
            await self._grpc.drain()
        if self._gateway is not None:
            await self._gateway.begin_drain()

    async def close(self, grace_s: float) -> None:
        """Close the ports. After the service's stop: what is left are watches, which get their last events."""
        operations, self._operations = self._operations, None
        grpc, self._grpc = self._grpc, None
        gateway, self._gateway = self._gateway, None
        if operations is not None:
            await operations.stop(grace_s)
        if gateway is not None:
            await gateway.stop(grace_s)
        if grpc is not None:
            await grpc.stop(grace_s)


def _services(served: Served) -> list[tuple[ServiceDescriptor, object]]:
    """Our own services; A2A's have other ways over HTTP."""
    card = served.card
    return [
        (_service(agent_service_pb2, "AgentService"), AgentServicer(served.service, lambda: card)),
        (
            _service(control_service_pb2, "ControlService"),
            ControlServicer(served.toolbox, served.service, served.control, redaction=served.redaction),
        ),
    ]


def _service(module: Any, name: str) -> ServiceDescriptor:
    found: ServiceDescriptor = module.DESCRIPTOR.services_by_name[name]
    return found


def taken_url(configured: str, url: str) -> str:
    """The URL with the port that was taken in place of 0; its scheme and host stay."""
    scheme = configured.partition("://")[0]
    given = urlsplit(configured)
    if given.port:
        return configured
    host = f"[{given.hostname}]" if ":" in (given.hostname or "") else given.hostname
    return f"{scheme}://{host}:{url.rpartition(':')[2]}"
