"""The interface of a storage for an agent's state. It does not check access.

A storage has three kinds of data in each namespace: a single value (`save`, `load`, `update`, `delete`), conversations as rows of
messages, and small items of tools by session. The principal is part of the namespace (`of`), so a session id of one principal never
refers to a session of another.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import orjson

from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError, StoreError, UnimplementedError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.models.media import Media
from protolink_grpc.models.session import is_conversation_of

TURNS_KEPT = 1000
"""How many turn ids a session keeps after a replacement: far more than those that may be repeated after a crash."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A snapshot of a session's messages, oldest first.

    Args:
        version: Changes with every change and is never reused, even if the session is deleted and created again; 0 if there is
            none.
        message_count: Number of all messages of the session, including those beyond a limit.
    """

    messages: list[LLMMessage]
    version: int = 0
    message_count: int = 0


@checks_arguments
class Storage(ABC):
    """A storage for an agent's state.

    The async methods may be called concurrently from any event loop. Arguments and results are copied. They raise StoreError and
    its subclasses.

    `save`, `load`, `update` and `delete` are ProtoLink's methods for scripts: they block until the value is stored. Async code
    calls them through `asyncio.to_thread`.

    Args:
        namespace: Storages over the same medium with different namespaces share nothing. None means the name of the agent that
            uses the storage.
    """

    def __init__(self, namespace: str | None = None) -> None:
        self.namespace = namespace

    def within(self, namespace: str) -> Self:
        """Return a storage over the same medium with another namespace. Closing one closes both until the next use."""
        other = copy(self)
        other.namespace = namespace
        return other

    def of(self, principal: str) -> Self:
        """Return the storage of one principal: a separate namespace within this one.

        Raises:
            InvalidArgumentError: The name is empty or not valid Unicode.
        """
        namespace = self.namespace or ""
        # The length marks the end of the namespace, so that different pairs of texts never have the same result.
        return self.within(f"{len(namespace)}:{namespace}:{require_id(principal, 'principal')}")

    async def open(self) -> None:  # noqa: B027 -- memory has nothing to open
        """Raise the errors of the first use now. Calling this is optional."""

    async def close(self) -> None:  # noqa: B027 -- as above
        """Close files and threads after running operations. The next use opens them again."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- Single value ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def save(self, value: Any) -> None:
        """Store any JSON value and replace the previous one."""

    @abstractmethod
    def load(self) -> Any:
        """Return the value; None if it is not set."""

    @abstractmethod
    def update(self, changes: dict[str, Any]) -> None:
        """Set keys of the value atomically. If there is no value, it becomes an object.

        Raises:
            InvalidArgumentError: The value is not an object.
        """

    @abstractmethod
    def delete(self) -> None:
        """Delete the value."""

    # -- Conversations ---------------------------------------------------------------------------------------------------

    @abstractmethod
    async def load_messages(self, session_id: str, limit: int | None = None) -> Conversation:
        """Return the messages of a session.

        Args:
            limit: Return only the latest turns with at most this many messages together (1 or more), but at least the latest turn.
                Turns are never split, because a tool's result needs its call.
        """

    @abstractmethod
    async def append_messages(self, session_id: str, turn_id: str, messages: Sequence[LLMMessage]) -> bool:
        """Add a turn at the end atomically. It is stored when this returns.

        Returns:
            Whether it was added. A known turn id changes nothing, so repeating after a crash is safe, even if the turn has been
            compacted or deleted meanwhile.
        """

    @abstractmethod
    async def replace_messages(self, session_id: str, expected_version: int, messages: Sequence[LLMMessage]) -> bool:
        """Replace all messages if the session has not changed since `expected_version` was read.

        Returns:
            Whether the messages were replaced. The latest `TURNS_KEPT` turn ids stay known, and those of turns whose messages are
            kept.
        """

    async def branch_messages(self, source_id: str, session_id: str, leaves_out: Callable[[str], bool]) -> bool:
        """Create a session as a copy of another one without some turns, atomically. An existing session is not changed.

        A source that does not exist has no messages. The ids of the copied turns are known in the copy, also of those whose
        messages have been replaced or deleted.

        Args:
            leaves_out: Returns whether the turn with an id is left out. It may be called in another thread, and more than once.

        Returns:
            Whether the session was created.

        Raises:
            UnsupportedOperationError: The messages of a turn to leave out cannot be identified, because they were compacted, or
                stored by an earlier version of this package. Nothing has changed.
            UnimplementedError: This storage has no branches.
        """
        # Not abstract, because storages of applications may be older than this method.
        raise UnimplementedError(f"{type(self).__name__} does not implement branch_messages")

    @abstractmethod
    async def sessions(self, session_id: str | None = None) -> dict[str, int]:
        """Return the message counts of all sessions with messages, or of one session, by id."""

    async def conversations(self, session_id: str) -> dict[str, int]:
        """Return the message counts of a session and of its threads, by id. The id of a thread is that of `conversation_id`.

        Those without messages are included. A storage that does not override this method includes only the session without
        messages, and reads the counts of all sessions.
        """
        found = {each: count for each, count in (await self.sessions()).items() if is_conversation_of(each, session_id)}
        if session_id not in found and (await self.load_messages(session_id, 1)).version:
            found[session_id] = 0
        return found

    @abstractmethod
    async def delete_session(self, session_id: str) -> bool:
        """Delete a session with its messages, but not its items. Returns whether it existed."""

    # -- Items of tools --------------------------------------------------------------------------------------------------

    @abstractmethod
    async def get_item(self, session_id: str, name: str) -> str | None:
        """Return the text stored under a name, or None."""

    @abstractmethod
    async def set_item(self, session_id: str, name: str, text: str, bounds: "ItemBounds") -> None:
        """Store a text under a name; the last write wins.

        Raises:
            MessageTooLargeError: The session would exceed its limits. Nothing has changed.
        """

    @abstractmethod
    async def delete_item(self, session_id: str, name: str) -> bool:
        """Delete one item. Returns whether it existed."""

    @abstractmethod
    async def items(self, session_id: str) -> dict[str, str]:
        """Return all items of a session, sorted by name."""

    @abstractmethod
    async def delete_items(self, session_id: str) -> int:
        """Delete all items of a session. Returns their number."""

    @abstractmethod
    async def item_sessions(self, session_id: str | None = None) -> dict[str, int]:
        """Return the item counts of all sessions with items, or of one session, by id."""


