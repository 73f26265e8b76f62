"""Signed cards: the canonical form of JSON, the signed part of a card, and trusted keys."""

import json
import math
import struct
from typing import Any

import jwt
import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import create_agent_card_signer, create_signature_verifier
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc import AgentCard
from protolink_grpc.a2a.card import card_json, card_pb, dual_card_json
from protolink_grpc.a2a.jcs import canonical_bytes
from protolink_grpc.a2a.signing import CardSigner, canonical_card, verify_card
from protolink_grpc.a2a.values import V03, V1, Binding, PublicCard
from protolink_grpc.errors import InvalidAgentResponseError, InvalidArgumentError
from protolink_grpc.models import AgentSkill


def pems(key: Any) -> tuple[str, str]:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


PRIVATE, PUBLIC = pems(ec.generate_private_key(ec.SECP256R1()))
OTHER_PRIVATE, OTHER_PUBLIC = pems(ec.generate_private_key(ec.SECP256R1()))
BARE = PublicCard(AgentCard("sum", "Adds", "grpc://h:1", security_schemes={"mtls": {"type": "mutualTLS"}}))
FULL = PublicCard(
    AgentCard("sum", "Adds é", "grpc://h:1", skills=[AgentSkill("add")]),
    (Binding("http://h/", "JSONRPC", V1), Binding("http://h/", "JSONRPC", V03)),
)


# -- canonical JSON ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555555", "333333333.3333333"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_are_written_as_the_rfc_lists_them(bits, text):
    (number,) = struct.unpack(">d", bytes.fromhex(bits))  # Source: RFC 8785, appendix B
    assert canonical_bytes(number).decode() == text


def test_keys_are_sorted_by_their_utf16_code_units():
    found = {"€": 1, "\r": 2, "\ufb33": 3, "1": 4, "😀": 5, "\x80": 6, "ö": 7}
    assert list(json.loads(canonical_bytes(found))) == ["\r", "1", "\x80", "ö", "€", "😀", "\ufb33"]


def test_text_is_escaped_only_where_json_must():
    assert canonical_bytes("\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u2028/") == (
        b'"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"\xe2\x80\xa8/"'
    )


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_reads_as_what_was_written(number):
    text = canonical_bytes(number).decode()
    assert float(text) == number
    assert "E" not in text
    assert not text.endswith(".0")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)  # fmt: skip


@given(VALUES)
def test_the_canonical_form_of_a_value_is_that_value(value):
    assert json.loads(canonical_bytes(value), parse_int=float) == value


@given(st.dictionaries(st.text(), VALUES, min_size=2, max_size=5), st.randoms())
def test_the_order_of_keys_does_not_matter(value, random):
    items = list(value.items())
    random.shuffle(items)
    assert canonical_bytes(dict(items)) == canonical_bytes(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, 10**400, "\ud800", {"\ud800": 1}, {1}, b""])
def test_what_has_no_canonical_form_is_refused(value):
    with pytest.raises(InvalidArgumentError):
        canonical_bytes(value)


# -- what is signed ------------------------------------------------------------------------------------------------------


def test_defaults_are_dropped_unless_required_or_said():
    card = {  # Source: A2A v1.0.1, section 8.4.1
        "name": "Example Agent",
        "description": "",
        "supportedInterfaces": [],
        "version": "1",
        "capabilities": {"streaming": False, "pushNotifications": False, "extensions": []},
        "defaultInputModes": [],
        "defaultOutputModes": [],
        "skills": [],
        "signatures": [{"protected": "x"}],
        "unknown": 1,
    }
    assert canonical_card(card) == (
        b'{"capabilities":{"pushNotifications":false,"streaming":false},"defaultInputModes":[],"defaultOutputModes":[],'
        b'"description":"","name":"Example Agent","skills":[],"supportedInterfaces":[],"version":"1"}'
    )


def test_a_card_that_went_through_protobuf_has_the_same_canonical_form():
    for public in (BARE, FULL):
        rebuilt = json_format.MessageToDict(card_pb(public))
        assert canonical_card(rebuilt) == canonical_card(card_json(public))


# -- signatures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("public", [BARE, FULL])
def test_a_signed_card_is_verified_by_the_key_that_it_names(public):
    card = card_json(public)
    signed = CardSigner(PRIVATE, "k1").sign(card)
    assert verify_card(json.loads(json.dumps(signed)), {"k0": OTHER_PUBLIC, "k1": PUBLIC}) == "k1"
    assert "signatures" not in card
    header = jwt.get_unverified_header(f"{signed['signatures'][0]['protected']}..")
    assert header == {"alg": "ES256", "kid": "k1", "typ": "JOSE"}


