"""The conversation of a thread, with every store: rollbacks, branches, and inputs that change in the queue."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from valid_logs import violations_of

from protolink_grpc import (
    ActionDeniedError,
    Agent,
    AgentCard,
    AgentClient,
    CapabilityPolicy,
    InvalidArgumentError,
    MemoryStore,
    Message,
    ResourceExhaustedError,
    ScriptedLLM,
    SessionNotFoundError,
    SQLiteStorage,
    SQLiteStore,
    Task,
    TaskNotFoundError,
    TaskState,
    Thread,
    ThreadNotFoundError,
    Turn,
    TurnNotFoundError,
    TurnNotQueuedError,
    TurnState,
)
from protolink_grpc.llms.port import ModelRequest
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.runtime.log import LiveTask
from protolink_grpc.runtime.session_turns import SessionTurns
from protolink_grpc.storage import session_log
from protolink_grpc.storage.port import TaskStore

WAIT_S = 20.0
"""Bound of what must happen soon; reached only by a failure."""


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], TaskStore]:
    """Opens the same data again at each call; a memory store is one object."""
    if request.param == "sqlite":
        return lambda: SQLiteStore(tmp_path / "tasks.db")
    memory = MemoryStore()
    return lambda: memory


class Chat:
    """A session `s` with an agent whose model says `A TO <question>`; `wait` waits for the test."""

    def __init__(self, store: TaskStore, **options: Any) -> None:
        self.open = asyncio.Event()
        self.began = asyncio.Event()
        self.model = ScriptedLLM([self._say])
        self.agent = Agent(
            AgentCard("chat", "chats", f"runtime://chat-{new_uuid()}"),
            llm=self.model,
            state=["conversation"],
            store=store,
            **options,
        )
        self.sessions = AgentClient(url=self.agent.card.url, timeout=WAIT_S).sessions

    async def _say(self, request: ModelRequest) -> str:
        question = self._questions(request)[-1]
        if question.startswith("wait"):
            self.began.set()
            await self.open.wait()
        return f"A TO {question}"

    @staticmethod
    def _questions(request: ModelRequest) -> list[str]:
        return [str(message.content) for message in request.messages if message.role == "user"]

    async def submit(self, text: str, **options: Any) -> Turn:
        return await self.sessions.submit("s", Task.create_infer(prompt=text), turn_id=text, **options)

    async def end(self, turn: Turn) -> None:
        async with asyncio.timeout(WAIT_S), aclosing(self.sessions.stream("s", turn)) as events:
            async for _ in events:
                pass

    async def say(self, text: str, **options: Any) -> list[str]:
        """Submit a turn, wait for its end, and return the questions that the model has seen in it."""
        await self.end(await self.submit(text, **options))
        return self._questions(self.model.requests[-1])

    async def violations(self) -> list[str]:
        """The rules of the Agent Runtime contract that the session violates, if it exists."""
        try:
            page = await self.sessions.get("s")
        except SessionNotFoundError:
            return []
        async with asyncio.timeout(WAIT_S), aclosing(self.sessions.runtime_events("s", stop_at_end=True)) as stream:
            return violations_of([record async for record in stream], asdict(page))

    async def turns(self, thread_id: str = "default") -> dict[str, Turn]:
        return {turn.turn_id: turn for turn in (await self.sessions.get("s", thread_id=thread_id)).turns}


@pytest.fixture
async def chat(store: Callable[[], TaskStore]) -> AsyncIterator[Chat]:
    chat = Chat(store())
    async with chat.agent:
        yield chat
        assert await chat.violations() == []
        chat.open.set()


# -- rollback ------------------------------------------------------------------------------------------------------------


async def test_a_thread_goes_back_to_before_a_turn_and_its_model_forgets_what_came_after(chat: Chat) -> None:
    for text in ("one", "two", "three"):
        await chat.say(text)
    thread = await chat.sessions.roll_back("s", "two", reason="wrong")
    assert (thread.thread_id, thread.rollback_count) == ("default", 1)
    assert await chat.say("four") == ["one", "four"]
    turns = await chat.turns()
    assert {name: turn.rolled_back for name, turn in turns.items()} == {
        "one": False,
        "two": True,
        "three": True,
        "four": False,
    }
    # Nothing is erased.
    assert turns["two"].result is TaskState.COMPLETED
    assert await chat.say("five") == ["one", "four", "five"]


async def test_starting_the_default_thread_returns_it_with_its_rollbacks(chat: Chat) -> None:
    assert await chat.sessions.start_thread("s", "default") == Thread()
    await chat.say("one")
    thread = await chat.sessions.roll_back("s", "one")
    assert await chat.sessions.start_thread("s", "default") == thread


async def test_rolling_back_again_changes_nothing_and_rolling_back_further_forgets_more(chat: Chat) -> None:
    for text in ("one", "two", "three"):
        await chat.say(text)
    first = await chat.sessions.roll_back("s", "three")
    assert await chat.sessions.roll_back("s", "three") == first
    assert (await chat.sessions.roll_back("s", "one")).rollback_count == 2
    assert await chat.say("four") == ["four"]


async def test_a_rollback_that_is_repeated_later_leaves_the_turns_that_have_started_since(chat: Chat) -> None:
    for text in ("one", "two"):
        await chat.say(text)
    first = await chat.sessions.roll_back("s", "two")
    working = await chat.submit("wait")
    await asyncio.wait_for(chat.began.wait(), WAIT_S)
    assert await chat.sessions.roll_back("s", "two") == first
    assert (await chat.turns())[working.turn_id].state is TurnState.ACTIVE
    better = await chat.submit("better", when_busy="rollback")
    await chat.end(better)
    assert (await chat.sessions.roll_back("s", "two")).rollback_count == 2
    assert {name: turn.rolled_back for name, turn in (await chat.turns()).items()} == {
        "one": False,
        "two": True,
        "wait": True,
        "better": False,
    }


async def test_a_rollback_of_a_rollback_is_read_through_all_of_them(chat: Chat) -> None:
    seen = []
    for round_number in range(3):
        await chat.say(f"keep {round_number}")
        await chat.say(f"drop {round_number}")
        await chat.sessions.roll_back("s", f"drop {round_number}")
        seen.append(await chat.say(f"then {round_number}"))
    assert seen[-1] == ["keep 0", "then 0", "keep 1", "then 1", "keep 2", "then 2"]


async def test_a_rollback_cancels_the_turns_that_work_and_leaves_the_queue(chat: Chat) -> None:
    await chat.say("one")
    working = await chat.submit("wait")
    await asyncio.wait_for(chat.began.wait(), WAIT_S)
    queued = await chat.submit("later")
    await chat.sessions.roll_back("s", working)
    await chat.end(queued)
    assert Chat._questions(chat.model.requests[-1]) == ["one", "later"]
    turns = await chat.turns()
    assert (turns["wait"].result, turns["wait"].rolled_back) == (TaskState.CANCELED, True)
    assert (turns["later"].result, turns["later"].rolled_back) == (TaskState.COMPLETED, False)


async def test_a_turn_that_ends_after_the_rollback_of_a_later_one_is_remembered(chat: Chat) -> None:
    slow = await chat.submit("wait")
    await asyncio.wait_for(chat.began.wait(), WAIT_S)
    for text in ("two", "three"):
        await chat.say(text, when_busy="start")
        await chat.sessions.roll_back("s", text)
        assert await chat.say(f"after {text}", when_busy="start") == [
            *(["after two"] * (text == "three")),
            f"after {text}",
        ]
    chat.open.set()
    await chat.end(slow)
    assert await chat.say("four") == ["after two", "after three", "wait", "four"]


async def test_a_rolled_back_turn_that_could_not_be_canceled_is_not_remembered(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_: Any) -> None:
        """Stands for a process that ends between the two steps of a rollback, while another one runs the turn."""

    monkeypatch.setattr(SessionTurns, "_interrupt", die)
    slow = await chat.submit("wait")
    await asyncio.wait_for(chat.began.wait(), WAIT_S)
    await chat.sessions.roll_back("s", slow)
    await chat.say("two", when_busy="start")
    chat.open.set()
    await chat.end(slow)
    assert await chat.say("three") == ["two", "three"]


@pytest.mark.parametrize("made", [True, False])
async def test_a_compaction_after_a_rollback_is_of_the_conversation_that_the_model_sees(chat: Chat, made: bool) -> None:
    for text in ("one", "two", "three"):
        await chat.say(text)
    await chat.sessions.roll_back("s", "three")
    if made:
        await chat.say("four")
    client = AgentClient(url=chat.agent.card.url, timeout=WAIT_S)
    done = await client.compact_history(None, session_id="s", strategy="recent", max_messages=2)
    assert (done.before_messages, done.after_messages) == (6 if made else 4, 2)
    assert await chat.say("five") == ["four" if made else "two", "five"]


async def test_a_rollback_outlives_a_restart_before_the_next_turn(tmp_path: Path) -> None:
    for first in (True, False):
        chat = Chat(SQLiteStore(tmp_path / "tasks.db"), storage=SQLiteStorage(tmp_path / "state.db"))
        async with chat.agent:
            if first:
                await chat.say("one")
                await chat.say("two")
                await chat.sessions.roll_back("s", "two")
            else:
                assert (await chat.turns())["two"].rolled_back
                assert await chat.say("three") == ["one", "three"]


async def test_only_a_turn_that_has_started_can_be_rolled_back(chat: Chat) -> None:
    await chat.submit("wait")
    await chat.submit("later")
    with pytest.raises(InvalidArgumentError) as refused:
        await chat.sessions.roll_back("s", "later")
    assert refused.value.metadata["field"] == "turn_id"
    with pytest.raises(TurnNotFoundError):
        await chat.sessions.roll_back("s", "unknown")


async def test_a_turn_that_rolls_back_replaces_the_active_one_and_goes_before_the_queue(chat: Chat) -> None:
    await chat.say("one")
    working = await chat.submit("wait")
    await asyncio.wait_for(chat.began.wait(), WAIT_S)
    queued = await chat.submit("later")
    better = await chat.submit("better", when_busy="rollback")
    await chat.end(better)
    await chat.end(queued)
    assert Chat._questions(chat.model.requests[-2]) == ["one", "better"]
    assert Chat._questions(chat.model.requests[-1]) == ["one", "better", "later"]
    turns = await chat.turns()
    assert [name for name, turn in turns.items() if turn.rolled_back] == [working.turn_id]
    assert await chat.submit("better", when_busy="rollback") == turns["better"]


async def test_without_an_active_turn_a_turn_that_rolls_back_is_a_plain_one(chat: Chat) -> None:
    await chat.say("one")
    assert await chat.say("two", when_busy="rollback") == ["one", "two"]


# -- branches ------------------------------------------------------------------------------------------------------------


async def test_a_branch_begins_with_the_conversation_up_to_a_turn_and_both_threads_go_their_ways(chat: Chat) -> None:
    for text in ("one", "two", "three"):
        await chat.say(text)
    branch = await chat.sessions.start_thread("s", "side", from_thread="default", from_turn="two")
    assert branch == Thread("side", "", branch.created_at, "default", "two")
    assert await chat.say("four", thread_id="side") == ["one", "two", "four"]
    assert await chat.say("five") == ["one", "two", "three", "five"]
    assert await chat.say("six", thread_id="side") == ["one", "two", "four", "six"]


async def test_a_branch_without_a_turn_begins_with_the_last_one_that_has_ended(chat: Chat) -> None:
    await chat.say("one")
    await chat.submit("wait")
    branch = await chat.sessions.start_thread("s", "side", from_thread="default")
    assert branch.from_turn_id == "one"
    assert await chat.say("two", thread_id="side") == ["one", "two"]


async def test_a_branch_does_not_have_an_earlier_turn_that_was_not_over(chat: Chat) -> None:
    slow = await chat.submit("wait")
    await asyncio.wait_for(chat.began.wait(), WAIT_S)
    await chat.say("two", when_busy="start")
    await chat.sessions.start_thread("s", "side", from_thread="default", from_turn="two")
    chat.open.set()
    await chat.end(slow)
    assert await chat.say("three", thread_id="side") == ["two", "three"]
    assert sorted(await chat.say("four")) == ["four", "two", "wait"]


async def test_a_branch_of_a_branch_of_a_thread_that_was_rolled_back_remembers_what_they_remember(chat: Chat) -> None:
    for text in ("one", "two"):
        await chat.say(text)
    await chat.sessions.roll_back("s", "two")
    await chat.say("three")
    await chat.sessions.start_thread("s", "a", from_thread="default")
    await chat.sessions.roll_back("s", "three")  # the branch keeps it
    await chat.say("four", thread_id="a")
    await chat.sessions.start_thread("s", "b", from_thread="a")
    assert await chat.say("five", thread_id="b") == ["one", "three", "four", "five"]
    assert await chat.say("six") == ["one", "six"]


async def test_a_branch_needs_a_thread_and_a_turn_of_it_that_has_ended_and_is_remembered(chat: Chat) -> None:
    await chat.say("one")
    await chat.say("two")
    await chat.sessions.start_thread("s", "side")
    with pytest.raises(ThreadNotFoundError):
        await chat.sessions.start_thread("s", "x", from_thread="unknown")
    for from_thread, from_turn in (("default", "unknown"), ("side", "one")):
        with pytest.raises(TurnNotFoundError):
            await chat.sessions.start_thread("s", "x", from_thread=from_thread, from_turn=from_turn)
    await chat.sessions.roll_back("s", "two")
    await chat.submit("wait")
    for from_thread, from_turn in (("default", "two"), ("default", "wait"), ("", "one")):
        with pytest.raises(InvalidArgumentError) as refused:
            await chat.sessions.start_thread("s", "x", from_thread=from_thread, from_turn=from_turn)
        assert refused.value.metadata["field"] == "from_turn_id"
    assert [each.thread_id for each in (await chat.sessions.get("s")).session.threads] == ["default", "side"]


# -- queued inputs -------------------------------------------------------------------------------------------------------


async def test_a_merged_input_becomes_a_part_of_the_last_queued_turn_and_its_id_another_name(chat: Chat) -> None:
    await chat.submit("wait")
    await chat.submit("first")
    queued = await chat.submit("second", when_busy="merge")
    assert queued.turn_id == "first"
    assert (await chat.submit("second", when_busy="merge")).turn_id == "first"
    assert (await chat.sessions.get("s")).session.turn_count == 2
    chat.open.set()
    async with asyncio.timeout(WAIT_S), aclosing(chat.sessions.stream("s", "second")) as events:
        assert [event async for event in events][-1].state is TaskState.COMPLETED
    assert Chat._questions(chat.model.requests[-1])[-2:] == ["first", "second"]


async def test_inputs_that_are_merged_at_once_are_all_kept(store: Callable[[], TaskStore]) -> None:
    chat, other = Chat(store()), Chat(store())
    texts = [f"part {number}" for number in range(12)]
    async with chat.agent, other.agent:
        await chat.submit("wait")
        await chat.submit("first")
        merges = [
            each.submit(text, when_busy="merge") for text, each in zip(texts, [chat, chat, other] * 4, strict=True)
        ]
        assert {turn.turn_id for turn in await asyncio.gather(*merges)} == {"first"}
        chat.open.set()
        async with asyncio.timeout(WAIT_S), aclosing(chat.sessions.stream("s", "first")) as events:
            assert [event async for event in events][-1].state is TaskState.COMPLETED
        assert sorted(Chat._questions(chat.model.requests[-1])) == sorted(["wait", "first", *texts])


async def test_an_input_is_merged_into_no_turn_that_was_canceled_meanwhile(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = SessionTurns._last_queued

    async def find_and_cancel(self: SessionTurns, *args: Any) -> Turn | None:
        found = await find(self, *args)
        if found is not None:
            await chat.sessions.remove("s", found)
        return found

    monkeypatch.setattr(SessionTurns, "_last_queued", find_and_cancel)
    await chat.submit("wait")
    await chat.submit("first")
    submitted = await chat.submit("second", when_busy="merge")
    assert (submitted.turn_id, submitted.state) == ("second", TurnState.QUEUED)


@pytest.mark.parametrize("left", ["canceled", "active"])
async def test_the_input_of_a_turn_that_leaves_the_queue_meanwhile_is_not_replaced(
    chat: Chat, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    load = SessionTurns._queued_task

    async def load_and_leave(self: SessionTurns, turn: Turn) -> LiveTask:
        found = await load(self, turn)
        if left == "canceled":
            await chat.sessions.remove("s", turn)
        else:
            chat.began.clear()
            await chat.sessions.interrupt("s", turn="wait")
            await asyncio.wait_for(chat.began.wait(), WAIT_S)
        return found

    monkeypatch.setattr(SessionTurns, "_queued_task", load_and_leave)
    await chat.submit("wait")
    queued = await chat.submit("wait too")
    with pytest.raises(TurnNotQueuedError) as refused:
        await chat.sessions.replace_input("s", queued, "better")
    assert refused.value.metadata["state"] == left


async def test_the_number_of_inputs_that_are_merged_into_a_turn_is_bounded(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_log, "MAX_MERGED", 2)
    await chat.submit("wait")
    for text in ("first", "second", "third"):
        await chat.submit(text, when_busy="merge")
    for _ in range(2):
        with pytest.raises(ResourceExhaustedError, match="2 inputs were merged into turn first already"):
            await chat.submit("fourth", when_busy="merge")
    assert (await chat.submit("second", when_busy="merge")).turn_id == "first"  # a repetition is no further merge
    assert (await chat.submit("fourth")).state is TurnState.QUEUED
    assert (await chat.submit("fifth", when_busy="merge")).turn_id == "fourth"


async def test_the_size_of_a_merged_input_is_bounded(chat: Chat) -> None:
    await chat.submit("wait")
    first = await chat.submit("first")
    large = Task.create_infer(prompt="x" * 400_000)
    merged = [await chat.sessions.submit("s", large, when_busy="merge") for _ in range(2)]
    assert {each.turn_id for each in merged} == {"first"}
    before = await chat.sessions.get("s")
    with pytest.raises(ResourceExhaustedError, match="a merge has at most 1048576"):
        await chat.sessions.submit("s", large, when_busy="merge")
    assert (await chat.sessions.get("s")) == before
    assert (await chat.submit("last", when_busy="merge")).turn_id == first.turn_id


async def test_without_a_queue_a_merged_input_waits_like_any_other(chat: Chat) -> None:
    await chat.submit("wait")
    queued = await chat.submit("first", when_busy="merge")
    assert (queued.turn_id, queued.state) == ("first", TurnState.QUEUED)


async def test_a_queued_input_can_be_replaced_until_it_starts(chat: Chat) -> None:
    await chat.say("one")
    await chat.submit("wait")
    queued = await chat.submit("two")
    changed = Message.user("")
    changed.parts = Task.create_infer(prompt="better").messages[0].parts
    assert await chat.sessions.replace_input("s", queued, changed) == queued
    chat.open.set()
    await chat.end(queued)
    assert Chat._questions(chat.model.requests[-1]) == ["one", "wait", "better"]
    with pytest.raises(TurnNotQueuedError):
        await chat.sessions.replace_input("s", queued, changed)
    with pytest.raises(InvalidArgumentError) as refused:
        await chat.sessions.replace_input("s", queued, [])
    assert refused.value.metadata["field"] == "messages"
    changed.parts = Task.create_infer(prompt="x", output_schema={"pattern": "(?=a)"}).messages[0].parts
    with pytest.raises(InvalidArgumentError) as refused:
        await chat.sessions.replace_input("s", queued, [Message.user("x"), changed])
    assert refused.value.metadata["field"] == "messages[1].parts[0].output_schema"


async def test_a_thread_that_is_resumed_says_what_it_waits_for(chat: Chat) -> None:
    working = await chat.submit("wait")
    queued = await chat.submit("two")
    found = await chat.sessions.resume("s")
    assert [each.turn_id for each in found.open_turns] == [working.turn_id, queued.turn_id]
    assert (found.resumed, found.waiting_turn) == ((), None)
    with pytest.raises(ThreadNotFoundError):
        await chat.sessions.resume("s", thread_id="unknown")


# -- deletion ------------------------------------------------------------------------------------------------------------


async def test_a_deleted_session_is_gone_with_its_tasks_its_threads_and_what_its_models_remember(chat: Chat) -> None:
    await chat.say("one")
    await chat.sessions.start_thread("s", "side", from_thread="default")
    await chat.say("two", thread_id="side")
    working = await chat.submit("wait")
    await asyncio.wait_for(chat.began.wait(), WAIT_S)
    queued = await chat.submit("later")
    deleted = await chat.sessions.delete("s")
    assert (deleted.thread_count, deleted.turn_count, deleted.task_count) == (2, 4, 4)
    assert deleted.event_count > 4
    assert deleted.states == {"conversation": 6}  # a question and an answer of `default`, two of each in the branch
    client = AgentClient(url=chat.agent.card.url, timeout=WAIT_S)
    for turn in (working, queued):
        with pytest.raises(TaskNotFoundError):
            await client.get_task(turn.task_id)
    for call in (chat.sessions.get("s"), chat.sessions.delete("s")):
        with pytest.raises(SessionNotFoundError):
            await call
    assert (await chat.sessions.list()).sessions == ()
    assert await chat.say("three") == ["three"]
    assert (await chat.sessions.get("s")).session.turn_count == 1


async def test_nothing_of_a_deleted_session_stays_in_the_files(tmp_path: Path) -> None:
    chat = Chat(SQLiteStore(tmp_path / "tasks.db"), storage=SQLiteStorage(tmp_path / "state.db"))
    word, padding = "Xanthippe", " and more" * 400

    def count() -> int:
        return sum(each.read_bytes().count(word.encode()) for each in tmp_path.iterdir())

    async with chat.agent:
        await chat.sessions.create("s", title=word, metadata={"text": word + padding})
        await chat.sessions.start_thread("s", "side", title=word)
        await chat.end(await chat.submit("one " + word))
        await chat.sessions.roll_back("s", "one " + word, reason=word)
        await chat.submit(f"wait for {word}")
        await chat.submit(f"and {word}")
        await chat.submit(f"also {word}", when_busy="merge")
        await chat.sessions.replace_input("s", f"and {word}", f"better {word}")
        await chat.sessions.update("s", title="other", metadata={})
        assert count()
        await chat.sessions.delete("s")
        assert not count()


async def test_the_state_of_a_session_is_deleted_also_if_the_agent_has_no_port(store: Callable[[], TaskStore]) -> None:
    chat = Chat(store())
    chat.sessions = AgentClient(url=await chat.agent.local_url(), timeout=WAIT_S).sessions
    await chat.say("one")
    assert (await chat.sessions.delete("s")).states == {"conversation": 2}
    assert await chat.say("two") == ["two"]
    await chat.agent.aclose()


async def test_a_reader_of_a_deleted_session_ends_with_not_found(chat: Chat) -> None:
    await chat.say("one")
    stream = chat.sessions.subscribe("s")
    async with asyncio.timeout(WAIT_S), aclosing(stream) as items:
        await anext(items)
        await chat.sessions.delete("s")
        with pytest.raises(SessionNotFoundError):
            async for _ in items:
                pass


async def test_a_session_is_not_deleted_if_the_policy_keeps_its_state(store: Callable[[], TaskStore]) -> None:
    chat = Chat(store(), policy=CapabilityPolicy({"state.reset": "deny"}))
    async with chat.agent:
        await chat.say("one")
        with pytest.raises(ActionDeniedError):
            await chat.sessions.delete("s")
        assert await chat.say("two") == ["one", "two"]
