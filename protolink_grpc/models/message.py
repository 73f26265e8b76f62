"""A message: one turn of a conversation between a caller and an agent."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.ids import new_message_id
from protolink_grpc.models.json_form import JsonForm
from protolink_grpc.models.json_schema import SchemaLike
from protolink_grpc.models.kinds import ONLY_IF_SET, Facts, Kind, Time, check_text
from protolink_grpc.models.part import Part
from protolink_grpc.models.payload import Payload

MessageRoleType = Literal["user", "agent", "assistant", "system", "tool"]

ROLES = frozenset({"user", "agent", "assistant", "system", "tool"})


def _check_role(value: object) -> str:
    if check_text(value) not in ROLES:
        raise InvalidArgumentError("must be one of user, agent, assistant, system, tool")
    return str(value)


_ROLE = Kind("role", _check_role)


@dataclass(slots=True)
class Message(JsonForm):
    """The parts of one sender. `role` is one of `ROLES`, which is checked on reading, but not on construction."""

    id: str = field(default_factory=new_message_id)
    role: Annotated[str, _ROLE] = "user"
    parts: list[Part] = field(default_factory=list)
    timestamp: Time = field(default_factory=utc_now)
    metadata: Facts | None = field(default=None, metadata=ONLY_IF_SET)

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
        *,
        output_type: Any = None,
    ) -> Self:
        """Build a user's message with a request to the agent's model. Arguments and errors as in `Part.infer`."""
        return cls(role="user", parts=[Part.infer(prompt, user, output_schema, metadata, output_type=output_type)])

    @classmethod
    def route(
        cls,
        route_key: str,
        reason: str | None = None,
        confidence: float | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Self:
        """Build an agent's message with a routing decision."""
        return cls(role="agent", parts=[Part.route(route_key, reason, confidence, metadata)])

    @classmethod
    def tool_call(
        cls, tool_name: str, args: dict[str, Any] | Payload | None = None, call_id: str | None = None
    ) -> Self:
        """Build a user's message that calls a tool by name."""
        return cls(role="user", parts=[Part.tool_call(tool_name, args, call_id)])
