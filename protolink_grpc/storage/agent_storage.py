"""The port of an agent's memory: what a storage keeps, and what it promises. Who may look at it is decided elsewhere.

A storage keeps three things, each per namespace: one value under the documented names (`save`, `load`, `update`, `delete`),
conversations as rows of messages, and small items per session for tools. Whose they are is part of the namespace (`of`): a session
of one principal cannot be named by another, whatever its id.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import orjson

from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError, StoreError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.json_value import from_json, to_json

TURNS_KEPT = 1000
"""Turn ids that a session remembers after a replacement: those that a crash may still repeat, and far more."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session's messages as they were at one moment, oldest first.

    Args:
        version: Changes with every change, and never comes back, not even after the session was deleted; 0 where there is none.
        message_count: All messages of the session, those that a limit left out included.
    """

    messages: list[LLMMessage]
    version: int = 0
    message_count: int = 0


@checks_arguments
class Storage(ABC):
    """Where an agent's memory lies.

    The async methods may be called from any event loop, at the same time. What they return shares nothing with the storage, and
    what they are given is copied. They raise StoreError and its subclasses.

    `save`, `load`, `update` and `delete` are ProtoLink's, for scripts: they block until the value is where it belongs. Async code
    calls them through `asyncio.to_thread`.

    Args:
        namespace: Storages over the same medium with different namespaces share nothing. None leaves it to the agent that uses the
            storage, which takes its own name.
    """

    def __init__(self, namespace: str | None = None) -> None:
        self.namespace = namespace

    def within(self, namespace: str) -> Self:
        """The same medium seen under another namespace; closing one closes it for both until it is used again."""
        other = copy(self)
        other.namespace = namespace
        return other

    def of(self, principal: str) -> Self:
        """What lies here of one principal: a namespace inside this one, which nobody else's name leads to.

        Raises:
            InvalidArgumentError: Empty, or no valid Unicode.
        """
        namespace = self.namespace or ""
        # The length says where the namespace ends: no two pairs of texts make the same one.
        return self.within(f"{len(namespace)}:{namespace}:{checked_id(principal, 'principal')}")

    async def open(self) -> None:  # noqa: B027 -- memory has nothing to open
        """Make sure that it works: raises now what the first use would raise. Nothing has to be opened."""

    async def close(self) -> None:  # noqa: B027 -- as above
        """Let go of files and threads, after what is under way. The next use opens it again."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- one value -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def save(self, value: Any) -> None:
        """Keep any JSON value in place of the one before."""

    @abstractmethod
    def load(self) -> Any:
        """The value, None where there is none."""

    @abstractmethod
    def update(self, changes: dict[str, Any]) -> None:
        """Set keys of the value, which becomes an object where there was none; atomically.

        Raises:
            InvalidArgumentError: The value is no object.
        """

    @abstractmethod
    def delete(self) -> None:
        """Forget the value."""

    # -- conversations ---------------------------------------------------------------------------------------------------

    @abstractmethod
    async def load_messages(self, session_id: str, limit: int | None = None) -> Conversation:
        """The messages of a session.

        Args:
            limit: As many of the latest turns as have together at most this many messages, 1 or more, and at least the latest
                turn: half a turn would show a tool's answer without its call. What is left out costs nothing.
        """

    @abstractmethod
    async def append_messages(self, session_id: str, turn_id: str, messages: Sequence[LLMMessage]) -> bool:
        """Add a turn at the end, all of it or nothing; kept when this returns.

        Returns:
            Whether it was added. A turn id that the session has had changes nothing: a repetition after a crash is safe, also
            when the turn has been compacted or forgotten meanwhile.
        """

    @abstractmethod
    async def replace_messages(self, session_id: str, expected_version: int, messages: Sequence[LLMMessage]) -> bool:
        """Put these in place of all messages, if the session has not changed since `expected_version` was read.

        Returns:
            Whether it had not. The ids of its turns stay known; of very many, the latest `TURNS_KEPT`.
        """

    @abstractmethod
    async def sessions(self, session_id: str | None = None) -> dict[str, int]:
        """Message counts of the sessions that have messages, by id, or of this one alone."""

    @abstractmethod
    async def delete_session(self, session_id: str) -> bool:
        """Forget a session's messages and that it has been; whether there was anything. Its items are not touched."""

    # -- items of tools --------------------------------------------------------------------------------------------------

    @abstractmethod
    async def get_item(self, session_id: str, name: str) -> str | None:
        """The text kept under a name."""

    @abstractmethod
    async def set_item(self, session_id: str, name: str, text: str, bounds: "ItemBounds") -> None:
        """Keep a text under a name; the last writer wins.

        Raises:
            MessageTooLargeError: The session would go over its bounds; nothing has changed.
        """

    @abstractmethod
    async def delete_item(self, session_id: str, name: str) -> bool:
        """Forget one; whether it was there."""

    @abstractmethod
    async def items(self, session_id: str) -> dict[str, str]:
        """All of a session, sorted by name."""

    @abstractmethod
    async def delete_items(self, session_id: str) -> int:
        """Forget all of a session; how many there were."""

    @abstractmethod
    async def item_sessions(self, session_id: str | None = None) -> dict[str, int]:
        """Item counts of the sessions that have items, by id, or of this one alone."""


