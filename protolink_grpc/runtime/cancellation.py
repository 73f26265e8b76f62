"""The live signal that a run should stop. The durable wish is an event; this is how code that is running now hears of it."""

import asyncio
import threading

from protolink_grpc.models.clock import utc_now


class CancellationToken:
    """Set once, from any thread; asked from any thread."""

    __slots__ = ("_event", "canceled_at", "reason")

    def __init__(self) -> None:
        self._event = threading.Event()
        self.reason: str | None = None
        self.canceled_at: str | None = None

    @property
    def is_cancelled(self) -> bool:
        return self._event.is_set()

    def cancel(self, reason: str | None = None) -> bool:
        """Ask to stop. Returns whether this was the first request; later ones change nothing."""
        if self._event.is_set():
            return False
        self.reason = reason
        self.canceled_at = utc_now()
        self._event.set()
        return True

    def raise_if_cancelled(self) -> None:
        """A checkpoint for loops that do not await.

        Raises:
            asyncio.CancelledError: The run was asked to stop.
        """
        if self._event.is_set():
            raise asyncio.CancelledError(self.reason or "canceled")
