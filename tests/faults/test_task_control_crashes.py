"""A process dies right after each commit of controlled tasks, and another one continues: each task ends in the same way, once."""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import SQLiteStore, Task
from protolink_grpc.models.task_control import LinkKind
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.storage.links import OPEN_LINKS

PROGRAM = Path(__file__).with_name("mortal_tasks.py")

STATUSES = {
    "first": "completed",
    "second": "completed",
    "third": "completed",
    "loose": "completed",
    "failed": "failed",
    "turn": "completed",
    "gone": "cancelled",
}


@pytest.mark.timeout(300)
async def test_controlled_tasks_survive_the_death_of_their_process_after_each_commit(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]]
) -> None:
    programs = [await launch(PROGRAM, tmp_path) for _ in range(2)]
    programs[0].say("0")
    whole = json.loads(await programs[0].line())
    assert {task_id: found["status"] for task_id, found in whole["tasks"].items()} == STATUSES
    assert whole["tasks"]["first"]["facts"].count("task.progress") == 1
    assert (whole["turns"], whole["open"]) == ([["turn", "completed"]], 0)
    commits = whole.pop("commits")

    async def follow(program: Any, points: list[int]) -> None:
        for point in points:
            program.say(str(point))
            seen = json.loads(await program.line())
            del seen["commits"]
            assert seen == whole, f"after a death at commit {point}"

    points = list(range(1, commits + 1))
    await asyncio.gather(follow(programs[0], points[::2]), follow(programs[1], points[1::2]))


LINKING = """
    import asyncio, sys
    from protolink_grpc import Task
    from protolink_grpc.models.task_control import LinkKind, TaskLink
    from protolink_grpc.runtime.service import TaskService
    from protolink_grpc.runtime.submission import Submission

    path, faults = sys.argv[1:]
    sys.path.append(faults)
    from mortal_store import Mortal

    async def handle(task, run):
        return task.complete()

    async def create(service, task_id, *links):
        task = Task.create(task_id)
        task.id = task_id
        await service.control.create(Submission.of(task), "ann", links=links)

    async def main():
        service = TaskService("desk", Mortal(path, 2), handle)
        await service.start()
        await create(service, "first")
        await create(service, "second", TaskLink(LinkKind.BLOCKED_BY, "first"))

    asyncio.run(main())
"""


async def test_a_link_whose_process_died_between_its_two_sides_is_removed(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]]
) -> None:
    program = await launch(LINKING, tmp_path / "tasks.db", PROGRAM.parent)
    assert await program.end() == -signal.SIGKILL

    async def handle(task: Task, run: Run) -> Task:
        return task.complete()

    store = SQLiteStore(tmp_path / "tasks.db")
    await store.open()
    assert await store.head("second") is None
    (left,) = await store.view(lambda records: records.select(OPEN_LINKS, {"agent_name": "desk"}))
    assert (left.task_id, left.target) == ("first", "second")
    service = TaskService("desk", store, handle)
    await service.start()
    first = await service.get("first", "ann")
    assert [link for link in first.links if link.kind is LinkKind.BLOCKS] == []
    assert await store.view(lambda records: records.select(OPEN_LINKS, {"agent_name": "desk"})) == []
    await service.stop()
    await store.close()
