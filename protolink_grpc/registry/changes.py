"""The latest changes by revision, and their view for watchers with a filter."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from protolink_grpc.models.watch import WatchPosition
from protolink_grpc.registry.pages import MAX_PAGE_BYTES
from protolink_grpc.wire.registry import AgentChange, AgentChangeKind, Key, RegisteredAgent

DEFAULT_RING_SIZE = 10_000


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Changes in the order of their revisions, and the reader's position after them.

    A large snapshot is sent in several batches: the first has `reset` set, and all but the last have revision 0, because a reader
    that has received only a part must start again.
    """

    changes: tuple[AgentChange, ...]
    position: WatchPosition


@dataclass(frozen=True, slots=True)
class Record:
    """A change with the keys of its agent. `previous` is the agent before the change, if it had keys that are removed."""

    change: AgentChange
    keys: frozenset[Key]
    previous: RegisteredAgent | None = None
    previous_keys: frozenset[Key] = frozenset()

    def change_for(self, wanted: frozenset[Key]) -> AgentChange | None:
        """Return the change for a watcher of these keys, or None. An agent that no longer matches is DOWN."""
        if wanted <= self.keys:
            return self.change
        if self.previous is not None and wanted <= self.previous_keys:
            return AgentChange(AgentChangeKind.DOWN, self.previous, self.change.revision)
        return None


class ChangeRing:
    """The latest changes without gaps: revision r is in slot r modulo size.

    Args:
        revision: The revision before the first change. At least 1, so that 0 can mean none.
    """

    def __init__(self, revision: int, size: int = DEFAULT_RING_SIZE) -> None:
        self._slots: list[Record | None] = [None] * size
        self._first = self.revision = max(1, revision)

    def append(self, record: Record) -> None:
        if record.change.revision != self.revision + 1:
            raise RuntimeError(f"revision {record.change.revision} does not follow {self.revision}")
        self.revision += 1
        self._slots[self.revision % len(self._slots)] = record

    def since(self, revision: int, wanted: frozenset[Key]) -> ChangeBatch | None:
        """Return the changes after `revision` for a watcher of these keys, up to one response; None if they are not known."""
        oldest = max(self._first, self.revision - len(self._slots))
        if not oldest <= revision <= self.revision:
            return None
        found: list[AgentChange] = []
        room = MAX_PAGE_BYTES
        while revision < self.revision and room > 0:
            revision += 1
            record = self._slots[revision % len(self._slots)]
            change = record.change_for(wanted) if record else None
            if change:
                found.append(change)
                room -= _size_of(change.agent)
        return ChangeBatch(tuple(found), WatchPosition(revision, self.revision))


def snapshot_of(agents: Iterable[RegisteredAgent], revision: int) -> Iterator[ChangeBatch]:
    """Return all agents in batches. An empty snapshot is one batch too."""
    first = True
    piece: list[AgentChange] = []
    room = MAX_PAGE_BYTES
    for agent in sorted(agents, key=lambda each: each.revision):
        if room <= 0:
            yield ChangeBatch(tuple(piece), WatchPosition(0, revision, reset=first))
            first, piece, room = False, [], MAX_PAGE_BYTES
        piece.append(AgentChange(AgentChangeKind.UP, agent, agent.revision))
        room -= _size_of(agent)
    yield ChangeBatch(tuple(piece), WatchPosition(revision, revision, reset=first))


def _size_of(agent: RegisteredAgent) -> int:
    return len(agent.encoded_card) + 64  # 64: an upper bound for revisions, two times and framing
