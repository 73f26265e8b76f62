"""The control of tasks over the ways to reach an agent, with each store: drafts, links, progress, work outside, and snapshots."""

import asyncio
import concurrent.futures
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    Artifact,
    DeliveryState,
    InvalidArgumentError,
    InvalidTransitionError,
    LinkCycleError,
    LinkKind,
    MemoryStore,
    Message,
    Part,
    ResourceExhaustedError,
    SequenceConflictError,
    SQLiteStore,
    Task,
    TaskAlreadyExistsError,
    TaskAlreadyRunningError,
    TaskDescription,
    TaskFinishedError,
    TaskLink,
    TaskNotFoundError,
    TaskSnapshot,
    TaskStartedError,
    TaskState,
    TaskStatus,
)
from protolink_grpc.client.channel import close_channels
from protolink_grpc.models.events import TaskLinked
from protolink_grpc.models.failure import Failure, FailureCategory
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.runtime import task_snapshots
from protolink_grpc.runtime.log import Fact, LiveTask
from protolink_grpc.storage import links
from protolink_grpc.storage.port import RequestRecord

WAIT_S = 20.0
"""Bound of what must happen soon; reached only by a failure."""


class Clerk(Agent):
    """`hold NAME` works until the test opens NAME, `ask` asks a question, anything else is done at once."""

    def __init__(self, card: AgentCard, **options: Any) -> None:
        super().__init__(card, grace_s=0.1, **options)
        self.open: defaultdict[str, concurrent.futures.Future[None]] = defaultdict(concurrent.futures.Future)
        self.began: list[str] = []

    async def handle_task(self, task: Task) -> Task:
        text = task.messages[-1].text
        self.began.append(text)
        if text.startswith("hold"):
            task.metadata["seen"] = True
            await asyncio.shield(asyncio.wrap_future(self.open[text]))
        if text == "ask":
            return task.require_input(Message.agent("which?"))
        return task.complete(f"{text} done")


class World:
    """An agent, and a client that reaches it in the way under test."""

    def __init__(self, agent: Clerk) -> None:
        self.agent = agent
        self.client = AgentClient(url=agent.card.url, timeout=WAIT_S)
        self.tasks = self.client.tasks

    async def status(self, task: TaskSnapshot) -> TaskStatus:
        return (await self.tasks.get(task.task_id)).status

    async def end(self, task: TaskSnapshot) -> TaskSnapshot:
        """The task when it has ended or waits for input."""
        async with asyncio.timeout(WAIT_S):
            await self.client.wait_task(task.task_id)
        return await self.tasks.get(task.task_id)

    async def working(self, text: str) -> TaskSnapshot:
        """A task that the agent works on."""
        sent = await self.client.submit_task(None, text)
        async with asyncio.timeout(WAIT_S):
            while (task := await self.tasks.get(sent.id)).state is not TaskState.WORKING:
                await asyncio.sleep(0)
        return task


