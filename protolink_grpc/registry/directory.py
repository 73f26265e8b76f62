"""The directory: agent cards under leases in memory, without disk and network.

Theory of operation. Everything that an agent can be found by is a key (`keys_of`). A list iterates over the rarest requested key
from the token's position and filters by the other keys, so its cost is that of the rarest key, without sorting.

URLs are compared in their canonical form (`canonical_url`). A name belongs to the principal that registered it first (`names`),
so all agents with one name are instances of one service. A lookup by name returns the instance that was registered last and is
not draining, or a draining one if there is no other.

Expiry times of leases are on a heap. A renewal only changes the entry's time; the heap is corrected when the old time is reached.
An agent whose lease has expired is invisible at once, even before it is removed. The load that a renewal reports is stored in the
entry and is not a change; a new state is one.

A change has three steps, so that it can be written to disk before the last one: `plan_*` decides (and reserves the name, so that
two plans never assign it to two principals), `stage` assigns revisions, `apply` makes it visible. `register`, `deregister` and
`expire` do all three at once. Between planning and applying there must be no other change for the same URL, and staged changes
must be applied in order. Revisions start at the microseconds of the clock, so that a watcher with a revision of an earlier process
gets a snapshot.

One event loop owns a directory. It is not thread-safe, and only `watch` waits.
"""

import asyncio
import heapq
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Container, Iterable, Sequence
from dataclasses import replace
from itertools import count

from protolink_grpc.auth.principal import ANONYMOUS
from protolink_grpc.errors import (
    AgentConflictError,
    AgentNotFoundError,
    InvalidArgumentError,
    LeaseNotFoundError,
    ResourceExhaustedError,
    StoreError,
)
from protolink_grpc.models.card import AgentCard
from protolink_grpc.net.address import canonical_url, comparable_url
from protolink_grpc.registry.changes import DEFAULT_RING_SIZE, ChangeBatch, ChangeRing, Record, snapshot_of
from protolink_grpc.registry.entries import Entry, Mutation, Registration, StoredAgent
from protolink_grpc.registry.index import AgentIndex
from protolink_grpc.registry.names import DEFAULT_NAME_HOLD_S, NameOwners, NameRecord, check_name, name_key
from protolink_grpc.registry.pages import MAX_PAGE_BYTES, Page, check_page_size, decode_token, encode_token
from protolink_grpc.wire.cards import card_from_bytes, card_to_bytes
from protolink_grpc.wire.registry import (
    DEFAULT_LEASE_TTL_S,
    MAX_LEASE_TTL_S,
    MIN_LEASE_TTL_S,
    AgentChange,
    AgentChangeKind,
    AgentFilter,
    InstanceState,
    InstanceStatus,
    Key,
    RegisteredAgent,
    keys_of,
)

DEFAULT_MAX_AGENTS = 10_000
"""Maximum number of registered agents of one principal: far more than a fleet has, few enough for memory."""

MAX_CLOCK_DRIFT_S = 1.0
"""How far the system's clock may drift from the lease clock before displayed times are corrected, in seconds."""

_ALL = AgentFilter()
_AS_BEFORE = InstanceStatus()


