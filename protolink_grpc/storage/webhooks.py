"""Webhooks as records: who is told of a task's events, and how far. How they are told is decided elsewhere."""

from dataclasses import dataclass, field, replace

from protolink_grpc.errors import TaskNotFoundError
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.storage.records import Kind, Records


@dataclass(frozen=True, slots=True)
class PushRow:
    """A reader of one task's log with a durable position: what must be pushed somewhere else, and how far that has come.

    Args:
        principal: Owner of the task.
        body: What to push to; opaque to the store. It may hold credentials, so it is not shown.
        cursor: Sequence of the last event that was dealt with.
        worker: Store session that pushes, empty when nobody does.
        done: The task is terminal and the cursor at its end: nothing will ever be due again. Set by the store.
    """

    agent_name: str
    principal: str
    task_id: str
    config_id: str
    body: bytes = field(repr=False)
    cursor: int
    create_micros: int
    worker: str = ""
    done: bool = False


WEBHOOKS = Kind(
    PushRow,
    name="webhooks",
    key=("agent_name", "task_id", "config_id"),
    order=("create_micros", "config_id"),
    task="task_id",
    claimed=True,
)


def put_webhook(records: Records, row: PushRow) -> PushRow:
    """Keep a row. Of one with the same agent, task and config id only the body is replaced, and a worker set where it has none.

    Returns:
        The row as it is kept.

    Raises:
        TaskNotFoundError: There is no such task.
    """
    known = records.get(WEBHOOKS, row.agent_name, row.task_id, row.config_id)
    return _kept(records, row if known is None else replace(known, body=row.body, worker=known.worker or row.worker))


def advance_webhook(records: Records, row: PushRow, worker: str, cursor: int) -> PushRow | None:
    """Move the cursor of a row of this worker forward.

    Returns:
        The row as it is then; None where it is gone or another worker's: then nothing was done.
    """
    known = records.get(WEBHOOKS, row.agent_name, row.task_id, row.config_id)
    if known is None or known.worker != worker:
        return None
    return _kept(records, replace(known, cursor=max(known.cursor, cursor)))


def _kept(records: Records, row: PushRow) -> PushRow:
    is_finished = records.is_finished(row.task_id, row.cursor)
    if is_finished is None:
        raise TaskNotFoundError(f"task {row.task_id} is not in the store", task_id=row.task_id)
    return records.put(WEBHOOKS, replace(row, done=row.done or is_finished))


def webhooks_of(
    records: Records, agent_name: str, task_id: str, *, after: tuple[int, str] | None = None, limit: int = 100
) -> list[PushRow]:
    """Rows of a task, oldest first, at most `limit`; `after` is creation time and config id of the last one seen."""
    return records.select(WEBHOOKS, {"agent_name": agent_name, "task_id": task_id}, after=after, limit=limit)


class WebhookRows:
    """Rows of one agent. Each verb raises StoreError where the store cannot do it; nothing was done then."""

    def __init__(self, agent_name: str, store: TaskStore) -> None:
        self._agent_name = agent_name
        self._store = store

    async def open(self) -> None:
        """Open the store, for rows that outlive the service: it stays open until `close`."""
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()

    @property
    def worker(self) -> str:
        """The worker that rows of this process have."""
        return self._store.worker

    @property
    def is_shared(self) -> bool:
        """Whether other processes may have rows of the same agent."""
        return self._store.shared

    async def put(self, row: PushRow) -> PushRow:
        """See `put_webhook`."""
        return await self._store.change(lambda records: put_webhook(records, row))

    async def get(self, task_id: str, config_id: str) -> PushRow | None:
        """One row, None for an unknown one."""
        return await self._store.view(lambda records: records.get(WEBHOOKS, self._agent_name, task_id, config_id))

    async def of_task(self, task_id: str, *, after: tuple[int, str] | None = None, limit: int = 100) -> list[PushRow]:
        """See `webhooks_of`."""
        return await self._store.view(
            lambda records: webhooks_of(records, self._agent_name, task_id, after=after, limit=limit)
        )

    async def delete(self, task_id: str, config_id: str) -> bool:
        """Delete a row; whether there was one."""
        return (
            await self._store.change(lambda records: records.delete(WEBHOOKS, self._agent_name, task_id, config_id)) > 0
        )

    async def wait_event(self, task_id: str, after: int) -> None:
        """Return as soon as the task's log has a sequence > `after`, or earlier."""
        await self._store.wait(task_id, after)

    async def advance(self, row: PushRow, cursor: int) -> PushRow | None:
        """See `advance_webhook`; for rows of this process."""
        worker = self._store.worker
        return await self._store.change(lambda records: advance_webhook(records, row, worker, cursor))

    async def claim(self) -> list[PushRow]:
        """Take the rows that are not done and whose process has ended, oldest first."""
        return await self._store.claim(WEBHOOKS, self._agent_name)

    async def release(self) -> None:
        """Give up the rows of this process."""
        await self._store.release_claims(WEBHOOKS, self._agent_name)
