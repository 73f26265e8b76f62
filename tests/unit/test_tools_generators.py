"""Generator functions as tools: their items, sync and async, and how their generators are closed."""

import asyncio
import enum
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc import Agent
from protolink_grpc.errors import ToolFailedError, ToolTimeoutError
from protolink_grpc.tools import BaseTool, Tool, ToolContext, ToolRunner
from protolink_grpc.tools.generators import MAX_AHEAD

PATIENCE_S = 20.0
"""How long a test waits for what must happen; far more than it takes."""

SOON_S = 0.02


class Color(enum.Enum):
    RED = "red"


@dataclass
class Leg:
    start: str
    next: "Leg | None" = None


def as_sync(items: list[Any], hint: Any = Iterator[Any]) -> Callable[..., Any]:
    def produce() -> Any:
        yield from items

    produce.__annotations__ = {"return": hint}
    return produce


def as_async(items: list[Any], hint: Any = AsyncIterator[Any]) -> Callable[..., Any]:
    async def produce() -> Any:
        for item in items:
            yield item

    produce.__annotations__ = {"return": hint}
    return produce


KINDS = pytest.mark.parametrize("make", [as_sync, as_async])


async def taken(tool: Tool, **arguments: Any) -> tuple[list[Any], BaseException | None]:
    """The items that a call of a tool passed on, and its failure."""
    items: list[Any] = []

    async def take(item: Any) -> None:
        items.append(item)

    try:
        assert await tool.run(tool.validate(arguments), on_item=take) == items
    except ToolFailedError as error:
        return items, error
    return items, None


@given(st.lists(st.integers() | st.text() | st.none() | st.lists(st.booleans()), max_size=MAX_AHEAD * 3))
async def test_the_result_of_a_generator_is_the_list_of_its_items(items: list[Any]) -> None:
    for make in (as_sync, as_async):
        assert await taken(Tool.from_callable(make(items))) == (items, None)


@KINDS
async def test_each_item_is_converted_and_checked_as_a_result_is(make: Callable[..., Any]) -> None:
    assert await Tool.from_callable(make([Leg("rome"), {"start": "pisa"}], iterator_of(make, Leg)))() == [
        {"start": "rome", "next": None},
        {"start": "pisa", "next": None},
    ]
    items, error = await taken(Tool.from_callable(make([1, "2", "many", 4], iterator_of(make, int))))
    assert items == [1, 2]
    assert "yielded a value of type str that is not of its declared type int" in str(error)


def iterator_of(make: Callable[..., Any], kind: Any) -> Any:
    return Iterator[kind] if make is as_sync else AsyncIterator[kind]


@pytest.mark.parametrize(
    "hint",
    [Iterator[int], Iterable[int], Generator[int, str, bool], AsyncIterator[int], AsyncGenerator[int, None]],
)
def test_the_schema_of_a_result_is_a_list_of_what_the_annotation_yields(hint: Any) -> None:
    tool = Tool.from_callable(as_sync([], hint))
    assert tool.streams
    assert tool.output_schema == {"type": "array", "items": {"type": "integer"}}
    assert tool.contract_schemas()[1] == {"type": "integer"}


def test_the_contract_has_the_definitions_of_an_items_type() -> None:
    tool = Tool.from_callable(as_sync([], Annotated[Iterator[Leg], "of a trip"]))
    assert tool.output_schema["items"] == {"$ref": "#/$defs/Leg"}
    promised = tool.contract_schemas()[1]
    assert promised["$ref"] == "#/$defs/Leg"
    assert "Leg" in promised["$defs"]
    assert "x-enum-varnames" in str(Tool.from_callable(as_sync([], Iterator[Color])).contract_schemas()[1])


def test_an_own_output_schema_describes_the_list() -> None:
    schema = {"type": "array", "items": {"$ref": "#/$defs/N"}, "$defs": {"N": {"type": "integer"}}}
    tool = Tool.from_callable(as_sync([]), output_schema=schema)
    assert tool.contract_schemas()[1] == {"$ref": "#/$defs/N", "$defs": schema["$defs"]}


@pytest.mark.parametrize("hint", [Iterator, Iterator[Any], None])
def test_items_without_a_type_are_not_checked(hint: Any) -> None:
    fn = as_sync([])
    fn.__annotations__ = {} if hint is None else {"return": hint}
    assert Tool.from_callable(fn).contract_schemas()[1] == {}


@pytest.mark.parametrize("hint", [int, list[int], None | int])
def test_a_generator_with_another_return_annotation_is_refused(hint: Any) -> None:
    with pytest.raises(TypeError, match="Tool 'produce': a generator returns an Iterator"):
        Tool.from_callable(as_sync([], hint))


class Produce:
    """Produces numbers."""

    name, description, tags, examples = "produce", "Produces numbers.", [], []
    input_schema, output_schema, capabilities = {"type": "object"}, {"type": "array"}, frozenset[str]()

    async def __call__(self, **_: Any) -> AsyncIterator[int]:
        yield 1


