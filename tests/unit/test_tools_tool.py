"""Tools: creation, calls and failures."""

import asyncio
import dataclasses
import datetime
import functools
import inspect
import threading
from collections.abc import Awaitable, Iterator
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel, Field

from protolink_grpc.errors import (
    InvalidArgumentError,
    ResourceExhaustedError,
    ToolFailedError,
    ToolRejectedError,
    ToolTimeoutError,
)
from protolink_grpc.models.card import AgentSkill
from protolink_grpc.models.part import Part
from protolink_grpc.models.task import Task
from protolink_grpc.tools import BaseTool, Tool, ToolContext, ToolRunner, cancellation

PATIENCE_S = 20  # Reached only if a test fails.
SOON_S = 0.02  # A timeout that shall expire.


def add(a: int, b: int = 2) -> int:
    """Add two
    numbers.

    The second paragraph says more.
    """
    return a + b


async def add_async(a: int, b: int = 2) -> int:
    return a + b


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


# Creation


def test_name_and_description_come_from_the_function():
    tool = Tool.from_callable(add)
    assert (tool.name, tool.description) == ("add", "Add two numbers.\n\nThe second paragraph says more.")
    assert Tool.from_callable(add_async).description == ""


def test_explicit_properties_have_priority():
    tool = Tool.from_callable(
        add,
        name="sum.of-two",
        description="",
        output_schema={"type": "number"},
        tags=["math"],
        examples=[{"a": 1}],
        capabilities=["math.add"],
        timeout_s=3,
        read_only=True,
    )
    assert (tool.name, tool.description, tool.output_schema) == ("sum.of-two", "", {"type": "number"})
    assert (tool.tags, tool.examples, tool.capabilities) == (["math"], [{"a": 1}], frozenset({"math.add"}))
    assert (tool.timeout_s, tool.read_only, tool.action_builder) == (3, True, None)


def test_a_tool_is_a_base_tool_and_a_function_is_not():
    assert isinstance(Tool.from_callable(add), BaseTool)
    assert not isinstance(add, BaseTool)


def test_a_skill_describes_the_tool_and_is_an_independent_copy():
    tool = Tool.from_callable(add, tags=["math"], examples=[{"a": 1}])
    skill = tool.skill()
    assert skill == AgentSkill("add", tool.description, tool.input_schema, {"type": "integer"}, ["math"], [{"a": 1}])
    skill.input_schema["properties"].clear()
    skill.examples[0].clear()
    assert tool.input_schema["properties"]
    assert tool.examples == [{"a": 1}]


@pytest.mark.parametrize("name", ["", "1st", "a b", "a/b", "ä", "a" * 129, "a\n"])
def test_a_name_with_invalid_characters_is_refused(name):
    with pytest.raises(ValueError, match="tool name"):
        Tool.from_callable(add, name=name)


def test_a_name_of_128_characters_is_accepted():
    assert Tool.from_callable(add, name="a" * 128).name == "a" * 128


class Callable_:
    """Adds one."""

    async def __call__(self, n: int) -> int:
        return n + 1


@pytest.mark.parametrize("fn", [lambda a: a, functools.partial(add, 1), Callable_()])
async def test_a_function_without_a_name_requires_one(fn):
    with pytest.raises(TypeError, match="pass a name"):
        Tool.from_callable(fn)
    assert Tool.from_callable(fn, name="named").name == "named"


async def test_a_callable_object_is_described_and_awaited():
    tool = Tool.from_callable(Callable_(), name="increment")
    assert tool.description == "Adds one."
    assert await tool(n=1) == 2


@pytest.mark.parametrize("fn", [Callable_, print, 3])
def test_classes_builtins_without_names_and_other_values_are_refused(fn):
    with pytest.raises((TypeError, InvalidArgumentError), match=r"Tool '|fn: must be a function, not int"):
        Tool.from_callable(fn)


