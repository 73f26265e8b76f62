"""Actions, policy verdicts and approvals between the models and `plgrpc`. Nothing here decides or approves.

Points in time come back in the spelling of `models.clock`.
"""

from typing import Final

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
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.ids import new_action_id, new_request_id
from protolink_grpc.wire.permissions import EFFECTS
from protolink_grpc.wire.scalars import (
    EnumNumbers,
    json_object_from_pb,
    json_object_to_pb,
    timestamp_from_pb,
    timestamp_to_pb,
)
from protolink_grpc.wire.tasks import artifact_from_pb, artifact_to_pb
from protolink_grpc.wire.values import check_payload, object_from_pb, payload_to_pb

APPROVAL_STATES: Final = EnumNumbers(
    ApprovalState,
    {
        ApprovalState.PENDING: approval_pb2.APPROVAL_STATE_PENDING,
        ApprovalState.APPROVED: approval_pb2.APPROVAL_STATE_APPROVED,
        ApprovalState.DENIED: approval_pb2.APPROVAL_STATE_DENIED,
        ApprovalState.EXPIRED: approval_pb2.APPROVAL_STATE_EXPIRED,
        ApprovalState.WITHDRAWN: approval_pb2.APPROVAL_STATE_WITHDRAWN,
    },
)
EDITS: Final = {False: policy_pb2.APPROVAL_EDIT_NONE, True: policy_pb2.APPROVAL_EDIT_ARGUMENTS}
VERDICTS: Final = {
    False: approval_pb2.APPROVAL_VERDICT_DENY,
    True: approval_pb2.APPROVAL_VERDICT_APPROVE,
}


def action_to_pb(action: RunAction, *, abridged: bool = False) -> action_pb2.RunAction:
    """An action as what will run; `abridged` leaves out the payload, which is then in the tool call of `action.call_id`.

    Raises:
        TypeError: Payload, metadata or an artifact have no JSON form.
    """
    return action_pb2.RunAction(
        action_id=action.action_id,
        kind=action.kind,
        name=action.name,
        payload=_payload_to_pb(action, abridged),
        capabilities=sorted(action.capabilities),
        artifacts=[artifact_to_pb(artifact) for artifact in action.artifacts],
        description=action.description,
        metadata_json=json_object_to_pb(action.metadata),
        create_time=timestamp_to_pb(action.created_at),
        # What was read without its payload has another fingerprint than what will run.
        fingerprint="" if abridged and not action.payload else action.fingerprint,
        call_id=action.call_id,
    )


def _payload_to_pb(action: RunAction, abridged: bool) -> payload_pb2.Payload | None:
    if abridged or not (action.payload or action.call_id):
        return None
    return payload_to_pb(action.payload)


def action_from_pb(pb: action_pb2.RunAction, field: str = "action") -> RunAction:
    """The action of a message; a missing id or time is made. The sender's fingerprint is not believed: the model has its own.

    Raises:
        InvalidArgumentError: A value that the contract does not allow; names its path below `field`.
    """
    _require(pb.kind, f"{field}.kind")
    _require(pb.name, f"{field}.name")
    return RunAction(
        kind=pb.kind,
        name=pb.name,
        payload=object_from_pb(pb.payload, f"{field}.payload"),
        capabilities=frozenset(pb.capabilities),
        artifacts=tuple(
            artifact_from_pb(artifact, f"{field}.artifacts[{index}]") for index, artifact in enumerate(pb.artifacts)
        ),
        description=pb.description,
        metadata=json_object_from_pb(pb.metadata_json, f"{field}.metadata_json"),
        action_id=pb.action_id or new_action_id(),
        created_at=(
            timestamp_from_pb(pb.create_time, f"{field}.create_time") if pb.HasField("create_time") else utc_now()
        ),
        call_id=pb.call_id,
    )


def policy_decision_to_pb(decision: PolicyDecision) -> action_pb2.PolicyDecision:
    return action_pb2.PolicyDecision(
        effect=EFFECTS[decision.effect],
        reason=decision.reason,
        policy_name=decision.policy_name,
        matched_capabilities=decision.matched_capabilities,
        metadata_json=json_object_to_pb(decision.metadata),
    )


def policy_decision_from_pb(pb: action_pb2.PolicyDecision, field: str = "policy_decision") -> PolicyDecision:
    """Raises InvalidArgumentError for an unknown effect or metadata that is no JSON object; names its path."""
    return PolicyDecision(
        effect=EFFECTS.read(pb.effect),
        reason=pb.reason,
        policy_name=pb.policy_name,
        matched_capabilities=tuple(pb.matched_capabilities),
        metadata=json_object_from_pb(pb.metadata_json, f"{field}.metadata_json"),
    )


