"""Hooks around a model: it gets fewer tools, does not see an account number, and must name a source."""

import asyncio
from dataclasses import replace

from protolink_grpc import Agent, AgentHooks, FinalOutput, ModelInput, Task, ToolOutcome, create_llm
from protolink_grpc.llms import ModelRequest
from protolink_grpc.models.events import LlmStep


def only_reads(call: ModelInput) -> ModelRequest:
    return replace(call.request, tools=[tool for tool in call.request.tools if tool.read_only])


async def hide_account(outcome: ToolOutcome) -> str:
    return outcome.text.replace("4711", "****")


def has_source(answer: FinalOutput) -> str | None:
    return None if "http" in str(answer.content) else "Name your source."


plan = [{"type": "tool_call", "tool": "account", "args": {}}, "It is open.", "It is open: http://bank.example"]
hooks = AgentHooks(before_model=only_reads, after_tool=hide_account, before_complete=has_source)
agent = Agent("clerk", llm=create_llm("mock", sequential_responses=plan), hooks=hooks)
agent.tool("close", "Close the account.")(lambda: "closed")
agent.tool("account", "The account of the customer.", read_only=True)(lambda: "account 4711 is open")


async def main() -> None:
    async for event in agent.run_task_streaming(Task.create("What about my account?")):
        if isinstance(event.payload, LlmStep) and event.payload.kind == "llm_hook":
            about = {key: value for key, value in event.payload.data.items() if key not in ("hook", "position")}
            print(event.payload.data["hook"], about, event.payload.content or "-")


asyncio.run(main())
