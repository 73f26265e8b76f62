"""An agent that serves A2A with `http=`: A2A's official client books a ticket, and plain HTTP requests read the result."""

import asyncio

import httpx
from a2a.client import Client, create_client
from a2a.helpers import get_message_text, new_text_message
from a2a.types import Role, SendMessageRequest, TaskState

from protolink_grpc import Agent, Task


class Ticket(Agent):
    async def handle_task(self, task: Task) -> Task:
        if len(task.messages) == 1:
            return task.require_input("Where do you want to go?")
        return task.complete(f"One ticket to {task.messages[-1].text}.")


async def say(client: Client, text: str, task_id: str | None = None) -> str:
    """Send a message and print the states that follow. Returns the id of the task."""
    message = new_text_message(text, task_id=task_id, role=Role.ROLE_USER)
    async for answer in client.send_message(SendMessageRequest(message=message)):
        if answer.HasField("task"):
            task_id = answer.task.id
        elif answer.HasField("status_update"):
            status = answer.status_update.status
            print(TaskState.Name(status.state), "-", get_message_text(status.message))
    return task_id or ""


async def read_along(url: str, task_id: str) -> None:
    """Read the card, a page of tasks, and a stream from a position, with plain HTTP requests."""
    async with httpx.AsyncClient(base_url=url, headers={"A2A-Version": "1.0"}) as http:
        card = (await http.get("/.well-known/agent-card.json")).json()
        print(card["name"], "supports", *(each["protocolBinding"] for each in card["supportedInterfaces"][:3]))
        page = (await http.get("/tasks", params={"pageSize": 10})).json()
        print(page["totalSize"], "task:", page["tasks"][0]["status"]["state"])
        async with http.stream("GET", f"/tasks/{task_id}:subscribe", headers={"Last-Event-ID": "4"}) as events:
            print("after event 4:", [line async for line in events.aiter_lines() if line.startswith("id:")])


async def main() -> None:
    async with Ticket(name="ticket", url="grpc://127.0.0.1:0", http="127.0.0.1:0") as ticket:
        async with await create_client(ticket.http_url) as client:
            task_id = await say(client, "A ticket, please.")
            await say(client, "Athens", task_id)
        await read_along(ticket.http_url, task_id)


if __name__ == "__main__":
    asyncio.run(main())
