"""Values of the registry (filters, agents, changes) and their conversions. Leases are kept elsewhere.

The values are defined beside their conversions because the registry and its clients share them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from google.protobuf.duration_pb2 import Duration
from plgrpc.v1 import agent_card_pb2, registry_service_pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.kinds import Count
from protolink_grpc.models.open_enum import OpenEnum
from protolink_grpc.wire.cards import FLAGS, card_from_pb, card_to_pb, feature_of_flag, features_of
from protolink_grpc.wire.compile import Codec, LeftOut, Special, enum_numbers
from protolink_grpc.wire.tasks import check_required_id

DEFAULT_LEASE_TTL_S = 30.0
MIN_LEASE_TTL_S = 1.0
MAX_LEASE_TTL_S = 3600.0
# Source of the three: RegisterAgentRequest.lease_ttl in plgrpc/v1/registry_service.proto.

Key = tuple[str, ...]
"""One searchable fact of an agent: (kind, value), for metadata (kind, key, value)."""


@checks_arguments
@dataclass(frozen=True, slots=True)
class AgentFilter:
    """Selects agents: all fields that are set must match exactly; an empty filter matches every agent.

    Args:
        tags: Tags that an agent must all have.
        skills: Ids of skills that an agent must all have.
        metadata: Pairs that an agent must all have.
        features: Words of the contract's `features` that an agent must all declare.
    """

    name: str = ""
    role: str = ""
    tags: Sequence[str] = ()
    skills: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    features: Sequence[str] = ()

    @property
    def keys(self) -> frozenset[Key]:
        """Return the required facts; an agent matches if `keys_of(card)` contains all of them."""
        found: set[Key] = {("name", self.name)} if self.name else set()
        if self.role:
            found.add(("role", self.role))
        found.update(("tag", tag) for tag in self.tags)
        found.update(("skill", skill) for skill in self.skills)
        found.update(("feature", word) for word in self.features)
        found.update(("metadata", key, value) for key, value in self.metadata.items())
        return frozenset(found)

    def matches(self, card: AgentCard) -> bool:
        return self.keys <= keys_of(card)

    @classmethod
    def from_dict(cls, data: object, *, field: str = "filter_by") -> Self:
        """Return the filter of `discover(filter_by=...)`: a single text is accepted as a list of one.

        `capabilities` are ProtoLink's names, as a list or as `{"has_llm": True}`; `features` are the contract's words.

        Raises:
            InvalidArgumentError: An unknown key, or a value of the wrong kind; names its path.
        """
        if data is not None and not isinstance(data, Mapping):
            raise InvalidArgumentError("must be an object", field=field)
        found = {key: value for key, value in (data or {}).items() if value is not None}
        for key in found:
            if key not in _FILTER_KEYS:
                raise InvalidArgumentError(f"must be one of {', '.join(_FILTER_KEYS)}", field=f"{field}.{key}")
        try:
            return cls(
                name=_text(found.get("name", ""), "name"),
                role=_text(found.get("role", ""), "role"),
                tags=_texts(found.get("tags", ()), "tags"),
                skills=_texts(found.get("skills", ()), "skills"),
                metadata=_pairs(found.get("metadata", {}), "metadata"),
                features=(
                    *_texts(found.get("features", ()), "features"),
                    *_read_required(found.get("capabilities", ()), "capabilities"),
                ),
            )
        except InvalidArgumentError as error:
            raise error.within(field) from None


_FILTER_KEYS = ("name", "role", "tags", "skills", "metadata", "features", "capabilities")


def keys_of(card: AgentCard) -> frozenset[Key]:
    """Return all searchable facts of an agent."""
    found: set[Key] = {("name", card.name)}
    if card.role:
        found.add(("role", card.role))
    found.update(("tag", tag) for tag in card.tags)
    found.update(("skill", skill.id) for skill in card.skills)
    found.update(("feature", word) for word in features_of(card))
    found.update(("metadata", key, value) for key, value in card.metadata.items())
    return frozenset(found)


class InstanceState(OpenEnum):
    """UP: accepts work. DRAINING: finishes its current work and accepts no new work."""

    UP = "up"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """The content of a heartbeat.

    Args:
        state: None means unchanged.
        running: Number of runs that execute now.
        queued: Number of runs that wait for a slot now.
    """

    state: InstanceState | None = None
    running: Count = 0
    queued: Count = 0


@dataclass(frozen=True, slots=True)
class RegisteredAgent:
    """A card under a lease, at the time of the request. The card is shared: do not modify it.

    Args:
        revision: Revision of the latest change to the card, the instance or the state.
        register_time: Time of the first registration, seconds since the epoch.
        expire_time: Time when the lease expires unless it is renewed, seconds since the epoch.
        instance_id: Identifies one start of the agent; empty if unspecified.
        owner: Principal that owns the registration; empty if callers are not authenticated.
        running, queued: Number of runs that execute, and that wait, as of the latest heartbeat.
        encoded_card: The encoded card if available, so that an edge need not encode it again.
    """

    card: AgentCard
    revision: int
    register_time: float
    expire_time: float
    instance_id: str = ""
    owner: str = ""
    state: InstanceState = InstanceState.UP
    running: int = 0
    queued: int = 0
    encoded_card: bytes = field(default=b"", compare=False, repr=False)

    @property
    def is_draining(self) -> bool:
        """Whether callers should prefer another instance, if there is one."""
        return self.state == InstanceState.DRAINING

    def is_same_instance(self, other: "RegisteredAgent") -> bool:
        """Whether a watcher sees no difference between the two; load and lease are ignored."""
        return (self.card, self.instance_id, self.owner, self.state) == (
            other.card,
            other.instance_id,
            other.owner,
            other.state,
        )


class AgentChangeKind(OpenEnum):
    """UP: registered, changed, or part of a snapshot. DOWN: deregistered, or no longer matches. EXPIRED: its lease expired."""

    UP = "up"
    DOWN = "down"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class AgentChange:
    """One change. `agent` is the current state for UP, and the last known state for DOWN and EXPIRED."""

    kind: AgentChangeKind
    agent: RegisteredAgent
    revision: int


FILTER: Final = Codec(AgentFilter, registry_service_pb2.AgentFilter)


def target_to_pb(name_or_url: str) -> registry_service_pb2.GetAgentRequest:
    """Return a request for a name or a URL; a name never contains `://`."""
    if "://" in name_or_url:
        return registry_service_pb2.GetAgentRequest(url=name_or_url)
    return registry_service_pb2.GetAgentRequest(name=name_or_url)


def target_from_pb(pb: registry_service_pb2.GetAgentRequest) -> str:
    """Return the name or URL.

    Raises:
        InvalidArgumentError: Both are missing, or the value is in the wrong field; names the field.
    """
    match pb.WhichOneof("target"):
        case "url":
            if "://" not in pb.url:
                raise InvalidArgumentError("must be a URL, like grpc://127.0.0.1:50051", field="url")
            return pb.url
        case "name" if "://" in pb.name:
            raise InvalidArgumentError("is a URL; set url", field="name")
        case _:
            return check_required_id(pb.name, "name")


_STATES: Final = enum_numbers(
    InstanceState, registry_service_pb2.InstanceState.DESCRIPTOR, unset=InstanceState.UP, field="state"
)


def _write_state(status: InstanceStatus) -> int | None:
    return None if status.state is None else _STATES[status.state]


def _read_state(pb: registry_service_pb2.RenewLeaseRequest) -> InstanceState | None:
    return _STATES.read_request(pb.state, "state") if pb.state else None


INSTANCE_STATUS: Final = Codec(
    InstanceStatus,
    registry_service_pb2.RenewLeaseRequest,
    state=Special("state", _write_state, _read_state),
    lease_id=LeftOut("It identifies the lease; the status does not have it."),
)
"""The content of a heartbeat. An unknown state is refused."""


def _write_card(agent: RegisteredAgent) -> agent_card_pb2.AgentCard:
    encoded = agent.encoded_card
    return agent_card_pb2.AgentCard.FromString(encoded) if encoded else card_to_pb(agent.card, "card")


REGISTERED_AGENT: Final = Codec(
    RegisteredAgent,
    registry_service_pb2.RegisteredAgent,
    card=Special("card", _write_card, lambda pb: card_from_pb(pb.card, "card")),
)
AGENT_CHANGE: Final = Codec(AgentChange, registry_service_pb2.AgentChange)


def lease_ttl_from_pb(pb: Duration) -> float:
    """Convert to seconds. An unset duration is 0 and means the default; the registry checks the bounds."""
    return pb.seconds + pb.nanos / 1e9 or DEFAULT_LEASE_TTL_S


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidArgumentError("must be a string", field=field)
    return value


def _texts(value: object, field: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence | set | frozenset):
        raise InvalidArgumentError("must be a string or a list of strings", field=field)
    return tuple(_text(item, f"{field}[{index}]") for index, item in enumerate(value))


def _pairs(value: object, field: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidArgumentError("must map strings to strings", field=field)
    return {_text(key, field): _text(item, f"{field}.{key}") for key, item in value.items()}


def _read_required(value: object, field: str) -> tuple[str, ...]:
    """Return the contract's words for the capabilities required by ProtoLink's names."""
    if isinstance(value, Mapping):
        for name, wanted in value.items():
            if wanted is not True:
                raise InvalidArgumentError("must be true or unset", field=f"{field}.{name}")
        value = list(value)
    return tuple(_word_of(name, f"{field}[{index}]") for index, name in enumerate(_texts(value, field)))


def _word_of(name: str, field: str) -> str:
    word = feature_of_flag(name)
    if word is None:
        raise InvalidArgumentError(f"must be one of {', '.join((*FLAGS.values(), 'supports_inference'))}", field=field)
    return word
