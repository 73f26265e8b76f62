"""How long a server in the foreground lives."""

import asyncio
import signal
from contextlib import suppress


async def until_asked_to_stop(stopped: asyncio.Event | None) -> None:
    """Return at SIGTERM, SIGINT, or when `stopped` is set."""
    asked = stopped if stopped is not None else asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, and threads that are not the main one
            loop.add_signal_handler(number, asked.set)
    await asked.wait()
