"""One turn of a conversation between a caller and an agent. Which turns a task accepts is decided elsewhere."""

from dataclasses import dataclass, field
from typing import Any, Literal, Self

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import reader
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.ids import new_message_id
from protolink_grpc.models.json_schema import SchemaLike
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.part import Part
from protolink_grpc.models.payload import Payload

MessageRoleType = Literal["user", "agent", "assistant", "system", "tool"]

ROLES = frozenset({"user", "agent", "assistant", "system", "tool"})


@dataclass(slots=True)
class Message:
    """Parts from one speaker. `role` is one of `ROLES`, checked when read, never when constructed; `metadata` None means none."""

    id: str = field(default_factory=new_message_id)
    role: str = "user"
    parts: list[Part] = field(default_factory=list)
    timestamp: str = field(default_factory=utc_now)
    metadata: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The text parts, one per line; other parts are skipped."""
        return "\n".join(str(part.content) for part in self.parts if part.type == "text")

    def add_text(self, text: str) -> Self:
        self.parts.append(Part("text", text))
        return self

    def add_part(self, part: Part) -> Self:
        self.parts.append(part)
        return self

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "id": self.id,
            "role": self.role,
            "parts": [part.to_dict() for part in self.parts],
            "timestamp": self.timestamp,
        }
        if self.metadata:
            found["metadata"] = plain(self.metadata)
        return found

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """The message of a JSON object; a missing id or timestamp is made, unknown keys are skipped.

        Raises:
            InvalidArgumentError: A value of the wrong kind; names its path, for instance `parts[0].type`.
        """
        source = reader.as_object(data)
        role = reader.text(source, "role") or "user"
        if role not in ROLES:
            raise InvalidArgumentError("must be one of user, agent, assistant, system, tool", field="role")
        return cls(
            id=reader.text(source, "id") or new_message_id(),
            role=role,
            parts=reader.items(source, "parts", Part.from_dict),
            timestamp=reader.moment(source, "timestamp"),
            metadata=reader.mapping(source, "metadata") or None,
        )

    @classmethod
    def user(cls, text: str) -> Self:
        return cls(role="user", parts=[Part("text", text)])

    @classmethod
    def agent(cls, text: str) -> Self:
        return cls(role="agent", parts=[Part("text", text)])

    @classmethod
    def assistant(cls, text: str) -> Self:
        return cls(role="assistant", parts=[Part("text", text)])

    @classmethod
    def system(cls, text: str) -> Self:
        return cls(role="system", parts=[Part("text", text)])

    @classmethod
    def infer(
        cls,
        prompt: str | None = None,
        user: str | None = None,
        output_schema: SchemaLike | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Self:
        """A user's message that asks the agent's model."""
        return cls(role="user", parts=[Part.infer(prompt, user, output_schema, metadata)])

    @classmethod
    def route(
        cls,
        route_key: str,
        reason: str | None = None,
        confidence: float | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Self:
        """An agent's message that tells a router where to go."""
        return cls(role="agent", parts=[Part.route(route_key, reason, confidence, metadata)])

    @classmethod
    def tool_call(
        cls, tool_name: str, args: dict[str, Any] | Payload | None = None, call_id: str | None = None
    ) -> Self:
        """A user's message that calls a tool by name."""
        return cls(role="user", parts=[Part.tool_call(tool_name, args, call_id)])
