"""Futures of readers that wait for a change."""

import asyncio
from collections.abc import Hashable
from typing import Any


class Waiters:
    """Futures of waiting readers by key, for instance by task id."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: dict[Hashable, set[asyncio.Future[None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._futures)

    def keys(self) -> list[Any]:
        return list(self._futures)

    def wake(self, key: Hashable) -> None:
        """Wake every reader that waits for that key."""
        for future in self._futures.pop(key, ()):
            if not future.done():
                future.set_result(None)

    def wake_all(self) -> None:
        for key in self.keys():
            self.wake(key)

    async def wait(self, key: Hashable) -> None:
        """Wait for the next `wake` of that key."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        futures = self._futures.setdefault(key, set())
        futures.add(future)
        try:
            await future
        finally:
            futures.discard(future)
            if not futures and self._futures.get(key) is futures:
                del self._futures[key]
