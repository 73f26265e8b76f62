"""Model calls of an inference: budget, cost, retries, streaming, cancellation."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from llm_stage import REQUEST, Stage, both_modes, final, infer, run, tool

from protolink_grpc.errors import (
    ActionDeniedError,
    BudgetExceededError,
    ModelError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from protolink_grpc.llms.loop import (
    ActionCall,
    Inference,
    InferSettings,
    Observation,
)
from protolink_grpc.llms.mock import ScriptedLLM
from protolink_grpc.llms.port import (
    ModelItem,
    ModelRequest,
    ModelResponse,
    ModelToolCall,
    ModelUsage,
    TextChunk,
)
from protolink_grpc.llms.profile import LLMModelProfile
from protolink_grpc.models.action import BudgetDecision
from protolink_grpc.models.context import RunBudget
from protolink_grpc.models.cost import Cost
from protolink_grpc.models.events import (
    BudgetReported,
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
)
from protolink_grpc.policy.budget import BudgetEnforcer

# Budget


async def test_the_budget_limits_steps_and_its_decision_is_reported() -> None:
    stage = Stage(lambda call: Observation("ok", call.position), BudgetEnforcer(RunBudget(max_steps=2)))
    with pytest.raises(BudgetExceededError):
        await run([tool(city="Rome")] * 9, stage)
    assert len(stage.of(LlmCallCompleted)) == 2
    assert stage.names[-1] == "budget.exceeded"
    assert stage.of(BudgetReported)[-1].decision.limit_name == "max_steps"


async def test_a_call_that_exceeds_the_budget_is_not_started() -> None:
    stage = Stage(budget=BudgetEnforcer(RunBudget(max_input_tokens=3)))
    model = ScriptedLLM([final()])
    with pytest.raises(BudgetExceededError):
        await infer(model, stage)
    assert model.requests == []
    assert stage.names == ["context.prepared", "budget.exceeded"]


@pytest.mark.parametrize("limit", ["max_llm_calls", "max_steps"])
async def test_a_budget_warning_is_reported_before_its_call(limit: str) -> None:
    stage = Stage(budget=BudgetEnforcer(RunBudget(**{limit: 1})))
    await run([final()], stage)
    assert stage.names[:3] == ["context.prepared", "budget.warning", "llm.call.started"]


async def test_an_answer_that_is_too_long_is_recorded_before_it_ends_the_run() -> None:
    stage = Stage(budget=BudgetEnforcer(RunBudget(max_output_tokens=5)))
    with pytest.raises(BudgetExceededError):
        await run([ModelResponse("long", usage=ModelUsage(1, 100))], stage)
    assert stage.names[-2:] == ["llm.call.completed", "budget.exceeded"]


async def test_the_providers_token_count_replaces_the_estimate() -> None:
    stage = Stage()
    await run([ModelResponse("x", usage=ModelUsage(1234, 5))], stage)
    assert (stage.budget.usage.input_tokens, stage.budget.usage.output_tokens) == (1234, 5)


async def test_unknown_usage_stays_unknown_and_the_budget_takes_an_estimate() -> None:
    stage = Stage()
    await run([ModelResponse("12345678")], stage)
    [completed] = stage.of(LlmCallCompleted)
    assert (completed.input_tokens, completed.output_tokens, completed.cost_micros, completed.currency) == (
        None,
        None,
        None,
        "",
    )
    assert completed.metrics["estimated_output_tokens"] == stage.budget.usage.output_tokens == 2


async def test_the_cost_is_computed_from_the_profile() -> None:
    stage = Stage()
    model = ScriptedLLM([ModelResponse("x", usage=ModelUsage(1000, 100, {"cached": 3}))])
    model.profile = LLMModelProfile(input_cost_per_million=2.0, output_cost_per_million=10.0, currency="EUR")
    await infer(model, stage)
    [completed] = stage.of(LlmCallCompleted)
    assert (completed.cost_micros, completed.currency, completed.metrics["usage"]) == (3000, "EUR", {"cached": 3})


def priced(*answers: Any) -> ScriptedLLM:
    """A model whose every answer has 1,000 tokens in and 100 out: 3,000 millionths of a euro."""
    usage = ModelUsage(1000, 100, {}, 400, 60)
    model = ScriptedLLM([replace(each, usage=usage) if isinstance(each, ModelResponse) else each for each in answers])
    model.profile = LLMModelProfile(input_cost_per_million=2.0, output_cost_per_million=10.0, currency="EUR")
    return model


WEATHER_ASKED = ModelResponse(tool_calls=(ModelToolCall("weather", {"city": "Oia"}, "c"),))


async def test_a_reached_cost_denies_the_next_call_of_the_model() -> None:
    stage = Stage(budget=BudgetEnforcer(RunBudget(max_cost=Cost(3000, "EUR"))))
    with pytest.raises(BudgetExceededError, match="max_cost") as refused:
        await infer(priced(WEATHER_ASKED, ModelResponse("never")), stage)
    assert refused.value.metadata["limit_name"] == "max_cost"
    assert stage.names.count("llm.call.completed") == 1
    assert stage.names[-1] == "budget.exceeded"
    assert [each.decision.limit_name for each in stage.of(BudgetReported)] == ["max_cost", "max_cost"]
    assert stage.budget.usage.costs == (Cost(3000, "EUR"),)


async def test_an_answer_that_exceeds_the_cost_limit_is_still_returned() -> None:
    stage = Stage(budget=BudgetEnforcer(RunBudget(max_cost=Cost(2999, "EUR"))))
    assert (await infer(priced(ModelResponse("done")), stage)).content == "done"
    assert stage.budget.usage.costs == (Cost(3000, "EUR"),)


async def test_an_answer_that_is_too_long_is_charged() -> None:
    stage = Stage(budget=BudgetEnforcer(RunBudget(max_output_tokens=99)))
    with pytest.raises(BudgetExceededError):
        await infer(priced(ModelResponse("done")), stage)
    assert stage.budget.usage.costs == (Cost(3000, "EUR"),)


async def test_cached_and_reasoning_tokens_are_in_the_event_and_in_the_usage() -> None:
    stage = Stage()
    await infer(priced(ModelResponse("done")), stage)
    [completed] = stage.of(LlmCallCompleted)
    usage = stage.budget.usage
    assert (completed.cached_input_tokens, completed.reasoning_tokens) == (400, 60)
    assert (usage.cached_input_tokens, usage.reasoning_tokens) == (400, 60)


# The provider fails


@both_modes
async def test_an_unavailable_provider_is_retried_and_each_attempt_is_charged(native: bool) -> None:
    stage = Stage()
    await run([ModelUnavailableError("busy"), ModelTimeoutError("slow"), final("ok")], stage, native=native)
    assert stage.budget.usage.llm_calls == 3
    assert [each.attempt for each in stage.of(LlmCallStarted)] == [1, 2, 3]
    assert {each.call_id for each in stage.of(LlmCallStarted)} == {"msg/0/1"}
    failed = stage.of(LlmCallFailed)
    assert [(each.call_id, each.attempt, each.will_retry) for each in failed] == [
        ("msg/0/1", 1, True),
        ("msg/0/1", 2, True),
    ]
    assert [each.failure.reason for each in failed] == ["MODEL_UNAVAILABLE", "MODEL_TIMEOUT"]
    assert all(each.failure.retryable and each.failure.retry_delay_s for each in failed)


async def test_an_error_that_is_not_retryable_ends_the_call_after_one_attempt() -> None:
    stage = Stage()
    with pytest.raises(ModelError) as raised:
        await run([ModelError("no such model")], stage)
    (failed,) = stage.of(LlmCallFailed)
    assert (failed.attempt, failed.will_retry, failed.failure.message) == (1, False, "no such model")
    assert failed.failure.origin == raised.value.origin == failed.provider


async def test_the_number_of_retries_is_limited() -> None:
    stage = Stage()
    with pytest.raises(ModelUnavailableError):
        await run([ModelUnavailableError("busy")] * 9, stage)
    assert len(stage.of(LlmCallStarted)) == 4


async def test_a_refusal_is_not_retried() -> None:
    stage = Stage()
    with pytest.raises(ModelError):
        await run([ModelError("wrong key"), final()], stage)
    assert len(stage.of(LlmCallStarted)) == 1


@pytest.mark.parametrize(("after", "waits"), [(None, [0.5, 1.0]), (7.5, [7.5, 7.5])])
async def test_delays_grow_and_respect_retry_after(after: float | None, waits: list[float]) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    busy = ModelUnavailableError("busy", retry_after_s=after)
    await Inference(ScriptedLLM([busy, busy, final()]), REQUEST, Stage(), sleep=sleep, jitter=lambda: 1.0).run()
    assert slept == waits


@pytest.mark.parametrize(("after", "seconds"), [(3600.0, None), (30.0, 10.0)])
async def test_a_call_fails_at_once_if_the_delay_would_be_too_long(after: float, seconds: float | None) -> None:
    stage = Stage(budget=BudgetEnforcer(RunBudget(max_runtime_seconds=seconds), clock=lambda: 0.0))
    with pytest.raises(ModelUnavailableError):
        await run([ModelUnavailableError("busy", retry_after_s=after), final()], stage)
    assert len(stage.of(LlmCallStarted)) == 1


@pytest.mark.parametrize("lag", [0.0, 0.0005], ids=["over", "not over yet"])
async def test_a_call_that_exceeds_the_time_of_the_run_ends_with_a_budget_error_for_both_orders_of_clocks(
    lag: float,
) -> None:
    """The timer of the event loop fires when the budget's clock says that the time is over, or before."""
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    class Late(Streaming):
        async def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
            nonlocal now
            now = 0.001 - lag
            async for item in super().generate(request):
                yield item

    stage = Stage(budget=BudgetEnforcer(RunBudget(max_runtime_seconds=0.001), clock=lambda: now))
    with pytest.raises(BudgetExceededError) as raised:
        await Inference(Late([asyncio.Event()]), REQUEST, stage, sleep=sleep).run()
    assert isinstance(raised.value.decision, BudgetDecision)
    assert raised.value.decision.limit_name == "max_runtime_seconds"


