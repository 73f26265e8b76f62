"""The TypeScript SDK of MCP: its client against agents of this package, and its server as tools of an agent.

Needs node, npm and a registry to install the SDK from, once; without them the tests are skipped and say so.
"""

import asyncio
import json
import shutil

import pytest
from node_clients import FOLDER, obstacle

from protolink_grpc import (
    Agent,
    ApprovalDecision,
    ApprovalRequest,
    MCPToolAdapter,
    RunContext,
    Task,
    ToolContext,
    ToolFailedError,
    ToolRejectedError,
)

pytestmark = pytest.mark.timeout(300)

RUN_S = 90.0


@pytest.fixture(autouse=True)
def node() -> str:
    """The program that runs the SDK. Skips where it cannot run."""
    if why := obstacle():
        pytest.skip(f"the TypeScript SDK of MCP is not tested: {why}")
    return str(shutil.which("node"))


class Greeter(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.complete(f"Hello {task.messages[-1].text}")


async def test_its_client_calls_the_tools_of_an_agent(node: str) -> None:
    agent = Greeter("greeter", http="127.0.0.1:0")

    @agent.tool
    def add(a: int, b: int) -> int:
        return a + b

    @agent.tool
    async def work(steps: int, context: ToolContext) -> dict[str, int]:
        for step in range(steps):
            await context.progress(100 * (step + 1) / steps)
        return {"steps": steps}

    async with agent:
        process = await asyncio.create_subprocess_exec(
            node, "mcp_client.mjs", f"{agent.http_url}/mcp", cwd=FOLDER, stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(RUN_S):
            output, _ = await process.communicate()
    found = json.loads(output)
    assert found["server"] == "greeter"
    assert found["tools"] == ["add", "work", "send_task", "get_task", "cancel_task"]
    assert found["add"]["content"] == [{"type": "text", "text": "3"}]
    assert (found["wrong"]["isError"], found["wrong"]["structuredContent"]["code"]) == (True, "invalid_arguments")
    assert found["work"]["structuredContent"] == {"steps": 2}
    assert found["progress"][0] == 50
    assert found["task"]["structuredContent"]["text"] == "Hello Ada"


async def test_the_tools_of_its_server_are_tools_of_an_agent(node: str) -> None:
    async def answer(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        return ApprovalDecision(True, request.request_id, edited_arguments={"nights": 3})

    agent = Agent("host", approval_handler=answer)
    await agent.add_mcp(MCPToolAdapter("stdio", command=node, args=["mcp_server.mjs"], cwd=str(FOLDER)))
    async with agent:
        assert agent.tools["add"].read_only
        assert agent.tools["add"].input_schema["$schema"] == "http://json-schema.org/draft-07/schema#"
        assert await agent.call_tool("add", a=1, b=2, pair=[1, "x"]) == "3"
        with pytest.raises(ToolRejectedError, match=r"pair\[0\]"):
            await agent.call_tool("add", a=1, b=2, pair=["x", 1])
        with pytest.raises(ToolFailedError, match="no paper"):
            await agent.call_tool("fail")
        assert json.loads(await agent.call_tool("ask")) == {"action": "accept", "content": {"nights": 3}}
        assert await agent.call_tool("grow") == "grown"
        async with asyncio.timeout(RUN_S):
            while "extra" not in agent.tools:
                await asyncio.sleep(0.02)
        assert await agent.call_tool("extra") == "extra"
