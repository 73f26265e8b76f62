"""Conversations, items of tools and single values as records, and a storage over any store of records.

A session is a record, and its messages are records with ascending positions without gaps. The version changes with every change.
Adding a turn and replacing messages are one transaction each.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from protolink_grpc.errors import InvalidArgumentError, UnsupportedOperationError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.models.session import is_conversation_of
from protolink_grpc.storage.agent_storage import (
    TURNS_KEPT,
    Conversation,
    ItemBounds,
    Storage,
    StoredMessage,
    check_bounds,
    merge_keys,
    messages_from_rows,
    replacement_rows,
    require_id,
    turn_rows,
)
from protolink_grpc.storage.records import Kind, Records

T = TypeVar("T")

PAGE = 100
"""Conversations of threads that are read together."""


@dataclass(frozen=True, slots=True)
class Session:
    """One session.

    Args:
        number: Never reused: a session that is deleted and created again has another one.
        version: Starts above all versions of sessions with smaller numbers.
        first, following: Positions of its first message and of the next message to be added.
    """

    space: str
    session_id: str
    number: int
    version: int
    first: int = 1
    following: int = 1


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a session, identified by the session's number. `begins` marks the first one of a turn."""

    session: int
    position: int
    begins: bool
    message_id: str
    body: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a session; `version` is the session's version before it."""

    session: int
    turn_id: str
    version: int


@dataclass(frozen=True, slots=True)
class TurnMessages:
    """The range of a turn's messages: the position of the first one, and their number.

    A turn has none if an earlier version of this package stored it, or if a replacement did not keep all its messages. A range that
    begins before the session's first message counts as none: an earlier version has replaced the messages.
    """

    session: int
    turn_id: str
    position: int
    count: int


@dataclass(frozen=True, slots=True)
class Item:
    """A small text of a tool. `session` combines the space and the session's id."""

    session: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class ItemSession:
    """The number and size of a session's items."""

    space: str
    session_id: str
    items: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SingleValue:
    """The single value of a space, as JSON text."""

    space: str
    value: str


@dataclass(frozen=True, slots=True)
class LastNumber:
    """The last assigned session number."""

    name: str
    value: int


SESSIONS = Kind(Session, name="sessions", key=("space", "session_id"))
MESSAGES = Kind(Message, name="messages", key=("session", "position"))
TURNS = Kind(Turn, name="turns", key=("session", "turn_id"), order=("version", "turn_id"))
TURN_MESSAGES = Kind(TurnMessages, name="turn_messages", key=("session", "turn_id"))
ITEMS = Kind(Item, name="items", key=("session", "name"))
ITEM_SESSIONS = Kind(ItemSession, name="item_sessions", key=("space", "session_id"))
VALUES = Kind(SingleValue, name="single_values", key=("space",))
NUMBERS = Kind(LastNumber, name="last_numbers", key=("name",))

KINDS: tuple[Kind[Any], ...] = (SESSIONS, MESSAGES, TURNS, TURN_MESSAGES, ITEMS, ITEM_SESSIONS, VALUES, NUMBERS)


