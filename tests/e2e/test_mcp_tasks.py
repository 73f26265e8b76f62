"""The tasks extension of MCP, with the official client over streamable HTTP, and over a crash of the agent."""

import asyncio
import os
import signal
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from mcp_tasks_client import EXTENSION, CreatedTask, Tasks, ask
from mcp_world import mcp_client
from ports import free_port

from protolink_grpc import (
    Agent,
    APIKeyAuth,
    Approvals,
    CapabilityPolicy,
    Principal,
    ToolContext,
)
from protolink_grpc.mcp.edge import server

START_S = 60.0


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls become tasks as soon as they do not end at once."""
    monkeypatch.setattr(server, "TASK_AFTER_S", 0.05)


async def never(context: Any, params: Any) -> Any:
    raise AssertionError("a client with the extension is asked through its task")


def client_of(url: str, tasks: Tasks | None, headers: dict[str, str] | None = None) -> AbstractAsyncContextManager[Any]:
    extensions = [] if tasks is None else [tasks]
    return mcp_client(url, headers, extensions=extensions, elicitation_callback=never)


def slow_agent(release: asyncio.Event, **settings: Any) -> Agent:
    agent = Agent("slow", http="127.0.0.1:0", **settings)

    @agent.tool
    async def slow() -> str:
        await release.wait()
        return "done at last"

    @agent.tool
    async def quick() -> str:
        return "done"

    @agent.tool
    async def broken() -> str:
        await release.wait()
        raise ValueError("no paper")

    return agent


async def test_a_call_that_takes_long_is_a_task_for_a_client_with_the_extension() -> None:
    release, tasks = asyncio.Event(), Tasks()
    async with slow_agent(release) as agent, client_of(agent.http_url, tasks) as client:
        assert EXTENSION in client.server_capabilities.extensions
        calling = asyncio.create_task(client.call_tool("slow", {}))
        await tasks.polled.wait()
        release.set()
        result = await calling
    assert (result.is_error, result.content[0].text) == (False, "done at last")
    (created,) = tasks.created
    assert (created.status, created.ttl_ms, created.poll_interval_ms) == ("working", None, 1000)
    assert tasks.statuses[0] == "working"
    assert tasks.statuses[-1] == "completed"


async def test_a_call_that_ends_at_once_is_no_task_and_neither_is_one_of_another_client() -> None:
    release, tasks = asyncio.Event(), Tasks()
    async with slow_agent(release) as agent:
        async with client_of(agent.http_url, tasks) as client:
            assert (await client.call_tool("quick", {})).content[0].text == "done"
        async with client_of(agent.http_url, None) as client:
            asyncio.get_running_loop().call_later(0.2, release.set)
            assert (await client.call_tool("slow", {})).content[0].text == "done at last"
    assert tasks.created == []


async def test_an_error_of_a_tool_is_the_result_of_a_completed_task() -> None:
    release, tasks = asyncio.Event(), Tasks()
    async with slow_agent(release) as agent, client_of(agent.http_url, tasks) as client:
        created = await client.session.call_tool("broken", {}, allow_claimed=True)
        assert isinstance(created, CreatedTask)
        release.set()
        task = await tasks.finish(client.session, created.task_id)
    assert (task["status"], task["result"]["isError"]) == ("completed", True)
    assert task["result"]["structuredContent"]["code"] == "TOOL_FAILED"


async def test_the_wire_is_that_of_the_extension() -> None:
    release, tasks = asyncio.Event(), Tasks()
    async with slow_agent(release) as agent, client_of(agent.http_url, tasks) as client:
        created = await client.session.call_tool("slow", {}, allow_claimed=True)
        task = await ask(client.session, "tasks/get", created.task_id)
        required = {"resultType", "taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"}
        assert required <= set(task)
        assert (task["resultType"], task["status"], task["ttlMs"]) == ("complete", "working", None)
        assert not {"result", "error", "inputRequests"} & set(task)
        canceled = await ask(client.session, "tasks/cancel", created.task_id)
        assert canceled["resultType"] == "complete"
        assert set(canceled) <= {"resultType", "_meta"}
        assert (await tasks.finish(client.session, created.task_id))["status"] == "cancelled"
        again = await ask(client.session, "tasks/cancel", created.task_id)
        assert again["resultType"] == "complete"


async def test_a_task_asks_its_client_in_the_middle() -> None:
    asked: list[str] = []

    async def answer(key: str, params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params["message"])
        if "nights" in params["requestedSchema"]["properties"]:
            return {"action": "accept", "content": {"nights": 2}}
        return {"action": "accept", "content": {"approve": True}}

    tasks = Tasks(answer)
    policy = CapabilityPolicy({"hotel.book": "require_approval"})
    agent = Agent("hotel", http="127.0.0.1:0", approvals=Approvals(), policy=policy)

    @agent.tool(capabilities=["hotel.book"])
    async def book(hotel: str, context: ToolContext) -> str:
        schema = {"type": "object", "properties": {"nights": {"type": "integer"}}, "required": ["nights"]}
        reply = await context.ask("How many nights?", schema)
        return f"{hotel}: {reply.values['nights']} nights"

    async with agent, client_of(agent.http_url, tasks) as client:
        result = await client.call_tool("book", {"hotel": "Ritz"})
    assert result.content[0].text == "Ritz: 2 nights"
    assert len(asked) == 2
    assert asked[1] == "How many nights?"
    assert "input_required" in tasks.statuses


async def test_answers_to_unknown_and_answered_questions_are_ignored_and_invalid_ones_refused() -> None:
    from mcp import MCPError

    policy = CapabilityPolicy({"pay": "require_approval"})
    agent = Agent("cashier", http="127.0.0.1:0", policy=policy, approvals=Approvals())
    agent.tool(name="pay", capabilities=["pay"])(lambda amount: "paid")
    tasks = Tasks()
    async with agent, client_of(agent.http_url, tasks) as client:
        created = await client.session.call_tool("pay", {"amount": 5}, allow_claimed=True)
        assert created.status == "input_required"
        task = await ask(client.session, "tasks/get", created.task_id)
        (key,) = task["inputRequests"]
        await ask(
            client.session, "tasks/update", created.task_id, input_responses={"never-asked": {"action": "accept"}}
        )
        with pytest.raises(MCPError) as refused:
            await ask(client.session, "tasks/update", created.task_id, input_responses={key: {"action": "maybe"}})
        assert refused.value.code == -32602
        await ask(client.session, "tasks/update", created.task_id, input_responses={key: {"action": "decline"}})
        task = await tasks.finish(client.session, created.task_id)
        assert task["result"]["structuredContent"]["code"] == "APPROVAL_DENIED"
        await ask(client.session, "tasks/update", created.task_id, input_responses={key: {"action": "accept"}})


async def test_a_task_belongs_to_its_caller_and_needs_the_extension() -> None:
    from mcp import MCPError

    keys = {"key-of-ann": Principal("ann"), "key-of-bob": Principal("bob")}
    release = asyncio.Event()
    async with (
        slow_agent(release, authenticator=APIKeyAuth(keys)) as agent,
        client_of(agent.http_url, Tasks(), {"X-API-Key": "key-of-ann"}) as ann,
        client_of(agent.http_url, Tasks(), {"X-API-Key": "key-of-bob"}) as bob,
        client_of(agent.http_url, None, {"X-API-Key": "key-of-ann"}) as plain,
    ):
        created = await ann.session.call_tool("slow", {}, allow_claimed=True)
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            more = {"input_responses": {}} if method == "tasks/update" else {}
            with pytest.raises(MCPError) as hidden:
                await ask(bob.session, method, created.task_id, **more)
            assert (hidden.value.code, hidden.value.data["reason"]) == (-32602, "TASK_NOT_FOUND")
            with pytest.raises(MCPError) as undeclared:
                await ask(plain.session, method, created.task_id, **more)
            assert undeclared.value.code == -32021
            assert undeclared.value.data == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        release.set()


PROGRAM = """
import asyncio, sys
from protolink_grpc import Agent, Approvals, CapabilityPolicy, SQLiteStore, ToolContext
from protolink_grpc.mcp.edge import server

