"""An agent that dies at a given point, and is started again: `test_resume` runs this file as a process.

The process imports once and forks for each life, because a life is short and an import is long. Each plan is a list of deaths; each
but the last life of a plan must end with one of them, by SIGKILL. The last one goes on to the end and prints what there is to see.
A death is a number, the length of the log at which it comes, or "before book", "after book": around what that tool does, or
"before the end": when everything is done, and nothing of the last append is written.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from protolink_grpc import (
    Agent,
    AgentClient,
    Approvals,
    ApprovalState,
    CapabilityPolicy,
    Limits,
    Message,
    Part,
    RunContext,
    SQLiteStore,
    Task,
    ToolContext,
    UnavailableError,
    current_run,
)
from protolink_grpc.llms.mock import ScriptedLLM, place
from protolink_grpc.llms.port import ModelItem, ModelRequest
from protolink_grpc.models.lifecycle import TERMINAL, TaskState
from protolink_grpc.storage.port import Append, RequestRecord
from protolink_grpc.wire.events import event_from_frame

TASK_ID = "the task"
TOOLS = ("look", "book", "mail")
AT_ONCE = {"effect": "ask", "expires_s": 1e-6}
"""Of questions that are over when they are asked."""

SCRIPT: list[Any] = [*({"type": "tool_call", "tool": name, "args": {}} for name in TOOLS), "all done"]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # never over: the signal ends the process first


class Mortal(SQLiteStore):
    """Ends its process when a log has so many events (0: never). An append with more events is cut there.

    The facts that a run emits may be committed in any groups, also together with the end of the run, so each cut between them is a
    possible crash. The end itself (the handler's last messages, metadata and the status) is one fact and is never cut.
    """

    def __init__(self, path: Path, dies_at: int, *, dies_before_end: bool = False) -> None:
        super().__init__(path)
        self._dies_at = dies_at
        self._dies_before_end = dies_before_end

    async def append(self, append: Append) -> RequestRecord | None:
        if self._dies_before_end and append.head.state in TERMINAL:
            die()
        if not append.expected_sequence < self._dies_at <= append.head.sequence:
            return await super().append(append)
        count = self._dies_at - append.expected_sequence
        if count <= len(append.events) - events_of_end(append):
            append = await self._cut(append, count)
        await super().append(append)
        die()
        raise AssertionError("the process is dead")

    async def _cut(self, append: Append, count: int) -> Append:
        last = append.expected_sequence + count
        before = await self.head(append.head.task_id)
        state = TaskState.SUBMITTED if before is None else before.state
        records = [
            each for each in append.records if max(each.record.ask_sequence, each.record.answer_sequence) <= last
        ]
        head = replace(append.head, sequence=last, state=state)
        return replace(append, head=head, events=append.events[:count], records=records)


def events_of_end(append: Append) -> int:
    """Return how many of the last events of an append are the end of its run; 1 if the run does not end with it."""
    if append.head.state not in TERMINAL:
        return 1
    kinds = [event_from_frame(frame).type for frame in append.events]
    return len(list(takewhile(END.__contains__, reversed(kinds))))


END = frozenset({"task.message", "task.patched", "task.error", "task.status"})
"""Types of the events with which a run ends."""


class Noted(ScriptedLLM):
    """Notes in a file each time that it is asked, and for which step of the script."""

    def __init__(self, notes: Path) -> None:
        super().__init__(SCRIPT)
        self._notes = notes

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        note(self._notes, str(place(request.messages)[1] + 1))
        async for item in super().generate(request):
            yield item


class ByHand(Agent):
    """A handler of the user's that calls its tools itself."""

    async def handle_task(self, task: Task) -> Task:
        context = RunContext.from_task(task)
        return task.complete(", ".join([await self.call_tool_in_context(name, context) for name in TOOLS]))


class Failing(ByHand):
    """The failure of a tool is committed before the run ends."""

    async def handle_task(self, task: Task) -> Task:
        run = current_run()
        assert run is not None
        try:
            return await super().handle_task(task)
        finally:
            await run.flush()


class Rewriting(Agent):
    """A handler of the user's that says in parts what it wants done, in a message that is new in every run."""

    async def handle_task(self, task: Task) -> Task:
        parts = [Part.tool_call(name, {}) for name in TOOLS]
        return await self.execute_task(task.add_message(Message(role="agent", parts=parts)))


def note(path: Path, line: str) -> None:
    with path.open("a") as file:
        print(line, file=file)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def agent_of(kind: str, folder: Path, death: Any, recovery: Any) -> Agent:
    dies_at = death if isinstance(death, int) else 0
    kinds: dict[str, type[Agent]] = {"handler": ByHand, "failing handler": Failing, "rewriting": Rewriting}
    cls = kinds.get(kind, Agent)
    agent = cls(
        name="mortal",
        description="dies",
        url="runtime://mortal",
        store=Mortal(folder / "tasks.db", dies_at, dies_before_end=death == "before the end"),
        llm=Noted(folder / "thought") if kind == "model" else None,
        policy=CapabilityPolicy({"money.spend": AT_ONCE if kind == "expiring" else "ask"}),
        approvals=Approvals(),
        recovery=recovery,
        grace_s=0,
        limits=Limits(max_resumes_without_progress=5),  # deaths may come twice at the same point
    )
    for name in TOOLS:
        add_tool(agent, name, folder / "ran", str(death), fails=name == "look" and kind.startswith("failing"))
    return agent


def add_tool(agent: Agent, name: str, ran: Path, death: str, *, fails: bool) -> None:
    async def tool(context: ToolContext) -> str:
        if death == f"before {name}":
            die()
        note(ran, f"{name} {context.action_id}")
        if death == f"after {name}":
            die()
        if fails:
            raise UnavailableError("the office is closed")
        return f"{name} done"

    capabilities = ["money.spend"] if name == "book" else []
    agent.tool(name, idempotent=name == "look", capabilities=capabilities)(tool)


def task_of(kind: str) -> Task:
    calls = [Part.tool_call(name, {}, f"call {name}") for name in TOOLS]
    parts = calls if kind in ("parts", "expiring", "failing") else [Part.text("go")]
    return Task(TASK_ID, messages=[Message(role="user", parts=parts)])


async def person(client: AgentClient, folder: Path) -> None:
    """Approves everything once, but lets nothing be repeated that has happened."""
    async for approval in client.watch_approvals():
        request, action = approval.request, approval.request.action
        if approval.state is ApprovalState.PENDING:
            uncertain = request.uncertain
            happened = f"{action.name} {action.action_id}" in lines(folder / "ran")
            note(folder / "asked", f"{'uncertain' if uncertain else 'new'} {action.name}")
            await client.respond_approval(None, approval, not (uncertain and happened))


async def life(kind: str, folder: Path, death: Any, recovery: Any, *, begins: bool) -> dict[str, Any]:
    """Take the task to its end, if death lets it. Returns what there is to see then."""
    async with agent_of(kind, folder, death, recovery) as agent:
        client = AgentClient(url=agent.card.url)
        asking = asyncio.create_task(person(client, folder))
        if begins:
            await client.submit_task(None, task_of(kind))
        task = await client.wait_task(TASK_ID)
        events = [event.to_dict() async for event in client.subscribe(TASK_ID)]
        asking.cancel()
        await asyncio.wait([asking])
    seen = {name: lines(folder / name) for name in ("ran", "asked", "thought")}
    return {"task": task.to_dict(), "events": events, **seen}


def lived(kind: str, folder: Path, death: Any, recovery: Any, *, begins: bool) -> int:
    """Live in a process of its own. Returns how it ended, as `os.waitpid` says it; no zombie stays that would look alive."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    status = 1
    try:
        seen = asyncio.run(asyncio.wait_for(life(kind, folder, death, recovery, begins=begins), 30))
        print(json.dumps(seen), flush=True)
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def follow(kind: str, folder: Path, plan: list[Any], recovery: Any) -> None:
    """Live until a life is not cut short."""
    for nth, death in enumerate([*plan, None]):
        ended = lived(kind, folder, death, recovery, begins=nth == 0)
        if ended != signal.SIGKILL:
            if ended:
                print(json.dumps({"plan": plan, "broken": ended}), flush=True)
            return


def main() -> None:
    """Follow the plans that come in, a list in each line, and answer each plan with a line."""
    folder = made(Path(sys.argv[1], f"{os.getpid()}"))
    # What is imported on the way is imported once, for all lives.
    asyncio.run(life("model", made(folder / "first"), None, "auto", begins=True))
    plans = 0
    for line in sys.stdin:
        request = json.loads(line)
        for plan in request["plans"]:
            plans += 1
            follow(request["kind"], made(folder / f"{plans}"), plan, request["recovery"])


if __name__ == "__main__":
    main()
