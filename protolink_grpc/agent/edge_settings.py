"""Resolves the serving settings of an agent or a registry."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor

from protolink_grpc.a2a.options import A2AOptions
from protolink_grpc.agent.config import ServingConfig
from protolink_grpc.agent.identity import WEB
from protolink_grpc.auth.principal import Authenticate
from protolink_grpc.auth.rules import Admission, admission
from protolink_grpc.auth.schemes import MutualTLS
from protolink_grpc.edges.grpc.app import ServerOptions, tracers
from protolink_grpc.edges.grpc.binding import Procedure, procedures
from protolink_grpc.edges.grpc.interceptors.authorization import authorization
from protolink_grpc.edges.http.options import HttpOptions, Listen
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.net.tls import TLSConfig


@dataclass(frozen=True, slots=True)
class EdgeSettings:
    """The settings of the edges of an agent or a registry: ServingConfig, resolved for one URL.

    Args:
        http: Options of the HTTP port, or None.
        a2a: Options of A2A, or None.
        access: Checks whether a caller may call a method.
        rate: Checks the caller's rate limit.
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
        """Check an authenticated call: rate limit and access."""
        # The rate limit first, because refused calls count too.
        checks = [check for check in (self.rate, self.access) if check is not None]
        return admission(*checks) if checks else None

    @property
    def grpc_options(self) -> ServerOptions:
        """The options of the gRPC server, with authentication and access."""
        options = self.grpc
        if self.authenticator is not None:
            options = replace(options, authenticate=self.authenticator)
        admit = self.admit
        if admit is not None:
            options = replace(options, interceptors=(authorization(admit), *options.interceptors))
        return options

    @property
    def authenticate(self) -> Authenticate | None:
        """The authenticator for HTTP.

        The gRPC server reads the name in a client certificate itself if there is no authenticator.
        """
        authenticator = self.authenticator or self.grpc.authenticate
        if authenticator is not None:
            return authenticator
        files = (self.grpc.tls, self.http.tls if self.http is not None else None)
        return MutualTLS() if any(tls is not None and tls.require_client_cert for tls in files) else None

    def procedures(self, services: Sequence[tuple[ServiceDescriptor, object]]) -> list[Procedure]:
        """Return the methods of these services for an edge without a gRPC server, which authenticates callers itself."""
        around, bounds = [*tracers(), *self.grpc.interceptors], self.grpc.request_bounds
        return [each for pair in services for each in procedures(*pair, interceptors=around, bounds=bounds)]

    @property
    def sends_push(self) -> bool:
        return self.a2a is not None and self.a2a.push is not None

    @property
    def security_schemes(self) -> dict[str, Any]:
        """The security schemes of the card."""
        schemes = getattr(self.authenticate, "schemes", None)
        found: dict[str, Any] = schemes() if callable(schemes) else {}
        return found

    @property
    def challenges(self) -> list[str]:
        """The values of WWW-Authenticate; Bearer for an authenticator without schemes."""
        found = []
        for scheme in self.security_schemes.values():
            if scheme.get("type") == "http":
                name = str(scheme.get("scheme") or "bearer").capitalize()
                found.append('Basic realm="plgrpc"' if name == "Basic" else name)  # RFC 7617 requires a realm
            elif scheme.get("type") == "apiKey":
                found.append("ApiKey")
        return found or ["Bearer"]


def edge_settings(serving: ServingConfig, url: str) -> EdgeSettings:
    """Resolve the settings for a server at that URL.

    Raises:
        InvalidArgumentError: They contradict each other or the URL.
    """
    options = serving.server or ServerOptions()
    a2a = serving.a2a
    return EdgeSettings(
        replace(options, tls=options.tls or serving.tls),
        http_options(serving.http, url, serving.tls),
        a2a if isinstance(a2a, A2AOptions) else (A2AOptions() if a2a else None),
        serving.authenticator,
        serving.access,
        serving.rate_limit,
    )


def check_hosted_url(http: HttpOptions | None) -> None:
    """Check that the settings contain the public URL of an application in another server. Raises InvalidArgumentError."""
    if http is None or (not http.public_url and Listen.parse(http.listen, http.tls).port == 0):
        raise InvalidArgumentError(
            "must be the public URL of the application, such as 'https://host.example/agent'", field="http.public_url"
        )


def http_options(http: HttpOptions | str | int | None, url: str, tls: TLSConfig | None) -> HttpOptions | None:
    """Return the options of the HTTP port, from `http` or from an `http(s)://` URL of the agent.

    Raises:
        InvalidArgumentError: The URL and `http` have different ports, or an address or the registry of metrics is invalid.
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
    if options.metrics_registry is not None and not hasattr(options.metrics_registry, "collect"):
        raise InvalidArgumentError("must be a CollectorRegistry of prometheus_client", field="http.metrics_registry")
    return options
