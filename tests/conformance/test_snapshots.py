"""Snapshots with every store, over every way to reach an agent of this package."""

import asyncio
import concurrent.futures
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    Approval,
    Approvals,
    Artifact,
    Availability,
    CapabilityPolicy,
    ContextManifest,
    MemoryStore,
    Message,
    Part,
    PolicyEffect,
    SafetyConfig,
    SessionNotFoundError,
    SQLiteStore,
    Task,
    TaskNotFoundError,
    TaskState,
    TaskStatus,
    ThreadNotFoundError,
    ThreadStatus,
    Turn,
    current_run,
)
from protolink_grpc.client.channel import close_channels
from protolink_grpc.client.http_channel import close_http_channels
from protolink_grpc.models.events import ContextCompacted, ContextPrepared
from protolink_grpc.models.ids import new_uuid

WAIT_S = 20.0
"""Bound of what must happen soon; reached only by a failure."""

POLICY = CapabilityPolicy({"pay": "require_approval", "erase": "deny"})


class Clerk(Agent):
    """`hold NAME` works until the test opens NAME, `ask NAME` asks a question, `pay` calls a tool that needs an approval."""

    def __init__(self, name: str, url: str, store: MemoryStore | SQLiteStore) -> None:
        card = AgentCard(name=name, description="does as told", url=url)
        safety = SafetyConfig(policy=POLICY, approvals=Approvals())
        super().__init__(card, store=store, grace_s=0.1, safety=safety)
        self.open: defaultdict[str, concurrent.futures.Future[None]] = defaultdict(concurrent.futures.Future)
        self.tool(capabilities=["pay"])(self.pay)
        self.tool(capabilities=["erase"])(self.erase)
        self.tool(read_only=True)(self.look)

    async def pay(self, amount: int) -> str:
        """Pay an amount."""
        return f"paid {amount}"

    async def erase(self) -> None:
        """Erase everything."""

    async def look(self) -> str:
        """Look."""
        return "seen"

    async def think(self, compactions: int) -> None:
        """Record what a model call records."""
        run = current_run()
        assert run is not None
        for number in range(compactions):
            await run.emit(ContextCompacted(100 + number, 10, "recent"))
        for step in (1, 2):
            await run.emit(ContextPrepared(ContextManifest(model="m", history_tokens=7 * step), step))

    async def handle_task(self, task: Task) -> Task:
        word, _, name = task.messages[-1].text.partition(" ")
        if word == "hold":
            await asyncio.shield(asyncio.wrap_future(self.open[name]))
        if word == "ask":
            return task.require_input(Message.agent(f"which {name}?"))
        if word == "pay":
            await self.call_tool("look")
            await self.call_tool("pay", amount=3)
        if word == "propose":  # asks its caller while the approval is pending
            paying = asyncio.create_task(self.call_tool("pay", amount=3))
            await asyncio.shield(asyncio.wrap_future(self.open[name]))
            paying.cancel()
            await asyncio.gather(paying, return_exceptions=True)
            return task.require_input(Message.agent(f"pay {name}?"))
        if word == "think":
            await self.think(int(name))
            if name == "25":
                return task.require_input(Message.agent("more?"))
        if word == "draw":
            for number in range(int(name)):
                task.artifacts.append(Artifact(name=f"drawing {number}", parts=[Part.text("x" * 300)]))
        return task.fail("no") if word == "fail" else task.complete(f"{name or word} done")


class Link:
    """An agent, and a client that reaches it in the way under test."""

    def __init__(self, agent: Clerk) -> None:
        self.agent = agent
        self.client = AgentClient(url=agent.card.url, timeout=WAIT_S)
        self.sessions = self.client.sessions
        self.snapshots = self.client.snapshots

    async def done(self, text: str, **options: str) -> Turn:
        """Submit a turn and return it after its end."""
        turn = await self.sessions.submit("s", text, **options)
        await self.end_of(turn)
        return turn

    async def end_of(self, turn: Turn) -> None:
        async with asyncio.timeout(WAIT_S):
            async for _ in self.sessions.stream("s", turn):
                pass

    async def approval_of(self, turn: Turn) -> Approval:
        """Return the approval that a turn waits for."""
        async with asyncio.timeout(WAIT_S):
            async for each in self.sessions.stream("s", turn):
                if each.type == "approval.required":
                    break
        (approval,) = (await self.client.list_approvals(task_id=turn.task_id)).approvals
        return approval


