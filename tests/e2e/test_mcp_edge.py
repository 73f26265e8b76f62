"""Agents as MCP servers, called with the official client in both versions of the protocol, over HTTP and stdio."""

import asyncio
import os
import pty
import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp_agent import Greeter
from mcp_agent import agent as module_agent
from mcp_world import mcp_client

from protolink_grpc import (
    AccessRules,
    Agent,
    AgentClient,
    APIKeyAuth,
    Approvals,
    CapabilityPolicy,
    HttpOptions,
    MCPToolAdapter,
    Principal,
    RateLimit,
    SQLiteStore,
    ToolContext,
    ToolRejectedError,
)

MODES = ("auto", "legacy")


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """The version of the protocol: that of 2026, or the handshake of the older ones."""
    return str(request.param)


def greeter(**settings: Any) -> Agent:
    agent = Greeter("greeter", description="Greets.", **{"http": "127.0.0.1:0", **settings})
    for tool in module_agent.tools.values():
        agent.add_tool(tool)
    return agent


def client_of(agent: Agent, mode: str, headers: dict[str, str] | None = None) -> AbstractAsyncContextManager[Any]:
    return mcp_client(agent.http_url, headers, mode=mode)


async def test_the_tools_of_an_agent_are_listed_with_their_schemas_and_annotations(mode: str) -> None:
    async with greeter() as agent, client_of(agent, mode) as client:
        assert client.server_info.name == "greeter"
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["add", "fail", "work", "send_task", "get_task", "cancel_task"]
        assert tools["add"].input_schema == agent.tools["add"].input_schema
        assert tools["add"].annotations.read_only_hint
        assert tools["work"].annotations.destructive_hint
        assert tools["work"].output_schema == agent.tools["work"].output_schema


async def test_a_call_is_a_task_of_the_caller_with_its_log(mode: str) -> None:
    async with greeter() as agent, client_of(agent, mode) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert (result.is_error, result.content[0].text) == (False, "3")
        reports: list[tuple[float, str | None]] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            reports.append((done, message))

        result = await client.call_tool("work", {"steps": 2}, progress_callback=progress)
        assert result.structured_content == {"steps": 2}
        assert reports == [(50.0, "step 1"), (100.0, "step 2")]


async def test_a_rejected_a_failed_and_a_denied_call_are_errors_that_a_model_can_read(mode: str) -> None:
    policy = CapabilityPolicy({"danger": "deny"})
    agent = greeter(policy=policy)
    agent.tool(name="blow_up", capabilities=["danger"])(lambda: "boom")
    async with agent, client_of(agent, mode) as client:
        rejected = await client.call_tool("add", {"a": "x", "b": 2})
        assert rejected.is_error
        assert rejected.structured_content["code"] == "invalid_arguments"
        assert "a: Input should be a valid integer" in rejected.content[0].text
        assert rejected.content[0].text.endswith(". Correct the arguments using the tool's input schema.")
        failed = await client.call_tool("fail", {"reason": "no paper"})
        assert (failed.is_error, failed.structured_content["code"]) == (True, "TOOL_FAILED")
        assert "no paper" in failed.content[0].text
        denied = await client.call_tool("blow_up", {})
        assert denied.is_error
        assert "denied" in denied.content[0].text
        unknown = await client.call_tool("no_such_tool", {})
        assert unknown.structured_content["code"] == "unknown_tool"


async def test_the_agent_as_a_whole_takes_tasks_and_asks_for_input(mode: str) -> None:
    async with greeter() as agent, client_of(agent, mode) as client:
        done = (await client.call_tool("send_task", {"message": "Ada"})).structured_content
        assert (done["state"], done["text"]) == ("completed", "Hello Ada")
        asked = (await client.call_tool("send_task", {"message": "who?"})).structured_content
        assert (asked["state"], asked["text"]) == ("input-required", "Your name, please.")
        again = {"message": "Bob", "task_id": asked["task_id"]}
        assert (await client.call_tool("send_task", again)).structured_content["text"] == "Hello Bob"
        known = (await client.call_tool("get_task", {"task_id": asked["task_id"]})).structured_content
        assert known["state"] == "completed"


