"""The calls that run in one session, and the requests of the server that belong to one of them."""

import contextvars
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.tools.context import ToolContext

MAX_REPORTS = 500
"""Maximum number of progress reports of one call that are recorded, because each of them is an event in the log."""

MAX_MESSAGE_CHARS = 1000


class ToolCallInProgress:
    """One call of a tool. It reports the server's progress notifications to the watchers of the task."""

    def __init__(self, tool: str, context: ToolContext) -> None:
        self.tool = tool
        self.context = context
        self._reports = 0
        self._last: tuple[float | None, str] | None = None

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """The SDK's callback for progress. Without a total the percentage is unknown."""
        percent = 100 * progress / total if total else None
        if percent is not None:
            percent = min(max(percent, 0.0), 100.0) if math.isfinite(percent) else None
        report = percent, (message or "")[:MAX_MESSAGE_CHARS]
        if report == self._last or self._reports >= MAX_REPORTS:
            return
        self._last, self._reports = report, self._reports + 1
        with suppress(InvalidArgumentError):
            await self.context.progress(*report)

    def end(self) -> None:
        """Ignore notifications that arrive after the call has ended."""
        self._reports = MAX_REPORTS


class CallsInProgress:
    """The calls of one adapter.

    Since the protocol of 2026, a request of the server is a result of a call and is handled in the call's asyncio task. Earlier
    requests name no call: they belong to the only one, if there is exactly one.
    """

    def __init__(self) -> None:
        self._calls: set[ToolCallInProgress] = set()
        self._own: contextvars.ContextVar[ToolCallInProgress | None] = contextvars.ContextVar("mcp_call", default=None)

    @contextmanager
    def run(self, tool: str, context: ToolContext) -> Iterator[ToolCallInProgress]:
        call = ToolCallInProgress(tool, context)
        self._calls.add(call)
        token = self._own.set(call)
        try:
            yield call
        finally:
            self._own.reset(token)
            self._calls.discard(call)
            call.end()

    def current(self) -> ToolCallInProgress | None:
        """Return the call that a request of the server belongs to, or None if that is unknown."""
        own = self._own.get()
        if own is not None:
            return own
        return next(iter(self._calls)) if len(self._calls) == 1 else None
