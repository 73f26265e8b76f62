"""The thread pool: limits, abandoned threads, closing. Events determine the order; no test depends on time."""

import asyncio
import contextvars
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from protolink_grpc.errors import ResourceExhaustedError, UnavailableError
from protolink_grpc.tools import ToolRunner

PATIENCE_S = 20  # Reached only if a test fails.


class Blocker:
    """Blocks each thread that calls it until `release`."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self._open = threading.Event()

    def __call__(self) -> str:
        self.entered.release()
        assert self._open.wait(PATIENCE_S)
        return "released"

    def release(self) -> None:
        self._open.set()

    async def wait_for(self, calls: int) -> None:
        for _ in range(calls):
            assert await asyncio.to_thread(self.entered.acquire, timeout=PATIENCE_S)


@pytest.fixture
async def blocker() -> AsyncIterator[Blocker]:
    made = Blocker()
    yield made
    made.release()


async def start(runner: ToolRunner, call: Callable[[], Any], count: int) -> list["asyncio.Task[Any]"]:
    tasks = [asyncio.create_task(runner.run(call)) for _ in range(count)]
    await asyncio.sleep(0)  # One turn of the loop: each task submits.
    return tasks


async def abandon(runner: ToolRunner, blocker: Blocker, count: int) -> None:
    tasks = await start(runner, blocker, count)
    await blocker.wait_for(count)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_call_runs_in_another_thread_and_returns_its_result():
    async with ToolRunner() as runner:
        assert await runner.run(threading.get_ident) != threading.get_ident()


async def test_the_call_gets_a_copy_of_the_callers_context_variables():
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    def look() -> str:
        seen = variable.get()
        variable.set("changed")
        return seen

    variable.set("caller")
    async with ToolRunner(max_workers=1) as runner:
        assert [await runner.run(look), await runner.run(look), variable.get()] == ["caller"] * 3


async def test_no_more_threads_run_than_allowed(blocker):
    async with ToolRunner(max_workers=2) as runner:
        tasks = await start(runner, blocker, 5)
        await blocker.wait_for(2)
        assert not blocker.entered.acquire(blocking=False)
        blocker.release()
        assert await asyncio.gather(*tasks) == ["released"] * 5


async def test_threads_are_reused():
    async with ToolRunner(max_workers=4) as runner:
        threads = {await runner.run(threading.get_ident) for _ in range(20)}
    assert len(threads) <= 4


async def test_the_queue_is_bounded(blocker):
    async with ToolRunner(max_workers=1, max_queued=2) as runner:
        tasks = await start(runner, blocker, 3)
        with pytest.raises(ResourceExhaustedError, match="2 tool calls are already waiting"):
            await runner.run(blocker)
        blocker.release()
        assert await asyncio.gather(*tasks) == ["released"] * 3
        assert await runner.run(lambda: "again") == "again"


async def test_without_a_queue_a_free_thread_still_takes_a_call(blocker):
    async with ToolRunner(max_workers=1, max_queued=0) as runner:
        (task,) = await start(runner, blocker, 1)
        with pytest.raises(ResourceExhaustedError):
            await runner.run(blocker)
        blocker.release()
        assert await task == "released"


async def test_a_canceled_waiting_call_never_runs_and_leaves_the_queue(blocker):
    made: list[int] = []
    async with ToolRunner(max_workers=1, max_queued=1) as runner:
        (running,) = await start(runner, blocker, 1)
        await blocker.wait_for(1)
        (waiting,) = await start(runner, lambda: made.append(1), 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        (following,) = await start(runner, lambda: made.append(2), 1)
        assert runner.abandoned == 0
        blocker.release()
        await asyncio.gather(running, following)
    assert made == [2]


async def test_abandoned_threads_are_replaced_and_counted(blocker):
    async with ToolRunner(max_workers=2, max_abandoned=4) as runner:
        for round_ in (1, 2):
            await abandon(runner, blocker, 2)
            assert runner.abandoned == 2 * round_
        assert await runner.run(lambda: "served") == "served"


async def test_a_waiting_call_runs_in_the_replacement_of_an_abandoned_thread(blocker):
    async with ToolRunner(max_workers=1) as runner:
        (stuck,) = await start(runner, blocker, 1)
        await blocker.wait_for(1)
        (waiting,) = await start(runner, lambda: "served", 1)
        stuck.cancel()
        assert await waiting == "served"


async def test_beyond_max_abandoned_each_abandoned_thread_reduces_the_pool(blocker):
    async with ToolRunner(max_workers=2, max_abandoned=1) as runner:
        await abandon(runner, blocker, 2)
        assert await runner.run(lambda: "one place left") == "one place left"
        tasks = await start(runner, blocker, 2)
        await blocker.wait_for(1)
        assert not blocker.entered.acquire(blocking=False)
        tasks[0].cancel()
        with pytest.raises(ResourceExhaustedError, match="all threads for tools are blocked"):
            await tasks[1]  # It was waiting, and no thread is left.
        with pytest.raises(ResourceExhaustedError, match="all threads for tools are blocked, 3"):
            await runner.run(lambda: None)


async def test_abandoned_threads_that_return_rejoin_the_pool(blocker):
    async with ToolRunner(max_workers=1, max_abandoned=0) as runner:
        await abandon(runner, blocker, 1)
        with pytest.raises(ResourceExhaustedError):
            await runner.run(lambda: None)
        blocker.release()
        while runner.abandoned:
            await asyncio.to_thread(lambda: None)
        assert await runner.run(lambda: "served") == "served"


@pytest.mark.parametrize("error", [ValueError("v"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
async def test_a_thread_survives_exceptions_of_calls(error):
    def fail() -> None:
        raise error

    async with ToolRunner(max_workers=1) as runner:
        for _ in range(2):
            future = runner._submit(fail).future
            assert await asyncio.to_thread(future.exception, PATIENCE_S) is error
        assert await runner.run(lambda: "alive") == "alive"


async def test_stop_iteration_is_raised_as_runtime_error():
    async with ToolRunner() as runner:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await asyncio.wait_for(runner.run(lambda: next(iter(()))), PATIENCE_S)


async def test_closing_refuses_waiting_and_new_calls_and_lets_running_ones_end(blocker):
    runner = ToolRunner(max_workers=1)
    (running,) = await start(runner, blocker, 1)
    await blocker.wait_for(1)
    (waiting,) = await start(runner, lambda: "never", 1)
    closing = asyncio.create_task(runner.aclose(grace_s=PATIENCE_S))
    with pytest.raises(UnavailableError):
        await waiting
    assert not closing.done()
    blocker.release()
    await closing
    assert await running == "released"
    with pytest.raises(UnavailableError):
        await runner.run(lambda: None)
    await runner.aclose()


async def test_closing_does_not_wait_for_abandoned_threads(blocker):
    runner = ToolRunner(max_workers=1)
    await abandon(runner, blocker, 1)
    await asyncio.wait_for(runner.aclose(grace_s=PATIENCE_S * 2), PATIENCE_S)


async def test_closing_stops_waiting_after_the_grace_period(blocker):
    runner = ToolRunner(max_workers=1)
    (running,) = await start(runner, blocker, 1)
    await blocker.wait_for(1)
    await runner.aclose(grace_s=0.001)
    assert not running.done()
    blocker.release()
    assert await running == "released"


async def test_idle_threads_end_and_others_take_their_place(monkeypatch):
    monkeypatch.setattr("protolink_grpc.tools.runner.IDLE_S", 0.001)
    async with ToolRunner() as runner:
        thread = await runner.run(threading.current_thread)
        assert thread.daemon  # Otherwise one blocked tool would prevent the end of the process.
        await asyncio.to_thread(thread.join, PATIENCE_S)
        assert not thread.is_alive()
        assert await runner.run(lambda: "served") == "served"


async def test_a_system_without_more_threads_refuses_and_recovers(monkeypatch):
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with ToolRunner() as runner:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            with pytest.raises(ResourceExhaustedError):
                await runner.run(lambda: None)
        assert await runner.run(lambda: "served") == "served"


async def test_an_idle_thread_holds_no_result():
    class Result:
        pass

    async with ToolRunner(max_workers=1) as runner:
        gone = asyncio.Event()
        result = await runner.run(Result)
        weakref.finalize(result, asyncio.get_running_loop().call_soon_threadsafe, gone.set)
        del result
        # The reference is released immediately, without a garbage collection.
        async with asyncio.timeout(PATIENCE_S):
            await gone.wait()


@pytest.mark.parametrize(
    "wrong",
    [{"max_workers": 0}, {"max_queued": -1}, {"max_abandoned": -1}, {"timeout_s": 0}, {"timeout_s": float("nan")}],
)
def test_invalid_limits_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ToolRunner(**wrong)
