"""Channels that are shared, and how many of them a loop keeps. Nothing is connected here."""

import asyncio

from protolink_grpc.client import channel
from protolink_grpc.client.channel import ChannelOptions, channel_to, close_channels
from protolink_grpc.wire.address import Address

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
        for number in range(channel.MAX_JUDGED + 10):
            channel_to(PEER, ChannelOptions(), (f"192.0.{2 + number // 250}.{number % 250}",))
            assert channel_to(PEER, ChannelOptions(), ("198.51.100.1",)) is used
        channels = channel._channels[asyncio.get_running_loop()]
        assert len([key for key in channels if key[2]]) == channel.MAX_JUDGED
        assert channel_to(PEER, ChannelOptions()) is named
    finally:
        await close_channels()
