"""Hooks: functions of an application that see and change the prompts, tool results and answers of an agent's model.

A decision of a hook is an event in the log, so a run that recovers after a crash takes it from there: `after_tool` is not called
again for a result that the model has answered, `before_complete` not for an answer that it has judged, and `before_model` only for
calls that are made.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Protocol

from protolink_grpc.errors import BudgetExceededError, error_text
from protolink_grpc.llms.loop_host import ActionCall, InferenceRequest, LoopHost, Observation
from protolink_grpc.llms.manifest import HOOK
from protolink_grpc.llms.port import ModelRequest
from protolink_grpc.models.action import BudgetDecision, OmittedContext
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.events import BudgetReported, LlmStep
from protolink_grpc.models.json_value import JsonValue
from protolink_grpc.models.media import Media
from protolink_grpc.policy.budget import TICK_S
from protolink_grpc.tools.runner import ToolRunner

HOOK_STEP = "llm_hook"
"""The kind of the event `llm.stream` for a decision of a hook."""


@dataclass(frozen=True, slots=True)
class ModelInput:
    """The argument of `before_model`: the prompt of one call. It is a copy, so changing it in place has no effect.

    Args:
        request: System prompt, messages (oldest first), tools and settings. `tools` has all tools, also those of a model without
            native tool calls, whose system prompt describes them.
        step: Step of the inference, from 1.
        call_id: Id of the call, unique in its task.
    """

    request: ModelRequest
    step: int
    call_id: str
    agent_name: str
    context: RunContext


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The argument of `after_tool`: one call of a tool or of another agent, and its outcome.

    Args:
        action: The call; `kind` is `tool.call` or `agent.call`.
        observation: The outcome: `ok` with a result, `rejected` or `failed` with an error.
        text: The text that the model would see: the result or the error as JSON.
    """

    action: ActionCall
    observation: Observation
    text: str
    agent_name: str
    context: RunContext


@dataclass(frozen=True, slots=True)
class FinalOutput:
    """The argument of `before_complete`: a final answer that has passed all other checks.

    Args:
        content: The answer: a text, or a JSON value if the caller asked for one with a schema. Empty for an answer of only files.
        query: The text of the request.
        step: Step of the inference, from 1.
        files: The files that the model has written with this answer.
    """

    content: JsonValue
    query: str
    step: int
    call_id: str
    agent_name: str
    context: RunContext
    files: tuple[Media, ...] = ()


class BeforeModel(Protocol):
    """Called before each call of the model. Returns a changed request, for instance with `dataclasses.replace`, or None.

    A changed request may have fewer tools, but no others. The change applies to this call only.
    """

    def __call__(self, call: ModelInput, /) -> Awaitable[ModelRequest | None] | ModelRequest | None: ...


class AfterTool(Protocol):
    """Called after each call of a tool or of another agent. Returns the text that the model sees instead, or None.

    The result of the action in the log is unchanged. The conversation of the session gets the returned text. Images and other files
    of the result stay; `before_model` can remove them from a request.
    """

    def __call__(self, outcome: ToolOutcome, /) -> Awaitable[str | None] | str | None: ...


class BeforeComplete(Protocol):
    """Called with each final answer. Returns None to accept it, or a text that tells the model why it is rejected.

    After `InferSettings.max_parse_failures` consecutive answers that cannot be used, the run fails with INFER_PARSE_FAILED.
    """

    def __call__(self, answer: FinalOutput, /) -> Awaitable[str | None] | str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHooks:
    """The hooks of an agent. Each is a function or a coroutine function; a function runs in a thread, as a tool does.

    A hook that raises fails the run, and the failure names the hook. A hook that does not return is ended by the run's
    `max_runtime_seconds`. A hook may ask the agent's model with `agent.ask`; no hook is called for such a question.
    """

    before_model: BeforeModel | None = None
    after_tool: AfterTool | None = None
    before_complete: BeforeComplete | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            hook = getattr(self, each.name)
            if hook is not None and not callable(hook):
                raise TypeError(f"{each.name} must be a function, not {type(hook).__name__}")


_calling: ContextVar[tuple[RunContext, str] | None] = ContextVar("calling_hook", default=None)
"""The run whose hook is called, and the key of the decision."""


def calling_hook(run_context: RunContext) -> str:
    """Return the key of the decision that the calling code makes if it is a hook of this run; otherwise "".

    Work in the same process for another agent's run inherits the caller's variables, so the contexts are compared.
    """
    current = _calling.get()
    return current[1] if current is not None and current[0] is run_context else ""


class HookError(RuntimeError):
    """A hook of the application failed, or returned an invalid value."""


