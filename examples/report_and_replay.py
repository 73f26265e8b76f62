"""Record a run, save its report without secrets, and replay it without executing anything."""

import asyncio
import json

from protolink_grpc import (
    Agent,
    RedactionPolicy,
    RunContext,
    RunRecorder,
    RunReplay,
    Task,
    assert_budget_under,
    assert_no_denied_actions,
    assert_run_events,
    create_llm,
)

lookup = {"type": "tool_call", "tool": "lookup_order", "args": {"customer": "42", "api_key": "sk-do-not-show"}}
agent = Agent(name="support", llm=create_llm("scripted", steps=[lookup, "The order was sent yesterday."]))


@agent.tool(read_only=True)
async def lookup_order(customer: str, api_key: str) -> dict[str, str]:
    """The state of a customer's order."""
    return {"customer": customer, "order": "sent"}


async def main() -> None:
    task = Task.create_infer(prompt="Where is the order of customer 42?")
    recorder = RunRecorder(context=RunContext.from_task(task))
    async for event in agent.handle_task_streaming(task):
        await recorder.record_task_event(event)

    report = recorder.to_report(metadata={"source": "example"})
    text = json.dumps(report.to_dict(redaction_policy=RedactionPolicy()))
    print("the key is in the report:", "sk-do-not-show" in text)

    replay = RunReplay(json.loads(text))
    assert_run_events(replay, ["context.prepared", "llm.call.started", "llm.call.completed", "action.completed"])
    assert_no_denied_actions(replay)
    used = assert_budget_under(replay, max_total_tokens=8_000)
    print(f"{used.llm_calls} model calls, {used.tool_calls} tool call")
    for event in replay.iter_events("action.completed"):
        print(event.sequence, event.summary)
    print(replay.report.final_task.get_output())


if __name__ == "__main__":
    asyncio.run(main())
