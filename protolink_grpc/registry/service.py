"""The registry's service, which all edges call: the directory with an optional file and the expiry of leases.

Theory of operation. Without a file a change is planned, staged and applied at once. With a file it is planned and queued. One
asyncio task takes all queued changes, stages them, writes them in one transaction and applies them after the commit. A change is
therefore acknowledged and visible after its commit, in the order of revisions, and concurrent callers share a commit. A URL has
at most one pending change; the next caller for it waits and then plans again.

Reads never wait for the disk. Renewals wait only if they change the state.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Self

from protolink_grpc.auth.principal import Principal
from protolink_grpc.errors import InvalidArgumentError, UnavailableError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.card import AgentCard
from protolink_grpc.net.address import canonical_url
from protolink_grpc.registry.changes import ChangeBatch
from protolink_grpc.registry.directory import AgentDirectory
from protolink_grpc.registry.entries import Mutation, Registration
from protolink_grpc.registry.names import name_key
from protolink_grpc.registry.pages import Page
from protolink_grpc.registry.persistence import SQLiteDirectoryFile
from protolink_grpc.wire.registry import (
    DEFAULT_LEASE_TTL_S,
    MAX_LEASE_TTL_S,
    AgentChangeKind,
    AgentFilter,
    InstanceStatus,
    RegisteredAgent,
)

log = get_logger(__name__)

_ALL = AgentFilter()
_AS_BEFORE = InstanceStatus()

EXPIRY_PAUSE_S = 0.1
"""Minimum interval between two checks for expired leases, so that many expiries are handled together.

Only the change event of an expiry is delayed by this; no reader sees an agent whose lease has expired.
"""


SILENT_LEASE_S, MAX_SILENT_LEASE_S = 86_400.0, 366 * 86_400.0
"""Lease of a ProtoLink agent, which sends no heartbeats by default: one day, and its maximum of one year, in seconds."""

OwnerOf = Callable[[Principal], str]
"""Returns the owner of an authenticated caller's registrations: its name by default, or for instance one of its scopes."""


@dataclass(frozen=True, slots=True)
class Registrant:
    """A caller: the owner of its registrations, and whether it may take over those of others."""

    owner: str
    is_admin: bool = False


