"""After any story, a snapshot is the fold of the session's stream up to its position, also after a restart."""

import asyncio
import concurrent.futures
import tempfile
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from valid_logs import violations_of

from protolink_grpc import (
    Agent,
    AgentClient,
    Approval,
    ApprovalDecision,
    Approvals,
    CapabilityPolicy,
    MemoryStore,
    Message,
    ProtolinkError,
    Run,
    RunEvent,
    SafetyConfig,
    SQLiteStore,
    Task,
    TaskSnapshot,
    TaskState,
    TaskStatus,
    ThreadSnapshot,
    ThreadStatus,
    current_run,
)
from protolink_grpc.models import events as ev
from protolink_grpc.models.failure import Failure, FailureCategory
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL
from protolink_grpc.models.session import (
    SessionItem,
    ThreadRolledBack,
    TurnEnded,
    TurnPromoted,
    TurnStarted,
    TurnState,
    TurnSubmitted,
)
from protolink_grpc.reports import SessionExport

WAIT_S = 20.0
"""Bound of what must happen soon; reached only by a failure."""

LIMITED = Failure("MODEL_RATE_LIMITED", "slow down", FailureCategory.LIMIT, True)
UPDATED = "thread.updated"
THREADS = ("default", "side")
STATUS = {
    TaskState.COMPLETED: ThreadStatus.COMPLETED,
    TaskState.FAILED: ThreadStatus.FAILED,
    TaskState.CANCELED: ThreadStatus.CANCELLED,
}


def document_of(value: Any) -> Any:
    """A snapshot as JSON values. Of an approval, only the id."""
    if isinstance(value, Approval):
        return {"request": {"request_id": value.request.request_id}}
    if is_dataclass(value):
        return {each.name: document_of(getattr(value, each.name)) for each in fields(value)}
    return [document_of(each) for each in value] if isinstance(value, tuple) else value


# -- The fold of the stream --------------------------------------------------------------------------------------------------


@dataclass
class FoldedThread:
    """The turns of a thread, by id."""

    active: list[str] = field(default_factory=list)
    queue: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)


class Fold:
    """The state of a session according to the events of its stream."""

    def __init__(self, items: list[SessionItem]) -> None:
        self.threads = {name: FoldedThread() for name in THREADS}
        self.submitted: dict[str, TurnSubmitted] = {}
        self.order: dict[str, int] = {}
        self.results: dict[str, TaskState] = {}
        self.waiting: dict[str, str] = {}
        """The turn that has asked, by the task that waits for input."""
        self.asked: dict[str, list[str]] = {}
        self.states: dict[str, TaskState] = {}
        self.rolled_back: set[str] = set()
        self.paused: set[str] = set()
        for item in items:
            if isinstance(item.event, RunEvent):
                self.add_task_event(item.event)
            else:
                self.add(item.position, item.event.payload)

    def add(self, position: int, payload: Any) -> None:
        match payload:
            case TurnSubmitted(turn_id=turn_id, thread_id=thread_id):
                thread = self.threads[thread_id]
                self.submitted[turn_id], self.order[turn_id] = payload, position
                self.waiting.pop(payload.task_id, None)
                if not payload.queued:
                    thread.active.append(turn_id)
                elif payload.first:
                    thread.queue.insert(0, turn_id)
                else:
                    thread.queue.append(turn_id)
            case TurnPromoted(turn_id=turn_id):
                queue = self.thread_of(turn_id).queue
                queue.remove(turn_id)
                queue.insert(0, turn_id)
            case TurnStarted(turn_id=turn_id):
                thread = self.thread_of(turn_id)
                thread.queue.remove(turn_id)
                thread.active.append(turn_id)
                thread.active.sort(key=self.order.__getitem__)
            case TurnEnded(turn_id=turn_id, result=result):
                thread = self.thread_of(turn_id)
                (thread.active if turn_id in thread.active else thread.queue).remove(turn_id)
                thread.ended.append(turn_id)
                self.results[turn_id] = result
                if result in INTERRUPTED:
                    self.waiting[self.submitted[turn_id].task_id] = turn_id

            case ThreadRolledBack(thread_id=name, turn_id=turn_id):
                self.rolled_back |= {
                    each
                    for each, submitted in self.submitted.items()
                    if submitted.thread_id == name
                    and self.order[each] >= self.order[turn_id]
                    and each not in self.threads[name].queue
                }

    def add_task_event(self, event: RunEvent) -> None:
        match event.payload:
            case ev.ApprovalRequired(request=request):
                self.asked.setdefault(event.task_id, []).append(request.request_id)
            case ev.ApprovalDecided(decision=decision):
                self.asked[event.task_id].remove(decision.request_id)
            case ev.TaskPaused():
                self.paused.add(event.task_id)
            case ev.TaskResumed():
                self.paused.discard(event.task_id)
            case ev.TaskStatusChanged(new_state=state):
                self.states[event.task_id] = state
                if state in TERMINAL:
                    self.paused.discard(event.task_id)
                    self.asked.pop(event.task_id, None)
                    self.waiting.pop(event.task_id, None)

    def thread_of(self, turn_id: str) -> FoldedThread:
        return self.threads[self.submitted[turn_id].thread_id]

    def question(self, name: str) -> str | None:
        """The oldest turn of a thread whose task waits for input."""
        found = [each for each in self.waiting.values() if self.submitted[each].thread_id == name]
        return min(found, key=self.order.__getitem__, default=None)

    def status(self, name: str) -> ThreadStatus:
        thread = self.threads[name]
        if thread.active:
            tasks = [self.submitted[each].task_id for each in thread.active]
            is_blocked = all(each in self.paused or self.asked.get(each) for each in tasks)
            return ThreadStatus.BLOCKED if is_blocked else ThreadStatus.RUNNING
        if self.question(name) is not None:
            return ThreadStatus.BLOCKED
        if thread.queue:
            return ThreadStatus.QUEUED
        if not thread.ended:
            return ThreadStatus.IDLE
        last = max(thread.ended, key=self.order.__getitem__)
        return STATUS[self.states[self.submitted[last].task_id]]

    def summary(self, name: str) -> dict[str, Any]:
        thread = self.threads[name]
        return {
            "status": self.status(name),
            "active": thread.active,
            "queue": thread.queue,
            "waiting": self.question(name),
            "last": max(thread.ended, key=self.order.__getitem__, default=None),
            "approvals": sorted(
                each for turn in thread.active for each in self.asked.get(self.submitted[turn].task_id, ())
            ),
        }


