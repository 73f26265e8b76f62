"""How servers are asked to stop: by a signal, or by a call from another thread."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from protolink_grpc.logs import escape
from protolink_grpc.net.event_loops import running_loop


def stop_on_signal(stopped: asyncio.Event) -> None:
    """Set `stopped` at SIGTERM and SIGINT. Called before a server comes up: a signal meanwhile is then a way down, not the end."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, and threads that are not the main one
            loop.add_signal_handler(number, stopped.set)


def log_listening(log: logging.Logger, what: str, urls: Iterable[str], *, foreground: bool) -> None:
    """One line that says where a server listens.

    Args:
        what: The server, like `agent weather`.
        urls: Of its ports, the first one first.
        foreground: It is what the program does: where the program has no logging, the line goes to standard error.
    """
    where = " and ".join(urls)
    log.info("%s listens on %s", what, where)
    if foreground and not log.hasHandlers():
        sys.stderr.write(escape(f"{what} listens on {where}") + "\n")


def close_from_outside(
    loop: asyncio.AbstractEventLoop, close: Callable[[], Coroutine[Any, Any, None]], kind: str
) -> None:
    """Run the `aclose` of a server on the loop that it lives on, from any other thread, and wait for it.

    Raises:
        RuntimeError: Called on that loop itself, which would wait for itself forever; the text names `kind`.
    """
    if loop is running_loop():
        raise RuntimeError(f"stop() would block the loop that the {kind} runs on; await {kind}.aclose() instead")
    asyncio.run_coroutine_threadsafe(close(), loop).result()


async def until_asked_to_stop(stopped: asyncio.Event | None) -> None:
    """Return at SIGTERM, SIGINT, or when `stopped` is set."""
    asked = stopped if stopped is not None else asyncio.Event()
    stop_on_signal(asked)
    await asked.wait()
