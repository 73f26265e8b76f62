"""The control of single tasks by their owner: drafts, descriptions, progress, pauses, retries, and work outside of the agent."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from protolink_grpc.errors import (
    InvalidArgumentError,
    SequenceConflictError,
    TaskAlreadyRunningError,
)
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.context import check_loose_budget
from protolink_grpc.models.events import (
    TaskArtifactUpdated,
    TaskDescribed,
    TaskLinked,
    TaskMessagesAdded,
    TaskPatched,
    TaskPauseRequested,
    TaskProgress,
    TaskResumed,
    TaskStartRequested,
    TaskStatusChanged,
    Worker,
)
from protolink_grpc.models.failure import MAX_REASON, Failure
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_run_id, new_task_id
from protolink_grpc.models.lifecycle import INTERRUPTED, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.snapshot import TaskSnapshot
from protolink_grpc.models.task_control import (
    MAX_REASON_CHARS,
    LinkKind,
    TaskDescription,
    TaskLink,
    check_length,
)
from protolink_grpc.models.task_metadata import own_metadata
from protolink_grpc.net.tracing import caller_trace
from protolink_grpc.runtime.admission import Admission, already_exists_error
from protolink_grpc.runtime.log import Fact, LiveTask, unexpected_end_error
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.runtime.task_changes import Step, TaskChanges, check_within, finished_error
from protolink_grpc.runtime.task_links import TaskLinks, check_links, put_rows
from protolink_grpc.runtime.task_snapshots import TaskSnapshots
from protolink_grpc.runtime.tasks import Tasks
from protolink_grpc.storage import links as rows
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_rows import owner_of


class TaskControl:
    """Changes the tasks of one agent. Every method is for one principal, and does not find the tasks of others.

    Attributes:
        links: The links of the tasks.
        snapshots: The snapshots of the tasks.
    """

    def __init__(self, tasks: Tasks, admission: Admission, snapshots: TaskSnapshots) -> None:
        self._changes = TaskChanges(tasks, snapshots)
        self.snapshots = snapshots
        self.links = TaskLinks(tasks, self._changes)
        self._tasks = tasks
        self._admission = admission
        self._store = tasks.store

    # -- drafts ----------------------------------------------------------------------------------------------------------

    async def create(
        self,
        submission: Submission,
        principal: str,
        *,
        description: TaskDescription | None = None,
        links: Sequence[TaskLink] = (),
    ) -> TaskSnapshot:
        """Create a draft. Repeating the request with the same id returns the task of the first one.

        Args:
            submission: A new task; its target is ignored.

        Raises:
            InvalidArgumentError: The input, the description or a link is invalid; names the field.
            TaskAlreadyExistsError: There is a task with this id.
            TaskNotFoundError: The principal has no task that a link names.
            LinkCycleError: A link leads back to the task.
            ResourceExhaustedError: The principal has too many tasks that are held, or a link as in `TaskLinks.add`.
            ProtolinkError: As `TaskService.submit`.
        """
        if submission.expected_sequence:
            raise InvalidArgumentError("is for a task that is continued", field="input.expected_sequence")
        if description is not None:
            check_within(description.check, "description")
        check_links(links)
        request_id = submission.request_id
        if request_id and (known := await self._admission.turn_of(request_id, principal)) is not None:
            return await self.get(known.task_id, principal)
        self._admission.check_new(submission)  # before the links, which are recorded in other tasks
        task_id = submission.task_id or new_task_id()
        submission = replace(submission, task_id=task_id, trace=caller_trace())
        if await self._store.head(task_id) is not None:
            raise already_exists_error(task_id)
        await self._store.view(lambda records: rows.check_can_hold(records, self._owner(principal)))
        links = await self.links.prepare(task_id, principal, links)
        facts: list[Fact] = [] if description is None else [TaskDescribed(description, principal)]
        facts += [TaskLinked(each) for each in links]

        def within(records: Records) -> list[str]:
            rows.hold(records, self._owner(principal), task_id)
            return put_rows(records, self._tasks.agent_name, task_id, links)

        async with self.links.recorded_in_blockers(task_id, principal, links):
            live, record = await self._admission.draft(submission, principal, facts, within)
        if record is not None:
            if record.task_id != task_id:
                await self.links.discard(task_id, principal, links)
            return await self.get(record.task_id, principal)
        return await self.snapshots.of(live.fold)

    async def start(self, task_id: str, principal: str, *, external: bool = False) -> TaskSnapshot:
        """Start a draft. It waits if other tasks block it. A task that has been started is returned unchanged.

        Args:
            external: The work is done outside of the agent; `complete` and `fail` end it.

        Raises:
            TaskNotFoundError: The principal has no such task.
            TaskFinishedError: The draft has ended.
        """
        blocked = external and await self._store.view(lambda records: rows.is_blocked(records, task_id))

        def within(records: Records) -> list[str]:
            return [task_id] if rows.start_or_wait(records, self._owner(principal), task_id) else []

        def require_unblocked(records: Records) -> list[str]:
            nonlocal blocked
            blocked = rows.is_blocked(records, task_id)
            if blocked:  # since it was read; then the step is decided again
                raise SequenceConflictError(f"task {task_id} has another blocker now", task_id=task_id)
            return []

        def decide(live: LiveTask) -> Step | None:
            fold = live.fold
            if fold.controls is None or not fold.controls.is_draft:
                return None
            if fold.is_terminal:
                raise finished_error(fold)
            requested = TaskStartRequested(principal, external)
            if not external:
                return Step([requested], opens=True, within=within)
            if blocked:
                return Step([requested], new_run_id(), opens=True)
            facts: list[Fact] = [requested, _external_start(fold, principal)]
            return Step(facts, new_run_id(), opens=True, within=require_unblocked)

        return await self._changes.make(task_id, principal, decide)

    # -- descriptions and progress ---------------------------------------------------------------------------------------

    async def update(
        self,
        task_id: str,
        principal: str,
        *,
        description: TaskDescription | None = None,
        metadata: dict[str, Any] | None = None,
        expected_sequence: int = 0,
    ) -> TaskSnapshot:
        """Change the description or the metadata. None leaves it unchanged; a None value in the metadata removes its key.

        Raises:
            InvalidArgumentError: The description or the metadata is invalid; names the field.
            TaskNotFoundError: The principal has no such task.
            TaskFinishedError: The task has ended.
            SequenceConflictError: The log does not end with `expected_sequence`, unless that is 0.
        """
        if expected_sequence < 0:
            raise InvalidArgumentError("must not be negative", field="expected_sequence")
        if description is not None:
            check_within(description.check, "description")
        patch = own_metadata(metadata or {})
        check_loose_budget(patch, "metadata_json")

        def decide(live: LiveTask) -> Step | None:
            fold, facts = live.fold, list[Fact]()
            if expected_sequence and expected_sequence != fold.sequence:
                raise unexpected_end_error(task_id, expected_sequence, fold.sequence)
            known = None if fold.controls is None else fold.controls.description
            if description is not None and description != (known or TaskDescription()):
                facts.append(TaskDescribed(description, principal))
            changed = {key: value for key, value in patch.items() if fold.metadata.get(key) != value}
            if changed:
                facts.append(TaskPatched(changed))
            return Step(facts, exact=bool(expected_sequence)) if facts else None

        return await self._changes.make(task_id, principal, decide)

    async def report_progress(
        self, task_id: str, principal: str, report: TaskProgress, request_id: str = ""
    ) -> TaskSnapshot:
        """Add a progress report to a task that has not ended, in the agent or outside of it.

        The report begins work outside of the agent that waited for other tasks when it was started.

        Raises:
            InvalidArgumentError: The report is invalid, or the request id belongs to another task; names the field.
            TaskNotFoundError: The principal has no such task.
            TaskFinishedError: The task has ended.
        """
        report.check()
        check_length(report.message, MAX_REASON_CHARS, "message")
        blocked = _waits_outside((await self._changes.find(task_id, principal)).fold) and await self._store.view(
            lambda records: rows.is_blocked(records, task_id)
        )

        def decide(live: LiveTask) -> Step | None:
            if blocked or not _waits_outside(live.fold):
                return Step([report], exact=False)
            return Step([_external_start(live.fold, principal), report], new_run_id())

        return await self._changes.make(task_id, principal, decide, request_id)

    # -- the end of work outside of the agent ----------------------------------------------------------------------------

    async def complete(
        self,
        task_id: str,
        principal: str,
        messages: Sequence[Message] = (),
        artifacts: Sequence[Artifact] = (),
        *,
        encoded: tuple[bytes, ...] = (),
    ) -> TaskSnapshot:
        """End a task with success, after adding messages and artifacts. A completed task is returned unchanged.

        Args:
            encoded: The messages as bytes, if the edge has them; see `TaskSubmitted`.

        Raises:
            TaskNotFoundError: The principal has no such task.
            TaskAlreadyRunningError: The agent works on it, or is about to.
            TaskFinishedError: It has ended in another state.
        """

        def result(fold: TaskFold) -> list[Fact]:
            new = tuple(each for each in messages if each.id not in fold.message_ids)
            kept = encoded if len(new) == len(encoded) else ()
            facts: list[Fact] = [TaskMessagesAdded(new, encoded=kept)] if new else []
            return facts + [TaskArtifactUpdated(each) for each in artifacts]

        return await self._finish(task_id, principal, TaskState.COMPLETED, result)

    async def fail(self, task_id: str, principal: str, failure: Failure) -> TaskSnapshot:
        """End a task with a failure. A failed task is returned unchanged. Raises as `complete`, and InvalidArgumentError."""
        if not failure.message:
            raise InvalidArgumentError("must not be empty", field="failure.message")
        kept = failure.cleaned(str, MAX_REASON).bounded()
        return await self._finish(task_id, principal, TaskState.FAILED, lambda _: [], kept)

    async def _finish(
        self,
        task_id: str,
        principal: str,
        state: TaskState,
        result: Callable[[TaskFold], list[Fact]],
        failure: Failure | None = None,
    ) -> TaskSnapshot:
        def decide(live: LiveTask) -> Step | None:
            fold, controls = live.fold, live.fold.controls
            if fold.state is state:
                return None
            if fold.is_terminal:
                raise finished_error(fold)
            if task_id in self._tasks.runs:
                raise running_error(fold)
            by_owner = controls is not None and (controls.is_draft or controls.is_external)
            waits = (
                not by_owner
                and fold.state is TaskState.SUBMITTED
                and any(each.kind is LinkKind.BLOCKED_BY for each in fold.links)
            )
            if not (by_owner or waits or fold.state in INTERRUPTED):
                raise running_error(fold)
            begins = fold.state is not TaskState.WORKING
            # No run of the agent has worked on a draft, or on a task that others block.
            is_outside = waits or (controls is not None and controls.is_draft)
            facts: list[Fact] = [TaskStartRequested(principal, external=True)] if is_outside else []
            facts += [_external_start(fold, principal)] if begins else []
            facts += [*result(fold), TaskStatusChanged(TaskState.WORKING, state, failure)]

            def within(records: Records) -> list[str]:
                if not rows.waits(records, self._owner(principal), task_id):
                    raise running_error(fold)  # it was released since it was read
                return []

            return Step(facts, new_run_id() if begins else "", within=within if waits else None)

        snapshot = await self._changes.make(task_id, principal, decide)
        self._tasks.warm.forget(task_id)
        return snapshot

    # -- pauses and retries ----------------------------------------------------------------------------------------------

    async def pause(self, task_id: str, principal: str, reason: str = "") -> TaskSnapshot:
        """Request that the run of a task waits at its next point at which it can. A task with such a request is returned unchanged.

        The returned task is paused already, or its run continues until then. A run that has not begun pauses before its handler
        is called; see `Run.wait_while_paused`.

        Raises:
            InvalidArgumentError: The reason is too long.
            TaskNotFoundError: The principal has no such task.
            TaskFinishedError: The task has ended.
            InvalidTransitionError: No run of the agent can pause: the task is a draft, waits for input, is being canceled, or is
                worked on outside of the agent.
        """
        check_length(reason, MAX_REASON_CHARS, "reason")

        def decide(live: LiveTask) -> Step | None:
            if live.fold.is_terminal:
                raise finished_error(live.fold)
            requested = TaskPauseRequested(reason, principal)
            return None if live.fold.is_pause_requested else Step([requested], exact=False)

        return await self._changes.make(task_id, principal, decide)

    async def resume(self, task_id: str, principal: str, reason: str = "") -> TaskSnapshot:
        """End the pause of a task, or the request for one. A task without it is returned unchanged.

        Raises:
            InvalidArgumentError, TaskNotFoundError, TaskFinishedError: As `pause`.
        """
        check_length(reason, MAX_REASON_CHARS, "reason")

        def decide(live: LiveTask) -> Step | None:
            if live.fold.is_terminal:
                raise finished_error(live.fold)
            return Step([TaskResumed(reason, principal)], exact=False) if live.fold.is_pause_requested else None

        return await self._changes.make(task_id, principal, decide)

    async def retry(
        self,
        task_id: str,
        principal: str,
        reason: str = "",
        request_id: str = "",
        *,
        scopes: frozenset[str] = frozenset(),
    ) -> TaskSnapshot:
        """Begin the work on an ended task again. Repeating the request with the same id returns the task.

        Args:
            scopes: Scopes of the caller's credentials.

        Raises:
            InvalidArgumentError: The reason is too long, or the request id belongs to another task.
            ProtolinkError: As `Admission.retry`.
        """
        check_length(reason, MAX_REASON_CHARS, "reason")
        submission = Submission(task_id=task_id, request_id=request_id, scopes=scopes, trace=caller_trace())
        turn = await self._admission.retry(submission, principal, reason)
        if turn.task_id != task_id:
            raise InvalidArgumentError("was used for another task", field="request_id")
        return await self.get(task_id, principal)

    # -- reading and appending -------------------------------------------------------------------------------------------

    async def get(self, task_id: str, principal: str) -> TaskSnapshot:
        """Return a task with its status in detail. Raises TaskNotFoundError."""
        return await self.snapshots.of((await self._changes.find(task_id, principal)).fold)

    def _owner(self, principal: str) -> str:
        return owner_of(self._tasks.agent_name, principal)


def _external_start(fold: TaskFold, principal: str) -> TaskStatusChanged:
    """Return the status with which work outside of the agent begins."""
    description = None if fold.controls is None else fold.controls.description
    name = (description.assignee if description is not None else "") or principal
    return TaskStatusChanged(
        fold.state, TaskState.WORKING, attempt=fold.attempt + 1, cause="external", worker=Worker(name)
    )


def _waits_outside(fold: TaskFold) -> bool:
    """Whether work outside of the agent was started and has not begun."""
    return fold.state is TaskState.SUBMITTED and fold.controls is not None and fold.controls.is_external


def running_error(fold: TaskFold) -> TaskAlreadyRunningError:
    return TaskAlreadyRunningError(
        f"the agent works on task {fold.task_id}, or is about to; cancel it instead",
        task_id=fold.task_id,
        state=str(fold.state),
    )
