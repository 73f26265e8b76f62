"""Actions, policy verdicts and approvals between the models and `plgrpc`. Nothing here decides or approves.

Points in time come back in the spelling of `models.clock`.
"""

from typing import Final

from plgrpc.v1 import action_pb2 as pb2

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
from protolink_grpc.models.json_value import to_json
from protolink_grpc.wire.permissions import EFFECTS
from protolink_grpc.wire.scalars import (
    EnumNumbers,
    json_object_from_pb,
    json_object_to_pb,
    timestamp_from_pb,
    timestamp_to_pb,
)
from protolink_grpc.wire.tasks import artifact_from_pb, artifact_to_pb

APPROVAL_STATES: Final = EnumNumbers(
    ApprovalState,
    {
        ApprovalState.PENDING: pb2.APPROVAL_STATE_PENDING,
        ApprovalState.APPROVED: pb2.APPROVAL_STATE_APPROVED,
        ApprovalState.DENIED: pb2.APPROVAL_STATE_DENIED,
        ApprovalState.EXPIRED: pb2.APPROVAL_STATE_EXPIRED,
        ApprovalState.WITHDRAWN: pb2.APPROVAL_STATE_WITHDRAWN,
    },
)


def action_to_pb(action: RunAction) -> pb2.RunAction:
    """The fingerprint goes along, so that an approver can send it back with the answer.

    Raises:
        TypeError: Payload, metadata or an artifact have no JSON form.
    """
    return pb2.RunAction(
        action_id=action.action_id,
        kind=action.kind,
        name=action.name,
        payload_json=json_object_to_pb(action.payload),
        capabilities=sorted(action.capabilities),
        artifacts=[artifact_to_pb(artifact) for artifact in action.artifacts],
        description=action.description,
        metadata_json=json_object_to_pb(action.metadata),
        create_time=timestamp_to_pb(action.created_at),
        fingerprint=action.fingerprint,
    )


def action_from_pb(pb: pb2.RunAction, field: str = "action") -> RunAction:
    """The action of a message; a missing id or time is made. The sender's fingerprint is not believed: the model has its own.

    Raises:
        InvalidArgumentError: A value that the contract does not allow; names its path below `field`.
    """
    _require(pb.kind, f"{field}.kind")
    _require(pb.name, f"{field}.name")
    return RunAction(
        kind=pb.kind,
        name=pb.name,
        payload=json_object_from_pb(pb.payload_json, f"{field}.payload_json"),
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
    )


def policy_decision_to_pb(decision: PolicyDecision) -> pb2.PolicyDecision:
    return pb2.PolicyDecision(
        effect=EFFECTS[decision.effect],
        reason=decision.reason,
        policy_name=decision.policy_name,
        matched_capabilities=decision.matched_capabilities,
        metadata_json=json_object_to_pb(decision.metadata),
    )


def policy_decision_from_pb(pb: pb2.PolicyDecision, field: str = "policy_decision") -> PolicyDecision:
    """Raises InvalidArgumentError for an unknown effect or metadata that is no JSON object; names its path."""
    return PolicyDecision(
        effect=EFFECTS.read(pb.effect),
        reason=pb.reason,
        policy_name=pb.policy_name,
        matched_capabilities=tuple(pb.matched_capabilities),
        metadata=json_object_from_pb(pb.metadata_json, f"{field}.metadata_json"),
    )


def approval_request_to_pb(request: ApprovalRequest) -> pb2.ApprovalRequest:
    return pb2.ApprovalRequest(
        request_id=request.request_id,
        action=action_to_pb(request.action),
        policy_decision=policy_decision_to_pb(request.policy_decision),
        run_id=request.run_id or "",
        task_id=request.task_id,
        create_time=timestamp_to_pb(request.created_at),
        expire_time=timestamp_to_pb(request.expires_at) if request.expires_at else None,
        metadata_json=json_object_to_pb(request.metadata),
        editable=request.editable,
    )


def approval_request_from_pb(pb: pb2.ApprovalRequest, field: str = "approval_request") -> ApprovalRequest:
    """The request of a message; a missing id or time is made.

    Raises:
        InvalidArgumentError: No action or verdict, or a value that is not allowed; names its path below `field`.
    """
    return ApprovalRequest(
        action=action_from_pb(pb.action, f"{field}.action"),
        policy_decision=policy_decision_from_pb(pb.policy_decision, f"{field}.policy_decision"),
        run_id=pb.run_id or None,
        request_id=pb.request_id or new_request_id(),
        created_at=(
            timestamp_from_pb(pb.create_time, f"{field}.create_time") if pb.HasField("create_time") else utc_now()
        ),
        metadata=json_object_from_pb(pb.metadata_json, f"{field}.metadata_json"),
        task_id=pb.task_id,
        expires_at=timestamp_from_pb(pb.expire_time, f"{field}.expire_time") if pb.HasField("expire_time") else None,
        editable=pb.editable,
    )


def approval_decision_to_pb(decision: ApprovalDecision) -> pb2.ApprovalDecision:
    edited = decision.edited_arguments
    return pb2.ApprovalDecision(
        request_id=decision.request_id,
        approved=decision.approved,
        reason=decision.reason,
        decided_by=decision.decided_by,
        decide_time=timestamp_to_pb(decision.decided_at),
        # Not `json_object_to_pb`: no arguments at all is an edit, and empty text means that nothing was edited.
        edited_arguments_json="" if edited is None else to_json(edited),
        fingerprint=decision.fingerprint,
        metadata_json=json_object_to_pb(decision.metadata),
    )


def approval_decision_from_pb(pb: pb2.ApprovalDecision, field: str = "approval_decision") -> ApprovalDecision:
    """The answer of a message; a missing time is now.

    Raises:
        InvalidArgumentError: It does not say what it answers, or a JSON text is no object; names its path below `field`.
    """
    _require(pb.request_id, f"{field}.request_id")
    edited = pb.edited_arguments_json
    return ApprovalDecision(
        approved=pb.approved,
        request_id=pb.request_id,
        reason=pb.reason,
        decided_by=pb.decided_by,
        metadata=json_object_from_pb(pb.metadata_json, f"{field}.metadata_json"),
        decided_at=(
            timestamp_from_pb(pb.decide_time, f"{field}.decide_time") if pb.HasField("decide_time") else utc_now()
        ),
        edited_arguments=json_object_from_pb(edited, f"{field}.edited_arguments_json") if edited else None,
        fingerprint=pb.fingerprint,
    )


def approval_to_pb(approval: Approval) -> pb2.Approval:
    """The action shown carries the fingerprint of the action that waits, whatever was struck out of it."""
    out = pb2.Approval(
        request=approval_request_to_pb(approval.request),
        state=APPROVAL_STATES[approval.state],
        decision=None if approval.decision is None else approval_decision_to_pb(approval.decision),
    )
    if approval.fingerprint:
        out.request.action.fingerprint = approval.fingerprint
    return out


def approval_from_pb(pb: pb2.Approval, field: str = "approval") -> Approval:
    """The inverse of `approval_to_pb`.

    Raises:
        InvalidArgumentError: No request, or a value that is not allowed; names its path below `field`.
    """
    request = approval_request_from_pb(pb.request, f"{field}.request")
    return Approval(
        request=request,
        state=APPROVAL_STATES.read(pb.state),
        decision=approval_decision_from_pb(pb.decision, f"{field}.decision") if pb.HasField("decision") else None,
        fingerprint=pb.request.action.fingerprint or request.action.fingerprint,
    )


def _require(text: str, field: str) -> None:
    if not text or text.isspace():
        raise InvalidArgumentError("must be a non-empty string", field=field)
