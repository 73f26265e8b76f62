import base64
import hashlib
import hmac
import json
import time

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.auth import AnyOf, BasicAuth, BearerTokenAuth, Principal
from protolink_grpc.auth.keys import FixedKeys, read_keys
from protolink_grpc.errors import InvalidArgumentError

SECRET = "s" * 40
METHOD = "/plgrpc.v1.AgentService/SendTask"
RSA_KEY = rsa.generate_private_key(65537, 2048)
WEAK_RSA_KEY = rsa.generate_private_key(65537, 1024)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()


def now():
    return int(time.time())


def claims(**changes):
    return {"sub": "ann", "exp": now() + 600, **changes}


def signed(payload, key=SECRET, algorithm="HS256", **header):
    return jwt.encode(payload, key, algorithm, headers=header)


async def ask(auth, token):
    return await auth(METHOD, {"authorization": f"Bearer {token}"})


def jwk(key, kid, **more):
    algorithm = {rsa.RSAPublicKey: "RSA", ec.EllipticCurvePublicKey: "EC", ed25519.Ed25519PublicKey: "OKP"}
    kind = next(name for cls, name in algorithm.items() if isinstance(key.public_key(), cls))
    made = {
        "RSA": jwt.algorithms.RSAAlgorithm,
        "EC": jwt.algorithms.ECAlgorithm,
        "OKP": jwt.algorithms.OKPAlgorithm,
    }[kind].to_jwk(key.public_key(), as_dict=True)
    return {**{name: value for name, value in made.items() if name != "key_ops"}, "kid": kid, **more}


KEYS = {"keys": [jwk(RSA_KEY, "rsa"), jwk(EC_KEY, "ec"), jwk(ED_KEY, "ed")]}


# Shared secrets


async def test_a_valid_token_authenticates_its_subject_with_its_scopes():
    token = signed(claims(scope="read pay"))
    assert await ask(BearerTokenAuth(SECRET), token) == Principal("ann", frozenset({"read", "pay"}))


async def test_other_claims_can_contain_the_principal_and_the_scopes():
    auth = BearerTokenAuth(SECRET, scopes_claim="roles", principal_claim="client_id")
    found = await ask(auth, signed(claims(client_id="robot", roles=["a", "b", 3, ""], scope="c")))
    assert found == Principal("robot", frozenset({"a", "b"}))


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
async def test_each_configured_shared_secret_algorithm_is_accepted(algorithm):
    secret = "s" * 64
    token = signed(claims(), secret, algorithm)
    assert await ask(BearerTokenAuth(secret, algorithm), token) is not None
    others = [each for each in ("HS256", "HS384", "HS512") if each != algorithm]
    assert await ask(BearerTokenAuth(secret, others), token) is None


@pytest.mark.parametrize(
    ("options", "changes", "accepted"),
    [
        ({}, {}, True),
        ({}, {"exp": -1}, False),
        ({"leeway": 30}, {"exp": -10}, True),
        ({"leeway": 30}, {"exp": -60}, False),
        ({}, {"exp": None}, False),
        ({"require_exp": False}, {"exp": None}, True),
        ({"require_exp": False}, {"exp": -1}, False),
        ({}, {"nbf": 60}, False),
        ({"leeway": 90}, {"nbf": 60}, True),
        ({}, {"iat": 60}, False),
        ({"issuer": "https://issuer.test"}, {"iss": "https://issuer.test"}, True),
        ({"issuer": "https://issuer.test"}, {"iss": "https://other.test"}, False),
        ({"issuer": "https://issuer.test"}, {}, False),
        ({"issuer": ["https://a.test", "https://b.test"]}, {"iss": "https://b.test"}, True),
        ({"audience": "agents"}, {"aud": "agents"}, True),
        ({"audience": "agents"}, {"aud": ["x", "agents"]}, True),
        ({"audience": "agents"}, {"aud": "other"}, False),
        ({"audience": "agents"}, {}, False),
        ({"audience": ["a", "b"]}, {"aud": "b"}, True),
        ({}, {"aud": "somebody else"}, False),
        ({}, {"sub": None}, False),
        ({}, {"sub": ""}, False),
        ({}, {"sub": 7}, False),
        ({}, {"sub": "a\nb"}, False),
        ({}, {"sub": "x" * 257}, False),
    ],
)
async def test_tokens_are_accepted_or_refused_by_their_claims(options, changes, accepted):
    times = {name: now() + value for name, value in changes.items() if name in ("exp", "nbf", "iat") and value}
    payload = {name: value for name, value in claims(**{**changes, **times}).items() if value is not None}
    raw = handmade({"alg": "HS256"}, payload, SECRET)
    assert (await ask(BearerTokenAuth(SECRET, **options), raw) is not None) is accepted


