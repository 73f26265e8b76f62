"""Every method of the contract has an implementation in a servicer."""

import pytest
from google.protobuf.descriptor import ServiceDescriptor
from plgrpc.v1 import (
    agent_service_pb2,
    agent_service_pb2_grpc,
    control_service_pb2,
    control_service_pb2_grpc,
    registry_service_pb2,
    registry_service_pb2_grpc,
    snapshot_service_pb2,
    snapshot_service_pb2_grpc,
)

from protolink_grpc.edges.grpc.agent_servicer import AgentServicer
from protolink_grpc.edges.grpc.control_servicer import ControlServicer
from protolink_grpc.edges.grpc.registry_servicer import RegistryServicer
from protolink_grpc.edges.grpc.snapshot_servicer import SnapshotServicer

SERVICES = [
    (agent_service_pb2.DESCRIPTOR, AgentServicer, agent_service_pb2_grpc.AgentServiceServicer),
    (control_service_pb2.DESCRIPTOR, ControlServicer, control_service_pb2_grpc.ControlServiceServicer),
    (registry_service_pb2.DESCRIPTOR, RegistryServicer, registry_service_pb2_grpc.RegistryServiceServicer),
    (snapshot_service_pb2.DESCRIPTOR, SnapshotServicer, snapshot_service_pb2_grpc.SnapshotServiceServicer),
]
METHODS = [
    pytest.param(method.name, servicer, generated, id=method.full_name)
    for file, servicer, generated in SERVICES
    for service in file.services_by_name.values()
    for method in service.methods
]


@pytest.mark.parametrize(("method", "servicer", "generated"), METHODS)
def test_a_method_of_the_contract_is_ours_not_the_generated_stand_in(
    method: str, servicer: type, generated: type
) -> None:
    assert getattr(servicer, method) is not getattr(generated, method)


def test_a_servicer_offers_nothing_that_the_contract_does_not_know() -> None:
    for file, servicer, _ in SERVICES:
        (service,) = file.services_by_name.values()
        public = {name for name in vars(servicer) if not name.startswith("_")}
        assert public == {method.name for method in service.methods}


def test_each_request_and_response_belongs_to_one_method() -> None:
    """So that a method can grow without another one growing along."""
    services: list[ServiceDescriptor] = [each for file, *_ in SERVICES for each in file.services_by_name.values()]
    for service in services:
        for method in service.methods:
            assert method.input_type.name == f"{method.name}Request"
            assert method.output_type.name == f"{method.name}Response"
            assert not method.client_streaming