def test_the_fields_of_v03_are_beside_the_signature():
    signed = CardSigner(PRIVATE, "k1").sign(dual_card_json(FULL))
    assert verify_card(signed, {"k1": PUBLIC}) == "k1"
    assert signed["signatures"][0].keys() == {"protected", "signature"}


@pytest.mark.parametrize("public", [BARE, FULL])
def test_the_reference_sdk_verifies_our_signature(public):
    signed = CardSigner(PRIVATE, "k1").sign(card_json(public))
    create_signature_verifier(lambda kid, jku: PUBLIC, ["ES256"])(parse_agent_card(signed))


@pytest.mark.parametrize("public", [BARE, FULL])
def test_we_verify_a_signature_of_the_reference_sdk(public):
    sign = create_agent_card_signer(PRIVATE, {"kid": "k1", "alg": "ES256", "jku": None, "typ": "JOSE"})
    signed = json_format.MessageToDict(sign(card_pb(public)))
    assert verify_card(signed, {"k1": PUBLIC}) == "k1"


@pytest.mark.parametrize("kind", ["RS256", "PS384", "ES256"])
def test_a_key_of_the_algorithm_signs_and_verifies(kind):
    key = ec.generate_private_key(ec.SECP256R1()) if kind == "ES256" else rsa.generate_private_key(65537, 2048)
    private, public = pems(key)
    assert verify_card(CardSigner(private, "k", kind).sign(card_json(FULL)), {"k": public}) == "k"


def refused(card: object, keys: dict[str, Any] | None = None) -> bool:
    try:
        verify_card(card, {"k1": PUBLIC} if keys is None else keys)
    except InvalidAgentResponseError:
        return True
    return False


def test_a_changed_card_is_refused():
    signed = CardSigner(PRIVATE, "k1").sign(card_json(FULL))
    assert not refused(signed)
    for changed in (
        signed | {"name": "other"},
        signed | {"skills": []},
        signed | {"documentationUrl": "https://evil"},
        signed | {"capabilities": {**signed["capabilities"], "streaming": False}},
    ):
        assert refused(changed)


def test_a_signature_by_another_key_is_refused():
    signed = CardSigner(OTHER_PRIVATE, "k1").sign(card_json(FULL))
    assert refused(signed)
    assert refused(CardSigner(PRIVATE, "k2").sign(card_json(FULL)))
    assert refused(CardSigner(PRIVATE, "k1").sign(card_json(FULL)), {})


def test_a_public_key_is_never_taken_for_a_shared_secret():
    card = card_json(FULL)
    hmac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    protected = jwt.utils.base64url_encode(b'{"alg":"HS256","kid":"k1"}').decode()
    signing_input = f"{protected}.{jwt.utils.base64url_encode(canonical_card(card)).decode()}".encode()
    signature = jwt.utils.base64url_encode(hmac.sign(signing_input, PUBLIC.encode())).decode()
    assert refused(card | {"signatures": [{"protected": protected, "signature": signature}]})
    none = jwt.utils.base64url_encode(b'{"alg":"none","kid":"k1"}').decode()
    assert refused(card | {"signatures": [{"protected": none, "signature": ""}]})


def test_one_good_signature_among_bad_ones_is_enough():
    signed = CardSigner(PRIVATE, "k1").sign(card_json(FULL))
    odd = [None, 1, {}, {"protected": 1, "signature": 2}, {"protected": "!", "signature": "!"}, {"protected": "e30"}]
    assert verify_card(signed | {"signatures": odd + signed["signatures"]}, {"k1": PUBLIC}) == "k1"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["signatures", "protected", "signature", "name", "skills", "capabilities", "securitySchemes", "extensions",
                         "params", "supportedInterfaces", "schemes", "x"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_no_json_breaks_the_verifier(card):
    assert refused(card)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [((PRIVATE, "k", "HS256"), "algorithm"), ((PRIVATE, "k", "RS256"), "private_key"), ((PUBLIC, "k"), "private_key"),
     (("secret", "k"), "private_key"), ((PRIVATE, ""), "key_id")],
)  # fmt: skip
def test_a_signer_that_could_not_sign_is_refused_when_made(arguments, field):
    with pytest.raises(InvalidArgumentError) as error:
        CardSigner(*arguments)
    assert error.value.field == field
    assert arguments[0] not in str(error.value)
