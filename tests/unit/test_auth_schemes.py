import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.auth import AnyOf, APIKeyAuth, BasicAuth, MutualTLS, Principal, hash_password
from protolink_grpc.auth.headers import authorization, keyed_digest
from protolink_grpc.auth.passwords import PasswordChecks, PasswordHash
from protolink_grpc.auth.schemes import CERTIFICATE, CertificateName
from protolink_grpc.errors import InvalidArgumentError, ResourceExhaustedError, UnauthenticatedError, UnavailableError

KEY = "k-0123456789abcdef"
METHOD = "/plgrpc.v1.AgentService/SendTask"


def basic(user, password):
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def cheap_hash(password, cost=16):
    """A hash that is checked quickly."""
    salt = b"0123456789abcdef"
    digest = hashlib.scrypt(password.encode(), salt=salt, n=cost, r=8, p=1, dklen=32)
    return f"scrypt${cost}$8$1${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


async def name(authenticator, metadata):
    found = await authenticator(METHOD, metadata)
    return None if found is None else found.name


# API keys


async def test_a_key_is_taken_from_its_own_header_and_from_authorization():
    keys = APIKeyAuth({KEY: ["read", "write"]})
    for metadata in ({"x-api-key": KEY}, {"authorization": f"ApiKey {KEY}"}, {"authorization": f"apikey  {KEY}"}):
        found = await keys(METHOD, metadata)
        assert found is not None
        assert found.scopes == {"read", "write"}


async def test_the_name_of_a_key_contains_nothing_of_the_key():
    found = await name(APIKeyAuth({KEY: []}), {"x-api-key": KEY})
    assert found == "key-" + hashlib.sha256(KEY.encode()).hexdigest()[:12]


async def test_a_key_may_be_mapped_to_a_principal():
    ann = Principal("ann", frozenset({"pay"}))
    assert await APIKeyAuth({KEY: ann})(METHOD, {"x-api-key": KEY}) == ann


async def test_the_header_of_the_key_can_be_configured():
    keys = APIKeyAuth({KEY: []}, header="X-Agent-Key")
    assert await name(keys, {"x-agent-key": KEY}) is not None
    assert await name(keys, {"x-api-key": KEY}) is None
    assert keys.schemes()["apiKey"]["name"] == "X-Agent-Key"


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"x-api-key": ""},
        {"x-api-key": KEY + "x"},
        {"x-api-key": KEY[:-1]},
        {"x-api-key": KEY.upper()},
        {"authorization": f"Bearer {KEY}"},
        {"authorization": f"Basic {KEY}"},
        {"authorization": KEY},
        {"authorization": f"ApiKey{KEY}"},
        {"authorization": f"ApiKey {KEY} {KEY}"},
        {"api_key": KEY},
        {"x-api-key": KEY + "\x00"},
    ],
)
async def test_a_key_in_another_header_or_form_is_not_accepted(metadata):
    assert await name(APIKeyAuth({KEY: []}), metadata) is None


@pytest.mark.parametrize("key", ["", "with space", "line\nbreak", "ünicode"])
def test_a_key_that_is_invalid_in_a_header_is_refused_without_quoting_it(key):
    with pytest.raises(InvalidArgumentError) as caught:
        APIKeyAuth({KEY: [], key: []})
    assert caught.value.field == "valid_keys[1]"
    assert not key or key not in str(caught.value)


def test_scopes_as_one_string_are_refused():
    with pytest.raises(InvalidArgumentError):
        APIKeyAuth({KEY: "read"})


@pytest.mark.parametrize("reserved", ["", "anonymous", "local", "ann#tenant=a"])
def test_a_reserved_name_is_refused(reserved):
    with pytest.raises(InvalidArgumentError):
        APIKeyAuth({KEY: Principal(reserved)})
    with pytest.raises(InvalidArgumentError):
        BasicAuth({reserved: "secret"})


@pytest.mark.parametrize("header", ["", "x key", "key-bin", "grpc-key", "x:y", "ключ"])
def test_a_header_name_that_is_invalid_in_grpc_is_refused(header):
    with pytest.raises(InvalidArgumentError):
        APIKeyAuth({KEY: []}, header=header)


@pytest.mark.parametrize(
    ("make", "metadata"),
    [
        (lambda: APIKeyAuth({KEY: []}), {"x-api-key": KEY}),
        (lambda: BasicAuth({"ann": "secret"}), basic("ann", "secret")),
        (lambda: BasicAuth({"ann": cheap_hash("secret")}), basic("ann", "secret")),
    ],
    ids=["key", "plain", "hashed"],
)
async def test_the_constant_time_comparison_decides(monkeypatch, make, metadata):
    authenticator = make()
    assert await authenticator(METHOD, metadata) is not None
    monkeypatch.setattr(hmac, "compare_digest", lambda left, right: False)
    assert await authenticator(METHOD, metadata) is None


