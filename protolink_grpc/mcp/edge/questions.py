"""Approvals as questions to the client of an MCP call, which are part of its result (elicitation of the protocol from 2026 on).

The state of such a call is the id of its task and a position in its log, so the client may repeat the call at another process.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import ApprovalDecision, ApprovalRequest
from protolink_grpc.models.json_value import canonical_json
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.runtime.actions.approvals import Approvals
from protolink_grpc.runtime.actions.input_requests import INPUT_REQUEST

MAX_MESSAGE_CHARS = 2000

_SIMPLE = frozenset({"string", "number", "integer", "boolean"})
_APPROVAL = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "description": "Whether the action may run."},
        "reason": {"type": "string", "description": "Why, for the agent."},
    },
    "required": ["approve"],
}


@dataclass(frozen=True, slots=True)
class CallState:
    """The state of a call that waits for an answer of its client.

    Args:
        sequence: Position in the log of the task; the call continues after it.
    """

    task_id: str
    sequence: int

    def __str__(self) -> str:
        return f"{self.task_id}/{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> "CallState":
        """Read the state that a client returns. Raises InvalidArgumentError."""
        task_id, _, sequence = text.rpartition("/")
        if not task_id or not sequence.isdecimal() or len(sequence) > 18:
            raise InvalidArgumentError("is not a state of this server", field="request_state")
        return cls(task_id, int(sequence))


def can_be_asked(context: Any) -> bool:
    """Return whether the client of a call (`mcp.server.ServerRequestContext`) can show a form to a person in the middle of it."""
    from mcp.types.version import MODERN_PROTOCOL_VERSIONS

    capabilities = context.session.client_capabilities
    return (
        context.protocol_version in MODERN_PROTOCOL_VERSIONS
        and capabilities is not None
        and capabilities.elicitation is not None
    )


def may_answer(approvals: Approvals | None, caller: str, request: ApprovalRequest) -> bool:
    """Return whether the caller, who owns the task, may answer, and the question can be a form of MCP."""
    if approvals is None or not approvals.remote or not approvals.may_answer(caller, caller, request):
        return False
    schema = request.action.payload.get("schema") if request.action.kind == INPUT_REQUEST else None
    return not schema or all(
        isinstance(each, dict) and each.get("type") in _SIMPLE for each in schema.get("properties", {}).values()
    )


def question_result(request: ApprovalRequest, state: CallState, redaction: RedactionPolicy) -> Any:
    """Return the result that asks the client (`mcp.types.InputRequiredResult`)."""
    from mcp.types import InputRequiredResult

    return InputRequiredResult(
        input_requests={request.request_id: question_of(request, redaction)}, request_state=str(state)
    )


def question_of(request: ApprovalRequest, redaction: RedactionPolicy) -> Any:
    """Return the question to the client's person (`mcp.types.ElicitRequest`)."""
    from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitRequestURLParams

    action, payload = request.action, request.action.payload
    params: Any
    if action.kind == INPUT_REQUEST and payload.get("url"):
        params = ElicitRequestURLParams(message=payload["message"], url=payload["url"])
    elif action.kind == INPUT_REQUEST and payload.get("schema"):
        params = ElicitRequestFormParams(message=payload["message"], requested_schema=payload["schema"])
    else:
        why = request.policy_decision.reason
        shown = (
            payload["message"] if action.kind == INPUT_REQUEST else canonical_json(redaction.redact(action.arguments))
        )
        message = f"{action.kind} '{action.name}': {shown}{f' ({why})' if why else ''}"
        params = ElicitRequestFormParams(message=message[:MAX_MESSAGE_CHARS], requested_schema=_APPROVAL)
    return ElicitRequest(params=params)


def decision_of(request: ApprovalRequest, response: Any) -> ApprovalDecision | None:
    """Return the decision in the response of a client (`mcp.types.ElicitResult`); None if the person has not decided."""
    action = getattr(response, "action", "cancel")
    if action == "cancel":
        return None
    if action == "decline":
        return ApprovalDecision(False, request.request_id, reason="declined over MCP")
    content: Mapping[str, Any] = response.content or {}
    payload = request.action.payload
    if request.action.kind == INPUT_REQUEST and (payload.get("schema") or payload.get("url")):
        return ApprovalDecision(True, request.request_id, edited_arguments=dict(content) or None)
    return ApprovalDecision(content.get("approve") is True, request.request_id, reason=str(content.get("reason", "")))
