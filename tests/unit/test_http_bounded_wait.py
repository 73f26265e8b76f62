"""The limits of the wait of a call and of the streams of a caller, without a socket."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect

from protolink_grpc.auth.principal import ANONYMOUS_PRINCIPAL, Principal
from protolink_grpc.auth.stream_quota import StreamQuota
from protolink_grpc.edges.http import bounded_wait as waiting_module
from protolink_grpc.edges.http.bounded_wait import BoundedWait, BoundedWaits
from protolink_grpc.errors import DeadlineExceededError, ResourceExhaustedError


class Line:
    """A connection that ends when the test says so."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.asked = 0

    async def receive(self) -> Any:
        self.asked += 1
        await self.ended.wait()
        return {"type": "http.disconnect"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits end at once here."""
    monkeypatch.setattr(waiting_module, "CHECK_S", 0.0)


async def waits_on(line: Line, work: "asyncio.Future[str]", max_wait_s: float | None = None) -> str:
    with BoundedWait(BoundedWaits(), line.receive, max_wait_s):
        return await asyncio.shield(work)


async def test_who_has_hung_up_is_not_waited_for_and_the_work_goes_on() -> None:
    line, work = Line(), asyncio.get_running_loop().create_future()
    line.ended.set()
    with pytest.raises(ClientDisconnect):
        await waits_on(line, work)
    assert not work.done()


async def test_an_answer_at_once_is_had_without_a_look_at_the_connection() -> None:
    line, work = Line(), asyncio.get_running_loop().create_future()
    work.set_result("done")
    assert await waits_on(line, work) == "done"
    assert line.asked == 0


async def test_an_answer_after_a_look_is_an_answer() -> None:
    line, work = Line(), asyncio.get_running_loop().create_future()
    call = asyncio.ensure_future(waits_on(line, work))
    while not line.asked:
        await asyncio.sleep(0)
    work.set_result("done")
    assert await call == "done"


async def test_the_bound_says_how_long_it_is() -> None:
    with pytest.raises(DeadlineExceededError) as caught:
        await waits_on(Line(), asyncio.get_running_loop().create_future(), 0.001)
    assert caught.value.metadata == {"max_wait_s": "0.001"}


async def test_a_call_that_somebody_else_cancels_is_canceled() -> None:
    line, work = Line(), asyncio.get_running_loop().create_future()
    call = asyncio.ensure_future(waits_on(line, work))
    while not line.asked:
        await asyncio.sleep(0)
    line.ended.set()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_clock_without_anybody_who_waits_stands_still() -> None:
    waits, line = BoundedWaits(), Line()
    with BoundedWait(waits, line.receive):
        while not line.asked:
            await asyncio.sleep(0)
    while waits._clock is not None:
        await asyncio.sleep(0)
    assert not waits._young
    assert not waits._old


def test_one_stream_too_many_is_refused_by_the_name_of_the_option() -> None:
    quota, ann = StreamQuota(2), Principal("ann")
    first, _ = quota.take(ann), quota.take(ann)
    with pytest.raises(ResourceExhaustedError, match="max_streams_per_principal") as caught:
        quota.take(ann)
    assert caught.value.metadata == {"max_streams_per_principal": "2"}
    quota.take(ANONYMOUS_PRINCIPAL)
    first.release()
    quota.take(ann)


def test_a_stream_ends_once() -> None:
    quota, ann = StreamQuota(2), Principal("ann")
    first, _ = quota.take(ann), quota.take(ann)
    first.release()
    first.release()
    quota.take(ann)
    with pytest.raises(ResourceExhaustedError):
        quota.take(ann)


@given(st.lists(st.integers(0, 2)))
def test_nothing_is_kept_of_callers_without_streams(names: list[int]) -> None:
    quota = StreamQuota(None)
    for slot in [quota.take(Principal(str(name))) for name in names]:
        slot.release()
    assert not quota._open
