"""A service with a session that dies right after any of its commits; `test_session_crashes` runs this file in a process of its own.

The process imports once and forks for each life. Its input is a line with the number of the commit after which the first life dies
by SIGKILL, 0 for never. The second life repeats all calls with the same ids, and prints what there is to see at the end.
"""

import asyncio
from contextlib import aclosing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mortal_store import Mortal, main
from plgrpc.v1 import session_service_pb2 as pb

from protolink_grpc import Message, ProtolinkError, RunEvent, Task
from protolink_grpc.models.session import SessionPage, TurnEnded, TurnSubmitted
from protolink_grpc.reports import SessionExport
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.wire.sessions import items_from_pb

TURNS = ("one", "two", "three", "gone", "question", "answer", "endless", "last")


class Desk:
    def __init__(self, folder: Path, dies_at: int) -> None:
        self.store = Mortal(folder / "tasks.db", dies_at)
        self.open = asyncio.Event()
        self.endless = asyncio.Event()
        self.service = TaskService("desk", self.store, self.handle, recovery="resume")
        self.sessions = self.service.sessions

    async def handle(self, task: Task, run: Run) -> Task:
        text = task.messages[-1].text
        if text == "one":
            await self.open.wait()
        if text == "endless":
            self.endless.set()
            await asyncio.Event().wait()
        if text == "question":
            return task.require_input(Message.agent("which?"))
        return task.complete(text)

    async def submit(self, turn_id: str, thread_id: str = "default") -> None:
        submission = Submission.of(Task.create(turn_id))
        await self.sessions.submit(submission, "ann", "s", thread_id=thread_id, turn_id=turn_id)

    async def end(self, turn_id: str) -> None:
        async with aclosing(self.sessions.stream("ann", "s", turn_id)) as batches:
            async for _ in batches:
                pass

    async def live(self) -> dict[str, Any]:
        await self.service.start()
        await self.sessions.create("ann", "s", title="desk")
        await self.sessions.start_thread("ann", "s", "side")
        for turn_id in ("one", "two", "three", "gone"):
            await self.submit(turn_id)
        with suppress(ProtolinkError):  # in the second life it may have left the queue
            await self.sessions.promote("ann", "s", "three")
        with suppress(ProtolinkError):
            await self.sessions.remove("ann", "s", "gone")
        await self.submit("question", "side")
        await self.end("question")
        await self.submit("answer", "side")
        await self.end("answer")
        await self.submit("endless", "side")
        await self.submit("last", "side")
        if (await self.sessions.turn("ann", "s", "endless")).result is None:
            await self.endless.wait()
            await self.sessions.interrupt("ann", "s", turn_id="endless")
        self.open.set()
        for turn_id in TURNS:
            await self.end(turn_id)
        seen = await self.seen()
        await self.service.stop()
        return seen

    async def seen(self) -> dict[str, Any]:
        session, turns, _ = await self.sessions.get("ann", "s")
        items: list[Any] = []
        async with aclosing(self.sessions.watch("ann", "s")) as bodies:
            async for body in bodies:
                items += items_from_pb(pb.SubscribeSessionResponse.FromString(body))
                if items[-1].position >= session.position:
                    break
        of_tasks: dict[str, list[int]] = {}
        own: list[Any] = []
        for item in items:
            if isinstance(item.event, RunEvent):
                of_tasks.setdefault(item.event.task_id, []).append(item.event.sequence or 0)
            else:
                own.append(item.event.payload)
        return {
            "commits": self.store.commits,
            "turns": {each.turn_id: [each.thread_id, str(each.result)] for each in turns},
            "open": [each.turn_id for each in session.open_turns],
            "positions": [item.position for item in items],
            "of_tasks": list(of_tasks.values()),
            "submitted": [each.turn_id for each in own if isinstance(each, TurnSubmitted)],
            "ended": [each.turn_id for each in own if isinstance(each, TurnEnded)],
            "records": [*SessionExport("s", "desk").records(items)],
            "page": asdict(SessionPage(session, tuple(turns))),
        }


async def live(folder: Path, dies_at: int) -> dict[str, Any]:
    return await Desk(folder, dies_at).live()


main(live)
