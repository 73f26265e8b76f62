"""The owners of names: the principal that registered a name first.

A name belongs to its owner while the owner has a registration with it, and for `hold_s` after the last one. Names are compared by
`name_key`: spellings that differ only in case or in the width of letters have the same owner. Similar letters of other alphabets
are different names.
"""

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from protolink_grpc.auth.principal import ANONYMOUS
from protolink_grpc.errors import AgentConflictError, InvalidArgumentError

DEFAULT_NAME_HOLD_S = 7 * 86_400.0
"""How long a name stays reserved after its last registration, in seconds: longer than an outage over a weekend."""

MAX_HELD_NAMES = 10_000
"""Maximum number of names without a registration that are reserved for one principal.

Beyond it, the least recently used one is freed.
"""

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of invisible characters, with which two names could look the same."""


def check_name(name: str, *, field: str) -> None:
    """Check that a name cannot be mistaken for another one or for a URL.

    Raises:
        InvalidArgumentError: It contains invisible characters, leading or trailing blanks, or `://`; names `field`.
    """
    if any(unicodedata.category(character) in _INVISIBLE for character in name):
        raise InvalidArgumentError("must not contain control characters or invisible characters", field=field)
    if name != name.strip():
        raise InvalidArgumentError("must not begin or end with a blank", field=field)
    if "://" in name:
        raise InvalidArgumentError("must not contain ://, which is reserved for URLs", field=field)


def name_key(name: str) -> str:
    """The form of a name by which owners are compared: compatibility characters and case are folded."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded)


@dataclass(frozen=True, slots=True)
class NameRecord:
    """The durable record of a name.

    Args:
        key: `name_key` of the name.
        seen_time: The last time at which it was registered, seconds since the epoch.
    """

    key: str
    principal: str
    seen_time: float


@dataclass(slots=True)
class _Ownership:
    principal: str
    seen_time: float
    registrations: int = 0


class NameOwners:
    """The owners of all names.

    Args:
        hold_s: How long a name stays reserved without a registration, in seconds, at least 0. Names of unauthenticated callers
            are not reserved, because these are all one owner.
        clock: Seconds since the epoch; the time also passes while the registry is down.
    """

    def __init__(self, hold_s: float, clock: Callable[[], float]) -> None:
        if not hold_s >= 0:
            raise InvalidArgumentError("must be 0 or more seconds", field="name_hold_s")
        self.hold_s = hold_s
        self._clock = clock
        self._owners: dict[str, _Ownership] = {}
        # Names without a registration by principal, in the order in which they lost their last registration.
        self._idle: dict[str, dict[str, None]] = {}
        self.freed: set[str] = set()
        """Keys of freed names. The owner of a file deletes them there and removes them from this set."""

    def owner(self, name: str) -> str | None:
        """Return the owner of the name, or None if it is free."""
        found = self._current(name_key(name))
        return None if found is None else found.principal

    def check(self, name: str, principal: str) -> None:
        """Raise AgentConflictError, without the owner, if the name belongs to another principal."""
        owner = self.owner(name)
        if owner is not None and owner != principal:
            raise AgentConflictError(
                f"the name {name!r} belongs to another principal; choose another name, or have an administrator of the "
                "registry release it",
                name=name,
            )

    def claim(self, name: str, principal: str) -> None:
        """Make the principal the owner. The name is reserved from now on, also without a registration."""
        key = name_key(name)
        found = self._current(key)
        if found is None:
            found = self._owners[key] = _Ownership(principal, self._clock())
        else:
            self._unhold(key, found.principal)
            found.principal, found.seen_time = principal, self._clock()
        if not found.registrations:
            self._hold(key, found)

    def free(self, name: str) -> None:
        """Release the name, unless an agent is registered under it."""
        key = name_key(name)
        found = self._owners.get(key)
        if found is not None and not found.registrations:
            self._forget(key)

    def add_registration(self, name: str, principal: str) -> None:
        """Count a registration. Its principal becomes the owner of a free name."""
        key = name_key(name)
        found = self._current(key)
        if found is None:
            found = self._owners[key] = _Ownership(principal, self._clock())
        self._unhold(key, found.principal)
        found.registrations += 1

    def remove_registration(self, name: str) -> None:
        """Count the end of a registration. After the last one, the reservation time starts."""
        key = name_key(name)
        found = self._owners[key]
        found.registrations -= 1
        if not found.registrations:
            found.seen_time = self._clock()
            self._hold(key, found)

    def record(self, name: str, principal: str) -> NameRecord | None:
        """Return the current record of the name for the file; None if it does not belong to this principal or is not reserved."""
        if principal == ANONYMOUS or self.owner(name) != principal:
            return None
        return NameRecord(name_key(name), principal, self._clock())

    def load(self, records: Iterable[NameRecord]) -> None:
        """Load the records into an empty set of owners. Names whose reservation has expired are free."""
        for record in sorted(records, key=lambda each: each.seen_time):
            found = self._owners[record.key] = _Ownership(record.principal, record.seen_time)
            self._hold(record.key, found)
            self._current(record.key)

    def _current(self, key: str) -> _Ownership | None:
        found = self._owners.get(key)
        if found is None or found.registrations or found.seen_time + self.hold_s > self._clock():
            return found
        self._forget(key)
        return None

    def _hold(self, key: str, found: _Ownership) -> None:
        idle = self._idle.setdefault(found.principal, {})
        idle[key] = None
        if found.principal == ANONYMOUS:
            self._forget(key)
            return
        oldest = next(iter(idle))
        self._current(oldest)  # frees it if its reservation has expired
        if len(idle) > MAX_HELD_NAMES:
            self._forget(oldest)

    def _unhold(self, key: str, principal: str) -> None:
        idle = self._idle.get(principal, {})
        idle.pop(key, None)
        if not idle:
            self._idle.pop(principal, None)

    def _forget(self, key: str) -> None:
        self.freed.add(key)
        self._unhold(key, self._owners.pop(key).principal)
