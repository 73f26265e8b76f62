"""Every snippet of the README runs, and the programs of other pages do that call its agents."""

import ast
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from ports import free_port
from stub_plugins import plugin_path
from warm_python import warm_executable

import protolink_grpc
from protolink_grpc import Agent, AgentCard, AgentClient, HttpOptions, Task

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
PYTHON = [text for language, text in BLOCKS if language == "python"]
SHELL = [text for language, text in BLOCKS if language == "bash"]
GO = [text for language, text in BLOCKS if language == "go"]


def start(script: Path) -> subprocess.Popen[str]:
    """An agent of the README, listening."""
    # The log line of the agent says when it listens.
    code = f"import logging; logging.basicConfig(level='INFO'); import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=script.parent, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert any("listens on" in line for line in process.stderr)
    return process


def stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 0


@dataclass
class Ports:
    """Where the README's first agent runs here; its own ports may be taken."""

    grpc: int
    http: int

    def own(self, text: str) -> str:
        return text.replace("50051", str(self.grpc)).replace("8080", str(self.http))


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    """The README's first agent, running."""
    found = Ports(free_port(), free_port())
    script = tmp_path_factory.mktemp("readme") / "calculator.py"
    script.write_text(found.own(PYTHON[0]))
    process = start(script)
    yield found
    stop(process)


@dataclass
class Clerk:
    """The README's second agent, in a directory of its own; only its port is another one."""

    script: Path
    port: int

    @classmethod
    def in_directory(cls, directory: Path) -> "Clerk":
        clerk = cls(directory / "clerk.py", free_port())
        clerk.script.write_text(clerk.own(snippet("clerk.py")))
        return clerk

    def own(self, text: str) -> str:
        return text.replace("50052", str(self.port))


@pytest.fixture
def clerk(tmp_path: Path) -> Clerk:
    return Clerk.in_directory(tmp_path)


def warm_plgrpc() -> Path:
    """`plgrpc` that starts warm; where nothing can start warm, the installed one."""
    command = Path(warm_executable()).with_name("plgrpc")
    if not command.exists():
        command.write_text(f"#!/bin/sh\nexec '{warm_executable()}' -m protolink_grpc.cli \"$@\"\n")
        command.chmod(0o700)
    return command


