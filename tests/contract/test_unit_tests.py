"""What keeps the unit tests fast."""

import re
from pathlib import Path

UNIT = Path(__file__).parents[1] / "unit"


def test_no_unit_test_starts_a_program() -> None:
    starts = re.compile(
        r"^\s*(import|from) (subprocess|multiprocessing)\b|create_subprocess_|os\.(exec|spawn|system)", re.M
    )
    assert [path.name for path in UNIT.glob("*.py") if starts.search(path.read_text())] == []
