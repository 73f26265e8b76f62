"""Parsing on the command line: arguments of tools, headers, filters. No server is called."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc import Agent
from protolink_grpc.cli.call_command import coerce, find_skill, parse_arguments
from protolink_grpc.cli.connect import is_address
from protolink_grpc.cli.failure import CommandError, ExitCode, command_error
from protolink_grpc.cli.output import one_line, printable
from protolink_grpc.cli.probe import WireProtocol, classify
from protolink_grpc.cli.settings import parse_header, parse_pairs
from protolink_grpc.errors import classes
from protolink_grpc.models.card import AgentSkill


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ({"type": "integer"}, "5", 5),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "False", False),
        ({"type": "array"}, "[1, 2]", [1, 2]),
        ({"type": "object"}, '{"a": "b"}', {"a": "b"}),
        ({"type": ["integer", "null"]}, "null", None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", 7),
        ({"$ref": "#/$defs/Size"}, "3", 3),
        ({"enum": [1, 2]}, "2", 2),
        ({"const": 4}, "4", 4),
        ({"type": "string"}, "5", "5"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5", "5"),
        ({"enum": ["1", "2"]}, "2", "2"),
        ({}, "5", "5"),
        ({"$ref": "#/$defs/Loop"}, "5", "5"),
        ({"$ref": "elsewhere.json"}, "5", "5"),
    ],
)
def test_a_value_is_read_as_the_schema_says(kind: dict[str, Any], text: str, value: Any) -> None:
    definitions = {"$defs": {"Size": {"type": "integer"}, "Loop": {"$ref": "#/$defs/Loop"}}}
    found = coerce(text, "x", schema(x=kind) | definitions)
    assert found == value
    assert type(found) is type(value)


def test_a_value_that_does_not_match_its_schema_stays_text_for_the_agent_to_refuse() -> None:
    assert coerce("abc", "x", schema(x={"type": "integer"})) == "abc"


def test_further_properties_follow_their_own_schema() -> None:
    assert coerce("5", "other", schema() | {"additionalProperties": {"type": "integer"}}) == 5
    assert coerce("5", "other", schema()) == "5"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=5))
def test_json_after_a_colon_is_taken_as_it_is(value: Any) -> None:
    assert parse_arguments([f"key:={json.dumps(value)}"]) == [("key", True, value)]


@given(st.text(st.characters(exclude_characters="=:", exclude_categories=["Cs"]), min_size=1), st.text())
def test_text_after_the_first_equals_sign_is_the_value(key: str, value: str) -> None:
    assert parse_arguments([f"{key}={value}"]) == [(key, False, value)]


@given(st.text(), st.text())
def test_coercion_never_fails(text: str, kind: str) -> None:
    for each in ({"type": kind}, {"type": "integer"}, {"type": ["boolean", "array"]}):
        coerce(text, "x", schema(x=each))


@pytest.mark.parametrize("texts", [["nothing"], ["=1"], [":=1"], ["a=1", "a=2"], ["a:={"]])
def test_text_without_an_equals_sign_is_a_usage_error(texts: list[str]) -> None:
    with pytest.raises(CommandError) as caught:
        parse_arguments(texts)
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.hint


def test_the_schemas_that_agents_publish_are_understood() -> None:
    agent = Agent(name="books")

    @agent.tool
    def book(nights: int, breakfast: bool | None = None, guests: list[str] | None = None, name: str = "") -> None:
        """Book."""

    (skill,) = agent.card.skills
    typed = {"nights": "5", "breakfast": "true", "guests": '["Ada"]', "name": "12"}
    read = {name: coerce(text, name, skill.input_schema) for name, text in typed.items()}
    assert read == {"nights": 5, "breakfast": True, "guests": ["Ada"], "name": "12"}


def test_an_unknown_tool_is_answered_with_the_nearest_name() -> None:
    skills = [AgentSkill("book_hotel"), AgentSkill("cancel")]
    with pytest.raises(CommandError) as caught:
        find_skill(skills, "bok_hotel", "hotel")
    assert "book_hotel" in caught.value.hint
    with pytest.raises(CommandError) as caught:
        find_skill(skills, "zzz", "hotel")
    assert "book_hotel, cancel" in caught.value.hint


def test_headers_become_lower_case_metadata() -> None:
    assert parse_header("Authorization=Bearer a=b") == ("authorization", "Bearer a=b")


@pytest.mark.parametrize("text", ["plain", "=value", "two words=1", "data-bin=1", "grpc-timeout=1", "key=secret\n"])
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(text: str) -> None:
    with pytest.raises(CommandError) as caught:
        parse_header(text)
    assert caught.value.exit_code is ExitCode.USAGE
    assert "secret" not in str(caught.value)


def test_pairs_need_an_equals_sign() -> None:
    assert parse_pairs(["zone=eu", "tier=a=b"], "--meta") == {"zone": "eu", "tier": "a=b"}
    with pytest.raises(CommandError):
        parse_pairs(["zone"], "--meta")


@pytest.mark.parametrize("target", ["grpc://a:1", "127.0.0.1:50051", "[::1]:5", "localhost:1", "http://x"])
def test_urls_and_host_with_port_are_addresses(target: str) -> None:
    assert is_address(target)


@pytest.mark.parametrize("target", ["hotel", "hotel agent", "my:agent", "a:b:1"])
def test_other_targets_are_names(target: str) -> None:
    assert not is_address(target)


@given(st.text())
def test_no_control_character_is_ever_shown(text: str) -> None:
    shown = printable(text)
    assert not any(ord(each) < 32 and each not in "\n\t" for each in shown)
    assert not any(127 <= ord(each) < 160 for each in shown)
    assert not set(shown) & set("\u202e\u2066\u200f\u2028")
    shown.encode()
    assert "\n" not in one_line(text)
    assert len(one_line(text)) <= 120


@pytest.mark.parametrize("reason", sorted(classes()))
def test_every_error_of_the_library_has_an_exit_code_and_a_hint_without_gaps(reason: str) -> None:
    failed = command_error(classes()[reason]("it did not work"), "hotel")
    assert failed.exit_code in {1, 3, 4, 5}
    assert "{" not in failed.hint


@pytest.mark.parametrize("reason", ["UNAUTHENTICATED", "PERMISSION_DENIED"])
def test_unauthenticated_and_forbidden_callers_have_the_same_exit_code(reason: str) -> None:
    assert command_error(classes()[reason]("no"), "hotel").exit_code is ExitCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("answer", "protocol"),
    [
        (bytes.fromhex("000000040000000000"), WireProtocol.HTTP2),
        (bytes.fromhex("000006040000000000000300000064"), WireProtocol.HTTP2),
        (b"HTTP/1.1 400 Bad Request\r\n", WireProtocol.HTTP1),
        (bytes.fromhex("15030300020246"), WireProtocol.TLS),
        (b"", WireProtocol.NOTHING),
        (b"SSH-2.0-OpenSSH\r\n", WireProtocol.OTHER),
    ],
)
def test_the_first_bytes_identify_a_servers_protocol(answer: bytes, protocol: WireProtocol) -> None:
    assert classify(answer) is protocol


@given(st.binary(max_size=64))
def test_any_first_bytes_are_classified(answer: bytes) -> None:
    assert classify(answer) in WireProtocol
