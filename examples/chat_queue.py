"""A chat whose inputs wait for each other, an interruption, and one stream of everything that happens."""

import asyncio

from protolink_grpc import Agent, AgentClient, SessionEvent, Task


class Cook(Agent):
    async def handle_task(self, task: Task) -> Task:
        dish = task.messages[-1].text
        if dish == "roast":
            await asyncio.sleep(3600)
        return task.complete(f"{dish} is ready")


async def main() -> None:
    async with Cook(name="cook", url="grpc://127.0.0.1:0") as cook:
        chat = AgentClient(url=cook.card.url).sessions
        await chat.submit("lunch", "roast", turn_id="roast")
        await chat.submit("lunch", "soup", turn_id="soup")
        await chat.submit("lunch", "salad", turn_id="salad")  # both wait for the roast
        await chat.promote("lunch", "salad")
        session = (await chat.get("lunch")).session
        print([f"{turn.turn_id} {turn.state}" for turn in session.open_turns])
        await chat.interrupt("lunch", reason="no oven")
        async for event in chat.stream("lunch", "soup"):
            print(event.type)
        page = await chat.get("lunch")
        print([f"{turn.turn_id} {turn.result}" for turn in page.turns])
        async for item in chat.subscribe("lunch"):
            if isinstance(item.event, SessionEvent):
                fact = item.event.payload
                print(item.position, type(fact).__name__, *filter(None, [getattr(fact, "turn_id", "")]))
            if item.position == page.session.position:
                break


if __name__ == "__main__":
    asyncio.run(main())
