"""Allowed addresses of notifications: URLs, refused addresses, and names that are resolved only once."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.a2a.push_targets import MAX_URL, PushTarget, PushTargets, parse_target
from protolink_grpc.errors import InvalidArgumentError, UnavailableError
from protolink_grpc.net.allowed_addresses import is_permitted, parse_networks


def answering(*addresses: str) -> PushTargets:
    """PushTargets for which every name has these addresses."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return PushTargets((), resolve)


# -- URLs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "target", "authority"),
    [
        ("http://a.test", PushTarget("http", "a.test", 80, "/"), "a.test"),
        ("HTTPS://A.Test/Hook?q=1&r=%20#part", PushTarget("https", "a.test", 443, "/Hook?q=1&r=%20"), "a.test"),
        ("https://a.test:8443/x/../y", PushTarget("https", "a.test", 8443, "/x/../y"), "a.test:8443"),
        ("http://a.test:443/", PushTarget("http", "a.test", 443, "/"), "a.test:443"),
        ("http://[2606:4700::1]:81/", PushTarget("http", "2606:4700::1", 81, "/"), "[2606:4700::1]:81"),
        (
            "https://bücher.test/ü?ß",
            PushTarget("https", "xn--bcher-kva.test", 443, "/%C3%BC?%C3%9F"),
            "xn--bcher-kva.test",
        ),
        ('http://a.test/"<x>', PushTarget("http", "a.test", 80, "/%22%3Cx%3E"), "a.test"),
    ],
)
def test_a_url_has_one_reading(url: str, target: PushTarget, authority: str) -> None:
    assert parse_target(url) == target
    assert target.authority == authority


@pytest.mark.parametrize(
    "url",
    [
        *("", "a.test", "/hook", "//a.test/", "ftp://a.test/", "file:///etc/passwd", "gopher://a.test", "unix:/run/x"),
        *("http://", "http:///x", "http://:80/", "http://a..test/", "http://[::1", "http://[fe80::1%eth0]/"),
        *("http://user@a.test/", "http://user:pw@a.test/", "http://@a.test/", "http://a.test\\@b.test/"),
        *("http://a.test:0/", "http://a.test:99999/", "http://a.test:x/"),
        *("http://a.test/ x", " http://a.test/", "http://a.test/\n", "http://a\t.test/", "http://a.test/\r\nHost: b"),
        *("http://a_test%2eb/", "http://a.test;b/", "http://a,b/", "http://" + "a" * 64 + ".test/"),
        "http://a.test/" + "x" * MAX_URL,
    ],
)
def test_what_is_no_url_to_post_to_is_refused_by_name_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        parse_target(url)
    assert refused.value.field == "url"
    assert refused.value.metadata == {"field": "url"}
    assert "user" not in str(refused.value)


@given(st.text(max_size=60) | st.text("htps:/@[]%\\.#?0127aé \t", max_size=40).map("http://".__add__))
def test_any_text_is_a_target_of_visible_ascii_or_refused_by_name(url: str) -> None:
    try:
        target = parse_target(url)
    except InvalidArgumentError as error:
        assert error.field == "url"  # noqa: PT017 -- most texts are refused, some are not
        return
    for text in (target.host, target.target, target.authority):
        assert text.isascii()
        assert text.isprintable()
        assert not set(text) & set(" @\\") - {"@"}
    assert "@" not in target.authority
    assert 0 < target.port < 65536


def test_the_text_of_a_target_hides_path_and_query() -> None:
    target = parse_target("https://hooks.test:81/services/T0/secret?token=secret")
    assert str(target) == "https://hooks.test:81"
    assert "secret" not in repr(target)


# -- addresses -----------------------------------------------------------------------------------------------------------

