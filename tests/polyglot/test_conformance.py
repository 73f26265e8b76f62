"""Every client, run as its users run it: each language's conformance program against the scripted agent.

Where a toolchain or a client is not there, the language is skipped and says why.
"""

import fcntl
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from languages import LANGUAGES, ROOT, Language, judged, work_folder

from protolink_grpc.testing.cases import CASES, parse_report


@pytest.fixture(scope="session")
def build() -> Iterator[Callable[[Language], list[str]]]:
    """Builds a language's client, once for all tests, and returns the command of its conformance program."""
    with work_folder() as folder:

        @cache
        def built(language: Language) -> list[str]:
            own = Path(folder, language.name)
            own.mkdir()
            return language.built(own)

        yield built


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One language at a time, also among processes that share the tests without regard to groups."""
    with Path(tmp_path_factory.getbasetemp().parent, "polyglot.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# Builds of several languages at the same time would time each other out.
@pytest.mark.xdist_group("polyglot")
@pytest.mark.usefixtures("alone")
@pytest.mark.timeout(2400)  # a first build compiles what it stands on, and one may wait for another
@pytest.mark.parametrize("language", LANGUAGES, ids=[each.name for each in LANGUAGES])
def test_the_client_passes_every_case(language: Language, build: Callable[[Language], list[str]]) -> None:
    why = language.missing()
    if why:
        pytest.skip(f"{language.title}: {why}")
    done = subprocess.run(
        judged(build(language)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    said = done.stdout + done.stderr
    reports = {report.case: report for line in done.stdout.splitlines() if (report := parse_report(line))}
    assert done.returncode == 0, said
    assert set(reports) == set(CASES), said
    expected = {case: "SKIP" if case in language.skips else "PASS" for case in CASES}
    assert {case: report.result for case, report in reports.items()} == expected, said


@pytest.mark.xdist_group("polyglot")
@pytest.mark.usefixtures("alone")
@pytest.mark.timeout(2400)  # as above
@pytest.mark.parametrize("language", [each for each in LANGUAGES if each.checks], ids=lambda each: each.name)
def test_the_clients_own_checks_and_tests_pass(language: Language, build: Callable[[Language], list[str]]) -> None:
    why = language.missing()
    if why:
        pytest.skip(f"{language.title}: {why}")
    build(language)
    language.checked()
