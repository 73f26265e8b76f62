"""Cards in the forms of A2A, written and read."""

from typing import Any

import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc import AgentCard
from protolink_grpc.a2a.card import card_from_a2a, card_json, card_pb, dual_card_json, etag
from protolink_grpc.a2a.values import V03, V1, Binding, Extension, PublicCard
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import AgentSkill

BINDINGS = (
    Binding("http://host:80/", "JSONRPC", V1),
    Binding("host:50051", "GRPC", V1),
    Binding("http://host:80/", "JSONRPC", V03),
    Binding("host:50051", "GRPC", V03),
)
SCHEMES: dict[str, dict[str, Any]] = {
    "apiKey": {"type": "apiKey", "scheme": None, "description": "A key", "metadata": {}, "in": "header", "name": "X-API-Key"},
    "http": {"type": "http", "scheme": "bearer", "description": "A token", "metadata": {}, "bearerFormat": "JWT"},
    "oauth": {"type": "oauth2", "flows": {"client_credentials": {"token_url": "https://t", "scopes": {"pay": "Pay"}}}},
    "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://o"},
    "mtls": {"type": "mutualTLS"},
}  # fmt: skip


def public(**changes: Any) -> PublicCard:
    fields: dict[str, Any] = {
        "card": AgentCard(
            "sum", "Adds", "grpc://host:50051", skills=[AgentSkill("add_up", "Adds numbers", tags=["math"])], **changes
        ),
        "bindings": BINDINGS,
    }
    return PublicCard(**fields)


def test_what_a2a_calls_required_is_in_the_barest_card():
    found = card_json(PublicCard(AgentCard("sum", "Adds", "grpc://h:1", input_formats=[], output_formats=[])))
    assert found == {
        "name": "sum",
        "description": "Adds",
        "supportedInterfaces": [],
        "version": "1.0.0",
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": False},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [],
    }


def test_a_skill_has_a_name_and_a_tag_even_where_ours_has_neither():
    card = AgentCard("sum", "Adds", "grpc://h:1", skills=[AgentSkill("add_up", examples=["1 + 1", {"a": 1}])])
    (skill,) = card_json(PublicCard(card))["skills"]
    assert skill == {
        "id": "add_up",
        "name": "Add up",
        "description": "Add up",
        "tags": ["add_up"],
        "examples": ["1 + 1", '{"a":1}'],
    }


def test_security_schemes_are_wrapped_and_each_of_them_alone_is_enough():
    found = card_json(public(security_schemes=SCHEMES))
    assert found["securitySchemes"] == {
        "apiKey": {"apiKeySecurityScheme": {"description": "A key", "location": "header", "name": "X-API-Key"}},
        "http": {"httpAuthSecurityScheme": {"description": "A token", "scheme": "bearer", "bearerFormat": "JWT"}},
        "oauth": {"oauth2SecurityScheme": {"flows": {"clientCredentials": {"tokenUrl": "https://t", "scopes": {"pay": "Pay"}}}}},
        "oidc": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://o"}},
        "mtls": {"mtlsSecurityScheme": {"description": "Client certificate"}},
    }  # fmt: skip
    assert found["securityRequirements"] == [{"schemes": {name: {"list": []}}} for name in SCHEMES]


@pytest.mark.parametrize(
    "scheme",
    [
        {"type": "kerberos"},
        {"type": "apiKey", "scheme": None},
        {"type": "apiKey", "in": "body", "name": "k"},
        {"type": "http"},
        {"type": "oauth2", "flows": {"clientCredentials": {}}},
        {"type": "oauth2"},
        {"type": "openIdConnect"},
        {},
    ],
)
def test_a_scheme_that_a2a_has_no_words_for_is_left_out(scheme):
    found = card_json(public(security_schemes={"odd": scheme, "mtls": {"type": "mutualTLS"}}))
    assert list(found["securitySchemes"]) == ["mtls"]
    assert found["securityRequirements"] == [{"schemes": {"mtls": {"list": []}}}]


def test_the_protobuf_card_says_what_the_json_says():
    full = PublicCard(
        public(security_schemes=SCHEMES).card,
        (*BINDINGS, Binding("http://t", "HTTP+JSON", tenant="t")),
        push_notifications=True,
        extended_card=True,
        extensions=(Extension("urn:x", "An extension", True, {"n": 1}),),
        provider_url="https://p",
        provider_organization="P",
        documentation_url="https://d",
        icon_url="https://i",
    )
    written = json_format.MessageToDict(card_pb(full))
    expected = card_json(full)
    for requirement in expected["securityRequirements"]:
        for each in requirement["schemes"].values():
            del each["list"]  # protobuf does not tell an empty list from none
    assert written == expected


def test_a_dual_card_says_to_v03_where_to_dial():
    found = dual_card_json(public())
    assert found["url"] == "http://host:80/"
    assert found["preferredTransport"] == "JSONRPC"
    assert found["protocolVersion"] == "0.3.0"
    assert found["additionalInterfaces"] == [
        {"url": "http://host:80/", "transport": "JSONRPC"},
        {"url": "host:50051", "transport": "GRPC"},
    ]
    assert found["supportedInterfaces"][1]["url"] == "host:50051"
    assert "supportsAuthenticatedExtendedCard" not in found


