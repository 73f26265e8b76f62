"""Conversion of actions and approvals to protobuf: nothing is lost, and missing permissions are never assumed."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from plgrpc.v1 import action_pb2, approval_pb2, control_service_pb2, payload_pb2, policy_pb2

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
    call_id=st.text(),
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
    request_id=spoken_names,
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


def _recorded(decision: ApprovalDecision, request_id: str) -> ApprovalDecision:
    """As the log has it: the approval that it answers is named beside it, and what the approver saw is checked by then."""
    return dataclasses.replace(decision, request_id=request_id, fingerprint="")


def _given(decision: ApprovalDecision) -> ApprovalDecision:
    """As a request has it: who decided, and when, the server says."""
    return dataclasses.replace(decision, decided_by="", decided_at=NOON)


def _approval(
    request: ApprovalRequest, state: ApprovalState, decision: ApprovalDecision | None, fingerprint: str
) -> Approval:
    answer = None if decision is None else _recorded(decision, request.request_id)
    if answer is not None:
        answer = dataclasses.replace(answer, expired=state is ApprovalState.EXPIRED)
    return Approval(request, state, answer, fingerprint)


approvals = st.builds(
    _approval,
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
    call_id="call",
)
FULL_VERDICT = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "it deletes", "files", ("files.delete",), {"rule": 2})
FULL_REQUEST = ApprovalRequest(
    FULL_ACTION, FULL_VERDICT, "run", "request", NOON, {"urgent": True}, "task", NOON, True, True
)
FULL_ANSWER = ApprovalDecision(True, "request", "go on", "ada", {"via": "cli"}, NOON, {"path": "/data/b"}, "0" * 64)
FULL_APPROVAL = Approval(FULL_REQUEST, ApprovalState.APPROVED, _recorded(FULL_ANSWER, "request"), "1" * 64)


class Pair(NamedTuple):
    full: Any
    arbitrary: st.SearchStrategy[Any]
    to_pb: Callable[[Any], Any]
    from_pb: Callable[..., Any]
    elsewhere: frozenset[str] = frozenset()  # fields of the model that the message does not have


def _answer_to_pb(decision: ApprovalDecision) -> control_service_pb2.RespondApprovalRequest:
    return wire.answer_to_pb(decision, "again")


def _answer_from_pb(pb: control_service_pb2.RespondApprovalRequest, field: str = "") -> ApprovalDecision:
    try:
        return _given(wire.answer_from_pb(pb))
    except InvalidArgumentError as error:
        raise error.within(field) from None


PAIRS = {
    "answer": Pair(
        _given(FULL_ANSWER),
        approval_decisions.map(_given),
        _answer_to_pb,
        _answer_from_pb,
        frozenset({"decided_by", "expired"}),
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
    empty = {each.name for each in dataclasses.fields(pair.full) if not getattr(pair.full, each.name)}
    assert empty == pair.elsewhere
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
        (wire.APPROVAL_STATES, approval_pb2.ApprovalState, "APPROVAL_STATE_"),
    ):
        assert {f"{prefix}{each.name}": number for each, number in known.items()} == {
            name: number for name, number in enum.items() if number
        }
        assert [known.read(number) for number in known.values()] == list(known)


@pytest.mark.parametrize("number", [4, -1, 2**31 - 1])
def test_an_effect_of_a_later_version_is_kept_and_passed_on(number: int) -> None:
    pb = action_pb2.PolicyDecision()
    pb.effect = number  # type: ignore[assignment]  # what a newer peer may send
    decision = wire.POLICY_DECISION.from_pb(pb)
    assert decision.effect == f"unknown-{number}"
    assert not decision.effect.is_named
    assert wire.POLICY_DECISION.to_pb(decision) == pb
    assert PolicyDecision.from_dict(decision.to_dict()) == decision


def test_the_terms_and_sources_of_a_decision_are_fields_and_keys_of_its_metadata() -> None:
    facts = {"ticket": 7, "editable": True, "expires_s": 60, "sources": ["policy", "context"]}
    decision = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, metadata=facts)
    assert (decision.editable, decision.expires_s, decision.sources) == (True, 60, ("policy", "context"))
    pb = wire.POLICY_DECISION.to_pb(decision)
    assert (pb.metadata_json, pb.edit, pb.approval_ttl.seconds) == (
        '{"ticket":7}',
        policy_pb2.APPROVAL_EDIT_ARGUMENTS,
        60,
    )
    assert list(pb.sources) == [policy_pb2.POLICY_SOURCE_POLICY, policy_pb2.POLICY_SOURCE_CONTEXT]
    assert wire.POLICY_DECISION.from_pb(pb) == decision


def test_a_decision_of_earlier_versions_has_its_terms_and_sources_in_the_metadata() -> None:
    facts = '{"editable":true,"expires_s":60,"sources":["policy"]}'
    decision = wire.POLICY_DECISION.from_pb(action_pb2.PolicyDecision(metadata_json=facts))
    assert (decision.editable, decision.expires_s, decision.sources) == (True, 60, ("policy",))


@pytest.mark.parametrize("facts", [{"editable": 1}, {"expires_s": 0}, {"expires_s": "1"}, {"sources": ["mine"]}])
def test_facts_without_a_form_in_the_fields_of_a_decision_stay_in_its_metadata(facts: dict[str, Any]) -> None:
    pb = wire.POLICY_DECISION.to_pb(PolicyDecision(PolicyEffect.DENY, metadata=facts))
    assert (bool(pb.edit), pb.HasField("approval_ttl"), list(pb.sources)) == (False, False, [])
    assert wire.POLICY_DECISION.from_pb(pb).metadata == facts


def test_an_edit_and_a_source_of_a_later_version_allow_nothing_and_are_shown() -> None:
    pb = action_pb2.PolicyDecision()
    pb.edit = 9  # type: ignore[assignment]  # what a newer peer may send
    pb.sources.append(9)  # type: ignore[arg-type]  # as above
    decision = wire.POLICY_DECISION.from_pb(pb)
    assert (decision.editable, decision.sources) == (False, ("unknown-9",))
    assert list(wire.POLICY_DECISION.to_pb(decision).sources) == [9]


@pytest.mark.parametrize("seconds", [0, 10**9 + 1, -1])
def test_a_lifetime_out_of_bounds_in_a_decision_is_refused_by_its_path(seconds: int) -> None:
    pb = action_pb2.PolicyDecision(approval_ttl={"seconds": seconds})
    with pytest.raises(InvalidArgumentError) as error:
        wire.POLICY_DECISION.from_pb(pb, "decision")
    assert error.value.field == "decision.approval_ttl"


@pytest.mark.parametrize("missing", ["kind", "name"])
@pytest.mark.parametrize("text", ["", " \t"])
def test_an_action_without_kind_or_name_is_refused_by_its_path(missing: str, text: str) -> None:
    pb = wire.approval_to_pb(FULL_APPROVAL)
    setattr(pb.action, missing, text)
    with pytest.raises(InvalidArgumentError) as caught:
        wire.approval_from_pb(pb, "approval")
    assert caught.value.field == f"approval.action.{missing}"


def test_an_artifact_of_an_action_is_refused_by_its_index() -> None:
    pb = wire.ACTION.to_pb(FULL_ACTION)
    pb.artifacts.add().metadata_json = "["
    with pytest.raises(InvalidArgumentError) as caught:
        wire.ACTION.from_pb(pb, "action")
    assert caught.value.field == "action.artifacts[1].metadata_json"


@settings(deadline=None)  # a shared machine's pauses are no failure
@given(run_actions)
def test_the_fingerprint_is_the_same_on_both_sides(action: RunAction) -> None:
    pb = wire.ACTION.to_pb(action)
    assert pb.fingerprint == action.fingerprint == wire.ACTION.from_pb(pb).fingerprint


def test_the_senders_fingerprint_is_not_believed() -> None:
    pb = wire.ACTION.to_pb(FULL_ACTION)
    pb.payload.json = '{"path":"/"}'
    assert wire.ACTION.from_pb(pb).fingerprint not in (pb.fingerprint, FULL_ACTION.fingerprint)


def test_a_state_of_an_approval_of_a_later_version_is_kept_and_passed_on() -> None:
    sent = wire.approval_to_pb(FULL_APPROVAL)
    sent.state = 9  # type: ignore[assignment]  # what a newer peer may send
    approval = wire.approval_from_pb(sent)
    assert approval.state == "unknown-9"
    assert wire.approval_to_pb(approval).state == 9


def test_every_state_of_an_approval_is_known() -> None:
    assert len(approval_pb2.ApprovalState.values()) == len(ApprovalState) + 1  # and the unset one


def test_an_approval_travels_with_the_etag_of_what_waits() -> None:
    # What is shown may have had secrets struck out; an answer repeats the etag of what is really asked.
    pb = wire.approval_to_pb(FULL_APPROVAL)
    assert pb.etag == pb.action.fingerprint == FULL_APPROVAL.fingerprint != FULL_ACTION.fingerprint
    plain = wire.approval_to_pb(dataclasses.replace(FULL_APPROVAL, fingerprint=""))
    assert plain.etag == plain.action.fingerprint == FULL_ACTION.fingerprint


@pytest.mark.parametrize("edit", [policy_pb2.APPROVAL_EDIT_UNSPECIFIED, policy_pb2.APPROVAL_EDIT_NONE, 7])
def test_nothing_may_be_edited_unless_the_approval_says_so(edit: Any) -> None:
    pb = wire.approval_to_pb(FULL_APPROVAL)
    pb.edit = edit
    assert wire.approval_from_pb(pb).request.editable is False


@pytest.mark.parametrize("payload", [{}, {"arguments": {}}])
@pytest.mark.parametrize("call_id", ["", "call"])
def test_an_empty_payload_is_not_one_to_be_read_elsewhere(payload: dict[str, Any], call_id: str) -> None:
    pb = wire.ACTION.to_pb(RunAction("tool.call", "f", payload, call_id=call_id))
    assert pb.HasField("payload") == bool(payload or call_id)
    assert wire.ACTION.from_pb(pb).payload == payload


def test_capabilities_travel_sorted() -> None:
    action = RunAction("tool.call", "f", capabilities=frozenset("zyxabc"))
    assert list(wire.ACTION.to_pb(action).capabilities) == sorted("zyxabc")


def test_a_missing_id_or_time_is_made() -> None:
    before = utc_now()
    pb = approval_pb2.Approval(action=action_pb2.RunAction(kind="tool.call", name="f"))
    pb.policy_decision.effect = policy_pb2.POLICY_EFFECT_REQUIRE_APPROVAL
    request = wire.approval_from_pb(pb).request
    assert request.request_id
    assert request.action.action_id
    assert before <= request.action.created_at <= request.created_at <= utc_now()
    assert (request.run_id, request.task_id, request.expires_at) == (None, "", None)


def test_the_epoch_is_a_time_and_not_a_missing_one() -> None:
    request = dataclasses.replace(FULL_REQUEST, created_at=EPOCH, expires_at=EPOCH)
    assert wire.approval_from_pb(wire.approval_to_pb(Approval(request))).request == request


@pytest.mark.parametrize("approval_id", ["", " "])
def test_an_answer_to_nothing_is_refused(approval_id: str) -> None:
    request = wire.answer_to_pb(FULL_ANSWER, "")
    request.approval_id = approval_id
    with pytest.raises(InvalidArgumentError) as caught:
        wire.answer_from_pb(request)
    assert caught.value.field == "approval_id"


@pytest.mark.parametrize("verdict", [approval_pb2.APPROVAL_VERDICT_UNSPECIFIED, 7])
def test_an_answer_without_a_known_verdict_is_refused_and_a_recorded_one_is_no_approval(verdict: Any) -> None:
    request = wire.answer_to_pb(FULL_ANSWER, "")
    request.verdict = verdict
    with pytest.raises(InvalidArgumentError) as caught:
        wire.answer_from_pb(request)
    assert caught.value.field == "verdict"
    assert (
        wire.APPROVAL_DECISION.from_pb(approval_pb2.ApprovalDecision(verdict=verdict), request_id="a").approved is False
    )


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        (payload_pb2.Payload(), "edited_arguments"),
        (payload_pb2.Payload(json="[]"), "edited_arguments.json"),
        (payload_pb2.Payload(json="{"), "edited_arguments.json"),
        (payload_pb2.Payload(data=b"{}"), "edited_arguments"),
    ],
)
def test_edited_arguments_that_are_no_json_object_are_refused(payload: payload_pb2.Payload, field: str) -> None:
    request = wire.answer_to_pb(FULL_ANSWER, "")
    request.edited_arguments.CopyFrom(payload)
    with pytest.raises(InvalidArgumentError) as caught:
        wire.answer_from_pb(request)
    assert caught.value.field == field


@pytest.mark.parametrize("edited", [None, {}, {"path": None}])
def test_arguments_edited_away_are_not_arguments_left_alone(edited: dict[str, Any] | None) -> None:
    answer = ApprovalDecision(True, "request", edited_arguments=edited)
    assert (
        wire.APPROVAL_DECISION.from_pb(wire.APPROVAL_DECISION.to_pb(answer), request_id="request").edited_arguments
        == edited
    )
    assert wire.answer_from_pb(wire.answer_to_pb(answer, "")).edited_arguments == edited
    assert ApprovalDecision.from_dict(answer.to_dict()).edited_arguments == edited


@pytest.mark.parametrize(("found", "read"), [(None, None), ("", None), (NOON, NOON)])
def test_a_question_without_an_expiry_never_goes_stale(found: str | None, read: str | None) -> None:
    assert ApprovalRequest.from_dict(FULL_REQUEST.to_dict() | {"expires_at": found}).expires_at == read


@pytest.mark.parametrize("found", [0, False, "soon"])
def test_an_expiry_that_is_no_time_is_refused(found: object) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        ApprovalRequest.from_dict(FULL_REQUEST.to_dict() | {"expires_at": found})
    assert caught.value.field == "expires_at"
