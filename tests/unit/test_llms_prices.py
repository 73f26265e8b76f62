"""Prices of model calls: those that a user sets, those of the table, and the limits that need them."""

import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llm_stage import Stage, infer

from protolink_grpc import Cost, LLMModelProfile, Price, RunBudget, ScriptedLLM, create_llm
from protolink_grpc.errors import InvalidArgumentError, UnsupportedOperationError
from protolink_grpc.llms.model_call import ESTIMATED_COST
from protolink_grpc.llms.port import ModelResponse, ModelUsage
from protolink_grpc.llms.prices import ListedPrice, find_listed_price
from protolink_grpc.models.cost import sum_of
from protolink_grpc.models.events import LlmCallCompleted
from protolink_grpc.policy.budget import BudgetEnforcer

OPENAI = "https://api.openai.com/v1/"


def profile_of(price: Price) -> LLMModelProfile:
    return LLMModelProfile(**price.profile_fields)


# -- prices of users ----------------------------------------------------------------------------------------------------------


def test_cached_and_reasoning_tokens_have_their_own_prices_if_they_are_set() -> None:
    usage = ModelUsage(1000, 100, {}, 400, 60)
    assert profile_of(Price(2, 10)).cost_micros(usage) == 1000 * 2 + 100 * 10
    special = profile_of(Price(2, 10, cached_input=0.5, reasoning=20, currency="EUR"))
    assert special.cost_of(usage) == Cost(600 * 2 + 200 + 40 * 10 + 60 * 20, "EUR")
    assert special.to_dict()["cached_input_cost_per_million"] == 0.5


def test_more_cached_tokens_than_tokens_cost_no_less_than_all_of_them_cached() -> None:
    assert profile_of(Price(2, 10, cached_input=1)).cost_micros(ModelUsage(10, 0, {}, 50)) == 10


@given(st.integers(0, 10**7), st.integers(0, 10**5), st.integers(1, 10**7), st.integers(0, 10**7))
def test_a_cost_is_exact_and_rounded_once(price: int, other: int, read: int, written: int) -> None:
    # Prices with four decimal places, such as 0.0375, have no exact float.
    profile = profile_of(Price(price / 10_000, other / 10_000))
    exact = (Decimal(price) * read + Decimal(other) * written) / 10_000
    assert profile.cost_micros(ModelUsage(read, written)) == round(exact)


def test_the_sum_of_many_costs_has_no_drift() -> None:
    cost = profile_of(Price(0.1, 0.3)).cost_of(ModelUsage(1000, 1000))
    assert cost == Cost(400)
    assert sum_of([cost] * 100_000) == (Cost(40_000_000),)


