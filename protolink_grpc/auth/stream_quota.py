"""Limits the open streams of each caller on one port. Rate limits do not, because an idle stream makes no calls."""

from collections import Counter

from protolink_grpc.auth.principal import Principal
from protolink_grpc.errors import ResourceExhaustedError

RETRY_AFTER_S = 10.0
"""The retry delay in seconds: an estimate, because the end of a stream is unknown."""


class StreamQuota:
    """The open streams by principal; all anonymous callers are one. It belongs to the event loop of its server.

    Args:
        most: Maximum for one principal; None means no limit.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def take(self, principal: Principal) -> "StreamSlot":
        """Count a new stream.

        Raises:
            ResourceExhaustedError: The caller has reached its limit.
        """
        name = principal.name
        if self._most is not None and self._open[name] >= self._most:
            raise ResourceExhaustedError(
                f"{self._most} streams of this caller are open already; see the option max_streams_per_principal",
                retry_after_s=RETRY_AFTER_S,
                max_streams_per_principal=str(self._most),
            )
        self._open[name] += 1
        return StreamSlot(self._open, name)


class StreamSlot:
    """One open stream."""

    __slots__ = ("_name", "_open")

    def __init__(self, open_: Counter[str], name: str) -> None:
        self._open = open_
        self._name = name

    def release(self) -> None:
        """Count the end of the stream. Further calls have no effect."""
        if self._name:
            self._open[self._name] -= 1
            if not self._open[self._name]:
                del self._open[self._name]
            self._name = ""
