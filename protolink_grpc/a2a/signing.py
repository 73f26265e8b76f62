"""Signed cards: JWS (RFC 7515) over the canonical form of a card. Where keys come from is the caller's business.

What is signed is the card of v1.0: its fields by its protobuf, without `signatures`, with what is REQUIRED and without what is
empty and not asked for (A2A v1.0.1, section 8.4.1). Fields that v1.0 does not know, v0.3's among them, are no part of it.
"""

from collections.abc import Mapping
from typing import Any, Final

import jwt
from a2a.types import a2a_pb2 as pb
from google.api import field_behavior_pb2  # type: ignore[import-untyped]  # ships no type information
from jwt.utils import base64url_decode, base64url_encode

from protolink_grpc.a2a.jcs import canonical_bytes
from protolink_grpc.a2a.json_reader import as_object
from protolink_grpc.errors import InvalidAgentResponseError, InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.json_value import from_json

Json = dict[str, Any]
Key = str | bytes | jwt.PyJWK

Descriptor = Any
Field = Any
"""What protobuf says of a message and of a field: classes of two implementations, of which only one has types."""

ALGORITHMS: Final = ("ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA")
"""Who can verify a card must not be able to sign one: no shared secrets."""

_JWS = jwt.PyJWS(algorithms=list(ALGORITHMS))


@checks_arguments
class CardSigner:
    """Signs cards with one private key.

    Args:
        private_key: PEM text, or a PyJWK.
        key_id: What verifiers find the public key by.
        jku: Where they may fetch it, a URL of a JWK set; empty says nothing.

    Raises:
        InvalidArgumentError: No such algorithm, no key id, or a key of another kind.
    """

    def __init__(self, private_key: Key, key_id: str, algorithm: str = "ES256", *, jku: str = "") -> None:
        if algorithm not in ALGORITHMS:
            raise InvalidArgumentError(f"must be one of {', '.join(ALGORITHMS)}", field="algorithm")
        if not key_id:
            raise InvalidArgumentError("must be a non-empty string", field="key_id")
        self._key = private_key
        self._algorithm = algorithm
        self._header = {"kid": key_id, "typ": "JOSE"} | ({"jku": jku} if jku else {})
        self._signed(b"{}")  # a wrong key is said now, not at the first request

    def sign(self, card: Json) -> Json:
        """A copy of the card with its signatures: one, or two where some readers drop fields that the specification keeps."""
        return card | {"signatures": [self._signed(payload) for payload in _payloads(card)]}

    def _signed(self, payload: bytes) -> Json:
        try:
            token = _JWS.encode(payload, self._key, self._algorithm, headers=dict(self._header))
        except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
            # Not its own words: they may quote the key.
            raise InvalidArgumentError(f"is no private key for {self._algorithm}", field="private_key") from None
        protected, _, signature = token.split(".")
        return {"protected": protected, "signature": signature}


@checks_arguments
def verify_card(card: object, keys: Mapping[str, Key]) -> str:
    """The id of a key that has signed this card.

    Args:
        keys: Public keys that are trusted, by their ids.

    Raises:
        InvalidAgentResponseError: None of them has.
    """
    try:
        source = as_object(card)
        payloads = _payloads(source)
    except InvalidArgumentError as error:
        raise InvalidAgentResponseError(f"the card has no canonical form: {error}") from None
    signatures = source.get("signatures")
    for signature in signatures if isinstance(signatures, list) else ():
        key_id = _signer(signature, payloads, keys)
        if key_id is not None:
            return key_id
    raise InvalidAgentResponseError("no trusted key has signed the card")


def _signer(signature: Any, payloads: list[bytes], keys: Mapping[str, Key]) -> str | None:
    """The id of the key, where the signature is good and the key is known."""
    try:
        protected, value = signature["protected"], signature["signature"]
        header = as_object(from_json(base64url_decode(protected)))
        key_id, algorithm = header["kid"], header["alg"]
        key = keys[key_id]
    except (TypeError, KeyError, ValueError):  # nothing that anybody could have signed
        return None
    if algorithm not in ALGORITHMS:
        return None
    for payload in payloads:
        try:
            _JWS.decode(f"{protected}.{base64url_encode(payload).decode()}.{value}", key, [algorithm])
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        return str(key_id)
    return None


def canonical_card(card: Json) -> bytes:
    """What is signed.

    Raises:
        InvalidArgumentError: A field of the wrong kind, or a value without a canonical form.
    """
    return canonical_bytes(_present(card, pb.AgentCard.DESCRIPTOR))


def _payloads(card: Json) -> list[bytes]:
    """What is signed, by the specification and as a2a-sdk reads it: it drops everything empty, REQUIRED or not."""
    present = _present(card, pb.AgentCard.DESCRIPTOR)
    exact, shortened = canonical_bytes(present), canonical_bytes(_without_empty(present))
    return [exact] if exact == shortened else [exact, shortened]


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_empty(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in ("", [], {}) and each is not None}
    if isinstance(value, list):
        return [each for each in map(_without_empty, value) if each not in ("", [], {}) and each is not None]
    return value


def _present(source: Json, descriptor: Descriptor) -> Json:
    """The fields that are present, by protobuf's rules and A2A's annotations."""
    found: Json = {}
    for each in descriptor.fields:
        if each.name == "signatures":
            continue
        value = source.get(each.json_name, source.get(each.name))
        required = field_behavior_pb2.REQUIRED in each.GetOptions().Extensions[field_behavior_pb2.field_behavior]
        if value is None:
            if required:
                found[each.json_name] = _nothing(each)
            continue
        value = _value(value, each)
        if required or each.has_presence or value not in ("", 0, False, [], {}):
            found[each.json_name] = value
    return found


def _nothing(each: Field) -> Any:
    if _is_map(each):
        return {}
    if each.message_type is None:
        return list(each.default_value) if isinstance(each.default_value, list) else each.default_value
    return _present({}, each.message_type) if each.has_presence else []


def _value(value: Any, each: Field) -> Any:
    """The value of a field with what is below it reduced likewise."""
    inner = each.message_type
    if inner is None or inner.full_name == "google.protobuf.Struct":
        return value
    if _is_map(each):
        inner = inner.fields_by_name["value"].message_type
        return (
            value
            if inner is None
            else {key: _present(as_object(item), inner) for key, item in as_object(value).items()}
        )
    if each.has_presence:  # of messages, the repeated ones have none
        return _present(as_object(value), inner)
    if not isinstance(value, list):
        raise InvalidArgumentError("must be an array", field=each.json_name)
    return [_present(as_object(item), inner) for item in value]


def _is_map(each: Field) -> bool:
    return each.message_type is not None and bool(each.message_type.GetOptions().map_entry)
