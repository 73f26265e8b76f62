"""The contract of storages of an agent's state, for each implementation."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protolink_grpc.errors import (
    InvalidArgumentError,
    MessageTooLargeError,
    UnimplementedError,
    UnsupportedOperationError,
)
from protolink_grpc.models.conversation import HistoryCompactionRequest, LLMMessage
from protolink_grpc.state import ConversationMemory, InMemoryStorage, SQLiteStorage, State, Storage
from protolink_grpc.storage.agent_storage import TURNS_KEPT, ItemBounds
from protolink_grpc.storage.conversations import PAGE

ROOMY = ItemBounds(max_items=100, max_bytes=1 << 20)


@pytest.fixture(params=["memory", "sqlite"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    storage = InMemoryStorage() if request.param == "memory" else SQLiteStorage(tmp_path / "state.db")
    yield storage
    await storage.close()


def turn(name: str, size: int = 2) -> list[LLMMessage]:
    """A user's message and `size - 1` answers, all of which name the turn."""
    roles = ["user", *["assistant"] * (size - 1)]
    return [LLMMessage("user" if role == "user" else "assistant", f"{name}.{at}") for at, role in enumerate(roles)]


async def texts(storage: Storage, session_id: str = "s", limit: int | None = None) -> list[str]:
    return [message.content for message in (await storage.load_messages(session_id, limit)).messages]


async def fill(storage: Storage, *names: str, session_id: str = "s") -> None:
    for name in names:
        assert await storage.append_messages(session_id, name, turn(name, 1 + len(name) % 3))


# -- turns ---------------------------------------------------------------------------------------------------------------


async def test_a_session_that_nobody_spoke_in_is_empty(storage: Storage) -> None:
    found = await storage.load_messages("s")
    assert (found.messages, found.version, found.message_count) == ([], 0, 0)
    assert await storage.sessions() == {}


async def test_turns_come_back_in_the_order_in_which_they_were_added(storage: Storage) -> None:
    assert await storage.append_messages("s", "t1", turn("one"))
    assert await storage.append_messages("s", "t2", turn("two", 3))
    assert await texts(storage) == ["one.0", "one.1", "two.0", "two.1", "two.2"]
    assert (await storage.load_messages("s")).message_count == 5


async def test_every_field_of_a_message_comes_back(storage: Storage) -> None:
    messages = [
        LLMMessage("system", "be kind", name="author", metadata={"a": [1, {"b": None}]}),
        LLMMessage("assistant", "", tool_calls=[{"id": "c", "name": "f", "arguments": {"x": 2**70, "y": ""}}]),
        LLMMessage("tool", '{"é": "😀"}', tool_name="f", tool_call_id="c", name=""),
        LLMMessage("user", "nul \x00, quote ', line\n, 中文 \u2028 😀" * 3),
    ]
    await storage.append_messages("s", "t", messages)
    assert (await storage.load_messages("s")).messages == messages


async def test_a_message_of_megabytes_comes_back(storage: Storage) -> None:
    long = LLMMessage("user", "ж" * 3_000_000)
    await storage.append_messages("s", "t", [long])
    assert (await storage.load_messages("s")).messages == [long]


async def test_a_storage_shares_no_message_with_its_callers(storage: Storage) -> None:
    message = LLMMessage("user", "one", metadata={"list": [1]})
    await storage.append_messages("s", "t", [message])
    message.content, message.metadata["list"] = "changed", [2]
    (await storage.load_messages("s")).messages[0].metadata["list"].append(3)
    found = (await storage.load_messages("s")).messages[0]
    assert (found.content, found.metadata) == ("one", {"list": [1]})


async def test_a_repeated_turn_changes_nothing(storage: Storage) -> None:
    await storage.append_messages("s", "t", turn("one"))
    before = await storage.load_messages("s")
    assert not await storage.append_messages("s", "t", turn("other"))
    assert await storage.load_messages("s") == before


async def test_a_turn_id_is_one_of_its_session(storage: Storage) -> None:
    assert await storage.append_messages("s", "t", turn("one"))
    assert await storage.append_messages("r", "t", turn("two"))
    assert await texts(storage, "r") == ["two.0", "two.1"]


