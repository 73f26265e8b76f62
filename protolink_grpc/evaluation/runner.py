"""Runs the samples of an evaluation: each a task with a request id of its own, several at the same time."""

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from protolink_grpc.agent.agent import Agent
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.errors import InvalidArgumentError, ProtolinkError, ResourceExhaustedError, error_text
from protolink_grpc.evaluation.cases import EvaluationCase, check_cases, load_evaluation_cases
from protolink_grpc.evaluation.report import EvaluationReport
from protolink_grpc.evaluation.samples import EvaluationSample, Scorer
from protolink_grpc.evaluation.scorers import check_scorers, exact_match, score_with
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.failure import RUN_LOST
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.task import Task
from protolink_grpc.net.exponential_delay import ExponentialDelay
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.storage.sqlite.store import SQLiteStore

MAX_SAMPLES = 1_000
MAX_CONCURRENCY = 256
MAX_LOST_RUNS = 3
"""Number of repetitions of a sample whose task failed because its process ended, as after an interrupted evaluation."""

CANCEL_REASON = "the evaluation's time limit"

BUSY_DELAY_S = 0.1
MAX_BUSY_DELAY_S = 5.0
MAX_BUSY_RETRIES = 10
"""Delays between attempts to send a task to a busy agent, and their number: about half a minute in total."""


class _Target(Protocol):
    """An agent under evaluation: in this process, or behind a client."""

    async def run(self, task: Task, request_id: str) -> Task: ...

    async def report(self, task_id: str) -> RunReport: ...

    async def cancel(self, task_id: str) -> None: ...


@checks_arguments
async def evaluate(
    agent: Agent | AgentClient | str,
    cases: Sequence[EvaluationCase] | str | os.PathLike[str],
    *,
    scorers: Iterable[Scorer] = (exact_match,),
    samples: int = 1,
    concurrency: int = 4,
    store: TaskStore | str | os.PathLike[str] | None = None,
    timeout_s: float | None = None,
    report: EvaluationReport | None = None,
    on_sample: Callable[[EvaluationSample], None] | None = None,
) -> EvaluationReport:
    """Run each case several times and score the outputs. Failures of the agent and of scorers are part of the report.

    Args:
        agent: An agent of this process, which does not have to be started; a URL of any scheme of AgentClient; or an AgentClient
            with a default URL, whose timeout and credentials apply.
        cases: The cases, or the path of a file for `load_evaluation_cases`.
        scorers: Functions of a sample. A sample passes if all of them pass.
        samples: Number of tasks for each case.
        concurrency: Number of samples that run at the same time.
        store: Where an agent of this process keeps the logs of the tasks: a task store, or the path of a SQLite file. None means
            the agent's own store.
        timeout_s: Time limit of each sample and of each scorer, in seconds. A task that takes longer is canceled.
        report: A report to continue: its finished samples are kept, and others are added to it while they finish. A caller that is
            interrupted has the finished samples there. The request ids of tasks depend on the evaluation, the case and the number
            of the sample, so that an agent with a persistent store returns the task of a sample that it has executed before.
        on_sample: Called after each sample.

    Returns:
        `report`, or a new one.

    Raises:
        InvalidArgumentError: An argument is invalid, or a line of the file of cases; names it.
        UnavailableError: The agent cannot be reached.
        OSError: The file of cases cannot be read.
    """
    found = load_evaluation_cases(cases) if isinstance(cases, str | os.PathLike) else list(cases)
    check_cases(found)
    used = list(scorers)
    names = check_scorers(used)
    _check_count(samples, MAX_SAMPLES, "samples")
    _check_count(concurrency, MAX_CONCURRENCY, "concurrency")
    target = await _open_target(agent, store)
    result = report if report is not None else EvaluationReport()
    _prepare(result, found, samples, names)
    result.agent = (
        agent.card.name if isinstance(agent, Agent) else (agent if isinstance(agent, str) else agent.url or "")
    )
    result.store = _store_path(store if store is not None else agent.store if isinstance(agent, Agent) else None)
    evaluation = _Evaluation(target, used, timeout_s, result, on_sample)
    try:
        await evaluation.run(concurrency)
    finally:
        result.sort()
    return result


def _check_count(value: int, most: int, name: str) -> None:
    if not 1 <= value <= most:
        raise InvalidArgumentError(f"must be an integer from 1 to {most}", field=name)


def _prepare(report: EvaluationReport, cases: list[EvaluationCase], samples: int, scorers: list[str]) -> None:
    """Set the plan of an evaluation, and keep those finished samples that fit it."""
    wanted = {case.id: case for case in cases}
    same_scorers = report.scorers == scorers
    report.samples = [
        sample
        for sample in report.samples
        if same_scorers and sample.task_id and sample.number <= samples and wanted.get(sample.case_id) == sample.case
    ]
    report.cases, report.samples_per_case, report.scorers = cases, samples, scorers


