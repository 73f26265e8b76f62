"""The committed stubs of the calculator are those that `plgrpc gen` makes."""

from pathlib import Path

import pytest
from calculator_stubs import FOLDERS, MissingToolError, generate


@pytest.mark.parametrize("language", FOLDERS)
def test_the_committed_stubs_are_what_the_command_makes(language: str, tmp_path: Path) -> None:
    try:
        generate(language, tmp_path)
    except MissingToolError as error:
        pytest.skip(str(error))
    made = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert made
    for path in made:
        committed = FOLDERS[language] / path.relative_to(tmp_path)
        assert committed.read_text() == path.read_text(), committed
