"""The snapshots of an agent in the same process, with the same methods as over the network."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from protolink_grpc.agent.local_sessions import OnItsLoop
from protolink_grpc.models.snapshot import (
    ArtifactsSnapshot,
    ContextBoundarySnapshot,
    EvidenceSnapshot,
    QueueSnapshot,
    SessionSnapshot,
    ThreadSnapshot,
    ToolInventorySnapshot,
)
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.snapshots import SnapshotService
from protolink_grpc.wire import snapshots as codecs
from protolink_grpc.wire.compile import Codec

T = TypeVar("T")


class LocalSnapshots:
    """The snapshots that one principal can read from an agent in this process."""

    def __init__(self, principal: str, on_its_loop: OnItsLoop) -> None:
        self._principal = principal
        self._on_its_loop = on_its_loop

    async def _snapshot(
        self,
        codec: Codec[T, Any],
        read: Callable[[SnapshotService], Coroutine[Any, Any, T]],
        timeout_s: float | None,
    ) -> T:
        async def work(service: TaskService) -> T:
            # Through its encoding, so that the caller shares no objects with the agent.
            return codec.from_pb(codec.to_pb(await read(service.snapshots)))

        return await self._on_its_loop(work, timeout_s)

    async def session(self, session_id: str, timeout_s: float | None) -> SessionSnapshot:
        return await self._snapshot(
            codecs.SESSION_SNAPSHOT, lambda snapshots: snapshots.session(self._principal, session_id), timeout_s
        )

    async def thread(self, session_id: str, thread_id: str, timeout_s: float | None) -> ThreadSnapshot:
        return await self._snapshot(
            codecs.THREAD_SNAPSHOT,
            lambda snapshots: snapshots.thread(self._principal, session_id, thread_id),
            timeout_s,
        )

    async def queue(self, session_id: str, thread_id: str, timeout_s: float | None) -> QueueSnapshot:
        return await self._snapshot(
            codecs.QUEUE_SNAPSHOT,
            lambda snapshots: snapshots.queue(self._principal, session_id, thread_id),
            timeout_s,
        )

    async def tools(self, timeout_s: float | None) -> ToolInventorySnapshot:
        return await self._snapshot(
            codecs.TOOL_INVENTORY, lambda snapshots: snapshots.tools(self._principal), timeout_s
        )

    async def context(self, task_id: str, timeout_s: float | None) -> ContextBoundarySnapshot:
        return await self._snapshot(
            codecs.CONTEXT_BOUNDARY, lambda snapshots: snapshots.context(self._principal, task_id), timeout_s
        )

    async def artifacts(self, task_id: str, timeout_s: float | None) -> ArtifactsSnapshot:
        return await self._snapshot(
            codecs.ARTIFACTS, lambda snapshots: snapshots.artifacts(self._principal, task_id), timeout_s
        )

    async def evidence(self, task_id: str, timeout_s: float | None) -> EvidenceSnapshot:
        return await self._snapshot(
            codecs.EVIDENCE, lambda snapshots: snapshots.evidence(self._principal, task_id), timeout_s
        )
