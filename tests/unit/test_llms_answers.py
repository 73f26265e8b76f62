"""Parsing of complete and streamed answers."""

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protolink_grpc.llms.answers import (
    AGENT_TOOL,
    DELEGATE_TOOL,
    ActionParseError,
    FinalAnswer,
    RequestedActions,
    action_text,
    parse_json,
    read_action,
    read_native,
)
from protolink_grpc.llms.final_text import FinalText
from protolink_grpc.llms.port import ModelToolCall
from protolink_grpc.models.events import LlmCallCompleted
from protolink_grpc.models.part import ToolCall

WEATHER = ModelToolCall("weather", {"city": "Rome"}, "c")
ASK = ModelToolCall(DELEGATE_TOOL, {"agent": "hotel", "prompt": "book"}, "c")
AGENT = ModelToolCall(AGENT_TOOL, {"agent": "hotel", "tool": "book", "args": {"n": 1}}, "c")


def read(text: str) -> FinalAnswer | RequestedActions:
    return read_action(text, "c", ("weather",), ("hotel",))


def call_in(text: str) -> ModelToolCall:
    found = read(text)
    assert isinstance(found, RequestedActions)
    return found.calls[0]


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ('{"type":"tool_call","tool":"weather","args":{"city":"Rome"}}', WEATHER),
        ('{"type":"agent_call","agent":"hotel","action":"infer","prompt":"book"}', ASK),
        ('{"type":"agent_call","agent":"hotel","action":"tool_call","tool":"book","args":{"n":1}}', AGENT),
        ('{"type":"tool_call","thought":"hm","tool":"ping"}', ModelToolCall("ping", {}, "c")),
    ],
)
def test_an_action_of_the_contract_is_read(text: str, call: ModelToolCall) -> None:
    assert call_in(text) == call


@pytest.mark.parametrize(
    "text",
    [
        '<think>{"type":"final"} or the tool?</think>\n{"type":"tool_call","tool":"weather","args":{"city":"Rome"}}',
        '```json\n{"type":"tool_call","tool":"weather","args":{"city":"Rome"}}\n```',
        '{"type":"tool_call","tool":"weather","args":{"city":"Rome",},}',
        'I will look: {"type":"tool_call","tool":"weather","args":{"city":"Rome"}} - "done" {soon}',
        '{"tool_call":{"tool":"weather","args":{"city":"Rome"}}}',
        '{"type":"tool_call","payload":{"tool":"weather","args":{"city":"Rome"}}}',
        '{"action":"tool_call","tool":"weather","args":{"city":"Rome"}}',
        '{"tool":"weather","arguments":{"city":"Rome"}}',
        '{"type":"tool_call","tool":"weather","args":"{\\"city\\": \\"Rome\\"}"}',
        '{"type":"tool_call","tool":"weather(city=\\"Rome\\")"}',
        'weather(city="Rome")',
        "weather( city = 'Rome' )",
    ],
)
def test_common_mistakes_are_repaired_to_the_same_call(text: str) -> None:
    assert call_in(text) == WEATHER


def test_a_missing_agent_is_filled_in_if_there_is_only_one() -> None:
    assert call_in('{"type":"agent_call","prompt":"book"}') == ASK
    with pytest.raises(ActionParseError, match="agent: required"):
        read_action('{"type":"agent_call","prompt":"book"}', "c", (), ("hotel", "weather"))


def test_an_object_that_is_not_an_action_is_the_final_answer() -> None:
    assert read('{"city": "Rome", "days": 3}') == FinalAnswer({"city": "Rome", "days": 3})


def test_unescaped_line_ends_in_strings_are_accepted() -> None:
    assert read('{"type":"final","content":"one\ntwo"}') == FinalAnswer("one\ntwo")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "No JSON object"),
        ("I think it rains.", "No JSON object"),
        ("[1, 2]", "one JSON object"),
        ('"final"', "one JSON object"),
        ('{"type":"final","content":"a"} {"type":"final","content":"b"}', "Found 2 JSON objects"),
        ('{"type":"final"}', "content:"),
        ('{"type":"final","content":" "}', "content:"),
        ('{"type":"final","content":"a","mood":"good"}', "mood:"),
        ('{"type":"tool_call","args":{}}', "tool:"),
        ('{"type":"tool_call","tool":"weather","args":[1]}', "args:"),
        ('{"type":"agent_call","agent":"hotel","action":"dance"}', "action:"),
        ('{"type":"agent_call","agent":"hotel","action":"infer"}', "prompt:"),
        ('{"type":"agent_call","agent":"hotel","action":"tool_call"}', "tool:"),
        ('{"type":"shell","command":"rm"}', "type:"),
        ('{"type":["final"]}', "type:"),
        ("unknown(city='Rome')", "No JSON object"),
        ("<think>for ever", "No JSON object"),
    ],
)
def test_feedback_names_the_problem(text: str, field: str) -> None:
    with pytest.raises(ActionParseError) as caught:
        read(text)
    assert field in caught.value.feedback


