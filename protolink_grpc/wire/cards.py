"""Converts agent cards between the models and `plgrpc`, as messages and as bytes.

The contract's bounds are checked on decoding only: a card is built step by step and validated when it is received.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.message import DecodeError
from plgrpc.v1 import agent_card_pb2 as pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.card import AgentCapabilities, AgentCard, AgentCardSignature, AgentInterface, AgentSkill
from protolink_grpc.wire.compile import Codec, Computed, Group, Special
from protolink_grpc.wire.scalars import json_object_to_pb, json_value_to_pb
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


def _json_field(name: str) -> Special:
    """Return the line of a JSON object whose errors of any kind name the field."""
    return Special(f"{name}_json", lambda value: json_object_to_pb(getattr(value, name), f"{name}_json"))


def _read_transport(pb: pb2.AgentInterface) -> str:
    _require(pb.transport, "transport")
    return pb.transport


def _write_examples(skill: AgentSkill) -> list[str]:
    return [json_value_to_pb(item, f"examples_json[{index}]") for index, item in enumerate(skill.examples)]


def _write_interfaces(card: AgentCard) -> list[pb2.AgentInterface]:
    own = AgentInterface(card.url, card.transport, card.protocol_version)
    return [INTERFACE.to_pb(each) for each in (own, *card.interfaces)]


def _read_interfaces(pb: pb2.AgentCard) -> tuple[Any, ...]:
    own, *others = INTERFACE.all_from_pb(pb.interfaces, "interfaces")
    return own.url, own.transport, pb.protocol_version or own.protocol_version, others


def _read_features(pb: pb2.AgentCard) -> tuple[AgentCapabilities, list[str]]:
    if pb.max_concurrency < 0:
        raise InvalidArgumentError("must not be negative", field="max_concurrency")
    words = set(pb.features)
    capabilities = AgentCapabilities(
        **{flag: word in words for word, flag in FLAGS.items()},
        supports_inference=next((value for word, value in INFERENCE.items() if word in words), None),
        max_concurrency=pb.max_concurrency,
    )
    return capabilities, list(
        dict.fromkeys(word for word in pb.features if word not in FLAGS and word not in INFERENCE)
    )


def _write_schemes(card: AgentCard) -> dict[str, pb2.SecurityScheme]:
    schemes = card.security_schemes or {}
    return {name: scheme_to_pb(name, scheme, f"security_schemes[{name}]") for name, scheme in schemes.items()}


def _read_schemes(pb: pb2.AgentCard) -> dict[str, dict[str, Any]]:
    return {name: scheme_from_pb(scheme, f"security_schemes[{name}]") for name, scheme in pb.security_schemes.items()}


INTERFACE: Final = Codec(
    AgentInterface,
    pb2.AgentInterface,
    transport=Special("transport", lambda interface: interface.transport, _read_transport),
)
SIGNATURE: Final = Codec(AgentCardSignature, pb2.AgentCardSignature, header=_json_field("header"))
SKILL: Final = Codec(
    AgentSkill,
    pb2.AgentSkill,
    input_schema=_json_field("input_schema"),
    output_schema=_json_field("output_schema"),
    examples=Special("examples_json", _write_examples),
)
CARD: Final = Codec(
    AgentCard,
    pb2.AgentCard,
    interfaces=Group(("url", "transport", "protocol_version", "interfaces"), _write_interfaces, _read_interfaces),
    protocol_version=Computed(lambda card: card.protocol_version),
    features=Group(("capabilities", "features"), features_of, _read_features),
    max_concurrency=Computed(lambda card: card.capabilities.max_concurrency),
    security_schemes=Special("security_schemes", _write_schemes, _read_schemes),
)
"""A card without its bounds, which `card_from_pb` checks. Empty fields stay empty, because empty means unspecified."""


def card_to_pb(card: AgentCard, field: str = "card") -> pb2.AgentCard:
    """Convert a card to a message.

    Raises:
        InvalidArgumentError: A value that its field cannot hold, for instance a number instead of a text; names the path below
            `field`.
    """
    try:
        return CARD.to_pb(card)
    except InvalidArgumentError as error:
        raise error.within(field) from error
    except TypeError as error:
        raise InvalidArgumentError("has no form in the contract", field=field) from error


_BOUNDS: Final = (
    ("interfaces", MAX_INTERFACES),
    ("features", MAX_FEATURES),
    ("skills", MAX_SKILLS),
    ("tags", MAX_TAGS),
    ("metadata", MAX_METADATA),
    ("signatures", MAX_SIGNATURES),
)


def card_from_pb(pb: pb2.AgentCard, field: str = "card") -> AgentCard:
    """Convert a message to a card.

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
    for name, most in _BOUNDS:
        if len(getattr(pb, name)) > most:
            raise InvalidArgumentError(f"must have at most {most:,} entries", field=f"{field}.{name}")
    card = CARD.from_pb(pb, field)
    seen: set[str] = set()
    for index, skill in enumerate(card.skills):
        if skill.id in seen:
            raise InvalidArgumentError("must be unique in the card", field=f"{field}.skills[{index}].id")
        seen.add(skill.id)
    return card


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


def _require(text: str, field: str) -> None:
    if not text or text.isspace():
        raise InvalidArgumentError("must not be empty", field=field)
