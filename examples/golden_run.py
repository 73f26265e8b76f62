"""A golden run: with a scripted model, a run always has the same events, so a test can compare all of them."""

import asyncio

from protolink_grpc import Agent, InMemoryEventSink, RunContext, Task, create_llm

GOLDEN = [
    (1, "task.submitted", False),
    (2, "task.status", False),
    (3, "context.prepared", False),
    (4, "llm.call.started", False),
    (5, "llm.call.completed", False),
    (6, "action.requested", False),
    (7, "action.policy", False),
    (8, "action.started", False),
    (9, "action.completed", False),
    (10, "context.prepared", False),
    (11, "llm.call.started", False),
    (12, "llm.call.completed", False),
    (13, "task.artifact", False),
    (14, "task.status", True),
]
"""Sequence, type, and whether the event is the last one. Ids and times are left out, because they change."""

agent = Agent(
    name="adder",
    llm=create_llm("scripted", steps=[{"type": "tool_call", "tool": "add", "args": {"a": 2, "b": 3}}, "It is 5."]),
)


@agent.tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def snapshot() -> list[tuple[int, str, bool]]:
    task = Task.create_infer(prompt="What is 2 + 3?")
    RunContext(run_id="run_golden", session_id="session_golden").attach_to_task(task)
    sink = InMemoryEventSink()
    async for event in agent.handle_task_streaming(task):
        await sink.emit_task_event(event, context=RunContext.from_task(task))
    return [(item["sequence"], item["type"], item["final"]) for item in sink.to_list()]


if __name__ == "__main__":
    for number in (1, 2):
        print(f"run {number}:", "golden" if asyncio.run(snapshot()) == GOLDEN else "different")
