"""The description of an agent's tool for callers. The tools are in `tools`."""

from dataclasses import dataclass, field
from typing import Any

from protolink_grpc.models.action import PolicyEffect
from protolink_grpc.models.json_form import JsonForm
from protolink_grpc.models.kinds import Filled, Seconds


@dataclass(frozen=True, slots=True)
class ToolDescription(JsonForm):
    """The description of a tool by its agent.

    `read_only`, `idempotent`, `destructive` and `streaming` are set by the author of the tool and not verified; False means no or
    unknown.

    Args:
        title: Name for people; empty means `name`.
        input_schema, output_schema: JSON Schemas of the arguments and of the result; empty if not stated.
        request_type, response_type: Full names of the protobuf messages of arguments and result; empty for JSON.
        capabilities: Permissions that a call needs, ordered.
        effect: Decision of the policy about calls of this caller; None if it depends on the call.
        timeout_s: Maximum duration of a call; None if not stated.
    """

    name: Filled
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=dict)
    output_schema: dict[str, Any] = field(default_factory=dict)
    request_type: str = ""
    response_type: str = ""
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False
    streaming: bool = False
    capabilities: tuple[str, ...] = ()
    effect: PolicyEffect | None = None
    timeout_s: Seconds | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OfferedTool(JsonForm):
    """A tool or a peer that is offered to a model. The flags are those of ToolDescription.

    Args:
        runtime_owner: Where it runs: `local`, `mcp:NAME` for a tool of an MCP server, or `agent:NAME` for a peer.
        effect: Decision of policy and context about calls in this run; None if it depends on the call.
    """

    name: Filled
    runtime_owner: str = ""
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False
    effect: PolicyEffect | None = None


@dataclass(frozen=True, slots=True)
class OfferedTools(JsonForm):
    """The tools that are offered to a model, in the order of the prompt."""

    tools: tuple[OfferedTool, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolList:
    """One page: tools by name, and the token of the next page ("" on the last)."""

    tools: list[ToolDescription] = field(default_factory=list)
    next_page_token: str = ""
