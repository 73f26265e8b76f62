"""Sessions with every store: atomic commits, retention, and continuation after a restart."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from plgrpc.v1 import session_service_pb2 as pb

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    Artifact,
    InvalidArgumentError,
    MemoryStore,
    Message,
    Part,
    ResourceExhaustedError,
    ScriptedLLM,
    SequenceOutOfRangeError,
    SessionNotFoundError,
    SQLiteStore,
    Task,
    TaskState,
    ThreadNotFoundError,
)
from protolink_grpc.models.events import TaskSubmitted
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
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.models.watch import WatchPosition
from protolink_grpc.net.tracing import receive_trace
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.log import AppendedFacts
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.runtime.thread_conversations import open_conversation
from protolink_grpc.storage import memory_records
from protolink_grpc.storage.port import HELD, Append, RequestRecord, TaskStore
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_log import Opening, SessionLog
from protolink_grpc.storage.session_queries import Branch, find_branch
from protolink_grpc.storage.session_rows import (
    OPEN_ROLLBACKS,
    THREADS,
    OpenRollback,
    SessionHead,
    ThreadRow,
    owner_of,
)
from protolink_grpc.wire.events import sequence_of
from protolink_grpc.wire.sessions import items_from_pb
from protolink_grpc.wire.watch import position_frame

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

    def __init__(self, store: TaskStore, agent: str = "desk", **options: Any) -> None:
        self.open = asyncio.Event()
        self.began: list[str] = []
        self.begins: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.service = TaskService(agent, store, self.handle, **options)
        self.sessions = self.service.sessions

    async def handle(self, task: Task, run: Run) -> Task:
        text = task.messages[-1].text
        self.began.append(text)
        self.begins[text].set()
        if text.startswith("hold"):
            await self.open.wait()
        if text == "ask":
            return task.require_input(Message.agent("what?"))
        if text == "large":
            for _ in range(3):
                task.artifacts.append(Artifact(parts=[Part.text("x" * 2_000_000)]))
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


async def test_the_first_event_of_a_session_and_of_its_tasks_names_the_installation(desk: Desk) -> None:
    turn = await desk.submit("go")
    await desk.end(turn)
    runtime_id = desk.service.store.runtime_id
    created, submitted = None, None
    for item in await desk.items(5):
        match getattr(item.event, "payload", None):
            case SessionCreated() as payload:
                created = payload
            case TaskSubmitted() as payload:
                submitted = payload
    assert created is not None
    assert submitted is not None
    assert (created.runtime_id, submitted.runtime_id) == (runtime_id, runtime_id)
    await desk.sessions.create("ann", "empty", title="Trip")
    async with aclosing(desk.sessions.watch("ann", "empty")) as bodies:
        first, *_ = items_from_pb(pb.SubscribeSessionResponse.FromString(await anext(bodies)))
    assert first.event.payload == SessionCreated("Trip", runtime_id=runtime_id)


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


async def test_a_turn_waits_in_its_queue_also_if_the_agent_has_no_room_for_another_run(stores: Stores) -> None:
    desk = Desk(stores(), limits=Limits(max_concurrency=1, max_queue=0))
    await desk.service.start()
    await desk.submit("hold one")
    turn = await desk.submit("two")
    assert turn.state is TurnState.QUEUED
    with pytest.raises(ResourceExhaustedError):
        await desk.submit("beside", when_busy=WhenBusy.START)
    desk.open.set()
    await desk.end(turn)
    await desk.service.stop()


async def test_a_known_turn_is_returned_whether_it_is_queued_active_or_ended(desk: Desk) -> None:
    for text in ("hold one", "two", "three"):
        await desk.submit(text, turn_id=text)
    await desk.sessions.remove("ann", "s", "three")
    for text in ("hold one", "two", "three"):
        for when_busy in (WhenBusy.ENQUEUE, WhenBusy.REJECT, WhenBusy.START):
            known = await desk.submit("another text", turn_id=text, when_busy=when_busy)
            assert known == await desk.sessions.turn("ann", "s", text)
    assert (await desk.sessions.get("ann", "s"))[0].turn_count == 3


async def test_the_stream_of_a_turn_has_none_of_the_other_turns_of_its_task(desk: Desk) -> None:
    turns = []
    for text in ("ask", "ask", "fail"):
        turns.append(await desk.submit(text))
        await desk.end(turns[-1])
    [task_id] = {each.task_id for each in turns}
    await desk.service.control.retry(task_id, "ann")
    _, turns, _ = await desk.sessions.get("ann", "s")
    await desk.end(turns[-1])
    starts = [each.after_sequence for each in turns]
    last = (await desk.service.head(task_id, "ann")).sequence
    for turn, end in zip(turns, [*starts[1:], last], strict=True):

        async def read(after: int, turn_id: str = turn.turn_id) -> list[int]:
            async with asyncio.timeout(20):
                batches = [each async for each in desk.sessions.stream("ann", "s", turn_id, after=after)]
            return [sequence_of(frame) for frames in batches for frame in frames]

        own = list(range(turn.after_sequence + 1, end + 1))
        for after in range(end + 1):
            assert await read(after) == [each for each in own if each > after]
        with pytest.raises(SequenceOutOfRangeError):
            await read(end + 1)
        with pytest.raises(InvalidArgumentError):
            await read(-1)


async def test_a_stream_that_is_resumed_at_the_end_of_its_turn_has_caught_up(desk: Desk) -> None:
    turn = await desk.submit("go")
    await desk.end(turn)
    last = (await desk.service.head(turn.task_id, "ann")).sequence
    stream = desk.sessions.stream("ann", "s", turn.turn_id, after=last, positions=True)
    batches = [frames async for frames in stream]
    assert batches == [[position_frame(WatchPosition(last, last, caught_up=True))]]


async def test_a_session_of_another_principal_is_another_session(desk: Desk) -> None:
    hers = await desk.submit("say hers")
    his = await desk.submit("say his", "bob")
    await desk.end(hers)
    await desk.end(his, "bob")
    for principal, turn in (("ann", hers), ("bob", his)):
        _, turns, _ = await desk.sessions.get(principal, "s")
        assert [each.turn_id for each in turns] == [turn.turn_id]


async def test_turns_are_listed_as_they_were_submitted_whether_open_or_ended(desk: Desk) -> None:
    held = [await desk.submit("hold one"), await desk.submit("two")]
    beside = [await desk.submit(f"say {number}", when_busy=WhenBusy.START) for number in range(3)]
    for each in reversed(beside):
        await desk.end(each)
    held.append(await desk.submit("hold four", when_busy=WhenBusy.START))
    names = [each.turn_id for each in (held[0], held[1], *beside, held[2])]
    for limit in (1, 2, 4, 6):
        found: list[str] = []
        before = 0
        while before or not found:
            _, turns, before = await desk.sessions.get("ann", "s", before=before, limit=limit)
            found = [*(each.turn_id for each in turns), *found]
        assert found == names


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


async def test_events_of_one_append_that_are_large_together_are_sent_in_several_responses(desk: Desk) -> None:
    await desk.end(await desk.submit("large"))
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


# -- races ---------------------------------------------------------------------------------------------------------------


async def test_two_answers_at_once_are_an_answer_and_the_next_turn(desk: Desk) -> None:
    asked = await desk.submit("ask")
    await desk.end(asked)
    first, second = await asyncio.gather(desk.submit("hold blue"), desk.submit("red"))
    assert sorted([first.task_id == asked.task_id, second.task_id == asked.task_id]) == [False, True]
    desk.open.set()
    await desk.end(first)
    await desk.end(second)


@pytest.mark.parametrize("when_busy", [WhenBusy.ENQUEUE, WhenBusy.INTERRUPT])
async def test_any_number_of_turns_at_once_is_accepted(desk: Desk, when_busy: WhenBusy) -> None:
    submissions = (desk.submit(f"say {number}", when_busy=when_busy) for number in range(90))
    for turn in await asyncio.gather(*submissions):
        await desk.end(turn)
    session, turns, _ = await desk.sessions.get("ann", "s", limit=100)
    assert session.open_turns == ()
    assert session.turn_count == len(turns) == 90


async def test_a_turn_that_is_canceled_when_it_leaves_the_queue_ends_at_once(stores: Stores) -> None:
    turns: dict[str, Turn] = {}
    cancels: list[asyncio.Task[Any]] = []

    def cancel_second(appended: AppendedFacts) -> None:
        if appended.fold.task_id == turns["one"].task_id and appended.fold.state is TaskState.CANCELED:
            cancels.append(asyncio.ensure_future(desk.service.cancel(turns["two"].task_id, "ann")))

    desk = Desk(stores(), observers=[cancel_second])
    await desk.service.start()
    turns["one"] = await desk.submit("hold one")
    turns["two"] = await desk.submit("hold two")
    await desk.sessions.interrupt("ann", "s")
    async with asyncio.timeout(5):  # less than a cancel waits for a run that continues
        await desk.end(turns["two"])
        (canceled,) = await asyncio.gather(*cancels)
    assert canceled.state is TaskState.CANCELED
    desk.open.set()
    await desk.service.stop()


async def test_the_queue_moves_if_the_caller_whose_append_moves_it_disconnects(stores: Stores) -> None:
    desk = Desk(stores(), limits=Limits(lease_ttl_s=3000))  # so that no recovery finds the turn as an orphan
    await desk.service.start()
    await desk.submit("hold one")
    await desk.submit("two")
    question = await desk.submit("ask", when_busy=WhenBusy.START)
    await desk.end(question)
    one = (await desk.sessions.get("ann", "s"))[1][0]
    await desk.sessions.interrupt("ann", "s", turn_id=one.turn_id)
    store, begun = desk.service.store, asyncio.Event()
    append = store.append

    async def note_append(each: Append) -> RequestRecord | None:
        begun.set()
        return await append(each)

    store.append = note_append  # type: ignore[method-assign]  # to disconnect during the append
    call = asyncio.ensure_future(desk.service.cancel(question.task_id, "ann"))
    await begun.wait()
    call.cancel()
    await asyncio.wait([call])
    async with asyncio.timeout(20):
        await desk.begins["two"].wait()
    await desk.service.stop()


async def test_an_interrupting_turn_also_ends_a_turn_that_has_just_left_the_queue(desk: Desk) -> None:
    one = await desk.submit("hold one")
    queued = await desk.submit("hold queued")
    hold = desk.service._admission.hold

    async def hold_too_late(*arguments: Any) -> Any:
        await desk.service.cancel(one.task_id, "ann")
        await desk.begins["hold queued"].wait()
        return await hold(*arguments)

    desk.service._admission.hold = hold_too_late  # type: ignore[method-assign]  # the thread changes after it was busy
    urgent = await desk.submit("urgent", when_busy=WhenBusy.INTERRUPT)
    await desk.end(urgent)
    assert (await desk.sessions.turn("ann", "s", queued.turn_id)).result is TaskState.CANCELED


async def test_a_released_task_that_is_started_twice_has_one_run(desk: Desk) -> None:
    await desk.submit("hold one")
    two = await desk.submit("hold two")
    one = (await desk.sessions.get("ann", "s"))[1][0]
    admission = desk.service._admission
    start = admission._start

    async def start_twice(task_id: str) -> None:
        await asyncio.gather(start(task_id), start(task_id))

    admission._start = start_twice  # type: ignore[method-assign]  # as if the recovery had found it at the same time
    await desk.sessions.interrupt("ann", "s", turn_id=one.turn_id)
    await desk.begins["hold two"].wait()
    for _ in range(5):
        await desk.service.head(two.task_id, "ann")
    assert list(desk.service._tasks.runs) == [two.task_id]
    async with asyncio.timeout(5):
        assert (await desk.service.cancel(two.task_id, "ann")).state is TaskState.CANCELED


# -- tasks with several turns ----------------------------------------------------------------------------------------------


async def test_an_interrupt_of_an_ended_turn_leaves_the_later_turn_of_its_task_alone(desk: Desk) -> None:
    asked = await desk.submit("ask")
    await desk.end(asked)
    answered = await desk.submit("hold answer")
    await desk.begins["hold answer"].wait()
    assert await desk.sessions.interrupt("ann", "s", turn_id=asked.turn_id) == []
    assert (await desk.sessions.turn("ann", "s", answered.turn_id)).state is TurnState.ACTIVE


async def test_a_task_stays_in_its_thread_and_moves_its_queue_whatever_request_continues_it(desk: Desk) -> None:
    await desk.sessions.start_thread("ann", "s", "side")
    asked = await desk.submit("ask", thread_id="side")
    await desk.end(asked)
    answer = Submission.of(Task.create("hold answer"))
    answer.task_id, answer.target = asked.task_id, TaskTarget.CONTINUE
    await desk.service.submit(answer, "ann")
    queued = await desk.submit("queued", thread_id="side")
    assert queued.state is TurnState.QUEUED
    desk.open.set()
    await desk.end(queued)
    _, turns, _ = await desk.sessions.get("ann", "s", thread_id="side")
    assert [each.task_id for each in turns] == [asked.task_id, asked.task_id, queued.task_id]


# -- a memory store --------------------------------------------------------------------------------------------------------


async def test_a_session_in_memory_stays_while_it_has_an_unfinished_task() -> None:
    desk = Desk(MemoryStore(max_tasks=4))
    await desk.service.start()
    active = await desk.submit("hold one")
    queued = await desk.submit("two")
    for number in range(8):
        await desk.end(await desk.submit(f"say {number}", when_busy=WhenBusy.START))
    for number in range(8):  # tasks outside of the session, which drop all ended ones of it
        await desk.service.send(Submission.of(Task.create(f"other {number}")), "ann")
    session, turns, _ = await desk.sessions.get("ann", "s")
    assert [each.turn_id for each in session.open_turns] == [active.turn_id, queued.turn_id]
    assert [each.turn_id for each in turns] == [active.turn_id, queued.turn_id]
    after = session.position
    desk.open.set()
    await desk.end(queued)
    session, _, _ = await desk.sessions.get("ann", "s")
    assert session.position > after
    await desk.service.stop()


async def test_a_session_in_memory_is_dropped_with_the_last_of_its_tasks() -> None:
    desk = Desk(MemoryStore(max_tasks=4))
    await desk.service.start()
    await desk.sessions.start_thread("ann", "s", "side")
    await desk.end(await desk.submit("say one", thread_id="side"))
    await desk.end(await desk.submit("say two"))
    for number in range(8):
        await desk.service.send(Submission.of(Task.create(f"other {number}")), "ann")
    with pytest.raises(SessionNotFoundError):
        await desk.sessions.get("ann", "s")
    again = await desk.submit("say three")
    await desk.end(again)
    session, turns, _ = await desk.sessions.get("ann", "s")
    assert [each.thread_id for each in session.threads] == ["default"]
    assert [each.turn_id for each in turns] == [again.turn_id]
    await desk.service.stop()


async def test_a_memory_store_keeps_a_bounded_number_of_sessions_without_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_records, "MAX_LOOSE", 10)
    desk = Desk(MemoryStore())
    await desk.service.start()
    await desk.end(await desk.submit("say one"))
    for number in range(50):
        await desk.sessions.create("ann", f"empty {number}")
        await desk.sessions.start_thread("ann", f"empty {number}", "side")
    found, _ = await desk.sessions.find("ann")
    names = [each.session_id for each in found]
    assert "s" in names
    assert len(names) <= 11
    assert names[0] == "empty 49"
    await desk.service.stop()


async def test_a_turn_that_left_the_queue_during_a_stop_begins_with_the_next_start(stores: Stores) -> None:
    first = Desk(stores())
    await first.service.start()
    await first.submit("hold one", turn_id="one")
    await first.submit("two", turn_id="two")
    await first.service.stop(grace_s=0.1)
    second = Desk(stores())
    second.open.set()
    await second.service.start()
    await second.end(await second.sessions.turn("ann", "s", "two"))
    assert second.began[-1] == "two"
    await second.service.stop()


async def test_a_reader_of_a_session_whose_last_events_were_dropped_still_catches_up() -> None:
    desk = Desk(MemoryStore(max_tasks=4))
    await desk.service.start()
    await desk.submit("hold one")
    await desk.end(await desk.submit("say two", when_busy=WhenBusy.START))
    for number in range(8):
        await desk.service.send(Submission.of(Task.create(f"other {number}")), "ann")
    session, _, _ = await desk.sessions.get("ann", "s")
    async with asyncio.timeout(20), aclosing(desk.sessions.watch("ann", "s")) as bodies:
        async for body in bodies:
            response = pb.SubscribeSessionResponse.FromString(body)
            if response.HasField("position"):
                assert (response.position.revision, response.position.caught_up) == (session.position, True)
                break
    desk.open.set()
    await desk.service.stop()


async def test_a_turn_keeps_the_trace_of_its_caller(desk: Desk) -> None:
    receive_trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    await desk.submit("hold one")
    queued = await desk.submit("hold two")
    for turn in (await desk.sessions.get("ann", "s"))[1]:
        context = (await desk.service.get(turn.task_id, "ann")).run_context
        assert context.trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert queued.state is TurnState.QUEUED


async def test_a_refused_append_does_not_repeat_the_writes_of_others(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "tasks.db")
    desk = Desk(store)
    await desk.service.start()
    first = await desk.submit("say one")
    await desk.end(first)
    is_blocked, opened = threading.Event(), threading.Event()

    def block(_: Records) -> None:
        is_blocked.set()
        opened.wait(20)

    blocking = asyncio.ensure_future(store.change(block))
    await asyncio.to_thread(is_blocked.wait, 20)
    before = store.commits.count
    held = Opening("nowhere", held=True, when_busy=WhenBusy.ENQUEUE)
    refused = asyncio.ensure_future(
        desk.service._admission.hold(Submission(Task.create("two").messages, session_id="s", opening=held), "ann")
    )
    others = [asyncio.ensure_future(desk.sessions.create("ann", f"other {number}")) for number in range(10)]
    await asyncio.sleep(0)  # all are in the queue of the store
    opened.set()
    await asyncio.wait([blocking, refused, *others])
    assert isinstance(refused.exception(), ThreadNotFoundError)
    assert store.commits.count - before == 2
    await desk.service.stop()


async def test_a_memory_store_keeps_a_task_that_waits_for_input_while_a_queue_waits_for_it() -> None:
    desk = Desk(MemoryStore(max_tasks=4))
    await desk.service.start()
    one = await desk.submit("hold one")
    queued = await desk.submit("two")
    question = await desk.submit("ask", when_busy=WhenBusy.START)
    await desk.end(question)
    await desk.sessions.interrupt("ann", "s", turn_id=one.turn_id)
    for number in range(8):
        other = Submission.of(Task.create("ask"))
        other.task_id = f"other {number}"
        await desk.service.send(other, "ann")
    answer = await desk.submit("answer")
    assert answer.task_id == question.task_id
    await desk.end(queued)
    await desk.service.stop()


async def test_parts_of_a_run_that_work_at_once_use_the_same_conversation(stores: Stores) -> None:
    class SlowConversations:
        async def exists(self, session_id: str) -> bool:
            await asyncio.sleep(0)
            return False

        async def branch(self, source_id: str, session_id: str, leaves_out: Callable[[str], bool]) -> bool:
            await asyncio.sleep(0)
            return True

    found: list[str] = []

    class Reader(Desk):
        async def handle(self, task: Task, run: Run) -> Task:
            found.extend(await asyncio.gather(*(open_conversation(run, SlowConversations()) for _ in range(3))))
            return await super().handle(task, run)

    desk = Reader(stores())
    await desk.service.start()
    turn = await desk.submit("one")
    await desk.end(turn)
    await desk.sessions.roll_back("ann", "s", turn.turn_id)
    await desk.end(await desk.submit("two"))
    assert found == ["s"] * 3 + ["s\ndefault\n1"] * 3
    await desk.service.stop()


async def test_a_reader_that_waits_after_the_deletion_of_its_session_ends(stores: Stores) -> None:
    store = stores()

    class LateWait(Desk):
        async def wait_until(self, *args: Any) -> None:
            await self.sessions.delete("ann", "s")
            await type(store).wait_until(store, *args)

    desk = LateWait(store)
    await desk.service.start()
    await desk.end(await desk.submit("one"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "wait_until", desk.wait_until)
        async with asyncio.timeout(20), aclosing(desk.sessions.watch("ann", "s")) as bodies:
            with pytest.raises(SessionNotFoundError):
                async for _ in bodies:
                    pass
    await desk.service.stop()


async def test_a_thread_can_be_the_last_of_as_many_branches_as_a_session_has(stores: Stores) -> None:
    store, count = stores(), 1000

    def write(records: Records) -> SessionHead:
        for number in range(count):
            source = f"t{number - 1}" if number else "default"
            records.put(THREADS, ThreadRow(7, f"t{number}", 1, from_thread=source))
        return SessionHead(owner_of("desk", "ann"), "s", 7, 1, 1, 1, branched=count)

    desk = Desk(store)
    await desk.service.start()
    head = await store.change(write)

    def query(records: Records) -> list[Branch]:
        found: list[Branch] = []
        latest = find_branch(records, head, f"t{count - 1}")
        while latest is not None:
            found.append(latest)
            latest = find_branch(records, head, latest.thread_id, latest.number)
        return found

    found = await store.view(query)
    assert (len(found), found[-1].source_id, found[0].conversation_id) == (count, "s", f"s\nt{count - 1}")
    assert all(before.source_id == after.conversation_id for before, after in pairwise(found))
    await desk.service.stop()


async def test_a_turn_that_is_still_stopping_is_taken_out_once(stores: Stores) -> None:
    store = stores()
    desk = Desk(store)
    await desk.service.start()
    one, two = [await desk.submit(f"hold {name}", when_busy=WhenBusy.START) for name in ("one", "two")]

    def roll_back(records: Records, turn: Turn) -> int:
        log = SessionLog(records, owner_of("desk", "ann"), "s", 1)
        done = log.roll_back(turn.turn_id, "")
        log.close()
        return done.count

    assert [await store.change(partial(roll_back, turn=each)) for each in (two, one)] == [1, 1]
    desk.open.set()
    await desk.service.stop()


async def test_a_rollback_whose_caller_is_canceled_after_the_commit_cancels_its_turns(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = await desk.submit("hold", turn_id="hold")
    await desk.begins["hold"].wait()
    store, committed, continues = desk.sessions._store, asyncio.Event(), asyncio.Event()
    change = store.change

    async def slow(work: Callable[[Records], Any]) -> Any:
        outcome = await change(work)
        committed.set()
        await continues.wait()
        return outcome

    monkeypatch.setattr(store, "change", slow)
    caller = asyncio.create_task(desk.sessions.roll_back("ann", "s", "hold", reason="no"))
    async with asyncio.timeout(20):
        await committed.wait()
        caller.cancel()
        await asyncio.wait([caller])
        continues.set()
        await desk.end(turn)
    assert caller.cancelled()
    ended = await desk.sessions.turn("ann", "s", "hold")
    assert (ended.result, ended.reason, ended.rolled_back) == (TaskState.CANCELED, "no", True)


async def test_the_rollback_of_a_dead_process_is_continued_without_a_wait_for_the_ends_of_its_turns(
    tmp_path: Path,
) -> None:
    begins, stops = asyncio.Event(), asyncio.Event()

    async def handle(task: Task, run: Run) -> Task:
        begins.set()
        try:
            await asyncio.Event().wait()
        finally:
            await stops.wait()
        return task

    store = SQLiteStore(tmp_path / "tasks.db")
    service = TaskService("desk", store, handle, limits=Limits(cancel_wait_s=1000))
    await service.start()

    async def opened() -> list[OpenRollback]:
        return await store.view(lambda records: records.select(OPEN_ROLLBACKS, {"agent_name": "desk"}))

    async with asyncio.timeout(20):
        turn = await service.sessions.submit(Submission.of(Task.create("go")), "ann", "s")
        await begins.wait()
        rolling = asyncio.create_task(service.sessions.roll_back("ann", "s", turn.turn_id))
        while not (found := await opened()):
            await asyncio.sleep(0)
        await store.change(lambda records: records.put(OPEN_ROLLBACKS, replace(found[0], worker="dead")))
        await service.sessions.continue_rollbacks()
        assert [each.worker for each in await opened()] == [store.worker]
        assert (await service.sessions.turn("ann", "s", turn.turn_id)).state is TurnState.ACTIVE
        stops.set()
        await rolling
        while await opened():
            await asyncio.sleep(0)
    assert (await service.sessions.turn("ann", "s", turn.turn_id)).result is TaskState.CANCELED
    await service.stop()


async def test_the_id_of_a_merged_input_promotes_and_interrupts_its_turn(desk: Desk) -> None:
    for text in ("hold", "other", "first"):
        await desk.submit(text, turn_id=text)
    await desk.submit("second", turn_id="second", when_busy=WhenBusy.MERGE)
    await desk.sessions.promote("ann", "s", "second")
    session, *_ = await desk.sessions.get("ann", "s")
    assert [turn.turn_id for turn in session.open_turns] == ["hold", "first", "other"]
    payloads = [event.payload for event in own_events(await desk.items(session.position))]
    assert [each for each in payloads if isinstance(each, TurnPromoted)] == [TurnPromoted("first")]
    (ended,) = await desk.sessions.interrupt("ann", "s", turn_id="second")
    assert (ended.turn_id, ended.result) == ("first", TaskState.CANCELED)
