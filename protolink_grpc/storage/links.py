"""Links between tasks as records, for look-ups and for the release of blocked tasks. The logs of the tasks have the links too.

Each function works within one transaction. A task that is blocked by another one has a row, and so has the other one, with the kind
`BLOCKS`. A draft has a row of the kind `HELD_TASKS` until it ends or is released. After its start, a task is held while others
block it; work outside of the agent is held until its end.
"""

from dataclasses import dataclass
from typing import Final

from protolink_grpc.errors import LinkCycleError, ResourceExhaustedError
from protolink_grpc.models.task_control import LinkKind
from protolink_grpc.storage.records import Kind, Records
from protolink_grpc.storage.session_rows import owner_of

MAX_WALK: Final = 10_000
"""Maximum number of links that the search for a cycle follows."""

MAX_BLOCKED: Final = 1000
"""Maximum number of tasks that one task blocks."""

MAX_HELD: Final = 10_000
"""Maximum number of held tasks of one principal: a store in memory drops none of them."""

_LAST: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A link of a task to another task. The kind is `PARENT`, `BLOCKED_BY` or `BLOCKS`."""

    task_id: str
    kind: str
    target: str


@dataclass(frozen=True, slots=True)
class HeldTask:
    """A draft, or a task that was a draft and is still held.

    Args:
        owner: See `session_rows.owner_of`.
        waits: It was started, and waits for the end of others.
    """

    owner: str
    task_id: str
    waits: bool = False


@dataclass(frozen=True, slots=True)
class HeldCount:
    """The number of rows of the kind `HELD_TASKS` of an owner."""

    owner: str
    count: int


@dataclass(frozen=True, slots=True)
class OpenLink:
    """A link that the log of the blocking task has, and that of the blocked one does not have yet.

    Args:
        task_id, target: The blocking and the blocked task.
        worker: The worker that is writing the link.
    """

    agent_name: str
    task_id: str
    target: str
    principal: str
    worker: str
    done: bool = False


LINKS: Final = Kind(
    LinkRow,
    name="task_links",
    key=("task_id", "kind", "target"),
    task="task_id",
    home=lambda task: (task.task_id,),
)
HELD_TASKS: Final = Kind(
    HeldTask,
    name="held_tasks",
    key=("owner", "task_id"),
    task="task_id",
    home=lambda task: (owner_of(task.agent_name, task.principal),),
)

OPEN_LINKS: Final = Kind(
    OpenLink,
    name="open_links",
    key=("agent_name", "task_id", "target"),
    task="task_id",
    home=lambda task: (task.agent_name,),
    claimed=True,
)

HELD_COUNTS: Final = Kind(HeldCount, name="held_counts", key=("owner",))


def targets_of(records: Records, task_id: str, kind: LinkKind, limit: int | None = None) -> list[str]:
    """Return the targets of a task's links of one kind."""
    rows = records.select(LINKS, {"task_id": task_id, "kind": kind.value}, limit=limit)
    return [row.target for row in rows]


def blockers_of(records: Records, task_id: str) -> frozenset[str]:
    """Return the tasks that a task waits for, or has waited for."""
    return frozenset(targets_of(records, task_id, LinkKind.BLOCKED_BY))


def put_parent(records: Records, task_id: str, target: str) -> None:
    """Set the parent of a task. Raises LinkCycleError or ResourceExhaustedError as `put_blocker`."""
    check_acyclic(records, task_id, LinkKind.PARENT, target)
    records.delete(LINKS, task_id, LinkKind.PARENT.value)
    records.put(LINKS, LinkRow(task_id, LinkKind.PARENT.value, target))


def put_blocker(records: Records, task_id: str, target: str) -> None:
    """Let a task wait for another one, unless that one has ended.

    Raises:
        LinkCycleError: The other task waits for this one.
        ResourceExhaustedError: The other task blocks too many, or waits for too many to search all of them.
    """
    check_blocker(records, task_id, target)
    if has_ended(records, target):
        return
    records.put(LINKS, LinkRow(task_id, LinkKind.BLOCKED_BY.value, target))
    records.put(LINKS, LinkRow(target, LinkKind.BLOCKS.value, task_id))
    records.keep_task(target)


def check_blocker(records: Records, task_id: str, target: str) -> None:
    """Check that a task can wait for another one, or need not wait because that one has ended. Raises as `put_blocker`."""
    check_acyclic(records, task_id, LinkKind.BLOCKED_BY, target)
    if has_ended(records, target):
        return
    if len(targets_of(records, target, LinkKind.BLOCKS, MAX_BLOCKED)) == MAX_BLOCKED:
        raise ResourceExhaustedError(f"task {target} blocks {MAX_BLOCKED} tasks already", task_id=target)


