"""A process dies right after each commit of a session, and another one goes on: the same turns end in the same way, each once."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from session_story import MEMORIES
from valid_logs import violations_of

from protolink_grpc import AgentClient, Registry

PROGRAM = Path(__file__).with_name("mortal_desk.py")
STORY = Path(__file__).with_name("mortal_story.py")

DELEGATED = -1
"""See `mortal_story`."""

ENDS = {
    "one": ["default", "completed"],
    "two": ["default", "completed"],
    "three": ["default", "completed"],
    "gone": ["default", "canceled"],
    "question": ["side", "input-required"],
    "answer": ["side", "completed"],
    "endless": ["side", "canceled"],
    "last": ["side", "completed"],
}


def check(seen: dict[str, Any]) -> None:
    assert seen["turns"] == ENDS
    assert seen["open"] == []
    assert violations_of(seen["records"], seen["page"]) == []
    assert seen["positions"] == list(range(1, len(seen["positions"]) + 1))
    for sequences in seen["of_tasks"]:
        assert sequences == list(range(1, len(sequences) + 1))
    assert sorted(seen["submitted"]) == sorted(ENDS)
    assert sorted(seen["ended"]) == sorted(ENDS)


@pytest.mark.timeout(300)
async def test_a_session_survives_the_death_of_its_process_after_each_commit(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]]
) -> None:
    programs = [await launch(PROGRAM, tmp_path) for _ in range(2)]
    programs[0].say("0")
    whole = json.loads(await programs[0].line())
    check(whole)

    async def follow(program: Any, points: list[int]) -> None:
        for point in points:
            program.say(str(point))
            seen = json.loads(await program.line())
            try:
                check(seen)
            except AssertionError as error:
                raise AssertionError(f"after a death at commit {point}: {error}") from error

    points = list(range(1, whole["commits"] + 1))
    await asyncio.gather(follow(programs[0], points[::2]), follow(programs[1], points[1::2]))


@pytest.mark.timeout(300)
async def test_a_story_with_everything_that_sessions_have_survives_a_death_at_each_commit(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]]
) -> None:
    async with Registry() as registry:
        deputy = await launch(STORY, "child", registry.url)
        client = AgentClient(url=await deputy.line())
        programs = [await launch(STORY, tmp_path, registry.url) for _ in range(2)]
        whole = await told(programs[0], 0)
        assert "error" not in whole, whole["error"]
        for thread_id, remembered in MEMORIES.items():
            assert [text for role, text in whole["memories"][thread_id] if role == "user"] == remembered

        async def follow(program: Any, points: list[int]) -> None:
            for point in points:
                seen = await told(program, point)
                assert "error" not in seen, f"after a death at commit {point}: {seen['error']}"
                assert seen["models"] == whole["models"], f"after a death at commit {point}"
                assert seen["memories"] == whole["memories"], f"after a death at commit {point}"

        points = [DELEGATED, *range(1, whole["commits"] + 1)]
        await asyncio.gather(follow(programs[0], points[::2]), follow(programs[1], points[1::2]))
        delegated = await client.list_tasks(include_total=True)
        assert delegated.total_size == 1 + len(points)


async def told(program: Any, point: int) -> dict[str, Any]:
    program.say(str(point))
    seen: dict[str, Any] = json.loads(await program.line())
    return seen
