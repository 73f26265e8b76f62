"""Conversion of cards to and from protobuf: lossless, and invalid values are refused with their path."""

from contextlib import suppress
from dataclasses import replace

import pytest
from card_values import FLOWS, KNOWN_SCHEMES, cards
from hypothesis import given
from hypothesis import strategies as st
from plgrpc.v1 import agent_card_pb2 as pb2
from wire_values import json_values, texts

from protolink_grpc.a2a.card import dual_card_json
from protolink_grpc.a2a.values import PublicCard
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.card import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from protolink_grpc.wire.cards import FLAGS, MAX_CARD_BYTES, card_from_bytes, card_from_pb, card_to_bytes, card_to_pb

SCHEME_KEYS = [
    "type",
    "scheme",
    "description",
    "metadata",
    "in",
    "name",
    "bearerFormat",
    "flows",
    "openIdConnectUrl",
    "x",
]


def minimal(**fields: object) -> pb2.AgentCard:
    first = pb2.AgentInterface(url="grpc://h:1", transport="grpc")
    return pb2.AgentCard(**({"name": "n", "description": "d", "interfaces": [first]} | fields))


@given(cards)
def test_the_same_card_gives_the_same_bytes_after_any_number_of_hops(card):
    encoded = card_to_bytes(card)
    assert card_to_bytes(card_from_bytes(encoded)) == encoded


def test_every_field_of_a_security_scheme_is_converted():
    flow = {
        "authorizationUrl": "a",
        "tokenUrl": "t",
        "deviceAuthorizationUrl": "d",
        "refreshUrl": "r",
        "scopes": {"s": "S"},
        "pkceRequired": True,
    }
    card = AgentCard(
        "n",
        "d",
        "u",
        security_schemes={
            "key": {"type": "apiKey", "in": "header", "name": "X-Key", "description": "d", "metadata": {"a": 1}},
            "http": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            "oauth2": {"type": "oauth2", "flows": dict.fromkeys(FLOWS, flow), "oauth2MetadataUrl": "m"},
            "oidc": {"type": "openIdConnect", "openIdConnectUrl": "o"},
            "custom": {"type": "smoke", "colour": "white"},
        },
    )
    pb = card_to_pb(card)
    found = pb.security_schemes
    oauth2 = found["oauth2"].oauth2
    messages = [found["key"].api_key, found["http"].http]
    messages += [oauth2, *(flow for _, flow in oauth2.ListFields()[:5]), found["oidc"].open_id_connect]
    messages.append(found["custom"].custom)
    for message in messages:
        unset = {field.name for field in message.DESCRIPTOR.fields} - {field.name for field, _ in message.ListFields()}
        assert unset == set()
    assert (found["key"].description, found["key"].metadata_json) == ("d", '{"a":1}')


def test_empty_values_are_not_encoded_and_stay_empty():
    card = card_from_pb(minimal())
    assert (card.version, card.protocol_version, card.role) == ("", "", "")
    assert (card.input_formats, card.output_formats) == ([], [])
    assert card.capabilities == AgentCapabilities(delegation=False, max_concurrency=0)
    assert card_to_pb(card) == minimal()


def test_missing_values_have_protolinks_defaults_in_json():
    shown = card_from_pb(minimal()).to_dict()
    assert (shown["version"], shown["protocolVersion"], shown["role"]) == ("1.0.0", "1.0", "worker")
    assert (shown["inputFormats"], shown["outputFormats"]) == (["text/plain"], ["text/plain"])
    assert shown["capabilities"]["max_concurrency"] == 1


def test_the_first_interface_is_the_url_and_the_others_follow_in_their_order():
    urls = ["grpc://h:1", "http://h:2", "http://h:3"]
    pb = minimal(interfaces=[pb2.AgentInterface(url=url, transport=url[:4], protocol_version=url[-1]) for url in urls])
    card = card_from_pb(pb)
    assert (card.url, card.transport, card.protocol_version) == ("grpc://h:1", "grpc", "1")
    assert card.interfaces == [AgentInterface("http://h:2", "http", "2"), AgentInterface("http://h:3", "http", "3")]


@pytest.mark.parametrize(("word", "flag"), FLAGS.items())
def test_each_flag_of_protolink_has_a_value_in_the_contract(word, flag):
    none = AgentCapabilities(delegation=False)
    assert list(card_to_pb(AgentCard("n", "d", "u", capabilities=none)).features) == []
    card = AgentCard("n", "d", "u", capabilities=replace(none, **{flag: True}))
    assert list(card_to_pb(card).features) == [word]
    assert card_from_pb(minimal(features=[word])).capabilities == replace(none, max_concurrency=0, **{flag: True})


def test_all_flags_of_protolink_are_mapped():
    flags = set(AgentCapabilities().as_dict()) - {"max_concurrency", "supports_inference"}
    assert set(FLAGS.values()) == flags


