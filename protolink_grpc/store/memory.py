"""The task store in memory: fast, bounded, and gone with the process. It says so: `durable` is false."""

import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from protolink_grpc.errors import LeaseLostError, SequenceConflictError, TaskNotFoundError
from protolink_grpc.models.action import ApprovalState
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, is_terminal
from protolink_grpc.store.port import (
    READ_BYTES,
    Append,
    ApprovalQuery,
    ApprovalRevisions,
    ApprovalRow,
    ApprovalRows,
    ForeignListener,
    PushRow,
    RequestRecord,
    TaskHead,
    TaskPage,
    TaskQuery,
    Waiters,
    known_approval,
    no_task_to_push,
)


@dataclass(slots=True)
class _Entry:
    head: TaskHead
    events: list[bytes] = field(default_factory=list)
    request_ids: list[str] = field(default_factory=list)
    approval_records: dict[str, bytes] = field(default_factory=dict)
    size: int = 0
    rank: int = 0


@dataclass(slots=True)
class _Owned:
    """The tasks of one principal, or of all.

    Attributes:
        size: Encoded bytes of their events.
        by_change: All of them, last changed last.
        forgettable: Those that may be forgotten, by their rank in `_RANKS`, oldest first.
    """

    size: int = 0
    by_change: OrderedDict[str, None] = field(default_factory=OrderedDict)
    forgettable: tuple[OrderedDict[str, None], ...] = field(
        default_factory=lambda: tuple(OrderedDict() for _ in range(3))
    )

    def oldest(self) -> str | None:
        """The task to forget first."""
        for ranked in self.forgettable:
            if ranked:
                return next(iter(ranked))
        return None


