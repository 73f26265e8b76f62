"""What callers are told about a tool of an agent: the value. The function behind it is in `tools`."""

from dataclasses import dataclass, field
from typing import Any

from protolink_grpc.models.action import PolicyEffect


@dataclass(frozen=True, slots=True)
class ToolDescription:
    """A tool as its agent describes it.

    `read_only`, `idempotent`, `destructive` and `streaming` are statements of its author, which nobody checks; False means that it
    is not so, or not known.

    Args:
        title: Name for people; empty means `name`.
        input_schema, output_schema: JSON Schemas of the arguments and of the result; empty where none is stated.
        request_type, response_type: Full names of the protobuf messages that arguments and result are; empty where they are JSON.
        capabilities: Permissions that a call needs, ordered.
        effect: What the policy says about a call by this caller, whatever the arguments; None where only a call can tell.
        timeout_s: How long a call may take; None where the agent states no limit.
    """

    name: str
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
    timeout_s: float | None = None
    tags: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """A JSON object with all fields."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "request_type": self.request_type,
            "response_type": self.response_type,
            "read_only": self.read_only,
            "idempotent": self.idempotent,
            "destructive": self.destructive,
            "streaming": self.streaming,
            "capabilities": list(self.capabilities),
            "effect": None if self.effect is None else str(self.effect),
            "timeout_s": self.timeout_s,
            "tags": list(self.tags),
        }


@dataclass(frozen=True, slots=True)
class ToolList:
    """One page: tools by name, and the token of the next page ("" on the last)."""

    tools: list[ToolDescription] = field(default_factory=list)
    next_page_token: str = ""
