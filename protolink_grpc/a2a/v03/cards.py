"""The agent's card as v0.3 shows it, in its JSON and in its protobuf. What is in a card is decided where v1.0's is made."""

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
"""Fields of v0.3's card that a dual card has as they are. Signatures are none: they are about v1.0's card."""

_CAPABILITIES: Final = ("streaming", "pushNotifications", "extensions")

_WRAPPER: Final = "SecurityScheme"
"""How the fields end in which v1.0, and v0.3's protobuf, wrap a security scheme by its kind; v0.3's JSON has a `type` instead."""


def card_json(public: PublicCard) -> Json:
    """As JSON-RPC shows it."""
    given, found = _made(public)
    schemes = _schemes(given, wrapped=False)
    if schemes:
        found["securitySchemes"] = schemes
        found["security"] = [{name: []} for name in schemes]
    return found


def card_proto_json(public: PublicCard) -> Json:
    """As REST shows it: ProtoJSON of v0.3's protobuf, with its required fields though they be empty."""
    given, found = _made(public)
    schemes = _schemes(given, wrapped=True)
    if schemes:
        found["securitySchemes"] = schemes
        found["security"] = [{"schemes": {name: {"list": []}}} for name in schemes]
    return found


def card_pb(public: PublicCard) -> v03.AgentCard:
    # Fields of schemes that are newer than v0.3 are unknown to its protobuf.
    return ParseDict(card_proto_json(public), v03.AgentCard(), ignore_unknown_fields=True)


def _made(public: PublicCard) -> tuple[Json, Json]:
    """A dual card, and what of v0.3's card both of its forms spell alike."""
    if all(binding.version != V03 for binding in public.bindings):
        # Spoken, but not announced: whoever has come so far knows the way.
        transport = "GRPC" if public.card.transport == "grpc" else "JSONRPC"
        url = public.card.url.partition("://")[2] if transport == "GRPC" else public.card.url
        public = replace(public, bindings=(Binding(url, transport, V03),))
    given = dual_card_json(public)
    found: Json = {name: given[name] for name in _FIELDS if name in given}
    found["capabilities"] = {name: each for name, each in given["capabilities"].items() if name in _CAPABILITIES}
    return given, found


def _schemes(given: Json, *, wrapped: bool) -> Json:
    """The security schemes for which v0.3 has words, in the one form or the other."""
    return {
        name: {key: each for key, each in scheme.items() if key.endswith(_WRAPPER) is wrapped}
        for name, scheme in given.get("securitySchemes", {}).items()
        if "type" in scheme
    }
