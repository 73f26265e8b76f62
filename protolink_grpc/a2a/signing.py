"""Signed cards: JWS (RFC 7515) over the canonical form of a card. The calling code provides the keys.

The signed payload is the v1.0 card: the fields of its protobuf message, without `signatures`, with all REQUIRED fields and without
empty optional ones (A2A v1.0.1, section 8.4.1). Fields that v1.0 does not define, such as those of v0.3, are not signed.
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
"""Descriptors of a protobuf message and of a field. Protobuf has two implementations of them, and only one has type information."""

ALGORITHMS: Final = ("ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA")
"""Asymmetric algorithms only: a verifier must not be able to sign cards with the key."""

_JWS = jwt.PyJWS(algorithms=list(ALGORITHMS))


@checks_arguments
class CardSigner:
    """Signs cards with one private key.

    Args:
        private_key: PEM text, or a PyJWK.
        key_id: Id by which verifiers find the public key.
        jku: URL of a JWK set from which verifiers may fetch it; empty omits the header.

    Raises:
        InvalidArgumentError: An unsupported algorithm, no key id, or a key that does not fit the algorithm.
    """

    def __init__(self, private_key: Key, key_id: str, algorithm: str = "ES256", *, jku: str = "") -> None:
        if algorithm not in ALGORITHMS:
            raise InvalidArgumentError(f"must be one of {', '.join(ALGORITHMS)}", field="algorithm")
        if not key_id:
            raise InvalidArgumentError("must be a non-empty string", field="key_id")
        self._key = private_key
        self._algorithm = algorithm
        self._header = {"kid": key_id, "typ": "JOSE"} | ({"jku": jku} if jku else {})
        self._sign_payload(b"{}")  # an invalid key fails here, not at the first request

    def sign(self, card: Json) -> Json:
        """Return a copy of the card with one signature, or with two if the payload of a2a-sdk differs from the specification's."""
        return card | {"signatures": [self._sign_payload(payload) for payload in _payloads(card)]}

    def _sign_payload(self, payload: bytes) -> Json:
        try:
            token = _JWS.encode(payload, self._key, self._algorithm, headers=dict(self._header))
        except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
            # Without the original text, which may quote the key.
            raise InvalidArgumentError(f"is not a private key for {self._algorithm}", field="private_key") from None
        protected, _, signature = token.split(".")
        return {"protected": protected, "signature": signature}


@checks_arguments
def verify_card(card: object, keys: Mapping[str, Key]) -> str:
    """Return the id of a trusted key that has signed this card.

    Args:
        keys: Trusted public keys, by their ids.

    Raises:
        InvalidAgentResponseError: No trusted key has signed it.
    """
    try:
        source = as_object(card)
        payloads = _payloads(source)
    except InvalidArgumentError as error:
        raise InvalidAgentResponseError(f"the card has no canonical form: {error}") from None
    signatures = source.get("signatures")
    for signature in signatures if isinstance(signatures, list) else ():
        key_id = _find_signer(signature, payloads, keys)
        if key_id is not None:
            return key_id
    raise InvalidAgentResponseError("no trusted key has signed the card")


def _find_signer(signature: Any, payloads: list[bytes], keys: Mapping[str, Key]) -> str | None:
    """Return the id of the key if the signature is valid and the key is trusted, otherwise None."""
    try:
        protected, value = signature["protected"], signature["signature"]
        header = as_object(from_json(base64url_decode(protected)))
        key_id, algorithm = header["kid"], header["alg"]
        key = keys[key_id]
    except (TypeError, KeyError, ValueError):  # malformed, or signed with an unknown key
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
    """Return the signed payload of a card.

    Raises:
        InvalidArgumentError: A field of the wrong type, or a value without a canonical form.
    """
    return canonical_bytes(_present_fields(card, pb.AgentCard.DESCRIPTOR))


def _payloads(card: Json) -> list[bytes]:
    """Return the payload of the specification and, if it differs, that of a2a-sdk, which omits empty REQUIRED fields as well."""
    present = _present_fields(card, pb.AgentCard.DESCRIPTOR)
    exact, shortened = canonical_bytes(present), canonical_bytes(_without_empty(present))
    return [exact] if exact == shortened else [exact, shortened]


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_empty(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in ("", [], {}) and each is not None}
    if isinstance(value, list):
        return [each for each in map(_without_empty, value) if each not in ("", [], {}) and each is not None]
    return value


def _present_fields(source: Json, descriptor: Descriptor) -> Json:
    """Return the fields that are present, by protobuf's rules and A2A's annotations."""
    found: Json = {}
    for each in descriptor.fields:
        if each.name == "signatures":
            continue
        value = source.get(each.json_name, source.get(each.name))
        required = field_behavior_pb2.REQUIRED in each.GetOptions().Extensions[field_behavior_pb2.field_behavior]
        if value is None:
            if required:
                found[each.json_name] = _default_value(each)
            continue
        value = _field_value(value, each)
        if required or each.has_presence or value not in ("", 0, False, [], {}):
            found[each.json_name] = value
    return found


def _default_value(each: Field) -> Any:
    if _is_map(each):
        return {}
    if each.message_type is None:
        return list(each.default_value) if isinstance(each.default_value, list) else each.default_value
    return _present_fields({}, each.message_type) if each.has_presence else []


def _field_value(value: Any, each: Field) -> Any:
    """Return the value of a field; `_present_fields` is applied to its nested messages."""
    inner = each.message_type
    if inner is None or inner.full_name == "google.protobuf.Struct":
        return value
    if _is_map(each):
        inner = inner.fields_by_name["value"].message_type
        return (
            value
            if inner is None
            else {key: _present_fields(as_object(item), inner) for key, item in as_object(value).items()}
        )
    if each.has_presence:  # a single message; repeated messages have no presence
        return _present_fields(as_object(value), inner)
    if not isinstance(value, list):
        raise InvalidArgumentError("must be an array", field=each.json_name)
    return [_present_fields(as_object(item), inner) for item in value]


def _is_map(each: Field) -> bool:
    return each.message_type is not None and bool(each.message_type.GetOptions().map_entry)