async def test_a_repeated_turn_stays_known_when_its_messages_are_gone(storage: Storage) -> None:
    await storage.append_messages("s", "t", turn("one"))
    assert await storage.replace_messages("s", (await storage.load_messages("s")).version, [])
    assert not await storage.append_messages("s", "t", turn("one"))
    assert await texts(storage) == []


async def test_of_many_turn_ids_a_replacement_keeps_the_latest(storage: Storage) -> None:
    for index in range(TURNS_KEPT + 2):
        await storage.append_messages("s", f"t{index}", [])
    assert await storage.replace_messages("s", (await storage.load_messages("s")).version, [])
    assert not await storage.append_messages("s", "t2", turn("a repetition"))
    assert await storage.append_messages("s", "t1", turn("forgotten"))


async def test_ids_may_be_any_text(storage: Storage) -> None:
    strange = "Ω'\"%_\x00 end"
    assert await storage.append_messages(strange, strange, turn("one"))
    assert await storage.sessions() == {strange: 2}
    assert await storage.delete_session(strange)


@pytest.mark.parametrize("wrong", ["", "half \ud800"])
async def test_ids_that_are_no_text_are_refused_by_name(storage: Storage, wrong: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await storage.append_messages(wrong, "t", turn("one"))
    assert caught.value.field == "session_id"
    with pytest.raises(InvalidArgumentError) as caught:
        await storage.append_messages("s", wrong, turn("one"))
    assert caught.value.field == "turn_id"
    for use in (
        storage.load_messages(wrong),
        storage.replace_messages(wrong, 0, []),
        storage.sessions(wrong),
        storage.conversations(wrong),
        storage.delete_session(wrong),
        storage.branch_messages("s", wrong, lambda _: False),
        storage.get_item(wrong, "key"),
        storage.set_item(wrong, "key", "", ROOMY),
        storage.delete_item(wrong, "key"),
        storage.items(wrong),
        storage.delete_items(wrong),
        storage.item_sessions(wrong),
    ):
        with pytest.raises(InvalidArgumentError) as caught:
            await use
        assert caught.value.field == "session_id"
    assert await storage.sessions() == {}


async def test_a_turn_that_cannot_be_written_leaves_nothing_behind(storage: Storage) -> None:
    with pytest.raises(InvalidArgumentError):
        await storage.append_messages("s", "t", [*turn("one"), LLMMessage("user", "half \ud800")])
    with pytest.raises(TypeError):
        await storage.append_messages("s", "t", [LLMMessage("user", "one", metadata={"a": object()})])
    assert await texts(storage) == []
    assert await storage.append_messages("s", "t", turn("one"))


# -- windows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (100, ["one.0", "one.1", "two.0", "two.1", "two.2", "three.0", "three.1"]),
        (7, ["one.0", "one.1", "two.0", "two.1", "two.2", "three.0", "three.1"]),
        (6, ["two.0", "two.1", "two.2", "three.0", "three.1"]),
        (5, ["two.0", "two.1", "two.2", "three.0", "three.1"]),
        (4, ["three.0", "three.1"]),
        (2, ["three.0", "three.1"]),
        (1, ["three.0", "three.1"]),
    ],
)
async def test_a_limit_keeps_the_latest_whole_turns(storage: Storage, limit: int, expected: list[str]) -> None:
    for name, size in (("one", 2), ("two", 3), ("three", 2)):
        await storage.append_messages("s", name, turn(name, size))
    assert await texts(storage, limit=limit) == expected
    assert (await storage.load_messages("s", limit)).message_count == 7


async def test_turns_are_told_apart_after_a_replacement(storage: Storage) -> None:
    await storage.append_messages("s", "one", turn("one", 4))
    await storage.append_messages("s", "two", turn("two", 3))
    known = await storage.load_messages("s")
    assert await storage.replace_messages("s", known.version, [LLMMessage("user", "sum"), *known.messages[2:]])
    assert await texts(storage, limit=1) == ["two.0", "two.1", "two.2"]
    assert await texts(storage, limit=4) == ["two.0", "two.1", "two.2"]
    assert await texts(storage, limit=6) == ["sum", "one.2", "one.3", "two.0", "two.1", "two.2"]


