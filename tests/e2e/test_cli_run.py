"""`run list`, `run report`, `run replay` and `run diff`: of an agent, of a store's file, of a file that was written before."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cli_world import Done, plgrpc

from protolink_grpc import Agent, AgentCard, AgentClient, Message, SQLiteStore, Task, current_run
from protolink_grpc.cli.app import main
from protolink_grpc.models import (
    ApprovalDecision,
    ApprovalRequest,
    BudgetDecision,
    BudgetEffect,
    BudgetUsage,
    PolicyDecision,
    PolicyEffect,
    RunAction,
)
from protolink_grpc.models import events as ev
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.report import RunReport
from protolink_grpc.reports import RunReplay
from protolink_grpc.telemetry import LocalTraceTelemetry

ARGUMENTS = {"arguments": {"nights": 2, "password": "hunter2"}}


class Planner(Agent):
    """Records what a run with a model, a tool and an approval records, and tries to write to the reader's terminal."""

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        run = current_run()
        assert run is not None
        call, action = f"c{run.attempt}", RunAction("tool.call", "book", ARGUMENTS, action_id=f"a{run.attempt}")
        yield ev.LlmCallStarted(call, "mock", "m", 1, 1)
        yield ev.LlmCallCompleted(call, "mock", "m", 1, "", 12, None, None, duration_micros=2500, finish_reason="stop")
        envelope: Any = {"action_id": action.action_id}
        yield RunEvent(payload=ev.ActionRequested(action), summary="book a \x1b[31mroom", **envelope)
        decision = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "it costs")
        request = ApprovalRequest(action, decision, run.run_id, f"q-{run.run_id}", task_id=task.id)
        yield RunEvent(payload=ev.ApprovalRequired(request), summary="approve?", **envelope)
        await run.flush()
        yield ev.ApprovalDecided(ApprovalDecision(False, request.request_id, "too dear", "ada"))
        ended = ev.ActionEnded("tool.call", "book", error={"message": "denied"}, outcome="denied")
        yield RunEvent(payload=ended, **envelope)
        yield ev.BudgetReported(BudgetDecision(BudgetEffect.WARN, "max_steps", 4, 5, usage=BudgetUsage(4)))
        if len(task.messages) == 1:
            task.require_input(Message.agent("which city?"))
        else:
            task.complete("booked nothing")


@dataclass
class World:
    """An agent that has run a task in two turns, and the file that it keeps it in."""

    url: str
    store: str
    task: Task
    runs: list[str]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    path = tmp_path_factory.mktemp("runs") / "tasks.db"
    agent = Planner(AgentCard(name="planner", description="plans", url="grpc://127.0.0.1:0"), store=SQLiteStore(path))
    agent.start(background=True)
    try:
        client = AgentClient(url=agent.card.url).sync
        task = client.send_task(None, Task.create("a room"))
        first = client.get_run_report(None, task.id).run_id
        task = client.send_task(None, task.add_message(Message.user("Lyon")))
        yield World(agent.card.url, str(path), task, [first, client.get_run_report(None, task.id).run_id])
    finally:
        agent.stop()


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """`plgrpc run ...` in this process: a fresh one for each of these takes a second."""

    def run(*arguments: str) -> Done:
        code = main(["run", *arguments])
        return Done(code, *capsys.readouterr())

    return run


# -- list ----------------------------------------------------------------------------------------------------------------


def test_runs_are_listed_of_an_agent_and_of_its_file(cli: Callable[..., Done], world: World) -> None:
    for where in ([world.url], ["--store", world.store]):
        done = cli("list", *where)
        assert (done.code, done.err) == (0, "")
        heads, row = done.out.splitlines()
        assert heads.split()[:3] == ["TASK", "STATE", "UPDATED"]
        assert row.split()[:2] == [world.task.id, "completed"]
        assert max(len(heads), len(row)) <= 80
        (found,) = cli("list", *where, "-o", "json").document["runs"]
        assert (found["run_id"], found["task_id"], found["state"]) == (world.runs[1], world.task.id, "completed")


