"""What the connections of one HTTP server share: their limits, who they are, and where it is counted that one was given up."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from uvicorn.server import ServerState

log = logging.getLogger("protolink_grpc.gateway.connection")
# What a peer does wrong is counted by its reason and not logged, which would be a way to fill a disk; and below this level uvicorn
# tells of each WebSocket, with its query.
log.setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one peer may cost.

    Args:
        max_header_bytes: Of a request line with its headers, and of the trailers. Counted by pieces of that size, so that up to
            twice as much may be held.
        header_timeout_s: For a head to arrive, from the connection or its own first byte on.
        write_timeout_s: For a peer to take what is written: 64 KiB wait, and it does not read them down to 16 KiB.
        max_connections: Further ones are answered with 503.
    """

    max_header_bytes: int
    header_timeout_s: float
    write_timeout_s: float
    max_connections: int


class Connections(ServerState):
    """What the connections of one server share.

    Args:
        rejected: Told the reason whenever a connection or request is given up because of its peer.

    Attributes:
        is_stopping: What was accepted and not made yet has come too late.
    """

    def __init__(self, limits: ConnectionLimits, rejected: Callable[[str], None]) -> None:
        super().__init__()
        self.limits = limits
        self.rejected = rejected
        self.emptied: asyncio.Event | None = None
        self.bytes_received = 0
        self.is_stopping = False

    def lost(self) -> None:
        """A connection is gone."""
        if self.emptied is not None and not self.connections:
            self.emptied.set()