def summary_of(thread: ThreadSnapshot) -> dict[str, Any]:
    return {
        "status": thread.status,
        "active": [each.turn_id for each in thread.active_turns],
        "queue": [each.turn_id for each in thread.queued_turns],
        "waiting": None if thread.waiting_turn is None else thread.waiting_turn.turn_id,
        "last": None if thread.last_outcome is None else thread.last_outcome.turn_id,
        "approvals": sorted(each.approval_id for each in thread.pending_approvals),
    }


# -- The stories -----------------------------------------------------------------------------------------------------------


class Clerk(Agent):
    """`hold` works until the story opens it, `ask` asks a question, `pay` needs an approval, `fail` fails.

    `limited` needs an approval, and meanwhile waits until the story opens it to repeat a model call.
    """

    def __init__(self, name: str, store: MemoryStore | SQLiteStore) -> None:
        safety = SafetyConfig(policy=CapabilityPolicy({"pay": "require_approval"}), approvals=Approvals())
        super().__init__(name, url=f"runtime://{name}", store=store, safety=safety, grace_s=0.01)
        self.open: concurrent.futures.Future[None] = concurrent.futures.Future()
        self.tool(capabilities=["pay"])(self.pay)

    async def pay(self) -> str:
        """Pay."""
        return "paid"

    async def handle_task(self, task: Task) -> Task:
        word = task.messages[-1].text
        if word == "hold":
            await asyncio.shield(asyncio.wrap_future(self.open))
        run = current_run()
        assert run is not None
        await run.progress(50)  # where a pause begins
        if word == "ask":
            return task.require_input(Message.agent("which?"))
        if word in ("pay", "limited"):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pay())
                if word == "limited":
                    await self._repeat_call(run)
        return task.fail("no") if word == "fail" else task.complete("done")

    async def _pay(self) -> None:
        with suppress(ProtolinkError):
            await self.call_tool("pay")

    async def _repeat_call(self, run: Run) -> None:
        call_id = new_uuid()
        await run.emit(ev.LlmCallStarted(call_id, "p", "m"))
        await run.emit(ev.LlmCallFailed(call_id, "p", "m", 1, 1, LIMITED, will_retry=True))
        await asyncio.shield(asyncio.wrap_future(self.open))
        await run.emit(ev.LlmCallStarted(call_id, "p", "m", 2))
        await run.emit(ev.LlmCallCompleted(call_id, "p", "m"))


