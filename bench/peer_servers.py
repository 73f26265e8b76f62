"""The measured processes of other systems: `python -m bench.peer_servers KIND --core N`, with the Python of `bench.peers`.

Each works in a directory of its own, which it may write to. From protolink_grpc it takes the event loop and the
scheduling class, which are the same for all systems.
"""

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable

from bench.commands import USAGE, answer_commands
from protolink_grpc.net.event_loops import run_server


async def _pydantic_rpc() -> None:
    """The method `/adder.v1.Adder/Add` of a class, whose .proto file PydanticRPC derives from its signature."""
    from pydantic_rpc import AsyncIOServer, Message  # only the environment of this peer has it

    class AddRequest(Message):  # type: ignore[misc]  # as above
        a: int
        b: int

    class AddResponse(Message):  # type: ignore[misc]  # as above
        result: int

    class Adder:
        async def add(self, request: AddRequest) -> AddResponse:
            return AddResponse(result=request.a + request.b)

    with socket.socket() as probe:  # the server does not tell which port it has chosen
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = AsyncIOServer(port=port)
    running = asyncio.ensure_future(server.run(Adder()))
    try:
        await _connect(port, running)
        await answer_commands([f"grpc://127.0.0.1:{port}"], USAGE)
    finally:
        running.cancel()
        await asyncio.wait([running])
        await server.stop(0)


async def _connect(port: int, running: "asyncio.Task[None]") -> None:
    """Return when the server accepts connections. Raises its exception if it ends before."""
    while not running.done():
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
            continue
        writer.close()
        return
    running.result()


KINDS: dict[str, Callable[[], Awaitable[None]]] = {"pydantic-rpc": _pydantic_rpc}


async def _serve(kind: str) -> None:
    await KINDS[kind]()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--core", type=int, default=None, help="the only core to run on")
    parser.add_argument("--directory", required=True, help="the directory to work in")
    options = parser.parse_args()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    os.chdir(options.directory)
    sys.stdout = sys.stderr  # the original one is for responses to commands
    run_server(_serve(options.kind))


if __name__ == "__main__":
    main()
