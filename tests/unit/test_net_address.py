"""Addresses of endpoints: valid URLs, and errors for all others."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.net.address import Address, WebAddress, canonical_url, origin_of

relaxed = settings(deadline=None)  # a shared machine's pauses are no failure


@pytest.mark.parametrize(
    ("url", "address", "target"),
    [
        ("grpc://127.0.0.1:50051", Address("127.0.0.1", 50051), "127.0.0.1:50051"),
        ("grpcs://example.org:443", Address("example.org", 443, True), "example.org:443"),
        ("grpcs://example.org:443/", Address("example.org", 443, True), "example.org:443"),
        ("localhost:0", Address("localhost", 0), "localhost:0"),
        ("GRPC://Example.ORG:1", Address("example.org", 1), "example.org:1"),
        ("grpc://[::1]:50051", Address("::1", 50051), "[::1]:50051"),
        ("[fe80::1]:1", Address("fe80::1", 1), "[fe80::1]:1"),
        ("grpc://a:65535", Address("a", 65535), "a:65535"),
    ],
)
def test_a_url_names_a_host_a_port_and_whether_it_is_secure(url: str, address: Address, target: str) -> None:
    assert Address.parse(url) == address
    assert address.target == target
    assert Address.parse(address.url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        ":",
        ":1",
        "localhost",
        "grpc://localhost",
        "grpc://localhost:",
        "grpc://localhost:none",
        "grpc://localhost:65536",
        "grpc://localhost:-1",
        "grpc://:50051",
        "http://localhost:1",
        "://localhost:1",
        "grpc://localhost:1/path",
        "grpc://localhost:1?query",
        "grpc://localhost:1#fragment",
        "grpc://user@localhost:1",
        "grpc://user:word@localhost:1",
        "grpc://[::1:1",
        "grpc://[::1]",
        "grpc://[no address]:1",
        "grpc://a\u2100b:1",
        "::1",
    ],
)
def test_anything_else_is_refused_by_the_name_of_its_field(url: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        Address.parse(url, field="card.url")
    assert refused.value.field == "card.url"
    assert repr(url) in str(refused.value)


@relaxed
@given(url=st.text(max_size=30) | st.text("grpcs:/[]@%?#.0123456789ab\n\u2100", max_size=30).map("grpc://".__add__))
def test_any_text_is_an_address_or_refused(url: str) -> None:
    try:
        address = Address.parse(url)
    except InvalidArgumentError:
        return
    assert 0 <= address.port <= 65535
    assert address.host


@pytest.mark.parametrize(
    "spellings",
    [
        ["grpc://bank.example:5", "GRPC://Bank.EXAMPLE:05", "grpc://bank.example.:5/", "bank.example:5"],
        ["http://bank.example", "HTTP://BANK.example:80/", "http://bank.example.", "http://bank.example/a/.."],
        [
            "https://bank.example/a",
            "https://bank.example:443/a/",
            "https://bank.example/./b/../a",
            "https://bank.example/%61",
        ],
        ["ws://bank.example/%2Fa", "ws://bank.example:80/%2fa/"],
        ["grpc://[::1]:5", "grpc://[0:0:0:0:0:0:0:1]:5", "grpc://[0::0001]:5"],
        [
            "grpc://127.0.0.1:5",
            "grpc://127.1:5",
            "grpc://0x7f.1:5",
            "grpc://2130706433:5",
            "grpc://[::ffff:127.0.0.1]:5",
        ],
        ["http://m\xfcnchen.example", "http://M\xdcNCHEN.example", "http://xn--mnchen-3ya.example"],
        ["runtime://echo", "RUNTIME://echo/"],
    ],
)
def test_spellings_of_one_address_have_one_canonical_form(spellings: list[str]) -> None:
    (canonical,) = {canonical_url(each) for each in spellings}
    assert canonical_url(canonical) == canonical


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("grpc://a:1", "grpcs://a:1"),
        ("grpc://a:1", "grpc://a:2"),
        ("grpc://localhost:1", "grpc://127.0.0.1:1"),
        ("grpc://127.0.0.1:1", "grpc://[::1]:1"),
        ("http://a/x", "http://a/X"),
        ("http://a/x", "http://a/y/x"),
        ("http://a/%2F", "http://a//"),
        ("http://a", "ws://a"),
        ("http://a:0", "http://a"),
        ("runtime://a", "runtime://A"),
    ],
)
def test_different_addresses_stay_different(one: str, other: str) -> None:
    assert canonical_url(one) != canonical_url(other)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("grpc://Bank:5", "http://bank:5"),
        ("grpcs://bank:5", "https://bank:5"),
        ("https://bank/a/b", "https://bank:443"),
        ("wss://bank:5/a", "https://bank:5"),
        ("http://[::1]", "http://[::1]:80"),
    ],
)
def test_an_origin_is_the_server_behind_a_url(url: str, origin: str) -> None:
    assert origin_of(url, field="trusted_peers") == origin


@pytest.mark.parametrize("function", [canonical_url, origin_of])
@pytest.mark.parametrize(
    "url",
    [
        "",
        "bank",
        "ftp://a:1",
        "runtime://",
        "grpc://a b:1",
        "grpc://a%41:1",
        "grpc://1.2.3.4.5:1",
        "grpc://.:1",
        "http://u:p@a",
        "http://a?q",
        "http://a\n",
        "http://a/\udcff",
        "http://" + "a" * 3000,
    ],
)
def test_what_is_no_url_of_an_agent_has_no_canonical_form(function: Callable[..., str], url: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        function(url, field="card.url")
    assert refused.value.field == "card.url"


@relaxed
@given(url=st.text("htps:/.%2fAaB[]1:@?#\xfc ", max_size=30).map("http://".__add__) | st.text(max_size=30))
def test_a_canonical_form_is_its_own(url: str) -> None:
    try:
        canonical = canonical_url(url)
    except InvalidArgumentError:
        return
    assert canonical_url(canonical) == canonical
    if canonical.startswith("http"):
        assert WebAddress.parse(url) == WebAddress.parse(canonical)