async def test_a_limit_below_one_is_refused(storage: Storage) -> None:
    with pytest.raises(InvalidArgumentError, match="limit"):
        await storage.load_messages("s", 0)


# -- replacing -----------------------------------------------------------------------------------------------------------


async def test_a_replacement_needs_the_version_that_was_read(storage: Storage) -> None:
    await storage.append_messages("s", "one", turn("one"))
    stale = await storage.load_messages("s")
    await storage.append_messages("s", "two", turn("two"))
    assert not await storage.replace_messages("s", stale.version, [])
    assert await texts(storage) == ["one.0", "one.1", "two.0", "two.1"]
    latest = await storage.load_messages("s")
    assert await storage.replace_messages("s", latest.version, latest.messages[2:])
    assert not await storage.replace_messages("s", latest.version, [])
    assert await texts(storage) == ["two.0", "two.1"]


async def test_a_session_can_begin_with_a_replacement(storage: Storage) -> None:
    assert not await storage.replace_messages("s", 1, turn("one"))
    assert await storage.replace_messages("s", 0, turn("one"))
    assert not await storage.replace_messages("s", 0, turn("two"))
    assert await texts(storage) == ["one.0", "one.1"]


async def test_a_session_that_comes_back_has_no_version_that_it_had(storage: Storage) -> None:
    await storage.append_messages("s", "one", turn("one"))
    old = await storage.load_messages("s")
    assert await storage.delete_session("s")
    assert await storage.append_messages("s", "one", turn("again"))
    assert (await storage.load_messages("s")).version > old.version
    assert not await storage.replace_messages("s", old.version, [])
    assert await texts(storage) == ["again.0", "again.1"]


async def test_a_deleted_session_is_gone_alone(storage: Storage) -> None:
    await storage.append_messages("s", "t", turn("one"))
    await storage.append_messages("r", "t", turn("two"))
    await storage.set_item("s", "key", "1", ROOMY)
    assert await storage.delete_session("s")
    assert not await storage.delete_session("s")
    assert await storage.sessions() == {"r": 2}
    assert await storage.items("s") == {"key": "1"}


async def test_sessions_are_listed_with_their_message_counts(storage: Storage) -> None:
    for name in ("b", "a"):
        await storage.append_messages(name, "t", turn("one"))
    await storage.append_messages("a", "u", turn("two", 3))
    await storage.append_messages("empty", "t", [])
    assert list((await storage.sessions()).items()) == [("a", 5), ("b", 2)]
    assert await storage.sessions("a") == {"a": 5}
    assert await storage.sessions("empty") == {}
    assert await storage.sessions("unknown") == {}


async def test_the_conversations_of_a_session_are_its_own_and_those_of_its_threads(storage: Storage) -> None:
    for name in ("s", "s\nside", "s\nside\n1", "s 2", "s2", "r\nside", "s\n\U0001f600"):
        await fill(storage, "a", session_id=name)
    assert await storage.replace_messages("s\nside", (await storage.load_messages("s\nside")).version, [])
    found = {"s": 2, "s\nside": 0, "s\nside\n1": 2, "s\n\U0001f600": 2}
    assert await storage.conversations("s") == found
    assert list(await storage.conversations("s")) == list(found)
    assert await storage.conversations("r") == {"r\nside": 2}
    assert await storage.conversations("s\nside") == {"s\nside": 0, "s\nside\n1": 2}
    assert await storage.conversations("unknown") == {}
    # What storages of applications inherit does not know empty threads.
    assert await Storage.conversations(storage, "s") == {name: count for name, count in found.items() if count}
    await storage.branch_messages("unknown", "empty", lambda _: False)
    assert await storage.conversations("empty") == await Storage.conversations(storage, "empty") == {"empty": 0}


