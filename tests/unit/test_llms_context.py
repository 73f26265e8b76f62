"""The context of an inference: what is shortened and removed before a call, what a repeated attempt takes from the log."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from llm_stage import REQUEST, Stage, answers_of, both_modes, final, infer, tool

from protolink_grpc.errors import ContextLimitError, InvalidArgumentError, ModelError
from protolink_grpc.llms.base import LLM
from protolink_grpc.llms.context_policy import ContextPolicy
from protolink_grpc.llms.loop import InferenceRequest, Observation
from protolink_grpc.llms.mock import Answer, MockLLM
from protolink_grpc.llms.port import ModelItem, ModelRequest, ModelResponse
from protolink_grpc.llms.profile import LLMModelProfile
from protolink_grpc.models.action import OmittedContext, OmittedItems
from protolink_grpc.models.context import RunBudget
from protolink_grpc.models.conversation import SUMMARY_KEY, LLMMessage, message_tokens
from protolink_grpc.models.events import ContextCompacted, ContextPrepared, LlmCallFailed, LlmCallStarted
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.media import Media
from protolink_grpc.policy.budget import BudgetEnforcer

QUIET = replace(REQUEST, peers=(), agent_name="")


class Recorder(LLM):
    """A model that answers call after call, and keeps the requests. A summary is not counted as a call."""

    def __init__(
        self, *answers: Any, native: bool = True, summary: Any = "They spoke.", window: int | None = None
    ) -> None:
        super().__init__("recorder", "recorder")
        self.native_tools = native
        self.profile = LLMModelProfile(context_window=window)
        self.requests: list[ModelRequest] = []
        self.summaries: list[ModelRequest] = []
        self._answers = iter(answers)
        self._summary = summary

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        is_summary = request.system.startswith("Write a summary")
        (self.summaries if is_summary else self.requests).append(request)
        answer = self._summary if is_summary else next(self._answers)
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        if is_summary:
            yield ModelResponse(answer)
            return
        async for item in MockLLM(sequential_responses=[answer], native_tools=self.native_tools).generate(request):
            yield item

    def tokens(self, number: int = -1) -> int:
        """The tokens of a request, without those between its parts."""
        request, count = self.requests[number], self.profile.estimate_tokens
        tools = count(to_json([(each.name, each.description, each.input_schema) for each in request.tools]))
        return count(request.system) + tools + sum(message_tokens(each, count) for each in request.messages)

    def texts(self, number: int = -1) -> list[str]:
        return [message.content for message in self.requests[number].messages]


def talk(turns: int, chars: int = 100) -> list[LLMMessage]:
    """A history of turns, each a question and an answer."""
    texts = ((f"q{n}:".ljust(chars, "?"), f"a{n}:".ljust(chars, "!")) for n in range(turns))
    return [LLMMessage(role, text) for pair in texts for role, text in zip(("user", "assistant"), pair, strict=True)]


def answered(text: str) -> Stage:
    return Stage(lambda call: Observation("ok", text))


async def refused(model: LLM, request: InferenceRequest, stage: Stage | None = None) -> ContextLimitError:
    with pytest.raises(ContextLimitError) as caught:
        await infer(model, stage or Stage(), request)
    return caught.value


# Values


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 10, "reserve_tokens": 10}, "reserve_tokens"),
        ({"preserve_recent": -1}, "preserve_recent"),
        ({"tool_result_max_chars": 0}, "tool_result_max_chars"),
        ({"max_artifacts": -1}, "max_artifacts"),
        ({"artifact_max_chars": 0}, "artifact_max_chars"),
        ({"summary_tokens": -1}, "summary_tokens"),
    ],
)
def test_a_policy_names_the_field_that_is_too_small(fields: dict[str, int], field: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        ContextPolicy(**fields)
    assert caught.value.field == field


def test_the_limits_follow_from_the_window_of_the_model_unless_they_are_set() -> None:
    known = LLMModelProfile(context_window=8000)
    limits = ContextPolicy().limits(known, 1000)
    assert (limits.window, limits.prompt, limits.result_chars) == (8000, 6000, 6000)
    limits = ContextPolicy(max_tokens=100, reserve_tokens=20, tool_result_max_chars=7).limits(known, 1000)
    assert (limits.window, limits.prompt, limits.result_chars) == (100, 80, 7)
    limits = ContextPolicy().limits(LLMModelProfile(), 1000)
    assert (limits.window, limits.prompt, limits.result_chars) == (None, None, None)


# The history


@both_modes
async def test_a_long_conversation_loses_its_oldest_turns_and_keeps_the_system_prompt_and_the_query(
    native: bool,
) -> None:
    model, stage = Recorder(final(), native=native, window=1200), Stage()
    await infer(model, stage, replace(QUIET, history=talk(40)))
    assert model.tokens() <= 1050 + 5
    texts = model.texts()
    assert texts[0].startswith("q")
    assert not texts[0].startswith("q0")
    assert texts[-1] == "Where to?"
    assert "Be kind." in model.requests[-1].system
    (done,) = stage.of(ContextCompacted)
    (prepared,) = stage.of(ContextPrepared)
    assert done.strategy == "tokens"
    assert done.before_tokens > 1050 >= done.after_tokens
    assert prepared.manifest.total_estimated_tokens == done.after_tokens


async def test_a_prompt_that_fits_is_not_changed() -> None:
    model, stage = Recorder(final(), window=100_000), Stage()
    await infer(model, stage, replace(QUIET, history=talk(40)))
    assert len(model.texts()) == 81
    assert not stage.of(ContextCompacted)


async def test_without_a_policy_and_without_a_known_window_nothing_is_removed() -> None:
    for model, policy in ((Recorder(final(), window=10), None), (Recorder(final()), ContextPolicy())):
        await infer(model, Stage(), replace(QUIET, history=talk(40), context_policy=policy))
        assert len(model.texts()) == 81


async def test_recent_messages_stay_while_the_prompt_fits_with_them() -> None:
    policy = ContextPolicy(max_tokens=600, reserve_tokens=100, preserve_recent=4)
    model = Recorder(final())
    await infer(model, Stage(), replace(QUIET, history=talk(40), context_policy=policy))
    assert [text[:3] for text in model.texts()[-5:-1]] == ["q38", "a38", "q39", "a39"]
    model = Recorder(final())
    await infer(model, Stage(), replace(QUIET, history=talk(40, 1200), context_policy=policy))
    assert model.texts() == ["Where to?"]


async def test_a_call_of_the_history_never_loses_its_result() -> None:
    turn = [
        LLMMessage("user", "go"),
        LLMMessage("assistant", "", tool_calls=[{"id": "c", "name": "weather", "arguments": {"city": "x" * 100}}]),
        LLMMessage("tool", '"sunny"', tool_name="weather", tool_call_id="c"),
        LLMMessage("assistant", "It is sunny."),
    ]
    for most in range(230, 500, 5):
        model = Recorder(final())
        policy = ContextPolicy(max_tokens=most, reserve_tokens=0, preserve_recent=0)
        await infer(model, Stage(), replace(QUIET, history=turn * 6, context_policy=policy))
        roles = [message.role for message in model.requests[-1].messages]
        assert roles[-1] == "user"
        assert roles[:-1] == ["user", "assistant", "tool", "assistant"] * (len(roles) // 4)


async def test_a_prompt_whose_smallest_form_does_not_fit_is_an_error_that_says_what_to_do() -> None:
    model = Recorder(final())
    policy = ContextPolicy(max_tokens=200, reserve_tokens=100)
    error = await refused(model, replace(QUIET, query="why? " * 200, history=talk(3), context_policy=policy))
    assert not model.requests
    assert int(error.metadata["needed_tokens"]) > 250
    assert error.metadata["available_tokens"] == "100"
    assert "100 of a window of 200 tokens" in str(error)
    assert "context_policy.max_tokens" in str(error)


# Results of tools


@both_modes
async def test_a_large_result_is_shortened_and_the_model_reads_the_rest(native: bool) -> None:
    text = "".join(f"{n:06}" for n in range(2000))
    seen: list[Any] = []

    def read(request: ModelRequest) -> Answer:
        shown = request.messages[-1].content
        name = shown.split('"artifact":"')[1].split('"')[0]
        seen.append([each.name for each in request.tools])
        return tool("read_context_artifact", name=name, offset=6001, limit=60)

    policy = ContextPolicy(tool_result_max_chars=1000)
    model, stage = Recorder(tool(city="Athens"), read, final(), native=native), answered(text)
    result = await infer(model, stage, replace(QUIET, context_policy=policy))
    shortened, read_back = model.texts(1)[-1], model.texts(2)[-1]
    assert len(shortened) < 1200
    assert '"total_chars":12002' in shortened
    assert "000001" in shortened
    assert text[6000:6060] in read_back
    assert '"next_offset":6061' in read_back
    assert seen == [["weather", "book", "read_context_artifact"] if native else []]
    assert stage.positions == ["msg/0/1/0"], "a read is no action"
    (done,) = stage.of(ContextCompacted)
    assert done.before_tokens - done.after_tokens > 2000
    assert done.strategy == ""
    stored = [message for message in result.messages if message.role == "tool"]
    assert [json.loads(message.content) for message in stored] == [text], "the conversation has the whole result, once"


async def test_a_read_that_names_nothing_readable_is_rejected_with_the_names() -> None:
    wrong = [tool("read_context_artifact", **args) for args in ({"name": "x"}, {"name": "call_1_0", "offset": -1})]
    model = Recorder(tool(city="Athens"), *wrong, final())
    policy = ContextPolicy(tool_result_max_chars=1000)
    await infer(model, answered("x" * 5000), replace(QUIET, context_policy=policy))
    assert '"available":["call_1_0"]' in model.texts(2)[-1]
    assert "must be whole numbers" in model.texts(3)[-1]


async def test_only_the_latest_artifacts_can_be_read_and_only_their_beginning() -> None:
    reads = [tool("read_context_artifact", name=name, offset=1990) for name in ("call_1_0", "call_3_0")]
    model = Recorder(tool(city="a"), tool(city="b"), *reads, final())
    policy = ContextPolicy(tool_result_max_chars=500, max_artifacts=1, artifact_max_chars=2000)
    await infer(model, answered("x" * 5000), replace(QUIET, context_policy=policy))
    assert "there is no such shortened result" in model.texts(3)[-1]
    assert json.loads(model.texts(4)[-1]) == {
        "artifact": "call_3_0",
        "offset": 1990,
        "total_chars": 2000,
        "text": "x" * 10,
    }


async def test_the_name_of_the_read_tool_is_reserved() -> None:
    taken = replace(QUIET.tools[0], name="read_context_artifact")
    with pytest.raises(InvalidArgumentError, match="reserved"):
        await infer(Recorder(final()), Stage(), replace(QUIET, tools=(taken,)))


async def test_many_rounds_of_one_inference_stay_within_the_window() -> None:
    sizes = iter(range(1, 29))
    stage = Stage(lambda call: Observation("ok", "r" * 97 * next(sizes)))
    model = Recorder(*(tool(city=f"c{n}") for n in range(28)), final(), window=1600)
    await infer(model, stage, QUIET)
    assert all(model.tokens(n) <= 1400 + 5 for n in range(29))
    for request in model.requests:
        called = [call["id"] for message in request.messages for call in message.tool_calls]
        assert called == [message.tool_call_id for message in request.messages if message.role == "tool"]
        assert request.messages[0].content == "Where to?"
    assert len(model.requests[-1].messages) > 5


async def test_the_latest_results_are_shortened_if_nothing_else_is_left() -> None:
    calls = [tool(city=f"c{n}") for n in range(8)]
    policy = ContextPolicy(max_tokens=1100, reserve_tokens=0, tool_result_max_chars=100_000)
    model = Recorder(calls, final())
    await infer(model, answered("x" * 900), replace(QUIET, context_policy=policy))
    assert model.tokens() <= 1105
    assert len(model.requests[-1].messages) == 10


async def test_a_shortened_result_says_that_its_files_are_left_out() -> None:
    shot = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    model = Recorder([tool(city=f"c{n}") for n in range(2)], final())
    stage = Stage(lambda call: Observation("ok", shot))
    await infer(model, stage, replace(QUIET, context_policy=ContextPolicy(max_tokens=2800, reserve_tokens=0)))
    first, second = [each for each in model.requests[-1].messages if each.role == "tool"]
    assert not first.media
    assert "its files are left out" in first.content
    assert second.media
    assert "left out" not in second.content


# The provider's refusal


TOO_LONG = ContextLimitError("the prompt does not fit into the context window of the model")


async def test_a_prompt_that_the_provider_refuses_is_shortened_once_and_sent_again() -> None:
    model, stage = Recorder(TOO_LONG, final()), Stage()
    await infer(model, stage, replace(QUIET, history=talk(40)))
    assert model.tokens(1) < model.tokens(0) * 0.6
    assert model.texts(1)[-1] == "Where to?"
    (failed,) = stage.of(LlmCallFailed)
    assert failed.will_retry
    assert failed.attempt == 1
    assert stage.names == [
        "context.prepared",
        "llm.call.started",
        "context.compacted",
        "llm.call.failed",
        "context.prepared",
        "llm.call.started",
        "llm.call.completed",
    ]


async def test_a_second_refusal_ends_the_inference() -> None:
    model, stage = Recorder(TOO_LONG, TOO_LONG), Stage()
    await refused(model, replace(QUIET, history=talk(40)), stage)
    assert len(model.requests) == 2
    assert [each.will_retry for each in stage.of(LlmCallFailed)] == [True, False]


async def test_a_refused_prompt_without_anything_to_remove_is_not_sent_again() -> None:
    for request in (QUIET, replace(QUIET, history=talk(40), context_policy=None)):
        model, stage = Recorder(TOO_LONG), Stage()
        assert await refused(model, request, stage) is TOO_LONG
        assert len(model.requests) == 1
        assert [each.will_retry for each in stage.of(LlmCallFailed)] == [False]


async def test_later_prompts_stay_below_a_size_that_was_refused() -> None:
    model = Recorder(TOO_LONG, *(tool(city=f"c{n}") for n in range(20)), final())
    await infer(model, answered("x" * 900), replace(QUIET, history=talk(40)))
    assert all(model.tokens(n) < model.tokens(0) for n in range(1, 22))


async def test_a_prompt_that_can_hardly_be_reduced_after_a_refusal_does_not_fail_the_next_step() -> None:
    image = Media("image/png", b"png")
    request = replace(QUIET, history=talk(1), media=[image])
    model, stage = Recorder(TOO_LONG, tool(city="Rome"), final()), answered("warm")
    await infer(model, stage, request)
    assert model.tokens(0) * 0.9 < model.tokens(1) < model.tokens(2) < model.tokens(0)
    repeated, again = answered("warm"), Recorder(tool(city="Rome"), final())
    repeated.decisions = dict(stage.decisions)
    await infer(again, repeated, request)
    assert again.texts(0) == model.texts(1)


# Summaries


SUMMARIES = ContextPolicy(max_tokens=1200, reserve_tokens=200, summary_tokens=100, preserve_recent=2)


async def test_removed_turns_are_summarized_in_a_call_of_its_own() -> None:
    model, stage = Recorder(final(), summary="<think>hm</think>They asked a lot."), Stage()
    await infer(model, stage, replace(QUIET, history=talk(20), context_policy=SUMMARIES))
    (asked,) = model.summaries
    assert not asked.tools
    assert asked.max_output_tokens == 100
    assert "q0:" in asked.messages[0].content
    summary = model.requests[-1].messages[0]
    assert summary.role == "user"
    assert summary.content.endswith("They asked a lot.")
    assert SUMMARY_KEY in summary.metadata
    assert model.tokens() <= 1005
    assert model.texts()[-1] == "Where to?"
    (done,) = stage.of(ContextCompacted)
    assert (done.strategy, done.summary) == ("summary", "They asked a lot.")
    assert not any(call_id.endswith("/summary") for call_id, _, _ in stage.deltas)


async def test_a_summary_has_at_most_its_tokens_and_is_summarized_again_with_later_messages() -> None:
    model = Recorder(*(tool(city=f"c{n}") for n in range(12)), final(), summary="word " * 500)
    await infer(model, answered("x" * 900), replace(QUIET, history=talk(40), context_policy=SUMMARIES))
    assert len(model.summaries) > 1
    assert "Summary of the conversation" in model.summaries[-1].messages[0].content
    assert all(message_tokens(each.messages[0], model.profile.estimate_tokens) <= 100 for each in model.requests[1:])
    assert all(model.tokens(n) <= 1005 for n in range(13))


async def test_without_a_summary_messages_are_removed_all_the_same() -> None:
    for given_summary in (ModelError("no"), TOO_LONG, ""):
        model, stage = Recorder(final(), summary=given_summary), Stage()
        await infer(model, stage, replace(QUIET, history=talk(40), context_policy=SUMMARIES))
        assert stage.of(ContextCompacted)[0].strategy == "tokens"
        assert model.tokens() <= 1005


async def test_files_of_removed_messages_are_references_in_the_prompt_of_a_summary() -> None:
    """Their tokens are not those of the files: otherwise the prompt would be empty."""
    image = Media("image/png", b"png", name="old.png")
    history = [replace(each, media=(image,) if each.role == "user" else ()) for each in talk(4)]
    model = Recorder(final())
    await infer(model, Stage(), replace(QUIET, history=history, context_policy=SUMMARIES))
    asked = model.summaries[0].messages[0]
    assert not asked.media
    assert [f"q{n}:" in asked.content for n in range(4)] == [True] * 4
    assert asked.content.count("old.png") == 4
    assert not any(message.media for message in model.requests[-1].messages)


async def test_a_message_that_is_larger_than_the_prompt_of_a_summary_is_cut() -> None:
    model = Recorder(final())
    await infer(model, Stage(), replace(QUIET, history=talk(1, chars=20_000), context_policy=SUMMARIES))
    asked = model.summaries[0].messages[0].content
    assert "a0:!" in asked
    assert len(asked) < 1000 * 4


@pytest.mark.parametrize("limit", ["max_steps=1", "max_llm_calls=1", "max_input_tokens=1200", "max_output_tokens=100"])
async def test_a_summary_does_not_use_the_budget_of_the_call_after_it(limit: str) -> None:
    name, _, value = limit.partition("=")
    budget = RunBudget(**{name: int(value)})
    model, stage = Recorder(final()), Stage(budget=BudgetEnforcer(budget))
    await infer(model, stage, replace(QUIET, history=talk(40), context_policy=SUMMARIES))
    assert not model.summaries
    assert stage.of(ContextCompacted)[0].strategy == "tokens"


async def test_a_cancellation_ends_a_summary() -> None:
    stage = Stage()

    def cancel(request: ModelRequest) -> str:
        stage.canceled = True
        return "They spoke."

    model = Recorder(final(), summary=cancel)
    with pytest.raises(asyncio.CancelledError):
        await infer(model, stage, replace(QUIET, history=talk(40), context_policy=SUMMARIES))
    assert not model.requests


# Repeated attempts


async def test_the_manifest_names_the_end_of_a_history_that_was_removed() -> None:
    called = {"id": "call_1", "name": "weather", "arguments": {"city": "Rome"}}
    history = [
        LLMMessage("user", "q" * 9000),
        LLMMessage("assistant", tool_calls=[called]),
        LLMMessage("tool", '"old"', tool_name="weather", tool_call_id="call_1"),
        LLMMessage("assistant", "warm"),
    ]
    request = replace(QUIET, history=history, context_policy=ContextPolicy(max_tokens=1100, reserve_tokens=100))
    stage = Stage()
    await infer(Recorder(final()), stage, request)
    prepared = stage.of(ContextPrepared)[0].manifest
    ends = [item.metadata["last_message"] for item in prepared.context_items if item.kind == "history"]
    assert ends == [history[-1].id], "a recovering run reads the history up to this message"


@both_modes
@pytest.mark.parametrize(
    "policy", [ContextPolicy(max_tokens=1100, reserve_tokens=100), SUMMARIES], ids=["tokens", "summary"]
)
async def test_a_repeated_attempt_makes_the_same_call(native: bool, policy: ContextPolicy) -> None:
    """Also with another tokenizer, and with a model that would write another summary."""
    request = replace(QUIET, history=talk(30), context_policy=policy)
    answers = [TOO_LONG, *(tool(city=f"c{n}") for n in range(9)), final()]
    whole = Recorder(*answers, native=native, summary="first")
    stage = answered("x" * 700)
    await infer(whole, stage, request)
    for died in range(1, 11):
        again = Recorder(*answers[died + 1 :], native=native, summary="second")
        again.profile = LLMModelProfile(tokenizer=lambda text: len(text) // 5)
        repeated = answered("x" * 700)
        known = [f"msg/0/{n}" for n in range(1, died + 1)]
        repeated.answers = {key: answer for key, answer in answers_of(stage).items() if key in known}
        repeated.decisions = {key: event for key, event in stage.decisions.items() if key.split("/context")[0] in known}
        if died < 10:
            # The decision of the next call was recorded, too; its answer was not.
            key = f"msg/0/{died + 1}"
            repeated.decisions |= {k: v for k, v in stage.decisions.items() if k.startswith(f"{key}/")}
            await infer(again, repeated, request)
            assert again.texts(0) == whole.texts(died + 1)
            assert omissions_of_call(repeated, key) == omissions_of_call(stage, key), "whatever the tokenizer counts"


# The claim


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(seed=st.integers(0, 2**32), window=st.integers(800, 4000), rounds=st.integers(0, 6))
async def test_a_conversation_of_500_turns_never_exceeds_the_window_and_has_the_newest_query(
    seed: int, window: int, rounds: int
) -> None:
    dice = Random(seed)
    history = [LLMMessage(role, role[0] * dice.randrange(900)) for _ in range(500) for role in ("user", "assistant")]
    model = Recorder(*(tool(city=f"c{n}") for n in range(rounds)), final(), window=window)
    stage = Stage(lambda call: Observation("ok", "r" * dice.randrange(20_000)))
    await infer(model, stage, replace(QUIET, history=history))
    for number, request in enumerate(model.requests):
        assert model.tokens(number) <= window - window // 8 + 5
        assert "Where to?" in [message.content for message in request.messages]
        assert request.messages[0].role == "user"


# What a prompt leaves out


def omissions(stage: Stage, number: int = -1) -> list[tuple[str, str, str]]:
    omitted = stage.of(ContextPrepared)[number].omitted
    return [(each.kind, each.ref, each.reason) for each in omitted.items]


def omissions_of_call(stage: Stage, call_id: str) -> list[tuple[str, str, str]]:
    """The omissions of the last prompt that was sent with this id."""
    prepared, found = 0, 0
    for _, payload in stage.reports:
        prepared += isinstance(payload, ContextPrepared)
        if isinstance(payload, LlmCallStarted) and payload.call_id == call_id:
            found = prepared
    assert found
    return omissions(stage, found - 1)


async def test_the_newest_removed_turns_are_listed_and_all_of_them_are_counted() -> None:
    history = talk(40)
    model, stage = Recorder(final(), window=1200), Stage()
    await infer(model, stage, replace(QUIET, history=history))
    left = len(model.texts()[:-1]) // 2
    firsts = [message.id for message in history[::2]]
    assert omissions(stage) == [("turn", ref, "context_window") for ref in firsts[20 - left : 40 - left]]
    (prepared,) = stage.of(ContextPrepared)
    assert prepared.omitted.count == 40 - left
    assert sum(each.tokens for each in prepared.omitted.items) == 20 * 2 * (100 // 4)


async def test_a_prompt_that_is_complete_leaves_nothing_out() -> None:
    stage = Stage()
    await infer(Recorder(tool(city="Oia"), final(), window=100_000), stage, replace(QUIET, history=talk(3)))
    assert [each.omitted for each in stage.of(ContextPrepared)] == [OmittedItems()] * 2


@both_modes
async def test_a_shortened_result_is_named_by_the_id_of_its_call_with_the_tokens_that_are_left_out(
    native: bool,
) -> None:
    policy = ContextPolicy(tool_result_max_chars=1000)
    stage = answered("x" * 5000)
    await infer(Recorder(tool(city="Oia"), final(), native=native), stage, replace(QUIET, context_policy=policy))
    (call_id,) = (call.call_id for calls in stage.acts for call in calls)
    assert (omissions(stage, 0), omissions(stage, 1)) == ([], [("tool_result", call_id, "too_large")])
    (done,) = stage.of(ContextCompacted)
    (left_out,) = stage.of(ContextPrepared)[1].omitted.items
    read_tool = [item.tokens for item in stage.of(ContextPrepared)[1].manifest.context_items if "artifact" in item.name]
    assert left_out.tokens == done.before_tokens - done.after_tokens + sum(read_tool)


async def test_removed_rounds_are_named_by_their_model_calls_and_older_results_by_their_calls() -> None:
    sizes = iter(range(1, 29))
    stage = Stage(lambda call: Observation("ok", "r" * 97 * next(sizes)))
    await infer(Recorder(*(tool(city=f"c{n}") for n in range(28)), final(), window=1600), stage, QUIET)
    found = omissions(stage)
    removed = [ref for kind, ref, _ in found if kind == "step"]
    assert len(removed) > 10
    assert removed == [f"msg/0/{n}" for n in range(int(removed[0].split("/")[2]), int(removed[-1].split("/")[2]) + 1)]
    calls = [call.call_id for calls in stage.acts for call in calls]
    shortened = [ref for kind, ref, _ in found if kind == "tool_result"]
    assert shortened == calls[-len(shortened) :]
    assert stage.of(ContextPrepared)[-1].omitted.count == int(removed[-1].split("/")[2]) + len(shortened)


async def test_at_most_100_omissions_are_listed_the_newest_ones() -> None:
    calls = [tool(city=f"c{n}") for n in range(120)]
    stage = answered("x" * 400)
    policy = ContextPolicy(tool_result_max_chars=300)
    await infer(Recorder(calls, final()), stage, replace(QUIET, context_policy=policy))
    omitted = stage.of(ContextPrepared)[-1].omitted
    refs = [call.call_id for calls in stage.acts for call in calls]
    assert [each.ref for each in omitted.items] == refs[20:]
    assert omitted.count == 120


async def test_the_cut_part_of_an_invalid_answer_is_left_out() -> None:
    stage = Stage()
    await infer(Recorder("z" * 8000, final(), native=False), stage, replace(QUIET, tools=()))
    assert omissions(stage) == [] if len(stage.of(ContextPrepared)) == 1 else [("message", "msg/0/1", "too_large")]


async def test_what_the_input_leaves_out_comes_between_the_history_and_the_rounds() -> None:
    given = OmittedContext("artifact", "report", "unsupported")
    stage = answered("x" * 5000)
    policy = ContextPolicy(max_tokens=1400, reserve_tokens=0, tool_result_max_chars=1000)
    request = replace(QUIET, history=talk(40), context_policy=policy, omitted=[given])
    await infer(Recorder(tool(city="Oia"), final()), stage, request)
    kinds = [kind for kind, _, _ in omissions(stage)]
    assert kinds[-2:] == ["artifact", "tool_result"]
    assert set(kinds[:-2]) == {"turn"}
