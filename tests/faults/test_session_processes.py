"""Two processes with one store submit turns to the same session at the same time."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from plgrpc.v1 import session_service_pb2 as pb

from protolink_grpc import SQLiteStore, Task, TaskState
from protolink_grpc.models.session import TurnSubmitted
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.wire.sessions import items_from_pb

COUNT = 40

DESK = """
    import asyncio, sys
    from contextlib import aclosing
    from protolink_grpc import SQLiteStore, Task
    from protolink_grpc.runtime.submission import Submission
    from protolink_grpc.runtime.service import TaskService

    path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    began = []

    async def handle(task, run):
        began.append(task.messages[-1].text)
        return task.complete("done")

    async def main():
        service = TaskService("desk", SQLiteStore(path), handle)
        await service.start()
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        submissions = [Submission.of(Task.create(f"{name} {number}")) for number in range(count)]
        turns = await asyncio.gather(*(service.sessions.submit(each, "ann", "s") for each in submissions))
        for turn in turns:
            async with aclosing(service.sessions.stream("ann", "s", turn.turn_id)) as batches:
                async for _ in batches:
                    pass
        print("done", flush=True)
        await asyncio.to_thread(sys.stdin.readline)  # the other process may still need this one to run its turns
        await service.stop()
        print("began", *began, sep="\\t", flush=True)

    asyncio.run(main())
"""


async def test_the_turns_of_two_processes_run_one_after_the_other_and_each_once(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]]
) -> None:
    path, names = tmp_path / "tasks.db", ["left", "right"]
    programs = [await launch(DESK, path, name, COUNT) for name in names]
    async with asyncio.timeout(60):
        for program in programs:
            assert await program.line() == "open"
        for program in programs:
            program.say("go")
        for program in programs:
            assert await program.line() == "done"
        for program in programs:
            program.say("end")
        began = [text for program in programs for text in (await program.line()).split("\t")[1:]]
    assert Counter(began) == Counter(f"{name} {number}" for name in names for number in range(COUNT))
    service = TaskService("desk", SQLiteStore(path), unused)
    await service.start()
    session, turns, _ = await service.sessions.get("ann", "s", limit=2 * COUNT)
    assert session.open_turns == ()
    assert [turn.result for turn in turns] == [TaskState.COMPLETED] * 2 * COUNT
    items = await all_items(service, session.position)
    assert [item.position for item in items] == list(range(1, session.position + 1))
    changes = [event.payload for event in (item.event for item in items) if not hasattr(event, "task_id")]
    assert sum(isinstance(each, TurnSubmitted) for each in changes) == 2 * COUNT
    await service.stop()


async def unused(task: Task, run: Run) -> Task:
    raise AssertionError(f"task {task.id} has ended already")


async def all_items(service: TaskService, last: int) -> list[Any]:
    found: list[Any] = []
    async with asyncio.timeout(20), aclosing(service.sessions.watch("ann", "s")) as bodies:
        async for body in bodies:
            found += items_from_pb(pb.SubscribeSessionResponse.FromString(body))
            if found and found[-1].position >= last:
                return found
    raise AssertionError("the stream ended")
