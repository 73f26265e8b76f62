"""Tools of MCP servers in agents: real servers over all transports, and servers that die, hang, change and send junk."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_world import McpWorld, raw_adapter

from protolink_grpc import (
    Agent,
    AgentClient,
    ApprovalDecision,
    ApprovalRequest,
    Approvals,
    CapabilityPolicy,
    InvalidArgumentError,
    MCPToolAdapter,
    Message,
    Part,
    RunBudget,
    RunContext,
    ScriptedLLM,
    Task,
    ToolError,
    ToolFailedError,
    ToolRejectedError,
    ToolTimeoutError,
    UnavailableError,
    UnimplementedError,
)

TRANSPORTS = ("stdio", "sse", "streamable_http")


@pytest.fixture(params=TRANSPORTS)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[McpWorld]:
    """A server of its own, over each of the transports."""
    world = McpWorld(request.param, tmp_path / "notes.txt")
    await world.start()
    yield world
    await world.kill()


@pytest.fixture(params=["sse", "streamable_http"])
async def http_world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[McpWorld]:
    """A server of its own, over each of the transports with HTTP."""
    world = McpWorld(request.param, tmp_path / "notes.txt")
    await world.start()
    yield world
    await world.kill()


@pytest.fixture
async def stdio(tmp_path: Path) -> McpWorld:
    return McpWorld("stdio", tmp_path / "notes.txt")


@asynccontextmanager
async def agent_with(adapter: MCPToolAdapter, **settings: Any) -> AsyncIterator[Agent]:
    options = {name: settings.pop(name) for name in ("include", "prefix") if name in settings}
    agent = Agent("host", url="runtime://mcp-host", **settings)
    await agent.add_mcp(adapter, **options)
    async with agent:
        yield agent


def calling(name: str, **arguments: Any) -> Task:
    return Task.of(Message(role="user", parts=[Part.tool_call(name, arguments)]))


async def until(condition: Any) -> None:
    """Wait for something that another process causes."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


async def test_tools_of_a_server_are_tools_of_the_agent(world: McpWorld) -> None:
    async with agent_with(world.adapter()) as agent:
        add = agent.tools["add"]
        assert add.input_schema == {
            "type": "object",
            "properties": {"a": {"title": "A", "type": "integer"}, "b": {"title": "B", "type": "integer"}},
            "required": ["a", "b"],
            "title": "addArguments",
        }
        assert (add.title, add.description, add.tags) == ("Adds", "Add two integers.", ["mcp"])
        assert "add" in {skill.id for skill in agent.card.skills}
        assert await agent.call_tool("add", a=2, b=3) == {"result": 5}
        assert await agent.call_tool("note", text="x") == "noted x"
        assert await agent.call_tool("picture") == {
            "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
        }
        assert world.noted() == ["x"]


async def test_the_inventory_names_the_server_of_each_tool(stdio: McpWorld) -> None:
    async with agent_with(stdio.adapter(), policy=CapabilityPolicy({"mcp.write": "deny"})):
        found = await AgentClient(url="runtime://mcp-host").snapshots.tools()
    assert {each.runtime_owner for each in found.tools} == {f"mcp:{Path(sys.executable).name}"}
    effects = {each.tool.name: str(each.tool.effect) for each in found.tools}
    assert (effects["add"], effects["note"]) == ("allow", "deny")


async def test_one_session_serves_concurrent_calls(world: McpWorld) -> None:
    async with agent_with(world.adapter()) as agent:
        results = await asyncio.gather(*(agent.call_tool("add", a=n, b=n) for n in range(20)))
        assert results == [{"result": 2 * n} for n in range(20)]


async def test_the_schema_of_the_server_rejects_arguments_before_a_call(world: McpWorld) -> None:
    async with agent_with(world.adapter()) as agent:
        with pytest.raises(ToolRejectedError, match="text") as caught:
            await agent.call_tool("note", text=7)
        assert caught.value.to_dict()["code"] == "invalid_arguments"
        assert caught.value.details == {
            "errors": [{"path": "text", "message": 'Input should satisfy type "string"', "type": "type"}]
        }
        assert world.noted() == []