async def test_the_conversations_of_a_session_with_many_threads_are_complete(storage: Storage) -> None:
    names = [f"s\n{index:03}" for index in range(PAGE * 2)]
    for name in names:
        await fill(storage, "a", session_id=name)
    assert list(await storage.conversations("s")) == names


# -- branches ------------------------------------------------------------------------------------------------------------


async def compact(storage: Storage, keep: int) -> None:
    """Replace all messages but the last `keep` ones by a summary."""
    known = await storage.load_messages("s")
    kept = known.messages[len(known.messages) - keep :]
    assert await storage.replace_messages("s", known.version, [LLMMessage("user", "sum"), *kept])


async def test_a_branch_has_all_turns_but_those_that_are_left_out(storage: Storage) -> None:
    await fill(storage, "a", "bb", "ccc", "dddd")
    before = await storage.load_messages("s")
    assert await storage.branch_messages("s", "r", {"bb", "dddd"}.__contains__)
    assert await texts(storage, "r") == ["a.0", "a.1", "ccc.0"]
    assert (await storage.load_messages("r")).messages == [*before.messages[:2], before.messages[5]]
    assert await texts(storage, "r", limit=1) == ["ccc.0"]
    assert await storage.load_messages("s") == before
    assert await storage.sessions() == {"r": 3, "s": 8}


async def test_a_branch_grows_like_any_other_session(storage: Storage) -> None:
    await fill(storage, "a", "bb")
    await storage.branch_messages("s", "r", {"bb"}.__contains__)
    version = (await storage.load_messages("r")).version
    assert not await storage.append_messages("r", "a", turn("again"))
    assert await storage.append_messages("r", "bb", turn("new"))
    assert await storage.append_messages("s", "ccc", turn("old"))
    assert await texts(storage, "r") == ["a.0", "a.1", "new.0", "new.1"]
    assert (await storage.load_messages("r")).version > version
    assert await storage.branch_messages("r", "q", {"a"}.__contains__)
    assert await texts(storage, "q") == ["new.0", "new.1"]


async def test_a_session_that_exists_is_no_branch(storage: Storage) -> None:
    await fill(storage, "a")
    assert await storage.branch_messages("s", "r", lambda _: False)
    await fill(storage, "bb", session_id="r")
    before = await storage.load_messages("r")
    assert not await storage.branch_messages("s", "r", lambda _: True)
    assert not await storage.branch_messages("s", "s", lambda _: True)
    assert await storage.load_messages("r") == before
    assert await storage.replace_messages("r", before.version, [])
    assert not await storage.branch_messages("s", "r", lambda _: False)


async def test_a_branch_of_a_session_that_does_not_exist_is_empty_and_exists(storage: Storage) -> None:
    assert await storage.branch_messages("s", "r", lambda _: False)
    assert not await storage.branch_messages("s", "r", lambda _: False)
    found = await storage.load_messages("r")
    assert (found.messages, found.message_count) == ([], 0)
    assert found.version > 0
    assert (await storage.load_messages("s")).version == 0
    assert await storage.delete_session("r")
    assert await storage.branch_messages("s", "r", lambda _: False)


async def test_only_one_of_several_calls_creates_a_branch(storage: Storage) -> None:
    await fill(storage, "a", "bb")
    made = await asyncio.gather(
        *(storage.branch_messages("s", "r", {name}.__contains__) for name in ("a", "bb", "a", "bb"))
    )
    assert made.count(True) == 1
    assert await texts(storage, "r") in (["a.0", "a.1"], ["bb.0", "bb.1", "bb.2"])


async def test_a_turn_that_was_compacted_cannot_be_left_out(storage: Storage) -> None:
    await fill(storage, "a", "bb", "ccc")
    await compact(storage, keep=2)  # a message of bb, and ccc
    await fill(storage, "dddd")
    for name in ("a", "bb"):
        with pytest.raises(UnsupportedOperationError, match=f"turn {name} cannot be identified"):
            await storage.branch_messages("s", "r", {name}.__contains__)
        assert (await storage.load_messages("r")).version == 0
    assert await storage.branch_messages("s", "r", {"ccc", "dddd"}.__contains__)
    assert await texts(storage, "r") == ["sum", "bb.2"]
    # The copy knows as little about the compacted turns.
    with pytest.raises(UnsupportedOperationError):
        await storage.branch_messages("r", "q", {"a"}.__contains__)
    assert not await storage.append_messages("r", "a", turn("a repetition"))


