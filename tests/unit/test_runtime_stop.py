"""A stop of the runtime and the readers of its logs."""

import asyncio
from contextlib import aclosing

from protolink_grpc import MemoryStore, Task
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.wire.events import is_final


class SlowToWait(MemoryStore):
    """A store whose readers need time to begin a wait, as with a database."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = asyncio.Event()
        self.may_wait = asyncio.Event()

    async def wait(self, task_id: str, after: int) -> None:
        self.waits.set()
        await self.may_wait.wait()
        await super().wait(task_id, after)


async def test_a_stop_waits_for_a_reader_that_has_not_seen_the_last_event_yet() -> None:
    may_end = asyncio.Event()

    async def answer(task: Task, run: Run) -> Task:
        await may_end.wait()
        return task.complete("done")

    store = SlowToWait()
    service = TaskService("agent", store, answer)
    await service.start()
    turn = await service.submit(Submission.of(Task.create("go")), "ann")

    async def read_all() -> list[bytes]:
        async with aclosing(service.watch(turn.task_id, "ann")) as batches:
            return [frame async for frames in batches for frame in frames]

    reading = asyncio.create_task(read_all())
    await store.waits.wait()
    may_end.set()
    stopping = asyncio.create_task(service.stop(grace_s=5))
    while service.load[0]:
        await asyncio.sleep(0)
    for _ in range(20):  # far more iterations than a stop without readers takes
        await asyncio.sleep(0)
    assert not stopping.done()
    store.may_wait.set()
    assert is_final((await reading)[-1])
    await stopping