def shell(text: str, cwd: Path | None = None, timeout_s: float = 60, *, installed: bool = False) -> str:
    """What the commands of a block print.

    Args:
        installed: With the installed `plgrpc` itself.
    """
    folders = [str(Path(sys.executable).parent), plugin_path()]
    path = os.pathsep.join(folders if installed else [str(warm_plgrpc().parent), *folders])
    done = subprocess.run(
        ["bash", "-c", f"set -e\n{text}"],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, (text, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.parametrize("name", ["calculator.py", "clerk.py"])
def test_an_agent_has_at_most_fifteen_lines(name: str) -> None:
    assert len([line for line in snippet(name).splitlines() if line.strip()]) <= 15


def python(code: str, *flags: str) -> str:
    """What a program prints."""
    done = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def snippet(words: str, page: str = "README.md") -> str:
    """The one Python block of a page that contains these words."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    (found,) = (text for text in blocks if words in text)
    return found


def test_the_python_caller_prints_the_sum_and_the_events(ports: Ports) -> None:
    lines = python(ports.own(snippet("client.sync.subscribe")), "-W", "error").splitlines()
    assert lines[0] == "completed 3"
    assert lines[1] == "1 task.submitted"
    assert lines[-1].endswith("task.status")


def test_stubs_of_the_exported_proto_call_the_tool(ports: Ports, tmp_path: Path) -> None:
    (tmp_path / "calculator.py").write_text(snippet("calculator.py"))
    (block,) = (text for text in SHELL if "proto export" in text)
    shell(block, tmp_path, installed=True)
    code = ports.own(snippet("CalculatorStub"))
    assert python(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{code}") == "3\n"


def test_the_python_caller_works_over_http_too(ports: Ports) -> None:
    code = snippet("client.sync.subscribe").replace("grpc://127.0.0.1:50051", f"http://127.0.0.1:{ports.http}")
    assert python(code, "-W", "error").startswith("completed 3\n1 task.submitted\n")


def test_the_shell_callers_work(ports: Ports) -> None:
    blocks = [text for text in SHELL[1:] if "50051" in text]
    assert blocks
    for text in blocks:
        said = shell(ports.own(text), installed=True)
        assert "3" in said or "ok" in said


@pytest.mark.skipif(shutil.which("protoc-gen-go", path=plugin_path()) is None, reason="protoc-gen-go is not installed")
@pytest.mark.timeout(600)  # a first build compiles gRPC
def test_a_typed_call_in_go_prints_the_sum(ports: Ports, tmp_path: Path) -> None:
    (tmp_path / "calculator.py").write_text(snippet("calculator.py"))
    (block,) = (text for text in SHELL if "proto export" in text)
    export = block.splitlines()[0]
    (arguments,) = re.findall(r"The same in Go, with `(.*?)`", (ROOT / "README.md").read_text())
    calculator = "proto/acme/calculator/v1/calculator.proto"
    shell(f"{export}\nmkdir calculatorv1\nplgrpc gen --proto {calculator} {arguments}", tmp_path)
    (program,) = (text for text in GO if "sum.go" in text)
    (tmp_path / "sum.go").write_text(ports.own(program))
    client = (ROOT / "clients/go/go.mod").read_text().replace("../../gen/go", str(ROOT / "gen/go"))
    module = "github.com/protolink-grpc/protolink-grpc/clients/go"
    own = f"module example.com/shop\nrequire {module} v0.0.0\nreplace {module} => {ROOT / 'clients/go'}\n"
    (tmp_path / "go.mod").write_text(own + client.partition("\n")[2])
    shutil.copy(ROOT / "clients/go/go.sum", tmp_path)
    assert shell("go run -mod=mod .", tmp_path, 500) == "3\n"


def test_plain_http_gets_the_card_and_the_sum(ports: Ports) -> None:
    (block,) = (text for text in SHELL if "8080" in text)
    card, task = (json.loads(line) for line in shell(ports.own(block).replace("\ncurl", "\necho; curl")).splitlines())
    assert [card["name"], card["skills"][0]["id"]] == ["calculator", "add"]
    assert task["task"]["artifacts"][0]["parts"][0]["data"]["content"]["result"] == 3


def test_the_official_a2a_client_prints_the_sum(ports: Ports) -> None:
    # The numbers of its protobuf are doubles.
    assert python(ports.own(snippet("from a2a.client", "docs/a2a-parts.md")), "-W", "error") == "3.0\n"


def test_a_client_of_protolink_prints_the_sum(ports: Ports) -> None:
    # Warnings are not errors here: that client leaves a socket open.
    assert python(ports.own(snippet("from protolink.client", "docs/protolink.md"))) == "3\n"


@dataclass
class Vault:
    """The README's guarded agent, running on free ports."""

    grpc: int
    http: int

    def own(self, text: str) -> str:
        return text.replace("50053", str(self.grpc)).replace("8083", str(self.http))


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    found = Vault(free_port(), free_port())
    script = tmp_path_factory.mktemp("vault") / "vault.py"
    script.write_text(found.own(snippet("APIKeyAuth")))
    process = start(script)
    yield found
    stop(process)


def test_a_caller_with_a_key_is_told_the_word(vault: Vault) -> None:
    assert python(vault.own(snippet("credentials=APIKey(")), "-W", "error") == "xyzzy\n"


def test_a_caller_with_a_key_calls_a_tool_from_the_shell_without_a_right_to_control(vault: Vault) -> None:
    (block,) = (text for text in SHELL if "50053" in text)
    call, listed = block.splitlines()
    assert shell(vault.own(call)) == "xyzzy\n"
    assert "APPROVAL" in shell(vault.own(listed))
    with pytest.raises(AssertionError, match="needs the scope operate"):
        shell(vault.own("plgrpc approvals list grpc://127.0.0.1:50053 --header x-api-key=key-of-bob"))


@pytest.mark.parametrize("header", ["", "--header x-api-key=key-of-eve"])
def test_a_guarded_agent_tells_nothing_to_others(vault: Vault, header: str) -> None:
    with pytest.raises(AssertionError, match="pass credentials with --header"):
        shell(vault.own(f"plgrpc call grpc://127.0.0.1:50053 word {header}"))
    if header:
        code = vault.own(snippet("credentials=APIKey(")).replace("key-of-bob", "key-of-eve")
        with pytest.raises(AssertionError, match="UnauthenticatedError"):
            python(code)


NEEDS_EXPORTER = pytest.mark.skipif(
    find_spec("opentelemetry.exporter") is None, reason="the exporter of the extra otel is not installed"
)


@pytest.mark.parametrize(
    "page", ["flows.md", "http.md", "security.md", pytest.param("telemetry.md", marks=NEEDS_EXPORTER)]
)
def test_the_agents_in_the_documents_can_be_made(page: str) -> None:
    names = {name: getattr(protolink_grpc, name) for name in protolink_grpc.__all__}
    names["card"] = AgentCard(name="echo", description="Echo", url="grpc://127.0.0.1:0")
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        exec(block, dict(names))


class Reviewer(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.complete("fine")


async def test_the_flow_of_the_readme_merges_two_reviews() -> None:
    async with (
        Reviewer("style", url="grpc://127.0.0.1:0") as style,
        Reviewer("facts", url="grpc://127.0.0.1:0") as facts,
    ):
        urls = {"grpc://127.0.0.1:50061": style.card.url, "grpc://127.0.0.1:50062": facts.card.url}
        code = snippet("flow=Pipeline")
        for written, actual in urls.items():
            code = code.replace(written, actual)
        names: dict[str, Any] = {}
        exec(code, names)
        task = await names["agent"].run_task("a poem")
    assert task.messages[-1].text == "2 reviews: fine, fine"


async def test_the_session_of_the_documents_has_a_queue_and_one_stream(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/sessions.md").read_text()
    program, *others = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    # The other blocks continue the first one, within its `async with`.
    whole = program + textwrap.indent("".join(others), "    ")
    code = compile(whole, "sessions.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, {})
    printed = capsys.readouterr().out
    assert "('train', 'completed')" in printed
    assert "1 SessionCreated\n2 TurnSubmitted\n" in printed


async def test_the_tasks_of_the_documents_wait_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/tasks.md").read_text()
    program, *_ = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    await eval(compile(program, "tasks.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), {})
    assert capsys.readouterr().out == "blocked\nprinted: the book\n"


async def test_the_snapshots_of_the_documents_have_a_position(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/snapshots.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    await eval(compile(program, "snapshots.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), {})
    assert capsys.readouterr().out.startswith(("running", "completed"))


async def test_the_chat_of_the_readme_ends_with_the_urgent_turn() -> None:
    async with Reviewer("guide", url="grpc://127.0.0.1:0") as guide:
        code = snippet('when_busy="interrupt"').replace("grpc://127.0.0.1:50054", guide.card.url)
        lines = (await asyncio.to_thread(python, code)).splitlines()
    assert lines[-1].endswith("'completed']")
    assert lines[-1].count("'") == 6


async def test_the_observer_in_the_documents_counts_actions() -> None:
    section = (ROOT / "docs/handlers.md").read_text().partition("## Observers")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert len([line for line in block.splitlines() if line.strip()]) <= 10
    names = {name: getattr(protolink_grpc, name) for name in protolink_grpc.__all__}
    exec(block, names)
    agent = names["agent"]

    @agent.tool
    def divide(a: float, b: float) -> float:
        return a / b

    async with agent:
        await agent.run_task(Task.create_tool_call("divide", {"a": 1, "b": 2}))
        await agent.run_task(Task.create_tool_call("divide", {"a": 1, "b": 0}))
    assert names["outcomes"] == {"completed": 1, "failed": 1}


def test_every_option_of_the_http_port_is_documented() -> None:
    section = (ROOT / "docs/http.md").read_text().partition("## Options")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", section, re.MULTILINE)
    named = {each for row in rows for each in re.findall(r"`(\w+)`", row)}
    assert named == {each.name for each in fields(HttpOptions)}


def test_every_link_between_the_documents_leads_somewhere() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    targets = [(page, each) for page in pages for each in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())]
    broken = [(page.name, each) for page, each in targets if "://" not in each and not (page.parent / each).exists()]
    assert not broken


def test_an_approval_is_ten_lines_and_lets_the_model_act(clerk: Clerk) -> None:
    process = start(clerk.script)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", clerk.own(snippet("watch_approvals"))],
        capture_output=True,
        text=True,
        timeout=60,
    )
    commands = next(text for text in SHELL if "50052" in text)
    listed = shell(clerk.own(commands), clerk.script.parent)
    stop(process)

    assert len(snippet("watch_approvals").splitlines()) <= 10
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "pay {'amount': 90.0}\nThe invoice is paid.\n"
    assert all(words in listed for words in ("approved", "completed", "conversation"))


async def test_a_clerk_that_is_killed_goes_on_after_its_next_start(clerk: Clerk) -> None:
    client = AgentClient(url=f"grpc://127.0.0.1:{clerk.port}")
    process = start(clerk.script)
    task = await client.submit_task(None, Task.create_infer(prompt="Pay the invoice of 90."))
    async with asyncio.timeout(60), aclosing(client.watch_approvals()) as approvals:
        approval = await anext(approvals)
    process.kill()
    process.communicate()
    process = start(clerk.script)
    await client.respond_approval(None, approval, True)
    async with asyncio.timeout(60):
        ended = await client.wait_task(task.id)
    events = [event.type async for event in client.subscribe(task.id)]
    stop(process)

    assert ended.get_output() == "The invoice is paid."
    # Two steps of the model, asked once each: the first answer was in the log.
    assert (events.count("llm.call.started"), events.count("action.started")) == (2, 1)


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for line in SHELL[0].splitlines():
        assert f"\n{line.split()[1]}:" in makefile