async def test_a_call_that_outlives_its_wait_has_a_handle_and_continues(mode: str) -> None:
    begun, release = asyncio.Event(), asyncio.Event()
    agent = Agent("slow", http=HttpOptions(max_wait_s=0.2))

    @agent.tool
    async def slow() -> str:
        begun.set()
        await release.wait()
        return "done at last"

    async with agent, client_of(agent, mode) as client:
        handle = (await client.call_tool("slow", {})).structured_content
        assert (handle["state"], begun.is_set()) == ("working", True)
        release.set()
        await AgentClient(url=agent.http_url).wait_task(handle["task_id"])
        found = (await client.call_tool("get_task", {"task_id": handle["task_id"]})).structured_content
        assert (found["state"], found["text"]) == ("completed", "done at last")


async def test_a_restart_loses_neither_clients_nor_tasks(tmp_path: Path, mode: str) -> None:
    agent = greeter(store=SQLiteStore(tmp_path / "tasks.db"))
    async with agent:
        port = int(agent.http_url.rpartition(":")[2])
        async with client_of(agent, mode) as client:
            task_id = (await client.call_tool("send_task", {"message": "Ada"})).structured_content["task_id"]
            await agent.aclose()
            agent.relocate(http=f"127.0.0.1:{port}")
            await agent.serve()
            found = await client.call_tool("get_task", {"task_id": task_id})
            assert found.structured_content["text"] == "Hello Ada"


async def test_callers_are_authenticated_admitted_and_own_their_tasks(mode: str) -> None:
    keys = {"key-of-ann": Principal("ann", frozenset({"tools"})), "key-of-bob": Principal("bob")}
    access = AccessRules({"*/CallTool": "tools"})
    async with greeter(authenticator=APIKeyAuth(keys), access=access) as agent:
        async with httpx.AsyncClient() as anyone:
            assert (await anyone.post(f"{agent.http_url}/mcp", json={})).status_code == 401
        async with (
            client_of(agent, mode, {"X-API-Key": "key-of-ann"}) as ann,
            client_of(agent, mode, {"X-API-Key": "key-of-bob"}) as bob,
        ):
            from mcp import MCPError

            assert (await ann.call_tool("add", {"a": 1, "b": 1})).content[0].text == "2"
            with pytest.raises(MCPError) as denied:
                await bob.call_tool("add", {"a": 1, "b": 1})
            assert denied.value.data["reason"] == "PERMISSION_DENIED"
            task_id = (await ann.call_tool("send_task", {"message": "Ada"})).structured_content["task_id"]
            with pytest.raises(MCPError) as hidden:
                await bob.call_tool("get_task", {"task_id": task_id})
            assert hidden.value.data["reason"] == "TASK_NOT_FOUND"


async def test_requests_are_bounded_like_those_of_other_routes() -> None:
    async with greeter(http=HttpOptions(max_body_bytes=1000), rate_limit=RateLimit(per_second=1, burst=2)) as agent:
        async with httpx.AsyncClient(base_url=agent.http_url) as client:
            assert (await client.post("/mcp", json={"text": "x" * 2000})).status_code == 413
            assert (await client.post("/mcp", content=b"{no json")).status_code == 400
            assert (await client.get("/mcp")).status_code == 405
            assert (await client.post("/mcp", json={}, headers={"Host": "evil.example"})).status_code == 421
        async with client_of(agent, "auto") as client_:
            from mcp import MCPError

            async def call_often() -> None:
                for _ in range(4):
                    await client_.call_tool("add", {"a": 1, "b": 1})

            with pytest.raises(MCPError) as limited:
                await call_often()
            assert limited.value.data["reason"] == "RESOURCE_EXHAUSTED"


async def answering(agent: Agent, answer: Any, tool: str, arguments: dict[str, Any]) -> tuple[Any, list[str]]:
    """Call a tool with a client whose person gives `answer` to each question. Returns the result and the questions."""
    from mcp import Client
    from mcp.types import ElicitResult

    asked: list[str] = []

    async def elicit(context: Any, params: Any) -> Any:
        asked.append(params.message)
        return ElicitResult(**answer)

    async with Client(f"{agent.http_url}/mcp", elicitation_callback=elicit) as client:
        return await client.call_tool(tool, arguments), asked