@pytest.mark.parametrize("wrong", [{"tags": "math"}, {"capabilities": "math.add"}])
def test_a_string_instead_of_a_list_of_strings_is_refused(wrong):
    with pytest.raises(TypeError, match=next(iter(wrong))):
        Tool.from_callable(add, **wrong)


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan")])
def test_a_timeout_must_be_positive(timeout_s):
    with pytest.raises(ValueError, match="timeout_s"):
        Tool.from_callable(add, timeout_s=timeout_s)


# Calls


@pytest.mark.parametrize("fn", [add, add_async])
async def test_a_tool_validates_arguments_fills_in_defaults_and_returns_the_result(fn):
    tool = Tool.from_callable(fn)
    assert await tool(a="40") == 42
    assert await tool.call({"a": 1, "b": 1}) == 2
    with pytest.raises(ToolRejectedError):
        await tool(a="x")


async def test_a_sync_tool_does_not_block_the_loop(gate):
    def wait() -> str:
        return "seen" if gate.wait(PATIENCE_S) else "blocked"

    running = asyncio.create_task(Tool.from_callable(wait)())
    await asyncio.sleep(0)
    gate.set()  # The loop runs this while the tool waits for it.
    assert await running == "seen"


async def test_an_async_tool_runs_on_the_loop():
    async def where() -> int:
        return threading.get_ident()

    assert await Tool.from_callable(where)() == threading.get_ident()


async def test_a_coroutine_returned_by_a_sync_function_is_awaited():
    def outer(a: int):
        return add_async(a)

    assert await Tool.from_callable(outer)(a=1) == 3


async def test_the_context_is_injected_and_cannot_be_sent():
    async def report(n: int, ctx: ToolContext) -> str:
        await ctx.progress(50, "half")
        return f"{ctx.principal}:{n}"

    seen: list[tuple[float | None, str]] = []

    async def progress(percent: float | None, message: str = "") -> None:
        seen.append((percent, message))

    tool = Tool.from_callable(report)
    assert await tool.call({"n": 1}, context=ToolContext(principal="ada", progress=progress)) == "ada:1"
    assert seen == [(50, "half")]
    assert await tool(n=1) == ":1"
    with pytest.raises(ToolRejectedError):
        await tool(n=1, ctx={"principal": "eve"})


def test_a_context_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ToolContext().principal = "eve"  # type: ignore[misc]  # the claim is about this


async def test_results_become_json_values():
    @dataclasses.dataclass
    class Point:
        x: int

    def fn() -> Any:
        return (Point(1), {2}, b"x")

    assert await Tool.from_callable(fn)() == [{"x": 1}, [2], "eA=="]


# Failures


@pytest.mark.parametrize("result", [object(), {"a": lambda: None}, (n for n in ()), {("a", "b"): 1}])
async def test_a_result_without_a_json_form_is_a_tool_failure(result):
    def fn() -> Any:
        return result

    kind = type(result).__name__
    with pytest.raises(
        ToolFailedError, match=f"Tool 'fn' returned a value of type {kind} that cannot become JSON"
    ) as caught:
        await Tool.from_callable(fn)()
    assert caught.value.metadata == {"tool": "fn", "result_type": kind}


async def test_a_circular_result_and_a_broken_one_are_failures_too():
    class Broken:
        def to_dict(self) -> Any:
            raise KeyError("oops")

    def returning(result: Any) -> Any:
        return lambda: result

    circular: list[Any] = []
    circular.append(circular)
    for result in (circular, Broken()):
        with pytest.raises(ToolFailedError, match="cannot become JSON"):
            await Tool.from_callable(returning(result), name="fn")()


def raising(error: BaseException) -> list[Tool]:
    def fail() -> None:
        raise error

    async def fail_async() -> None:
        raise error

    return [Tool.from_callable(fail, name="fail"), Tool.from_callable(fail_async, name="fail")]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no"), "ValueError: no"),
        (TimeoutError("peer"), "TimeoutError: peer"),
        (ToolTimeoutError("inner"), "ToolTimeoutError: inner"),
        (ResourceExhaustedError("quota"), "ResourceExhaustedError: quota"),
        (SystemExit(3), "SystemExit: 3"),
    ],
)
async def test_an_exception_of_a_tool_becomes_a_tool_failure(error, text):
    for tool in raising(error):
        with pytest.raises(ToolFailedError) as caught:
            await tool.call({})
        assert str(caught.value) == f"Tool 'fail' failed: {text}"
        assert caught.value.__cause__ is error


