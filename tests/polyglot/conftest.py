"""The clients' programs, which the conformance tests and those in a browser share."""

from collections.abc import Iterator

import pytest
from languages import LANGUAGES, work_folder
from programs import Programs


@pytest.fixture(scope="session")
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Those of the languages that are tested and can be built here."""
    tested = [item.callspec.params.get("language") for item in request.session.items if hasattr(item, "callspec")]
    languages = [each for each in LANGUAGES if each in tested and not each.missing()]
    with work_folder() as folder:
        made = Programs(languages, folder, tmp_path_factory.getbasetemp().parent / "polyglot.lock")
        yield made
        made.end()
