"""A typed calculator that dies at a given length of its log: tests of the clients' examples run this file as a process.

Arguments: the folder of the store, the length of the log at which the process dies, 0 for never, and the port, 0 for a free one. It
prints its URL.
"""

import asyncio
import sys
from pathlib import Path

from mortal_agent import Mortal

from protolink_grpc.testing.calculator import make_calculator


async def main(folder: Path, dies_at: int, port: int) -> None:
    store = Mortal(folder / "tasks.db", dies_at)
    async with make_calculator(url=f"grpc://127.0.0.1:{port}", store=store) as agent:
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
