"""The code assistant: the demo as users run it, the permissions of its agents, and crashes."""

import asyncio
import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from demo_terminal import ENVIRONMENT, ROOT, Terminal, children_in, is_gone, openai_messages, warm_demo
from llm_servers import Answer, Asked, openai_calls, openai_chunk, openai_text, openai_tool, serving

from examples.code_assistant import git, script, tester
from examples.code_assistant.checks import COMMAND, MAX_OUTPUT_BYTES, read_result, run_checks
from examples.code_assistant.coder import Coder, unified_diff
from examples.code_assistant.orchestrator import Orchestrator
from examples.code_assistant.planner import planner
from examples.code_assistant.project import FILES, GOAL, create_project
from examples.code_assistant.repository import MAX_FILE_BYTES, TEMPORARY, Repository, version_of
from examples.code_assistant.reviewer import reviewer
from examples.code_assistant.rights import READING, THINKING, WRITE
from examples.code_assistant.script import MESSAGE
from examples.mesh.show import diff_text
from protolink_grpc import (
    Agent,
    AgentChangeKind,
    AgentClient,
    Approval,
    ApprovalState,
    ProtolinkError,
    Registry,
    RegistryClient,
    RunContext,
    SQLiteStore,
    Task,
    TaskState,
    ToolRejectedError,
    create_llm,
)
from protolink_grpc.agent import peer_tasks
from protolink_grpc.llms import ModelRequest, ModelResponse

MODULE = "examples.code_assistant.demo"
DEMO = [sys.executable, "-W", "error", "-m", MODULE]
QUESTION = "May the coder do this? [y/n] "
ANSWERED = [ApprovalState.APPROVED, ApprovalState.DENIED]


def log_of(root: Path) -> list[str]:
    """The messages of the repository's commits, newest first."""
    return git.git(root, "log", "--format=%s").splitlines()


def is_untouched(root: Path) -> bool:
    contents = {path.name: path.read_text() for path in root.iterdir() if path.is_file()}
    return contents == FILES and len(log_of(root)) == 1 and git.git(root, "status", "--porcelain") == ""


def events(out: str, *agents: str) -> list[str]:
    """The lines of these agents, without numbers and durations."""
    found = re.findall(rf"^ *\d+  ({'|'.join(agents)}) +(.*?)(?: \(\d+ ms\))?$", out, re.MULTILINE)
    return [f"{agent} {text}" for agent, text in found]


# -- the demo, as scripts run it -----------------------------------------------------------------------------------------


@dataclass
class Ran:
    """A run of the demo that has ended."""

    directory: Path
    code: int
    out: str
    err: str

    @property
    def root(self) -> Path:
        return self.directory / "project"


