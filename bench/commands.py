"""Commands to a measured process: it writes one JSON line when it is ready, and reads commands from stdin until that is closed.

It imports nothing of protolink_grpc, because processes of other systems use it, too.
"""

import asyncio
import gc
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import psutil

Commands: TypeAlias = Mapping[str, Callable[[], dict[str, float]]]
"""What each command returns, by its name."""


def cpu_seconds() -> dict[str, float]:
    """Return the CPU time so far: of the process, and of each Python thread by its name."""
    spent = {"process": time.process_time()}
    for thread in threading.enumerate():
        if thread.ident is not None:
            clock = time.pthread_getcpuclockid(thread.ident)
            spent[thread.name] = spent.get(thread.name, 0.0) + time.clock_gettime(clock)
    return spent


def resident_bytes() -> dict[str, float]:
    """Return the memory of the process after a garbage collection."""
    gc.collect()
    return {"rss": float(psutil.Process().memory_info().rss)}


USAGE: Commands = {"cpu": cpu_seconds, "rss": resident_bytes}


async def answer_commands(urls: Sequence[str], commands: Commands) -> None:
    """Write the URLs of the process, then answer each command with a JSON line, until stdin is closed."""
    _print_line({"urls": [*urls]})
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        _print_line(commands[line.decode().strip()]())


def _print_line(answer: Mapping[str, Any]) -> None:
    print(json.dumps(answer), file=sys.__stdout__, flush=True)  # also if `sys.stdout` is another file
