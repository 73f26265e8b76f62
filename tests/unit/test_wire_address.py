"""Addresses of endpoints: what a URL says, and a clear no to everything else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.wire.address import Address

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
