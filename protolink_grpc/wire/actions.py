"""Converts actions, policy decisions and approvals between the models and `plgrpc`. No decisions are made here.

Points in time are read in the format of `models.clock`.
"""

from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from plgrpc.v1 import action_pb2, approval_pb2, control_service_pb2, payload_pb2, policy_pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import (
    Approval,
    ApprovalDecision,
    ApprovalRequest,
    ApprovalState,
    PolicyDecision,
    RunAction,
)
from protolink_grpc.models.open_enum import unrecognized_number
from protolink_grpc.wire.compile import Codec, Computed, LeftOut, Special, enum_numbers
from protolink_grpc.wire.permissions import lifetime_from_pb, lifetime_to_pb
from protolink_grpc.wire.scalars import json_object_from_pb, json_object_to_pb
from protolink_grpc.wire.values import check_payload, object_from_pb, payload_to_pb

APPROVAL_STATES: Final = enum_numbers(ApprovalState, approval_pb2.ApprovalState.DESCRIPTOR)
EDITS: Final = {False: policy_pb2.APPROVAL_EDIT_NONE, True: policy_pb2.APPROVAL_EDIT_ARGUMENTS}
VERDICTS: Final = {
    False: approval_pb2.APPROVAL_VERDICT_DENY,
    True: approval_pb2.APPROVAL_VERDICT_APPROVE,
}


def _payload_to_pb(action: RunAction) -> payload_pb2.Payload | None:
    return payload_to_pb(action.payload) if action.payload or action.call_id else None


ACTION: Final = Codec(
    RunAction,
    action_pb2.RunAction,
    created_at="create_time",
    payload=Special("payload", _payload_to_pb),
    fingerprint=Computed(lambda action: action.fingerprint),
)
"""A whole action. The fingerprint of the sender is ignored, because it is computed."""

ABRIDGED_ACTION: Final = Codec(
    RunAction,
    action_pb2.RunAction,
    created_at="create_time",
    payload=LeftOut("It is in the tool call with the id `call_id`."),
    # An action read without its payload has another fingerprint than the action that will run.
    fingerprint=Computed(lambda action: action.fingerprint if action.payload else None),
)

POLICY_SOURCES: Final = enum_numbers(str, policy_pb2.PolicySource.DESCRIPTOR)


def _has_source_fields(decision: PolicyDecision) -> bool:
    """Whether all sources are values of the enum; others can only be in ProtoLink's JSON."""
    others = set(decision.sources).difference(POLICY_SOURCES)
    return not others or all(unrecognized_number(each) is not None for each in others)


def _edit_to_pb(decision: PolicyDecision) -> Any:
    editable = decision.metadata.get("editable")
    return EDITS[editable] if isinstance(editable, bool) else None


def _ttl_to_pb(decision: PolicyDecision) -> Duration | None:
    seconds = decision.expires_s if "expires_s" in decision.metadata else None
    return None if seconds is None else lifetime_to_pb(seconds)


def _sources_to_pb(decision: PolicyDecision) -> list[Any]:
    return [POLICY_SOURCES[each] for each in decision.sources] if _has_source_fields(decision) else []


def _facts_to_pb(decision: PolicyDecision) -> str:
    """Encode the metadata without the keys that have fields. A value that its field cannot hold stays in the metadata."""
    rest = dict(decision.metadata)
    if isinstance(rest.get("editable"), bool):
        del rest["editable"]
    if "expires_s" in rest and decision.expires_s is not None:
        del rest["expires_s"]
    if decision.sources and _has_source_fields(decision):
        del rest["sources"]
    if decision.rule:
        del rest["rule"]
    return json_object_to_pb(rest)


def _facts_from_pb(pb: action_pb2.PolicyDecision) -> dict[str, Any]:
    found = json_object_from_pb(pb.metadata_json, "metadata_json")
    if pb.sources:
        found["sources"] = [POLICY_SOURCES.read(each) for each in pb.sources]
    if pb.rule:
        found["rule"] = pb.rule
    if pb.edit:
        found["editable"] = pb.edit == EDITS[True]
    if pb.HasField("approval_ttl"):
        found["expires_s"] = lifetime_from_pb(pb.approval_ttl, "approval_ttl")
    return found


POLICY_DECISION: Final = Codec(
    PolicyDecision,
    action_pb2.PolicyDecision,
    metadata=Special("metadata_json", _facts_to_pb, _facts_from_pb),
    edit=Computed(_edit_to_pb),
    approval_ttl=Computed(_ttl_to_pb),
    sources=Computed(_sources_to_pb),
    rule=Computed(lambda decision: decision.rule),
)
"""A decision. In Python, the terms of an approval, the sources and the rule are keys of `metadata`, as in ProtoLink's API."""