@pytest.mark.parametrize(
    "authenticator", [APIKeyAuth({KEY: []}), BasicAuth({"ann": "secret-word", "bob": cheap_hash("secret-word")})]
)
def test_no_secret_is_stored_or_in_the_representation(authenticator):
    seen = repr(authenticator) + repr(vars(authenticator))
    assert KEY not in seen
    assert "secret-word" not in seen


# Passwords


@pytest.mark.parametrize("kept", ["secret", cheap_hash("secret")], ids=["plain", "hashed"])
async def test_a_user_with_the_correct_password_is_authenticated(kept):
    users = BasicAuth({"ann": kept, "bob": cheap_hash("other")}, scopes={"ann": ["pay"]})
    assert await users(METHOD, basic("ann", "secret")) == Principal("ann", frozenset({"pay"}))
    assert await users(METHOD, basic("ann", "secret")) == Principal("ann", frozenset({"pay"})), "the second time, too"
    for wrong in (basic("ann", "Secret"), basic("ann", ""), basic("eve", "secret"), basic("", "secret")):
        assert await users(METHOD, wrong) is None


async def test_a_password_may_contain_colons_and_letters_beyond_ascii():
    assert await name(BasicAuth({"änn": "a:b:ç"}), basic("änn", "a:b:ç")) == "änn"


async def test_a_hash_is_not_accepted_as_the_password():
    kept = cheap_hash("secret")
    assert await name(BasicAuth({"ann": kept}), basic("ann", kept)) is None


def test_a_new_hash_matches_its_password_only_and_is_salted():
    first, second = hash_password("secret"), hash_password("secret")
    assert first != second
    assert PasswordHash.parse(first).matches("secret")
    assert not PasswordHash.parse(first).matches("secret ")


@pytest.mark.parametrize(
    "kept",
    [
        "scrypt$",
        "scrypt$16$8$1$AAAA",
        "scrypt$15$8$1$MDEyMzQ1Njc=$MDEyMzQ1Njc4OWFiY2RlZg==",
        "scrypt$99999999999$8$1$MDEyMzQ1Njc=$MDEyMzQ1Njc4OWFiY2RlZg==",
        "scrypt$1048576$64$1$MDEyMzQ1Njc=$MDEyMzQ1Njc4OWFiY2RlZg==",
        "scrypt$16$8$99$MDEyMzQ1Njc=$MDEyMzQ1Njc4OWFiY2RlZg==",
        "scrypt$16$0$1$MDEyMzQ1Njc=$MDEyMzQ1Njc4OWFiY2RlZg==",
        "scrypt$16$8$1$MDEy$MDEyMzQ1Njc4OWFiY2RlZg==",
        "scrypt$16$8$1$MDEyMzQ1Njc=$MDEy",
        "scrypt$16$8$1$!$!",
        "scrypt$-16$8$1$MDEyMzQ1Njc=$MDEyMzQ1Njc4OWFiY2RlZg==",
    ],
)
def test_a_text_that_begins_like_a_hash_and_is_invalid_is_refused(kept):
    with pytest.raises(InvalidArgumentError):
        BasicAuth({"ann": kept})


@given(st.text().map("scrypt$".__add__))
def test_any_text_is_parsed_as_a_hash_or_refused(text):
    try:
        PasswordHash.parse(text)
    except InvalidArgumentError:
        pass


async def test_a_correct_password_is_hashed_once_and_a_wrong_one_each_time(monkeypatch):
    hashed = []
    matches = PasswordHash.matches
    monkeypatch.setattr(PasswordHash, "matches", lambda self, password: hashed.append(1) or matches(self, password))
    users = BasicAuth({"ann": cheap_hash("secret")})
    for _ in range(3):
        assert await name(users, basic("ann", "secret")) == "ann"
    assert len(hashed) == 1
    assert await name(users, basic("ann", "wrong")) is None
    assert await name(users, basic("ann", "wrong")) is None
    assert len(hashed) == 3


async def test_an_unknown_user_takes_as_long_as_a_wrong_password(monkeypatch):
    costs = []
    monkeypatch.setattr(PasswordHash, "matches", lambda self, password: costs.append((self.cost, self.parallel)))
    users = BasicAuth({"ann": cheap_hash("secret", cost=32)})
    assert await name(users, basic("ann", "wrong")) is None
    assert await name(users, basic("eve", "wrong")) is None
    assert costs == [(32, 1), (32, 1)]


