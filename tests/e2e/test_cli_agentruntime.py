"""`plgrpc conformance agentruntime`: logs of a real session and of files, as text and as JSON, and wrong input."""

import json
from pathlib import Path

import pytest
from agentruntime_golden import QUIET_SNAPSHOT, SNAPSHOT, golden, text_of
from cli_world import plgrpc

from protolink_grpc import Agent, AgentCard, Task
from protolink_grpc.agentruntime.validator.rule import Level
from protolink_grpc.agentruntime.validator.validation import RULES


class Clerk(Agent):
    async def handle_task(self, task: Task) -> Task:
        text = task.messages[-1].text
        return task.fail("sold out") if text == "fail" else task.complete(f"{text} done")


async def test_the_export_of_a_session_is_valid_and_equals_its_snapshot(tmp_path: Path) -> None:
    agent = Clerk(AgentCard(name="clerk", description="does as told", url="grpc://127.0.0.1:0"))
    agent.start(background=True)
    try:
        url, log, snapshot = agent.card.url, tmp_path / "trip.jsonl", tmp_path / "trip.json"
        for number, text in enumerate(("a hotel", "fail", "a boat")):
            assert plgrpc("session", "submit", url, "trip", text, "--turn-id", f"t{number}", "--follow").code == 0
        log.write_text(plgrpc("session", "export", url, "trip").out)
        for command in ("snapshot", "session"), ("session", "show"):
            snapshot.write_text(plgrpc(*command, url, "trip", "--json").out)
            done = plgrpc("conformance", "agentruntime", str(log), "--snapshots", str(snapshot), "--json")
            assert (done.code, done.err) == (0, "")
            status = {each["rule"]: each["status"] for each in done.document["rules"]}
            assert done.document["valid"] is True
            assert [status[f"R147.{part}"] for part in range(1, 6)] == ["passed"] * 5
        changed = json.loads(snapshot.read_text())
        changed["session"]["turn_count"] = 4
        snapshot.write_text(json.dumps(changed))
        done = plgrpc("conformance", "agentruntime", str(log), "--snapshots", str(snapshot))
        assert done.code == 1
        assert "failed R147.4" in done.out
        assert "number of turns: 3 in the log, 4 in the snapshot" in done.out
    finally:
        agent.stop()


async def test_a_log_is_compared_with_snapshots_of_a_thread_a_queue_and_a_task(tmp_path: Path) -> None:
    agent = Clerk(AgentCard(name="clerk", description="does as told", url="grpc://127.0.0.1:0"))
    agent.start(background=True)
    try:
        url, log = agent.card.url, tmp_path / "trip.jsonl"
        for number, text in enumerate(("a hotel", "fail")):
            assert plgrpc("session", "submit", url, "trip", text, "--turn-id", f"t{number}", "--follow").code == 0
        log.write_text(plgrpc("session", "export", url, "trip").out)
        task_id = next(each["taskId"] for each in map(json.loads, log.read_text().splitlines()) if "taskId" in each)
        commands = {
            "thread.json": ("snapshot", "thread", url, "trip"),
            "queue.json": ("snapshot", "queue", url, "trip"),
            "task.json": ("task", "show", url, task_id),
        }
        options = []
        for name, command in commands.items():
            (tmp_path / name).write_text(plgrpc(*command, "--json").out)
            options += ["--snapshots", name]
        done = plgrpc("conformance", "agentruntime", "trip.jsonl", *options, "--json", cwd=tmp_path)
        assert (done.code, done.err) == (0, "")
        status = {each["rule"]: each["status"] for each in done.document["rules"]}
        for rule in ("R010", "R022", "R060", "R063.1", "R063.2", "R064", "R147.3", "R147.6", "R147.8"):
            assert status[rule] == "passed", rule
        changed = json.loads((tmp_path / "task.json").read_text())
        changed["attempts"], changed["attempt_count"] = [], 0
        (tmp_path / "task.json").write_text(json.dumps(changed))
        done = plgrpc("conformance", "agentruntime", "trip.jsonl", *options, cwd=tmp_path)
        assert (done.code, done.err) == (1, "")
        assert "\n  snapshot task.json:\n    task " in done.out
        assert f"task {task_id}: 1 attempts in the log, 0 in the snapshot" in " ".join(done.out.split())
    finally:
        agent.stop()


