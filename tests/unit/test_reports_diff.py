"""Comparisons of runs: what counts as equal, where runs part, what differs."""

import json
from typing import Any

import pytest

from protolink_grpc import Agent, InvalidArgumentError, Message, Pipeline, RunReport, Task, create_llm
from protolink_grpc.models import events as ev
from protolink_grpc.models.action import ContextManifest, OmittedContext, OmittedItems
from protolink_grpc.models.events import RunEvent
from protolink_grpc.reports import (
    ALL_RUN_REPORT_SECTIONS,
    RunReportDifference,
    assert_run_matches,
    diff_run_reports,
)


def adder(*steps: Any) -> Agent:
    agent = Agent(name="adder", llm=create_llm("scripted", steps=list(steps)))

    @agent.tool
    def add(a: int, b: int) -> int:
        return a + b

    return agent


def add(a: int) -> dict[str, Any]:
    return {"type": "tool_call", "tool": "add", "args": {"a": a, "b": 2}}


async def run(agent: Agent, task: Task) -> RunReport:
    return RunReport.from_events([event async for event in agent.run_task_streaming(task)])


async def infer(*steps: Any) -> RunReport:
    return await run(adder(*steps), Task.create_infer("how much?"))


async def test_two_runs_of_the_same_script_are_equal() -> None:
    found = (await infer(add(1), "It is 3.")).diff(await infer(add(1), "It is 3."))
    assert found.matches
    assert (found.differences, found.first, found.format()) == ((), None, "the runs are equal")


async def test_runs_that_delegate_on_free_ports_and_mention_ids_are_equal() -> None:
    async def delegated() -> RunReport:
        worker = Agent(name="worker", llm=create_llm("scripted", steps=["42"]), url="grpc://127.0.0.1:0")

        class Boss(Agent):
            async def handle_task(self, task: Task) -> Task:
                answer = await self.call_agent(worker.card.url, "hello")
                return task.complete(f"{answer.id} of {worker.card.url} and {task.id}")

        async with worker:
            return await run(Boss(name="boss"), Task.create("go"))

    assert_run_matches(await delegated(), await delegated())


async def test_a_run_that_waited_for_a_slot_equals_one_that_did_not_wait() -> None:
    report = await infer(add(1), "It is 3.")
    submitted, *others = report.events
    waited = [submitted, RunEvent(payload=ev.TaskQueued(1, 3)), *others]
    assert report.diff(RunReport.from_events(waited)).matches


async def test_results_of_flows_contain_new_messages_and_artifacts_and_are_equal() -> None:
    async def one(task: Task) -> None:
        task.add_message(Message.agent("1"))

    async def flow() -> RunReport:
        steps = [one, Agent(name="inner", llm=create_llm("scripted", steps=["42"]))]
        return await run(Agent(name="flow", flow=Pipeline(steps)), Task.create("go"))

    assert_run_matches(await flow(), await flow())


async def test_runs_part_at_the_first_event_that_says_something_else() -> None:
    found = (await infer(add(1), "It is 3.")).diff(await infer(add(5), "It is 7."))
    assert found.first is not None
    assert found.first.index == 4
    assert [event.type for event in found.first.before] == ["task.status", "context.prepared", "llm.call.started"]
    assert found.first.baseline[0].type == found.first.candidate[0].type == "llm.call.completed"
    assert found.format().splitlines() == [
        "output: artifact #1 parts[0].content: It is 3. -> It is 7.",
        "arguments: model call #1 arguments[0].a: 1 -> 5",
        "arguments: add #1 arguments.a: 1 -> 5",
        "results: add #1 result: 3 -> 7",
        "model_text: model call #2 text: It is 3. -> It is 7.",
    ]
    assert found.changed_sections == ("output", "arguments", "results", "model_text")


