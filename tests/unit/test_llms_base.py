"""A model without an agent: inference, events, conversation, compaction."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from protolink_grpc.errors import BudgetExceededError, InvalidArgumentError, ModelError, ToolFailedError
from protolink_grpc.llms.mock import MockLLM, ScriptedLLM
from protolink_grpc.llms.port import ModelItem, ModelRequest, ModelResponse
from protolink_grpc.llms.profile import LLMModelProfile
from protolink_grpc.models.action import ContextManifest
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunBudget, RunContext
from protolink_grpc.models.conversation import ConversationHistory, HistoryCompactionRequest
from protolink_grpc.tools.tool import Tool

GUIDE = AgentCard("guide", "Knows places", "grpc://guide")


def weather(city: str) -> str:
    """How it is there."""
    return f"sunny in {city}"


def broken() -> None:
    raise RuntimeError("no connection")


def tool(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool_call", "tool": name, "args": args}


class Capture:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    async def __call__(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]


async def test_the_second_event_of_an_inference_contains_its_manifest() -> None:
    llm = MockLLM(default_response="done")
    llm.configure_metrics(LLMModelProfile(context_window=8192))
    capture = Capture()
    budget = RunBudget(max_steps=4, max_llm_calls=2, max_input_tokens=6000)
    context = RunContext(run_id="run_budgeted", budget=budget)
    assert await llm.infer(query="Summarize", tools={}, run_context=context, event_callback=capture) == "done"
    assert capture.types == ["llm_step", "context_prepared", "llm_call_started", "llm_call_completed", "llm_final"]
    manifest = ContextManifest.from_dict(capture.events[1]["manifest"])
    assert (manifest.run_id, manifest.context_window) == ("run_budgeted", 8192)


async def test_metrics_can_be_set_field_by_field() -> None:
    llm = MockLLM()
    llm.configure_metrics(context_window=100)
    llm.configure_metrics(currency="EUR")
    assert (llm.profile.context_window, llm.profile.currency) == (100, "EUR")


@pytest.mark.parametrize("native", [True, False])
async def test_events_of_an_inference_have_protolinks_steps_actions_and_answer(native: bool) -> None:
    delegated = {"type": "agent_call", "agent": "guide", "action": "infer", "prompt": "what?"}
    llm = ScriptedLLM([tool("weather", city="Rome"), delegated, {"type": "final", "content": "Rome."}], native)
    capture = Capture()
    await llm.infer(
        "q", {"weather": weather}, agent_callback=lambda *_: "ok", agent_cards=[GUIDE], event_callback=capture
    )
    step = ["llm_step", "context_prepared", "llm_call_started", "llm_call_completed"]
    act = ["llm_action", "tool_start", "tool_result"]
    assert capture.types == [*step, *act, *step, *act, *step, "llm_final"]
    assert [event["step"] for event in capture.of("llm_step")] == [1, 2, 3]
    assert capture.of("llm_action") == [
        {
            "type": "llm_action",
            "step": 1,
            "content": "",
            "action": "tool_call",
            "payload": {"tool": "weather", "args": {"city": "Rome"}},
        },
        {
            "type": "llm_action",
            "step": 2,
            "content": "",
            "action": "agent_call",
            "payload": {"agent": "guide", "action": "infer", "prompt": "what?"},
        },
    ]
    assert capture.events[-1] == {"type": "llm_final", "step": 3, "content": "Rome."}


@pytest.mark.parametrize("native", [True, False])
async def test_functions_and_tools_are_called_with_checked_arguments(native: bool) -> None:
    llm = ScriptedLLM(
        [tool("sky", city="Rome"), tool("weather", city="Oslo"), {"type": "final", "content": "ok"}], native
    )
    capture = Capture()
    tools = {"sky": weather, "weather": Tool.from_callable(weather)}
    assert await llm.infer("q", tools, event_callback=capture) == "ok"
    assert [event["result"] for event in capture.of("tool_result")] == ["sunny in Rome", "sunny in Oslo"]


async def test_a_tool_under_another_name_than_its_own_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"tools\.sky"):
        await MockLLM().infer("q", {"sky": Tool.from_callable(weather)})


async def test_the_model_gets_the_error_of_a_failed_tool() -> None:
    llm = ScriptedLLM([tool("broken"), "sorry"])
    capture = Capture()
    assert await llm.infer("q", {"broken": broken}, event_callback=capture) == "sorry"
    [event] = capture.of("tool_result")
    assert (event["status"], event["error"]["code"]) == ("failed", ToolFailedError.reason)


async def test_delegation_goes_to_the_callback() -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def ask(agent: str, arguments: dict[str, Any]) -> str:
        asked.append((agent, arguments))
        return "the Forum"

    llm = ScriptedLLM([{"type": "agent_call", "agent": "guide", "action": "infer", "prompt": "what?"}, "ok"])
    await llm.infer("q", agent_callback=ask, agent_cards=[GUIDE])
    assert asked == [("guide", {"action": "infer", "prompt": "what?"})]
    assert llm.requests[1].messages[-1].content == '"the Forum"'


async def test_without_a_callback_no_agents_are_offered() -> None:
    llm = ScriptedLLM(["ok"])
    await llm.infer("q", agent_cards=[GUIDE])
    assert llm.requests[0].tools == ()


async def test_pieces_of_the_answer_come_before_its_end_and_in_order() -> None:
    capture, answer = Capture(), "a long answer " * 20
    await MockLLM(default_response=answer).infer("q", event_callback=capture, streaming=True)
    assert "".join(event["content"] for event in capture.of("llm_chunk")) == answer
    assert capture.types[-2:] == ["llm_call_completed", "llm_final"]


async def test_an_exception_of_a_callback_reaches_the_caller() -> None:
    async def refuse(event: dict[str, Any]) -> None:
        if event["type"] == "llm_chunk":
            raise KeyError("full")

    with pytest.raises(KeyError):
        await MockLLM().infer("q", event_callback=refuse, streaming=True)


async def test_steps_have_a_default_limit() -> None:
    counter = iter(range(100))
    llm = ScriptedLLM([tool("count")] * 20)
    capture = Capture()
    with pytest.raises(BudgetExceededError, match="max_steps"):
        await llm.infer("q", {"count": lambda: next(counter)}, event_callback=capture)
    assert capture.types[-1] == "budget_exceeded"


async def test_tool_calls_are_charged() -> None:
    llm = ScriptedLLM([tool("weather", city="Rome"), "ok"])
    capture = Capture()
    context = RunContext(budget=RunBudget(max_tool_calls=0))
    with pytest.raises(BudgetExceededError):
        await llm.infer("q", {"weather": weather}, run_context=context, event_callback=capture)
    assert not capture.of("tool_start")


async def test_a_canceled_context_ends_the_inference() -> None:
    with pytest.raises(asyncio.CancelledError):
        await MockLLM().infer("q", run_context=RunContext().cancel("enough"))


# The conversation


async def test_successful_turns_are_added_to_the_history_and_failed_ones_are_not() -> None:
    llm = ScriptedLLM(["one"])
    await llm.infer("first")
    with pytest.raises(BudgetExceededError):
        await llm.infer("second", run_context=RunContext(budget=RunBudget(max_llm_calls=0)))
    assert [message.content for message in llm.history] == ["first", "one"]
    await llm.infer("third")
    assert [message.content for message in llm.requests[1].messages] == ["first", "one", "third"]


async def test_a_given_history_is_used_instead_of_the_models_own() -> None:
    llm, history = ScriptedLLM(["one"]), ConversationHistory("Be kind.")
    await llm.infer("first", history=history, instructions="Be brief.")
    assert len(llm.history) == 0
    assert [message.role for message in history] == ["system", "user", "assistant"]
    assert llm.requests[0].system == "Be brief.\n\nBe kind."
    assert [message.role for message in llm.requests[0].messages] == ["user"]


def filled(llm: MockLLM | ScriptedLLM, turns: int = 10) -> None:
    for number in range(turns):
        llm.history.add_user(f"question {number}")


async def test_compaction_by_recent_or_tokens_makes_no_model_call() -> None:
    llm = ScriptedLLM([])
    filled(llm)
    result = await llm.compact_history(max_messages=4)
    assert (result.before_messages, result.after_messages, len(llm.history)) == (10, 4, 4)
    result = await llm.compact_history(HistoryCompactionRequest("tokens"), max_tokens=6)
    assert (result.after_tokens, len(llm.history)) == (6, 2)
    assert llm.requests == []


async def test_a_summary_is_one_call_that_gets_the_conversation_as_data() -> None:
    llm = ScriptedLLM(["They asked ten things."])
    filled(llm)
    result = await llm.compact_history(strategy="summary", preserve_recent=2, summary_max_tokens=99)
    assert (result.summary_created, len(llm.history)) == (True, 3)
    [request] = llm.requests
    assert request.max_output_tokens == 99
    assert "question" not in request.system
    assert '{"role":"user","content":"question 0"}' in request.messages[0].content
    assert "question 9" not in request.messages[0].content
    assert "They asked ten things." in llm.history.messages[0].content


async def test_a_failed_summary_does_not_change_the_history() -> None:
    llm = ScriptedLLM([ModelResponse(" ")])
    filled(llm)
    with pytest.raises(ModelError):
        await llm.compact_history(strategy="summary")
    assert len(llm.history) == 10


async def test_a_short_history_is_not_summarized() -> None:
    llm = ScriptedLLM([])
    filled(llm, 3)
    assert not (await llm.compact_history(strategy="summary", preserve_recent=3)).changed


class Meanwhile(ScriptedLLM):
    """A model that calls a function while it writes a summary."""

    def __init__(self, what: str) -> None:
        super().__init__(["summary"])
        self._what = what

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        if self._what == "said":
            self.history.add_user("news")
        else:
            self.history.reset_to_system("new")
        async for item in super().generate(request):
            yield item


async def test_messages_added_during_a_summary_are_kept() -> None:
    llm = Meanwhile("said")
    filled(llm)
    await llm.compact_history(strategy="summary", preserve_recent=1)
    assert [message.content for message in llm.history][1:] == ["question 9", "news"]


async def test_a_reset_during_a_summary_is_kept() -> None:
    llm = Meanwhile("reset")
    filled(llm)
    assert not (await llm.compact_history(strategy="summary", preserve_recent=1)).changed
    assert [message.content for message in llm.history] == ["new"]


def test_sync_has_blocking_forms_of_the_same_methods() -> None:
    assert MockLLM(default_response="done").sync.infer("q") == "done"
    with pytest.raises(AttributeError, match="sync has no history"):
        _ = MockLLM().sync.history


async def test_sync_refuses_to_block_a_running_loop() -> None:
    with pytest.raises(RuntimeError, match=r"await infer\(\.\.\.\)"):
        MockLLM().sync.infer("q")
