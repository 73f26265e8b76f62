"""The rules of snapshots: the status of a thread, their cost, and what they say about turns that a store has dropped."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import MemoryStore, SQLiteStore, Task
from protolink_grpc.models.action import PolicyEffect
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.events import TaskPaused
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.part import FileContent, Part
from protolink_grpc.models.session import Thread, Turn, TurnState, WhenBusy
from protolink_grpc.models.snapshot import Availability, Gap, ThreadStatus
from protolink_grpc.policy import CapabilityPolicy
from protolink_grpc.runtime.actions.tools import tool_inventory
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.snapshots import ATTEMPTS, TaskFacts, artifact_summary, thread_status
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage import session_rows as rows
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_snapshots import (
    ThreadRows,
    read_queue_rows,
    read_session_rows,
    read_thread_rows,
)
from protolink_grpc.tools.tool import Tool
from protolink_grpc.tools.toolbox import Toolbox
from protolink_grpc.wire.events import event_from_frame

OWNER = rows.owner_of("desk", "ann")


def turn(name: str, result: TaskState | None = None, reason: str = "") -> Turn:
    state = TurnState.ACTIVE if result is None else TurnState.ENDED
    return Turn(name, "default", f"task {name}", state=state, result=result, reason=reason)


WORKS, PAUSED = TaskFacts(TaskState.WORKING), TaskFacts(TaskState.WORKING, "lunch", is_paused=True)
ASKS = TaskFacts(TaskState.WORKING, asked=("one", "two"))
NO_SLOT = TaskFacts(TaskState.SUBMITTED, slot_wait="waits for a slot")
A, B, ASKED = turn("a"), turn("b"), turn("c", TaskState.INPUT_REQUIRED)


# -- status ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("thread", "facts", "status", "reason"),
    [
        (ThreadRows(Thread()), {}, ThreadStatus.IDLE, ""),
        (ThreadRows(Thread(), queued=(A, B)), {}, ThreadStatus.QUEUED, "turns that wait: 2"),
        (ThreadRows(Thread(), active=(A,)), {}, ThreadStatus.RUNNING, ""),
        (ThreadRows(Thread(), active=(A,), queued=(B,)), {"task a": WORKS}, ThreadStatus.RUNNING, ""),
        (ThreadRows(Thread(), active=(A,)), {"task a": PAUSED}, ThreadStatus.BLOCKED, "paused: lunch"),
        (
            ThreadRows(Thread(), active=(A,)),
            {"task a": ASKS},
            ThreadStatus.BLOCKED,
            "waits for the approval one",
        ),
        (ThreadRows(Thread(), active=(A, B)), {"task a": ASKS, "task b": WORKS}, ThreadStatus.RUNNING, ""),
        (ThreadRows(Thread(), active=(A,)), {"task a": NO_SLOT}, ThreadStatus.RUNNING, "waits for a slot"),
        (ThreadRows(Thread(), active=(A, B)), {"task a": NO_SLOT, "task b": WORKS}, ThreadStatus.RUNNING, ""),
        (ThreadRows(Thread(), active=(A,), waiting=(ASKED,)), {"task a": WORKS}, ThreadStatus.RUNNING, ""),
        (ThreadRows(Thread(), queued=(B,), waiting=(ASKED,)), {}, ThreadStatus.BLOCKED, "waits for input"),
        (
            ThreadRows(Thread(), waiting=(turn("d", TaskState.AUTH_REQUIRED),)),
            {},
            ThreadStatus.BLOCKED,
            "waits for an authorization",
        ),
        (ThreadRows(Thread(), last=turn("e", TaskState.COMPLETED)), {}, ThreadStatus.COMPLETED, ""),
        (ThreadRows(Thread(), last=turn("e", TaskState.REJECTED, "no")), {}, ThreadStatus.FAILED, "no"),
        (ThreadRows(Thread(), last=turn("e", TaskState.CANCELED, "enough")), {}, ThreadStatus.CANCELLED, "enough"),
        (
            ThreadRows(Thread(), last=ASKED),
            {"task c": TaskFacts(TaskState.CANCELED, "withdrawn")},
            ThreadStatus.CANCELLED,
            "withdrawn",
        ),
        (ThreadRows(Thread(), last=ASKED), {}, None, ""),
        (ThreadRows(Thread(), is_last_unknown=True), {}, None, ""),
    ],
)
def test_the_status_of_a_thread_follows_from_its_turns_and_their_tasks(
    thread: ThreadRows, facts: dict[str, TaskFacts], status: ThreadStatus | None, reason: str
) -> None:
    assert thread_status(thread, facts) == (status, reason)


async def test_a_thread_with_a_paused_run_is_blocked_until_it_is_resumed() -> None:
    working, may_report = asyncio.Event(), asyncio.Event()

    async def report(task: Task, run: Run) -> Task:
        working.set()
        await may_report.wait()
        await run.progress(50)
        return task.complete("done")

    service = TaskService("desk", MemoryStore(), report)
    await service.start()
    try:
        made = await service.sessions.submit(Submission.of(Task.create("go")), "ann", "s")
        await working.wait()
        await service.control.pause(made.task_id, "ann", "lunch")
        assert (await service.snapshots.thread("ann", "s", "default")).status is ThreadStatus.RUNNING
        may_report.set()
        async for frames in service.sessions.stream("ann", "s", made.turn_id):
            if any(isinstance(event_from_frame(each).payload, TaskPaused) for each in frames):
                break
        found = await service.snapshots.thread("ann", "s", "default")
        assert (found.status, found.status_reason) == (
            ThreadStatus.BLOCKED,
            "paused: lunch",
        )
        await service.control.resume(made.task_id, "ann")
        async for _ in service.sessions.stream("ann", "s", made.turn_id):
            pass
        assert (await service.snapshots.thread("ann", "s", "default")).status is ThreadStatus.COMPLETED
    finally:
        await service.stop(grace_s=0)


async def test_a_snapshot_of_a_session_that_keeps_changing_says_that_its_status_may_be_of_another_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    working, may_end = asyncio.Event(), asyncio.Event()

    async def hold(task: Task, run: Run) -> Task:
        working.set()
        await may_end.wait()
        return task.complete("done")

    service = TaskService("desk", MemoryStore(), hold)
    await service.start()
    changes = 0

    async def change_and_read(task_id: str, principal: str) -> TaskFold:
        nonlocal changes
        changes += 1
        await service.sessions.update("ann", "s", title=str(changes))
        return await service.get(task_id, principal)

    try:
        await service.sessions.submit(Submission.of(Task.create("go")), "ann", "s")
        await working.wait()
        assert not [gap for gap in (await service.snapshots.session("ann", "s")).gaps if gap.availability == "stale"]
        monkeypatch.setattr(service.snapshots, "_read_task", change_and_read)
        found = await service.snapshots.session("ann", "s")
        assert changes == ATTEMPTS
        assert [gap.part for gap in found.gaps if gap.availability is Availability.STALE] == ["pending_approvals"]
        assert [(gap.part, gap.availability) for gap in found.threads[0].gaps] == [("status", Availability.STALE)]
    finally:
        may_end.set()
        await service.stop()


# -- cost ------------------------------------------------------------------------------------------------------------------


def add_turns(count: int) -> Callable[[Records], None]:
    """Return a change that adds a session `s`: the first turn is that of the thread `quiet`, the others are in `default`."""

    def work(records: Records) -> None:
        records.put(rows.HEADS, rows.SessionHead(OWNER, "s", 7, count, 1, 1, turns=count))
        records.put(rows.THREADS, rows.ThreadRow(7, "quiet", 1))
        for number in range(1, count + 1):
            thread = "quiet" if number == 1 else "default"
            records.put(
                rows.ENDED_TURNS,
                rows.EndedTurn(
                    *(7, f"turn {number}", thread, f"task {number}", 0, TaskState.COMPLETED, "", number, 1, 2),
                    when_busy=WhenBusy.ENQUEUE,
                ),
            )

    return work


async def steps_of(path: Path, turns: int, read: Callable[[Records], Any]) -> int:
    """Return the number of SQLite's instructions of a query on a session with so many turns."""
    store = SQLiteStore(path)
    await store.open()
    try:
        await store.change(add_turns(turns))
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        def query(records: Any) -> None:
            records._db.set_progress_handler(count, 1)
            try:
                read(records)
            finally:
                records._db.set_progress_handler(None, 1)

        await store.view(query)
        return steps
    finally:
        await store.close()


