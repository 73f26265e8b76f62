"""An inference without an agent: tools run as they are, events go to a callback, and nothing is kept. For scripts and tests.

No policy, no approvals, no log: those need an agent.
"""

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from protolink_grpc.errors import (
    BudgetExceededError,
    InvalidArgumentError,
    ProtolinkError,
    ToolFailedError,
    ToolRejectedError,
    error_text,
)
from protolink_grpc.llms.loop_host import ActionCall, Observation
from protolink_grpc.llms.port import ToolSpec
from protolink_grpc.models.action import BudgetDecision
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import (
    BudgetReported,
    ContextPrepared,
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
    LlmStep,
    Payload,
    Severity,
    type_of,
)
from protolink_grpc.models.json_value import normalize, plain
from protolink_grpc.models.stream_events import chunk_of
from protolink_grpc.policy.budget import BudgetEnforcer
from protolink_grpc.tools.context import ToolContext
from protolink_grpc.tools.tool import BaseTool, Tool, log_tool_failure
from protolink_grpc.tools.toolbox import Toolbox

DEFAULT_MAX_STEPS = 10
"""Where the budget names no bound of the steps: a model that finds no end must find this one."""

EventCallback = Callable[[dict[str, Any]], Awaitable[None] | None]
"""Gets each event as a dict with `type`; may be a coroutine function, and is then awaited before the inference goes on."""

AgentCallback = Callable[[str, dict[str, Any]], Awaitable[Any] | Any]
"""Gets an agent's name and what is asked of it, `ActionCall.arguments`; returns the answer, any JSON value."""

AnyTool = BaseTool | Callable[..., Any]


