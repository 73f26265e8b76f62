"""The facts of a handler are recorded in groups while it works, and together with the end of its run."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from protolink_grpc import (
    Agent,
    AgentCard,
    Artifact,
    MemoryStore,
    Message,
    Part,
    Run,
    StoreError,
    Task,
    TaskProgress,
    TaskState,
    current_run,
)
from protolink_grpc.models.events import RunEvent
from protolink_grpc.runtime.facts import GROUP
from protolink_grpc.runtime.log import MAX_EVENT_BYTES
from protolink_grpc.storage.port import Append, RequestRecord
from protolink_grpc.wire.events import event_from_frame

Report = Callable[[Run], Awaitable[None]]


class GatedStore(MemoryStore):
    """Keeps an append of several events until the gate is open.

    Attributes:
        groups: Events of each append of several, in order.
        error: What such an append raises, if anything.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.groups: list[int] = []
        self.error: StoreError | None = None

    async def append(self, append: Append) -> RequestRecord | None:
        if len(append.events) >= GROUP:
            self.groups.append(len(append.events))
            await self.gate.wait()
            if self.error is not None:
                raise self.error
        return await super().append(append)


class Reporter(Agent):
    def __init__(self, store: GatedStore, report: Report) -> None:
        super().__init__(AgentCard("reporter", "reports", "runtime://reporter"), store=store)
        self._report = report

    async def handle_task(self, task: Task) -> Task:
        run = current_run()
        assert run is not None
        await self._report(run)
        return task.complete("done")


async def progress_in(store: MemoryStore, task_id: str) -> list[float | None]:
    events: list[RunEvent] = []
    while frames := await store.read(task_id, len(events), 1024):
        events += map(event_from_frame, frames)
    return [event.payload.progress for event in events if isinstance(event.payload, TaskProgress)]


async def test_a_handler_fills_the_next_group_while_the_store_writes_one() -> None:
    store, filled, emitted = GatedStore(), asyncio.Event(), 0

    async def report(run: Run) -> None:
        nonlocal emitted
        for step in range(4 * GROUP):
            await run.emit(TaskProgress(step % 100))
            emitted += 1
            if emitted == 2 * GROUP - 1:
                filled.set()

    async with Reporter(store, report) as agent:
        task = Task.create("report")
        work = asyncio.ensure_future(agent.run_task(task))
        await filled.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert emitted == 2 * GROUP - 1
        store.gate.set()
        done = await work
        assert done.state is TaskState.COMPLETED
        assert await progress_in(store, task.id) == [step % 100 for step in range(4 * GROUP)]
        assert store.groups[0] == GROUP
        assert sum(store.groups) == 4 * GROUP


async def test_a_group_that_cannot_be_written_fails_what_is_reported_next() -> None:
    store, raised = GatedStore(), []
    store.gate.set()
    store.error = StoreError("the disk is full")

    async def report(run: Run) -> None:
        try:
            for step in range(4 * GROUP):
                await run.emit(TaskProgress(step % 100))
        except StoreError as error:
            raised.append(error)
            store.error = None
            raise

    async with Reporter(store, report) as agent:
        with pytest.raises(StoreError):
            await agent.run_task(Task.create("report"))
    assert raised
    assert store.groups == [GROUP]


class AppendLog(MemoryStore):
    """Remembers the types of the events of each append."""

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[list[str]] = []

    async def append(self, append: Append) -> RequestRecord | None:
        self.appends.append([event_from_frame(frame).type for frame in append.events])
        return await super().append(append)


class Caller(Agent):
    """Calls its tool and then does the rest of its work."""

    def __init__(self, store: MemoryStore, rest: Callable[[Task, Run], Awaitable[None]]) -> None:
        super().__init__(AgentCard("caller", "calls a tool", "runtime://caller"), store=store)
        self._rest = rest
        self.tool("double")(self._double)

    async def _double(self, number: int) -> int:
        return 2 * number

    async def handle_task(self, task: Task) -> Task:
        run = current_run()
        assert run is not None
        result = await run.call_tool("double", number=21)
        await self._rest(task, run)
        return task.complete(str(result))


BEFORE_THE_END = [["task.submitted", "task.status"], ["action.requested", "action.policy", "action.started"]]


