"""An agent that exports its spans and metrics over OTLP. It prints its URL."""

import argparse
import asyncio
import sys

from protolink_grpc import Agent, SQLiteStore, Task
from protolink_grpc.telemetry import OpenTelemetryTelemetry


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--peer", default="")
    parser.add_argument("--store", default="")
    parser.add_argument("--metrics")
    parser.add_argument("--hang", action="store_true")
    given = parser.parse_args()

    agent = Agent(
        given.name,
        url="grpc://127.0.0.1:0",
        telemetry=OpenTelemetryTelemetry(metrics_endpoint=given.metrics),
        store=SQLiteStore(given.store) if given.store else None,
    )

    @agent.tool(idempotent=True)
    async def book(table: int) -> str:
        """Book a table."""
        if given.hang:
            print("begun", flush=True)
            await asyncio.Event().wait()
        return f"table {table}"

    @agent.tool
    async def ask(table: int) -> str:
        """Ask the peer to book a table."""
        answer = await agent.call_agent(given.peer, Task.create_tool_call("book", {"table": table}))
        return str(answer.get_output())

    async with agent:
        print(agent.card.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