def test_a_session_without_runs_is_an_empty_list(cli: Callable[..., Done], world: World) -> None:
    for where in ([world.url], ["--store", world.store]):
        assert cli("list", *where, "--session", "none", "--json").document == {"runs": []}


def test_the_program_itself_lists_runs_and_has_help(world: World) -> None:
    done = plgrpc("run", "list", "--store", world.store)
    assert (done.code, done.err) == (0, "")
    assert world.task.id in done.out
    shown = plgrpc("run", "--help")
    assert all(name in shown.out for name in ("list", "report", "replay", "trace", "diff"))


# -- report --------------------------------------------------------------------------------------------------------------


def test_a_report_shows_what_a_run_did_and_which_facts_are_unknown(cli: Callable[..., Done], world: World) -> None:
    for where in ([world.url, world.task.id], [world.task.id, "--store", world.store]):
        done = cli("report", *where)
        assert (done.code, done.err) == (0, "")
        assert done.fields["Run"] == world.runs[1]
        assert done.fields["State"] == "completed"
        assert done.fields["Tokens"] == "12 in, unknown out, unknown in total"
        assert done.fields["Cost"] == "unknown"
        assert done.fields["Model calls"] == "1, 2.5 ms"
        assert done.fields["Actions"] == "1, 0.0 ms, 1 denied"
        assert "warn max_steps: 4 of 5" in done.out
        assert "too dear" in done.out
        assert "hunter2" not in done.out


def test_a_report_in_json_is_one_document_that_reads_back(cli: Callable[..., Done], world: World) -> None:
    for where in ([world.url, world.task.id], [world.task.id, "--store", world.store]):
        for flag in (["-o", "json"], ["--json"]):
            report = RunReport.from_dict(cli("report", *where, *flag).document)
            assert report.run_id == world.runs[1]
            assert report.approvals[0].state == "denied"


def test_an_earlier_run_is_reported_when_it_is_named(cli: Callable[..., Done], world: World) -> None:
    for where in ([world.url, world.task.id], [world.task.id, "--store", world.store]):
        done = cli("report", *where, "--run-id", world.runs[0])
        assert (done.fields["Run"], done.fields["State"]) == (world.runs[0], "input-required")


