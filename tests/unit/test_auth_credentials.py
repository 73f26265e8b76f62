import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.auth import (
    APIKey,
    APIKeyAuth,
    Basic,
    BasicAuth,
    BearerToken,
    OAuth2ClientCredentials,
)
from protolink_grpc.auth.confidential import check_confidential, check_endpoint
from protolink_grpc.errors import InvalidArgumentError

HERE = "grpc://127.0.0.1:50051"
AWAY = "grpc://agents.test:50051"
SECURE = "grpcs://agents.test:50051"
METHOD = "/plgrpc.v1.AgentService/SendTask"


async def test_each_kind_of_credentials_is_accepted_by_its_authenticator():
    keys, users = APIKeyAuth({"k-1": []}), BasicAuth({"ann": "pässword:1"})
    assert await keys(METHOD, await APIKey("k-1").headers(HERE)) is not None
    assert await users(METHOD, await Basic("ann", "pässword:1").headers(HERE)) is not None
    other = APIKeyAuth({"k-1": []}, header="X-Agent-Key")
    assert await other(METHOD, await APIKey("k-1", "X-Agent-Key").headers(HERE)) is not None


async def test_a_token_is_sent_unchanged():
    assert await BearerToken("t.o.k").headers(HERE) == {"authorization": "Bearer t.o.k"}


async def test_a_token_source_is_called_for_each_call_with_the_receivers_url():
    asked = []

    def source(url):
        asked.append(url)
        return f"token-{len(asked)}"

    async def slow_source(url):
        return source(url)

    assert await BearerToken(source).headers(HERE) == {"authorization": "Bearer token-1"}
    assert await BearerToken(slow_source).headers(SECURE) == {"authorization": "Bearer token-2"}
    assert asked == [HERE, SECURE]


@pytest.mark.parametrize(
    ("credentials", "renewable"),
    [(APIKey("k"), False), (Basic("u", "p"), False), (BearerToken("t"), False), (BearerToken(lambda url: "t"), True)],
)
async def test_refresh_is_true_only_for_token_sources(credentials, renewable):
    assert await credentials.refresh() is renewable
    assert await credentials.refresh(await credentials.headers(HERE)) is renewable


MAKERS = {
    "key": lambda **options: APIKey("secret-word", **options),
    "basic": lambda **options: Basic("ann", "secret-word", **options),
    "bearer": lambda **options: BearerToken("secret-word", **options),
    "oauth2": lambda **options: OAuth2ClientCredentials("https://issuer.test/token", "me", "secret-word", **options),
}


@pytest.mark.parametrize("kind", MAKERS)
async def test_no_credentials_are_sent_unencrypted_to_another_machine(kind):
    for url in (AWAY, "http://agents.test/", "ws://10.0.0.7:80/ws", "grpc://127.0.0.1.evil.test:1", "//agents.test"):
        with pytest.raises(InvalidArgumentError) as caught:
            await MAKERS[kind]().headers(url)
        assert caught.value.field == "credentials"
        assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize("kind", ["key", "basic", "bearer"])
@pytest.mark.parametrize(
    "url",
    [HERE, "grpc://localhost:1", "http://[::1]:80", "ws://127.9.9.9/ws", SECURE, "https://a.test", "wss://a.test/ws"],
)
async def test_credentials_are_sent_over_tls_and_within_this_machine(kind, url):
    assert await MAKERS[kind]().headers(url)


@pytest.mark.parametrize("kind", ["key", "basic", "bearer"])
async def test_insecure_ok_allows_unencrypted_credentials(kind):
    assert await MAKERS[kind](insecure_ok=True).headers(AWAY)


@pytest.mark.parametrize("kind", MAKERS)
def test_no_secret_is_in_the_representation(kind):
    made = MAKERS[kind]()
    encoded = base64.b64encode(b"secret-word").decode().rstrip("=")
    for seen in (repr(made), repr(getattr(made, "_question", ""))):
        assert "secret-word" not in seen
        assert encoded not in seen


@pytest.mark.parametrize("secret", ["", "two words", "line\nbreak", "ünicode", "tab\t", "\x7f"])
async def test_a_secret_that_is_invalid_in_a_header_is_refused_without_quoting_it(secret):
    async def broken():
        return await BearerToken(lambda url: secret).headers(HERE)

    for make in (APIKey, BearerToken):
        with pytest.raises(InvalidArgumentError) as caught:
            make(secret)
        assert not secret or secret not in str(caught.value)
    with pytest.raises(InvalidArgumentError):
        await broken()


@pytest.mark.parametrize("user", ["", "a:b"])
def test_a_user_name_with_a_colon_or_an_empty_one_is_refused(user):
    with pytest.raises(InvalidArgumentError):
        Basic(user, "p")


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.test/token",
        "ftp://issuer.test",
        "issuer.test/token",
        "https://id:word@issuer.test/",
        "",
        "https://[",
    ],
)
def test_a_token_endpoint_must_use_https_or_be_on_this_machine(url):
    with pytest.raises(InvalidArgumentError) as caught:
        OAuth2ClientCredentials(url, "me", "s")
    assert caught.value.field == "token_url"


@pytest.mark.parametrize(("client_id", "secret"), [("", "s"), ("me", "")])
def test_a_client_without_id_or_secret_is_refused(client_id, secret):
    with pytest.raises(InvalidArgumentError):
        OAuth2ClientCredentials("https://issuer.test/token", client_id, secret)


@given(st.text())
def test_any_text_as_a_url_is_refused_or_accepted(url):
    for read in (lambda: check_confidential(url, insecure_ok=False), lambda: check_endpoint(url, field="url")):
        try:
            read()
        except InvalidArgumentError:
            pass
