"""Approvals over A2A: who may answer one, the decision in a message, and the requests that the updates of a task refer to."""

from collections.abc import Sequence
from typing import Final

from protolink_grpc.a2a.values import Update
from protolink_grpc.a2a.views import ANSWERS, MayAnswer, Updates
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import ApprovalDecision, ApprovalRequest
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.message import Message
from protolink_grpc.runtime.actions.approvals import Approvals
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.wire.events import requested_approval_id

DECISION_TYPE: Final = "approval_decision"
"""Type of the data part that answers an approval: `{"request_id", "approved", "reason"}`."""


def answer_check(approvals: Approvals | None, owner: str) -> MayAnswer:
    """Return a function that returns whether `owner` may answer an approval."""
    if approvals is None or not approvals.remote:
        return may_not_answer

    def may_answer(request: ApprovalRequest) -> bool:
        return approvals.may_answer(owner, owner, request)

    return may_answer


def may_not_answer(_: ApprovalRequest) -> bool:
    return False


def find_decision(fold: TaskFold, message: Message) -> ApprovalDecision | None:
    """Return the decision in a message about a pending approval, or None if it has none.

    The decision is a data part, or one of the words in `ANSWERS` if exactly one approval is pending.
    """
    for part in message.parts:
        content = part.content
        if part.type in (DECISION_TYPE, "json") and isinstance(content, dict) and "approved" in content:
            try:
                return ApprovalDecision.from_dict(content)
            except InvalidArgumentError as error:
                raise error.within("message.parts") from None
    word = message.text.strip().casefold()
    if word not in ANSWERS or len(fold.pending_approvals) != 1:
        return None
    return ApprovalDecision(word == ANSWERS[0], next(iter(fold.pending_approvals)))


async def read_updates(service: TaskService, updates: Updates, frames: Sequence[bytes]) -> list[Update]:
    """Return the updates of these events. The approval requests that the events refer to are read from the store."""
    for approval_id in filter(None, map(requested_approval_id, frames)):
        request = await service.approvals.request(approval_id)
        if request is not None:
            updates.approval_requests[approval_id] = request
    return updates.read(frames)
