"""A shop's service for the tests of users' own services. Its stubs are made from `orders.proto` when this module is imported."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from protolink_grpc import Agent, current_run, rpc

pb: Any
pb_grpc: Any
pb, pb_grpc = grpc.protos_and_services("orders.proto")

SERVICE = "acme.orders.v1.Orders"


class OrdersServicer(pb_grpc.OrdersServicer):  # type: ignore[misc]  # generated at run time
    """Takes orders. `calls` has what it was called with, and `go` lets `Follow` go on after its first step.

    `began` is set when an order waits, and `contexts` has what the context of an order that waited said at the end.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.contexts: list[Any] = []
        self.began = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    async def Place(self, request: Any, context: Any) -> Any:
        self.calls.append(f"place {request.item}")
        match request.item:
            case "unknown":
                context.set_trailing_metadata((("x-near", "tea"),))
                await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such item")
            case "sold out":
                context.set_code(grpc.StatusCode.RESOURCE_EXHAUSTED)
                context.set_details("sold out")
            case "broken":
                raise RuntimeError("the shop is broken")
            case "odd":
                return pb.PriceResponse()
            case "late":
                self.began.set()
                await self.go.wait()
                metadata = {key: value for key, value in context.invocation_metadata() if key.startswith("x-")}
                self.contexts.append((metadata, context.peer() != "", context.time_remaining()))
        context.set_trailing_metadata((("x-cost", "7"), ("x-seal-bin", b"\x00\xff")))
        run = current_run()
        assert run is not None
        await run.progress(50, "packed")
        return pb.PlaceResponse(order=f"{request.item} for {run.principal}")

    async def Follow(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.calls.append("follow")
        for step in range(1, request.steps + 1):
            yield pb.FollowResponse(step=step, text=f"step {step}")
            await self.go.wait()
        if not request.steps:
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, "no steps")

    async def Total(self, requests: AsyncIterator[Any], context: Any) -> Any:
        self.calls.append("total")
        amounts = [each.amount async for each in requests]
        return pb.PlaceResponse(order=f"{len(amounts)} items, {sum(amounts)} in all")

    @rpc(durable=False)
    async def Price(self, request: Any, context: Any) -> Any:
        self.calls.append(f"price {request.item} {current_run() is not None}")
        if request.item == "unknown":
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such item")
        if request.item == "broken":
            raise RuntimeError("secret")
        return pb.PriceResponse(cents=100 * len(request.item))

    @rpc(durable=False)
    async def Prices(self, request: Any, context: Any) -> AsyncIterator[Any]:
        for item in request.item.split():
            yield pb.PriceResponse(cents=100 * len(item))
        if not request.item:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no items")


def shop(*servicers: object, **settings: Any) -> Agent:
    """An agent that serves the shop, on both ports."""
    given = servicers or (OrdersServicer(),)
    return Agent("shop", url="grpc://127.0.0.1:0", **{"services": given, "http": "127.0.0.1:0", **settings})


def target(agent: Agent) -> str:
    """The address for a plain channel."""
    return agent.card.url.removeprefix("grpc://")