@dataclass(frozen=True, slots=True)
class ItemBounds:
    """What the items of one session may come to: their number, and the UTF-8 bytes of names and texts."""

    max_items: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as storages keep it. `begins` says that it is the first of its turn."""

    id: str
    begins: bool
    body: str


def checked_id(text: str, field: str) -> str:
    """The id itself.

    Raises:
        InvalidArgumentError: Empty, or no valid Unicode; names `field`.
    """
    try:
        if text and text.encode():
            return text
    except UnicodeEncodeError:
        pass  # said below, with the same words
    raise InvalidArgumentError("must be non-empty Unicode text", field=field)


def check_bounds(count: int, size: int, bounds: ItemBounds) -> None:
    """Raises MessageTooLargeError when a session's items come to more than they may."""
    if count > bounds.max_items:
        raise MessageTooLargeError(
            f"a session keeps at most {bounds.max_items} items", field="key", limit=str(bounds.max_items)
        )
    if size > bounds.max_bytes:
        raise MessageTooLargeError(
            f"a session keeps at most {bounds.max_bytes} bytes, this would make {size}",
            field="value",
            limit=str(bounds.max_bytes),
            size=str(size),
        )


def turn_rows(messages: Sequence[LLMMessage]) -> list[StoredMessage]:
    """The rows of one turn.

    Raises:
        InvalidArgumentError: A message is too deep or not valid Unicode.
        TypeError: Metadata or arguments that have no JSON form.
    """
    return [StoredMessage(each.id, index == 0, _to_json(each)) for index, each in enumerate(messages)]


def replaced_rows(messages: Sequence[LLMMessage], begins: Iterable[tuple[str, bool]]) -> list[StoredMessage]:
    """The rows that take the place of others: messages that stay keep their turns, new ones begin one.

    Args:
        begins: Of the rows before: their ids, and whether each began a turn.
    """
    known = dict(begins)
    return [
        StoredMessage(each.id, index == 0 or known.get(each.id, True), _to_json(each))
        for index, each in enumerate(messages)
    ]


def _to_json(message: LLMMessage) -> str:
    # Without what is empty a row is half as long; `_from_json` leaves it to the defaults.
    fields = {key: value for key, value in message.to_dict().items() if value is not None and value not in ([], {})}
    return to_json(fields)


def messages_from_rows(bodies: Iterable[str]) -> list[LLMMessage]:
    """The messages of stored rows.

    Raises:
        StoreError: A row is damaged.
    """
    try:
        # Written by `_to_json` and by nobody else: not validated again, this runs for every message of every turn.
        return [LLMMessage(**orjson.loads(body)) for body in bodies]
    except (ValueError, TypeError) as error:
        raise StoreError("a stored message is damaged") from error


def merged(text: str | None, changes: dict[str, Any]) -> str:
    """The JSON text of an object, or of none, with some keys set."""
    value = {} if text is None else from_json(text)
    if not isinstance(value, dict):
        raise InvalidArgumentError("the stored value is no object; save another one first", field="changes")
    return to_json(value | changes)