async def test_a_run_that_ends_earlier_parts_where_it_ends() -> None:
    whole = await infer("a")
    part = RunReport.from_events(whole.events[:3])
    found = whole.diff(part)
    assert found.first is not None
    assert (found.first.index, found.first.candidate) == (3, ())
    assert ("model_calls", "model call #1", "removed") in [
        (each.section, each.path, each.kind) for each in found.differences
    ]


async def test_ignored_sections_are_not_compared_in_events_either() -> None:
    first, second = await infer("a"), await infer("some other words")
    assert {"output", "model_text"} == set(first.diff(second, ignore=["usage"]).changed_sections)
    found = first.diff(second, ignore=["model_text", "output", "usage"])
    assert found.matches
    assert found.ignored == ("model_text", "output", "usage")


async def test_events_of_an_ignored_section_may_be_missing() -> None:
    first = await infer(add(1), "It is 3.")
    second = RunReport.from_events([event for event in first.events if event.type != "action.policy"])
    assert not first.diff(second).matches
    assert first.diff(second, ignore=["policy"]).matches


async def test_an_unknown_section_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidArgumentError, match=r"ignore: must be one of state, input, .*, not 'tokens'"):
        RunReport().diff(RunReport(), ignore=["tokens"])


def test_arguments_of_users_are_compared_even_if_they_are_called_ids() -> None:
    def called(customer_id: str) -> list[RunEvent]:
        return [RunEvent(payload=ev.ActionStarted("tool.call", "look", {"customer_id": customer_id, "at": "x"}))]

    (difference,) = diff_run_reports(called("42"), called("43")).differences
    assert difference == RunReportDifference("arguments", "look #1 arguments.customer_id", "changed", "42", "43")


def test_ids_of_omissions_are_chosen_by_providers_and_not_compared() -> None:
    def report(call_id: str, reason: str = "too_large") -> RunReport:
        omitted = OmittedItems((OmittedContext("tool_result", call_id, reason, 9),), 1)
        return RunReport.from_events(
            [RunEvent(payload=ev.ContextPrepared(ContextManifest(), 1, None, omitted), sequence=1)]
        )

    assert report("call_a").diff(report("call_b")).matches
    assert not report("call_a").diff(report("call_a", "context_window")).matches


def test_the_same_facts_in_another_order_are_a_difference() -> None:
    one = RunEvent(payload=ev.TaskErrorReported(ev.Failure("A", "a")))
    two = RunEvent(payload=ev.ActionStarted("tool.call", "look"))
    (difference,) = diff_run_reports([one, two], [two, one]).differences
    assert (difference.section, difference.path) == ("events", "event 1")
    assert (difference.baseline, difference.candidate) == ("task.error", "action.started")


def test_events_of_the_application_are_compared_with_their_summaries() -> None:
    (difference,) = diff_run_reports([RunEvent("a.b", summary="x")], [RunEvent("a.b", summary="y")]).differences
    assert difference.path == "a.b #1 summary"


async def test_the_json_form_has_the_differences_and_the_place() -> None:
    found = (await infer("a")).diff(await infer("b"))
    document = json.loads(json.dumps(found.to_dict()))
    assert (document["matches"], document["first"]["index"]) == (False, 4)
    assert document["changed_sections"] == list(found.changed_sections)
    assert document["differences"][0]["section"] == "output"


async def test_the_assertion_names_the_differences() -> None:
    with pytest.raises(AssertionError, match=r"after 4 equal events:\noutput: .*: a -> b"):
        assert_run_matches(await infer("a"), await infer("b"))


def test_long_texts_are_shown_where_they_differ() -> None:
    text = "the same words " * 50
    shown = str(RunReportDifference("output", "x", "changed", f"{text}one", f"{text}two"))
    assert shown == "x: …ords the same words one -> …ords the same words two"


def test_the_sections_are_those_of_the_type() -> None:
    assert ALL_RUN_REPORT_SECTIONS[0] == "state"
    assert len(set(ALL_RUN_REPORT_SECTIONS)) == len(ALL_RUN_REPORT_SECTIONS)
