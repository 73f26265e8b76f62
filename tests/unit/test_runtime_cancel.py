"""Cancels of tasks that no run works on."""

import asyncio

from protolink_grpc import MemoryStore, Message, Task
from protolink_grpc.models.action import RunAction
from protolink_grpc.models.events import ActionRequested, PeerTaskLinked, RunEvent
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission

LINK = PeerTaskLinked("hotel", "grpc://hotel:1", "plgrpc", "child")


async def ask_while_a_peer_works(task: Task, run: Run) -> Task:
    action = RunAction("agent.call", "hotel", {"agent": "hotel"}, action_id="child")
    await run.emit(RunEvent(payload=ActionRequested(action, "here"), action_id="child"))
    await run.emit(RunEvent(payload=LINK, action_id="child"))
    return task.require_input(Message.agent("which?"))


async def test_each_of_several_cancels_returns_the_task_after_its_end() -> None:
    canceled, continues = list[PeerTaskLinked](), asyncio.Event()
    began = asyncio.Event()

    async def cancel_delegated(link: PeerTaskLinked, reason: str) -> None:
        canceled.append(link)
        began.set()
        await continues.wait()

    # Without warm tasks each call reads the task from the store.
    service = TaskService(
        "desk",
        MemoryStore(),
        ask_while_a_peer_works,
        limits=Limits(warm_tasks=0),
        cancel_delegated=cancel_delegated,
    )
    await service.start()
    asked = await service.send(Submission.of(Task.create("go")), "ann")
    async with asyncio.timeout(20):
        first = asyncio.create_task(service.cancel(asked.task_id, "ann"))
        await began.wait()
        second = asyncio.create_task(service.cancel(asked.task_id, "ann"))
        for _ in range(100):  # far more iterations than the second call needs to wait for the first one
            await asyncio.sleep(0)
        continues.set()
        outcomes = [await first, await second]
    assert [each.state for each in outcomes] == [TaskState.CANCELED, TaskState.CANCELED]
    assert canceled == [LINK]
    await service.stop()
