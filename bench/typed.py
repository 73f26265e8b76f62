"""Typed services: one call of a tool through its typed method, and through SendTask, in turns with the bare floor.

A user's service adds in the same rounds: as a task, directly, and on a bare server of grpcio.

PydanticRPC serves the same method in the same rounds. It validates the request with pydantic, as a tool does, but neither records,
guards nor repeats a call.
"""

from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import part_pb2, payload_pb2, task_input_pb2, task_pb2

from bench.load import Call, channel_to, closed_loop, measure_load, message, unary
from bench.peers import peer
from bench.plan import Plan, print_progress
from bench.process import Server, servers
from bench.rows import Row, Sample, row_of

IN_FLIGHT = 16

PEER = "pydantic-rpc"

ADD_REQUEST = b"\x08\x01\x10\x02"
"""`AddRequest(a=1, b=2)`."""

ADD_RESPONSE = b"\x08\x03"
"""`AddResponse(result=3)`."""


def tool_task() -> bytes:
    """Return a SendTask request that calls the same tool."""
    arguments = payload_pb2.Payload(json='{"a":1,"b":2}')
    call = part_pb2.Part(tool_call=part_pb2.ToolCall(tool_name="add", arguments=arguments))
    sent = task_pb2.Message(role=task_pb2.MESSAGE_ROLE_USER, parts=[call])
    return pb.SendTaskRequest(input=task_input_pb2.TaskInput(messages=[sent])).SerializeToString()


async def typed(plan: Plan) -> list[Row]:
    """One call of a tool of two integers, and of methods of a user's service, memory store."""
    print_progress(f"typed: a tool, {IN_FLIGHT} in flight")
    kinds = ("floor", "tool-memory", "bare-adder")
    async with servers(*kinds) as (floor, tool, adder), peer(PEER) as other, AsyncExitStack() as stack:
        channel = await stack.enter_async_context(channel_to(tool))
        method: Any = channel.unary_unary("/bench.v1.Adder/Add")
        if await method(ADD_REQUEST) != ADD_RESPONSE:
            raise RuntimeError("the typed method does not add")
        bare = unary(await stack.enter_async_context(channel_to(floor)), "SendTask")
        lanes: dict[str, tuple[Server, Call, bytes]] = {
            "typed.floor": (floor, bare, message("x" * 100)),
            "typed.call": (tool, method, ADD_REQUEST),
            "typed.send": (tool, unary(channel, "SendTask"), tool_task()),
        }
        plain: Any = channel.unary_unary("/bench.plain.v1.Adder/AddDirect")
        bare_adder: Any = (await stack.enter_async_context(channel_to(adder))).unary_unary(
            "/bench.plain.v1.Adder/AddDirect"
        )
        method_of_servicer: Any = channel.unary_unary("/bench.plain.v1.Adder/Add")
        lanes |= {
            "typed.method": (tool, method_of_servicer, ADD_REQUEST),
            "typed.direct": (tool, plain, ADD_REQUEST),
            "typed.bare": (adder, bare_adder, ADD_REQUEST),
        }
        if other is not None:
            peers_method: Any = (await stack.enter_async_context(channel_to(other))).unary_unary("/adder.v1.Adder/Add")
            if await peers_method(ADD_REQUEST) != ADD_RESPONSE:
                raise RuntimeError(f"the method of {PEER} does not add")
            lanes[f"typed.{PEER}"] = (other, peers_method, ADD_REQUEST)
        for _, call, request in lanes.values():
            await closed_loop(call, request, IN_FLIGHT, min(0.3, plan.seconds))
        samples: dict[str, list[Sample]] = {case: [] for case in lanes}
        for _ in range(plan.rounds):
            for case, (server, call, request) in lanes.items():
                samples[case].append(
                    await measure_load(server, partial(closed_loop, call, request, IN_FLIGHT, plan.seconds / 2))
                )
    rows = {case: row_of(case, "requests", mine, samples["typed.floor"]) for case, mine in samples.items()}
    for row in rows.values():
        row.in_flight = IN_FLIGHT
    for case, other_case, most, what in (
        ("typed.call", "typed.send", 0.8, "SendTask with the same tool"),
        ("typed.direct", "typed.bare", 1.15, "the same servicer on a bare server"),
    ):
        share = row_of(case, "requests", samples[case], samples[other_case]).cpu_ratio_to_floor
        rows[case].add_bar(f"<= {most} of the CPU of {what}", share, at_most=most)
        rows[case].note = "" if share is None else f"{share:.2f} of the CPU of {what}"
    return list(rows.values())
