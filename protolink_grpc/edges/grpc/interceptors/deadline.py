"""The server's limit of the time that a call may wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protolink_grpc.edges.grpc.call import Call
from protolink_grpc.edges.grpc.interceptors import Interceptor
from protolink_grpc.errors import DeadlineExceededError


def deadline(max_wait_s: float, methods: frozenset[str]) -> Interceptor:
    """Limit the calls of `methods` (full names) to `max_wait_s` seconds. The run of such a call continues.

    For a client's own shorter deadline, gRPC cancels the call.
    """

    @asynccontextmanager
    async def limit_wait(call: Call) -> AsyncIterator[None]:
        if call.method not in methods:
            yield
            return
        bound = asyncio.timeout(max_wait_s)
        try:
            async with bound:
                yield
        except TimeoutError:
            if not bound.expired():
                raise  # another timeout, or a TimeoutError of the servicer
            raise DeadlineExceededError(
                f"the server waits at most {max_wait_s:g} s; the task continues, get or subscribe to it",
                max_wait_s=f"{max_wait_s:g}",
            ) from None

    return limit_wait
