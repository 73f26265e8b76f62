"""A generator tool as a stream with types: each line is in the log before it is sent, so a stream that was left is read again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import grpc

from protolink_grpc import Agent, AgentClient

# `plgrpc proto export` has written this file. A program imports the modules that `plgrpc gen --lang python` makes of it.
PROTO = "acme/library/v1/library.proto"
library_pb2, library_pb2_grpc = grpc.protos_and_services(PROTO)

POEMS = {"fog": ["The fog comes", "on little cat feet.", "It sits looking", "over harbor and city"]}

reads: list[str] = []


@dataclass
class Line:
    """A line of a poem."""

    number: int
    text: str


async def lines(poem: str) -> AsyncIterator[Line]:
    """Read the lines of a poem."""
    reads.append(poem)
    for number, text in enumerate(POEMS[poem], 1):
        yield Line(number, text)


agent = Agent(
    name="library",
    description="Reads poems.",
    url="grpc://127.0.0.1:0",
    tools=[lines],
    typed=Path(__file__).parent / PROTO,
)


async def main() -> None:
    async with agent:
        client = AgentClient(url=agent.card.url)
        library = client.stub(library_pb2_grpc.LibraryStub)
        request, metadata = library_pb2.LinesRequest(poem="fog"), (("x-request-id", "r1"), ("x-task-id", "t1"))
        async with aclosing(library.Lines(request, metadata=metadata)) as first:
            print("first reader:", (await anext(first)).result.text)
        async for response in library.Lines(request, metadata=metadata):
            print("second reader:", response.result.number, response.result.text)
        print("reads:", reads)
        task = await client.get_task("t1")
        print("result:", len(task.get_output()), "lines")


if __name__ == "__main__":
    asyncio.run(main())
