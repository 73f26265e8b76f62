"""An agent whose model has a small context window, with hooks and a conversation. As a program it prints its URL.

Its model reads the numbers 1 to `LAST` with the tool `fetch`. It can stop in the call after a number: then it prints its prompt.
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from protolink_grpc import (
    LLM,
    Agent,
    AgentHooks,
    ContextPolicy,
    FinalOutput,
    LLMModelProfile,
    ModelInput,
    RunBudget,
    SQLiteStorage,
    SQLiteStore,
    ToolOutcome,
    current_run,
)
from protolink_grpc.llms import ModelRequest, ModelResponse, ModelToolCall
from protolink_grpc.llms.port import ModelItem

WINDOW, LAST = 2000, 8


class Reader(LLM):
    """Calls `fetch` for one number after the other. A query that is not "read" gets its own text as the answer."""

    native_tools = True

    def __init__(self, version: str, stop_after: int = 0) -> None:
        super().__init__("reader", "reader")
        self.profile = LLMModelProfile(context_window=WINDOW)
        self.prompts: list[list[str]] = []
        self._version = version
        self._stop_after = stop_after

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        if request.system.startswith("Write a summary"):
            yield ModelResponse(f"summary of {self._version}")
            return
        shown = [message.content for message in request.messages] + [tool.name for tool in request.tools]
        self.prompts.append(shown)
        last = request.messages[-1]
        if last.role == "user" and last.content != "read":
            yield ModelResponse(f"You said {last.content[:20]}")
            return
        known = re.search(r"number (\d+)", last.content) if last.role == "tool" else None
        number = int(known[1]) if known else 0
        if self._stop_after and number == self._stop_after:
            run = current_run()
            assert run is not None
            await run.flush()  # the test kills this process, and compares what was decided until here
            print(json.dumps(shown), flush=True)
            await asyncio.Event().wait()
        if number < LAST:
            yield ModelResponse(tool_calls=(ModelToolCall("fetch", {"number": number + 1}, f"call_{number + 1}"),))
        else:
            yield ModelResponse("All numbers are read.")


def build(folder: Path, version: str, stop_after: int = 0) -> Agent:
    def without_rest(call: ModelInput) -> ModelRequest | None:
        return None

    async def sign(outcome: ToolOutcome) -> str:
        run = current_run()
        assert run is not None
        await run.call_tool("note")
        return f'"{json.loads(outcome.text)} seen by {version}"'

    def accept(answer: FinalOutput) -> None:
        return None

    agent = Agent(
        "reader",
        url="grpc://127.0.0.1:0",
        llm=Reader(version, stop_after),
        store=SQLiteStore(folder / "tasks.db"),
        storage=SQLiteStorage(folder / "memory.db"),
        budget=RunBudget(max_steps=40),
        context_policy=ContextPolicy(summary_tokens=100, tool_result_max_chars=900, preserve_recent=2),
        hooks=AgentHooks(before_model=without_rest, after_tool=sign, before_complete=accept),
    )

    @agent.tool(read_only=True)
    def fetch(number: int) -> str:
        """Return a number and a long text."""
        return f"number {number}: {'x' * 150 * number}"

    @agent.tool
    def note() -> None:
        """Note that a result was signed."""

    return agent


async def main(folder: str, stop_after: str) -> None:
    agent = build(Path(folder), "the first process", int(stop_after))
    await agent.serve()
    print(agent.card.url, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
