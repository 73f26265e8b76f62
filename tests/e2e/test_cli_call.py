"""`plgrpc call` prints the result of a tool."""

import json
from collections.abc import Iterator

import pytest
from cli_world import World, plgrpc

from protolink_grpc import AgentClient


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World().up() as up:
        yield up


def tasks_of(world: World) -> int:
    return int(AgentClient(url=world.calc.card.url).sync.list_tasks(include_total=True).total_size)


def test_arguments_are_read_by_the_tools_schema(world: World) -> None:
    done = plgrpc("call", world.calc.card.url, "add", "a=40")
    assert (done.code, done.out, done.err) == (0, "42\n", "")


def test_every_kind_of_argument_reaches_the_tool(world: World) -> None:
    arguments = ["nights:=2", 'guests=["Ada", "Kurt"]', "breakfast=true", "name=7"]
    done = plgrpc("call", "calc", "book", *arguments, "-o", "json", registry=world.registry.url)
    assert done.code == 0
    assert done.document == {"nights": 2, "guests": ["Ada", "Kurt"], "breakfast": True, "name": "7"}


def test_text_is_shown_as_it_is_but_for_control_characters(world: World) -> None:
    command = ["call", world.calc.card.url, "say", "text=two\nlines \x1b[31m"]
    assert plgrpc(*command).out == "two\nlines \\x1b[31m\n"
    assert plgrpc(*command, "-o", "json").document == "two\nlines \x1b[31m"


def test_an_unknown_tool_is_answered_with_the_nearest_and_sends_nothing(world: World) -> None:
    before = tasks_of(world)
    done = plgrpc("call", world.calc.card.url, "ad", "a=1")
    assert done.code == 1
    assert done.out == ""
    assert done.err == f"error: {world.calc.card.url} has no tool 'ad'\nhint: did you mean 'add'?\n"
    assert tasks_of(world) == before


def test_rejected_arguments_are_named_with_their_paths(world: World) -> None:
    command = ["call", world.calc.card.url, "book", "nights=many", "guests=[1]"]
    done = plgrpc(*command)
    assert done.code == 1
    assert done.out == ""
    assert "nights: " in done.err
    assert "guests[0]: " in done.err
    error = json.loads(plgrpc(*command, "-o", "json").err)["error"]
    assert error["code"] == "TOOL_REJECTED"
    assert error["metadata"]["paths"] == "nights, guests[0]"


def test_a_tool_that_fails_is_a_failure_with_its_reason(world: World) -> None:
    done = plgrpc("call", world.calc.card.url, "book", "nights=0", "guests=[]")
    assert done.code == 1
    assert "at least one night" in done.err
    assert "Traceback" not in done.err


def test_an_agent_without_tools_is_not_sent_a_tool_call(world: World) -> None:
    done = plgrpc("call", world.failing.card.url, "add")
    assert done.code == 1
    assert done.err.endswith("hint: its card lists no tools\n")


def test_a_repeated_request_is_one_call_in_its_session(world: World) -> None:
    command = ["call", world.calc.card.url, "add", "--request-id", "once", "--session", "sums"]
    assert plgrpc(*command, "a=1").out == "3\n"
    assert plgrpc(*command, "a=5").out == "3\n"
    assert AgentClient(url=world.calc.card.url).sync.list_tasks(session_id="sums", include_total=True).total_size == 1