@pytest.mark.parametrize(
    ("features", "answers_prompts"),
    [
        ([], None),
        (["inference"], True),
        (["no_inference"], False),
        (["no_inference", "inference"], True),
    ],
)
def test_inference_is_claimed_denied_or_not_stated(features, answers_prompts):
    card = card_from_pb(minimal(features=features))
    assert card.capabilities.supports_inference is answers_prompts
    assert card_from_pb(card_to_pb(card)) == card


def test_an_unknown_feature_survives_the_wire_and_protolinks_json():
    card = card_from_pb(minimal(features=["teleport", "streaming", "teleport"]))
    assert (card.features, card.capabilities.streaming) == (["teleport"], True)
    again = AgentCard.from_dict(card.to_dict())
    assert list(card_to_pb(again).features) == ["streaming", "teleport"]


@given(st.one_of(*KNOWN_SCHEMES.values()))
def test_a2a_shows_the_same_security_before_and_after_the_wire(scheme):
    card = AgentCard("n", "d", "grpc://h:1", security_schemes={"one": scheme})
    before, after = (dual_card_json(PublicCard(each)) for each in (card, card_from_pb(card_to_pb(card))))
    assert before == after


@given(st.dictionaries(texts, st.dictionaries(st.sampled_from(SCHEME_KEYS), json_values, max_size=4), max_size=3))
def test_any_dict_of_a_scheme_has_a_message_that_stays_the_same(schemes):
    with suppress(InvalidArgumentError):
        pb = card_to_pb(AgentCard("n", "d", "grpc://h:1", security_schemes=schemes))
        with suppress(InvalidArgumentError):  # a type that consists of white space
            assert card_to_pb(card_from_pb(pb)).security_schemes == pb.security_schemes


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        # The name is the type; values without a field become metadata.
        (
            {"in": "header", "colour": "red", "metadata": {"a": 1}},
            {"in": "header", "metadata": {"colour": "red", "a": 1}},
        ),
        ({"type": "apiKey", "in": "body", "name": "k"}, {"name": "k", "metadata": {"in": "body"}}),
        ({"type": "apiKey", "in": 5}, {"metadata": {"in": 5}}),
        ({"type": "http", "scheme": 5}, {"type": "http", "metadata": {"scheme": 5}}),
        ({"type": "http", "bearer_format": "JWT"}, {"type": "http", "bearerFormat": "JWT"}),
        (
            {"type": "oauth2", "flows": {"client_credentials": {"token_url": "t"}, "telepathy": {}}},
            {
                "type": "oauth2",
                "flows": {"clientCredentials": {"tokenUrl": "t", "scopes": {}}},
                "metadata": {"flows": {"telepathy": {}}},
            },
        ),
        (
            {"type": "oauth2", "flows": {"implicit": {"tokenUrl": "t", "colour": 1}}},
            {"type": "oauth2", "metadata": {"flows": {"implicit": {"tokenUrl": "t", "colour": 1}}}},
        ),
        ({"type": "smoke", "scheme": "white", "in": "air"}, {"type": "smoke", "scheme": "white", "in": "air"}),
    ],
)
def test_no_fact_of_a_scheme_is_lost(scheme, expected):
    card = AgentCard("n", "d", "u", security_schemes={"apiKey": scheme})
    four = {"type": "apiKey", "scheme": None, "description": "", "metadata": {}}
    assert card_from_pb(card_to_pb(card)).security_schemes == {"apiKey": four | expected}


def test_a_scheme_of_an_unknown_kind_is_preserved():
    later = pb2.SecurityScheme(description="From the future").SerializeToString() + b"\xfa\x07\x03new"
    pb = minimal(security_schemes={"new": pb2.SecurityScheme.FromString(later)})
    card = card_from_pb(pb)
    assert card.security_schemes["new"]["type"] == "unknown"
    again = card_to_pb(AgentCard.from_dict(card.to_dict()))
    assert again.security_schemes["new"].SerializeToString() == later


def test_a_card_has_at_most_one_mebibyte_as_encoded():
    room = MAX_CARD_BYTES - minimal(metadata={"k": "v" * MAX_CARD_BYTES}).ByteSize()
    largest = minimal(metadata={"k": "v" * (MAX_CARD_BYTES + room)})
    assert largest.ByteSize() == MAX_CARD_BYTES == 1 << 20
    card = card_from_pb(largest)
    card.metadata["k"] += "v"
    for refused in (lambda: card_from_pb(card_to_pb(card)), lambda: card_from_bytes(card_to_bytes(card))):
        with pytest.raises(
            InvalidArgumentError, match="has 1,048,577 bytes as encoded; a card has at most 1,048,576"
        ) as caught:
            refused()
        assert caught.value.field == "card"


