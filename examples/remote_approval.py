"""A payment waits for an approval. The answer comes over the network, after the agent was restarted."""

import asyncio
import tempfile
from contextlib import aclosing
from pathlib import Path

from protolink_grpc import Agent, AgentClient, Approvals, CapabilityPolicy, SQLiteStore, Task, create_llm

paid: list[float] = []


def pay(to: str, amount: float) -> str:
    """Pay an invoice."""
    paid.append(amount)
    return f"{amount:.2f} paid to {to}"


def clerk(path: Path) -> Agent:
    agent = Agent(
        name="clerk",
        url="grpc://127.0.0.1:0",
        store=SQLiteStore(path),
        llm=create_llm(
            "scripted",
            steps=[{"type": "tool_call", "tool": "pay", "args": {"to": "ACME", "amount": 90}}, "The invoice is paid."],
        ),
        policy=CapabilityPolicy({"payments.write": {"effect": "require_approval", "editable": True}}),
        approvals=Approvals(remote=True),
    )
    agent.tool(capabilities=["payments.write"])(pay)
    return agent


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "tasks.db")
        async with clerk(path) as agent:
            asker = AgentClient(url=agent.card.url)
            task = await asker.submit_task(None, Task.create_infer(prompt="Pay the invoice of ACME."))
            async with aclosing(asker.watch_approvals()) as approvals:
                await anext(approvals)
            print(f"{(await asker.get_task(task.id)).state}, paid: {paid}")

        print("-- restart --")
        async with clerk(path) as agent:
            approver = AgentClient(url=agent.card.url)
            (approval,) = (await approver.list_approvals()).approvals
            action = approval.request.action
            print(f"waiting: {action.name} {action.payload['arguments']}")
            # The etag ensures that exactly the reviewed action is approved.
            answer = await approver.respond_approval(
                None,
                approval,
                approved=True,
                reason="minus the discount",
                edited_arguments={"to": "ACME", "amount": 80},
            )
            print(f"{answer.approval.state} by {answer.approval.decision.decided_by}")
            done = await approver.wait_task(task.id)
            print(f"{done.state}: {done.get_output()} paid: {paid}")


if __name__ == "__main__":
    asyncio.run(main())
