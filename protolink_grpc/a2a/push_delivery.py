"""One webhook being told about one task: read the log after the cursor, post in order, move the cursor. Nobody registers here.

A delivery is a reader like any other. It costs the writer nothing, it falls behind alone, and what it has done is on disk: after a
crash the next process goes on at the cursor. So a notification arrives at least once, and after the ones before it; it arrives
twice only where a process ended between an answer and the note of it.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar, cast
from weakref import WeakValueDictionary

from protolink_grpc.a2a.push_post import Answer, Post
from protolink_grpc.a2a.push_targets import parse_target
from protolink_grpc.a2a.values import PushConfig, Rendered
from protolink_grpc.auth.principal import TENANT_MARK
from protolink_grpc.errors import ProtolinkError, TaskNotFoundError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.store.port import PushRow, TaskStore

T = TypeVar("T")
log = get_logger(__name__)

Render = Callable[[str, str, str, int], Awaitable[Rendered]]
"""Version, owner, task id and position to what comes next: a bounded piece, not all of a long log."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long an attempt is repeated.

    Args:
        give_up_s: Age at which a notification that nobody accepts is left out, counted from when it was due.
        first_s, longest_s: The first pause, and the one that is never doubled; each is shortened by chance, down to its half.
        now, sleep, chance: Time and dice; tests bring their own.
    """

    give_up_s: float = 3600.0
    first_s: float = 0.5
    longest_s: float = 60.0
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    def pause_s(self, failures: int) -> float:
        """How long to wait after so many failures in a row, from 1."""
        # The exponent is bounded: after weeks it would be more than a float can hold.
        longest: float = min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 64))
        return longest * (0.5 + 0.5 * self.chance())


class Slots:
    """Bounds the attempts under way at once: all of them, and those of one principal to a quarter, so that receivers who never
    answer keep nobody waiting but those who named them."""

    def __init__(self, most: int) -> None:
        self._all = asyncio.Semaphore(most)
        self._share = max(1, most // 4)
        # Kept by who waits for one, or has one.
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def taken(self, owner: str) -> AsyncIterator[None]:
        """One attempt for that owner; its tenants share what it has."""
        principal = owner.partition(TENANT_MARK)[0]
        share = self._shares.setdefault(principal, asyncio.Semaphore(self._share))
        async with share, self._all:
            yield


@dataclass(slots=True)
class Means:
    """What the deliveries of an agent share."""

    store: TaskStore
    render: Render
    post: Callable[[Post], Awaitable[Answer]]
    patience: Patience
    slots: Slots


class Delivery:
    """The reader of one task's log for one webhook.

    Attributes:
        position: Sequence up to which everything was dealt with.
        is_failing: The last attempt was refused; the next one is a pause away.
        has_ended: Nothing is to be done any more, or not by this worker.
    """

    __slots__ = ("_means", "_moved", "_row", "has_ended", "is_failing", "position", "task")

    def __init__(self, row: PushRow, means: Means) -> None:
        self._row = row
        self._means = means
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

    async def reached(self, sequence: int) -> None:
        """Return when everything up to there was dealt with, or when waiting for it makes no sense."""
        while self.position < sequence and not self.is_failing and not self.has_ended:
            if self._moved is None:
                self._moved = asyncio.Event()
            await self._moved.wait()

    def _move(self) -> None:
        moved, self._moved = self._moved, None
        if moved is not None:
            moved.set()

    async def _run(self) -> None:
        try:
            while not await self._catch_up():
                await self._steadily(lambda: self._means.store.wait(self._row.task_id, self.position))
        except _LostError:
            log.debug("push config %r of task %s is not ours any more", self._row.config_id, self._row.task_id)
        except Exception:  # nobody awaits this: it would be lost without a word
            log.exception("push config %r of task %s: delivery ended", self._row.config_id, self._row.task_id)
        finally:
            self.has_ended = True
            self._move()

    async def _catch_up(self) -> bool:
        """Deal with all that the log has; whether nothing will ever follow."""
        while True:
            piece = await self._steadily(self._read)
            if piece.sequence <= self.position:
                return False
            due, told = self._means.patience.now(), piece.notifications
            # Before the next notification, all but its own event was dealt with.
            ends = [*(sequence - 1 for sequence, _ in told[1:]), piece.sequence]
            for (_, body), end in zip(told, ends, strict=False):
                await self._deliver(body, due)
                await self._advance(end)
            await self._advance(piece.sequence)
            if self._row.done:
                return True

    async def _read(self) -> Rendered:
        row = self._row
        return await self._means.render(_body(row)["version"], row.principal, row.task_id, self.position)

    async def _advance(self, sequence: int) -> None:
        if sequence <= self.position:
            return
        self._row = self._checked(await self._steadily(lambda: self._means.store.advance_push(self._row, sequence)))
        self.position = sequence
        self._move()

    async def _deliver(self, body: bytes, due: float) -> None:
        """Post until it is accepted, or given up."""
        patience, failures = self._means.patience, 0
        while True:
            answer = await self._attempt(body)
            if answer.delivered:
                self.is_failing = False
                return
            failures += 1
            left_s = due + patience.give_up_s - patience.now()
            if answer.gone or left_s <= 0:
                self._give_up(failures, answer.why)
                return
            if failures == 1:
                log.info("push config %r of task %s: %s", self._row.config_id, self._row.task_id, answer.why)
            self.is_failing = True
            self._move()
            await patience.sleep(min(max(patience.pause_s(failures), answer.retry_after_s), left_s))

    async def _attempt(self, body: bytes) -> Answer:
        means = self._means
        async with means.slots.taken(self._row.principal):
            # Asked each time: it may have been deleted, replaced or taken over while this one waited.
            row = self._row
            found = await self._steadily(lambda: means.store.push(row.agent_name, row.task_id, row.config_id))
            self._row = self._checked(found)
            config, version = config_of(self._row), _body(self._row)["version"]
            try:
                return await means.post(Post(config, version, body))
            except Exception as error:  # one receiver's peculiarity must not end what it is told
                log.exception("push config %r of task %s: attempt failed", row.config_id, row.task_id)
                return Answer(False, type(error).__name__)

    def _give_up(self, failures: int, why: str) -> None:
        row = self._row
        log.warning(
            "push config %r of task %s: a notification to %s is left out after %d attempts: %s",
            row.config_id,
            row.task_id,
            parse_target(config_of(row).url),
            failures,
            why,
        )

    def _checked(self, row: PushRow | None) -> PushRow:
        if row is None or row.worker != self._means.store.worker:
            raise _LostError
        return row

    async def _steadily(self, verb: Callable[[], Awaitable[T]]) -> T:
        """What the store, or a reading of it, answers; while it cannot, try again."""
        patience, failures = self._means.patience, 0
        while True:
            try:
                return await verb()
            except TaskNotFoundError:
                raise _LostError from None  # a store in memory forgets the oldest
            except Exception as error:  # a fault of today is no reason to lose what is due
                failures += 1
                known = isinstance(error, ProtolinkError)
                log.warning("push of task %s: will try again: %r", self._row.task_id, error, exc_info=not known)
            await patience.sleep(patience.pause_s(failures))


class _LostError(Exception):
    """The row is deleted, or another worker's."""


def body_of(config: PushConfig, version: str) -> bytes:
    """A config as the store keeps it; what the row says itself is left out."""
    kept = {"url": config.url, "token": config.token, "scheme": config.scheme, "credentials": config.credentials}
    return to_json({**kept, "tenant": config.tenant, "version": version}).encode()


def _body(row: PushRow) -> dict[str, str]:
    return cast(dict[str, str], from_json(row.body))  # written by `body_of`


def config_of(row: PushRow) -> PushConfig:
    body = _body(row)
    del body["version"]
    return PushConfig(id=row.config_id, task_id=row.task_id, **body)
