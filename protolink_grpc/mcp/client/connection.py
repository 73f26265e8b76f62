"""One session with an MCP server.

Theory of operation. The SDK's contexts must be left by the asyncio task that entered them, so each session has an *owner*: a task
that opens the transport, negotiates, reads the list of tools, and then follows changes of the list until the session is lost or
closed. Calls run in the tasks of their callers. The owner starts with an empty context (contextvars), so that nothing of the call
that happened to open the session is visible to requests of the server.
"""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self

from protolink_grpc.errors import ProtolinkError, UnavailableError, error_text
from protolink_grpc.logs import get_logger
from protolink_grpc.mcp.client.server import McpServer, require_sdk
from protolink_grpc.net.exponential_delay import ExponentialDelay

log = get_logger(__name__)

CLOSE_S = 10.0
"""How long closing a session may take before it is abandoned, in seconds. The SDK waits up to 6 s for a process to end."""

REFRESH_PAUSE_S = 0.2
"""The pause after each reading of a changed list, so that a server cannot occupy the event loop with notifications."""

LISTEN_DELAY_S, LISTEN_LONGEST_DELAY_S = 0.5, 30.0
"""Delays before a broken subscription to changes is opened again, in seconds."""

MAX_PAGES, MAX_TOOLS = 100, 1000

OnTools = Callable[[Sequence[Any]], Awaitable[None]]
"""Called with the complete list of the server's tools (`mcp.types.Tool`) at each opening and after each change."""


