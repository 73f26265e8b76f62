"""A long tool is canceled in the middle: it never commits, and the stream ends with one canceled event."""

import asyncio

from protolink_grpc import Agent, InMemoryEventSink, RunContext, Task, TaskProgress, ToolContext

committed: list[str] = []
"""The reports that were sent."""

agent = Agent(name="worker")


@agent.tool
async def send_report(name: str, context: ToolContext) -> str:
    """Prepare a report in five steps and send it. The sending comes last, right after a checkpoint."""
    for step in range(1, 6):
        await context.progress(20 * step, f"page {step} of 5")
        await asyncio.sleep(0.2)
    context.cancellation.raise_if_cancelled()
    committed.append(name)
    return "sent"


async def main() -> None:
    task = Task.create_tool_call("send_report", {"name": "sales"})
    sink = InMemoryEventSink()
    async for event in agent.handle_task_streaming(task):
        await sink.emit_task_event(event, context=RunContext.from_task(task))
        if isinstance(event.payload, TaskProgress):
            print(f"{event.payload.progress:.0f} %: {event.payload.message}")
            if event.payload.progress == 40:
                await agent.cancel_task(task.id, reason="Stopped by user")
    last = sink.to_list()[-1]
    print(f"{last['type']} final={last['final']}: {last['payload']['new_state']}, {last['payload']['cancel_reason']}")
    print(f"sent: {committed or 'nothing'}")


if __name__ == "__main__":
    asyncio.run(main())
