"""The patience of a stream that was cut: how long to wait before it is taken up again, and when to give up."""

import asyncio
import random

from protolink_grpc.errors import ProtolinkError

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 3.0
"""Between attempts to take a stream up again: doubling, with jitter."""


class Pauses:
    """How long to wait between attempts, and when to give up."""

    def __init__(self, outage_s: float) -> None:
        self._outage_s = outage_s
        self._began = 0.0
        self.reset()
        self._reached = False

    def begin(self) -> None:
        """An attempt begins."""
        self._began = asyncio.get_running_loop().time()

    def reset(self) -> None:
        """The stream works: the next cut begins from the start."""
        self._reached = True
        self._pause_s = FIRST_PAUSE_S
        self._since: float | None = None

    async def after(self, error: ProtolinkError) -> None:
        """Wait before the next attempt; raises `error` when the outage has lasted too long, or nobody was there from the start."""
        self._reached = self._reached or not error.metadata.get("unreached")
        if not self._reached:
            raise error
        now = asyncio.get_running_loop().time()
        if now - self._began > LONGEST_PAUSE_S and not error.metadata.get("unreached"):
            self.reset()  # there was a connection and nothing to tell
        self._since = now if self._since is None else self._since
        if now - self._since >= self._outage_s:
            raise error
        await asyncio.sleep(self._pause_s * random.uniform(0.5, 1.0))  # noqa: S311 -- jitter, not a secret
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
