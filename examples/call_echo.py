"""Call an agent, first with `await`, then from plain synchronous code."""

import asyncio

from echo import echo

from protolink_grpc import Agent, AgentClient, Task

ANY_PORT = "grpc://127.0.0.1:0"


async def with_await() -> None:
    async with Agent(name="echo", url=ANY_PORT, tools=[echo]) as agent:
        client = AgentClient(url=agent.card.url)
        card = await client.get_agent_card()
        print(card.name, "offers", [skill.id for skill in card.skills])
        task = await client.send_task(None, Task.create_tool_call("echo", {"text": "hello", "times": 2}))
        print(task.state, task.get_output())
        task = await client.send_task(None, Task.create_tool_call("echo", {"times": "many"}))
        part = task.get_last_part()
        print(task.state, part.as_tool_output().error["code"] if part else "")


def without_await() -> None:
    agent = Agent(name="echo", url=ANY_PORT, tools=[echo])
    agent.start(background=True)
    client = AgentClient(url=agent.card.url).sync
    task = client.send_task(None, Task.create_tool_call("echo", {"text": "hello again"}))
    print(task.state, task.get_output())
    agent.stop()


if __name__ == "__main__":
    asyncio.run(with_await())
    without_await()