async def test_an_approval_is_a_question_to_a_client_that_can_ask_its_person() -> None:
    policy = CapabilityPolicy({"pay": "require_approval"})
    agent = Agent("cashier", http="127.0.0.1:0", policy=policy, approvals=Approvals())
    paid: list[int] = []
    agent.tool(name="pay", capabilities=["pay"])(lambda amount: paid.append(amount) or "paid")
    async with agent:
        yes, asked = await answering(agent, {"action": "accept", "content": {"approve": True}}, "pay", {"amount": 5})
        assert (yes.is_error, yes.content[0].text, paid) == (False, "paid", [5])
        assert len(asked) == 1
        assert asked[0].startswith("tool.call 'pay': {\"amount\":5}")
        for answer in ({"action": "decline"}, {"action": "accept", "content": {"approve": False, "reason": "no"}}):
            no, _ = await answering(agent, answer, "pay", {"amount": 5})
            assert (no.is_error, no.structured_content["code"]) == (True, "APPROVAL_DENIED")
        later, _ = await answering(agent, {"action": "cancel"}, "pay", {"amount": 5})
        assert later.structured_content["state"] == "working"
        assert paid == [5]


async def test_a_question_is_answered_after_a_restart(tmp_path: Path) -> None:
    from mcp import Client
    from mcp.types import ElicitResult

    policy = CapabilityPolicy({"pay": "require_approval"})
    store = SQLiteStore(tmp_path / "tasks.db")
    agent = Agent("cashier", http="127.0.0.1:0", policy=policy, approvals=Approvals(), store=store)
    paid: list[int] = []
    agent.tool(name="pay", capabilities=["pay"])(lambda amount: paid.append(amount) or "paid")

    async def restart(context: Any, params: Any) -> Any:
        port = agent.http_url.rpartition(":")[2]
        await agent.aclose()
        agent.relocate(http=f"127.0.0.1:{port}")
        await agent.serve()
        return ElicitResult(action="accept", content={"approve": True})

    async with agent, Client(f"{agent.http_url}/mcp", elicitation_callback=restart) as client:
        result = await client.call_tool("pay", {"amount": 5})
        assert (result.content[0].text, paid) == ("paid", [5])


async def test_a_question_of_a_tool_is_a_form_of_the_client() -> None:
    agent = Agent("hotel", http="127.0.0.1:0", approvals=Approvals())

    @agent.tool
    async def book(context: ToolContext) -> str:
        schema = {"type": "object", "properties": {"nights": {"type": "integer"}}, "required": ["nights"]}
        answer = await context.ask("How many nights?", schema)
        return f"{answer.values['nights']} nights" if answer.accepted else "nothing booked"

    async with agent:
        done, asked = await answering(agent, {"action": "accept", "content": {"nights": 2}}, "book", {})
        assert (done.content[0].text, asked) == ("2 nights", ["How many nights?"])
        done, _ = await answering(agent, {"action": "decline"}, "book", {})
        assert done.content[0].text == "nothing booked"


async def test_a_port_serves_no_mcp_if_it_is_turned_off() -> None:
    async with greeter(http=HttpOptions(mcp=False)) as agent, httpx.AsyncClient() as client:
        assert (await client.post(f"{agent.http_url}/mcp", json={})).status_code == 404


async def test_without_the_extra_the_answer_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    async with greeter() as agent, httpx.AsyncClient() as client:
        answer = await client.post(f"{agent.http_url}/mcp", json={})
        assert (answer.status_code, "protolink-grpc[mcp]" in answer.text) == (501, True)


async def test_an_agent_uses_the_tools_of_another_agent_over_mcp() -> None:
    async with greeter() as server:
        host = Agent("host", url="runtime://host")
        await host.add_mcp(transport="streamable_http", url=f"{server.http_url}/mcp", include=["add"], prefix="far_")
        async with host:
            assert await host.call_tool("far_add", a=2, b=2) == "4"
            with pytest.raises(ToolRejectedError):
                await host.call_tool("far_add", a=2)


def test_plgrpc_mcp_on_a_terminal_names_its_input_and_ends_with_it() -> None:
    terminal, stdin = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "protolink_grpc.cli", "mcp", "mcp_agent:agent"],
        cwd=Path(__file__).parent,
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(stdin)
        assert process.stderr is not None
        assert "reads MCP messages from standard input, and Ctrl-D ends it" in process.stderr.readline()
        os.write(terminal, b"\x04")
        assert process.wait(timeout=30) == 0
    os.close(terminal)


async def test_plgrpc_mcp_serves_an_agent_on_standard_input_and_output() -> None:
    folder = str(Path(__file__).parent)
    command = ["-m", "protolink_grpc.cli", "mcp", "mcp_agent:agent"]
    adapter = MCPToolAdapter(command=sys.executable, args=command, cwd=folder, env={"PYTHONPATH": folder})
    async with adapter as server:
        assert await server.call_tool("add", {"a": 1, "b": 2}) == "3"
        done = await server.call_tool("send_task", {"message": "Ada"})
        assert done["text"] == "Hello Ada"
