"""A store that ends its process right after one of its commits, and a program that starts again afterwards."""

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from protolink_grpc import SQLiteStore
from protolink_grpc.storage.port import Append, RequestRecord
from protolink_grpc.storage.records import Records

Life = Callable[[Path, int], Coroutine[Any, Any, dict[str, Any]]]
"""Does everything, in a folder, and returns what there is to see. Dies at the commit with that number, 0 for never."""


LIFE_S = 25.0
"""Bound of a life; reached only by a failure."""


class Mortal(SQLiteStore):
    """Ends its process right after a commit. `commits` counts them."""

    def __init__(self, path: Path, dies_at: int) -> None:
        super().__init__(path)
        self.commits = 0
        self._dies_at = dies_at

    async def append(self, append: Append) -> RequestRecord | None:
        known = await super().append(append)
        self.count()
        return known

    async def change(self, work: Callable[[Records], Any]) -> Any:
        outcome = await super().change(work)
        self.count()
        return outcome

    def count(self) -> None:
        """Count a commit: one of this store, or of another file that belongs to the same life."""
        self.commits += 1
        if self.commits == self._dies_at:
            die()

    def spare(self) -> None:
        """No death comes from now on."""
        self._dies_at = 0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # never over: the signal ends the process first


def run_life(live: Life, folder: Path, dies_at: int) -> bool:
    """Fork one life, and return whether it ended by itself. Then it has printed what there is to see, or its error."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    try:
        try:
            seen = asyncio.run(asyncio.wait_for(live(folder, dies_at), LIFE_S))
        except Exception:
            seen = {"error": traceback.format_exc()}
        print(json.dumps(seen), flush=True)
        os._exit(0)
    finally:
        os._exit(1)


def main(live: Life) -> None:
    """Read the number of a commit from each line, die there, and live again."""
    for number, line in enumerate(sys.stdin):
        folder = Path(sys.argv[1]) / f"{os.getpid()}-{number}"
        folder.mkdir()
        if not run_life(live, folder, int(line)) and not run_life(live, folder, 0):
            print("the second life failed", flush=True)