async def test_an_exception_text_with_lone_surrogates_is_accepted():
    class Broken:
        def to_dict(self) -> Any:
            raise KeyError("\udce9")

    for tool in (*raising(OSError("no file caf\udce9")), Tool.from_callable(lambda: Broken(), name="fail")):
        with pytest.raises(ToolFailedError, match=r"\\udce9") as caught:
            await tool.call({})
        assert str(caught.value).encode()


async def test_an_exception_whose_str_fails_becomes_a_tool_failure():
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("not even this")

    for tool in raising(Mute()):
        with pytest.raises(ToolFailedError, match="Mute"):
            await tool.call({})


async def test_stop_iteration_in_a_sync_tool_is_a_failure():
    with pytest.raises(ToolFailedError, match="Tool 'fn' failed: StopIteration"):
        await asyncio.wait_for(Tool.from_callable(lambda: next(iter(())), name="fn")(), PATIENCE_S)


@pytest.mark.parametrize("error", [ToolRejectedError("no", code="busy"), asyncio.CancelledError()])
async def test_rejections_and_cancellation_pass_unchanged(error):
    for tool in raising(error):
        with pytest.raises(type(error)) as caught:
            await tool.call({})
        assert caught.value is error or isinstance(error, asyncio.CancelledError)


async def test_an_async_tool_is_canceled_at_its_timeout_and_named():
    ended = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(ToolTimeoutError, match=r"Tool 'slow' timed out after 0\.02 s") as caught:
        await Tool.from_callable(slow, timeout_s=SOON_S)()
    assert ended.is_set()
    assert caught.value.metadata == {"tool": "slow", "timeout_s": "0.02"}


async def test_the_timeout_of_the_tool_overrides_that_of_the_runner(gate):
    def wait() -> bool:
        return gate.wait(PATIENCE_S)

    async with ToolRunner(timeout_s=SOON_S) as runner:
        with pytest.raises(ToolTimeoutError, match=r"0\.02 s"):
            await Tool.from_callable(wait).call({}, runner=runner)
        patient = asyncio.create_task(Tool.from_callable(wait, timeout_s=PATIENCE_S).call({}, runner=runner))
        with pytest.raises(ToolTimeoutError, match=r"0\.02 s"):
            await Tool.from_callable(wait).call({}, runner=runner)
        gate.set()
        assert await patient is True


async def test_a_tool_that_blocks_beyond_its_timeout_does_not_occupy_the_pool(gate):
    def hang() -> bool:
        return gate.wait(PATIENCE_S)

    hanging = Tool.from_callable(hang, timeout_s=SOON_S)
    async with ToolRunner(max_workers=2, max_abandoned=4) as runner:
        # On a busy machine a call may time out before its thread starts: then there is nothing to abandon.
        while runner.abandoned < 4:
            outcomes = await asyncio.gather(
                *(hanging.call({}, runner=runner) for _ in range(2)), return_exceptions=True
            )
            assert [type(outcome) for outcome in outcomes] == [ToolTimeoutError] * 2
        assert await Tool.from_callable(add).call({"a": 1}, runner=runner) == 3


async def test_a_canceled_caller_does_not_wait_for_a_tool_that_ignores_it(monkeypatch):
    monkeypatch.setattr(cancellation, "CLEANUP_S", SOON_S)
    started, free = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        started.set()
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                pass

    call = asyncio.create_task(Tool.from_callable(stubborn, timeout_s=PATIENCE_S)())
    await started.wait()
    call.cancel()
    done, _ = await asyncio.wait([call], timeout=PATIENCE_S / 4)
    free.set()
    assert done == {call}
    assert call.cancelled()