READS = {
    "session": lambda records: read_session_rows(records, OWNER, "s", durable=True),
    "thread": lambda records: read_thread_rows(records, OWNER, "s", "default", durable=True),
    "quiet thread": lambda records: read_thread_rows(records, OWNER, "s", "quiet", durable=True),
    "queue": lambda records: read_queue_rows(records, OWNER, "s", ""),
}


@pytest.mark.parametrize("read", READS)
async def test_ten_thousand_turns_cost_a_snapshot_no_more_steps_of_the_database_than_a_hundred(
    tmp_path: Path, read: str
) -> None:
    few = await steps_of(tmp_path / "few.db", 100, READS[read])
    many = await steps_of(tmp_path / "many.db", 10_000, READS[read])
    assert few <= many <= few * 1.05


@pytest.mark.parametrize(("turns", "is_unknown"), [(900, False), (1001, True)])
async def test_a_store_in_memory_is_searched_for_the_last_turn_of_a_quiet_thread_up_to_a_bound(
    turns: int, is_unknown: bool
) -> None:
    store = MemoryStore()
    await store.open()
    await store.change(add_turns(turns))
    found = await store.view(lambda records: read_session_rows(records, OWNER, "s", durable=False))
    quiet = {each.thread.thread_id: each for each in found.threads}["quiet"]
    assert (quiet.last is None, quiet.is_last_unknown) == (is_unknown, is_unknown)
    await store.close()


