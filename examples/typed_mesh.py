"""Agents call each other by generated stubs: with types, as actions in the caller's log, and never twice for one request id."""

import asyncio
from pathlib import Path

import grpc

from protolink_grpc import Agent, AgentClient, Registry, Task
from protolink_grpc.models.events import ActionEnded, ActionRequested

# `plgrpc proto export` has written this file. A program imports the modules that `plgrpc gen --lang python` makes of it.
PROTO = "acme/calculator/v1/calculator.proto"
calculator_pb2, calculator_pb2_grpc = grpc.protos_and_services(PROTO)

sums: list[int] = []


def add(a: int, b: int) -> int:
    """Add two integers."""
    sums.append(a + b)
    return a + b


def shop(registry: Registry) -> Agent:
    agent = Agent(name="shop", url="grpc://127.0.0.1:0", registry=registry)

    @agent.tool(idempotent=True)
    async def total(prices: list[int]) -> int:
        """Add prices."""
        calculator = agent.peer("calculator").stub(calculator_pb2_grpc.CalculatorStub)
        found = 0
        for price in prices:
            response = await calculator.Add(calculator_pb2.AddRequest(a=found, b=price))
            found = response.result
        return found

    return agent


async def main() -> None:
    typed = Path(__file__).parent / PROTO
    async with (
        Registry() as registry,
        Agent(name="calculator", url="grpc://127.0.0.1:0", tools=[add], typed=typed, registry=registry) as calculator,
        shop(registry) as agent,
    ):
        client = AgentClient(url=agent.card.url)
        task = await client.send_task(None, Task.create_tool_call("total", {"prices": [20, 15, 7]}))
        print("total:", task.get_output())
        async for event in client.subscribe(task.id):
            match event.payload:
                case ActionRequested(action=action) if action.kind == "agent.call":
                    print(action.payload["method"], dict(sorted(action.payload["request"].items())))
                case ActionEnded(kind="agent.call", result=response):
                    print(response.value.type_name, response.preview)

        stub = AgentClient(url=calculator.card.url).stub(calculator_pb2_grpc.CalculatorStub)
        for b in (2, 3):
            response = await stub.Add(calculator_pb2.AddRequest(a=1, b=b), metadata=(("x-request-id", "once"),))
            print("same request id:", response.result)
        print("sums:", sums)


if __name__ == "__main__":
    asyncio.run(main())