@checks_arguments
class RecordStorage(Storage):
    """A storage for an agent's state over records. A subclass provides the records and their transactions."""

    @property
    @abstractmethod
    def _space(self) -> str:
        """The part of all keys that identifies this namespace."""

    @abstractmethod
    async def _view(self, query: Callable[[Records], T]) -> T:
        """Run a read transaction."""

    @abstractmethod
    async def _change(self, work: Callable[[Records], T], *, erases: bool = False) -> T:
        """Run a write transaction. With `erases` no copy of deleted content stays in the files of the storage."""

    @abstractmethod
    def _change_now(self, work: Callable[[Records], T], *, erases: bool = False) -> T:
        """As `_change`, but block until the transaction has ended."""

    # -- Single value ----------------------------------------------------------------------------------------------------

    def save(self, value: Any) -> None:
        row = SingleValue(self._space, to_json(value))
        self._change_now(lambda records: records.put(VALUES, row))

    def load(self) -> Any:
        space = self._space
        row = self._change_now(lambda records: records.get(VALUES, space))
        return None if row is None else from_json(row.value)

    def update(self, changes: dict[str, Any]) -> None:
        space = self._space

        def merge(records: Records) -> None:
            existing = records.get(VALUES, space)
            records.put(VALUES, SingleValue(space, merge_keys(None if existing is None else existing.value, changes)))

        self._change_now(merge)

    def delete(self) -> None:
        space = self._space
        self._change_now(lambda records: records.delete(VALUES, space), erases=True)

    # -- Conversations ---------------------------------------------------------------------------------------------------

    async def load_messages(self, session_id: str, limit: int | None = None) -> Conversation:
        if limit is not None and limit < 1:
            raise InvalidArgumentError("must be at least 1", field="limit")
        key = (self._space, require_id(session_id, "session_id"))
        messages, session = await self._view(lambda records: _load(records, key, limit))
        if session is None:
            return Conversation([])
        bodies = (message.body for message in messages)
        return Conversation(messages_from_rows(bodies), session.version, session.following - session.first)

    async def append_messages(self, session_id: str, turn_id: str, messages: Sequence[LLMMessage]) -> bool:
        key = (self._space, require_id(session_id, "session_id"))
        require_id(turn_id, "turn_id")
        rows = turn_rows(messages)
        return await self._change(lambda records: _append(records, key, turn_id, rows))

    async def replace_messages(self, session_id: str, expected_version: int, messages: Sequence[LLMMessage]) -> bool:
        key = (self._space, require_id(session_id, "session_id"))
        kept = list(messages)
        turn_rows(kept)  # before the transaction, so that invalid values are the caller's error
        return await self._change(lambda records: _replace(records, key, expected_version, kept), erases=True)

    async def branch_messages(self, source_id: str, session_id: str, leaves_out: Callable[[str], bool]) -> bool:
        source = (self._space, require_id(source_id, "source_id"))
        target = (self._space, require_id(session_id, "session_id"))
        return await self._change(lambda records: _branch(records, source, target, leaves_out))

    async def sessions(self, session_id: str | None = None) -> dict[str, int]:
        where = self._sessions_of(session_id)
        found = await self._view(lambda records: records.select(SESSIONS, where))
        return {each.session_id: each.following - each.first for each in found if each.following > each.first}

    async def conversations(self, session_id: str) -> dict[str, int]:
        key = (self._space, require_id(session_id, "session_id"))
        found = await self._view(lambda records: list(_conversations(records, key)))
        return {each.session_id: each.following - each.first for each in found}

    def _sessions_of(self, session_id: str | None) -> dict[str, object]:
        if session_id is None:
            return {"space": self._space}
        return {"space": self._space, "session_id": require_id(session_id, "session_id")}

    async def delete_session(self, session_id: str) -> bool:
        key = (self._space, require_id(session_id, "session_id"))
        return await self._change(lambda records: _delete(records, key), erases=True)

    # -- Items of tools --------------------------------------------------------------------------------------------------

    def _items_of(self, session_id: str) -> str:
        # The length marks the end of the space, so that different pairs of texts never have the same result.
        return f"{len(self._space)}:{self._space}:{require_id(session_id, 'session_id')}"

    async def get_item(self, session_id: str, name: str) -> str | None:
        key = (self._items_of(session_id), require_id(name, "key"))
        found = await self._view(lambda records: records.get(ITEMS, *key))
        return None if found is None else found.value

    async def set_item(self, session_id: str, name: str, text: str, bounds: ItemBounds) -> None:
        item, space = Item(self._items_of(session_id), require_id(name, "key"), text), self._space
        await self._change(lambda records: _set_item(records, space, session_id, item, bounds))

    async def delete_item(self, session_id: str, name: str) -> bool:
        key, space = (self._items_of(session_id), require_id(name, "key")), self._space

        def delete(records: Records) -> bool:
            existing = records.get(ITEMS, *key)
            if existing is None:
                return False
            records.delete(ITEMS, *key)
            _count_items(records, space, session_id, -1, -_size(existing))
            return True

        return await self._change(delete, erases=True)

    async def items(self, session_id: str) -> dict[str, str]:
        where = {"session": self._items_of(session_id)}
        found = await self._view(lambda records: records.select(ITEMS, where))
        return {each.name: each.value for each in found}

    async def delete_items(self, session_id: str) -> int:
        session, space = self._items_of(session_id), self._space

        def delete(records: Records) -> int:
            records.delete(ITEM_SESSIONS, space, session_id)
            return records.delete(ITEMS, session)

        return await self._change(delete, erases=True)

    async def item_sessions(self, session_id: str | None = None) -> dict[str, int]:
        where = self._sessions_of(session_id)
        found = await self._view(lambda records: records.select(ITEM_SESSIONS, where))
        return {each.session_id: each.items for each in found}


