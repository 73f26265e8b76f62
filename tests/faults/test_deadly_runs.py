"""Runs that end or freeze their process: such a task fails, and no other task is affected."""

import asyncio
import re
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import AgentClient, SQLiteStore, Task, TaskProgress, TaskState
from protolink_grpc.models.clock import SystemClock
from protolink_grpc.models.events import ActionStarted, TaskStatusChanged, TaskSubmitted
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.net import loop_watchdog
from protolink_grpc.runtime.log import LiveTask
from protolink_grpc.runtime.recovery import MAX_RESTARTS
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.storage.port import TaskQuery

PATIENCE_S = 30.0
Launch = Callable[..., Awaitable[Any]]

AGENT = """
    import asyncio, logging, os, signal, sys, time
    from protolink_grpc import Agent, AgentCapabilities, AgentCard, Limits, RunContext, SQLiteStore

    folder, width = sys.argv[1], int(sys.argv[2])
    logging.basicConfig(filename=folder + "/log")

    def note(word):
        with open(folder + "/ran", "a") as file:
            print(word, file=file, flush=True)

    class Host(Agent):
        async def handle_task_streaming(self, task):
            text = task.messages[0].text
            note(text)
            print("runs", text, flush=True)
            match text.split()[0]:
                case "freeze":
                    time.sleep(3600)
                case "exit":
                    await asyncio.sleep(0.2)  # so that others have begun
                    os._exit(9)
                case "crash":
                    os.kill(os.getpid(), signal.SIGSEGV)
                case "tool":
                    await self.call_tool_in_context("crash", RunContext.from_task(task))
                case "forever":
                    await asyncio.Event().wait()
                case "slow":
                    await asyncio.sleep(1.0)
            yield task.complete("done")

    async def main():
        card = AgentCard(name="host", description="hosts", url="grpc://127.0.0.1:0",
                         capabilities=AgentCapabilities(max_concurrency=width))
        agent = Host(card, store=SQLiteStore(folder + "/tasks.db"), recovery="resume", grace_s=0,
                     limits=Limits(lease_ttl_s=1.5, blocked_loop_s=0.2))

        @agent.tool(idempotent=True)
        async def crash() -> str:
            os.kill(os.getpid(), signal.SIGSEGV)
            return ""

        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        await agent.serve()
        print(agent.card.url, flush=True)
        await stopped.wait()
        await agent.aclose()

    asyncio.run(main())
"""


class Host:
    """An agent that is started again whenever it dies."""

    def __init__(self, launch: Launch, folder: Path, width: int = 64) -> None:
        self.folder = folder
        self._launch = launch
        self._width = width
        self.program: Any = None

    async def start(self) -> AgentClient:
        self.program = await self._launch(AGENT, self.folder, self._width)
        while not (line := await self.program.line()).startswith("grpc://"):
            pass  # a recovered run may be quicker than the port
        return AgentClient(url=line)

    async def start_and_see(self, text: str) -> None:
        """Start it, and wait until that run has begun."""
        self.program = await self._launch(AGENT, self.folder, self._width)
        await self.see(text)

    async def see(self, text: str) -> None:
        while await self.program.line() != f"runs {text}":
            pass

    async def log_of_block(self, times: int) -> str:
        """Its log, as soon as that says so often that the loop is blocked."""
        async with asyncio.timeout(PATIENCE_S):
            while (text := (self.folder / "log").read_text()).count("the event loop is blocked") < times:
                await asyncio.sleep(0.02)  # no event tells that a file has grown
        return text

    def ran(self) -> Counter[str]:
        path = self.folder / "ran"
        return Counter(path.read_text().split("\n")[:-1]) if path.exists() else Counter()

    async def live_until_settled(self, total: int) -> dict[str, Task]:
        """Start it as often as it dies, until all of its tasks are settled. Gives each by its text."""
        for _ in range(20):
            self.program = await self._launch(AGENT, self.folder, self._width)
            ended = asyncio.ensure_future(self.program.end(within_s=150))
            while not ended.done():
                if await self._unsettled() == 0:
                    self.program.signal(signal.SIGTERM)
                    await ended
                    client = await self.start()
                    page = await client.list_tasks(page_size=100)
                    tasks = [await client.get_task(each.id) for each in page.tasks]
                    assert len(tasks) == total
                    return {task.messages[0].text: task for task in tasks}
                await asyncio.wait([ended], timeout=0.1)  # what happens is in a file
        raise AssertionError("it dies for ever")

    async def _unsettled(self) -> int:
        store = SQLiteStore(self.folder / "tasks.db")
        await store.open()
        states = frozenset({TaskState.SUBMITTED, TaskState.WORKING})
        count = (await store.find(TaskQuery("anonymous", "host", states, include_total=True))).total
        await store.close()
        return count


async def test_a_run_that_froze_its_process_twice_fails_and_the_others_run_to_their_end(
    launch: Launch, tmp_path: Path
) -> None:
    host = Host(launch, tmp_path, width=1)
    client = await host.start()
    await client.submit_task(None, Task.create("fine before"))
    frozen = asyncio.ensure_future(client.submit_task(None, Task.create("freeze")))
    await host.see("freeze")
    await host.log_of_block(1)
    await host.program.kill()
    await host.start_and_see("freeze")  # it is resumed once
    await host.log_of_block(2)
    await host.program.kill()
    client = await host.start()
    task = await frozen if frozen.done() and not frozen.exception() else None
    found = (await client.list_tasks(page_size=100)).tasks
    (failed,) = [await client.get_task(each.id) for each in found if each.state is TaskState.FAILED]
    assert task is None or failed.id == task.id
    assert failed.metadata["error"] == (
        "run lost: 2 processes in a row ended while this task ran and made no progress, so the task may be the cause; "
        "send a new task to try again"
    )
    assert (await client.send_task(None, Task.create("fine"))).state is TaskState.COMPLETED
    assert host.ran() == {"fine before": 1, "freeze": 2, "fine": 1}
    # The log says what the loop was blocked by.
    text = await host.log_of_block(2)
    assert re.search(rf"the event loop is blocked for [\d.]+ s by run of task {failed.id}", text)
    assert "time.sleep(3600)" in text


