"""LLMModelProfile: costs of calls and token counts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.llms.port import ModelUsage
from protolink_grpc.llms.profile import LLMModelProfile, estimate_tokens

PRICED = LLMModelProfile(input_cost_per_million=2.5, output_cost_per_million=10.0)


def test_a_price_per_million_tokens_is_so_many_millionths_per_token():
    # 1,000 x 2.50 / 1,000,000 + 200 x 10.00 / 1,000,000 = 0.0045
    assert PRICED.cost_micros(ModelUsage(1_000, 200)) == 4_500


@pytest.mark.parametrize("usage", [ModelUsage(), ModelUsage(1), ModelUsage(None, 1)])
def test_a_cost_with_an_unknown_count_is_unknown(usage: ModelUsage):
    assert PRICED.cost_micros(usage) is None


def test_a_cost_with_an_unknown_price_is_unknown_unless_nothing_was_used_at_that_price():
    half = LLMModelProfile(input_cost_per_million=1.0)
    assert half.cost_micros(ModelUsage(5, 1)) is None
    assert half.cost_micros(ModelUsage(5, 0)) == 5
    assert LLMModelProfile().cost_micros(ModelUsage(0, 0)) == 0


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_free_model_costs_nothing_and_is_not_unknown(read: int, written: int):
    free = LLMModelProfile(input_cost_per_million=0.0, output_cost_per_million=0.0)
    assert free.cost_micros(ModelUsage(read, written)) == 0


@given(st.text(max_size=300))
def test_an_estimate_is_a_quarter_of_the_characters_rounded_up(text: str):
    assert estimate_tokens(text) == LLMModelProfile().estimate_tokens(text) == math.ceil(len(text) / 4)


def test_a_tokenizer_counts_instead_of_the_estimate_and_stays_out_of_the_json():
    profile = LLMModelProfile(context_window=8192, tokenizer=lambda text: len(text.split()), metadata={"tier": "a"})
    assert profile.estimate_tokens("three short words") == 3
    facts = profile.to_dict()
    assert (facts["context_window"], facts["currency"], facts["metadata"]) == (8192, "USD", {"tier": "a"})
    assert "tokenizer" not in facts


@pytest.mark.parametrize(
    "wrong",
    [
        {"context_window": 0},
        {"input_cost_per_million": -1.0},
        {"output_cost_per_million": math.nan},
        {"output_cost_per_million": math.inf},
    ],
)
def test_invalid_facts_are_refused_and_named(wrong: dict[str, float]):
    with pytest.raises(InvalidArgumentError) as caught:
        LLMModelProfile(**wrong)
    assert caught.value.field == next(iter(wrong))
