"""Agent cards between values and `plgrpc`, as messages and as bytes. What a card means is decided elsewhere.

The contract's bounds are checked on the way in only: a card is built step by step and judged when it arrives.
"""

from collections.abc import Sequence
from typing import Any

from google.protobuf.message import DecodeError
from plgrpc.v1 import agent_card_pb2 as pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.card import PROTOCOL_VERSION, AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from protolink_grpc.models.json_value import from_json, to_json

MAX_NAME_BYTES = 128
MAX_SKILLS = 1_000
MAX_TAGS = 100
MAX_METADATA = 100
# Source of the four bounds: the comments of plgrpc/v1/agent_card.proto.

_SCHEME_FIELDS = ("type", "scheme", "description", "metadata")


def card_to_pb(card: AgentCard, field: str = "card") -> pb2.AgentCard:
    """The message of a card.

    Raises:
        InvalidArgumentError: A value that its field cannot hold, a number instead of a text for instance.
    """
    try:
        return pb2.AgentCard(
            name=card.name,
            description=card.description,
            url=card.url,
            transport=card.transport,
            version=card.version,
            protocol_version=card.protocol_version,
            capabilities=_capabilities_to_pb(card.capabilities),
            skills=[skill_to_pb(skill, f"{field}.skills[{index}]") for index, skill in enumerate(card.skills)],
            input_formats=card.input_formats,
            output_formats=card.output_formats,
            security_schemes={
                name: _scheme_to_pb(name, scheme, f"{field}.security_schemes[{name}]")
                for name, scheme in (card.security_schemes or {}).items()
            },
            role=card.role,
            tags=card.tags,
            additional_interfaces=[
                pb2.AgentInterface(url=each.url, transport=each.transport, protocol_version=each.protocol_version)
                for each in card.interfaces
            ],
            metadata=card.metadata,
        )
    except InvalidArgumentError:
        raise
    except (AttributeError, TypeError, ValueError) as error:  # how a value of another type, range or encoding shows
        raise InvalidArgumentError("holds a value that the contract has no form for", field=field) from error


def card_from_pb(pb: pb2.AgentCard, field: str = "card") -> AgentCard:
    """The card of a message, with the contract's defaults in place of what is empty.

    Raises:
        InvalidArgumentError: Something is missing, over its bound, or not the JSON it should be; names the path.
    """
    _require(pb.name, f"{field}.name")
    _require(pb.description, f"{field}.description")
    _require(pb.url, f"{field}.url")
    if len(pb.name.encode()) > MAX_NAME_BYTES:
        raise InvalidArgumentError(f"must be at most {MAX_NAME_BYTES} bytes", field=f"{field}.name")
    _bound(len(pb.skills), MAX_SKILLS, f"{field}.skills")
    _bound(len(pb.tags), MAX_TAGS, f"{field}.tags")
    _bound(len(pb.metadata), MAX_METADATA, f"{field}.metadata")
    version = pb.protocol_version or PROTOCOL_VERSION
    return AgentCard(
        name=pb.name,
        description=pb.description,
        url=pb.url,
        transport=pb.transport or "grpc",
        version=pb.version or "1.0.0",
        protocol_version=version,
        capabilities=_capabilities_from_pb(pb.capabilities, f"{field}.capabilities"),
        skills=_skills_from_pb(pb.skills, f"{field}.skills"),
        input_formats=list(pb.input_formats) or ["text/plain"],
        output_formats=list(pb.output_formats) or ["text/plain"],
        security_schemes={
            name: _scheme_from_pb(scheme, f"{field}.security_schemes[{name}]")
            for name, scheme in pb.security_schemes.items()
        },
        role=pb.role or "worker",
        tags=list(pb.tags),
        interfaces=[
            _interface_from_pb(each, version, f"{field}.additional_interfaces[{index}]")
            for index, each in enumerate(pb.additional_interfaces)
        ],
        metadata=dict(pb.metadata),
    )


def card_to_bytes(card: AgentCard, field: str = "card") -> bytes:
    """The encoded message, the same for the same card within one version of protobuf. Raises like `card_to_pb`."""
    return card_to_pb(card, field).SerializeToString(deterministic=True)


def card_from_bytes(data: bytes, field: str = "card") -> AgentCard:
    """The inverse of `card_to_bytes`. Raises like `card_from_pb`, and when the bytes are no such message."""
    try:
        pb = pb2.AgentCard.FromString(data)
    except DecodeError:
        raise InvalidArgumentError("must be an encoded card", field=field) from None
    return card_from_pb(pb, field)


def _capabilities_to_pb(value: AgentCapabilities) -> pb2.AgentCapabilities:
    return pb2.AgentCapabilities(
        streaming=value.streaming,
        push_notifications=value.push_notifications,
        state_transition_history=value.state_transition_history,
        has_llm=value.has_llm,
        max_concurrency=value.max_concurrency,
        message_batching=value.message_batching,
        tool_calling=value.tool_calling,
        multi_step_reasoning=value.multi_step_reasoning,
        timeout_support=value.timeout_support,
        delegation=value.delegation,
        rag=value.rag,
        code_execution=value.code_execution,
        supports_inference=value.supports_inference,
    )


