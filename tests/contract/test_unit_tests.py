"""Unit tests start no programs, open no sockets and measure no time, so they are fast and do not depend on the machine."""

import re
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[1] / "unit"

FORBIDDEN = {
    "starts a program": r"^\s*(import|from) (subprocess|multiprocessing)\b|create_subprocess_|os\.(exec|spawn|system|popen)",
    "forks": r"os\.(fork|forkpty|posix_spawn)",
    "opens a socket": (
        r"socket\.(socket|socketpair|create_connection|create_server)\(|open_connection|start_(unix_)?server"
        r"|create_(unix_)?(connection|server)\(|(in)?secure_channel\(|add_(in)?secure_port"
    ),
    # The date may be read (`time.time`), and the processor's time may be bounded (`time.process_time`): other programs on the
    # machine do not count. Waits for real time are only allowed as limits of tests that hang.
    "measures real time": r"perf_counter|time\.monotonic|time\.sleep\(|asyncio\.sleep\((?!0[,)])|lease_ttl_s=0\.",
}


@pytest.mark.parametrize("deed", FORBIDDEN)
def test_no_unit_test(deed: str) -> None:
    forbidden = re.compile(FORBIDDEN[deed], re.MULTILINE)
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted(UNIT.glob("*.py"))
        for line in path.read_text().splitlines()
        if forbidden.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("deed", "line"),
    [
        ("starts a program", "import subprocess"),
        ("forks", "child = os.fork()"),
        ("opens a socket", "with socket.socket() as probe:"),
        ("opens a socket", "await asyncio.open_connection(host, port)"),
        ("measures real time", "start = time.perf_counter()"),
        ("measures real time", "await asyncio.sleep(0.05)"),
    ],
)
def test_the_guard_finds_it(deed: str, line: str) -> None:
    assert re.search(FORBIDDEN[deed], line, re.MULTILINE)
