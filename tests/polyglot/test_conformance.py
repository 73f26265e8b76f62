"""Every client, run as its users run it: each language's conformance program against the scripted agent.

Where a toolchain or a client is not there, the language is skipped and says why.
"""

import asyncio
import signal
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from languages import LANGUAGES, ROOT, Language
from programs import Programs

from protolink_grpc import AgentClient
from protolink_grpc.testing.calculator import make_calculator
from protolink_grpc.testing.cases import CASES, parse_report

MORTAL = ROOT / "tests/faults/calculator_agent.py"
LAST_EVENT = 8
"""Length of the log of a typed call: its result is recorded, and its answer is not sent."""


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
