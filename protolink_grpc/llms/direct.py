"""The loop host of an inference without an agent: tools are called directly, and events go to a callback. For scripts and tests.

It has no policy, approvals and log; those need an agent.
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
from protolink_grpc.llms.loop_host import ActionCall, InferenceResult, Observation
from protolink_grpc.llms.port import ToolSpec
from protolink_grpc.models.action import BudgetDecision
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import (
    BudgetReported,
    ContextCompacted,
    ContextPrepared,
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
    LlmStep,
    Payload,
    RunEvent,
    Severity,
    type_of,
)
from protolink_grpc.models.json_value import normalize, plain
from protolink_grpc.models.media import Media
from protolink_grpc.policy.budget import BudgetEnforcer
from protolink_grpc.tools.context import ToolContext
from protolink_grpc.tools.tool import BaseTool, Tool, log_tool_failure
from protolink_grpc.tools.toolbox import Toolbox

DEFAULT_MAX_STEPS = 10
"""The limit of steps if the budget has none, so that every inference ends."""

EventCallback = Callable[[dict[str, Any]], Awaitable[None] | None]
"""Called with each event, a dict with `type`. If it is a coroutine function, the inference waits for it."""

AgentCallback = Callable[[str, dict[str, Any]], Awaitable[Any] | Any]
"""Called with an agent's name and `ActionCall.arguments`; returns the answer, any JSON value."""

AnyTool = BaseTool | Callable[..., Any]


class DirectLoopHost:
    """The `LoopHost` of one `LLM.infer`. Its methods are described there."""

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
        self._toolbox = _build_toolbox(tools)
        self._agent_callback = agent_callback
        self._event_callback = event_callback
        self._streaming = streaming
        self._files: dict[str, Sequence[Media]] = {}
        self._chunks: deque[dict[str, Any]] = deque()
        self._chunk_task: asyncio.Task[None] | None = None

    @property
    def specs(self) -> list[ToolSpec]:
        tools = map(self._toolbox.get, self._toolbox.names)
        return [ToolSpec(tool.name, tool.description, tool.input_schema, tool.read_only) for tool in tools]

    async def aclose(self) -> None:
        """End the threads of synchronous tools, and discard chunks that were not delivered."""
        if self._chunk_task is not None:
            self._chunk_task.cancel()
            await asyncio.gather(self._chunk_task, return_exceptions=True)
        await self._toolbox.aclose()

    def check_canceled(self) -> None:
        if self._context.canceled:
            raise asyncio.CancelledError(self._context.cancel_reason or "the context is canceled")

    async def wait_while_paused(self) -> None:
        return  # there is no task

    async def report(
        self,
        payload: Payload,
        *,
        severity: Severity = "info",
        summary: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        if self._event_callback is None:
            return
        if isinstance(payload, ContextPrepared):
            await self._notify({"type": "llm_step", "step": payload.step, "content": ""})
        await self._notify(self._to_event(payload))

    async def report_final(self, result: InferenceResult) -> None:
        """Report the answer of the inference. Its text is the last message of the turn."""
        await self._notify({"type": "llm_final", "step": result.steps, "content": result.messages[-1].content})

    def delta(self, call_id: str, offset: int, text: str) -> None:
        if not self._streaming or self._event_callback is None:
            return
        self._chunks.append({"type": "llm_chunk", "content": text, "call_id": call_id, "offset": offset})
        if self._chunk_task is None or self._chunk_task.done():
            self._chunk_task = asyncio.ensure_future(self._emit_chunks(self._chunk_task))

    def recorded(self, call_id: str) -> LlmCallCompleted | None:
        return None

    async def publish_files(self, call_id: str, files: Sequence[Media]) -> None:
        self._files[call_id] = files
        await self._notify({"type": "llm_files", "call_id": call_id, "files": [each.reference for each in files]})

    def recorded_files(self, call_id: str) -> Sequence[Media]:
        return self._files.get(call_id, ())

    def decided(self, key: str) -> RunEvent | None:
        return None

    async def act(self, calls: Sequence[ActionCall]) -> list[Observation]:
        for call in calls:
            await self._notify({"type": "llm_action", "step": call.step, "content": "", **_describe_action(call)})
        tasks = [asyncio.ensure_future(self._run(call)) for call in calls]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:  # after an error or an exceeded budget the other calls are canceled
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, call: ActionCall) -> Observation:
        await self._charge()
        about = {"tool": call.name, "args": call.arguments, "call_id": call.call_id, "step": call.step}
        if call.kind == "agent.call":
            about = {"agent": call.name, **call.arguments, "call_id": call.call_id, "step": call.step}
        await self._notify({"type": "tool_start", **about})
        observation = await self._execute(call)
        outcome = {"result": observation.content} if observation.status == "ok" else {"error": observation.error}
        await self._notify({"type": "tool_result", **about, "status": observation.status, **outcome})
        return observation

    async def _execute(self, call: ActionCall) -> Observation:
        try:
            if call.kind == "agent.call":
                return Observation("ok", await self._call_agent(call))
            context = ToolContext(call_id=call.call_id, run_context=self._context)
            return Observation("ok", await self._toolbox.call(call.name, call.arguments, context))
        except ToolRejectedError as error:
            return Observation("rejected", error=error.to_dict())
        except ProtolinkError as error:
            if isinstance(error, ToolFailedError):
                log_tool_failure(error)
            return Observation("failed", error={"code": error.reason, "message": str(error)})

    async def _call_agent(self, call: ActionCall) -> Any:
        if self._agent_callback is None:
            raise ToolRejectedError("agents cannot be called here: no agent_callback is set", code="no_agents")
        try:
            answer = self._agent_callback(call.name, call.arguments)
            return normalize(await answer if inspect.isawaitable(answer) else answer)
        except ProtolinkError:
            raise
        except Exception as error:  # application code, like a tool: the model gets the error and the loop continues
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

    async def _emit_chunks(self, before: "asyncio.Task[None] | None") -> None:
        if before is not None:
            await before  # raises the exception of the callback
        while self._chunks:
            await self._emit(self._chunks.popleft())

    async def _notify(self, event: dict[str, Any]) -> None:
        if self._chunk_task is not None:  # chunks are delivered before later events
            task, self._chunk_task = self._chunk_task, None
            await task
        await self._emit(event)

    async def _emit(self, event: dict[str, Any]) -> None:
        if self._event_callback is not None and inspect.isawaitable(done := self._event_callback(event)):
            await done

    def _to_event(self, payload: Payload) -> dict[str, Any]:
        match payload:
            case LlmStep():
                return {"type": payload.kind, "step": payload.step, "content": payload.content, **payload.data}
            case LlmCallFailed():
                return {"step": payload.step, "content": "", **failed_call_event(payload)}
            case ContextPrepared():
                return {"type": "context_prepared", "step": payload.step, "manifest": payload.manifest.to_dict()}
            case LlmCallStarted():
                return {"type": "llm_call_started", **_to_dict(payload), "streaming": self._streaming}
            case LlmCallCompleted():
                return {"type": "llm_call_completed", **_to_dict(payload)}
            case ContextCompacted():
                return {"type": "context_compacted", **payload.to_dict()}
            case BudgetReported():
                return {"type": type_of(payload).replace(".", "_"), "decision": payload.decision.to_dict()}
            case _:
                raise TypeError(f"an inference does not report {type(payload).__name__}")


