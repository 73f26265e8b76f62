"""A one-shot event with an outcome, for many waiters of which each may give up without disturbing the others."""

import asyncio
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Latch(Generic[T]):
    """Opened once, with a value or an error. A future with `asyncio.shield` around each wait, at a third of the price.

    Used from one event loop.
    """

    __slots__ = ("_error", "_value", "_waiters", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def error(self) -> BaseException | None:
        return self._error

    def open(self, value: T | None = None, error: BaseException | None = None) -> None:
        """Let everybody through. Only the first call counts."""
        if self.is_open:
            return
        self.is_open = True
        self._value, self._error = value, error
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def opened(self) -> None:
        """Return as soon as it is open, whatever the outcome."""
        if not self.is_open:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    async def wait(self) -> T | None:
        """The value, as soon as there is one. Raises the error that it was opened with."""
        await self.opened()
        if self._error is not None:
            raise self._error
        return self._value

    async def wait_quietly(self, timeout_s: float | None) -> bool:
        """Wait at most that long, whatever the outcome; whether it is open."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.opened()
        return self.is_open
