"""The inference loop: it calls the model, checks the requested actions, passes them to the host, and repeats until a final answer.

The loop has two interfaces, the model and the LoopHost. It decides what to send to the model next; the host decides whether an
action is allowed. The loop stores nothing. Answers that an earlier attempt received come from the host and are not charged again.
All other state depends only on answers and results, so a repeated attempt reaches the same state.
"""

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from protolink_grpc.errors import (
    ContextLimitError,
    InferParseError,
    InvalidAgentResponseError,
    RepeatedActionError,
    ToolCorrectionLimitError,
    ToolRejectedError,
)
from protolink_grpc.llms.answers import (
    FILES,
    READ_ARTIFACT,
    ActionParseError,
    FinalAnswer,
    RequestedActions,
    read_action,
    read_native,
)
from protolink_grpc.llms.checks import INVALID_ARGUMENTS, RESERVED_TOOLS, ActionCheck, OutputCheck
from protolink_grpc.llms.context_window import ContextWindow
from protolink_grpc.llms.hooks import InferenceHooks, removed_messages
from protolink_grpc.llms.loop_host import (
    ActionCall,
    ActionKind,
    InferenceRequest,
    InferenceResult,
    InferSettings,
    LoopHost,
    Observation,
    ReasoningLevel,
)
from protolink_grpc.llms.manifest import ContextMeter, PromptFacts, profile_of
from protolink_grpc.llms.model_call import ModelCaller, PreparedPrompt
from protolink_grpc.llms.offers import Offers
from protolink_grpc.llms.port import LanguageModel, ModelRequest, ModelToolCall
from protolink_grpc.llms.prompt import build_prompt, delegation_tools
from protolink_grpc.llms.transcript import Transcript, render_message, render_observation
from protolink_grpc.models.events import LlmCallCompleted, LlmStep
from protolink_grpc.models.json_value import canonical_json, to_json
from protolink_grpc.models.media import Media
from protolink_grpc.tools.toolbox import MAX_NAME_CHARS

__all__ = [
    "ActionCall",
    "ActionKind",
    "InferSettings",
    "Inference",
    "InferenceRequest",
    "InferenceResult",
    "LoopHost",
    "Observation",
    "ReasoningLevel",
]