async def test_annotations_are_attributes_and_capabilities(stdio: McpWorld) -> None:
    async with agent_with(stdio.adapter(capabilities=["rooms"])) as agent:
        found = {
            name: (tool.read_only, tool.idempotent, tool.destructive, sorted(tool.capabilities))
            for name, tool in agent.tools.items()
        }
    assert found["add"] == (True, True, False, ["mcp.read", "rooms"])
    assert found["note"] == (False, False, False, ["mcp.write", "rooms"])
    assert found["erase"] == (False, True, True, ["mcp.destructive", "mcp.write", "rooms"])
    # A tool without annotations may be destructive, as MCP says.
    assert found["hang"] == (False, False, False, ["mcp.destructive", "mcp.write", "rooms"])


async def test_annotations_of_a_server_that_is_not_trusted_are_ignored(stdio: McpWorld) -> None:
    async with agent_with(stdio.adapter(trust_annotations=False)) as agent:
        add = agent.tools["add"]
        assert (add.read_only, add.idempotent, sorted(add.capabilities)) == (
            False,
            False,
            ["mcp.destructive", "mcp.write"],
        )


async def test_calls_pass_the_policy_of_the_agent(stdio: McpWorld) -> None:
    policy = CapabilityPolicy({"mcp.read": "allow", "mcp.*": "deny"})
    async with agent_with(stdio.adapter(), policy=policy) as agent:
        assert await agent.call_tool("add", a=1, b=1) == {"result": 2}
        task = await agent.run_task(calling("note", text="x"))
        assert (str(task.state), task.failure.reason if task.failure else None) == ("failed", "ACTION_DENIED")
        assert stdio.noted() == []


async def test_an_error_of_a_tool_is_the_text_of_the_server(world: McpWorld) -> None:
    async with agent_with(world.adapter()) as agent:
        with pytest.raises(ToolFailedError, match=r"Tool 'fail' failed: .*no paper"):
            await agent.call_tool("fail", reason="no paper")
        task = await agent.run_task(calling("fail", reason="no paper"))
        assert task.failure is not None
        assert (task.failure.reason, task.failure.origin) == ("TOOL_FAILED", "fail")
        assert "no paper" in task.failure.message


async def test_an_error_of_the_protocol_is_a_structured_rejection() -> None:
    async with agent_with(raw_adapter()) as agent:
        with pytest.raises(ToolRejectedError) as caught:
            await agent.call_tool("refuse")
        assert caught.value.to_dict() == {
            "status": "rejected",
            "changes_made": False,
            "code": "invalid_arguments",
            "message": "Tool 'refuse' was rejected: not on Sundays",
            "details": {"mcp_code": -32602},
            "suggestion": None,
        }


async def test_progress_of_a_server_is_progress_of_the_task(world: McpWorld) -> None:
    async with agent_with(world.adapter()) as agent:
        events = [event async for event in agent.run_task_streaming(calling("steps", count=4))]
    reports = [(each.payload.progress, each.payload.message) for each in events if each.type == "task.progress"]
    assert reports == [(25.0, "step 1"), (50.0, "step 2"), (75.0, "step 3"), (100.0, "step 4")]


async def test_include_and_prefix_choose_tools_and_their_names(stdio: McpWorld) -> None:
    async with agent_with(stdio.adapter(), include=["add"], prefix="math.") as agent:
        assert list(agent.tools) == ["math.add"]
        assert await agent.call_tool("math.add", a=1, b=1) == {"result": 2}
        with pytest.raises(InvalidArgumentError, match="no tools named fly"):
            await agent.add_mcp(stdio.adapter(), include=["fly"])
        with pytest.raises(InvalidArgumentError, match=r"two tools would be named math\.add"):
            await agent.add_mcp(stdio.adapter(), include=["add"], prefix="math.")
        assert list(agent.tools) == ["math.add"]


