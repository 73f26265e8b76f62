"""`plgrpc eval`: runs an evaluation, prints and saves its report, and compares it with an earlier one."""

import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from protolink_grpc.agent import Agent
from protolink_grpc.cli import output
from protolink_grpc.cli.connect import OUTAGE_S, is_address, run, tls_of, url_of
from protolink_grpc.cli.failure import CommandError, ExitCode, usage_error
from protolink_grpc.cli.load import load_agent, load_attribute
from protolink_grpc.cli.settings import Settings
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.evaluation import (
    EvaluationCase,
    EvaluationComparison,
    EvaluationReport,
    EvaluationSample,
    Scorer,
    compare_evaluations,
    contains,
    exact_match,
    json_match,
    load_evaluation_cases,
    tool_used,
)
from protolink_grpc.evaluation import evaluate as run_evaluation
from protolink_grpc.storage import MemoryStore

_SCORERS: dict[str, Scorer] = {
    "exact_match": exact_match,
    "contains": contains,
    "json_match": json_match,
    "tool_used": tool_used(),
}


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """The options of the command; empty texts are not set."""

    target: str
    cases: str
    scorers: tuple[str, ...]
    samples: int
    concurrency: int
    store: str
    out: str
    baseline: str
    min_pass_rate: float

    @property
    def is_module(self) -> bool:
        """Whether the target is `module:agent`, rather than the URL or the name of a running agent."""
        return ":" in self.target and not is_address(self.target)


def evaluate(settings: Settings, options: EvaluationOptions) -> int:
    """Run an evaluation and return the exit code."""
    cases = _read_cases(options.cases)
    scorers = [_find_scorer(name) for name in options.scorers]
    baseline = _load(options.baseline, "--baseline") if options.baseline else None
    unfinished = _unfinished_file(options)
    report = _report_to_continue(unfinished)
    if unfinished:
        _save(report, unfinished)  # its id is needed to continue the evaluation, even after a kill -9
    try:
        run(_run(settings, options, cases, scorers, report), options.target)
    except InvalidArgumentError as error:
        raise usage_error(str(error), "plgrpc eval --help shows the options") from None
    except KeyboardInterrupt:
        _finish(settings, replace(options, out=unfinished), report, None)
        hint = f"run the same command again to continue with {unfinished}" if unfinished else "--out FILE keeps it"
        output.note("note", f"the evaluation was interrupted; {hint}")
        raise
    comparison = None if baseline is None else compare_evaluations(baseline, report)
    _finish(settings, options, report, comparison)
    if unfinished != options.out:
        Path(unfinished).unlink(missing_ok=True)
    return _exit_code(report, comparison, options.min_pass_rate)


async def _run(
    settings: Settings,
    options: EvaluationOptions,
    cases: list[EvaluationCase],
    scorers: list[Scorer],
    report: EvaluationReport,
) -> None:
    agent = await _open_agent(settings, options)
    progress = _Progress(report, len(cases) * options.samples)
    try:
        await run_evaluation(
            agent,
            cases,
            scorers=scorers,
            samples=options.samples,
            concurrency=options.concurrency,
            store=options.store or None,
            timeout_s=settings.timeout_s,
            report=report,
            on_sample=progress.show,
        )
    finally:
        progress.clear()
        if isinstance(agent, Agent):
            # After an interruption the runs stop at once. Their tasks are resumed when the evaluation is continued.
            await agent.aclose(grace_s=0)


async def _open_agent(settings: Settings, options: EvaluationOptions) -> Agent | AgentClient:
    target = options.target
    if options.is_module:
        agent = load_agent(target)
        if not options.store and isinstance(agent.store, MemoryStore):
            output.note("note", "the logs of the tasks end with this command; --store FILE keeps them")
        return agent
    if options.store:
        raise usage_error("--store is for an Agent of a module", "an agent at a URL has its own store")
    if not is_address(target) and not settings.registry:
        raise usage_error(
            f"{target!r} is not a URL, and no registry is set to look up the name",
            f"for an Agent of a module, pass MODULE:AGENT, for instance {target.removesuffix('.py')}:agent",
        )
    return AgentClient(
        "grpc",
        url=target if "://" in target else await url_of(settings, target),
        timeout=settings.timeout_s,
        tls=tls_of(settings),
        metadata=settings.headers,
        outage_s=OUTAGE_S,
    )