@dataclass(frozen=True, slots=True)
class ItemBounds:
    """Limits of the items of one session: their number, and the UTF-8 bytes of names and texts."""

    max_items: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A stored message. `begins` marks the first one of a turn."""

    id: str
    begins: bool
    body: str


def require_id(text: str, field: str) -> str:
    """Return the id if it is valid.

    Raises:
        InvalidArgumentError: It is empty or not valid Unicode; names `field`.
    """
    try:
        if text and text.encode():
            return text
    except UnicodeEncodeError:
        pass  # raised below with the same text
    raise InvalidArgumentError("must be non-empty Unicode text", field=field)


def check_bounds(count: int, size: int, bounds: ItemBounds) -> None:
    """Raise MessageTooLargeError if a session's items exceed the limits."""
    if count > bounds.max_items:
        raise MessageTooLargeError(
            f"a session has at most {bounds.max_items} items", field="key", limit=str(bounds.max_items)
        )
    if size > bounds.max_bytes:
        raise MessageTooLargeError(
            f"a session has at most {bounds.max_bytes} bytes; this change would make {size}",
            field="value",
            limit=str(bounds.max_bytes),
            size=str(size),
        )


def turn_rows(messages: Sequence[LLMMessage]) -> list[StoredMessage]:
    """Convert one turn to rows.

    Raises:
        InvalidArgumentError: A message is nested too deeply or not valid Unicode.
        TypeError: Metadata or arguments have no JSON form.
    """
    return [StoredMessage(each.id, index == 0, _to_json(each)) for index, each in enumerate(messages)]


def replacement_rows(messages: Sequence[LLMMessage], begins: Iterable[tuple[str, bool]]) -> list[StoredMessage]:
    """Convert replacing messages to rows. Remaining messages keep their turns; new ones begin one.

    Args:
        begins: The ids of the previous rows, and whether each one began a turn.
    """
    begins_turn = dict(begins)
    return [
        StoredMessage(each.id, index == 0 or begins_turn.get(each.id, True), _to_json(each))
        for index, each in enumerate(messages)
    ]


def _to_json(message: LLMMessage) -> str:
    # Leaving out empty values makes a row half as long; `_from_json` uses the defaults.
    fields = {key: value for key, value in message.to_dict().items() if value is not None and value not in ([], {})}
    return to_json(fields)


def messages_from_rows(bodies: Iterable[str]) -> list[LLMMessage]:
    """Convert stored rows to messages.

    Raises:
        StoreError: A row is damaged.
    """
    try:
        return [_from_json(body) for body in bodies]
    except (ValueError, TypeError, InvalidArgumentError) as error:
        raise StoreError("a stored message is damaged") from error


def _from_json(body: str) -> LLMMessage:
    # Only `_to_json` writes rows, so they are not validated again: this runs for every message of every turn.
    fields = orjson.loads(body)
    if "media" in fields:
        fields["media"] = tuple(map(Media.from_dict, fields["media"]))
    return LLMMessage(**fields)


def merge_keys(text: str | None, changes: dict[str, Any]) -> str:
    """Return the JSON text of an object with some keys changed. None is an empty object."""
    value = {} if text is None else from_json(text)
    if not isinstance(value, dict):
        raise InvalidArgumentError("the stored value is not an object; replace it first", field="changes")
    return to_json(value | changes)
