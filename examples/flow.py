"""A durable flow: two reviewers at the same time, then the route that their verdicts choose."""

import asyncio

from protolink_grpc import Agent, AgentClient, Message, Parallel, Pipeline, Router, Task


class Reviewer(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.complete("too short" if len(task.messages[0].text) < 20 else "fine")


def choose(task: Task) -> str:
    return "print" if all(message.text == "fine" for message in task.messages[1:]) else "reject"


async def publish(task: Task) -> None:
    task.add_message(Message.agent("printed"))


async def reject(task: Task) -> None:
    task.reject("the reviewers do not like it")


async def main() -> None:
    reviews = Parallel([Reviewer(name="style"), Reviewer(name="facts")], name="reviews")
    flow = Pipeline([reviews, Router({"print": publish, "reject": reject}, choose=choose, name="verdict")])
    print(flow.describe().to_mermaid())
    async with Agent(name="press", url="grpc://127.0.0.1:0", flow=flow) as press:
        client = AgentClient(url=press.card.url)
        for text in ("A poem about the sea, in four lines.", "Hm."):
            task = await client.send_task(None, Task.create(text))
            print(task.state, "-", task.reason or task.messages[-1].text)


if __name__ == "__main__":
    asyncio.run(main())
