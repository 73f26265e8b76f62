"""Shared channels, their number per event loop, and the calls that are retried. Nothing is connected here."""

import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from protolink_grpc import UnavailableError
from protolink_grpc.client import channel
from protolink_grpc.client.backoff import is_interruption
from protolink_grpc.client.channel import ChannelOptions, channel_to, close_channels, stub_to
from protolink_grpc.client.grpc_web import rpc_error
from protolink_grpc.net.address import Address

PEER = Address("peer.example", 443, secure=True)


async def test_the_same_addresses_in_another_order_are_the_same_channel() -> None:
    try:
        first = channel_to(PEER, ChannelOptions(), ("192.0.2.1", "192.0.2.2"))
        assert channel_to(PEER, ChannelOptions(), ("192.0.2.2", "192.0.2.1")) is first
        assert channel_to(PEER, ChannelOptions(), ("192.0.2.3",)) is not first
    finally:
        await close_channels()


async def test_a_name_that_leads_elsewhere_each_time_costs_so_many_channels_and_no_more() -> None:
    try:
        named = channel_to(PEER, ChannelOptions())
        used = channel_to(PEER, ChannelOptions(), ("198.51.100.1",))
        for number in range(channel.MAX_NUMERIC_CHANNELS + 10):
            channel_to(PEER, ChannelOptions(), (f"192.0.{2 + number // 250}.{number % 250}",))
            assert channel_to(PEER, ChannelOptions(), ("198.51.100.1",)) is used
        connections = channel._connections[asyncio.get_running_loop()]
        assert len([key for key in connections if key[2]]) == channel.MAX_NUMERIC_CHANNELS
        assert channel_to(PEER, ChannelOptions()) is named
    finally:
        await close_channels()


async def test_a_stub_is_built_once_per_channel() -> None:
    built = []

    def kind(channel: Any) -> object:
        built.append(channel)
        return object()

    try:
        first = stub_to(kind, PEER, ChannelOptions())
        assert stub_to(kind, PEER, ChannelOptions()) is first
        assert built == [channel_to(PEER, ChannelOptions())]
        await close_channels()
        assert stub_to(kind, PEER, ChannelOptions()) is not first
    finally:
        await close_channels()


# -- what the end of a call means --------------------------------------------------------------------------------------------


def ended(code: str, *details: Message) -> Any:
    """The error that gRPC raises for a call that ended with this status."""
    status = status_pb2.Status(code=code_pb2.Code.Value(code), message="gone")
    for detail in details:
        status.details.add().Pack(detail)
    return rpc_error(status)


REASON = error_details_pb2.ErrorInfo(reason="NEW", domain="agents.example")
SOON = error_details_pb2.RetryInfo(retry_delay={"seconds": 2})


@pytest.mark.parametrize("code", ["UNAVAILABLE", "INTERNAL", "UNKNOWN", "CANCELLED"])
@pytest.mark.parametrize("details", [(), (SOON,)], ids=["bare", "with a delay"])
def test_a_broken_connection_is_a_cut(code: str, details: tuple[Message, ...]) -> None:
    error = channel.call_error(ended(code, *details), PEER, task_id="t-1")
    assert isinstance(error, UnavailableError)
    assert is_interruption(error)
    assert error.metadata == {"url": PEER.url, "task_id": "t-1"}
    assert error.retry_after_s == (2.0 if details else None)


@pytest.mark.parametrize("code", ["INTERNAL", "UNKNOWN", "CANCELLED", "NOT_FOUND", "RESOURCE_EXHAUSTED", "ABORTED"])
def test_what_the_agent_says_is_its_answer(code: str) -> None:
    assert not is_interruption(channel.call_error(ended(code, REASON), PEER))


@pytest.mark.parametrize("code", ["NOT_FOUND", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "DATA_LOSS"])
def test_other_statuses_are_answers_also_without_a_reason(code: str) -> None:
    assert not is_interruption(channel.call_error(ended(code), PEER))


def test_an_agent_that_is_away_for_a_while_is_called_again_when_it_says() -> None:
    error = channel.call_error(ended("UNAVAILABLE", REASON, SOON), PEER)
    assert is_interruption(error)
    assert error.retry_after_s == 2.0


class Method:
    """A method of a stub, which ends each call with the next of these."""

    def __init__(self, *ends: Any) -> None:
        self.ends = list(ends)
        self.timeouts: list[float | None] = []

    async def __call__(self, request: Message, *, timeout: float | None, metadata: object) -> str:
        self.timeouts.append(timeout)
        if timeout is not None and timeout <= 0:
            raise ended("DEADLINE_EXCEEDED")
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if isinstance(end, Exception):
            raise end
        return str(end)


async def call(method: Method, outage_s: float, timeout_s: float | None = None) -> str:
    found: str = await channel.call_unary(method, REASON, PEER, ChannelOptions(outage_s=outage_s), timeout_s)
    return found


async def test_a_call_that_was_cut_is_made_again() -> None:
    method = Method(ended("UNAVAILABLE"), ended("CANCELLED"), "answer")
    assert await call(method, 60.0) == "answer"


async def test_a_call_that_was_answered_is_not_made_again() -> None:
    method = Method(ended("INTERNAL", REASON), "answer")
    with pytest.raises(grpc.aio.AioRpcError):
        await call(method, 60.0)
    assert len(method.timeouts) == 1


async def test_without_patience_the_first_cut_is_the_end() -> None:
    method = Method(ended("UNAVAILABLE"), "answer")
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call(method, 0.0)
    assert (raised.value.code(), len(method.timeouts)) == (grpc.StatusCode.UNAVAILABLE, 1)


async def test_the_deadline_bounds_repetitions_and_pauses() -> None:
    method, loop = Method(ended("UNAVAILABLE")), asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call(method, 60.0, 0.5)
    assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert 0.5 <= loop.time() - began < 5.0
    assert method.timeouts == sorted(method.timeouts, reverse=True, key=lambda left_s: left_s or 0.0)


async def test_a_call_that_is_canceled_in_a_pause_ends_at_once() -> None:
    again = error_details_pb2.RetryInfo(retry_delay={"seconds": 30})
    method = Method(ended("UNAVAILABLE", again))
    calling = asyncio.ensure_future(call(method, 60.0))
    while not method.timeouts:
        await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
