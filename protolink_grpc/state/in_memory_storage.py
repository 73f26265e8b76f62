"""Memory that ends with the process. It behaves like the storage in a file, down to what can be kept."""

import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.state.storage import (
    TURNS_KEPT,
    Conversation,
    ItemBounds,
    Storage,
    StoredMessage,
    check_bounds,
    checked_id,
    messages_from_rows,
    replaced_rows,
    turn_rows,
)
from protolink_grpc.state.storage import merged as merged_json


@dataclass(slots=True)
class _Session:
    version: int
    rows: list[StoredMessage] = field(default_factory=list)
    turns: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Space:
    """What one namespace holds."""

    sessions: dict[str, _Session] = field(default_factory=dict)
    items: dict[str, dict[str, str]] = field(default_factory=dict)
    value: str | None = None
    # Versions of a session that was deleted and comes back begin above all that it had.
    births: Iterator[int] = field(default_factory=lambda: itertools.count(1))


_shared: dict[str, _Space] = {}
"""The namespaces that were asked for by name, for the whole process."""

_lock = threading.Lock()
"""Around everything here: each step takes microseconds, and several event loops may take it."""


@checks_arguments
class InMemoryStorage(Storage):
    """Memory of this process.

    Args:
        namespace: Storages made with the same name share what they hold until the process ends. Without one a storage shares
            nothing with any other, so that two agents never meet by accident.
    """

    def __init__(self, namespace: str | None = None) -> None:
        super().__init__(namespace)
        self._spaces: dict[str, _Space] = {} if namespace is None else _shared

    @property
    def _space(self) -> _Space:
        return self._spaces.setdefault(self.namespace or "", _Space())

    # -- one value -------------------------------------------------------------------------------------------------------

    def save(self, value: Any) -> None:
        text = to_json(value)
        with _lock:
            self._space.value = text

    def load(self) -> Any:
        with _lock:
            text = self._space.value
        return None if text is None else from_json(text)

    def update(self, changes: dict[str, Any]) -> None:
        with _lock:
            self._space.value = merged_json(self._space.value, changes)

    def delete(self) -> None:
        with _lock:
            self._space.value = None

    # -- conversations ---------------------------------------------------------------------------------------------------

    async def load_messages(self, session_id: str, limit: int | None = None) -> Conversation:
        checked_id(session_id, "session_id")
        if limit is not None and limit < 1:
            raise InvalidArgumentError("must be at least 1", field="limit")
        with _lock:
            session = self._space.sessions.get(session_id)
            if session is None:
                return Conversation([])
            rows, version, count = session.rows[_start(session.rows, limit) :], session.version, len(session.rows)
        return Conversation(messages_from_rows(row.body for row in rows), version, count)

    async def append_messages(self, session_id: str, turn_id: str, messages: Sequence[LLMMessage]) -> bool:
        checked_id(session_id, "session_id")
        checked_id(turn_id, "turn_id")
        rows = turn_rows(messages)
        with _lock:
            session = self._begun(session_id)
            if turn_id in session.turns:
                return False
            session.turns[turn_id] = None
            session.rows.extend(rows)
            session.version += 1
        return True

    async def replace_messages(self, session_id: str, expected_version: int, messages: Sequence[LLMMessage]) -> bool:
        checked_id(session_id, "session_id")
        with _lock:
            known = self._space.sessions.get(session_id)
            if (known.version if known is not None else 0) != expected_version:
                return False
            rows = replaced_rows(messages, ((row.id, row.begins) for row in known.rows) if known is not None else ())
            session = self._begun(session_id)
            session.rows = rows
            session.version += 1
            for turn_id in list(session.turns)[:-TURNS_KEPT]:
                del session.turns[turn_id]
        return True

    def _begun(self, session_id: str) -> _Session:
        space = self._space
        if session_id not in space.sessions:
            space.sessions[session_id] = _Session(next(space.births) << 32)
        return space.sessions[session_id]

    async def sessions(self, session_id: str | None = None) -> dict[str, int]:
        if session_id is not None:
            checked_id(session_id, "session_id")
        with _lock:
            sessions = self._space.sessions
            wanted = sorted(sessions) if session_id is None else [session_id]
            return {each: len(sessions[each].rows) for each in wanted if each in sessions and sessions[each].rows}

    async def delete_session(self, session_id: str) -> bool:
        checked_id(session_id, "session_id")
        with _lock:
            return self._space.sessions.pop(session_id, None) is not None

    # -- items of tools --------------------------------------------------------------------------------------------------

    async def get_item(self, session_id: str, name: str) -> str | None:
        checked_id(session_id, "session_id")
        checked_id(name, "key")
        with _lock:
            return self._space.items.get(session_id, {}).get(name)

    async def set_item(self, session_id: str, name: str, text: str, bounds: ItemBounds) -> None:
        checked_id(session_id, "session_id")
        checked_id(name, "key")
        with _lock:
            space = self._space
            after = space.items.get(session_id, {}) | {name: text}
            size = sum(len(key.encode()) + len(value.encode()) for key, value in after.items())
            check_bounds(len(after), size, bounds)
            space.items[session_id] = after

    async def delete_item(self, session_id: str, name: str) -> bool:
        checked_id(session_id, "session_id")
        checked_id(name, "key")
        with _lock:
            items = self._space.items.get(session_id, {})
            found = items.pop(name, None) is not None
            if not items:
                self._space.items.pop(session_id, None)
            return found

    async def items(self, session_id: str) -> dict[str, str]:
        checked_id(session_id, "session_id")
        with _lock:
            return dict(sorted(self._space.items.get(session_id, {}).items()))

    async def delete_items(self, session_id: str) -> int:
        checked_id(session_id, "session_id")
        with _lock:
            return len(self._space.items.pop(session_id, {}))

    async def item_sessions(self, session_id: str | None = None) -> dict[str, int]:
        if session_id is not None:
            checked_id(session_id, "session_id")
        with _lock:
            items = self._space.items
            wanted = sorted(items) if session_id is None else [session_id]
            return {each: len(items[each]) for each in wanted if each in items}


def _start(rows: list[StoredMessage], limit: int | None) -> int:
    """Where the latest whole turns begin that have together at most `limit` messages; the latest turn where none has."""
    if limit is None or limit >= len(rows):
        return 0
    inside = range(len(rows) - limit, len(rows))
    outside = range(len(rows) - limit - 1, 0, -1)
    return next((index for index in (*inside, *outside) if rows[index].begins), 0)