@pytest.fixture(
    params=["grpc memory", "grpc sqlite", "grpc-web sqlite", "runtime memory", "runtime sqlite"],
)
async def link(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Link]:
    way, kind = request.param.split()
    name = f"clerk-{new_uuid()}"
    urls = {"grpc": "grpc://127.0.0.1:0", "grpc-web": "http://127.0.0.1:0"}
    store = MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "tasks.db")
    agent = Clerk(name, urls.get(way, f"runtime://{name}"), store)
    await agent.serve()
    yield Link(agent)
    for each in agent.open.values():
        if not each.done():
            each.set_result(None)
    await agent.aclose()
    await close_channels()
    await close_http_channels()


# -- sessions, threads and queues --------------------------------------------------------------------------------------------


async def test_a_session_snapshot_has_its_threads_turns_and_position(link: Link) -> None:
    await link.sessions.create("s", title="Trip", metadata={"vip": True})
    await link.sessions.start_thread("s", "side", title="Side")
    first = await link.done("one")
    active = await link.sessions.submit("s", "hold main")
    queued = await link.sessions.submit("s", "later")
    found = await link.snapshots.session("s")
    page = await link.sessions.get("s")
    assert found.session == page.session
    assert found.recent_turns == page.turns
    default, side = found.threads
    assert (default.thread.thread_id, default.position) == ("default", page.session.position)
    assert (default.status, side.status) == (ThreadStatus.RUNNING, ThreadStatus.IDLE)
    assert [each.turn_id for each in default.active_turns] == [active.turn_id]
    assert [each.turn_id for each in default.queued_turns] == [queued.turn_id]
    assert default.last_outcome is not None
    assert default.last_outcome.turn_id == first.turn_id
    assert side.thread.title == "Side"
    assert side.last_outcome is None
    assert (default.recent_turns, default.open_tasks, default.context) == ((), (), None)


async def test_older_turns_follow_the_window_of_a_session_snapshot(link: Link) -> None:
    turns = [await link.sessions.submit("s", f"say {number}") for number in range(60)]
    await link.end_of(turns[-1])
    found = await link.snapshots.session("s")
    assert [each.turn_id for each in found.recent_turns] == [each.turn_id for each in turns[10:]]
    rest = await link.sessions.get("s", page_token=found.next_page_token)
    assert [each.turn_id for each in rest.turns] == [each.turn_id for each in turns[:10]]
    thread = await link.snapshots.thread("s")
    assert [each.turn_id for each in thread.recent_turns] == [each.turn_id for each in turns[40:]]


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("say", ThreadStatus.COMPLETED, ""),
        ("fail", ThreadStatus.FAILED, "no"),
        ("ask color", ThreadStatus.BLOCKED, "waits for input"),
    ],
)
async def test_the_status_of_a_thread_without_an_active_turn_is_that_of_its_last_turn(
    link: Link, text: str, status: ThreadStatus, reason: str
) -> None:
    await link.done(text)
    found = await link.snapshots.thread("s")
    assert (found.status, found.status_reason) == (status, reason)
    (of_session,) = (await link.snapshots.session("s")).threads
    assert (of_session.status, of_session.status_reason) == (found.status, found.status_reason)


async def test_a_thread_whose_question_was_withdrawn_is_cancelled(link: Link) -> None:
    asked = await link.done("ask color")
    blocked = await link.snapshots.thread("s")
    assert blocked.waiting_turn is not None
    assert [each.task_id for each in blocked.open_tasks] == [asked.task_id]
    await link.client.cancel_task(None, asked.task_id)
    found = await link.snapshots.thread("s")
    assert (found.status, found.waiting_turn, found.open_tasks) == (ThreadStatus.CANCELLED, None, ())


async def test_a_thread_that_waits_for_an_approval_is_blocked_and_shows_it(link: Link) -> None:
    turn = await link.sessions.submit("s", "pay")
    approval = await link.approval_of(turn)
    await link.sessions.submit("s", "later")
    found = await link.snapshots.thread("s")
    assert found.status is ThreadStatus.BLOCKED
    assert found.status_reason == f"waits for the approval {approval.approval_id}"
    assert found.pending_approvals == (approval,)
    tasks = {each.task_id: each for each in found.open_tasks}
    assert tasks[turn.task_id].status is TaskStatus.WAITING_PERMISSION
    assert tasks[turn.task_id].pending_approvals == (approval.approval_id,)
    assert len(tasks) == 2
    session = await link.snapshots.session("s")
    assert session.pending_approvals == (approval,)
    assert session.threads[0].status is ThreadStatus.BLOCKED
    await link.client.respond_approval(None, approval, approved=True)
    await link.end_of(turn)
    assert (await link.snapshots.session("s")).pending_approvals == ()