async def test_turns_whose_messages_are_gone_can_be_left_out(storage: Storage) -> None:
    await fill(storage, "a", "bb")
    assert await storage.replace_messages("s", (await storage.load_messages("s")).version, [])
    await fill(storage, "ccc", "dddd")
    assert await storage.branch_messages("s", "r", {"a", "dddd"}.__contains__)
    assert await texts(storage, "r") == ["ccc.0"]
    assert not await storage.append_messages("r", "bb", turn("a repetition"))


async def test_messages_in_another_order_or_with_one_id_belong_to_no_known_turn(storage: Storage) -> None:
    await fill(storage, "a", "bb")
    known = await storage.load_messages("s")
    assert await storage.replace_messages("s", known.version, known.messages[::-1])
    with pytest.raises(UnsupportedOperationError):
        await storage.branch_messages("s", "r", {"a"}.__contains__)
    same = LLMMessage("user", "same")
    for name in ("one", "two"):
        await storage.append_messages("q", name, [same])
    assert await storage.replace_messages("q", (await storage.load_messages("q")).version, [same])
    with pytest.raises(UnsupportedOperationError):
        await storage.branch_messages("q", "r", {"one"}.__contains__)


async def test_a_turn_is_known_as_long_as_its_messages_are_there(storage: Storage) -> None:
    await storage.append_messages("s", "first", turn("first"))
    for index in range(TURNS_KEPT + 1):
        await storage.append_messages("s", f"t{index}", [])
    known = await storage.load_messages("s")
    assert await storage.replace_messages("s", known.version, known.messages)
    assert not await storage.append_messages("s", "first", turn("a repetition"))
    assert await storage.branch_messages("s", "r", {"first"}.__contains__)
    assert await texts(storage, "r") == []


async def test_a_storage_of_an_application_needs_no_branches() -> None:
    class Older(InMemoryStorage):
        branch_messages = Storage.branch_messages

    with pytest.raises(UnimplementedError, match="Older does not implement branch_messages"):
        await Older().branch_messages("s", "r", lambda _: False)


# -- namespaces ----------------------------------------------------------------------------------------------------------


async def test_namespaces_of_one_storage_share_nothing(storage: Storage) -> None:
    other = storage.within("other")
    for each, name in ((storage, "mine"), (other, "yours")):
        await each.append_messages("s", "t", turn(name))
        await each.set_item("s", "key", f'"{name}"', ROOMY)
        await asyncio.to_thread(each.save, {"name": name})
    assert await texts(storage) == ["mine.0", "mine.1"]
    assert await texts(other) == ["yours.0", "yours.1"]
    assert await texts(storage.within("other")) == ["yours.0", "yours.1"]
    assert (await storage.get_item("s", "key"), await other.get_item("s", "key")) == ('"mine"', '"yours"')
    assert await asyncio.to_thread(storage.load) == {"name": "mine"}
    await other.delete_session("s")
    assert await storage.sessions() == {"s": 2}


# -- one value -----------------------------------------------------------------------------------------------------------


def test_a_value_is_saved_loaded_updated_and_deleted(tmp_path: Path) -> None:
    for storage in (InMemoryStorage(), SQLiteStorage(tmp_path / "state.db", "notes", "agent")):
        assert storage.load() is None
        storage.update({"a": 1})
        storage.update({"b": [2], "a": 3})
        assert storage.load() == {"a": 3, "b": [2]}
        storage.save(["é"])
        assert storage.load() == ["é"]
        with pytest.raises(InvalidArgumentError, match="not an object"):
            storage.update({"a": 1})
        storage.delete()
        assert storage.load() is None
        asyncio.run(storage.close())


# -- items ---------------------------------------------------------------------------------------------------------------