def segment(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def handmade(header, payload, secret):
    """Build a token without a library, which would check the claims."""
    head = f"{segment(json.dumps(header).encode())}.{segment(json.dumps(payload).encode())}"
    return f"{head}.{segment(hmac.digest(secret.encode(), head.encode(), hashlib.sha256))}"


NO_TIMES = [float("inf"), float("nan"), 10**400, "soon", "9999999999", " 1 ", [1], {}, True, False, None]


@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
@pytest.mark.parametrize("value", NO_TIMES, ids=repr)
async def test_a_signed_time_claim_that_is_not_a_number_is_refused(name, value):
    token = handmade({"alg": "HS256"}, claims(**{name: value}), SECRET)
    assert await ask(BearerTokenAuth(SECRET), token) is None
    assert await ask(BearerTokenAuth(SECRET, require_exp=False), token) is None


async def test_a_time_may_have_a_fraction():
    times = {"exp": now() + 60.5, "nbf": now() - 1.5, "iat": now() - 1.5}
    assert await ask(BearerTokenAuth(SECRET), handmade({"alg": "HS256"}, claims(**times), SECRET)) is not None


async def test_a_token_of_another_secret_is_refused():
    assert await ask(BearerTokenAuth(SECRET), signed(claims(), "t" * 40)) is None


async def test_a_changed_token_is_refused_also_after_the_original_was_cached():
    auth, token = BearerTokenAuth(SECRET), signed(claims())
    assert await ask(auth, token) is not None
    head, body, signature = token.split(".")
    forged = segment(json.dumps(claims(sub="eve")).encode())
    for other in (f"{head}.{forged}.{signature}", f"{head}.{body}.", f"{head}.{body}.{signature[::-1]}"):
        assert await ask(auth, other) is None


async def test_the_token_is_read_with_the_prefix_bearer_only():
    auth, token = BearerTokenAuth(SECRET), signed(claims())
    for metadata in (
        {"authorization": token},
        {"authorization": f"Basic {token}"},
        {"authorization": f"ApiKey {token}"},
        {"x-api-key": token},
        {"token": token},
    ):
        assert await auth(METHOD, metadata) is None


async def test_a_cached_token_is_refused_after_its_expiry(monkeypatch):
    auth, token = BearerTokenAuth(SECRET), signed(claims(exp=now() + 30))
    assert await ask(auth, token) is not None
    verified = []
    monkeypatch.setattr(auth, "_verify", lambda *asked: verified.append(asked) or refused())
    assert await ask(auth, token) is not None
    later = time.time() + 31
    monkeypatch.setattr(time, "time", lambda: later)
    assert await ask(auth, token) is None
    assert len(verified) == 1, "it was looked at again"


async def refused():
    return None


async def test_a_cached_token_is_not_verified_again(monkeypatch):
    auth, token = BearerTokenAuth(SECRET), signed(claims())
    first = await ask(auth, token)
    monkeypatch.setattr(auth, "_verify", None)
    assert await ask(auth, token) is first


async def test_the_cache_of_tokens_is_bounded(monkeypatch):
    monkeypatch.setattr("protolink_grpc.auth.bearer.MAX_CACHED", 3)
    auth = BearerTokenAuth(SECRET)
    for number in range(10):
        assert await ask(auth, signed(claims(sub=f"caller-{number}"))) is not None
        assert len(auth._verified) <= 3


# Keys and algorithms


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"),
    [(RSA_KEY, "RS256", "rsa"), (RSA_KEY, "PS512", "rsa"), (EC_KEY, "ES256", "ec"), (ED_KEY, "EdDSA", "ed")],
)
async def test_public_keys_of_each_kind_verify(key, algorithm, kid):
    auth = BearerTokenAuth(jwks=KEYS)
    assert await ask(auth, signed(claims(), key, algorithm, kid=kid)) is not None
    assert await ask(auth, signed(claims(), key, algorithm, kid="unknown")) is None


