"""Evaluations: samples as tasks, failures of agents, continuation, and the report."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import (
    Agent,
    EvaluationCase,
    EvaluationReport,
    EvaluationSample,
    InvalidArgumentError,
    Limits,
    MockLLM,
    SQLiteRunStore,
    SQLiteStore,
    Task,
    evaluate,
    exact_match,
    tool_used,
)
from protolink_grpc.evaluation import contains, judge


class Shouter(Agent):
    """Answers in capitals, and counts its runs."""

    runs = 0
    most = 0
    active = 0

    async def handle_task(self, task: Task) -> Task:
        self.runs += 1
        self.active += 1
        self.most = max(self.most, self.active)
        await asyncio.sleep(0)
        self.active -= 1
        text = task.messages[0].text
        if text == "fail":
            return task.fail("out of order")
        if text == "ask":
            return task.require_input("which one?")
        if text == "hang":
            await asyncio.Event().wait()
        return task.complete(text.upper())


CASES = [EvaluationCase("a", "A", "good"), EvaluationCase("b", "x", "low"), EvaluationCase("fail", "x", "bad")]


async def test_each_sample_is_a_task_and_failed_tasks_are_not_low_scores() -> None:
    agent = Shouter("shouter")
    report = await evaluate(agent, CASES, samples=2)
    assert agent.runs == 6
    assert [(each.case_id, each.number, each.passed, each.agent_failed) for each in report.samples] == [
        ("good", 1, True, False),
        ("good", 2, True, False),
        ("low", 1, False, False),
        ("low", 2, False, False),
        ("bad", 1, False, True),
        ("bad", 2, False, True),
    ]
    assert len({each.task_id for each in report.samples}) == 6
    assert report.samples[4].reason == "out of order"
    assert report.samples[4].scores == []
    assert (report.is_complete, report.passed, report.agent_failed, round(report.pass_rate, 2)) == (True, 2, 2, 0.33)
    (scorer,) = report.scorer_results
    assert (scorer.passed, scorer.samples, scorer.mean) == (2, 6, 0.5)
    assert [(each.passed, each.scored_low, each.agent_failed) for each in report.case_results] == [
        (2, 0, 0),
        (0, 2, 0),
        (0, 0, 2),
    ]


async def test_no_more_samples_run_at_the_same_time_than_allowed() -> None:
    agent = Shouter("shouter")
    await evaluate(agent, [EvaluationCase(str(each), "x") for each in range(10)], concurrency=3)
    assert (agent.runs, agent.most) == (10, 3)


async def test_a_sample_that_a_busy_agent_refuses_is_sent_again() -> None:
    agent = Shouter("shouter", limits=Limits(max_concurrency=1, max_queue=1))
    report = await evaluate(agent, [EvaluationCase(str(each), str(each)) for each in range(6)], concurrency=6)
    assert report.passed == 6


async def test_a_question_to_the_caller_is_an_output() -> None:
    report = await evaluate(Shouter("shouter"), [EvaluationCase("ask", "which")], scorers=[contains])
    assert (report.samples[0].state, report.samples[0].passed) == ("input-required", True)


async def test_scorers_see_task_and_report_and_the_evaluation_adds_up_usage() -> None:
    agent = Agent("adder", llm=MockLLM(response_callback=lambda text: "It is 3." if text == "3" else ADD))

    @agent.tool
    def add(a: int, b: int) -> int:
        return a + b

    seen: list[tuple[str, int]] = []

    def look(sample: EvaluationSample) -> bool:
        assert sample.task is not None
        assert sample.report is not None
        seen.append((sample.task.id, len(sample.report.actions)))
        return True

    grade = MockLLM(default_response={"type": "final", "content": '{"reason": "ok", "score": 1}'})
    scorers = [exact_match, tool_used("add", {"a": 1}), look, judge(grade, "It is right.")]
    report = await evaluate(agent, [EvaluationCase("1 + 2", "It is 3.")], scorers=scorers, samples=2)
    assert [sample.passed for sample in report.samples] == [True, True]
    assert sorted(seen) == sorted((sample.task_id, 1) for sample in report.samples)
    assert report.samples[0].task is None
    assert report.samples[0].run_id
    assert (report.usage.llm_calls, report.usage.tool_calls) == (4, 2)
    assert report.scorer_usage.llm_calls == 2


async def test_costs_of_agents_and_judges_are_added_up_apart() -> None:
    model, grade = MockLLM(), MockLLM(default_response={"type": "final", "content": '{"reason": "ok", "score": 1}'})
    for each in (model, grade):
        each.configure_metrics(input_cost_per_million=1000.0, output_cost_per_million=1000.0)
    report = await evaluate(Agent("priced", llm=model), [EvaluationCase("a")], scorers=[judge(grade, "x")], samples=3)
    (cost,) = report.usage.costs
    assert cost.currency == "USD"
    assert cost.micros == sum(sample.usage.costs[0].micros for sample in report.samples if sample.usage)
    assert report.scorer_usage.costs[0].micros > cost.micros
    assert f"Cost: {cost}" in report.format().splitlines()
    assert f"Cost of scorers: {report.scorer_usage.costs[0]}" in report.format().splitlines()


ADD = {"type": "tool_call", "tool": "add", "args": {"a": 1, "b": 2}}


async def test_a_scorer_that_raises_is_a_scored_error_and_does_not_end_the_evaluation() -> None:
    def broken(sample: EvaluationSample) -> bool:
        raise RuntimeError("no")

    report = await evaluate(Shouter("shouter"), CASES, scorers=[exact_match, broken])
    assert [len(sample.scores) for sample in report.samples] == [2, 2, 0]
    assert [(each.name, each.errors, each.mean) for each in report.scorer_results] == [
        ("exact_match", 0, 0.5),
        ("broken", 2, None),
    ]


async def test_a_sample_over_its_time_limit_is_canceled_and_counts_as_a_failure_of_the_agent() -> None:
    agent = Shouter("shouter")
    report = await evaluate(agent, [EvaluationCase("hang", "x")], timeout_s=0.05)
    (sample,) = report.samples
    assert (sample.state, sample.reason) == ("canceled", "the task took longer than 0.05 s")
    assert (await agent.get_task(sample.task_id)).cancel_reason == "the evaluation's time limit"
    assert report.is_complete


async def test_the_store_has_the_log_of_each_sample(tmp_path: Path) -> None:
    agent = Shouter("shouter")
    report = await evaluate(agent, CASES, store=tmp_path / "tasks.db")
    await agent.aclose()
    assert report.store == str(tmp_path / "tasks.db")
    stored = SQLiteRunStore(tmp_path / "tasks.db")
    for sample in report.samples:
        found = stored.get_report(sample.run_id)
        assert found is not None
        assert found.task_id == sample.task_id


async def test_a_report_is_saved_and_loaded(tmp_path: Path) -> None:
    report = await evaluate(Shouter("shouter"), CASES)
    report.save(tmp_path / "report.json")
    loaded = EvaluationReport.load(tmp_path / "report.json")
    assert loaded == report
    assert loaded.samples[0].case == CASES[0]
    assert json.loads((tmp_path / "report.json").read_text())["totals"]["pass_rate"] == report.pass_rate
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"version": "2"}, "report.json: version: must be '1', not '2'"),
        ({"samples": [{"case_id": "none"}]}, r"report.json: samples\[0\].case_id: is not the id of a case"),
        ({"samples": [{"case_id": 5}]}, r"report.json: samples\[0\].case_id: must be a string"),
        ({"samples_per_case": -1}, "report.json: samples_per_case: "),
    ],
)
async def test_a_file_that_is_not_a_report_names_the_field(tmp_path: Path, change: dict[str, Any], error: str) -> None:
    file = tmp_path / "report.json"
    file.write_text(json.dumps(EvaluationReport(CASES).to_dict() | change))
    with pytest.raises(InvalidArgumentError, match=f"^{error}"):
        EvaluationReport.load(file)


async def test_an_interrupted_evaluation_keeps_its_samples_and_is_continued() -> None:
    report, agent = EvaluationReport(), Shouter("shouter")

    def interrupt(sample: EvaluationSample) -> None:
        if len(report.samples) == 3:
            work.cancel()

    work = asyncio.create_task(evaluate(agent, CASES, samples=2, concurrency=1, report=report, on_sample=interrupt))
    with pytest.raises(asyncio.CancelledError):
        await work
    assert (len(report.samples), report.is_complete) == (3, False)
    kept = list(report.samples)
    assert await evaluate(agent, CASES, samples=2, report=report) is report
    assert (len(report.samples), report.is_complete) == (6, True)
    assert all(sample in report.samples for sample in kept)


async def test_an_exception_of_the_callback_ends_the_evaluation() -> None:
    def broken(sample: EvaluationSample) -> None:
        raise LookupError("no")

    report = EvaluationReport()
    with pytest.raises(LookupError):
        await evaluate(Shouter("shouter"), CASES, report=report, concurrency=1, on_sample=broken)
    assert len(report.samples) == 1


async def test_samples_that_the_store_has_are_not_run_again_but_scored_again(tmp_path: Path) -> None:
    first = Shouter("shouter", store=SQLiteStore(tmp_path / "tasks.db"))
    done = await evaluate(first, CASES)
    await first.aclose()
    second = Shouter("shouter", store=SQLiteStore(tmp_path / "tasks.db"))
    again = EvaluationReport(evaluation_id=done.evaluation_id)
    await evaluate(second, CASES, scorers=[contains], report=again)
    await second.aclose()
    assert second.runs == 0
    assert [each.task_id for each in again.samples] == [each.task_id for each in done.samples]
    assert [score.name for score in again.samples[0].scores] == ["contains"]


async def test_a_changed_case_and_other_scorers_are_evaluated_again() -> None:
    agent = Shouter("shouter")
    report = await evaluate(agent, CASES)
    changed = [EvaluationCase("c", "C", "good"), CASES[1]]
    await evaluate(agent, changed, report=report)
    assert agent.runs == 4
    assert [(each.case_id, each.output) for each in report.samples] == [("good", "C"), ("low", "B")]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"cases": []}, "cases: must not be empty"),
        ({"cases": [CASES[0], CASES[0]]}, r"cases\[1\].id: two cases have the id 'good'"),
        ({"samples": 0}, "samples: must be an integer from 1 to 1000"),
        ({"concurrency": 0}, "concurrency: must be an integer from 1 to 256"),
        ({"agent": "runtime://x", "store": "x.db"}, "store: is for agents of this process"),
    ],
)
async def test_a_wrong_argument_is_named(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{error}"):
        await evaluate(**{"agent": Shouter("shouter"), "cases": CASES, **arguments})


async def test_the_store_of_an_agent_in_use_cannot_be_changed(tmp_path: Path) -> None:
    agent = Shouter("shouter")
    await agent.run_task("a")
    with pytest.raises(InvalidArgumentError, match=r"^store: must be set before the agent is used"):
        await evaluate(agent, CASES, store=tmp_path / "tasks.db")


async def test_the_table_fits_80_columns_and_shows_control_characters_as_escapes() -> None:
    def broken(sample: EvaluationSample) -> bool:
        raise RuntimeError("\x1b[31m" + "x" * 200)

    cases = [EvaluationCase("long input " * 20), *CASES]
    lines = (await evaluate(Shouter("shouter"), cases, scorers=[exact_match, broken])).format().splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("\x1b" in line for line in lines)
    assert lines[0].split() == ["CASE", "PASSED", "LOW", "FAILED", "MEAN"]
    assert "Samples: 4: 0 passed, 3 scored too low, 1 failed" in lines
    assert "    failed: out of order" in lines
