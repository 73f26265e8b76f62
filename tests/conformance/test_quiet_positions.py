"""The positions of a session at which a reader can begin, with every store, compared with the fold of the whole log."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from valid_logs import violations_of

from protolink_grpc import MemoryStore, Message, SQLiteStore, Task
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.lifecycle import TERMINAL
from protolink_grpc.models.session import SessionItem, Turn, TurnEnded, TurnSubmitted, WhenBusy
from protolink_grpc.models.task_control import LinkKind, TaskLink
from protolink_grpc.reports import SessionExport
from protolink_grpc.reports.export import convert_session, last_position
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage import quiet_positions
from protolink_grpc.wire.sessions import items_from_bytes

WAIT_S = 20.0
"""Bound of what must happen soon; reached only by a failure."""


class Desk:
    """A service whose handler does what the last message says: `hold` waits, `ask` asks, anything else is done at once."""

    def __init__(self, store: MemoryStore | SQLiteStore) -> None:
        self.open = asyncio.Event()
        self.service = TaskService("desk", store, self.handle)
        self.sessions = self.service.sessions

    async def handle(self, task: Task, run: Run) -> Task:
        text = task.messages[-1].text
        if text == "hold":
            await self.open.wait()
        return task.require_input(Message.agent("what?")) if text == "ask" else task.complete("yes")

    async def submit(self, text: str, **options: Any) -> Turn:
        return await self.sessions.submit(Submission.of(Task.create(text)), "ann", "s", **options)

    async def end(self, turn: Turn) -> None:
        async with asyncio.timeout(WAIT_S), aclosing(self.sessions.stream("ann", "s", turn.turn_id)) as batches:
            async for _ in batches:
                pass

    async def items(self) -> list[SessionItem]:
        last = (await self.sessions.get("ann", "s"))[0].position
        found: list[SessionItem] = []
        async with asyncio.timeout(WAIT_S), aclosing(self.sessions.watch("ann", "s")) as bodies:
            while len(found) < last:
                found += items_from_bytes(await anext(bodies))
        return found

    async def draft(self, text: str, *blockers: str) -> str:
        """Create a draft of the session, and return the id of its task."""
        links = [TaskLink(LinkKind.BLOCKED_BY, each) for each in blockers]
        submission = Submission(messages=[Message.user(text)], session_id="s")
        return (await self.service.control.create(submission, "ann", links=links)).task_id

    async def lines(self, after: int = 0) -> list[tuple[int, str]]:
        """The Agent Runtime events of the session after a sequence, read as the HTTP port does."""
        quiet = await self.sessions.quiet_position("ann", "s", last_position(after))
        export = SessionExport("s", "desk", after, quiet=quiet)

        def watch(position: int) -> AsyncGenerator[bytes, None]:
            return self.sessions.watch("ann", "s", after=position)

        batches = convert_session(export, watch, lambda items: [*export.lines(items)], stop_at_end=True)
        async with asyncio.timeout(WAIT_S), aclosing(batches):
            return [line async for batch in batches for line in batch]

    async def check_lines(self) -> None:
        """Check that the events are valid, and that those after each sequence are the same as in the whole stream."""
        whole = await self.lines()
        assert not violations_of(json.loads(line) for _, line in whole)
        for count, (sequence, _) in enumerate(whole, 1):
            assert await self.lines(sequence) == whole[count:]

    async def found(self, at: int) -> int:
        """The quiet position up to another one; 0 if there is none."""
        quiet = await self.sessions.quiet_position("ann", "s", at)
        return 0 if quiet is None else quiet.position


@pytest.fixture(params=["memory", "sqlite"])
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "tasks.db"))
    await desk.service.start()
    yield desk
    desk.open.set()
    await desk.service.stop()


def quiet_positions_of(items: list[SessionItem]) -> dict[int, dict[str, str]]:
    """The positions at which no turn is open and no task has begun without its end, with the last turn of each thread."""
    found: dict[int, dict[str, str]] = {}
    turns: dict[str, TurnSubmitted] = {}
    tasks: set[str] = set()
    last: dict[str, str] = {}
    order: dict[str, int] = {}
    for item in items:
        event = item.event
        if isinstance(event, RunEvent):
            tasks.add(event.task_id)
            if event.state in TERMINAL:
                tasks.discard(event.task_id)
        elif isinstance(event.payload, TurnSubmitted):
            turns[event.payload.turn_id] = event.payload
            order[event.payload.turn_id] = item.position
        elif isinstance(event.payload, TurnEnded):
            turn = turns.pop(event.payload.turn_id)
            known = last.get(turn.thread_id, "")
            if not known or order[turn.turn_id] > order[known]:
                last[turn.thread_id] = turn.turn_id
        if not turns and not tasks:
            found[item.position] = dict(last)
    return found


async def test_a_quiet_position_is_one_of_the_fold_of_the_log_at_every_position(desk: Desk) -> None:
    await desk.sessions.create("ann", "s")
    await desk.sessions.start_thread("ann", "s", "side")
    for options in ({}, {}, {"thread_id": "side"}, {}):
        await desk.end(await desk.submit("say", **options))
    question = await desk.submit("ask")
    await desk.end(question)
    await desk.end(await desk.submit("say", thread_id="side"))
    answer = await desk.submit("this")
    assert answer.task_id == question.task_id
    await desk.end(answer)
    held = await desk.submit("hold")
    waits = [await desk.submit("say") for _ in range(3)]
    await desk.sessions.promote("ann", "s", waits[2].turn_id)
    await desk.sessions.remove("ann", "s", waits[0].turn_id)
    desk.open.set()
    for each in (held, *waits[1:]):
        await desk.end(each)
    await desk.end(await desk.submit("say"))
    items = await desk.items()
    expected = quiet_positions_of(items)
    found = {at: await desk.found(at) for at in range(len(items) + 1)}
    assert len(set(found.values())) > 6
    for at, position in found.items():
        assert position <= at
        assert position == 0 or position in expected
    quiet = await desk.sessions.quiet_position("ann", "s", len(items))
    assert quiet is not None
    assert {name: turn.turn_id for name, turn in quiet.last_turns.items()} == expected[quiet.position]


async def test_a_session_with_a_task_that_waits_has_no_quiet_position_after_its_begin(desk: Desk) -> None:
    await desk.end(await desk.submit("say"))
    question = await desk.submit("ask")
    await desk.end(question)
    for _ in range(3):
        await desk.end(await desk.submit("say", when_busy=WhenBusy.START))
    items = await desk.items()
    begin = next(item.position for item in items if getattr(item.event.payload, "turn_id", "") == question.turn_id)
    assert await desk.found(len(items)) == begin - 1
    # After a cancellation, the row of the turn does not have the state of its task.
    await desk.service.cancel(question.task_id, "ann")
    assert await desk.found(len(items) + 1) in range(begin)


async def test_a_session_without_a_quiet_position_near_its_end_has_none(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        await desk.end(await desk.submit("say"))
    last = len(await desk.items())
    found = [await desk.found(at) for at in range(last + 1)]
    assert found[-1] > found[last // 2] > 0
    monkeypatch.setattr(quiet_positions, "STEP", 1)
    assert [await desk.found(at) for at in range(last + 1)] == found
    monkeypatch.setattr(quiet_positions, "MAX_SEARCHED", 1)
    assert await desk.found(last) == 0


async def test_a_session_has_no_quiet_position_before_its_last_rollback(desk: Desk) -> None:
    turns = [await desk.submit("say") for _ in range(3)]
    for each in turns:
        await desk.end(each)
    await desk.sessions.roll_back("ann", "s", turns[2].turn_id)
    position = (await desk.sessions.get("ann", "s"))[0].position
    assert await desk.found(position - 1) == 0
    assert await desk.found(position) == 0
    await desk.end(await desk.submit("say"))
    assert await desk.found(position) == position


async def test_the_events_after_any_of_them_are_those_of_the_whole_stream(desk: Desk) -> None:
    first = await desk.submit("say")
    await desk.end(first)
    await desk.sessions.start_thread("ann", "s", "side", from_thread="default", from_turn=first.turn_id)
    question = await desk.submit("ask", thread_id="side")
    await desk.end(question)
    await desk.end(await desk.submit("say", thread_id="side", when_busy=WhenBusy.START))
    await desk.service.cancel(question.task_id, "ann")
    await desk.end(await desk.submit("say", thread_id="side"))
    await desk.service.control.retry(first.task_id, "ann", "again")
    draft = await desk.draft("say")
    await desk.service.control.start(draft, "ann", external=True)
    waiting = await desk.submit("say")
    await desk.service.control.complete(draft, "ann")
    await desk.end(waiting)
    held = await desk.submit("hold")
    merged = [await desk.submit("say", when_busy=WhenBusy.MERGE) for _ in range(2)]
    desk.open.set()
    for each in (held, merged[0]):
        await desk.end(each)
    await desk.check_lines()
    late = await desk.submit("say")
    await desk.end(late)
    await desk.sessions.roll_back("ann", "s", late.turn_id)
    await desk.end(await desk.submit("say"))
    await desk.check_lines()


async def test_a_task_that_waits_for_a_draft_is_blocked_in_a_resumed_stream_too(desk: Desk) -> None:
    await desk.end(await desk.submit("say"))
    blocker = await desk.draft("say")
    for _ in range(2):
        await desk.end(await desk.submit("say"))
    blocked = await desk.draft("say", blocker)
    await desk.service.control.start(blocked, "ann")
    await desk.check_lines()
    assert "task.blocked" in (await desk.lines())[-1][1]
    # The owner may end it without its blocker, which does not start it again.
    await desk.service.control.complete(blocked, "ann")
    await desk.check_lines()
