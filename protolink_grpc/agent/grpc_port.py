"""The gRPC port of an agent, and the services of `plgrpc.v1` that every port serves."""

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.descriptor import ServiceDescriptor
from plgrpc.v1 import (
    agent_service_pb2,
    control_service_pb2,
    session_service_pb2,
    snapshot_service_pb2,
    task_control_service_pb2,
)

from protolink_grpc.agent.edge_settings import EdgeSettings
from protolink_grpc.agent.identity import is_wildcard, public_url
from protolink_grpc.edges.grpc.agent_servicer import AgentServicer
from protolink_grpc.edges.grpc.app import GrpcServer
from protolink_grpc.edges.grpc.control_servicer import ControlServicer
from protolink_grpc.edges.grpc.service_servicer import ServiceServicer
from protolink_grpc.edges.grpc.session_servicer import SessionServicer
from protolink_grpc.edges.grpc.snapshot_servicer import SnapshotServicer
from protolink_grpc.edges.grpc.task_control_servicer import TaskControlServicer
from protolink_grpc.edges.grpc.typed_servicer import TypedServicer
from protolink_grpc.logs import get_logger
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.net.address import Address
from protolink_grpc.runtime.actions.approvals import Approvals
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.services.definition import UserService
from protolink_grpc.state.control import StateControl
from protolink_grpc.telemetry.prometheus import PrometheusTelemetry
from protolink_grpc.tools.toolbox import Toolbox
from protolink_grpc.typed.service import TypedService
from protolink_grpc.wire.bounds import RequestBounds

log = get_logger(__name__)

Service = tuple[ServiceDescriptor, object]
"""The descriptor of a service, and its servicer."""


@dataclass(frozen=True, slots=True)
class ServedAgent:
    """What the ports of an agent serve.

    Args:
        card: The agent's; the ports write their URLs into it.
        bounds: Limits of one request.
        collectors: Further metrics, as collectors of prometheus_client.
    """

    service: TaskService
    card: AgentCard
    toolbox: Toolbox
    control: StateControl | None
    redaction: RedactionPolicy
    approvals: Approvals | None
    bounds: RequestBounds
    typed: TypedService | None = None
    user_services: Sequence[UserService] = ()
    collectors: Sequence[PrometheusTelemetry] = ()


def agent_services(served: ServedAgent) -> list[Service]:
    """Create the services of `plgrpc.v1`, the typed service and the user's own. A2A's are created in `a2a_services`."""
    card = served.card
    agent = AgentServicer(served.service, lambda: card)
    control = ControlServicer(served.toolbox, served.service, served.control, redaction=served.redaction)
    sessions = SessionServicer(served.service, lambda: card.name, served.redaction)
    services: list[Service] = [
        (agent_service_pb2.DESCRIPTOR.services_by_name["AgentService"], agent),
        (control_service_pb2.DESCRIPTOR.services_by_name["ControlService"], control),
        (session_service_pb2.DESCRIPTOR.services_by_name["SessionService"], sessions),
        (snapshot_service_pb2.DESCRIPTOR.services_by_name["SnapshotService"], SnapshotServicer(served.service)),
        (
            task_control_service_pb2.DESCRIPTOR.services_by_name["TaskControlService"],
            TaskControlServicer(served.service),
        ),
    ]
    if served.typed is not None:
        typed = TypedServicer(served.typed, served.toolbox, served.service)
        services.append((served.typed.descriptor, typed))
    own = [(each.descriptor, ServiceServicer(each, served.service, served.bounds)) for each in served.user_services]
    return [*services, *own]


async def open_grpc_port(
    served: ServedAgent, services: Sequence[Service], settings: EdgeSettings, listen_at: Address | None
) -> GrpcServer:
    """Open the port of the card's URL or `listen_at`, and write the public URL into the card. It does not answer yet.

    Raises:
        AddressInUseError: The port is taken.
        InvalidArgumentError: The certificates are not usable.
    """
    card = served.card
    public = Address.parse(card.url)
    if listen_at is None and is_wildcard(public):
        log.warning(
            "%s has the URL %s, which is not reachable from other machines; use the public host name in it, and listen=%r",
            card.name,
            card.url,
            card.url,
        )
    server = GrpcServer(listen_at or public, services, options=settings.grpc_options)
    card.url = public_url(public, await server.start())
    return server