def test_a_violation_has_its_rule_line_and_event_within_80_columns(tmp_path: Path) -> None:
    log = golden()
    place = next(index for index, each in enumerate(log) if each["type"] == "tool.result")
    del log[place]
    (tmp_path / "log.jsonl").write_bytes(text_of(log))
    done = plgrpc("conformance", "agentruntime", "log.jsonl", cwd=tmp_path)
    assert (done.code, done.err) == (1, "")
    assert "failed R088.4 A tool call has ended when its turn ends. (TC:26)\n" in done.out
    line = next(index for index, each in enumerate(log) if each["type"] == "turn.completed") + 1
    assert f"  line {line}, event e{line - 1}:\n    tool call c1 of line " in done.out
    assert "Not checkable without a snapshot:\n  R010 R011 R022 R048.6" in done.out
    assert "further rules of the contract are not judged" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_a_log_is_read_from_standard_input(tmp_path: Path) -> None:
    for name, snapshot in (("snapshot.json", SNAPSHOT), ("quiet.json", QUIET_SNAPSHOT)):
        (tmp_path / name).write_text(json.dumps(snapshot))
    arguments = ("conformance", "agentruntime", "-", "--snapshots", "snapshot.json", "--snapshots", "quiet.json")
    done = plgrpc(*arguments, stdin=text_of(golden()).decode(), cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "Log: standard input\n" in done.out
    count = sum(each.level is Level.CORE for each in RULES)
    assert f"Rules: {count}: {count} passed, 0 failed, 0 not exercised, 0 not checkable" in done.out


def test_a_snapshot_of_another_session_is_not_compared_and_named(tmp_path: Path) -> None:
    (tmp_path / "snapshot.json").write_text(json.dumps(SNAPSHOT))
    (tmp_path / "other.json").write_text(json.dumps({**SNAPSHOT, "sessionId": "other"}))
    options = ("--snapshots", "snapshot.json", "--snapshots", "other.json")
    done = plgrpc("conformance", "agentruntime", "-", *options, stdin=text_of(golden()).decode(), cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    needs = "the events of session other from its session.created on"
    assert f"Snapshots not compared without {needs}: other.json" in " ".join(done.out.split())
    assert max(map(len, done.out.splitlines())) <= 80
    done = plgrpc(
        "conformance", "agentruntime", "-", *options, "--json", stdin=text_of(golden()).decode(), cwd=tmp_path
    )
    assert done.document["notCompared"] == [{"snapshot": "other.json", "needs": needs}]


def test_the_level_of_the_profile_names_what_it_waives(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(text_of(golden()))
    done = plgrpc("conformance", "agentruntime", "log.jsonl", "--level", "lime", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "Level: lime\n" in done.out
    waived = done.out.partition("\nWaived, because of defects of the profile's schema:\n")[2]
    assert "  R175.5 1 event. D06: an inventory belongs to no tool call\n" in waived
    assert max(map(len, done.out.splitlines())) <= 80
    found = plgrpc("conformance", "agentruntime", "log.jsonl", "--level", "lime", "--json", cwd=tmp_path).document
    assert (found["level"], found["counts"]["waived"]) == ("lime", 2)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot read log: No such file or directory"),
        ("folder", "cannot read log: Is a directory"),
        (b"", "log is not an event log: the file has no events"),
        (b'{"type": "a.b"}\n[]\n', "log is not an event log: line 2: must be an object, not an array"),
        (b'{"type": "a.b', "log is not an event log: line 1: not JSON: Unterminated string at column 10"),
        (b"\x00\xff\x7fELF", "log is not an event log: line 1: not UTF-8 text"),
    ],
)
def test_a_file_that_is_not_a_log_is_a_usage_error(tmp_path: Path, content: bytes | str | None, problem: str) -> None:
    if content == "folder":
        (tmp_path / "log").mkdir()
    elif isinstance(content, bytes):
        (tmp_path / "log").write_bytes(content)
    done = plgrpc("conformance", "agentruntime", "log", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {problem}\nhint: ")


@pytest.mark.parametrize("text", ["{", "[]", '{"session": {}}', "\ud800"])
def test_a_file_that_is_not_a_snapshot_is_a_usage_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "snapshot.json").write_text(text, errors="surrogatepass")
    (tmp_path / "log.jsonl").write_bytes(text_of(golden()))
    done = plgrpc("conformance", "agentruntime", "log.jsonl", "--snapshots", "snapshot.json", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: snapshot.json is not a snapshot: ")
    done = plgrpc("conformance", "agentruntime", "log.jsonl", "--snapshots", "none", cwd=tmp_path)
    assert done.code == 2
    assert done.err.startswith("error: cannot read none: No such file or directory\nhint: --snapshots takes ")
