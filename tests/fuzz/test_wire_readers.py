"""Arbitrary contexts and actions: read, or refused as invalid; never a crash."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plgrpc.v1 import action_pb2, approval_pb2, context_pb2, control_service_pb2, policy_pb2, usage_pb2
from random_messages import any_fields

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import RunContext
from protolink_grpc.models.action import ApprovalDecision
from protolink_grpc.wire import actions, context, usage

Convert = Callable[..., Any]


def _answer(pb: control_service_pb2.RespondApprovalRequest, field: str = "sent") -> ApprovalDecision:
    try:
        return replace(actions.answer_from_pb(pb), decided_at="")  # now
    except InvalidArgumentError as error:
        raise error.within(field) from None


READERS: dict[type[Message], tuple[Convert, Convert]] = {
    context_pb2.RunContext: (context.CONTEXT.from_pb, context.CONTEXT.to_pb),
    usage_pb2.Budget: (usage.BUDGET.from_pb, usage.BUDGET.to_pb),
    usage_pb2.Usage: (usage.USAGE.from_pb, usage.USAGE.to_pb),
    usage_pb2.BudgetDecision: (usage.BUDGET_DECISION.from_pb, usage.BUDGET_DECISION.to_pb),
    context_pb2.ContextItem: (context.CONTEXT_ITEM.from_pb, context.CONTEXT_ITEM.to_pb),
    context_pb2.ContextManifest: (context.MANIFEST.from_pb, context.MANIFEST.to_pb),
    action_pb2.RunAction: (actions.ACTION.from_pb, actions.ACTION.to_pb),
    action_pb2.PolicyDecision: (actions.POLICY_DECISION.from_pb, actions.POLICY_DECISION.to_pb),
    approval_pb2.ApprovalDecision: (
        lambda pb, field="decision": actions.APPROVAL_DECISION.from_pb(pb, field, request_id="approval"),
        actions.APPROVAL_DECISION.to_pb,
    ),
    control_service_pb2.RespondApprovalRequest: (_answer, lambda answer: actions.answer_to_pb(answer, "request")),
    approval_pb2.Approval: (actions.approval_from_pb, actions.approval_to_pb),
}
each_message = pytest.mark.parametrize("message", READERS, ids=lambda each: each.DESCRIPTOR.name)
# Messages are built field by field from their descriptors, which hypothesis finds slow; a shared machine's pauses are no failure.
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# What must be there before anything else is looked at: without it nearly every drawn message would be refused for one reason.
VERDICT = action_pb2.PolicyDecision(effect=policy_pb2.POLICY_EFFECT_DENY)
ACTION = action_pb2.RunAction(kind="tool.call", name="delete_file")
SEEDS: dict[type[Message], Message] = {
    usage_pb2.BudgetDecision: usage_pb2.BudgetDecision(effect=usage_pb2.BUDGET_EFFECT_DENY),
    action_pb2.RunAction: ACTION,
    action_pb2.PolicyDecision: VERDICT,
    approval_pb2.ApprovalDecision: approval_pb2.ApprovalDecision(),
    control_service_pb2.RespondApprovalRequest: control_service_pb2.RespondApprovalRequest(
        approval_id="approval", verdict=approval_pb2.APPROVAL_VERDICT_APPROVE
    ),
    approval_pb2.Approval: approval_pb2.Approval(
        action=ACTION, policy_decision=VERDICT, state=approval_pb2.APPROVAL_STATE_PENDING
    ),
}


def any_message(message: type[Message]) -> st.SearchStrategy[Message]:
    def build(fields: dict[str, Any]) -> Message:
        built = message()
        built.CopyFrom(SEEDS.get(message, built))
        built.MergeFrom(message(**fields))
        return built

    return any_fields(message.DESCRIPTOR).map(build)


def read(message: type[Message], pb: Message) -> Any:
    """The model, or None when it is refused as the sender's mistake; any other error fails the test."""
    try:
        return READERS[message][0](pb, "sent")
    except InvalidArgumentError as error:
        if not error.field.startswith("sent."):
            pytest.fail(f"names no field of the sender's: {error}")
        return None


@each_message
@relaxed
@given(raw=st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(message: type[Message], raw: bytes) -> None:
    try:
        pb = message.FromString(raw)
    except DecodeError:
        return
    read(message, pb)


@each_message
@relaxed
@given(data=st.data())
def test_a_message_of_any_values_is_read_or_refused_and_what_was_read_comes_back(
    message: type[Message], data: st.DataObject
) -> None:
    value = read(message, data.draw(any_message(message)))
    if value is not None:
        from_pb, to_pb = READERS[message]
        assert from_pb(to_pb(value)) == value


@each_message
@relaxed
@given(data=st.data(), at=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_a_message_with_one_wrong_byte_is_read_or_refused(
    message: type[Message], data: st.DataObject, at: float, byte: int
) -> None:
    raw = bytearray(data.draw(any_message(message)).SerializeToString())
    if raw:
        raw[int(at * len(raw))] = byte
    try:
        pb = message.FromString(bytes(raw))
    except DecodeError:
        return
    read(message, pb)


@relaxed
@given(data=st.data())
def test_a_context_that_was_read_survives_its_json_form(data: st.DataObject) -> None:
    # Tasks keep their context as JSON: whatever the wire lets in must not fail there, far from its sender.
    value = read(context_pb2.RunContext, data.draw(any_message(context_pb2.RunContext)))
    if value is not None:
        assert RunContext.from_dict(value.to_dict()) == value