async def test_too_many_concurrent_password_checks_are_refused_with_a_retry_delay(monkeypatch):
    monkeypatch.setattr("protolink_grpc.auth.passwords.MAX_WAITING", 0)
    with pytest.raises(ValueError):  # a semaphore with all slots free cannot be released
        PasswordChecks()._slots.release()
    with pytest.raises(ResourceExhaustedError) as caught:
        await BasicAuth({"ann": cheap_hash("secret")})(METHOD, basic("ann", "secret"))
    assert caught.value.retry_after_s > 0


# Certificates


async def test_a_certificate_name_is_accepted_from_the_edge_and_never_from_a_header():
    certificates = MutualTLS({"ann.test": ["pay"]})
    assert await certificates(METHOD, {CERTIFICATE: "ann.test"}) is None
    found = await certificates(METHOD, {CERTIFICATE: CertificateName("ann.test")})
    assert found == Principal("ann.test", frozenset({"pay"}))
    assert await name(certificates, {}) is None


# Several authenticators


async def test_each_of_several_authenticators_can_accept_a_caller():
    either = AnyOf(APIKeyAuth({KEY: []}), BasicAuth({"ann": "secret"}))
    assert await name(either, basic("ann", "secret")) == "ann"
    assert (await name(either, {"x-api-key": KEY}) or "").startswith("key-")
    assert await name(either, {"x-api-key": "other"}) is None


class Broken:
    def __init__(self, error):
        self._error = error

    async def __call__(self, method, metadata):
        raise self._error

    def schemes(self):
        return {}


@pytest.mark.parametrize("error", [UnavailableError("away"), ResourceExhaustedError("busy")])
async def test_an_unavailable_authenticator_is_an_error_only_if_no_other_one_accepts(error):
    either = AnyOf(Broken(error), BasicAuth({"ann": "secret"}))
    assert await name(either, basic("ann", "secret")) == "ann"
    with pytest.raises(type(error)):
        await either(METHOD, basic("ann", "wrong"))


async def test_an_authenticator_that_raises_does_not_prevent_the_next_one():
    either = AnyOf(Broken(UnauthenticatedError("no")), BasicAuth({"ann": "secret"}))
    assert await name(either, basic("ann", "secret")) == "ann"
    assert await name(either, {}) is None


def test_any_of_requires_an_authenticator():
    with pytest.raises(InvalidArgumentError):
        AnyOf()


# Cards


@pytest.mark.parametrize("authenticator", [APIKeyAuth({KEY: []}), BasicAuth({"ann": "x"}), MutualTLS()])
def test_each_scheme_has_the_four_fields_that_protolink_reads(authenticator):
    for scheme in authenticator.schemes().values():
        assert {"type", "scheme", "description", "metadata"} <= scheme.keys()


def test_schemes_are_named_by_their_type_and_repeated_names_get_a_suffix():
    many = AnyOf(
        APIKeyAuth({KEY: []}), APIKeyAuth({KEY: []}), APIKeyAuth({KEY: []}, "X-Other"), BasicAuth({}), MutualTLS()
    )
    found = many.schemes()
    assert list(found) == ["apiKey", "apiKey-2", "http", "mutualTLS"]
    assert [found[each].get("name") for each in ("apiKey", "apiKey-2")] == ["X-API-Key", "X-Other"]
    assert found["apiKey"]["in"] == "header"


# Random input

HEADERS = st.one_of(
    st.text(),
    st.binary().map(lambda data: data.decode("latin-1")),
    st.tuples(st.sampled_from(["Basic ", "ApiKey ", "bearer ", "BASIC  "]), st.text()).map("".join),
    st.binary().map(lambda data: "Basic " + base64.b64encode(data).decode()),
)


@given(st.dictionaries(st.sampled_from(["authorization", "x-api-key", CERTIFICATE]), HEADERS))
async def test_random_headers_are_refused(metadata):
    anybody = AnyOf(APIKeyAuth({KEY: []}), BasicAuth({"ann": "secret", "bob": cheap_hash("secret")}), MutualTLS())
    assert await anybody(METHOD, metadata) is None


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1), st.sampled_from(["basic", "bearer"]))
def test_a_token_is_read_with_its_own_scheme_only(token, scheme):
    metadata = {"authorization": f"{scheme.title()} {token}"}
    assert authorization(metadata, scheme) == token
    assert authorization(metadata, "apikey") is None


def test_too_long_credentials_are_ignored():
    assert authorization({"authorization": "Bearer " + "x" * 8192}, "bearer") is not None
    assert authorization({"authorization": "Bearer " + "x" * 8193}, "bearer") is None


@given(st.text(), st.text())
def test_digests_are_equal_for_equal_secrets_only(one, other):
    assert (keyed_digest(one) == keyed_digest(other)) == (one == other)