class McpSession:
    """One open session.

    Args:
        on_tools: Called by the owner. The session is open when its first call has returned.
        elicit, sample: The SDK's callbacks for requests of the server; None means that the client does not offer them.

    Attributes:
        client: The SDK's `Client`, while the session is open.
        is_lost: The connection has ended, so a call could not be sent.
    """

    client: Any

    def __init__(self, server: McpServer, on_tools: OnTools, *, elicit: Any = None, sample: Any = None) -> None:
        self._server = server
        self._on_tools = on_tools
        self._callbacks = {"elicitation_callback": elicit, "sampling_callback": sample}
        self._ended = asyncio.Event()
        self._changed = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None

    @property
    def is_lost(self) -> bool:
        return self._ended.is_set()

    def mark_lost(self) -> None:
        """End the session, because a call found that its connection no longer works."""
        self._ended.set()

    async def open(self, timeout_s: float) -> None:
        """Connect and read the list of tools.

        Raises:
            UnavailableError: The server could not be started or reached, or is not an MCP server.
            UnimplementedError: The `mcp` extra is not installed.
        """
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(opened, timeout_s), context=contextvars.Context())
        try:
            await asyncio.shield(opened)
        except asyncio.CancelledError:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Close the session and end the server's process."""
        self._ended.set()
        if self._owner is not None and not self._owner.done():
            await asyncio.wait([self._owner], timeout=CLOSE_S)
            self._owner.cancel()
            await asyncio.wait([self._owner], timeout=1.0)

    async def _own(self, opened: asyncio.Future[None], timeout_s: float) -> None:
        stack = AsyncExitStack()
        failure: Exception = UnavailableError("the MCP session was closed", server=str(self._server))
        try:
            try:
                async with asyncio.timeout(timeout_s):
                    self.client = await stack.enter_async_context(self._build_client())
                    await self._read_tools()
            except TimeoutError:
                raise UnavailableError(
                    f"MCP server {self._server} did not answer within {timeout_s:g} s", server=str(self._server)
                ) from None
            opened.set_result(None)
            await self._follow()
        except Exception as error:
            failure = self._open_error(error)
            if opened.done():
                log.debug("MCP server %s: the session broke: %s", self._server, failure)
        finally:
            self._ended.set()
            # Whatever a broken transport raises while it is closed has no further effect.
            with suppress(Exception):
                await stack.aclose()
            if not opened.done():
                opened.set_exception(failure)
            if not opened.cancelled():
                opened.exception()  # retrieve it, so that the loop does not report it if nothing waits for it

    def _open_error(self, error: Exception) -> Exception:
        cause = _single_cause(error)
        if isinstance(cause, ProtolinkError):
            return cause
        text = error_text(cause) or type(cause).__name__
        unavailable = UnavailableError(
            f"MCP server {self._server} cannot be used: {text[:500]}", server=str(self._server)
        )
        unavailable.__cause__ = cause
        return unavailable

    @asynccontextmanager
    async def _build_client(self) -> AsyncIterator[Any]:
        require_sdk()
        from mcp import Client
        from mcp.types import Implementation

        from protolink_grpc import __version__

        client = Client(
            _WatchedTransport(self._server, self._ended),
            message_handler=self._handle,
            client_info=Implementation(name="protolink-grpc", version=__version__),
            # The list of tools is read when the server reports a change, and always completely.
            cache=None,
            **self._callbacks,
        )
        async with client:
            yield client

    async def _handle(self, message: Any) -> None:
        from mcp.types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._changed.set()
        elif isinstance(message, Exception):
            log.warning("MCP server %s sent something that is not MCP: %s", self._server, type(message).__name__)

    async def _read_tools(self) -> None:
        if self.client.server_capabilities.tools is None:
            await self._on_tools(())
            return
        tools: list[Any] = []
        cursor, cursors = None, set()
        for _ in range(MAX_PAGES):
            page = await self.client.list_tools(cursor=cursor)
            tools.extend(page.tools)
            cursor = page.next_cursor
            if not cursor or cursor in cursors or len(tools) >= MAX_TOOLS:
                break
            cursors.add(cursor)
        if len(tools) > MAX_TOOLS:
            log.warning("MCP server %s has more than %s tools; the others are left out", self._server, MAX_TOOLS)
        await self._on_tools(tools[:MAX_TOOLS])

    async def _follow(self) -> None:
        """Read the list of tools again after each change, until the session ends."""
        listener = asyncio.ensure_future(self._listen())
        try:
            while await self._next_change():
                self._changed.clear()
                try:
                    await self._read_tools()
                except Exception as error:  # of the server: the next change or session reads the list again
                    log.warning("MCP server %s: its tools cannot be read: %s", self._server, error_text(error))
                await asyncio.sleep(REFRESH_PAUSE_S)
        finally:
            listener.cancel()
            await asyncio.wait([listener])

    async def _next_change(self) -> bool:
        """Wait for a change or for the end of the session. Returns whether the session continues."""
        waiting = [asyncio.ensure_future(each.wait()) for each in (self._changed, self._ended)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
        return not self.is_lost

    async def _listen(self) -> None:
        """Subscribe to changes. Only servers of the protocol from 2026 on need this; older ones send notifications unasked."""
        from mcp.types.version import MODERN_PROTOCOL_VERSIONS

        tools = self.client.server_capabilities.tools
        if tools is None or not tools.list_changed or self.client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        delay = ExponentialDelay(LISTEN_DELAY_S, LISTEN_LONGEST_DELAY_S)
        is_first = True
        while not self.is_lost:
            try:
                async with self.client.listen(tools_list_changed=True) as subscription:
                    if not is_first:
                        self._changed.set()  # changes may have been missed
                    is_first = False
                    async for _ in subscription:
                        delay.reset()
                        self._changed.set()
            except Exception as error:  # of the SDK or the transport: subscribe again
                log.debug("MCP server %s: the subscription ended: %s", self._server, error_text(error))
            await asyncio.sleep(delay.next_s())


class _WatchedTransport:
    """The transport of a server for the SDK. It sets `ended` when no further message can arrive."""

    def __init__(self, server: McpServer, ended: asyncio.Event) -> None:
        self._server = server
        self._ended = ended
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> tuple[Any, Any]:
        read, write = await self._stack.enter_async_context(self._server.connect())
        return _WatchedStream(read, self._ended), write

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)


class _WatchedStream:
    """The SDK's stream for reading, which sets `ended` at its end."""

    def __init__(self, stream: Any, ended: asyncio.Event) -> None:
        self._stream = stream
        self._ended = ended

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context of the sender of the last message, which the SDK reads where a transport has one."""
        found: contextvars.Context | None = getattr(self._stream, "last_context", None)
        return found

    async def receive(self) -> Any:
        try:
            return await self._stream.receive()
        except BaseException:
            self._ended.set()
            raise

    async def aclose(self) -> None:
        self._ended.set()
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._ended.set()
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._ended.set()
        result: bool | None = await self._stream.__aexit__(kind, error, trace)
        return result


def _single_cause(error: BaseException) -> BaseException:
    """Return the exception inside of the groups that the SDK's task groups put around it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
