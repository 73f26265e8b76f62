"""Limits the open streams of each caller on one port. Rate limits do not: an idle stream makes no calls."""

from collections import Counter

from protolink_grpc.auth.principal import Principal
from protolink_grpc.errors import ResourceExhaustedError

RETRY_AFTER_S = 10.0
"""When to come back; who knows when a stream ends."""


class StreamQuota:
    """The open streams by principal, of every kind; all anonymous callers are one. Belongs to the loop of its server.

    Args:
        most: Of one principal; None means no bound.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def take(self, principal: Principal) -> "StreamSlot":
        """One more stream.

        Raises:
            ResourceExhaustedError: This caller has as many as it may have.
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
        """The stream has ended; more than once is once."""
        if self._name:
            self._open[self._name] -= 1
            if not self._open[self._name]:
                del self._open[self._name]
            self._name = ""
