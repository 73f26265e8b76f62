"""The gRPC server: its services, interceptors and port, its start and stop."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import grpc
import grpc.aio
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from protolink_grpc.auth.principal import Authenticate
from protolink_grpc.auth.stream_quota import StreamQuota
from protolink_grpc.edges.grpc.binding import bind
from protolink_grpc.edges.grpc.interceptors import Interceptor
from protolink_grpc.edges.grpc.interceptors.authentication import authentication, certificate_identity
from protolink_grpc.edges.grpc.interceptors.deadline import deadline
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.json_value import MAX_COMPLEXITY
from protolink_grpc.net.address import Address, find_listen_error, listen_error
from protolink_grpc.net.tls import TLSConfig
from protolink_grpc.net.tracing import is_tracing
from protolink_grpc.wire.bounds import RequestBounds

MAX_REQUEST_BYTES = (4 << 20) - (64 << 10)
"""Default limit of a request in bytes: its event, with the envelope, stays below gRPC's default of 4 MiB."""

MAX_METADATA_BYTES = 32 << 10
"""Limit of the metadata of one call."""

PROVIDER_VARIABLE = "OTEL_PYTHON_TRACER_PROVIDER"
"""Environment variable that names a tracer provider. Source: opentelemetry-api."""

MAX_PENDING_RPCS = 10_000
"""Maximum number of calls that wait for the event loop, for many clients that reconnect at once."""


WAITING = frozenset(
    {
        "/plgrpc.v1.AgentService/SendTask",
        "/lf.a2a.v1.A2AService/SendMessage",
        "/a2a.v1.A2AService/SendMessage",
    }
)
"""Unary methods that wait for a task."""


@checks_arguments
@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of the gRPC server.

    Args:
        tls: Certificates; None means unencrypted.
        authenticate: The authenticator; None means the name in the client certificate, or anonymous.
        max_request_bytes: Larger requests are refused.
        max_complexity: Requests above it are refused before they are parsed. Each field counts 1, nested ones included, an entry of
            a map 10; in JSON texts each object and array counts 10, each key 4, each further value 1.
        max_concurrent_rpcs: Maximum number of concurrent calls, including watches; None means no limit.
        max_concurrent_streams: Maximum number of concurrent calls of one connection, including watches. Clients know the limit
            and queue further calls; the transport refuses others. None means no limit.
        max_streams_per_principal: Maximum number of open streams of one principal; all anonymous callers are one. Further ones are
            RESOURCE_EXHAUSTED. None means no limit. Health and reflection are not counted.
        max_wait_s: How long a unary call may wait for its task, in seconds; None means until the client disconnects.
        keepalive_s: Seconds after which an idle connection is pinged, so that a vanished peer is detected.
        interceptors: Called for every call after authentication, outermost first; also for this package's services over gRPC-Web
            and Connect, where a call has no `context`. They are not called for health and reflection.
    """

    tls: TLSConfig | None = None
    authenticate: Authenticate | None = None
    max_request_bytes: int = MAX_REQUEST_BYTES
    max_complexity: int = MAX_COMPLEXITY
    max_concurrent_rpcs: int | None = None
    max_concurrent_streams: int | None = 1000
    max_streams_per_principal: int | None = 1000
    max_wait_s: float | None = None
    keepalive_s: float = 30.0
    interceptors: tuple[Interceptor, ...] = ()

    @property
    def request_bounds(self) -> RequestBounds:
        """The limits of one request."""
        return RequestBounds(self.max_request_bytes, self.max_complexity)


def tracers() -> list[Interceptor]:
    """Return the interceptor that joins calls to their callers' traces, or an empty list if the process has no tracing."""
    if PROVIDER_VARIABLE in os.environ:
        import_module("opentelemetry.trace")  # it creates the provider; a program that sets its own has imported it
    if not is_tracing():
        return []
    # Imported here, so that an agent without tracing does not load OpenTelemetry.
    from opentelemetry import trace

    from protolink_grpc.edges.grpc.interceptors.telemetry import telemetry

    return [telemetry(trace.get_tracer("protolink_grpc"))]


class JoinedPools:
    """The descriptors of several pools, for reflection: typed services have pools of their own."""

    def __init__(self, pools: Iterable[DescriptorPool]) -> None:
        self._pools = list({id(pool): pool for pool in (descriptor_pool.Default(), *pools)}.values())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a look-up (`FindFileByName`, ...) that asks one pool after the other. It raises KeyError like that of a pool."""

        def find(*arguments: Any) -> Any:
            for pool in self._pools[:-1]:
                with suppress(KeyError):
                    return getattr(pool, name)(*arguments)
            return getattr(self._pools[-1], name)(*arguments)

        return find


class _GenericHandlers:
    """Registers a generated service with a server as a generic handler only.

    Generated code registers each method a second time, by name. For each registered method grpcio keeps one pending future, and
    every call of the server waits on all of them: five such methods (health, reflection) cost each call several microseconds.
    """

    def __init__(self, server: grpc.aio.Server) -> None:
        self.add_generic_rpc_handlers = server.add_generic_rpc_handlers

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Ignored: the generic handler of the service answers the same methods."""


