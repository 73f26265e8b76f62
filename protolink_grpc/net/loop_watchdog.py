"""A thread that detects a blocked event loop and logs the stack that blocks it.

A handler that computes for a long time, or waits without `await`, blocks everything else on the loop: other tasks, calls,
heartbeats. The loop itself cannot detect this. Code that also holds the interpreter's lock blocks this thread too.
"""

import asyncio
import sys
import threading
import time
import traceback

from protolink_grpc.logs import get_logger

log = get_logger(__name__)

CHECKS = 4
"""Number of checks during the allowed time."""

_watchdogs: dict[asyncio.AbstractEventLoop, "LoopWatchdog"] = {}
_lock = threading.Lock()


def watch(blocked_s: float) -> "LoopWatchdog":
    """Watch the running loop. Users of the same loop share one watchdog, with the first user's limit; each calls `leave` once."""
    loop = asyncio.get_running_loop()
    with _lock:
        known = _watchdogs.get(loop)
        if known is None:
            known = _watchdogs[loop] = LoopWatchdog(loop, blocked_s)
        known.users += 1
        return known


class LoopWatchdog:
    """The watchdog of one loop, created by `watch` on the loop's thread.

    Args:
        blocked_s: Duration of a blockade after which it is logged, in seconds. Each blockade is logged once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, blocked_s: float) -> None:
        self.users = 0
        self._loop = loop
        self._blocked_s = blocked_s
        self._loop_thread = threading.get_ident()
        self._stopped = threading.Event()
        self._pongs = 0  # written on the loop; the other attributes are used by the thread only
        self._pings = 0
        self._pinged_s = 0.0
        self._is_logged = False
        self._thread = threading.Thread(target=self._watch, name="plgrpc-watchdog", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Remove one user. The watchdog stops after the last one."""
        with _lock:
            self.users -= 1
            if self.users <= 0:
                self._stopped.set()
                _watchdogs.pop(self._loop, None)

    def _watch(self) -> None:
        pause_s = self._blocked_s / CHECKS
        checked_s = time.monotonic()
        while not self._stopped.wait(pause_s):
            now = time.monotonic()
            if now - checked_s > 2 * pause_s:
                # This thread did not run either: the process was suspended, and the loop was not blocked.
                self._pinged_s += now - checked_s
            checked_s = now
            try:
                self._check(now)
            except RuntimeError:  # the loop is closed, although not all users have called `leave`
                break
        with _lock:
            if _watchdogs.get(self._loop) is self:
                del _watchdogs[self._loop]

    def _check(self, now: float) -> None:
        blocked_s = now - self._pinged_s
        if self._pongs == self._pings:
            if self._is_logged:
                log.warning("the event loop runs again, after about %.1f s", blocked_s)
            self._is_logged, self._pinged_s = False, now
            self._pings += 1
            self._loop.call_soon_threadsafe(self._pong)
        elif blocked_s >= self._blocked_s and not self._is_logged:
            self._is_logged = True
            log.error("the event loop is blocked for %.1f s by %s", blocked_s, self._describe_blocker())

    def _pong(self) -> None:
        self._pongs += 1

    def _describe_blocker(self) -> str:
        task = asyncio.current_task(self._loop)
        frame = sys._current_frames().get(self._loop_thread)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else "no stack: its thread has ended\n"
        return f"{task.get_name() if task is not None else 'a callback'}; its thread is at:\n{stack}"