async def test_a_callable_object_and_another_kind_of_tool_may_be_a_generator() -> None:
    assert await Tool.from_callable(Produce(), name="numbers")() == [1]
    agent = Agent(name="a", description="d", url="runtime://a")
    assert isinstance(Produce(), BaseTool)
    agent.add_tool(Produce())
    assert await agent.call_tool("produce") == [1]


async def test_a_generator_gets_the_context_of_its_call() -> None:
    def produce(context: ToolContext) -> Iterator[str]:
        yield context.task_id

    assert await Tool.from_callable(produce).call({}, context=ToolContext(task_id="t1")) == ["t1"]


@KINDS
async def test_an_exception_of_the_receiver_ends_the_call_and_is_raised_unchanged(make: Callable[..., Any]) -> None:
    async def take(item: Any) -> None:
        if item == 3:
            raise KeyError("full")

    with pytest.raises(KeyError, match="full"):
        await Tool.from_callable(make(list(range(MAX_AHEAD * 4)))).run({}, on_item=take)


# -- closing -----------------------------------------------------------------------------------------------------------------


async def test_a_canceled_call_closes_an_async_generator() -> None:
    closed, waiting = asyncio.Event(), asyncio.Event()

    async def produce() -> AsyncIterator[int]:
        try:
            yield 1
            waiting.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    call = asyncio.create_task(Tool.from_callable(produce)())
    await waiting.wait()
    call.cancel()
    await asyncio.wait([call], timeout=PATIENCE_S)
    assert call.cancelled()
    assert closed.is_set()


async def test_a_canceled_call_closes_a_sync_generator_on_its_thread() -> None:
    threads: list[int] = []

    def produce() -> Iterator[int]:
        threads.append(threading.get_ident())
        try:
            while True:
                yield 1
        finally:
            threads.append(threading.get_ident())

    started = asyncio.Event()

    async def take(_: int) -> None:
        started.set()
        await asyncio.Event().wait()

    async with ToolRunner() as runner:
        call = asyncio.create_task(Tool.from_callable(produce).run({}, runner=runner, on_item=take))
        await started.wait()
        call.cancel()
        await asyncio.wait([call], timeout=PATIENCE_S)
        assert call.cancelled()
        assert (len(threads), runner.abandoned) == (2, 0)
    assert threads[0] == threads[1] != threading.get_ident()


async def test_a_timeout_closes_a_generator_without_end() -> None:
    closed = threading.Event()

    def produce() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    with pytest.raises(ToolTimeoutError):
        await Tool.from_callable(produce, timeout_s=SOON_S)()
    assert await asyncio.to_thread(closed.wait, PATIENCE_S)


@KINDS
async def test_a_generator_that_never_waits_does_not_block_the_event_loop(make: Callable[..., Any]) -> None:
    def forever() -> Iterator[int]:
        while True:
            yield 1

    async def forever_async() -> AsyncIterator[int]:
        while True:
            yield 1

    call = asyncio.create_task(Tool.from_callable(forever if make is as_sync else forever_async)())
    for _ in range(10):
        await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait([call], timeout=PATIENCE_S)
    assert call.cancelled()


async def test_an_abandoned_generator_passes_on_no_further_items() -> None:
    free, ended, items = asyncio.Event(), asyncio.Event(), list[int]()

    async def stubborn() -> AsyncIterator[int]:
        try:
            yield 1
            while not free.is_set():
                try:
                    await free.wait()
                except asyncio.CancelledError:
                    pass
            yield 2
        finally:
            ended.set()

    async def take(item: int) -> None:
        items.append(item)

    with pytest.raises(ToolTimeoutError):
        await Tool.from_callable(stubborn, timeout_s=SOON_S).run({}, on_item=take)
    free.set()
    await asyncio.wait_for(ended.wait(), PATIENCE_S)
    assert items == [1]


@KINDS
async def test_an_exception_while_a_generator_is_closed_is_a_failure_of_the_tool(make: Callable[..., Any]) -> None:
    def fail_sync() -> Iterator[int]:
        try:
            yield 1
        finally:
            raise ValueError("cannot close")

    async def fail_async() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise ValueError("cannot close")

    items, error = await taken(Tool.from_callable(fail_sync if make is as_sync else fail_async))
    assert items == [1]
    assert "ValueError: cannot close" in str(error)


async def test_a_sync_generator_is_at_most_a_bounded_number_of_items_ahead() -> None:
    made = [0]

    def produce() -> Iterator[int]:
        for number in range(MAX_AHEAD * 4):
            made[0] = number + 1
            yield number

    most: list[int] = []

    async def take(item: int) -> None:
        most.append(made[0] - item)

    await Tool.from_callable(produce).run({}, on_item=take)
    assert max(most) <= MAX_AHEAD + 2  # one that waits for room, and one that is read