async def test_changes_of_the_tools_are_followed(world: McpWorld) -> None:
    async with agent_with(world.adapter(), prefix="m_") as agent:
        assert await agent.call_tool("m_grow", name="extra") == "grown"
        await until(lambda: "m_extra" in agent.tools)
        assert await agent.call_tool("m_extra") == "I am extra"
        assert "m_extra" in {skill.id for skill in agent.card.skills}
        await agent.call_tool("m_shrink", name="extra")
        await until(lambda: "m_extra" not in agent.tools)
        assert "m_extra" not in {skill.id for skill in agent.card.skills}


async def test_a_server_of_the_older_protocol_is_followed_too() -> None:
    async with agent_with(raw_adapter()) as agent:
        await agent.call_tool("grow")
        await until(lambda: "grown" in agent.tools)


async def test_a_call_whose_server_dies_has_an_unknown_outcome_and_is_not_repeated(world: McpWorld) -> None:
    async with agent_with(world.adapter()) as agent:
        with pytest.raises(ToolFailedError, match="the outcome is unknown"):
            await agent.call_tool("die", text="once")
        assert world.noted() == ["once"]
        await world.wait()
        await world.start()
        # The next call opens a new session.
        assert await agent.call_tool("note", text="again") == "noted again"


async def test_an_idempotent_call_is_repeated_after_its_server_died(stdio: McpWorld) -> None:
    async with agent_with(stdio.adapter()) as agent:
        assert await agent.call_tool("die_once", text="x") == "alive"
        assert stdio.noted() == ["x", "x"]


async def test_a_server_that_was_killed_and_came_back_is_used_again(http_world: McpWorld) -> None:
    async with agent_with(http_world.adapter()) as agent:
        assert await agent.call_tool("add", a=1, b=1) == {"result": 2}
        await http_world.kill()
        with pytest.raises(ToolFailedError):
            await agent.call_tool("note", text="lost")
        await http_world.start()
        assert await agent.call_tool("note", text="back") == "noted back"
        assert http_world.noted() == ["back"]


async def test_a_call_that_hangs_times_out_and_the_session_stays(world: McpWorld) -> None:
    async with agent_with(world.adapter(timeout_s=0.5)) as agent:
        with pytest.raises(ToolTimeoutError):
            await agent.call_tool("hang")
        assert await agent.call_tool("add", a=1, b=1) == {"result": 2}


async def test_a_server_that_answers_nothing_is_unavailable_after_the_timeout() -> None:
    with pytest.raises(UnavailableError, match=r"did not answer within 0\.5 s"):
        await Agent("silent").add_mcp(raw_adapter(["silent"], connect_timeout_s=0.5))


@pytest.mark.parametrize(
    "adapter",
    [
        pytest.param(lambda: raw_adapter(["exit"]), id="ends at once"),
        pytest.param(lambda: MCPToolAdapter("stdio", command="/no/such/program"), id="does not exist"),
        pytest.param(lambda: MCPToolAdapter("stdio", command="cat"), id="is no MCP server"),
        pytest.param(lambda: MCPToolAdapter("sse", url="http://127.0.0.1:9/sse"), id="does not listen (SSE)"),
        pytest.param(lambda: MCPToolAdapter("streamable_http", url="http://127.0.0.1:9/mcp"), id="does not listen"),
    ],
)
async def test_a_server_that_cannot_be_used_is_unavailable(adapter: Any) -> None:
    agent = Agent("none")
    with pytest.raises(UnavailableError, match="MCP server"):
        await agent.add_mcp(adapter())
    assert agent.tools == {}


async def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(UnimplementedError, match=r"pip install 'protolink-grpc\[mcp\]'"):
        await Agent("host").add_mcp(raw_adapter())


