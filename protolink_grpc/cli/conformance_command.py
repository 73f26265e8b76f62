"""`conformance serve` and `conformance run`: scripted agents for programs that test a client, and the check of their reports."""

import asyncio
import logging
import os
import shutil
import stat
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from protolink_grpc.agent.lifetime import stop_on_signal
from protolink_grpc.cli import output
from protolink_grpc.cli.failure import usage_error
from protolink_grpc.net.event_loops import run
from protolink_grpc.testing import judge, open_stage


def serve(vectors: str | None, http: str) -> None:
    """Run the scripted agents until a signal or the end of standard input."""
    vectors = _absolute_folder(vectors)
    _log_errors_only()
    run(_serve(vectors, http))


def run_program(command: Sequence[str], vectors: str | None, timeout_s: float) -> bool:
    """Run a program against scripted agents. Returns whether it passed.

    Raises:
        CommandError: The program does not exist or cannot be run, or an option is invalid.
    """
    if shutil.which(command[0]) is None:
        exists = bool(os.path.dirname(command[0])) and Path(command[0]).exists()
        problem = f"{command[0]!r} is not an executable file" if exists else f"program {command[0]!r} not found"
        raise usage_error(problem, "plgrpc conformance run -- ./my-program its-arguments")
    if not timeout_s > 0:
        raise usage_error("--timeout must be greater than 0", "it is in seconds")
    vectors = _absolute_folder(vectors)
    _log_errors_only()
    verdict = run(judge.run_program(command, vectors=vectors, timeout_s=timeout_s, show=output.line))
    for problem in verdict.problems:
        output.note("conformance", problem)
    return verdict.passed


def _absolute_folder(vectors: str | None) -> str | None:
    """Return the absolute path of a folder. Raises CommandError if it does not exist."""
    if vectors is None:
        return None
    if not Path(vectors).is_dir():
        raise usage_error(f"folder {vectors!r} not found", "--vectors takes tests/vectors of a checkout")
    return str(Path(vectors).absolute())


def _log_errors_only() -> None:
    # Rejected and canceled calls are part of the cases, so they are not logged.
    logging.basicConfig(level=logging.ERROR)


async def _serve(vectors: str | None, http: str) -> None:
    stopped = asyncio.Event()
    stop_on_signal(stopped)
    async with open_stage(vectors, http) as stage:
        output.json_line(stage.announcement())
        _stop_with_input(stopped)
        await stopped.wait()


def _stop_with_input(stopped: asyncio.Event) -> None:
    """Set `stopped` at the end of standard input, if that is a pipe or a terminal. Background jobs have a file or /dev/null."""
    descriptor = sys.stdin.fileno()
    kind = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or _is_at_terminal(descriptor)):
        return
    loop = asyncio.get_running_loop()

    def wait_for_the_end() -> None:
        while os.read(descriptor, 4096):
            pass
        if not loop.is_closed():
            loop.call_soon_threadsafe(stopped.set)

    # A thread, because a shared pipe must not be made non-blocking; a daemon, because the read may never end.
    threading.Thread(target=wait_for_the_end, daemon=True).start()


def _is_at_terminal(descriptor: int) -> bool:
    """Return whether this is a terminal that this process may read. Reading it would stop a background process."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # not a terminal, or not this process's terminal
        return False
