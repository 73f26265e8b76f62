"""An agent that tests serve over MCP on standard input and output: plgrpc mcp mcp_agent:agent"""

from protolink_grpc import Agent, Task, ToolContext


class Greeter(Agent):
    async def handle_task(self, task: Task) -> Task:
        text = task.messages[-1].parts[0].content
        if text == "who?":
            task.require_input("Your name, please.")
            return task
        return task.complete(f"Hello {text}")


agent = Greeter("greeter", description="Greets.")


@agent.tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add two integers."""
    print("printed by a tool")
    return a + b


@agent.tool(destructive=True)
async def work(steps: int, context: ToolContext) -> dict[str, int]:
    """Work in steps."""
    for step in range(steps):
        await context.progress(100 * (step + 1) / steps, f"step {step + 1}")
    return {"steps": steps}


@agent.tool
def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)
