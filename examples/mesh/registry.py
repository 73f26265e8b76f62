"""The registry of a demo, on a free port, which it prints: `python -m examples.mesh.registry`."""

import asyncio
import signal

from examples.mesh.process import begin
from protolink_grpc import Registry


async def main() -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with Registry() as registry:
        print(registry.url, flush=True)
        await stopped.wait()


if __name__ == "__main__":
    begin()
    asyncio.run(main())
