"""The model calls of an inference: budget, events, streaming and retries. The answer is parsed elsewhere.

A retry has the same call id and the next attempt number. `LlmCallStarted` tells readers to discard the text of the previous
attempt, so a call can also be retried after a part of its text was published.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from protolink_grpc.errors import (
    BudgetExceededError,
    ContentTypeNotSupportedError,
    ContextLimitError,
    InvalidArgumentError,
    ModelError,
    ModelTimeoutError,
    ModelUnavailableError,
    ProtolinkError,
    UnsupportedOperationError,
)
from protolink_grpc.llms.answers import FILES, RAW_ARGUMENTS
from protolink_grpc.llms.final_text import FinalText
from protolink_grpc.llms.input_media import Refusal, fit_media, list_types, refuse_text
from protolink_grpc.llms.loop_host import InferenceRequest, LoopHost
from protolink_grpc.llms.manifest import (
    NO_FACTS,
    SUMMARY,
    ContextMeter,
    PromptFacts,
    build_context_manifest,
    profile_of,
)
from protolink_grpc.llms.port import (
    LanguageModel,
    ModelItem,
    ModelRequest,
    ModelResponse,
    ModelToolCall,
    ModelUsage,
    TextChunk,
    ToolSpec,
)
from protolink_grpc.llms.prices import ModelPrice
from protolink_grpc.llms.prompt import build_summary_prompt
from protolink_grpc.logs import get_logger
from protolink_grpc.models.action import BudgetDecision
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.cost import Cost
from protolink_grpc.models.events import (
    BudgetReported,
    ContextPrepared,
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
)
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.ids import new_call_id
from protolink_grpc.models.json_text import strip_thinking
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.media import Media, public_url
from protolink_grpc.models.part import ToolCall
from protolink_grpc.net.exponential_delay import ExponentialDelay
from protolink_grpc.policy.budget import TICK_S

log = get_logger(__name__)

FIRST_DELAY_S = 0.5
"""The delay before the first retry; it doubles with each further one."""

ESTIMATED_COST = "cost_is_estimated"
"""Key in the metrics of a completed call whose tokens the provider did not report: its cost is that of the estimates."""

MAX_FILE_BYTES = (4 << 20) - (64 << 10)
"""Maximum size of a file in an answer: with its artifact it is one event, which is at most 4 MiB (`runtime/log`)."""

MAX_DELAY_S = 60.0
"""The longest delay before a retry. If a provider asks for more, the call fails instead of occupying its slot that long."""


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """A prompt, and the facts about it for the log.

    Args:
        purpose: Of a prompt outside of the inference, which has no facts; empty for one of the inference.
    """

    request: ModelRequest
    facts: PromptFacts = NO_FACTS
    purpose: str = ""


Shorten = Callable[[ContextLimitError], Awaitable[PreparedPrompt]]
"""Returns a shorter prompt after the provider has refused one because of its length, or raises ContextLimitError."""


class ModelCaller:
    """The calls of one inference.

    Args:
        meter: Counts the prompt of each call.
        is_live: Whether the text of an answer is published while it is produced.
        sleep: Waits between attempts, and for the end of the budget's time, in seconds.
        jitter: Returns random numbers in [0, 1), so that agents that failed at the same time do not retry at the same time.
    """

    def __init__(
        self,
        model: LanguageModel,
        request: InferenceRequest,
        host: LoopHost,
        *,
        meter: ContextMeter,
        is_live: bool = True,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._request = request
        self._host = host
        self._meter = meter
        self._is_live = is_live
        self._sleep = sleep
        self._jitter = jitter
        self._profile = profile_of(model)
        self._price: ModelPrice | None = None
        self._has_checked_price = False

    def prompt(self, system: str, messages: Sequence[LLMMessage], tools: Sequence[ToolSpec] = ()) -> ModelRequest:
        """Return a prompt with the settings of the inference."""
        settings = self._request.settings
        schema = self._request.output_schema if self._model.native_tools else None
        return ModelRequest(
            system, tuple(messages), tuple(tools), schema, settings.max_output_tokens, settings.temperature
        )

    async def summarize(self, step: int, call_id: str, messages: Sequence[LLMMessage], max_tokens: int) -> str:
        """Summarize messages in a call without the prompt, the tools and the live text of this inference.

        Raises:
            BudgetExceededError, CancelledError: As `answer`.
            ContextLimitError: The provider refused the prompt because of its length.
            ModelError: The call failed, the summary is empty, or the budget has no room for it.
        """
        answer = self._host.recorded(call_id)
        if answer is None:
            settings = replace(self._request.settings, max_output_tokens=max_tokens)
            request = replace(self._request, key=call_id, output_schema=None, settings=settings)
            prompt = build_summary_prompt(messages, max_tokens)
            meter = ContextMeter(self._profile.estimate_tokens, query=prompt.system)
            for message in prompt.messages:
                meter.add(message)
            if not self._has_room_for_summary(meter.total, max_tokens):
                raise ModelError("the budget has no room for a summary")
            caller = ModelCaller(
                self._model, request, self._host, meter=meter, is_live=False, sleep=self._sleep, jitter=self._jitter
            )
            answer = await caller.answer(step, call_id, PreparedPrompt(prompt, purpose=SUMMARY))
        if text := strip_thinking(answer.text):
            return text
        raise ModelError("the model gave no summary")

    def _has_room_for_summary(self, read: int, written: int) -> bool:
        """Return whether the budget allows a summary with these tokens, and the call with the inference's prompt after it."""
        left = self._host.budget.remainder()
        needed = (
            (left.max_steps, 2),
            (left.max_llm_calls, 2),
            (left.max_input_tokens, read + self._meter.total),
            (left.max_output_tokens, written + 1),
        )
        return all(limit is None or amount <= limit for limit, amount in needed)

    async def answer(
        self, step: int, call_id: str, prompt: PreparedPrompt, shorten: Shorten | None = None
    ) -> LlmCallCompleted:
        """Call the model, with retries.

        Args:
            prompt: Its timeout is set for each attempt.
            shorten: Called once if the provider refuses the prompt because of its length.

        Raises:
            BudgetExceededError: Before a call that the budget forbids, or after an answer that was too long.
            ContentTypeNotSupportedError: The model does not take a file of the request.
            ContextLimitError: The prompt does not fit into the context window of the model.
            UnsupportedOperationError: The budget limits the cost, and the price of the model in its currency is unknown.
            ModelError: The model refused, or all attempts failed.
            CancelledError: Immediately; the model's iterator is closed.
        """
        if not self._has_checked_price:
            self._price = await self._find_price()
            self._has_checked_price = True
        try:
            return await self._answer(step, call_id, prompt, shorten)
        except BudgetExceededError as error:
            if isinstance(error.decision, BudgetDecision):
                await self._host.report(BudgetReported(error.decision), severity="error", summary=str(error))
            raise

    async def _find_price(self) -> ModelPrice | None:
        """Return the price of the model, or None. Raises UnsupportedOperationError if a limit of the cost needs it."""
        find = getattr(self._model, "find_price", None)  # not a part of LanguageModel: most models have none
        price: ModelPrice | None = self._profile if self._profile.has_price else None
        if find is not None:
            price = await find()
        limit = self._host.budget.budget.max_cost
        if limit is None or (price is not None and price.currency == limit.currency):
            return price
        model = f"{self._model.provider}:{self._model.model}"
        known = f"is in {price.currency}" if price is not None else "is unknown"
        raise UnsupportedOperationError(
            f"max_cost: the budget limits the cost to {limit}, but the price of the model {model} {known}; "
            f"give it a price in {limit.currency} with create_llm(..., prices={{{self._model.model!r}: Price(...)}}), "
            "or limit the tokens instead",
            model=model,
            currency=limit.currency,
        )

    async def _answer(
        self, step: int, call_id: str, prompt: PreparedPrompt, shorten: Shorten | None
    ) -> LlmCallCompleted:
        host, budget = self._host, self._host.budget
        request = self._fit_media(prompt.request)
        step_warnings = budget.check_step(step)
        tokens = await self._report_context(step, prompt)
        await self._warn(step_warnings)
        delay = ExponentialDelay(FIRST_DELAY_S, chance=self._jitter)
        for attempt in count(1):
            await host.wait_while_paused()
            await self._warn(budget.check_llm_call(tokens))
            await host.report(self._build_start(call_id, attempt, step))
            started = time.perf_counter_ns()
            try:
                response = await self._call_model(call_id, request)
                break
            except (ModelError, ContextLimitError, ContentTypeNotSupportedError) as error:
                error.origin = error.origin or self._model.provider
                micros = (time.perf_counter_ns() - started) // 1000
                failed = LlmCallFailed(
                    call_id,
                    self._model.provider,
                    self._model.model,
                    step,
                    attempt,
                    Failure.from_error(error),
                    False,
                    micros,
                )
                if not isinstance(error, ContextLimitError):
                    await self._wait(error, failed, delay.next_s())
                    continue
                prompt, shorten = await self._shorten_prompt(error, failed, shorten), None
                request = self._fit_media(prompt.request)
                tokens = await self._report_context(step, prompt)
        micros = (time.perf_counter_ns() - started) // 1000
        return await self._complete(response, step, call_id, tokens, micros)

    def _build_start(self, call_id: str, attempt: int, step: int) -> LlmCallStarted:
        model = self._model
        # Not a part of LanguageModel: only a model that selects another one has them.
        provider, name = (str(getattr(model, each, "")) for each in ("requested_provider", "requested_model"))
        return LlmCallStarted(
            call_id,
            model.provider,
            model.model,
            attempt,
            step,
            streaming=True,
            requested_provider=provider if provider != model.provider else "",
            requested_model=name if name != model.model else "",
        )

    async def _shorten_prompt(
        self, error: ContextLimitError, call: LlmCallFailed, shorten: Shorten | None
    ) -> PreparedPrompt:
        """Return a shorter prompt and report the failed attempt. Raises ContextLimitError if there is no shorter prompt."""
        try:
            if shorten is None:
                raise error
            prompt = await shorten(error)
        except ContextLimitError:
            await self._host.report(call, severity="error")
            raise
        call.will_retry = True
        await self._host.report(call, severity="warning", summary=f"{error} (the next attempt has a shorter prompt)")
        return prompt

    def _fit_media(self, request: ModelRequest) -> ModelRequest:
        """Return the request with only the files that the model takes. Raises ContentTypeNotSupportedError."""
        provider, model = self._model.provider, self._model.model
        return replace(request, messages=fit_media(request.messages, self._refuse, provider=provider, model=model))

    async def _report_context(self, step: int, prompt: PreparedPrompt) -> int:
        """Report the manifest of the prompt and return its tokens."""
        manifest = build_context_manifest(
            self._model,
            self._meter.items,
            run_context=self._request.run_context,
            agent_name=self._request.agent_name,
            purpose=prompt.purpose,
        )
        facts = prompt.facts
        offered, omitted = (None, None) if prompt.purpose else (facts.offered, facts.omitted)
        await self._host.report(ContextPrepared(manifest, step, offered, omitted))
        return manifest.total_estimated_tokens

    async def _call_model(self, call_id: str, prompt: ModelRequest) -> ModelResponse:
        timeout, native = self._timeout(), self._model.native_tools
        items = self._model.generate(replace(prompt, timeout_s=timeout))
        try:
            if timeout is None:
                return await self._read(items, call_id, native)
            return await self._read_with_timeout(items, call_id, native, timeout)
        finally:
            # An async generator must be closed here; otherwise its connection stays open.
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()

    async def _read_with_timeout(
        self, items: AsyncIterator[ModelItem], call_id: str, native: bool, timeout: float
    ) -> ModelResponse:
        clock = asyncio.timeout(timeout)
        try:
            async with clock:
                return await self._read(items, call_id, native)
        except TimeoutError as error:
            # The model may have raised a TimeoutError of its own.
            if not clock.expired():
                raise
            if timeout != self._request.settings.call_timeout_s:  # it was the remaining time of the budget
                await self._sleep((self._host.budget.remaining_seconds or 0.0) + TICK_S)
            raise self._timeout_error(timeout) from error

    def _timeout_error(self, timeout: float) -> ModelTimeoutError:
        provider, model, base_url = self._model.provider, self._model.model, getattr(self._model, "base_url", None)
        url = public_url(base_url) if isinstance(base_url, str) else ""
        error = ModelTimeoutError(
            f"the model '{model}' of {provider}{f' at {url}' if url else ''} gave no answer within {timeout:g} s; "
            "allow more time with call_timeout_s, or use a faster model",
            provider=provider,
            model=model,
        )
        if url:
            error.metadata["url"] = url
        return error

    async def _read(self, items: AsyncIterator[ModelItem], call_id: str, native: bool) -> ModelResponse:
        host = self._host
        final = None if native else FinalText()
        response: ModelResponse | None = None
        offset = 0
        async for item in items:
            host.check_canceled()
            if isinstance(item, TextChunk):
                text = item.text if final is None else final.feed(item.text)
                if text and self._is_live:
                    host.delta(call_id, offset, text)
                    offset += len(text.encode(errors="replace"))
            else:
                response = item
        if response is None:
            raise ModelError("the model ended its answer without completing it")
        for file in response.files:
            if len(file.data or b"") > MAX_FILE_BYTES:
                raise ModelError(
                    f"the model '{self._model.model}' of {self._model.provider} wrote a file of {len(file.data or b'')} bytes; "
                    f"the limit is {MAX_FILE_BYTES} bytes",
                    provider=self._model.provider,
                    model=self._model.model,
                )
        return response

    def _timeout(self) -> float | None:
        known = (self._request.settings.call_timeout_s, self._host.budget.remaining_seconds)
        return min((each for each in known if each is not None), default=None)

    async def find_media_refusal(self) -> Refusal:
        """Return a function that returns why the model does not take a file, according to its profile and its adapter."""
        find = getattr(self._model, "find_media_refusal", None)  # as `find_price`
        refuse: Refusal | None = None if find is None else await find()
        return self._refuse if refuse is None else lambda media: self._refuse(media) or refuse(media)

    def _refuse(self, media: Media) -> str:
        profile = self._profile
        if (why := refuse_text(media)) or profile.takes(media):
            return why
        if profile.input_media is None:
            return "its profile has supports_vision=False; use a model that takes images"
        return f"{list_types(profile.input_media)} (input_media of its profile); use a model that takes the file"

    async def _wait(self, error: ProtolinkError, call: LlmCallFailed, delay_s: float) -> None:
        """Report a failed attempt and wait for the next one. Raises `error` if there is no further attempt."""
        delay_s = max(delay_s, (error.retry_after_s if isinstance(error, ModelError) else None) or 0.0)
        left = self._host.budget.remaining_seconds
        if left is not None and left <= 0:  # the budget may have ended the call
            await self._warn(self._host.budget.check_runtime())
        is_retryable = isinstance(error, ModelUnavailableError | ModelTimeoutError)
        too_long = delay_s > (MAX_DELAY_S if left is None else min(MAX_DELAY_S, left))
        if not is_retryable or too_long or call.attempt > self._request.settings.max_transport_retries:
            await self._host.report(call, severity="error")
            raise error
        call.failure, call.will_retry = replace(call.failure, retry_delay_s=round(delay_s, 3)), True
        attempts = self._request.settings.max_transport_retries + 1
        again = f"{error} (attempt {call.attempt} of {attempts}; the next one in {delay_s:.1f} s)"
        if call.attempt == 1:  # the process log gets one line per call, the task log one event per attempt
            log.warning("agent %s, model call of step %d: %s", self._request.agent_name or "-", call.step, again)
        await self._host.report(call, severity="warning", summary=again)
        await self._sleep(delay_s)
        self._host.check_canceled()

    async def _complete(
        self, response: ModelResponse, step: int, call_id: str, estimated: int, micros: int
    ) -> LlmCallCompleted:
        usage = response.usage
        calls, raw = _to_log(response.tool_calls)
        text = _replace_surrogates(response.text)
        metrics: dict[str, Any] = {"estimated_input_tokens": estimated}
        written = usage.output_tokens
        if written is None:
            output = text if not calls else text + to_json([call.args for call in calls])
            metrics["estimated_output_tokens"] = written = self._profile.estimate_tokens(output)
        if usage.details:
            metrics["usage"] = usage.details
        if raw:
            metrics[RAW_ARGUMENTS] = raw
        if response.files:
            metrics[FILES] = len(response.files)
        cost, is_estimated = self._cost_of(usage, estimated, written)
        if is_estimated:
            metrics[ESTIMATED_COST] = True
        completed = LlmCallCompleted(
            call_id,
            self._model.provider,
            self._model.model,
            step,
            text,
            usage.input_tokens,
            usage.output_tokens,
            None if cost is None else cost.micros,
            "" if cost is None else cost.currency,
            micros,
            metrics,
            calls,
            response.finish_reason,
            usage.cached_input_tokens,
            usage.reasoning_tokens,
            response.model if response.model != self._model.model else "",
        )
        if response.files:
            await self._host.publish_files(call_id, response.files)
        await self._host.report(completed)
        await self._charge(usage, cost, estimated, written)
        return completed

    def _cost_of(self, usage: ModelUsage, estimated: int, written: int) -> tuple[Cost | None, bool]:
        """Return the cost of a call, None if it is unknown, and whether it is that of estimated tokens.

        Args:
            estimated: Estimated tokens of the prompt.
            written: Tokens of the answer, estimated if `usage` does not have them.
        """
        if self._price is None or (usage.input_tokens is not None and usage.output_tokens is not None):
            return (self._price or self._profile).cost_of(usage), False
        read = estimated if usage.input_tokens is None else usage.input_tokens
        return self._price.cost_of(replace(usage, input_tokens=read, output_tokens=written)), True

    async def _charge(self, usage: ModelUsage, cost: Cost | None, estimated: int, written: int) -> None:
        """Charge the budget for an answer. Raises BudgetExceededError if the answer was too long."""
        budget = self._host.budget
        if usage.input_tokens is not None:
            await self._warn(budget.correct_input_tokens(estimated, usage.input_tokens))
        try:
            await self._warn(budget.record_output_tokens(written))
        finally:  # also after an answer that was too long: it has to be paid
            warnings = budget.record_cost(
                cost,
                cached_input_tokens=usage.cached_input_tokens or 0,
                reasoning_tokens=usage.reasoning_tokens or 0,
            )
        await self._warn(warnings)

    async def _warn(self, warnings: Sequence[BudgetDecision]) -> None:
        for decision in warnings:
            await self._host.report(BudgetReported(decision), severity="warning", summary=decision.message)


def _to_log(calls: Sequence[ModelToolCall]) -> tuple[tuple[ToolCall, ...], dict[str, str]]:
    """Convert calls for the log, each with a unique id. The second result is: call id -> arguments that are not a JSON object."""
    found: dict[str, ToolCall] = {}
    raw: dict[str, str] = {}
    for call in calls:
        own = _replace_surrogates(call.call_id)
        if not own or own in found:
            own = new_call_id()
        unreadable, arguments = call.raw, call.arguments
        try:
            to_json(arguments)
        except (InvalidArgumentError, TypeError) as error:
            unreadable, arguments = f"({error})", {}
        if unreadable is not None:
            raw[own] = _replace_surrogates(unreadable)
        found[own] = ToolCall(_replace_surrogates(call.name) or "(no name)", arguments, own)
    return tuple(found.values()), raw


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which models may write and UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
