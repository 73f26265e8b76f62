"""The inference loop: a model's answers become checked actions, one round after the other, until one of them is final.

Pure orchestration over two ports, the model and its surroundings: the loop decides what is asked next, never whether something may
happen, and keeps nothing. An answer that an earlier attempt got is taken from the surroundings and costs nothing; as everything
here follows from the answers and from what came of the actions, an attempt that is repeated comes to the same point.
"""

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any

from protolink_grpc.errors import InferParseError, RepeatedActionError, ToolCorrectionLimitError, ToolRejectedError
from protolink_grpc.llms.answers import ActionParseError, Calls, Final, action_dict, read_action, read_native
from protolink_grpc.llms.checks import INVALID_ARGUMENTS, RESERVED_TOOLS, ActionCheck, OutputCheck
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
from protolink_grpc.llms.manifest import ContextMeter, profile_of
from protolink_grpc.llms.model_call import ModelCaller
from protolink_grpc.llms.port import LanguageModel, ModelToolCall
from protolink_grpc.llms.prompt import build_prompt, delegation_tools
from protolink_grpc.llms.transcript import Transcript
from protolink_grpc.models.events import LlmCallCompleted, LlmStep
from protolink_grpc.models.json_value import canonical_json, to_json
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
        model: What answers; with `native_tools` it is offered the tools, else it is told the JSON contract.
        sleep: BoundedWaits between attempts at a model call, in seconds.
        jitter: From 0 to 1, scatters those waits.

    Raises:
        InvalidArgumentError: A tool has a reserved name, or `output_schema` is not valid.
    """

    def __init__(
        self,
        model: LanguageModel,
        request: InferenceRequest,
        surroundings: LoopHost,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._request = request
        self._settings = request.settings
        self._surroundings = surroundings
        self._native = model.native_tools
        self._check = ActionCheck(request.tools, request.peers, request.agent_name)
        self._output = None if request.output_schema is None else OutputCheck(request.output_schema)
        prompt = build_prompt(request, native_tools=self._native)
        declared, delegation = (request.tools, delegation_tools(request)) if self._native else ((), ())
        meter = ContextMeter(
            profile_of(model).estimate_tokens,
            sections=prompt.sections,
            declared=declared,
            delegation=delegation,
            history=request.history,
            query=request.query,
        )
        self._caller = ModelCaller(
            model,
            request,
            surroundings,
            system=prompt.system,
            tools=(*declared, *delegation),
            meter=meter,
            sleep=sleep,
            jitter=jitter,
        )
        self._transcript = Transcript(
            native=self._native, history=request.history, data=prompt.data, query=request.query, meter=meter
        )
        self._failures = 0
        self._rejections: Counter[str] = Counter()
        self._repetition = _Repetition()

    async def run(self) -> InferenceResult:
        """Ask, act, and ask again until the answer is final.

        Raises:
            InferParseError: Too many answers in a row that are no valid action.
            ToolCorrectionLimitError: Too many rejected calls of one tool in a row.
            BudgetExceededError: A limit of the run is reached; steps are bounded by nothing else.
            ModelError: The provider cannot or will not answer.
            RepeatedActionError: The model does the same again and again, and gets the same result.
            CancelledError: The run was canceled.
        """
        for step in count(1):
            self._surroundings.check()
            call_id = f"{self._request.key}/{step}"
            answer = self._surroundings.recorded(call_id)
            round_ = _Round(self._surroundings, step, call_id, replayed=answer is not None)
            if answer is None:
                answer = await self._caller.answer(step, call_id, self._transcript.prompt)
            try:
                read = self._read(answer)
                if isinstance(read, Final):
                    return await self._finish(read, round_)
            except ActionParseError as error:
                await self._misread(answer, error.feedback, round_)
                self._transcript.corrected(answer.text, f"Your answer could not be used. {error.feedback}.")
                continue
            await self._act(read, answer, round_)
        raise AssertionError("count() has no end")

    def _read(self, answer: LlmCallCompleted) -> Final | Calls:
        if self._native:
            return read_native(answer)
        return read_action(answer.text, _own_call_id(answer), self._check.tools, self._check.peers)

    async def _finish(self, final: Final, round_: "_Round") -> InferenceResult:
        """The end, in the shape that was asked for: text, or what the schema says. Raises ActionParseError where it is not."""
        content, text = final.content, final.content
        if self._output is not None:
            content = self._output.fitted(content)
        if not isinstance(text, str):
            text = to_json(text)
        await round_.say("llm_final", text)
        return InferenceResult(text if self._output is None else content, self._transcript.finished(text), round_.step)

    async def _act(self, wanted: Calls, answer: LlmCallCompleted, round_: "_Round") -> None:
        calls = wanted.calls
        self._transcript.asked(calls, wanted.thought)
        checked = [self._checked(call, index, round_) for index, call in enumerate(calls)]
        observations = await self._observations(calls, checked, round_)
        texts = [self._transcript.observed(*each) for each in zip(calls, observations, strict=True)]
        aimless = [
            str(each) for each in checked if isinstance(each, ToolRejectedError) and each.code != INVALID_ARGUMENTS
        ]
        if len(aimless) == len(calls):
            await self._misread(answer, "; ".join(aimless), round_)
            return
        self._failures = 0
        await self._count_rejections(calls, observations, round_)
        self._notice_repetition(calls, texts)

    def _checked(self, call: ModelToolCall, index: int, round_: "_Round") -> ActionCall | ToolRejectedError:
        try:
            return self._check.action(call, f"{round_.call_id}/{index}", round_.step)
        except ToolRejectedError as error:
            return error

    async def _observations(
        self, calls: Sequence[ModelToolCall], checked: Sequence[ActionCall | ToolRejectedError], round_: "_Round"
    ) -> list[Observation]:
        """What came of each call, in order: side by side where nothing is changed, else one after the other."""
        actions = [each for each in checked if isinstance(each, ActionCall)]
        together: dict[str, Observation] = {}
        if len(actions) > 1 and self._settings.parallel_read_only and all(map(self._check.read_only, actions)):
            for call, each in zip(calls, checked, strict=True):
                if isinstance(each, ActionCall):
                    await round_.chosen(call)
            given = await self._surroundings.act(actions)
            together = {action.position: each for action, each in zip(actions, given, strict=True)}
        found: list[Observation] = []
        for call, each in zip(calls, checked, strict=True):
            if isinstance(each, ToolRejectedError):
                found.append(Observation("rejected", error=each.to_dict()))
            elif together:
                found.append(together[each.position])
            else:
                await round_.chosen(call)
                found.extend(await self._surroundings.act([each]))
        return found

    # What does not work

    async def _misread(self, answer: LlmCallCompleted, problem: str, round_: "_Round") -> None:
        """Count an answer that was no valid action; raises InferParseError when there were too many in a row."""
        self._failures += 1
        limit = self._settings.max_parse_failures
        await round_.say("llm_parse_error", problem, {"attempts": self._failures, "limit": limit})
        if self._failures >= limit:
            raise InferParseError(
                f"the model gave no valid action {self._failures} times in a row: {problem}",
                attempts=self._failures,
                step=round_.step,
                raw_response=answer.text or to_json(answer.tool_calls),
                last_error=problem,
                explanation=_NO_ACTION,
            )

    async def _count_rejections(
        self, calls: Sequence[ModelToolCall], observations: Sequence[Observation], round_: "_Round"
    ) -> None:
        """Count answers in a row in which every call of a tool was rejected; raises ToolCorrectionLimitError."""
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
            await round_.say("llm_retry", str(error), {"reason": "rejected", "tool": target, "attempt": attempts})
            if attempts > limit:
                message = f"calls of '{target}' were rejected {attempts} times in a row: {error}"
                raise ToolCorrectionLimitError(
                    message, tool_name=target, attempts=attempts, limit=limit, last_error=error
                )

    def _notice_repetition(self, calls: Sequence[ModelToolCall], texts: Sequence[str]) -> None:
        """Rounds that bring nothing new: polling may do that for a while, a model that is stuck does it for ever."""
        limit = self._settings.repeat_limit
        times = self._repetition.times([(call.name, call.arguments) for call in calls], list(texts))
        if times >= 2 * limit:
            names = ", ".join(map(_target, calls))
            raise RepeatedActionError(
                f"the model repeated actions with the same results in {times} rounds in a row, the last of them: {names}"
            )
        if times == limit:
            self._transcript.noted(
                f"In the last {times} rounds you have only repeated actions, and each result was the same as before. "
                "Do something else, or give your final answer with what you know."
            )


_NO_ACTION = (
    "Simplify the instructions, offer fewer tools, or take a model that follows the contract of actions more reliably."
)


class _Round:
    """One step of the loop. What follows from an answer of an earlier attempt was reported by that attempt."""

    __slots__ = ("_replayed", "_surroundings", "call_id", "step")

    def __init__(self, surroundings: LoopHost, step: int, call_id: str, *, replayed: bool) -> None:
        self._surroundings = surroundings
        self._replayed = replayed
        self.step = step
        self.call_id = call_id

    async def say(self, kind: str, content: str = "", data: dict[str, Any] | None = None) -> None:
        if not self._replayed:
            await self._surroundings.report(LlmStep(kind, self.step, content, data or {}))

    async def chosen(self, call: ModelToolCall) -> None:
        payload = action_dict(call)
        await self.say("llm_action", data={"action": payload.pop("type"), "payload": payload})


class _Repetition:
    """How many rounds in a row brought nothing new: the same actions as in some earlier round, with the same results."""

    __slots__ = ("_seen", "_times")

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._times = 0

    def times(self, actions: list[tuple[str, dict[str, Any]]], texts: list[str]) -> int:
        """How often this has been done, this round included; a circle of several rounds counts as the repetition that it is."""
        done = hashlib.blake2b(canonical_json([actions, texts]).encode(), digest_size=16).digest()
        self._times = self._times + 1 if done in self._seen else 1
        self._seen.add(done)
        return self._times


def _own_call_id(answer: LlmCallCompleted) -> str:
    """An id for the call in an answer that has none: the same in every attempt, another one in every conversation."""
    seen = f"{answer.call_id} {answer.duration_micros} {answer.text}".encode()
    return f"call_{hashlib.blake2b(seen, digest_size=12).hexdigest()}"


def _target(call: ModelToolCall) -> str:
    """What a call is for: a tool, an agent, or an agent's tool."""
    named = [call.arguments.get(key) for key in ("agent", "tool")] if call.name in RESERVED_TOOLS else [call.name]
    return ".".join(str(each)[:MAX_NAME_CHARS] for each in named if each)