@pytest.mark.parametrize(
    ("given", "field"),
    [((-1, 0), "input"), ((0, float("nan")), "output"), ((0, 0, -1), "cached_input"), ((0, 0, 0, -1), "reasoning")],
)
def test_an_invalid_price_is_refused_and_named(given: tuple[float, ...], field: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        Price(*given)
    assert refused.value.field == field
    with pytest.raises(InvalidArgumentError, match="currency"):
        Price(0, 0, currency="dollars")


async def test_a_mapping_of_prices_applies_to_the_models_that_it_names() -> None:
    prices = {"small": Price(1, 2), "large": Price(10, 20)}
    small = create_llm("mock", "small", prices=prices)
    other = create_llm("mock", "other", prices=prices)
    assert (await small.find_price()) is small.profile
    assert small.profile.output_cost_per_million == 2
    assert await other.find_price() is None


# -- the table ---------------------------------------------------------------------------------------------------------------------


def test_a_hosted_model_has_the_price_of_the_table() -> None:
    price = find_listed_price(OPENAI, "gpt-4o")
    assert price == ListedPrice("gpt-4o", OPENAI)
    plain = price.cost_of(ModelUsage(1_000_000, 0))
    cached = price.cost_of(ModelUsage(1_000_000, 0, {"cache_read_tokens": 1_000_000}, 1_000_000))
    assert plain is not None
    assert cached is not None
    assert 0 < cached.micros < plain.micros
    assert price.cost_of(ModelUsage(None, 5)) is None
    # Counts that contradict each other: the whole prompt has the usual price.
    assert price.cost_of(ModelUsage(10, 0, {"cache_read_tokens": 50}, 50)) == price.cost_of(ModelUsage(10, 0))


@pytest.mark.parametrize(
    ("url", "model"), [(OPENAI, "no-such-model"), ("http://localhost:11434/v1", "gpt-4o"), ("", "gpt-4o")]
)
def test_a_model_that_the_table_does_not_have_has_no_price(url: str, model: str) -> None:
    assert find_listed_price(url, model) is None


def test_without_the_table_no_model_has_a_listed_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert find_listed_price(OPENAI, "gpt-4o") is None


async def test_a_price_of_the_user_replaces_that_of_the_table() -> None:
    listed = create_llm("openai", "gpt-4o", api_key="k")
    own = create_llm("openai", "gpt-4o", api_key="k", prices={"gpt-4o": Price(1, 1)})
    local = create_llm("openai", "gpt-4o", api_key="k", base_url="http://127.0.0.1:1/v1")
    try:
        assert isinstance(await listed.find_price(), ListedPrice)
        assert await own.find_price() is own.profile
        assert await local.find_price() is None
    finally:
        for llm in (listed, own, local):
            await llm.aclose()


# -- limits -----------------------------------------------------------------------------------------------------------------------


def limited(limit: Cost) -> Stage:
    return Stage(budget=BudgetEnforcer(RunBudget(max_cost=limit)))


@pytest.mark.parametrize(
    ("price", "message"),
    [
        (None, "the price of the model scripted:script is unknown; give it a price in USD with create_llm"),
        (Price(1, 1, currency="EUR"), "the price of the model scripted:script is in EUR; give it a price in USD"),
    ],
)
async def test_a_limit_of_the_cost_that_cannot_hold_is_refused_before_the_first_call(
    price: Price | None, message: str
) -> None:
    model = ScriptedLLM(["never"])
    if price is not None:
        model.configure_metrics(**price.profile_fields)
    with pytest.raises(
        UnsupportedOperationError, match=f"max_cost: the budget limits the cost to 0.5 USD, but {message}"
    ):
        await infer(model, limited(Cost.of(0.5)))
    assert model.requests == []


async def test_a_model_that_is_free_runs_under_any_limit() -> None:
    model = ScriptedLLM(["done"])
    model.configure_metrics(**Price(0, 0).profile_fields)
    stage = limited(Cost.of(0.5))
    assert (await infer(model, stage)).content == "done"
    assert stage.budget.usage.costs == (Cost(0),)


async def test_without_a_limit_an_unknown_price_is_an_unknown_cost() -> None:
    stage = Stage()
    await infer(ScriptedLLM(["done"]), stage)
    [completed] = stage.of(LlmCallCompleted)
    assert completed.cost is None


async def test_tokens_that_the_provider_does_not_report_cost_what_their_estimate_costs() -> None:
    model = ScriptedLLM([ModelResponse("12345678", usage=ModelUsage())])
    model.configure_metrics(**Price(0, 500_000).profile_fields)
    stage = limited(Cost.of(0.5))
    await infer(model, stage)
    [completed] = stage.of(LlmCallCompleted)
    assert (completed.output_tokens, completed.cost) == (None, Cost.of(1))
    assert completed.metrics[ESTIMATED_COST] is True
    assert stage.budget.usage.costs == (Cost.of(1),)


class Foreign:
    """A model of the application, without a profile."""

    provider, model, native_tools = "own", "m", True

    async def generate(self, request: Any) -> Any:
        yield ModelResponse("done", usage=ModelUsage(1, 1))


async def test_a_model_without_a_profile_has_no_price() -> None:
    assert (await infer(Foreign(), Stage())).content == "done"
    with pytest.raises(UnsupportedOperationError, match="own:m is unknown"):
        await infer(Foreign(), limited(Cost.of(1)))
