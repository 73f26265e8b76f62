"""Random runs: the state that is read from their logs equals the state when they were written."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plgrpc.v1 import task_pb2

from protolink_grpc import MemoryStore, SQLiteStore
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import (
    ApprovalDecision,
    ApprovalRequest,
    Artifact,
    BudgetDecision,
    BudgetEffect,
    BudgetUsage,
    ContextManifest,
    FileContent,
    Message,
    Part,
    PolicyDecision,
    PolicyEffect,
    RunAction,
    RunBudget,
    RunContext,
    Task,
    TaskState,
    ToolCall,
)
from protolink_grpc.models import events as ev
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL
from protolink_grpc.models.report import RunReport
from protolink_grpc.reports import RunReplay
from protolink_grpc.runtime.log import LiveTask
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.wire.events import event_from_frame, replay
from protolink_grpc.wire.tasks import fold_to_bytes

VIEWS = list(task_pb2.TaskView.values())
WORKING = TaskState.WORKING

# A shared machine's pauses are no failure; a store is opened per example.
relaxed = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
each_store = pytest.mark.parametrize("kind", ["memory", "sqlite"])

# -- random facts --------------------------------------------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8"), max_size=6)
keys = st.sampled_from(["a", "b", "c"])
values = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | texts | st.lists(st.integers(), max_size=2)
objects = st.dictionaries(keys, values, max_size=2)
parts = st.one_of(
    st.builds(Part, st.just("text"), texts, st.none() | objects),
    st.builds(Part.json, objects),
    st.builds(lambda data: Part("file", FileContent(data, None, "a.bin")), st.binary(max_size=5)),
    st.builds(Part.tool_call, st.just("add"), objects),
)
part_lists = st.lists(parts, max_size=2)
usages = st.none() | st.builds(
    BudgetUsage, *[st.integers(0, 99)] * 5, st.integers(0, 10**8).map(lambda each: each / 1e6)
)
contexts = st.none() | st.builds(
    RunContext, session_id=st.none() | st.just("session"), budget=st.builds(RunBudget, st.none() | st.integers(0, 9))
)
tokens = st.none() | st.integers(0, 1000)


class Pulse:
    """A clock that moves on by a second with each look."""

    def __init__(self) -> None:
        self.now = 1_780_000_000_000_000

    def micros(self) -> int:
        self.now += 1_000_000
        return self.now


@dataclass
class Recording:
    """Appends in order, each a list of facts with the run that it belongs to."""

    opening: ev.TaskSubmitted
    appends: list[tuple[str, list[Any]]] = field(default_factory=list)


@st.composite
def facts_at_work(draw: st.DrawFn, counter: Iterator[int]) -> list[Any]:
    """One or a few facts that a run may record while it works."""
    number = str(next(counter))
    action = RunAction(
        "tool.call", draw(st.sampled_from(["add", "book"])), {"arguments": draw(objects)}, action_id=number
    )
    kind = draw(st.integers(0, 9))
    match kind:
        case 0:
            roles = st.sampled_from(["agent", "user", "assistant"])
            return [ev.TaskMessagesAdded((Message(f"m{number}", draw(roles), draw(part_lists)),))]
        case 1:
            artifact = Artifact(draw(st.sampled_from(["x", "y", "z"])), draw(part_lists), draw(objects))
            return [ev.TaskArtifactUpdated(artifact, append=draw(st.booleans()))]
        case 2:
            return [ev.TaskPatched(draw(objects), draw(objects))]
        case 3:
            return [ev.TaskProgress(draw(st.none() | st.floats(0, 100)), draw(texts))]
        case 4:
            return [draw(objects), RunEvent("own.kind", draw(objects), summary=draw(texts), metadata=draw(objects))]
        case 5:
            outcome = draw(st.sampled_from(["completed", "failed", "rejected", "canceled"]))
            facts = draw(values), draw(values)
            return [
                RunEvent(payload=ev.ActionRequested(action, position=number), action_id=number),
                RunEvent(
                    payload=ev.ActionPolicyEvaluated(PolicyDecision(PolicyEffect.ALLOW)),
                    action_id=number,
                ),
                RunEvent(payload=ev.ActionStarted("tool.call", action.name, draw(objects)), action_id=number),
                RunEvent(
                    payload=ev.ActionEnded("tool.call", action.name, *facts, usage=draw(usages), outcome=outcome),
                    action_id=number,
                ),
            ]
        case 6:
            verdict = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, draw(texts))
            request = ApprovalRequest(action, verdict, request_id=f"q{number}")
            answer = ApprovalDecision(draw(st.booleans()), request.request_id, draw(texts))
            # A question refers to the action and the verdict that come before it.
            return [
                RunEvent(payload=ev.ActionRequested(action, position=number), action_id=number),
                RunEvent(payload=ev.ActionPolicyEvaluated(verdict), action_id=number),
                RunEvent(payload=ev.ApprovalRequired(request), action_id=number),
                ev.ApprovalDecided(answer),
            ][: draw(st.integers(3, 4))]
        case 7:
            step, cost = draw(st.integers(1, 3)), draw(tokens)
            return [
                ev.ContextPrepared(ContextManifest(user_tokens=draw(st.integers(0, 99))), step),
                ev.LlmCallStarted(number, "mock", "m", 1, step),
                ev.LlmCallCompleted(
                    *(
                        number,
                        "mock",
                        "m",
                        step,
                        draw(texts),
                        draw(tokens),
                        draw(tokens),
                        cost,
                        "EUR" if cost is not None else "",
                    ),
                    tool_calls=(ToolCall("add", draw(objects), number),),
                ),
            ][: draw(st.integers(1, 3))]
        case 8:
            decision = BudgetDecision(BudgetEffect.WARN, "max_steps", 1.0, 2.0, draw(texts))
            return [ev.BudgetReported(decision), ev.LlmStep("llm_step", 1, draw(texts), draw(objects))]
        case _:
            return [
                ev.TaskErrorReported(Failure("E", draw(texts))),
                ev.CancelRequested(draw(texts), "ada", draw(objects)),
            ]


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    """A task from its submission through some runs, each legal; the last one may still be under way."""
    counter = iter(range(10_000))
    task = Task("task", messages=[Message("first", "user", draw(part_lists))], metadata=draw(objects))
    context = draw(contexts)
    if context is not None:
        context.attach_to_task(task)
    recording = Recording(ev.TaskSubmitted.of(task, "ada", draw(texts)))
    state = TaskState.SUBMITTED
    for attempt in range(1, draw(st.integers(1, 3)) + 1):
        run = f"run-{attempt}"
        begin: list[Any] = [ev.TaskStatusChanged(state, WORKING, None, "", attempt, "submitted", draw(contexts))]
        if state in INTERRUPTED:
            begin.insert(0, ev.TaskMessagesAdded((Message(f"turn{attempt}", "user", draw(part_lists)),)))
        recording.appends.append((run, begin))
        for _ in range(draw(st.integers(0, 5))):
            recording.appends.append((run, draw(facts_at_work(counter))))
        state = draw(st.sampled_from([*sorted(TERMINAL), *sorted(INTERRUPTED) * 3, WORKING]))
        if state is not WORKING:
            recording.appends.append(
                (run, [ev.TaskStatusChanged.because(WORKING, state, draw(texts), usage=draw(usages))])
            )
        # No run begins on a task whose cancellation the run before has not recorded.
        is_canceled = any(isinstance(fact, ev.CancelRequested) for _, facts in recording.appends for fact in facts)
        if state in TERMINAL or (state is WORKING and is_canceled):
            break
    return recording


@asynccontextmanager
async def opened(kind: str) -> AsyncIterator[TaskStore]:
    with tempfile.TemporaryDirectory() as folder:
        store: TaskStore = MemoryStore() if kind == "memory" else SQLiteStore(Path(folder) / "tasks.db")
        await store.open()
        try:
            yield store
        finally:
            await store.close()


async def recorded(recording: Recording, store: TaskStore) -> LiveTask:
    live = LiveTask("task", agent_name="hotel", store=store, clock=Pulse())
    live.fold.principal, live.fold.agent_name, live.fold.session_id = "ada", "hotel", "task"
    await live.record([recording.opening], run_id="run-1", claim=True)
    for run, facts in recording.appends:
        await live.record(facts, run_id=run)
    return live


async def log_of(store: TaskStore, task_id: str) -> list[bytes]:
    frames: list[bytes] = []
    while more := await store.read(task_id, len(frames), 7):
        frames += more
    return frames


def views(fold: TaskFold) -> list[bytes]:
    return [fold_to_bytes(fold, view) for view in VIEWS]


# -- folding -------------------------------------------------------------------------------------------------------------


@each_store
@relaxed
@given(recording=recordings(), data=st.data())
def test_a_stored_log_folds_to_the_snapshot_of_its_writer_byte_for_byte(
    kind: str, recording: Recording, data: st.DataObject
) -> None:
    async def work() -> tuple[list[bytes], list[bytes]]:
        async with opened(kind) as store:
            live = await recorded(recording, store)
            return views(live.fold), await log_of(store, "task")

    snapshot, frames = asyncio.run(work())
    whole = TaskFold("task")
    replay(whole, frames)
    assert views(whole) == snapshot

    cut = data.draw(st.integers(0, len(frames)), label="cut")
    split = TaskFold("task")
    replay(split, frames[:cut])
    views(split)  # reading half of it must not change what the rest adds up to
    replay(split, frames[cut:])
    assert views(split) == snapshot


@each_store
@relaxed
@given(recording=recordings())
def test_the_task_made_of_a_stored_log_is_that_of_its_writer(kind: str, recording: Recording) -> None:
    async def work() -> tuple[Task, list[bytes]]:
        async with opened(kind) as store:
            live = await recorded(recording, store)
            return live.fold.to_task(), await log_of(store, "task")

    task, frames = asyncio.run(work())
    fold = TaskFold("task")
    replay(fold, frames)
    assert fold.to_task().to_dict() == task.to_dict()


# -- reporting -----------------------------------------------------------------------------------------------------------


@relaxed
@given(recording=recordings())
def test_a_report_of_the_facts_as_they_were_given_is_that_of_the_log(recording: Recording) -> None:
    async def work() -> list[bytes]:
        async with opened("memory") as store:
            await recorded(recording, store)
            return await log_of(store, "task")

    stored = [event_from_frame(frame) for frame in asyncio.run(work())]
    # What was recorded, in the envelopes of the log: nothing of it has been bytes.
    given_facts = [("run-1", recording.opening), *((run, fact) for run, facts in recording.appends for fact in facts)]
    live = [
        _placed(fact if isinstance(fact, RunEvent) else RunEvent(payload=fact), event)
        for (_, fact), event in zip(given_facts, stored, strict=True)
    ]
    assert RunReport.from_events(live).to_dict() | _NOW == RunReport.from_events(stored).to_dict() | _NOW


_NOW = {"created_at": ""}


def _placed(fact: RunEvent, event: RunEvent) -> RunEvent:
    """The fact in the envelope of its event, which also says when, where and in which run a question was asked."""
    names = ("task_id", "sequence", "run_id", "session_id", "agent_name", "timestamp", "final", "summary")
    payload = fact.payload
    if isinstance(payload, ev.ApprovalRequired):
        asked = replace(payload.request, created_at=event.timestamp, run_id=event.run_id, task_id=event.task_id)
        fact = replace(fact, payload=ev.ApprovalRequired(asked))
    return replace(fact, **{name: getattr(event, name) for name in names})


@relaxed
@given(recording=recordings())
def test_a_report_survives_its_own_json(recording: Recording) -> None:
    async def work() -> list[bytes]:
        async with opened("memory") as store:
            await recorded(recording, store)
            return await log_of(store, "task")

    report = RunReport.from_events(map(event_from_frame, asyncio.run(work())))
    again = RunReport.from_json(report.to_json())
    assert again.to_dict() == report.to_dict()
    assert RunReport.from_events(again.events).to_dict()["totals"] == report.to_dict()["totals"]


@each_store
@relaxed
@given(turns=st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=3), data=st.data())
def test_what_a_service_streams_reports_and_folds_like_what_it_has_stored(
    kind: str, turns: list[list[int]], data: st.DataObject
) -> None:
    counter = iter(range(10_000))
    planned = [[data.draw(facts_at_work(counter)) for _ in turn] for turn in turns]
    # A wish to cancel is the service's to record.
    planned = [[[each for each in facts if not _steers(each)] for facts in turn] for turn in planned]

    async def handle(task: Task, run: Run) -> Task:
        for facts in planned[run.attempt - 1]:
            for fact in facts:
                await run.emit(fact)
            await run.flush()
        return task.require_input() if run.attempt < len(planned) else task.complete("done")

    async def work() -> tuple[list[RunEvent], list[bytes], list[bytes]]:
        async with opened(kind) as store:
            service = TaskService("hotel", store, handle)
            await service.start()
            streamed: list[RunEvent] = []
            for turn in range(len(planned)):
                said = Submission(task_id="task", messages=[Message(f"turn{turn}", "user", [Part.text("go")])])
                async for frames in service.stream(said, "ada"):
                    streamed += map(event_from_frame, frames)
            snapshot = views(await service.get("task", "ada"))
            frames = await log_of(store, "task")
            await service.stop()
            return streamed, snapshot, frames

    streamed, snapshot, frames = asyncio.run(work())
    fold = TaskFold("task")
    replay(fold, frames)
    assert views(fold) == snapshot
    assert RunReport.from_events(streamed) == RunReport.from_events(map(event_from_frame, frames))


def _steers(fact: Any) -> bool:
    return isinstance(fact, ev.CancelRequested)


# -- reading -------------------------------------------------------------------------------------------------------------

# Near misses: the names and the words that readers look for, filled with anything.
NAMES = sorted(
    {name for kind in get_args(ev.Payload) for name in kind.__dataclass_fields__}
    | set(RunEvent.__dataclass_fields__)
    | set(RunReport.__dataclass_fields__)
    | {"llm_event_type", "step", "content", "manifest", "decision", "request", "action", "usage", "run_context", "args"}
)
WORDS = st.sampled_from(
    [
        *(*ev.TYPES.values(), *ev.OUTCOME_TYPES, *ev.OUTCOME_TYPES.values(), "budget.warning", "unknown-7"),
        *("task_llm_stream", "task_status_update", "task_artifact_update", "tool_start", "info"),
        *("llm_call_completed", "context_prepared", "budget_warning", "approval_required", "working", "allow"),
    ]
)
near_misses = st.recursive(
    values | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "read",
    [RunEvent.from_dict, RunEvent.from_task_event, RunReport.from_dict, RunReplay],
    ids=lambda read: read.__qualname__,
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(found=near_misses, kind=WORDS)
def test_any_json_is_read_or_refused_as_its_writers_mistake(read: Any, found: Any, kind: str) -> None:
    if isinstance(found, str):
        return  # the name of a file
    made = {"type": kind} | found if isinstance(found, dict) else found
    with suppress(InvalidArgumentError):
        read(made).to_dict() if read is not RunReplay else read(made).report.to_dict()
