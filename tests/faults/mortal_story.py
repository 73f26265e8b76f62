"""The story of `session_story` in a process that dies right after any commit; `test_session_crashes` runs this file.

Arguments: a folder and the URL of a registry with the agent `child`; or `child` and this URL to be that agent, which prints its own
URL. The input is that of `mortal_store`, or `DELEGATED`: the first life dies when the child has answered, and nothing of that is
written. The second life tells the story again, and prints what there is to see.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from mortal_store import Mortal, die, main
from session_story import AGENT, Story, check_end, check_stored, child, kinds_of, read_stored

from protolink_grpc import Registry, SessionNotFoundError, SQLiteStorage, SQLiteStore
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.events import ActionEnded
from protolink_grpc.runtime.actions.gate import AGENT_CALL
from protolink_grpc.storage.port import Append, RequestRecord
from protolink_grpc.wire.events import event_from_frame

DELEGATED = -1


class Delegating(Mortal):
    """Dies before the result of the delegation is written."""

    async def append(self, append: Append) -> RequestRecord | None:
        payloads = [event_from_frame(frame).payload for frame in append.events]
        if any(isinstance(each, ActionEnded) and each.kind == AGENT_CALL for each in payloads):
            die()
        return await super().append(append)


class MortalStorage(SQLiteStorage):
    """Counts the commits of conversations among those of the store."""

    def __init__(self, path: Path, store: Mortal) -> None:
        super().__init__(path, AGENT)
        self._store = store

    async def append_messages(self, session_id: str, turn_id: str, messages: Sequence[LLMMessage]) -> bool:
        added = await super().append_messages(session_id, turn_id, messages)
        self._store.count()
        return added

    async def branch_messages(self, source_id: str, session_id: str, leaves_out: Callable[[str], bool]) -> bool:
        created = await super().branch_messages(source_id, session_id, leaves_out)
        self._store.count()
        return created


async def left_behind(path: Path) -> list[dict[str, Any]]:
    """The export of the session as the first life left it, before anything continues."""
    if not path.exists():
        return []
    store = SQLiteStore(path)
    await store.open()
    try:
        return check_stored(*await read_stored(store))
    except SessionNotFoundError:
        return []
    finally:
        await store.close()


async def live(folder: Path, dies_at: int) -> dict[str, Any]:
    return await tell(folder, dies_at, sys.argv[2])


async def tell(folder: Path, dies_at: int, registry: Registry | str) -> dict[str, Any]:
    notes = folder / "notes"
    before = await left_behind(folder / "tasks.db")
    store = (Delegating if dies_at == DELEGATED else Mortal)(folder / "tasks.db", dies_at)
    story = Story(folder, store, MortalStorage(folder / "state.db", store), registry)
    async with story.agent:
        await story.begin()
        following = asyncio.create_task(story.follow(notes))
        await story.tell()
        store.spare()
        commits = store.commits
        models = await story.read_models()
        check_end(*await read_stored(store))
        memories = await story.memories()
        following.cancel()
        await asyncio.wait([following])
        page, items = await read_stored(store)
        await story.follow(notes, until=page.session.position)
        assert notes.read_text().splitlines() == kinds_of(items)
        after = check_stored(page, items)
        assert after[: len(before)] == before
    return {"commits": commits, "models": models, "memories": memories}


async def warm_up() -> None:
    """Import and compile once, for all lives. Only in process: a process that has used gRPC cannot fork."""
    async with Registry(url="runtime://registry") as registry, child(registry, "runtime://child"):
        with TemporaryDirectory() as folder:
            await tell(Path(folder), 0, registry)


async def serve_child() -> None:
    async with child(sys.argv[2]) as agent:
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1] == "child":
        asyncio.run(serve_child())
    asyncio.run(warm_up())
    main(live)
