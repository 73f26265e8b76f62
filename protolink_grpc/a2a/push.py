"""Push notifications: the webhooks of an agent's tasks, from registration to deletion.

A webhook is a row in the store: its config and a cursor in the task's log. A `Delivery` in one process moves the cursor; the row
names the worker of that process, as for tasks. Webhooks never delay the append of an event.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from protolink_grpc.a2a.options import PushOptions
from protolink_grpc.a2a.push_delivery import (
    AttemptSlots,
    Delivery,
    DeliveryContext,
    Render,
    RetryPolicy,
    config_of,
    encode_body,
)
from protolink_grpc.a2a.push_post import Notification, Poster, PostResult, check_header_values
from protolink_grpc.a2a.push_targets import PushTargets
from protolink_grpc.a2a.values import V03, V1, NotificationBatch
from protolink_grpc.errors import ResourceExhaustedError, StoreError, UnavailableError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.push_config import PushConfig
from protolink_grpc.net.checked_resolution import Resolve
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.storage.webhooks import PushRow
from protolink_grpc.wire.tasks import check_id

__all__ = ["NotificationBatch", "PushOptions", "Render", "Webhooks"]

log = get_logger(__name__)


class Webhooks:
    """The webhooks of one agent in one process. The calling code checks who may see a task.

    Args:
        render: Converts a piece of a log to notifications, by version of the protocol.
        retry_policy, resolve, post, sleep: Retries, name resolution, HTTP requests, and the wait between two looks for webhooks of
            dead processes; tests replace them.

    Raises:
        ValueError: `options.allow` has an entry that is not a network.
    """

    def __init__(
        self,
        service: TaskService,
        options: PushOptions,
        render: Render,
        *,
        retry_policy: RetryPolicy | None = None,
        resolve: Resolve | None = None,
        post: Callable[[Notification], Awaitable[PostResult]] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._service = service
        self._sleep = sleep
        self._rows = service.webhooks
        self._options = options
        self._targets = PushTargets(options.allow, resolve)
        self._poster = Poster(
            self._targets, timeout_s=options.timeout_s, connections=options.connections, tls=options.tls
        )
        self._context = DeliveryContext(
            self._rows,
            render,
            post or self._poster.post,
            retry_policy or RetryPolicy(give_up_s=options.give_up_s),
            AttemptSlots(options.connections),
        )
        self._deliveries: dict[str, dict[str, Delivery]] = {}
        self._changing = asyncio.Lock()
        self._puts: set[asyncio.Task[None]] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._running = False

    # -- start and stop --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Resume the deliveries of earlier processes. Call after the service's own start, which renews this worker's lease.

        Raises:
            StoreError: The store cannot be opened or read.
        """
        if self._running:
            return
        await self._rows.open()
        # After a stop, the next start may be on another loop.
        self._changing, self._context.slots = asyncio.Lock(), AttemptSlots(self._options.connections)
        try:
            self._running = True
            await self._claim()
        except BaseException:
            await self.stop(0.0)
            raise
        if self._rows.is_shared:
            self._keeper = asyncio.get_running_loop().create_task(self._claim_periodically())

    async def stop(self, grace_s: float = 5.0) -> None:
        """Deliver due notifications, for `grace_s` seconds at most, and leave the others to the next start.

        Call after the service's stop, so that the last events are delivered, too.
        """
        if not self._running:
            return
        self._running = False
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            self._keeper = None
        if self._puts:
            await asyncio.wait(self._puts)
        if grace_s > 0:
            await asyncio.gather(*(self.flush(task_id, grace_s) for task_id in list(self._deliveries)))
        await self._end_deliveries([each for of_task in self._deliveries.values() for each in of_task.values()])
        try:
            await self._rows.release()
        except StoreError as error:
            log.warning(
                "the push configs of %s cannot be released before this process ends: %s",
                self._service.agent_name,
                error,
            )
        await self._poster.close()
        await self._rows.close()

    async def _claim_periodically(self) -> None:
        """Take over the webhooks of dead processes, at intervals, until canceled."""
        while True:
            await self._sleep(self._service.limits.lease_ttl_s / 3)
            try:
                await self._claim()
            except Exception:  # the store may be available again at the next attempt
                log.warning("cannot take over the push configs of ended processes, will retry", exc_info=True)

    async def _claim(self) -> None:
        for row in await self._rows.claim():
            self._begin_delivery(row)

    # -- webhooks --------------------------------------------------------------------------------------------------------

    async def check(self, config: PushConfig) -> None:
        """Check that a config can be registered; called before a task is begun with it.

        Raises:
            InvalidArgumentError: Its URL must not be posted to, or a field is not a valid header value; names the field.
        """
        if config.id:
            check_id(config.id, "id")
        check_header_values(config)
        await self._targets.check(config.url)

    async def add(self, owner: str, config: PushConfig, after: int, version: str) -> PushConfig:
        """Register a webhook for the events of a task after the position `after`.

        A webhook with the same id is replaced; its undelivered notifications go to the new one. The registration is completed even
        if the caller is canceled while it waits.

        Returns:
            The config, with an id.

        Raises:
            InvalidArgumentError: As `check`.
            ResourceExhaustedError: The task has the maximum number of webhooks.
            TaskNotFoundError: The task does not exist.
            UnavailableError: The webhooks are not started, or are stopping.
            StoreError: The store failed; nothing is registered.
        """
        await self.check(config)
        if not self._running:
            raise UnavailableError("push notifications are not running", agent=self._service.agent_name)
        config = replace(config, id=config.id or new_uuid())
        row = PushRow(
            self._service.agent_name,
            owner,
            config.task_id,
            config.id,
            encode_body(config, V03 if version.startswith("0.") else V1),
            after,
            time.time_ns() // 1000,
            self._rows.worker,
        )
        # In a task of its own: a cancellation between the row and its delivery would leave a row without a delivery.
        putting = asyncio.get_running_loop().create_task(self._put(row))
        self._puts.add(putting)
        putting.add_done_callback(self._forget_put)
        await asyncio.shield(putting)
        return config

    async def _put(self, row: PushRow) -> None:
        async with self._changing:
            most = self._options.max_per_task
            known = await self._rows.of_task(row.task_id, limit=most)
            if len(known) >= most and all(each.config_id != row.config_id for each in known):
                raise ResourceExhaustedError(f"a task has at most {most} push configs", task_id=row.task_id)
            self._begin_delivery(await self._rows.put(row))

    def _forget_put(self, putting: asyncio.Task[None]) -> None:
        self._puts.discard(putting)
        if not putting.cancelled():
            putting.exception()  # the caller may be gone, and asyncio logs an exception that was never retrieved

    async def get(self, owner: str, task_id: str, config_id: str) -> PushConfig | None:
        """Return one webhook of a task, or None."""
        row = await self._rows.get(task_id, config_id)
        return config_of(row) if row is not None and row.principal == owner else None

    async def page(
        self, owner: str, task_id: str, size: int, after: tuple[int, str] | None = None
    ) -> tuple[list[PushConfig], tuple[int, str] | None]:
        """Return webhooks of a task, oldest first, and the cursor of the next page, None after the last page."""
        rows = await self._rows.of_task(task_id, after=after, limit=size + 1)
        shown = rows[:size]
        following = (shown[-1].create_micros, shown[-1].config_id) if len(rows) > size else None
        return [config_of(row) for row in shown if row.principal == owner], following

    async def remove(self, owner: str, task_id: str, config_id: str) -> bool:
        """Delete a webhook and return whether it existed. Afterwards, this process sends nothing more to it."""
        async with self._changing:
            row = await self._rows.get(task_id, config_id)
            if row is None or row.principal != owner:
                return False
            removed = await self._rows.delete(task_id, config_id)
            known = self._deliveries.get(task_id, {}).get(config_id)
            await self._end_deliveries([] if known is None else [known])
            return removed

    async def flush(self, task_id: str, within_s: float) -> None:
        """Return when all currently due notifications are delivered, or after `within_s` seconds.

        A webhook whose last attempt failed is not waited for: an unavailable receiver must not delay every response.
        """
        deliveries = self._deliveries.get(task_id)
        if not deliveries:
            return
        try:
            async with asyncio.timeout(within_s):
                last = await self._service.last_sequence(task_id)
                await asyncio.gather(*(each.wait_until(last) for each in list(deliveries.values())))
        except TimeoutError:
            log.debug("task %s: notifications are still being sent", task_id)
        except StoreError as error:
            log.warning("task %s: cannot read whether notifications are due: %s", task_id, error)

    # -- deliveries ------------------------------------------------------------------------------------------------------

    def _begin_delivery(self, row: PushRow) -> None:
        """Start the delivery of a row, and cancel the previous delivery of the same webhook."""
        of_task = self._deliveries.setdefault(row.task_id, {})
        before = of_task.pop(row.config_id, None)
        if before is not None and before.task is not None:
            before.task.cancel()
        if row.done or row.worker != self._rows.worker:
            # Another process works on it. If that process is dead, the next `_claim` takes the row over.
            if not of_task:
                del self._deliveries[row.task_id]
            return
        of_task[row.config_id] = delivery = Delivery(row, self._context)
        delivery.start(self._forget_delivery)

    def _forget_delivery(self, delivery: Delivery) -> None:
        task_id, config_id = delivery.key
        of_task = self._deliveries.get(task_id, {})
        if of_task.get(config_id) is delivery:
            del of_task[config_id]
            if not of_task:
                del self._deliveries[task_id]

    async def _end_deliveries(self, deliveries: list[Delivery]) -> None:
        tasks = [each.task for each in deliveries if each.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
