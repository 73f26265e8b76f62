"""Tools of an MCP server as tools of this package."""

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from protolink_grpc.tools.context import ToolContext
from protolink_grpc.tools.tool import Tool

READ, WRITE, DESTRUCTIVE = "mcp.read", "mcp.write", "mcp.destructive"
"""Capabilities for policies: of tools that change nothing, of the others, and of those that may delete or overwrite data."""

MAX_NAME_CHARS = 128
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_.-]")

CallTool = Callable[[str, str, dict[str, Any], ToolContext], Awaitable[Any]]
"""Called with the server's name of a tool, its name here, the arguments and the context."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """The properties of a tool according to its server. Defaults are those of MCP: a tool may be destructive.

    Args:
        is_destructive_declared: Whether the server has declared it.
    """

    read_only: bool = False
    idempotent: bool = False
    may_destroy: bool = True
    is_destructive_declared: bool = False

    @property
    def capabilities(self) -> frozenset[str]:
        if self.read_only:
            return frozenset({READ})
        return frozenset({WRITE, DESTRUCTIVE} if self.may_destroy else {WRITE})


def read_annotations(described: Any, *, trusts: bool) -> Annotations:
    """Read the annotations of a tool (`mcp.types.Tool`). Those of a server that is not trusted are ignored."""
    hints = described.annotations
    if hints is None or not trusts:
        return Annotations()
    return Annotations(
        read_only=hints.read_only_hint is True,
        idempotent=hints.idempotent_hint is True,
        may_destroy=hints.destructive_hint is not False,
        is_destructive_declared=hints.destructive_hint is True,
    )


def local_name(name: str, prefix: str = "") -> str:
    """Return a name that a tool may have here: characters that are not allowed become `_`, as does a leading digit or dot."""
    chosen = _NOT_ALLOWED.sub("_", prefix + name)
    if not chosen or not (chosen[0].isalpha() or chosen[0] == "_"):
        chosen = f"_{chosen}"
    return chosen[:MAX_NAME_CHARS]


def build_tool(
    described: Any,
    call: CallTool,
    *,
    capabilities: Iterable[str],
    timeout_s: float | None,
    trusts_annotations: bool,
    server: str = "",
    prefix: str = "",
) -> Tool:
    """Build the tool for a description of the server (`mcp.types.Tool`), with its JSON Schema unchanged.

    Args:
        server: Name of the server.
        prefix: Put before the server's name of the tool.

    Raises:
        ValueError: The schema is invalid or too expensive to check.
    """
    annotations = read_annotations(described, trusts=trusts_annotations)
    remote_name = described.name
    own_name = local_name(remote_name, prefix)

    async def run(arguments: dict[str, Any], context: ToolContext) -> Any:
        return await call(remote_name, own_name, arguments, context)

    hints = described.annotations
    return Tool.from_schema(
        run,
        name=own_name,
        title=described.title or (hints.title if hints is not None else None) or "",
        description=described.description or "",
        input_schema=described.input_schema,
        output_schema=described.output_schema,
        tags=["mcp"],
        capabilities=annotations.capabilities | frozenset(capabilities),
        timeout_s=timeout_s,
        read_only=annotations.read_only,
        idempotent=annotations.idempotent,
        destructive=annotations.is_destructive_declared,
        runtime_owner=f"mcp:{server}",
    )
