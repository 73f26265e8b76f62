"""Admission: from a request (see `submission`) to an accepted task whose run has started.

A request is accepted when the opening facts of its run are committed. A request with an id is accepted once: repetitions in this
process share the result of the first one, and later ones find it in the store.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from protolink_grpc.errors import (
    DelegationCycleError,
    InvalidArgumentError,
    InvalidTransitionError,
    LeaseLostError,
    SequenceConflictError,
    StoreError,
    TaskAlreadyExistsError,
    TaskAlreadyRunningError,
    TaskFinishedError,
    UnavailableError,
)
from protolink_grpc.logs import get_logger
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import TaskRetried, TaskSubmitted
from protolink_grpc.models.ids import new_task_id
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState
from protolink_grpc.models.session import DEFAULT_THREAD
from protolink_grpc.models.task_target import TaskTarget, finished_error
from protolink_grpc.net.tracing import WaitingRun
from protolink_grpc.runtime.log import Fact, LiveTask, Within
from protolink_grpc.runtime.run import Run, RunHost
from protolink_grpc.runtime.slots import Ticket
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.runtime.tasks import Tasks
from protolink_grpc.storage.port import RequestRecord
from protolink_grpc.storage.session_log import BESIDE_OTHERS, Opening

log = get_logger(__name__)


@dataclass(slots=True)
class AcceptedTurn:
    """An accepted request: its task, the last sequence of the log before it, and its run if that is in this process."""

    task_id: str
    after_sequence: int
    run: Run | None = None


class Admission:
    """Accepts the requests of one agent: checks a submission, opens its task and begins its run.

    Attributes:
        is_open: Requests are accepted; else they are refused with UnavailableError.
    """

    def __init__(self, tasks: Tasks, host: RunHost) -> None:
        self.is_open = False
        self._tasks = tasks
        self._host = host
        self._agent_name = tasks.agent_name
        self._requests: dict[tuple[str, str], asyncio.Future[AcceptedTurn]] = {}
        self._starting: set[asyncio.Task[None]] = set()
        tasks.on_released = self._start_released

    async def accept(self, submission: Submission, principal: str, *, to_end: bool = False) -> AcceptedTurn:
        """Accept a request as `submit` does. With `to_end`, return after the end of the run: one wait instead of two."""
        self._require_open()
        if not submission.request_id:
            return await self._accept(submission, principal, to_end=to_end)
        key = (principal, submission.request_id)
        while (known := self._requests.get(key)) is not None:
            try:
                return await asyncio.shield(known)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not known.cancelled() or (task is not None and task.cancelling()):
                    raise
                # The first caller disconnected before the request was accepted; this call takes its place.
        # Repetitions that arrive while the first request is being accepted share its result. Later ones find it in the store.
        first: asyncio.Future[AcceptedTurn] = asyncio.get_running_loop().create_future()
        self._requests[key] = first
        try:
            turn = await self._accept(submission, principal)
        except BaseException as error:
            del self._requests[key]
            if isinstance(error, Exception):
                first.set_exception(error)
                first.exception()
            else:
                first.cancel()
            raise
        first.set_result(turn)
        # From here on the request is in the store.
        del self._requests[key]
        return turn

    def _require_open(self) -> None:
        if not self.is_open:
            raise UnavailableError(f"agent {self._agent_name} is not accepting tasks", agent=self._agent_name)

    async def _accept(self, submission: Submission, principal: str, *, to_end: bool = False) -> AcceptedTurn:
        submission.check_target()
        if submission.target is TaskTarget.CONTINUE:
            return await self._continue(submission, principal)
        task_id = submission.task_id or new_task_id()
        warm = self._tasks.warm.get(task_id) if submission.task_id else None
        if task_id in self._tasks.runs or warm is not None:
            return await self._continue(submission, principal)
        if submission.state in TERMINAL and not await self._knows(submission, principal):
            raise finished_error(submission.state)
        if not submission.messages and not submission.artifacts:
            raise InvalidArgumentError("a new task needs a message", field="input.messages")
        submission.check_sequence(task_id, 0)
        live, submitted = self._prepare(submission, task_id, principal)
        try:
            return await self._opened(self._begin(live, [submitted], principal, submission), to_end=to_end)
        except SequenceConflictError:
            # A task with this id already exists: continue it.
            return await self._continue(submission, principal)

    async def draft(
        self, submission: Submission, principal: str, facts: Sequence[Fact], within: Within | None = None
    ) -> tuple[LiveTask, RequestRecord | None]:
        """Accept a new task that does not begin before its owner starts it.

        Args:
            facts: Recorded after the submission.
            within: Called in the transaction.

        Returns:
            The task, and None; or the record of an earlier request with the same id.

        Raises:
            TaskAlreadyExistsError: There is a task with this id.
            ProtolinkError: As `accept`.
        """
        self.check_new(submission)
        live, submitted = self._prepare(submission, submission.task_id or new_task_id(), principal)
        submitted.draft = True
        try:
            record = await live.record(
                [submitted, *facts], request_id=submission.request_id, claim=True, held=True, within=within
            )
        except SequenceConflictError:
            raise already_exists_error(submission.task_id) from None
        return live, record

    def check_new(self, submission: Submission) -> None:
        """Check that a new task can be accepted. Raises UnavailableError or InvalidArgumentError."""
        self._require_open()
        if not submission.messages and not submission.artifacts:
            raise InvalidArgumentError("a new task needs a message", field="input.messages")

    async def hold(self, submission: Submission, principal: str) -> LiveTask:
        """Accept a new task that does not start until its turn leaves the queue of its thread.

        Raises:
            TurnNotQueuedError: The thread has no active turn but a task that waits for input.
            ProtolinkError: As `accept`.
        """
        self.check_new(submission)
        live, submitted = self._prepare(submission, new_task_id(), principal)
        await live.record([submitted], claim=True, held=True, opens=True)
        return live

    def _prepare(self, submission: Submission, task_id: str, principal: str) -> tuple[LiveTask, TaskSubmitted]:
        """Return a new task and its first event. Raises as `Submission.submitted`, and DelegationCycleError."""
        live = self._tasks.new(task_id)
        live.fold.principal = principal
        live.fold.agent_name = self._agent_name
        live.fold.session_id = submission.session_id or task_id
        live.opening = submission.opening or BESIDE_OTHERS
        if submission.context is not None:
            check_cycle(submission.context, self._agent_name)
        submission.set_caller(principal)
        submitted = submission.submitted(task_id, principal, self._tasks.store.runtime_id)
        live.fold.create_micros = micros_from_iso(submitted.task.created_at, field="input.create_time")
        return live, submitted

    async def _knows(self, submission: Submission, principal: str) -> bool:
        """Return whether the store has this request, or a task with this id: then the log decides the response."""
        if submission.request_id and await self._tasks.store.request(
            self._agent_name, principal, submission.request_id
        ):
            return True
        return bool(submission.task_id) and await self._tasks.store.head(submission.task_id) is not None

    async def _continue(self, submission: Submission, principal: str) -> AcceptedTurn:
        task_id, creates = submission.task_id, submission.target is TaskTarget.CREATE
        # A CREATE is refused in the same way whether the existing task belongs to this principal or to another.
        run = self._tasks.runs.get(task_id) if creates else self._tasks.visible_run(task_id, principal)
        if run is not None:
            # The run may belong to this same request, if its first caller disconnected before the commit.
            await run.wait_decided()
            error = run.refusal
            if error is not None and not isinstance(error, (SequenceConflictError, LeaseLostError)):
                if isinstance(error, (StoreError, UnavailableError)):
                    raise error  # a failed store does not mean that the task does not exist
                if submission.target is not TaskTarget.CONTINUE:
                    return await self._accept(submission, principal)  # the other request was refused; this one may pass
            # The caller may have received the last event before the run itself has ended.
            await run.live.at_rest()
            await self._tasks.confirmed_run(task_id)
            run = self._tasks.visible_run(task_id, principal)
        if creates:
            return await self._first_turn(submission, principal)
        live = run.live if run is not None else await self._tasks.get(task_id, principal)
        fold = live.fold
        if submission.request_id and (turn := await self.turn_of(submission.request_id, principal)) is not None:
            return turn
        submission.check_sequence(task_id, fold.sequence)
        if fold.is_terminal:
            raise TaskFinishedError(
                f"task {task_id} is {fold.state}; send a new task instead", task_id=task_id, state=str(fold.state)
            )
        if fold.controls is not None and fold.controls.is_draft:
            raise InvalidTransitionError(
                f"task {task_id} is a draft that has not been started; start it instead",
                task_id=task_id,
                current="draft",
            )
        # A run may exist that has not written its first event yet.
        if fold.state not in INTERRUPTED or self._tasks.visible_run(task_id, principal) is not None:
            raise TaskAlreadyRunningError(
                f"task {task_id} is {fold.state}; wait for it or cancel it", task_id=task_id, state=str(fold.state)
            )
        facts = submission.additions(fold)
        live.opening = submission.opening or BESIDE_OTHERS
        try:
            run = self._begin(live, facts, principal, submission, cause="continued", scopes=submission.scopes)
            return await self._opened(run)
        except SequenceConflictError:
            # Another process may have appended a repetition of this request at the same time.
            if submission.request_id and (turn := await self.turn_of(submission.request_id, principal)) is not None:
                return turn
            raise
        except LeaseLostError:
            raise TaskAlreadyRunningError(
                f"task {task_id} is being continued by another process", task_id=task_id, state=str(fold.state)
            ) from None

    async def retry(self, submission: Submission, principal: str, reason: str = "") -> AcceptedTurn:
        """Begin the work on an ended task again, with the input of its last turn. Of the submission, messages are not used.

        A request with an id is accepted once, as by `accept`.

        Raises:
            TaskNotFoundError: The task is unknown, or belongs to another principal.
            InvalidTransitionError: The task has not ended, is being retried, or was worked on outside of the agent.
            ResourceExhaustedError: The new run would exceed a bound of `Limits`.
            UnavailableError: The service is stopping.
            StoreError: The store failed; nothing was accepted.
        """
        self._require_open()
        task_id, request_id = submission.task_id, submission.request_id
        live = await self._find_at_rest(task_id, principal)
        if request_id and (turn := await self.turn_of(request_id, principal)) is not None:
            return turn
        fold = live.fold
        retried = TaskRetried(fold.state, reason, principal, fold.retries + 1)
        try:
            if self._tasks.visible_run(task_id, principal) is not None:
                raise InvalidTransitionError(f"task {task_id} is being worked on", current=str(fold.state))
            if not fold.is_terminal:
                raise InvalidTransitionError(
                    f"task {task_id} is {fold.state}, and only an ended one can be retried", current=str(fold.state)
                )
            if fold.controls is not None and fold.controls.is_external:
                raise InvalidTransitionError(
                    f"task {task_id} was worked on outside of the agent; create a new one", current=str(fold.state)
                )
            # The retry belongs to the log that it was decided for.
            submission.expected_sequence = fold.sequence
            live.opening = Opening(fold.thread_id or DEFAULT_THREAD)
            run = self._begin(live, [retried], principal, submission, cause="retried", scopes=submission.scopes)
            return await self._opened(run)
        except (SequenceConflictError, LeaseLostError, InvalidTransitionError) as error:
            # Another request has retried the task at the same time; it may be a repetition of this one.
            other = self._tasks.visible_run(task_id, principal)
            if other is not None:
                await other.wait_decided()
            if request_id and (turn := await self.turn_of(request_id, principal)) is not None:
                return turn
            if isinstance(error, InvalidTransitionError):
                raise
            raise InvalidTransitionError(
                f"task {task_id} is being retried by another process", current=str(fold.state)
            ) from None

    async def _find_at_rest(self, task_id: str, principal: str) -> LiveTask:
        """Return a principal's task after the end of the append in progress. Raises TaskNotFoundError."""
        run = self._tasks.visible_run(task_id, principal)
        if run is not None:
            await run.wait_decided()
            # The caller may have received the last event before the run itself has ended.
            await run.live.at_rest()
            await self._tasks.confirmed_run(task_id)
            run = self._tasks.visible_run(task_id, principal)
        return run.live if run is not None else await self._tasks.get(task_id, principal)

    async def _first_turn(self, submission: Submission, principal: str) -> AcceptedTurn:
        """Return the turn that this request has already begun on the existing task, else raise TaskAlreadyExistsError."""
        if submission.request_id and (turn := await self.turn_of(submission.request_id, principal)) is not None:
            return turn
        raise already_exists_error(submission.task_id)

    async def turn_of(self, request_id: str, principal: str) -> AcceptedTurn | None:
        """Return the turn that began with a request, or None if the store has no such request. Raises StoreError."""
        record = await self._tasks.store.request(self._agent_name, principal, request_id)
        if record is None:
            return None
        return AcceptedTurn(record.task_id, record.after_sequence, self._tasks.runs.get(record.task_id))

    def _start_released(self, task_id: str) -> None:
        """Start the run of a released task. If this process cannot, another one finds the task as an orphan."""
        if not self.is_open:
            return
        starting = asyncio.get_running_loop().create_task(self._start(task_id))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)

    async def _start(self, task_id: str) -> None:
        try:
            head = await self._tasks.store.head(task_id)
            if head is None or head.state is not TaskState.SUBMITTED:
                return
            live = await self._tasks.read(head)
            if self.is_open and live.fold.state is TaskState.SUBMITTED and task_id not in self._tasks.runs:
                self.resume(live, "submitted")
        except Exception as error:  # for example a damaged log: the recovery finds the task as an orphan
            log.warning("task %s may start but cannot start here: %s", task_id, error)

    def resume(self, live: LiveTask, cause: str) -> Run:
        fold = live.fold
        # A run that was accepted but never began has done nothing: the new run takes its id.
        run_id = "" if fold.attempt else fold.run_id
        return self._begin(live, [], fold.principal, cause=cause, run_id=run_id)

    def _admit(self, live: LiveTask, principal: str, submission: Submission | None) -> Ticket:
        """Return a ticket for another run of a task. Raises as `RunSlots.admit`."""
        if submission is None:
            # A recovered run was admitted before. It queues like others but is not refused.
            return self._host.slots.join(principal, live.size)
        callers: tuple[Ticket, ...] = ()
        chain = ""
        if submission.waiting_runs:
            callers = self._tickets_of(submission.waiting_runs)
            names = [name for name, _ in submission.waiting_runs]
            chain = " > ".join([*names, self._agent_name])
        return self._host.slots.admit(principal, live.size + submission.size, callers, chain)

    def _tickets_of(self, waiting: tuple[WaitingRun, ...]) -> tuple[Ticket, ...]:
        """Return the tickets of the listed runs that are in this process, and of the runs that wait for those."""
        found: dict[Ticket, None] = {}
        for _, run_id in waiting:
            run = self._tasks.run_by_id(run_id)
            if run is not None:
                found |= dict.fromkeys((run.ticket, *run.ticket.callers))
        return tuple(found)

    def _begin(
        self,
        live: LiveTask,
        opening: list[Fact],
        principal: str,
        submission: Submission | None = None,
        *,
        cause: str = "submitted",
        scopes: frozenset[str] | None = None,
        run_id: str = "",
    ) -> Run:
        run = Run(
            live,
            opening,
            self._host,
            self._admit(live, principal, submission),
            principal=principal,
            run_id=run_id if submission is None else submission.run_id_for(live.fold),
            request_id=submission.request_id if submission is not None else "",
            expected_sequence=submission.expected_sequence if submission is not None else 0,
            cause=cause,
            scopes=scopes,
            waiting_runs=submission.waiting_runs if submission is not None else (),
            trace=submission.trace if submission is not None and cause in ("continued", "retried") else None,
        )
        self._tasks.add(run)
        run.start()
        return run

    async def _opened(self, run: Run, *, to_end: bool = False) -> AcceptedTurn:
        after = run.live.fold.sequence
        if to_end:
            await run.wait_ended()
        record = await run.wait_accepted()
        if record is not None:
            return AcceptedTurn(record.task_id, record.after_sequence, self._tasks.runs.get(record.task_id))
        return AcceptedTurn(run.live.fold.task_id, after, run)


def already_exists_error(task_id: str) -> TaskAlreadyExistsError:
    return TaskAlreadyExistsError(
        f"there is a task {task_id} already; continue it, or choose another id", task_id=task_id
    )


def check_cycle(context: RunContext, agent_name: str) -> None:
    """Refuse delegated work that this agent has handled before: two agents could delegate to each other forever.

    Work is delegated if its context has a parent run. A root context may contain any agent names.

    Raises:
        DelegationCycleError: The agent's name is in the context's chain, compared without case.
    """
    chain = context.agent_chain
    if context.parent_run_id and agent_name.casefold() in (each.casefold() for each in chain):
        raise DelegationCycleError(
            f"the work has passed through {agent_name} before: {' > '.join(chain)}", agent=agent_name
        )
