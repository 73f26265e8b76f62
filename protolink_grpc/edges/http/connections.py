"""The shared state of the connections of one HTTP server: limits, open connections, and the count of dropped ones."""

import asyncio
import logging
from collections.abc import Callable

from uvicorn.server import ServerState

from protolink_grpc.edges.http.options import ConnectionLimits
from protolink_grpc.logs import get_logger

log = get_logger("protolink_grpc.edges.http.connection")
# Errors of peers are counted by their reason and not logged, because logging them would let a peer fill the disk. Below this level
# uvicorn logs each WebSocket with its query, too.
log.setLevel(logging.CRITICAL)


PEER_CERTIFICATE = "peer_certificate"
"""Key of `scope["state"]`: the client's certificate in the form of `ssl.SSLSocket.getpeercert`; absent without one."""


TEXTS = "plgrpc.texts"
"""An extension of ASGI: a `websocket.send` may have a list of encoded texts under this key. Each is a message, and all are written
at once, which costs a third of sending them one by one. `scope["extensions"]` has the key if the server supports it."""


class Connections(ServerState):
    """The shared state of the connections of one server.

    Args:
        rejected: Called with the reason when a connection or request is dropped because of its peer.

    Attributes:
        is_stopping: Accepted connections that are not initialized yet are closed.
    """

    def __init__(self, limits: ConnectionLimits, rejected: Callable[[str], None]) -> None:
        super().__init__()
        self.limits = limits
        self.rejected = rejected
        self.emptied: asyncio.Event | None = None
        self.bytes_received = 0
        self.is_stopping = False

    def lost(self) -> None:
        """Remove a closed connection."""
        if self.emptied is not None and not self.connections:
            self.emptied.set()
