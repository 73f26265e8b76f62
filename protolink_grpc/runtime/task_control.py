"""The control of single tasks by their owner: drafts, descriptions, links, progress, and work outside of the agent.

Each change is a fact in the task's own log. Its append does not take the task over from the process that runs
it. The rows of `storage.links` change in the transaction of that append.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from protolink_grpc.errors import (
    InvalidArgumentError,
    InvalidTransitionError,
    LeaseLostError,
    ProtolinkError,
    ResourceExhaustedError,
    SequenceConflictError,
    TaskAlreadyRunningError,
    TaskFinishedError,
    TaskStartedError,
)
from protolink_grpc.logs import get_logger
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import iso_from_micros
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
    TaskUnlinked,
    Worker,
)
from protolink_grpc.models.failure import MAX_REASON, Failure
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_run_id, new_task_id
from protolink_grpc.models.lifecycle import INTERRUPTED, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.snapshot import TaskSnapshot
from protolink_grpc.models.task_control import (
    MAX_ITEMS,
    MAX_REASON_CHARS,
    TASK_LINKS,
    LinkKind,
    TaskDescription,
    TaskLink,
    check_length,
)
from protolink_grpc.models.task_metadata import own_metadata
from protolink_grpc.net.tracing import caller_trace
from protolink_grpc.runtime.admission import Admission, already_exists_error
from protolink_grpc.runtime.log import Fact, LiveTask, Within, unexpected_end_error
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.runtime.task_snapshots import TaskSnapshots
from protolink_grpc.runtime.tasks import Tasks, not_found_error
from protolink_grpc.storage import links as rows
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_rows import owner_of

log = get_logger(__name__)

RETRIES: Final = 8
"""Attempts of one change while the task keeps changing."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a change appends to a log.

    Args:
        run_id: As in `LiveTask.record`, like `opens` and `within`.
        exact: The log must not have changed since the step was decided.
    """

    facts: Sequence[Fact]
    run_id: str = ""
    opens: bool = False
    within: Within | None = None
    exact: bool = True


Decide = Callable[[LiveTask], Step | None]
"""Returns the next step for a task, or None if nothing has to change. Raises a ProtolinkError to refuse."""


class TaskControl:
    """Changes the tasks of one agent. Every method is for one principal, and does not find the tasks of others."""

    def __init__(self, tasks: Tasks, admission: Admission, snapshots: TaskSnapshots) -> None:
        self.snapshots = snapshots
        self._tasks = tasks
        self._admission = admission
        self._store = tasks.store
        self._clock = tasks.clock

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
            ResourceExhaustedError: The principal has too many tasks that are held, or a link as in `link`.
            ProtolinkError: As `TaskService.submit`.
        """
        if submission.expected_sequence:
            raise InvalidArgumentError("is for a task that is continued", field="input.expected_sequence")
        if description is not None:
            _check_within(description.check, "description")
        _check_links(links)
        request_id = submission.request_id
        if request_id and (known := await self._admission.turn_of(request_id, principal)) is not None:
            return await self.get(known.task_id, principal)
        self._admission.check_new(submission)  # before the links, which are recorded in other tasks
        task_id = submission.task_id or new_task_id()
        submission = replace(submission, task_id=task_id, trace=caller_trace())
        if await self._store.head(task_id) is not None:
            raise already_exists_error(task_id)
        links = [replace(each, created_at=self._now()) for each in links]
        await self._store.view(lambda records: rows.check_can_hold(records, self._owner(principal)))
        for each in links:
            await self._check_target(task_id, principal, each)
        facts: list[Fact] = [] if description is None else [TaskDescribed(description, principal)]
        facts += [TaskLinked(each) for each in links]

        def within(records: Records) -> list[str]:
            rows.hold(records, self._owner(principal), task_id)
            for each in links:
                _put_row(records, task_id, each)
            return []

        async with self._recorded_in_blockers(task_id, principal, links):
            live, record = await self._admission.draft(submission, principal, facts, within)
        if record is not None:
            if record.task_id != task_id:
                await self._unlink_unused(task_id, principal, links)
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

        return await self._change(task_id, principal, decide)

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
            _check_within(description.check, "description")
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

        return await self._change(task_id, principal, decide)

    async def report_progress(
        self, task_id: str, principal: str, report: TaskProgress, request_id: str = ""
    ) -> TaskSnapshot:
        """Add a progress report to a task that has not ended, whoever works on it.

        The report begins work outside of the agent that waited for other tasks when it was started.

        Raises:
            InvalidArgumentError: The report is invalid, or the request id belongs to another task; names the field.
            TaskNotFoundError: The principal has no such task.
            TaskFinishedError: The task has ended.
        """
        report.check()
        check_length(report.message, MAX_REASON_CHARS, "message")
        blocked = _waits_outside((await self._find(task_id, principal)).fold) and await self._store.view(
            lambda records: rows.is_blocked(records, task_id)
        )

        def decide(live: LiveTask) -> Step | None:
            if blocked or not _waits_outside(live.fold):
                return Step([report], exact=False)
            return Step([_external_start(live.fold, principal), report], new_run_id())

        return await self._change(task_id, principal, decide, request_id)

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
            waits = not by_owner and fold.state is TaskState.SUBMITTED and _has_blockers(fold)
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

        snapshot = await self._change(task_id, principal, decide)
        self._tasks.warm.forget(task_id)
        return snapshot

    # -- links -----------------------------------------------------------------------------------------------------------

    async def link(self, task_id: str, principal: str, link: TaskLink) -> TaskSnapshot:
        """Add a link, or change the reason of an existing one. A new parent replaces the one before.

        Raises:
            InvalidArgumentError: The link is invalid; names the field.
            TaskNotFoundError: The principal has no such task, or not the one that the link names.
            TaskFinishedError: The task has ended.
            TaskStartedError: A task that has been started cannot be blocked.
            LinkCycleError: The other task leads back to this one.
            ResourceExhaustedError: The task has too many links, or there are too many to search for a cycle.
        """
        _check_within(link.check, "link")
        key, made = (link.kind, link.target), replace(link, created_at=self._now())
        live = await self._find(task_id, principal)
        is_new = key not in _links_of(live.fold)
        if is_new:
            _check_can_link(live.fold, link)
            await self._check_target(task_id, principal, made)

        def decide(live: LiveTask) -> Step | None:
            fold = live.fold
            known = _links_of(fold).get(key)
            if fold.is_terminal:
                raise finished_error(fold)
            if known is not None:
                changed = replace(known, reason=link.reason)
                return None if changed == known else Step([TaskLinked(changed)])
            _check_can_link(fold, link)
            facts: list[Fact] = []
            if link.kind is LinkKind.PARENT:
                facts += [TaskUnlinked(each) for each in fold.links if each.kind is LinkKind.PARENT]
            return Step([*facts, TaskLinked(made)], within=lambda records: _put_row(records, task_id, link))

        async with self._recorded_in_blockers(task_id, principal, [made] if is_new else []):
            return await self._change(task_id, principal, decide)

    async def unlink(self, task_id: str, principal: str, kind: LinkKind, target: str) -> TaskSnapshot:
        """Remove a link, if it exists. A started task without any other blocker begins.

        Raises:
            InvalidArgumentError: The link cannot exist; names the field.
            TaskNotFoundError: The principal has no such task.
            TaskFinishedError: The task has ended.
        """
        _check_within(TaskLink(kind, target).check, "link")

        def within(records: Records) -> list[str]:
            rows.delete_link(records, task_id, kind, target)
            return [task_id] if rows.release_if_ready(records, self._owner(principal), task_id) else []

        def decide(live: LiveTask) -> Step | None:
            known = _links_of(live.fold).get((kind, target))
            if known is None:
                return None
            if live.fold.is_terminal:
                raise finished_error(live.fold)
            return Step([TaskUnlinked(known)], within=within)

        snapshot = await self._change(task_id, principal, decide)
        if kind is LinkKind.BLOCKED_BY and await self._store.head(target) is not None:
            await self._unlink_in_blocker(target, principal, task_id)
        return snapshot

    async def _check_target(self, task_id: str, principal: str, link: TaskLink) -> None:
        """Check the other task of a new link. Raises as `link`."""
        kind, target = link.kind, link.target
        if kind not in TASK_LINKS:
            return
        if target == task_id:
            raise rows.cycle_error(task_id, kind, target)
        await self._tasks.head(target, principal)
        if kind is LinkKind.SOURCE:
            return
        if kind is LinkKind.PARENT:
            await self._store.view(lambda records: rows.check_acyclic(records, task_id, kind, target))
            return
        await self._store.view(lambda records: rows.check_blocker(records, task_id, target))

    @asynccontextmanager
    async def _recorded_in_blockers(
        self, task_id: str, principal: str, links: Sequence[TaskLink]
    ) -> AsyncGenerator[None, None]:
        """Record new links of a task in the logs of the tasks that block it, whose ends release it, before its own log gets them in
        the block. They are removed if the block fails. A canceled block may have been successful, so they stay."""
        try:
            for each in links:
                if each.kind is LinkKind.BLOCKED_BY:
                    await self._link_in_blocker(
                        each.target, principal, replace(each, kind=LinkKind.BLOCKS, target=task_id)
                    )
            yield
        except Exception:
            await self._unlink_unused(task_id, principal, links)
            raise

    async def _link_in_blocker(self, blocker: str, principal: str, blocks: TaskLink) -> None:
        def decide(live: LiveTask) -> Step | None:
            if live.fold.is_terminal or (LinkKind.BLOCKS, blocks.target) in _links_of(live.fold):
                return None
            return Step([TaskLinked(blocks)], exact=False)

        await self._record(blocker, principal, decide)

    async def _unlink_in_blocker(self, blocker: str, principal: str, blocked: str) -> None:
        def decide(live: LiveTask) -> Step | None:
            known = _links_of(live.fold).get((LinkKind.BLOCKS, blocked))
            return None if known is None or live.fold.is_terminal else Step([TaskUnlinked(known)], exact=False)

        await self._record(blocker, principal, decide)

    async def _unlink_unused(self, task_id: str, principal: str, links: Sequence[TaskLink]) -> None:
        """Remove the links of its blockers to a task that did not get the other side. If that fails, they stay, without effect."""
        blockers = [each.target for each in links if each.kind is LinkKind.BLOCKED_BY]
        try:
            used = await self._store.view(lambda records: rows.blockers_of(records, task_id))
            for blocker in blockers:
                if blocker not in used:
                    await self._unlink_in_blocker(blocker, principal, task_id)
        except ProtolinkError as error:
            log.warning("links from other tasks to task %s, which does not have them, remain: %s", task_id, error)

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

        return await self._change(task_id, principal, decide)

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

        return await self._change(task_id, principal, decide)

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
        return await self.snapshots.of((await self._find(task_id, principal)).fold)

    async def _change(self, task_id: str, principal: str, decide: Decide, request_id: str = "") -> TaskSnapshot:
        """Record the step for a task, and return the task after it. Raises as `_record`."""
        live = await self._record(task_id, principal, decide, request_id)
        return await self.snapshots.of(live.fold)

    async def _record(self, task_id: str, principal: str, decide: Decide, request_id: str = "") -> LiveTask:
        """Record the step for a task, decided again while other writers append first.

        Raises:
            TaskNotFoundError: The principal has no such task.
            TaskFinishedError: The task has ended, and nothing can follow.
            InvalidArgumentError: The request id belongs to another task.
            ProtolinkError: Raised by `decide`.
        """
        conflict: Exception | None = None
        for _ in range(RETRIES):
            live = await self._find(task_id, principal)
            step = decide(live)
            if step is None:
                return live
            try:
                known = await live.record(
                    step.facts,
                    run_id=step.run_id,
                    request_id=request_id,
                    opens=step.opens,
                    expected=live.fold.sequence if step.exact else 0,
                    within=step.within,
                )
            except (SequenceConflictError, LeaseLostError) as error:
                conflict = error
                continue
            except InvalidTransitionError:
                if live.fold.is_terminal:
                    raise finished_error(live.fold) from None
                if decide(live) is None:
                    return live  # another writer made the same change first
                raise
            if known is not None and known.task_id != task_id:
                raise InvalidArgumentError("was used for another task", field="request_id")
            return live
        raise SequenceConflictError(f"task {task_id} keeps changing; try again later", task_id=task_id) from conflict

    async def _find(self, task_id: str, principal: str) -> LiveTask:
        """Return a task: that of its run in this process if there is one. Raises TaskNotFoundError."""
        run = await self._tasks.confirmed_run(task_id)
        if run is None or not run.live.fold.sequence:
            return await self._tasks.get(task_id, principal)
        if run.live.fold.principal != principal:
            raise not_found_error(task_id)
        await run.live.at_rest()
        if run.live.fold.is_settled:
            await run.wait_ended()
        return run.live

    def _owner(self, principal: str) -> str:
        return owner_of(self._tasks.agent_name, principal)

    def _now(self) -> str:
        return iso_from_micros(self._clock.micros())


