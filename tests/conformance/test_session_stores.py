"""The sessions of one service with every store: what is committed together, what is kept, and what a restart continues."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from plgrpc.v1 import session_service_pb2 as pb

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    MemoryStore,
    Message,
    ScriptedLLM,
    SQLiteStore,
    Task,
    TaskState,
)
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.session import (
    SessionCreated,
    SessionUpdated,
    ThreadStarted,
    Turn,
    TurnEnded,
    TurnPromoted,
    TurnStarted,
    TurnState,
    TurnSubmitted,
    WhenBusy,
)
from protolink_grpc.runtime.admission import Submission
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.storage.port import HELD, TaskStore
from protolink_grpc.wire.sessions import items_from_pb

Stores = Callable[[], TaskStore]


@pytest.fixture(params=["memory", "sqlite"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    """Opens the same data again at each call; a memory store is one object."""
    if request.param == "sqlite":
        return lambda: SQLiteStore(tmp_path / "tasks.db")
    memory = MemoryStore()
    return lambda: memory


class Desk:
    """A service whose handler does what the last message says: `hold` waits, `ask` asks, `fail` fails."""

    def __init__(self, store: TaskStore, agent: str = "desk") -> None:
        self.open = asyncio.Event()
        self.began: list[str] = []
        self.begins: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.service = TaskService(agent, store, self.handle)
        self.sessions = self.service.sessions

    async def handle(self, task: Task, run: Run) -> Task:
        text = task.messages[-1].text
        self.began.append(text)
        self.begins[text].set()
        if text.startswith("hold"):
            await self.open.wait()
        if text == "ask":
            return task.require_input(Message.agent("what?"))
        return task.fail("no") if text == "fail" else task.complete("yes")

    async def submit(self, text: str, principal: str = "ann", **options: Any) -> Turn:
        return await self.sessions.submit(Submission.of(Task.create(text)), principal, "s", **options)

    async def end(self, turn: Turn, principal: str = "ann") -> None:
        async with asyncio.timeout(20), aclosing(self.sessions.stream(principal, "s", turn.turn_id)) as batches:
            async for _ in batches:
                pass

    async def items(self, last: int, after: int = 0) -> list[Any]:
        """The stream of the session from a position to another one."""
        found: list[Any] = []
        async with asyncio.timeout(20), aclosing(self.sessions.watch("ann", "s", after=after)) as bodies:
            async for body in bodies:
                found += items_from_pb(pb.SubscribeSessionResponse.FromString(body))
                if found and found[-1].position >= last:
                    return found
        raise AssertionError("the stream ended")


@pytest.fixture
async def desk(stores: Stores) -> AsyncIterator[Desk]:
    desk = Desk(stores())
    await desk.service.start()
    yield desk
    desk.open.set()
    await desk.service.stop()


def own_events(items: list[Any]) -> list[Any]:
    return [item.event for item in items if not hasattr(item.event, "task_id")]


def fold(items: list[Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]], list[str], list[str]]:
    """What a reader of the log alone computes: the session, its turns, the queue of `default`, and the threads."""
    session: dict[str, Any] = {}
    turns: dict[str, dict[str, Any]] = {}
    queue: list[str] = []
    threads = ["default"]
    for event in own_events(items):
        payload = event.payload
        match payload:
            case SessionCreated():
                session = {"title": payload.title, "metadata": payload.metadata, "archived": False}
            case SessionUpdated():
                session = {"title": payload.title, "metadata": payload.metadata, "archived": payload.archived}
            case ThreadStarted():
                threads.append(payload.thread_id)
            case TurnSubmitted():
                state = TurnState.QUEUED if payload.queued else TurnState.ACTIVE
                turns[payload.turn_id] = {"state": state, "result": None, "thread": payload.thread_id}
                if payload.queued:
                    queue.insert(0 if payload.first else len(queue), payload.turn_id)
            case TurnPromoted():
                queue.remove(payload.turn_id)
                queue.insert(0, payload.turn_id)
            case TurnStarted():
                queue.remove(payload.turn_id)
                turns[payload.turn_id]["state"] = TurnState.ACTIVE
            case TurnEnded():
                if payload.turn_id in queue:
                    queue.remove(payload.turn_id)
                turns[payload.turn_id] |= {"state": TurnState.ENDED, "result": payload.result}
    return session, turns, queue, threads


async def test_the_rows_equal_the_fold_of_the_log_after_everything_that_can_happen(desk: Desk) -> None:
    await desk.sessions.create("ann", "s", title="T", metadata={"a": 1})
    await desk.sessions.start_thread("ann", "s", "side")
    one = await desk.submit("hold one")
    turns = [await desk.submit(f"say {number}") for number in range(4)]
    await desk.sessions.promote("ann", "s", turns[3].turn_id)
    await desk.sessions.remove("ann", "s", turns[1].turn_id)
    await desk.submit("hold side", thread_id="side")
    await desk.submit("urgent", when_busy=WhenBusy.INTERRUPT)
    await desk.end(one)
    for each in turns:
        await desk.end(each)
    question = await desk.submit("ask")
    await desk.end(question)
    await desk.end(await desk.submit("fail"))
    await desk.submit("hold last")
    await desk.submit("waits")
    await desk.submit("hold first", when_busy=WhenBusy.INTERRUPT)
    await desk.begins["hold first"].wait()
    await desk.sessions.update("ann", "s", archived=True)
    session, page, _ = await desk.sessions.get("ann", "s")
    items = await desk.items(session.position)
    assert [item.position for item in items] == list(range(1, session.position + 1))
    facts, turns_of_log, queue, threads = fold(items)
    assert facts == {"title": session.title, "metadata": session.metadata, "archived": session.archived}
    assert threads == [each.thread_id for each in session.threads]
    assert turns_of_log == {
        each.turn_id: {"state": each.state, "result": each.result, "thread": each.thread_id} for each in page
    }
    opened = [each for each in session.open_turns if each.thread_id == "default"]
    assert queue == [each.turn_id for each in opened if each.state is TurnState.QUEUED]


async def test_a_turn_is_committed_together_with_its_task(desk: Desk) -> None:
    turn = await desk.submit("say")
    await desk.end(turn)
    session, _, _ = await desk.sessions.get("ann", "s")
    first = (await desk.items(session.position))[:4]
    assert [type(first[0].event.payload), type(first[1].event.payload)] == [SessionCreated, TurnSubmitted]
    assert [item.event.sequence for item in first[2:]] == [1, 2]
    assert first[2].event.timestamp == first[1].event.created_at


async def test_a_queued_task_is_held_and_is_no_orphan(desk: Desk) -> None:
    await desk.submit("hold one")
    turn = await desk.submit("two")
    head = await desk.service.head(turn.task_id, "ann")
    assert (head.worker, head.state) == (HELD, TaskState.SUBMITTED)
    assert turn.task_id not in [each.task_id for each in await desk.service.store.orphans("desk")]


async def test_a_session_of_another_principal_is_another_session(desk: Desk) -> None:
    hers = await desk.submit("say hers")
    his = await desk.submit("say his", "bob")
    await desk.end(hers)
    await desk.end(his, "bob")
    for principal, turn in (("ann", hers), ("bob", his)):
        _, turns, _ = await desk.sessions.get(principal, "s")
        assert [each.turn_id for each in turns] == [turn.turn_id]


async def test_a_refused_turn_leaves_nothing_behind(desk: Desk) -> None:
    await desk.submit("hold one")
    before, _, _ = await desk.sessions.get("ann", "s")
    with pytest.raises(Exception, match="has an active turn"):
        await desk.submit("two", when_busy=WhenBusy.REJECT)
    assert (await desk.sessions.get("ann", "s"))[0] == before
    page = await desk.sessions.find("ann")
    assert [each.position for each in page[0]] == [before.position]


async def test_a_reader_gets_new_events_as_they_are_committed(desk: Desk) -> None:
    await desk.submit("hold one")
    session, _, _ = await desk.sessions.get("ann", "s")
    reading = asyncio.create_task(desk.items(session.position + 1, after=session.position))
    await desk.sessions.update("ann", "s", title="new")
    assert [type(each.payload) for each in own_events(await reading)] == [SessionUpdated]


async def test_a_reader_can_begin_in_the_middle_of_what_one_append_has_added(desk: Desk) -> None:
    for text in ("hold one", "two"):
        last = await desk.submit(text)
    desk.open.set()
    await desk.end(last)
    session, _, _ = await desk.sessions.get("ann", "s")
    whole = await desk.items(session.position)
    for after in range(session.position):
        assert await desk.items(session.position, after) == whole[after:]


async def test_a_large_session_is_sent_in_several_responses(desk: Desk) -> None:
    for _ in range(4):
        await desk.end(await desk.submit("say " + "x" * 700_000))
    session, _, _ = await desk.sessions.get("ann", "s")
    sizes: list[int] = []
    positions: list[int] = []
    async with asyncio.timeout(20), aclosing(desk.sessions.watch("ann", "s")) as bodies:
        async for body in bodies:
            sizes.append(len(body))
            positions += [each.position for each in items_from_pb(pb.SubscribeSessionResponse.FromString(body))]
            if positions[-1] == session.position:
                break
    assert positions == list(range(1, session.position + 1))
    assert len(sizes) > 1
    assert max(sizes) < 4 << 20


async def test_a_queue_continues_after_an_orderly_restart(tmp_path: Path) -> None:
    first = Desk(SQLiteStore(tmp_path / "tasks.db"))
    await first.service.start()
    await first.submit("hold one", turn_id="one")
    await first.submit("two", turn_id="two")
    await first.submit("three", turn_id="three")
    await first.service.stop(grace_s=0.1)
    second = Desk(SQLiteStore(tmp_path / "tasks.db"))
    second.open.set()
    await second.service.start()
    three = await second.sessions.turn("ann", "s", "three")
    await second.end(three)
    assert second.began[-2:] == ["two", "three"]
    _, turns, _ = await second.sessions.get("ann", "s")
    assert [(each.turn_id, each.state) for each in turns] == [
        (name, TurnState.ENDED) for name in ("one", "two", "three")
    ]
    await second.service.stop()


async def test_each_thread_has_a_conversation_of_its_own(stores: Stores) -> None:
    model = ScriptedLLM(["hello Ann", "nobody", "Ann"])
    agent = Agent(
        AgentCard("chat", "chats", f"runtime://chat-{new_uuid()}"), llm=model, state=["conversation"], store=stores()
    )
    async with agent:
        chat = AgentClient(url=agent.card.url).sessions
        await chat.start_thread("s", "side")
        for text, thread_id in (("I am Ann", "default"), ("who am I?", "side"), ("who am I?", "default")):
            turn = await chat.submit("s", Task.create_infer(prompt=text), thread_id=thread_id)
            async for _ in chat.stream("s", turn):
                pass
    seen = [[message.content for message in request.messages if message.role == "user"] for request in model.requests]
    assert seen == [["I am Ann"], ["who am I?"], ["I am Ann", "who am I?"]]
