"""A model publishes a record: the policy requires an approval with a preview, and a stricter caller's policy denies it."""

import asyncio

from protolink_grpc import (
    Agent,
    ApprovalDecision,
    ApprovalRequest,
    Artifact,
    CapabilityPolicy,
    InMemoryEventSink,
    Part,
    RunAction,
    RunContext,
    Task,
    create_llm,
)

record = {"id": "42", "status": "draft"}
"""The records, which must not change without an approval."""


def preview(arguments: dict[str, str], context: RunContext) -> RunAction:
    """Build the preview for the approver. It has no effects."""
    change = {"record": arguments["record_id"], "status": f"{record['status']} -> published"}
    return RunAction(
        kind="tool.call",
        name="publish_record",
        payload={"arguments": arguments},
        artifacts=(Artifact(kind="preview", name="publication", parts=[Part.json(change)]),),
    )


async def approve(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
    """Print the preview and approve, in place of a dialog."""
    shown = request.action.artifacts[0].parts[0].content
    print(f"approve {request.action.name}? {shown['status']}: yes")
    return ApprovalDecision(approved=True, request_id=request.request_id, decided_by="operator")


agent = Agent(
    name="publisher",
    llm=create_llm(
        "scripted",
        steps=[
            {"type": "tool_call", "tool": "publish_record", "args": {"record_id": "42"}},
            {"type": "final", "content": "Record 42 is published."},
        ],
    ),
    policy=CapabilityPolicy({"records.read": "allow", "records.write": "require_approval"}),
    approval_handler=approve,
)


@agent.tool(capabilities=["records.write"], action_builder=preview)
async def publish_record(record_id: str) -> dict[str, str]:
    """Publish a record."""
    record["status"] = "published"
    return {"record_id": record_id, "status": record["status"]}


async def ask(context: RunContext) -> Task:
    """Send a task with a context, print the relevant events, and return the task."""
    task = context.attach_to_task(Task.create_infer(prompt="Publish record 42"))
    sink = InMemoryEventSink()
    async for event in agent.handle_task_streaming(task):
        await sink.emit_task_event(event, context=RunContext.from_task(task))
    for item in sink.to_list():
        if item["type"].startswith(("action.", "approval.")) or item["final"]:
            print(f"  {item['sequence']:>2} {item['type']:<18} {item['summary']}")
    return await agent.get_task(task.id)


async def main() -> None:
    print("1. With an approval")
    done = await ask(RunContext(run_id="run_1", session_id="demo"))
    print(f"{done.state}: {done.get_output()} The record is {record['status']}.")
    record["status"] = "draft"
    print("2. The caller allows no writing")
    refused = await ask(RunContext(run_id="run_2", session_id="demo", permissions={"records.write": "deny"}))
    print(f"{refused.state}: {refused.metadata['error']}. The record is {record['status']}.")


if __name__ == "__main__":
    asyncio.run(main())
