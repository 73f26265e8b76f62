"""Actions and approvals on the wire: nothing is lost, and what would grant something is never guessed."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from plgrpc.v1 import action_pb2 as pb2
from plgrpc.v1 import policy_pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import (
    ApprovalDecision,
    ApprovalRequest,
    Artifact,
    Part,
    PolicyDecision,
    PolicyEffect,
    RunAction,
)
from protolink_grpc.models.action import Approval, ApprovalState
from protolink_grpc.models.clock import format_iso8601, utc_now
from protolink_grpc.wire import actions as wire
from protolink_grpc.wire.permissions import EFFECTS

NOON = "2026-06-12T12:00:00.000001+00:00"

names = st.text(min_size=1)
spoken_names = names.filter(lambda text: not text.isspace())
maybe_names = st.none() | names
times = st.datetimes().map(format_iso8601)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(), json_values, max_size=3)

EPOCH = "1970-01-01T00:00:00.000000+00:00"

artifacts = st.builds(
    Artifact,
    parts=st.lists(st.builds(Part, st.just("text"), st.text()) | st.builds(Part, st.just("json"), objects), max_size=2),
    metadata=objects,
    timestamp=times.filter(lambda time: time != EPOCH),  # artifacts read it as a missing time: `scalars.set_time`
    kind=names,
    name=maybe_names,
    uri=maybe_names,
    media_type=maybe_names,
    action_id=maybe_names,
)
run_actions = st.builds(
    RunAction,
    kind=spoken_names,
    name=spoken_names,
    payload=objects,
    capabilities=st.frozensets(st.text(), max_size=3),
    artifacts=st.lists(artifacts, max_size=2).map(tuple),
    description=st.text(),
    metadata=objects,
    action_id=names,
    created_at=times,
)
policy_decisions = st.builds(
    PolicyDecision,
    effect=st.sampled_from(PolicyEffect),
    reason=st.text(),
    policy_name=st.text(),
    matched_capabilities=st.lists(st.text(), max_size=3).map(tuple),
    metadata=objects,
)
approval_requests = st.builds(
    ApprovalRequest,
    action=run_actions,
    policy_decision=policy_decisions,
    run_id=maybe_names,
    request_id=names,
    created_at=times,
    metadata=objects,
    task_id=st.text(),
    expires_at=st.none() | times,
    editable=st.booleans(),
)
approval_decisions = st.builds(
    ApprovalDecision,
    approved=st.booleans(),
    request_id=spoken_names,
    reason=st.text(),
    decided_by=st.text(),
    metadata=objects,
    decided_at=times,
    edited_arguments=st.none() | objects,
    fingerprint=st.text(),
)

approvals = st.builds(
    Approval,
    request=approval_requests,
    state=st.sampled_from(ApprovalState),
    decision=st.none() | approval_decisions,
    fingerprint=names,
)

FULL_ACTION = RunAction(
    kind="tool.call",
    name="delete_file",
    payload={"path": "/data/a", "sizes": [1, 2.5, None]},
    capabilities=frozenset({"files.write", "files.delete"}),
    artifacts=(Artifact(parts=[Part("text", "one file")], kind="preview", timestamp=NOON, action_id="action"),),
    description="Delete one file.",
    metadata={"step": 3},
    action_id="action",
    created_at=NOON,
)
FULL_VERDICT = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "it deletes", "files", ("files.delete",), {"rule": 2})
FULL_REQUEST = ApprovalRequest(FULL_ACTION, FULL_VERDICT, "run", "request", NOON, {"urgent": True}, "task", NOON, True)
FULL_ANSWER = ApprovalDecision(True, "request", "go on", "ada", {"via": "cli"}, NOON, {"path": "/data/b"}, "0" * 64)
FULL_APPROVAL = Approval(FULL_REQUEST, ApprovalState.APPROVED, FULL_ANSWER, "1" * 64)


class Pair(NamedTuple):
    full: Any
    arbitrary: st.SearchStrategy[Any]
    to_pb: Callable[[Any], Any]
    from_pb: Callable[..., Any]


PAIRS = {
    "action": Pair(FULL_ACTION, run_actions, wire.action_to_pb, wire.action_from_pb),
    "policy_decision": Pair(FULL_VERDICT, policy_decisions, wire.policy_decision_to_pb, wire.policy_decision_from_pb),
    "approval_request": Pair(
        FULL_REQUEST, approval_requests, wire.approval_request_to_pb, wire.approval_request_from_pb
    ),
    "approval_decision": Pair(
        FULL_ANSWER, approval_decisions, wire.approval_decision_to_pb, wire.approval_decision_from_pb
    ),
    "approval": Pair(FULL_APPROVAL, approvals, wire.approval_to_pb, wire.approval_from_pb),
}
each_pair = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())


@each_pair
@settings(deadline=None)  # a shared machine's pauses are no failure
@given(data=st.data())
def test_every_valid_value_comes_back_equal(pair: Pair, data: st.DataObject) -> None:
    value = data.draw(pair.arbitrary)
    encoded = pair.to_pb(value).SerializeToString()
    assert pair.from_pb(type(pair.to_pb(pair.full)).FromString(encoded)) == value


@each_pair
@settings(deadline=None)  # a shared machine's pauses are no failure
@given(data=st.data())
def test_every_valid_value_survives_its_json_form(pair: Pair, data: st.DataObject) -> None:
    value = data.draw(pair.arbitrary.filter(lambda each: getattr(each, "kind", "x").strip() != ""))
    assert type(value).from_dict(value.to_dict()) == value


@each_pair
def test_a_full_value_sets_every_field_of_its_message(pair: Pair) -> None:
    pb = pair.to_pb(pair.full)
    written = {field.name for field, _ in pb.ListFields()}
    assert [field.name for field in pb.DESCRIPTOR.fields if field.name not in written] == []


@each_pair
def test_a_full_value_leaves_no_field_of_its_model_empty(pair: Pair) -> None:
    # Otherwise a field that the wire forgets could come back equal by its default.
    assert [each.name for each in dataclasses.fields(pair.full) if not getattr(pair.full, each.name)] == []
    assert pair.from_pb(pair.to_pb(pair.full)) == pair.full


@each_pair
@pytest.mark.parametrize("text", ["{", "[1]", "null"])
def test_json_that_is_no_object_is_refused_by_its_path(pair: Pair, text: str) -> None:
    for name in (each.name for each in pair.to_pb(pair.full).DESCRIPTOR.fields if each.name.endswith("_json")):
        pb = pair.to_pb(pair.full)
        setattr(pb, name, text)
        with pytest.raises(InvalidArgumentError) as caught:
            pair.from_pb(pb, "outer")
        assert caught.value.field == f"outer.{name}"


@each_pair
def test_a_time_outside_the_calendar_is_refused_by_its_path(pair: Pair) -> None:
    for name in (each.name for each in pair.to_pb(pair.full).DESCRIPTOR.fields if each.name.endswith("_time")):
        pb = pair.to_pb(pair.full)
        getattr(pb, name).CopyFrom(Timestamp(seconds=-(2**40)))
        with pytest.raises(InvalidArgumentError) as caught:
            pair.from_pb(pb, "outer")
        assert caught.value.field == f"outer.{name}"


def test_every_effect_and_every_state_of_an_approval_has_its_own_number_and_name() -> None:
    for known, enum, prefix in (
        (EFFECTS, policy_pb2.PolicyEffect, "POLICY_EFFECT_"),
        (wire.APPROVAL_STATES, pb2.ApprovalState, "APPROVAL_STATE_"),
    ):
        assert {f"{prefix}{each.name}": number for each, number in known.items()} == {
            name: number for name, number in enum.items() if number
        }
        assert [known.read(number) for number in known.values()] == list(known)


@pytest.mark.parametrize("number", [4, -1, 2**31 - 1])
def test_an_effect_of_a_later_version_is_kept_and_passed_on(number: int) -> None:
    pb = pb2.PolicyDecision()
    pb.effect = number  # type: ignore[assignment]  # what a newer peer may send
    decision = wire.policy_decision_from_pb(pb)
    assert decision.effect == f"unknown-{number}"
    assert not decision.effect.is_named
    assert wire.policy_decision_to_pb(decision) == pb
    assert PolicyDecision.from_dict(decision.to_dict()) == decision


@pytest.mark.parametrize("missing", ["kind", "name"])
@pytest.mark.parametrize("text", ["", " \t"])
def test_an_action_without_kind_or_name_is_refused_by_its_path(missing: str, text: str) -> None:
    pb = wire.approval_request_to_pb(FULL_REQUEST)
    setattr(pb.action, missing, text)
    with pytest.raises(InvalidArgumentError) as caught:
        wire.approval_request_from_pb(pb, "request")
    assert caught.value.field == f"request.action.{missing}"


def test_an_artifact_of_an_action_is_refused_by_its_index() -> None:
    pb = wire.action_to_pb(FULL_ACTION)
    pb.artifacts.add().metadata_json = "["
    with pytest.raises(InvalidArgumentError) as caught:
        wire.action_from_pb(pb, "action")
    assert caught.value.field == "action.artifacts[1].metadata_json"


@settings(deadline=None)  # a shared machine's pauses are no failure
@given(run_actions)
def test_the_fingerprint_is_the_same_on_both_sides(action: RunAction) -> None:
    pb = wire.action_to_pb(action)
    assert pb.fingerprint == action.fingerprint == wire.action_from_pb(pb).fingerprint


def test_the_senders_fingerprint_is_not_believed() -> None:
    pb = wire.action_to_pb(FULL_ACTION)
    pb.payload_json = '{"path":"/"}'
    assert wire.action_from_pb(pb).fingerprint not in (pb.fingerprint, FULL_ACTION.fingerprint)


def test_a_state_of_an_approval_of_a_later_version_is_kept_and_passed_on() -> None:
    sent = pb2.Approval(request=wire.approval_request_to_pb(FULL_REQUEST))
    sent.state = 9  # type: ignore[assignment]  # what a newer peer may send
    approval = wire.approval_from_pb(sent)
    assert approval.state == "unknown-9"
    assert wire.approval_to_pb(approval).state == 9


def test_every_state_of_an_approval_is_known() -> None:
    assert len(pb2.ApprovalState.values()) == len(ApprovalState) + 1  # and the unset one


def test_an_approval_travels_with_the_fingerprint_of_the_action_that_waits() -> None:
    # What is shown may have had secrets struck out; an answer repeats the fingerprint of the action itself.
    pb = wire.approval_to_pb(FULL_APPROVAL)
    assert pb.request.action.fingerprint == FULL_APPROVAL.fingerprint != FULL_ACTION.fingerprint
    plain = wire.approval_to_pb(dataclasses.replace(FULL_APPROVAL, fingerprint=""))
    assert plain.request.action.fingerprint == FULL_ACTION.fingerprint


def test_capabilities_travel_sorted() -> None:
    action = RunAction("tool.call", "f", capabilities=frozenset("zyxabc"))
    assert list(wire.action_to_pb(action).capabilities) == sorted("zyxabc")


def test_a_missing_id_or_time_is_made() -> None:
    before = utc_now()
    pb = pb2.ApprovalRequest(action=pb2.RunAction(kind="tool.call", name="f"))
    pb.policy_decision.effect = policy_pb2.POLICY_EFFECT_REQUIRE_APPROVAL
    request = wire.approval_request_from_pb(pb)
    assert request.request_id
    assert request.action.action_id
    assert before <= request.action.created_at <= request.created_at <= utc_now()
    assert (request.run_id, request.task_id, request.expires_at) == (None, "", None)


def test_the_epoch_is_a_time_and_not_a_missing_one() -> None:
    request = dataclasses.replace(FULL_REQUEST, created_at=EPOCH, expires_at=EPOCH)
    assert wire.approval_request_from_pb(wire.approval_request_to_pb(request)) == request


@pytest.mark.parametrize("request_id", ["", " "])
def test_an_answer_to_nothing_is_refused(request_id: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        wire.approval_decision_from_pb(pb2.ApprovalDecision(request_id=request_id, approved=True), "decision")
    assert caught.value.field == "decision.request_id"


def test_an_answer_that_does_not_say_yes_says_no() -> None:
    assert wire.approval_decision_from_pb(pb2.ApprovalDecision(request_id="request")).approved is False


@pytest.mark.parametrize("edited", [None, {}, {"path": None}])
def test_arguments_edited_away_are_not_arguments_left_alone(edited: dict[str, Any] | None) -> None:
    answer = ApprovalDecision(True, "request", edited_arguments=edited)
    assert wire.approval_decision_from_pb(wire.approval_decision_to_pb(answer)).edited_arguments == edited
    assert ApprovalDecision.from_dict(answer.to_dict()).edited_arguments == edited


@pytest.mark.parametrize(("found", "read"), [(None, None), ("", None), (NOON, NOON)])
def test_a_question_without_an_expiry_never_goes_stale(found: str | None, read: str | None) -> None:
    assert ApprovalRequest.from_dict(FULL_REQUEST.to_dict() | {"expires_at": found}).expires_at == read


@pytest.mark.parametrize("found", [0, False, "soon"])
def test_an_expiry_that_is_no_time_is_refused(found: object) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        ApprovalRequest.from_dict(FULL_REQUEST.to_dict() | {"expires_at": found})
    assert caught.value.field == "expires_at"