def run(directory: Path, *arguments: str, cold: bool = False, **environment: str) -> Ran:
    done = subprocess.run(
        [*(DEMO if cold else warm_demo(MODULE)), "--dir", str(directory), *arguments],
        cwd=directory,
        env=ENVIRONMENT | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Ran(directory, done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run(tmp_path_factory.mktemp("code"), "--yes", cold=True)


def test_the_demo_ends_with_a_commit_that_passes_the_tests(ran: Ran) -> None:
    tests = subprocess.run(COMMAND, cwd=ran.root, capture_output=True, text=True)

    assert (ran.code, ran.err) == (0, ""), ran.out
    assert (tests.returncode, tests.stderr.splitlines()[-1]) == (0, "OK")
    assert log_of(ran.root)[0] == MESSAGE
    assert git.git(ran.root, "diff", "--name-only", "HEAD~1", "HEAD").split() == ["slugs.py"]
    assert git.git(ran.root, "status", "--porcelain") == ""


def test_registry_and_agents_are_six_processes_on_six_ports(ran: Ran) -> None:
    found = re.findall(r"^ +(\w+) +grpc://127\.0\.0\.1:(\d+) \(process (\d+)\)$", ran.out, re.MULTILINE)

    assert [name for name, _, _ in found] == ["registry", "planner", "coder", "tester", "reviewer", "orchestrator"]
    assert len({port for _, port, _ in found}) == len({pid for _, _, pid in found}) == 6


def test_the_first_change_fails_the_checks_and_the_second_one_passes(ran: Ran) -> None:
    three = "test_accents_become_letters, test_punctuation_is_dropped, test_spaces_count_once"

    assert events(ran.out, "tester")[1::2] == [
        f"tester run_checks -> 3 of 4 tests failed: {three}",
        "tester run_checks -> 1 of 4 tests failed: test_accents_become_letters",
        "tester run_checks -> 4 tests passed",
    ]
    assert events(ran.out, "reviewer")[1].startswith("reviewer review -> accepted: ")
    assert ran.out.index("4 tests passed") < ran.out.index("accepted: ") < ran.out.index(f"Preview: {MESSAGE}")


def test_each_change_is_shown_as_a_diff_before_it_is_made(ran: Ran) -> None:
    previews = [match.start() for match in re.finditer(r"^Preview: ", ran.out, re.MULTILINE)]
    done = [match.start() for match in re.finditer(r"coder +(write_file|commit) ->", ran.out)]

    assert len(previews) == len(done) == 3
    assert [place for pair in zip(previews, done, strict=True) for place in pair] == sorted(previews + done)
    assert '-    return title.lower().replace(" ", "-")\n+    return "-".join(' in ran.out


async def test_the_approvals_are_in_the_log_of_the_coder(ran: Ran) -> None:
    store = SQLiteStore(ran.directory / "coder.db")
    async with Agent(name="coder", url="grpc://127.0.0.1:0", store=store) as agent:
        found = (await AgentClient(url=agent.card.url).list_approvals(states=ANSWERED)).approvals

    assert [each.request.action.name for each in found] == ["write_file", "write_file", "commit"]
    assert {each.state for each in found} == {ApprovalState.APPROVED}
    assert "| Approvals   | write_file approved, write_file approved, commit approved |" in ran.out


def test_the_printed_commands_show_the_run_and_the_commit(ran: Ran) -> None:
    report, replay = [shlex.split(line) for line in re.findall(r"^  \S*plgrpc run .*$", ran.out, re.MULTILINE)]
    log = shlex.split(re.findall(r"^Code  (.*)$", ran.out, re.MULTILINE)[0])
    # The paths of the commands are relative to the directory of the demo's process.
    shown = [
        subprocess.run(words, cwd=ran.directory, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
        for words in (report, replay, log)
    ]

    assert [(each.returncode, each.stderr) for each in shown] == [(0, "")] * 3
    assert "completed" in shown[0].stdout
    assert "agent.call 'coder'" in shown[1].stdout
    assert MESSAGE in shown[2].stdout


def test_without_a_terminal_and_without_yes_nothing_is_changed(tmp_path: Path) -> None:
    ran = run(tmp_path)

    assert (ran.code, ran.err) == (1, "")
    assert ran.out.count("Not approved: the input is not a terminal. --yes approves all changes.") == 1
    assert re.search(r"^Not committed: .*the input is not a terminal\.$", ran.out, re.MULTILINE)
    assert "| Approvals   | write_file denied" in ran.out
    assert is_untouched(ran.root)


# -- a person at a terminal ----------------------------------------------------------------------------------------------


async def as_openai(asked: Asked) -> Answer:
    """A server of OpenAI's wire format whose models follow the scripts of the agents."""
    system = asked.body["messages"][0]["content"]
    roles = {"You plan": "planner", "You review": "reviewer", "You change": "orchestrator"}
    role = next(role for words, role in roles.items() if system.startswith(words))
    messages = openai_messages(asked)
    items = script.create_model(role, "script").generate(ModelRequest("", messages))
    answer = [item async for item in items][-1]
    assert isinstance(answer, ModelResponse)
    if not answer.tool_calls:
        return openai_text(answer.text)
    call = answer.tool_calls[0]
    said = openai_chunk({"content": answer.text})
    return openai_calls(said, openai_tool(0, json.dumps(call.arguments), call.call_id, call.name))


async def test_the_same_demo_runs_with_the_models_of_a_provider(tmp_path: Path) -> None:
    async with serving(as_openai) as server:
        keys = {"OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": server.url, "NO_PROXY": "127.0.0.1"}
        ran = await asyncio.to_thread(run, tmp_path, "--yes", "--model", "openai:some-model", **keys)

    assert (ran.code, ran.err) == (0, ""), ran.out
    assert log_of(ran.root)[0] == MESSAGE
    assert {each.body["model"] for each in server.asked} == {"some-model"}
    assert len(server.asked) == 8
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"sk-secret" not in ran.out.encode() + kept


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(warm_demo(MODULE), tmp_path)
    yield opened
    opened.close()


def test_three_answers_at_the_terminal_make_the_commit(terminal: Terminal) -> None:
    for count in (1, 2, 3):
        terminal.read_until(QUESTION)
        assert terminal.screen.count("Preview: ") == 1
        if count == 1:
            assert is_untouched(terminal.directory / "project")
        first, terminal.screen = terminal.screen, ""
        terminal.type("y\n")

    assert terminal.end() == 0
    assert MESSAGE in log_of(terminal.directory / "project")
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in first.splitlines()]
    assert all(len(line) <= 80 for line in lines if "plgrpc" not in line), lines


def test_a_no_at_the_terminal_leaves_the_repository_untouched(terminal: Terminal) -> None:
    terminal.read_until(QUESTION)
    terminal.type("n\n")

    assert terminal.end() == 1
    assert re.search(r"Not committed: .*the user declined", terminal.screen.replace("\n", " "))
    assert is_untouched(terminal.directory / "project")


def test_an_answer_from_a_second_terminal_counts(terminal: Terminal) -> None:
    terminal.read_until(QUESTION)
    command = re.findall(r"In a second terminal: (.*)", terminal.screen)[0]
    words = [*shlex.split(command.replace("approvals approve", "approvals deny")), "--reason", "not today"]
    done = subprocess.run(words, cwd=terminal.directory, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")
    assert terminal.end() == 1
    assert "not today" in terminal.screen
    assert is_untouched(terminal.directory / "project")


HANGING_TEST = """\
import os
import subprocess
import sys
import time
import unittest


class HangingTest(unittest.TestCase):
    def test_hangs(self):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open({path!r} + ".new", "w") as file:
            file.write(f"{{os.getpid()}} {{child.pid}}")
        os.rename({path!r} + ".new", {path!r})
        time.sleep(600)
"""


def pids_in(path: Path) -> list[int]:
    """Wait until a hanging test has written its process ids, and return them."""
    until = time.monotonic() + 90
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.02)  # the file is the only sign from that process
    return [int(word) for word in path.read_text().split()]


def wait_gone(pids: list[int]) -> None:
    running = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    _, alive = psutil.wait_procs(running, timeout=20)
    assert [each for each in alive if each.status() != psutil.STATUS_ZOMBIE] == []


async def test_ctrl_c_cancels_the_task_down_to_the_process_of_the_checks(tmp_path: Path) -> None:
    create_project(tmp_path / "project")
    Path(tmp_path, "project", "test_hangs.py").write_text(HANGING_TEST.format(path=str(tmp_path / "pids")))
    terminal = Terminal(DEMO, tmp_path)
    try:
        pids = await asyncio.to_thread(pids_in, tmp_path / "pids")
        terminal.process.send_signal(signal.SIGINT)
        code = await asyncio.to_thread(terminal.end)
    finally:
        terminal.close()

    assert (code, terminal.screen.splitlines()[-1]) == (130, "interrupted")
    wait_gone(pids)
    assert is_gone(tmp_path)
    for name in ("orchestrator", "tester"):
        async with Agent(name=name, url="grpc://127.0.0.1:0", store=SQLiteStore(tmp_path / f"{name}.db")) as agent:
            states = {task.state for task in (await AgentClient(url=agent.card.url).list_tasks()).tasks}
            assert states == {TaskState.CANCELED}


async def test_ctrl_c_while_the_question_is_open_cancels_the_task_and_changes_nothing(terminal: Terminal) -> None:
    await asyncio.to_thread(terminal.read_until, QUESTION)
    terminal.process.send_signal(signal.SIGINT)

    assert await asyncio.to_thread(terminal.end) == 130
    assert terminal.screen.endswith("\ninterrupted\n")
    assert is_gone(terminal.directory)
    assert is_untouched(terminal.directory / "project")
    store = SQLiteStore(terminal.directory / "coder.db")
    async with Agent(name="coder", url="grpc://127.0.0.1:0", store=store) as agent:
        assert (await AgentClient(url=agent.card.url).list_approvals()).approvals == []


def test_a_killed_demo_leaves_no_process_behind(terminal: Terminal) -> None:
    terminal.read_until(QUESTION)
    assert len(children_in(terminal.directory)) == 6
    terminal.process.kill()

    assert is_gone(terminal.directory)
    assert is_untouched(terminal.directory / "project")


# -- files ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    create_project(tmp_path / "project")
    return tmp_path / "project"


ESCAPES = [
    "",
    ".",
    "..",
    "/etc/passwd",
    "../secret",
    "a/../../secret",
    "./../secret",
    "outside/secret",
    "link",
    "inside",
    ".git/config",
    ".GIT/hooks/pre-commit",
    "sub/.git/config",
    ".git./config",
    "slugs.py\0",
    "..\\secret",
    "slugs.py/x",
    "sub",
]


@pytest.mark.parametrize("path", ESCAPES)
def test_a_path_that_leaves_the_repository_is_neither_read_nor_written(path: str, root: Path) -> None:
    secret = root.parent / "secret"
    secret.write_text("secret")
    (root / "outside").symlink_to(root.parent)
    (root / "link").symlink_to(secret)
    (root / "inside").symlink_to(root / "slugs.py")
    (root / "sub").mkdir()
    before = {each: each.read_bytes() for each in root.rglob("*") if each.is_file()}
    files = Repository(root)
    attempts = [
        lambda: files.read(path),
        lambda: files.write(path, "x", version_of(b"secret")),
        lambda: files.write(path, "x", ""),
    ]
    for attempt in attempts:
        with pytest.raises(ToolRejectedError) as refused:
            attempt()
        assert refused.value.code in ("path_not_allowed", "not_found", "not_a_file")

    assert secret.read_text() == "secret"
    assert {each: each.read_bytes() for each in root.rglob("*") if each.is_file()} == before
    assert not {"link", "inside"} & set(files.paths())
    assert "secret" not in [match.text for match in files.search("secret")]


def test_a_file_is_written_only_at_the_version_that_was_read(root: Path) -> None:
    files = Repository(root)
    read = files.read("slugs.py")
    (root / "slugs.py").write_text("changed meanwhile\n")
    with pytest.raises(ToolRejectedError) as refused:
        files.write("slugs.py", "new\n", read.version)
    with pytest.raises(ToolRejectedError):
        files.write("slugs.py", "new\n", "")

    assert refused.value.code == "changed"
    assert (root / "slugs.py").read_text() == "changed meanwhile\n"


def test_a_repeated_write_leaves_the_file_as_it_is(root: Path) -> None:
    files, before = Repository(root), Repository(root).read("slugs.py")
    first = files.write("slugs.py", "new\n", before.version)
    inode = (root / "slugs.py").stat().st_ino
    again = files.write("slugs.py", "new\n", before.version)

    assert first == again == version_of(b"new\n")
    assert (root / "slugs.py").stat().st_ino == inode


def test_a_new_file_is_created_with_its_folders_and_the_mode_of_a_file_stays(root: Path) -> None:
    files = Repository(root)
    files.write("pkg/inner/new.py", "x = 1\n", "")
    (root / "slugs.py").chmod(0o755)
    files.write("slugs.py", "x = 2\n", files.read("slugs.py").version)

    assert (root / "pkg/inner/new.py").read_text() == "x = 1\n"
    assert (root / "slugs.py").stat().st_mode & 0o777 == 0o755
    assert files.paths() == sorted([*FILES, "pkg/inner/new.py"])


def test_a_write_that_fails_leaves_the_old_file_and_no_other_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Repository(root)
    read = files.read("slugs.py")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(ToolRejectedError, match="No space left"):
        files.write("slugs.py", "new\n", read.version)

    assert is_untouched(root)


def test_a_file_of_an_unfinished_write_is_neither_listed_nor_committed(root: Path) -> None:
    (root / f".slugs.py.0123abcd{TEMPORARY}").write_text("half")

    assert Repository(root).paths() == sorted(FILES)
    assert git.change(root).diff == ""


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("a\n", "b\n", ["-a", "+b"]),
        ("a\n", "a", ["-a", "+a", "\\ No newline at end of file"]),
        ("a\n", "a\r\n", ["-a", "+a\\r"]),
        ("a\n", "a\u202e\x1b[2J\n", ["-a", "+a\\u202e\\x1b[2J"]),
        ("", "a\n", ["+a"]),
    ],
)
def test_a_diff_shows_every_difference(before: str, after: str, shown: list[str]) -> None:
    lines = diff_text(unified_diff("x", before, after)).plain.splitlines()

    assert lines[:2] == ["--- a/x", "+++ b/x"]
    assert [line for line in lines[3:] if line.strip()] == shown