def _conversations(records: Records, key: tuple[str, str]) -> Iterator[Session]:
    """Yield a session and its threads: the sessions whose ids begin with that of the session and a line break."""
    space, session_id = key
    own = records.get(SESSIONS, *key)
    if own is not None:
        yield own
    after = (space, f"{session_id}\n")
    while page := records.select(SESSIONS, {"space": space}, after=after, limit=PAGE):
        for each in page:
            if not is_conversation_of(each.session_id, session_id):
                return
            yield each
        after = (space, page[-1].session_id)


def _load(records: Records, key: tuple[str, str], limit: int | None) -> tuple[list[Message], Session | None]:
    session = records.get(SESSIONS, *key)
    if session is None:
        return [], None
    where = {"session": session.number}
    if limit is None:
        return records.select(MESSAGES, where), session
    found = records.select(MESSAGES, where, limit=limit, reverse=True)
    whole = next((place for place in range(len(found), 0, -1) if found[place - 1].begins), 0)
    if found and not whole:
        # The latest turn exceeds the limit: it is returned completely.
        after = (session.number, found[-1].position)
        for message in records.select(MESSAGES, where, after=after, reverse=True):
            found.append(message)
            if message.begins:
                break
        whole = len(found)
    return found[:whole][::-1], session


def _ensure_session(records: Records, key: tuple[str, str]) -> Session:
    """Return the session. It is created if it does not exist."""
    existing = records.get(SESSIONS, *key)
    if existing is not None:
        return existing
    last = records.get(NUMBERS, "session")
    number = 1 if last is None else last.value + 1
    records.put(NUMBERS, LastNumber("session", number))
    return records.put(SESSIONS, Session(*key, number, number << 32))


def _append(records: Records, key: tuple[str, str], turn_id: str, rows: list[StoredMessage]) -> bool:
    session = _ensure_session(records, key)
    if records.get(TURNS, session.number, turn_id) is not None:
        return False
    records.put(TURNS, Turn(session.number, turn_id, session.version))
    records.put(TURN_MESSAGES, TurnMessages(session.number, turn_id, session.following, len(rows)))
    _add(records, session, rows)
    return True


def _add(records: Records, session: Session, rows: list[StoredMessage]) -> None:
    position = session.following
    for row in rows:
        records.put(MESSAGES, Message(session.number, position, row.begins, row.id, row.body))
        position += 1
    records.put(SESSIONS, replace(session, version=session.version + 1, following=position))


def _replace(records: Records, key: tuple[str, str], expected: int, messages: list[LLMMessage]) -> bool:
    existing = records.get(SESSIONS, *key)
    if (0 if existing is None else existing.version) != expected:
        return False
    session = _ensure_session(records, key)
    where = {"session": session.number}
    before = records.select(MESSAGES, where)
    rows = replacement_rows(messages, ((each.message_id, each.begins) for each in before))
    ranges = _kept_ranges(_turn_ranges(records, session), before, rows, session.following)
    records.delete(MESSAGES, session.number)
    records.delete(TURN_MESSAGES, session.number)
    _add(records, replace(session, first=session.following), rows)
    for each in ranges:
        records.put(TURN_MESSAGES, each)
    stored = {each.turn_id for each in ranges if each.count}
    for turn in records.select(TURNS, where, reverse=True)[TURNS_KEPT:]:
        if turn.turn_id not in stored:
            records.delete(TURNS, turn.session, turn.turn_id)
    return True


def _turn_ranges(records: Records, session: Session) -> list[TurnMessages]:
    """Return the ranges of the turns whose messages are known."""
    found = records.select(TURN_MESSAGES, {"session": session.number})
    return [each for each in found if not each.count or each.position >= session.first]


