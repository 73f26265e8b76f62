"""RegistryService over gRPC: converts requests, calls the registry's service, converts results."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from plgrpc.v1 import registry_service_pb2 as pb
from plgrpc.v1 import registry_service_pb2_grpc

from protolink_grpc.auth.principal import Principal
from protolink_grpc.edges.grpc.call import Context, caller, caller_scopes
from protolink_grpc.edges.grpc.convert import require_id
from protolink_grpc.registry.service import Registrant, RegistryService
from protolink_grpc.wire.cards import card_from_pb
from protolink_grpc.wire.registry import (
    AGENT_CHANGE,
    FILTER,
    INSTANCE_STATUS,
    REGISTERED_AGENT,
    lease_ttl_from_pb,
    target_from_pb,
)
from protolink_grpc.wire.scalars import duration_to_pb
from protolink_grpc.wire.tasks import check_id
from protolink_grpc.wire.watch import POSITION


class RegistryServicer(registry_service_pb2_grpc.RegistryServiceServicer):
    """RegistryService of one registry."""

    def __init__(self, service: RegistryService) -> None:
        self._service = service

    def _registrant(self) -> Registrant:
        return self._service.registrant(Principal(caller(), caller_scopes()))

    async def RegisterAgent(self, request: pb.RegisterAgentRequest, context: Context) -> pb.RegisterAgentResponse:
        who = self._registrant()
        granted = await self._service.register(
            card_from_pb(request.card),
            principal=who.owner,
            is_admin=who.is_admin,
            lease_ttl_s=lease_ttl_from_pb(request.lease_ttl),
            lease_id=request.lease_id,
            instance_id=check_id(request.instance_id, "instance_id"),
        )
        return pb.RegisterAgentResponse(
            lease_id=granted.lease_id, lease_ttl=duration_to_pb(granted.lease_ttl_s), revision=granted.revision
        )

    async def RenewLease(self, request: pb.RenewLeaseRequest, context: Context) -> pb.RenewLeaseResponse:
        who = self._registrant()
        lease_id, status = require_id(request.lease_id, "lease_id"), INSTANCE_STATUS.from_pb(request)
        ttl_s = await self._service.renew(lease_id, principal=who.owner, status=status)
        return pb.RenewLeaseResponse(lease_ttl=duration_to_pb(ttl_s))

    async def DeregisterAgent(self, request: pb.DeregisterAgentRequest, context: Context) -> pb.DeregisterAgentResponse:
        who, lease_id = self._registrant(), require_id(request.lease_id, "lease_id")
        removed = await self._service.deregister(lease_id, principal=who.owner, is_admin=who.is_admin)
        return pb.DeregisterAgentResponse(removed=removed)

    async def GetAgent(self, request: pb.GetAgentRequest, context: Context) -> pb.GetAgentResponse:
        agent = await self._service.get(target_from_pb(request))
        return pb.GetAgentResponse(agent=REGISTERED_AGENT.to_pb(agent))

    async def ListAgents(self, request: pb.ListAgentsRequest, context: Context) -> pb.ListAgentsResponse:
        page = await self._service.list(FILTER.from_pb(request.filter), request.page_size, request.page_token)
        return pb.ListAgentsResponse(
            agents=[REGISTERED_AGENT.to_pb(agent) for agent in page.agents],
            next_page_token=page.next_page_token,
            revision=page.revision,
        )

    async def WatchAgents(
        self, request: pb.WatchAgentsRequest, context: Context
    ) -> AsyncIterator[pb.WatchAgentsResponse]:
        watch = self._service.watch(FILTER.from_pb(request.filter), request.after_revision)
        async with aclosing(watch) as batches:
            async for batch in batches:
                yield pb.WatchAgentsResponse(
                    changes=[AGENT_CHANGE.to_pb(change) for change in batch.changes],
                    position=POSITION.to_pb(batch.position),
                )
