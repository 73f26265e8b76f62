"""Tasks under control whose process dies right after any of its commits; `test_task_control_crashes` runs this file.

The second life repeats all calls with the same ids, and returns what there is to see at the end.
"""

import asyncio
from pathlib import Path
from typing import Any

from mortal_store import Mortal, main

from protolink_grpc import Message, Task
from protolink_grpc.models.events import TaskProgress
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.lifecycle import TERMINAL
from protolink_grpc.models.task_control import LinkKind, TaskDescription, TaskLink
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.wire.events import event_from_frame


class Desk:
    def __init__(self, folder: Path, dies_at: int) -> None:
        self.store = Mortal(folder / "tasks.db", dies_at)
        self.service = TaskService("desk", self.store, self.handle, recovery="resume")
        self.control = self.service.control

    async def handle(self, task: Task, run: Run) -> Task:
        return task.complete(task.messages[-1].text)

    async def create(self, task_id: str, *blockers: str, session_id: str = "") -> None:
        task = Task.create(Message.user(task_id))
        task.id, task.session_id = task_id, session_id or None
        await self.control.create(
            Submission.of(task, request_id=f"create {task_id}"),
            "ann",
            description=TaskDescription(task_id),
            links=[TaskLink(LinkKind.BLOCKED_BY, each) for each in blockers],
        )

    async def end(self, task_id: str) -> None:
        """Wait for the end of a task, which other tasks and processes bring about."""
        async with asyncio.timeout(60):
            while (head := await self.service.head(task_id, "ann")).state not in TERMINAL:
                await self.store.wait(task_id, head.sequence)

    async def live(self) -> dict[str, Any]:
        await self.service.start()
        control = self.control
        for task_id, *blockers in (("first",), ("second", "first"), ("third", "first", "second"), ("loose", "third")):
            await self.create(task_id, *blockers)
        await control.start("loose", "ann")
        await control.links.remove("loose", "ann", LinkKind.BLOCKED_BY, "third")
        await self.end("loose")
        await control.start("third", "ann")
        await control.start("second", "ann")
        await control.start("first", "ann", external=True)
        if (await self.service.head("first", "ann")).state not in TERMINAL:
            await control.links.add("first", "ann", TaskLink(LinkKind.EVIDENCE, "photo"))
            await control.report_progress("first", "ann", TaskProgress(50), "half")
            await control.update("first", "ann", metadata={"color": "blue"})
        await control.complete("first", "ann", [Message.agent("painted")])
        for task_id in ("second", "third"):
            await self.end(task_id)
        await self.create("failed", session_id="s")
        await control.fail("failed", "ann", Failure(message="no paint"))
        await self.create("turn", session_id="s")
        await control.start("turn", "ann")
        await self.end("turn")
        await self.create("gone")
        await self.service.cancel("gone", "ann")
        seen = await self.seen()
        await self.service.stop()
        return seen

    async def seen(self) -> dict[str, Any]:
        tasks: dict[str, Any] = {}
        for task_id in ("first", "second", "third", "loose", "failed", "turn", "gone"):
            snapshot = await self.control.get(task_id, "ann")
            events = [event_from_frame(frame) for frame in await self.service.read_log(task_id, 0, snapshot.sequence)]
            assert [each.sequence for each in events] == list(range(1, snapshot.sequence + 1))
            controls = ("task.start_requested", "task.described", "task.linked", "task.unlinked", "task.progress")
            facts = [each.type for each in events if each.type in controls]
            facts = without_repairs(facts, unlinked=1 if task_id in ("third", "loose") else 0)
            tasks[task_id] = {
                "status": str(snapshot.status),
                "title": snapshot.description.title if snapshot.description is not None else "",
                "metadata": snapshot.metadata,
                "links": sorted(f"{each.link.kind} {each.link.target} {each.state}" for each in snapshot.links),
                "facts": sorted(facts),
                "messages": snapshot.message_count,
            }
        session, turns, _ = await self.service.sessions.get("ann", "s")
        return {
            "commits": self.store.commits,
            "tasks": tasks,
            "turns": [[each.task_id, str(each.result)] for each in turns],
            "open": len(session.open_turns),
        }


def without_repairs(facts: list[str], *, unlinked: int) -> list[str]:
    """Return the facts without links that the second life removed, because their other side was missing, and made again.

    Args:
        unlinked: Number of the links that the calls remove.
    """
    for _ in range(facts.count("task.unlinked") - unlinked):
        facts.remove("task.linked")
        facts.remove("task.unlinked")
    return facts


async def live(folder: Path, dies_at: int) -> dict[str, Any]:
    return await Desk(folder, dies_at).live()


main(live)