def test_native_calls_keep_their_order_and_raw_arguments() -> None:
    completed = LlmCallCompleted(
        "k/1",
        text="let me see",
        tool_calls=(ToolCall("weather", {"city": "Rome"}, "c"), ToolCall("weather", {}, "d")),
        metrics={"raw_arguments": {"d": "{city"}},
    )
    assert read_native(completed) == RequestedActions(
        (WEATHER, ModelToolCall("weather", {}, "d", "{city")), "let me see"
    )


def test_native_text_is_final_and_an_empty_answer_is_an_error() -> None:
    assert read_native(LlmCallCompleted("k/1", text='{"type":"x"}')) == FinalAnswer('{"type":"x"}')
    with pytest.raises(ActionParseError):
        read_native(LlmCallCompleted("k/1", text=" \n"))


def test_parse_json_accepts_code_fences_and_trailing_commas_only() -> None:
    assert parse_json("```json\n[1, 2,]\n```") == [1, 2]
    assert parse_json("null") is None
    with pytest.raises(ActionParseError):
        parse_json("it is 3")


names = st.text("abcxyz_", min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(st.text(min_size=1, max_size=6), values, max_size=3)
calls = (
    st.builds(lambda name, args: ModelToolCall(name, args, "c"), names, arguments)
    | st.builds(
        lambda agent, prompt: ModelToolCall(DELEGATE_TOOL, {"agent": agent, "prompt": prompt}, "c"), names, names
    )
    | st.builds(
        lambda agent, tool, args: ModelToolCall(AGENT_TOOL, {"agent": agent, "tool": tool, "args": args}, "c"),
        names,
        names,
        arguments,
    )
)


@settings(deadline=None)
@given(calls)
def test_every_call_is_read_back_from_its_text(call: ModelToolCall) -> None:
    assert call_in(action_text(call)) == call


ESCAPES = ["\\", "\\u", "\\ud83d", "\x00", "\ud800", "é", "null", "1e999", "9" * 30]
MARKS = ["<think>", "</think>", "```json\n", "```", "a(b=", *"{}[],\"')( \n"]
pieces = st.sampled_from(['{"type":"tool_call"', '"tool":', '"final"', '"content":"', *MARKS, *ESCAPES])
hostile = st.text() | st.lists(pieces, max_size=30).map("".join) | values.map(json.dumps)


@settings(deadline=None)
@given(hostile)
@example("{" * 5000)
@example('{"a":' * 5000 + "1" + "}" * 5000)
@example("[" * 100_000)
@example('"\\' * 50_000)
@example("a(" + "b=1," * 20_000 + ")")
@example(",\t" * 50_000)
@example('{"' * 50_000)
@example("{}" * 20_000)
def test_no_text_raises_another_error_than_action_parse_error(text: str) -> None:
    for reader in (read, parse_json):
        with contextlib.suppress(ActionParseError):
            reader(text)
    FinalText().feed(text)


@pytest.mark.parametrize("unit", ["{", "}", '"', '\\"', "[{", ",   ", "{'", '{"a":', "<think>", "```", "a(b='"])
def test_parsing_time_is_linear_in_the_length(unit: str) -> None:
    text = unit * (400_000 // len(unit))
    started = time.process_time()
    with pytest.raises(ActionParseError):
        read(text)
    assert time.process_time() - started < 5  # seconds; a quadratic reader takes minutes


def shown(text: str, cuts: list[int]) -> str:
    reader = FinalText()
    ends = sorted({min(cut, len(text)) for cut in cuts} | {len(text)})
    return "".join(reader.feed(text[start:end]) for start, end in zip([0, *ends], ends, strict=False))


@settings(deadline=None)
@given(
    st.text(min_size=1),
    st.lists(st.integers(0, 300)),
    st.booleans(),
    st.sampled_from(["", "```json\n", "<think>a{</think> "]),
)
def test_the_text_of_a_final_answer_is_streamed_for_all_splits_into_pieces(
    content: str, cuts: list[int], escape: bool, lead: str
) -> None:
    text = lead + json.dumps({"type": "final", "thought": 'so "it" is', "content": content}, ensure_ascii=escape)
    assert shown(text, cuts) == content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@settings(deadline=None)
@given(hostile, st.lists(st.integers(0, 100)))
def test_streamed_text_is_a_prefix_of_the_parsed_content(text: str, cuts: list[int]) -> None:
    whole: Any = None
    try:
        found = read(text)
        whole = found.content if isinstance(found, FinalAnswer) else ""
    except ActionParseError:
        return
    assert (whole if isinstance(whole, str) else "").startswith(shown(text, cuts))


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"tool_call","tool":"weather","args":{"content":"x"}}',
        '{"content":"x","type":"final"}',
        "plain",
        '{"type":"final","content":{"a":"x"}}',
    ],
)
def test_only_the_text_of_final_answers_is_streamed(text: str) -> None:
    assert shown(text, list(range(len(text)))) == ""


def test_decoding_a_long_answer_is_linear() -> None:
    reader = FinalText()
    started = time.process_time()
    reader.feed('{"type":"final","thought":"')
    for _ in range(50_000):
        reader.feed("word ")
    reader.feed('","content":"')
    assert "".join(reader.feed("word ") for _ in range(50_000)) == "word " * 50_000
    assert time.process_time() - started < 5  # seconds
