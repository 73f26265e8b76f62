"""Retry backoff for calls and streams whose connection broke. docs/polyglot.md has the rule that every client follows."""

import asyncio

from protolink_grpc.errors import ProtolinkError, RemoteError
from protolink_grpc.net.exponential_delay import ExponentialDelay

OUTAGE_S = 60.0
"""Default time for which an interrupted call or stream is retried, in seconds."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
"""Pauses between attempts: doubling, with jitter."""

OPEN_S = 1.0
"""A stream that was open for this long counts as progress."""


def is_interruption(error: ProtolinkError) -> bool:
    """Return whether the same request may be sent again: the connection broke, or the agent is temporarily unavailable."""
    code = error.code if isinstance(error, RemoteError) else error.rule.grpc
    return code == "UNAVAILABLE"


class Backoff:
    """The backoff of one call: how long to wait before the next attempt, and when to give up.

    Args:
        outage_s: How long to retry without progress, in seconds; 0 turns retries off.
        streams: Whether an attempt is a stream, which may be open without delivering anything.
    """

    def __init__(self, outage_s: float, *, streams: bool = False) -> None:
        self._outage_s = outage_s
        self._streams = streams
        self._began = 0.0
        self._delay = ExponentialDelay(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self.reset()

    def begin(self) -> None:
        """Record the start of an attempt."""
        self._began = asyncio.get_running_loop().time()

    def reset(self) -> None:
        """Record a response or an event: the next interruption counts as the first one."""
        self._delay.reset()
        self._interrupted_s: float | None = None

    def next_s(self, error: ProtolinkError) -> float | None:
        """Return the seconds to wait before the next attempt, or None if the error of the last one is to be raised."""
        now = asyncio.get_running_loop().time()
        if self._streams and now - self._began >= OPEN_S and not error.metadata.get("unreached"):
            # The retry time starts again. The delays continue to grow, so that a stream that breaks at once is rarely reopened.
            self._interrupted_s = None
        self._interrupted_s = now if self._interrupted_s is None else self._interrupted_s
        left_s = self._interrupted_s + self._outage_s - now
        least_s = error.retry_after_s or 0.0
        if left_s <= 0 or least_s > left_s:
            return None
        # The last attempt is made at the end of the retry time, not before.
        return min(max(self._delay.next_s(), least_s), left_s)

    async def wait_after(self, error: ProtolinkError, *, most_s: float | None = None) -> None:
        """Wait before the next attempt. Raises `error` if the retry time is over.

        Args:
            most_s: What is left of the timeout of all attempts; None means no timeout.
        """
        pause_s = self.next_s(error)
        if pause_s is None:
            raise error
        await asyncio.sleep(pause_s if most_s is None else min(pause_s, most_s))
