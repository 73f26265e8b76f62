"""An agent that asks for more input: the task waits and continues with the answer."""

import asyncio

from protolink_grpc import Agent, AgentClient, Message, Task, TaskState


class Ticket(Agent):
    async def handle_task(self, task: Task) -> Task:
        if len(task.messages) == 1:
            return task.require_input(Message.agent("Where do you want to go?"))
        return task.complete(f"One ticket to {task.messages[-1].text}.")


async def main() -> None:
    async with Ticket(name="ticket", url="grpc://127.0.0.1:0") as ticket:
        client = AgentClient(url=ticket.card.url)
        task = await client.send_task(None, Task.create("A ticket, please."))
        print(task.state, "-", task.messages[-1].text)
        if task.state is TaskState.INPUT_REQUIRED:
            task = await client.send_task(None, task.add_message(Message.user("Athens")))
        print(task.state, "-", task.messages[-1].text)


if __name__ == "__main__":
    asyncio.run(main())
