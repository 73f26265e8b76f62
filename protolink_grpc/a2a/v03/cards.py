"""The agent's card in v0.3's JSON and protobuf, derived from the v1.0 card."""

from dataclasses import replace
from typing import Any, Final

from a2a.compat.v0_3 import a2a_v0_3_pb2 as v03
from google.protobuf.json_format import ParseDict

from protolink_grpc.a2a.card import dual_card_json
from protolink_grpc.a2a.values import V03, Binding, PublicCard

Json = dict[str, Any]

_FIELDS: Final[tuple[str, ...]] = (
    "protocolVersion",
    "name",
    "description",
    "version",
    "url",
    "preferredTransport",
    "additionalInterfaces",
    "provider",
    "documentationUrl",
    "iconUrl",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
    "supportsAuthenticatedExtendedCard",
)
"""Fields of the v0.3 card that a dual card has in the same form. Signatures are not among them: they sign the v1.0 card."""

_CAPABILITIES: Final = ("streaming", "pushNotifications", "extensions")

_WRAPPER: Final = "SecurityScheme"
"""Suffix of the fields in which v1.0 and v0.3's protobuf wrap a security scheme; v0.3's JSON has a `type` instead."""


def card_json(public: PublicCard) -> Json:
    """Return the card as JSON-RPC shows it."""
    given, found = _common_fields(public)
    schemes = _schemes_json(given, wrapped=False)
    if schemes:
        found["securitySchemes"] = schemes
        found["security"] = [{name: []} for name in schemes]
    return found


def card_proto_json(public: PublicCard) -> Json:
    """Return the card as REST shows it: ProtoJSON of v0.3's protobuf, with required fields even if they are empty."""
    given, found = _common_fields(public)
    schemes = _schemes_json(given, wrapped=True)
    if schemes:
        found["securitySchemes"] = schemes
        found["security"] = [{"schemes": {name: {"list": []}}} for name in schemes]
    return found


def card_pb(public: PublicCard) -> v03.AgentCard:
    # Schemes can have fields that are newer than v0.3 and missing in its protobuf.
    return ParseDict(card_proto_json(public), v03.AgentCard(), ignore_unknown_fields=True)


def _common_fields(public: PublicCard) -> tuple[Json, Json]:
    """Return a dual card, and the fields of the v0.3 card that are the same in JSON and in protobuf."""
    if all(binding.version != V03 for binding in public.bindings):
        # v0.3 is served but not listed in the card: list the card's own URL, because a v0.3 card requires an interface.
        transport = "GRPC" if public.card.transport == "grpc" else "JSONRPC"
        url = public.card.url.partition("://")[2] if transport == "GRPC" else public.card.url
        public = replace(public, bindings=(Binding(url, transport, V03),))
    given = dual_card_json(public)
    found: Json = {name: given[name] for name in _FIELDS if name in given}
    found["capabilities"] = {name: each for name, each in given["capabilities"].items() if name in _CAPABILITIES}
    return given, found


def _schemes_json(given: Json, *, wrapped: bool) -> Json:
    """Return the security schemes that v0.3 defines, either wrapped or with a `type`."""
    return {
        name: {key: each for key, each in scheme.items() if key.endswith(_WRAPPER) is wrapped}
        for name, scheme in given.get("securitySchemes", {}).items()
        if "type" in scheme
    }
