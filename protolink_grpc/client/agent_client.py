"""AgentClient: calls agents over every supported protocol, with retries and resumed streams.

Every request that starts work carries a request id, so a retry never starts a second run. An interrupted stream is resumed after
the last received event, without gaps or duplicates.
"""

from functools import cached_property

from protolink_grpc.client.approval_calls import ApprovalCalls
from protolink_grpc.client.control_calls import ControlCalls
from protolink_grpc.client.session_calls import SessionCalls
from protolink_grpc.client.snapshot_calls import SnapshotCalls
from protolink_grpc.client.sync_clients import SyncAgentClient
from protolink_grpc.client.task_calls import TaskCalls
from protolink_grpc.client.task_control_calls import TaskControlCalls


class AgentClient(TaskCalls, ApprovalCalls, ControlCalls):
    """Calls agents by URL.

    Args:
        transport: Protocol for URLs without a scheme: "grpc", "runtime", "a2a", "http", "sse" or "websocket". A URL's own scheme
            takes precedence. For `http(s)://` URLs, the last four select the protocol; otherwise it is detected.
        url: Default agent of methods that are called with None. It may also be given as the first argument.
        timeout: Seconds that a unary call may take, including retries; None means no timeout. It limits the wait, not the run.
            Streams and `wait_task` are limited only by `outage_s`.
        tls: Certificates for `grpcs://`.
        metadata: Sent with every call; over HTTP as headers. Keys that contain credentials (`authorization`, `x-api-key`, ...) are
            not sent unencrypted to another machine, unless `insecure_ok` is set.
        credentials: APIKey, Basic, BearerToken or OAuth2ClientCredentials.
        outage_s: How long an interrupted call or stream is retried without progress, in seconds. Progress is a response, an event,
            or a stream that was open for a second. 0 turns retries off.
        trusted_origins: URLs whose origins also receive metadata and credentials, if the card of an agent on the web points there.
            By default only the origin that the caller named receives them. A card from a public address may point to a private
            network or to this machine only if that origin is trusted.
        insecure_ok: Allow sending credentials in `metadata` unencrypted to other machines, and following the card of an agent
            found over TLS to an unencrypted address (which receives no credentials).
        binding: Use A2A over this interface of the agent's card: "JSONRPC", "HTTP+JSON" or "GRPC". None uses A2A only for agents
            that offer nothing better, over their preferred interface.

    Every method raises the typed errors of `protolink_grpc.errors`: the agent's error, `UnavailableError` if the agent cannot be
    reached, or `DeadlineExceededError` after the timeout.
    """

    @cached_property
    def sessions(self) -> SessionCalls:
        """The caller's sessions: conversations whose inputs wait for each other, and one stream of everything in them."""
        return SessionCalls(self, self._agent)

    @cached_property
    def snapshots(self) -> SnapshotCalls:
        """What sessions, threads and tasks of the caller are now, each at a position of its log."""
        return SnapshotCalls(self, self._agent)

    @cached_property
    def tasks(self) -> TaskControlCalls:
        """The control of the caller's tasks: drafts, links, progress, work outside of the agent, and their status in detail."""
        return TaskControlCalls(self, self._agent)

    @property
    def sync(self) -> SyncAgentClient:
        """The same methods, blocking, for code that does not await: scripts, threads, notebooks."""
        return SyncAgentClient(self)
