"""What tools remember from one call to the next: small values by key, session by session. Conversations live elsewhere."""

from collections.abc import Callable
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.models.state import StateStoreReport
from protolink_grpc.storage.agent_storage import ItemBounds, Storage

BOUNDS = ItemBounds(max_items=256, max_bytes=1 << 20)
"""Of one session: keys, and bytes of keys and JSON texts together. Larger things are artifacts."""

MAX_KEY_BYTES = 256


class SessionMemory:
    """The values of one session. Each call is atomic; of several writers of a key the last one wins.

    A session keeps at most 256 keys of at most 256 bytes each, and 1 MiB in all.
    """

    __slots__ = ("_session_id", "_storage")

    def __init__(self, storage: Callable[[], Storage], session_id: str) -> None:
        self._storage = storage
        self._session_id = session_id

    async def get(self, key: str, default: Any = None) -> Any:
        """The value, a copy; `default` where there is none."""
        text = await self._storage().get_item(self._session_id, _checked(key))
        return default if text is None else from_json(text)

    async def set(self, key: str, value: Any) -> None:
        """Keep any JSON value; kept when this returns.

        Raises:
            MessageTooLargeError: The session would go over its bounds; nothing has changed.
            TypeError: The value has no JSON form.
        """
        await self._storage().set_item(self._session_id, _checked(key), to_json(value), BOUNDS)

    async def delete(self, key: str) -> bool:
        """Forget a key; whether it was there."""
        return await self._storage().delete_item(self._session_id, _checked(key))

    async def all(self) -> dict[str, Any]:
        """Every value by its key, sorted; copies."""
        found = await self._storage().items(self._session_id)
        return {key: from_json(text) for key, text in found.items()}


def _checked(key: str) -> str:
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        size = 0  # what is no Unicode is as little a key as nothing is
    if not 0 < size <= MAX_KEY_BYTES:
        raise InvalidArgumentError(f"must be 1 to {MAX_KEY_BYTES} bytes of Unicode text", field="key")
    return key


class ToolMemory:
    """What an agent's tools remember of one principal's sessions.

    Args:
        storage: Says where it lies, asked at each use.
    """

    name = "tools"

    def __init__(self, storage: Callable[[], Storage]) -> None:
        self._storage = storage

    def session(self, session_id: str) -> SessionMemory:
        """What a tool that serves this session gets."""
        return SessionMemory(self._storage, session_id)

    async def session_ids(self) -> list[str]:
        """The sessions that have values."""
        return list(await self._storage().item_sessions())

    async def knows(self, session_id: str) -> bool:
        """Whether anything is kept for the session."""
        return bool(await self._storage().item_sessions(session_id))

    async def describe(self, session_id: str | None = None, include_data: bool = False) -> StateStoreReport:
        """What is kept for a session, or for all.

        The content is the values by key, or those of each session by its id; sessions that are too much are left out, and
        `metadata["truncated"]` says so.
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
        """Forget what is kept for a session, or for all."""
        before = await self.describe(session_id)
        for each in [session_id] if session_id is not None else await self.session_ids():
            await self._storage().delete_items(each)
        return (await self.describe(session_id)).cleared_since(before)
