"""Values that tools store across calls: small values by key, for each session."""

from collections.abc import Callable
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.models.state import StateStoreReport
from protolink_grpc.storage.agent_storage import ItemBounds, Storage

BOUNDS = ItemBounds(max_items=256, max_bytes=1 << 20)
"""Limits of one session: the number of keys, and the bytes of keys and JSON texts together. Larger values are artifacts."""

MAX_KEY_BYTES = 256


class SessionMemory:
    """The values of one session. Each call is atomic; the last write of a key wins.

    A session has at most 256 keys of at most 256 bytes each, and 1 MiB in total.
    """

    __slots__ = ("_session_id", "_storage")

    def __init__(self, storage: Callable[[], Storage], session_id: str) -> None:
        self._storage = storage
        self._session_id = session_id

    async def get(self, key: str, default: Any = None) -> Any:
        """Return a copy of the value, or `default` if there is none."""
        text = await self._storage().get_item(self._session_id, _check_key(key))
        return default if text is None else from_json(text)

    async def set(self, key: str, value: Any) -> None:
        """Store any JSON value. It is stored when this returns.

        Raises:
            MessageTooLargeError: The session would exceed its limits. Nothing has changed.
            TypeError: The value has no JSON form.
        """
        await self._storage().set_item(self._session_id, _check_key(key), to_json(value), BOUNDS)

    async def delete(self, key: str) -> bool:
        """Delete a key. Returns whether it existed."""
        return await self._storage().delete_item(self._session_id, _check_key(key))

    async def all(self) -> dict[str, Any]:
        """Return copies of all values by key, sorted by key."""
        found = await self._storage().items(self._session_id)
        return {key: from_json(text) for key, text in found.items()}


def _check_key(key: str) -> str:
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        size = 0  # invalid Unicode and empty strings are not valid keys
    if not 0 < size <= MAX_KEY_BYTES:
        raise InvalidArgumentError(f"must be 1 to {MAX_KEY_BYTES} bytes of Unicode text", field="key")
    return key


class ToolMemory:
    """The values of an agent's tools for the sessions of one principal.

    Args:
        storage: Returns the storage; called at each use.
    """

    name = "tools"

    def __init__(self, storage: Callable[[], Storage]) -> None:
        self._storage = storage

    def session(self, session_id: str) -> SessionMemory:
        """Return the values of a session."""
        return SessionMemory(self._storage, session_id)

    async def session_ids(self) -> list[str]:
        """Return the ids of the sessions with values."""
        return list(await self._storage().item_sessions())

    async def knows(self, session_id: str) -> bool:
        """Whether the session has values."""
        return bool(await self._storage().item_sessions(session_id))

    async def describe(self, session_id: str | None = None, include_data: bool = False) -> StateStoreReport:
        """Describe the values of a session, or of all.

        The content is the values by key, or the values of each session by its id. Sessions beyond the limits are left out, and
        `metadata["truncated"]` is set.
        """
        counts = await self._storage().item_sessions(session_id)
        report = StateStoreReport(self.name, exists=bool(counts), item_count=sum(counts.values()))
        if session_id is not None:
            report.metadata["session_scoped"] = True
        if include_data:
            contents = await self._contents(counts)
            report.data = contents if session_id is None else contents.get(session_id)
            if len(contents) < len(counts):
                report.metadata["truncated"] = True
        return report

    async def _contents(self, counts: dict[str, int]) -> dict[str, dict[str, Any]]:
        contents: dict[str, dict[str, Any]] = {}
        room = BOUNDS.max_bytes
        for session_id in counts:
            found = await self._storage().items(session_id)
            room -= sum(len(key.encode()) + len(text.encode()) for key, text in found.items())
            if room < 0:
                break
            contents[session_id] = {key: from_json(text) for key, text in found.items()}
        return contents

    async def reset(self, session_id: str | None = None) -> StateStoreReport:
        """Delete the values of a session, or of all."""
        before = await self.describe(session_id)
        for each in [session_id] if session_id is not None else await self.session_ids():
            await self._storage().delete_items(each)
        return (await self.describe(session_id)).cleared_since(before)
