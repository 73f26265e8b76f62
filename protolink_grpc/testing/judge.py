"""Runs a conformance program against its own agents and checks its report."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from protolink_grpc.testing.cases import CASES, Report, parse_report
from protolink_grpc.testing.stage import open_stage

MAX_LINE_BYTES = 1 << 20
"""Maximum length of a line of output, in bytes. A longer one ends the run."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The reports of a program, and its problems; there are none if it passed."""

    reports: Sequence[Report]
    problems: Sequence[str]

    @property
    def passed(self) -> bool:
        return not self.problems


def evaluate_reports(reports: Sequence[Report], exit_code: int | None, cause: str = "") -> Verdict:
    """Check the reports of a program. Every case must be reported exactly once, also if it is skipped with a reason.

    Args:
        exit_code: None if the program did not end by itself.
        cause: Why it did not; the first problem of the result.
    """
    counts = Counter(report.case for report in reports)
    problems = [cause] if cause else []
    problems += [
        f"{each.case} was skipped without a reason" for each in reports if each.result == "SKIP" and not each.why
    ]
    problems += [f"{each.case} failed: {each.why}" for each in reports if each.result == "FAIL"]
    problems += [f"{case} was not reported" for case in CASES if not counts[case]]
    problems += [f"{case} was reported {count} times" for case, count in counts.items() if count > 1]
    problems += [f"{case} is not a case" for case in counts if case not in CASES]
    has_failed = any(report.result == "FAIL" for report in reports)
    if exit_code is not None and has_failed is not bool(exit_code):
        problems.append(f"the program ended with {exit_code}, and {'a' if has_failed else 'no'} case failed")
    return Verdict(reports, problems)


async def run_program(
    command: Sequence[str], *, vectors: str | None, timeout_s: float, show: Callable[[str], None]
) -> Verdict:
    """Start a program with the environment of a stage, pass its output on, and check its report.

    Args:
        command: Program and arguments.
        vectors: As `open_stage`.
        show: Called with each line of output.

    Raises:
        OSError: It cannot be started.
    """
    async with open_stage(vectors) as stage:
        process = await asyncio.create_subprocess_exec(
            *command,
            env={**os.environ, **stage.environment()},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            limit=MAX_LINE_BYTES,
            # Its own process group, so that programs started by a script end too.
            start_new_session=True,
        )
        reports: list[Report] = []
        try:
            async with asyncio.timeout(timeout_s):
                await _read(process, reports, show)
                return evaluate_reports(reports, await process.wait())
        except TimeoutError:
            return evaluate_reports(reports, None, f"it took longer than {timeout_s:g} s and was ended")
        except ValueError as error:
            return evaluate_reports(reports, None, f"its output cannot be read: {error}")
        finally:
            await _end(process)


async def _read(process: asyncio.subprocess.Process, reports: list[Report], show: Callable[[str], None]) -> None:
    while process.stdout is not None and (data := await process.stdout.readline()):
        line = data.decode("utf-8", "replace").rstrip("\r\n")
        show(line)
        report = parse_report(line)
        if report is not None:
            reports.append(report)


async def _end(process: asyncio.subprocess.Process) -> None:
    # Also if the program itself has ended, because its children may still run. macOS raises PermissionError if none is left.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
