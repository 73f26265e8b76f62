"""The card of A2A v0.3 is valid for the models of a2a-sdk, in JSON and protobuf, and has only what v0.3 can express."""

from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb
from a2a.compat.v0_3 import proto_utils
from a2a.compat.v0_3 import types as schema
from google.protobuf.json_format import ParseDict

from protolink_grpc.a2a.v03.cards import card_json, card_pb, card_proto_json
from protolink_grpc.a2a.values import V03, V1, Binding, Extension, PublicCard
from protolink_grpc.models.card import AgentCard, AgentSkill

FLOWS = {
    "clientCredentials": {"tokenUrl": "https://a/token", "scopes": {"run": "Run tasks"}},
}
SCHEMES: dict[str, dict[str, Any]] = {
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "Ask us"},
    "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "oauth": {"type": "oauth2", "flows": FLOWS},
    "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://a/.well-known/openid-configuration"},
    "mtls": {"type": "mutualTLS"},
}


def _public(**rest: Any) -> PublicCard:
    card = AgentCard(
        "echo",
        "Says it again",
        "grpc://localhost:50051",
        version="1.2.3",
        skills=[AgentSkill("say_again", "Says it again", tags=["echo"], examples=["say x"])],
        security_schemes=rest.pop("schemes", {}),
    )
    bindings = (
        Binding("http://localhost:8080/", "JSONRPC", V1),
        Binding("localhost:50051", "GRPC", V1),
        Binding("http://localhost:8080/", "JSONRPC", V03),
        Binding("localhost:50051", "GRPC", V03),
        Binding("http://localhost:8080/", "HTTP+JSON", V03),
    )
    return PublicCard(card, rest.pop("bindings", bindings), **rest)


def test_a_card_is_valid_in_v03() -> None:
    public = _public(
        schemes=SCHEMES,
        push_notifications=True,
        extended_card=True,
        extensions=(Extension("urn:x", "An extension", True, {"a": 1}),),
        provider_organization="Us",
        provider_url="https://us",
        documentation_url="https://docs",
        icon_url="https://icon",
    )
    found = card_json(public)
    card = schema.AgentCard.model_validate(found)
    assert card.model_dump(mode="json", by_alias=True, exclude_none=True) == found
    assert (card.protocol_version, card.version, card.supports_authenticated_extended_card) == ("0.3.0", "1.2.3", True)
    assert found["capabilities"]["pushNotifications"] is True
    assert found["capabilities"]["extensions"] == [
        {"uri": "urn:x", "description": "An extension", "required": True, "params": {"a": 1}}
    ]
    assert {name: scheme["type"] for name, scheme in found["securitySchemes"].items()} == {
        name: scheme["type"] for name, scheme in SCHEMES.items()
    }
    assert found["securitySchemes"]["key"]["in"] == "header"
    assert found["securitySchemes"]["oauth"]["flows"] == FLOWS
    assert sorted(name for each in found["security"] for name in each) == sorted(SCHEMES)


def test_a_card_says_nothing_of_v1() -> None:
    found = card_json(_public(schemes=SCHEMES))
    assert found.keys().isdisjoint({"supportedInterfaces", "securityRequirements", "signatures"})
    assert "extendedAgentCard" not in found["capabilities"]
    assert all("securityRequirements" not in skill for skill in found["skills"])


def test_a_scheme_that_v03_has_no_word_for_is_left_out() -> None:
    flow = {"deviceAuthorizationUrl": "https://a/device", "tokenUrl": "https://a/token", "scopes": {}}
    schemes = {"device": {"type": "oauth2", "flows": {"deviceCode": flow}}, "bearer": SCHEMES["bearer"]}
    found = card_json(_public(schemes=schemes))
    assert (list(found["securitySchemes"]), found["security"]) == (["bearer"], [{"bearer": []}])
    assert list(card_pb(_public(schemes=schemes)).security_schemes) == ["bearer"]


def test_a_card_names_a_grpc_interface_as_clients_connect_to_it() -> None:
    found = card_json(_public())
    assert (found["url"], found["preferredTransport"]) == ("http://localhost:8080/", "JSONRPC")
    addresses = {each["transport"]: each["url"] for each in found["additionalInterfaces"]}
    assert addresses.keys() >= {"GRPC", "HTTP+JSON"}
    assert addresses["GRPC"] == "localhost:50051"


def test_a_card_without_interfaces_of_v03_has_a_url_all_the_same() -> None:
    found = card_json(_public(bindings=()))
    schema.AgentCard.model_validate(found)
    assert (found["url"], found["preferredTransport"]) == ("localhost:50051", "GRPC")


@pytest.mark.parametrize("schemes", [{}, SCHEMES])
def test_the_card_in_protobuf_says_what_the_card_in_json_says(schemes: dict[str, dict[str, Any]]) -> None:
    public = _public(schemes=schemes, push_notifications=True, provider_organization="Us", provider_url="https://us")
    theirs = proto_utils.FromProto.agent_card(card_pb(public))
    ours = schema.AgentCard.model_validate(card_json(public))
    assert (theirs.name, theirs.url, theirs.version, theirs.protocol_version) == (
        ours.name,
        ours.url,
        ours.version,
        ours.protocol_version,
    )
    assert theirs.additional_interfaces == ours.additional_interfaces
    assert (theirs.capabilities.streaming, theirs.capabilities.push_notifications) == (True, True)
    assert [skill.id for skill in theirs.skills] == [skill.id for skill in ours.skills]
    assert (theirs.security or []) == (ours.security or [])
    assert {name: scheme.root.type for name, scheme in (theirs.security_schemes or {}).items()} == {
        name: scheme.root.type for name, scheme in (ours.security_schemes or {}).items()
    }


def test_the_card_over_rest_is_protojson_with_its_required_fields() -> None:
    found = card_proto_json(_public(schemes=SCHEMES))
    ParseDict(found, pb.AgentCard())  # raises where a field is unknown
    required = {"name", "description", "url", "version", "capabilities", "skills", "protocolVersion"}
    assert found.keys() >= required | {"defaultInputModes", "defaultOutputModes"}
