"""Every client, run as its users run it: each language's conformance program against the scripted agent.

Where a toolchain or a client is not there, the language is skipped and says why.
"""

import asyncio
import fcntl
import signal
import subprocess
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from languages import LANGUAGES, ROOT, Language, judged, work_folder

from protolink_grpc import AgentClient
from protolink_grpc.testing.calculator import make_calculator
from protolink_grpc.testing.cases import CASES, parse_report

Run = subprocess.CompletedProcess[str]

MORTAL = ROOT / "tests/faults/calculator_agent.py"
LAST_EVENT = 8
"""Length of the log of a typed call: its result is recorded, and its answer is not sent."""


class Programs:
    """The conformance programs. One is built after the other, and each runs beside the builds of the next: it mostly waits."""

    def __init__(self, languages: list[Language], folder: str, lock: Path) -> None:
        self._folder, self._lock = folder, lock
        self._builds, self._runs = ThreadPoolExecutor(1), ThreadPoolExecutor(2)
        in_order = sorted(languages, key=lambda each: bool(each.tools))  # a program that needs no tool needs no build
        self._built = {each: self._builds.submit(self._build, each) for each in in_order}
        self._ran = {each: self._runs.submit(self._run, built) for each, built in self._built.items()}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other process builds meanwhile, also none that shares the tests in another way."""
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _build(self, language: Language) -> list[str]:
        own = Path(self._folder, language.name)
        own.mkdir()
        with self.alone():
            return language.built(own)

    def _run(self, built: Future[list[str]]) -> Run:
        command = judged(built.result())
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)

    def build(self, language: Language) -> None:
        """Return when it is built. Raises RuntimeError: the build failed."""
        self._built[language].result()

    def example(self, language: Language) -> list[str]:
        """Return the command of its example, once it is built. Raises RuntimeError: the build failed."""
        assert language.example is not None
        self.build(language)
        return language.example(Path(self._folder, language.name))

    def run(self, language: Language) -> Run:
        """Return the finished run of its program. Raises RuntimeError: the build failed."""
        return self._ran[language].result()

    def end(self) -> None:
        self._builds.shutdown(cancel_futures=True)
        self._runs.shutdown(cancel_futures=True)


@pytest.fixture(scope="session")
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Those of the languages that are tested and can be built here."""
    tested = [item.callspec.params.get("language") for item in request.session.items if hasattr(item, "callspec")]
    languages = [each for each in LANGUAGES if each in tested and not each.missing()]
    with work_folder() as folder:
        made = Programs(languages, folder, tmp_path_factory.getbasetemp().parent / "polyglot.lock")
        yield made
        made.end()


@pytest.mark.timeout(2400)  # a first build compiles what it stands on, and one may wait for another
@pytest.mark.parametrize("language", LANGUAGES, ids=[each.name for each in LANGUAGES])
def test_the_client_passes_every_case(language: Language, programs: Programs) -> None:
    why = language.missing()
    if why:
        pytest.skip(f"{language.title}: {why}")
    done = programs.run(language)
    said = done.stdout + done.stderr
    reports = {report.case: report for line in done.stdout.splitlines() if (report := parse_report(line))}
    assert done.returncode == 0, said
    assert set(reports) == set(CASES), said
    expected = {case: "SKIP" if case in language.skips else "PASS" for case in CASES}
    assert {case: report.result for case, report in reports.items()} == expected, said


@pytest.mark.timeout(2400)  # as above
@pytest.mark.parametrize("language", [each for each in LANGUAGES if each.checks], ids=lambda each: each.name)
def test_the_clients_own_checks_and_tests_pass(language: Language, programs: Programs) -> None:
    why = language.missing()
    if why:
        pytest.skip(f"{language.title}: {why}")
    programs.build(language)
    with programs.alone():
        language.checked()


@pytest.mark.timeout(2400)  # as above
@pytest.mark.parametrize("language", [each for each in LANGUAGES if each.example], ids=lambda each: each.name)
async def test_the_example_calls_a_calculator_with_types(language: Language, programs: Programs) -> None:
    why = language.missing()
    if why:
        pytest.skip(f"{language.title}: {why}")
    command = await asyncio.to_thread(programs.example, language)
    async with make_calculator() as calculator:
        running = await asyncio.create_subprocess_exec(*command, calculator.card.url, stdout=PIPE, stderr=STDOUT)
        output, _ = await running.communicate()
    check_example(running.returncode, output.decode())


def check_example(code: int | None, said: str) -> None:
    """The example must have printed the sum, the state of its task, a stream, and which field of a bad request is wrong."""
    assert code == 0, said
    first, state, *stream, last = said.splitlines()
    assert first == "20 + 22 = 42", said
    assert state.lower().endswith("completed"), said
    assert stream == ["1", "2", "3"], said
    assert last == "name: String should have at least 1 character", said


@pytest.mark.timeout(2400)  # as above
@pytest.mark.parametrize("language", [each for each in LANGUAGES if each.example], ids=lambda each: each.name)
async def test_a_typed_call_whose_agent_is_killed_before_it_answers_runs_once(
    language: Language, programs: Programs, tmp_path: Path, launch: Callable[..., Awaitable[Any]]
) -> None:
    why = language.missing()
    if why:
        pytest.skip(f"{language.title}: {why}")
    command = await asyncio.to_thread(programs.example, language)
    mortal = await launch(MORTAL, tmp_path, LAST_EVENT, 0)
    url = await mortal.line()
    running = await asyncio.create_subprocess_exec(*command, url, stdout=PIPE, stderr=STDOUT)
    assert await mortal.end() == -signal.SIGKILL
    await (await launch(MORTAL, tmp_path, 0, url.rpartition(":")[2])).line()
    output, _ = await running.communicate()
    check_example(running.returncode, output.decode())
    client = AgentClient(url=url)
    *_, task = (await client.list_tasks()).tasks  # the oldest one
    events = [event.type async for event in client.subscribe(task.id)]
    assert events.count("action.started") == 1, events
