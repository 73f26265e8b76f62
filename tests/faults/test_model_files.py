"""Files of prompts and answers after the death of the process: they are in the log, each once."""

import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("drawing_agent.py")

Launch = Callable[..., Awaitable[Any]]


async def test_a_recovered_run_reads_the_files_of_prompt_and_answers_from_its_log(launch: Launch, tmp_path: Path):
    first = await launch(PROGRAM, tmp_path / "tasks.db", "dies")
    assert await first.end() == -signal.SIGKILL
    second = await launch(PROGRAM, tmp_path / "tasks.db", "lives")
    seen = json.loads(await second.line())
    assert (seen["state"], seen["output"]) == ("completed", "Done.")
    (asked,) = seen["requests"]
    assert [(role, media["media_type"], media.get("part")) for role, media in asked] == [
        ("user", "application/pdf", "artifacts[0].parts[0]"),
        ("user", "image/png", "messages[0].parts[1]"),
        ("assistant", "image/png", None),
        ("tool", "image/png", None),
    ]
    files = [(each["name"], each["media_type"], each["kind"]) for each in seen["artifacts"][1:3]]
    assert files == [("image-1.png", "image/png", "result"), ("image-1.gif", "image/gif", "result")]
    assert [each["parts"][0]["type"] for each in seen["artifacts"]] == ["file", "image", "image", "infer_output"]
    assert seen["history"] == [
        ["user", ["application/pdf", "image/png"]],
        ["assistant", ["image/png"]],
        ["tool", ["image/png"]],
        ["assistant", ["image/gif"]],
    ]
    # Each file is once in the log: as the caller's part, the tool's result or an artifact.
    assert seen["copies"] == {"given": 1, "pages": 1, "drawn": 1, "last": 1, "shot": 1}