class DirectSurroundings:
    """As `surroundings.LoopHost`, for one inference of `LLM.infer`."""

    def __init__(
        self,
        run_context: RunContext,
        tools: Mapping[str, AnyTool],
        agent_callback: AgentCallback | None,
        event_callback: EventCallback | None,
        *,
        streaming: bool,
    ) -> None:
        budget = run_context.budget
        if budget.max_steps is None:
            budget = replace(budget, max_steps=DEFAULT_MAX_STEPS)
        self.budget = BudgetEnforcer(budget)
        self._context = run_context
        self._toolbox = _toolbox(tools)
        self._agent_callback = agent_callback
        self._event_callback = event_callback
        self._streaming = streaming
        self._chunks: deque[dict[str, Any]] = deque()
        self._pump: asyncio.Task[None] | None = None

    @property
    def specs(self) -> list[ToolSpec]:
        tools = map(self._toolbox.get, self._toolbox.names)
        return [ToolSpec(tool.name, tool.description, tool.input_schema, tool.read_only) for tool in tools]

    async def aclose(self) -> None:
        """End the threads of sync tools, and forget chunks that nobody has read."""
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
        await self._toolbox.aclose()

    def check(self) -> None:
        if self._context.canceled:
            raise asyncio.CancelledError(self._context.cancel_reason or "the context is canceled")

    async def report(self, payload: Payload, *, severity: Severity = "info", summary: str = "") -> None:
        if self._pump is not None:  # chunks come before what is reported after them
            pump, self._pump = self._pump, None
            await pump
        if self._event_callback is not None:
            await self._emit(self._event(payload))

    def delta(self, call_id: str, offset: int, text: str) -> None:
        if not self._streaming or self._event_callback is None:
            return
        self._chunks.append({"type": "llm_chunk", "content": text, "call_id": call_id, "offset": offset})
        if self._pump is None or self._pump.done():
            self._pump = asyncio.ensure_future(self._drain(self._pump))

    def recorded(self, call_id: str) -> LlmCallCompleted | None:
        return None

    async def act(self, calls: Sequence[ActionCall]) -> list[Observation]:
        tasks = [asyncio.ensure_future(self._run(call)) for call in calls]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:  # the first that fails, or is not paid for, ends the others
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, call: ActionCall) -> Observation:
        await self._charge()
        about = {"tool": call.name, "args": call.arguments, "call_id": call.call_id, "step": call.step}
        if call.kind == "agent.call":
            about = {"agent": call.name, **call.arguments, "call_id": call.call_id, "step": call.step}
        await self._notify({"type": "tool_start", **about})
        observation = await self._observed(call)
        found = {"result": observation.content} if observation.status == "ok" else {"error": observation.error}
        await self._notify({"type": "tool_result", **about, "status": observation.status, **found})
        return observation

    async def _observed(self, call: ActionCall) -> Observation:
        try:
            if call.kind == "agent.call":
                return Observation("ok", await self._delegated(call))
            context = ToolContext(call_id=call.call_id, run_context=self._context)
            return Observation("ok", await self._toolbox.call(call.name, call.arguments, context))
        except ToolRejectedError as error:
            return Observation("rejected", error=error.to_dict())
        except ProtolinkError as error:
            if isinstance(error, ToolFailedError):
                log_tool_failure(error)
            return Observation("failed", error={"code": error.reason, "message": str(error)})

    async def _delegated(self, call: ActionCall) -> Any:
        if self._agent_callback is None:
            raise ToolRejectedError("nobody can be asked here", code="no_agents")
        try:
            answer = self._agent_callback(call.name, call.arguments)
            return normalize(await answer if inspect.isawaitable(answer) else answer)
        except ProtolinkError:
            raise
        except Exception as error:  # the application's code, as a tool's: the model learns of it and goes on
            raise ToolFailedError(f"Agent '{call.name}' failed: {type(error).__name__}: {error_text(error)}") from error

    async def _charge(self) -> None:
        try:
            warnings = self.budget.check_tool_call()
        except BudgetExceededError as error:
            if isinstance(error.decision, BudgetDecision):
                await self.report(BudgetReported(error.decision))
            raise
        for decision in warnings:
            await self.report(BudgetReported(decision))

    async def _drain(self, before: "asyncio.Task[None] | None") -> None:
        if before is not None:
            await before  # raises what the callback raised
        while self._chunks:
            await self._emit(self._chunks.popleft())

    async def _notify(self, event: dict[str, Any]) -> None:
        if self._event_callback is not None:
            await self._emit(event)

    async def _emit(self, event: dict[str, Any]) -> None:
        if self._event_callback is not None and inspect.isawaitable(done := self._event_callback(event)):
            await done

    def _event(self, payload: Payload) -> dict[str, Any]:
        match payload:
            case LlmStep():
                return {"type": payload.kind, "step": payload.step, "content": payload.content, **payload.data}
            case LlmCallFailed():
                kind, data = chunk_of(payload)
                return {"type": kind, "step": payload.step, "content": "", **data}
            case ContextPrepared():
                return {"type": "context_prepared", "step": payload.step, "manifest": payload.manifest.to_dict()}
            case LlmCallStarted():
                return {"type": "llm_call_started", **_fields(payload), "streaming": self._streaming}
            case LlmCallCompleted():
                return {"type": "llm_call_completed", **_fields(payload)}
            case BudgetReported():
                return {"type": type_of(payload).replace(".", "_"), "decision": payload.decision.to_dict()}
            case _:
                raise TypeError(f"an inference does not report {type(payload).__name__}")


def _fields(payload: LlmCallStarted | LlmCallCompleted) -> dict[str, Any]:
    found = {each.name: getattr(payload, each.name) for each in fields(payload)}
    return plain(found)  # type: ignore[no-any-return]  # it copies values of any type


def _toolbox(tools: Mapping[str, AnyTool]) -> Toolbox:
    """The tools under their own names; a function goes by the name that the mapping gives it."""
    box = Toolbox()
    for name, tool in tools.items():
        is_tool = isinstance(tool, BaseTool) and not inspect.isclass(tool)
        added = box.add(tool if is_tool else Tool.from_callable(tool, name=name))
        if added.name != name:
            raise InvalidArgumentError(f"holds the tool '{added.name}'", field=f"tools.{name}")
    return box