def _put_row(records: Records, task_id: str, link: TaskLink) -> list[str]:
    if link.kind is LinkKind.PARENT:
        rows.put_parent(records, task_id, link.target)
    elif link.kind is LinkKind.BLOCKED_BY:
        rows.put_blocker(records, task_id, link.target)
    return []


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


def _links_of(fold: TaskFold) -> dict[tuple[LinkKind, str], TaskLink]:
    return {} if fold.controls is None else fold.controls.links


def _has_blockers(fold: TaskFold) -> bool:
    return any(kind is LinkKind.BLOCKED_BY for kind, _ in _links_of(fold))


def _check_can_link(fold: TaskFold, link: TaskLink) -> None:
    """Check that a task can get another link. Raises as `TaskControl.link`."""
    if fold.is_terminal:
        raise finished_error(fold)
    if link.kind is LinkKind.BLOCKED_BY and (fold.controls is None or not fold.controls.is_draft):
        raise TaskStartedError(f"task {fold.task_id} has been started: it cannot be blocked", task_id=fold.task_id)
    replaced = {LinkKind.BLOCKS, LinkKind.PARENT} if link.kind is LinkKind.PARENT else {LinkKind.BLOCKS}
    if sum(kind not in replaced for kind, _ in _links_of(fold)) >= MAX_ITEMS:
        raise ResourceExhaustedError(f"task {fold.task_id} has {MAX_ITEMS} links already", task_id=fold.task_id)


