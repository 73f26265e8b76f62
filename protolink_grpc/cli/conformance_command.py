"""`conformance serve` and `conformance run`: a stage for programs that test a client, and the judge of what they report."""

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
from protolink_grpc.cli.failure import usage
from protolink_grpc.net.event_loops import run
from protolink_grpc.testing import judge, open_stage


def serve(vectors: str | None, http: str) -> None:
    """Run a stage until a signal, or the end of standard input."""
    vectors = _folder(vectors)
    _quiet()
    run(_serve(vectors, http))


def run_program(command: Sequence[str], vectors: str | None, timeout_s: float) -> bool:
    """Run a program against a stage; whether it passed.

    Raises:
        CommandError: There is no such program, it cannot be run, or an option cannot be meant.
    """
    if shutil.which(command[0]) is None:
        there = bool(os.path.dirname(command[0])) and Path(command[0]).exists()
        said = f"{command[0]!r} is not an executable file" if there else f"there is no program {command[0]!r}"
        raise usage(said, "plgrpc conformance run -- ./my-program its-arguments")
    if not timeout_s > 0:
        raise usage("--timeout must be above 0", "it is in seconds")
    vectors = _folder(vectors)
    _quiet()
    verdict = run(judge.run_program(command, vectors=vectors, timeout_s=timeout_s, show=output.line))
    for complaint in verdict.complaints:
        output.note("conformance", complaint)
    return verdict.passed


def _folder(vectors: str | None) -> str | None:
    """The folder, as a program in any other folder finds it."""
    if vectors is None:
        return None
    if not Path(vectors).is_dir():
        raise usage(f"there is no folder {vectors!r}", "--vectors takes tests/vectors of a checkout")
    return str(Path(vectors).absolute())


def _quiet() -> None:
    # Refused and canceled calls are what this is about.
    logging.basicConfig(level=logging.ERROR)


async def _serve(vectors: str | None, http: str) -> None:
    stopped = asyncio.Event()
    stop_on_signal(stopped)
    async with open_stage(vectors, http) as stage:
        output.json_line(stage.announcement())
        _stop_with_input(stopped)
        await stopped.wait()


def _stop_with_input(stopped: asyncio.Event) -> None:
    """Set `stopped` when whoever started this has gone. A file or /dev/null, as background jobs get it, says nothing about that."""
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

    # A thread, because a pipe that others share must not become non-blocking; a daemon, because it may never end.
    threading.Thread(target=wait_for_the_end, daemon=True).start()


def _is_at_terminal(descriptor: int) -> bool:
    """Whether that is a terminal, and ours to read: whoever reads it in the background is stopped."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # no terminal, or not the one that this process belongs to
        return False
