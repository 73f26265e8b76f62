"""Tasks that are kept in memory between two turns: their bytes, the order of eviction, and the saved reads."""

import asyncio

import pytest

from protolink_grpc.errors import TaskNotFoundError
from protolink_grpc.models.clock import SystemClock
from protolink_grpc.models.events import TaskProgress
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.log import LiveTask
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.runtime.tasks import WarmTasks
from protolink_grpc.storage.memory import MemoryStore


def task(name: str, size: int, principal: str = "ann") -> LiveTask:
    live = LiveTask(name, agent_name="agent", store=MemoryStore(), clock=SystemClock())
    live.fold = TaskFold(name)
    live.fold.principal = principal
    live.size = size
    return live


def kept(warm: WarmTasks, *names: str) -> list[str]:
    return [name for name in names if warm.get(name) is not None]


def test_the_tasks_kept_longest_ago_go_first() -> None:
    warm = WarmTasks(10, 100)
    for name in ("a", "b", "c"):
        warm.keep(task(name, 40))
    assert (kept(warm, "a", "b", "c"), warm.size) == (["b", "c"], 80)
    warm.keep(task("b", 10))  # used again, and smaller
    warm.keep(task("d", 60))
    assert (kept(warm, "b", "c", "d"), warm.size) == (["b", "d"], 70)


def test_a_task_that_is_too_large_is_not_kept_and_costs_no_other_its_place() -> None:
    warm = WarmTasks(10, 100, 0.5)
    warm.keep(task("small", 10, "bob"))
    warm.keep(task("large", 51))
    assert (kept(warm, "small", "large"), warm.size) == (["small"], 10)


def test_the_tasks_of_one_principal_do_not_push_out_those_of_others() -> None:
    warm = WarmTasks(10, 100, 0.5)
    warm.keep(task("bob's", 10, "bob"))
    for number in range(100):
        warm.keep(task(f"{number}", 10, "flood"))
    assert kept(warm, "bob's", "94", "95", "99") == ["bob's", "95", "99"]


def test_what_grew_while_it_was_kept_leaves_no_bytes_behind() -> None:
    warm = WarmTasks(10, 100)
    live = task("a", 10)
    warm.keep(live)
    live.size = 90
    warm.forget("a")
    assert (warm.size, warm._of) == (0, {})
    warm.forget("a")
    assert warm.size == 0


class CountingStore(MemoryStore):
    events_read = 0

    async def read(self, task_id: str, after: int, limit: int) -> list[bytes]:
        frames = await super().read(task_id, after, limit)
        self.events_read += len(frames)
        return frames


async def test_the_task_after_a_turn_costs_no_read_of_its_log_even_if_no_ended_task_is_kept() -> None:
    go = asyncio.Event()

    async def wait(task: Task, run: Run) -> Task:
        await go.wait()
        return task.complete("done")

    store = CountingStore()
    service = TaskService("agent", store, wait, limits=Limits(warm_tasks=0))
    await service.start()
    submission = Submission.of(Task.create("go"))
    begun = await service.submit(submission, "ann")
    turn, token = service.turn_after(begun.task_id, 0), service.cancellation_token(begun.task_id)
    assert token is not None
    assert not token.is_cancelled
    go.set()
    await service.settled(turn)
    before = store.events_read
    fold = await service.get_after(turn, "ann")
    assert (fold.state, store.events_read - before) == (TaskState.COMPLETED, 0)
    assert (service.turn_after(begun.task_id, 0).run, service.cancellation_token(begun.task_id)) == (None, None)
    assert (await service.get_after(service.turn_after(begun.task_id, 0), "ann")).state is TaskState.COMPLETED
    for each in (turn, service.turn_after(begun.task_id, 0)):
        with pytest.raises(TaskNotFoundError):
            await service.get_after(each, "bob")
    await service.stop()


@pytest.mark.parametrize("watches", [False, True])
async def test_the_task_at_the_end_of_its_stream_costs_no_read_of_its_log(watches: bool) -> None:
    async def report(task: Task, run: Run) -> Task:
        for _ in range(1_000):
            await run.emit(TaskProgress(1))
        return task.complete("done")

    store = CountingStore()
    service = TaskService("agent", store, report)
    await service.start()
    submission = Submission.of(Task.create("go"))
    if watches:
        turn = await service.submit(submission, "ann")
        stream = service.watch(turn.task_id, "ann")
    else:
        stream = service.stream(submission, "ann")
    async for _ in stream:
        pass
    before = store.events_read
    fold = await service.get(submission.task_id, "ann")
    assert (fold.is_terminal, fold.sequence > 1_000, store.events_read - before) == (True, True, 0)
    assert service._tasks.warm.size == 0, "an ended task is kept for one read"
    await service.stop()
