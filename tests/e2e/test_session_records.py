"""The records of a real session follow the rules of the Agent Runtime contract: ids, order, and pairs of begin and end."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

from valid_logs import violations_of

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    Approval,
    Approvals,
    ApprovalState,
    Artifact,
    CapabilityPolicy,
    Message,
    MockLLM,
    Part,
    Task,
    TurnState,
)
from protolink_grpc.agentruntime.validator.lifecycles import LIFECYCLES
from protolink_grpc.models.session import SessionItem
from protolink_grpc.reports import SessionExport

WAIT_S = 30.0
"""Bound of what must happen soon; reached only by a failure."""

Record = dict[str, Any]


IDS = {
    "tool": {"threadId", "turnId", "taskId", "runId", "stepId", "toolCallId", "spanId"},
    "tool.catalog": {"threadId", "turnId", "taskId", "runId"},
    "permission": {"threadId", "turnId", "taskId", "toolCallId"},
    "action": {"threadId", "turnId", "taskId", "toolCallId", "actionId"},
    "model": {"threadId", "turnId", "taskId", "stepId", "modelRequestId"},
    "cost": {"threadId", "turnId", "modelRequestId"},
    "turn": {"threadId", "turnId", "taskId"},
    "queue": {"threadId", "turnId", "queueId"},
    "task": {"threadId", "turnId", "taskId"},
    "thread": {"threadId"},
}
"""The ids that records need, by the first words of their types. All need those of the envelope."""

ENVELOPE = {"type", "eventId", "timestamp", "sequence", "schemaVersion", "runtimeId", "sessionId", "payload", "refs"}


def check(records: list[Record]) -> None:
    """Check the rules for a session in which no work is open."""
    assert violations_of(records) == []
    for record in records:
        family = record["type"].rpartition(".")[0]
        missing = (ENVELOPE | IDS.get(family, IDS.get(family.split(".")[0], set()))) - record.keys()
        assert not missing, record
    for turn_id in {record["turnId"] for record in records if "turnId" in record}:
        kinds = [record["type"] for record in records if record.get("turnId") == turn_id]
        assert kinds[0] == "turn.submitted", kinds
        assert kinds[-1] in ("turn.completed", "turn.failed"), kinds
    for call_id in {record["toolCallId"] for record in records if "toolCallId" in record}:
        kinds = [record["type"] for record in records if record.get("toolCallId") == call_id]
        assert kinds[:2] == ["permission.evaluated", "tool.started"], kinds
        assert kinds[-1] in ("tool.result", "tool.failed"), kinds


PAIRED = {kind for row in LIFECYCLES for kind in (row.begin, *row.end)} - {"turn.completed", "turn.failed"}
"""The types whose records cannot be missing: a log may end before the end of a turn, and never before that of its work."""


def clerk() -> Agent:
    card = AgentCard(name="clerk", description="books", url="runtime://records-of-sessions")
    policy = CapabilityPolicy({"money.spend": "ask", "money.burn": "deny"})
    script = [{"type": "tool_call", "tool": "look", "args": {"city": "Lyon"}}, "sunny"]
    agent = Agent(card, policy=policy, approvals=Approvals(), llm=MockLLM(sequential_responses=script), grace_s=0.1)

    @agent.tool(capabilities=["money.spend"])
    def book(nights: int) -> str:
        return f"{nights} nights"

    @agent.tool(capabilities=["money.burn"])
    def burn() -> str:
        return "burnt"

    @agent.tool
    def look(city: str) -> str:
        return f"{city} in the sun"

    return agent


async def test_the_records_of_a_session_with_approvals_denials_and_an_interrupt_follow_the_rules() -> None:
    async with asyncio.timeout(WAIT_S), clerk() as agent:
        client = AgentClient(url=agent.card.url, timeout=WAIT_S)
        sessions = client.sessions
        asked = client.watch_approvals()

        async def call(turn_id: str, tool: str, **arguments: Any) -> None:
            await sessions.submit("s", Task.create_tool_call(tool, arguments), turn_id=turn_id)

        async def next_open() -> Approval:
            """The next approval that waits for an answer; the stream has the answered ones, too."""
            while (approval := await anext(asked)).state is not ApprovalState.PENDING:
                pass
            return approval

        async def end_of(turn_id: str) -> None:
            async for _ in sessions.stream("s", turn_id):
                pass

        async with aclosing(asked):
            await call("approved", "book", nights=2)
            await call("burn", "burn")
            await client.respond_approval(None, await next_open(), True)
            await call("refused", "book", nights=3)
            await client.respond_approval(None, await next_open(), False, reason="too long")
            await end_of("refused")
            await call("interrupted", "book", nights=4)
            await call("removed", "look", city="Nice")
            await next_open()
            await sessions.interrupt("s", clear_queue=True)
            await end_of("interrupted")
        await sessions.submit("s", "how is the weather?", turn_id="model")
        await end_of("model")
        page = await sessions.get("s")
        assert {turn.state for turn in page.turns} == {TurnState.ENDED}
        items = list[SessionItem]()
        async with aclosing(sessions.subscribe("s")) as stream:
            while len(items) < page.session.position:
                items.append(await anext(stream))
    records = [*SessionExport("s", "clerk").records(items)]
    check(records)
    for place, record in enumerate(records, 1):
        assert [*SessionExport("s", "clerk", record["sequence"]).records(items)] == records[place:]
    for place, record in enumerate(records):
        if record["type"] in PAIRED:
            assert violations_of([*records[:place], *records[place + 1 :]]) != [], record
    decisions = [record["payload"]["decision"] for record in records if record["type"] == "action.resolved"]
    assert decisions == ["allow", "deny", "cancelled"]
    failed = {record["turnId"]: record["payload"] for record in records if record["type"] == "tool.failed"}
    assert {turn_id: payload["status"] for turn_id, payload in failed.items()} == {
        "burn": "denied",
        "refused": "denied",
        "interrupted": "cancelled",
    }
    ends = {record["turnId"]: record["payload"]["status"] for record in records if record["type"] == "turn.failed"}
    assert (ends["interrupted"], ends["removed"]) == ("cancelled", "cancelled")


MEGABYTE = 1 << 20
BYTES = bytes(range(256)) * (MEGABYTE // 256)


class Printer(Agent):
    """Its tools return a text of 3 MB, a picture of 1 MB, and a text that is too large for an event."""

    def __init__(self) -> None:
        super().__init__(AgentCard(name="printer", description="prints", url="runtime://printer"))
        for tool in (self.print_book, self.draw, self.print_library):
            self.tool(tool)

    async def print_book(self) -> str:
        return "b" * 3 * MEGABYTE

    async def draw(self) -> Artifact:
        return Artifact("picture", [Part.file(BYTES, name="a.png", media_type="image/png")], name="Lyon")

    async def print_library(self) -> str:
        return "l" * 5 * MEGABYTE


async def test_large_values_are_references_to_the_events_that_have_them() -> None:
    message = Message.user("x" * MEGABYTE)
    message.parts.append(Part.file(BYTES, name="b.bin", media_type="application/octet-stream"))
    async with asyncio.timeout(WAIT_S), Printer() as agent:
        client = AgentClient(url=agent.card.url, timeout=WAIT_S)
        tasks = [Task.create_tool_call(tool, {}) for tool in ("print_book", "draw", "print_library")]
        for task in (*tasks, Task(messages=[message])):
            async for _ in client.sessions.stream("s", await client.sessions.submit("s", task)):
                pass
        records = [each async for each in client.sessions.runtime_events("s", stop_at_end=True)]
        found = [
            (each, value)
            for each in records
            for value in each["payload"].values()
            if isinstance(value, dict) and "outputRef" in value
        ]
        for record, value in found:
            task_id, _, sequence = value["outputRef"].rpartition("/")
            assert (task_id, len(value["preview"])) == (record["taskId"], 1000)
            events = client.subscribe(task_id, after=int(sequence) - 1)
            async with aclosing(events):
                event = await anext(events)
            assert event.event_id == value["outputRef"] == record["refs"]["sourceEventId"]
    assert violations_of(records) == []
    assert max(len(json.dumps(each)) for each in records) < 16_000
    sizes = {record["type"]: value["bytes"] for record, value in found}
    assert sizes["task.created"] > MEGABYTE + len(BYTES)
    assert sizes["tool.result"] > len(BYTES)
    assert sizes["artifact.changed"] > len(BYTES)
    (failed,) = [each for each in records if each["type"] == "tool.failed"]
    assert (failed["payload"]["toolName"], failed["payload"]["failureCategory"]) == ("print_library", "outcome_unknown")
    turn = next(each for each in records if each["type"] == "turn.failed" and each["turnId"] == failed["turnId"])
    assert "larger than the limit" in turn["payload"]["statusReason"]
