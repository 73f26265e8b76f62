"""The values of the directory: entries and planned changes."""

from dataclasses import dataclass, field

from protolink_grpc.models.card import AgentCard
from protolink_grpc.registry.index import Position
from protolink_grpc.wire.registry import AgentChangeKind, InstanceState, Key


@dataclass(frozen=True, slots=True)
class Registration:
    """A granted lease. `lease_id` is a secret between agent and registry."""

    lease_id: str = field(repr=False)
    lease_ttl_s: float
    revision: int


@dataclass(frozen=True, slots=True)
class StoredAgent:
    """The durable part of an entry. Lease times and load are not part of it: the next heartbeat restores them."""

    url: str
    card: bytes = field(repr=False)
    principal: str
    lease_id: str = field(repr=False)
    lease_ttl_s: float
    register_time: float
    revision: int
    instance_id: str = ""
    state: InstanceState = InstanceState.UP

    def is_same_for_readers(self, other: "StoredAgent") -> bool:
        """Whether both are equal for readers, except for the revision."""
        return (self.card, self.principal, self.instance_id, self.state) == (
            other.card,
            other.principal,
            other.instance_id,
            other.state,
        )


@dataclass(slots=True, eq=False)
class Entry:
    """An agent with its lease. Keys and position are those of the registered card.

    Args:
        running, queued: Its load according to the latest heartbeat.
    """

    stored: StoredAgent
    card: AgentCard
    keys: frozenset[Key]
    position: Position
    due_at: float = 0.0
    running: int = 0
    queued: int = 0

    @property
    def url(self) -> str:
        return self.stored.url


@dataclass(slots=True, eq=False)
class Mutation:
    """A planned change of one URL.

    Args:
        entry: The entry to add or, unless the kind is UP, to remove.
        before: The current entry of the URL.
        visible: Whether the change is visible to readers; only then it has a revision.
        durable: Whether the change must survive a restart.
    """

    kind: AgentChangeKind
    entry: Entry
    before: Entry | None
    visible: bool = True
    durable: bool = True
    revision: int = 0

    @property
    def registration(self) -> Registration:
        stored = self.entry.stored
        return Registration(stored.lease_id, stored.lease_ttl_s, stored.revision)
