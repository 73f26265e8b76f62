"""A2A on the ports of an agent: its operations, and its services on the gRPC port.

It is imported only if an agent serves A2A on a port, because the official message classes take 0.2 s to import.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from a2a.types import a2a_pb2

from protolink_grpc.a2a.edge.grpc_servicer import A2AServicer
from protolink_grpc.a2a.operations import Operations
from protolink_grpc.a2a.options import A2AOptions
from protolink_grpc.a2a.values import Binding, services_extension
from protolink_grpc.agent.edge_settings import EdgeSettings
from protolink_grpc.agent.grpc_port import ServedAgent, Service, agent_services


def a2a_operations(
    served: ServedAgent, options: A2AOptions, settings: EdgeSettings, bindings: Callable[[], Sequence[Binding]]
) -> Operations:
    """Create A2A's operations for one agent. Its card lists `bindings`, and this package's services on the HTTP port."""
    if settings.http is not None:
        names = [service.full_name for service, _ in agent_services(served)]
        options = replace(options, extensions=(*options.extensions, services_extension(names)))
    card = served.card
    return Operations(
        served.service, lambda: card, bindings, options, approvals=served.approvals, access=settings.access
    )


def a2a_services(operations: Operations) -> list[Service]:
    """Create A2A's services for the gRPC port, including v0.3 unless the options turn it off."""
    found: list[Service] = [(a2a_pb2.DESCRIPTOR.services_by_name["A2AService"], A2AServicer(operations))]
    if operations.options.v03:
        from a2a.compat.v0_3 import a2a_v0_3_pb2  # imported here, so that an agent without v0.3 does not load it

        from protolink_grpc.a2a.edge.grpc_servicer_v03 import A2AV03Servicer

        service = a2a_v0_3_pb2.DESCRIPTOR.services_by_name["A2AService"]
        found.append((service, A2AV03Servicer(operations)))
    return found