class Streaming:
    """A model with one script per attempt: chunks, then a response or an error."""

    provider, model = "fake", "fake-1"

    def __init__(self, *attempts: Sequence[Any], native: bool = True) -> None:
        self.native_tools = native
        self._attempts = iter(attempts)
        self.closed = 0

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        try:
            for each in next(self._attempts):
                if isinstance(each, Exception):
                    raise each
                if isinstance(each, asyncio.Event):
                    await each.wait()
                else:
                    yield TextChunk(each) if isinstance(each, str) else each
        finally:
            self.closed += 1


async def test_native_text_is_streamed_unchanged() -> None:
    stage = Stage()
    await infer(Streaming(["It ", "räins", ModelResponse("It räins")]), stage)
    assert stage.deltas == [("msg/0/1", 0, "It "), ("msg/0/1", 3, "räins")]


async def test_under_the_json_contract_only_the_text_of_a_final_answer_is_streamed() -> None:
    texts = [json.dumps(tool(city="Rome")), json.dumps(final('a "quoted"\nline 🌍'))]
    attempts = [[*text, ModelResponse(text)] for text in texts]
    stage = Stage()
    result = await infer(Streaming(*attempts, native=False), stage)
    assert {call_id for call_id, _, _ in stage.deltas} == {"msg/0/2"}
    assert "".join(text for _, _, text in stage.deltas) == result.content
    assert [offset for _, offset, _ in stage.deltas] == list(range(len(result.content)))


