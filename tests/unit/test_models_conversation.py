"""Conversations and their compaction."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.conversation import (
    ConversationHistory,
    HistoryCompactionRequest,
    HistoryCompactionResult,
    LLMMessage,
    compact_recent,
    compact_tokens,
    message_tokens,
    split_for_summary,
)


def call(*ids: str) -> LLMMessage:
    return LLMMessage("assistant", tool_calls=[{"id": each, "name": "look", "arguments": {}} for each in ids])


def answer(call_id: str) -> LLMMessage:
    return LLMMessage("tool", '"seen"', tool_name="look", tool_call_id=call_id)


def user(text: str = "hello") -> LLMMessage:
    return LLMMessage("user", text)


def words(messages: list[LLMMessage]) -> list[str]:
    return [message.content for message in messages]


def test_a_history_survives_a_list_of_dicts() -> None:
    history = ConversationHistory("be kind")
    history.add_user("what is up?")
    history.add_raw(call("1"))
    history.add_tool('"the sky"', "look", "1")
    history.add_assistant("the sky")
    again = ConversationHistory.from_list(history.to_list())
    assert again.to_list() == history.to_list()
    assert [message.role for message in again] == ["system", "user", "assistant", "tool", "assistant"]
    assert len(again) == 5


def test_a_copy_shares_nothing_with_its_original() -> None:
    history = ConversationHistory()
    history.add_raw(call("1"))
    copied = history.copy()
    copied.messages[0].tool_calls[0]["name"] = "other"
    copied.add_user("more")
    assert history.messages[0].tool_calls[0]["name"] == "look"
    assert len(history) == 1


def test_set_system_replaces_the_first_message_only_where_it_is_one_of_the_system() -> None:
    history = ConversationHistory()
    history.add_user("hello")
    history.set_system("one")
    history.set_system("two")
    assert words(history.messages) == ["two", "hello"]


def test_reset_to_system_forgets_everything_else() -> None:
    history = ConversationHistory("old")
    history.add_user("hello")
    history.reset_to_system("new")
    assert words(history.messages) == ["new"]


def test_replace_keeps_the_object_and_changes_nothing_on_an_error() -> None:
    history = ConversationHistory()
    history.add_user("hello")
    with pytest.raises(InvalidArgumentError, match=r"\[1\]\.role"):
        history.replace([{"role": "user", "content": "a"}, {"role": "martian"}])
    assert words(history.messages) == ["hello"]
    history.replace([{"role": "user", "content": "a"}])
    assert words(history.messages) == ["a"]


def test_truncate_keeps_a_leading_system_message() -> None:
    history = ConversationHistory("rules")
    for number in range(10):
        history.add_user(str(number))
    history.truncate(3)
    assert words(history.messages) == ["rules", "8", "9"]


@pytest.mark.parametrize("bound", [-1, 0, 1])
def test_truncate_refuses_less_than_two_messages(bound: int) -> None:
    with pytest.raises(ValueError, match="max_messages"):
        ConversationHistory().truncate(bound)


def test_a_cut_takes_the_answers_away_with_their_call() -> None:
    messages = [user("a"), call("1", "2"), answer("1"), answer("2"), user("b")]
    assert compact_recent(messages, 3) == messages[4:]
    assert compact_recent(messages, 4) == messages[1:]


def test_tokens_keep_the_longest_end_that_fits() -> None:
    messages = [LLMMessage("system", "xx"), user("aaaa"), user("bbb"), user("cc")]
    assert words(compact_tokens(messages, 7, len)) == ["xx", "bbb", "cc"]
    assert words(compact_tokens(messages, 6, len)) == ["xx", "cc"]
    assert words(compact_tokens(messages, 1, len)) == ["xx"]
    assert compact_tokens(messages, 100, len) == messages


def test_arguments_of_calls_count_as_tokens() -> None:
    assert message_tokens(call("1"), len) > message_tokens(LLMMessage("assistant"), len)


def test_a_summary_stands_in_the_users_role_for_what_it_replaces() -> None:
    messages = [LLMMessage("system", "rules"), user("a"), user("b"), user("c")]
    made = split_for_summary(messages, 1).joined("they said a and b")
    assert [message.role for message in made] == ["system", "user", "user"]
    assert "they said a and b" in made[1].content
    assert made[2] is messages[3]


def test_a_split_for_a_summary_keeps_a_call_with_its_answers() -> None:
    messages = [user("a"), call("1", "2"), answer("1"), answer("2")]
    split = split_for_summary(messages, 1)
    assert (split.older, split.recent) == (messages[:1], messages[1:])


@pytest.mark.parametrize(
    ("field", "value"),
    [("strategy", "magic"), ("max_messages", 1), ("max_tokens", 0), ("preserve_recent", -1), ("summary_max_tokens", 0)],
)
def test_a_wrong_request_names_its_field(field: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        HistoryCompactionRequest(**{field: value})  # type: ignore[arg-type]  # wrong on purpose
    assert caught.value.field == field


def test_requests_and_results_survive_their_json() -> None:
    request = HistoryCompactionRequest("tokens", 8, 100, 2, 64, "customer-42", {"why": "size"})
    assert HistoryCompactionRequest.from_dict(request.to_dict()) == request
    assert HistoryCompactionRequest.from_dict({}) == HistoryCompactionRequest()
    result = HistoryCompactionResult("recent", 5, 2, 3, 50, 20)
    assert result.to_dict()["changed"] is True
    assert HistoryCompactionResult.from_dict(result.to_dict()) == result


def test_a_result_counts_what_is_gone_and_sees_a_summary() -> None:
    before = [user("aa"), user("b"), user("c")]
    cut = HistoryCompactionResult.of("recent", before, before[1:], len)
    assert (cut.removed_messages, cut.before_tokens, cut.after_tokens, cut.summary_created) == (1, 4, 2, False)
    told = HistoryCompactionResult.of("summary", before, split_for_summary(before, 1).joined("s"), len)
    assert (told.removed_messages, told.after_messages, told.summary_created) == (2, 2, True)
    assert not HistoryCompactionResult.of("recent", before, list(before), len).changed


@st.composite
def conversations(draw: st.DrawFn) -> list[LLMMessage]:
    """Turns as they really are: every tool's message behind the call that it answers."""
    messages = [LLMMessage("system", draw(st.text(max_size=5)))] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(0, 6))):
        messages.append(user(draw(st.text(max_size=8))))
        for step in range(draw(st.integers(0, 3))):
            ids = [f"{turn}.{step}.{index}" for index in range(draw(st.integers(1, 3)))]
            messages += [call(*ids), *map(answer, ids)]
        messages.append(LLMMessage("assistant", "done"))
    return messages


