"""Stubs over the channels of the clients are typed: mypy knows arguments and results of their methods."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from protolink_grpc.cli.gen_app import Lang
from protolink_grpc.cli.gen_command import write_stubs

ROOT = Path(__file__).parents[2]

PROTO = """\
syntax = "proto3";
package acme.orders.v1;
import "google/protobuf/empty.proto";

// Orders "things" \\\\ and more.
//
// In two paragraphs.
service Orders {
  // Place an order.
  rpc Place(Order.Line) returns (Order);
  rpc Watch(google.protobuf.Empty) returns (stream Order);
  rpc Send(stream Order) returns (Order);
  rpc Chat(stream Order) returns (stream Order);
}

message Order {
  message Line {
    string item = 1;
  }
  int64 number = 1;
}
"""

USES = """\
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
from acme.orders.v1 import orders_pb2 as pb
from acme.orders.v1 import orders_pb2_grpc
from google.protobuf.empty_pb2 import Empty
from plgrpc.v1 import agent_service_pb2, agent_service_pb2_grpc

from protolink_grpc import Agent, AgentClient, Task, create_llm

client = AgentClient(url="grpc://127.0.0.1:1")


async def calls(agent: Agent) -> None:
    stub = client.stub(orders_pb2_grpc.OrdersStub)
    reveal_type((await stub.Place(pb.Order.Line(item="tea"))).number)
    async for order in stub.Watch(Empty()):
        reveal_type(order)
    reveal_type(await agent.peer("orders").stub(orders_pb2_grpc.OrdersStub).Place(pb.Order.Line(), timeout=5))
    ours = client.stub(agent_service_pb2_grpc.AgentServiceStub)
    reveal_type(await ours.GetAgentCard(agent_service_pb2.GetAgentCardRequest()))
    await stub.Place(pb.Order())
    stub.Missing
    reveal_type((await stub.Send(orders())).number)
    reveal_type(await stub.Place(pb.Order.Line()).code())
    reveal_type(await stub.Watch(Empty()).details())


async def orders() -> AsyncIterator[pb.Order]:
    yield pb.Order()


blocking = client.sync.stub(orders_pb2_grpc.OrdersStub)
reveal_type(blocking.Place(pb.Order.Line()))
for each in blocking.Watch(Empty()):
    reveal_type(each)
reveal_type(Agent().peer("orders").stub_sync(orders_pb2_grpc.OrdersStub).Place(pb.Order.Line()))



class Weather:
    degrees: float


async def answers(agent: Agent) -> None:
    reveal_type(await client.ask("how warm"))
    reveal_type(await client.ask("how warm", output_type=Weather))
    reveal_type(await agent.ask("how warm", output_type=list[Weather]))
    reveal_type(await agent.peer("station").ask("how warm", output_type=int))
    reveal_type(agent.peer("station").ask_sync("how warm", output_type=int))
    reveal_type(await create_llm("mock").infer("how warm", output_type=Weather))
    reveal_type(Task.create("how warm").get_output_as(Weather))


reveal_type(client.sync.ask("how warm", output_type=Weather).degrees)
reveal_type(create_llm("mock").sync.infer("how warm", output_type=Weather))

Context = grpc.aio.ServicerContext[Any, Any]


class Orders(orders_pb2_grpc.OrdersServicer):
    async def Place(self, request: pb.Order.Line, context: Context) -> pb.Order:
        return pb.Order()

    async def Watch(self, request: Empty, context: Context) -> AsyncIterator[pb.Order]:
        yield pb.Order()

    async def Send(self, request_iterator: AsyncIterator[pb.Order], context: Context) -> pb.Order:
        return await anext(request_iterator)


orders_pb2_grpc.add_OrdersServicer_to_server(Orders(), grpc.aio.server())
"""

FOUND = [
    'note: Revealed type is "int"',
    'note: Revealed type is "acme.orders.v1.orders_pb2.Order"',
    'note: Revealed type is "acme.orders.v1.orders_pb2.Order"',
    'note: Revealed type is "plgrpc.v1.agent_service_pb2.GetAgentCardResponse"',
    'error: Argument 1 to "__call__" of "UnaryUnaryMultiCallable" has incompatible type "Order"; expected "Line"  [arg-type]',
    'error: "OrdersAsyncStub" has no attribute "Missing"  [attr-defined]',
    'note: Revealed type is "int"',
    'note: Revealed type is "grpc.StatusCode"',
    'note: Revealed type is "str"',
    'note: Revealed type is "acme.orders.v1.orders_pb2.Order"',
    'note: Revealed type is "acme.orders.v1.orders_pb2.Order"',
    'note: Revealed type is "acme.orders.v1.orders_pb2.Order"',
    'note: Revealed type is "str"',
    'note: Revealed type is "uses.Weather"',
    'note: Revealed type is "list[uses.Weather]"',
    'note: Revealed type is "int"',
    'note: Revealed type is "int"',
    'note: Revealed type is "uses.Weather"',
    'note: Revealed type is "uses.Weather"',
    'note: Revealed type is "float"',
    'note: Revealed type is "uses.Weather"',
]


@pytest.fixture
def generated(tmp_path: Path) -> Path:
    proto, out = tmp_path / "proto/acme/orders/v1/orders.proto", tmp_path / "out"
    proto.parent.mkdir(parents=True)
    proto.write_text(PROTO)
    write_stubs(Lang.PYTHON, out, [proto], [tmp_path / "proto"], force=False, as_json=True)
    return out


@pytest.mark.timeout(600)  # mypy reads the whole package if it has no cache
def test_mypy_knows_the_methods_of_stubs_over_our_channels(generated: Path) -> None:
    (generated / "uses.py").write_text(USES)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--explicit-package-bases", str(generated / "uses.py")],
        cwd=ROOT,  # with the cache of the type check
        env={**os.environ, "MYPYPATH": str(generated)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"uses\.py:\d+: (.*)$", done.stdout, re.MULTILINE)
    assert found == FOUND, done.stdout + done.stderr
    # Neither our package nor the generated types have an error.
    assert "Found 2 errors in 1 file" in done.stdout


def test_comments_of_the_proto_are_docstrings(generated: Path) -> None:
    types = (generated / "acme/orders/v1/orders_pb2_grpc.pyi").read_text()
    assert '    """Orders \\"things\\" \\\\\\\\ and more.\n\n    In two paragraphs.\n    """\n' in types
    assert '        """Place an order."""\n' in types
