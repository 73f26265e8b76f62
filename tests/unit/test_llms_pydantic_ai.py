"""Conversions to and from pydantic-ai: tool names, roles, arguments, leading thoughts, errors."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import exceptions, messages

from protolink_grpc.errors import ContextLimitError, ModelError, ModelUnavailableError
from protolink_grpc.llms.factory import create_llm
from protolink_grpc.llms.leading_thought import LeadingThought
from protolink_grpc.llms.port import ModelRequest, ToolSpec
from protolink_grpc.llms.prompt import data_block
from protolink_grpc.llms.providers import PROVIDERS
from protolink_grpc.llms.pydantic_ai_errors import TEXT_CHARS, Endpoint, to_model_error
from protolink_grpc.llms.pydantic_ai_prompt import (
    WireNames,
    fits_anthropic,
    to_messages,
    to_parameters,
    unwrap_answer,
    wire_names,
    wrap_schema,
)
from protolink_grpc.models.conversation import LLMMessage

ON_THE_WIRE = re.compile(r"[A-Za-z0-9_-]{1,64}")
tool_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}", fullmatch=True)


@given(st.sets(st.one_of(tool_names, st.sampled_from(["a.b", "a_b", "a-b", "a.b_2", "a_b_2", "x" * 70, "x" * 71]))))
def test_tool_names_are_mapped_to_unique_valid_names_and_back(names: set[str]):
    wire = WireNames(names)
    sent = {name: wire.wire(name) for name in names}
    assert len(set(sent.values())) == len(names)
    for name, on_the_wire in sent.items():
        assert ON_THE_WIRE.fullmatch(on_the_wire)
        assert wire.ours(on_the_wire) == name
        assert on_the_wire == name or not ON_THE_WIRE.fullmatch(name)


def test_an_unknown_tool_name_is_unchanged():
    assert WireNames(["files.read"]).ours("files_write") == "files_write"


said = st.builds(
    LLMMessage,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=st.text(max_size=20),
    tool_calls=st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "id": st.text(max_size=5),
                "name": tool_names,
                "arguments": st.one_of(
                    st.none(),
                    st.text(max_size=9),
                    st.lists(st.integers(), max_size=2),
                    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
                ),
            },
        ),
        max_size=2,
    ),
    tool_name=st.one_of(st.none(), tool_names),
    tool_call_id=st.one_of(st.none(), st.text(max_size=5)),
)


def as_sent(message: LLMMessage) -> str:
    if message.role == "user" or (message.role == "tool" and message.tool_call_id):
        return message.content
    data = [{"role": message.role, "content": message.content}]
    return "" if message.role == "assistant" else data_block("message", data)


def test_consecutive_user_messages_are_joined():
    said = [LLMMessage("user", "a"), LLMMessage("user", "b"), LLMMessage("assistant", "c"), LLMMessage("user", "d")]
    request = ModelRequest("", said)
    parts = [part for message in to_messages(request, wire_names(request)) for part in message.parts]
    assert [part.content for part in parts] == ["a\n\nb", "c", "d"]


@given(st.text(max_size=20), st.lists(said, max_size=8))
def test_only_the_authors_instructions_are_ever_system(system: str, conversed: list[LLMMessage]):
    request = ModelRequest(system, conversed)
    parts = [part for message in to_messages(request, wire_names(request)) for part in message.parts]
    systems = [part.content for part in parts if isinstance(part, messages.SystemPromptPart)]
    assert systems == ([system] if system else [])
    spoken = [part for part in parts if isinstance(part, messages.UserPromptPart | messages.ToolReturnPart)]
    assert "".join(str(part.content) for part in spoken).replace("\n\n", "") == "".join(
        map(as_sent, conversed)
    ).replace("\n\n", "")
    for call in (part for part in parts if isinstance(part, messages.ToolCallPart)):
        assert isinstance(call.args, dict)


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        (None, {}),
        ("{oops", {"INVALID_JSON": "{oops"}),
        ("[1]", {"INVALID_JSON": [1]}),
    ],
)
def test_arguments_go_back_to_the_model_as_an_object(arguments: Any, sent: dict[str, Any]):
    called = LLMMessage("assistant", tool_calls=[{"id": "c", "name": "t", "arguments": arguments}])
    request = ModelRequest("", [called])
    part = to_messages(request, wire_names(request))[0].parts[0]
    assert isinstance(part, messages.ToolCallPart)
    assert part.args == sent


def test_a_tool_without_a_schema_takes_an_empty_object():
    (tool,) = to_parameters([ToolSpec("now")], None, WireNames(["now"])).function_tools
    assert tool.parameters_json_schema == {"type": "object", "properties": {}}


# Leading thoughts


def through(*pieces: str) -> str:
    thought = LeadingThought()
    return "".join([*(thought.feed(piece) for piece in pieces), thought.rest()])


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>let me see</think>\n\nyes", "yes"),
        (" \n<think></think>yes <think>no</think>", "yes <think>no</think>"),
        ("<think>never ends", ""),
        ("<think>over</think> \n", ""),
        ("<thinking> is a word", "<thinking> is a word"),
        ("  <b>bold</b>", "  <b>bold</b>"),
        ("<thi", "<thi"),
        ("", ""),
        ("<think>a </thin </think>b", "b"),
    ],
)
def test_a_leading_thought_is_removed_for_all_splits_into_pieces(text: str, answer: str):
    assert through(text) == answer
    assert through(*text) == answer
    for cut in range(len(text)):
        assert through(text[:cut], text[cut:]) == answer


@given(st.lists(st.text(alphabet="<think/> a", max_size=9), max_size=9))
def test_text_without_a_leading_thought_is_unchanged_for_all_splits_into_pieces(pieces: list[str]):
    assert through(*pieces) == through("".join(pieces))


# Errors


@given(st.text(min_size=8, max_size=40), st.text(max_size=400), st.sampled_from([400, 404, 418, 429, 500, 503]))
def test_no_error_message_contains_the_key_or_exceeds_its_length(key: str, around: str, status: int):
    key = "sk-" + key.replace("*", "x")
    error = exceptions.ModelHTTPError(
        status, "m", {"error": {"message": f"{around}{key}{around}"}}, headers={"authorization": key}
    )
    ours = to_model_error(error, Endpoint(PROVIDERS["openai"], "m", "https://host/v1", key))
    assert key not in str(ours)
    assert key not in repr(ours.metadata)
    assert str(ours).isprintable()
    assert len(str(ours)) < TEXT_CHARS + 200


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (exceptions.ModelHTTPError(418, "m", "no object"), ModelError),
        (exceptions.ModelHTTPError(408, "m"), ModelUnavailableError),
        (exceptions.ModelHTTPError.for_category(None, status_code=413, model_name="m"), ModelError),
        (exceptions.ModelHTTPError(413, "m", {"message": "too many tokens"}), ContextLimitError),
        (exceptions.UnexpectedModelBehavior("nothing came"), ModelUnavailableError),
        (exceptions.UserError("no tools here"), ModelError),
        (ValueError("no JSON"), ModelUnavailableError),
    ],
)
def test_the_table_decides_the_type_of_an_error(error: Exception, expected: type[Exception]):
    assert type(to_model_error(error, Endpoint(PROVIDERS["ollama"], "m", "http://host"))) is expected


NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}
LEAF = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        (LEAF, True),
        ({"type": "object", "properties": {"x": {"$ref": "#/$defs/Leaf"}}, "$defs": {"Leaf": LEAF}}, True),
        ({"type": "object", "properties": {"x": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": NODE}}, False),
        ({"type": "object"}, False),
        (LEAF | {"additionalProperties": True}, False),
        ({"type": "object", "properties": {"x": {"type": "array", "items": {"type": "object"}}}}, False),
        ({"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(24)}}, True),
        ({"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(25)}}, False),
        ({"type": "object", "properties": {"x": {"$ref": "https://example.com/schema"}}}, False),
    ],
)
def test_a_schema_fits_anthropic_if_its_meaning_is_kept(schema: dict[str, Any], fits: bool) -> None:
    assert fits_anthropic(schema) is fits


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "array", "items": {"$ref": "#/items"}},
        {"$id": "https://example.com/schema", "type": "integer"},
        {"type": "array", "items": {"$dynamicRef": "#/$defs/x"}},
    ],
)
def test_a_schema_whose_references_would_change_is_not_wrapped(schema: dict[str, Any]) -> None:
    assert wrap_schema(schema) is None


@pytest.mark.parametrize("text", ["no JSON", '{"answer": 1, "more": 2}', '{"other": 1}', "[1]"])
def test_an_answer_that_is_not_wrapped_stays_unchanged(text: str) -> None:
    assert unwrap_answer(text) == text


async def test_a_connected_model_knows_its_context_window_unless_it_is_set() -> None:
    for given_window in (None, 4096):
        llm = create_llm("openai:gpt-4o", api_key="x")
        llm.configure_metrics(context_window=given_window)
        await llm.open()
        known = llm.profile.context_window
        await llm.aclose()
        assert known == given_window or (given_window is None and known is not None and known > 8192)
