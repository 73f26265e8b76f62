"""A process dies right after each commit of controlled tasks, and another one continues: each task ends in the same way, once."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("mortal_tasks.py")

STATUSES = {
    "first": "completed",
    "second": "completed",
    "third": "completed",
    "loose": "completed",
    "failed": "failed",
    "turn": "completed",
    "gone": "cancelled",
}


@pytest.mark.timeout(300)
async def test_controlled_tasks_survive_the_death_of_their_process_after_each_commit(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]]
) -> None:
    programs = [await launch(PROGRAM, tmp_path) for _ in range(2)]
    programs[0].say("0")
    whole = json.loads(await programs[0].line())
    assert {task_id: found["status"] for task_id, found in whole["tasks"].items()} == STATUSES
    assert whole["tasks"]["first"]["facts"].count("task.progress") == 1
    assert (whole["turns"], whole["open"]) == ([["turn", "completed"]], 0)
    commits = whole.pop("commits")

    async def follow(program: Any, points: list[int]) -> None:
        for point in points:
            program.say(str(point))
            seen = json.loads(await program.line())
            del seen["commits"]
            assert seen == whole, f"after a death at commit {point}"

    points = list(range(1, commits + 1))
    await asyncio.gather(follow(programs[0], points[::2]), follow(programs[1], points[1::2]))
