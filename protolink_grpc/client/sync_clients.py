"""The synchronous clients: every coroutine and stream of a client as a plain function.

`sync_clients.pyi` lists the methods for type checkers. It is generated from the asynchronous classes
(`tests/contract/make_sync_stub.py`), and a contract test compares it with them.
"""

from collections.abc import Callable
from typing import Any

import grpc

from protolink_grpc.client.agent_access import S
from protolink_grpc.client.sync import SyncFacade


class SyncSessionCalls(SyncFacade):
    """SessionCalls without `await`."""


class SyncSnapshotCalls(SyncFacade):
    """SnapshotCalls without `await`."""


class SyncTaskControlCalls(SyncFacade):
    """TaskControlCalls without `await`."""


class SyncAgentClient(SyncFacade):
    """AgentClient without `await`."""

    @property
    def sessions(self) -> SyncSessionCalls:
        """As `AgentClient.sessions`; its methods block, and its streams are iterators."""
        return SyncSessionCalls(self._client.sessions)

    @property
    def snapshots(self) -> SyncSnapshotCalls:
        """As `AgentClient.snapshots`; its methods block."""
        return SyncSnapshotCalls(self._client.snapshots)

    @property
    def tasks(self) -> SyncTaskControlCalls:
        """As `AgentClient.tasks`; its methods block."""
        return SyncTaskControlCalls(self._client.tasks)

    def stub(self, kind: Callable[[grpc.Channel], S], agent_url: str | None = None) -> S:
        """As `AgentClient.stub`; the methods of the stub block, and its streams are iterators."""
        stub: Any = SyncFacade(self._client.stub(kind, agent_url))
        return stub


class SyncRegistryClient(SyncFacade):
    """RegistryClient without `await`."""
