"""How long a server in the foreground lives."""

import asyncio
import signal
from contextlib import suppress


def stop_on_signal(stopped: asyncio.Event) -> None:
    """Set `stopped` at SIGTERM and SIGINT. Called before a server comes up: a signal meanwhile is then a way down, not the end."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, and threads that are not the main one
            loop.add_signal_handler(number, stopped.set)


async def until_asked_to_stop(stopped: asyncio.Event | None) -> None:
    """Return at SIGTERM, SIGINT, or when `stopped` is set."""
    asked = stopped if stopped is not None else asyncio.Event()
    stop_on_signal(asked)
    await asked.wait()