def _kept_ranges(
    ranges: list[TurnMessages], before: list[Message], rows: list[StoredMessage], position: int
) -> list[TurnMessages]:
    """Return the ranges after a replacement: those of the turns of which it keeps all messages side by side.

    Args:
        before, rows: The messages before and after the replacement.
        position: Position of the first message after it.
    """
    ids = {each.position: each.message_id for each in before}
    places = {row.id: position + index for index, row in enumerate(rows)}
    if len(set(ids.values())) < len(before) or len(places) < len(rows):
        return []  # the ids do not identify the messages
    kept: list[TurnMessages] = []
    for each in ranges:
        found = [places.get(ids[each.position + index]) for index in range(each.count)]
        first = found[0] if found else position
        if first is not None and found == list(range(first, first + each.count)):
            kept.append(replace(each, position=first))
    return kept


def _branch(
    records: Records, source: tuple[str, str], target: tuple[str, str], leaves_out: Callable[[str], bool]
) -> bool:
    if records.get(SESSIONS, *target) is not None:
        return False
    known = records.get(SESSIONS, *source)
    if known is None:
        _ensure_session(records, target)
        return True
    where = {"session": known.number}
    messages = records.select(MESSAGES, where)
    ranges = {each.turn_id: each for each in _turn_ranges(records, known)}
    turns: list[Turn] = []
    removed: set[int] = set()
    for turn in records.select(TURNS, where):
        if not leaves_out(turn.turn_id):
            turns.append(turn)
        elif turn.turn_id in ranges:
            found = ranges[turn.turn_id]
            removed.update(range(found.position, found.position + found.count))
        elif len(messages) > sum(each.count for each in ranges.values()):
            # Messages that belong to no known turn may be those of this one, or their summary.
            raise UnsupportedOperationError(
                f"the messages of turn {turn.turn_id} cannot be identified: the conversation was compacted",
                turn_id=turn.turn_id,
            )
    _copy(records, _ensure_session(records, target), turns, ranges, [m for m in messages if m.position not in removed])
    return True


def _copy(
    records: Records, session: Session, turns: list[Turn], ranges: dict[str, TurnMessages], messages: list[Message]
) -> None:
    """Add turns and messages to a new session."""
    places: dict[int, int] = {}
    for place, each in enumerate(messages, session.following):
        places[each.position] = place
        records.put(MESSAGES, replace(each, session=session.number, position=place))
    for version, turn in enumerate(turns, session.version):
        records.put(TURNS, Turn(session.number, turn.turn_id, version))
        found = ranges.get(turn.turn_id)
        if found is not None:
            position = places[found.position] if found.count else session.first
            records.put(TURN_MESSAGES, TurnMessages(session.number, turn.turn_id, position, found.count))
    records.put(
        SESSIONS,
        replace(session, version=session.version + len(turns), following=session.following + len(messages)),
    )


def _delete(records: Records, key: tuple[str, str]) -> bool:
    session = records.get(SESSIONS, *key)
    if session is None:
        return False
    for kind in (MESSAGES, TURNS, TURN_MESSAGES):
        records.delete(kind, session.number)
    records.delete(SESSIONS, *key)
    return True


def _set_item(records: Records, space: str, session_id: str, item: Item, bounds: ItemBounds) -> None:
    existing = records.get(ITEMS, item.session, item.name)
    items, size = (1, _size(item)) if existing is None else (0, _size(item) - _size(existing))
    counted = records.get(ITEM_SESSIONS, space, session_id) or ItemSession(space, session_id, 0, 0)
    check_bounds(counted.items + items, counted.bytes + size, bounds)
    records.put(ITEMS, item)
    _count_items(records, space, session_id, items, size)


def _count_items(records: Records, space: str, session_id: str, items: int, size: int) -> None:
    existing = records.get(ITEM_SESSIONS, space, session_id) or ItemSession(space, session_id, 0, 0)
    counted = replace(existing, items=existing.items + items, bytes=existing.bytes + size)
    if counted.items:
        records.put(ITEM_SESSIONS, counted)
    else:
        records.delete(ITEM_SESSIONS, space, session_id)


def _size(item: Item) -> int:
    return len(item.name.encode()) + len(item.value.encode())