async def test_canceling_the_caller_cancels_an_async_tool():
    started, ended = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    call = asyncio.create_task(Tool.from_callable(slow)())
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended.is_set()


# Types of results


class Room(BaseModel):
    number: int
    since: datetime.date = Field(default=datetime.date(2026, 1, 2), alias="from")


@dataclasses.dataclass
class Point:
    x: int


class Named(TypedDict):
    name: str


ROOM = Room.model_validate({"number": 1})


@pytest.mark.parametrize(
    ("promised", "returned", "result"),
    [
        (int, 3, 3),
        (int, "3", 3),
        (float, 3, 3),
        (bool, "yes", True),
        (list[int], ["1", 2], [1, 2]),
        (Room, {"number": "1"}, {"number": 1, "from": "2026-01-02"}),
        (Point, {"x": 1}, {"x": 1}),
        (Point, Point(1), {"x": 1}),
        (Named, {"name": "n", "more": 1}, {"name": "n", "more": 1}),
        (int | None, None, None),
        (datetime.date, datetime.date(2026, 1, 2), "2026-01-02"),
        (Awaitable[int], "3", 3),
        (None, "anything", "anything"),
        (Any, "anything", "anything"),
        (object, "anything", "anything"),
        (threading.Event, "anything", "anything"),
        ("NoSuchType", "anything", "anything"),
        (inspect.Parameter.empty, "anything", "anything"),
    ],
    ids=str,
)
async def test_a_result_is_converted_to_the_annotated_type(promised: Any, returned: Any, result: Any) -> None:
    def fn() -> Any:
        return returned

    fn.__annotations__["return"] = promised
    if promised is inspect.Parameter.empty:
        del fn.__annotations__["return"]
    assert await Tool.from_callable(fn)() == result


@pytest.mark.parametrize(
    ("promised", "returned", "says"),
    [
        (
            int,
            "three",
            "Tool 'fn' returned a value of type str that is not of its declared type int: Input should be a valid integer",
        ),
        (str, 3, "returned a value of type int that is not of its declared type str"),
        (str, None, "returned a value of type NoneType that is not of its declared type str"),
        (list[int], [1, "x"], r"not of its declared type list\[int\]: \[1\]: Input should be a valid integer"),
        (Room, {"number": "x"}, "not of its declared type Room: number: Input should be a valid integer"),
        (Room, {}, "number: Field required"),
        (Point, {"x": 1, "y": 2}, None),
        (Named, {}, "name: Field required"),
    ],
    ids=str,
)
async def test_a_result_of_another_type_is_a_tool_failure(promised: Any, returned: Any, says: str | None) -> None:
    def fn() -> Any:
        return returned

    fn.__annotations__["return"] = promised
    if says is None:
        assert await Tool.from_callable(fn)() == {"x": 1}
        return
    with pytest.raises(ToolFailedError, match=says) as caught:
        await Tool.from_callable(fn)()
    assert caught.value.metadata["tool"] == "fn"


# Types in place of schemas


@pytest.mark.parametrize("given", [Room, Point, Named, list[Room]], ids=str)
def test_a_type_can_be_passed_instead_of_its_schema(given: Any) -> None:
    schema = Tool.from_callable(add, output_schema=given).output_schema
    assert schema["type"] in ("object", "array")
    part = Part.infer("p", output_schema=given)
    assert part.content["output_schema"] == schema
    assert Task.create_infer("p", output_schema=given).messages[0].parts[0].content == part.content


@pytest.mark.parametrize("given", [5, "Room", True, [Room], ROOM, threading.Event, print], ids=str)
@pytest.mark.parametrize("field", ["output_schema", "input_schema"])
def test_a_value_that_is_neither_a_schema_nor_a_type_is_refused_and_named(given: Any, field: str) -> None:
    makers = [lambda: Tool.from_callable(add, **{field: given})]
    if field == "output_schema":
        makers += [lambda: Part.infer("p", output_schema=given), lambda: Task.create_infer("p", output_schema=given)]
    for make in makers:
        with pytest.raises(InvalidArgumentError) as caught:
            make()
        assert caught.value.field == field
