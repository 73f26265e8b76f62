"""Two agents record their traces in one file; the call from one to the other is part of the same trace."""

import asyncio
import tempfile
from pathlib import Path

from protolink_grpc import Agent, Task
from protolink_grpc.telemetry import LocalTraceRecorder, LocalTraceTelemetry, spans_of_record, waterfall


async def main(file: Path) -> None:
    desk = Agent("desk", url="runtime://desk", telemetry=LocalTraceTelemetry(path=file))
    front = Agent("front", telemetry=LocalTraceTelemetry(path=file))

    @desk.tool
    async def book(table: int) -> str:
        """Book a table."""
        await asyncio.sleep(0.1)
        return f"table {table}"

    @front.tool
    async def ask(table: int) -> str:
        """Ask the desk."""
        answer = await front.call_agent(desk.card.url, Task.create_tool_call("book", {"table": table}))
        return str(answer.get_output())

    async with desk, front:
        print((await front.run_task(Task.create_tool_call("ask", {"table": 7}))).get_output())

    records = LocalTraceRecorder.load_jsonl(file)
    print("traces:", len({record["trace_id"] for record in records}))
    for line in waterfall([span for record in records for span in spans_of_record(record)]):
        print(line)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder, "traces.jsonl")))
