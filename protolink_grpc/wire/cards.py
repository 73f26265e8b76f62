"""Conversions of agent cards between values and `plgrpc`, as messages and as bytes. The meaning of a card is decided elsewhere.

The contract's bounds are checked on decoding only: a card is built step by step and validated when it is received.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from google.protobuf.message import DecodeError
from plgrpc.v1 import agent_card_pb2 as pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.card import AgentCapabilities, AgentCard, AgentCardSignature, AgentInterface, AgentSkill
from protolink_grpc.models.json_value import from_json
from protolink_grpc.wire.scalars import json_object_from_pb, json_object_to_pb, json_value_to_pb
from protolink_grpc.wire.security import scheme_from_pb, scheme_to_pb

MAX_NAME_BYTES = 128
MAX_SKILLS = 1_000
MAX_TAGS = 100
MAX_METADATA = 100
MAX_INTERFACES = 100
MAX_FEATURES = 100
MAX_SIGNATURES = 10
MAX_CARD_BYTES = 1 << 20
# Source of the bounds: the comments of plgrpc/v1/agent_card.proto.

FLAGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "streaming": "streaming",
        "push_notifications": "push_notifications",
        "state_history": "state_transition_history",
        "llm": "has_llm",
        "tools": "tool_calling",
        "delegation": "delegation",
        "rag": "rag",
        "code_execution": "code_execution",
        "multi_step_reasoning": "multi_step_reasoning",
        "message_batching": "message_batching",
        "timeouts": "timeout_support",
    }
)
"""Words of the contract's `features`, each with its flag of AgentCapabilities."""

INFERENCE: Final[Mapping[str, bool]] = MappingProxyType({"inference": True, "no_inference": False})
"""The two words for `supports_inference`; None is written as no word, because it means unspecified."""


def features_of(card: AgentCard) -> list[str]:
    """Return the features of a card without duplicates: those with a flag in the contract's order, then its other features."""
    capabilities = card.capabilities
    found = [word for word, flag in FLAGS.items() if getattr(capabilities, flag)]
    found += [word for word, value in INFERENCE.items() if capabilities.supports_inference is value]
    return list(dict.fromkeys([*found, *card.features]))


def feature_of_flag(flag: str) -> str | None:
    """Return the word for an enabled flag of AgentCapabilities; None if `flag` is not a flag."""
    if flag == "supports_inference":
        return "inference"
    return next((word for word, known in FLAGS.items() if known == flag), None)


def card_to_pb(card: AgentCard, field: str = "card") -> pb2.AgentCard:
    """Convert a card to a message.

    Raises:
        InvalidArgumentError: A value that its field cannot hold, for instance a number instead of a text.
    """
    try:
        return pb2.AgentCard(
            name=card.name,
            description=card.description,
            interfaces=[
                pb2.AgentInterface(url=each.url, transport=each.transport, protocol_version=each.protocol_version)
                for each in (AgentInterface(card.url, card.transport, card.protocol_version), *card.interfaces)
            ],
            version=card.version,
            protocol_version=card.protocol_version,
            features=features_of(card),
            max_concurrency=card.capabilities.max_concurrency,
            skills=[skill_to_pb(skill, f"{field}.skills[{index}]") for index, skill in enumerate(card.skills)],
            input_formats=card.input_formats,
            output_formats=card.output_formats,
            security_schemes={
                name: scheme_to_pb(name, scheme, f"{field}.security_schemes[{name}]")
                for name, scheme in (card.security_schemes or {}).items()
            },
            role=card.role,
            tags=card.tags,
            metadata=card.metadata,
            signatures=[
                pb2.AgentCardSignature(
                    protected=each.protected,
                    signature=each.signature,
                    header_json=json_object_to_pb(each.header, f"{field}.signatures[{index}].header_json"),
                )
                for index, each in enumerate(card.signatures)
            ],
        )
    except InvalidArgumentError:
        raise
    except (AttributeError, TypeError, ValueError) as error:  # raised for a value of another type, range or encoding
        raise InvalidArgumentError("holds a value that the contract has no form for", field=field) from error


