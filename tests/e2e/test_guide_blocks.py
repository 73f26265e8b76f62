"""Every Python block of the page about models runs."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_of_the_page_about_models_runs(number: int) -> None:
    exec(compile(BLOCKS[number], f"docs/models.md, block {number + 1}", "exec"), {"__name__": "guide"})


def test_the_page_has_blocks() -> None:
    assert len(BLOCKS) > 5
