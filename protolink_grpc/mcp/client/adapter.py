"""MCPToolAdapter: the tools, resources and prompts of one MCP server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

from protolink_grpc.errors import InvalidArgumentError, ProtolinkError, UnavailableError, error_text
from protolink_grpc.logs import get_logger
from protolink_grpc.mcp.client.calls import CallsInProgress
from protolink_grpc.mcp.client.connection import MAX_PAGES, McpSession
from protolink_grpc.mcp.client.content import (
    MAX_ERROR_CHARS,
    messages_of,
    parts_of,
    protocol_error,
    result_of,
    to_json,
    tool_error,
)
from protolink_grpc.mcp.client.requests import ServerRequests
from protolink_grpc.mcp.client.server import McpServer, McpTransport, require_sdk
from protolink_grpc.mcp.client.tools import build_tool
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.net.background_loop import background
from protolink_grpc.tools.context import ToolContext
from protolink_grpc.tools.tool import Tool

log = get_logger(__name__)


@checks_arguments
class MCPToolAdapter:
    """The tools, resources and prompts of an MCP server.

    The adapter has one session, which the first use opens and later uses share. A session that was lost is opened again by the next
    use. Calls may run concurrently, on one event loop at a time; on another loop, the session is opened there.

    Args:
        transport: `stdio` starts `command` with `args`; `sse` and `streamable_http` connect to `url` with `headers`.
        env: Variables of the program, in addition to a few of this process such as PATH.
        cwd: Working directory of the program.
        timeout_s: Timeout of a tool call in seconds; None means the agent's default.
        connect_timeout_s: Timeout of starting or reaching the server, in seconds.
        capabilities: Capabilities that each call needs in addition to `mcp.read`, `mcp.write` and `mcp.destructive`, which follow
            from the tool's annotations.
        trust_annotations: Whether to believe the server that a tool is read-only, idempotent or not destructive. If false, each
            tool counts as destructive.
        sampling: Whether the server may ask the agent's model during a call, under the policy (`model.sample`) and the budget.
        insecure_ok: Whether `headers` with credentials may be sent unencrypted to another machine.

    Raises:
        InvalidArgumentError: An argument is missing, or belongs to another transport; names the field.
    """

    def __init__(
        self,
        transport: McpTransport = "stdio",
        *,
        command: str | None = None,
        args: Sequence[str] | None = None,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float | None = None,
        connect_timeout_s: float = 30.0,
        capabilities: Iterable[str] = (),
        trust_annotations: bool = True,
        sampling: bool = False,
        insecure_ok: bool = False,
    ) -> None:
        self._server = McpServer(
            transport, command or "", tuple(args or ()), env or {}, cwd, url or "", headers or {}, insecure_ok
        )
        for field, value in (("timeout_s", timeout_s), ("connect_timeout_s", connect_timeout_s)):
            if value is not None and not value > 0:
                raise InvalidArgumentError("must be more than 0", field=field)
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._capabilities = frozenset(capabilities)
        self._trusts_annotations = trust_annotations
        self._offers_model = sampling
        self._calls = CallsInProgress()
        self._requests = ServerRequests(str(self._server), self._calls)
        self._listeners: list[Callable[[], None]] = []
        self._described: list[Any] = []
        self._tools: dict[str, Tool] = {}
        self._session: McpSession | None = None
        self._opening: asyncio.Task[McpSession] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"<MCPToolAdapter {self._server}>"

    # -- Session ---------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the session, if it is not open, and read the list of tools.

        Raises:
            UnavailableError: The server could not be started or reached, or is not an MCP server.
            UnimplementedError: The `mcp` extra is not installed.
        """
        await self._open_session()

    async def aclose(self) -> None:
        """Close the session and end the server's process. A later use opens a new session."""
        opening, self._opening = self._opening, None
        session, self._session = self._session, None
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            _close_elsewhere(session, self._loop)
            return
        if opening is not None and not opening.done():
            opening.cancel()
            await asyncio.wait([opening])
        if session is not None:
            await session.aclose()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Self]:
        """Open the session for a block, and close it afterwards."""
        async with self:
            yield self

    async def _open_session(self) -> McpSession:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            _close_elsewhere(self._session, self._loop)
            self._loop, self._session, self._opening = loop, None, None
        if self._session is not None and not self._session.is_lost:
            return self._session
        if self._opening is None or self._opening.done():
            self._opening = loop.create_task(self._replace_session())
            self._opening.add_done_callback(_retrieve_exception)
        return await asyncio.shield(self._opening)

    async def _replace_session(self) -> McpSession:
        lost, self._session = self._session, None
        if lost is not None:
            log.info("MCP server %s: the session was lost and is opened again", self._server)
            await lost.aclose()
        sample = self._requests.sample if self._offers_model else None
        session = McpSession(self._server, self._take_tools, elicit=self._requests.elicit, sample=sample)
        await session.open(self._connect_timeout_s)
        self._session = session
        return session

    # -- Tools -----------------------------------------------------------------------------------------------------------

    async def get_tools_async(self) -> list[Tool]:
        """Return the server's tools. Tools whose schema cannot be enforced are left out, with a warning in the log.

        Raises as `open`.
        """
        await self._open_session()
        return list(self._tools.values())

    async def list_tools_async(self) -> list[dict[str, Any]]:
        """Return the descriptions of the server's tools: `name`, `description`, `input_schema`, `output_schema` and others.

        Raises as `open`.
        """
        return [
            {
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "input_schema": tool.input_schema,
                "output_schema": tool.output_schema,
                "read_only": tool.read_only,
                "idempotent": tool.idempotent,
                "destructive": tool.destructive,
            }
            for tool in await self.get_tools_async()
        ]

    async def wrap_tool_async(self, tool_name: str) -> Tool:
        """Return one tool by the server's name of it.

        Raises:
            InvalidArgumentError: The server has no such tool; names `tool_name`.
        """
        await self._open_session()
        if tool_name not in self._tools:
            raise InvalidArgumentError(f"MCP server {self._server} has no tool '{tool_name}'", field="tool_name")
        return self._tools[tool_name]

    def list_tools(self) -> list[dict[str, Any]]:
        """As `list_tools_async`, for code without an event loop."""
        return background.run(self.list_tools_async())

    def get_tools(self) -> list[Tool]:
        """As `get_tools_async`, for code without an event loop."""
        return background.run(self.get_tools_async())

    def wrap_tool(self, tool_name: str) -> Tool:
        """As `wrap_tool_async`, for code without an event loop."""
        return background.run(self.wrap_tool_async(tool_name))

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` on the adapter's event loop whenever the list of tools has changed, also between two sessions."""
        self._listeners.append(listener)

    async def call_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool outside of an agent, without checking its arguments. The tools of `get_tools_async` check them.

        A call is repeated once if the session was lost and the server cannot have executed it, or the tool is idempotent.

        Raises:
            ToolRejectedError: The server refused the call before it executed it.
            ToolFailedError: The tool reported an error, the server is unavailable, or its answer is invalid.
        """
        return await self._call_tool(tool_name, tool_name, arguments, ToolContext())

    async def _call_tool(self, tool_name: str, own_name: str, arguments: dict[str, Any], context: ToolContext) -> Any:
        known = self._tools.get(tool_name)
        is_repeatable = known is not None and known.idempotent
        with self._calls.run(own_name, context) as call:
            try:
                result = await self._call(
                    lambda client: client.call_tool(tool_name, arguments, progress_callback=call.report_progress),
                    repeat=is_repeatable,
                )
            except Exception as error:
                raise _call_error(own_name, error) from error
        return result_of(own_name, result)

    def build_tools(self, prefix: str = "") -> dict[str, Tool]:
        """Build tools from the server's current list, by the server's names. Their own names have the prefix.

        Tools whose schema cannot be enforced are left out, with a warning in the log.
        """
        tools: dict[str, Tool] = {}
        for each in self._described:
            try:
                tools[each.name] = build_tool(
                    each,
                    self._call_tool,
                    capabilities=self._capabilities,
                    timeout_s=self._timeout_s,
                    trusts_annotations=self._trusts_annotations,
                    server=str(self._server),
                    prefix=prefix,
                )
            except ValueError as error:
                log.warning("MCP server %s: a tool is left out: %s", self._server, error_text(error))
        return tools

    async def _take_tools(self, described: Sequence[Any]) -> None:
        """Store the server's list, and call the listeners if it has changed."""
        if self._described == list(described):
            return
        self._described = list(described)
        self._tools = self.build_tools()
        for listener in self._listeners:
            listener()

    # -- Resources and prompts -------------------------------------------------------------------------------------------

    async def list_resources(self) -> list[dict[str, Any]]:
        """Return the resources of the server in MCP's JSON form. Raises as `read_resource`."""
        return await self._list("list_resources", "resources")

    async def list_resource_templates(self) -> list[dict[str, Any]]:
        """Return the templates of resource URIs in MCP's JSON form. Raises as `read_resource`."""
        return await self._list("list_resource_templates", "resource_templates")

    async def read_resource(self, uri: str) -> list[Part]:
        """Return the contents of a resource.

        Raises:
            InvalidArgumentError: The server refused the request, for instance because it has no such resource; names `uri`.
            UnavailableError: The server cannot be reached, or gave no valid answer in time.
        """
        result = await self._request(lambda client: client.read_resource(uri), field="uri")
        return parts_of(result.contents)

    async def list_prompts(self) -> list[dict[str, Any]]:
        """Return the prompts of the server in MCP's JSON form. Raises as `read_resource`."""
        return await self._list("list_prompts", "prompts")

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[Message]:
        """Return the messages of a prompt. Raises as `read_resource`; a refusal names `name`."""
        given = dict(arguments or {})
        return messages_of(await self._request(lambda client: client.get_prompt(name, given), field="name"))

    async def _list(self, method: str, field: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor = None
        for _ in range(MAX_PAGES):
            page = await self._request(lambda client, cursor=cursor: getattr(client, method)(cursor=cursor), field="")
            found.extend(to_json(each) for each in getattr(page, field))
            cursor = page.next_cursor
            if not cursor:
                break
        return found

    async def _request(self, send: Callable[..., Awaitable[Any]], *, field: str) -> Any:
        """Send a request that may be repeated.

        Args:
            field: The argument that a refusal names; empty for a request without arguments.
        """
        limit = self._timeout_s or self._connect_timeout_s
        try:
            async with asyncio.timeout(limit):
                return await self._call(send, repeat=True)
        except ProtolinkError:
            raise
        except TimeoutError:
            text = f"did not answer within {limit:g} s"
        except Exception as error:  # of the SDK, the server, or the transport
            text = error_text(error)[:MAX_ERROR_CHARS]
            if field and _is_refusal(error):
                raise InvalidArgumentError(f"MCP server {self._server}: {text}", field=field) from error
        raise UnavailableError(f"MCP server {self._server}: {text}", server=str(self._server))

    async def _call(self, send: Callable[[Any], Awaitable[Any]], *, repeat: bool) -> Any:
        require_sdk()
        from mcp import MCPError

        for is_last in (False, True):
            session = await self._open_session()
            try:
                return await send(session.client)
            except MCPError as error:
                if not _is_loss(error):
                    raise
                was_sent = not _is_refused_session(error)
                session.mark_lost()
                if is_last or (was_sent and not repeat):
                    raise
        raise AssertionError("the last attempt returns or raises")


def _is_refused_session(error: Any) -> bool:
    """Whether the server no longer knows the session, so it has not executed the request. The SDK has no code for this."""
    return bool(error.message == "Session terminated")


def _is_loss(error: Any) -> bool:
    from mcp.types import CONNECTION_CLOSED

    return error.code == CONNECTION_CLOSED or _is_refused_session(error)


def _is_refusal(error: Exception) -> bool:
    """Whether the server answered a request with an error."""
    from mcp import MCPError

    return isinstance(error, MCPError) and not _is_loss(error)


def _call_error(tool: str, error: Exception) -> Exception:
    if isinstance(error, ProtolinkError):
        return tool_error(tool, error_text(error))
    from mcp import MCPError

    if isinstance(error, MCPError):
        if _is_loss(error):
            return tool_error(tool, "the connection to the MCP server was lost, and the outcome is unknown")
        return protocol_error(tool, error)
    return tool_error(tool, f"the answer of the MCP server is invalid ({type(error).__name__})")


def _close_elsewhere(session: McpSession | None, loop: asyncio.AbstractEventLoop | None) -> None:
    """Close a session on the event loop that has opened it. If that loop has ended, the session has ended with it."""
    if session is not None and loop is not None and loop.is_running():
        asyncio.run_coroutine_threadsafe(session.aclose(), loop)


def _retrieve_exception(opening: "asyncio.Task[McpSession]") -> None:
    if not opening.cancelled():
        opening.exception()  # so that the loop does not report it if the callers were canceled
