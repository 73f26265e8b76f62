"""A long conversation with a model whose context window is small: old turns are removed, a large result is read in pieces."""

import asyncio
import json

from protolink_grpc import Agent, ContextPolicy, InMemoryStorage, Task, create_llm
from protolink_grpc.models.events import ContextCompacted


def answer(prompt: str) -> object:
    if prompt == "read the report":
        return {"type": "tool_call", "tool": "report", "args": {}}
    if '"preview"' in prompt:  # the beginning of the report; ask for its end
        shown = json.loads(prompt)
        rest = {"name": shown["artifact"], "offset": shown["total_chars"] - 12}
        return {"type": "tool_call", "tool": "read_context_artifact", "args": rest}
    return json.loads(prompt)["text"] if prompt.startswith("{") else None


llm = create_llm("mock", response_callback=answer)
agent = Agent("clerk", llm=llm, storage=InMemoryStorage(), context_policy=ContextPolicy(max_tokens=1500))


@agent.tool
def report() -> str:
    """A long report."""
    return "All is well. " * 1500 + "Or almost."


async def main() -> None:
    for number in range(40):
        await agent.run_task(Task.create(f"{number}: {'blah ' * 40}", session_id="s"))
    async for event in agent.run_task_streaming(task := Task.create("read the report", session_id="s")):
        if isinstance(event.payload, ContextCompacted):
            print(f"{event.payload.before_tokens} tokens were too many, now {event.payload.after_tokens}")
    print("the end of the report:", (await agent.get_task(task.id)).get_output().strip())


asyncio.run(main())
