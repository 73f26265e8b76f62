"""What the directory keeps of an agent, and what it plans to do with it. Nothing here decides anything."""

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
    """What must survive a restart. Lease times and load need not: the next heartbeat tells them."""

    url: str
    card: bytes = field(repr=False)
    principal: str
    lease_id: str = field(repr=False)
    lease_ttl_s: float
    register_time: float
    revision: int
    instance_id: str = ""
    state: InstanceState = InstanceState.UP

    def is_shown_as(self, other: "StoredAgent") -> bool:
        """Whether readers see the same of both, the revision left aside."""
        return (self.card, self.principal, self.instance_id, self.state) == (
            other.card,
            other.principal,
            other.instance_id,
            other.state,
        )


@dataclass(slots=True, eq=False)
class Entry:
    """An agent under its lease. Keys and position are those of the card as it came, whatever a reader does to it.

    Args:
        running, queued: Its load, as the latest heartbeat said.
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
        before: What is under the URL now.
        visible: Whether readers can tell the difference; only such a change has a revision of its own.
        durable: Whether a restart could tell the difference.
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
