"""Values of the registry (filters, agents, changes) and their conversions. Leases are kept elsewhere.

The values are defined beside their conversions because the registry and its clients share them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from plgrpc.v1 import agent_card_pb2, registry_service_pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.open_enum import OpenEnum
from protolink_grpc.wire.cards import FLAGS, card_from_pb, card_to_pb, feature_of_flag, features_of
from protolink_grpc.wire.scalars import EnumNumbers
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
                    *_switched_on(found.get("capabilities", ()), "capabilities"),
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
    running: int = 0
    queued: int = 0


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


_KINDS: Final = EnumNumbers(
    AgentChangeKind,
    {
        AgentChangeKind.UP: registry_service_pb2.AGENT_CHANGE_KIND_UP,
        AgentChangeKind.DOWN: registry_service_pb2.AGENT_CHANGE_KIND_DOWN,
        AgentChangeKind.EXPIRED: registry_service_pb2.AGENT_CHANGE_KIND_EXPIRED,
    },
    field="kind",
)


_STATES: Final = EnumNumbers(
    InstanceState,
    {
        InstanceState.UP: registry_service_pb2.INSTANCE_STATE_UP,
        InstanceState.DRAINING: registry_service_pb2.INSTANCE_STATE_DRAINING,
    },
    field="state",
    unset=InstanceState.UP,
)


def filter_to_pb(wanted: AgentFilter) -> registry_service_pb2.AgentFilter:
    return registry_service_pb2.AgentFilter(
        name=wanted.name,
        role=wanted.role,
        tags=wanted.tags,
        skills=wanted.skills,
        metadata=wanted.metadata,
        features=wanted.features,
    )


def filter_from_pb(pb: registry_service_pb2.AgentFilter) -> AgentFilter:
    return AgentFilter(
        name=pb.name,
        role=pb.role,
        tags=tuple(pb.tags),
        skills=tuple(pb.skills),
        metadata=dict(pb.metadata),
        features=tuple(pb.features),
    )


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


def status_to_pb(lease_id: str, status: InstanceStatus) -> registry_service_pb2.RenewLeaseRequest:
    return registry_service_pb2.RenewLeaseRequest(
        lease_id=lease_id,
        state=_STATES[status.state] if status.state is not None else registry_service_pb2.INSTANCE_STATE_UNSPECIFIED,
        running=status.running,
        queued=status.queued,
    )


def status_from_pb(pb: registry_service_pb2.RenewLeaseRequest) -> InstanceStatus:
    """Convert the content of a heartbeat. Raises InvalidArgumentError for an unknown state or negative number; names the field."""
    for name, count in (("running", pb.running), ("queued", pb.queued)):
        if count < 0:
            raise InvalidArgumentError("must not be negative", field=name)
    return InstanceStatus(_STATES.asked(pb.state, "state") if pb.state else None, pb.running, pb.queued)


def registered_agent_to_pb(agent: RegisteredAgent) -> registry_service_pb2.RegisteredAgent:
    """Convert an agent. Raises like `card_to_pb`. Times are truncated to microseconds."""
    encoded = agent.encoded_card
    return registry_service_pb2.RegisteredAgent(
        card=agent_card_pb2.AgentCard.FromString(encoded) if encoded else card_to_pb(agent.card, "agent.card"),
        revision=agent.revision,
        register_time=_time_to_pb(agent.register_time),
        expire_time=_time_to_pb(agent.expire_time),
        instance_id=agent.instance_id,
        owner=agent.owner,
        state=_STATES[agent.state],
        running=agent.running,
        queued=agent.queued,
    )


def registered_agent_from_pb(pb: registry_service_pb2.RegisteredAgent, field: str = "agent") -> RegisteredAgent:
    """Convert a message to an agent. Raises like `card_from_pb`."""
    return RegisteredAgent(
        card=card_from_pb(pb.card, f"{field}.card"),
        revision=pb.revision,
        register_time=_time_from_pb(pb.register_time),
        expire_time=_time_from_pb(pb.expire_time),
        instance_id=pb.instance_id,
        owner=pb.owner,
        state=_STATES.read(pb.state),
        running=pb.running,
        queued=pb.queued,
    )


def agent_change_to_pb(change: AgentChange) -> registry_service_pb2.AgentChange:
    """Convert a change. Raises like `card_to_pb`."""
    return registry_service_pb2.AgentChange(
        kind=_KINDS[change.kind],
        agent=registered_agent_to_pb(change.agent),
        revision=change.revision,
    )


def agent_change_from_pb(pb: registry_service_pb2.AgentChange, field: str = "change") -> AgentChange:
    """Convert a message to a change. Raises like `card_from_pb`."""
    return AgentChange(_KINDS.read(pb.kind), registered_agent_from_pb(pb.agent, f"{field}.agent"), pb.revision)


def lease_ttl_to_pb(seconds: float) -> Duration:
    """Convert a duration, truncated to microseconds."""
    micros = round(seconds * 1e6)
    return Duration(seconds=micros // 1_000_000, nanos=micros % 1_000_000 * 1_000)


def lease_ttl_from_pb(pb: Duration) -> float:
    """Convert to seconds. An unset duration is 0 and means the default; the registry checks the bounds."""
    return pb.seconds + pb.nanos / 1e9 or DEFAULT_LEASE_TTL_S


def _time_to_pb(seconds: float) -> Timestamp:
    micros = round(seconds * 1e6)
    return Timestamp(seconds=micros // 1_000_000, nanos=micros % 1_000_000 * 1_000)


def _time_from_pb(pb: Timestamp) -> float:
    return (pb.seconds * 1_000_000 + pb.nanos // 1_000) / 1e6


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


def _switched_on(value: object, field: str) -> tuple[str, ...]:
    """Return the contract's words for the capabilities required by ProtoLink's names."""
    if isinstance(value, Mapping):
        for name, wanted in value.items():
            if wanted is not True:
                raise InvalidArgumentError("can only be asked for with true", field=f"{field}.{name}")
        value = list(value)
    return tuple(_word_of(name, f"{field}[{index}]") for index, name in enumerate(_texts(value, field)))


def _word_of(name: str, field: str) -> str:
    word = feature_of_flag(name)
    if word is None:
        raise InvalidArgumentError(f"must be one of {', '.join((*FLAGS.values(), 'supports_inference'))}", field=field)
    return word