@pytest.mark.parametrize(("data", "code"), [(b"x" * (MAX_FILE_BYTES + 1), "too_large"), (b"\xff\xfe", "not_text")])
def test_files_that_are_too_large_or_not_text_are_refused(data: bytes, code: str, root: Path) -> None:
    (root / "data").write_bytes(data)
    with pytest.raises(ToolRejectedError) as refused:
        Repository(root).read("data")

    assert refused.value.code == code
    assert Repository(root).search("slugify(")[0].path == "slugs.py"


# -- commits -------------------------------------------------------------------------------------------------------------


def test_a_commit_contains_exactly_the_tree_of_the_diff_and_is_made_once(root: Path) -> None:
    (root / "new.py").write_text("x = 1\n")
    found = git.change(root)
    first, again = git.commit(root, "Add x", found.tree), git.commit(root, "Add x", found.tree)

    assert "+x = 1" in found.diff
    assert first == again
    assert len(log_of(root)) == 2
    assert git.git(root, "status", "--porcelain") == ""


def test_files_that_changed_after_the_diff_are_not_committed(root: Path) -> None:
    (root / "slugs.py").write_text("reviewed\n")
    found = git.change(root)
    (root / "slugs.py").write_text("not reviewed\n")
    with pytest.raises(ToolRejectedError, match="have changed"):
        git.commit(root, "Change", found.tree)

    assert len(log_of(root)) == 1


