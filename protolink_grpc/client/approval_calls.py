"""The calls of a client about approvals: listing, watching and answering them."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from protolink_grpc.client.agent_access import AgentAccess
from protolink_grpc.client.approvals import follow_approvals
from protolink_grpc.client.port import ApprovalAnswer, ApprovalFilter, ApprovalList
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import Approval, ApprovalDecision, ApprovalState
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.ids import new_request_id


@checks_arguments
class ApprovalCalls(AgentAccess):
    """The methods of AgentClient about approvals."""

    async def list_approvals(
        self,
        agent_url: str | None = None,
        *,
        states: Sequence[ApprovalState | str] = (),
        task_id: str = "",
        page_size: int = 0,
        page_token: str = "",
    ) -> ApprovalList:
        """Return one page of the approvals that the caller may answer or has requested, oldest first.

        Args:
            states: Only approvals in these states; by default the pending ones.
        """
        try:
            wanted = tuple(ApprovalState(state) for state in states)
        except ValueError:
            wanted = ()
        if len(wanted) < len(states) or not all(state.is_named for state in wanted):
            raise InvalidArgumentError(f"must be among {', '.join(ApprovalState)}", field="states")
        page = ApprovalFilter(wanted, task_id, page_size, page_token)
        return await self._agent(agent_url).list_approvals(page, self.timeout)

    async def watch_approvals(
        self, agent_url: str | None = None, *, task_id: str = ""
    ) -> AsyncGenerator[Approval, None]:
        """Yield the pending approvals, then every new or answered one.

        The stream does not end by itself. After an interruption it yields what has changed meanwhile; an approval that changed
        twice is yielded once, in its latest state. If the agent has lost its state meanwhile, the pending approvals are yielded.
        """
        follow = follow_approvals(self._agent(agent_url), task_id, outage_s=self.outage_s)
        async with aclosing(follow) as approvals:
            async for approval in approvals:
                yield approval

    async def respond_approval(
        self,
        agent_url: str | None,
        answer: ApprovalDecision | Approval | str,
        approved: bool | None = None,
        *,
        reason: str = "",
        edited_arguments: dict[str, Any] | None = None,
        etag: str = "",
        request_id: str | None = None,
    ) -> ApprovalAnswer:
        """Answer an approval.

        Args:
            answer: An ApprovalDecision; or an approval or its id, with the decision in the other arguments. An approval includes
                its etag.
            approved: Whether the action may run. Required.
            edited_arguments: Complete replacement of the action's arguments, if the policy allows edits.
            etag: `Approval.etag` of the approval that was reviewed. Required to approve, so that nothing else is approved.
            request_id: Idempotency key, see `send_task`.

        Raises:
            ApprovalNotFoundError: The approval does not exist, or the caller may not see it.
            ApprovalChangedError: The approval has another etag, or has been answered.
            PermissionDeniedError: The caller may not answer it.
            InvalidArgumentError: The answer is incomplete or not allowed.
        """
        if isinstance(answer, Approval):
            etag, answer = etag or answer.etag, answer.approval_id
        if isinstance(answer, str):
            if approved is None:
                raise InvalidArgumentError("must be true or false", field="approved")
            answer = ApprovalDecision(approved, answer, reason, edited_arguments=edited_arguments, fingerprint=etag)
        elif approved is not None or reason or edited_arguments is not None or etag:
            raise InvalidArgumentError("is a decision, which already contains the other arguments", field="answer")
        return await self._agent(agent_url).respond(answer, request_id or new_request_id(), self.timeout)