APPROVAL_DECISION: Final = Codec(
    ApprovalDecision,
    approval_pb2.ApprovalDecision,
    # An unknown verdict does not approve.
    approved=Special("verdict", lambda decision: VERDICTS[decision.approved], lambda pb: pb.verdict == VERDICTS[True]),
    decided_at="decide_time",
    request_id=LeftOut("The approval has it."),
    fingerprint=LeftOut("It is compared with the etag when the answer arrives, and not stored."),
    expired=LeftOut("It follows from the state of the approval."),
)

APPROVAL_REQUEST: Final = Codec(
    ApprovalRequest,
    approval_pb2.Approval,
    request_id="approval_id",
    created_at="create_time",
    expires_at="expire_time",
    editable=Special("edit", lambda request: EDITS[request.editable], lambda pb: pb.edit == EDITS[True]),
    etag=LeftOut("The Approval has it: see `approval_to_pb`."),
    state=LeftOut("The Approval has it."),
    decision=LeftOut("The Approval has it."),
)


def approval_to_pb(approval: Approval) -> approval_pb2.Approval:
    """Convert an approval. The etag and the fingerprint are those of the pending action, even if parts of it are redacted."""
    out = APPROVAL_REQUEST.to_pb(approval.request)
    out.etag = out.action.fingerprint = approval.etag
    out.state = APPROVAL_STATES[approval.state]
    if approval.decision is not None:
        out.decision.CopyFrom(APPROVAL_DECISION.to_pb(approval.decision))
    return out


def approval_from_bytes(record: bytes) -> Approval:
    """Decode an approval. Raises as `approval_from_pb`, and DecodeError for bytes that are not a message."""
    return approval_from_pb(approval_pb2.Approval.FromString(record))


def approval_from_pb(pb: approval_pb2.Approval, field: str = "approval") -> Approval:
    """Convert a message to an approval, the inverse of `approval_to_pb`; a missing id or time is generated.

    Raises:
        InvalidArgumentError: The action or verdict is missing, or a value is not allowed; names its path below `field`.
    """
    request, decision = APPROVAL_REQUEST.from_pb(pb, field), None
    if pb.HasField("decision"):
        decision = APPROVAL_DECISION.from_pb(
            pb.decision,
            f"{field}.decision" if field else "decision",
            request_id=request.request_id,
            expired=pb.state == approval_pb2.APPROVAL_STATE_EXPIRED,
        )
    return Approval(request, APPROVAL_STATES.read(pb.state), decision, pb.etag or request.action.fingerprint)


def answer_to_pb(decision: ApprovalDecision, request_id: str) -> control_service_pb2.RespondApprovalRequest:
    """Return the request that sends a decision. The decision's fingerprint, that of the displayed action, becomes the etag."""
    edited = decision.edited_arguments
    return control_service_pb2.RespondApprovalRequest(
        approval_id=decision.request_id,
        verdict=VERDICTS[decision.approved],
        etag=decision.fingerprint,
        edited_arguments=None if edited is None else payload_to_pb(edited),
        reason=decision.reason,
        request_id=request_id,
        metadata_json=json_object_to_pb(decision.metadata),
    )


def answer_from_pb(pb: control_service_pb2.RespondApprovalRequest) -> ApprovalDecision:
    """Return the decision in a request.

    Raises:
        InvalidArgumentError: The approval or the decision is missing, or a value is not allowed; names the field.
    """
    _require(pb.approval_id, "approval_id")
    if pb.verdict not in VERDICTS.values():
        raise InvalidArgumentError("must be APPROVAL_VERDICT_APPROVE or APPROVAL_VERDICT_DENY", field="verdict")
    edited = None
    if pb.HasField("edited_arguments"):
        check_payload(pb.edited_arguments, "edited_arguments")
        edited = object_from_pb(pb.edited_arguments, "edited_arguments")
    return ApprovalDecision(
        approved=pb.verdict == approval_pb2.APPROVAL_VERDICT_APPROVE,
        request_id=pb.approval_id,
        reason=pb.reason,
        metadata=json_object_from_pb(pb.metadata_json, "metadata_json"),
        edited_arguments=edited,
        fingerprint=pb.etag,
    )


def _require(text: str, field: str) -> None:
    if not text or text.isspace():
        raise InvalidArgumentError("must be a non-empty string", field=field)
