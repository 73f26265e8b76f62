"""One event loop in a thread of its own, shared by background agents and the `.sync` facades.

Sharing the loop also shares connections. A facade works in scripts, in threads, and in notebooks, where another loop is running.
"""

import asyncio
import atexit
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from protolink_grpc.net.event_loops import new_event_loop

T = TypeVar("T")


class BackgroundLoop:
    """An event loop in a daemon thread. It starts at the first use and stops at the end of the program."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(self._loop,), name="plgrpc-loop", daemon=True)
                self._thread.start()
                atexit.register(self._stop, self._loop, self._thread)
            return self._loop

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()

    @staticmethod
    def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(2.0)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result. It can be called in every other thread.

        A KeyboardInterrupt in the waiting thread cancels the coroutine.

        Raises:
            RuntimeError: The caller is on the background loop, which would wait for itself forever.
        """
        loop = self.loop
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError(
                "a synchronous call on the background loop would block it; await the async method instead"
            )
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


background = BackgroundLoop()
"""The background loop of this process."""
