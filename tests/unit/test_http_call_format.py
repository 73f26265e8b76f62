"""The deadline of a call over HTTP."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from protolink_grpc.edges.http.call_format import Deadline
from protolink_grpc.errors import DeadlineExceededError


async def test_a_result_before_the_deadline_is_the_result() -> None:
    assert await Deadline(3600.0).before(asyncio.sleep(0, "done")) == "done"


async def test_without_a_timeout_nothing_is_bounded() -> None:
    assert await Deadline(None).before(asyncio.sleep(0, "done")) == "done"


async def test_what_takes_longer_than_the_deadline_is_canceled_and_the_timeout_is_said() -> None:
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with pytest.raises(DeadlineExceededError, match=r"0\.001 s"):
        await Deadline(0.001).before(never)
    assert never.cancelled()


async def test_a_deadline_holds_for_the_whole_call_and_not_for_each_answer() -> None:
    async def endless() -> AsyncGenerator[bytes, None]:
        while True:
            await asyncio.sleep(0)
            yield b"more"

    deadline = Deadline(0.001)

    async def read() -> None:
        async for each in endless():
            assert await deadline.before(asyncio.sleep(0, each)) == b"more"

    with pytest.raises(DeadlineExceededError):
        await read()


async def test_a_timeout_of_the_work_itself_is_not_the_deadline() -> None:
    async def fails() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await Deadline(3600.0).before(fails())


async def test_a_call_that_somebody_cancels_is_canceled_and_not_late() -> None:
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    call = asyncio.ensure_future(Deadline(3600.0).before(never))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