def test_a_dual_card_is_a_v1_card_alone_where_v03_is_not_served():
    only = PublicCard(AgentCard("sum", "Adds", "grpc://h:1"), BINDINGS[:2])
    assert dual_card_json(only) == card_json(only)


def test_both_readers_of_a_dual_card_find_its_security():
    found = dual_card_json(public(security_schemes=SCHEMES))
    assert found["security"] == [{name: []} for name in SCHEMES]
    assert found["securitySchemes"]["apiKey"]["in"] == "header"
    read = parse_agent_card(found)
    assert read.security_schemes["http"].http_auth_security_scheme.scheme == "bearer"
    assert [each.protocol_version for each in read.supported_interfaces] == ["1.0", "1.0", "0.3", "0.3"]


def test_equal_cards_have_equal_tags_and_others_have_not():
    first, second = etag(card_json(public())), etag(card_json(public(version="2")))
    assert first == etag(card_json(public()))
    assert first != second
    assert first[0] == first[-1] == '"'


def test_a_v1_card_is_read_back():
    card = card_from_a2a(card_json(public(security_schemes=SCHEMES, input_formats=["image/png"])))
    assert (card.name, card.url, card.transport, card.protocol_version) == ("sum", "http://host:80/", "json-rpc", "1.0")
    assert [(each.transport, each.protocol_version) for each in card.interfaces] == [
        ("grpc", "1.0"),
        ("json-rpc", "0.3"),
        ("grpc", "0.3"),
    ]
    assert card.skills[0].id == "add_up"
    assert card.input_formats == ["image/png"]
    assert card.capabilities.streaming
    assert card.security_schemes is not None
    assert card.security_schemes["apiKey"] == {
        "type": "apiKey",
        "description": "A key",
        "in": "header",
        "name": "X-API-Key",
    }
    assert set(card.security_schemes) == set(SCHEMES)


def test_a_v03_card_is_read_as_well():
    card = card_from_a2a(
        {
            "name": "old",
            "description": "Old",
            "url": "https://old/a2a",
            "preferredTransport": "HTTP+JSON",
            "additionalInterfaces": [
                {"url": "https://old/a2a", "transport": "HTTP+JSON"},
                {"url": "grpc://old:1", "transport": "GRPC"},
            ],
            "protocolVersion": "0.3.0",
            "capabilities": {"streaming": True, "stateTransitionHistory": True},
            "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "K"}},
            "skills": [{"id": "s", "name": "S", "description": "", "tags": []}],
            "version": "1",
            "defaultInputModes": ["text"],
            "defaultOutputModes": ["text"],
        }
    )
    assert (card.url, card.transport, card.protocol_version) == ("https://old/a2a", "http", "0.3")
    assert [each.url for each in card.interfaces] == ["grpc://old:1"]
    assert card.security_schemes == {"key": {"type": "apiKey", "in": "header", "name": "K"}}
    assert card.skills[0].description == "S"


def test_a_v1_interface_is_better_than_a_v03_one_that_stands_before_it():
    card = card_from_a2a({"name": "x", "supportedInterfaces": [
        {"url": "http://old", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        {"url": "host:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
    ]})  # fmt: skip
    assert (card.url, card.transport) == ("host:1", "grpc")


@pytest.mark.parametrize(
    ("found", "field"),
    [
        ([], ""),
        ({"name": "x"}, "supportedInterfaces"),
        ({"name": "x", "supportedInterfaces": [{"url": 1}]}, "supportedInterfaces[0].url"),
        ({"name": "x", "url": "u", "skills": [{}]}, "skills[0].id"),
        ({"name": "x", "url": "u", "capabilities": {"streaming": "yes"}}, "capabilities.streaming"),
        ({"name": "x", "url": "u", "securitySchemes": {"a": 1}}, "securitySchemes.a"),
    ],
)
def test_a_card_that_is_none_is_refused_by_the_field(found, field):
    with pytest.raises(InvalidArgumentError) as error:
        card_from_a2a(found)
    assert error.value.field == field


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["name", "url", "supportedInterfaces", "securitySchemes", "type", "skills", "flows", "capabilities",
                         "httpAuthSecurityScheme", "oauth2SecurityScheme", "id", "x"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


CARDS = st.fixed_dictionaries(
    {"name": st.just("x"), "url": st.just("u")},
    optional=dict.fromkeys(("supportedInterfaces", "securitySchemes", "skills", "capabilities", "version"), JSON),
)


@given(JSON | CARDS)
def test_no_json_breaks_the_reader_of_cards(found):
    try:
        card_from_a2a(found)
    except InvalidArgumentError:
        pass


SAYINGS = st.sampled_from(
    ["apiKey", "http", "oauth2", "openIdConnect", "mutualTLS", "header", None, 7, {}, {"password": {"tokenUrl": "t"}}]
)
SCHEME_KEYS = st.sampled_from(
    ["type", "in", "name", "scheme", "flows", "openIdConnectUrl", "bearerFormat", "description"]
)


@given(st.dictionaries(st.text(max_size=4), st.dictionaries(SCHEME_KEYS, SAYINGS), max_size=3))
def test_whatever_a_card_says_of_security_its_a2a_form_is_valid(schemes):
    found = card_json(public(security_schemes=schemes))
    json_format.ParseDict(found, pb.AgentCard())
    dual_card_json(public(security_schemes=schemes))