class Story:
    """One session of one agent, and the comparison of its snapshots with its stream."""

    def __init__(self, agent: Clerk) -> None:
        self.agent = agent
        self.client = AgentClient(url=agent.card.url, timeout=WAIT_S)
        self.turns: list[str] = []
        self.tasks: list[str] = []
        self.texts: dict[str, str] = {}

    async def do(self, step: tuple[Any, ...]) -> None:
        """Do a step; one that is not possible is left out."""
        verb, *about = step
        sessions = self.client.sessions
        with suppress(ProtolinkError):
            if verb == "submit":
                text, thread, when_busy = about
                turn = await sessions.submit("s", text, thread_id=thread, when_busy=when_busy)
                self.turns.append(turn.turn_id)
                self.tasks.append(turn.task_id)
                self.texts[turn.task_id] = text
            elif verb == "wait":
                await self.wait()
            elif verb == "create":
                self.tasks.append((await self.client.tasks.create(Task.create("say", session_id="s"))).task_id)
            elif verb in ("pause", "resume", "retry", "start", "complete", "cancel") and self.tasks:
                await self.control(verb, self.tasks[about[0] % len(self.tasks)])
            elif verb in ("promote", "remove", "roll_back") and self.turns:
                await getattr(sessions, verb)("s", self.turns[about[0] % len(self.turns)])
            elif verb == "interrupt":
                await sessions.interrupt("s", thread_id=about[0], clear_queue=about[1])
            elif verb == "answer":
                for each in (await self.client.list_approvals()).approvals[:1]:
                    await self.client.respond_approval(
                        None, ApprovalDecision(about[0], each.approval_id, fingerprint=each.etag)
                    )
            elif verb == "open" and not self.agent.open.done():
                self.agent.open.set_result(None)

    async def wait(self) -> None:
        """Wait until each active turn ends, is paused or waits for an approval; except those that wait for the story."""
        for turn in (await self.client.sessions.get("s")).session.open_turns:
            waits_for_story = self.texts.get(turn.task_id) == "hold" and not self.agent.open.done()
            if turn.state is not TurnState.ACTIVE or waits_for_story:
                continue
            async with asyncio.timeout(WAIT_S), aclosing(self.client.sessions.stream("s", turn)) as events:
                async for event in events:
                    if event.type in ("approval.required", "task.paused", "task.start_requested"):
                        break

    async def control(self, verb: str, task_id: str) -> None:
        if verb == "start":
            await self.client.tasks.start(task_id, external=len(self.tasks) % 2 == 0)
        elif verb == "cancel":
            await self.client.cancel_task(None, task_id)
        else:
            await getattr(self.client.tasks, verb)(task_id)

    async def stream(self, last: int) -> list[SessionItem]:
        """The events of the session up to a position."""
        found: list[SessionItem] = []
        async with asyncio.timeout(WAIT_S), aclosing(self.client.sessions.subscribe("s")) as items:
            async for item in items:
                found.append(item)
                if item.position == last:
                    return found
        raise AssertionError("the stream ended")

    async def resumed(self, after: int, count: int) -> list[dict[str, Any]]:
        """The first Agent Runtime events of the session after a sequence."""
        if not count:
            return []
        stream = self.client.sessions.runtime_events("s", after=after)
        async with asyncio.timeout(WAIT_S), aclosing(stream) as records:
            found = [await anext(records)]
            while len(found) < count:
                found.append(await anext(records))
        return found

    async def check(self) -> None:
        """Compare each snapshot with the fold of the stream up to its position."""
        snapshots = self.client.snapshots
        session = await snapshots.session("s")
        items = await self.stream(session.session.position)
        records = [*SessionExport("s", "clerk").records(items)]
        whole = await self.resumed(0, len(records))
        for place in range(0, len(whole), 1 + len(whole) // 8):
            assert await self.resumed(whole[place]["sequence"], len(whole) - place - 1) == whole[place + 1 :]
        fold = Fold(items)
        if not any(each.availability == "stale" for each in session.gaps):
            statuses = {each["threadId"]: each["payload"]["status"] for each in records if each["type"] == UPDATED}
            assert {each.thread.thread_id: statuses.get(each.thread.thread_id, "idle") for each in session.threads} == {
                each.thread.thread_id: str(each.status) for each in session.threads
            }
            assert {each.thread.thread_id: summary_of(each) for each in session.threads} == {
                each: fold.summary(each) for each in THREADS
            }
        assert [each.turn_id for each in session.recent_turns] == list(fold.submitted)[-50:]
        assert {each.turn_id: each.result for each in session.recent_turns if each.result} == fold.results
        assert {each.turn_id for each in session.recent_turns if each.rolled_back} == fold.rolled_back
        documents = [document_of(session)]
        for name in THREADS:
            thread = await snapshots.thread("s", name)
            documents.append(document_of(thread))
            fold = Fold(await self.stream(thread.position))
            if not any(each.availability == "stale" for each in thread.gaps):
                assert summary_of(thread) == fold.summary(name)
                open_tasks = {each.task_id for each in thread.open_tasks}
                assert open_tasks == {
                    fold.submitted[each].task_id
                    for each in (*fold.threads[name].active, *fold.threads[name].queue, *fold.waiting.values())
                    if fold.submitted[each].thread_id == name
                }
        queue = await snapshots.queue("s")
        items = await self.stream(queue.position)
        fold = Fold(items)
        tasks = [await self.client.tasks.get(each.task_id) for each in fold.submitted.values()]
        evidence = [await snapshots.evidence(each.task_id) for each in fold.submitted.values()]
        documents += map(document_of, (queue, *tasks, *evidence))
        assert violations_of(SessionExport("s", "clerk").records(items), *documents) == []
        check_phases(items, tasks)
        assert [each.turn.turn_id for each in queue.queued_turns] == [
            each for name in THREADS for each in fold.threads[name].queue
        ]
        assert {each.thread_id: [turn.turn_id for turn in each.turns][:1] for each in queue.holds} == {
            name: (thread.active or [fold.question(name)])[:1] for name, thread in fold.threads.items() if thread.queue
        }


def check_phases(items: list[SessionItem], tasks: list[TaskSnapshot]) -> None:
    """Check that the last `run.status` of each task that works is its status."""
    sequences = {each.event.task_id: each.event.sequence for each in items if isinstance(each.event, RunEvent)}
    statuses = (each for each in SessionExport("s", "clerk").records(items) if each["type"] == "run.status")
    phases = {each["taskId"]: each["payload"]["phase"] for each in statuses}
    for task in tasks:
        if task.state is TaskState.WORKING and task.sequence == sequences[task.task_id]:
            shown = "running" if task.status is TaskStatus.PREPARING else str(task.status)
            assert phases[task.task_id] == shown


threads = st.sampled_from(THREADS)
steps = st.one_of(
    st.tuples(
        st.just("submit"),
        st.sampled_from(["hold", "say", "ask", "pay", "limited", "fail"]),
        threads,
        st.sampled_from(["enqueue", "enqueue", "interrupt", "start", "rollback", "merge"]),
    ),
    st.tuples(st.sampled_from(["promote", "remove", "roll_back"]), st.integers(0, 9)),
    st.tuples(st.sampled_from(["pause", "resume", "retry", "start", "complete", "cancel"]), st.integers(0, 9)),
    st.tuples(st.just("interrupt"), threads, st.booleans()),
    st.just(("create",)),
    st.tuples(st.just("answer"), st.booleans()),
    st.just(("open",)),
    st.just(("wait",)),
    st.just(("wait",)),
    st.just(("check",)),
)


PAUSED = [
    ("submit", "hold", "default", "enqueue"),
    ("submit", "say", "default", "enqueue"),
    ("pause", 0),
    *[("open",), ("wait",), ("check",), ("resume", 0), ("wait",), ("check",)],
]
ANSWERED = [
    ("submit", "pay", "side", "enqueue"),
    ("submit", "say", "side", "enqueue"),
    *[("wait",), ("check",), ("answer", True), ("wait",), ("check",)],
    *[("retry", 0), ("wait",), ("check",), ("answer", False), ("wait",), ("check",)],
]
ASKED = [
    *[("submit", "ask", "default", "enqueue"), ("wait",), ("check",), ("cancel", 0), ("check",)],
    *[("submit", "ask", "default", "enqueue"), ("wait",), ("submit", "say", "default", "enqueue"), ("check",)],
    *[("roll_back", 1), ("check",)],
]

RETRIED = [
    *[("submit", "hold", "default", "enqueue"), ("submit", "hold", "default", "interrupt"), ("retry", 0)],
    *[("wait",), ("check",), ("open",), ("wait",), ("check",)],
]

LIMITS = [
    *[("submit", "limited", "default", "enqueue"), ("wait",), ("check",), ("answer", True), ("check",)],
    *[("pause", 0), ("check",), ("resume", 0), ("check",), ("open",), ("wait",), ("check",)],
]


async def tell(story: list[tuple[Any, ...]], store: MemoryStore | None, path: Path) -> None:
    name = f"clerk-{new_uuid()}"
    agent = Clerk(name, store or SQLiteStore(path))
    async with agent:
        told = Story(agent)
        await told.client.sessions.start_thread("s", "side")
        for step in story:
            await (told.check() if step == ("check",) else told.do(step))
        await told.check()
        if store is not None and not agent.open.done():
            agent.open.set_result(None)
    if store is None:
        async with Clerk(name, SQLiteStore(path)) as agent:
            again = Story(agent)
            await again.check()
            agent.open.set_result(None)
            await again.do(("submit", "say", "side", "start"))
            await again.check()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(story=PAUSED)
@example(story=ANSWERED)
@example(story=ASKED)
@example(story=RETRIED)
@example(story=LIMITS)
@given(story=st.lists(steps, min_size=5, max_size=25))
def test_a_snapshot_is_the_fold_of_the_stream_up_to_its_position(kind: str, story: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = MemoryStore() if kind == "memory" else None
        asyncio.run(tell(story, store, Path(directory) / "tasks.db"))
