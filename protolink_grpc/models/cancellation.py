"""The in-memory signal that a run should stop. The durable cancellation request is an event in the log."""

import asyncio
import threading

from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.clock import utc_now

_first = threading.Lock()
"""Decides between threads that cancel at the same time. One lock for all tokens, because it is only held for three assignments."""


@checks_arguments
class CancellationToken:
    """A flag that any thread can set once and read."""

    __slots__ = ("_set", "canceled_at", "reason")

    def __init__(self) -> None:
        # Read without the lock: it goes from False to True once, and reading a bool is atomic.
        self._set = False
        self.reason: str | None = None
        self.canceled_at: str | None = None

    @property
    def is_cancelled(self) -> bool:
        return self._set

    def cancel(self, reason: str | None = None) -> bool:
        """Request a stop. Returns whether this was the first request; further ones change nothing."""
        with _first:
            if self._set:
                return False
            self.reason = reason
            self.canceled_at = utc_now()
            self._set = True
            return True

    def raise_if_cancelled(self) -> None:
        """Check for a request to stop, in loops that do not await.

        Raises:
            asyncio.CancelledError: A stop was requested.
        """
        if self._set:
            raise asyncio.CancelledError(self.reason or "canceled")
