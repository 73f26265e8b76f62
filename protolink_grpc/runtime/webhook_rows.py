"""The stored webhooks of one agent's tasks and their delivery cursors. Delivery itself is elsewhere."""

from protolink_grpc.storage.port import TaskStore
from protolink_grpc.storage.webhooks import WEBHOOKS, PushRow, advance_webhook, put_webhook, webhooks_of


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
