"""Approvals as a client follows them: each change once, through cuts. How an agent is reached is the port's business."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing

from protolink_grpc.client.pauses import Pauses, is_cut
from protolink_grpc.client.port import AgentPort, ApprovalFilter
from protolink_grpc.errors import ProtolinkError
from protolink_grpc.models.action import Approval, ApprovalState

DECIDED = tuple(state for state in ApprovalState if state is not ApprovalState.PENDING)


async def follow_approvals(
    agent: AgentPort, task_id: str, *, timeout_s: float | None, outage_s: float
) -> AsyncGenerator[Approval, None]:
    """What waits, then what changes, each state of each approval once.

    After a cut the agent shows again what waits; what was decided meanwhile is asked for. What was asked for and decided within one
    cut is not shown.

    Args:
        timeout_s: Bound of one such question.
        outage_s: How long a cut may last.
    """
    waiting: dict[str, str] = {}
    pauses = Pauses(outage_s, streams=True)
    while True:
        pauses.begin()
        unseen, told = dict(waiting), set[str]()
        try:
            async with aclosing(agent.watch_approvals(task_id)) as batches:
                async for batch in batches:
                    pauses.reset()
                    for approval in batch:
                        request = approval.request
                        unseen.pop(request.request_id, None)
                        if approval.state is not ApprovalState.PENDING:
                            waiting.pop(request.request_id, None)
                        elif request.request_id in waiting:
                            continue
                        else:
                            waiting[request.request_id] = request.task_id
                        if request.request_id not in told:
                            yield approval
                    if not batch and unseen:
                        async for approval in _decided(agent, unseen, timeout_s):
                            told.add(approval.request.request_id)
                            yield approval
                        for request_id in unseen:
                            waiting.pop(request_id, None)
                        unseen = {}
            return
        except ProtolinkError as error:
            if not is_cut(error):
                raise
            await pauses.after(error)


async def _decided(agent: AgentPort, wanted: dict[str, str], timeout_s: float | None) -> AsyncIterator[Approval]:
    """Those of the wanted approvals, task ids by request id, that have been decided."""
    for task_id in sorted(set(wanted.values())):
        async for approval in each_approval(agent, DECIDED, task_id, timeout_s):
            if approval.request.request_id in wanted:
                yield approval


async def each_approval(
    agent: AgentPort, states: Iterable[ApprovalState], task_id: str, timeout_s: float | None
) -> AsyncGenerator[Approval, None]:
    """Every approval in one of these states, oldest first, page by page."""
    token = ""
    while True:
        page = await agent.list_approvals(ApprovalFilter(tuple(states), task_id, page_token=token), timeout_s)
        for approval in page.approvals:
            yield approval
        token = page.next_page_token
        if not token:
            return