async def test_items_are_kept_by_session_and_name(storage: Storage) -> None:
    await storage.set_item("s", "b", "1", ROOMY)
    await storage.set_item("s", "a", "2", ROOMY)
    await storage.set_item("s", "b", "3", ROOMY)
    await storage.set_item("r", "a", "4", ROOMY)
    assert list((await storage.items("s")).items()) == [("a", "2"), ("b", "3")]
    assert await storage.item_sessions() == {"r": 1, "s": 2}
    assert await storage.item_sessions("s") == {"s": 2}
    assert await storage.item_sessions("unknown") == {}
    assert await storage.delete_item("s", "a")
    assert not await storage.delete_item("s", "a")
    assert await storage.get_item("s", "a") is None
    assert await storage.delete_items("s") == 1
    assert await storage.item_sessions() == {"r": 1}


async def test_items_over_the_bounds_of_a_session_are_refused(storage: Storage) -> None:
    bounds = ItemBounds(max_items=2, max_bytes=10)
    await storage.set_item("s", "a", "é" * 3, bounds)
    with pytest.raises(MessageTooLargeError, match="at most 10 bytes"):
        await storage.set_item("s", "b", "123", bounds)
    await storage.set_item("s", "b", "12", bounds)
    with pytest.raises(MessageTooLargeError, match="at most 2 items"):
        await storage.set_item("s", "c", "", bounds)
    await storage.set_item("s", "a", "123456", bounds)
    await storage.set_item("r", "c", "", bounds)
    assert await storage.items("s") == {"a": "123456", "b": "12"}


# -- many at once --------------------------------------------------------------------------------------------------------


def check_whole_turns(found: list[str], sizes: dict[str, int]) -> None:
    """Every turn is in `found` exactly once, its messages side by side and in order."""
    seen: list[str] = []
    at = 0
    while at < len(found):
        name = found[at].partition(".")[0]
        assert found[at : at + sizes[name]] == [f"{name}.{index}" for index in range(sizes[name])]
        seen.append(name)
        at += sizes[name]
    assert sorted(seen) == sorted(sizes)


async def test_turns_added_at_the_same_time_are_all_there_and_whole(storage: Storage) -> None:
    sizes = {f"t{index}": 1 + index % 4 for index in range(100)}
    added = await asyncio.gather(
        # Each is sent twice, as after a crash whose answer was lost.
        *(storage.append_messages("s", name, turn(name, size)) for name, size in [*sizes.items()] * 2)
    )
    assert sum(added) == len(sizes)
    check_whole_turns(await texts(storage), sizes)


async def test_a_storage_serves_several_event_loops(storage: Storage) -> None:
    sizes = {f"t{thread}-{index}": 3 for thread in range(4) for index in range(10)}

    def work(thread: int) -> None:
        async def add() -> None:
            for index in range(10):
                await storage.append_messages("s", f"t{thread}-{index}", turn(f"t{thread}-{index}", 3))

        asyncio.run(add())

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        await asyncio.to_thread(each.join)
    check_whole_turns(await texts(storage), sizes)


async def test_of_two_replacements_of_one_version_one_wins(storage: Storage) -> None:
    await storage.append_messages("s", "t", turn("one"))
    version = (await storage.load_messages("s")).version
    won = await asyncio.gather(*(storage.replace_messages("s", version, turn(f"w{index}")) for index in range(8)))
    assert sum(won) == 1
    winner = won.index(True)
    assert await texts(storage) == [f"w{winner}.0", f"w{winner}.1"]


async def test_several_processes_lose_and_split_no_turn(tmp_path: Path, launch: Callable[..., Awaitable[Any]]) -> None:
    source = """
        import asyncio, sys
        from protolink_grpc.models.conversation import LLMMessage
        from protolink_grpc.state import SQLiteStorage

        async def main(path, name):
            async with SQLiteStorage(path) as storage:
                print("ready", flush=True)
                sys.stdin.readline()
                for index in range(40):
                    turn = f"{name}-{index}"
                    messages = [LLMMessage("user", f"{turn}.{at}") for at in range(3)]
                    assert await storage.append_messages("s", turn, messages)
                    known = await storage.load_messages("s")
                    # A write without a change may meet a turn of another writer, and must not remove it.
                    await storage.replace_messages("s", known.version, known.messages)
            print("done", flush=True)

        asyncio.run(main(*sys.argv[1:]))
    """
    path = tmp_path / "state.db"
    programs = [await launch(source, path, name) for name in ("a", "b")]
    for program in programs:
        assert await program.line() == "ready"
    for program in programs:
        program.say("go")
    for program in programs:
        assert await program.line() == "done"
    async with SQLiteStorage(path) as storage:
        check_whole_turns(await texts(storage), {f"{name}-{index}": 3 for name in "ab" for index in range(40)})


