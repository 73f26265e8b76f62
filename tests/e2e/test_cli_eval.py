"""`plgrpc eval`: against a module and a running agent, its exit codes, an interruption, and kill -9."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_world import COMMAND, END_S, Done, environment, first_document, plgrpc, running

from protolink_grpc import EvaluationReport, SQLiteRunStore

SHOP = """
import asyncio, os, pathlib
from protolink_grpc import Agent, EvaluationSample, Task

class Shop(Agent):
    async def handle_task(self, task: Task) -> Task:
        text = task.messages[0].text
        with open("calls.txt", "a") as calls:
            calls.write(text + "\\\\n")
        if text == "slow" and os.environ.get("WAIT"):
            await asyncio.to_thread(pathlib.Path("begun").write_text, "")  # a pipe: returns when the test reads it
            await asyncio.Event().wait()
        return task.fail("out of stock") if text == "fail" else task.complete(text.upper())

agent = Shop(name="shop", url="grpc://127.0.0.1:0")

def short(sample: EvaluationSample) -> bool:
    return len(sample.output) < 3
"""

CASES: list[dict[str, Any]] = [
    {"id": "good", "input": "a", "expected": "A"},
    {"id": "low", "input": "bbb", "expected": "b"},
    {"id": "bad", "input": "fail", "expected": "b"},
    {"id": "slow", "input": "slow", "expected": "SLOW"},
]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with the module `shop` and the file `cases.jsonl`."""
    (tmp_path / "shop.py").write_text(SHOP.replace("\\\\n", "\\n"))
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, CASES)))
    return tmp_path


def evaluated(shop: Path, *arguments: str, target: str = "shop:agent") -> Done:
    return plgrpc("eval", target, "cases.jsonl", *arguments, cwd=shop)


def calls(shop: Path) -> list[str]:
    return sorted((shop / "calls.txt").read_text().split())


def test_a_module_is_evaluated_and_its_runs_are_in_the_store(shop: Path) -> None:
    done = evaluated(shop, "--store", "tasks.db", "--out", "report.json", "--samples", "2", "--min-pass-rate", "0.5")
    assert (done.code, done.err) == (0, "")
    assert "Samples: 8: 4 passed, 2 scored too low, 2 failed" in done.out
    assert "Log of a task: plgrpc run replay TASK_ID --store tasks.db" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    report = EvaluationReport.load(shop / "report.json")
    (failed, _) = [sample for sample in report.samples if sample.agent_failed]
    replayed = plgrpc("run", "replay", failed.task_id, "--store", "tasks.db", cwd=shop)
    assert "out of stock" in replayed.out
    assert len(SQLiteRunStore(shop / "tasks.db").list_task_records()) == 8


def test_a_running_agent_is_evaluated_over_grpc(shop: Path) -> None:
    with running("serve", "shop:agent", "-o", "json", cwd=shop) as server:
        url = first_document(server)["url"]
        done = evaluated(shop, "--scorer", "exact_match", "--scorer", "shop:short", "-o", "json", target=url)
        assert (done.code, done.err) == (0, "")
        totals = done.document["totals"]
        assert [each["name"] for each in totals["scorers"]] == ["exact_match", "short"]
        assert (totals["passed"], totals["agent_failed"]) == (1, 1)
        sample = done.document["samples"][0]
        assert sample["run_id"]
        replayed = plgrpc("run", "report", url, sample["task_id"])
        assert replayed.fields["State"] == "completed"


def test_a_low_pass_rate_and_a_regression_have_the_exit_code_1(shop: Path) -> None:
    assert evaluated(shop, "--store", "a.db", "--out", "old.json").code == 0
    (shop / "shop.py").write_text((shop / "shop.py").read_text().replace("text.upper()", "text"))
    done = evaluated(shop, "--store", "b.db", "--baseline", "old.json", "--min-pass-rate", "0.5")
    assert done.code == 1
    assert done.err == ("error: the pass rate is 0.00; at least 0.50 is required\nerror: regressions: good, slow\n")
    assert "Compared: 2 regressions, 0 improvements, 2 unchanged" in done.out
    again = evaluated(shop, "--store", "c.db", "--baseline", "old.json", "-o", "json")
    assert [each["case_id"] for each in again.document["comparison"]["regressions"]] == ["good", "slow"]


def test_an_agent_without_a_store_is_noted(shop: Path) -> None:
    done = evaluated(shop)
    assert done.err == "note: the logs of the tasks end with this command; --store FILE keeps them\n"
    assert "Log of a task" not in done.out