# -- dropped turns ---------------------------------------------------------------------------------------------------------


async def handle(task: Task, run: Any) -> Task:
    if task.messages[-1].text == "ask":
        return task.require_input("what?")
    return task.complete("done")


async def tell(store: TaskStore, *texts: str, thread: str = "default") -> TaskService:
    """Start a service and run these turns, one after the other."""
    service = TaskService("desk", store, handle)
    await service.start()
    await service.sessions.start_thread("ann", "s", "side")
    for text in texts:
        given = Submission.of(Task.create(text))
        made = await service.sessions.submit(given, "ann", "s", thread_id=thread)
        async for _ in service.sessions.stream("ann", "s", made.turn_id):
            pass
    return service


async def test_turns_that_a_memory_store_has_dropped_are_a_gap() -> None:
    service = await tell(MemoryStore(max_tasks=3), *["say"] * 8)
    try:
        found = await service.snapshots.session("ann", "s")
        kept = len(found.recent_turns)
        assert 0 < kept < 8
        assert Gap("recent_turns", Availability.UNKNOWN, f"{8 - kept} turns are lost") in found.gaps
        for name in ("default", "side"):
            thread = await service.snapshots.thread("ann", "s", name)
            assert "recent_turns" in [each.part for each in thread.gaps]
    finally:
        await service.stop()


async def test_a_store_that_drops_nothing_has_no_gaps_of_turns(tmp_path: Path) -> None:
    service = await tell(SQLiteStore(tmp_path / "tasks.db"), *["say"] * 3)
    try:
        found = await service.snapshots.session("ann", "s")
        thread = await service.snapshots.thread("ann", "s", "side")
        gaps = {each.part: each.availability for each in (*found.gaps, *thread.gaps)}
        # Other snapshots and the events have these parts of turns that the snapshot does not read.
        elsewhere = {part for part, availability in gaps.items() if availability is Availability.UNKNOWN}
        assert elsewhere == {"routing", "limits", "subagents", "evidence", "tasks", "artifacts"}
        assert set(gaps.values()) == {Availability.UNAVAILABLE, Availability.UNKNOWN}
    finally:
        await service.stop()


# -- values ----------------------------------------------------------------------------------------------------------------