class InferenceHooks:
    """The hooks of one inference, and their decisions.

    Args:
        runner: Threads for hooks that are not async.
    """

    def __init__(self, hooks: AgentHooks, runner: ToolRunner, request: InferenceRequest, host: LoopHost) -> None:
        self._hooks = hooks
        self._runner = runner
        self._request = request
        self._host = host
        self._removed_tools: dict[str, frozenset[str]] = {}

    def removed_tools(self, call_id: str) -> frozenset[str]:
        """Names of the tools that `before_model` has removed from a call, in this or an earlier attempt."""
        if call_id not in self._removed_tools and (event := self._host.decided(f"{call_id}/before_model")) is not None:
            step = event.payload
            removed = step.data.get("removed_tools", ()) if isinstance(step, LlmStep) else ()
            self._removed_tools[call_id] = frozenset(removed)
        return self._removed_tools.get(call_id, frozenset())

    async def before_model(self, request: ModelRequest, step: int, call_id: str) -> ModelRequest:
        """Return the request, or the one that the hook returns instead.

        Raises:
            HookError: The hook failed, or returned another type or other tools.
            BudgetExceededError: The time of the run is over.
        """
        key = f"{call_id}/before_model"
        # There may be a decision for this call already: of an earlier attempt that did not get its answer, or of this one, before
        # the provider refused the prompt.
        is_repeated = self._host.decided(key) is not None or bool(self._removed_tools.get(call_id))
        changed: object = None
        if self._hooks.before_model is not None:
            shown = replace(request, messages=tuple(deepcopy(list(request.messages))))
            given = ModelInput(shown, step, call_id, self._request.agent_name, self._request.run_context)
            changed = await self._call(key, self._hooks.before_model, given)
        if changed is None and not is_repeated:
            return request
        changed = request if changed is None else changed
        if not isinstance(changed, ModelRequest):
            kind = type(changed).__name__
            raise HookError(f"before_model returned a value of type {kind}; it may return a ModelRequest or None")
        changed = replace(changed, messages=tuple(changed.messages), tools=tuple(changed.tools))
        names = [each.name for each in fields(changed) if getattr(changed, each.name) != getattr(request, each.name)]
        before, after = ([tool.name for tool in each.tools] for each in (request, changed))
        if other := set(after) - set(before):
            raise HookError(f"before_model added the tool '{min(other)}'; it may only remove tools")
        removed = [name for name in before if name not in after]
        self._removed_tools[call_id] = frozenset(removed)
        if names or is_repeated:
            data: dict[str, Any] = {"changed": names, **({"removed_tools": removed} if removed else {})}
            await self._report("before_model", step, "", data, key)
        return changed if names else request

    async def after_tool(
        self, action: ActionCall, observation: Observation, text: str, next_call_id: str
    ) -> str | None:
        """Return the text that replaces the result of an action for the model, or None.

        Args:
            text: The result or error as JSON.
            next_call_id: The call that gets the result. If its answer is recorded, the hook is not called again.

        Raises:
            HookError, BudgetExceededError: As `before_model`.
        """
        key = f"{action.position}/after_tool"
        if (event := self._host.decided(key)) is not None and isinstance(event.payload, LlmStep):
            return event.payload.content
        if self._hooks.after_tool is None or self._host.recorded(next_call_id) is not None:
            return None
        request = self._request
        copies = deepcopy(action), deepcopy(observation)
        given = ToolOutcome(*copies, text, request.agent_name, request.run_context)
        replaced = _text_or_none("after_tool", await self._call(key, self._hooks.after_tool, given))
        if replaced is not None and replaced != text:
            about = {"tool": action.name, "position": action.position}
            await self._report("after_tool", action.step, replaced, about, key)
        return replaced

    async def before_complete(self, content: JsonValue, files: Sequence[Media], step: int, call_id: str) -> str | None:
        """Return why the hook rejects a final answer, or None.

        Raises:
            HookError, BudgetExceededError: As `before_model`.
        """
        key = f"{call_id}/before_complete"
        if (event := self._host.decided(key)) is not None and isinstance(event.payload, LlmStep):
            return None if event.payload.data.get("accepted") else event.payload.content
        if self._hooks.before_complete is None:
            return None
        request = self._request
        given = FinalOutput(
            deepcopy(content), request.query, step, call_id, request.agent_name, request.run_context, tuple(files)
        )
        feedback = _text_or_none("before_complete", await self._call(key, self._hooks.before_complete, given))
        await self._report("before_complete", step, feedback or "", {"accepted": feedback is None}, key)
        return feedback

    async def _report(self, hook: str, step: int, content: str, data: dict[str, Any], key: str) -> None:
        await self._host.report(LlmStep(HOOK_STEP, step, content, {"hook": hook, **data}), metadata={"decision": key})

    async def _call(self, key: str, hook: Callable[[Any], Any], value: object) -> object:
        """Call a hook. `key` is that of its decision and ends in the name of the hook."""
        name = key.rpartition("/")[2]
        clock = asyncio.timeout(self._host.budget.remaining_seconds)
        token = _calling.set((self._request.run_context, key))
        try:
            async with clock:
                return await self._run(hook, value)
        except BudgetExceededError:  # of a question of the hook to the model
            raise
        except Exception as error:
            if isinstance(error, TimeoutError) and clock.expired():
                await self._end_run()
                raise HookError(f"{name} did not return in time") from None
            raise HookError(f"{name} failed: {type(error).__name__}: {error_text(error)}") from error
        finally:
            _calling.reset(token)

    async def _run(self, hook: Callable[[Any], Any], value: object) -> object:
        is_async = inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(type(hook).__call__)
        result = hook(value) if is_async else await self._runner.run(partial(hook, value))
        return await result if inspect.isawaitable(result) else result

    async def _end_run(self) -> None:
        """Report and raise BudgetExceededError, because the time of the run is over."""
        budget = self._host.budget
        await asyncio.sleep((budget.remaining_seconds or 0.0) + TICK_S)
        try:
            budget.check_runtime()
        except BudgetExceededError as error:
            if isinstance(error.decision, BudgetDecision):
                await self._host.report(BudgetReported(error.decision), severity="error", summary=str(error))
            raise


def removed_messages(before: Sequence[LLMMessage], after: Sequence[LLMMessage]) -> list[OmittedContext]:
    """Return the messages of a prompt that `before_model` has removed."""
    if after is before:
        return []
    kept = {message.id for message in after}
    return [
        OmittedContext("message", message.tool_call_id or message.id, HOOK)
        for message in before
        if message.id not in kept
    ]


def _text_or_none(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise HookError(f"{name} returned a value of type {type(value).__name__}; it may return a text or None")
