"""Every snippet of the README runs, in the order in which a reader meets them."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
PYTHON = [text for language, text in BLOCKS if language == "python"]
SHELL = [text for language, text in BLOCKS if language == "bash"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The README's agent, running; only its port is another one, since 50051 may be taken."""
    number = free_port()
    folder = tmp_path_factory.mktemp("readme")
    script = folder / "calculator.py"
    script.write_text(PYTHON[0].replace("50051", str(number)))
    # The log line of the agent says when it listens.
    start = f"import logging; logging.basicConfig(level='INFO'); import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    process = subprocess.Popen([sys.executable, "-c", start], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert any("serves at" in line for line in process.stderr)
        yield number
    finally:
        process.terminate()
        process.communicate(timeout=20)
        assert process.returncode == 0


def test_the_agent_has_at_most_fifteen_lines() -> None:
    assert len([line for line in PYTHON[0].splitlines() if line.strip()]) <= 15


def test_the_python_caller_prints_the_sum_and_the_events(port: int) -> None:
    code = PYTHON[1].replace("50051", str(port))
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "completed 3"
    assert lines[1] == "1 task.submitted"
    assert lines[-1].endswith("task.status")


def test_the_shell_callers_work(port: int) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for text in SHELL[1:]:
        command = "set -e\n" + text.replace("50051", str(port))
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": path}
        )
        assert done.returncode == 0, (text, done.stdout, done.stderr)
        assert "3" in done.stdout or "ok" in done.stdout


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for line in SHELL[0].splitlines():
        assert f"\n{line.split()[1]}:" in makefile