async def test_an_approval_that_is_pending_while_its_task_waits_for_input_is_shown(link: Link) -> None:
    turn = await link.sessions.submit("s", "propose it")
    approval = await link.approval_of(turn)
    link.agent.open["it"].set_result(None)
    await link.end_of(turn)
    found = await link.snapshots.thread("s")
    assert (found.status_reason, found.pending_approvals) == ("waits for input", (approval,))
    assert (await link.snapshots.session("s")).pending_approvals == (approval,)


async def test_a_queue_snapshot_shows_order_previews_and_what_it_waits_for(link: Link) -> None:
    active = await link.sessions.submit("s", "hold main")
    first = await link.sessions.submit("s", "a" * 300)
    second = await link.sessions.submit("s", "second")
    await link.sessions.promote("s", second)
    found = await link.snapshots.queue("s")
    assert [(each.turn.turn_id, each.place, each.preview) for each in found.queued_turns] == [
        (second.turn_id, 1, "second"),
        (first.turn_id, 2, "a" * 200),
    ]
    (hold,) = found.holds
    assert ([each.turn_id for each in hold.turns], hold.waits_for_input) == ([active.turn_id], False)
    assert found.position == (await link.sessions.get("s")).session.position
    assert await link.snapshots.queue("s", "default") == found


async def test_a_queue_that_waits_for_an_answer_says_so(link: Link) -> None:
    first = await link.sessions.submit("s", "hold ask")
    beside = await link.sessions.submit("s", "ask color", when_busy="start")
    await link.end_of(beside)
    queued = await link.sessions.submit("s", "later")
    link.agent.open["ask"].set_result(None)
    await link.end_of(first)
    found = await link.snapshots.queue("s")
    assert [each.turn.turn_id for each in found.queued_turns] == [queued.turn_id]
    assert [([each.turn_id for each in hold.turns], hold.waits_for_input) for hold in found.holds] == [
        ([beside.turn_id], True)
    ]
    assert (await link.snapshots.thread("s")).status is ThreadStatus.BLOCKED


async def test_artifacts_of_the_newest_turns_come_first(link: Link) -> None:
    await link.done("draw 2")
    await link.done("draw 1")
    found = await link.snapshots.session("s")
    assert [each.name for each in found.recent_artifacts][:3] == ["drawing 0", "drawing 1", "drawing 0"]


async def test_what_is_not_recorded_is_a_gap_and_nothing_else_is(link: Link) -> None:
    await link.done("say")
    missing = ("sandbox", "execution_environment", "processes", "jobs", "channels")
    elsewhere = ("routing", "limits", "subagents", "evidence")
    session, thread = await link.snapshots.session("s"), await link.snapshots.thread("s")
    for gaps, also_missing, also_elsewhere in (
        (session.gaps, ("pinned_threads",), ("tasks",)),
        (thread.gaps, ("incidents", "diagnostics"), ("artifacts",)),
    ):
        assert {each.part: each.availability for each in gaps} == {
            **dict.fromkeys((*missing, *also_missing), Availability.UNAVAILABLE),
            **dict.fromkeys((*elsewhere, *also_elsewhere), Availability.UNKNOWN),
        }


async def test_an_unknown_session_thread_or_task_is_not_found(link: Link) -> None:
    with pytest.raises(SessionNotFoundError):
        await link.snapshots.session("nowhere")
    with pytest.raises(SessionNotFoundError):
        await link.snapshots.queue("nowhere")
    await link.sessions.create("s")
    with pytest.raises(ThreadNotFoundError):
        await link.snapshots.thread("s", "nowhere")
    with pytest.raises(ThreadNotFoundError):
        await link.snapshots.queue("s", "nowhere")
    for read in (link.snapshots.context, link.snapshots.artifacts, link.snapshots.evidence):
        with pytest.raises(TaskNotFoundError):
            await read("nothing")


