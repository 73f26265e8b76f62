"""A caller's `output_schema` that is expensive to check: the agent continues to answer others, also after a restart."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import Agent, AgentClient, InvalidArgumentError, ScriptedLLM, SQLiteStore, Task, TaskState

WITHIN_S = 1.0
"""In which another caller gets an answer."""

SLOW_PATTERN = {"type": "string", "pattern": "^(a+)+$"}
MANY_PATHS = {
    "$ref": "#/$defs/a0",
    "$defs": {
        **{f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(14)},
        "a14": {"type": "integer"},
    },
}
ANSWER = "a" * 60 + "!"


@asynccontextmanager
async def started(path: Path, answers: list[Any]) -> AsyncIterator[tuple[Agent, AgentClient]]:
    agent = Agent(
        name="oracle",
        description="answers",
        url="grpc://127.0.0.1:0",
        http="http://127.0.0.1:0",
        llm=ScriptedLLM(answers),
        store=SQLiteStore(path),
    )

    @agent.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    async with agent:
        yield agent, AgentClient(url=agent.card.url)


async def answers_quickly(client: AgentClient, busy: "asyncio.Future[Any]") -> None:
    while True:
        began = time.perf_counter()
        assert await client.call_tool(None, "add", a=1, b=2) == 3
        assert time.perf_counter() - began < WITHIN_S
        if busy.done():
            return


@pytest.mark.parametrize("schema", [SLOW_PATTERN, MANY_PATHS], ids=["pattern", "references"])
async def test_an_answer_that_is_slow_to_check_holds_up_nobody(tmp_path: Path, schema: dict[str, Any]) -> None:
    async with started(tmp_path / "log.db", [ANSWER] * 10) as (agent, client):
        hostile = AgentClient(url=agent.card.url)
        asked = asyncio.ensure_future(hostile.send_task(None, Task.create_infer(prompt="hi", output_schema=schema)))
        await answers_quickly(client, asked)
        assert (await asked).state is TaskState.FAILED


async def test_a_stored_request_that_is_slow_to_check_holds_up_nobody_after_a_restart(tmp_path: Path) -> None:
    path, asking = tmp_path / "log.db", asyncio.Event()

    async def never(_: Any) -> str:
        asking.set()
        await asyncio.Event().wait()
        return ""

    task = Task.create_infer(prompt="hi", output_schema=SLOW_PATTERN)
    async with started(path, [never]) as (_, client):
        await client.submit_task(None, task)
        await asking.wait()
    async with started(path, [ANSWER] * 10) as (_, client):
        again = asyncio.ensure_future(client.wait_task(task.id))
        await answers_quickly(client, again)
        assert (await again).state is TaskState.FAILED


LOOK_AROUND = {"type": "object", "properties": {"a": {"pattern": "(?=a)b"}}}


async def test_a_schema_that_cannot_be_used_is_refused_before_there_is_a_task(tmp_path: Path) -> None:
    async with started(tmp_path / "log.db", []) as (_, client):
        with pytest.raises(InvalidArgumentError, match="look-around or a back-reference") as caught:
            await client.send_task(None, Task.create_infer(prompt="hi", output_schema=LOOK_AROUND))
        assert caught.value.field == "input.messages[0].parts[0].output_schema"
        assert (await client.list_tasks()).tasks == []


async def test_a_sent_schema_is_never_fetched(tmp_path: Path) -> None:
    fetched: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fetched.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/schema"
    async with server, started(tmp_path / "log.db", []) as (_, client):
        for schema in (
            {"$ref": url},
            {"$id": url, "$ref": "other"},
            {"$schema": url, "properties": {"a": {"$ref": url}}},
        ):
            with pytest.raises(InvalidArgumentError, match="not part of it"):
                await client.send_task(None, Task.create_infer(prompt="hi", output_schema=schema))
    assert fetched == []