@pytest.mark.parametrize("text", ["crash", "exit", "tool"])
async def test_a_run_that_kills_its_process_is_resumed_once_and_then_fails(
    launch: Launch, tmp_path: Path, text: str
) -> None:
    host = Host(launch, tmp_path)
    client = await host.start()
    sent = asyncio.ensure_future(client.submit_task(None, Task.create(text)))
    await host.program.end()
    sent.cancel()
    found = await host.live_until_settled(1)
    assert found[text].state is TaskState.FAILED
    assert found[text].metadata["error"].startswith("run lost: 2 processes in a row ended while this task ran")
    assert host.ran() == {text: 2}


async def test_of_many_runs_at_once_only_the_one_that_kills_the_process_fails(launch: Launch, tmp_path: Path) -> None:
    host = Host(launch, tmp_path)
    client = await host.start()
    innocent = [f"slow {number}" for number in range(4)]
    texts = [*innocent, "exit"]
    sent = [asyncio.ensure_future(client.submit_task(None, Task.create(text))) for text in texts]
    await host.program.end()
    for each in sent:
        each.cancel()
    found = await host.live_until_settled(len(texts))
    assert {text: str(task.state) for text, task in found.items()} == dict.fromkeys(innocent, "completed") | {
        "exit": "failed"
    }
    assert host.ran()["exit"] == 3  # at first, with all others, and alone


async def test_orderly_stops_do_not_count(launch: Launch, tmp_path: Path) -> None:
    host = Host(launch, tmp_path)
    client = await host.start()
    task = await client.submit_task(None, Task.create("forever"))
    for _ in range(3):
        host.program.signal(signal.SIGTERM)
        assert await host.program.end() == 0
        client = await host.start()
    await host.program.kill()
    client = await host.start()
    assert (await client.get_task(task.id)).state is TaskState.WORKING
    assert (await client.cancel_task(None, task.id)).state is TaskState.CANCELED


# What counts as progress


async def test_a_run_that_reports_before_its_process_dies_does_not_go_on_for_ever(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "tasks.db")
    await store.open()
    live = LiveTask("task", agent_name="host", store=store, clock=SystemClock())
    live.fold.principal = "ann"
    opening: list[Any] = [TaskSubmitted(Task.create("go"), "ann")]
    for number in range(1, MAX_RESTARTS + 2):
        cause = "submitted" if number == 1 else "recovered"
        begin = TaskStatusChanged(live.fold.state, TaskState.WORKING, attempt=number, cause=cause)
        await live.record([*opening, begin, TaskProgress(50, "half")], run_id="run", claim=True)
        opening = []
    await store.close()

    async def handler(task: Task, run: Run) -> Task:
        raise AssertionError("it runs once more")

    service = TaskService("host", store, handler, recovery="resume")
    await service.start()
    fold = await service.get("task", "ann")
    assert (fold.state, fold.reason) == (
        TaskState.FAILED,
        "run lost: 11 processes in a row ended while this task ran",
    )
    await service.stop()


def recovered(fold: TaskFold, *payloads: Any) -> None:
    """Another run takes over and writes that."""
    status = TaskStatusChanged(fold.state, TaskState.WORKING, attempt=fold.attempt + 1, cause="recovered")
    for payload in (status, *payloads):
        fold.apply(payload, fold.sequence + 1, 0, "run")


def test_a_run_that_begins_the_same_thing_again_makes_no_progress() -> None:
    fold = TaskFold("task")
    fold.apply(TaskStatusChanged(TaskState.SUBMITTED, TaskState.WORKING, attempt=1, cause="submitted"), 1, 0, "run")
    assert (fold.stalled, fold.restarted) == (0, 0)
    recovered(fold, ActionStarted("tool.call", "crash"))
    assert (fold.stalled, fold.restarted) == (1, 1)
    recovered(fold, TaskProgress(50, "half"))
    assert (fold.stalled, fold.restarted) == (0, 2)
    recovered(fold)
    assert (fold.stalled, fold.restarted) == (1, 3)
    status = TaskStatusChanged(fold.state, TaskState.WORKING, attempt=9, cause="continued")
    fold.apply(status, fold.sequence + 1, 0, "run")
    assert (fold.stalled, fold.restarted) == (0, 0)


def test_a_task_that_was_only_submitted_had_no_run_before() -> None:
    fold = TaskFold("task")
    recovered(fold)
    assert (fold.stalled, fold.restarted) == (0, 0)


async def test_a_loop_that_runs_is_not_called_blocked_and_its_watchdog_leaves_with_its_last_user(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = loop_watchdog.watch(0.05), loop_watchdog.watch(0.05)
    assert first is second
    for _ in range(20):
        await asyncio.sleep(0.01)  # the time after which it would log a blocked loop
    assert "blocked" not in caplog.text
    first.leave()
    assert first._thread.is_alive()
    second.leave()
    await asyncio.to_thread(first._thread.join, PATIENCE_S)
    assert not first._thread.is_alive()
