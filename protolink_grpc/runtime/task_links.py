"""The links of tasks: checked, recorded in the logs of both sides, and removed.

A link is a fact in the log of its task, and a row of `storage.links`, which changes in the transaction of that append. A task that
blocks another one has the other side in its log, because its end releases the blocked task. It gets its side first, with a row that
the append of the other side deletes. If the process dies in between, another one finds the row and removes the link.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from protolink_grpc.errors import InvalidArgumentError, ProtolinkError, ResourceExhaustedError, TaskStartedError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.events import TaskLinked, TaskUnlinked
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.snapshot import TaskSnapshot
from protolink_grpc.models.task_control import MAX_ITEMS, TASK_LINKS, LinkKind, TaskLink
from protolink_grpc.runtime.log import Fact, LiveTask
from protolink_grpc.runtime.task_changes import Step, TaskChanges, check_within, finished_error
from protolink_grpc.runtime.tasks import Tasks
from protolink_grpc.storage import links as rows
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_rows import owner_of

log = get_logger(__name__)


class TaskLinks:
    """The links of one agent's tasks. Every method is for one principal, and does not find the tasks of others."""

    def __init__(self, tasks: Tasks, changes: TaskChanges) -> None:
        self._tasks = tasks
        self._changes = changes

    async def add(self, task_id: str, principal: str, link: TaskLink) -> TaskSnapshot:
        """Add a link, or change the reason of an existing one. A new parent replaces the one before.

        Raises:
            InvalidArgumentError: The link is invalid; names the field.
            TaskNotFoundError: The principal has no such task, or not the one that the link names.
            TaskFinishedError: The task has ended.
            TaskStartedError: A task that has been started cannot be blocked.
            LinkCycleError: The other task leads back to this one.
            ResourceExhaustedError: The task has too many links, or there are too many to search for a cycle.
        """
        check_within(link.check, "link")
        key, made = (link.kind, link.target), replace(link, created_at=self._now())
        agent_name = self._tasks.agent_name
        live = await self._changes.find(task_id, principal)
        is_new = key not in _links_of(live.fold)
        if is_new:
            _check_can_link(live.fold, link)
            await self._check_target(task_id, principal, link)

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
            return Step(
                [*facts, TaskLinked(made)], within=lambda records: put_rows(records, agent_name, task_id, [link])
            )

        async with self.recorded_in_blockers(task_id, principal, [made] if is_new else []):
            return await self._changes.make(task_id, principal, decide)

    async def remove(self, task_id: str, principal: str, kind: LinkKind, target: str) -> TaskSnapshot:
        """Remove a link, if it exists. A started task without any other blocker begins.

        Raises:
            InvalidArgumentError: The link cannot exist; names the field.
            TaskNotFoundError: The principal has no such task.
            TaskFinishedError: The task has ended.
        """
        check_within(TaskLink(kind, target).check, "link")
        owner = owner_of(self._tasks.agent_name, principal)

        def within(records: Records) -> list[str]:
            rows.delete_link(records, task_id, kind, target)
            return [task_id] if rows.release_if_ready(records, owner, task_id) else []

        def decide(live: LiveTask) -> Step | None:
            known = _links_of(live.fold).get((kind, target))
            if known is None:
                return None
            if live.fold.is_terminal:
                raise finished_error(live.fold)
            return Step([TaskUnlinked(known)], within=within)

        snapshot = await self._changes.make(task_id, principal, decide)
        if kind is LinkKind.BLOCKED_BY and await self._tasks.store.head(target) is not None:
            await self._unlink_in_blocker(target, principal, task_id)
        return snapshot

    async def prepare(self, task_id: str, principal: str, links: Sequence[TaskLink]) -> list[TaskLink]:
        """Check the other tasks of the links of a new task, and return the links with the time. Raises as `add`."""
        for each in links:
            await self._check_target(task_id, principal, each)
        now = self._now()
        return [replace(each, created_at=now) for each in links]

    def _now(self) -> str:
        return iso_from_micros(self._tasks.clock.micros())

    async def _check_target(self, task_id: str, principal: str, link: TaskLink) -> None:
        kind, target = link.kind, link.target
        if kind not in TASK_LINKS:
            return
        if target == task_id:
            raise rows.cycle_error(task_id, kind, target)
        await self._tasks.head(target, principal)
        if kind is LinkKind.SOURCE:
            return
        if kind is LinkKind.PARENT:
            await self._tasks.store.view(lambda records: rows.check_acyclic(records, task_id, kind, target))
            return
        await self._tasks.store.view(lambda records: rows.check_blocker(records, task_id, target))

    @asynccontextmanager
    async def recorded_in_blockers(
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
            await self.discard(task_id, principal, links)
            raise

    async def _link_in_blocker(self, blocker: str, principal: str, blocks: TaskLink) -> None:
        tasks = self._tasks
        row = rows.OpenLink(tasks.agent_name, blocker, blocks.target, principal, tasks.store.worker)

        def within(records: Records) -> list[str]:
            records.put(rows.OPEN_LINKS, row)
            return []

        def decide(live: LiveTask) -> Step | None:
            if live.fold.is_terminal or (LinkKind.BLOCKS, blocks.target) in _links_of(live.fold):
                return None
            return Step([TaskLinked(blocks)], within=within, exact=False)

        await self._changes.record(blocker, principal, decide)

    async def _unlink_in_blocker(self, blocker: str, principal: str, blocked: str) -> None:
        def decide(live: LiveTask) -> Step | None:
            known = _links_of(live.fold).get((LinkKind.BLOCKS, blocked))
            return None if known is None or live.fold.is_terminal else Step([TaskUnlinked(known)], exact=False)

        await self._changes.record(blocker, principal, decide)

    async def discard(self, task_id: str, principal: str, links: Sequence[TaskLink]) -> None:
        """Remove the links of its blockers to a task that did not get the other side.

        If that fails, another process repairs it after the end of this one.
        """
        for each in links:
            if each.kind is LinkKind.BLOCKED_BY:
                await self._discard(each.target, principal, task_id)

    async def _discard(self, blocker: str, principal: str, blocked: str) -> None:
        """Remove the link of a blocker unless the blocked task has the other side. A failure is logged."""
        agent_name, store = self._tasks.agent_name, self._tasks.store
        try:
            used = await store.view(lambda records: rows.blockers_of(records, blocked))
            if blocker not in used and await store.head(blocker) is not None:
                await self._unlink_in_blocker(blocker, principal, blocked)
            await store.change(lambda records: records.delete(rows.OPEN_LINKS, agent_name, blocker, blocked))
        except ProtolinkError as error:
            log.warning("the link from task %s to %s, which does not have it, remains: %s", blocker, blocked, error)

    async def repair(self) -> None:
        """Remove the links whose process died before it wrote the other side. Raises StoreError."""
        for each in await self._tasks.store.claim(rows.OPEN_LINKS, self._tasks.agent_name):
            await self._discard(each.task_id, each.principal, each.target)


def put_rows(records: Records, agent_name: str, task_id: str, links: Sequence[TaskLink]) -> list[str]:
    """Store the rows of new links. Returns the tasks that are released: none."""
    for each in links:
        if each.kind is LinkKind.BLOCKED_BY:
            records.delete(rows.OPEN_LINKS, agent_name, each.target, task_id)
        if each.kind is LinkKind.PARENT:
            rows.put_parent(records, task_id, each.target)
        elif each.kind is LinkKind.BLOCKED_BY:
            rows.put_blocker(records, task_id, each.target)
    return []


def _links_of(fold: TaskFold) -> dict[tuple[LinkKind, str], TaskLink]:
    return {} if fold.controls is None else fold.controls.links


def _check_can_link(fold: TaskFold, link: TaskLink) -> None:
    """Check that a task can get another link. Raises as `TaskLinks.add`."""
    if fold.is_terminal:
        raise finished_error(fold)
    if link.kind is LinkKind.BLOCKED_BY and (fold.controls is None or not fold.controls.is_draft):
        raise TaskStartedError(f"task {fold.task_id} has been started: it cannot be blocked", task_id=fold.task_id)
    replaced = {LinkKind.BLOCKS, LinkKind.PARENT} if link.kind is LinkKind.PARENT else {LinkKind.BLOCKS}
    if sum(kind not in replaced for kind, _ in _links_of(fold)) >= MAX_ITEMS:
        raise ResourceExhaustedError(f"task {fold.task_id} has {MAX_ITEMS} links already", task_id=fold.task_id)


def check_links(links: Sequence[TaskLink]) -> None:
    """Check the links of a new task. Raises InvalidArgumentError, which names the field."""
    if len(links) > MAX_ITEMS:
        raise InvalidArgumentError(f"must have at most {MAX_ITEMS} items", field="links")
    seen = set[tuple[LinkKind, str]]()
    for index, each in enumerate(links):
        check_within(each.check, f"links[{index}]")
        key = (each.kind, "" if each.kind is LinkKind.PARENT else each.target)
        if key in seen:
            raise InvalidArgumentError(
                f"is the second link {each.kind} of its kind and target", field=f"links[{index}]"
            )
        seen.add(key)
