"""The size of the log of a task: each value is written once, also if several events are about it."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

from protolink_grpc import Agent, AgentClient, Approvals, CapabilityPolicy, SQLiteStore, Task
from protolink_grpc.llms import MockLLM
from protolink_grpc.models import events as ev
from protolink_grpc.models.action import Approval

ARGUMENT = "x" * 10_000


async def approved_call(store: SQLiteStore) -> tuple[list[bytes], list[ev.RunEvent], Approval]:
    """A model asks for one call with a large argument, which has to be approved.

    Returns:
        The frames of the log, its events as a reader sees them, and the approval as it was listed.
    """
    call = {"type": "tool_call", "tool": "send", "args": {"text": ARGUMENT}}
    policy = CapabilityPolicy({"mail.send": "require_approval"})
    card = {"name": "mail", "description": "Sends texts.", "url": "runtime://mail-of-a-size"}
    agent = Agent(
        card, llm=MockLLM(sequential_responses=[call, "sent"]), policy=policy, approvals=Approvals(), store=store
    )

    @agent.tool("send", "Sends a text.", capabilities=["mail.send"])
    async def send(text: str) -> str:
        return "ok"

    events, listed = list[ev.RunEvent](), list[Approval]()
    task = Task.create_infer(prompt="send it")
    client = AgentClient(card["url"])
    stream: Any = client.send_task_streaming(None, task)
    async with agent, asyncio.timeout(20), aclosing(stream):
        async for event in stream:
            events.append(event)
            if isinstance(event.payload, ev.ApprovalRequired):
                listed += (await client.list_approvals()).approvals
                await client.respond_approval(None, listed[0], True)
        return await store.read(task.id, 0, 1000), events, listed[0]


async def test_a_large_argument_of_an_approved_call_is_written_once(tmp_path: Path) -> None:
    frames, events, approval = await approved_call(SQLiteStore(tmp_path / "tasks.db"))
    assert sum(frame.count(ARGUMENT.encode()) for frame in frames) == 1
    assert sum(map(len, frames)) <= 20_000  # 40,600 bytes when each event about the call had its arguments
    arguments = {"text": ARGUMENT}
    by_type = {event.type: event.payload for event in events}
    assert by_type["llm.call.completed"] is not None
    requested: Any = by_type["action.requested"]
    asked: Any = by_type["approval.required"]
    started: Any = by_type["action.started"]
    assert requested.action.payload == asked.request.action.payload == {"arguments": arguments}
    assert asked.request.policy_decision == approval.request.policy_decision
    assert started.arguments == arguments
    assert approval.request.action == requested.action
    assert (approval.etag, asked.etag) == (requested.action.fingerprint, requested.action.fingerprint)
    (call,) = next(event.payload for event in events if event.type == "llm.call.completed").tool_calls  # type: ignore[union-attr]
    assert requested.action.call_id == call.call_id
