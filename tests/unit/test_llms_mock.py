"""MockLLM and ScriptedLLM: rules, and scripts whose answers depend only on the position in the conversation."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.errors import InvalidArgumentError, ModelError, ModelTimeoutError, ModelUnavailableError
from protolink_grpc.llms.mock import MockLLM, ScriptedLLM, place
from protolink_grpc.llms.port import (
    RUNTIME_KEY,
    LanguageModel,
    ModelItem,
    ModelRequest,
    ModelResponse,
    ModelToolCall,
    ModelUsage,
    TextChunk,
)
from protolink_grpc.models.conversation import LLMMessage

LOOKUP = {"type": "tool_call", "tool": "lookup", "args": {"key": "a"}}


def asking(*messages: LLMMessage | str, system: str = "", timeout_s: float | None = None) -> ModelRequest:
    said = [LLMMessage("user", each) if isinstance(each, str) else each for each in messages]
    return ModelRequest(system, said, timeout_s=timeout_s)


async def items(llm: LanguageModel, request: ModelRequest) -> list[ModelItem]:
    return [item async for item in llm.generate(request)]


async def answer(llm: LanguageModel, *messages: LLMMessage | str) -> ModelResponse:
    *chunks, response = await items(llm, asking(*messages))
    assert isinstance(response, ModelResponse)
    assert response.text == "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
    return response


def called(response: ModelResponse) -> list[LLMMessage]:
    """The messages that the loop adds after an answer with tool calls."""
    calls = [{"id": call.call_id, "name": call.name, "arguments": call.arguments} for call in response.tool_calls]
    results = [LLMMessage("tool", "{}", tool_name=call.name, tool_call_id=call.call_id) for call in response.tool_calls]
    return [LLMMessage("assistant", response.text, tool_calls=calls), *results]


# MockLLM


async def test_a_mock_without_rules_streams_its_default_answer_with_usage():
    *chunks, response = await items(MockLLM(default_response="x" * 50), asking("hello, you", system="be kind"))
    assert [len(chunk.text) for chunk in chunks if isinstance(chunk, TextChunk)] == [24, 24, 2]
    # 17 characters of prompt and 50 of answer, four per token, rounded up.
    assert response == ModelResponse("x" * 50, (), ModelUsage(5, 13), "stop", "mock")


async def test_the_first_matching_key_selects_the_answer():
    llm = MockLLM({"weather": "sunny", "hotel": "booked", "weather in Rome": "never reached"}, default_response="what?")
    assert (await answer(llm, "the weather in Rome")).text == "sunny"
    assert (await answer(llm, "a hotel")).text == "booked"
    assert (await answer(llm, "neither")).text == "what?"


async def test_a_rule_matches_only_the_last_text_so_that_tool_calls_are_not_repeated_forever():
    llm = MockLLM({"weather": LOOKUP, "22 degrees": "warm"})
    first = await answer(llm, "the weather")
    assert first.tool_calls == (ModelToolCall("lookup", {"key": "a"}, "call_1_0"),)
    assert first.finish_reason == "tool_calls"
    assert (await answer(llm, "the weather", *called(first)[:1], LLMMessage("tool", "22 degrees"))).text == "warm"


async def test_sequential_responses_come_before_the_rules_and_after_the_callback():
    def callback(prompt: str) -> str | None:
        return "from the callback" if prompt == "call back" else None

    llm = MockLLM({"": "from the rules"}, ["one", "two"], callback)
    said = [(await answer(llm, prompt)).text for prompt in ("a", "call back", "b", "c")]
    assert said == ["one", "from the callback", "two", "from the rules"]


@pytest.mark.parametrize(
    ("action", "call"),
    [
        (LOOKUP, ModelToolCall("lookup", {"key": "a"}, "call_1_0")),
        (
            {"type": "agent_call", "agent": "hotel", "action": "infer", "prompt": "a room"},
            ModelToolCall("delegate_to_agent", {"agent": "hotel", "prompt": "a room"}, "call_1_0"),
        ),
        (
            {"type": "agent_call", "agent": "hotel", "action": "tool_call", "tool": "book", "args": {"n": 1}},
            ModelToolCall("call_agent_tool", {"agent": "hotel", "tool": "book", "args": {"n": 1}}, "call_1_0"),
        ),
        (
            {"type": "tool_call", "tool": "lookup", "args": "{oops"},
            ModelToolCall("lookup", {}, "call_1_0", raw="{oops"),
        ),
        ({"type": "tool_call", "tool": "lookup", "args": [1]}, ModelToolCall("lookup", {}, "call_1_0", raw="[1]")),
    ],
)
async def test_an_action_is_a_native_call_or_json_text(action: dict[str, Any], call: ModelToolCall):
    assert (await answer(MockLLM(default_response=action), "go")).tool_calls == (call,)
    contract = await answer(MockLLM(default_response=action, native_tools=False), "go")
    assert (json.loads(contract.text), contract.tool_calls, contract.finish_reason) == (action, (), "stop")


async def test_a_text_that_is_the_json_of_an_action_is_that_action():
    assert (await answer(MockLLM(default_response=json.dumps(LOOKUP)), "go")).tool_calls[0].name == "lookup"
    assert (await answer(MockLLM(default_response='{"celsius": 22}'), "go")).text == '{"celsius": 22}'


async def test_a_text_under_the_json_contract_is_wrapped_as_final():
    response = await answer(MockLLM(default_response="done", native_tools=False), "go")
    assert json.loads(response.text) == {"type": "final", "content": "done"}


async def test_a_thought_is_the_text_beside_a_call():
    response = await answer(MockLLM(default_response=LOOKUP | {"thought": "let me look"}), "go")
    assert (response.text, len(response.tool_calls)) == ("let me look", 1)


@pytest.mark.parametrize("wrong", [{"type": "dance"}, {}, [], [1], 7, None])
def test_an_invalid_answer_is_refused_when_the_model_is_created(wrong: Any):
    with pytest.raises(InvalidArgumentError):
        MockLLM({"x": wrong})
    with pytest.raises(InvalidArgumentError):
        ScriptedLLM(["fine", wrong])


# ScriptedLLM


async def test_a_script_is_played_by_position():
    llm = ScriptedLLM([LOOKUP, [LOOKUP, LOOKUP], "done"])
    first = await answer(llm, "go")
    second = await answer(llm, "go", *called(first))
    third = await answer(llm, "go", *called(first), *called(second))
    assert [len(response.tool_calls) for response in (first, second, third)] == [1, 2, 0]
    assert third.text == "done"
    ids = [call.call_id for response in (first, second) for call in response.tool_calls]
    assert len(set(ids)) == 3


async def test_another_object_continues_the_script_at_the_same_position():
    steps: Sequence[Any] = [LOOKUP, LOOKUP | {"tool": "other"}, "done"]
    asked = LLMMessage("user", "go")
    first = await answer(ScriptedLLM(steps), asked)
    conversation = (asked, *called(first))
    assert await answer(ScriptedLLM(steps), *conversation) == await answer(ScriptedLLM(steps), *conversation)
    assert (await answer(ScriptedLLM(steps), *conversation)).tool_calls[0].name == "other"


async def test_each_turn_plays_the_script_from_its_beginning():
    llm = ScriptedLLM(["first", "second"])
    assert (await answer(llm, "a", LLMMessage("assistant", "first"), "b")).text == "first"


@pytest.mark.parametrize("kind", ["observation", "correction", "note"])
async def test_messages_of_the_loop_in_the_user_role_do_not_start_a_turn(kind: str):
    llm = ScriptedLLM(["{broken", "second"], native_tools=False)
    told = LLMMessage("user", "that was no JSON", metadata={RUNTIME_KEY: kind})
    assert (await answer(llm, "go")).text == "{broken"
    assert (await answer(llm, "go", LLMMessage("assistant", "{broken"), told)).text == "second"


async def test_failures_before_an_answer_are_raised_once_each_in_every_turn():
    llm = ScriptedLLM([ModelUnavailableError("busy"), ModelTimeoutError("slow"), "at last"])
    for turn in (LLMMessage("user", "a"), LLMMessage("user", "b")):
        with pytest.raises(ModelUnavailableError, match="busy"):
            await answer(llm, turn)
        with pytest.raises(ModelTimeoutError, match="slow"):
            await answer(llm, turn)
        assert (await answer(llm, turn)).text == "at last"


async def test_an_error_without_a_following_answer_is_always_raised():
    llm, turn = ScriptedLLM([ModelUnavailableError("gone")]), LLMMessage("user", "a")
    for _ in range(3):
        with pytest.raises(ModelUnavailableError, match="gone"):
            await answer(llm, turn)


async def test_a_call_after_the_end_of_the_script_is_an_error():
    with pytest.raises(ModelError, match="over after 1 answers") as caught:
        await answer(ScriptedLLM(["only"]), "go", LLMMessage("assistant", "only"))
    assert type(caught.value) is ModelError  # not a retryable type


async def test_a_step_may_be_a_function_or_coroutine_of_the_request():
    async def later(request: ModelRequest) -> ModelResponse:
        return ModelResponse(f"{len(request.messages)} messages", model="own")

    llm = ScriptedLLM([lambda request: request.messages[0].content.upper(), later, lambda _: ModelError("no")])
    assert (await answer(llm, "shout")).text == "SHOUT"
    assert (await answer(llm, "shout", LLMMessage("assistant", "SHOUT"))).model == "own"
    with pytest.raises(ModelError, match="no"):
        await answer(llm, "shout", LLMMessage("assistant", "SHOUT"), LLMMessage("assistant", "2 messages"))


async def test_a_slow_step_is_a_model_timeout_and_its_own_timeout_error_is_raised_unchanged():
    async def never(_: ModelRequest) -> str:
        await asyncio.get_running_loop().create_future()
        return ""

    async def own(_: ModelRequest) -> str:
        raise TimeoutError("mine")

    with pytest.raises(ModelTimeoutError):
        await items(ScriptedLLM([never]), asking("go", timeout_s=0.001))
    with pytest.raises(TimeoutError, match="mine") as caught:
        await items(ScriptedLLM([own]), asking("go", timeout_s=60))
    assert not isinstance(caught.value, ModelTimeoutError)


async def test_recorded_requests_do_not_change_later():
    llm, messages = ScriptedLLM(["one", "two"]), [LLMMessage("user", "go")]
    await items(llm, ModelRequest("be kind", messages))
    messages.append(LLMMessage("assistant", "one"))
    await items(llm, ModelRequest("be kind", messages))
    assert [[message.content for message in request.messages] for request in llm.requests] == [["go"], ["go", "one"]]


async def test_a_text_of_a_script_is_unchanged_even_under_the_json_contract():
    assert (await answer(ScriptedLLM(["no json"], native_tools=False), "go")).text == "no json"


roles = st.sampled_from(["user", "assistant", "tool", "told"])


@given(st.lists(roles, max_size=30))
def test_the_position_is_the_number_of_answers_since_the_last_user_message(said: list[str]):
    messages = [
        LLMMessage("user", metadata={RUNTIME_KEY: "note"}) if role == "told" else LLMMessage(role) for role in said
    ]
    turn, position = place(messages)
    users = [index for index, role in enumerate(said) if role == "user"]
    start = users[-1] if users else -1
    assert position == said[start + 1 :].count("assistant")
    assert turn == (messages[start].id if users else "")


@given(st.text(max_size=200), st.booleans())
def test_the_chunks_add_up_to_the_text(text: str, native: bool):
    async def check() -> None:
        await answer(MockLLM(default_response=text, native_tools=native), "go")

    asyncio.run(check())
