"""Approvals as a client follows them: each change once, through cuts. How an agent is reached is the port's business."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

from protolink_grpc.client.backoff import Backoff, is_cut
from protolink_grpc.client.port import AgentPort, ApprovalFilter
from protolink_grpc.errors import ProtolinkError
from protolink_grpc.models.action import Approval, ApprovalState
from protolink_grpc.models.watch import ApprovalChanges


async def follow_approvals(agent: AgentPort, task_id: str, *, outage_s: float) -> AsyncGenerator[Approval, None]:
    """What waits, then what changes, each state of each approval once.

    After a cut the agent shows what has changed meanwhile; one that no longer knows the position shows what waits, of which the
    approvals that were shown before are left out.

    Args:
        outage_s: How long a cut may last.
    """
    follower, backoff = ApprovalFollower(), Backoff(outage_s, streams=True)
    while True:
        backoff.begin()
        try:
            async with aclosing(agent.watch_approvals(task_id, follower.reopened())) as batches:
                async for batch in batches:
                    if batch.approvals:
                        backoff.reset()
                    for approval in follower.news(batch):
                        yield approval
            return
        except ProtolinkError as error:
            if not is_cut(error):
                raise
            await backoff.after(error)


class ApprovalFollower:
    """What the reader of a watch knows, through all its streams."""

    def __init__(self) -> None:
        self._revision = 0
        self._pending: set[str] = set()
        self._snapshot: list[Approval] | None = None

    def reopened(self) -> int:
        """A stream begins; the revision after which it must."""
        self._snapshot = None
        return self._revision

    def news(self, batch: ApprovalChanges) -> list[Approval]:
        """What to show of a batch. A snapshot is shown once it is complete: one that is cut off comes again, as it is by then."""
        position, found = batch.position, batch.approvals
        if position.reset:
            self._snapshot = []
        if self._snapshot is not None:
            self._snapshot += found
            if not position.revision:
                return []
            found = [each for each in self._snapshot if each.request.request_id not in self._pending]
            self._pending = {each.request.request_id for each in self._snapshot}
            self._snapshot = None
        for approval in found:
            if approval.state is ApprovalState.PENDING:
                self._pending.add(approval.request.request_id)
            else:
                self._pending.discard(approval.request.request_id)
        self._revision = position.revision or self._revision
        return found


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