def approval_decision_to_pb(decision: ApprovalDecision) -> approval_pb2.ApprovalDecision:
    edited = decision.edited_arguments
    return approval_pb2.ApprovalDecision(
        verdict=VERDICTS[decision.approved],
        reason=decision.reason,
        decided_by=decision.decided_by,
        decide_time=timestamp_to_pb(decision.decided_at),
        edited_arguments=None if edited is None else payload_to_pb(edited),
        metadata_json=json_object_to_pb(decision.metadata),
    )


def approval_decision_from_pb(
    pb: approval_pb2.ApprovalDecision, approval_id: str, field: str = "decision"
) -> ApprovalDecision:
    """The answer to that approval; a missing time is now. A verdict that this version does not know approves nothing.

    Raises:
        InvalidArgumentError: A value that is not allowed; names its path below `field`.
    """
    return ApprovalDecision(
        approved=pb.verdict == approval_pb2.APPROVAL_VERDICT_APPROVE,
        request_id=approval_id,
        reason=pb.reason,
        decided_by=pb.decided_by,
        metadata=json_object_from_pb(pb.metadata_json, f"{field}.metadata_json"),
        decided_at=(
            timestamp_from_pb(pb.decide_time, f"{field}.decide_time") if pb.HasField("decide_time") else utc_now()
        ),
        edited_arguments=(
            object_from_pb(pb.edited_arguments, f"{field}.edited_arguments")
            if pb.HasField("edited_arguments")
            else None
        ),
    )


def approval_to_pb(approval: Approval) -> approval_pb2.Approval:
    """The etag, and the fingerprint of the action shown, are those of the action that waits, whatever was struck out of it."""
    request, etag = approval.request, approval.etag
    out = approval_pb2.Approval(
        approval_id=request.request_id,
        etag=etag,
        state=APPROVAL_STATES[approval.state],
        task_id=request.task_id,
        run_id=request.run_id or "",
        action=action_to_pb(request.action),
        policy_decision=policy_decision_to_pb(request.policy_decision),
        create_time=timestamp_to_pb(request.created_at),
        expire_time=timestamp_to_pb(request.expires_at) if request.expires_at else None,
        edit=EDITS[request.editable],
        decision=None if approval.decision is None else approval_decision_to_pb(approval.decision),
        metadata_json=json_object_to_pb(request.metadata),
    )
    out.action.fingerprint = etag
    return out


def approval_from_bytes(record: bytes) -> Approval:
    """The approval of its encoded message. Raises as `approval_from_pb`, and DecodeError for bytes that are no message."""
    return approval_from_pb(approval_pb2.Approval.FromString(record))


def approval_from_pb(pb: approval_pb2.Approval, field: str = "approval") -> Approval:
    """The inverse of `approval_to_pb`; a missing id or time is made.

    Raises:
        InvalidArgumentError: No action or verdict, or a value that is not allowed; names its path below `field`.
    """
    request = ApprovalRequest(
        action=action_from_pb(pb.action, f"{field}.action"),
        policy_decision=policy_decision_from_pb(pb.policy_decision, f"{field}.policy_decision"),
        run_id=pb.run_id or None,
        request_id=pb.approval_id or new_request_id(),
        created_at=(
            timestamp_from_pb(pb.create_time, f"{field}.create_time") if pb.HasField("create_time") else utc_now()
        ),
        metadata=json_object_from_pb(pb.metadata_json, f"{field}.metadata_json"),
        task_id=pb.task_id,
        expires_at=timestamp_from_pb(pb.expire_time, f"{field}.expire_time") if pb.HasField("expire_time") else None,
        editable=pb.edit == policy_pb2.APPROVAL_EDIT_ARGUMENTS,
    )
    answered = pb.HasField("decision")
    return Approval(
        request=request,
        state=APPROVAL_STATES.read(pb.state),
        decision=approval_decision_from_pb(pb.decision, request.request_id, f"{field}.decision") if answered else None,
        fingerprint=pb.etag or request.action.fingerprint,
    )


def answer_to_pb(decision: ApprovalDecision, request_id: str) -> control_service_pb2.RespondApprovalRequest:
    """A request that gives that answer; the decision's fingerprint is the etag of what was shown."""
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
    """The answer that a request gives.

    Raises:
        InvalidArgumentError: It does not say what it answers or decides, or a value is not allowed; names the field.
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