def delete_link(records: Records, task_id: str, kind: LinkKind, target: str) -> None:
    """Delete a link of a task, if it exists."""
    records.delete(LINKS, task_id, kind.value, target)
    if kind is LinkKind.BLOCKED_BY:
        records.delete(LINKS, target, LinkKind.BLOCKS.value, task_id)


def check_acyclic(records: Records, task_id: str, kind: LinkKind, target: str) -> None:
    """Check that a new link to `target` closes no cycle of links of this kind. Raises as `put_blocker`."""
    seen, reached = {target}, [target]
    while reached:
        found = reached.pop()
        if found == task_id:
            raise cycle_error(task_id, kind, target)
        following = [each for each in targets_of(records, found, kind) if each not in seen]
        seen.update(following)
        reached += following
        if len(seen) > MAX_WALK:
            raise ResourceExhaustedError(f"task {target} has more than {MAX_WALK} links behind it", task_id=target)


def cycle_error(task_id: str, kind: LinkKind, target: str) -> LinkCycleError:
    return LinkCycleError(
        f"task {target} leads back to task {task_id}: the link {kind} would close a cycle",
        task_id=task_id,
        kind=str(kind),
        target=target,
    )


def has_ended(records: Records, task_id: str) -> bool:
    """Whether a task is terminal, or not in the store any more."""
    return records.is_finished(task_id, _LAST) is not False


def is_blocked(records: Records, task_id: str) -> bool:
    """Whether a task waits for one that has not ended."""
    return any(not has_ended(records, each) for each in targets_of(records, task_id, LinkKind.BLOCKED_BY))


def check_can_hold(records: Records, owner: str) -> None:
    """Raise ResourceExhaustedError if an owner has the maximum number of held tasks."""
    known = records.get(HELD_COUNTS, owner)
    if known is not None and known.count >= MAX_HELD:
        raise ResourceExhaustedError(f"{MAX_HELD} tasks are drafts, blocked, or worked on outside of the agent already")


def hold(records: Records, owner: str, task_id: str) -> None:
    """Note that a new task is held. Raises as `check_can_hold`."""
    check_can_hold(records, owner)
    _add_held(records, owner, 1)
    records.put(HELD_TASKS, HeldTask(owner, task_id))


def start_or_wait(records: Records, owner: str, task_id: str) -> bool:
    """Release a task that was started, or let it wait if others block it. Returns whether it was released."""
    if is_blocked(records, task_id):
        records.put(HELD_TASKS, HeldTask(owner, task_id, waits=True))
        return False
    _release(records, owner, task_id)
    return True


def release_if_ready(records: Records, owner: str, task_id: str) -> bool:
    """Release a task that waits for others, if all of them have ended. Returns whether it was released."""
    if not waits(records, owner, task_id) or is_blocked(records, task_id):
        return False
    _release(records, owner, task_id)
    return True


def waits(records: Records, owner: str, task_id: str) -> bool:
    """Whether a task was started and waits for others."""
    held = records.get(HELD_TASKS, owner, task_id)
    return held is not None and held.waits


def _release(records: Records, owner: str, task_id: str) -> None:
    _delete_held(records, owner, task_id)
    records.release_task(task_id)


def _delete_held(records: Records, owner: str, task_id: str) -> None:
    if records.delete(HELD_TASKS, owner, task_id):
        _add_held(records, owner, -1)


def _add_held(records: Records, owner: str, number: int) -> None:
    """Change the number of an owner's held tasks."""
    known = records.get(HELD_COUNTS, owner)
    count = number if known is None else known.count + number
    if count:
        records.put(HELD_COUNTS, HeldCount(owner, count))
    else:
        records.delete(HELD_COUNTS, owner)


def end(records: Records, owner: str, task_id: str) -> list[str]:
    """Note that a task ends in this transaction. Releases the tasks that waited only for it, and returns them."""
    _delete_held(records, owner, task_id)
    links = records.select(LINKS, {"task_id": task_id})
    for link in links:
        if link.kind == LinkKind.BLOCKED_BY.value:  # else it would count as blocked by a task that has not ended
            delete_link(records, task_id, LinkKind.BLOCKED_BY, link.target)
    blocked = [link.target for link in links if link.kind == LinkKind.BLOCKS.value]
    return [each for each in blocked if release_if_ready(records, owner, each)]
