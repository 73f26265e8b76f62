"""Watches of approvals: each change is yielded once, also across interruptions."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from protolink_grpc.client.backoff import Backoff, is_interruption
from protolink_grpc.client.port import AgentPort
from protolink_grpc.errors import ProtolinkError
from protolink_grpc.models.action import Approval, ApprovalState
from protolink_grpc.models.watch import ApprovalChanges


async def follow_approvals(agent: AgentPort, task_id: str, *, outage_s: float) -> AsyncGenerator[Approval, None]:
    """Yield the pending approvals, then the changed ones, each state of each approval once.

    After an interruption the agent sends what has changed meanwhile, or a snapshot if it no longer knows the position. Approvals
    of a snapshot that were yielded before are left out.

    Args:
        outage_s: How long an interruption may last, in seconds.
    """
    follower, backoff = ApprovalFollower(), Backoff(outage_s, streams=True)
    while True:
        backoff.begin()
        try:
            async with aclosing(agent.watch_approvals(task_id, follower.begin_stream())) as batches:
                async for batch in batches:
                    if batch.approvals:
                        backoff.reset()
                    for approval in follower.take_batch(batch):
                        yield approval
            return
        except ProtolinkError as error:
            if not is_interruption(error):
                raise
            await backoff.wait_after(error)


class ApprovalFollower:
    """The state of a watch across all its streams."""

    def __init__(self) -> None:
        self._revision = 0
        self._pending: set[str] = set()
        self._snapshot: list[Approval] | None = None

    def begin_stream(self) -> int:
        """Prepare for a new stream. Returns the revision after which it must begin."""
        self._snapshot = None
        return self._revision

    def take_batch(self, batch: ApprovalChanges) -> list[Approval]:
        """Return the approvals of a batch to yield. A snapshot is yielded when it is complete; an interrupted one is sent again."""
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
