"""The story of `session_story`, once from its beginning to its end, with each store."""

from pathlib import Path

import pytest
from session_story import ENDS, MEMORIES, Story, check_end, check_stored, child, kinds_of, read_stored

from protolink_grpc import AgentClient, InMemoryStorage, Registry
from protolink_grpc.storage.port import TaskStore


@pytest.mark.timeout(120)
async def test_a_session_with_everything_that_sessions_have_is_whole_and_valid(
    store: TaskStore, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    async with Registry() as registry, child(registry) as deputy:
        story = Story(tmp_path, store, InMemoryStorage(), registry)
        async with story.agent:
            await story.begin()
            await story.tell()
            page, items = await read_stored(store)
            check_end(page, items)
            check_stored(page, items)
            await story.follow(notes, until=page.session.position)
            assert notes.read_text().splitlines() == kinds_of(items)
            models = await story.read_models()
            assert len(models["snapshot"]["recent_turns"]) == len(ENDS)
            for thread_id, messages in (await story.memories()).items():
                assert [text for role, text in messages if role == "user"] == MEMORIES[thread_id]
        assert (await AgentClient(url=deputy.card.url).list_tasks(include_total=True)).total_size == 1