class AgentDirectory:
    """Agents in memory.

    Args:
        clock: Seconds since the epoch, for displayed times. None means the system's clock.
        lease_clock: Monotonic seconds, for leases. None means `clock` if it is given, otherwise the system's monotonic clock.
        ring_size: Number of changes kept for watchers that reconnect or fall behind.
        name_hold_s: How long a name stays reserved after its last registration, in seconds.
        max_agents: Maximum number of registered agents of one principal.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] | None = None,
        lease_clock: Callable[[], float] | None = None,
        ring_size: int = DEFAULT_RING_SIZE,
        name_hold_s: float = DEFAULT_NAME_HOLD_S,
        max_agents: int = DEFAULT_MAX_AGENTS,
    ) -> None:
        if max_agents < 1:
            raise InvalidArgumentError("must be at least 1", field="max_agents")
        self._clock = clock or time.time
        self.names = NameOwners(name_hold_s, self._clock)
        self._max_agents = max_agents
        self._counts: Counter[str] = Counter()  # agents by principal
        self.now = lease_clock or clock or time.monotonic
        self._epoch = self._clock() - self.now()
        self._by_url: dict[str, Entry] = {}
        self._by_lease: dict[str, Entry] = {}
        self._index = AgentIndex()
        self._heap: list[tuple[float, int, Entry]] = []
        self._tickets = count()  # orders equal expiry times, so that entries are never compared
        self._ring_size = ring_size
        self._ring = ChangeRing(int(self._clock() * 1e6), ring_size)
        self._wakeups: set[asyncio.Event] = set()
        self._closed = False

    @property
    def revision(self) -> int:
        """The revision of the latest visible change."""
        return self._ring.revision

    def __len__(self) -> int:
        return len(self._by_url)

    # Leases

    def register(
        self,
        card: AgentCard,
        principal: str,
        lease_ttl_s: float = DEFAULT_LEASE_TTL_S,
        lease_id: str = "",
        instance_id: str = "",
    ) -> Registration:
        """Add or replace the card under its URL. Raises as `plan_registration`."""
        mutation = self.plan_registration(card, principal, lease_ttl_s, lease_id, instance_id=instance_id)
        self.perform([mutation])
        return mutation.registration

    def renew(self, lease_id: str, principal: str, status: InstanceStatus = _AS_BEFORE) -> float:
        """Renew a lease. Returns its length from now in seconds. Raises as `plan_renewal`."""
        lease_ttl_s, mutation = self.plan_renewal(lease_id, principal, status)
        if mutation is not None:
            self.perform([mutation])
        return lease_ttl_s

    def deregister(self, lease_id: str, principal: str) -> bool:
        """Remove a registration. Returns whether this principal had it."""
        mutation = self.plan_removal(lease_id, principal)
        if mutation is not None:
            self.perform([mutation])
        return mutation is not None

    def expire(self, now: float | None = None) -> int:
        """Remove expired registrations and return their number."""
        mutations = self.plan_expiry(self.now() if now is None else now)
        self.perform(mutations)
        return len(mutations)

    def next_expiry(self) -> float | None:
        """The next time of the lease clock at which `expire` may have something to remove, or None."""
        while self._heap:
            due_at, _, entry = self._heap[0]
            if self._by_url.get(entry.url) is not entry:
                heapq.heappop(self._heap)
            elif entry.due_at > due_at:
                heapq.heapreplace(self._heap, (entry.due_at, next(self._tickets), entry))
            else:
                return due_at
        return None

    # Reading

    def get(self, name_or_url: str) -> RegisteredAgent:
        """Return the agent with a URL or a name.

        If several instances have the name, this is the one registered last that is not draining, or a draining one if all are.

        Raises:
            InvalidArgumentError: The text is empty.
            AgentNotFoundError: There is none. The message suggests the most similar name.
        """
        if not name_or_url:
            raise InvalidArgumentError("must not be empty", field="name")
        now = self.now()
        if "://" in name_or_url:  # names do not contain `://`
            entry = self._by_url.get(comparable_url(name_or_url))
            found = [entry] if entry is not None and entry.due_at > now else []
        else:
            found = list(self._find(AgentFilter(name=name_or_url).keys, now))
        if found:
            return self._view(max(found, key=_rank))
        raise self._not_found_error(name_or_url)

    def list(self, wanted: AgentFilter = _ALL, page_size: int = 0, page_token: str = "") -> Page:
        """Return one page of the matching agents by name and URL. A page with large cards may be shorter than requested.

        Raises:
            InvalidArgumentError: `page_size` is outside 0 to 1,000, or the token is invalid or belongs to another filter.
        """
        keys = wanted.keys
        now = self.now()
        most = check_page_size(page_size)
        found: list[Entry] = []
        room = MAX_PAGE_BYTES
        for position in self._index.candidates(keys, decode_token(page_token, keys)):
            entry = self._by_url[position[1]]
            if entry.due_at <= now or not keys <= entry.keys:
                continue
            if len(found) == most or room <= 0:
                token = encode_token(found[-1].position, keys)
                return Page(tuple(map(self._view, found)), token, self.revision)
            found.append(entry)
            room -= len(entry.stored.card)
        return Page(tuple(map(self._view, found)), "", self.revision)

    async def watch(self, wanted: AgentFilter = _ALL, after_revision: int = 0) -> AsyncGenerator[ChangeBatch, None]:
        """Yield the changes after a revision, then new ones, until the directory is closed.

        A watcher without a known revision gets a snapshot. A slow watcher does not delay others. If the filter hides changes, a
        position alone is yielded before the watcher's last position falls out of the ring.

        Raises:
            InvalidArgumentError: The revision is negative.
        """
        if after_revision < 0:
            raise InvalidArgumentError("must not be negative", field="after_revision")
        keys = wanted.keys
        revision = sent = after_revision
        start, caught_up = self.revision, False
        wakeup = asyncio.Event()
        self._wakeups.add(wakeup)
        try:
            while not self._closed:
                wakeup.clear()
                for batch in self._next_batches(revision, keys):
                    position, revision = batch.position, batch.position.revision
                    if not caught_up and revision >= start:
                        caught_up, sent = True, revision
                        yield replace(batch, position=replace(position, caught_up=True))
                    elif batch.changes or position.reset or revision - sent >= self._ring_size // 2:
                        sent = revision
                        yield batch
                if revision == self.revision:
                    await wakeup.wait()
        finally:
            self._wakeups.discard(wakeup)

    def close(self) -> None:
        """End every watch."""
        self._closed = True
        self._wake()

    # Changing, in steps

    def plan_registration(
        self,
        card: AgentCard,
        principal: str,
        lease_ttl_s: float,
        lease_id: str,
        *,
        instance_id: str = "",
        is_admin: bool = False,
        max_lease_ttl_s: float = MAX_LEASE_TTL_S,
    ) -> Mutation:
        """Plan the registration of a card. A lease that it replaces is extended to its full length meanwhile.

        A principal may replace its own card, and a caller that knows the lease may replace any. Unauthenticated callers are one
        principal. A given lease is kept if it is valid and belongs to this URL; otherwise a new one is granted. The name is
        reserved for the principal from now on, even if the plan is not carried out.

        Args:
            instance_id: Identifies the agent's process; empty if unknown.
            is_admin: Whether the principal may take over names and URLs of others.

        Raises:
            InvalidArgumentError: The contract does not allow the card or the length of the lease; names the path.
            AgentConflictError: The name, or the URL with a valid lease, belongs to another principal.
            ResourceExhaustedError: The principal has too many agents.
        """
        if not MIN_LEASE_TTL_S <= lease_ttl_s <= max_lease_ttl_s:
            raise InvalidArgumentError(
                f"must be from {MIN_LEASE_TTL_S:g} to {max_lease_ttl_s:g} seconds", field="lease_ttl"
            )
        encoded = card_to_bytes(card)
        check_name(card.name, field="card.name")
        url = canonical_url(card.url, field="card.url")
        before = self._by_url.get(url)
        alive = before if before is not None and before.due_at > self.now() else None
        keeps_lease = alive is not None and alive.stored.lease_id == lease_id
        if not is_admin:
            self._check_owner(card, principal, alive, keeps_lease)
        if self._counts[principal] - (before is not None and before.stored.principal == principal) >= self._max_agents:
            raise ResourceExhaustedError(
                f"a principal may have at most {self._max_agents:,} registered agents", limit=str(self._max_agents)
            )
        entry = self._create_entry(
            StoredAgent(
                url=url,
                card=encoded,
                principal=principal,
                lease_id=lease_id if keeps_lease else secrets.token_urlsafe(24),
                lease_ttl_s=lease_ttl_s,
                register_time=alive.stored.register_time if alive else self._clock(),
                revision=alive.stored.revision if alive else 0,
                instance_id=instance_id,
            )
        )
        self.names.claim(card.name, principal)
        if alive is None:
            return Mutation(AgentChangeKind.UP, entry, before)
        alive.due_at = self.now() + alive.stored.lease_ttl_s  # otherwise it could expire before the change is applied
        visible = not alive.stored.is_same_for_readers(entry.stored)
        return Mutation(AgentChangeKind.UP, entry, before, visible, durable=alive.stored != entry.stored)

    def plan_renewal(self, lease_id: str, principal: str, status: InstanceStatus) -> tuple[float, Mutation | None]:
        """Renew a lease and store the load immediately. Returns its length in seconds, and the change of state if there is one.

        Raises:
            LeaseNotFoundError: The lease is unknown or expired, or belongs to another principal.
        """
        entry = self._find_lease(lease_id, principal)
        if entry is None:
            raise LeaseNotFoundError("the lease is unknown or expired; register again")
        stored = entry.stored
        entry.due_at = self.now() + stored.lease_ttl_s
        entry.running, entry.queued = status.running, status.queued
        if status.state is None or status.state == stored.state:
            return stored.lease_ttl_s, None
        changed = replace(entry, stored=replace(stored, state=status.state))
        return stored.lease_ttl_s, Mutation(AgentChangeKind.UP, changed, entry)

    def plan_evictions(self, name: str, owner: str | None) -> Sequence[Mutation]:
        """Plan the removal of a name's agents that do not belong to the owner; None means all of them."""
        key = name_key(name)
        return [
            Mutation(AgentChangeKind.DOWN, entry, entry)
            for entry in self._by_url.values()
            if name_key(entry.position[0]) == key and entry.stored.principal != owner
        ]

    def plan_removal(self, lease_id: str, principal: str) -> Mutation | None:
        """Plan a deregistration. Returns None if there is no registration."""
        entry = self._find_lease(lease_id, principal)
        return None if entry is None else Mutation(AgentChangeKind.DOWN, entry, entry)

    def plan_expiry(self, now: float, busy: Container[str] = ()) -> Sequence[Mutation]:
        """Plan the removal of expired registrations. An entry is planned only once, unless `reschedule` is called.

        Args:
            busy: URLs with a pending change. They are left out until that change is applied.
        """
        found: list[Mutation] = []
        while self._heap and self._heap[0][0] <= now:
            _, _, entry = heapq.heappop(self._heap)
            if self._by_url.get(entry.url) is not entry or entry.url in busy:
                continue
            if entry.due_at > now:
                heapq.heappush(self._heap, (entry.due_at, next(self._tickets), entry))
            else:
                found.append(Mutation(AgentChangeKind.EXPIRED, entry, entry))
        return found

    def perform(self, mutations: Sequence[Mutation]) -> None:
        """Stage and apply."""
        self.stage(mutations)
        self.apply(mutations)

    def name_records(self, mutations: Iterable[Mutation]) -> Sequence[NameRecord]:
        """Return the current records of the names in these changes, for the file."""
        entries = [entry for each in mutations for entry in (each.before, each.entry) if entry is not None]
        found = (self.names.record(entry.position[0], entry.stored.principal) for entry in entries)
        return list({each.key: each for each in found if each is not None}.values())

    def stage(self, mutations: Iterable[Mutation]) -> int:
        """Assign the next revisions. Returns the last one."""
        revision = self.revision
        for mutation in mutations:
            if mutation.visible:
                revision += 1
                mutation.revision = revision
                if mutation.kind is AgentChangeKind.UP:
                    mutation.entry.stored = replace(mutation.entry.stored, revision=revision)
        return revision

    def apply(self, mutations: Iterable[Mutation]) -> None:
        """Make staged changes visible and wake the watchers."""
        for mutation in mutations:
            if self._by_url.get(mutation.entry.url) is not mutation.before:
                raise RuntimeError(f"{mutation.entry.url} has changed since this change was planned")
            record = self._build_record(mutation) if mutation.visible else None
            if mutation.before is not None:
                self._remove(mutation.before)
            if mutation.kind is AgentChangeKind.UP:
                self._add(mutation.entry)
            if record is not None:
                self._ring.append(record)
        self._wake()

    def reschedule(self) -> None:
        """Rebuild the heap of leases: after planned changes were dropped, or if most of the heap is outdated."""
        self._heap = [(entry.due_at, next(self._tickets), entry) for entry in self._by_url.values()]
        heapq.heapify(self._heap)

    def load(self, agents: Iterable[StoredAgent], revision: int, names: Iterable[NameRecord] = ()) -> None:
        """Fill an unused directory, with a new lease for each agent.

        Args:
            revision: The last assigned revision; the directory continues after it.

        Raises:
            StoreError: A card cannot be read.
        """
        self.names.load(names)
        for stored in agents:
            try:
                self._add(self._create_entry(stored))
            except InvalidArgumentError as error:
                raise StoreError(f"the stored card of {stored.url} is damaged", url=stored.url) from error
        self._ring = ChangeRing(max(revision, self.revision), self._ring_size)

    # Helpers

    def _check_owner(self, card: AgentCard, principal: str, alive: Entry | None, keeps_lease: bool) -> None:
        """Raise AgentConflictError if the URL or the name of a card belongs to another principal.

        A lease is a secret of its agent: a caller that knows it is that agent with another principal.
        """
        if alive is not None and alive.stored.principal != principal and not keeps_lease:
            raise AgentConflictError(f"{card.url} is registered to another principal", url=card.url)
        if not (keeps_lease and alive is not None and name_key(alive.position[0]) == name_key(card.name)):
            self.names.check(card.name, principal)

    def _create_entry(self, stored: StoredAgent) -> Entry:
        """Create an entry. The card is decoded from its bytes, so that it is validated and not shared."""
        card = card_from_bytes(stored.card)
        return Entry(stored, card, keys_of(card), (card.name, stored.url), self.now() + stored.lease_ttl_s)

    def _add(self, entry: Entry) -> None:
        entry.due_at = self.now() + entry.stored.lease_ttl_s
        self._by_url[entry.url] = self._by_lease[entry.stored.lease_id] = entry
        self._index.add(entry.position, entry.keys)
        self._counts[entry.stored.principal] += 1
        self.names.add_registration(entry.position[0], entry.stored.principal)
        self._schedule(entry)

    def _remove(self, entry: Entry) -> None:
        del self._by_url[entry.url], self._by_lease[entry.stored.lease_id]
        self._index.remove(entry.position, entry.keys)
        self._counts[entry.stored.principal] -= 1
        if not self._counts[entry.stored.principal]:
            del self._counts[entry.stored.principal]
        self.names.remove_registration(entry.position[0])

    def _schedule(self, entry: Entry) -> None:
        heapq.heappush(self._heap, (entry.due_at, next(self._tickets), entry))
        if len(self._heap) > 2 * len(self._by_url) + 1_024:  # 1,024: small heaps are not rebuilt
            self.reschedule()

    def _find_lease(self, lease_id: str, principal: str) -> Entry | None:
        entry = self._by_lease.get(lease_id)
        if entry is None or entry.stored.principal != principal or entry.due_at <= self.now():
            return None
        return entry

    def _to_epoch(self, moment: float) -> float:
        """Convert a time of the lease clock to seconds since the epoch. The result only changes if the system's clock is set."""
        epoch = self._clock() - self.now()
        if abs(epoch - self._epoch) > MAX_CLOCK_DRIFT_S:
            self._epoch = epoch
        return self._epoch + moment

    def _view(self, entry: Entry) -> RegisteredAgent:
        stored = entry.stored
        expire_time = self._to_epoch(entry.due_at)
        return RegisteredAgent(
            entry.card,
            stored.revision,
            stored.register_time,
            expire_time,
            instance_id=stored.instance_id,
            owner="" if stored.principal == ANONYMOUS else stored.principal,
            state=stored.state,
            running=entry.running,
            queued=entry.queued,
            encoded_card=stored.card,
        )

    def _build_record(self, mutation: Mutation) -> Record:
        entry, before = mutation.entry, mutation.before
        change = AgentChange(mutation.kind, self._view(entry), mutation.revision)
        if before is None or before.keys <= entry.keys:
            return Record(change, entry.keys)
        return Record(change, entry.keys, self._view(before), before.keys)

    def _find(self, keys: frozenset[Key], now: float) -> Sequence[Entry]:
        entries = (self._by_url[url] for _, url in self._index.candidates(keys))
        return [entry for entry in entries if entry.due_at > now and keys <= entry.keys]

    def _next_batches(self, revision: int, keys: frozenset[Key]) -> Iterable[ChangeBatch]:
        batch = self._ring.since(revision, keys)
        if batch is not None:
            return (batch,)
        return snapshot_of(map(self._view, self._find(keys, self.now())), self.revision)

    def _wake(self) -> None:
        for wakeup in self._wakeups:
            wakeup.set()

    def _not_found_error(self, name: str) -> AgentNotFoundError:
        hint = self._index.nearest_name(name)
        if not hint:
            return AgentNotFoundError(f"agent {name!r} not found", name=name)
        return AgentNotFoundError(f"agent {name!r} not found; did you mean {hint!r}?", name=name, hint=hint)


def _rank(entry: Entry) -> tuple[bool, float, int]:
    """The sort key of a name's instances: the greatest one is returned by lookups."""
    stored = entry.stored
    return stored.state != InstanceState.DRAINING, stored.register_time, stored.revision
