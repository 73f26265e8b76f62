"""`AgentClient.snapshots`: what a session, a thread or a task of an agent is now, each at a position of its log."""

from collections.abc import Callable

from protolink_grpc.client.agent_access import AgentAccess
from protolink_grpc.client.port import AgentPort
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.session import DEFAULT_THREAD
from protolink_grpc.models.snapshot import (
    ArtifactsSnapshot,
    ContextBoundarySnapshot,
    EvidenceSnapshot,
    QueueSnapshot,
    SessionSnapshot,
    ThreadSnapshot,
    ToolInventorySnapshot,
)


@checks_arguments
class SnapshotCalls:
    """The snapshots of an agent, on the settings of a client.

    Each snapshot names the position or sequence that it reflects: a stream that starts there misses nothing. What is not known is
    in its `gaps`. `agent_url` is as in AgentClient. Agents of other systems have no snapshots: UnimplementedError.
    """

    def __init__(self, client: AgentAccess, open_agent: Callable[[str | None], AgentPort]) -> None:
        self._client = client
        self._open = open_agent

    async def session(self, session_id: str, *, agent_url: str | None = None) -> SessionSnapshot:
        """Return a session with its threads. Raises SessionNotFoundError."""
        return await self._open(agent_url).snapshots.session(session_id, self._client.timeout)

    async def thread(
        self, session_id: str, thread_id: str = DEFAULT_THREAD, *, agent_url: str | None = None
    ) -> ThreadSnapshot:
        """Return a thread with its turns and open tasks. Raises SessionNotFoundError or ThreadNotFoundError."""
        return await self._open(agent_url).snapshots.thread(session_id, thread_id, self._client.timeout)

    async def queue(self, session_id: str, thread_id: str = "", *, agent_url: str | None = None) -> QueueSnapshot:
        """Return the queues of a session, or of one thread. Raises SessionNotFoundError or ThreadNotFoundError."""
        return await self._open(agent_url).snapshots.queue(session_id, thread_id, self._client.timeout)

    async def tools(self, *, agent_url: str | None = None) -> ToolInventorySnapshot:
        """Return the tools that the caller can use now, with the effect of the agent's policy."""
        return await self._open(agent_url).snapshots.tools(self._client.timeout)

    async def context(self, task_id: str, *, agent_url: str | None = None) -> ContextBoundarySnapshot:
        """Return the context of the latest model call of a task. Raises TaskNotFoundError."""
        return await self._open(agent_url).snapshots.context(task_id, self._client.timeout)

    async def artifacts(self, task_id: str, *, agent_url: str | None = None) -> ArtifactsSnapshot:
        """Return the artifacts of a task without their content. Raises TaskNotFoundError."""
        return await self._open(agent_url).snapshots.artifacts(task_id, self._client.timeout)

    async def evidence(self, task_id: str, *, agent_url: str | None = None) -> EvidenceSnapshot:
        """Return the counts of actions, approvals and decisions in the log of a task. Raises TaskNotFoundError."""
        return await self._open(agent_url).snapshots.evidence(task_id, self._client.timeout)