def is_whole(messages: list[LLMMessage]) -> bool:
    """Each call has its answers, each answer its call."""
    asked = {each["id"] for message in messages for each in message.tool_calls}
    told = {message.tool_call_id for message in messages if message.role == "tool"}
    return asked == told


COMPACTIONS: dict[str, Callable[[list[LLMMessage], int], list[LLMMessage]]] = {
    "recent": lambda messages, bound: compact_recent(messages, bound + 2),
    "tokens": lambda messages, bound: compact_tokens(messages, bound, len),
    "summary": lambda messages, bound: split_for_summary(messages, bound).joined("summary"),
}


@pytest.mark.parametrize("strategy", COMPACTIONS)
@settings(deadline=None)
@given(messages=conversations(), bound=st.integers(0, 40))
def test_no_compaction_parts_a_call_from_its_answers(strategy: str, messages: list[LLMMessage], bound: int) -> None:
    made = COMPACTIONS[strategy](messages, bound)
    assert is_whole(made)
    if messages and messages[0].role == "system":
        assert made[0] is messages[0]
    kept = [message for message in made if any(message is each for each in messages)]
    start = 1 if messages and messages[0].role == "system" else 0
    assert kept[start:] == messages[len(messages) - len(kept[start:]) :]  # the end, without gaps


@settings(deadline=None)
@given(messages=conversations(), bound=st.integers(2, 40))
def test_recent_keeps_its_bound(messages: list[LLMMessage], bound: int) -> None:
    assert len(compact_recent(messages, bound)) <= bound


@settings(deadline=None)
@given(messages=conversations(), bound=st.integers(1, 60))
def test_tokens_keep_their_bound(messages: list[LLMMessage], bound: int) -> None:
    made = compact_tokens(messages, bound, len)
    if len(made) > 1:
        assert sum(message_tokens(message, len) for message in made) <= bound