async def test_a_tool_call_takes_three_appends_and_its_end_is_in_the_last_one() -> None:
    store = AppendLog()
    async with Agent(AgentCard("caller", "calls a tool", "runtime://caller"), store=store) as agent:
        agent.tool("double")(lambda number: 2 * number)
        await agent.run_task(Task.create_tool_call("double", {"number": 21}))
    assert store.appends == [*BEFORE_THE_END, ["action.completed", "task.artifact", "task.status"]]


async def test_the_end_of_a_tool_is_not_joined_with_an_end_in_a_later_turn_of_the_event_loop() -> None:
    store = AppendLog()
    async with Caller(store, lambda task, run: asyncio.sleep(0)) as agent:
        await agent.run_task(Task.create("go"))
    assert store.appends == [*BEFORE_THE_END, ["action.completed"], ["task.message", "task.status"]]


async def test_the_end_of_a_tool_is_recorded_at_once_if_its_run_has_more_to_do() -> None:
    store = AppendLog()

    async def wait(task: Task, run: Run) -> None:
        while ["action.completed"] not in store.appends:
            await store.wait(task.id, run.live.fold.sequence)

    async with Caller(store, wait) as agent:
        task = await asyncio.wait_for(agent.run_task(Task.create("go")), 30)
    assert task.get_output() == "42"


async def test_an_end_that_is_refused_does_not_lose_the_end_of_a_tool() -> None:
    store = AppendLog()

    async def answer_too_much(task: Task, run: Run) -> None:
        task.add_message(Message.agent("x" * MAX_EVENT_BYTES))

    async with Caller(store, answer_too_much) as agent:
        task = await agent.run_task(Task.create("go"))
    assert (task.state, "larger than the limit" in task.reason) == (TaskState.FAILED, True)
    assert store.appends[-2:] == [["action.completed"], ["task.error", "task.message", "task.status"]]


@pytest.mark.parametrize("waits", [False, True])
async def test_a_result_that_is_too_large_does_not_lose_the_begin_of_its_action(waits: bool) -> None:
    store = AppendLog()
    async with Agent(AgentCard("caller", "calls a tool", "runtime://caller"), store=store) as agent:

        @agent.tool(read_only=True)
        async def read() -> str:
            run = current_run()
            assert run is not None
            if waits:
                await run.flush()
            return "x" * MAX_EVENT_BYTES

        task = await agent.run_task(Task.create_tool_call("read"))
    assert (task.state, "larger than the limit" in task.reason) == (TaskState.FAILED, True)
    recorded = [kind for kinds in store.appends for kind in kinds]
    assert recorded[2:5] == ["action.requested", "action.policy", "action.started"]
    assert "action.completed" not in recorded


async def test_tasks_of_one_run_wait_for_room_apart() -> None:
    store = GatedStore()

    async def report(run: Run) -> None:
        async def emit(first: int) -> None:
            for step in range(first, first + 2 * GROUP):
                await run.emit(TaskProgress(step % 100))

        given_up, kept = asyncio.ensure_future(emit(0)), asyncio.ensure_future(emit(2 * GROUP))
        while not store.groups:
            await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])
        assert given_up.cancelled()
        store.gate.set()
        await kept

    async with Reporter(store, report) as agent:
        task = Task.create("report")
        assert (await agent.run_task(task)).state is TaskState.COMPLETED
        assert len(await progress_in(store, task.id)) >= 2 * GROUP


class Appender(Agent):
    async def handle_task(self, task: Task) -> Task:
        run = current_run()
        assert run is not None
        known = list(task.artifacts)  # a handler that has read an artifact has a copy, which does not grow
        await run.artifact(Artifact("a", [Part("json", len(task.messages))]), append=bool(known))
        return task.complete("done") if known else task.update_state(TaskState.INPUT_REQUIRED)


async def test_an_artifact_that_grows_is_not_set_back_to_what_the_handler_received() -> None:
    async with Appender(AgentCard("appender", "appends", "runtime://appender")) as agent:
        task = await agent.run_task(Task.create("first"))
        done = await agent.run_task(task.add_message(Message.user("second")))
        assert done.state is TaskState.COMPLETED
        assert [part.content for part in done.artifacts[0].parts] == [1, 2]