class MemoryStore:
    """Logs in process memory, up to a bound.

    Above one of the bounds tasks are forgotten, the ones that changed longest ago first: those that have ended, then those that
    wait for input. A task that is submitted or working is never forgotten. What is forgotten is TASK_NOT_FOUND, and a request that
    is repeated after its task was forgotten begins a new task. A principal that has more than half of a bound loses its own tasks
    first.

    Args:
        max_tasks: Tasks to keep.
        max_bytes: Encoded bytes of their events to keep.
    """

    durable = False
    shared = False

    @checks_arguments
    def __init__(self, *, max_tasks: int = 50_000, max_bytes: int = 256 << 20) -> None:
        self.worker = ""
        self.listeners: list[ForeignListener] = []
        self._max_tasks = max_tasks
        self._max_bytes = max_bytes
        self._entries: dict[str, _Entry] = {}
        # Listing looks at one principal's tasks, in nearly the right order.
        self._owned: dict[str, _Owned] = {}
        self._all = _Owned()
        self._requests: dict[tuple[str, str, str], RequestRecord] = {}
        # Per agent, by request id, last changed last: the order of revisions.
        self._approvals: dict[str, OrderedDict[str, ApprovalRow]] = {}
        # Per agent and task, by config id; and those of each agent that are not done.
        self._pushes: dict[tuple[str, str], dict[str, PushRow]] = {}
        self._undone: dict[str, dict[tuple[str, str], None]] = {}
        # Per agent. They begin at the microseconds of the clock: no revision of an earlier process is taken for one of these.
        begin = time.time_ns() // 1_000
        self._revisions: defaultdict[str, ApprovalRevisions] = defaultdict(lambda: ApprovalRevisions(begin, begin))
        self._waiters = Waiters()
        self._approval_waiters = Waiters()

    async def open(self) -> None:
        self.worker = self.worker or new_uuid()

    async def close(self) -> None:
        self._waiters.wake_all()
        self._approval_waiters.wake_all()

    async def append(self, append: Append) -> RequestRecord | None:
        head = append.head
        if append.request_id:
            known = self._requests.get((head.agent_name, head.principal, append.request_id))
            if known is not None:
                return known
        entry = self._entries.get(head.task_id)
        self._check_fence(entry, append)
        if append.approvals:
            self._check_approvals(append.approvals)
        if entry is None:
            entry = self._entries[head.task_id] = _Entry(head)
        if append.approvals:
            self._index(append.approvals, entry)
        entry.head = head
        entry.events.extend(append.events)
        size = sum(map(len, append.events))
        entry.size += size
        if append.request_id:
            key = (head.agent_name, head.principal, append.request_id)
            self._requests[key] = RequestRecord(head.task_id, append.expected_sequence)
            entry.request_ids.append(append.request_id)
        owned = self._owned.get(head.principal)
        if owned is None:
            owned = self._owned[head.principal] = _Owned()
        owned.size += size
        self._all.size += size
        owned.by_change[head.task_id] = None
        owned.by_change.move_to_end(head.task_id)
        if entry.rank:
            del owned.forgettable[entry.rank][head.task_id], self._all.forgettable[entry.rank][head.task_id]
            entry.rank = 0
        # Before the task itself may be forgotten: whoever waits for its end must still find it.
        if len(self._entries) > self._max_tasks or self._all.size > self._max_bytes:
            self._make_room(owned)
        entry.rank = rank = _RANKS.get(head.state, 0)
        if rank:
            owned.forgettable[rank][head.task_id] = self._all.forgettable[rank][head.task_id] = None
        self._waiters.wake(head.task_id)
        return None

    @staticmethod
    def _check_fence(entry: _Entry | None, append: Append) -> None:
        if entry is None:
            if append.expected_sequence:
                raise TaskNotFoundError(f"task {append.head.task_id} is not in the store", task_id=append.head.task_id)
            return
        if append.expected_sequence and entry.head.epoch != append.expected_epoch:
            raise LeaseLostError("another worker runs this task", task_id=append.head.task_id)
        if entry.head.sequence != append.expected_sequence:
            raise SequenceConflictError("another writer appended to this task first", task_id=append.head.task_id)

    def _check_approvals(self, rows: Sequence[ApprovalRow]) -> None:
        for row in rows:
            known = self._rows(row.agent_name).get(row.request_id)
            if known is not None and known.task_id != row.task_id:
                raise known_approval(row)

    def _index(self, rows: Sequence[ApprovalRow], entry: _Entry) -> None:
        agent_name = entry.head.agent_name
        known = self._approvals.setdefault(agent_name, OrderedDict())
        revisions = self._revisions[agent_name]
        revision = revisions.latest
        for row in rows:
            revision += 1
            if row.request_id not in known:
                entry.approval_records[row.request_id] = row.record
            known[row.request_id] = replace(row, revision=revision, record=b"")
            known.move_to_end(row.request_id)
        self._revisions[agent_name] = replace(revisions, latest=revision)
        self._approval_waiters.wake(agent_name)

    def _make_room(self, owned: _Owned) -> None:
        while len(self._entries) > self._max_tasks or self._all.size > self._max_bytes:
            has_most = len(owned.by_change) > self._max_tasks / 2 or owned.size > self._max_bytes / 2
            oldest = (owned.oldest() if has_most else None) or self._all.oldest()
            if oldest is None:
                return
            self._forget(oldest)

    def _forget(self, task_id: str) -> None:
        entry = self._entries.pop(task_id)
        head = entry.head
        if entry.approval_records:
            approvals = self._approvals[head.agent_name]
            gone = [approvals.pop(request_id).revision for request_id in entry.approval_records]
            # Who has not heard of those changes never will: such a reader begins anew.
            revisions = self._revisions[head.agent_name]
            self._revisions[head.agent_name] = replace(revisions, first=max(revisions.first, *gone))
        for config_id in self._pushes.pop((head.agent_name, task_id), ()):
            self._undone[head.agent_name].pop((task_id, config_id), None)
        owned = self._owned[head.principal]
        del owned.by_change[task_id]
        for each in (owned, self._all):
            each.size -= entry.size
            del each.forgettable[entry.rank][task_id]
        if not owned.by_change:
            del self._owned[head.principal]
        for request_id in entry.request_ids:
            del self._requests[head.agent_name, head.principal, request_id]

    async def read(self, task_id: str, after: int, limit: int) -> list[bytes]:
        entry = self._entries.get(task_id)
        if entry is None:
            return []
        return bounded(entry.events[after : after + limit])

    async def wait(self, task_id: str, after: int) -> None:
        entry = self._entries.get(task_id)
        if entry is not None and entry.head.sequence > after:
            return
        await self._waiters.wait(task_id)

    async def head(self, task_id: str) -> TaskHead | None:
        entry = self._entries.get(task_id)
        return entry.head if entry is not None else None

    async def find(self, query: TaskQuery) -> TaskPage:
        # Clocks repeat themselves and step back: only the sort makes an order that a cursor can continue.
        matches = sorted(self._matches(query), key=_position, reverse=True)
        rest = matches
        if query.after is not None:
            rest = [head for head in matches if _position(head) < query.after]
        heads = rest[: query.page_size]
        more = len(rest) > len(heads)
        total = len(matches) if query.include_total else None
        return TaskPage(heads, _position(heads[-1]) if more else None, total)

    def _matches(self, query: TaskQuery) -> Iterator[TaskHead]:
        owned = self._owned.get(query.principal)
        for task_id in reversed(owned.by_change) if owned is not None else ():
            head = self._entries[task_id].head
            if (
                head.agent_name == query.agent_name
                and (not query.states or head.state in query.states)
                and (not query.session_id or head.session_id == query.session_id)
                and head.update_micros > query.updated_after_micros
            ):
                yield head

    async def request(self, agent_name: str, principal: str, request_id: str) -> RequestRecord | None:
        return self._requests.get((agent_name, principal, request_id))

    # -- approvals -------------------------------------------------------------------------------------------------------

    async def approval(self, agent_name: str, request_id: str) -> ApprovalRow | None:
        return self._rows(agent_name).get(request_id)

    async def approval_record(self, agent_name: str, request_id: str) -> bytes:
        row = self._rows(agent_name).get(request_id)
        return b"" if row is None else self._entries[row.task_id].approval_records[request_id]

    def _rows(self, agent_name: str) -> OrderedDict[str, ApprovalRow]:
        return self._approvals.get(agent_name) or OrderedDict()

    async def approvals(self, query: ApprovalQuery) -> ApprovalRows:
        rows = sorted(
            (
                row
                for row in self._rows(query.agent_name).values()
                if (not query.states or row.state in query.states)
                and (query.principal is None or row.principal == query.principal)
                and (not query.task_id or row.task_id == query.task_id)
                and (query.after is None or _asked(row) > query.after)
            ),
            key=_asked,
        )
        shown = rows[: query.page_size]
        return ApprovalRows(shown, _asked(shown[-1]) if len(rows) > len(shown) else None)

    async def approval_revisions(self, agent_name: str) -> ApprovalRevisions:
        return self._revisions[agent_name]

    async def changed_approvals(
        self, agent_name: str, after: int, limit: int, *, pending_until: int = 0
    ) -> list[ApprovalRow]:
        found: list[ApprovalRow] = []
        for row in reversed(self._rows(agent_name).values()):
            if row.revision <= after:
                break
            if row.revision > pending_until or row.state is ApprovalState.PENDING:
                found.append(row)
        return found[::-1][:limit]

    async def wait_approvals(self, agent_name: str, after: int) -> None:
        if self._revisions[agent_name].latest <= after:
            await self._approval_waiters.wait(agent_name)

    # -- pushes ----------------------------------------------------------------------------------------------------------

    async def put_push(self, row: PushRow) -> PushRow:
        if row.task_id not in self._entries:
            raise no_task_to_push(row)
        known = await self.push(row.agent_name, row.task_id, row.config_id)
        if known is not None:
            row = replace(known, body=row.body, worker=known.worker or row.worker)
        return self._keep(row)

    def _keep(self, row: PushRow) -> PushRow:
        head = self._entries[row.task_id].head
        row = replace(row, done=is_terminal(head.state) and row.cursor >= head.sequence)
        self._pushes.setdefault((row.agent_name, row.task_id), {})[row.config_id] = row
        undone = self._undone.setdefault(row.agent_name, {})
        if row.done:
            undone.pop((row.task_id, row.config_id), None)
        else:
            undone[row.task_id, row.config_id] = None
        return row

    async def push(self, agent_name: str, task_id: str, config_id: str) -> PushRow | None:
        return self._pushes.get((agent_name, task_id), {}).get(config_id)

    async def pushes(
        self, agent_name: str, task_id: str, *, after: tuple[int, str] | None = None, limit: int = 100
    ) -> list[PushRow]:
        rows = sorted(self._pushes.get((agent_name, task_id), {}).values(), key=_made)
        return [row for row in rows if after is None or _made(row) > after][:limit]

    async def delete_push(self, agent_name: str, task_id: str, config_id: str) -> bool:
        rows = self._pushes.get((agent_name, task_id), {})
        if rows.pop(config_id, None) is None:
            return False
        self._undone[agent_name].pop((task_id, config_id), None)
        if not rows:
            del self._pushes[agent_name, task_id]
        return True

    async def advance_push(self, row: PushRow, cursor: int) -> PushRow | None:
        known = await self.push(row.agent_name, row.task_id, row.config_id)
        if known is None or known.worker != self.worker:
            return None
        return self._keep(replace(known, cursor=max(known.cursor, cursor)))

    async def claim_pushes(self, agent_name: str) -> list[PushRow]:
        undone = [
            self._pushes[agent_name, task_id][config_id] for task_id, config_id in self._undone.get(agent_name, ())
        ]
        free = sorted((row for row in undone if row.worker != self.worker), key=_made)
        return [self._keep(replace(row, worker=self.worker)) for row in free]

    async def release_pushes(self, agent_name: str) -> None:
        for task_id, config_id in self._undone.get(agent_name, ()):
            rows = self._pushes[agent_name, task_id]
            rows[config_id] = replace(rows[config_id], worker="")

    async def heartbeat(self, ttl_s: float) -> None:
        """Nothing to do: a worker in memory lives as long as its data."""

    async def release(self, task_ids: Sequence[str], *, to: str = "") -> None:
        """Nothing to do: nobody else could take them."""

    async def orphans(self, agent_name: str) -> list[TaskHead]:
        return []


_RANKS = dict.fromkeys(TERMINAL, 1) | dict.fromkeys(INTERRUPTED, 2)
"""What is forgotten first, by state: what has ended, then what waits for input. All others have rank 0 and are kept."""


def _position(head: TaskHead) -> tuple[int, str]:
    return head.update_micros, head.task_id


def _asked(row: ApprovalRow) -> tuple[int, str]:
    return row.create_micros, row.request_id


def _made(row: PushRow) -> tuple[int, str]:
    return row.create_micros, row.config_id


def bounded(frames: list[bytes]) -> list[bytes]:
    """The longest prefix of `frames` within `READ_BYTES`, at least one of them."""
    total = 0
    for index, frame in enumerate(frames):
        total += len(frame)
        if total > READ_BYTES:
            return frames[: max(index, 1)]
    return frames