def test_no_security_schemes_at_all_means_none_of_them():
    assert card_from_pb(card_to_pb(AgentCard("n", "d", "u", security_schemes=None))).security_schemes == {}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"name": ""}, "card.name"),
        ({"name": " \n"}, "card.name"),
        ({"name": "é" * 65}, "card.name"),
        ({"description": ""}, "card.description"),
        ({"interfaces": []}, "card.interfaces"),
        ({"interfaces": [pb2.AgentInterface(url="u", transport="grpc")] * 101}, "card.interfaces"),
        ({"features": [str(n) for n in range(101)]}, "card.features"),
        ({"signatures": [pb2.AgentCardSignature(protected="p", signature="s")] * 11}, "card.signatures"),
        ({"signatures": [pb2.AgentCardSignature(signature="s")]}, "card.signatures[0].protected"),
        ({"signatures": [pb2.AgentCardSignature(protected="p")]}, "card.signatures[0].signature"),
        (
            {"signatures": [pb2.AgentCardSignature(protected="p", signature="s", header_json="[]")]},
            "card.signatures[0].header_json",
        ),
        ({"tags": ["t"] * 101}, "card.tags"),
        ({"metadata": {str(n): "" for n in range(101)}}, "card.metadata"),
        ({"skills": [pb2.AgentSkill(id=str(n)) for n in range(1_001)]}, "card.skills"),
        ({"skills": [pb2.AgentSkill(id="a"), pb2.AgentSkill()]}, "card.skills[1].id"),
        ({"skills": [pb2.AgentSkill(id="a"), pb2.AgentSkill(id="a")]}, "card.skills[1].id"),
        ({"skills": [pb2.AgentSkill(id="a", input_schema_json="{")]}, "card.skills[0].input_schema_json"),
        ({"skills": [pb2.AgentSkill(id="a", output_schema_json="[]")]}, "card.skills[0].output_schema_json"),
        ({"skills": [pb2.AgentSkill(id="a", examples_json=["1", ""])]}, "card.skills[0].examples_json[1]"),
        (
            {"skills": [pb2.AgentSkill(id="a", examples_json=["[" * 101 + "]" * 101])]},
            "card.skills[0].examples_json[0]",
        ),
        (
            {"security_schemes": {"x": pb2.SecurityScheme(custom=pb2.CustomSecurity())}},
            "card.security_schemes[x].custom.type",
        ),
        (
            {"security_schemes": {"x": pb2.SecurityScheme(custom=pb2.CustomSecurity(type="t", content_json="1"))}},
            "card.security_schemes[x].custom.content_json",
        ),
        ({"security_schemes": {"x": pb2.SecurityScheme(metadata_json="1")}}, "card.security_schemes[x].metadata_json"),
        ({"max_concurrency": -1}, "card.max_concurrency"),
        ({"interfaces": [pb2.AgentInterface(transport="grpc")]}, "card.interfaces[0].url"),
        ({"interfaces": [pb2.AgentInterface(url="u")]}, "card.interfaces[0].transport"),
    ],
)
def test_values_that_the_contract_forbids_are_refused_with_their_path(fields, path):
    with pytest.raises(InvalidArgumentError) as caught:
        card_from_pb(minimal(**fields))
    assert caught.value.field == path


def test_values_at_the_limits_are_allowed():
    pb = minimal(
        name="é" * 64,
        tags=["t"] * 100,
        metadata={str(n): "" for n in range(100)},
        skills=[pb2.AgentSkill(id=str(n)) for n in range(1_000)],
    )
    assert len(card_from_pb(pb).skills) == 1_000


def test_the_path_starts_with_the_callers_prefix():
    with pytest.raises(InvalidArgumentError) as caught:
        card_from_pb(minimal(interfaces=[]), field="agents[3].card")
    assert caught.value.field == "agents[3].card.interfaces"


@pytest.mark.parametrize(
    ("card", "path"),
    [
        (AgentCard(5, "d", "u"), "card.name"),
        (AgentCard("\ud800", "d", "u"), "card.name"),
        (AgentCard("n", "d", "u", capabilities=AgentCapabilities(max_concurrency=2**31)), "card.max_concurrency"),
        (AgentCard("n", "d", "u", security_schemes={"http": "bearer"}), "card.security_schemes"),
        (AgentCard("n", "d", "u", skills=[AgentSkill("a", examples=[object()])]), "card.skills[0].examples_json[0]"),
    ],
)
def test_a_value_that_cannot_be_encoded_is_an_invalid_argument(card, path):
    with pytest.raises(InvalidArgumentError) as caught:
        card_to_pb(card)
    assert caught.value.field == path


def test_bytes_that_are_not_a_card_are_an_invalid_argument():
    with pytest.raises(InvalidArgumentError):
        card_from_bytes(b"\xff")
