"""What was said between users, a model and its tools: the values. How a history is stored or made smaller is decided elsewhere."""

from dataclasses import dataclass, field
from typing import Any, Literal, Self

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import reader
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.ids import new_message_id
from protolink_grpc.models.json_value import plain

LLMRole = Literal["system", "user", "assistant", "tool"]
_ROLES: tuple[LLMRole, ...] = ("system", "user", "assistant", "tool")


@dataclass(slots=True)
class LLMMessage:
    """One entry of a conversation with a model.

    Args:
        content: The text; of a tool's message, its result as JSON.
        tool_calls: Of an assistant's message: what it asks for, `{"id", "name", "arguments"}` each.
        tool_name: Of a tool's message: the tool that answers.
        tool_call_id: Of a tool's message: the id of the call that it answers.
    """

    role: LLMRole
    content: str = ""
    name: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=new_message_id)
    created_at: str = field(default_factory=utc_now)
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    tool_name: str | None = None
    tool_call_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "role": self.role,
            "content": self.content,
            "name": self.name,
            "metadata": plain(self.metadata),
            "id": self.id,
            "created_at": self.created_at,
            "tool_calls": plain(self.tool_calls),
            "tool_name": self.tool_name,
            "tool_call_id": self.tool_call_id,
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Raises InvalidArgumentError, which names the field."""
        source = reader.as_object(data)
        return cls(
            role=_role(source),
            content=reader.text(source, "content"),
            name=reader.optional_text(source, "name"),
            metadata=reader.mapping(source, "metadata"),
            id=reader.text(source, "id") or new_message_id(),
            created_at=reader.moment(source, "created_at"),
            tool_calls=reader.copied(reader.items(source, "tool_calls", reader.as_object), "tool_calls"),
            tool_name=reader.optional_text(source, "tool_name"),
            tool_call_id=reader.optional_text(source, "tool_call_id"),
        )


def _role(source: dict[str, Any]) -> LLMRole:
    role = reader.required_text(source, "role")
    for known in _ROLES:
        if role == known:
            return known
    raise InvalidArgumentError(f"must be one of {', '.join(_ROLES)}", field="role")
