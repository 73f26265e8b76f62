"""The synchronous clients: every coroutine and stream of a client as a plain function.

`sync_clients.pyi` lists the methods for type checkers. It is generated from the asynchronous classes
(`tests/contract/make_sync_stub.py`), and a contract test compares it with them.
"""

from protolink_grpc.client.sync import SyncFacade


class SyncAgentClient(SyncFacade):
    """AgentClient without `await`."""


class SyncRegistryClient(SyncFacade):
    """RegistryClient without `await`."""
