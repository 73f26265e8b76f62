"""The agent card: identity, capabilities, skills and addresses of an agent. Discovery and calls live elsewhere.

The JSON form has ProtoLink's keys: camelCase for the card, snake_case for capabilities and skills. Both spellings are read.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final, Literal, Self

from protolink_grpc.models import reader
from protolink_grpc.models.json_form import JsonForm, read_fields
from protolink_grpc.models.json_value import canonical_json, plain
from protolink_grpc.models.kinds import ONLY_IF_SET, Count32, Name

PROTOCOL_VERSION = "1.0"
"""Version of the contract `plgrpc.v1`, never of the package."""

MimeType = Literal[
    "text/plain",
    "text/markdown",
    "text/html",
    "application/json",
    "image/png",
    "image/jpeg",
    "image/webp",
    "audio/wav",
    "audio/mpeg",
    "audio/ogg",
    "video/mp4",
    "video/webm",
    "application/pdf",
]
SecuritySchemeType = Literal["apiKey", "http", "oauth2", "mutualTLS", "openIdConnect"]
HttpAuthScheme = Literal["bearer", "basic", "digest", "hmac", "negotiate", "ntlm", "aws4auth", "hawk", "edgegrid"]
AgentRoleType = Literal["gateway", "interface", "observer", "orchestrator", "worker"]
TransportType = Literal["grpc", "http", "sse", "websocket", "json-rpc", "sse-json-rpc", "runtime"]

TRANSPORT_ALIASES: Final[Mapping[str, str]] = MappingProxyType({"json-rpc": "sse", "sse-json-rpc": "sse"})
"""ProtoLink's other names of transports."""

_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


def _snake_keys(data: object) -> dict[str, Any]:
    """Return the object with snake_case keys. If it has both spellings of a key, snake_case wins."""
    source = reader.as_object(data)
    renamed = {_CAPITAL.sub(r"_\1", key).lower(): value for key, value in source.items() if isinstance(key, str)}
    return renamed | source


class _CamelCaseForm(JsonForm):
    """A JSON form that may also be read with camelCase keys."""

    __slots__ = ()

    @classmethod
    def from_dict(cls, data: object) -> Self:
        return cls(**read_fields(cls, _snake_keys(data)))


