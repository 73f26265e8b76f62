"""An agent as an MCP server, and a client that answers its approval."""

import asyncio

from protolink_grpc import Agent, Approvals, CapabilityPolicy

agent = Agent(
    "cashier",
    description="Pays bills.",
    http="127.0.0.1:0",
    policy=CapabilityPolicy({"pay": "require_approval"}),
    approvals=Approvals(),
)


@agent.tool(capabilities=["pay"])
def pay(amount: int) -> str:
    """Pay a bill."""
    return f"paid {amount}"


async def main() -> None:
    from mcp import Client
    from mcp.types import ElicitResult

    async def answer(context: object, question: object) -> ElicitResult:
        print(getattr(question, "message", ""))
        return ElicitResult(action="accept", content={"approve": True})

    async with agent, Client(f"{agent.http_url}/mcp", elicitation_callback=answer) as client:
        print([tool.name for tool in (await client.list_tools()).tools])
        result = await client.call_tool("pay", {"amount": 5})
        print(result.content[0].text)


if __name__ == "__main__":
    asyncio.run(main())