# -- tools and tasks ---------------------------------------------------------------------------------------------------------


async def test_the_inventory_has_each_tool_with_the_effect_of_the_policy(link: Link) -> None:
    found = await link.snapshots.tools()
    assert [(each.tool.name, each.tool.effect, each.runtime_owner) for each in found.tools] == [
        ("erase", PolicyEffect.DENY, "local"),
        ("look", PolicyEffect.ALLOW, "local"),
        ("pay", PolicyEffect.REQUIRE_APPROVAL, "local"),
    ]
    assert found.snapshot_at
    assert [each.part for each in found.gaps] == ["tools.concurrency_safe"]


async def test_evidence_counts_what_the_log_has(link: Link) -> None:
    turn = await link.sessions.submit("s", "pay")
    approval = await link.approval_of(turn)
    waiting = await link.snapshots.evidence(turn.task_id)
    assert [(each.kind, each.outcome, each.count) for each in waiting.actions] == [
        ("tool.call", "", 1),
        ("tool.call", "completed", 1),
    ]
    await link.client.respond_approval(None, approval, approved=False)
    await link.end_of(turn)
    found = await link.snapshots.evidence(turn.task_id)
    task = await link.client.get_task(turn.task_id)
    assert [(each.kind, each.outcome, each.count) for each in found.actions] == [
        ("tool.call", "completed", 1),
        ("tool.call", "denied", 1),
    ]
    assert (found.approvals_granted, found.approvals_denied, found.approvals_expired) == (0, 1, 0)
    assert [(each.effect, each.count) for each in found.policy_decisions] == [
        (PolicyEffect.ALLOW, 1),
        (PolicyEffect.REQUIRE_APPROVAL, 1),
    ]
    assert task.context is not None
    assert found.run_ids == (task.context.run_id,)
    assert len(found.trace_id) == 32
    assert found.sequence > waiting.sequence


async def test_artifacts_are_summaries(link: Link) -> None:
    turn = await link.done("draw 2")
    found = await link.snapshots.artifacts(turn.task_id)
    drawings = [each for each in found.artifacts if each.name.startswith("drawing")]
    assert [each.name for each in drawings] == ["drawing 0", "drawing 1"]
    assert {(each.part_count, each.size, each.preview) for each in drawings} == {(1, 300, "x" * 200)}
    task = await link.client.get_task(turn.task_id)
    assert task.state is TaskState.COMPLETED
    assert [each.artifact_id for each in found.artifacts] == [each.id for each in task.artifacts]


async def test_a_task_without_a_model_call_has_no_context(link: Link) -> None:
    turn = await link.done("say")
    found = await link.snapshots.context(turn.task_id)
    assert (found.manifest, found.prepared_sequence, found.compactions) == (None, 0, ())
    assert found.sequence > 0
    assert (await link.snapshots.thread("s")).context is None


async def test_the_context_is_that_of_the_latest_model_call_with_the_newest_compactions(link: Link) -> None:
    turn = await link.done("think 25")
    found = await link.snapshots.context(turn.task_id)
    assert found.manifest is not None
    assert (found.manifest.model, found.manifest.history_tokens, found.step) == ("m", 14, 2)
    assert [each.compacted.before_tokens for each in found.compactions] == list(range(105, 125))
    assert found.compactions[-1].sequence < found.prepared_sequence < found.sequence
    thread = await link.snapshots.thread("s")
    assert thread.context == found


async def test_the_context_of_a_thread_has_the_compactions_of_its_latest_turn_only(link: Link) -> None:
    asked = await link.done("think 25")
    answered = await link.done("think 1")
    assert answered.task_id == asked.task_id
    context = (await link.snapshots.thread("s")).context
    assert context is not None
    assert len(context.compactions) == 1
    assert (context.gaps[0].part, context.gaps[0].availability) == ("compactions", Availability.UNKNOWN)
    assert len((await link.snapshots.context(asked.task_id)).compactions) == 20


async def test_a_deleted_session_and_its_tasks_have_no_snapshots(link: Link) -> None:
    turn = await link.done("say")
    await link.sessions.delete("s")
    for read in (link.snapshots.session, link.snapshots.thread, link.snapshots.queue):
        with pytest.raises(SessionNotFoundError):
            await read("s")
    with pytest.raises(TaskNotFoundError):
        await link.snapshots.evidence(turn.task_id)