class _Evaluation:
    """The run of one evaluation."""

    def __init__(
        self,
        target: _Target,
        scorers: list[Scorer],
        timeout_s: float | None,
        report: EvaluationReport,
        on_sample: Callable[[EvaluationSample], None] | None,
    ) -> None:
        self._target = target
        self._scorers = scorers
        self._timeout_s = timeout_s
        self._report = report
        self._on_sample = on_sample

    async def run(self, concurrency: int) -> None:
        """Run all samples that are not finished. Workers share one iterator, so that only running samples use memory."""
        rest = self._unfinished()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(self._work(rest))
        except BaseExceptionGroup as failed:  # of `on_sample`, or a fault of this package
            raise failed.exceptions[0] from None

    def _unfinished(self) -> Iterator[EvaluationSample]:
        done = {(sample.case_id, sample.number) for sample in self._report.samples}
        # The first sample of all cases comes first: an interrupted evaluation has something of each case.
        for number in range(1, self._report.samples_per_case + 1):
            for case in self._report.cases:
                if (case.id, number) not in done:
                    yield EvaluationSample(case.id, number, case=case)

    async def _work(self, rest: Iterator[EvaluationSample]) -> None:
        for sample in rest:
            await self._run_sample(sample)
            if not sample.agent_failed:
                for scorer in self._scorers:
                    sample.scores.append(await score_with(scorer, sample, self._timeout_s))
            self._report.samples.append(sample)
            if self._on_sample is not None:
                self._on_sample(sample)
            # Thousands of tasks and reports would not fit into memory; the agent's store has them.
            sample.task = sample.report = None

    async def _run_sample(self, sample: EvaluationSample) -> None:
        began = time.monotonic()
        task = sample.case.new_task()
        try:
            async with asyncio.timeout(self._timeout_s) as clock:
                answer = await self._run_task(sample, task)
        except TimeoutError as error:
            if not clock.expired():
                sample.reason = _error_line(error)
                return
            await self._cancel(task.id)
            sample.task_id, sample.state = task.id, "canceled"
            sample.reason = f"the task took longer than {self._timeout_s:g} s"
            return
        except ProtolinkError as error:
            sample.reason = _error_line(error)
            return
        finally:
            sample.duration_s = round(time.monotonic() - began, 6)
        sample.task, sample.task_id, sample.state = answer, answer.id, str(answer.state)
        sample.reason, sample.usage, sample.output = answer.reason, answer.usage, _json_output(answer)
        try:
            sample.report = await self._target.report(answer.id)
            sample.run_id = sample.report.run_id
        except ProtolinkError:  # an agent of another system has no reports; a scorer that needs one fails
            pass

    async def _run_task(self, sample: EvaluationSample, task: Task) -> Task:
        """Run the task of a sample, again if its process ended."""
        for attempt in range(MAX_LOST_RUNS):
            answer = await self._send(task, _request_id(self._report.evaluation_id, sample, attempt))
            if answer.failure is None or answer.failure.reason != RUN_LOST:
                return answer
            task = sample.case.new_task()
        return answer

    async def _send(self, task: Task, request_id: str) -> Task:
        """Send a task, again if the agent is busy or limits the rate."""
        delay = ExponentialDelay(BUSY_DELAY_S, MAX_BUSY_DELAY_S)
        for _ in range(MAX_BUSY_RETRIES):
            try:
                return await self._target.run(task, request_id)
            except ResourceExhaustedError as error:
                await asyncio.sleep(max(error.retry_after_s or 0.0, delay.next_s()))
        return await self._target.run(task, request_id)

    async def _cancel(self, task_id: str) -> None:
        try:
            await self._target.cancel(task_id)
        except ProtolinkError:  # it has ended, or was never accepted
            pass


def _request_id(evaluation_id: str, sample: EvaluationSample, attempt: int) -> str:
    text = f"{evaluation_id}\n{sample.case_id}\n{sample.case.digest}\n{sample.number}\n{attempt}"
    return f"eval-{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def _error_line(error: BaseException) -> str:
    reason = error.reason if isinstance(error, ProtolinkError) else type(error).__name__
    return f"{reason}: {error_text(error)}"


def _json_output(task: Task) -> object:
    try:
        return plain(task.get_output())
    except (TypeError, InvalidArgumentError):  # an output that is not JSON is shown as text
        return str(task.get_output())


class _LocalTarget:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def run(self, task: Task, request_id: str) -> Task:
        return await (await self._agent.local_agent()).run(task, request_id)

    async def report(self, task_id: str) -> RunReport:
        return await (await self._agent.local_agent()).report(task_id, "", None)

    async def cancel(self, task_id: str) -> None:
        await (await self._agent.local_agent()).cancel(task_id, CANCEL_REASON, None)


class _RemoteTarget:
    def __init__(self, client: AgentClient) -> None:
        self._client = client

    async def run(self, task: Task, request_id: str) -> Task:
        return await self._client.send_task(None, task, request_id=request_id)

    async def report(self, task_id: str) -> RunReport:
        return await self._client.get_run_report(None, task_id)

    async def cancel(self, task_id: str) -> None:
        await self._client.cancel_task(None, task_id, reason=CANCEL_REASON)


async def _open_target(agent: Agent | AgentClient | str, store: TaskStore | str | os.PathLike[str] | None) -> _Target:
    if isinstance(agent, Agent):
        if store is not None:
            kept = store if not isinstance(store, str | os.PathLike) else SQLiteStore(store)
            try:
                agent.relocate(store=kept)
            except RuntimeError:
                raise InvalidArgumentError(
                    "must be set before the agent is used: it keeps its own", field="store"
                ) from None
        await agent.local_agent()
        return _LocalTarget(agent)
    if store is not None:
        raise InvalidArgumentError("is for agents of this process; an agent at a URL has its own", field="store")
    client = AgentClient(url=agent, timeout=None) if isinstance(agent, str) else agent
    await client.connect()
    return _RemoteTarget(client)


def _store_path(store: TaskStore | str | os.PathLike[str] | None) -> str:
    path = store if isinstance(store, str | os.PathLike) else getattr(store, "path", None)
    return "" if path is None else os.fspath(path)
