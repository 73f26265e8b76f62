"""Webhooks with receivers in this process: order, position, retries, flushes, and hidden secrets."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.a2a.push import NotificationBatch, PushOptions, Webhooks
from protolink_grpc.a2a.push_delivery import RetryPolicy
from protolink_grpc.a2a.push_post import Notification, PostResult, retry_after_s
from protolink_grpc.a2a.values import V03, V1
from protolink_grpc.auth.principal import owner_of
from protolink_grpc.errors import (
    InvalidArgumentError,
    ResourceExhaustedError,
    StoreError,
    TaskNotFoundError,
    UnavailableError,
)
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.push_config import PushConfig
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.storage.memory import MemoryStore
from protolink_grpc.storage.port import Append, TaskHead, TaskStore
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.sqlite.store import SQLiteStore
from protolink_grpc.storage.webhooks import WEBHOOKS, PushRow, WebhookFailure, failures_of, webhooks_of

PATIENCE_S = 20.0
"""How long something that must happen may take; far more than it needs on a busy machine."""

YES, NO = PostResult(True, "HTTP 200"), PostResult(False, "HTTP 500")
URL = "https://receiver.test/hook"


class Receiver:
    """Takes posts in place of a network.

    Attributes:
        answers: What to say next, by URL; without a word left it accepts.
        seen: Accepted bodies by URL, in order.
        attempts: URL and body of every attempt.
        gate: Closed, no attempt gets an answer.
    """

    def __init__(self) -> None:
        self.answers: dict[str, list[PostResult | Exception]] = {}
        self.seen: dict[str, list[str]] = {}
        self.attempts: list[tuple[str, str]] = []
        self.posts: list[Notification] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.at_once = self.most_at_once = 0
        self._news = asyncio.Condition()

    async def post(self, post: Notification) -> PostResult:
        url = post.config.url
        self.attempts.append((url, post.body.decode()))
        self.posts.append(post)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self._tell()
        try:
            await self.gate.wait()
        finally:
            self.at_once -= 1
        left = self.answers.get(url)
        answer = left.pop(0) if left else YES
        if isinstance(answer, Exception):
            raise answer
        if answer.delivered:
            self.seen.setdefault(url, []).append(post.body.decode())
        await self._tell()
        return answer

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def until(self, claim: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(claim)

    async def has(self, *bodies: str, url: str = URL) -> None:
        """Wait until exactly that was accepted."""
        await self.until(lambda: len(self.seen.get(url, ())) >= len(bodies))
        assert self.seen[url] == list(bodies)


class Time:
    """A clock that advances only during sleeps; `slept` has their durations. While `stopped`, no sleep ends."""

    def __init__(self) -> None:
        self.at = 0.0
        self.slept: list[float] = []
        self.asleep = asyncio.Event()
        self.runs = asyncio.Event()
        self.runs.set()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.asleep.set()
        await self.runs.wait()
        self.at += seconds
        await asyncio.sleep(0)

    def patience(self, **known: Any) -> RetryPolicy:
        return RetryPolicy(now=lambda: self.at, sleep=self.sleep, chance=lambda: 1.0, **known)


async def idle(task: Task, run: Run) -> Task:
    return task


async def public(host: str, port: int) -> Sequence[str]:
    return ["8.8.8.8"]


class Ticks:
    """The times at which webhooks look for those of dead processes: when the test says so."""

    def __init__(self) -> None:
        self._due, self._asleep = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def sleep(self, seconds: float) -> None:
        self._asleep.release()
        await self._due.acquire()

    async def tick(self) -> None:
        """Let them look once, and wait until they have."""
        await self._asleep.acquire()
        self._due.release()
        await self._asleep.acquire()
        self._asleep.release()


class Scene:
    """Webhooks over a store, whose logs are written here: a frame is a notification, `a|b` two of them, `-` none."""

    def __init__(self, store: TaskStore) -> None:
        self.store = store
        self.receiver = Receiver()
        self.time = Time()
        self.lengths: dict[str, int] = {}
        self.rendered: list[tuple[str, str, str, int]] = []
        self.piece = 256
        self.last: int | None = None  # the last event for webhooks, if the task continues without them

    def webhooks(self, options: PushOptions | None = None, ticks: "Ticks | None" = None, **patience: Any) -> Webhooks:
        return Webhooks(
            TaskService("agent", self.store, idle, limits=Limits(lease_ttl_s=60.0)),
            options or PushOptions(),
            self.render,
            retry_policy=self.time.patience(**patience),
            resolve=public,
            post=self.receiver.post,
            sleep=(ticks or Ticks()).sleep,
        )

    async def render(self, version: str, owner: str, task_id: str, after: int) -> NotificationBatch:
        self.rendered.append((version, owner, task_id, after))
        if after == self.last:
            return NotificationBatch((), after, is_last=True)
        size = self.piece if self.last is None else min(self.piece, self.last - after)
        frames = await self.store.read(task_id, after, size)
        told = [
            (sequence, body)
            for sequence, frame in enumerate(frames, after + 1)
            for body in frame.split(b"|")
            if frame != b"-"
        ]
        return NotificationBatch(told, after + len(frames))

    async def happens(self, *frames: str, task_id: str = "task", state: TaskState = TaskState.WORKING) -> None:
        after = self.lengths.get(task_id, 0)
        self.lengths[task_id] = after + len(frames)
        head = TaskHead(task_id, "ada", "agent", task_id, state, after + len(frames), "run", 1, 1 + after)
        await self.store.append(Append(head, [frame.encode() for frame in frames], after, 0))

    async def row(self, config_id: str, task_id: str = "task") -> PushRow:
        row = await self.store.view(lambda records: records.get(WEBHOOKS, "agent", task_id, config_id))
        assert row is not None
        return row

    async def failure(self) -> WebhookFailure | None:
        """The failure of the webhook `hook`."""
        row = await self.row("hook")
        return next(iter(await self.store.view(lambda records: failures_of(records, [row]))), None)


@pytest.fixture
async def scene(store: TaskStore) -> AsyncIterator[Scene]:
    await store.open()
    await store.heartbeat(60.0)
    yield Scene(store)
    await store.close()


@asynccontextmanager
async def running(webhooks: Webhooks, grace_s: float = 0.0) -> AsyncIterator[Webhooks]:
    await webhooks.start()
    try:
        yield webhooks
    finally:
        await webhooks.stop(grace_s)


def hook(config_id: str = "hook", **known: Any) -> PushConfig:
    return replace(PushConfig(URL, config_id, "task"), **known)


# -- registration --------------------------------------------------------------------------------------------------------


async def test_a_webhook_is_found_as_it_was_registered_and_gets_an_id_where_it_has_none(scene: Scene) -> None:
    await scene.happens("one")
    async with running(scene.webhooks()) as webhooks:
        config = hook("", token="t", scheme="Bearer", credentials="c", tenant="acme")
        added = await webhooks.add("ada", config, 1, V1)
        assert added.id
        assert added == replace(config, id=added.id)
        assert await webhooks.get("ada", "task", added.id) == added
        assert await webhooks.page("ada", "task", 10) == ([added], None)
        assert await webhooks.get("bob", "task", added.id) is None
        assert await webhooks.page("bob", "task", 10) == ([], None)
        assert await webhooks.get("ada", "task", "other") is None


async def test_webhooks_are_listed_in_pages_oldest_first(scene: Scene) -> None:
    await scene.happens("one")
    async with running(scene.webhooks()) as webhooks:
        made = [await webhooks.add("ada", hook(name), 1, V1) for name in ("c", "a", "b")]
        first, following = await webhooks.page("ada", "task", 2)
        assert following is not None
        second, end = await webhooks.page("ada", "task", 2, following)
        assert (first + second, end) == (made, None)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (hook(url="http://127.0.0.1/"), "url"),
        (hook(url="nonsense"), "url"),
        (hook(url="http://user:pw@receiver.test/"), "url"),
        (hook(token="a\r\nX: b"), "token"),
        (hook(token="ключ"), "token"),
        (hook(scheme="Bear er", credentials="c"), "authentication.scheme"),
        (hook(scheme="Bearer", credentials="c\n"), "authentication.credentials"),
        (hook("x" * 129), "id"),
        (hook("a\nb"), "id"),
    ],
)
async def test_what_cannot_be_posted_is_refused_by_field_and_not_registered(config: PushConfig, field: str) -> None:
    scene = Scene(MemoryStore())
    webhooks = Webhooks(TaskService("agent", scene.store, idle), PushOptions(), scene.render, post=scene.receiver.post)
    async with running(webhooks):
        await scene.happens("one")
        for refusing in (webhooks.check(config), webhooks.add("ada", config, 0, V1)):
            with pytest.raises(InvalidArgumentError) as refused:
                await refusing
            assert refused.value.field == field
            assert "pw" not in str(refused.value)
        assert await webhooks.page("ada", "task", 10) == ([], None)


async def test_a_task_has_so_many_webhooks_and_no_more(scene: Scene) -> None:
    await scene.happens("one")
    async with running(scene.webhooks(PushOptions(max_per_task=2))) as webhooks:
        for name in ("a", "b", "a"):
            await webhooks.add("ada", hook(name), 1, V1)
        with pytest.raises(ResourceExhaustedError):
            await webhooks.add("ada", hook("c"), 1, V1)
        await webhooks.remove("ada", "task", "a")
        await webhooks.add("ada", hook("c"), 1, V1)


async def test_a_webhook_of_no_task_is_refused(scene: Scene) -> None:
    async with running(scene.webhooks()) as webhooks:
        with pytest.raises(TaskNotFoundError):
            await webhooks.add("ada", hook(), 0, V1)


async def test_webhooks_that_do_not_run_register_nothing(scene: Scene) -> None:
    await scene.happens("one")
    webhooks = scene.webhooks()
    with pytest.raises(UnavailableError):
        await webhooks.add("ada", hook(), 0, V1)
    async with running(webhooks):
        await webhooks.start()
    with pytest.raises(UnavailableError):
        await webhooks.add("ada", hook(), 0, V1)
    await webhooks.stop()
    assert await scene.store.view(lambda records: webhooks_of(records, "agent", "task")) == []


async def test_a_webhook_is_registered_although_its_caller_hangs_up(scene: Scene) -> None:
    await scene.happens("one")
    async with running(scene.webhooks()) as webhooks:
        caller = asyncio.create_task(webhooks.add("ada", hook(), 0, V1))
        while not webhooks._puts:  # the one sign that it has been accepted and is not done
            await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])
        assert caller.cancelled()
        await scene.receiver.has("one")


# -- delivery ------------------------------------------------------------------------------------------------------------


async def test_what_happens_after_the_position_is_told_in_order_and_once(scene: Scene) -> None:
    await scene.happens("one", "two")
    async with running(scene.webhooks()) as webhooks:
        await webhooks.add("ada", hook(), 1, V1)
        await scene.receiver.has("two")
        for step in range(3, 8):
            await scene.happens(f"{step}")
        await scene.happens("8", "9")
        await scene.receiver.has("two", *map(str, range(3, 10)))


@pytest.mark.parametrize("piece", [1, 2, 256])
async def test_events_that_tell_nothing_are_passed_and_events_that_tell_twice_are_told_twice(
    scene: Scene, piece: int
) -> None:
    scene.piece = piece
    await scene.happens("-", "a|b", "-", "c", "-", "d|e|f", "-")
    async with running(scene.webhooks()) as webhooks:
        await webhooks.add("ada", hook(), 0, V1)
        await webhooks.flush("task", PATIENCE_S)
        assert scene.receiver.seen[URL] == list("abcdef")
        assert (await scene.row("hook")).cursor == 7


async def test_the_version_and_the_owner_reach_the_reading_and_the_version_the_post(scene: Scene) -> None:
    await scene.happens("one")
    async with running(scene.webhooks()) as webhooks:
        for name, asked in (("new", "1.0.1"), ("old", "0.3.0"), ("older", "0.3")):
            await webhooks.add("ada", hook(name), 0, asked)
        await webhooks.flush("task", PATIENCE_S)
    assert {post.config.id: post.version for post in scene.receiver.posts} == {"new": V1, "old": V03, "older": V03}
    assert {(version, owner) for version, owner, _, _ in scene.rendered} == {(V1, "ada"), (V03, "ada")}


async def test_webhooks_of_one_task_do_not_wait_for_each_other(scene: Scene) -> None:
    scene.time.runs.clear()
    bad = "https://bad.test/hook"
    scene.receiver.answers[bad] = [NO]
    await scene.happens("one", "two")
    async with running(scene.webhooks()) as webhooks:
        await webhooks.add("ada", hook("bad", url=bad), 0, V1)
        await webhooks.add("ada", hook("good"), 0, V1)
        await scene.receiver.has("one", "two")
        assert bad not in scene.receiver.seen
        scene.time.runs.set()
        await scene.receiver.has("one", "two", url=bad)


async def test_a_webhook_is_done_after_its_last_notification_although_the_task_continues(scene: Scene) -> None:
    scene.last = 2
    await scene.happens("one", "two", "three")
    async with running(scene.webhooks()) as webhooks:
        await webhooks.add("ada", hook(), 0, V1)
        await webhooks.flush("task", PATIENCE_S)
        row = await scene.row("hook")
        assert (row.cursor, row.done) == (2, True)
    assert scene.receiver.seen[URL] == ["one", "two"]
    scene.rendered.clear()
    async with running(scene.webhooks()) as webhooks:
        await webhooks.flush("task", PATIENCE_S)
    assert scene.rendered == []


async def test_a_webhook_of_a_finished_task_is_kept_and_costs_nothing(scene: Scene) -> None:
    await scene.happens("one", "end", state=TaskState.COMPLETED)
    async with running(scene.webhooks()) as webhooks:
        added = await webhooks.add("ada", hook(), 2, V1)
        assert await webhooks.get("ada", "task", "hook") == added
        assert webhooks._deliveries == {}  # what is listed there is worked on
        await webhooks.add("ada", hook("late"), 1, V1)
        await scene.receiver.has("end")
    assert (await scene.row("late")).done


async def test_when_the_last_event_of_a_finished_task_was_told_its_webhook_rests(scene: Scene) -> None:
    await scene.happens("one")
    async with running(scene.webhooks()) as webhooks:
        await webhooks.add("ada", hook(), 0, V1)
        await scene.happens("end", state=TaskState.COMPLETED)
        await webhooks.flush("task", PATIENCE_S)
        assert (await scene.row("hook")).done
        while webhooks._deliveries:  # ends in the turn of the loop after the cursor moved
            await asyncio.sleep(0)
    again = scene.webhooks()
    async with running(again):
        assert again._deliveries == {}
        assert await again.get("ada", "task", "hook") is not None
    assert scene.receiver.seen[URL] == ["one", "end"]


async def test_so_many_attempts_are_under_way_at_once_and_no_more(scene: Scene) -> None:
    scene.receiver.gate.clear()
    await scene.happens("one")
    async with running(scene.webhooks(PushOptions(connections=3)), PATIENCE_S) as webhooks:
        for number in range(10):
            await webhooks.add(f"caller {number}", hook(f"hook {number}"), 0, V1)
        await scene.receiver.until(lambda: scene.receiver.at_once == 3)
        scene.receiver.gate.set()
        await webhooks.flush("task", PATIENCE_S)
        assert scene.receiver.seen[URL] == ["one"] * 10
    assert scene.receiver.most_at_once == 3


async def test_receivers_that_never_answer_keep_only_their_own_principal_waiting(scene: Scene) -> None:
    scene.receiver.gate.clear()
    await scene.happens("one")
    async with running(scene.webhooks(PushOptions(connections=8)), PATIENCE_S) as webhooks:
        for number in range(10):
            await webhooks.add(owner_of("eve", f"tenant {number}"), hook(f"hook {number}"), 0, V1)
        await scene.receiver.until(lambda: scene.receiver.at_once == 2)
        await webhooks.add("ada", hook("hers"), 0, V1)
        await scene.receiver.until(lambda: scene.receiver.at_once == 3)
        scene.receiver.gate.set()
        await webhooks.flush("task", PATIENCE_S)
    assert scene.receiver.most_at_once == 3


async def test_a_webhook_that_waits_reads_nothing(scene: Scene) -> None:
    await scene.happens("one", state=TaskState.INPUT_REQUIRED)
    async with running(scene.webhooks()) as webhooks:
        await webhooks.add("ada", hook(), 0, V1)
        await webhooks.flush("task", PATIENCE_S)
        for _ in range(3):
            await scene.store.head("task")
            await asyncio.sleep(0)
        reads = len(scene.rendered)
        for number in range(20):
            await scene.happens("other", task_id=f"other {number}")
        assert len(scene.rendered) == reads
        assert scene.time.slept == []
        await scene.happens("two")
        await scene.receiver.has("one", "two")


# -- failures ------------------------------------------------------------------------------------------------------------


async def test_a_receiver_that_recovers_gets_everything_in_order(scene: Scene) -> None:
    scene.receiver.answers[URL] = [NO, RuntimeError("odd"), NO, YES, NO, NO]
    await scene.happens("one", "two", "three")
    async with running(scene.webhooks()) as webhooks:
        await webhooks.add("ada", hook(), 0, V1)
        await scene.receiver.has("one", "two", "three")
    bodies = [body for _, body in scene.receiver.attempts]
    assert bodies == ["one"] * 4 + ["two"] * 3 + ["three"]


async def test_pauses_double_up_to_the_longest(scene: Scene) -> None:
    scene.receiver.answers[URL] = [NO] * 9
    await scene.happens("one")
    async with running(scene.webhooks(first_s=1.0, longest_s=30.0)) as webhooks:
        await webhooks.add("ada", hook(), 0, V1)
        await scene.receiver.has("one")
    assert scene.time.slept == [1, 2, 4, 8, 16, 30, 30, 30, 30]


async def test_a_receiver_that_asks_for_time_gets_it(scene: Scene) -> None:
    scene.receiver.answers[URL] = [PostResult(False, "HTTP 429", retry_after_s=90.0), NO]
    await scene.happens("one")
    async with running(scene.webhooks(first_s=1.0)) as webhooks:
        await webhooks.add("ada", hook(), 0, V1)
        await scene.receiver.has("one")
    assert scene.time.slept == [90, 2]


async def test_what_nobody_accepts_in_time_is_left_out_with_a_warning_and_the_rest_is_tried_once_each(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    refusing = hook(
        url="https://receiver.test/secret-path?key=secret", token="secret", scheme="Bearer", credentials="secret"
    )
    scene.receiver.answers[refusing.url] = [NO] * 100
    await scene.happens("one", "two")
    with caplog.at_level(logging.DEBUG):
        async with running(scene.webhooks(first_s=1.0, longest_s=40.0, give_up_s=100.0)) as webhooks:
            await webhooks.add("ada", refusing, 0, V1)
            await scene.receiver.until(lambda: "two" in [body for _, body in scene.receiver.attempts])
            while (await scene.row("hook")).cursor < 2:
                await asyncio.sleep(0)
            scene.receiver.answers[refusing.url] = []
            await scene.happens("three")
            await scene.receiver.has("three", url=refusing.url)
    assert scene.time.slept == [1, 2, 4, 8, 16, 32, 37]  # up to the hundredth second, not beyond
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert "https://receiver.test, " in warnings[0]
    assert "attempts: 8" in warnings[0]
    assert "secret" not in caplog.text


async def test_a_receiver_that_is_gone_is_asked_once_for_each_notification(scene: Scene) -> None:
    scene.receiver.answers[URL] = [PostResult(False, "HTTP 410", gone=True)] * 2
    await scene.happens("one", "two", "three")
    async with running(scene.webhooks()) as webhooks:
        await webhooks.add("ada", hook(), 0, V1)
        await scene.receiver.has("three")
        assert await webhooks.get("ada", "task", "hook") is not None
    assert scene.time.slept == []


@pytest.mark.parametrize(("version", "remains"), [(V1, True), (V03, False)])
async def test_what_was_given_up_is_recorded_until_the_receiver_has_the_whole_task(
    scene: Scene, version: str, remains: bool
) -> None:
    scene.receiver.answers[URL] = [NO, NO, PostResult(False, "HTTP 410", gone=True)]
    await scene.happens("one", "two", "three|three")
    async with running(scene.webhooks(first_s=1.0, give_up_s=1.0)) as webhooks:
        await webhooks.add("ada", hook(), 1, version)
        await scene.receiver.until(lambda: len(scene.receiver.attempts) == 4)
        while (await scene.row("hook")).cursor < 3:
            await asyncio.sleep(0)
        found = await scene.failure()
        if not remains:
            assert found is None
            return
        assert found is not None
        assert (found.task_id, found.config_id, found.sequence, found.error) == ("task", "hook", 2, "HTTP 410")
    async with running(scene.webhooks()):
        await scene.happens("four")
        await scene.receiver.has("three", "four")
        assert await scene.failure() == found


async def test_a_reading_that_fails_is_repeated_and_nothing_is_lost(scene: Scene) -> None:
    faults: list[Exception] = [StoreError("busy"), UnavailableError("stopped"), ValueError("odd")]
    whole = scene.render

    async def failing(version: str, owner: str, task_id: str, after: int) -> NotificationBatch:
        if faults and after:
            raise faults.pop(0)
        return await whole(version, owner, task_id, after)

    scene.render = failing  # type: ignore[method-assign]  # the reading of this scene
    await scene.happens("one")
    async with running(scene.webhooks()) as webhooks:
        await webhooks.add("ada", hook(), 0, V1)
        await scene.receiver.has("one")
        await scene.happens("two")
        await scene.receiver.has("one", "two")
    assert not faults


async def test_an_answer_that_cannot_be_noted_is_noted_later_and_not_asked_for_again() -> None:
    class Failing(MemoryStore):
        faults, changes = 2, 0

        async def change(self, work: Callable[[Records], Any]) -> Any:
            # The first one puts the webhook.
            self.changes += 1
            if 1 < self.changes <= 1 + self.faults:
                raise StoreError("disk full")
            return await super().change(work)

    scene = Scene(Failing())
    async with running(scene.webhooks()) as webhooks:
        await scene.happens("one", "two")
        await webhooks.add("ada", hook(), 0, V1)
        await scene.receiver.has("one", "two")
    assert [body for _, body in scene.receiver.attempts] == ["one", "two"]


# -- changes -------------------------------------------------------------------------------------------------------------


async def test_once_a_webhook_is_deleted_nothing_more_is_sent_to_it(scene: Scene) -> None:
    scene.time.runs.clear()
    scene.receiver.answers[URL] = [YES, NO]
    await scene.happens("one", "two", "three")
    async with running(scene.webhooks()) as webhooks:
        await webhooks.add("ada", hook(), 0, V1)
        async with asyncio.timeout(PATIENCE_S):
            await scene.time.asleep.wait()
        assert not await webhooks.remove("bob", "task", "hook")
        assert await webhooks.remove("ada", "task", "hook")
        assert not await webhooks.remove("ada", "task", "hook")
        assert webhooks._deliveries == {}  # the one that waited for its next attempt has ended
        scene.time.runs.set()
        await scene.happens("four")
        await webhooks.flush("task", PATIENCE_S)
    assert [body for _, body in scene.receiver.attempts] == ["one", "two"]


async def test_a_webhook_that_another_process_deletes_gets_nothing_more_from_here(scene: Scene) -> None:
    scene.receiver.gate.clear()
    await scene.happens("one", "two")
    async with running(scene.webhooks()) as webhooks:
        await webhooks.add("ada", hook(), 0, V1)
        await scene.receiver.until(lambda: scene.receiver.attempts)
        await scene.store.change(lambda records: records.delete(WEBHOOKS, "agent", "task", "hook"))
        scene.receiver.gate.set()
        async with asyncio.timeout(PATIENCE_S):
            while webhooks._deliveries:
                await asyncio.sleep(0)
    assert scene.receiver.seen[URL] == ["one"]


async def test_a_webhook_that_is_replaced_goes_on_at_its_new_address_at_once(scene: Scene) -> None:
    scene.time.runs.clear()
    scene.receiver.answers[URL] = [YES, NO]
    await scene.happens("one", "two", "three")
    async with running(scene.webhooks()) as webhooks:
        await webhooks.add("ada", hook(), 0, V1)
        async with asyncio.timeout(PATIENCE_S):
            await scene.time.asleep.wait()
        elsewhere = "https://elsewhere.test/"
        await webhooks.add("ada", hook(url=elsewhere, token="new"), 3, V1)
        await scene.receiver.has("two", "three", url=elsewhere)
        assert scene.receiver.posts[-1].config.token == "new"


# -- flushing ------------------------------------------------------------------------------------------------------------


async def test_a_flush_returns_when_all_that_is_due_was_accepted(scene: Scene) -> None:
    scene.receiver.gate.clear()
    await scene.happens("one")
    async with running(scene.webhooks()) as webhooks:
        for name in ("a", "b"):
            await webhooks.add("ada", hook(name), 0, V1)
        flushing = asyncio.create_task(webhooks.flush("task", PATIENCE_S))
        await scene.receiver.until(lambda: scene.receiver.at_once == 2)
        assert not flushing.done()
        scene.receiver.gate.set()
        await flushing
        assert scene.receiver.seen[URL] == ["one", "one"]
        await scene.happens("two", "three")
        await webhooks.flush("task", PATIENCE_S)
        assert sorted(scene.receiver.seen[URL]) == ["one", "one", "three", "three", "two", "two"]


async def test_a_flush_is_over_after_its_time(scene: Scene) -> None:
    scene.receiver.gate.clear()
    await scene.happens("one")
    async with running(scene.webhooks()) as webhooks:
        await webhooks.add("ada", hook(), 0, V1)
        async with asyncio.timeout(PATIENCE_S):
            await webhooks.flush("task", 0.01)
        assert scene.receiver.seen == {}


async def test_a_flush_does_not_wait_for_a_receiver_that_has_just_failed(scene: Scene) -> None:
    scene.time.runs.clear()
    scene.receiver.answers[URL] = [NO]
    await scene.happens("one")
    async with running(scene.webhooks()) as webhooks:
        await webhooks.add("ada", hook(), 0, V1)
        async with asyncio.timeout(PATIENCE_S):
            await webhooks.flush("task", 1000.0)
            await scene.time.asleep.wait()
            await webhooks.flush("task", 1000.0)
    assert scene.receiver.seen == {}


async def test_a_flush_of_a_task_without_webhooks_asks_nobody() -> None:
    class Untouched(MemoryStore):
        async def head(self, task_id: str) -> TaskHead | None:
            raise AssertionError("every blocking answer would pay for this")

    async with running(Scene(Untouched()).webhooks()) as webhooks:
        await webhooks.flush("task", 1.0)


# -- lives ---------------------------------------------------------------------------------------------------------------


async def test_a_stop_delivers_what_is_due_and_the_next_start_what_comes(scene: Scene) -> None:
    await scene.happens("one")
    webhooks = scene.webhooks()
    await webhooks.start()
    await webhooks.add("ada", hook(), 0, V1)
    await scene.happens("two")
    await webhooks.stop(PATIENCE_S)
    assert scene.receiver.seen[URL] == ["one", "two"]
    await scene.happens("three")
    assert scene.receiver.seen[URL] == ["one", "two"]
    async with running(webhooks):
        await scene.receiver.has("one", "two", "three")


async def test_what_a_stop_leaves_the_next_start_delivers(scene: Scene) -> None:
    scene.receiver.gate.clear()
    await scene.happens("one", "two")
    async with running(scene.webhooks()) as webhooks:
        await webhooks.add("ada", hook(), 0, V1)
        await scene.receiver.until(lambda: scene.receiver.attempts)
    scene.receiver.gate.set()
    async with running(scene.webhooks()):
        await scene.receiver.has("one", "two")


@asynccontextmanager
async def two_processes(path: Path) -> AsyncIterator[tuple[Scene, Scene]]:
    """The same file opened twice."""
    scenes = Scene(SQLiteStore(path)), Scene(SQLiteStore(path))
    for scene in scenes:
        await scene.store.open()
        await scene.store.heartbeat(60.0)
    scenes[1].lengths = scenes[0].lengths
    yield scenes
    for scene in scenes:
        await scene.store.close()


async def test_of_two_processes_one_delivers_and_the_other_takes_over_when_it_stops(tmp_path: Path) -> None:
    async with two_processes(tmp_path / "tasks.db") as (first, second):
        await first.happens("one")
        ticks = Ticks()
        theirs = second.webhooks(ticks=ticks)
        async with running(theirs):
            async with running(first.webhooks()) as webhooks:
                await webhooks.add("ada", hook(), 0, V1)
                await second.happens("two")
                await first.receiver.has("one", "two")
                await theirs.add("ada", hook("theirs", url="https://theirs.test/"), 2, V1)
                await first.happens("three")
                await second.receiver.has("three", url="https://theirs.test/")
                await first.receiver.has("one", "two", "three")
                await ticks.tick()
                assert URL not in second.receiver.seen
            await first.happens("four")
            await ticks.tick()
            await second.receiver.has("four")
            assert first.receiver.seen == {URL: ["one", "two", "three"]}


async def test_a_webhook_that_another_process_has_taken_gets_nothing_more_from_here(tmp_path: Path) -> None:
    async with two_processes(tmp_path / "tasks.db") as (silent, other):
        silent.time.runs.clear()
        silent.receiver.answers[URL] = [NO]
        await silent.happens("one")
        async with running(silent.webhooks()) as webhooks:
            await webhooks.add("ada", hook(), 0, V1)
            async with asyncio.timeout(PATIENCE_S):
                await silent.time.asleep.wait()
            await silent.store.heartbeat(-1.0)
            async with running(other.webhooks()):
                await other.receiver.has("one")
                silent.time.runs.set()
                while webhooks._deliveries:
                    await asyncio.sleep(0)
    assert len(silent.receiver.attempts) == 1


async def test_a_webhook_that_another_process_replaces_is_told_by_the_one_that_told_it(tmp_path: Path) -> None:
    async with two_processes(tmp_path / "tasks.db") as (first, second):
        await first.happens("one")
        async with running(first.webhooks()) as mine, running(second.webhooks()) as theirs:
            await mine.add("ada", hook(), 0, V1)
            await mine.flush("task", PATIENCE_S)
            await theirs.add("ada", hook(url="https://new.test/"), 1, V1)
            assert theirs._deliveries == {}
            await second.happens("two")
            await first.receiver.has("two", url="https://new.test/")
    assert second.receiver.attempts == []


async def test_a_start_that_fails_leaves_the_store_as_it_was() -> None:
    class Broken(MemoryStore):
        users = 0

        async def open(self) -> None:
            self.users += 1
            await super().open()

        async def close(self) -> None:
            self.users -= 1
            await super().close()

        async def claim(self, kind: Any, scope: str) -> list[Any]:
            raise StoreError("gone")

    store = Broken()
    webhooks = Scene(store).webhooks()
    with pytest.raises(StoreError):
        await webhooks.start()
    assert store.users == 0
    with pytest.raises(UnavailableError):
        await webhooks.add("ada", hook(), 0, V1)


# -- what the answer says ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        *[("0", 0), (" 120 ", 120), ("9" * 30, 999_999_999), ("-1", 0), ("1.5", 0), ("soon", 0), ("", 0), ("²", 0)],
        *[("Mon, 01 Jan 2001 00:00:00 GMT", 0), ("Mon, 99 Jan 2001 00:00:00 GMT", 0)],
    ],
)
def test_a_retry_after_is_seconds_or_a_date_and_anything_else_is_nothing(value: str, seconds: float) -> None:
    assert retry_after_s(value) == seconds


def test_a_date_to_retry_after_is_so_many_seconds_away() -> None:
    assert retry_after_s("Fri, 31 Dec 9999 23:59:59 GMT") > 1e9


@given(st.text())
def test_any_retry_after_is_read(value: str) -> None:
    assert retry_after_s(value) >= 0


# -- secrets -------------------------------------------------------------------------------------------------------------


async def test_nothing_that_is_kept_or_sent_shows_its_credentials(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    secret = hook(url=URL + "?key=sesame", token="sesame", scheme="Bearer", credentials="sesame")
    scene.receiver.answers[secret.url] = [NO, RuntimeError("odd"), PostResult(False, "x", gone=True)]
    await scene.happens("one")
    with caplog.at_level(logging.DEBUG):
        async with running(scene.webhooks()) as webhooks:
            await webhooks.add("ada", secret, 0, V1)
            await scene.happens("two")
            await scene.receiver.has("two", url=secret.url)
            shown = [repr(scene.receiver.posts[-1]), repr(await scene.row("hook")), repr(webhooks._deliveries)]
    assert "sesame" not in "".join(shown)
    assert "sesame" not in caplog.text
