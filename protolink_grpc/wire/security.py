"""Converts security schemes between the dicts of a card and `plgrpc`. Authentication lives elsewhere.

A dict has ProtoLink's four keys (`type`, `scheme`, `description`, `metadata`) and those of A2A 0.3 for its type: `in` and `name`,
`bearerFormat`, `flows` and `oauth2MetadataUrl`, `openIdConnectUrl`. Both spellings are read, camelCase and snake_case; camelCase is
written. Every dict has a message and every message a dict: in a known type, keys without a field in the contract become metadata;
another type is a custom scheme with all its keys.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.message import DecodeError
from plgrpc.v1 import agent_card_pb2 as pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.wire.compile import enum_numbers
from protolink_grpc.wire.scalars import json_object_from_pb, json_object_to_pb

Facts = dict[str, Any]

UNKNOWN: Final = "unknown"
"""Type of a scheme of a later version. Its key `encoded` has the original message, which is sent unchanged."""

_COMMON: Final = ("type", "description", "metadata")

_LOCATIONS: Final = enum_numbers(str, pb2.ApiKeyLocation.DESCRIPTOR, field="in")

_FLOWS: Final = MappingProxyType(
    {
        "authorizationCode": "authorization_code",
        "clientCredentials": "client_credentials",
        "implicit": "implicit",
        "password": "password",
        "deviceCode": "device_code",
    }
)
_FLOW_FIELDS: Final = MappingProxyType({field: key for key, field in _FLOWS.items()})

_FLOW_URLS: Final = MappingProxyType(
    {
        "authorizationUrl": "authorization_url",
        "tokenUrl": "token_url",
        "deviceAuthorizationUrl": "device_authorization_url",
        "refreshUrl": "refresh_url",
    }
)


def scheme_to_pb(name: str, scheme: Mapping[str, Any], field: str) -> pb2.SecurityScheme:
    """Convert a scheme to a message. The default of its type is its name in the card.

    Raises:
        InvalidArgumentError: A value without a JSON form; names its path.
        AttributeError, TypeError, ValueError: Not a mapping, or a value of the wrong type.
    """
    kind = scheme.get("type") or name
    if kind == UNKNOWN and (kept := _decode_unknown(scheme.get("encoded"))) is not None:
        return kept
    facts = {key: value for key, value in scheme.items() if key not in _COMMON}
    if facts.get("scheme", "") is None:
        del facts["scheme"]
    out = pb2.SecurityScheme(description=scheme.get("description") or "")
    write = _WRITERS.get(kind)
    if write is None:
        out.custom.type = kind
        out.custom.content_json = json_object_to_pb(facts, f"{field}.custom.content_json")
        facts = {}
    else:
        write(out, facts)
    out.metadata_json = json_object_to_pb(facts | (scheme.get("metadata") or {}), f"{field}.metadata_json")
    return out


def scheme_from_pb(pb: pb2.SecurityScheme, field: str) -> Facts:
    """Convert a message to the dict of a scheme.

    Raises:
        InvalidArgumentError: A custom scheme without a type, or content that is not a JSON object; names the path.
    """
    metadata = json_object_from_pb(pb.metadata_json, f"{field}.metadata_json")
    found: Facts = {"type": UNKNOWN, "scheme": None, "description": pb.description, "metadata": metadata}
    facts: Facts
    match pb.WhichOneof("scheme"):
        case "api_key":
            location = _LOCATIONS.read(pb.api_key.location) if pb.api_key.location else ""
            facts = {"type": "apiKey", "in": location, "name": pb.api_key.name}
        case "http":
            facts = {"type": "http", "scheme": pb.http.scheme, "bearerFormat": pb.http.bearer_format}
        case "oauth2":
            flows = {_FLOW_FIELDS[each.name]: _flow_from_pb(flow) for each, flow in _list_flows(pb.oauth2)}
            facts = {"type": "oauth2", "flows": flows, "oauth2MetadataUrl": pb.oauth2.metadata_url}
        case "open_id_connect":
            facts = {"type": "openIdConnect", "openIdConnectUrl": pb.open_id_connect.url}
        case "mutual_tls":
            facts = {"type": "mutualTLS"}
        case "custom":
            return _custom_from_pb(pb, found, field)
        case _:
            encoded = base64.b64encode(pb.SerializeToString(deterministic=True)).decode()
            return found | {"encoded": encoded}
    return found | {key: value for key, value in facts.items() if value}


def _custom_from_pb(pb: pb2.SecurityScheme, found: Facts, field: str) -> Facts:
    kind = pb.custom.type
    if not kind or kind.isspace():
        raise InvalidArgumentError("must not be empty", field=f"{field}.custom.type")
    content = json_object_from_pb(pb.custom.content_json, f"{field}.custom.content_json")
    # The content's keys first, in their order, so that the same scheme is encoded to the same bytes again.
    facts = {key: value for key, value in content.items() if key not in _COMMON}
    facts |= {key: value for key, value in found.items() if key not in facts} | {"type": kind}
    # A custom scheme of a known type is read like a scheme of this type.
    return facts if kind not in _WRITERS else scheme_from_pb(scheme_to_pb(kind, facts, field), field)


def _decode_unknown(encoded: object) -> pb2.SecurityScheme | None:
    """Return the original message; None if the text is not a scheme of an unknown kind."""
    if not isinstance(encoded, str):
        return None
    try:
        out = pb2.SecurityScheme.FromString(binascii.a2b_base64(encoded, strict_mode=True))
    except (ValueError, DecodeError):
        return None
    return out if out.WhichOneof("scheme") is None else None


_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")


def _spelling_of(facts: Facts, key: str) -> str:
    """Return the spelling of the key in `facts`."""
    return key if key in facts else _CAPITAL.sub(r"_\1", key).lower()


def _pop_text(facts: Facts, key: str) -> str:
    """Remove a key with a text and return the text; empty if it has another value, which stays."""
    spelled = _spelling_of(facts, key)
    return facts.pop(spelled) if isinstance(facts.get(spelled), str) else ""


# Each writer sets the oneof and removes the keys from `facts` that have a field.


def _write_api_key(out: pb2.SecurityScheme, facts: Facts) -> None:
    out.api_key.name = _pop_text(facts, "name")
    try:
        out.api_key.location = _LOCATIONS[facts["in"]]
    except (InvalidArgumentError, KeyError, TypeError, ValueError):  # not a location of the contract
        return
    del facts["in"]


def _write_http(out: pb2.SecurityScheme, facts: Facts) -> None:
    out.http.scheme = _pop_text(facts, "scheme")
    out.http.bearer_format = _pop_text(facts, "bearerFormat")


def _write_oauth2(out: pb2.SecurityScheme, facts: Facts) -> None:
    out.oauth2.metadata_url = _pop_text(facts, "oauth2MetadataUrl")
    flows = facts.get("flows")
    if not isinstance(flows, dict):
        return
    left: Facts = {}
    for key, flow in flows.items():
        name = _FLOWS.get(key, key)
        typed = _flow_to_pb(flow) if name in _FLOW_FIELDS else None
        if typed is None or name in (each.name for each, _ in out.oauth2.ListFields()):
            left[key] = flow
        else:
            getattr(out.oauth2, name).CopyFrom(typed)
    del facts["flows"]
    if left:
        facts["flows"] = left


def _write_open_id_connect(out: pb2.SecurityScheme, facts: Facts) -> None:
    out.open_id_connect.url = _pop_text(facts, "openIdConnectUrl")


def _write_mutual_tls(out: pb2.SecurityScheme, facts: Facts) -> None:
    out.mutual_tls.SetInParent()


_WRITERS: Final[Mapping[str, Callable[[pb2.SecurityScheme, Facts], None]]] = MappingProxyType(
    {
        "apiKey": _write_api_key,
        "http": _write_http,
        "oauth2": _write_oauth2,
        "openIdConnect": _write_open_id_connect,
        "mutualTLS": _write_mutual_tls,
    }
)


def _flow_to_pb(flow: object) -> pb2.OAuthFlow | None:
    """Convert a flow; None if it has a key that the contract has no field for."""
    if not isinstance(flow, dict):
        return None
    facts = dict(flow)
    out = pb2.OAuthFlow()
    for key, name in _FLOW_URLS.items():
        setattr(out, name, _pop_text(facts, key))
    scopes = facts.pop("scopes", {})
    if not isinstance(scopes, dict) or not all(isinstance(each, str) for pair in scopes.items() for each in pair):
        return None
    out.scopes.update(scopes)
    pkce = _spelling_of(facts, "pkceRequired")
    if isinstance(facts.get(pkce), bool):
        out.pkce_required = facts.pop(pkce)
    return None if facts else out


def _flow_from_pb(pb: pb2.OAuthFlow) -> Facts:
    found: Facts = {key: getattr(pb, field) for key, field in _FLOW_URLS.items() if getattr(pb, field)}
    found["scopes"] = dict(pb.scopes)
    return found | ({"pkceRequired": True} if pb.pkce_required else {})


def _list_flows(pb: pb2.OAuth2Security) -> list[tuple[Any, pb2.OAuthFlow]]:
    return [(of, flow) for of, flow in pb.ListFields() if of.name in _FLOW_FIELDS]