@pytest.fixture(params=[signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def interrupted(request: pytest.FixtureRequest, shop: Path) -> Iterator[tuple[signal.Signals, str, str, int]]:
    """An evaluation that was ended while the last sample ran: the signal, output, errors and exit code."""
    os.mkfifo(shop / "begun")
    options = ["--store", "tasks.db", "--out", "report.json", "--concurrency", "1"]
    process = subprocess.Popen(
        [*COMMAND, "eval", "shop:agent", "cases.jsonl", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=shop,
        env=environment({"WAIT": "1"}),
    )
    try:
        (shop / "begun").read_text()
        process.send_signal(request.param)
        out, err = process.communicate(timeout=END_S)
        yield request.param, out, err, process.returncode
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_an_ended_evaluation_is_continued_without_repeating_finished_samples(
    shop: Path, interrupted: tuple[signal.Signals, str, str, int]
) -> None:
    ended_by, out, err, code = interrupted
    if ended_by == signal.SIGINT:
        assert code == 130
        assert "Samples: 3: 1 passed, 1 scored too low, 1 failed, 1 of 4 not finished" in out
        assert "run the same command again to continue with report.json" in err
        assert len(EvaluationReport.load(shop / "report.json").samples) == 3
    done = evaluated(shop, "--store", "tasks.db", "--out", "report.json")
    assert done.code == 0
    assert "note: continuing the evaluation in report.json\n" in done.err
    assert "Samples: 4: 2 passed, 1 scored too low, 1 failed" in done.out
    assert calls(shop) == ["a", "bbb", "fail", "slow", "slow"]
    assert EvaluationReport.load(shop / "report.json").is_complete


def test_a_complete_report_is_replaced_by_a_new_evaluation(shop: Path) -> None:
    options = ["--store", "tasks.db", "--out", "report.json"]
    evaluated(shop, *options)
    first = EvaluationReport.load(shop / "report.json")
    evaluated(shop, *options)
    assert EvaluationReport.load(shop / "report.json").evaluation_id != first.evaluation_id
    assert len(calls(shop)) == 8


def test_a_report_that_is_also_the_baseline_is_replaced_at_the_end(shop: Path) -> None:
    options = ["--store", "tasks.db", "--out", "report.json"]
    evaluated(shop, *options)
    known = (shop / "report.json").read_bytes()
    os.mkfifo(shop / "begun")
    process = subprocess.Popen(
        [*COMMAND, "eval", "shop:agent", "cases.jsonl", *options, "--baseline", "./report.json", "--concurrency", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=shop,
        env=environment({"WAIT": "1"}),
    )
    try:
        (shop / "begun").read_text()
    finally:
        process.kill()
        process.wait(END_S)
    assert (shop / "report.json").read_bytes() == known
    done = evaluated(shop, *options, "--baseline", "report.json")
    assert "note: continuing the evaluation in report.json.unfinished\n" in done.err
    assert EvaluationReport.load(shop / "report.json").is_complete
    assert (shop / "report.json").read_bytes() != known
    assert not (shop / "report.json.unfinished").exists()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--scorer", "best"], "error: unknown scorer 'best'\nhint: use exact_match, contains, json_match, tool_used"),
        (["--scorer", "shop:agent"], "error: shop:agent is not a function\n"),
        (["--baseline", "no.json"], "error: cannot read no.json: No such file or directory\n"),
        (["--baseline", "cases.jsonl"], "error: not a report: cases.jsonl"),
    ],
)
def test_wrong_options_are_usage_errors(shop: Path, arguments: list[str], error: str) -> None:
    done = evaluated(shop, *arguments)
    assert done.code == 2
    assert done.err.startswith(error)


def test_a_module_without_its_agent_is_a_usage_error_with_a_hint(shop: Path) -> None:
    done = evaluated(shop, target="shop.py")
    assert done.code == 2
    assert done.err.endswith("hint: for an Agent of a module, pass MODULE:AGENT, for instance shop:agent\n")


def test_an_invalid_line_of_the_cases_is_named(shop: Path) -> None:
    (shop / "cases.jsonl").write_text('{"input": "a"}\n{"inptu": "b"}\n')
    done = evaluated(shop)
    assert done.code == 2
    assert done.err.startswith("error: cases.jsonl:2: inptu: is not one of input, expected, id, metadata\n")


def test_an_unreachable_agent_ends_the_evaluation_at_its_start(shop: Path) -> None:
    done = plgrpc("eval", "grpc://127.0.0.1:1", "cases.jsonl", cwd=shop, retries=False)
    assert done.code == 3
    assert done.out == ""
