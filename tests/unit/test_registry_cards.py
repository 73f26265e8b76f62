"""Cards between values and messages: nothing is lost, and what the contract forbids is refused by its path."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plgrpc.v1 import agent_card_pb2 as pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.card import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from protolink_grpc.wire.cards import card_from_bytes, card_from_pb, card_to_bytes, card_to_pb

text = st.text(max_size=20)
filled = st.text(string.ascii_letters, min_size=1, max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(text, json_values, max_size=3)
capabilities = st.builds(
    AgentCapabilities,
    **{name: st.booleans() for name, value in AgentCapabilities().as_dict().items() if isinstance(value, bool)},
    max_concurrency=st.integers(1, 2**31 - 1),
    supports_inference=st.none() | st.booleans(),
)
skills = st.lists(
    st.builds(
        AgentSkill,
        id=filled,
        description=text,
        input_schema=objects,
        output_schema=objects,
        tags=st.lists(text, max_size=3),
        examples=st.lists(json_values, max_size=3),
    ),
    max_size=3,
    unique_by=lambda skill: skill.id,
)
schemes = st.dictionaries(
    text,
    st.fixed_dictionaries(
        {"type": filled, "scheme": st.none() | filled, "description": text, "metadata": objects},
    ),
    max_size=2,
)
cards = st.builds(
    AgentCard,
    name=filled,
    description=filled,
    url=filled,
    transport=filled,
    version=filled,
    protocol_version=filled,
    capabilities=capabilities,
    skills=skills,
    input_formats=st.lists(text, min_size=1, max_size=3),
    output_formats=st.lists(text, min_size=1, max_size=3),
    security_schemes=schemes,
    role=filled,
    tags=st.lists(text, max_size=3),
    interfaces=st.lists(st.builds(AgentInterface, filled, filled, filled), max_size=2),
    metadata=st.dictionaries(text, text, max_size=3),
)


def minimal(**fields: object) -> pb2.AgentCard:
    return pb2.AgentCard(**({"name": "n", "description": "d", "url": "grpc://h:1"} | fields))


@given(cards)
def test_a_card_survives_the_wire(card):
    assert card_from_pb(card_to_pb(card)) == card
    assert card_from_bytes(card_to_bytes(card)) == card


@given(cards)
def test_the_same_card_gives_the_same_bytes_after_any_number_of_hops(card):
    encoded = card_to_bytes(card)
    assert card_to_bytes(card_from_bytes(encoded)) == encoded


def test_every_field_of_the_contract_is_carried():
    scheme = {"type": "http", "scheme": "bearer", "description": "d", "metadata": {"a": 1}}
    skill = AgentSkill("s", "d", {"type": "object"}, {"type": "string"}, ["t"], ["e"])
    switches = dict.fromkeys(AgentCapabilities().as_dict(), True) | {"max_concurrency": 2}
    card = AgentCard(
        name="n",
        description="d",
        url="u",
        capabilities=AgentCapabilities(**switches),
        skills=[skill],
        security_schemes={"http": scheme},
        tags=["t"],
        interfaces=[AgentInterface("u2")],
        metadata={"k": "v"},
    )
    pb = card_to_pb(card)
    for message in (pb, pb.capabilities, pb.skills[0], pb.security_schemes["http"], pb.additional_interfaces[0]):
        unset = {field.name for field in message.DESCRIPTOR.fields} - {field.name for field, _ in message.ListFields()}
        assert unset == set()


def test_what_is_empty_takes_the_defaults_of_the_contract():
    card = card_from_pb(minimal(additional_interfaces=[pb2.AgentInterface(url="u", transport="http")]))
    assert (card.transport, card.version, card.protocol_version, card.role) == ("grpc", "1.0.0", "1.0", "worker")
    assert (card.input_formats, card.output_formats) == (["text/plain"], ["text/plain"])
    assert card.capabilities == AgentCapabilities(delegation=False)
    assert card.interfaces == [AgentInterface("u", "http", "1.0")]


def test_an_interface_without_a_version_speaks_the_version_of_its_card():
    pb = minimal(protocol_version="2.0", additional_interfaces=[pb2.AgentInterface(url="u", transport="http")])
    assert card_from_pb(pb).interfaces[0].protocol_version == "2.0"


def test_a_scheme_takes_its_type_from_its_name_and_keeps_facts_without_a_field():
    card = AgentCard("n", "d", "u", security_schemes={"apiKey": {"in": "header", "metadata": {"name": "X-Key"}}})
    expected = {
        "type": "apiKey",
        "scheme": None,
        "description": "",
        "metadata": {"in": "header", "name": "X-Key"},
    }
    assert card_from_pb(card_to_pb(card)).security_schemes == {"apiKey": expected}


def test_no_security_schemes_at_all_means_none_of_them():
    assert card_from_pb(card_to_pb(AgentCard("n", "d", "u", security_schemes=None))).security_schemes == {}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"name": ""}, "card.name"),
        ({"name": " \n"}, "card.name"),
        ({"name": "é" * 65}, "card.name"),
        ({"description": ""}, "card.description"),
        ({"url": ""}, "card.url"),
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
        ({"security_schemes": {"x": pb2.SecurityScheme()}}, "card.security_schemes[x].type"),
        (
            {"security_schemes": {"x": pb2.SecurityScheme(type="http", metadata_json="1")}},
            "card.security_schemes[x].metadata_json",
        ),
        ({"capabilities": pb2.AgentCapabilities(max_concurrency=-1)}, "card.capabilities.max_concurrency"),
        ({"additional_interfaces": [pb2.AgentInterface(transport="grpc")]}, "card.additional_interfaces[0].url"),
        ({"additional_interfaces": [pb2.AgentInterface(url="u")]}, "card.additional_interfaces[0].transport"),
    ],
)
def test_what_the_contract_forbids_is_refused_by_its_path(fields, path):
    with pytest.raises(InvalidArgumentError) as caught:
        card_from_pb(minimal(**fields))
    assert caught.value.field == path


def test_the_bounds_themselves_are_allowed():
    pb = minimal(
        name="é" * 64,
        tags=["t"] * 100,
        metadata={str(n): "" for n in range(100)},
        skills=[pb2.AgentSkill(id=str(n)) for n in range(1_000)],
    )
    assert len(card_from_pb(pb).skills) == 1_000


def test_the_path_begins_where_the_caller_says():
    with pytest.raises(InvalidArgumentError) as caught:
        card_from_pb(minimal(url=""), field="agents[3].card")
    assert caught.value.field == "agents[3].card.url"


@pytest.mark.parametrize(
    ("card", "path"),
    [
        (AgentCard(5, "d", "u"), "card"),
        (AgentCard("\ud800", "d", "u"), "card"),
        (AgentCard("n", "d", "u", capabilities=AgentCapabilities(max_concurrency=2**31)), "card"),
        (AgentCard("n", "d", "u", security_schemes={"http": "bearer"}), "card"),
        (AgentCard("n", "d", "u", skills=[AgentSkill("a", examples=[object()])]), "card.skills[0].examples_json[0]"),
    ],
)
def test_a_value_without_a_form_on_the_wire_is_the_callers_mistake(card, path):
    with pytest.raises(InvalidArgumentError) as caught:
        card_to_pb(card)
    assert caught.value.field == path


def test_bytes_that_are_no_card_are_the_callers_mistake():
    with pytest.raises(InvalidArgumentError):
        card_from_bytes(b"\xff")
