"""Cards and filters read from arbitrary bytes."""

from contextlib import suppress

from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from plgrpc.v1 import agent_card_pb2, registry_service_pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.card import AgentCard
from protolink_grpc.wire.cards import card_from_bytes, card_from_pb, card_to_bytes
from protolink_grpc.wire.registry import AGENT_CHANGE, FILTER, REGISTERED_AGENT, AgentFilter

VALID = agent_card_pb2.AgentCard(
    name="n",
    description="d",
    features=["streaming", "inference", "x"],
    max_concurrency=2,
    skills=[agent_card_pb2.AgentSkill(id="s", input_schema_json='{"a":[1]}', examples_json=["[]"])],
    security_schemes={
        "http": agent_card_pb2.SecurityScheme(http={"scheme": "basic"}, metadata_json="{}"),
        "custom": agent_card_pb2.SecurityScheme(custom={"type": "t", "content_json": '{"a":1}'}),
        "oauth2": agent_card_pb2.SecurityScheme(oauth2={"implicit": {"token_url": "u"}}),
    },
    interfaces=[agent_card_pb2.AgentInterface(url="u", transport="grpc")] * 2,
    signatures=[agent_card_pb2.AgentCardSignature(protected="p", signature="s", header_json="{}")],
    metadata={"k": "v"},
).SerializeToString()


@st.composite
def spoiled(draw):
    """A valid card with some bytes overwritten: it gets deeper into the reader than noise does."""
    data = bytearray(VALID)
    for place in draw(st.lists(st.integers(0, len(data) - 1), min_size=1, max_size=4)):
        data[place] = draw(st.integers(0, 255))
    return bytes(data)


@given(st.binary(max_size=200) | spoiled())
@settings(max_examples=400)
def test_random_bytes_give_a_card_or_one_of_two_errors(data):
    with suppress(InvalidArgumentError, DecodeError):
        card = card_from_pb(agent_card_pb2.AgentCard.FromString(data))
        assert card_from_bytes(card_to_bytes(card)) == card


@given(st.binary(max_size=200) | spoiled())
def test_random_bytes_as_an_encoded_card_give_a_card_or_one_error(data):
    with suppress(InvalidArgumentError):
        assert isinstance(card_from_bytes(data), AgentCard)


@given(st.binary(max_size=100))
def test_random_bytes_as_messages_of_the_registry_give_a_value_or_one_of_two_errors(data):
    for message, read in [
        (registry_service_pb2.AgentFilter, FILTER.from_pb),
        (registry_service_pb2.RegisteredAgent, REGISTERED_AGENT.from_pb),
        (registry_service_pb2.AgentChange, AGENT_CHANGE.from_pb),
    ]:
        with suppress(InvalidArgumentError, DecodeError):
            read(message.FromString(data))


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(
    json_like
    | st.dictionaries(st.sampled_from(["name", "tags", "skills", "metadata", "features", "capabilities"]), json_like)
)
def test_any_json_as_a_filter_gives_a_filter_or_one_error(data):
    with suppress(InvalidArgumentError):
        assert isinstance(AgentFilter.from_dict(data), AgentFilter)
