"""A process dies right after each commit of a session, and another one goes on: the same turns end in the same way, each once."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from valid_logs import violations_of

PROGRAM = Path(__file__).with_name("mortal_desk.py")

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