# -- any interleaving ----------------------------------------------------------------------------------------------------

ACTIONS = st.lists(
    st.sampled_from(["add", "add", "add", "repeat", "summary", "reset", "pause"]), min_size=1, max_size=8
)


async def record(messages: list[LLMMessage]) -> str:
    """A summary that forgets nothing: the names of the turns, and a mark where one of them is not whole."""
    await asyncio.sleep(0)
    names: list[str] = []
    for message in messages:
        names += message.content.splitlines()[-1].split() if message.metadata else [message.content]
    return " ".join(names)


class Writer:
    """One user of a session. Of each turn that it was told is kept, the world knows the resets that had begun before it."""

    def __init__(self, name: str, memory: ConversationMemory, world: dict[str, Any]) -> None:
        self.name, self.memory, self.world = name, memory, world
        self.count = 0

    async def run(self, actions: list[str]) -> None:
        for action in actions:
            await getattr(self, action)()

    async def add(self) -> None:
        self.count += 1
        # While a reset is under way a turn may go or stay.
        name, begun = f"{self.name}{self.count}", -1 if self.world["active"] else self.world["begun"]
        assert await self.memory.remember("s", name, turn(name, 1 + self.count % 3))
        self.world["turns"][name] = (1 + self.count % 3, begun)

    async def repeat(self) -> None:
        if self.count:
            assert not await self.memory.remember("s", f"{self.name}{self.count}", turn("wrong"))

    async def summary(self) -> None:
        request = HistoryCompactionRequest("summary", preserve_recent=2)
        await self.memory.compact("s", request, record)

    async def reset(self) -> None:
        self.world["begun"] += 1
        self.world["active"] += 1
        await self.memory.reset("s")
        self.world["active"] -= 1

    async def pause(self) -> None:
        await asyncio.sleep(0)


async def interleave(storage: Storage, plans: list[list[str]]) -> None:
    memory = State(storage).of("ada").conversation
    assert memory is not None
    world: dict[str, Any] = {"turns": {}, "active": 0, "begun": 0}
    await asyncio.gather(*(Writer(name, memory, world).run(plan) for name, plan in zip("abc", plans, strict=False)))
    words = (await record(await memory.history("s"))).split()
    for name, (size, begun) in world["turns"].items():
        at = [index for index, word in enumerate(words) if word.partition(".")[0] == name]
        if begun == world["begun"]:
            assert at, f"{name} came after the last reset and is lost: {words}"
        if at:
            assert [words[index] for index in at] == [f"{name}.{index}" for index in range(size)]
            assert at == list(range(at[0], at[0] + size)), f"{name} is split: {words}"
    assert all(word.partition(".")[0] in world["turns"] for word in words)


@given(st.lists(ACTIONS, min_size=1, max_size=3))
@settings(max_examples=150, deadline=None)
def test_no_interleaving_loses_or_splits_a_turn_in_memory(plans: list[list[str]]) -> None:
    asyncio.run(interleave(InMemoryStorage(), plans))


@given(plans=st.lists(ACTIONS, min_size=2, max_size=3))
@settings(max_examples=40, deadline=None)
def test_no_interleaving_loses_or_splits_a_turn_in_a_file(
    tmp_path_factory: pytest.TempPathFactory, plans: list[list[str]]
) -> None:
    async def work() -> None:
        async with SQLiteStorage(tmp_path_factory.mktemp("state") / "state.db") as storage:
            await interleave(storage, plans)

    asyncio.run(work())
