"""A service of an own .proto file: a call waits for an approval, over a restart, and the order is charged once."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc

from protolink_grpc import Agent, AgentClient, Approvals, CapabilityPolicy, SQLiteStore, current_run, rpc
from protolink_grpc.errors import UnavailableError

# In a project of yours, protoc or `plgrpc gen --proto` generates these modules.
pb: Any
pb_grpc: Any
pb, pb_grpc = grpc.protos_and_services("orders.proto")

PRICES = {"tea": 400, "caviar": 9900}
charged: list[int] = []


class Orders(pb_grpc.OrdersServicer):  # type: ignore[misc]  # generated at run time
    async def Place(self, request: Any, context: Any) -> Any:
        if request.item not in PRICES:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no {request.item}")
        run = current_run()
        assert run is not None
        receipt = await run.call_tool("charge", item=request.item, cents=PRICES[request.item])
        return pb.PlaceResponse(receipt=receipt)

    async def Follow(self, request: Any, context: Any) -> AsyncIterator[Any]:
        for step in ("packed", "sent", "delivered"):
            yield pb.FollowResponse(step=step)

    @rpc(durable=False)
    async def Price(self, request: Any, context: Any) -> Any:
        return pb.PriceResponse(cents=PRICES[request.item])


def charge(item: str, cents: int) -> str:
    """Charge the customer."""
    charged.append(cents)
    return f"order {len(charged)}: {item} for {cents / 100:.2f}"


def shop(path: Path) -> Agent:
    agent = Agent(
        "shop",
        url="grpc://127.0.0.1:0",
        store=SQLiteStore(path),
        services=[Orders()],
        policy=CapabilityPolicy({"payments.write": "require_approval"}),
        approvals=Approvals(),
        grace_s=0.1,
    )
    agent.tool(capabilities=["payments.write"])(charge)
    return agent


def orders_of(agent: Agent) -> Any:
    return AgentClient(url=agent.card.url, outage_s=0).stub(pb_grpc.OrdersStub)


async def main() -> None:
    request, same = pb.PlaceRequest(item="caviar"), (("x-request-id", "order-17"),)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "tasks.db")
        async with shop(path) as agent:
            price = await orders_of(agent).Price(pb.PriceRequest(item="tea"))
            print(f"an order of tea costs {price.cents / 100:.2f}")
            call = asyncio.ensure_future(orders_of(agent).Place(request, metadata=same))
            async with aclosing(AgentClient(url=agent.card.url).watch_approvals()) as approvals:
                action = (await anext(approvals)).request.action
                print(f"waiting for an approval: {action.name} {action.payload['arguments']}")
        try:
            await call
        except UnavailableError:
            print("-- restart --")
        async with shop(path) as agent:
            client, orders = AgentClient(url=agent.card.url), orders_of(agent)
            call = asyncio.ensure_future(orders.Place(request, metadata=same))
            (approval,) = (await client.list_approvals()).approvals
            await client.respond_approval(None, approval, approved=True)
            print((await call).receipt)
            print("the same request again:", (await orders.Place(request, metadata=same)).receipt)
            print("charged once:", charged)
            print("steps:", [each.step async for each in orders.Follow(pb.FollowRequest())])
            print("a model may call:", sorted(agent.tools))


if __name__ == "__main__":
    asyncio.run(main())
