"""Filters, and the small messages of the registry."""

import math

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st
from plgrpc.v1 import registry_service_pb2 as pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.card import AgentCapabilities, AgentCard, AgentSkill
from protolink_grpc.registry import AgentChange, AgentChangeKind, AgentFilter, RegisteredAgent
from protolink_grpc.wire import registry as wire
from protolink_grpc.wire.cards import card_to_bytes

CARD = AgentCard(
    name="weather",
    description="d",
    url="grpc://h:1",
    role="observer",
    tags=["sky", "eu"],
    skills=[AgentSkill("forecast"), AgentSkill("history")],
    capabilities=AgentCapabilities(streaming=True, supports_inference=True, delegation=False),
    metadata={"zone": "eu-1", "tier": "gold"},
)
AGENT = RegisteredAgent(CARD, 7, 1_700_000_000.25, 1_700_000_030.125)


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        ({}, True),
        ({"name": "weather"}, True),
        ({"name": "weathe"}, False),
        ({"role": "observer"}, True),
        ({"role": "worker"}, False),
        ({"tags": ["sky", "eu"]}, True),
        ({"tags": ["sky", "us"]}, False),
        ({"tags": ["us", "sky"]}, False),
        ({"skills": ["history", "forecast"]}, True),
        ({"skills": ["forecast", "sky"]}, False),
        ({"metadata": {"zone": "eu-1", "tier": "gold"}}, True),
        ({"metadata": {"zone": "eu-1", "tier": "tin"}}, False),
        ({"metadata": {"gold": "tier"}}, False),
        ({"capabilities": ["streaming", "supports_inference"]}, True),
        ({"capabilities": ["streaming", "delegation"]}, False),
        ({"name": "weather", "role": "observer", "tags": ["eu"], "capabilities": ["rag"]}, False),
    ],
)
def test_what_is_set_must_all_match(wanted, matches):
    assert AgentFilter(**wanted).matches(CARD) is matches


def test_discover_may_give_one_text_for_a_list_and_switches_as_an_object():
    wanted = AgentFilter.from_dict(
        {
            "name": "weather",
            "role": None,
            "tags": "eu",
            "skills": ["forecast"],
            "capabilities": {"streaming": True},
            "metadata": {"zone": "eu-1"},
        }
    )
    expected = AgentFilter("weather", "", ("eu",), ("forecast",), {"zone": "eu-1"}, ("streaming",))
    assert wanted == expected
    assert wanted.matches(CARD)


@pytest.mark.parametrize("nothing", [None, {}, {"tags": None}])
def test_discover_without_conditions_finds_everyone(nothing):
    assert AgentFilter.from_dict(nothing) == AgentFilter()


@pytest.mark.parametrize(
    ("given_filter", "path"),
    [
        ({"tag": "eu"}, "filter_by.tag"),
        ({"name": 1}, "filter_by.name"),
        ({"tags": 1}, "filter_by.tags"),
        ({"tags": ["a", 1]}, "filter_by.tags[1]"),
        ({"skills": {"a": 1}}, "filter_by.skills"),
        ({"metadata": ["a"]}, "filter_by.metadata"),
        ({"metadata": {"a": 1}}, "filter_by.metadata.a"),
        ({"capabilities": ["flying"]}, "filter_by.capabilities[0]"),
        ({"capabilities": ["streaming", "max_concurrency"]}, "filter_by.capabilities[1]"),
        ({"capabilities": {"rag": False}}, "filter_by.capabilities.rag"),
        ([1], "filter_by"),
    ],
)
def test_a_wrong_filter_is_refused_by_its_path(given_filter, path):
    with pytest.raises(InvalidArgumentError) as caught:
        AgentFilter.from_dict(given_filter)
    assert caught.value.field == path


texts = st.lists(st.text(max_size=5), max_size=3).map(tuple)
filters = st.builds(
    AgentFilter,
    name=st.text(max_size=5),
    role=st.text(max_size=5),
    tags=texts,
    skills=texts,
    metadata=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    capabilities=st.lists(st.sampled_from(["streaming", "rag", "supports_inference"]), max_size=3).map(tuple),
)


@given(filters)
def test_a_filter_survives_the_wire(wanted):
    assert wire.filter_from_pb(wire.filter_to_pb(wanted)) == wanted


def test_every_field_of_the_filter_is_carried():
    pb = wire.filter_to_pb(AgentFilter("n", "r", ("t",), ("s",), {"k": "v"}, ("rag",)))
    assert len(pb.ListFields()) == len(pb.DESCRIPTOR.fields)


def test_a_filter_from_the_wire_names_the_unknown_capability():
    with pytest.raises(InvalidArgumentError) as caught:
        wire.filter_from_pb(pb2.AgentFilter(capabilities=["rag", "flying"]))
    assert caught.value.field == "filter.capabilities[1]"


@pytest.mark.parametrize("kind", AgentChangeKind)
def test_a_change_survives_the_wire(kind):
    change = AgentChange(kind, AGENT, 9)
    pb = wire.agent_change_to_pb(change)
    assert wire.agent_change_from_pb(pb) == change
    assert len(pb.agent.ListFields()) == len(pb.agent.DESCRIPTOR.fields)


def test_every_kind_of_change_in_the_contract_has_a_value():
    numbers = set(pb2.AgentChangeKind.values()) - {pb2.AGENT_CHANGE_KIND_UNSPECIFIED}
    kinds = {wire.agent_change_from_pb(_change(number)).kind for number in numbers}
    assert kinds == set(AgentChangeKind)


def test_a_change_of_a_later_version_is_kept():
    change = wire.agent_change_from_pb(_change(99))
    assert (change.kind, change.kind.is_named) == ("unknown-99", False)


def test_an_agent_with_its_bytes_at_hand_looks_the_same_on_the_wire():
    encoded = RegisteredAgent(CARD, 7, AGENT.register_time, AGENT.expire_time, card_to_bytes(CARD))
    assert wire.registered_agent_to_pb(encoded) == wire.registered_agent_to_pb(AGENT)


def test_a_registered_agent_without_a_card_is_refused_by_its_path():
    with pytest.raises(InvalidArgumentError) as caught:
        wire.registered_agent_from_pb(pb2.RegisteredAgent(), field="agents[0]")
    assert caught.value.field == "agents[0].card.name"


@given(st.integers(1, 3_600_000_000))
def test_a_length_of_lease_survives_the_wire_to_the_microsecond(micros):
    seconds = wire.lease_ttl_from_pb(wire.lease_ttl_to_pb(micros / 1e6))
    assert math.isclose(seconds, micros / 1e6, abs_tol=1e-9)


def test_no_length_of_lease_means_the_default():
    assert wire.lease_ttl_from_pb(Duration()) == 30.0


def _change(kind: int) -> pb2.AgentChange:
    return pb2.AgentChange(kind=kind, agent=wire.registered_agent_to_pb(AGENT), revision=9)