def test_a_report_can_be_written_and_replayed(cli: Callable[..., Done], world: World, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    done = cli("report", world.url, world.task.id, "--out", str(path))
    assert (done.code, done.out) == (0, "")
    assert str(path) in done.err
    assert RunReplay(path).report.run_id == world.runs[1]
    shown = cli("replay", str(path))
    assert shown.code == 0
    assert "llm.call.completed" in shown.out
    assert shown.fields["Run"] == world.runs[1]


# -- replay --------------------------------------------------------------------------------------------------------------


def test_a_replay_shows_the_timeline_of_all_runs_and_then_the_totals(cli: Callable[..., Done], world: World) -> None:
    for where in ([world.url, world.task.id], [world.task.id, "--store", world.store]):
        done = cli("replay", *where)
        assert (done.code, done.err) == (0, "")
        lines = done.out.splitlines()
        timeline = lines[: lines.index("")]
        assert timeline[0].startswith("+0.000 s #1 ")
        assert "task.submitted" in timeline[0]
        assert [line.split()[2] for line in timeline] == [f"#{number}" for number in range(1, len(timeline) + 1)]
        assert sum("denied by ada too dear" in line for line in timeline) == 2
        assert sum("12 in, unknown out" in line for line in timeline) == 2
        assert done.fields["State"] == "completed"
        assert "\x1b" not in done.out
        assert "hunter2" not in done.out


def test_a_replay_of_one_run_shows_its_events_only(cli: Callable[..., Done], world: World) -> None:
    for where in ([world.url, world.task.id], [world.task.id, "--store", world.store]):
        done = cli("replay", *where, "--run-id", world.runs[0], "--json")
        events = [json.loads(line) for line in done.out.splitlines()]
        assert {event["run_id"] for event in events} == {world.runs[0]}
        assert events[0]["sequence"] == 1


def test_an_export_in_a_file_can_be_replayed(cli: Callable[..., Done], world: World, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(AgentClient(url=world.url).sync.export_task(None, world.task.id)))
    from_file = cli("replay", str(path), "--json")
    from_agent = cli("replay", world.url, world.task.id, "--json")
    assert from_file.out == from_agent.out != ""


# -- mistakes ------------------------------------------------------------------------------------------------------------


# -- trace ---------------------------------------------------------------------------------------------------------------


def test_a_trace_shows_the_spans_of_all_runs_in_80_columns(cli: Callable[..., Done], world: World) -> None:
    for where in ([world.url, world.task.id], [world.task.id, "--store", world.store]):
        done = cli("trace", *where)
        assert (done.code, done.err) == (0, "")
        lines = done.out.splitlines()
        assert lines[0].startswith("trace ")
        names = ["planner", "  model m", "  tool book", "    approval book"]
        assert [line[:36].rstrip() for line in lines[1:] if "|" in line] == names * 2
        assert all(len(line) <= 80 for line in lines)
        assert "! tool book: denied" in lines
        assert "hunter2" not in done.out


def test_a_trace_of_one_run_in_json_has_a_line_for_each_span(cli: Callable[..., Done], world: World) -> None:
    done = cli("trace", world.url, world.task.id, "--run-id", world.runs[0], "--json")
    spans = [json.loads(line) for line in done.out.splitlines()]
    assert sorted(span["kind"] for span in spans) == ["approval", "llm", "task", "tool"]
    assert {span["input"] for span in spans} == {None}


def test_a_file_of_traces_shows_the_runs_of_several_agents(cli: Callable[..., Done], tmp_path: Path) -> None:
    path = str(tmp_path / "traces.jsonl")
    names = ("desk", "front")
    for name in names:
        agent = Agent(name, telemetry=LocalTraceTelemetry(path=path))
        agent.start(background=True)
        AgentClient(url=agent.card.url).sync.send_task(None, Task.create_tool_call("missing"))
        agent.stop()
    done = cli("trace", path)
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines() if "|" in line] == list(names)


def test_a_trace_of_an_unknown_run_is_an_error(cli: Callable[..., Done], world: World) -> None:
    done = cli("trace", world.url, world.task.id, "--run-id", "none")
    assert (done.code, done.out) == (1, "")
    assert "run none not found" in done.err


# -- diff ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other_task(world: World) -> Task:
    """A task with another input, whose run does the same."""
    client = AgentClient(url=world.url).sync
    task = client.send_task(None, Task.create("a tent"))
    return client.send_task(None, task.add_message(Message.user("Lyon")))


