"""The registry over gRPC: registrations, renewals and lists."""

from google.protobuf.duration_pb2 import Duration
from plgrpc.v1 import registry_service_pb2 as pb

from bench.load import Call, channel_to, closed_loop, measure_load, one_by_one, unary
from bench.local import agent_card, directory
from bench.plan import Plan, print_progress
from bench.process import Server, servers
from bench.rows import Row, Sample, row_of
from protolink_grpc.wire.cards import card_to_pb

AGENTS = 10_000
IN_FLIGHT = 16


async def registry(plan: Plan) -> list[Row]:
    agents = plan.amount(AGENTS, 1_000)
    async with servers("registry") as (server,), channel_to(server) as channel:
        print_progress(f"registry: {agents} agents over gRPC")

        def method(name: str) -> Call:
            return unary(channel, name, "RegistryService")

        samples = [await _register_all(server, method("RegisterAgent"), agents)]
        rows = [row_of("registry.register", "registrations", samples)]
        register = pb.RegisterAgentRequest.FromString(_registration(0, agents))
        lease_id = pb.RegisterAgentResponse.FromString(
            await method("RegisterAgent")(register.SerializeToString())
        ).lease_id
        renewal = pb.RenewLeaseRequest(lease_id=lease_id).SerializeToString()
        listing = pb.ListAgentsRequest(filter=pb.AgentFilter(tags=["rare"])).SerializeToString()
        rows.append(await _measure_loop(plan, server, method("RenewLease"), renewal, "registry.renew", "renewals"))
        rows.append(await _measure_loop(plan, server, method("ListAgents"), listing, "registry.list.grpc", "lists"))
    for row in rows:
        row.in_flight = IN_FLIGHT
        row.note = f"{agents} agents"
    return rows + await directory(plan)


def _registration(number: int, agents: int) -> bytes:
    request = pb.RegisterAgentRequest(card=card_to_pb(agent_card(number, agents)), lease_ttl=Duration(seconds=300))
    return request.SerializeToString()


async def _register_all(server: Server, register: Call, agents: int) -> Sample:
    requests = [_registration(number, agents) for number in range(agents)]
    return await measure_load(server, lambda: one_by_one(register, requests, IN_FLIGHT))


async def _measure_loop(plan: Plan, server: Server, call: Call, request: bytes, case: str, unit: str) -> Row:
    samples = [
        await measure_load(server, lambda: closed_loop(call, request, IN_FLIGHT, plan.seconds / 2))
        for _ in range(plan.rounds)
    ]
    return row_of(case, unit, samples)
