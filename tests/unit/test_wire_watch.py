"""Watch positions on the wire."""

from hypothesis import given
from hypothesis import strategies as st
from plgrpc.v1 import agent_service_pb2, control_service_pb2, registry_service_pb2

from protolink_grpc.models.watch import WatchPosition
from protolink_grpc.wire.watch import POSITION, position_frame

RESPONSES = (
    agent_service_pb2.StreamTaskResponse,
    agent_service_pb2.SubscribeTaskResponse,
    control_service_pb2.WatchApprovalsResponse,
    registry_service_pb2.WatchAgentsResponse,
)

revisions = st.integers(0, 2**63 - 1)
positions = st.builds(WatchPosition, revisions, revisions, st.booleans(), st.booleans())


def test_every_stream_has_its_items_in_field_1_and_its_position_in_field_3() -> None:
    for response in RESPONSES:
        fields = response.DESCRIPTOR.fields_by_number
        assert fields[1].is_repeated
        assert (fields[3].name, fields[3].message_type.full_name) == ("position", "plgrpc.v1.WatchPosition")


@given(positions)
def test_the_frame_of_a_position_is_a_response_with_that_position(position: WatchPosition) -> None:
    expected = agent_service_pb2.SubscribeTaskResponse(position=POSITION.to_pb(position))
    assert agent_service_pb2.SubscribeTaskResponse.FromString(position_frame(position)) == expected
