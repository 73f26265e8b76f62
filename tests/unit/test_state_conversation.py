"""The conversation module: windows, reports, and changes with concurrent writers."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from protolink_grpc.errors import InvalidArgumentError, ModelError, SequenceConflictError
from protolink_grpc.models.action import OmittedContext
from protolink_grpc.models.conversation import HistoryCompactionRequest, LLMMessage
from protolink_grpc.runtime.default_handler import _read_history
from protolink_grpc.state import ConversationMemory, InMemoryStorage
from protolink_grpc.state import conversation as module

Change = Callable[[], Awaitable[object]]


class Moving(InMemoryStorage):
    """A storage with a concurrent change just before each replacement."""

    def __init__(self, *changes: Change) -> None:
        super().__init__()
        self.changes = list(changes)

    async def replace_messages(self, session_id: str, expected_version: int, messages: object) -> bool:
        if self.changes:
            await self.changes.pop(0)()
        return await super().replace_messages(session_id, expected_version, messages)  # type: ignore[arg-type]  # passed on


@pytest.fixture
def storage() -> Moving:
    return Moving()


@pytest.fixture
def memory(storage: Moving) -> ConversationMemory:
    return ConversationMemory(lambda: storage)


async def speak(memory: ConversationMemory, *words: str, session_id: str = "s") -> None:
    """Add one turn for each word: the word and its echo."""
    for word in words:
        await memory.remember(session_id, word, [LLMMessage("user", word), LLMMessage("assistant", f"{word}!")])


async def spoken(memory: ConversationMemory, session_id: str = "s") -> list[str]:
    return [message.content for message in await memory.history(session_id)]


class Summariser:
    def __init__(self, *meanwhile: Change, text: str = "in short") -> None:
        self.asked: list[list[str]] = []
        self.meanwhile = list(meanwhile)
        self.text = text

    async def __call__(self, messages: list[LLMMessage]) -> str:
        self.asked.append([message.content for message in messages])
        if self.meanwhile:
            await self.meanwhile.pop(0)()
        return self.text


SUMMARY = HistoryCompactionRequest("summary", preserve_recent=2)
RECENT = HistoryCompactionRequest("recent", max_messages=2)


async def speak_in_threads(memory: ConversationMemory) -> None:
    """Add turns to the sessions s and t, to threads of s, and to a thread of u, which has no turn of its own."""
    await speak(memory, "one")
    await speak(memory, "two", "three", session_id="s\nside")
    await speak(memory, "four", session_id="s\nside\n1")
    await speak(memory, "five", session_id="t")
    await speak(memory, "six", session_id="u\nside")


# -- turns ---------------------------------------------------------------------------------------------------------------


async def test_a_branch_continues_without_the_turns_that_it_leaves_out(memory: ConversationMemory) -> None:
    await speak(memory, "one", "two", "three")
    assert await memory.branch("s", "r", {"two", "three"}.__contains__)
    assert not await memory.branch("s", "r", {"one"}.__contains__)
    await speak(memory, "four", session_id="r")
    assert await spoken(memory, "r") == ["one", "one!", "four", "four!"]
    assert await spoken(memory) == ["one", "one!", "two", "two!", "three", "three!"]


async def test_a_window_limits_the_read_turns_and_deletes_nothing(storage: Moving) -> None:
    memory = ConversationMemory(lambda: storage, window=3)
    await speak(memory, "one", "two", "three")
    assert await spoken(memory) == ["three", "three!"]
    assert len(await memory.history("s", limit=4)) == 4
    assert (await memory.describe("s")).message_count == 6


def test_a_window_of_zero_is_refused(storage: Moving) -> None:
    with pytest.raises(InvalidArgumentError, match="window"):
        ConversationMemory(lambda: storage, window=0)


async def test_a_repeated_turn_is_not_added_again(memory: ConversationMemory) -> None:
    assert await memory.remember("s", "t", [LLMMessage("user", "one")])
    assert not await memory.remember("s", "t", [LLMMessage("user", "one")])
    assert await spoken(memory) == ["one"]


# -- reports -------------------------------------------------------------------------------------------------------------


async def test_a_session_is_described_by_its_counts(memory: ConversationMemory) -> None:
    await speak(memory, "one", "two")
    await speak(memory, "else", session_id="r")
    report = await memory.describe("s")
    assert (report.name, report.enabled, report.exists) == ("conversation", True, True)
    assert (report.item_count, report.message_count, report.data) == (4, 4, None)
    everything = await memory.describe()
    assert (everything.item_count, everything.message_count) == (2, 6)


async def test_an_unknown_session_is_described_as_missing(memory: ConversationMemory) -> None:
    report = await memory.describe("s", include_data=True)
    assert (report.exists, report.item_count, report.message_count) == (False, 0, 0)
    assert report.data is None


async def test_the_content_is_included_on_request(memory: ConversationMemory) -> None:
    await speak(memory, "one")
    await speak(memory, "two", session_id="r")
    messages = [message.to_dict() for message in await memory.history("s")]
    assert (await memory.describe("s", True)).data == messages
    shown = (await memory.describe(None, True)).data
    assert sorted(shown) == ["r", "s"]
    assert shown["s"] == messages


async def test_too_large_content_is_reduced_to_the_latest_messages(
    memory: ConversationMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await speak(memory, "one", "two")
    await speak(memory, "three", session_id="t")
    monkeypatch.setattr(module, "DATA_BYTES", 700)
    report = await memory.describe(None, True)
    shown = report.data["s"]
    assert 0 < len(shown) < 4
    assert shown[-1]["content"] == "two!"
    assert report.metadata == {"truncated": True}
    assert (report.item_count, report.message_count) == (2, 6)


async def test_a_message_that_is_too_large_is_shown_with_its_size_between_the_others(
    memory: ConversationMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await speak(memory, "one")
    await speak(memory, "x" * 2000)
    await speak(memory, "three")
    monkeypatch.setattr(module, "DATA_BYTES", 1500)
    report = await memory.describe("s", include_data=True)
    assert [(each["role"], each["content"][:5]) for each in report.data] == [
        ("user", "one"),
        ("assistant", "one!"),
        ("user", ""),
        ("assistant", ""),
        ("user", "three"),
        ("assistant", "three"),
    ]
    assert all(2000 < each["omitted_bytes"] < 3000 for each in report.data[2:4])
    assert report.metadata["truncated"]


async def test_a_session_is_described_with_its_threads(memory: ConversationMemory) -> None:
    await speak_in_threads(memory)
    report = await memory.describe("s", include_data=True)
    assert (report.item_count, report.message_count) == (8, 8)
    assert report.metadata == {"session_scoped": True, "threads": {"default": 2, "side": 6}}
    shown = [(message["content"], message.get("thread_id")) for message in report.data]
    words = [("one", None), ("two", "side"), ("three", "side"), ("four", "side")]
    assert shown == [(word + end, thread) for word, thread in words for end in ("", "!")]
    alone = await memory.describe("u", include_data=True)
    assert alone.metadata == {"session_scoped": True, "threads": {"side": 2}}
    assert [message["content"] for message in alone.data] == ["six", "six!"]


async def test_threads_are_described_under_their_sessions(memory: ConversationMemory) -> None:
    await speak_in_threads(memory)
    report = await memory.describe(include_data=True)
    assert (report.item_count, report.message_count) == (3, 12)
    assert {name: len(messages) for name, messages in report.data.items()} == {"s": 8, "t": 2, "u": 2}
    assert await memory.session_ids() == ["s", "t", "u"]
    assert await memory.knows("u")


# -- resetting -----------------------------------------------------------------------------------------------------------


async def test_a_reset_clears_one_session(memory: ConversationMemory) -> None:
    await speak(memory, "one")
    await speak(memory, "two", session_id="r")
    report = await memory.reset("s")
    assert (report.cleared, report.exists, report.message_count) == (True, False, 0)
    assert report.metadata["before"]["message_count"] == 2
    assert report.metadata["after"]["message_count"] == 0
    assert await spoken(memory) == []
    assert await spoken(memory, "r") == ["two", "two!"]


async def test_a_reset_of_a_session_clears_its_threads(memory: ConversationMemory) -> None:
    await speak_in_threads(memory)
    report = await memory.reset("s")
    assert (report.cleared, report.exists) == (True, False)
    assert report.metadata["before"]["metadata"]["threads"] == {"default": 2, "side": 6}
    assert await memory.session_ids() == ["t", "u"]
    assert (await memory.reset("u")).cleared
    assert await memory.knows("u")
    assert await spoken(memory, "t") == ["five", "five!"]


async def test_a_deletion_of_a_session_leaves_nothing_of_its_threads(memory: ConversationMemory) -> None:
    await speak_in_threads(memory)
    await memory.reset("s")
    await speak(memory, "seven", session_id="s\nside")
    assert await memory.delete("s") == 2
    assert not await memory.knows("s")
    assert await memory.delete("s") == 0
    assert await memory.session_ids() == ["t", "u"]
    await speak(memory, "one")  # the id of a deleted turn
    assert await spoken(memory) == ["one", "one!"]


async def test_a_reset_of_an_empty_session_clears_nothing(memory: ConversationMemory) -> None:
    report = await memory.reset("s")
    assert (report.cleared, report.exists) == (False, False)


async def test_a_reset_without_a_session_clears_all(memory: ConversationMemory) -> None:
    for session_id in ("a", "b", "c"):
        await speak(memory, "one", session_id=session_id)
    report = await memory.reset()
    assert (report.cleared, report.metadata["before"]["item_count"]) == (True, 3)
    assert await memory.session_ids() == []


async def test_a_session_after_a_reset_exists_and_is_empty(memory: ConversationMemory) -> None:
    await speak(memory, "one")
    await memory.reset("s")
    assert await memory.knows("s")
    assert not await memory.knows("r")


async def test_a_turn_that_ends_during_a_reset_does_not_stop_it(storage: Moving, memory: ConversationMemory) -> None:
    await speak(memory, "one")
    storage.changes = [lambda: speak(memory, "two")]
    await memory.reset("s")
    assert await spoken(memory) == []


async def test_a_turn_after_a_reset_is_the_first(memory: ConversationMemory) -> None:
    await speak(memory, "one")
    await memory.reset("s")
    await speak(memory, "one", "two")
    assert await spoken(memory) == ["two", "two!"]


# -- compacting ----------------------------------------------------------------------------------------------------------


async def test_recent_keeps_the_last_messages(memory: ConversationMemory) -> None:
    await speak(memory, "one", "two")
    result = await memory.compact("s", RECENT)
    assert await spoken(memory) == ["two", "two!"]
    assert (result.before_messages, result.after_messages, result.removed_messages) == (4, 2, 2)
    assert (result.before_tokens, result.after_tokens, result.changed) == (4, 2, True)


async def test_tokens_are_counted_with_the_given_function(memory: ConversationMemory) -> None:
    await speak(memory, "one", "two")
    result = await memory.compact("s", HistoryCompactionRequest("tokens", max_tokens=9), count=len)
    assert await spoken(memory) == ["two", "two!"]
    assert (result.before_tokens, result.after_tokens) == (14, 7)


async def test_a_summary_replaces_the_older_messages(memory: ConversationMemory) -> None:
    await speak(memory, "one", "two")
    summarise = Summariser()
    result = await memory.compact("s", SUMMARY, summarise)
    found = await memory.history("s")
    assert summarise.asked == [["one", "one!"]]
    assert "in short" in found[0].content
    assert found[0].role == "user"
    assert [message.content for message in found[1:]] == ["two", "two!"]
    assert result.summary_created
    assert (result.before_messages, result.after_messages) == (4, 3)


async def test_a_summary_is_not_summarised_alone(memory: ConversationMemory) -> None:
    await speak(memory, "one", "two")
    await memory.compact("s", SUMMARY, Summariser())
    summarise = Summariser()
    assert not (await memory.compact("s", SUMMARY, summarise)).changed
    assert summarise.asked == []


async def test_a_summary_needs_a_model(memory: ConversationMemory) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await memory.compact("s", SUMMARY)
    assert caught.value.field == "strategy"


async def test_an_empty_summary_changes_nothing(memory: ConversationMemory) -> None:
    await speak(memory, "one", "two")
    with pytest.raises(ModelError, match="empty summary"):
        await memory.compact("s", SUMMARY, Summariser(text=" \n"))
    assert await spoken(memory) == ["one", "one!", "two", "two!"]


async def test_a_compaction_that_changes_nothing_writes_nothing(storage: Moving, memory: ConversationMemory) -> None:
    await speak(memory, "one")
    before = await storage.load_messages("s")
    assert not (await memory.compact("s", HistoryCompactionRequest())).changed
    assert await storage.load_messages("s") == before
    assert not (await memory.compact("unknown", HistoryCompactionRequest())).changed


async def test_a_turn_that_ends_during_a_compaction_is_kept(storage: Moving, memory: ConversationMemory) -> None:
    await speak(memory, "one", "two")
    storage.changes = [lambda: speak(memory, "three")]
    result = await memory.compact("s", RECENT)
    assert await spoken(memory) == ["three", "three!"]
    assert result.before_messages == 6


async def test_a_turn_that_ends_during_a_summary_is_kept_and_the_model_is_called_once(
    storage: Moving, memory: ConversationMemory
) -> None:
    await speak(memory, "one", "two")
    storage.changes = [lambda: speak(memory, "four")]
    summarise = Summariser(lambda: speak(memory, "three"))
    result = await memory.compact("s", SUMMARY, summarise)
    assert summarise.asked == [["one", "one!"]]
    assert (await spoken(memory))[1:] == ["two", "two!", "three", "three!", "four", "four!"]
    assert (result.before_messages, result.after_messages) == (8, 7)


async def test_a_summary_of_messages_that_were_deleted_meanwhile_is_not_used(memory: ConversationMemory) -> None:
    await speak(memory, "one", "two")
    summarise = Summariser(lambda: memory.reset("s"))
    assert not (await memory.compact("s", SUMMARY, summarise)).changed
    assert await spoken(memory) == []


async def test_a_conversation_that_other_writers_keep_changing_is_not_compacted(
    storage: Moving, memory: ConversationMemory
) -> None:
    await speak(memory, "one", "two")
    storage.changes = [lambda index=index: speak(memory, f"more{index}") for index in range(module.ATTEMPTS)]  # type: ignore[misc]  # a default binds the index
    with pytest.raises(SequenceConflictError) as caught:
        await memory.compact("s", RECENT)
    assert caught.value.metadata == {"session_id": "s"}
    assert len(await memory.history("s")) == 4 + 2 * module.ATTEMPTS


async def test_a_recovered_inference_leaves_out_what_its_first_attempt_left_out(storage: Moving) -> None:
    memory = ConversationMemory(lambda: storage, window=2)
    await speak(memory, "one", "two", "three")
    ids = [message.id for message in await memory.history("s", limit=6)]
    limited = [OmittedContext("history", "s", "limit")]
    # By the last message of the conversation in the first attempt: unknown, none because it was empty, and the last one.
    for end, count, omitted in ((None, 2, limited), ("", 0, []), (ids[-1], 2, limited), (ids[-2], 1, limited)):
        journal = SimpleNamespace(history_ends={} if end is None else {"p": end})
        run: Any = SimpleNamespace(opened_conversation="s", journal=journal)
        found: Any = await _read_history(memory, run, "p")
        assert (len(found.messages), [*found.omitted]) == (count, omitted)
