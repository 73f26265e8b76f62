"""The delegated tasks of a task that no run works on: found in its log, and canceled before the task ends as canceled.

A run cancels what it has delegated itself. After a crash or a stop there is no such run, or it was canceled before it came to its
delegations, and the other agents still work for it. The ids of their tasks are in the log (`PeerTaskLinked`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from protolink_grpc.errors import ProtolinkError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.events import ActionEnded, PeerTaskLinked, RunEvent
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.runtime.journal import Delegation, Journal
from protolink_grpc.runtime.log import Fact
from protolink_grpc.storage.port import TaskStore

log = get_logger(__name__)

MAX_SUMMARY = 200

CANCEL_S = 30.0
"""Timeout for the cancellation of one delegated task, in seconds."""


class Delegations:
    """The delegated tasks of one agent.

    Args:
        cancel: Cancels a task at another agent, with a reason, and retries while that agent is unavailable. Raises ProtolinkError.
    """

    def __init__(self, store: TaskStore, cancel: Callable[[PeerTaskLinked, str], Awaitable[None]]) -> None:
        self._store = store
        self._cancel = cancel

    async def find_open(self, fold: TaskFold) -> list[Delegation]:
        """Return the delegations of a task whose action has not ended, or has ended as canceled. Raises StoreError."""
        if not fold.attempt:
            return []
        journal = await Journal.of_all_attempts(self._store, fold)
        return journal.open_delegations()

    async def cancel(self, found: Sequence[Delegation], reason: str) -> list[Fact]:
        """Cancel delegated tasks, and return the ends of their actions. A task that cannot be canceled is logged."""
        errors = await asyncio.gather(*(self._cancel_one(each, reason) for each in found))
        return [
            RunEvent(
                payload=ActionEnded(each.action.kind, each.action.name, outcome="canceled"),
                timestamp="",
                action_id=each.action.action_id,
                severity="warning",
                summary=error[:MAX_SUMMARY],
            )
            for each, error in zip(found, errors, strict=True)
            if not each.has_ended
        ]

    async def _cancel_one(self, delegation: Delegation, reason: str) -> str:
        """Cancel a delegated task, and return why that failed; empty if it did not."""
        link = delegation.link
        try:
            async with asyncio.timeout(CANCEL_S):
                await self._cancel(link, reason)
        except (ProtolinkError, TimeoutError) as error:
            why = f"task {link.task_id} at {link.url} could not be canceled: {str(error) or 'no answer'}"
            log.warning("%s", why)
            return why
        return ""
