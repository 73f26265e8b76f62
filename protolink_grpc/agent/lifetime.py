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
    _announce(log, f"{server} listens on {' and '.join(urls)}", foreground=foreground)


def log_stopping(log: logging.Logger, server: str, running: int, grace_s: float, *, foreground: bool) -> None:
    """Log that a server stops, and how long it may wait for its runs. `foreground` is that of `log_listening`."""
    if not running or not grace_s:
        log.info("%s is stopping", server)
        return
    runs = "1 running task" if running == 1 else f"{running} running tasks"
    _announce(log, f"{server} is stopping, and waits up to {grace_s:g} s for {runs}", foreground=foreground)


def _announce(log: logging.Logger, line: str, *, foreground: bool) -> None:
    log.info("%s", line)
    if foreground and not log.hasHandlers():
        sys.stderr.write(escape(line) + "\n")


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