async def test_junk_between_the_messages_is_ignored() -> None:
    async with agent_with(raw_adapter(["junk"])) as agent:
        assert await agent.call_tool("echo", text="still here") == "still here"


async def test_an_answer_that_is_no_result_fails_the_call() -> None:
    async with agent_with(raw_adapter(["wrong"])) as agent:
        with pytest.raises(ToolFailedError, match="the answer of the MCP server is invalid"):
            await agent.call_tool("echo", text="x")


async def test_tools_with_schemas_that_cannot_be_enforced_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async with agent_with(raw_adapter(["schemas"])) as agent:
        assert not {"remote", "invalid", "slow_pattern"} & set(agent.tools)
        assert await agent.call_tool("echo", text="x") == "x"
    left_out = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert len({text.partition("'")[2].partition("'")[0] for text in left_out}) == 3


async def test_a_schema_of_draft_7_is_enforced_and_an_unusual_name_is_changed() -> None:
    async with agent_with(raw_adapter()) as agent:
        assert await agent.call_tool("files_read_2", pair=[1, "a"]) == '{"pair": [1, "a"]}'
        for wrong in ([1, 2], [1, "a", 3]):
            with pytest.raises(ToolRejectedError):
                await agent.call_tool("files_read_2", pair=wrong)


async def test_resources_and_prompts_are_listed_and_read(world: McpWorld) -> None:
    async with world.adapter() as server:
        assert {each["uri"] for each in await server.list_resources()} == {"memo://today", "memo://logo"}
        assert [part.content for part in await server.read_resource("memo://today")] == ["buy milk"]
        picture = (await server.read_resource("memo://logo"))[0].content
        assert (picture.data, picture.media_type) == (b"\x89PNG", "image/png")
        assert [each["name"] for each in await server.list_prompts()] == ["greet"]
        messages = await server.get_prompt("greet", {"who": "Ada"})
        assert [(each.role, each.parts[0].content) for each in messages] == [("user", "Say hello to Ada.")]
        with pytest.raises(InvalidArgumentError, match=r"uri: MCP server .*memo://none"):
            await server.read_resource("memo://none")
        with pytest.raises(InvalidArgumentError, match="name: MCP server"):
            await server.get_prompt("no such prompt")


