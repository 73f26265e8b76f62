"""Each operation of an owner on a task in each of its statuses: done, without effect, or refused with an error that says why."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from protolink_grpc import MemoryStore, Message, Task
from protolink_grpc.errors import (
    InvalidTransitionError,
    ProtolinkError,
    TaskAlreadyRunningError,
    TaskFinishedError,
    TaskNotCancelableError,
    TaskStartedError,
)
from protolink_grpc.models.action import ApprovalRequest, PolicyDecision, PolicyEffect, RunAction
from protolink_grpc.models.events import ApprovalRequired, LlmCallFailed, TaskProgress
from protolink_grpc.models.failure import RUN_LOST, Failure, FailureCategory
from protolink_grpc.models.task_control import LinkKind, TaskDescription, TaskLink
from protolink_grpc.models.task_control import TaskStatus as S
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission

ERRORS: dict[str, type[ProtolinkError]] = {
    "finished": TaskFinishedError,
    "running": TaskAlreadyRunningError,
    "started": TaskStartedError,
    "transition": InvalidTransitionError,
    "not_cancelable": TaskNotCancelableError,
}

VERBS = (
    "update",
    "start",
    "outside",
    "progress",
    "pause",
    "resume",
    "retry",
    "complete",
    "fail",
    "block",
    "unlink",
    "cancel",
    "send",
)
OF_THE_AGENT = "done same same done done same transition running running started same done running"
OF_ENDED = "finished same same finished finished finished done finished finished finished same {} finished"

OUTCOMES = {
    S.DRAFT: "done done done done transition same transition done done done same done transition",
    S.ACCEPTED: "done same same done transition same transition done done started same done running",
    S.QUEUED: OF_THE_AGENT,
    S.PREPARING: OF_THE_AGENT,
    S.RUNNING: OF_THE_AGENT,
    S.WAITING_INPUT: "done same same done transition same transition done done started same done done",
    S.WAITING_PERMISSION: OF_THE_AGENT,
    S.WAITING_RESOURCE: OF_THE_AGENT,
    S.BLOCKED: "done same same done done same transition done done started same done running",
    S.PAUSED: "done same same done same done transition running running started same done running",
    S.RETRYING: OF_THE_AGENT,
    S.CANCELLING: "done same same done transition same transition running running started same same running",
    S.CANCELLED: OF_ENDED.format("same"),
    S.TIMED_OUT: "finished same same finished finished finished transition finished same finished same not_cancelable finished",
    S.FAILED: "finished same same finished finished finished done finished same finished same not_cancelable finished",
    S.LOST: "finished same same finished finished finished transition finished same finished same not_cancelable finished",
    S.COMPLETED: "finished same same finished finished finished done same finished finished same not_cancelable finished",
    S.ARCHIVED: "finished same same finished finished finished done same finished finished same not_cancelable finished",
}
"""For each status the outcome of each of VERBS. The tasks that have timed out or are lost were worked on outside of the agent."""


class Desk:
    """A service whose handler does what the message says, and whose tasks `bring` brings into each status."""

    def __init__(self) -> None:
        limits = Limits(max_concurrency=1, cancel_wait_s=0)
        self.service = TaskService("desk", MemoryStore(), self.handle, limits=limits)
        self.control = self.service.control
        self.begun = asyncio.Event()
        self.open = asyncio.Event()

    async def handle(self, task: Task, run: Run) -> Task:
        text = task.messages[-1].text
        if text == "ask":
            return task.require_input(Message.agent("what?"))
        if text == "progress":
            await run.progress(1)
        if text == "approval":
            verdict = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL)
            await run.emit(ApprovalRequired(ApprovalRequest(RunAction("tool.call", "pay"), verdict)))
        if text == "limit":
            again = Failure("MODEL_RATE_LIMITED", "slow down", FailureCategory.LIMIT)
            await run.emit(LlmCallFailed("call", "p", "m", 1, 1, again, will_retry=True))
        await run.flush()
        self.begun.set()
        if text == "done":
            return task.complete("yes")
        if text == "fail":
            return task.fail("no")
        if text == "pause":
            await self.open.wait()
            await run.progress(1)
        await self._hold(deaf=text == "deaf")
        return task

    async def _hold(self, *, deaf: bool) -> None:
        while deaf and not self.open.is_set():
            with suppress(asyncio.CancelledError):
                await self.open.wait()
        if not deaf:
            await asyncio.Event().wait()

    async def send(self, text: str) -> str:
        return (await self.service.submit(Submission.of(Task.create(text)), "ann")).task_id

    async def work(self, text: str) -> str:
        task_id = await self.send(text)
        await self.begun.wait()
        return task_id

    async def end(self, text: str) -> str:
        return (await self.service.send(Submission.of(Task.create(text)), "ann")).task_id

    async def draft(self, *blockers: str) -> str:
        links = [TaskLink(LinkKind.BLOCKED_BY, each) for each in blockers]
        return (await self.control.create(Submission.of(Task.create("hold")), "ann", links=links)).task_id

    async def outside(self, failure: Failure) -> str:
        task_id = await self.draft()
        await self.control.fail(task_id, "ann", failure)
        return task_id

    async def bring(self, status: S) -> str:
        """Return a task with a status."""
        match status:
            case S.DRAFT:
                return await self.draft()
            case S.ACCEPTED | S.BLOCKED:
                blocker = await self.draft()
                task_id = await self.draft(blocker)
                await self.control.start(task_id, "ann", external=status is S.ACCEPTED)
                if status is S.ACCEPTED:
                    await self.service.cancel(blocker, "ann")
                return task_id
            case S.QUEUED:
                await self.work("hold")
                return await self.send("done")
            case S.PAUSED:
                task_id = await self.work("pause")
                await self.control.pause(task_id, "ann")
                self.open.set()
                while (await self.control.get(task_id, "ann")).status is not S.PAUSED:
                    await asyncio.sleep(0)
                return task_id
            case S.RETRYING:
                task_id = await self.end("done")
                self.begun.clear()
                await self.work("hold")
                await self.control.retry(task_id, "ann")
                return task_id
            case S.CANCELLING | S.CANCELLED:
                task_id = await self.work("deaf" if status is S.CANCELLING else "hold")
                await self.service.cancel(task_id, "ann")
                if status is S.CANCELLED:
                    await self.service.settled(self.service.turn_after(task_id, 0))
                return task_id
            case S.TIMED_OUT:
                return await self.outside(Failure("LATE", "late", FailureCategory.TIMEOUT))
            case S.LOST:
                return await self.outside(Failure(RUN_LOST, "gone"))
            case S.ARCHIVED:
                submission = Submission.of(Task.create("done"))
                turn = await self.service.sessions.submit(submission, "ann", "s")
                await self.service.settled(self.service.turn_after(turn.task_id, 0))
                await self.service.sessions.update("ann", "s", archived=True)
                return turn.task_id
            case S.WAITING_INPUT | S.FAILED | S.COMPLETED:
                return await self.end({S.WAITING_INPUT: "ask", S.FAILED: "fail"}.get(status, "done"))
            case _:
                texts = {S.RUNNING: "progress", S.WAITING_PERMISSION: "approval", S.WAITING_RESOURCE: "limit"}
                return await self.work(texts.get(status, "hold"))

    async def do(self, verb: str, task_id: str) -> object:
        control = self.control
        match verb:
            case "update":
                return await control.update(task_id, "ann", description=TaskDescription("new"))
            case "start" | "outside":
                return await control.start(task_id, "ann", external=verb == "outside")
            case "progress":
                return await control.report_progress(task_id, "ann", TaskProgress(2))
            case "pause":
                return await control.pause(task_id, "ann")
            case "resume":
                return await control.resume(task_id, "ann")
            case "retry":
                return await control.retry(task_id, "ann")
            case "complete":
                return await control.complete(task_id, "ann", [Message.agent("yes")])
            case "fail":
                return await control.fail(task_id, "ann", Failure("BROKEN", "no"))
            case "block":
                return await control.links.add(task_id, "ann", TaskLink(LinkKind.BLOCKED_BY, await self.draft()))
            case "unlink":
                return await control.links.remove(task_id, "ann", LinkKind.BLOCKED_BY, await self.draft())
            case "cancel":
                return await self.service.cancel(task_id, "ann")
            case _:
                submission = Submission.of(Task.create("more"))
                submission.task_id, submission.target = task_id, TaskTarget.CONTINUE
                return await self.service.submit(submission, "ann")

    async def outcome(self, verb: str, task_id: str) -> str:
        before = (await self.service.head(task_id, "ann")).sequence
        try:
            await self.do(verb, task_id)
        except ProtolinkError as error:
            return next(name for name, kind in ERRORS.items() if type(error) is kind)
        return "same" if (await self.service.head(task_id, "ann")).sequence == before else "done"


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    await desk.service.start()
    yield desk
    desk.open.set()
    await desk.service.stop(grace_s=0)


def test_each_status_of_a_task_has_its_outcomes() -> None:
    assert set(OUTCOMES) == set(S) - {S.STALE, S.UNKNOWN}
    assert {len(each.split()) for each in OUTCOMES.values()} == {len(VERBS)}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("status", OUTCOMES)
async def test_an_operation_in_a_status_is_done_or_changes_nothing_or_is_refused(
    desk: Desk, status: S, verb: str
) -> None:
    async with asyncio.timeout(20):
        task_id = await desk.bring(status)
        assert (await desk.control.get(task_id, "ann")).status is status
        assert await desk.outcome(verb, task_id) == OUTCOMES[status].split()[VERBS.index(verb)]