@dataclass(slots=True)
class AgentCapabilities(JsonForm):
    """The capabilities of an agent. `supports_inference` None means not stated.

    `max_concurrency` is the recommended number of concurrent tasks for callers, 0 if not stated; an agent enforces
    `Limits.max_concurrency`.
    """

    streaming: bool = False
    push_notifications: bool = False
    state_transition_history: bool = False
    has_llm: bool = False
    max_concurrency: Count32 = 1
    message_batching: bool = False
    tool_calling: bool = False
    multi_step_reasoning: bool = False
    timeout_support: bool = False
    delegation: bool = True
    rag: bool = False
    code_execution: bool = False
    supports_inference: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def enabled(self) -> list[str]:
        """Return the names of the enabled capabilities; a count is written as `max_concurrency: 1`."""
        found = self.as_dict().items()
        return [name if value is True else f"{name}: {value}" for name, value in found if value]

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object; None means the defaults. Unknown capabilities are skipped."""
        return cls(**read_fields(cls, {} if data is None else _snake_keys(data)))


@dataclass(slots=True)
class AgentSkill(_CamelCaseForm):
    """One skill of an agent. The schemas are JSON Schema, empty if not stated."""

    id: Name
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=dict)
    output_schema: dict[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    examples: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AgentInterface(_CamelCaseForm):
    """A further address of the same agent. An empty `protocol_version` means not stated."""

    url: Name
    transport: str = "grpc"
    protocol_version: str = PROTOCOL_VERSION

    def to_dict(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "transport": self.transport,
            "protocolVersion": self.protocol_version or PROTOCOL_VERSION,
        }


@dataclass(frozen=True, slots=True)
class AgentCardSignature(JsonForm):
    """A JSON Web Signature of a card, as in A2A 1.0. It is stored and sent unchanged, and not verified here.

    Args:
        protected: Protected header, base64url.
        signature: Signature, base64url.
        header: Unprotected header.
    """

    protected: Name
    signature: Name
    header: dict[str, Any] = field(default_factory=dict, metadata=ONLY_IF_SET)


@dataclass(slots=True)
class AgentCard(JsonForm):
    """The identity of an agent.

    In a card that was received, empty texts and lists mean not stated.

    Args:
        transport: Transport of `url`. ProtoLink defaults to "http"; here the default is "grpc", which this package serves.
        protocol_version: Version of the contract, not of any package.
        capabilities: A dict is read into AgentCapabilities.
        role: Role in the topology, usually one of AgentRoleType; any other text is kept.
        interfaces: Further addresses, best first.
        metadata: Free labels for registry queries.
        features: Values of the contract's `features` that have no flag in AgentCapabilities.
        signatures: Stored and sent unchanged, not verified here.
    """

    name: Name
    description: Name
    url: Name
    transport: str = "grpc"
    version: str = "1.0.0"
    protocol_version: str = PROTOCOL_VERSION
    capabilities: AgentCapabilities = field(default_factory=AgentCapabilities)
    skills: list[AgentSkill] = field(default_factory=list)
    input_formats: list[str] = field(default_factory=lambda: ["text/plain"])
    output_formats: list[str] = field(default_factory=lambda: ["text/plain"])
    security_schemes: dict[str, dict[str, Any]] | None = field(default_factory=dict)
    role: str = "worker"
    tags: list[str] = field(default_factory=list)
    interfaces: list[AgentInterface] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    features: list[str] = field(default_factory=list)
    signatures: list[AgentCardSignature] = field(default_factory=list)

    def __post_init__(self) -> None:
        given: object = self.capabilities
        if isinstance(given, dict):
            self.capabilities = AgentCapabilities.from_dict(given)
        elif not isinstance(given, AgentCapabilities):
            raise TypeError(f"capabilities must be AgentCapabilities or a dict, not {type(given).__name__}")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, with ProtoLink's defaults for fields that are not stated.

        `additionalInterfaces`, `metadata`, `features` and `signatures` are omitted if they are empty.
        """
        found: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "url": self.url,
            "transport": self.transport,
            "version": self.version or "1.0.0",
            "protocolVersion": self.protocol_version or PROTOCOL_VERSION,
            "capabilities": self.capabilities.as_dict() | {"max_concurrency": self.capabilities.max_concurrency or 1},
            "skills": [skill.to_dict() for skill in self.skills],
            "inputFormats": list(self.input_formats) or ["text/plain"],
            "outputFormats": list(self.output_formats) or ["text/plain"],
            "securitySchemes": plain(self.security_schemes or {}),
            "role": self.role or "worker",
            "tags": list(self.tags),
        }
        if self.interfaces:
            found["additionalInterfaces"] = [each.to_dict() for each in self.interfaces]
        if self.metadata:
            found["metadata"] = dict(self.metadata)
        if self.features:
            found["features"] = list(self.features)
        if self.signatures:
            found["signatures"] = [each.to_dict() for each in self.signatures]
        return found

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object. Unknown keys are skipped, and a null is the default.

        Raises:
            InvalidArgumentError: No `name`, `description` or `url`, or a value of the wrong kind; names its path.
        """
        source = _snake_keys(data)
        found = read_fields(cls, source)
        if "interfaces" not in found:
            found["interfaces"] = reader.items(source, "additional_interfaces", AgentInterface.from_dict)
        for name in ("input_formats", "output_formats"):
            if not found.get(name):
                found.pop(name, None)  # an empty list is the default
        return cls(**found)

    def get_prompt_format(self) -> str:
        """Return the agent and its skills as text for the model of another agent. Equal cards give equal texts."""
        lines = [
            f"Agent: {_to_one_line(self.name)}",
            f"Role: {_to_one_line(self.role)}",
            f"Description: {_to_one_line(self.description)}",
            f"Capabilities: {', '.join(self.capabilities.enabled()) or 'none'}",
            f"Input formats: {', '.join(self.input_formats)}",
            f"Output formats: {', '.join(self.output_formats)}",
        ]
        if self.tags:
            lines.append(f"Tags: {', '.join(self.tags)}")
        lines.append("Skills:" if self.skills else "Skills: none")
        for skill in self.skills:
            lines.extend(_describe_skill(skill))
        return "\n".join(lines)


def _describe_skill(skill: AgentSkill) -> list[str]:
    lines = [f"- {_to_one_line(skill.id)}: {_to_one_line(skill.description)}".rstrip(": ")]
    if skill.input_schema:
        lines.append(f"  Input: {canonical_json(skill.input_schema)}")
    if skill.output_schema:
        lines.append(f"  Output: {canonical_json(skill.output_schema)}")
    if skill.tags:
        lines.append(f"  Tags: {', '.join(skill.tags)}")
    lines.extend(f"  Example: {canonical_json(example)}" for example in skill.examples)
    return lines


def _to_one_line(text: str) -> str:
    """Return the text of a peer on one line, so that it cannot imitate other lines."""
    return " ".join(text.split())