def _check_links(links: Sequence[TaskLink]) -> None:
    """Check the links of a new task. Raises InvalidArgumentError, which names the field."""
    if len(links) > MAX_ITEMS:
        raise InvalidArgumentError(f"must have at most {MAX_ITEMS} items", field="links")
    seen = set[tuple[LinkKind, str]]()
    for index, each in enumerate(links):
        _check_within(each.check, f"links[{index}]")
        key = (each.kind, "" if each.kind is LinkKind.PARENT else each.target)
        if key in seen:
            raise InvalidArgumentError(
                f"is the second link {each.kind} of its kind and target", field=f"links[{index}]"
            )
        seen.add(key)


def _check_within(check: Callable[[], None], field: str) -> None:
    """Call a check of a value. Its error names the path below `field`."""
    try:
        check()
    except InvalidArgumentError as error:
        raise error.within(field) from None


def finished_error(fold: TaskFold) -> TaskFinishedError:
    return TaskFinishedError(f"task {fold.task_id} is {fold.state}", task_id=fold.task_id, state=str(fold.state))


def running_error(fold: TaskFold) -> TaskAlreadyRunningError:
    return TaskAlreadyRunningError(
        f"the agent works on task {fold.task_id}, or is about to; cancel it instead",
        task_id=fold.task_id,
        state=str(fold.state),
    )