def card_from_pb(pb: pb2.AgentCard, field: str = "card") -> AgentCard:
    """Convert a message to a card; empty fields stay empty, because empty means unspecified.

    Raises:
        InvalidArgumentError: A field is missing, over its bound, or not valid JSON; names the path.
    """
    check_card_size(pb.ByteSize(), field)
    _require(pb.name, f"{field}.name")
    _require(pb.description, f"{field}.description")
    if len(pb.name.encode()) > MAX_NAME_BYTES:
        raise InvalidArgumentError(f"must be at most {MAX_NAME_BYTES} bytes", field=f"{field}.name")
    if not pb.interfaces:
        raise InvalidArgumentError("must have at least one entry", field=f"{field}.interfaces")
    _bound(len(pb.interfaces), MAX_INTERFACES, f"{field}.interfaces")
    _bound(len(pb.features), MAX_FEATURES, f"{field}.features")
    _bound(len(pb.skills), MAX_SKILLS, f"{field}.skills")
    _bound(len(pb.tags), MAX_TAGS, f"{field}.tags")
    _bound(len(pb.metadata), MAX_METADATA, f"{field}.metadata")
    _bound(len(pb.signatures), MAX_SIGNATURES, f"{field}.signatures")
    if pb.max_concurrency < 0:
        raise InvalidArgumentError("must not be negative", field=f"{field}.max_concurrency")
    first, *others = (_interface_from_pb(each, f"{field}.interfaces[{i}]") for i, each in enumerate(pb.interfaces))
    return AgentCard(
        name=pb.name,
        description=pb.description,
        url=first.url,
        transport=first.transport,
        version=pb.version,
        protocol_version=pb.protocol_version or first.protocol_version,
        capabilities=_capabilities_of(pb.features, pb.max_concurrency),
        skills=_skills_from_pb(pb.skills, f"{field}.skills"),
        input_formats=list(pb.input_formats),
        output_formats=list(pb.output_formats),
        security_schemes={
            name: scheme_from_pb(scheme, f"{field}.security_schemes[{name}]")
            for name, scheme in pb.security_schemes.items()
        },
        role=pb.role,
        tags=list(pb.tags),
        interfaces=others,
        metadata=dict(pb.metadata),
        features=_further_features(pb.features),
        signatures=[_signature_from_pb(each, f"{field}.signatures[{i}]") for i, each in enumerate(pb.signatures)],
    )


def check_card_size(size: int, field: str = "card") -> None:
    """Check the size of an encoded card in bytes.

    Raises:
        InvalidArgumentError: It is more than `MAX_CARD_BYTES`; the message contains both numbers.
    """
    if size > MAX_CARD_BYTES:
        raise InvalidArgumentError(f"has {size:,} bytes as encoded; a card has at most {MAX_CARD_BYTES:,}", field=field)


def card_to_bytes(card: AgentCard, field: str = "card") -> bytes:
    """Encode a card. Within one version of protobuf, equal cards give equal bytes. Raises like `card_to_pb`."""
    return card_to_pb(card, field).SerializeToString(deterministic=True)


def card_from_bytes(data: bytes, field: str = "card") -> AgentCard:
    """Decode a card, the inverse of `card_to_bytes`. Raises like `card_from_pb`, and when the bytes are not such a message."""
    try:
        pb = pb2.AgentCard.FromString(data)
    except DecodeError:
        raise InvalidArgumentError("must be an encoded card", field=field) from None
    return card_from_pb(pb, field)


def _capabilities_of(features: Iterable[str], max_concurrency: int) -> AgentCapabilities:
    words = set(features)
    return AgentCapabilities(
        **{flag: word in words for word, flag in FLAGS.items()},
        supports_inference=next((value for word, value in INFERENCE.items() if word in words), None),
        max_concurrency=max_concurrency,
    )


def _further_features(features: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(word for word in features if word not in FLAGS and word not in INFERENCE))


def _signature_from_pb(pb: pb2.AgentCardSignature, field: str) -> AgentCardSignature:
    _require(pb.protected, f"{field}.protected")
    _require(pb.signature, f"{field}.signature")
    return AgentCardSignature(pb.protected, pb.signature, json_object_from_pb(pb.header_json, f"{field}.header_json"))


def skill_to_pb(skill: AgentSkill, field: str) -> pb2.AgentSkill:
    return pb2.AgentSkill(
        id=skill.id,
        description=skill.description,
        input_schema_json=json_object_to_pb(skill.input_schema, f"{field}.input_schema_json"),
        output_schema_json=json_object_to_pb(skill.output_schema, f"{field}.output_schema_json"),
        tags=skill.tags,
        examples_json=[
            json_value_to_pb(item, f"{field}.examples_json[{index}]") for index, item in enumerate(skill.examples)
        ],
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
        input_schema=json_object_from_pb(pb.input_schema_json, f"{field}.input_schema_json"),
        output_schema=json_object_from_pb(pb.output_schema_json, f"{field}.output_schema_json"),
        tags=list(pb.tags),
        examples=[
            from_json(text, field=f"{field}.examples_json[{index}]") for index, text in enumerate(pb.examples_json)
        ],
    )


def _interface_from_pb(pb: pb2.AgentInterface, field: str) -> AgentInterface:
    _require(pb.url, f"{field}.url")
    _require(pb.transport, f"{field}.transport")
    return AgentInterface(url=pb.url, transport=pb.transport, protocol_version=pb.protocol_version)


def _require(text: str, field: str) -> None:
    if not text or text.isspace():
        raise InvalidArgumentError("must not be empty", field=field)


def _bound(count: int, most: int, field: str) -> None:
    if count > most:
        raise InvalidArgumentError(f"must have at most {most:,} entries", field=field)
