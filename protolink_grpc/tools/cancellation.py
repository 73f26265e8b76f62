"""Cancels the work of a tool, which may ignore its cancellation."""

import asyncio
from typing import Any, Final

CLEANUP_S: Final = 1.0
"""How long canceled work may take to end before it is abandoned, in seconds."""

# Abandoned calls that have not ended, because an unreferenced asyncio task may be garbage-collected while it runs.
_abandoned: "set[asyncio.Task[Any]]" = set()


async def cancel(work: "asyncio.Task[Any]") -> None:
    """Cancel the work and wait for its end, at most `CLEANUP_S`."""
    # Added before the wait, which may be canceled itself.
    _abandoned.add(work)
    work.add_done_callback(_forget)
    work.cancel()
    await asyncio.wait([work], timeout=CLEANUP_S)


def _forget(work: "asyncio.Task[Any]") -> None:
    _abandoned.discard(work)
    if not work.cancelled():
        work.exception()  # retrieve the exception, so that the loop does not report it
