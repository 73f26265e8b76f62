"""The calls that methods of stubs return: awaitables and async iterators with the metadata and the status of `grpc.aio` calls.

A call is made when it is awaited or iterated, and not before. Its metadata and its status are those of its last attempt. A call
that no RPC was made for, such as one whose response a run has recorded, has no metadata.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio

from protolink_grpc.errors import ProtolinkError

R = TypeVar("R")

Note = Callable[[Any], None]
"""Receives the call of `grpc.aio` of each attempt."""

_CODES = {code.name: code for code in grpc.StatusCode}


def ignore_attempts(_: Any) -> None:
    """A `Note` that keeps nothing."""


class _StubCall:
    """What both kinds of calls have."""

    def __init__(self) -> None:
        self._attempt: Any = None
        self._error: BaseException | None = None

    def _note(self, attempt: Any) -> None:
        self._attempt = attempt

    async def _begin(self) -> None:
        """Wait until the headers of the response are known, or the call has failed."""
        raise NotImplementedError

    async def _end(self) -> None:
        """Wait until the call has ended."""
        raise NotImplementedError

    async def initial_metadata(self) -> grpc.aio.Metadata:
        """Return the metadata before the response. Makes the call, if it was not made before, and waits for its first response."""
        await self._begin()
        found = None if self._attempt is None else await self._attempt.initial_metadata()
        return grpc.aio.Metadata() if found is None else found

    async def trailing_metadata(self) -> grpc.aio.Metadata:
        """Return the metadata after the response. Waits for the end of the call."""
        await self._end()
        found = None if self._attempt is None else await self._attempt.trailing_metadata()
        return grpc.aio.Metadata() if found is None else found

    async def code(self) -> grpc.StatusCode:
        """Return the status. Waits for the end of the call, and raises none of its errors."""
        await self._end()
        if self._attempt is not None:
            code: grpc.StatusCode = await self._attempt.code()
            return code
        if isinstance(self._error, ProtolinkError):
            return _CODES.get(self._error.rule.grpc, grpc.StatusCode.UNKNOWN)
        return grpc.StatusCode.OK if self._error is None else grpc.StatusCode.UNKNOWN

    async def details(self) -> str:
        """Return the text of the status. Waits for the end of the call, and raises none of its errors."""
        await self._end()
        if self._attempt is not None:
            return await self._attempt.details() or ""
        return "" if self._error is None else str(self._error)


class UnaryCall(_StubCall, Coroutine[Any, Any, R], Generic[R]):
    """A call with one response, which `await` returns. It can be awaited several times, and is made once.

    Args:
        work: Makes the call; gets the function that receives its attempts.
    """

    def __init__(self, work: Callable[[Note], Coroutine[Any, Any, R]]) -> None:
        super().__init__()
        self._work = work(self._note)
        self._response: R
        self._ended: asyncio.Event | None = None
        self._driver: Coroutine[Any, Any, R] | None = None

    def __await__(self) -> Generator[Any, Any, R]:
        return self._wait().__await__()

    async def _wait(self) -> R:
        if self._ended is None:
            self._ended = asyncio.Event()
            try:
                self._response = await self._work
            except BaseException as error:
                self._error = error
                raise
            finally:
                self._ended.set()
        else:
            await self._ended.wait()
        if self._error is not None:
            raise self._error
        return self._response

    async def _begin(self) -> None:
        await self._end()

    async def _end(self) -> None:
        if self._ended is not None and self._ended.is_set():
            return
        with suppress(Exception):  # `code` and `details` describe it
            await self._wait()

    # The methods of a coroutine, for `asyncio.create_task` and `asyncio.run_coroutine_threadsafe`.

    def send(self, value: Any) -> Any:
        return self._driving.send(value)

    def throw(self, *error: Any) -> Any:
        if self._ended is None:
            self._work.close()  # canceled before it began
        return self._driving.throw(*error)

    def close(self) -> None:
        if self._driver is not None:
            self._driver.close()
        self._work.close()

    @property
    def _driving(self) -> Coroutine[Any, Any, R]:
        if self._driver is None:
            self._driver = self._wait()
        return self._driver


class StreamCall(_StubCall, AsyncGenerator[R, None], Generic[R]):
    """A call with a stream of responses, which `async for` returns once. `aclose` cancels the call.

    Args:
        work: Makes the call; gets the function that receives its attempts.
    """

    def __init__(self, work: Callable[[Note], AsyncGenerator[R, None]]) -> None:
        super().__init__()
        self._responses = work(self._note)
        self._ended = asyncio.Event()
        self._has_begun = False
        self._first: list[R] = []
        """The first response, if it was received for `initial_metadata` and not yet returned."""
        self._deferred: Exception | None = None
        """The error that came instead of it, if the iteration has not raised it yet."""

    async def __anext__(self) -> R:
        if self._first:
            return self._first.pop()
        if self._deferred is not None:
            error, self._deferred = self._deferred, None
            raise error
        return await self._pull()

    async def _pull(self) -> R:
        self._has_begun = True
        try:
            return await anext(self._responses)
        except BaseException as error:
            if not isinstance(error, StopAsyncIteration):
                self._error = error
            self._ended.set()
            raise

    async def read(self) -> Any:
        """Return the next response, or `grpc.aio.EOF` at the end."""
        return await anext(self, grpc.aio.EOF)

    async def asend(self, value: None) -> R:
        return await self.__anext__()

    async def athrow(self, *error: Any) -> Any:
        self._ended.set()
        return await self._responses.athrow(*error)

    async def aclose(self) -> None:
        self._ended.set()
        self._first.clear()
        await self._responses.aclose()

    async def _begin(self) -> None:
        if not self._has_begun and not self._ended.is_set():
            try:
                self._first.append(await self._pull())
            except Exception as error:
                self._deferred = error

    async def _end(self) -> None:
        await self._ended.wait()