async def test_a_retry_after_streamed_text_starts_again_at_offset_zero() -> None:
    stage = Stage()
    await infer(Streaming(["It r", ModelUnavailableError("cut")], ["No", ModelResponse("No")]), stage)
    assert stage.deltas == [("msg/0/1", 0, "It r"), ("msg/0/1", 0, "No")]
    assert [each.attempt for each in stage.of(LlmCallStarted)] == [1, 2]


async def test_an_incomplete_answer_is_an_error() -> None:
    with pytest.raises(ModelError, match="without completing"):
        await infer(Streaming(["It r"]), Stage())


async def test_a_model_that_ignores_its_timeout_is_canceled() -> None:
    model = Streaming(*[[asyncio.Event()]] * 4)
    chosen = InferSettings(call_timeout_s=0.001, max_transport_retries=1)
    with pytest.raises(ModelTimeoutError):
        await infer(model, Stage(), replace(REQUEST, settings=chosen))
    assert model.closed == 2


# Cancellation


async def test_canceling_closes_the_models_iterator_at_once() -> None:
    model, stage = Streaming(["It ", asyncio.Event()]), Stage()
    task = asyncio.ensure_future(infer(model, stage))
    while not stage.deltas:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model.closed == 1


async def test_canceling_a_run_between_two_pieces_closes_the_iterator_too() -> None:
    model, stage = Streaming(["It ", "rains", ModelResponse("It rains")]), Stage()

    def cancel(call_id: str, offset: int, text: str) -> None:
        stage.canceled = True

    stage.delta = cancel  # type: ignore[method-assign]  # cancels with the first delta
    with pytest.raises(asyncio.CancelledError):
        await infer(model, stage)
    assert model.closed == 1


async def test_a_canceled_run_begins_no_further_step() -> None:
    stage = Stage()

    def cancel(call: ActionCall) -> Observation:
        stage.canceled = True
        return Observation("ok")

    stage.act_with = cancel
    with pytest.raises(asyncio.CancelledError):
        await run([tool(city="Rome"), final()], stage)
    assert len(stage.of(LlmCallStarted)) == 1


@both_modes
async def test_an_exception_of_the_host_ends_the_inference(native: bool) -> None:
    with pytest.raises(ActionDeniedError):
        await run([tool(city="Rome"), final()], Stage(lambda call: ActionDeniedError("no")), native=native)
