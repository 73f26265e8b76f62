"""`make demo-polyglot`, run as users run it: the weather agent is a Go program, and the other agents need no change."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from protolink_grpc.llms.providers import PROVIDERS

ROOT = Path(__file__).parents[2]
KEYS = {variable for row in PROVIDERS.values() for variable in row.key_variables}
# No test asks a provider, whatever keys the machine has.
ENVIRONMENT = {name: os.environ[name] for name in os.environ.keys() - KEYS}


def make(path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "-o", ".venv/.ready", "demo-polyglot", f"ARGS={' '.join(arguments)}"],
        cwd=ROOT,
        env=ENVIRONMENT | {"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed")
@pytest.mark.skipif(not Path(ROOT, ".venv", ".ready").exists(), reason="make setup was not run here")
@pytest.mark.timeout(600)  # a first build compiles gRPC
def test_the_mesh_books_with_a_weather_agent_written_in_go(tmp_path: Path) -> None:
    done = make(os.environ["PATH"], "--yes", "--dir", str(tmp_path))

    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(r"^ +(\w+) +grpc://\S+ in (\w+) ", done.stdout, re.MULTILINE) == [("weather", "Go")]
    told = [line.split()[1:3] for line in done.stdout.splitlines() if " -> " in line]
    assert told[:2] == [["weather", "best_start"], ["weather", "forecast"]]
    assert re.search(r"\| Reference +\| [A-Z2-9]{6} +\|", done.stdout)
    # The program ended in order when it was told to, and said good-bye.
    assert "level=WARN" not in Path(tmp_path, "weather.log").read_text()


@pytest.mark.skipif(not Path(ROOT, ".venv", ".ready").exists(), reason="make setup was not run here")
def test_without_go_it_says_so(tmp_path: Path) -> None:
    for tool in ("bash", "make", "echo", "cut", "touch"):
        found = shutil.which(tool)
        if found is not None:
            Path(tmp_path, tool).symlink_to(found)
    done = make(str(tmp_path))

    assert done.returncode == 2
    assert "demo-polyglot needs Go" in done.stderr
    assert "Starting" not in done.stdout
