"""A TCP proxy between client and server whose connections tests can interrupt."""

import asyncio
from collections.abc import Iterable, Iterator


class Wire:
    """A TCP proxy on a port of its own. Tests decide when it breaks.

    Attributes:
        url: Where clients connect to.
        connections: How many there were so far.
    """

    def __init__(self, target_port: int, scheme: str = "grpc") -> None:
        self.url = ""
        self._scheme = scheme
        self.connections = 0
        self._target_port = target_port
        self._port = 0
        self._server: asyncio.Server | None = None
        self._budgets: Iterator[int] = iter(())
        self._silent = False
        self._ends: set[asyncio.StreamWriter] = set()
        self._links: set[asyncio.Task[None]] = set()

    async def mend(self) -> None:
        """Accept connections, always on the same port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        self.url = f"{self._scheme}://127.0.0.1:{self._port}"

    def cut(self) -> None:
        """Reset every connection; new ones are accepted."""
        for end in self._ends:
            end.transport.abort()

    def cut_after(self, budgets: Iterable[int]) -> None:
        """Reset each connection from the next one on after so many bytes to the client; when none is left, no more."""
        self._budgets = iter(budgets)

    def fall_silent(self) -> None:
        """Swallow every byte from now on, in both directions, and keep the connections."""
        self._silent = True

    async def sever(self) -> None:
        """Cut, and refuse new connections until `mend`."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        self.cut()
        if self._links:
            await asyncio.wait(self._links)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        ends = {writer}
        self._ends.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            ends.add(far_writer)
            self._ends.add(far_writer)
            up = asyncio.ensure_future(self._pump(reader, far_writer, None))
            down = asyncio.ensure_future(self._pump(far_reader, writer, next(self._budgets, None)))
            await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
            up.cancel()
            down.cancel()
            await asyncio.wait((up, down))
        except OSError:
            pass  # no server listens behind the wire
        finally:
            for end in ends:
                end.transport.abort()
            self._ends -= ends
            self._links.discard(link)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: int | None) -> None:
        try:
            while data := await reader.read(1 << 16):
                if self._silent:
                    continue
                writer.write(data[:budget])
                await writer.drain()
                if budget is not None:
                    budget -= len(data)
                    if budget <= 0:
                        return
        except OSError:
            pass  # one of the ends was reset
