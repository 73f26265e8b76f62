"""ListTasks by a state that depends on approvals: complete, however many tasks wait and whatever is deleted meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from protolink_grpc.a2a import listing
from protolink_grpc.a2a.values import ListParams
from protolink_grpc.errors import TaskNotFoundError
from protolink_grpc.models.action import ApprovalRequest, PolicyDecision, PolicyEffect, RunAction
from protolink_grpc.models.events import ApprovalRequired
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.controls import Controls
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.approvals import ApprovalQuery
from protolink_grpc.storage.memory import MemoryStore

WAITING = 5


async def wait_for_approvals(task: Task, run: Run) -> Task | None:
    """Two requests each: a task that waits must be found once."""
    for number in range(2):
        verdict = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL)
        request = ApprovalRequest(RunAction("tool.call", "pay"), verdict, request_id=f"{task.id}-{number}")
        await run.emit(ApprovalRequired(request))
    await run.flush()
    await run.ask(request)
    return None


@asynccontextmanager
async def waiting_tasks() -> AsyncIterator[TaskService]:
    service = TaskService("agent", MemoryStore(), wait_for_approvals, controls=Controls(remote_approvals=True))
    await service.start()
    try:
        for _ in range(WAITING):
            await service.submit(Submission.of(Task.create("pay")), "ann")
        async with asyncio.timeout(20):
            while len((await service.approvals.find(ApprovalQuery("agent", "ann"))).records) < 2 * WAITING:
                await asyncio.sleep(0)
        yield service
    finally:
        await service.stop(0)


async def listed(service: TaskService, state: TaskState) -> tuple[int, int]:
    """Number of tasks on the page, and the total."""
    page = await listing.page_of(service, "ann", ListParams(state=state), lambda _: True, asks=True)
    return len(page.tasks), page.total_size


@pytest.mark.parametrize("page_size", [1, 3, 100])
async def test_all_tasks_that_wait_are_found_page_by_page(monkeypatch: pytest.MonkeyPatch, page_size: int) -> None:
    monkeypatch.setattr(listing, "WAITING_PAGE", page_size)
    async with waiting_tasks() as service:
        assert await listed(service, TaskState.INPUT_REQUIRED) == (WAITING, WAITING)
        assert await listed(service, TaskState.WORKING) == (0, 0)


async def test_a_task_that_vanishes_between_list_and_read_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "WAITING_PAGE", 2)
    async with waiting_tasks() as service:
        rows = (await service.approvals.find(ApprovalQuery("agent", "ann"))).records
        vanished, read = rows[WAITING].task_id, service.get

        async def get(task_id: str, principal: str) -> TaskFold:
            if task_id == vanished:
                raise TaskNotFoundError("deleted", task_id=task_id)
            return await read(task_id, principal)

        monkeypatch.setattr(service, "get", get)
        assert (await listed(service, TaskState.INPUT_REQUIRED))[0] == WAITING - 1