REFUSED = [
    *(
        "127.0.0.1",
        "127.8.8.8",
        "10.0.0.1",
        "172.16.5.5",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.1.1",
        "169.254.169.254",
    ),
    *("0.0.0.0", "0.1.2.3", "192.0.0.8", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1", "203.0.113.1"),
    *("224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "168.63.129.16"),
    *("::", "::1", "::7f00:1", "::8.8.8.8", "fe80::1", "fe80::1%3", "fec0::1", "fc00::1", "fd12::1", "ff02::1"),
    *("100::1", "2001:db8::1", "3fff::1", "5f00::1", "2001::1", "2001:10::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0.0.0.0"),
    *("64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8"),
    *("2002:7f00:1::", "2002:a00:1::", "2002:808:808::", "fd00:ec2::254", "fd20:ce::254"),
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]


@pytest.mark.parametrize("address", REFUSED)
async def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert not is_permitted(ip_address(address), ())
    with pytest.raises(InvalidArgumentError) as refused:
        await answering(address).check("http://a.test/")
    assert refused.value.field == "url"
    assert address not in str(refused.value)  # what a name inside leads to is not for those outside


@pytest.mark.parametrize("address", PUBLIC)
async def test_a_public_address_is_permitted(address: str) -> None:
    assert is_permitted(ip_address(address), ())
    assert await answering(address).addresses("a.test", 80) == [str(ip_address(address))]


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "10.1.2.3", "192.168.0.9", "fd12::1", "100.64.0.1", "::ffff:127.0.0.1"]
)
def test_private_permits_what_an_organisation_has_to_itself(address: str) -> None:
    assert is_permitted(ip_address(address), parse_networks(["private"]))


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "169.254.1.1", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "240.0.0.1"),
        *("100.100.100.200", "fd00:ec2::254", "fd20:ce::254", "::ffff:169.254.169.254", "2002:7f00:1::"),
    ],
)
def test_private_permits_neither_link_local_nor_the_clouds_own_addresses(address: str) -> None:
    assert not is_permitted(ip_address(address), parse_networks(["private"]))


def test_a_network_that_is_allowed_permits_its_addresses_in_every_spelling_and_no_others() -> None:
    allowed = parse_networks(["10.1.0.0/16", "fe80::/10", "192.168.7.7"])
    for permitted in (
        "10.1.255.1",
        "::ffff:10.1.0.1",
        "64:ff9b::10.1.0.1",
        "fe80::1",
        "fe80::1%7",
        "192.168.7.7",
        "8.8.8.8",
    ):
        assert is_permitted(ip_address(permitted), allowed), permitted
    for refused in ("10.2.0.1", "192.168.7.8", "::1", "::ffff:10.2.0.1"):
        assert not is_permitted(ip_address(refused), allowed), refused


def test_whatever_is_allowed_the_addresses_with_the_credentials_of_machines_are_not() -> None:
    allowed = parse_networks(["0.0.0.0/0", "::/0"])
    for address in ("169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::23", "fe80::a9fe:a9fe%2"):
        assert not is_permitted(ip_address(address), allowed), address
    assert is_permitted(ip_address("169.254.169.253"), allowed)


@pytest.mark.parametrize("word", ["publc", "10.0.0.1/8", "a.test", ""])
def test_what_is_no_network_cannot_be_allowed(word: str) -> None:
    with pytest.raises(ValueError):
        parse_networks([word])


@given(st.integers(0, (1 << 32) - 1).map(IPv4Address))
def test_an_ipv4_address_is_judged_alike_in_every_spelling(address: IPv4Address) -> None:
    judged = is_permitted(address, ())
    for prefix in ("::ffff:0:0", "64:ff9b::"):
        assert is_permitted(IPv6Address(int(IPv6Address(prefix)) | int(address)), ()) is judged


@given(st.ip_addresses())
def test_what_the_library_knows_to_be_no_public_host_is_never_permitted(address: IPv4Address | IPv6Address) -> None:
    if (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_private
    ):
        embedded = isinstance(address, IPv6Address) and address.ipv4_mapped
        assert embedded or not is_permitted(address, ())


# -- names ---------------------------------------------------------------------------------------------------------------


async def test_one_refused_address_among_several_refuses_the_name() -> None:
    with pytest.raises(InvalidArgumentError):
        await answering("8.8.8.8", "127.0.0.1").addresses("a.test", 80)


async def test_a_name_without_an_address_may_be_registered_and_not_connected_to() -> None:
    async def nobody(host: str, port: int) -> Sequence[str]:
        raise OSError("no such host")

    for targets in (PushTargets((), nobody), answering()):
        assert (await targets.check("http://a.test/x")).host == "a.test"
        with pytest.raises(UnavailableError):
            await targets.addresses("a.test", 80)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.1",
        "0",
        "[::1]",
        "[::ffff:7f00:1]",
        "\uff11\uff12\uff17.0.0.1",
    ],
)
async def test_every_spelling_of_this_machine_is_refused(host: str) -> None:
    targets = PushTargets()
    with pytest.raises(InvalidArgumentError):
        await targets.check(f"http://{host}:8080/hook")
    targets.close()


async def test_a_literal_address_is_found_by_the_systems_resolver() -> None:
    targets = PushTargets(["private"])
    assert await targets.addresses("127.1", 80) == ["127.0.0.1"]
    assert await targets.addresses("::1", 80) == ["::1"]
    targets.close()
    assert await targets.addresses("2130706433", 80) == ["127.0.0.1"]
    targets.close()