class RegistryService:
    """A registry without a network. It owns the directory and the file from `start` to `aclose`.

    Args:
        directory: Must be unused if there is a file.
        file: Stores registrations across restarts; None means that agents register again by themselves.
        owner_of: Returns the owner of a caller's registrations; None means the caller's name.
        admin_scope: Callers with this scope may take over and release names of others; None means that no caller may.
    """

    def __init__(
        self,
        directory: AgentDirectory | None = None,
        file: SQLiteDirectoryFile | None = None,
        *,
        owner_of: OwnerOf | None = None,
        admin_scope: str | None = None,
    ) -> None:
        # `is None`, because an empty directory is false.
        self._directory = directory if directory is not None else AgentDirectory()
        self._file = file
        self._owner_of = owner_of
        self._admin_scope = admin_scope
        self._queue: list[tuple[Mutation, asyncio.Future[None]]] = []
        self._pending: dict[str, asyncio.Future[None]] = {}
        self._queued = asyncio.Event()
        self._leased = asyncio.Event()
        self._closing = False
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Read the file and start to check the leases. Raises as `load` of the file and of the directory."""
        if self._file is not None:
            try:
                agents, revision, names = await self._file.load()
                self._directory.load(agents, revision, names)
            except BaseException:
                await self._file.aclose()
                raise
            self._tasks.append(asyncio.create_task(self._commit_queued(self._file), name="registry-commit"))
        self._tasks.append(asyncio.create_task(self._expire_due(), name="registry-expiry"))

    async def aclose(self) -> None:
        """End the watches, finish queued changes and close the file. Leases are not changed."""
        self._closing = True
        self._directory.close()
        self._queued.set()
        self._leased.set()
        await asyncio.gather(*self._tasks)
        self._tasks.clear()
        if self._file is not None:
            await self._file.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def registrant(self, principal: Principal) -> Registrant:
        """Return the owner and the rights of an identified caller.

        Raises:
            InvalidArgumentError: `owner_of` returned no owner.
        """
        is_admin = self._admin_scope is not None and self._admin_scope in principal.scopes
        if self._owner_of is None:
            return Registrant(principal.name, is_admin)
        owner = self._owner_of(principal)
        if not owner:
            raise InvalidArgumentError("owner_of returned no owner for this caller", field="principal")
        return Registrant(owner, is_admin)

    async def register(
        self,
        card: AgentCard,
        *,
        principal: str = "",
        lease_ttl_s: float = DEFAULT_LEASE_TTL_S,
        lease_id: str = "",
        instance_id: str = "",
        is_admin: bool = False,
        max_lease_ttl_s: float = MAX_LEASE_TTL_S,
    ) -> Registration:
        """Add or replace the card under its URL. If an administrator takes over a name, its other agents are removed.

        Raises as `AgentDirectory.plan_registration` and `_carry_out`.
        """
        url = canonical_url(card.url, field="card.url")
        while (pending := self._pending.get(url)) is not None:
            await asyncio.wait([pending])
        former = self._directory.names.owner(card.name)
        mutation = self._directory.plan_registration(
            card,
            principal,
            lease_ttl_s,
            lease_id,
            instance_id=instance_id,
            is_admin=is_admin,
            max_lease_ttl_s=max_lease_ttl_s,
        )
        await self._carry_out(mutation)
        self._leased.set()
        if is_admin and former not in (None, principal):
            log.warning("%r took the name %r over from %r", principal, card.name, former)
            await self._evict(card.name, principal)
        return mutation.registration

    async def release_name(self, name: str) -> bool:
        """Release a name and remove its registered agents. Returns whether the name was owned.

        Raises as `_carry_out`.
        """
        former = self._directory.names.owner(name)
        await self._evict(name, None)
        self._directory.names.free(name)
        if self._file is not None:
            if self._closing or not self._tasks:
                raise UnavailableError("the registry is not running")
            await self._file.write([], [], self._directory.revision, freed=[name_key(name)])
        if former is not None:
            log.warning("the name %r of %r was released", name, former)
        return former is not None

    async def _evict(self, name: str, owner: str | None) -> None:
        """Remove the agents of a name that do not belong to its owner, including those with a pending registration."""
        if self._pending:
            await asyncio.wait([*self._pending.values()])
        while mutations := self._directory.plan_evictions(name, owner):
            pending = self._pending.get(mutations[0].entry.url)
            if pending is None:
                await self._carry_out(mutations[0])
            else:
                await asyncio.wait([pending])

    async def renew(self, lease_id: str, *, principal: str = "", status: InstanceStatus = _AS_BEFORE) -> float:
        """Renew a lease. Returns its length from now in seconds.

        Raises LeaseNotFoundError, and as `_carry_out` if the state changes; the lease is renewed in this case too.
        """
        while True:
            lease_ttl_s, mutation = self._directory.plan_renewal(lease_id, principal, status)
            if mutation is None:
                return lease_ttl_s
            pending = self._pending.get(mutation.entry.url)
            if pending is None:
                await self._carry_out(mutation)
                return lease_ttl_s
            await asyncio.wait([pending])

    async def deregister(self, lease_id: str, *, principal: str = "", is_admin: bool = False) -> bool:
        """Remove a registration. Returns whether this principal had it.

        Its name stays reserved for its owner. An administrator's name is released with its last registration.

        Raises as `_carry_out`.
        """
        while (mutation := self._directory.plan_removal(lease_id, principal)) is not None:
            pending = self._pending.get(mutation.entry.url)
            if pending is None:
                await self._carry_out(mutation)
                if is_admin and not self._directory.plan_evictions(mutation.entry.card.name, None):
                    await self.release_name(mutation.entry.card.name)
                return True
            await asyncio.wait([pending])
        return False

    async def get(self, name_or_url: str) -> RegisteredAgent:
        """Return the agent with a URL or a name. Raises as `AgentDirectory.get`."""
        return self._directory.get(name_or_url)

    async def list(self, wanted: AgentFilter = _ALL, page_size: int = 0, page_token: str = "") -> Page:
        """Return one page of the matching agents. Raises as `AgentDirectory.list`."""
        return self._directory.list(wanted, page_size, page_token)

    def watch(self, wanted: AgentFilter = _ALL, after_revision: int = 0) -> AsyncGenerator[ChangeBatch, None]:
        """As `AgentDirectory.watch`. A caller that stops early must close the generator."""
        return self._directory.watch(wanted, after_revision)

    async def _carry_out(self, mutation: Mutation) -> None:
        """Make a planned change visible, after its commit if it must survive a restart.

        The change is carried out even if the caller is canceled.

        Raises:
            UnavailableError: There is a file, and the service is not running.
            StoreError: The change could not be written and was not made.
        """
        if self._file is None or not mutation.durable:
            self._perform([mutation])
            return
        written = self._enqueue(mutation)
        await asyncio.wait([written])  # unlike awaiting it, this does not cancel the future with the caller
        written.result()

    def _perform(self, mutations: Sequence[Mutation]) -> None:
        self._directory.perform(mutations)
        if self._file is None:
            self._directory.names.freed.clear()  # nothing to write

    def _enqueue(self, mutation: Mutation) -> asyncio.Future[None]:
        if self._closing or not self._tasks:
            raise UnavailableError("the registry is not running")
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Retrieve the exception, because the caller may have been canceled.
        written.add_done_callback(asyncio.Future.exception)
        self._pending[mutation.entry.url] = written
        self._queue.append((mutation, written))
        self._queued.set()
        return written

    async def _commit_queued(self, file: SQLiteDirectoryFile) -> None:
        while self._queue or not self._closing:
            await self._queued.wait()
            self._queued.clear()
            batch, self._queue = self._queue, []
            if batch:
                await self._commit(file, batch)

    async def _commit(self, file: SQLiteDirectoryFile, batch: Sequence[tuple[Mutation, asyncio.Future[None]]]) -> None:
        failure: Exception | None = None
        freed = tuple(self._directory.names.freed)
        mutations = [mutation for mutation, _ in batch]
        try:
            revision = self._directory.stage(mutations)
            ups = [each.entry.stored for each in mutations if each.kind is AgentChangeKind.UP]
            gone = [each.entry.url for each in mutations if each.kind is not AgentChangeKind.UP]
            names = self._directory.name_records(mutations)
            await file.write(ups, gone, revision, names=names, freed=freed)
            self._directory.names.freed.difference_update(freed)
        except Exception as error:  # every error is reported to the callers, and the next batch is attempted
            log.warning("the registry could not write %d changes: %s", len(batch), error)
            failure = error
            # An expiry is applied even if the disk is full. If the row is still there after a restart, its lease expires again.
            mutations = [each for each in mutations if each.kind is AgentChangeKind.EXPIRED]
            self._directory.stage(mutations)
        self._directory.apply(mutations)
        for mutation, written in batch:
            del self._pending[mutation.entry.url]
            if failure is None or mutation.kind is AgentChangeKind.EXPIRED:
                written.set_result(None)
            else:
                written.set_exception(failure)
        if failure is not None:
            self._directory.reschedule()

    async def _expire_due(self) -> None:
        while not self._closing:
            self._leased.clear()
            due_at = self._directory.next_expiry()
            pause = None if due_at is None else max(EXPIRY_PAUSE_S, due_at - self._directory.now())
            try:
                async with asyncio.timeout(pause):
                    await self._leased.wait()
            except TimeoutError:
                pass  # it is time to check the leases
            if not self._closing:
                self._expire()

    def _expire(self) -> None:
        mutations = self._directory.plan_expiry(self._directory.now(), busy=self._pending)
        if self._file is None:
            self._perform(mutations)
            return
        for mutation in mutations:
            self._enqueue(mutation)
