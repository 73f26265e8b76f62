"""The statuses of tasks: each one that follows another, in a log or for a reader, is in the table."""

import asyncio
import random
import re
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc.errors import ProtolinkError
from protolink_grpc.models.events import LlmCallFailed, LlmCallStarted, TaskProgress, TaskStatusChanged, TaskSubmitted
from protolink_grpc.models.failure import Failure, FailureCategory
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import TERMINAL, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_control import LinkKind, TaskDescription, TaskLink
from protolink_grpc.models.task_control import TaskStatus as S
from protolink_grpc.models.task_status import STATUS_TRANSITIONS, status_of
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.links import HELD_COUNTS, HELD_TASKS
from protolink_grpc.storage.memory import MemoryStore
from protolink_grpc.storage.port import HELD
from protolink_grpc.storage.session_rows import owner_of
from protolink_grpc.wire.events import replay

STEPS = 60
INPUTS = ("done", "hold", "ask", "fail", "progress")


def reachable(start: S) -> set[S]:
    """The statuses that can follow, after any number of events."""
    found, rest = {start}, [start]
    while rest:
        following = STATUS_TRANSITIONS[rest.pop()] - found
        found |= following
        rest += following
    return found


class Story:
    """A service whose tasks are driven at random."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.service = TaskService("desk", MemoryStore(), self.handle)
        self.control = self.service.control
        self.open: dict[str, asyncio.Event] = {}
        self.tasks: list[str] = []
        self.seen: dict[str, S] = {}

    async def handle(self, task: Task, run: Run) -> Task:
        text = task.messages[-1].text
        if text == "progress":
            await run.progress(50)
        if text == "hold":
            await self.open.setdefault(task.id, asyncio.Event()).wait()
        if text == "ask":
            return task.require_input(Message.agent("what?"))
        return task.fail("no") if text == "fail" else task.complete("yes")

    def submission(self, task_id: str = "") -> Submission:
        submission = Submission.of(Task.create(self.dice.choice(INPUTS)))
        submission.task_id = task_id
        submission.target = TaskTarget.CONTINUE if task_id else TaskTarget.CREATE
        return submission

    async def create(self) -> None:
        links = [TaskLink(LinkKind.BLOCKED_BY, each) for each in self.some(2)]
        made = await self.control.create(self.submission(), "ann", links=links)
        self.tasks.append(made.task_id)

    async def send(self) -> None:
        turn = await self.service.submit(self.submission(), "ann")
        self.tasks.append(turn.task_id)

    def some(self, most: int) -> list[str]:
        return self.dice.sample(self.tasks, min(len(self.tasks), self.dice.randint(0, most)))

    async def step(self) -> None:
        if len(self.tasks) < 3 or (len(self.tasks) < 12 and self.dice.random() < 0.2):
            await self.dice.choice([self.create, self.send])()
            return
        one, other = self.dice.sample(self.tasks, 2)
        verbs: list[Callable[[], Coroutine[Any, Any, Any]]] = [
            lambda: self.control.start(one, "ann"),
            lambda: self.control.start(one, "ann", external=True),
            lambda: self.control.update(one, "ann", description=TaskDescription(self.dice.choice("abc"))),
            lambda: self.control.report_progress(one, "ann", TaskProgress(1)),
            lambda: self.control.complete(one, "ann", [Message.agent("ok")]),
            lambda: self.control.fail(one, "ann", Failure("LATE", "late", FailureCategory.TIMEOUT)),
            lambda: self.control.links.add(one, "ann", TaskLink(LinkKind.BLOCKED_BY, other)),
            lambda: self.control.links.add(one, "ann", TaskLink(LinkKind.PARENT, other)),
            lambda: self.control.links.remove(one, "ann", LinkKind.BLOCKED_BY, other),
            lambda: self.service.submit(self.submission(one), "ann"),
            lambda: self.service.cancel(one, "ann"),
            lambda: self.control.pause(one, "ann"),
            lambda: self.control.resume(one, "ann"),
            lambda: self.control.retry(one, "ann"),
            self.let_go,
        ]
        with suppress(ProtolinkError):
            await self.dice.choice(verbs)()

    async def let_go(self) -> None:
        for each in self.open.values():
            each.set()

    async def observe(self) -> None:
        """Compare what a reader sees with the table."""
        for task_id in self.tasks:
            snapshot = await self.control.get(task_id, "ann")
            assert snapshot.status in reachable(self.seen.get(task_id, snapshot.status))
            self.seen[task_id] = snapshot.status

    async def check_held(self) -> None:
        """Compare the rows of held tasks with their heads."""
        owner, store = owner_of("desk", "ann"), self.service.store
        rows = await store.view(lambda records: records.select(HELD_TASKS, {"owner": owner}))
        counted = await store.view(lambda records: records.get(HELD_COUNTS, owner))
        heads = [await self.service.head(task_id, "ann") for task_id in self.tasks]
        held = [each.task_id for each in heads if each.worker == HELD and each.state not in TERMINAL]
        assert sorted(row.task_id for row in rows) == sorted(held)
        assert (0 if counted is None else counted.count) == len(held)

    async def check_log(self, task_id: str) -> None:
        """Compare the status after each event with the table, and that at the end with what a reader sees."""
        snapshot = await self.control.get(task_id, "ann")
        fold, before = TaskFold(task_id), None
        for frame in await self.service.read_log(task_id, 0, snapshot.sequence):
            replay(fold, [frame])
            status = status_of(fold)
            if before is not None and status is not before:
                assert status in STATUS_TRANSITIONS[before], f"{before} -> {status} at {fold.sequence}"
            before = status
        blocked = snapshot.status is S.BLOCKED
        assert (fold.sequence, status_of(fold, is_blocked=blocked)) == (snapshot.sequence, snapshot.status)


@pytest.mark.parametrize("seed", range(16))
async def test_every_status_follows_from_the_table_and_from_the_log(seed: int) -> None:
    story = Story(seed)
    await story.service.start()
    for _ in range(STEPS):
        await story.step()
        for _ in range(story.dice.randint(0, 5)):
            await asyncio.sleep(0)
        await story.observe()
    for task_id in story.tasks:
        await story.check_log(task_id)
    await story.check_held()
    await story.service.stop(grace_s=0)


def test_the_documents_have_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text()
    section = page.partition("## Statuses\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", section, re.MULTILINE))
    printed = {name: set(re.findall(r"`(\w+)`", following)) for name, following in rows.items()}
    assert printed == {str(each): {*map(str, STATUS_TRANSITIONS.get(each, ()))} for each in S}


def test_the_table_has_every_status_of_a_task() -> None:
    assert set(STATUS_TRANSITIONS) == set(S) - {S.STALE, S.UNKNOWN}
    assert set().union(*STATUS_TRANSITIONS.values()) == set(STATUS_TRANSITIONS) - {S.DRAFT}


def test_a_run_that_waits_to_repeat_a_model_call_waits_for_a_resource() -> None:
    fold, again = TaskFold("task"), Failure("MODEL_UNAVAILABLE", "too many requests", FailureCategory.LIMIT)
    submitted, working = TaskState.SUBMITTED, TaskState.WORKING
    facts: list[tuple[Any, S]] = [
        (TaskSubmitted.of(Task.create("hello")), S.QUEUED),
        (TaskStatusChanged(submitted, working, attempt=1, cause="submitted"), S.PREPARING),
        (LlmCallStarted("call"), S.RUNNING),
        (LlmCallFailed("call", "p", "m", 1, 1, again, will_retry=True), S.WAITING_RESOURCE),
        (LlmCallStarted("call", attempt=2), S.RUNNING),
        (LlmCallFailed("call", "p", "m", 1, 2, again), S.RUNNING),
        (LlmCallFailed("call", "p", "m", 1, 3, again, will_retry=True), S.WAITING_RESOURCE),
        (TaskStatusChanged(working, working, attempt=2, cause="recovered"), S.PREPARING),
    ]
    for sequence, (fact, status) in enumerate(facts, 1):
        fold.apply(fact, sequence, sequence, "" if sequence == 1 else "run")
        assert status_of(fold) is status