def _capabilities_from_pb(pb: pb2.AgentCapabilities, field: str) -> AgentCapabilities:
    if pb.max_concurrency < 0:
        raise InvalidArgumentError("must be at least 1", field=f"{field}.max_concurrency")
    return AgentCapabilities(
        streaming=pb.streaming,
        push_notifications=pb.push_notifications,
        state_transition_history=pb.state_transition_history,
        has_llm=pb.has_llm,
        max_concurrency=pb.max_concurrency or 1,
        message_batching=pb.message_batching,
        tool_calling=pb.tool_calling,
        multi_step_reasoning=pb.multi_step_reasoning,
        timeout_support=pb.timeout_support,
        delegation=pb.delegation,
        rag=pb.rag,
        code_execution=pb.code_execution,
        supports_inference=pb.supports_inference if pb.HasField("supports_inference") else None,
    )


def skill_to_pb(skill: AgentSkill, field: str) -> pb2.AgentSkill:
    return pb2.AgentSkill(
        id=skill.id,
        description=skill.description,
        input_schema_json=_object_to_json(skill.input_schema, f"{field}.input_schema_json"),
        output_schema_json=_object_to_json(skill.output_schema, f"{field}.output_schema_json"),
        tags=skill.tags,
        examples_json=[_to_json(item, f"{field}.examples_json[{index}]") for index, item in enumerate(skill.examples)],
    )


def _skills_from_pb(found: Sequence[pb2.AgentSkill], field: str) -> list[AgentSkill]:
    skills: list[AgentSkill] = []
    seen: set[str] = set()
    for index, pb in enumerate(found):
        skill = _skill_from_pb(pb, f"{field}[{index}]")
        if skill.id in seen:
            raise InvalidArgumentError("must be unique in the card", field=f"{field}[{index}].id")
        seen.add(skill.id)
        skills.append(skill)
    return skills


def _skill_from_pb(pb: pb2.AgentSkill, field: str) -> AgentSkill:
    _require(pb.id, f"{field}.id")
    return AgentSkill(
        id=pb.id,
        description=pb.description,
        input_schema=_object_from_json(pb.input_schema_json, f"{field}.input_schema_json"),
        output_schema=_object_from_json(pb.output_schema_json, f"{field}.output_schema_json"),
        tags=list(pb.tags),
        examples=[
            from_json(text, field=f"{field}.examples_json[{index}]") for index, text in enumerate(pb.examples_json)
        ],
    )


def _scheme_to_pb(name: str, scheme: dict[str, Any], field: str) -> pb2.SecurityScheme:
    """A scheme without a type is of the type that its name says; facts without a field of their own join the metadata."""
    further = {key: value for key, value in scheme.items() if key not in _SCHEME_FIELDS}
    metadata = further | (scheme.get("metadata") or {})
    return pb2.SecurityScheme(
        type=scheme.get("type") or name,
        scheme=scheme.get("scheme") or "",
        description=scheme.get("description") or "",
        metadata_json=_object_to_json(metadata, f"{field}.metadata_json"),
    )


def _scheme_from_pb(pb: pb2.SecurityScheme, field: str) -> dict[str, Any]:
    _require(pb.type, f"{field}.type")
    return {
        "type": pb.type,
        "scheme": pb.scheme or None,
        "description": pb.description,
        "metadata": _object_from_json(pb.metadata_json, f"{field}.metadata_json"),
    }


def _interface_from_pb(pb: pb2.AgentInterface, version: str, field: str) -> AgentInterface:
    _require(pb.url, f"{field}.url")
    _require(pb.transport, f"{field}.transport")
    return AgentInterface(url=pb.url, transport=pb.transport, protocol_version=pb.protocol_version or version)


def _object_to_json(value: dict[str, Any], field: str) -> str:
    return _to_json(value, field) if value else ""


def _to_json(value: object, field: str) -> str:
    try:
        return to_json(value)
    except InvalidArgumentError as error:
        raise error.within(field) from None
    except TypeError as error:
        raise InvalidArgumentError(str(error), field=field) from None


def _object_from_json(text: str, field: str) -> dict[str, Any]:
    if not text:
        return {}
    value = from_json(text, field=field)
    if not isinstance(value, dict):
        raise InvalidArgumentError("must be a JSON object", field=field)
    return value


def _require(text: str, field: str) -> None:
    if not text or text.isspace():
        raise InvalidArgumentError("must not be empty", field=field)


def _bound(count: int, most: int, field: str) -> None:
    if count > most:
        raise InvalidArgumentError(f"must have at most {most:,} entries", field=field)
