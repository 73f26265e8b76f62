"""A mesh for the tests of typed calls between agents: a shop asks a broker for prices, and the broker asks a ledger.

Stubs are built from the tools, as protoc would generate them from the exported files.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

from google.protobuf.message_factory import GetMessageClass

from protolink_grpc import Agent, AgentCapabilities, AgentCard, SQLiteStore
from protolink_grpc.typed.service import TypedService, build_typed_service, export_proto


def typed_agent(name: str, registry: Any, url: str = "grpc://127.0.0.1:0", **settings: Any) -> Agent:
    card = AgentCard(name=name, description=name, url=url, capabilities=AgentCapabilities(max_concurrency=32))
    return Agent(card, registry=registry, **{"typed": f"acme.{name}.v1", "grace_s": 0.1, **settings})


class Messages:
    """The classes of a typed service's messages, by name."""

    def __init__(self, typed: TypedService) -> None:
        for method in typed.descriptor.methods:
            for descriptor in (method.input_type, method.output_type):
                setattr(self, descriptor.name, GetMessageClass(descriptor))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def generated(agent: Agent) -> tuple[Callable[[Any], Any], Any]:
    """The stub class of an agent's typed service, and its messages."""
    name = agent.card.name
    typed = build_typed_service(export_proto(name, "", agent.tools.values(), f"acme.{name}.v1").plan)

    class Stub:
        def __init__(self, channel: Any) -> None:
            for method in typed.descriptor.methods:
                kinds = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
                made = (channel.unary_stream if method.server_streaming else channel.unary_unary)(
                    f"/{typed.descriptor.full_name}/{method.name}",
                    request_serializer=kinds[0].SerializeToString,
                    response_deserializer=kinds[1].FromString,
                    _registered_method=True,
                )
                setattr(self, method.name, made)

    return Stub, Messages(typed)


def ledger(registry: Any, record: Callable[[str], Any] = len, **settings: Any) -> Agent:
    """The leaf: `record` is called with each item, and may be awaitable."""
    agent = typed_agent("ledger", registry, **settings)

    @agent.tool(capabilities=["ledger.write"])
    async def enter(item: str) -> int:
        """Enter an item and return its number."""
        number = record(item)
        return int(number if isinstance(number, int) else await number)

    @agent.tool(read_only=True)
    async def pages(count: int) -> AsyncIterator[str]:
        """Yield pages."""
        for page in range(count):
            yield f"page {page}"

    return agent


def broker(registry: Any, **settings: Any) -> Agent:
    """The middle: its tool calls the ledger by a stub."""
    agent = typed_agent("broker", registry, **settings)
    stub, messages = generated(ledger(None))

    @agent.tool(idempotent=True)
    async def price(item: str) -> str:
        """Return the price of an item and its number in the ledger."""
        response = await agent.peer("ledger").stub(stub).Enter(messages.EnterRequest(item=item))
        return f"{item} #{response.result}"

    return agent


def clerk(registry: Any, **settings: Any) -> Agent:
    """Calls the ledger twice, one call after the other."""
    agent = typed_agent("clerk", registry, **settings)
    stub, messages = generated(ledger(None))

    @agent.tool(idempotent=True)
    async def enter_two() -> list[int]:
        """Enter two items."""
        calls = agent.peer("ledger").stub(stub)
        return [(await calls.Enter(messages.EnterRequest(item=item))).result for item in ("one", "two")]

    return agent


def shop(registry: Any, **settings: Any) -> Agent:
    """The root: its tool calls the broker by a stub."""
    agent = typed_agent("shop", registry, **settings)
    stub, messages = generated(broker(None))

    @agent.tool(idempotent=True)
    async def buy(item: str) -> str:
        """Buy an item."""
        response = await agent.peer("broker").stub(stub).Price(messages.PriceRequest(item=item))
        return f"bought {response.result}"

    return agent


def main() -> None:
    """Serve an agent of the mesh. The arguments are its name, the registry, the file of its store and its URL."""
    name, registry, store, url = sys.argv[1:]
    make = {"broker": broker, "clerk": clerk, "ledger": ledger}[name]
    agent = make(registry, store=SQLiteStore(store), url=url)

    async def serve() -> None:
        await agent.serve()
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
