"""Find agents by tags and other attributes, and watch them come and go."""

import asyncio
from contextlib import aclosing

from protolink_grpc import Agent, AgentCard, AgentChange, Registry


def agent(registry: Registry, name: str, *tags: str) -> Agent:
    card = AgentCard(name=name, description=f"An agent called {name}.", url="grpc://127.0.0.1:0", tags=list(tags))
    return Agent(card, registry=registry)


def show(change: AgentChange) -> None:
    print(change.kind.value, change.agent.card.name)


async def main() -> None:
    async with Registry() as registry, aclosing(registry.client.watch()) as changes:
        async with agent(registry, "ferry", "travel", "sea"):
            show(await anext(changes))
            async with agent(registry, "train", "travel") as train:
                show(await anext(changes))
                print("for travel:", [card.name for card in await train.discover_agents({"tags": "travel"})])
                print("by sea:", [card.name for card in await train.discover_agents({"tags": ["travel", "sea"]})])
            show(await anext(changes))
        show(await anext(changes))


if __name__ == "__main__":
    asyncio.run(main())
