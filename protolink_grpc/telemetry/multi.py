"""MultiTelemetry: several telemetries as one."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.part import Part
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.service import ServiceGauges
from protolink_grpc.telemetry.base import Telemetry
from protolink_grpc.telemetry.spans import Span


class MultiTelemetry(Telemetry):
    """Calls the hooks of several telemetries. An agent calls them independently of each other: each has its own queue and thread.

    Args:
        trackers: The telemetries. Each gets content only if it captures content itself. One that is listed twice is called once.

    Raises:
        InvalidArgumentError: A tracker is not a Telemetry; names it.
    """

    def __init__(self, trackers: Sequence[Telemetry]) -> None:
        for index, each in enumerate(trackers):
            if not isinstance(each, Telemetry):
                raise InvalidArgumentError("must be a Telemetry", field=f"trackers[{index}]")
        self.trackers = list({id(each): each for each in trackers}.values())
        self.capture_content = any(each.capture_content for each in trackers)

    async def on_task_start(self, task: Task, agent_name: str) -> None:
        await self._call("on_task_start", task, agent_name)

    async def on_task_end(self, task: Task, result: Task, agent_name: str) -> None:
        await self._call("on_task_end", task, result, agent_name)

    async def on_llm_start(self, prompt: str, model: str | None = None, metadata: dict[str, Any] | None = None) -> None:
        await self._call("on_llm_start", prompt, model, metadata)

    async def on_llm_end(self, response: Part) -> None:
        await self._call("on_llm_end", response)

    async def on_tool_start(self, tool_name: str, args: dict[str, Any]) -> None:
        await self._call("on_tool_start", tool_name, args)

    async def on_tool_end(self, tool_name: str, result: Any, error: str | None = None) -> None:
        await self._call("on_tool_end", tool_name, result, error)

    async def on_llm_event(self, event: dict[str, Any]) -> None:
        await self._call("on_llm_event", event)

    async def on_span(self, span: Span) -> None:
        await self._call("on_span", span)

    def add_service(self, agent_name: str, gauges: Callable[[], ServiceGauges | None]) -> None:
        for each in self.trackers:
            each.add_service(agent_name, gauges)

    async def flush(self) -> None:
        await self._call("flush")

    async def _call(self, hook: str, *arguments: Any) -> None:
        """Call a hook of all telemetries. The failures are raised together afterwards."""
        failures: list[Exception] = []
        for each in self.trackers:
            try:
                result = getattr(each, hook)(*arguments)
                if inspect.isawaitable(result):
                    await result
            except Exception as error:
                failures.append(error)
        if failures:
            raise ExceptionGroup(f"{len(failures)} telemetries failed", failures)
