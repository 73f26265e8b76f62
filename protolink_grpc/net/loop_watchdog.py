"""A thread that notices when the event loop is blocked, and logs by what. It changes nothing: the cause is the user's to mend.

A handler that computes for long, or waits without `await`, keeps everything else on the loop from running: other tasks, calls,
heartbeats. From inside the loop nothing can be said about that, so this looks from a thread of its own. Code that holds the
interpreter's lock as well keeps this thread from running, too.
"""

import asyncio
import sys
import threading
import time
import traceback

from protolink_grpc.logs import get_logger

log = get_logger(__name__)

LOOKS = 4
"""Looks at the loop in the time for which it may be blocked."""

_watchdogs: dict[asyncio.AbstractEventLoop, "LoopWatchdog"] = {}
_lock = threading.Lock()


def watch(blocked_s: float) -> "LoopWatchdog":
    """Watch the running loop. Several users of one loop share its watchdog, with the bound of the first; each leaves it once."""
    loop = asyncio.get_running_loop()
    with _lock:
        known = _watchdogs.get(loop)
        if known is None:
            known = _watchdogs[loop] = LoopWatchdog(loop, blocked_s)
        known.users += 1
        return known


class LoopWatchdog:
    """The watchdog of one loop; made on the loop's thread, by `watch`.

    Args:
        blocked_s: How long the loop may be blocked before that is logged, once until it runs again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, blocked_s: float) -> None:
        self.users = 0
        self._loop = loop
        self._blocked_s = blocked_s
        self._loop_thread = threading.get_ident()
        self._left = threading.Event()
        self._answers = 0  # written on the loop; all else is the thread's own
        self._questions = 0
        self._asked_s = 0.0
        self._is_logged = False
        self._thread = threading.Thread(target=self._watch, name="plgrpc-watchdog", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Stop watching once the last user has left."""
        with _lock:
            self.users -= 1
            if self.users <= 0:
                self._left.set()
                _watchdogs.pop(self._loop, None)

    def _watch(self) -> None:
        pause_s = self._blocked_s / LOOKS
        looked_s = time.monotonic()
        while not self._left.wait(pause_s):
            now = time.monotonic()
            if now - looked_s > 2 * pause_s:
                # This thread was not run either: the process was paused, which is no fault of the loop.
                self._asked_s += now - looked_s
            looked_s = now
            try:
                self._look(now)
            except RuntimeError:  # the loop was closed by users who did not leave
                break
        with _lock:
            if _watchdogs.get(self._loop) is self:
                del _watchdogs[self._loop]

    def _look(self, now: float) -> None:
        blocked_s = now - self._asked_s
        if self._answers == self._questions:
            if self._is_logged:
                log.warning("the event loop runs again, after about %.1f s", blocked_s)
            self._is_logged, self._asked_s = False, now
            self._questions += 1
            self._loop.call_soon_threadsafe(self._answer)
        elif blocked_s >= self._blocked_s and not self._is_logged:
            self._is_logged = True
            log.error("the event loop is blocked for %.1f s by %s", blocked_s, self._culprit())

    def _answer(self) -> None:
        self._answers += 1

    def _culprit(self) -> str:
        task = asyncio.current_task(self._loop)
        frame = sys._current_frames().get(self._loop_thread)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else "no stack: its thread has ended\n"
        return f"{task.get_name() if task is not None else 'a callback'}; its thread is at:\n{stack}"
