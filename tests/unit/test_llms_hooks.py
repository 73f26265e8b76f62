"""Hooks of an inference: what they get, what they change, what is in the log, and what a repeated attempt takes from it."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from llm_stage import REQUEST, Stage, answers_of, both_modes, final, tool

from protolink_grpc.errors import BudgetExceededError, ContextLimitError, InferParseError
from protolink_grpc.llms.context_policy import ContextPolicy
from protolink_grpc.llms.hooks import AgentHooks, FinalOutput, HookError, InferenceHooks, ModelInput, ToolOutcome
from protolink_grpc.llms.loop import Inference, InferenceRequest, InferenceResult, Observation
from protolink_grpc.llms.mock import ScriptedLLM
from protolink_grpc.llms.port import ModelRequest, ModelResponse, ToolSpec
from protolink_grpc.models.action import OmittedContext, OmittedItems
from protolink_grpc.models.context import RunBudget
from protolink_grpc.models.events import ContextPrepared, LlmStep
from protolink_grpc.models.media import Media
from protolink_grpc.models.summaries import summary_of
from protolink_grpc.policy.budget import BudgetEnforcer
from protolink_grpc.tools.runner import ToolRunner

QUIET = replace(REQUEST, peers=())


@pytest.fixture
async def runner() -> AsyncIterator[ToolRunner]:
    async with ToolRunner(max_workers=2) as opened:
        yield opened


class Hooked:
    """Inferences with hooks."""

    def __init__(self, runner: ToolRunner, **hooks: Any) -> None:
        self.hooks = AgentHooks(**hooks)
        self.runner = runner
        self.stage = Stage()
        self.model = ScriptedLLM([])

    async def run(
        self, script: list[Any], request: InferenceRequest = QUIET, *, native: bool = True
    ) -> InferenceResult:
        self.model = ScriptedLLM(script, native)
        hooks = InferenceHooks(self.hooks, self.runner, request, self.stage)
        return await Inference(self.model, request, self.stage, hooks=hooks).run()

    @property
    def prompts(self) -> list[ModelRequest]:
        return self.model.requests

    @property
    def steps(self) -> list[tuple[str, dict[str, Any]]]:
        """Content and data of the events of hooks."""
        return [(step.content, step.data) for step in self.stage.of(LlmStep) if step.kind == "llm_hook"]


def test_a_hook_that_is_no_function_is_refused_with_its_name() -> None:
    with pytest.raises(TypeError, match="after_tool must be a function"):
        AgentHooks(after_tool="x")  # type: ignore[arg-type]  # the claim


# before_model


async def test_before_model_gets_a_copy_of_the_prompt_and_changes_one_call(runner: ToolRunner) -> None:
    seen: list[ModelInput] = []

    def shout(call: ModelInput) -> ModelRequest | None:
        seen.append(call)
        call.request.messages[0].content = "changed in place"
        if call.step > 1:
            return None
        loud = [replace(each, content=each.content.upper()) for each in call.request.messages]
        return replace(call.request, system="Shout.", messages=loud, temperature=0.5)

    hooked = Hooked(runner, before_model=shout)
    await hooked.run([tool(city="Athens"), final()])
    assert [(each.step, each.call_id, each.agent_name) for each in seen] == [(1, "msg/0/1", "me"), (2, "msg/0/2", "me")]
    first, second = hooked.prompts
    assert (first.system, first.temperature, first.messages[0].content) == ("Shout.", 0.5, "CHANGED IN PLACE")
    assert second.messages[0].content == "Where to?"
    assert "Be kind." in second.system
    assert hooked.steps == [("", {"hook": "before_model", "changed": ["system", "messages", "temperature"]})]
    (step,) = hooked.stage.of(LlmStep)
    assert summary_of(step) == "llm_hook: before_model changed system, messages, temperature"


@both_modes
async def test_a_tool_that_before_model_removes_cannot_be_called_in_that_step(runner: ToolRunner, native: bool) -> None:
    def read_only(call: ModelInput) -> ModelRequest:
        return replace(call.request, tools=[each for each in call.request.tools if each.read_only])

    hooked = Hooked(runner, before_model=read_only)
    await hooked.run([tool("book", days=1), tool(city="Athens"), final()], native=native)
    assert [each.name for acts in hooked.stage.acts for each in acts] == ["weather"]
    assert "not available now" in hooked.prompts[1].messages[-1].content
    if native:
        assert [each.name for each in hooked.prompts[0].tools] == ["weather"]
    else:
        assert "weather" in hooked.prompts[0].system
        assert "book" not in hooked.prompts[0].system
    assert hooked.steps[0][1] == {"hook": "before_model", "changed": ["tools"], "removed_tools": ["book"]}


@both_modes
async def test_messages_that_before_model_removes_are_omissions(runner: ToolRunner, native: bool) -> None:
    def without_results(call: ModelInput) -> ModelRequest:
        return replace(
            call.request, messages=[each for each in call.request.messages if "did weather" not in each.content]
        )

    hooked = Hooked(runner, before_model=without_results)
    await hooked.run([tool(city="Athens"), final()], native=native)
    (call_id,) = (call.call_id for calls in hooked.stage.acts for call in calls)
    first, second = (each.omitted for each in hooked.stage.of(ContextPrepared))
    assert (first, second) == (OmittedItems(), OmittedItems((OmittedContext("message", call_id, "hook"),), 1))


async def test_before_model_cannot_add_a_tool_or_return_something_else(runner: ToolRunner) -> None:
    for changed, problem in (
        (lambda call: replace(call.request, tools=[ToolSpec("rm")]), "before_model added the tool 'rm'"),
        (lambda call: "be kind", "before_model returned a value of type str"),
    ):
        with pytest.raises(HookError, match=problem):
            await Hooked(runner, before_model=changed).run([final()])


async def test_a_prompt_that_before_model_makes_too_long_is_not_sent(runner: ToolRunner) -> None:
    hooked = Hooked(runner, before_model=lambda call: replace(call.request, system="long " * 1000))
    with pytest.raises(ContextLimitError):
        await hooked.run([final()], replace(QUIET, context_policy=ContextPolicy(max_tokens=1000)))
    assert not hooked.prompts


# after_tool


@both_modes
async def test_after_tool_replaces_what_the_model_sees_and_not_the_result(runner: ToolRunner, native: bool) -> None:
    seen: list[ToolOutcome] = []

    async def hide(outcome: ToolOutcome) -> str | None:
        seen.append(outcome)
        return outcome.text.replace("secret", "***") if outcome.action.name == "weather" else None

    hooked = Hooked(runner, after_tool=hide)
    hooked.stage.act_with = lambda call: Observation("ok", f"the secret of {call.name}")
    result = await hooked.run([tool(city="Athens"), tool("book", days=1), final()], native=native)
    assert [each.action.position for each in seen] == ["msg/0/1/0", "msg/0/2/0"]
    assert seen[0].observation.content == "the secret of weather"
    assert seen[0].text == '"the secret of weather"'
    shown = hooked.prompts[-1].messages
    assert "the *** of weather" in shown[2].content
    assert "the secret of book" in shown[4].content
    assert '"the *** of weather"' in [each.content for each in result.messages], "also in the conversation"
    assert hooked.steps == [
        ('"the *** of weather"', {"hook": "after_tool", "tool": "weather", "position": "msg/0/1/0"})
    ]


# before_complete


async def test_before_complete_rejects_an_answer_with_feedback_for_the_model(runner: ToolRunner) -> None:
    def polite(answer: FinalOutput) -> str | None:
        assert answer.query == "Where to?"
        return None if "please" in str(answer.content) else "Say please."

    hooked = Hooked(runner, before_complete=polite)
    result = await hooked.run([final("Go."), final("Go, please.")])
    assert result.content == "Go, please."
    assert result.steps == 2
    assert "before_complete rejected it: Say please." in hooked.prompts[1].messages[-1].content
    assert hooked.steps == [
        ("Say please.", {"hook": "before_complete", "accepted": False}),
        ("", {"hook": "before_complete", "accepted": True}),
    ]
    assert [summary_of(step) for step in hooked.stage.of(LlmStep) if step.kind == "llm_hook"] == [
        "llm_hook: before_complete rejected the answer: Say please.",
        "llm_hook: before_complete accepted the answer",
    ]


async def test_rejected_answers_are_limited_as_invalid_ones(runner: ToolRunner) -> None:
    hooked = Hooked(runner, before_complete=lambda answer: "no")
    with pytest.raises(InferParseError, match="before_complete rejected it: no"):
        await hooked.run([final()] * 9)
    assert len(hooked.prompts) == 3


async def test_before_complete_gets_the_value_of_an_answer_with_a_schema(runner: ToolRunner) -> None:
    seen: list[Any] = []
    hooked = Hooked(runner, before_complete=lambda answer: seen.append(answer.content))
    await hooked.run([final('{"a": 1}')], replace(QUIET, output_schema={"type": "object"}))
    assert seen == [{"a": 1}]


async def test_hooks_cannot_change_a_call_its_result_or_an_answer_in_place(runner: ToolRunner) -> None:
    def after_tool(outcome: ToolOutcome) -> None:
        outcome.action.arguments["city"] = "elsewhere"
        outcome.observation.content["found"] = "nothing"

    def before_complete(answer: FinalOutput) -> None:
        answer.content["a"] = 2

    hooked = Hooked(runner, after_tool=after_tool, before_complete=before_complete)
    content = {"found": "all"}
    hooked.stage = Stage(lambda call: Observation("ok", content))
    script = [tool(city="Athens"), final('{"a": 1}')]
    result = await hooked.run(script, replace(QUIET, output_schema={"type": "object"}))
    assert result.content == {"a": 1}
    assert content == {"found": "all"}
    assert result.messages[1].tool_calls[0]["arguments"] == {"city": "Athens"}


@both_modes
async def test_before_complete_judges_files_and_the_model_sees_those_that_it_rejects(
    runner: ToolRunner, native: bool
) -> None:
    images = [Media("image/png", name.encode(), name=name) for name in ("red.png", "blue.png")]

    def blue(answer: FinalOutput) -> str | None:
        return None if answer.files[0].name == "blue.png" else "Draw it in blue."

    hooked = Hooked(runner, before_complete=blue)
    result = await hooked.run([ModelResponse(files=(each,)) for each in images], native=native)
    assert result.messages[-1].media == (images[1],)
    rejected = hooked.prompts[1].messages[-2]
    assert (rejected.role, rejected.media) == ("assistant", (images[0],))


# Failures


@pytest.mark.parametrize("name", ["before_model", "after_tool", "before_complete"])
async def test_a_hook_that_raises_ends_the_inference_and_is_named(runner: ToolRunner, name: str) -> None:
    def fail(value: object) -> None:
        raise KeyError("x")

    with pytest.raises(HookError, match=f"{name} failed: KeyError: 'x'"):
        await Hooked(runner, **{name: fail}).run([tool(city="Athens"), final()])


async def test_a_hook_that_does_not_return_is_ended_with_the_time_of_the_run(runner: ToolRunner) -> None:
    never, blocked = asyncio.Event(), threading.Event()

    async def wait(value: object) -> None:
        await never.wait()

    def block(value: object) -> None:
        blocked.wait()

    try:
        for hook in (wait, block):
            hooked = Hooked(runner, before_model=hook)
            hooked.stage.budget = BudgetEnforcer(RunBudget(max_runtime_seconds=0.05))
            with pytest.raises(BudgetExceededError):
                await hooked.run([final()])
            assert "budget.exceeded" in hooked.stage.names
    finally:
        blocked.set()


# Repeated attempts


@both_modes
async def test_a_repeated_attempt_takes_the_decisions_of_hooks_from_the_log(runner: ToolRunner, native: bool) -> None:
    """Also if the hooks would decide something else now."""

    def no_book(call: ModelInput) -> ModelRequest:
        return replace(call.request, tools=[each for each in call.request.tools if each.name != "book"])

    first = Hooked(
        runner,
        before_model=no_book,
        after_tool=lambda outcome: "first" if outcome.action.arguments == {"city": "a"} else None,
        before_complete=lambda answer: "Be polite." if answer.step == 4 else None,
    )
    script = [tool("book", days=1), tool(city="a"), tool(city="b"), final("no"), final("yes")]
    await first.run(script, native=native)
    again = Hooked(runner, after_tool=lambda outcome: "second")
    known = [f"msg/0/{n}" for n in range(1, 5)]
    again.stage.answers = {key: answer for key, answer in answers_of(first.stage).items() if key in known}
    again.stage.decisions = {
        key: event for key, event in first.stage.decisions.items() if key.rpartition("/")[0] != "msg/0/5"
    }
    await again.run(script, native=native)
    (prompt,) = again.prompts
    assert [each.content for each in prompt.messages] == [each.content for each in first.prompts[-1].messages]
    assert again.stage.positions == ["msg/0/2/0", "msg/0/3/0"], "a tool that was not offered is not called later"
    assert not again.steps


@pytest.mark.parametrize("hooks", [{"before_model": lambda call: None}, {}], ids=["another hook", "no hook"])
async def test_a_call_that_is_made_again_has_the_tools_that_are_offered_now(
    runner: ToolRunner, hooks: dict[str, Any]
) -> None:
    without = Hooked(runner, before_model=lambda call: replace(call.request, tools=call.request.tools[:1]))
    script = [tool("book", days=1), final()]
    await without.run(script)
    again = Hooked(runner, **hooks)
    again.stage.decisions = {key: event for key, event in without.stage.decisions.items() if key.startswith("msg/0/1/")}
    await again.run(script)
    assert again.stage.positions == ["msg/0/1/0"]
    assert again.steps == [("", {"hook": "before_model", "changed": []})]
    third = Hooked(runner)
    third.stage.decisions, third.stage.answers = again.stage.decisions, answers_of(again.stage)
    await third.run(script)
    assert third.stage.positions == ["msg/0/1/0"], "the decision that counts is the latest"
