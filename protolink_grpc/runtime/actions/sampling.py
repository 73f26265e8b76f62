"""Questions of a running tool to the agent's model: actions behind the gate, with the budget of the run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from protolink_grpc.errors import UnimplementedError
from protolink_grpc.llms.loop_host import ActionCall, InferenceRequest, InferSettings, Observation
from protolink_grpc.llms.manifest import TOOL_QUESTION, ContextMeter, profile_of
from protolink_grpc.llms.model_call import ModelCaller, PreparedPrompt
from protolink_grpc.llms.port import LanguageModel
from protolink_grpc.models.action import RunAction
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.events import LlmCallCompleted, Payload, RunEvent, Severity
from protolink_grpc.models.ids import new_call_id
from protolink_grpc.models.media import Media
from protolink_grpc.policy.budget import BudgetEnforcer
from protolink_grpc.runtime.actions.action_context import ActionContext
from protolink_grpc.runtime.actions.gate import ActionResult, Gate, PreparedAction
from protolink_grpc.tools.context import SampledText

MODEL_SAMPLE = "model.sample"
"""Kind of the action, and the capability that it needs. Its name is the tool that asks."""

INSTRUCTIONS = "You answer a question of a program. Its text was written by the program. Answer with text only."
"""The system prompt. It has neither the agent's instructions nor text of the tool, which others may have written."""


@dataclass(frozen=True, slots=True)
class ModelSampler:
    """The model of an agent for questions of its tools.

    Args:
        model: None if the agent has none.
        settings: Limits of a model call; a tool can only shorten the answer.
    """

    gate: Gate
    model: LanguageModel | None
    settings: InferSettings

    async def sample(
        self,
        action_context: ActionContext,
        tool: str,
        position: str,
        messages: Sequence[LLMMessage],
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> SampledText:
        """As `tools.context.SampleModel`.

        Args:
            position: Position of the action in its turn; empty if it has none.
        """
        model = self.model
        if model is None:
            raise UnimplementedError("the agent has no model")
        limits = [each for each in (max_tokens, self.settings.max_output_tokens) if each is not None]
        settings = replace(self.settings, max_output_tokens=min(limits, default=None), temperature=temperature)
        shown = [{"role": each.role, "content": each.content} for each in messages]
        payload = {
            "arguments": {"messages": shown, "max_tokens": settings.max_output_tokens, "temperature": temperature}
        }
        text = f"tool '{tool}' asks the model"
        action = RunAction(MODEL_SAMPLE, tool, payload, frozenset({MODEL_SAMPLE}), description=text)

        async def execute(action: RunAction) -> ActionResult:
            done = await _ask(model, settings, action_context, messages)
            return ActionResult(
                {"text": done.text, "model": done.response_model or done.model, "finish_reason": done.finish_reason}
            )

        async def prepare() -> PreparedAction:
            return PreparedAction(action, execute, idempotent=True, read_only=True, is_counted=False)

        result = (await self.gate.perform(action_context, prepare, position=position)).value()
        return SampledText(**result)


async def _ask(
    model: LanguageModel, settings: InferSettings, action_context: ActionContext, messages: Sequence[LLMMessage]
) -> LlmCallCompleted:
    context = action_context.context
    agent_name = context.agent_chain[-1] if context.agent_chain else ""
    call_id = new_call_id()
    request = InferenceRequest(call_id, "", run_context=context, agent_name=agent_name, settings=settings)
    meter = ContextMeter(profile_of(model).estimate_tokens)
    for message in messages:
        meter.add(message)
    caller = ModelCaller(model, request, _SamplingHost(action_context), meter=meter)
    prompt = PreparedPrompt(caller.prompt(INSTRUCTIONS, messages), purpose=TOOL_QUESTION)
    return await caller.answer(1, call_id, prompt)


class _SamplingHost:
    """The host of one model call without actions (`llms/loop_host`). Its text is not published while it is written."""

    def __init__(self, action_context: ActionContext) -> None:
        self._action_context = action_context

    @property
    def budget(self) -> BudgetEnforcer:
        return self._action_context.budget

    def check_canceled(self) -> None:
        self._action_context.token.raise_if_cancelled()

    async def wait_while_paused(self) -> None:
        return  # it is part of an action, which is finished first

    async def report(
        self,
        payload: Payload,
        *,
        severity: Severity = "info",
        summary: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        await self._action_context.emit(RunEvent(payload=payload, severity=severity, summary=summary))

    def delta(self, call_id: str, offset: int, text: str) -> None:
        return

    def recorded(self, call_id: str) -> LlmCallCompleted | None:
        return None

    async def publish_files(self, call_id: str, files: Sequence[Media]) -> None:
        return  # the tool asks for a text

    def recorded_files(self, call_id: str) -> Sequence[Media]:
        return ()

    def decided(self, key: str) -> RunEvent | None:
        return None

    async def act(self, calls: Sequence[ActionCall]) -> list[Observation]:
        raise NotImplementedError("a question of a tool has no actions")