def test_the_size_of_an_artifact_is_that_of_its_contents() -> None:
    parts = [Part.text("abc"), Part("file", FileContent(b"12345")), Part("json", {"a": 1}), Part("text", None)]
    found = artifact_summary("task", Artifact(parts=parts))
    assert (found.part_count, found.size, found.preview) == (4, 3 + 5 + len('{"a":1}'), "abc")


def work() -> str:
    """Work."""
    return "done"


def test_an_effect_that_depends_on_the_call_is_unset_and_a_gap() -> None:
    box = Toolbox()
    box.add(Tool.from_callable(work, name="built", action_builder=lambda *_: None))
    box.add(Tool.from_callable(work, name="denied", capabilities=["x"]))
    found = tool_inventory(box, CapabilityPolicy({"x": "deny"}), "ann", frozenset())
    assert [(each.tool.name, each.tool.effect) for each in found.tools] == [
        ("built", None),
        ("denied", PolicyEffect.DENY),
    ]
    assert [(each.part, each.availability) for each in found.gaps] == [
        ("tools.effect", Availability.UNKNOWN),
        ("tools.concurrency_safe", Availability.UNAVAILABLE),
    ]


def test_an_inventory_has_the_peers_with_the_effect_of_a_delegation() -> None:
    box = Toolbox()
    box.add(Tool.from_callable(work, name="b"))
    peers = [AgentCard(name=name, description=f"the {name}", url=f"grpc://{name}:1") for name in ("a", "c")]
    found = tool_inventory(box, CapabilityPolicy({"agent.*": "ask"}), "ann", frozenset(), peers=peers)
    assert [(each.tool.name, each.tool.effect, each.runtime_owner) for each in found.tools] == [
        ("a", PolicyEffect.REQUIRE_APPROVAL, "agent:a"),
        ("b", PolicyEffect.ALLOW, "local"),
        ("c", PolicyEffect.REQUIRE_APPROVAL, "agent:c"),
    ]
    assert (found.tools[0].tool.description, found.tools[0].tool.capabilities) == ("the a", ("agent.delegate",))
    assert [each.part for each in found.gaps] == ["tools.concurrency_safe"]
    stale = tool_inventory(box, None, "ann", frozenset(), peers=peers, has_all_peers=False)
    assert (stale.gaps[0].part, stale.gaps[0].availability) == ("tools", Availability.STALE)


def test_an_inventory_that_is_too_large_has_a_gap() -> None:
    box = Toolbox()
    for number in range(4):
        box.add(Tool.from_callable(work, name=f"tool{number}", description="x" * 700_000))
    found = tool_inventory(box, None, "ann", frozenset())
    assert [each.tool.name for each in found.tools] == ["tool0", "tool1"]
    assert [each.part for each in found.gaps] == ["tools", "tools.concurrency_safe"]


async def test_artifacts_whose_uris_have_their_content_are_left_out_beyond_a_size() -> None:
    async def draw(task: Task, run: Run) -> Task:
        for number in range(8):
            task.artifacts.append(Artifact(name=str(number), uri=f"data:,{'x' * 100_000}"))
        return task.complete("done")

    service = TaskService("desk", MemoryStore(), draw)
    await service.start()
    try:
        made = await service.sessions.submit(Submission.of(Task.create("draw")), "ann", "s")
        async for _ in service.sessions.stream("ann", "s", made.turn_id):
            pass
        found = await service.snapshots.artifacts("ann", made.task_id)
        assert found.artifacts[-1].name == "7"
        assert 1 <= len(found.artifacts) < 8
        assert "artifacts" in [each.part for each in found.gaps]
    finally:
        await service.stop(grace_s=0)


def test_a_rule_with_scopes_allows_only_callers_that_have_them() -> None:
    box = Toolbox()
    box.add(Tool.from_callable(work, name="pay", capabilities=["pay"]))
    policy = CapabilityPolicy({"pay": {"effect": "allow", "scopes": ["money"]}})
    for scopes, effect in ((frozenset[str](), PolicyEffect.DENY), (frozenset({"money"}), PolicyEffect.ALLOW)):
        (entry,) = tool_inventory(box, policy, "ann", scopes).tools
        assert entry.tool.effect is effect
