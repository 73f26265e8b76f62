"""Who owns which name: the principal that registered it first, for longer than its registrations last. No card is kept here.

A name belongs to its owner while one of its registrations is there, and for `hold_s` after the last one. Names are compared by
`name_key`: a spelling that differs in case only, or in the width of its letters, belongs to the same owner. Letters of other
alphabets that look alike are other names.
"""

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from protolink_grpc.auth.principal import ANONYMOUS
from protolink_grpc.errors import AgentConflictError, InvalidArgumentError

DEFAULT_NAME_HOLD_S = 7 * 86_400.0
"""How long a name stays its owner's after its last registration: longer than a weekend's outage."""

MAX_HELD_NAMES = 10_000
"""Names without a registration that are held for one principal; more than these, and the one unused for longest is free."""

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of characters that a reader cannot see: two names could look the same."""


def check_name(name: str, *, field: str) -> None:
    """Refuse a name that could pass for another one, or for a URL.

    Raises:
        InvalidArgumentError: Invisible characters, blanks at an end, or `://` in it; names `field`.
    """
    if any(unicodedata.category(character) in _INVISIBLE for character in name):
        raise InvalidArgumentError("must contain no control characters and no invisible ones", field=field)
    if name != name.strip():
        raise InvalidArgumentError("must not begin or end with a blank", field=field)
    if "://" in name:
        raise InvalidArgumentError("must not contain ://, which only URLs do", field=field)


def name_key(name: str) -> str:
    """What is compared of a name to tell whose it is: compatibility forms and case are folded."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded)


@dataclass(frozen=True, slots=True)
class NameRecord:
    """What must survive a restart of the registry.

    Args:
        key: `name_key` of the name.
        seen_time: When it was last known to be registered, seconds since the epoch.
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
        hold_s: How long a name stays its owner's without a registration, seconds, at least 0. Names of unauthenticated callers are
            not held: all of these are one owner.
        clock: Seconds since the epoch; the hold goes on while the registry is down.
    """

    def __init__(self, hold_s: float, clock: Callable[[], float]) -> None:
        if not hold_s >= 0:
            raise InvalidArgumentError("must be 0 or more seconds", field="name_hold_s")
        self.hold_s = hold_s
        self._clock = clock
        self._owners: dict[str, _Ownership] = {}
        # Names without a registration by principal, in the order in which they lost the last one.
        self._idle: dict[str, dict[str, None]] = {}
        self.freed: set[str] = set()
        """Keys of names that have become free, for whoever keeps a file to delete and to take out of here."""

    def owner(self, name: str) -> str | None:
        """The principal that the name belongs to; None where it is free."""
        found = self._current(name_key(name))
        return None if found is None else found.principal

    def check(self, name: str, principal: str) -> None:
        """Raises AgentConflictError where the name belongs to another principal; does not say to which."""
        owner = self.owner(name)
        if owner is not None and owner != principal:
            raise AgentConflictError(
                f"the name {name!r} belongs to another principal; choose another name, or have an administrator of the "
                "registry release it",
                name=name,
            )

    def claim(self, name: str, principal: str) -> None:
        """Make the principal the owner, whoever was it; the name is held from now on, registered or not."""
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
        """Count a registration; of a name that is free, its principal is the owner."""
        key = name_key(name)
        found = self._current(key)
        if found is None:
            found = self._owners[key] = _Ownership(principal, self._clock())
        self._unhold(key, found.principal)
        found.registrations += 1

    def remove_registration(self, name: str) -> None:
        """The opposite; after the last one the hold begins."""
        key = name_key(name)
        found = self._owners[key]
        found.registrations -= 1
        if not found.registrations:
            found.seen_time = self._clock()
            self._hold(key, found)

    def record(self, name: str, principal: str) -> NameRecord | None:
        """What a file must know about the name as of now; None where it is not this principal's, or not held."""
        if principal == ANONYMOUS or self.owner(name) != principal:
            return None
        return NameRecord(name_key(name), principal, self._clock())

    def load(self, records: Iterable[NameRecord]) -> None:
        """Fill owners that know no name yet; names whose hold is over are free."""
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
        self._current(oldest)  # forgets it where its hold is over
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
