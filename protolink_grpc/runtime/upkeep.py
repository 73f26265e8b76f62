"""What a service does beside its work: stay alive in the eyes of others, and look after tasks that nobody works on any more."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from protolink_grpc.errors import InvalidTransitionError, LeaseLostError, SequenceConflictError, StoreError
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState
from protolink_grpc.runtime.clock import Clock
from protolink_grpc.runtime.engine import canceled, lost
from protolink_grpc.runtime.live import LiveTask
from protolink_grpc.runtime.submission import STALLED, Limits
from protolink_grpc.store.port import TaskHead, TaskStore

log = logging.getLogger(__name__)


class Household(Protocol):
    """What upkeep sees of its service; the service itself cannot be imported from here."""

    agent_name: str
    store: TaskStore
    limits: Limits

    @property
    def active_task_ids(self) -> list[str]: ...


class Upkeep:
    """The heartbeat of one service, and the recovery of tasks whose process is gone.

    Args:
        resumes: Whether tasks that were working go on; else they fail.
        resume: Begins another attempt at a task.

    Attributes:
        unrecorded: Tasks whose end could not be written when it came, and why.
    """

    def __init__(self, service: Household, resumes: bool, clock: Clock, resume: Callable[[LiveTask], None]) -> None:
        self.unrecorded: dict[str, str] = {}
        self._service = service
        self._resumes = resumes
        self._clock = clock
        self._resume = resume

    async def run(self) -> None:
        """Until canceled, three times per lease."""
        service = self._service
        while True:
            await asyncio.sleep(service.limits.lease_ttl_s / 3)
            try:
                await self.heartbeat()
                await self._settle_unrecorded()
                if service.store.shared:
                    await self.recover()
            except StoreError as error:
                log.warning("upkeep of %s failed, will try again: %s", service.agent_name, error)
            except Exception:  # whatever it is: without heartbeats, others take over all our tasks
                log.exception("upkeep of %s failed, will try again", service.agent_name)

    async def heartbeat(self) -> None:
        await self._service.store.heartbeat(self._service.limits.lease_ttl_s)

    async def recover(self) -> None:
        """Settle or resume tasks that are submitted or working while their worker is dead."""
        orphans = await self._service.store.orphans(self._service.agent_name)
        active = set(self._service.active_task_ids) if orphans else set()
        for head in orphans:
            if head.task_id in active:
                continue
            try:
                await self._take_over(head)
            except (LeaseLostError, SequenceConflictError, InvalidTransitionError):
                continue  # another process was faster, or the task ended
            except Exception as error:  # a damaged log, say: the others are taken over all the same
                log.error("task %s: cannot be taken over, will try again: %r", head.task_id, error)
                continue

    async def _take_over(self, head: TaskHead) -> None:
        live = await LiveTask.load(head, store=self._service.store, clock=self._clock)
        wish = live.fold.cancel_requested
        if wish is not None:
            await live.record([canceled(live.fold.state, wish)], claim=True)
        elif live.fold.stalled >= STALLED:
            why = f"{live.fold.stalled} processes in a row have ended at this point"
            await live.record([lost(live.fold.state, why)], claim=True)
        elif self._resumes or live.fold.state is TaskState.SUBMITTED or live.fold.suspended:
            # A submitted task was never begun, and one that waits for an answer has nothing under way.
            log.info("task %s: its process is gone, another run goes on", head.task_id)
            self._resume(live)
        else:
            log.info("task %s: its process is gone, it fails", head.task_id)
            why = "the process that worked on this task ended before the task was done"
            await live.record([lost(live.fold.state, why)], claim=True)

    async def _settle_unrecorded(self) -> None:
        """Write ends that could not be written when they came, now that the store may be well again."""
        for task_id, why in list(self.unrecorded.items()):
            try:
                await self._settle(task_id, why)
            except (LeaseLostError, InvalidTransitionError):
                pass  # another process has it, or it has ended meanwhile
            except Exception as error:  # as in `recover`
                log.error("task %s: its end cannot be recorded, will try again: %r", task_id, error)
                continue
            del self.unrecorded[task_id]

    async def _settle(self, task_id: str, why: str) -> None:
        head = await self._service.store.head(task_id)
        if head is not None and head.state not in TERMINAL and head.state not in INTERRUPTED:
            live = await LiveTask.load(head, store=self._service.store, clock=self._clock)
            await live.record([lost(live.fold.state, why)])