class GrpcServer:
    """A server of several servicers on one port, with health and reflection. It can be started again after a stop."""

    def __init__(
        self,
        address: Address,
        services: Sequence[tuple[ServiceDescriptor, object]],
        *,
        options: ServerOptions | None = None,
    ) -> None:
        self.address = address
        self._services = services
        self._options = options or ServerOptions()
        self._server: grpc.aio.Server | None = None
        self._health: Any = None

    def _interceptors(self) -> list[Interceptor]:
        """Return the interceptors, outermost first. The status boundary (`binding`) surrounds all of them.

        They are not called for health and reflection, because probes have no credentials.
        """
        options = self._options
        chain = tracers()
        if options.max_wait_s is not None:
            none: frozenset[str] = frozenset()
            waiting = [getattr(servicer, "waiting_methods", none) for _, servicer in self._services]
            chain.append(deadline(options.max_wait_s, WAITING.union(*waiting)))
        if options.authenticate is not None:
            chain.append(authentication(options.authenticate))
        elif options.tls is not None and options.tls.require_client_cert:
            chain.append(certificate_identity)
        return [*chain, *options.interceptors]

    async def start(self) -> Address:
        """Listen. Returns the address with the actual port.

        Raises:
            AddressInUseError: The port is in use, or not permitted.
            InvalidArgumentError: The certificates are invalid, or client certificates are required without TLS.
        """
        tls = self._options.tls or TLSConfig()
        if tls.require_client_cert and not self.address.secure:
            raise InvalidArgumentError(
                f"client certificates can only be required on grpcs://, not at {self.address.url}", field="url"
            )
        server = self._build()
        try:
            if self.address.secure:
                port = server.add_secure_port(self.address.target, tls.server_credentials())
            else:
                port = server.add_insecure_port(self.address.target)
        except RuntimeError:
            at = self.address
            raise listen_error(at.url, at.host, at.port, find_listen_error(at.host, at.port)) from None
        await server.start()
        self._server = server
        self.address = Address(self.address.host, port, self.address.secure)
        return self.address

    def _build(self) -> grpc.aio.Server:
        options = self._options
        keepalive_ms = int(options.keepalive_s * 1000)
        pong_ms = min(keepalive_ms, 20_000)
        streams = options.max_concurrent_streams
        server = grpc.aio.server(
            options=[
                *([("grpc.max_concurrent_streams", streams)] if streams is not None else ()),
                # With SO_REUSEPORT, two servers would share the calls of a port at random. A port in use must be an error.
                ("grpc.so_reuseport", 0),
                # The limit of `binding` applies first, with a reason; this one only limits memory.
                ("grpc.max_receive_message_length", max(4 * options.max_request_bytes, 4 << 20)),
                ("grpc.max_send_message_length", -1),
                # The context of a run is part of the metadata of typed calls, and gRPC's default is 8 KiB.
                ("grpc.max_metadata_size", MAX_METADATA_BYTES),
                ("grpc.absolute_max_metadata_size", 2 * MAX_METADATA_BYTES),
                # Beyond this number of waiting calls, gRPC cancels calls without a reason; its default is 1,000.
                ("grpc.server.max_pending_requests", MAX_PENDING_RPCS),
                ("grpc.server.max_pending_requests_hard_limit", 2 * MAX_PENDING_RPCS),
                ("grpc.keepalive_time_ms", keepalive_ms),
                ("grpc.keepalive_timeout_ms", pong_ms),
                # Without this, gRPC waits a minute for the answer to a ping, regardless of the keepalive timeout.
                ("grpc.http2.ping_timeout_ms", pong_ms),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.max_pings_without_data", 0),
                ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
            ],
            maximum_concurrent_rpcs=options.max_concurrent_rpcs,
        )
        interceptors = self._interceptors()
        bounds, quota = options.request_bounds, StreamQuota(options.max_streams_per_principal)
        for descriptor, servicer in self._services:
            handler = bind(descriptor, servicer, interceptors=interceptors, bounds=bounds, quota=quota)
            server.add_generic_rpc_handlers((handler,))
        self._add_health(server)
        return server

    def _add_health(self, server: grpc.aio.Server) -> None:
        self._health = health.aio.HealthServicer()
        names = [descriptor.full_name for descriptor, _ in self._services]
        names += [health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME]
        generic = _GenericHandlers(server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, generic)
        pool = JoinedPools([descriptor.file.pool for descriptor, _ in self._services])
        servicer = reflection.aio.ReflectionServicer(names, pool=pool)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, generic)

    async def serve(self) -> None:
        """Report SERVING. Called when the services are ready."""
        for name in ("", *(descriptor.full_name for descriptor, _ in self._services)):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def drain(self) -> None:
        """Report NOT_SERVING, so that load balancers use other servers. Running calls continue."""
        if self._health is not None:
            await self._health.enter_graceful_shutdown()

    async def stop(self, grace_s: float = 5.0) -> None:
        """Refuse new calls, wait up to `grace_s` seconds for running ones, then cancel the rest."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace_s)

    async def wait(self) -> None:
        """Return when the server has stopped."""
        if self._server is not None:
            await self._server.wait_for_termination()

    @property
    def is_running(self) -> bool:
        return self._server is not None
