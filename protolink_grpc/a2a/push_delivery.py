"""The delivery of one task's notifications to one webhook: reads the log after the cursor, posts in order, moves the cursor.

A delivery is an ordinary reader of the log: it does not slow down the writer or other readers. Its cursor is stored, so after a
crash the next process continues there. A notification arrives at least once and in order; it arrives twice only if a process ends
between the receiver's response and the update of the cursor. One that is given up is skipped, which is stored with the cursor.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar, cast
from weakref import WeakValueDictionary

from protolink_grpc.a2a.push_post import Notification, PostResult
from protolink_grpc.a2a.push_targets import parse_target
from protolink_grpc.a2a.values import V03, NotificationBatch
from protolink_grpc.auth.principal import TENANT_MARK
from protolink_grpc.errors import ProtolinkError, TaskNotFoundError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.models.push_config import PushConfig
from protolink_grpc.net.exponential_delay import ExponentialDelay
from protolink_grpc.storage.webhooks import PushRow, WebhookFailure, WebhookRows

T = TypeVar("T")
log = get_logger(__name__)

Render = Callable[[str, str, str, int], Awaitable[NotificationBatch]]
"""From version, owner, task id and position to the next notifications, for a bounded piece of the log."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retry policy with exponential backoff and jitter.

    Args:
        give_up_s: Age in seconds, counted from when it was due, at which a notification that was never accepted is given up.
        first_s, longest_s: First and longest pause in seconds. Pauses double; jitter shortens each to at least its half.
        now, sleep, chance: Clock, sleep and random numbers in [0, 1); tests replace them.
    """

    give_up_s: float = 3600.0
    first_s: float = 0.5
    longest_s: float = 60.0
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    def delay(self) -> ExponentialDelay:
        """Return the pauses after failures in a row."""
        return ExponentialDelay(self.first_s, self.longest_s, chance=self.chance)


class AttemptSlots:
    """Limits concurrent attempts: all together to `most`, and those of one principal to a quarter of it.

    So receivers that never respond delay only the principals that registered them.
    """

    def __init__(self, most: int) -> None:
        self._all = asyncio.Semaphore(most)
        self._share = max(1, most // 4)
        # An entry exists as long as an attempt holds a slot or waits for one.
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, owner: str) -> AsyncIterator[None]:
        """Hold a slot for one attempt of that owner. All tenants of a principal share its slots."""
        principal = owner.partition(TENANT_MARK)[0]
        share = self._shares.setdefault(principal, asyncio.Semaphore(self._share))
        async with share, self._all:
            yield


@dataclass(slots=True)
class DeliveryContext:
    """The dependencies that the deliveries of an agent share."""

    rows: WebhookRows
    render: Render
    post: Callable[[Notification], Awaitable[PostResult]]
    retry_policy: RetryPolicy
    slots: AttemptSlots


class Delivery:
    """The reader of one task's log for one webhook.

    Attributes:
        position: Sequence up to which all events are processed.
        is_failing: The last attempt failed.
        has_ended: The delivery is finished, or another worker has taken it over.
    """

    __slots__ = ("_context", "_moved", "_row", "has_ended", "is_failing", "position", "task")

    def __init__(self, row: PushRow, context: DeliveryContext) -> None:
        self._row = row
        self._context = context
        self._moved: asyncio.Event | None = None
        self.position = row.cursor
        self.is_failing = False
        self.has_ended = False
        self.task: asyncio.Task[None] | None = None

    def start(self, on_end: Callable[["Delivery"], None]) -> None:
        self.task = asyncio.get_running_loop().create_task(self._run())
        self.task.add_done_callback(lambda _: on_end(self))

    @property
    def key(self) -> tuple[str, str]:
        """Task and config id."""
        return self._row.task_id, self._row.config_id

    async def wait_until(self, sequence: int) -> None:
        """Return when all events up to `sequence` are processed, or when the delivery is failing or has ended."""
        while self.position < sequence and not self.is_failing and not self.has_ended:
            if self._moved is None:
                self._moved = asyncio.Event()
            await self._moved.wait()

    def _notify(self) -> None:
        moved, self._moved = self._moved, None
        if moved is not None:
            moved.set()

    async def _run(self) -> None:
        try:
            while not await self._catch_up():
                await self._retry(lambda: self._context.rows.wait_event(self._row.task_id, self.position))
        except _LostError:
            log.debug("push config %r of task %s: deleted or taken over", self._row.config_id, self._row.task_id)
        except Exception:  # this task is never awaited, so the error would be lost
            log.exception("push config %r of task %s: delivery ended", self._row.config_id, self._row.task_id)
        finally:
            self.has_ended = True
            self._notify()

    async def _catch_up(self) -> bool:
        """Process all events in the log and return whether the webhook is done, so that no more can follow."""
        while True:
            piece = await self._retry(self._read)
            if piece.sequence <= self.position and not piece.is_last:
                return False
            due, notifications = self._context.retry_policy.now(), piece.notifications
            # After a notification, the cursor moves to the event just before that of the next notification.
            ends = [*(sequence - 1 for sequence, _ in notifications[1:]), piece.sequence]
            for (sequence, body), end in zip(notifications, ends, strict=False):
                failure = await self._deliver(sequence, body, due)
                await self._advance(end, failure=failure, is_complete=self._has_whole_tasks and failure is None)
            await self._advance(piece.sequence, done=piece.is_last)
            if self._row.done:
                return True

    async def _read(self) -> NotificationBatch:
        row = self._row
        return await self._context.render(_decode_body(row)["version"], row.principal, row.task_id, self.position)

    @property
    def _has_whole_tasks(self) -> bool:
        """Whether a notification is the whole task, and so contains what the receiver missed."""
        return _decode_body(self._row)["version"] == V03

    async def _advance(
        self, sequence: int, *, done: bool = False, failure: WebhookFailure | None = None, is_complete: bool = False
    ) -> None:
        if sequence <= self.position and not done and failure is None:
            return
        advanced = await self._retry(
            lambda: self._context.rows.advance(self._row, sequence, done=done, failure=failure, is_complete=is_complete)
        )
        self._row = self._require_own(advanced)
        self.position = max(self.position, sequence)
        self._notify()

    async def _deliver(self, sequence: int, body: bytes, due: float) -> WebhookFailure | None:
        """Post a notification until it is accepted (None) or given up."""
        retry_policy, failures = self._context.retry_policy, 0
        delay = retry_policy.delay()
        while True:
            result = await self._attempt(body)
            if result.delivered:
                self.is_failing = False
                return None
            failures += 1
            left_s = due + retry_policy.give_up_s - retry_policy.now()
            if result.gone or left_s <= 0:
                return self._give_up(sequence, failures, result.why)
            if failures == 1:
                log.info("push config %r of task %s: %s", self._row.config_id, self._row.task_id, result.why)
            self.is_failing = True
            self._notify()
            await retry_policy.sleep(min(max(delay.next_s(), result.retry_after_s), left_s))

    async def _attempt(self, body: bytes) -> PostResult:
        context = self._context
        async with context.slots.hold(self._row.principal):
            # The row is read each time: it may have been deleted, replaced or taken over during the wait.
            row = self._row
            found = await self._retry(lambda: context.rows.get(row.task_id, row.config_id))
            self._row = self._require_own(found)
            config, version = config_of(self._row), _decode_body(self._row)["version"]
            try:
                return await context.post(Notification(config, version, body))
            except Exception as error:  # an unexpected error of one attempt must not end the delivery
                log.exception("push config %r of task %s: attempt failed", row.config_id, row.task_id)
                return PostResult(False, type(error).__name__)

    def _give_up(self, sequence: int, failures: int, why: str) -> WebhookFailure:
        row = self._row
        log.warning(
            "push config %r of task %s: event %d is not delivered to %s, attempts: %d, %s",
            row.config_id,
            row.task_id,
            sequence,
            parse_target(config_of(row).url),
            failures,
            why,
        )
        return WebhookFailure(row.agent_name, row.task_id, row.config_id, sequence, time.time_ns() // 1000, why)

    def _require_own(self, row: PushRow | None) -> PushRow:
        if row is None or row.worker != self._context.rows.worker:
            raise _LostError
        return row

    async def _retry(self, verb: Callable[[], Awaitable[T]]) -> T:
        """Call `verb` and return its result; on an error, retry after a pause.

        Raises:
            _LostError: The task does not exist any more.
        """
        retry_policy = self._context.retry_policy
        delay = retry_policy.delay()
        while True:
            try:
                return await verb()
            except TaskNotFoundError:
                raise _LostError from None  # a memory store drops its oldest tasks
            except Exception as error:  # a temporary fault must not lose due notifications
                known = isinstance(error, ProtolinkError)
                log.warning("push of task %s: will retry: %r", self._row.task_id, error, exc_info=not known)
            await retry_policy.sleep(delay.next_s())


class _LostError(Exception):
    """The row is deleted or belongs to another worker."""


def encode_body(config: PushConfig, version: str) -> bytes:
    """Return the stored form of a config, without the fields that the row has as columns."""
    kept = {"url": config.url, "token": config.token, "scheme": config.scheme, "credentials": config.credentials}
    return to_json({**kept, "tenant": config.tenant, "version": version}).encode()


def _decode_body(row: PushRow) -> dict[str, str]:
    return cast(dict[str, str], from_json(row.body))  # written by `encode_body`


def config_of(row: PushRow) -> PushConfig:
    body = _decode_body(row)
    del body["version"]
    return PushConfig(id=row.config_id, task_id=row.task_id, **body)
