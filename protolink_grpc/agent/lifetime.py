"""Stops servers: on a signal, or by a call from another thread."""

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
    """Set `stopped` on SIGTERM and SIGINT. Called before the server starts: a signal during the start then stops it."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
            loop.add_signal_handler(number, stopped.set)


def log_listening(log: logging.Logger, server: str, urls: Iterable[str], *, foreground: bool) -> None:
    """Log the URLs of a server in one line.

    Args:
        server: Kind and name of the server, for example `agent weather`.
        foreground: The server is the purpose of the program. If the program has no logging, print the line to standard error.
    """
    addresses = " and ".join(urls)
    log.info("%s listens on %s", server, addresses)
    if foreground and not log.hasHandlers():
        sys.stderr.write(escape(f"{server} listens on {addresses}") + "\n")


def close_from_thread(
    loop: asyncio.AbstractEventLoop, close: Callable[[], Coroutine[Any, Any, None]], kind: str
) -> None:
    """Run the `aclose` of a server on the server's loop, from another thread, and wait for its end.

    Raises:
        RuntimeError: Called on that loop, which would be a deadlock; the text names `kind`.
    """
    if loop is running_loop():
        raise RuntimeError(f"stop() would block the event loop of the {kind}; await {kind}.aclose() instead")
    asyncio.run_coroutine_threadsafe(close(), loop).result()


async def wait_for_stop(stopped: asyncio.Event | None) -> None:
    """Return on SIGTERM, on SIGINT, or when `stopped` is set."""
    stop = stopped if stopped is not None else asyncio.Event()
    stop_on_signal(stop)
    await stop.wait()