def _to_dict(payload: LlmCallStarted | LlmCallCompleted) -> dict[str, Any]:
    values = {each.name: getattr(payload, each.name) for each in fields(payload)}
    return plain(values)  # type: ignore[no-any-return]  # it copies values of any type


def failed_call_event(call: LlmCallFailed) -> dict[str, Any]:
    """Return the event of a failed attempt at a model call, as ProtoLink has it, without its step."""
    error, attempt = call.failure.message, call.attempt
    if not call.will_retry:
        return {"type": "llm_error", "error": error, "code": call.failure.reason, "attempt": attempt}
    delay_s = call.failure.retry_delay_s
    return {"type": "llm_retry", "reason": "transport", "error": error, "attempt": attempt, "delay_s": delay_s}


def _describe_action(call: ActionCall) -> dict[str, Any]:
    if call.kind == "agent.call":
        return {"action": "agent_call", "payload": {"agent": call.name, **call.arguments}}
    return {"action": "tool_call", "payload": {"tool": call.name, "args": call.arguments}}


def _build_toolbox(tools: Mapping[str, AnyTool]) -> Toolbox:
    """Build a toolbox. A function gets its name from the mapping; a tool must have the same name as its key."""
    box = Toolbox()
    for name, tool in tools.items():
        is_tool = isinstance(tool, BaseTool) and not inspect.isclass(tool)
        added = box.add(tool if is_tool else Tool.from_callable(tool, name=name))
        if added.name != name:
            raise InvalidArgumentError(f"the tool is named '{added.name}'", field=f"tools.{name}")
    return box
