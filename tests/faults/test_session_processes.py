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
from protolink_grpc.runtime.submission import Submission
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


ROLLING_BACK = """
    import asyncio, sys
    from protolink_grpc import Message, SQLiteStore, Task
    from protolink_grpc.runtime.submission import Submission
    from protolink_grpc.runtime.service import TaskService

    works, queued = asyncio.Event(), asyncio.Event()

    async def handle(task, run):
        if task.messages[-1].text == "first":
            await queued.wait()
            return task.complete("done")
        if task.messages[-1].text == "ask":
            return task.require_input(Message.agent("which?"))
        works.set()
        await asyncio.Event().wait()

    async def main():
        service = TaskService("desk", SQLiteStore(sys.argv[1]), handle, recovery="resume")
        await service.start()

        async def submit(text, thread_id="default"):
            submission = Submission.of(Task.create(text))
            return await service.sessions.submit(submission, "ann", "s", thread_id=thread_id, turn_id=text)

        async def die(*_):
            print("rolled back", flush=True)
            await asyncio.Event().wait()

        await service.sessions.start_thread("ann", "s", "side")
        await submit("works")
        await submit("waits")
        await submit("first", "side")
        asked = await submit("ask", "side")
        await submit("behind", "side")
        queued.set()
        await works.wait()
        while (await service.head(asked.task_id, "ann")).state != "input-required":
            await asyncio.sleep(0)
        service.sessions._interrupt = die
        roll_back = service.sessions.roll_back
        await asyncio.gather(*(roll_back("ann", "s", each, reason=f"not {each}") for each in ("works", "ask")))

    asyncio.run(main())
"""


async def test_turns_that_were_rolled_back_are_canceled_by_the_next_process(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]]
) -> None:
    path = tmp_path / "tasks.db"
    program = await launch(ROLLING_BACK, path)
    async with asyncio.timeout(60):
        assert [await program.line() for _ in range(2)] == ["rolled back"] * 2
    await program.kill()
    began = list[str]()

    async def handle(task: Task, run: Run) -> Task:
        began.append(task.messages[-1].text)
        return task.complete("done")

    service = TaskService("desk", SQLiteStore(path), handle, recovery="resume")
    await service.start()

    async def end(turn_id: str) -> None:
        async with asyncio.timeout(20), aclosing(service.sessions.stream("ann", "s", turn_id)) as batches:
            async for _ in batches:
                pass

    await end("waits")
    await end("behind")
    submission = Submission.of(Task.create("next"))
    following = await service.sessions.submit(submission, "ann", "s", thread_id="side", turn_id="next")
    await end("next")
    assert sorted(began[:2]) == ["behind", "waits"]
    assert began[2:] == ["next"]
    _, turns, _ = await service.sessions.get("ann", "s")
    by_id = {turn.turn_id: turn for turn in turns}
    assert (by_id["works"].result, by_id["works"].reason) == (TaskState.CANCELED, "not works")
    assert following.task_id != by_id["ask"].task_id
    question = await service.get(by_id["ask"].task_id, "ann")
    assert (question.state, question.cancel_reason) == (TaskState.CANCELED, "not ask")
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
