"""Ends the wait of an HTTP call for its task when the client disconnects or the server's time limit is reached. The run continues.

Most calls end before a client can disconnect, so their connections are not watched. One shared timer finds calls that still wait,
and only these get a watcher.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from protolink_grpc.errors import DeadlineExceededError

CHECK_S = 0.05
"""Interval between two checks, in seconds: a call is watched after it has waited for one to two intervals."""


class BoundedWaits:
    """The waiting calls of one server. It belongs to the server's event loop."""

    def __init__(self) -> None:
        self._young: set[BoundedWait] = set()
        self._old: set[BoundedWait] = set()
        self._clock: asyncio.TimerHandle | None = None

    def add(self, waiting: "BoundedWait") -> None:
        self._young.add(waiting)
        if self._clock is None:
            self._clock = asyncio.get_running_loop().call_later(CHECK_S, self._check)

    def remove(self, waiting: "BoundedWait") -> None:
        self._young.discard(waiting)
        self._old.discard(waiting)

    def _check(self) -> None:
        for each in self._old:
            each.watch()
        self._young, self._old = set(), self._young
        self._clock = asyncio.get_running_loop().call_later(CHECK_S, self._check) if self._old else None


class BoundedWait:
    """A `with` block in which an asyncio task waits.

    It raises `ClientDisconnect` when the client has disconnected, and `DeadlineExceededError` at the limit. The awaited operation
    is canceled, so it must be a wait and not the work itself. A result that arrives at the same time is returned.

    Args:
        waits: The waiting calls of the server; None if another component watches the connection.
        receive: The ASGI function that reports the end of the connection; the body has been read.
        max_wait_s: The limit in seconds; None means until the client disconnects.
    """

    __slots__ = ("_bound", "_cancelling", "_ending", "_max_wait_s", "_receive", "_task", "_waits", "_watcher")

    def __init__(self, waits: BoundedWaits | None, receive: Receive, max_wait_s: float | None = None) -> None:
        self._waits = waits
        self._receive = receive
        self._max_wait_s = max_wait_s
        self._task: asyncio.Task[object] | None = None
        self._bound: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._ending: Exception | None = None
        self._cancelling = 0

    def __enter__(self) -> None:
        task = self._task = asyncio.current_task()
        self._cancelling = task.cancelling() if task is not None else 0
        if self._waits is not None:
            self._waits.add(self)
        if self._max_wait_s is not None:
            self._bound = asyncio.get_running_loop().call_later(self._max_wait_s, self._expire)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._waits is not None:
            self._waits.remove(self)
        if self._bound is not None:
            self._bound.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if self._ending is None or self._task is None:
            return
        # Like asyncio.timeout: if a request to cancel remains after ours is removed, it comes from other code.
        is_ours = self._task.uncancel() <= self._cancelling
        if is_ours and isinstance(error, asyncio.CancelledError):
            raise self._ending from None

    def watch(self) -> None:
        """Start to watch whether the client is still connected."""
        disconnect = watch_disconnect(self._receive, lambda: self._end(ClientDisconnect()))
        self._watcher = asyncio.get_running_loop().create_task(disconnect)

    def _expire(self) -> None:
        limit = f"{self._max_wait_s:g}"
        self._end(
            DeadlineExceededError(
                f"the server waits at most {limit} s; the task continues, get or subscribe to it", max_wait_s=limit
            )
        )

    def _end(self, ending: Exception) -> None:
        if self._ending is None and self._task is not None:
            self._ending = ending
            self._task.cancel()


async def watch_disconnect(receive: Receive, then: Callable[[], None]) -> None:
    """Call `then` when the client has disconnected. Further data of the client is ignored."""
    while (await receive())["type"] != "http.disconnect":
        pass
    then()
