"""Webhooks as records: the receivers of a task's events, with their positions."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from protolink_grpc.errors import TaskNotFoundError
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.storage.records import Kind, Records


@dataclass(frozen=True, slots=True)
class PushRow:
    """A webhook of one task, with a durable position in the task's log.

    Args:
        principal: Owner of the task.
        body: The encoded configuration. It may contain credentials, so it is not part of the representation.
        cursor: Sequence of the last processed event.
        worker: The worker that sends the notifications, or empty.
        done: Whether no notifications can follow: the task is terminal and the cursor at its end, or the last one was sent.
            Set by the store.
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
    home=lambda task: (task.agent_name,),
    claimed=True,
)


@dataclass(frozen=True, slots=True)
class WebhookFailure:
    """The notifications of a webhook that were given up: not accepted in time, or refused permanently.

    Args:
        sequence: Sequence of the event of the first one.
        create_micros: When the first one was given up.
        error: Cause of the latest one: the status of the response, or the error of the connection. Contains nothing of the request.
    """

    agent_name: str
    task_id: str
    config_id: str
    sequence: int
    create_micros: int
    error: str


WEBHOOK_FAILURES = Kind(
    WebhookFailure,
    name="webhook_failures",
    key=("agent_name", "task_id", "config_id"),
    task="task_id",
    home=lambda task: (task.agent_name,),
    merge=lambda before, latest: replace(before, error=latest.error),
)


def put_webhook(records: Records, row: PushRow) -> PushRow:
    """Store a row. If one with the same agent, task and config id exists, its body is replaced, its worker set if it has none, and
    its failure deleted.

    Returns:
        The stored row.

    Raises:
        TaskNotFoundError: The task is not in the store.
    """
    key = (row.agent_name, row.task_id, row.config_id)
    existing = records.get(WEBHOOKS, *key)
    records.delete(WEBHOOK_FAILURES, *key)
    return _put(
        records, row if existing is None else replace(existing, body=row.body, worker=existing.worker or row.worker)
    )


def advance_webhook(
    records: Records,
    row: PushRow,
    worker: str,
    cursor: int,
    *,
    done: bool = False,
    failure: WebhookFailure | None = None,
    is_complete: bool = False,
) -> PushRow | None:
    """Move the cursor of a row of this worker forward.

    Args:
        done: No notifications follow, although the task may continue.
        failure: The notification that is passed was given up. It is not stored if the row was replaced since `row` was read.
        is_complete: The accepted notification contains everything before it, so earlier failures are deleted.

    Returns:
        The changed row, or None if it does not exist or belongs to another worker.
    """
    key = (row.agent_name, row.task_id, row.config_id)
    existing = records.get(WEBHOOKS, *key)
    if existing is None or existing.worker != worker:
        return None
    if existing.body != row.body:  # replaced meanwhile: the answer was that of the receiver before
        failure, is_complete = None, False
    if failure is not None:
        records.put(WEBHOOK_FAILURES, failure)
    elif is_complete:
        records.delete(WEBHOOK_FAILURES, *key)
    return _put(records, replace(existing, cursor=max(existing.cursor, cursor), done=existing.done or done))


def _put(records: Records, row: PushRow) -> PushRow:
    is_finished = records.is_finished(row.task_id, row.cursor)
    if is_finished is None:
        raise _not_found_error(row.task_id)
    return records.put(WEBHOOKS, replace(row, done=row.done or is_finished))


def _not_found_error(task_id: str) -> TaskNotFoundError:
    return TaskNotFoundError(f"task {task_id} is not in the store", task_id=task_id)


def webhooks_of(
    records: Records, agent_name: str, task_id: str, *, after: tuple[int, str] | None = None, limit: int = 100
) -> list[PushRow]:
    """Return the rows of a task, oldest first, at most `limit`. `after` is the creation time and config id of the last one read."""
    return records.select(WEBHOOKS, {"agent_name": agent_name, "task_id": task_id}, after=after, limit=limit)


def failures_of(records: Records, rows: Iterable[PushRow]) -> list[WebhookFailure]:
    """Return the failures of these webhooks."""
    found = (records.get(WEBHOOK_FAILURES, row.agent_name, row.task_id, row.config_id) for row in rows)
    return [failure for failure in found if failure is not None]


def delete_webhook(records: Records, agent_name: str, task_id: str, config_id: str) -> bool:
    """Delete a row and its failure. Returns whether the row existed."""
    records.delete(WEBHOOK_FAILURES, agent_name, task_id, config_id)
    return records.delete(WEBHOOKS, agent_name, task_id, config_id) > 0


class WebhookRows:
    """The rows of one agent. Each method raises StoreError if the store fails; then nothing has changed."""

    def __init__(self, agent_name: str, store: TaskStore) -> None:
        self._agent_name = agent_name
        self._store = store

    async def open(self) -> None:
        """Open the store until `close`, independently of the service."""
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()

    @property
    def worker(self) -> str:
        """The worker id of this process."""
        return self._store.worker

    @property
    def is_shared(self) -> bool:
        """Whether other processes may have rows of the same agent."""
        return self._store.shared

    async def put(self, row: PushRow) -> PushRow:
        """See `put_webhook`."""
        return await self._store.change(lambda records: put_webhook(records, row))

    async def get(self, task_id: str, config_id: str) -> PushRow | None:
        """Return one row, or None."""
        return await self._store.view(lambda records: records.get(WEBHOOKS, self._agent_name, task_id, config_id))

    async def of_task(self, task_id: str, *, after: tuple[int, str] | None = None, limit: int = 100) -> list[PushRow]:
        """See `webhooks_of`."""
        return await self._store.view(
            lambda records: webhooks_of(records, self._agent_name, task_id, after=after, limit=limit)
        )

    async def delete(self, task_id: str, config_id: str) -> bool:
        """Delete a row. Returns whether it existed."""
        return await self._store.change(lambda records: delete_webhook(records, self._agent_name, task_id, config_id))

    async def wait_event(self, task_id: str, after: int) -> None:
        """Wait until the task's log has a sequence > `after`. May return early.

        Raises:
            TaskNotFoundError: The task was deleted.
        """
        await self._store.wait(task_id, after)
        if await self._store.head(task_id) is None:
            raise _not_found_error(task_id)

    async def advance(
        self,
        row: PushRow,
        cursor: int,
        *,
        done: bool = False,
        failure: WebhookFailure | None = None,
        is_complete: bool = False,
    ) -> PushRow | None:
        """See `advance_webhook`; for rows of this process."""
        worker = self._store.worker
        return await self._store.change(
            lambda records: advance_webhook(
                records, row, worker, cursor, done=done, failure=failure, is_complete=is_complete
            )
        )

    async def claim(self) -> list[PushRow]:
        """Claim the unfinished rows whose process has ended, oldest first."""
        return await self._store.claim(WEBHOOKS, self._agent_name)

    async def release(self) -> None:
        """Give up the rows of this process."""
        await self._store.release_claims(WEBHOOKS, self._agent_name)
