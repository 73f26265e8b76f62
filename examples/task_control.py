"""A plan of three tasks: one is done by a person, the agent does the others in their order."""

import asyncio

from protolink_grpc import Agent, AgentClient, LinkKind, Message, Task, TaskDescription, TaskLink


class Printer(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.complete(f"{task.messages[-1].text}: printed")


async def main() -> None:
    async with Printer(name="printer", url="grpc://127.0.0.1:0") as printer:
        client = AgentClient(url=printer.card.url)
        tasks = client.tasks
        review = await tasks.create("review the text", description=TaskDescription(assignee="Ann"))
        cover = await tasks.create("the cover", links=[TaskLink(LinkKind.BLOCKED_BY, review.task_id)])
        book = await tasks.create("the book", links=[TaskLink(LinkKind.BLOCKED_BY, cover.task_id)])
        for draft in (cover, book):
            started = await tasks.start(draft.task_id)
            print(started.status, "-", started.status_reason)

        await tasks.start(review.task_id, external=True)
        print((await tasks.report_progress(review.task_id, 50, "half of it is read")).status)
        print((await tasks.complete(review.task_id, [Message.agent("no errors")])).status)

        for task in (cover, book):
            print((await client.wait_task(task.task_id)).messages[-1].text)
        found = await tasks.get(book.task_id)
        print(found.status, [f"{each.link.kind} {each.state}" for each in found.links])


if __name__ == "__main__":
    asyncio.run(main())
