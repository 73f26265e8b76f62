"""Filters, and the small messages of the registry."""

import math

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st
from plgrpc.v1 import registry_service_pb2 as pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.card import AgentCapabilities, AgentCard, AgentSkill
from protolink_grpc.registry import AgentChangeKind, AgentFilter, RegisteredAgent
from protolink_grpc.wire import registry as wire
from protolink_grpc.wire.cards import card_to_bytes
from protolink_grpc.wire.registry import InstanceState
from protolink_grpc.wire.scalars import duration_to_pb

CARD = AgentCard(
    name="weather",
    description="d",
    url="grpc://h:1",
    role="observer",
    tags=["sky", "eu"],
    skills=[AgentSkill("forecast"), AgentSkill("history")],
    capabilities=AgentCapabilities(streaming=True, supports_inference=True, delegation=False),
    metadata={"zone": "eu-1", "tier": "gold"},
    features=["teleport"],
)
AGENT = RegisteredAgent(
    CARD,
    7,
    1_700_000_000.25,
    1_700_000_030.125,
    instance_id="i-1",
    owner="alice",
    state=InstanceState.DRAINING,
    running=2,
    queued=3,
)


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
        ({"features": ["streaming", "inference"]}, True),
        ({"features": ["streaming", "delegation"]}, False),
        ({"features": ["teleport", "streaming"]}, True),
        ({"features": ["no_inference"]}, False),
        ({"name": "weather", "role": "observer", "tags": ["eu"], "features": ["rag"]}, False),
    ],
)
def test_all_set_conditions_must_match(wanted, matches):
    assert AgentFilter(**wanted).matches(CARD) is matches


def test_discover_may_give_one_text_for_a_list_and_switches_as_an_object():
    wanted = AgentFilter.from_dict(
        {
            "name": "weather",
            "role": None,
            "tags": "eu",
            "skills": ["forecast"],
            "capabilities": {"streaming": True, "supports_inference": True},
            "features": "teleport",
            "metadata": {"zone": "eu-1"},
        }
    )
    words = ("teleport", "streaming", "inference")
    expected = AgentFilter("weather", "", ("eu",), ("forecast",), {"zone": "eu-1"}, words)
    assert wanted == expected
    assert wanted.matches(CARD)


@pytest.mark.parametrize("nothing", [None, {}, {"tags": None}])
def test_discover_without_conditions_finds_all_agents(nothing):
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
def test_an_invalid_filter_is_refused_with_its_path(given_filter, path):
    with pytest.raises(InvalidArgumentError) as caught:
        AgentFilter.from_dict(given_filter)
    assert caught.value.field == path


def test_a_state_of_a_later_version_is_kept_and_refused_in_a_heartbeat():
    agent = pb2.RegisteredAgent.FromString(wire.REGISTERED_AGENT.to_pb(AGENT).SerializeToString())
    agent.state = 99
    kept = wire.REGISTERED_AGENT.from_pb(agent)
    assert (kept.state, kept.is_draining) == ("unknown-99", False)
    assert wire.REGISTERED_AGENT.to_pb(kept) == agent
    with pytest.raises(InvalidArgumentError) as caught:
        wire.INSTANCE_STATUS.from_pb(pb2.RenewLeaseRequest(state=99))
    assert caught.value.field == "state"


@pytest.mark.parametrize("target", ["weather", "grpc://h:1"])
def test_a_name_or_a_url_survives_the_wire(target):
    request = wire.target_to_pb(target)
    assert request.WhichOneof("target") == ("url" if "://" in target else "name")
    assert wire.target_from_pb(request) == target


@pytest.mark.parametrize(
    ("request_fields", "path"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "grpc://h:1"}, "name"),
        ({"url": ""}, "url"),
        ({"url": "h:1"}, "url"),
    ],
)
def test_a_missing_target_or_one_of_another_kind_is_refused(request_fields, path):
    with pytest.raises(InvalidArgumentError) as caught:
        wire.target_from_pb(pb2.GetAgentRequest(**request_fields))
    assert caught.value.field == path


def test_every_kind_of_change_in_the_contract_has_a_value():
    numbers = set(pb2.AgentChangeKind.values()) - {pb2.AGENT_CHANGE_KIND_UNSPECIFIED}
    kinds = {wire.AGENT_CHANGE.from_pb(_change(number)).kind for number in numbers}
    assert kinds == set(AgentChangeKind)


def test_an_agent_with_encoded_bytes_has_the_same_encoding():
    encoded = RegisteredAgent(CARD, 7, AGENT.register_time, AGENT.expire_time, encoded_card=card_to_bytes(CARD))
    plain = RegisteredAgent(CARD, 7, AGENT.register_time, AGENT.expire_time)
    assert wire.REGISTERED_AGENT.to_pb(encoded) == wire.REGISTERED_AGENT.to_pb(plain)


def test_an_agent_that_is_not_authenticated_has_no_owner_and_is_up():
    pb = wire.REGISTERED_AGENT.to_pb(RegisteredAgent(CARD, 1, 1.0, 2.0))
    assert (pb.owner, pb.state) == ("", pb2.INSTANCE_STATE_UP)
    pb.state = pb2.INSTANCE_STATE_UNSPECIFIED
    assert wire.REGISTERED_AGENT.from_pb(pb).state is InstanceState.UP


def test_a_registered_agent_without_a_card_is_refused_by_its_path():
    with pytest.raises(InvalidArgumentError) as caught:
        wire.REGISTERED_AGENT.from_pb(pb2.RegisteredAgent(), field="agents[0]")
    assert caught.value.field == "agents[0].card.name"


@given(st.integers(1, 3_600_000_000))
def test_a_length_of_lease_survives_the_wire_to_the_microsecond(micros):
    seconds = wire.lease_ttl_from_pb(duration_to_pb(micros / 1e6))
    assert math.isclose(seconds, micros / 1e6, abs_tol=1e-9)


def test_a_missing_lease_length_means_the_default():
    assert wire.lease_ttl_from_pb(Duration()) == 30.0


def _change(kind: int) -> pb2.AgentChange:
    return pb2.AgentChange(kind=kind, agent=wire.REGISTERED_AGENT.to_pb(AGENT), revision=9)
