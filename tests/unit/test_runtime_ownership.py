"""A service treats the tasks of other principals as tasks that do not exist, with the same calls of the store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from protolink_grpc import MemoryStore, Task
from protolink_grpc.errors import TaskNotFoundError
from protolink_grpc.models.events import TaskProgress
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission


class CountingStore(MemoryStore):
    """Records the names of its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> object:
        if not name.startswith("_") and name in {"append", "change", "head", "heads", "read", "request", "view"}:
            self.calls.append(name)
        return super().__getattribute__(name)


@pytest.fixture
async def service() -> AsyncIterator[TaskService]:
    async def handle(task: Task, run: Run) -> Task:
        await asyncio.Event().wait()
        return task

    service = TaskService("desk", CountingStore(), handle)
    await service.start()
    yield service
    await service.stop(grace_s=0)


def continuation(task_id: str) -> Submission:
    submission = Submission.of(Task.create("more"), request_id="again")
    submission.task_id, submission.target = task_id, TaskTarget.CONTINUE
    return submission


async def watch(service: TaskService, task_id: str) -> None:
    async for _ in service.watch(task_id, "bob"):
        pass


CALLS: dict[str, Callable[[TaskService, str], Awaitable[object]]] = {
    "get": lambda service, task_id: service.get(task_id, "bob"),
    "head": lambda service, task_id: service.head(task_id, "bob"),
    "watch": watch,
    "cancel": lambda service, task_id: service.cancel(task_id, "bob"),
    "continue": lambda service, task_id: service.submit(continuation(task_id), "bob"),
    "snapshot": lambda service, task_id: service.control.get(task_id, "bob"),
    "pause": lambda service, task_id: service.control.pause(task_id, "bob"),
    "retry": lambda service, task_id: service.control.retry(task_id, "bob", request_id="again"),
    "start": lambda service, task_id: service.control.start(task_id, "bob"),
    "progress": lambda service, task_id: service.control.report_progress(task_id, "bob", TaskProgress(1)),
    "complete": lambda service, task_id: service.control.complete(task_id, "bob"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_running_task_of_another_principal_costs_the_same_calls_as_an_unknown_one(
    service: TaskService, name: str
) -> None:
    turn = await service.submit(Submission.of(Task.create("hold")), "ann")
    store, calls, texts = service.store, list[list[str]](), list[str]()
    assert isinstance(store, CountingStore)
    for task_id in (turn.task_id, "unknown"):
        store.calls.clear()
        with pytest.raises(TaskNotFoundError) as refused:
            await CALLS[name](service, task_id)
        calls.append(store.calls.copy())
        texts.append(str(refused.value).replace(task_id, "ID"))
    assert calls[0] == calls[1] != []
    assert texts[0] == texts[1]
