"""Two services with one store: changes by the owner reach a task in either process, and its end releases blocked tasks."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from protolink_grpc import SQLiteStore, Task
from protolink_grpc.errors import InvalidTransitionError, LinkCycleError, TaskAlreadyRunningError
from protolink_grpc.models.events import TaskProgress
from protolink_grpc.models.lifecycle import TERMINAL, TaskState
from protolink_grpc.models.task_control import LinkKind, TaskDescription, TaskLink, TaskStatus
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission


class Desk:
    """A service of its own on a store that others share."""

    def __init__(self, path: Path) -> None:
        self.open = asyncio.Event()
        self.begun = asyncio.Event()
        self.began: list[str] = []
        self.service = TaskService("desk", SQLiteStore(path), self.handle)
        self.control = self.service.control

    async def handle(self, task: Task, run: Run) -> Task:
        text = task.messages[-1].text
        self.began.append(text)
        if text == "hold":
            self.begun.set()
            await self.open.wait()
        return task.complete("done")

    async def draft(self, text: str, *blockers: str) -> str:
        links = [TaskLink(LinkKind.BLOCKED_BY, each) for each in blockers]
        return (await self.control.create(Submission.of(Task.create(text)), "ann", links=links)).task_id

    async def hold(self) -> str:
        """A task that this service works on."""
        turn = await self.service.submit(Submission.of(Task.create("hold")), "ann")
        async with asyncio.timeout(20):
            await self.begun.wait()
        return turn.task_id

    async def end(self, task_id: str) -> TaskState:
        async with asyncio.timeout(20):
            while (head := await self.service.head(task_id, "ann")).state not in TERMINAL:
                await self.service.store.wait(task_id, head.sequence)
        return head.state


@pytest.fixture
async def desks(tmp_path: Path) -> AsyncIterator[tuple[Desk, Desk]]:
    desks = Desk(tmp_path / "tasks.db"), Desk(tmp_path / "tasks.db")
    for each in desks:
        await each.service.start()
    yield desks
    for each in desks:
        each.open.set()
        await each.service.stop()


async def test_what_the_owner_says_reaches_a_task_that_another_process_runs(desks: tuple[Desk, Desk]) -> None:
    here, there = desks
    task_id = await there.hold()
    await here.control.report_progress(task_id, "ann", TaskProgress(50, "half"))
    await here.control.update(task_id, "ann", description=TaskDescription("Long"), metadata={"a": 1})
    seen = await here.control.links.add(task_id, "ann", TaskLink(LinkKind.EVIDENCE, "photo"))
    assert (seen.status, seen.metadata) == (TaskStatus.RUNNING, {"a": 1})
    with pytest.raises(TaskAlreadyRunningError):
        await here.control.complete(task_id, "ann")
    there.open.set()
    assert await here.end(task_id) is TaskState.COMPLETED
    found = await there.control.get(task_id, "ann")
    assert (found.status, found.metadata, found.attempt_count) == (TaskStatus.COMPLETED, {"a": 1}, 1)
    assert found.description == TaskDescription("Long")
    assert [each.link.target for each in found.links] == ["photo"]


async def test_the_end_of_a_task_in_another_process_starts_the_one_that_it_blocks(desks: tuple[Desk, Desk]) -> None:
    here, there = desks
    blocker = await there.hold()
    blocked = await here.draft("after", blocker)
    assert (await here.control.start(blocked, "ann")).status is TaskStatus.BLOCKED
    there.open.set()
    assert await here.end(blocked) is TaskState.COMPLETED
    assert (here.began, there.began) == ([], ["hold", "after"])


async def test_a_draft_is_started_once_by_two_processes(desks: tuple[Desk, Desk]) -> None:
    here, there = desks
    task_id = await here.draft("once")
    await asyncio.gather(*(each.control.start(task_id, "ann") for each in desks for _ in range(3)))
    assert await here.end(task_id) is TaskState.COMPLETED
    assert here.began + there.began == ["once"]


async def test_of_two_processes_that_retry_a_task_at_once_one_does(desks: tuple[Desk, Desk]) -> None:
    here, there = desks
    task_id = await here.draft("hold")  # the first retry works until both requests have an answer
    await here.service.cancel(task_id, "ann")
    outcomes = await asyncio.gather(*(each.control.retry(task_id, "ann") for each in desks), return_exceptions=True)
    assert sum(isinstance(each, InvalidTransitionError) for each in outcomes) == 1
    for each in desks:
        each.open.set()
    assert await here.end(task_id) is TaskState.COMPLETED
    assert here.began + there.began == ["hold"]


async def test_two_processes_do_not_close_a_cycle(desks: tuple[Desk, Desk]) -> None:
    here, there = desks
    one, two = await here.draft("one"), await there.draft("two")
    outcomes = await asyncio.gather(
        here.control.links.add(one, "ann", TaskLink(LinkKind.BLOCKED_BY, two)),
        there.control.links.add(two, "ann", TaskLink(LinkKind.BLOCKED_BY, one)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, LinkCycleError) for each in outcomes) == 1


async def test_external_work_is_not_recovered(desks: tuple[Desk, Desk]) -> None:
    here, there = desks
    task_id = await here.draft("paint")
    await here.control.start(task_id, "ann", external=True)
    await here.service.stop()
    await here.service.start()
    await there.service._recovery.recover()
    assert (await there.control.get(task_id, "ann")).status is TaskStatus.PREPARING
    assert (await there.control.complete(task_id, "ann")).status is TaskStatus.COMPLETED
    assert here.began + there.began == []