async def test_a_token_without_a_key_id_is_accepted_only_if_one_key_matches():
    token = signed(claims(), EC_KEY, "ES256")
    assert await ask(BearerTokenAuth(jwks=KEYS), token) is not None
    two = {"keys": [jwk(EC_KEY, "one"), jwk(EC_KEY, "two")]}
    assert await ask(BearerTokenAuth(jwks=two), token) is None


@pytest.mark.parametrize("kid", ["rsa", "ec", "ed", None])
@pytest.mark.parametrize("algorithm", ["HS256", "none", "None", "NONE", "", None, 7, ["RS256"]])
async def test_a_token_cannot_choose_a_shared_secret_or_no_signature(algorithm, kid):
    """The public key as an HMAC secret is the classic algorithm confusion."""
    pem = RSA_KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    header = {"alg": algorithm, **({"kid": kid} if kid else {})}
    token = handmade(header, claims(), pem.decode())
    unsigned = token.rpartition(".")[0] + "."
    for auth in (BearerTokenAuth(jwks=KEYS), BearerTokenAuth(SECRET)):
        assert await ask(auth, token) is None
        assert await ask(auth, unsigned) is None


async def test_a_key_cannot_be_used_with_the_algorithm_of_another_kind():
    auth = BearerTokenAuth(jwks=KEYS)
    assert await ask(auth, signed(claims(), EC_KEY, "ES256", kid="rsa")) is None
    assert await ask(auth, signed(claims(), RSA_KEY, "RS256", kid="ec")) is None


async def test_a_key_that_names_its_algorithm_is_for_that_one_only():
    auth = BearerTokenAuth(jwks={"keys": [jwk(RSA_KEY, "rsa", alg="RS256")]})
    assert await ask(auth, signed(claims(), RSA_KEY, "RS256", kid="rsa")) is not None
    assert await ask(auth, signed(claims(), RSA_KEY, "RS512", kid="rsa")) is None


async def test_algorithms_restrict_those_of_the_keys():
    auth = BearerTokenAuth(jwks=KEYS, algorithms=["ES256"])
    assert await ask(auth, signed(claims(), EC_KEY, "ES256", kid="ec")) is not None
    assert await ask(auth, signed(claims(), RSA_KEY, "RS256", kid="rsa")) is None


@pytest.mark.parametrize(
    "key",
    [
        jwk(RSA_KEY, "enc", use="enc"),
        jwk(RSA_KEY, "ops", key_ops=["encrypt"]),
        jwk(RSA_KEY, "oaep", alg="RSA-OAEP"),
        jwk(WEAK_RSA_KEY, "weak"),
        {**jwk(RSA_KEY, "private"), "d": "AQAB"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
        {"kty": "EC", "crv": "P-256", "kid": "broken", "x": "!", "y": "!"},
        {"kty": "EC", "crv": ["P-256"]},
        {"kty": "RSA"},
        {},
        "key",
        None,
    ],
)
def test_only_public_signature_keys_are_read(key):
    assert read_keys({"keys": [key]}) == ()
    assert len(read_keys({"keys": [key, jwk(EC_KEY, "ec")]})) == 1
    with pytest.raises(InvalidArgumentError):
        FixedKeys({"keys": [key]})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(list(jwk(RSA_KEY, "x"))), inner),
    max_leaves=10,
)


@given(JSON | st.fixed_dictionaries({"keys": st.lists(JSON)}))
def test_any_json_document_can_be_read_as_a_key_set(document):
    assert all(key.algorithms for key in read_keys(document))


