"""Runs the tests of a project in a process group of its own, without a shell, and reads their result."""

import asyncio
import os
import re
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 60.0

MAX_OUTPUT_BYTES = 16 * 1024
"""How much of the output is kept, in bytes: its end, where unittest writes the summary."""

MAX_FAILURES = 20

COMMAND = (sys.executable, "-I", "-B", "-m", "unittest", "discover")
"""-I: no PYTHON variables and no user's site-packages; -B: no bytecode files in the repository."""

FAILURE = re.compile(r"^={70}\n(?:FAIL|ERROR): (\S+).*?\n-{70}\n(.*?)(?=^={70}$|^-{70}$|\Z)", re.MULTILINE | re.DOTALL)
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(:|$)")
RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed test and the last line of its traceback."""

    test: str
    message: str


@dataclass(frozen=True, slots=True)
class Checks:
    """The result of the checks. `reason` says why they did not pass, and is empty if they did."""

    passed: bool
    ran: int
    reason: str
    failures: list[Failure]
    output: str
    seconds: float


async def run_checks(root: Path, command: tuple[str, ...] = COMMAND, *, timeout_s: float = TIMEOUT_S) -> Checks:
    """Run the command in `root` and return its result. If this is canceled, the process and its children are killed."""
    started, output, reason = time.monotonic(), bytearray(), ""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=root,
        # Without the keys and tokens of this process: the code under test may be new.
        env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(timeout_s):
            await _read_tail(process, output)
            await process.wait()
    except TimeoutError:
        reason = f"no result after {timeout_s:g} s"
    finally:
        # Also after a normal end: children of the tests may still run.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    seconds = round(time.monotonic() - started, 3)
    return read_result(output.decode(errors="replace"), process.returncode or 0, reason, seconds)


async def _read_tail(process: asyncio.subprocess.Process, output: bytearray) -> None:
    """Read the output to its end. `output` keeps the last MAX_OUTPUT_BYTES."""
    if process.stdout is None:
        raise RuntimeError("the process was started without a pipe")
    while data := await process.stdout.read(MAX_OUTPUT_BYTES):
        output += data
        del output[:-MAX_OUTPUT_BYTES]


def read_result(output: str, code: int, reason: str, seconds: float) -> Checks:
    """Read the output of unittest.

    Args:
        code: Exit code of the process.
        reason: Why the process was killed; empty if it ended.
    """
    count = RAN.search(output)
    ran = int(count[1]) if count else 0
    failures = [Failure(test, _last_line(trace)) for test, trace in FAILURE.findall(output)][:MAX_FAILURES]
    if not reason and failures:
        reason = f"{len(failures)} of {ran} tests failed"
    elif not reason and (code or not ran):
        reason = f"the tests ended with exit code {code}" if code else "no tests were found"
    return Checks(not reason, ran, reason, failures, output, seconds)


def _last_line(trace: str) -> str:
    """Return the line with the exception: the last one that begins with the name of a class."""
    return next((line for line in reversed(trace.splitlines()) if EXCEPTION.match(line)), "")