def test_a_run_is_equal_to_itself_wherever_it_is_read(cli: Callable[..., Done], world: World, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text("\n".join(AgentClient(url=world.url).sync.export_task(None, world.task.id)))
    for where in (["--store", world.store], ["--agent", world.url]):
        done = cli("diff", world.task.id, str(file), *where)
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith("The runs are equal: ")


def test_two_runs_are_shown_where_they_part_in_80_columns(
    cli: Callable[..., Done], world: World, other_task: Task
) -> None:
    for where in (["--store", world.store], ["--agent", world.url]):
        done = cli("diff", world.task.id, other_task.id, *where)
        assert (done.code, done.err) == (1, "")
        lines = done.out.splitlines()
        assert max(map(len, lines)) <= 80
        assert lines[3] == "The runs part at their first events:"
        assert lines[4] == "- #1 task.submitted a room"
        assert "+ #1 task.submitted a tent" in lines
        assert lines[-2:] == ["Input:", "  user message #1 parts[0].content: a room -> a tent"]


def test_a_file_that_is_no_report_is_not_an_empty_run(cli: Callable[..., Done], tmp_path: Path) -> None:
    file = tmp_path / "evaluation.json"
    file.write_text('{\n  "version": "1",\n  "samples": []\n}\n')
    done = cli("diff", str(file), str(file))
    assert (done.code, done.out) == (2, "")
    assert "is neither a report nor an export: evaluation.json: must be a report, with `events`" in done.err


def test_ignored_sections_make_runs_equal(cli: Callable[..., Done], world: World, other_task: Task) -> None:
    done = cli(
        "diff", world.task.id, other_task.id, "--store", world.store, "--ignore", "input", "--ignore", "model-text"
    )
    assert done.code == 0
    assert done.out.startswith("The runs are equal apart from input, model-text: ")


def test_a_diff_in_json_is_one_document(cli: Callable[..., Done], world: World, other_task: Task) -> None:
    done = cli("diff", world.task.id, other_task.id, "--store", world.store, "--json")
    assert done.code == 1
    assert done.document["first"]["index"] == 0
    assert done.document["differences"] == [
        {
            "section": "input",
            "path": "user message #1 parts[0].content",
            "kind": "changed",
            "baseline": "a room",
            "candidate": "a tent",
        }
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["missing.json", "missing.json"], "error: file missing.json not found\n"),
        (["no", "task", "--store", "STORE"], "error: STORE has no no\n"),
        (["TASK", "TASK", "--store", "STORE", "--ignore", "tokens"], "error: ignore: must be one of state, input, "),
        (["TASK", "TASK", "--store", "STORE", "--agent", "x"], "error: --agent cannot be combined with --store\n"),
    ],
)
def test_an_error_of_a_diff_is_not_a_difference(
    cli: Callable[..., Done], world: World, arguments: list[str], error: str
) -> None:
    names = {"STORE": world.store, "TASK": world.task.id}
    done = cli("diff", *(names.get(each, each) for each in arguments))
    assert done.code == 2
    assert done.err.startswith(error.replace("STORE", world.store))
    assert "hint: " in done.err


def test_wrong_input_is_reported_with_a_hint_and_an_exit_code(
    cli: Callable[..., Done], world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("protolink_grpc.cli.connect.OUTAGE_S", 0.1)  # one of these cannot be reached
    missing, junk = str(tmp_path / "none.db"), tmp_path / "junk.json"
    junk.write_text("hello")
    for arguments, code, said in (
        (["list"], 2, "an agent or --store is required"),
        (["list", world.url, "--store", world.store], 2, "an agent or --store is required"),
        (["list", "--store", missing], 2, "not found"),
        (["report", world.url], 2, "an agent and a task are required"),
        (["report", world.url, "t", "--store", world.store], 2, "an agent cannot be combined with --store"),
        (["report", world.url, "none"], 1, "not found"),
        (["report", world.url, world.task.id, "--run-id", "none"], 1, "has no run none"),
        (["report", "none", "--store", world.store], 1, "has no none"),
        (["report", world.task.id, "--store", world.store, "--run-id", "none"], 1, "has no run none"),
        (["report", world.url, world.task.id, "--out", str(tmp_path)], 1, "cannot write"),
        (["report", "grpc://127.0.0.1:1", "t"], 3, "not reachable"),
        (["replay", missing], 2, "cannot read"),
        (["replay", str(junk)], 1, "is neither a report nor an export"),
        (["replay", world.url, world.task.id, "--run-id", "none"], 1, "run none not found"),
        (["list", "--store", str(junk)], 1, "not a SQLite database"),
    ):
        done = cli(*arguments)
        assert (done.code, done.out) == (code, ""), arguments
        assert said in done.err, arguments
        assert done.err.startswith("error: "), arguments


def test_a_failure_in_json_is_one_document(cli: Callable[..., Done], world: World) -> None:
    done = cli("report", world.url, "none", "--json")
    assert json.loads(done.err)["error"]["code"] == "TASK_NOT_FOUND"
