"""The addresses that a peer's card may name, and connections to the checked address only."""

from collections.abc import Callable, Sequence
from typing import Any

import httpcore
import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.a2a.client import card_interfaces
from protolink_grpc.a2a.client.card_interfaces import ResolvedAddress, resolve_any, resolve_public
from protolink_grpc.a2a.client.transport import Card, choose_interface
from protolink_grpc.client import channel
from protolink_grpc.client.channel import ChannelOptions
from protolink_grpc.client.http_channel import Sender, close_http_channels, http_channel_to, remote_address
from protolink_grpc.errors import InvalidAgentResponseError, UnavailableError
from protolink_grpc.models.card import AgentCard
from protolink_grpc.net.address import Address, WebAddress

PUBLIC, PUBLIC6 = "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"
NAMES = {
    "public.example": [PUBLIC],
    "both.example": [PUBLIC, PUBLIC6],
    "inside.example": ["10.0.0.5"],
    "mixed.example": [PUBLIC, "192.168.1.1"],
    "loop.example": ["127.0.0.1"],
    "localhost": ["127.0.0.1"],
    "clouds.example": ["169.254.169.254"],
}
INTERNAL = [
    "127.0.0.1",
    "localhost",
    "[::1]",
    "10.1.2.3",
    "192.168.0.1",
    "172.16.9.9",
    "169.254.1.1",
    "[fe80::1]",
    "[fd00::1]",
    "[::ffff:127.0.0.1]",
    "0.0.0.0",
    "inside.example",
    "mixed.example",
    "loop.example",
]


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were looked up; literal addresses are themselves."""
    names: list[str] = []

    async def look_up(host: str, port: int) -> Sequence[str]:
        names.append(host)
        if host == "nobody.example":
            raise OSError
        return NAMES.get(host, [host])

    monkeypatch.setattr(card_interfaces, "resolve_by_system", look_up)
    return names


def card(*urls: str, binding: str = "JSONRPC", source_address: str = PUBLIC) -> Card:
    found = [pb.AgentInterface(protocol_binding=binding, protocol_version="1.0", url=url) for url in urls]
    theirs = pb.AgentCard(name="a", supported_interfaces=found)
    return Card(theirs, AgentCard(name="a", description="b", url="c"), "", 0.0, source_address)


def sender(named: str = "https://agent.example", trusted: Sequence[str] = (), insecure_ok: bool = False) -> Sender:
    return Sender(WebAddress.parse(named), ChannelOptions(), frozenset(trusted), insecure_ok)


# -- TLS ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "binding"),
    [("http://public.example/rpc", "JSONRPC"), ("http://agent.example", "HTTP+JSON")]
    + [(f"{scheme}://public.example:50051", "GRPC") for scheme in ("grpc", "http")],
)
async def test_a_card_that_came_over_tls_leads_to_no_place_in_the_clear(url: str, binding: str) -> None:
    found = card(url, binding=binding)
    with pytest.raises(InvalidAgentResponseError, match=r"uses TLS.*insecure_ok=True"):
        await choose_interface(found, sender())
    place, _ = await choose_interface(found, sender(insecure_ok=True))
    assert not place.web.secure
    assert (await choose_interface(found, sender(trusted=[place.web.origin])))[0] == place
    assert (await choose_interface(found, sender("http://agent.example")))[0] == place


async def test_of_several_interfaces_the_first_that_may_be_followed_is_taken() -> None:
    found = card("http://public.example", "https://inside.example", "https://public.example", "https://both.example")
    assert (await choose_interface(found, sender()))[0].url == "https://public.example"


@pytest.mark.parametrize("named", ["https://localhost:8443", "https://127.0.0.1:8443", "https://[::1]:8443"])
async def test_a_card_of_this_machine_may_lead_from_tls_to_the_clear(named: str) -> None:
    place, _ = await choose_interface(card("http://127.0.0.1:80", source_address="127.0.0.1"), sender(named))
    assert not place.web.secure


# -- addresses ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source_address", [PUBLIC, PUBLIC6, ""])
@pytest.mark.parametrize("host", INTERNAL)
async def test_a_public_card_leads_to_no_address_inside(host: str, source_address: str) -> None:
    for url, binding in ((f"https://{host}/rpc", "JSONRPC"), (f"{host}:443", "GRPC")):
        with pytest.raises(InvalidAgentResponseError, match=r"private network.*trusted"):
            await choose_interface(card(url, binding=binding, source_address=source_address), sender())


async def test_a_place_inside_that_the_caller_has_named_is_followed() -> None:
    found = card("https://inside.example:8443/rpc")
    place, resolved = await choose_interface(found, sender(trusted=["https://inside.example:8443"]))
    assert (place.web.host, resolved) == ("inside.example", ResolvedAddress())
    with pytest.raises(InvalidAgentResponseError):
        await choose_interface(found, sender(trusted=["https://inside.example:9999"]))


@pytest.mark.parametrize("source_address", ["127.0.0.1", "10.0.0.9", "fd00::9", "169.254.7.7"])
async def test_a_card_from_inside_may_lead_inside_but_not_to_where_clouds_keep_credentials(source_address: str) -> None:
    place, resolved = await choose_interface(
        card("http://inside.example", source_address=source_address), sender("http://agent.example")
    )
    assert (place.web.host, resolved) == ("inside.example", ResolvedAddress(resolve_any, ("10.0.0.5",)))
    for host in ("169.254.169.254", "clouds.example", "[fd00:ec2::254]"):
        with pytest.raises(InvalidAgentResponseError):
            await choose_interface(
                card(f"http://{host}", source_address=source_address), sender("http://agent.example")
            )


async def test_the_host_that_the_caller_has_named_is_not_looked_up_under_any_of_its_names(asked: list[str]) -> None:
    for url in ("https://agent.example/rpc", "https://agent.example:9000/rpc"):
        assert (await choose_interface(card(url), sender()))[1] == ResolvedAddress()
    found = card("localhost:9000", binding="GRPC", source_address="127.0.0.1")
    assert (await choose_interface(found, sender("http://127.0.0.1:8000")))[1] == ResolvedAddress()
    assert asked == []


async def test_a_name_without_an_address_is_left_to_a_proxy_or_to_the_connection() -> None:
    assert (await choose_interface(card("https://nobody.example"), sender()))[1] == ResolvedAddress(resolve_public)
    with pytest.raises(UnavailableError, match=r"nobody\.example"):
        await choose_interface(card("nobody.example:443", binding="GRPC"), sender())
    with pytest.raises(UnavailableError):
        await resolve_public("nobody.example", 443)


@given(st.ip_addresses())
async def test_only_public_addresses_are_given_out_for_a_public_card(address: Any) -> None:
    try:
        (found,) = await resolve_public(str(address), 443)
    except InvalidAgentResponseError:
        return
    assert address.is_global
    assert found == str(address)


# -- connections ---------------------------------------------------------------------------------------------------------------


async def test_over_http_each_connection_goes_to_what_was_judged_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[str, int]] = []

    async def connect(self: object, host: str, port: int, *rest: object) -> httpcore.AsyncNetworkStream:
        tried.append((host, port))
        raise httpcore.ConnectError("not here")

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connect)
    monkeypatch.setattr("protolink_grpc.client.http_channel.getproxies", dict)
    try:
        client = http_channel_to(WebAddress.parse("http://both.example"), ChannelOptions(), resolve_public)
        with pytest.raises(httpx.ConnectError):
            await client.get("http://both.example/rpc")
        assert tried == [(PUBLIC, 80), (PUBLIC6, 80)]
        # The name leads elsewhere by now.
        monkeypatch.setitem(NAMES, "both.example", ["127.0.0.1"])
        with pytest.raises(InvalidAgentResponseError):
            await client.get("http://both.example/rpc")
        assert len(tried) == 2
        assert http_channel_to(WebAddress.parse("http://both.example"), ChannelOptions()) is not client
    finally:
        await close_http_channels()


@pytest.mark.parametrize(
    ("numeric", "target"),
    [
        (("10.0.0.1", "10.0.0.2"), "ipv4:10.0.0.1:50051,10.0.0.2:50051"),
        (("fd00::1",), "ipv6:[fd00::1]:50051"),
        (("fe80::1%2",), "ipv6:[fe80::1%252]:50051"),
    ],
)
def test_over_grpc_the_judged_addresses_are_the_target_and_the_name_stays_who_it_is(
    numeric: tuple[str, ...], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(
        channel.grpc.aio, "secure_channel", lambda to, _, arguments: opened.append((to, dict(arguments)))
    )
    channel._open_channel(Address("agent.example", 50051, secure=True), None, numeric)
    ((to, arguments),) = opened
    assert to == target
    assert arguments["grpc.ssl_target_name_override"] == "agent.example"
    assert arguments["grpc.default_authority"] == "agent.example:50051"


def _answer(server: tuple[str, int] | None) -> httpx.Response:
    class Stream:
        def get_extra_info(self, info: str) -> tuple[str, int] | None:
            return server if info == "server_addr" else None

    return httpx.Response(200, extensions={"network_stream": Stream()})


def test_where_a_card_came_from_is_the_address_that_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    proxies: Callable[[], dict[str, str]] = dict
    monkeypatch.setattr("protolink_grpc.client.http_channel.getproxies", lambda: proxies())
    named, literal = WebAddress.parse("https://agent.example"), WebAddress.parse("https://10.0.0.5")
    assert remote_address(_answer(("10.9.9.9", 443)), named) == "10.9.9.9"
    assert remote_address(_answer(None), named) == ""
    # Of a proxy's own address nothing follows.
    proxies = lambda: {"https": "http://proxy.example"}  # noqa: E731 -- read by the function above
    assert remote_address(_answer(("10.9.9.9", 443)), named) == ""
    assert remote_address(_answer(("10.9.9.9", 443)), literal) == "10.0.0.5"