server.TASK_AFTER_S = 0.05

async def main():
    port, file = sys.argv[1:]
    policy = CapabilityPolicy({"pay": "require_approval"})
    agent = Agent("cashier", http=f"127.0.0.1:{port}", policy=policy, approvals=Approvals(), store=SQLiteStore(file))

    @agent.tool(capabilities=["pay"], idempotent=True)
    async def pay(amount: int, context: ToolContext) -> str:
        schema = {"type": "object", "properties": {"nights": {"type": "integer"}}, "required": ["nights"]}
        answer = await context.ask("How many nights?", schema)
        return f"paid {amount} for {answer.values['nights']} nights"

    async with agent:
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def started(port: int, file: Path) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(port), str(file), stdout=asyncio.subprocess.PIPE, env=dict(os.environ)
    )
    assert process.stdout is not None
    async with asyncio.timeout(START_S):
        assert await process.stdout.readline() == b"ready\n"
    return process


async def test_a_crash_loses_neither_a_task_nor_its_questions(tmp_path: Path) -> None:
    port, store = free_port(), tmp_path / "tasks.db"
    process = await started(port, store)
    asked: list[str] = []

    async def crash_and_answer(key: str, params: dict[str, Any]) -> dict[str, Any]:
        nonlocal process
        asked.append(params["message"])
        process.send_signal(signal.SIGKILL)
        await process.wait()
        process = await started(port, store)
        is_form = "nights" in params["requestedSchema"]["properties"]
        return {"action": "accept", "content": {"nights": 3} if is_form else {"approve": True}}

    try:
        async with client_of(f"http://127.0.0.1:{port}", Tasks(crash_and_answer)) as client:
            async with asyncio.timeout(120):
                result = await client.call_tool("pay", {"amount": 5})
    finally:
        process.kill()
        await process.wait()
    assert result.content[0].text == "paid 5 for 3 nights"
    assert len(asked) == 2