class Inference:
    """One inference, run once.

    Args:
        model: Gets the tools as definitions if it has `native_tools`, otherwise as text with the JSON contract.
        hooks: None means no hooks.
        sleep: Waits between the attempts of a model call, in seconds.
        jitter: Returns random numbers from 0 to 1 for the length of these waits.

    Raises:
        InvalidArgumentError: A tool has a reserved name, or `output_schema` is not valid.
    """

    def __init__(
        self,
        model: LanguageModel,
        request: InferenceRequest,
        host: LoopHost,
        *,
        hooks: InferenceHooks | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._request = request
        self._hooks = hooks
        self._settings = request.settings
        self._host = host
        self._native = native = model.native_tools
        self._check = ActionCheck(request.tools, request.peers, request.agent_name)
        self._output = None if request.output_schema is None else OutputCheck(request.output_schema)
        prompt = build_prompt(request, native_tools=native)
        declared, delegation = (request.tools, delegation_tools(request)) if native else ((), ())
        meter = ContextMeter(
            profile_of(model).estimate_tokens,
            sections=prompt.sections,
            declared=declared,
            delegation=delegation,
            query=request.query,
            media=request.media,
        )
        self._system, self._tools = prompt.system, (*declared, *delegation)
        self._offers = Offers(request, native_tools=native)
        self._caller = ModelCaller(model, request, host, meter=meter, sleep=sleep, jitter=jitter)
        self._window = ContextWindow(
            model,
            request.context_policy,
            host,
            meter=meter,
            render=partial(render_message, native=native),
            summarize=self._caller.summarize,
            max_output_tokens=self._settings.max_output_tokens,
        )
        self._transcript = Transcript(
            self._window, history=request.history, data=prompt.data, query=request.query, media=request.media
        )
        self._files: list[Media] = []
        self._failures = 0
        self._rejections: Counter[str] = Counter()
        self._repetition = _Repetition()

    async def run(self) -> InferenceResult:
        """Call the model and run its actions until the answer is final.

        Raises:
            InferParseError: Too many consecutive answers that are invalid or that a hook rejects.
            ToolCorrectionLimitError: Too many consecutive rejected calls of one tool.
            BudgetExceededError: A limit of the run is reached. The number of steps has no other limit.
            ContextLimitError: Even the smallest prompt does not fit, or the provider refused a prompt that was shortened.
            ModelError: The model call failed.
            RepeatedActionError: The model repeats the same actions with the same results.
            HookError: A hook failed.
            CancelledError: The run was canceled.
        """
        for step in count(1):
            self._host.check_canceled()
            call_id = f"{self._request.key}/{step}"
            answer = self._host.recorded(call_id)
            round_ = _Round(self._host, step, call_id, replayed=answer is not None)
            await self._window.fit(step, call_id, replayed=answer is not None)
            if answer is None:
                answer = await self._call_model(step, call_id)
            files = self._host.recorded_files(call_id) if FILES in answer.metrics else ()
            self._files += files
            try:
                read = self._read(answer)
                if isinstance(read, FinalAnswer):
                    return await self._finish(read, round_, files)
            except ActionParseError as error:
                await self._count_invalid_answer(answer, error.feedback, round_)
                feedback = f"Your answer could not be used. {error.feedback}."
                self._transcript.add_correction(call_id, answer.text, feedback, files)
                continue
            await self._act(read, answer, round_, files)
        raise AssertionError("count() has no end")

    async def _call_model(self, step: int, call_id: str) -> LlmCallCompleted:
        async def shorten(refused: ContextLimitError) -> PreparedPrompt:
            await self._window.make_room(step, call_id, refused)
            return await self._build_prompt(step, call_id)

        return await self._caller.answer(step, call_id, await self._build_prompt(step, call_id), shorten)

    async def _build_prompt(self, step: int, call_id: str) -> PreparedPrompt:
        window, hooks = self._window, self._hooks
        prompt = self._caller.prompt(self._system, window.messages, (*self._tools, *window.tools))
        # A hook also sees the tools of a model without native tool calls, whose system prompt describes them.
        shown = prompt if self._native else replace(prompt, tools=tuple(self._request.tools))
        changed = shown if hooks is None else await hooks.before_model(shown, step, call_id)
        facts = await self._describe_prompt(shown, changed)
        if changed is shown:
            return PreparedPrompt(prompt, facts)
        if not self._native:
            system = changed.system
            if changed.tools != shown.tools and system == shown.system:
                system = build_prompt(replace(self._request, tools=changed.tools), native_tools=False).system
            changed = replace(changed, system=system, tools=())
        window.check_size(changed)
        return PreparedPrompt(changed, facts)

    async def _describe_prompt(self, shown: ModelRequest, changed: ModelRequest) -> PromptFacts:
        """Return the facts about a prompt for the log.

        Args:
            shown: The prompt before the hook, with all tools.
            changed: The same after the hook.
        """
        window = self._window
        has_files = any(message.media for message in shown.messages)
        refuse = await self._caller.find_media_refusal() if has_files else None
        removed = removed_messages(shown.messages, changed.messages)
        omitted = window.omitted(self._request.omitted, removed, refuse)
        return PromptFacts(self._offers.offered(changed.tools, has_artifacts=window.has_artifacts), omitted)

    def _read(self, answer: LlmCallCompleted) -> FinalAnswer | RequestedActions:
        if FILES in answer.metrics and not answer.text.strip() and not answer.tool_calls:
            return FinalAnswer("")
        if self._native:
            return read_native(answer)
        return read_action(answer.text, _derive_call_id(answer), self._check.tools, self._check.peers)

    async def _finish(self, final: FinalAnswer, round_: "_Round", files: Sequence[Media]) -> InferenceResult:
        """Return the result: text, or a value that satisfies the output schema. Raises ActionParseError if it does not."""
        content, text = final.content, final.content
        if self._output is not None:
            content = self._output.validate(content)
        if self._request.output_type is not None:
            try:
                self._request.output_type.convert(content)
            except InvalidAgentResponseError as error:
                text = str(error)
                raise ActionParseError(text[:1].upper() + text[1:], content) from None
        if not isinstance(text, str):
            text = to_json(text)
        if self._hooks is not None:
            feedback = await self._hooks.before_complete(content, files, round_.step, round_.call_id)
            if feedback is not None:
                raise ActionParseError(f"before_complete rejected it: {feedback.rstrip('.')}", content)
        turn = self._transcript.finish(text, files)
        return InferenceResult(text if self._output is None else content, turn, round_.step, tuple(self._files))

    async def _act(
        self, requested: RequestedActions, answer: LlmCallCompleted, round_: "_Round", files: Sequence[Media]
    ) -> None:
        calls = requested.calls
        self._transcript.add_calls(round_.call_id, calls, requested.thought, files)
        checked = [self._check_call(call, index, round_) for index, call in enumerate(calls)]
        observations = await self._run_actions(checked)
        texts = [await self._add_result(*each) for each in zip(calls, checked, observations, strict=True)]
        without_target = [
            str(each) for each in checked if isinstance(each, ToolRejectedError) and each.code != INVALID_ARGUMENTS
        ]
        if len(without_target) == len(calls):
            await self._count_invalid_answer(answer, "; ".join(without_target), round_)
            return
        self._failures = 0
        await self._count_rejections(calls, observations, round_)
        self._check_repetition(calls, texts)

    async def _add_result(
        self, call: ModelToolCall, checked: ActionCall | Observation | ToolRejectedError, observation: Observation
    ) -> str:
        """Add the result of a call to the conversation, as the hook wants it, and return its text."""
        text, media = render_observation(observation)
        if self._hooks is not None and isinstance(checked, ActionCall):
            next_call_id = f"{self._request.key}/{checked.step + 1}"
            replaced = await self._hooks.after_tool(checked, observation, text, next_call_id)
            text = text if replaced is None else replaced
        self._transcript.add_result(call, text, media)
        return text

    def _check_call(
        self, call: ModelToolCall, index: int, round_: "_Round"
    ) -> ActionCall | Observation | ToolRejectedError:
        if call.name == READ_ARTIFACT and self._window.has_artifacts:
            return self._window.read_artifact(call.arguments)
        try:
            if self._hooks is not None and call.name in self._hooks.removed_tools(round_.call_id):
                raise ToolRejectedError(f"tool: '{call.name}' is not available now", code="unknown_tool")
            return self._check.check_call(call, f"{round_.call_id}/{index}", round_.step)
        except ToolRejectedError as error:
            return error

    async def _run_actions(self, checked: Sequence[ActionCall | Observation | ToolRejectedError]) -> list[Observation]:
        """Run the actions and return one observation per call, in order. Only read-only calls run concurrently."""
        actions = [each for each in checked if isinstance(each, ActionCall)]
        together: dict[str, Observation] = {}
        if len(actions) > 1 and self._settings.parallel_read_only and all(map(self._check.is_read_only, actions)):
            given = await self._host.act(actions)
            together = {action.position: each for action, each in zip(actions, given, strict=True)}
        found: list[Observation] = []
        for each in checked:
            if isinstance(each, Observation):
                found.append(each)
            elif isinstance(each, ToolRejectedError):
                found.append(Observation("rejected", error=each.to_dict()))
            elif together:
                found.append(together[each.position])
            else:
                found.extend(await self._host.act([each]))
        return found

    # Invalid answers, rejected calls, repetitions

    async def _count_invalid_answer(self, answer: LlmCallCompleted, problem: str, round_: "_Round") -> None:
        """Count an answer without a valid action. Raises InferParseError after too many consecutive ones."""
        self._failures += 1
        limit = self._settings.max_parse_failures
        await round_.report("llm_parse_error", problem, {"attempts": self._failures, "limit": limit})
        if self._failures >= limit:
            raise InferParseError(
                f"the model gave no valid answer {self._failures} times in a row: {problem}",
                attempts=self._failures,
                step=round_.step,
                raw_response=answer.text or to_json(answer.tool_calls),
                last_error=problem,
                explanation=_NO_ACTION,
            )

    async def _count_rejections(
        self, calls: Sequence[ModelToolCall], observations: Sequence[Observation], round_: "_Round"
    ) -> None:
        """Count consecutive answers in which every call of a tool was rejected. Raises ToolCorrectionLimitError."""
        if not self._rejections and all(each.status != "rejected" for each in observations):
            return
        by_target: dict[str, list[Observation]] = {}
        for call, observation in zip(calls, observations, strict=True):
            by_target.setdefault(_target(call), []).append(observation)
        limit = self._settings.max_tool_corrections
        for target, found in by_target.items():
            if any(each.status != "rejected" for each in found):
                del self._rejections[target]
                continue
            self._rejections[target] += 1
            attempts, error = self._rejections[target], ToolRejectedError.from_dict(found[-1].error or {})
            await round_.report("llm_retry", str(error), {"reason": "rejected", "tool": target, "attempt": attempts})
            if attempts > limit:
                message = f"calls of '{target}' were rejected {attempts} times in a row: {error}"
                raise ToolCorrectionLimitError(
                    message, tool_name=target, attempts=attempts, limit=limit, last_error=error
                )

    def _check_repetition(self, calls: Sequence[ModelToolCall], texts: Sequence[str]) -> None:
        """Limit consecutive rounds without anything new. A few are normal, for example when a model polls a tool."""
        limit = self._settings.repeat_limit
        times = self._repetition.add([(call.name, call.arguments) for call in calls], list(texts))
        if times >= 2 * limit:
            names = ", ".join(map(_target, calls))
            raise RepeatedActionError(
                f"the model repeated actions with the same results in {times} rounds in a row, the last of them: {names}"
            )
        if times == limit:
            self._transcript.add_note(
                f"In the last {times} rounds you have only repeated actions, and each result was the same as before. "
                "Do something else, or give your final answer with what you know."
            )


_NO_ACTION = (
    "Simplify the instructions, offer fewer tools, or use a model that follows the output format more reliably."
)


class _Round:
    """Reports one step of the loop. A replayed step reports nothing, because an earlier attempt has reported it."""

    __slots__ = ("_host", "_replayed", "call_id", "step")

    def __init__(self, host: LoopHost, step: int, call_id: str, *, replayed: bool) -> None:
        self._host = host
        self._replayed = replayed
        self.step = step
        self.call_id = call_id

    async def report(self, kind: str, content: str, data: dict[str, Any]) -> None:
        if not self._replayed:
            await self._host.report(LlmStep(kind, self.step, content, data))


class _Repetition:
    """Counts consecutive rounds with the same actions and results as some earlier round."""

    __slots__ = ("_seen", "_times")

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._times = 0

    def add(self, actions: list[tuple[str, dict[str, Any]]], texts: list[str]) -> int:
        """Add a round and return the count, this round included. Cycles of several rounds also count."""
        done = hashlib.blake2b(canonical_json([actions, texts]).encode(), digest_size=16).digest()
        self._times = self._times + 1 if done in self._seen else 1
        self._seen.add(done)
        return self._times


def _derive_call_id(answer: LlmCallCompleted) -> str:
    """Derive an id for a call without one: equal in all attempts at this answer, different in other conversations."""
    seen = f"{answer.call_id} {answer.duration_micros} {answer.text}".encode()
    return f"call_{hashlib.blake2b(seen, digest_size=12).hexdigest()}"


def _target(call: ModelToolCall) -> str:
    """Name the target of a call: `tool`, `agent` or `agent.tool`."""
    named = [call.arguments.get(key) for key in ("agent", "tool")] if call.name in RESERVED_TOOLS else [call.name]
    return ".".join(str(each)[:MAX_NAME_CHARS] for each in named if each)