def _read_cases(path: str) -> list[EvaluationCase]:
    try:
        return load_evaluation_cases(path)
    except InvalidArgumentError as error:
        raise usage_error(str(error), 'a case is one line, for instance {"input": "1 + 2", "expected": "3"}') from None
    except OSError as error:
        raise usage_error(f"cannot read {path}: {error.strerror}", "the file has one JSON object per line") from None


def _find_scorer(name: str) -> Scorer:
    """Return a built-in scorer, or the function at `module:function`."""
    if name in _SCORERS:
        return _SCORERS[name]
    kind, separator, argument = name.partition(":")
    if kind == "tool_used" and argument:
        return tool_used(argument)
    if not separator:
        known = ", ".join(_SCORERS)
        raise usage_error(f"unknown scorer {name!r}", f"use {known}, tool_used:TOOL or MODULE:FUNCTION")
    found = load_attribute(name)
    if not callable(found):
        raise usage_error(f"{name} is not a function", "a scorer takes an EvaluationSample and returns a score")
    scorer: Scorer = found
    return scorer


def _unfinished_file(options: EvaluationOptions) -> str:
    """Return the file for the report before its end: that of --out, or one beside it if that file has the baseline."""
    out, baseline = options.out, options.baseline
    is_baseline = bool(out and baseline) and Path(out).resolve() == Path(baseline).resolve()
    return f"{out}.unfinished" if is_baseline else out


def _report_to_continue(out: str) -> EvaluationReport:
    """Return the unfinished report in a file, or a new report."""
    if not out or not Path(out).exists():
        return EvaluationReport()
    report = _load(out, "--out")
    if report.is_complete:
        return EvaluationReport()
    output.note("note", f"continuing the evaluation in {out}")
    return report


def _load(path: str, option: str) -> EvaluationReport:
    try:
        return EvaluationReport.load(path)
    except OSError as error:
        raise usage_error(f"cannot read {path}: {error.strerror}", f"{option} takes a report of plgrpc eval") from None
    except InvalidArgumentError as error:
        raise usage_error(f"not a report: {error}", f"{option} takes a report of plgrpc eval") from None


def _save(report: EvaluationReport, path: str) -> None:
    try:
        report.save(path)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}", hint="choose another file with --out") from None


def _finish(
    settings: Settings, options: EvaluationOptions, report: EvaluationReport, comparison: EvaluationComparison | None
) -> None:
    """Save and print the report and the comparison."""
    if options.out:
        _save(report, options.out)
    if settings.json:
        output.document(report.to_dict() | {"comparison": None if comparison is None else comparison.to_dict()})
        return
    output.line(report.format())
    if report.passed < len(report.samples) and (report.store or not options.is_module):
        where = f"TASK_ID --store {report.store}" if report.store else f"{options.target} TASK_ID"
        output.line()
        output.line(f"Log of a task: plgrpc run replay {where}")
    if comparison is not None:
        output.line()
        output.line(comparison.format())


def _exit_code(report: EvaluationReport, comparison: EvaluationComparison | None, min_pass_rate: float) -> int:
    code = ExitCode.OK
    if report.pass_rate < min_pass_rate:
        output.note("error", f"the pass rate is {report.pass_rate:.2f}; at least {min_pass_rate:.2f} is required")
        code = ExitCode.FAILURE
    if comparison is not None and comparison.regressions:
        names = ", ".join(change.case_id for change in comparison.regressions)
        output.note("error", f"regressions: {names}")
        code = ExitCode.FAILURE
    return code


class _Progress:
    """A line on standard error with the number of finished samples, if that is a terminal."""

    def __init__(self, report: EvaluationReport, planned: int) -> None:
        self._report = report
        self._planned = planned
        self._is_shown = sys.stderr.isatty()

    def show(self, sample: EvaluationSample) -> None:
        if self._is_shown:
            self._write(f"\r{len(self._report.samples)}/{self._planned} samples")

    def clear(self) -> None:
        if self._is_shown:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        with suppress(OSError):  # a closed terminal does not end the evaluation
            sys.stderr.write(text)
            sys.stderr.flush()
