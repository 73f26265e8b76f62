"""Logs of earlier versions are read with their meaning unchanged. `tests/vectors/logs/record.py` has recorded them."""

from pathlib import Path

import pytest
from event_messages import event_to_pb
from google.protobuf import json_format
from plgrpc.v1 import agent_service_pb2, event_pb2, policy_pb2, task_pb2

from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.wire.events import event_from_pb, replay
from protolink_grpc.wire.scalars import delimited, micros_from_pb, tag
from protolink_grpc.wire.tasks import fold_to_pb

LOGS = sorted(Path(__file__).parents[1].glob("vectors/logs/*.binpb"))


def read(path: Path) -> agent_service_pb2.SubscribeTaskResponse:
    return agent_service_pb2.SubscribeTaskResponse.FromString(path.read_bytes())


def test_there_are_logs() -> None:
    assert len(LOGS) >= 8


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_log_adds_up_to_the_task_that_its_server_answered_with(path: Path) -> None:
    wanted = json_format.Parse(path.with_suffix(".json").read_text(encoding="utf-8"), task_pb2.Task())
    frames = [delimited(tag(1), [event.SerializeToString()]) for event in read(path).events]
    fold = TaskFold(wanted.id)
    replay(fold, frames)
    assert fold_to_pb(fold, task_pb2.TASK_VIEW_FULL) == wanted


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_events_of_a_log_come_back_from_the_models_as_they_were(path: Path) -> None:
    for event in read(path).events:
        expected = with_decision_fields(event)
        assert event_to_pb(event_from_pb(event), micros_from_pb(event.create_time, "create_time")) == expected


def with_decision_fields(event: event_pb2.RunEvent) -> event_pb2.RunEvent:
    """The event as this version writes it: earlier versions wrote two fields of a policy decision into its metadata."""
    if not event.HasField("action_policy"):
        return event
    decision = event.action_policy.decision
    facts = from_json(decision.metadata_json)
    if facts.pop("sources", None) == ["policy"]:
        decision.sources.append(policy_pb2.POLICY_SOURCE_POLICY)
    if facts.pop("editable", False):
        decision.edit = policy_pb2.APPROVAL_EDIT_ARGUMENTS
    decision.metadata_json = to_json(facts)
    return event


def test_both_forms_of_a_policy_decision_are_in_the_logs() -> None:
    events = [event for path in LOGS for event in read(path).events if event.HasField("action_policy")]
    assert {bool(event.action_policy.decision.sources) for event in events} == {False, True}