async def answer_nights(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
    assert request.action.payload["message"] == "How many nights?"
    return ApprovalDecision(True, request.request_id, edited_arguments={"nights": 3})


async def test_a_question_of_a_server_is_answered_as_an_approval(world: McpWorld) -> None:
    async with agent_with(world.adapter(), approval_handler=answer_nights) as agent:
        assert await agent.call_tool("book") == "3 nights"
        task = await agent.run_task(calling("book"))
        assert str(task.state) == "completed"
        assert world.noted() == ["booked 3", "booked 3"]


async def test_a_question_without_an_approver_is_declined(stdio: McpWorld) -> None:
    async with agent_with(stdio.adapter()) as agent:
        with pytest.raises(ToolFailedError, match="book"):
            await agent.call_tool("book")
        assert stdio.noted() == []


async def test_an_answer_that_does_not_satisfy_the_schema_is_declined() -> None:
    async def answer(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        return ApprovalDecision(True, request.request_id, edited_arguments={"name": 7})

    async with agent_with(raw_adapter(), approval_handler=answer) as agent:
        declined = json.loads(await agent.call_tool("ask"))
        assert declined["action"] == "decline"
        assert "name: Input should satisfy" in declined["_meta"]["reason"]


async def test_a_question_of_the_older_protocol_reaches_remote_approvers_and_is_checked() -> None:
    async with agent_with(raw_adapter(), approvals=Approvals()) as agent:
        client = AgentClient()
        work = asyncio.create_task(agent.run_task(calling("ask")))
        approval = await anext(aiter(client.watch_approvals(agent.card.url)))
        assert approval.request.editable
        with pytest.raises(InvalidArgumentError, match="name: Field required"):
            await client.respond_approval(agent.card.url, approval, True, edited_arguments={})
        await client.respond_approval(agent.card.url, approval, True, edited_arguments={"name": "Ada"})
        task = await work
        assert task.failure is None
        output = next(part.content for artifact in task.artifacts for part in artifact.parts)
        assert json.loads(output.result) == {"action": "accept", "content": {"name": "Ada"}}


async def test_a_server_asks_the_model_of_the_agent_under_its_budget(world: McpWorld) -> None:
    model = ScriptedLLM(["Lima."])
    async with agent_with(world.adapter(sampling=True), llm=model) as agent:
        events = [event async for event in agent.run_task_streaming(calling("think"))]
        output = next(each.payload for each in events if each.type == "task.artifact").artifact.parts[0].content
        assert output.result == "the model says Lima."
        assert [each.payload.text for each in events if each.type == "llm.call.completed"] == ["Lima."]
        assert [each.payload.action.kind for each in events if each.type == "action.requested"] == [
            "tool.call",
            "model.sample",
        ]
        request = model.requests[0]
        assert "capital" not in request.system
        assert [each.content for each in request.messages] == ["Answer in one word.", "What is the capital of Peru?"]


async def test_a_server_does_not_reach_the_model_without_permission(stdio: McpWorld) -> None:
    for adapter, settings in (
        (stdio.adapter(), {}),
        (stdio.adapter(sampling=True), {"policy": CapabilityPolicy({"model.sample": "deny"})}),
        (stdio.adapter(sampling=True), {"budget": RunBudget(max_llm_calls=0)}),
    ):
        model = ScriptedLLM(["Lima."])
        async with agent_with(adapter, llm=model, **settings) as agent:
            with pytest.raises(ToolError, match="think"):
                await agent.call_tool("think")
        assert model.requests == []


async def test_the_session_ends_with_the_agent_and_begins_again_with_it(stdio: McpWorld) -> None:
    adapter = stdio.adapter()
    async with agent_with(adapter) as agent:
        assert await agent.call_tool("add", a=1, b=1) == {"result": 2}
    assert adapter._session is None
    async with agent:
        assert await agent.call_tool("add", a=1, b=2) == {"result": 3}


async def test_an_agent_starts_without_a_server_that_is_unavailable(http_world: McpWorld) -> None:
    async with agent_with(http_world.adapter()) as agent:
        assert await agent.call_tool("add", a=1, b=1) == {"result": 2}
    await http_world.kill()
    async with agent:
        with pytest.raises(ToolFailedError, match="cannot be used"):
            await agent.call_tool("note", text="x")
        await http_world.start()
        assert await agent.call_tool("note", text="x") == "noted x"


def test_an_adapter_moves_to_the_event_loop_that_uses_it(stdio: McpWorld) -> None:
    adapter = stdio.adapter()
    tools = {tool.name: tool for tool in adapter.get_tools()}  # on the background loop

    async def use() -> Any:
        try:
            return await tools["add"](a=1, b=1)
        finally:
            await adapter.aclose()

    assert asyncio.run(use()) == {"result": 2}
    assert asyncio.run(use()) == {"result": 2}
    assert "add" in {each["name"] for each in adapter.list_tools()}


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"transport": "stdio"}, "command"),
        ({"transport": "stdio", "command": "x", "url": "http://x"}, "url"),
        ({"transport": "sse"}, "url"),
        ({"transport": "streamable_http", "url": "ftp://x"}, "url"),
        ({"transport": "carrier pigeon", "command": "x"}, "transport"),
        ({"transport": "stdio", "command": "x", "timeout_s": 0.0}, "timeout_s"),
        ({"transport": "sse", "url": "http://example.com/sse", "headers": {"Authorization": "Bearer x"}}, "metadata"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        MCPToolAdapter(**settings)
    assert caught.value.field == field