@pytest.fixture(params=["grpc, memory", "grpc, sqlite", "runtime, memory", "runtime, sqlite"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    way, store = str(request.param).split(", ")
    name = f"clerk-{new_uuid()}"
    url = "grpc://127.0.0.1:0" if way == "grpc" else f"runtime://{name}"
    agent = Clerk(
        AgentCard(name=name, description="does as told", url=url),
        store=MemoryStore() if store == "memory" else SQLiteStore(tmp_path / "tasks.db"),
    )
    await agent.serve()
    yield World(agent)
    for each in agent.open.values():
        if not each.done():
            each.set_result(None)
    await agent.aclose()
    await close_channels()


def blocked_by(task: TaskSnapshot, reason: str = "") -> TaskLink:
    return TaskLink(LinkKind.BLOCKED_BY, task.task_id, reason)


# -- drafts ----------------------------------------------------------------------------------------------------------------


async def test_a_draft_does_not_begin_before_it_is_started(world: World) -> None:
    description = TaskDescription("Bill", "send it", "high", "", ("is sent",), ("no discount",))
    made = await world.tasks.create("bill", description=description)
    assert (made.status, made.state, made.description) == (TaskStatus.DRAFT, TaskState.SUBMITTED, description)
    assert (made.message_count, made.attempts, made.started_at) == (1, (), None)
    assert world.agent.began == []
    started = await world.tasks.start(made.task_id)
    assert started.status is not TaskStatus.DRAFT
    ended = await world.end(made)
    assert (ended.status, world.agent.began) == (TaskStatus.COMPLETED, ["bill"])
    assert (ended.attempt_count, [each.cause for each in ended.attempts]) == (1, ["submitted"])
    assert ended.attempts[0].ended_at == ended.ended_at


async def test_a_task_is_started_once(world: World) -> None:
    made = await world.tasks.create("once")
    await asyncio.gather(*(world.tasks.start(made.task_id) for _ in range(5)))
    ended = await world.end(made)
    assert await world.tasks.start(made.task_id) == ended
    assert (world.agent.began, ended.attempt_count) == (["once"], 1)


async def test_the_same_request_id_creates_one_draft(world: World) -> None:
    found = await asyncio.gather(*(world.tasks.create("x", request_id="r") for _ in range(5)))
    assert len({each.task_id for each in found}) == 1
    assert len((await world.tasks.list()).snapshots) == 1


async def test_a_draft_keeps_the_given_task_and_its_id_is_used_once(world: World) -> None:
    given = Task.create(Message.user("x"))
    given.metadata["vip"] = True
    made = await world.tasks.create(given)
    assert (made.task_id, made.metadata) == (given.id, {"vip": True})
    with pytest.raises(TaskAlreadyExistsError):
        await world.tasks.create(given)


async def test_a_draft_cannot_be_continued(world: World) -> None:
    made = await world.tasks.create("x")
    with pytest.raises(InvalidTransitionError, match="is a draft that has not been started"):
        await world.client.send_task(None, "more", task_id=made.task_id)
    assert await world.tasks.get(made.task_id) == made


async def test_the_number_of_held_tasks_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MAX_HELD", 2)
    one, two = await world.tasks.create("one"), await world.tasks.create("two")
    await world.tasks.start(two.task_id, external=True)
    with pytest.raises(ResourceExhaustedError):
        await world.tasks.create("three", request_id="r")
    await world.tasks.complete(two.task_id)
    three = await world.tasks.create("three", request_id="r")
    await world.tasks.start(one.task_id)
    await world.tasks.create("four")
    await world.client.cancel_task(None, three.task_id)
    await world.tasks.create("five")


async def test_a_draft_can_be_read_and_canceled(world: World) -> None:
    made = await world.tasks.create("x")
    assert (await world.client.get_task(made.task_id)).state is TaskState.SUBMITTED
    await world.client.cancel_task(None, made.task_id, reason="no")
    canceled = await world.tasks.get(made.task_id)
    assert (canceled.status, canceled.cancel_reason, canceled.status_reason) == (TaskStatus.CANCELLED, "no", "no")
    with pytest.raises(TaskFinishedError):
        await world.tasks.start(made.task_id)


async def test_a_draft_becomes_a_turn_of_its_session_when_it_is_started(world: World) -> None:
    given = Task.create(Message.user("hold turn"))
    given.session_id = "s"
    made = await world.tasks.create(given)
    assert (await world.client.sessions.get("s")).turns == ()
    await world.tasks.start(made.task_id)
    page = await world.client.sessions.get("s")
    assert [each.task_id for each in page.session.open_turns] == [made.task_id]
    world.agent.open["hold turn"].set_result(None)
    await world.end(made)
    page = await world.client.sessions.get("s")
    assert [(each.task_id, each.result) for each in page.turns] == [(made.task_id, TaskState.COMPLETED)]


async def test_a_task_of_an_archived_session_is_archived(world: World) -> None:
    given = Task.create(Message.user("x"))
    given.session_id = "s"
    made = await world.tasks.create(given)
    await world.tasks.start(made.task_id)
    await world.end(made)
    await world.client.sessions.update("s", archived=True)
    assert await world.status(made) is TaskStatus.ARCHIVED


# -- descriptions and progress ---------------------------------------------------------------------------------------------


async def test_an_update_changes_only_what_is_given(world: World) -> None:
    made = await world.tasks.create("x", description=TaskDescription("Old"))
    described = await world.tasks.update(made.task_id, description=TaskDescription("New", assignee="ann"))
    changed = await world.tasks.update(made.task_id, metadata={"a": 1, "b": 2})
    changed = await world.tasks.update(made.task_id, metadata={"a": None})
    assert (changed.description, changed.metadata) == (described.description, {"b": 2})
    assert changed.description == TaskDescription("New", assignee="ann")
    assert await world.tasks.update(made.task_id, metadata={"b": 2}) == changed


async def test_an_update_of_an_older_sequence_is_refused(world: World) -> None:
    made = await world.tasks.create("x")
    await world.tasks.update(made.task_id, metadata={"a": 1}, expected_sequence=made.sequence)
    with pytest.raises(SequenceConflictError):
        await world.tasks.update(made.task_id, metadata={"a": 2}, expected_sequence=made.sequence)
    assert (await world.tasks.get(made.task_id)).metadata == {"a": 1}


async def test_metadata_that_the_owner_changes_while_the_agent_works_is_kept(world: World) -> None:
    given = Task.create(Message.user("hold it"))
    given.metadata |= {"a": 1, "b": 1}
    sent = await world.client.submit_task(None, given)
    async with asyncio.timeout(WAIT_S):
        while "hold it" not in world.agent.began:
            await asyncio.sleep(0)
    await world.tasks.update(sent.id, metadata={"a": 2, "b": None, "c": 3})
    world.agent.open["hold it"].set_result(None)
    await world.client.wait_task(sent.id)
    assert (await world.tasks.get(sent.id)).metadata == {"a": 2, "c": 3, "seen": True}


async def test_the_owner_reports_progress_while_the_agent_works(world: World) -> None:
    task = await world.working("hold it")
    reported = await world.tasks.report_progress(task.task_id, 50, "half")
    assert reported.progress is not None
    assert (reported.progress.progress, reported.progress.message) == (50, "half")
    assert reported.status is TaskStatus.RUNNING
    world.agent.open["hold it"].set_result(None)
    assert (await world.end(task)).status is TaskStatus.COMPLETED
    with pytest.raises(TaskFinishedError):
        await world.tasks.report_progress(task.task_id, 60)


async def test_the_same_request_id_reports_progress_once(world: World) -> None:
    made = await world.tasks.create("x")
    first = await world.tasks.report_progress(made.task_id, 1, request_id="p")
    again = await world.tasks.report_progress(made.task_id, 2, request_id="p")
    assert again == first
    other = await world.tasks.create("y")
    with pytest.raises(InvalidArgumentError, match="request_id"):
        await world.tasks.report_progress(other.task_id, 1, request_id="p")


# -- work outside of the agent ---------------------------------------------------------------------------------------------


async def test_external_work_begins_at_once_and_ends_with_its_result(world: World) -> None:
    made = await world.tasks.create("paint", description=TaskDescription(assignee="painter"))
    started = await world.tasks.start(made.task_id, external=True)
    assert (started.status, started.state, started.external) == (TaskStatus.PREPARING, TaskState.WORKING, True)
    assert started.attempts[0].worker is not None
    assert (started.attempts[0].cause, started.attempts[0].worker.name) == ("external", "painter")
    await world.tasks.report_progress(made.task_id, 10)
    assert await world.status(made) is TaskStatus.RUNNING
    result = Artifact(parts=[Part.text("blue")])
    ended = await world.tasks.complete(made.task_id, [Message.agent("painted")], [result])
    assert (ended.status, ended.message_count, ended.artifact_count) == (TaskStatus.COMPLETED, 2, 1)
    assert await world.tasks.complete(made.task_id) == ended
    assert (await world.client.get_task(made.task_id)).messages[-1].text == "painted"
    with pytest.raises(TaskFinishedError):
        await world.tasks.fail(made.task_id, "too late")
    assert world.agent.began == []


async def test_external_work_can_be_canceled(world: World) -> None:
    made = await world.tasks.create("paint")
    await world.tasks.start(made.task_id, external=True)
    await world.client.cancel_task(None, made.task_id)
    assert await world.status(made) is TaskStatus.CANCELLED


async def test_a_failure_is_kept(world: World) -> None:
    made = await world.tasks.create("paint")
    failure = Failure("NO_PAINT", "no paint left", FailureCategory.UNAVAILABLE, retryable=True)
    failed = await world.tasks.fail(made.task_id, failure)
    assert (failed.status, failed.failure, failed.status_reason) == (TaskStatus.FAILED, failure, "no paint left")
    assert [(each.cause, each.failure) for each in failed.attempts] == [("external", failure)]
    late = await world.tasks.create("paint")
    timed_out = await world.tasks.fail(late.task_id, Failure("LATE", "late", FailureCategory.TIMEOUT))
    assert timed_out.status is TaskStatus.TIMED_OUT


async def test_a_task_that_waits_for_input_can_be_completed_by_hand(world: World) -> None:
    sent = await world.client.send_task(None, "ask")
    waiting = await world.tasks.get(sent.id)
    assert waiting.status is TaskStatus.WAITING_INPUT
    ended = await world.tasks.complete(sent.id, [Message.agent("never mind")])
    assert (ended.status, [each.cause for each in ended.attempts]) == (TaskStatus.COMPLETED, ["submitted", "external"])
    assert ended.attempts[0].status is TaskStatus.WAITING_INPUT


async def test_work_of_the_agent_cannot_be_ended_by_hand(world: World) -> None:
    task = await world.working("hold it")
    for end in (world.tasks.complete(task.task_id), world.tasks.fail(task.task_id, "no")):
        with pytest.raises(TaskAlreadyRunningError):
            await end
    world.agent.open["hold it"].set_result(None)
    assert (await world.end(task)).status is TaskStatus.COMPLETED


# -- links -----------------------------------------------------------------------------------------------------------------


async def test_a_blocked_task_starts_when_its_blockers_have_ended(world: World) -> None:
    one, two = await world.tasks.create("one"), await world.tasks.create("two")
    three = await world.tasks.create("three", links=[blocked_by(one)])
    three = await world.tasks.link(three.task_id, "blocked_by", two.task_id, reason="needs it")
    assert [(each.link.kind, each.link.target, each.state) for each in three.links] == [
        (LinkKind.BLOCKED_BY, one.task_id, TaskState.SUBMITTED),
        (LinkKind.BLOCKED_BY, two.task_id, TaskState.SUBMITTED),
    ]
    assert (await world.tasks.start(three.task_id)).status is TaskStatus.BLOCKED
    await world.tasks.start(one.task_id)
    await world.end(one)
    assert await world.status(three) is TaskStatus.BLOCKED
    await world.client.cancel_task(None, two.task_id)
    assert (await world.end(three)).status is TaskStatus.COMPLETED
    assert world.agent.began == ["one", "three"]


async def test_the_end_of_a_working_task_starts_the_one_that_it_blocks(world: World) -> None:
    task = await world.working("hold it")
    after = await world.tasks.create("after", links=[blocked_by(task)])
    await world.tasks.start(after.task_id)
    world.agent.open["hold it"].set_result(None)
    assert (await world.end(after)).status is TaskStatus.COMPLETED
    assert world.agent.began == ["hold it", "after"]


async def test_a_task_that_ends_while_others_are_blocked_by_it_releases_all(world: World) -> None:
    task = await world.working("hold it")

    async def follow(number: int) -> TaskSnapshot:
        made = await world.tasks.create(f"{number}", links=[blocked_by(task)])
        await world.tasks.start(made.task_id)
        if number == 3:
            world.agent.open["hold it"].set_result(None)
        return await world.end(made)

    for each in await asyncio.gather(*map(follow, range(8))):
        assert each.status is TaskStatus.COMPLETED


@pytest.mark.parametrize("linked", ["at once", "later"])
async def test_a_blocker_that_ends_while_the_link_is_made_does_not_block(
    world: World, monkeypatch: pytest.MonkeyPatch, linked: str
) -> None:
    one = await world.tasks.create("one")
    two = None if linked == "at once" else await world.tasks.create("two")
    record = LiveTask.record

    async def end_and_record(self: LiveTask, facts: Sequence[Fact], **options: Any) -> RequestRecord | None:
        if isinstance(facts[0], TaskLinked) and facts[0].link.kind is LinkKind.BLOCKS:
            monkeypatch.undo()
            await world.tasks.complete(one.task_id)
        return await record(self, facts, **options)

    monkeypatch.setattr(LiveTask, "record", end_and_record)
    if two is None:
        two = await world.tasks.create("two", links=[blocked_by(one)])
    else:
        await world.tasks.link(two.task_id, "blocked_by", one.task_id)
    await world.tasks.start(two.task_id)
    assert (await world.end(two)).status is TaskStatus.COMPLETED


async def test_a_task_that_was_not_started_stays_a_draft_when_its_blocker_ends(world: World) -> None:
    one = await world.tasks.create("one")
    two = await world.tasks.create("two", links=[blocked_by(one)])
    await world.tasks.complete(one.task_id)
    assert await world.status(two) is TaskStatus.DRAFT
    await world.tasks.start(two.task_id)
    assert (await world.end(two)).status is TaskStatus.COMPLETED


async def test_external_work_waits_for_its_blockers(world: World) -> None:
    one = await world.tasks.create("one")
    two = await world.tasks.create("two", links=[blocked_by(one)])
    assert (await world.tasks.start(two.task_id, external=True)).status is TaskStatus.BLOCKED
    assert (await world.tasks.report_progress(two.task_id, 0)).status is TaskStatus.BLOCKED
    await world.tasks.complete(one.task_id)
    assert await world.status(two) is TaskStatus.ACCEPTED
    begun = await world.tasks.report_progress(two.task_id, 1)
    assert (begun.status, [each.cause for each in begun.attempts]) == (TaskStatus.RUNNING, ["external"])
    assert (await world.tasks.complete(two.task_id)).status is TaskStatus.COMPLETED
    assert world.agent.began == []


async def test_external_work_that_is_blocked_while_it_starts_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await world.tasks.create("one")
    two = await world.tasks.create("two", links=[blocked_by(one)])
    is_blocked, before_the_link = links.is_blocked, iter([False])
    monkeypatch.setattr(
        links, "is_blocked", lambda records, task_id: next(before_the_link, True) and is_blocked(records, task_id)
    )
    assert (await world.tasks.start(two.task_id, external=True)).status is TaskStatus.BLOCKED
    await world.tasks.complete(one.task_id)
    assert (await world.tasks.report_progress(two.task_id, 1)).status is TaskStatus.RUNNING


async def test_a_blocked_task_can_be_ended_by_hand(world: World) -> None:
    one = await world.tasks.create("one")
    two = await world.tasks.create("two", links=[blocked_by(one)])
    await world.tasks.start(two.task_id)
    assert (await world.tasks.complete(two.task_id)).status is TaskStatus.COMPLETED
    await world.tasks.complete(one.task_id)
    assert (await world.end(two), world.agent.began) == (await world.tasks.get(two.task_id), [])


@pytest.mark.parametrize("failure", ["", "no paint"])
async def test_work_that_was_done_by_hand_is_not_retried_on_the_agent(world: World, failure: str) -> None:
    one = await world.tasks.create("one")
    draft, blocked = await world.tasks.create("two"), await world.tasks.create("three", links=[blocked_by(one)])
    external = await world.tasks.create("four")
    await world.tasks.start(blocked.task_id)
    await world.tasks.start(external.task_id, external=True)
    for each in (draft, blocked, external):
        ended = await (world.tasks.fail(each.task_id, failure) if failure else world.tasks.complete(each.task_id))
        assert ended.external
        with pytest.raises(InvalidTransitionError, match="was worked on outside of the agent; create a new one"):
            await world.tasks.retry(each.task_id)
        assert await world.tasks.get(each.task_id) == ended
    assert world.agent.began == []


async def test_a_question_that_was_answered_by_hand_can_be_retried(world: World) -> None:
    sent = await world.client.send_task(None, "ask")
    assert not (await world.tasks.complete(sent.id, [Message.agent("never mind")])).external
    await world.tasks.retry(sent.id)
    assert (await world.client.wait_task(sent.id)).state is TaskState.INPUT_REQUIRED
    assert world.agent.began == ["ask", "ask"]


async def test_removing_the_last_open_blocker_starts_the_task(world: World) -> None:
    one = await world.tasks.create("one")
    two = await world.tasks.create("two", links=[blocked_by(one)])
    await world.tasks.start(two.task_id)
    freed = await world.tasks.unlink(two.task_id, "blocked_by", one.task_id)
    assert freed.links == ()
    assert (await world.end(two)).status is TaskStatus.COMPLETED
    assert (await world.tasks.get(one.task_id)).links == ()
    assert await world.tasks.unlink(one.task_id, "source", "nothing") == await world.tasks.get(one.task_id)


async def test_a_blocker_that_has_ended_does_not_block(world: World) -> None:
    one = await world.tasks.create("one")
    await world.tasks.complete(one.task_id)
    two = await world.tasks.create("two", links=[blocked_by(one)])
    await world.tasks.start(two.task_id)
    ended = await world.end(two)
    assert [(each.link.target, each.state) for each in ended.links] == [(one.task_id, TaskState.COMPLETED)]


async def test_a_task_that_has_been_started_cannot_be_blocked(world: World) -> None:
    one = await world.tasks.create("one")
    task = await world.working("hold it")
    with pytest.raises(TaskStartedError):
        await world.tasks.link(task.task_id, "blocked_by", one.task_id)
    assert (await world.tasks.get(one.task_id)).links == ()
    await world.tasks.link(task.task_id, "source", one.task_id)


@pytest.mark.parametrize("kind", [LinkKind.BLOCKED_BY, LinkKind.PARENT])
async def test_a_link_that_closes_a_cycle_is_refused(world: World, kind: LinkKind) -> None:
    one = await world.tasks.create("one")
    two = await world.tasks.create("two", links=[TaskLink(kind, one.task_id)])
    three = await world.tasks.create("three", links=[TaskLink(kind, two.task_id)])
    for target in (three, one):
        with pytest.raises(LinkCycleError):
            await world.tasks.link(one.task_id, kind, target.task_id)
    assert [each.link.kind for each in (await world.tasks.get(one.task_id)).links if each.link.kind is kind] == []


async def test_two_links_at_once_do_not_close_a_cycle(world: World) -> None:
    one, two = await world.tasks.create("one"), await world.tasks.create("two")
    outcomes = await asyncio.gather(
        world.tasks.link(one.task_id, "blocked_by", two.task_id),
        world.tasks.link(two.task_id, "blocked_by", one.task_id),
        return_exceptions=True,
    )
    assert sum(isinstance(each, LinkCycleError) for each in outcomes) == 1


async def test_a_link_that_is_refused_because_its_target_blocks_too_many_adds_nothing_to_the_target(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "MAX_BLOCKED", 1)
    one = await world.tasks.create("one")
    await world.tasks.create("two", links=[blocked_by(one)])
    before = await world.tasks.get(one.task_id)
    with pytest.raises(ResourceExhaustedError):
        await world.tasks.create("three", links=[blocked_by(one)])
    assert await world.tasks.get(one.task_id) == before


async def test_a_draft_that_is_refused_adds_nothing_to_the_tasks_that_were_to_block_it(world: World) -> None:
    one = await world.tasks.create("one")
    with pytest.raises(InvalidArgumentError):
        await world.tasks.create(Task(), links=[blocked_by(one)])
    assert await world.tasks.get(one.task_id) == one


async def test_a_search_for_a_cycle_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MAX_WALK", 3)
    parents = [await world.tasks.create("0")]
    for number in range(1, 4):
        link = TaskLink(LinkKind.PARENT, parents[-1].task_id)
        parents.append(await world.tasks.create(f"{number}", links=[link]))
    with pytest.raises(ResourceExhaustedError):
        await world.tasks.create("4", links=[TaskLink(LinkKind.PARENT, parents[-1].task_id)])


async def test_a_new_parent_replaces_the_one_before_and_a_link_gets_a_new_reason(world: World) -> None:
    one, two = await world.tasks.create("one"), await world.tasks.create("two")
    made = await world.tasks.create("three", links=[TaskLink(LinkKind.PARENT, one.task_id)])
    await world.tasks.link(made.task_id, "parent", two.task_id)
    changed = await world.tasks.link(made.task_id, "parent", two.task_id, reason="moved")
    (parent,) = changed.links
    assert (parent.link.target, parent.link.reason) == (two.task_id, "moved")
    await world.tasks.link(one.task_id, "parent", made.task_id)


async def test_links_to_other_things_are_kept_without_a_state(world: World) -> None:
    made = await world.tasks.create("x", links=[TaskLink(LinkKind.ARTIFACT, "plan.pdf")])
    linked = await world.tasks.link(made.task_id, "evidence", "https://ci.example/7", reason="passed")
    assert [(each.link.target, each.state) for each in linked.links] == [
        ("plan.pdf", None),
        ("https://ci.example/7", None),
    ]
    assert all(each.link.created_at for each in linked.links)


# -- snapshots -------------------------------------------------------------------------------------------------------------


async def test_lists_show_statuses_in_pages_without_links_and_attempts(world: World) -> None:
    made = [await world.tasks.create(f"{number}") for number in range(5)]
    await world.tasks.complete(made[2].task_id)
    first = await world.tasks.list(page_size=2)
    rest = await world.tasks.list(page_size=10, page_token=first.next_page_token)
    found = [*first.snapshots, *rest.snapshots]
    assert [each.task_id for each in found] == [made[number].task_id for number in (2, 4, 3, 1, 0)]
    assert [each.status for each in found] == [TaskStatus.COMPLETED, *[TaskStatus.DRAFT] * 4]
    assert (found[0].attempts, found[0].attempt_count) == ((), 1)
    drafts = await world.tasks.list(statuses=[TaskStatus.DRAFT, "blocked"])
    assert len(drafts.snapshots) == 4


async def test_a_page_of_long_logs_is_short(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_snapshots, "MAX_PAGE_EVENTS", 2)
    made = [await world.tasks.create(f"{number}") for number in range(5)]
    seen, token = list[str](), ""
    while True:
        page = await world.tasks.list(page_token=token)
        assert len(page.snapshots) <= 2
        seen += [each.task_id for each in page.snapshots]
        token = page.next_page_token
        if not token:
            break
    assert seen == [each.task_id for each in reversed(made)]


async def test_a_snapshot_without_webhooks_has_no_delivery(world: World) -> None:
    made = await world.tasks.create("x")
    assert (made.delivery, made.gaps) == (DeliveryState.NOT_APPLICABLE, ())


# -- links that were not made, and links of ended tasks ---------------------------------------------------------------------


async def test_a_draft_that_is_refused_late_leaves_no_link_in_its_blockers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = await world.tasks.create("one"), await world.tasks.create("two")

    def refuse(*_: object) -> None:
        raise ResourceExhaustedError("no room")

    with monkeypatch.context() as late:
        late.setattr(links, "hold", refuse)
        with pytest.raises(ResourceExhaustedError, match="no room"):
            await world.tasks.create("three", links=[blocked_by(one), blocked_by(two)])
    assert (await world.tasks.get(one.task_id)).links == ()
    assert (await world.tasks.get(two.task_id)).links == ()
    with monkeypatch.context() as early:
        early.setattr(links, "MAX_HELD", 2)
        with pytest.raises(ResourceExhaustedError):
            await world.tasks.create("three", links=[blocked_by(one)])
    with pytest.raises(TaskNotFoundError):
        await world.tasks.create("three", links=[blocked_by(one), TaskLink(LinkKind.BLOCKED_BY, "unknown")])
    # The refusals that are known before the first change have changed nothing.
    assert (await world.tasks.get(one.task_id)).sequence == one.sequence + 2


async def test_a_link_that_is_refused_late_leaves_no_link_in_its_blocker(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = await world.tasks.create("one"), await world.tasks.create("two")

    def refuse(*_: object) -> None:
        raise ResourceExhaustedError("too many")

    with monkeypatch.context() as late:
        late.setattr(links, "put_blocker", refuse)
        with pytest.raises(ResourceExhaustedError, match="too many"):
            await world.tasks.link(two.task_id, "blocked_by", one.task_id)
    assert (await world.tasks.get(one.task_id)).links == ()


async def test_requests_with_one_id_that_come_together_leave_one_link_in_their_blocker(world: World) -> None:
    one = await world.tasks.create("one")
    made = await asyncio.gather(*(world.tasks.create("two", links=[blocked_by(one)], request_id="r") for _ in range(5)))
    [task_id] = {each.task_id for each in made}
    assert [each.link.target for each in (await world.tasks.get(one.task_id)).links] == [task_id]


async def test_ended_tasks_do_not_count_as_blocked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MAX_BLOCKED", 2)
    one = await world.tasks.create("one")
    for end in (
        lambda task_id: world.client.cancel_task(None, task_id),
        lambda task_id: world.tasks.complete(task_id),
        lambda task_id: world.tasks.fail(task_id, "no"),
    ):
        made = await world.tasks.create("ends", links=[blocked_by(one)])
        await end(made.task_id)
    await world.tasks.create("two", links=[blocked_by(one)])
    await world.tasks.create("three", links=[blocked_by(one)])
    with pytest.raises(ResourceExhaustedError, match="blocks 2 tasks already"):
        await world.tasks.create("four", links=[blocked_by(one)])


async def test_a_snapshot_reads_the_states_of_all_linked_tasks_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [await world.tasks.create(f"{number}") for number in range(5)]
    lone = await world.tasks.create("lone", links=[blocked_by(made[0])])
    full = await world.tasks.create("full", links=[blocked_by(each) for each in made])
    reads = list[str]()
    for kind in (MemoryStore, SQLiteStore):
        for name in ("head", "heads"):
            read = getattr(kind, name)
            counted = lambda *given, name=name, read=read: (reads.append(name), read(*given))[1]  # noqa: E731
            monkeypatch.setattr(kind, name, counted)
    found = []
    for task in (lone, full):
        reads.clear()
        assert all(each.state for each in (await world.tasks.get(task.task_id)).links)
        found.append(list(reads))
    assert found[0] == found[1]
    assert found[0].count("heads") == 1


async def test_the_parent_of_a_task_with_the_most_links_can_be_replaced(world: World) -> None:
    one, two = await world.tasks.create("one"), await world.tasks.create("two")
    notes = [TaskLink(LinkKind.ARTIFACT, f"{number}") for number in range(99)]
    full = await world.tasks.create("full", links=[TaskLink(LinkKind.PARENT, one.task_id), *notes])
    replaced = await world.tasks.link(full.task_id, "parent", two.task_id)
    assert len(replaced.links) == 100
    assert [each.link.target for each in replaced.links if each.link.kind is LinkKind.PARENT] == [two.task_id]
    with pytest.raises(ResourceExhaustedError, match="100 links already"):
        await world.tasks.link(full.task_id, "artifact", "more")


@pytest.mark.parametrize("kind", ["blocks", "likes", "unknown-9"])
async def test_an_error_about_the_kind_of_a_link_names_those_that_a_caller_can_set(world: World, kind: str) -> None:
    made = await world.tasks.create("x")
    allowed = "must be one of parent, blocked_by, source, artifact, evidence$"
    for call in (world.tasks.link, world.tasks.unlink):
        with pytest.raises(InvalidArgumentError, match=allowed):
            await call(made.task_id, kind, made.task_id)


# -- bad input -------------------------------------------------------------------------------------------------------------

BAD: dict[str, Callable[[World, str], Awaitable[Any]]] = {
    "input.messages": lambda world, _: world.tasks.create(Task()),
    "description.acceptance[1]": lambda world, _: world.tasks.create(
        "x", description=TaskDescription(acceptance=("a", "b" * 1001))
    ),
    "description.title": lambda world, task: world.tasks.update(task, description=TaskDescription("t" * 1001)),
    "links[1].target": lambda world, _: world.tasks.create(
        "x", links=[TaskLink(LinkKind.ARTIFACT, "a"), TaskLink(LinkKind.ARTIFACT, "")]
    ),
    "links[0].kind": lambda world, task: world.tasks.create("x", links=[TaskLink(LinkKind.BLOCKS, task)]),
    "links": lambda world, _: world.tasks.create("x", links=[TaskLink(LinkKind.ARTIFACT, f"{n}") for n in range(101)]),
    "link.kind": lambda world, task: world.tasks.link(task, "likes", task),
    "link.target": lambda world, task: world.tasks.link(task, "evidence", "x" * 1025),
    "link.reason": lambda world, task: world.tasks.link(task, "evidence", "x", reason="r" * 1001),
    "progress": lambda world, task: world.tasks.report_progress(task, 101),
    "message": lambda world, task: world.tasks.report_progress(task, 1, "m" * 1001),
    "failure.message": lambda world, task: world.tasks.fail(task, ""),
    "metadata_json.budget.max_llm_calls": lambda world, task: world.tasks.update(
        task, metadata={"budget": {"max_llm_calls": -1}}
    ),
    "expected_sequence": lambda world, task: world.tasks.update(task, expected_sequence=-1),
    "statuses[0]": lambda world, _: world.tasks.list(statuses=["nice"]),
    "page_token": lambda world, _: world.tasks.list(page_token="x"),
}


@pytest.mark.parametrize("field", BAD)
async def test_bad_input_is_refused_and_its_field_is_named(world: World, field: str) -> None:
    made = await world.tasks.create("x")
    with pytest.raises(InvalidArgumentError) as refused:
        await BAD[field](world, made.task_id)
    assert refused.value.metadata["field"] == field
    assert await world.tasks.get(made.task_id) == made


async def test_an_unknown_task_is_not_found(world: World) -> None:
    made = await world.tasks.create("x")
    calls = [
        world.tasks.update("no", metadata={"a": 1}),
        world.tasks.start("no"),
        world.tasks.start("no", external=True),
        world.tasks.report_progress("no", 1),
        world.tasks.complete("no"),
        world.tasks.fail("no", "no"),
        world.tasks.link("no", "evidence", "x"),
        world.tasks.link(made.task_id, "parent", "no"),
        world.tasks.unlink("no", "evidence", "x"),
        world.tasks.get("no"),
        world.tasks.create("x", links=[TaskLink(LinkKind.BLOCKED_BY, "no")]),
    ]
    for call in calls:
        with pytest.raises(TaskNotFoundError):
            await call