@given(
    st.fixed_dictionaries(
        {"kty": st.sampled_from(["RSA", "EC", "OKP"]), "crv": st.sampled_from(["P-256", "Ed25519", "P-521"])},
        optional={name: st.text() | st.integers() | st.none() for name in ("n", "e", "x", "y", "kid", "alg", "use")},
    )
)
def test_invalid_keys_in_a_key_set_are_skipped(key):
    read_keys({"keys": [key]})


# Configuration


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"secret": SECRET, "jwks": KEYS},
        {"secret": SECRET, "jwks_url": "https://issuer.test/keys"},
        {"secret": "short"},
        {"secret": SECRET, "algorithms": "HS512"},
        {"secret": SECRET, "algorithms": "none"},
        {"secret": SECRET, "algorithms": "RS256"},
        {"secret": SECRET, "algorithms": ["HS256", "ES256"]},
        {"jwks": KEYS, "algorithms": "HS256"},
        {"jwks": KEYS, "algorithms": ["RS256", "none"]},
        {"jwks": {"keys": []}},
        {"jwks_url": "http://issuer.test/keys"},
        {"jwks_url": "file:///etc/keys"},
        {"jwks_url": "https://user:word@issuer.test/keys"},
        {"jwks_url": "https:///keys"},
        {"jwks_url": "https://[/"},
        {"secret": SECRET, "leeway": -1},
        {"secret": SECRET, "leeway": float("nan")},
    ],
)
def test_unsafe_settings_are_refused_without_secrets_in_the_error(arguments):
    with pytest.raises(InvalidArgumentError) as caught:
        BearerTokenAuth(**arguments)
    assert "short" not in str(caught.value)
    assert "word" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["https://issuer.test/keys", "http://127.0.0.1:1/k", "http://localhost/k", "http://[::1]/"]
)
def test_keys_may_come_from_https_and_from_this_machine(url):
    BearerTokenAuth(jwks_url=url)


def test_no_secret_is_in_the_representation():
    auth = BearerTokenAuth(SECRET)
    assert SECRET not in repr(auth)
    assert SECRET not in json.dumps(auth.schemes())


def test_the_card_names_bearer_jwt_the_issuer_and_the_audience():
    (scheme,) = BearerTokenAuth(SECRET, issuer="i", audience=["a", "b"]).schemes().values()
    assert (scheme["type"], scheme["scheme"], scheme["bearerFormat"]) == ("http", "bearer", "JWT")
    assert scheme["metadata"] == {"algorithms": ["HS256"], "issuer": "i", "audience": ["a", "b"]}


def test_basic_and_bearer_have_two_names_in_one_card():
    assert list(AnyOf(BasicAuth({}), BearerTokenAuth(SECRET)).schemes()) == ["http", "http-bearer"]


# Random input

AUTHS = [BearerTokenAuth(SECRET), BearerTokenAuth(jwks=KEYS)]
JUNK = st.one_of(
    st.text(),
    st.binary().map(segment),
    st.lists(st.binary().map(segment), min_size=3, max_size=3).map(".".join),
    st.tuples(JSON, JSON).map(
        lambda two: ".".join([*(segment(json.dumps(each).encode()) for each in two), "c2lnbmF0dXJl"])
    ),
    st.fixed_dictionaries({"alg": st.sampled_from(["HS256", "RS256", "ES256", "EdDSA"])}, optional={"kid": JSON}).map(
        lambda header: f"{segment(json.dumps(header).encode())}.e30.c2lnbmF0dXJl"
    ),
)


@pytest.mark.parametrize("auth", AUTHS, ids=["secret", "keys"])
@given(JUNK)
async def test_random_tokens_are_refused(auth, token):
    assert await ask(auth, token) is None


@given(JSON)
async def test_random_signed_claims_are_refused(payload):
    assert await ask(AUTHS[0], handmade({"alg": "HS256"}, payload, SECRET)) is None


async def test_deeply_nested_tokens_are_refused():
    deep = segment(b'{"alg":' + b"[" * 3000 + b"]" * 3000 + b"}")[:8000]
    assert await ask(AUTHS[0], f"{deep}.{deep[:50]}.x") is None