# -- checks --------------------------------------------------------------------------------------------------------------


async def test_the_result_of_the_checks_has_each_failed_test_with_its_message(root: Path) -> None:
    checks = await run_checks(root)

    assert (checks.passed, checks.ran, checks.reason) == (False, 4, "3 of 4 tests failed")
    messages = {failure.test: failure.message for failure in checks.failures}
    assert messages["test_punctuation_is_dropped"] == "AssertionError: 'ready,-set,-go!' != 'ready-set-go'"
    assert not list(root.rglob("__pycache__"))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("syntax error here", "1 of 1 tests failed"),
        ("import os; os._exit(7)", "the tests ended with exit code 7"),
        ("x = 1", "no tests were found"),
    ],
)
async def test_tests_that_cannot_run_do_not_pass(code: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(code)
    checks = await run_checks(tmp_path)

    assert not checks.passed
    # Newer versions of Python have an exit code of their own for no tests.
    assert checks.reason == expected or (checks.ran == 0 and checks.reason == "the tests ended with exit code 5")


async def test_checks_know_no_variables_of_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    checks = await run_checks(tmp_path, (sys.executable, "-c", "import os; print(sorted(os.environ))"))

    assert "OPENAI_API_KEY" not in checks.output
    assert "PATH" in checks.output


async def test_only_the_end_of_a_long_output_is_kept(tmp_path: Path) -> None:
    program = "import sys; sys.stdout.write('x' * 5_000_000 + 'the end')"
    checks = await run_checks(tmp_path, (sys.executable, "-c", program))

    assert len(checks.output) == MAX_OUTPUT_BYTES
    assert checks.output.endswith("xthe end")


async def test_checks_that_take_too_long_are_killed_with_their_children(tmp_path: Path) -> None:
    (tmp_path / "test_hangs.py").write_text(HANGING_TEST.format(path=str(tmp_path / "pids")))
    work = asyncio.create_task(run_checks(tmp_path, timeout_s=3.0))
    checks = await work

    assert (checks.passed, checks.reason) == (False, "no result after 3 s")
    wait_gone(pids_in(tmp_path / "pids"))


async def test_a_canceled_task_kills_the_checks_with_their_children(tmp_path: Path) -> None:
    (tmp_path / "test_hangs.py").write_text(HANGING_TEST.format(path=str(tmp_path / "pids")))
    async with tester.Tester(tmp_path) as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.submit_task(None, Task.create_tool_call("run_checks"))
        pids = await asyncio.to_thread(pids_in, tmp_path / "pids")
        await client.cancel_task(None, task.id)
        async with asyncio.timeout(30):
            ended = await client.wait_task(task.id)
        await asyncio.to_thread(wait_gone, pids)

    assert ended.state is TaskState.CANCELED


def test_an_output_of_another_program_is_a_failure() -> None:
    assert read_result("", 0, "", 0.1).reason == "no tests were found"
    assert not read_result("Ran 3 tests in 0.1s\n", -9, "", 0.1).passed


# -- the agents ----------------------------------------------------------------------------------------------------------


@dataclass
class World:
    """The mesh in this process, on real ports. The approver approves everything that `approve` allows."""

    root: Path
    registry: Registry
    stack: contextlib.AsyncExitStack

    async def start(self, agent: Agent) -> Agent:
        return await self.stack.enter_async_context(agent)

    async def coder(self, **options: Any) -> Agent:
        return await self.start(Coder(self.root, registry=self.registry, **options))

    async def others(self, *, planning: Any = None, reviewing: Any = None) -> None:
        """Start the tester, the planner and the reviewer; by default the scripted ones."""
        await self.start(tester.Tester(self.root, registry=self.registry))
        planning = planning or planner(script.create_model("planner", "script"), registry=self.registry)
        await self.start(planning)
        model = reviewing or script.create_model("reviewer", "script")
        await self.start(reviewer(model, registry=self.registry))

    async def orchestrator(self, llm: Any = None) -> Agent:
        model = llm or script.create_model("orchestrator", "script")
        return await self.start(Orchestrator(llm=model, registry=self.registry))

    async def approve(self, url: str) -> None:
        client = AgentClient(url=url)

        async def approve_all() -> None:
            async with contextlib.aclosing(client.watch_approvals()) as approvals:
                async for approval in approvals:
                    if approval.state is ApprovalState.PENDING:
                        await client.respond_approval(None, approval, True)

        answering = asyncio.create_task(approve_all())

        async def end() -> None:
            answering.cancel()
            await asyncio.wait([answering])

        self.stack.push_async_callback(end)


@pytest.fixture
async def world(root: Path) -> AsyncIterator[World]:
    async with contextlib.AsyncExitStack() as stack:
        yield World(root, await stack.enter_async_context(Registry()), stack)


async def first_pending(client: AgentClient) -> Approval:
    async with asyncio.timeout(60), contextlib.aclosing(client.watch_approvals()) as approvals:
        async for approval in approvals:
            if approval.state is ApprovalState.PENDING:
                return approval
    raise AssertionError("the stream of approvals ended")


async def test_a_refused_review_leads_to_another_change(world: World) -> None:
    coder = await world.coder()
    verdicts: list[str] = []

    def review(request: Any) -> dict[str, Any]:
        verdicts.append(request.messages[-1].content)
        content = {"accepted": len(verdicts) > 1, "reason": "say why in the docstring"}
        return {"type": "final", "content": content}

    await world.others(reviewing=create_llm("scripted", steps=[review]))
    changes = iter([script.SECOND, script.SECOND.replace("without accents", "in plain letters")])

    def write(request: Any) -> dict[str, Any]:
        version = json.loads(request.messages[-1].content)["version"]
        arguments = {"path": "slugs.py", "content": next(changes), "version": version}
        return {"type": "agent_call", "agent": "coder", "action": "tool_call", "tool": "write_file", "args": arguments}

    steps = script.STEPS["orchestrator"]
    orchestrator = await world.orchestrator(create_llm("scripted", steps=[steps[0], write, steps[2]]))
    await world.approve(coder.card.url)
    task = await AgentClient(url=orchestrator.card.url).send_task(None, Task.create(GOAL))

    assert task.state is TaskState.COMPLETED, task.reason
    assert len(verdicts) == 2
    assert "in plain letters" in git.git(world.root, "show", "HEAD:slugs.py")


def writing(path: str, content: str) -> dict[str, Any]:
    arguments = {"path": path, "content": content}
    return {"type": "agent_call", "agent": "coder", "action": "tool_call", "tool": "write_file", "args": arguments}


async def test_the_planner_cannot_write_even_if_its_model_asks_the_coder(world: World) -> None:
    coder = await world.coder()
    await world.approve(coder.card.url)
    model = create_llm("scripted", steps=[writing("planned.py", "x = 1\n"), "1. Done."])
    # Unlike the demo's planner, this one may delegate: only the permissions of its run keep it from writing.
    await world.others(planning=Agent(name="planner", url="grpc://127.0.0.1:0", llm=model, registry=world.registry))
    orchestrator = await world.orchestrator()
    task = await AgentClient(url=orchestrator.card.url).send_task(None, Task.create(GOAL))

    assert task.state is TaskState.FAILED
    assert "agent.call 'coder' was denied" in (task.reason or "")
    assert is_untouched(world.root)


@pytest.mark.parametrize("permissions", [READING, THINKING, {WRITE: "deny"}])
async def test_permissions_of_a_run_deny_a_write_at_the_coder_without_asking(
    permissions: dict[str, str], world: World
) -> None:
    client = AgentClient(url=(await world.coder()).card.url)
    arguments = {"path": "new.py", "content": "x = 1\n"}
    call = Task.create_tool_call("write_file", arguments, context=RunContext(permissions=permissions))
    task = await client.send_task(None, call)

    assert task.state is TaskState.FAILED
    assert task.known_failure().reason == "ACTION_DENIED"
    assert (await client.list_approvals()).approvals == []
    assert is_untouched(world.root)


async def test_the_model_of_the_orchestrator_cannot_commit(world: World) -> None:
    coder = await world.coder()
    await world.approve(coder.card.url)
    await world.others()
    (world.root / "slugs.py").write_text(script.FIRST)
    arguments = {"message": "Skip the checks", "tree": git.change(world.root).tree}
    call = {"type": "agent_call", "agent": "coder", "action": "tool_call", "tool": "commit", "args": arguments}
    orchestrator = await world.orchestrator(create_llm("scripted", steps=[call]))
    task = await AgentClient(url=orchestrator.card.url).send_task(None, Task.create(GOAL))

    assert task.state is TaskState.FAILED
    assert "the model does not commit" in (task.reason or "")
    assert len(log_of(world.root)) == 1


@pytest.mark.parametrize("path", ["../new.py", ".git/hooks/pre-commit", "/tmp/new.py"])
async def test_a_write_outside_of_the_repository_is_refused_before_anyone_is_asked(path: str, world: World) -> None:
    client = AgentClient(url=(await world.coder()).card.url)
    task = await client.send_task(None, Task.create_tool_call("write_file", {"path": path, "content": "x"}))

    assert task.state is TaskState.FAILED
    assert "is not a path of a file in the repository" in (task.reason or "")
    assert (await client.list_approvals()).approvals == []


async def test_the_preview_is_a_diff_and_a_file_that_changes_meanwhile_is_not_overwritten(world: World) -> None:
    client = AgentClient(url=(await world.coder()).card.url)
    version = Repository(world.root).read("README.md").version
    arguments = {"path": "README.md", "content": "# slugs\n", "version": version}
    task = await client.submit_task(None, Task.create_tool_call("write_file", arguments))
    approval = await first_pending(client)
    preview = approval.request.action.artifacts[0]
    (world.root / "README.md").write_text("changed meanwhile\n")
    await client.respond_approval(None, approval, True)
    ended = await client.wait_task(task.id)

    assert (preview.name, preview.media_type) == ("README.md", "text/x-diff")
    assert preview.parts[0].content.startswith("--- a/README.md\n+++ b/README.md\n@@ ")
    assert ended.state is TaskState.FAILED
    assert (world.root / "README.md").read_text() == "changed meanwhile\n"


# -- crashes -------------------------------------------------------------------------------------------------------------

CODER = """\
import os
import signal
import sys
from pathlib import Path

from examples.code_assistant.coder import Coder, unified_diff
from examples.code_assistant.project import project_root
from examples.code_assistant.repository import Repository
from examples.mesh.process import own_settings, serve

url, moment = sys.argv[1:]
write = Repository.write


def write_and_die(*arguments):
    written = write(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
    return written


if moment == "after the write":
    Repository.write = write_and_die
serve(Coder(project_root(), url=url, **own_settings("coder")))
"""


@contextlib.contextmanager
def process(world: World, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the mesh, which ends with the block."""
    environment = ENVIRONMENT | {"DEMO_DIR": str(world.root.parent), "PLGRPC_REGISTRY": world.registry.url}
    started = subprocess.Popen([sys.executable, *command], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


async def url_of_new(world: World, name: str, *known: str) -> str:
    """Wait until an agent of this name is registered at another URL than the known ones."""
    async with asyncio.timeout(60), contextlib.aclosing(RegistryClient(world.registry.url).watch()) as changes:
        async for change in changes:
            card = change.agent.card
            if change.kind is AgentChangeKind.UP and card.name == name and card.url not in known:
                return card.url
    raise AssertionError("the stream of changes ended")


def free_url() -> str:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return f"grpc://127.0.0.1:{bound.getsockname()[1]}"


async def count_tasks(url: str) -> int:
    return len((await AgentClient(url=url).list_tasks()).tasks)


async def test_a_coder_that_is_killed_after_a_write_makes_the_edit_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The new process may start slowly on a loaded machine.
    monkeypatch.setattr(peer_tasks, "OUTAGE_S", 120.0)
    url, program = free_url(), str(world.root.parent / "program.py")
    Path(program).write_text(CODER)
    await world.others()
    orchestrator = await world.orchestrator()
    with process(world, program, url, "after the write") as first:
        await url_of_new(world, "coder")
        client = AgentClient(url=orchestrator.card.url)
        task = await client.submit_task(None, Task.create(GOAL))
        approval = await first_pending(AgentClient(url=url))
        with contextlib.suppress(ProtolinkError):  # the process may end before its answer
            await AgentClient(url=url).respond_approval(None, approval, True)
        await asyncio.to_thread(first.wait, 60)
    written = (world.root / "slugs.py").stat()
    with process(world, program, url, "never"):
        coder = AgentClient(url=url, outage_s=60.0)
        following = await first_pending(coder)
        recovered = (world.root / "slugs.py").stat()
        await world.approve(url)
        async with asyncio.timeout(90):
            ended = await client.wait_task(task.id)
        approvals = (await coder.list_approvals(states=ANSWERED)).approvals

    assert first.returncode == -signal.SIGKILL
    assert following.request.request_id != approval.request.request_id
    assert (recovered.st_ino, recovered.st_mtime_ns) == (written.st_ino, written.st_mtime_ns)
    assert ended.state is TaskState.COMPLETED, ended.reason
    assert [each.request.action.name for each in approvals] == ["write_file", "write_file", "commit"]
    assert log_of(world.root)[0] == MESSAGE


async def test_an_orchestrator_that_is_killed_while_a_person_decides_continues_its_work(world: World) -> None:
    coder = await world.coder()
    planning = planner(script.create_model("planner", "script"), registry=world.registry)
    await world.others(planning=planning)
    program = ("-m", "examples.code_assistant.orchestrator")
    with process(world, *program) as first:
        url = await url_of_new(world, "orchestrator")
        task = await AgentClient(url=url).submit_task(None, Task.create(GOAL))
        approval = await first_pending(AgentClient(url=coder.card.url))
        first.send_signal(signal.SIGKILL)
        await asyncio.to_thread(first.wait, 60)
    with process(world, *program):
        again = await url_of_new(world, "orchestrator", url)
        await world.approve(coder.card.url)
        async with asyncio.timeout(90):
            ended = await AgentClient(url=again).wait_task(task.id)
    client = AgentClient(url=coder.card.url)
    approvals = (await client.list_approvals(states=ANSWERED)).approvals

    assert ended.state is TaskState.COMPLETED, ended.reason
    assert approvals[0].request.request_id == approval.request.request_id
    assert [each.request.action.name for each in approvals] == ["write_file", "write_file", "commit"]
    assert await count_tasks(planning.card.url) == 1
    assert len(log_of(world.root)) == 2
