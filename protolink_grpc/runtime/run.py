"""One run of a task, from its first event to its last, and the interface that the run offers to the handler.

Theory of operation. Each run is one asyncio task that belongs to the service, not to the call that caused it. It appends the
opening facts itself, so a caller that disconnects cannot leave a submitted task without a run. Then it waits for a slot, calls the
handler with a copy of the task, and appends the handler's additions together with the final state. Exactly one status ends the run,
whether the handler returns, raises, or is canceled, or the service stops. There are two exceptions: after a lost lease only the
other process may write the log, and a service that stops leaves tasks unchanged if its next start will continue them.
"""

import asyncio
import concurrent.futures
import hashlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from protolink_grpc.errors import (
    InvalidTransitionError,
    LeaseLostError,
    ProtolinkError,
    StoreError,
    ToolFailedError,
    UnavailableError,
    UnimplementedError,
)
from protolink_grpc.llms.hooks import calling_hook
from protolink_grpc.logs import get_logger, read_run_fields_with
from protolink_grpc.models.action import ApprovalDecision, ApprovalRequest, BudgetUsage
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.cancellation import CancellationToken
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import (
    TaskErrorReported,
    TaskMessagesAdded,
    TaskPaused,
    TaskQueued,
    TaskStatusChanged,
    Worker,
)
from protolink_grpc.models.failure import AGENT_FAILED, Failure
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_run_id
from protolink_grpc.models.json_value import canonical_json
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.models.session import conversation_id
from protolink_grpc.models.task import Task
from protolink_grpc.net.trace_context import TraceContext, span_id_of, trace_of, with_trace
from protolink_grpc.net.tracing import WaitingRun, current_trace, enter_run_span, enter_run_trace, set_waiting_runs
from protolink_grpc.policy.budget import BudgetEnforcer, effective
from protolink_grpc.runtime.actions.action_context import executing_action
from protolink_grpc.runtime.actions.approval_answers import answer_event, first_answer, seconds_left
from protolink_grpc.runtime.controls import Controls
from protolink_grpc.runtime.delegations import Delegations
from protolink_grpc.runtime.facts import (
    FLOW_PROMPT,
    Emitter,
    HandlerTask,
    closing_status,
    find_changes,
    find_last_output,
    lost_status,
)
from protolink_grpc.runtime.journal import ActionRecord, Journal
from protolink_grpc.runtime.live_text import LiveTexts
from protolink_grpc.runtime.log import Fact, LiveTask
from protolink_grpc.runtime.slots import RunSlots, Ticket
from protolink_grpc.storage.port import RequestRecord

log = get_logger(__name__)

Handler = Callable[[Task, "Run"], Awaitable[Task | None]]
"""Works on a task and returns the changed task. None means the task that was passed in."""

LATEST_CHANGES = 16
"""Number of state changes in the `state_history` of a handler's task; the log has all of them."""

DEFAULT_STEPS = 10
"""Limit of steps per inference if neither the caller nor the agent sets one."""

CANCEL_CHECK_S = 0.02
"""Interval at which a thread in `wait_for` checks whether the run was canceled."""

CANCEL_GRACE_S = 2.0
"""How long the end of a canceled run, and that of an agent, waits for cancellations sent to other agents, in seconds."""

T = TypeVar("T")

_current: ContextVar["Run | None"] = ContextVar("plgrpc_run", default=None)


def _run_fields() -> Mapping[str, str] | None:
    """Return the ids of the current run for records of logs, or None outside of a run."""
    run = _current.get()
    if run is None:
        return None
    trace = current_trace() or trace_of(run.live.fold.context, run.task_id)
    return {"task_id": run.task_id, "run_id": run.run_id, "trace_id": trace.trace_id, "span_id": trace.span_id}


read_run_fields_with(_run_fields)


def current_run() -> "Run | None":
    """Return the run of the calling code, or None outside of a run."""
    return _current.get()


@dataclass(frozen=True, slots=True)
class RunActions:
    """The actions that code of a handler can request of its run.

    Args:
        call_tool: Calls a tool of the agent with JSON arguments and returns the result.
        call_agent: Sends a task to another agent, given by name or URL, and returns it when it ends or waits for input.
    """

    call_tool: Callable[["Run", str, dict[str, Any]], Awaitable[Any]]
    call_agent: Callable[["Run", str, Task], Awaitable[Task]]


@dataclass(frozen=True, slots=True)
class RunHost:
    """Settings and objects that all runs of one service share.

    Args:
        resumes: Returns whether another run continues a task that was working when its process ended.
        is_durable: A stopping service can leave tasks to its next start.
        worker: Identifies this process in the log.
        on_end: Called with each run at its end.
        actions: None if a handler cannot request actions.
        has_spans: The telemetry makes a span of each run.
        delegations: Cancels tasks that earlier runs have delegated; None if the agent delegates nothing.
    """

    handler: Handler
    slots: RunSlots
    controls: Controls
    texts: LiveTexts
    resumes: Callable[[TaskFold], bool]
    is_durable: bool
    worker: Worker
    on_end: Callable[["Run"], None]
    actions: RunActions | None = None
    has_spans: bool = False
    delegations: Delegations | None = None


class Run(Emitter):
    """One run of a task: its lifecycle for the service, and its interface for the handler. Used from one event loop.

    Args:
        live: The task's log and its current state.
        opening: Facts to append before the run begins; empty for a run that takes over from an earlier one.
        ticket: The admission of this run; given back at the end of the run.
        run_id: Must be new to the task; empty generates one.
        request_id: Stored with the opening facts.
        expected_sequence: Required last sequence of the log before the opening facts; 0 means any.
        cause: Why this run begins.
        scopes: Scopes of this turn's caller; None takes those in the log.
        waiting_runs: Runs, of any agent, that wait for this one.
        trace: Trace context of the caller that continues the task; None takes the one in the log.

    Attributes:
        journal: Work of earlier runs of the same turn; None if there were none.
        record: The stored record of an earlier, identical request; None if this run has appended its opening facts.
        refusal: The error that refused the opening facts.
        failure: The error because of which the end of the run is not recorded, or `refusal`.
        unwritten: The facts that end the run, until the store has committed them.
        is_abandoned: The service is stopping.
        is_taken: Another process has taken the task.
        is_streamed: A caller streams the log of the task.
        is_left: The service stopped and left the task unchanged; the next start continues it.
        opened_conversation: See `thread_conversations.open_conversation`; empty before its first use.
    """

    # Class-level defaults: an attribute that a run never sets costs nothing.
    journal: Journal | None = None
    record: RequestRecord | None = None
    refusal: BaseException | None = None
    failure: BaseException | None = None
    unwritten: Sequence[Fact] = ()
    is_accepted = False
    has_ended = False
    is_abandoned = False
    is_taken = False
    is_left = False
    opened_conversation = ""
    is_streamed = False
    _is_entered = False
    _rested_at_stop = False
    _resting = 0
    _is_abandoned_at_rest = False
    _without_slot = 0
    _given: HandlerTask | None = None
    _context: RunContext | None = None
    _budget: BudgetEnforcer | None = None
    _calls: dict[str, int] | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _thread = 0
    _task: asyncio.Task[None] | None = None
    _confirming: asyncio.Task[None] | None = None
    _accept_waiters: list[asyncio.Future[None]] | None = None
    _end_waiters: list[asyncio.Future[None]] | None = None
    _ends_after: list[asyncio.Future[None]] | None = None

    def __init__(
        self,
        live: LiveTask,
        opening: list[Fact],
        host: RunHost,
        ticket: Ticket,
        *,
        principal: str,
        run_id: str = "",
        request_id: str = "",
        expected_sequence: int = 0,
        cause: str = "submitted",
        scopes: frozenset[str] | None = None,
        waiting_runs: tuple[WaitingRun, ...] = (),
        trace: TraceContext | None = None,
    ) -> None:
        super().__init__(live, run_id or new_run_id(), principal)
        self.token = CancellationToken()
        self.ticket = ticket
        self._host = host
        self._opening = opening
        self._request_id = request_id
        self._expected_sequence = expected_sequence
        self._cause = cause
        self._scopes = scopes
        self._waiting_runs = waiting_runs
        self._trace = trace
        self._since = time.monotonic()

    # -- lifecycle, for the service ----------------------------------------------------------------------------------------

    def start(self) -> None:
        self.texts = self._host.texts
        # The name identifies the task in the watchdog's log and in debuggers.
        self._task = asyncio.get_running_loop().create_task(self._main(), name=f"run of task {self.task_id}")

    async def wait_accepted(self) -> RequestRecord | None:
        """Wait until the opening facts are committed, then return None; or return the record of an earlier identical request.

        Raises:
            ProtolinkError: The opening facts were refused, or the run ended first.
        """
        if not self.is_accepted:
            await self.wait_decided()
        if self.refusal is not None:
            raise self.refusal
        return self.record

    async def wait_decided(self) -> None:
        """Wait until the request is accepted or refused. Canceling the wait does not affect the run."""
        if not self.is_accepted:
            if self._accept_waiters is None:
                self._accept_waiters = []
            await _added_waiter(self._accept_waiters)

    async def wait_ended(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the run, at most `timeout_s`, and return whether it has ended.

        Canceling the wait does not affect the run.
        """
        if not self.has_ended:
            if self._end_waiters is None:
                self._end_waiters = []
            waiter = _added_waiter(self._end_waiters)
            if timeout_s is None:
                await waiter
            else:
                await asyncio.wait([waiter], timeout=timeout_s)
        return self.has_ended

    def cancel(self, reason: str | None) -> None:
        """Interrupt the handler. The request to cancel must already be in the log."""
        if self.token.cancel(reason):
            self._interrupt()

    def notice_foreign_append(self) -> None:
        """Check whether another process, which appended to this task, has requested its cancellation or taken it."""
        if self._confirming is None or self._confirming.done():
            self._confirming = asyncio.get_running_loop().create_task(self._read_foreign_append())

    async def _read_foreign_append(self) -> None:
        try:
            if not await self.confirm():
                return
        except StoreError as error:
            log.warning("task %s: cannot look at what another process appended: %s", self.task_id, error)
            return
        request = self.live.fold.cancel_requested
        if request is not None:
            self.cancel(request.reason)

    async def confirm(self) -> bool:
        """Read from the store whether the task still belongs to this run. If another process has taken it, interrupt the run.

        Raises:
            StoreError: The store cannot be read.
        """
        try:
            await self.live.refresh()
        except LeaseLostError:
            self.is_taken = True
            self._interrupt()
        return not self.is_taken

    def end_after(self, work: asyncio.Future[None]) -> None:
        """Let the end of this run wait for `work` if the run is canceled, up to `CANCEL_GRACE_S`. A crash before the end leaves the
        task to the recovery, which repeats the work."""
        if self._ends_after is None:
            self._ends_after = []
        self._ends_after.append(work)

    def abandon_at_rest(self) -> None:
        """Abandon the run as soon as it waits for a person or is paused, because a stop interrupts no work then."""
        self._is_abandoned_at_rest = True
        if self._resting:
            self.abandon()

    def abandon(self) -> None:
        """Interrupt the handler because the service is stopping. The run is recorded as lost, or left to the next start.

        With a durable store, a run that waits for a person or is paused is always left: approval and pause stay.
        """
        self.is_abandoned = True
        self._rested_at_stop = self._rested_at_stop or self._resting > 0
        self._interrupt()

    def _stays(self, fold: TaskFold) -> bool:
        """Return whether the next start continues the task."""
        host = self._host
        if not host.is_durable or fold.state is not TaskState.WORKING:
            return host.is_durable and fold.state is TaskState.SUBMITTED
        return self._rested_at_stop or host.resumes(fold)

    def _interrupt(self) -> None:
        # An asyncio task that is canceled before its first step never executes, so `_main` could not end the run.
        if self._task is not None and self._is_entered:
            self._task.cancel()

    @asynccontextmanager
    async def _rest(self) -> AsyncIterator[None]:
        """Rest while this run waits for a person or is paused."""
        async with self.without_slot():
            self._resting += 1
            if self._is_abandoned_at_rest:
                self.abandon()
            try:
                yield
            finally:
                self._resting -= 1

    @asynccontextmanager
    async def without_slot(self) -> AsyncIterator[None]:
        """Release the slot while this run is paused or waits for a person or another run, and queue for a slot afterwards."""
        slots, ticket = self._host.slots, self.ticket
        self._without_slot += 1
        # The task has grown since it was weighed, and it stays in memory while the run waits.
        self.note_size()
        slots.rest(ticket)
        try:
            yield
        finally:
            self._without_slot -= 1
            if not self._without_slot and not (self.token.is_cancelled or self.is_abandoned or self.is_taken):
                slots.resume(ticket)
                if ticket.turn is not None:
                    # Shielded: a handler may rest in several tasks, and each waits for the same turn.
                    await asyncio.shield(ticket.turn)

    async def _main(self) -> None:
        self._is_entered = True
        turn = self.ticket.turn
        failure: BaseException | None = None
        try:
            if self.is_abandoned:
                raise asyncio.CancelledError
            record = await self._open(has_slot=turn is None)
            # Set before the wait for a slot, too: the run keeps the epoch under which it was accepted.
            self.live.running = record is None
            self._decide(record)
            if record is None:
                if turn is not None:
                    await self._wait_for_slot(turn)
                await self._work()
        except asyncio.CancelledError:
            failure = await self._interrupted()
        except LeaseLostError as error:
            log.warning("task %s was taken by another process, run %s ends here", self.task_id, self.run_id)
            failure = None if self.is_accepted else error
        except InvalidTransitionError as error:
            failure = await self._interrupted() if self._was_canceled_before() else error
        except Exception as error:
            failure = error
        finally:
            self._end(failure)

    def _was_canceled_before(self) -> bool:
        """Return whether a cancellation reached the log before this run could begin, and set the token."""
        fold = self.live.fold
        request = fold.cancel_requested
        if request is None or fold.state in TERMINAL:
            return False
        self.token.cancel(request.reason)
        return True

    def _decide(self, record: RequestRecord | None, refusal: BaseException | None = None) -> None:
        """Set the result of the opening facts (committed, found as `record`, or refused) and wake the waiters."""
        self.is_accepted = True
        self.record, self.refusal = record, refusal
        if self._accept_waiters is not None:
            _wake(self._accept_waiters)

    def _end(self, failure: BaseException | None) -> None:
        self.live.running = False
        self._host.slots.leave(self.ticket)
        if not self.is_accepted:
            self._decide(None, failure or UnavailableError("the agent was stopped before it accepted the request"))
        self.has_ended = True
        self.failure = failure
        if self._end_waiters is not None:
            _wake(self._end_waiters)
        self._host.on_end(self)
        # The run and its asyncio task refer to each other. Without this cycle both are freed at once, without garbage collection.
        self._task = None

    async def _open(self, *, has_slot: bool) -> RequestRecord | None:
        """Record the opening facts, and that the run begins or that it waits for a slot."""
        if not has_slot and not self._opening:
            return None
        return await self.live.record(
            [*self._opening, self._begin() if has_slot else self._wait_fact()],
            run_id=self.run_id,
            request_id=self._request_id,
            claim=True,
            opens=bool(self._opening),
            expected=self._expected_sequence,
        )

    def _wait_fact(self) -> TaskQueued:
        return TaskQueued(self._host.slots.running, self.ticket.ahead)

    async def _wait_for_slot(self, turn: asyncio.Future[None]) -> None:
        """Wait for a slot, then record that the run begins."""
        self.note_size()
        if not self._opening and self._cause == "submitted":
            # The task was stored before it could start. A store that fails now does not end it, and another process may take it.
            with suppress(StoreError):
                await self.live.record([self._wait_fact()], run_id=self.run_id)
        await turn
        await self.live.record([self._begin()], run_id=self.run_id, claim=not self._opening)

    def _begin(self) -> TaskStatusChanged:
        fold = self.live.fold
        # A retried task is still in its last state, because the retry is recorded together with this status.
        state = TaskState.SUBMITTED if fold.is_terminal else fold.state
        return TaskStatusChanged(
            state,
            TaskState.WORKING,
            attempt=fold.attempt + 1,
            cause=self._cause,
            context=self._narrowed(fold),
            worker=self._host.worker,
        )

    def _narrowed(self, fold: TaskFold) -> RunContext | None:
        """Return the context with scopes and trace of this turn's caller; None if they equal those of the previous turn."""
        known, scopes = fold.context, self._scopes
        has_scopes = scopes is not None and tuple(sorted(scopes)) != (known.scopes if known is not None else ())
        if not has_scopes and self._trace is None:
            return None
        base = known or RunContext(self.run_id, fold.session_id)
        if has_scopes and scopes is not None:
            base = replace(base, principal=self.principal, scopes=tuple(sorted(scopes)))
        return with_trace(base, self._trace)

    async def _work(self) -> None:
        fold = self.live.fold
        try:
            if fold.is_pause_requested:
                await self._pause()
            task = self.hand_out(changes=LATEST_CHANGES)
            if not self._opening:  # this run takes over from an earlier one
                self.journal = await Journal.of_turn(self.live.store, fold)
            self._enter()
            answer = await self._host.handler(task, self)
            if answer is None:
                answer = task
            if not isinstance(answer, Task):
                raise _answer_type_error(answer)
            self.token.raise_if_cancelled()
            emitted = self.unrecorded_artifacts()
            if emitted is None:
                await self.flush()
                emitted = {}
            facts = self.changes(answer, emitted, last=answer.state not in INTERRUPTED)
            output = find_last_output(facts) or self.last_output
            end = closing_status(fold.state, answer, output, self.usage, self._action_failure(output))
            if end.new_state in INTERRUPTED and answer.state not in INTERRUPTED:
                # The task will be continued: copy objects that the handler may still hold.
                facts = self.changes(answer, emitted)
            await self._close_with_emitted([*facts, end])
        except (asyncio.CancelledError, LeaseLostError):
            raise
        except StoreError as error:
            log.error("task %s: %s", self.task_id, error)
            raise
        except Exception as error:
            await self._fail(error)

    async def _close_with_emitted(self, facts: list[Fact]) -> None:
        """Record the emitted facts and the end of the run in one append. If the end is refused, record the emitted facts alone."""
        emitted = self.take_unrecorded()
        try:
            await self._close([*emitted, *facts])
        except StoreError:
            raise
        except Exception:
            if emitted:
                await self.record_all(emitted)
            raise

    def _action_failure(self, output: Message | Artifact | None) -> Failure | None:
        """Return the failure of the action that an output belongs to, or None."""
        action_id = output.action_id if isinstance(output, Artifact) else None
        if not action_id:
            return None
        failed = self.failed_action
        if failed is not None and failed.action_id == action_id:
            return failed.failure
        return None if self.journal is None else self.journal.action_failure(action_id)

    async def _fail(self, error: Exception) -> None:
        failure = self._host.controls.report_error(error, self.task_id)
        fold = self.live.fold
        if fold.state in TERMINAL:
            return
        facts: list[Fact] = [
            TaskErrorReported(failure),
            TaskMessagesAdded((Message(role="agent", parts=[Part.error(failure.reason, failure.message)]),)),
            TaskStatusChanged(fold.state, TaskState.FAILED, failure, usage=self.usage),
        ]
        await self._close([*self.take_unrecorded(), *facts])

    async def _close(self, facts: list[Fact]) -> None:
        self.unwritten = facts
        await self.live.record(facts, run_id=self.run_id)
        self.unwritten = []

    async def _interrupted(self) -> ProtolinkError | None:
        """Record why the run was interrupted.

        Returns:
            None if that is recorded or nothing is to be recorded; the StoreError that prevented it; or UnavailableError for a
            task that is left to the next start.
        """
        fold = self.live.fold
        if not fold.sequence or fold.state in TERMINAL:
            return None
        if self.is_taken:
            log.warning("task %s was taken by another process, run %s ends here", self.task_id, self.run_id)
            return None
        token, endings = self.token, list[Fact]()
        if token.is_cancelled:
            try:
                ends = await self._cancel_delegations()
            except asyncio.CancelledError:
                # The service is stopping. The recovery ends the task.
                await self._record_rest([])
                return None
            status = TaskStatusChanged.because(fold.state, TaskState.CANCELED, token.reason, usage=self.usage)
            endings = [*ends, status]
        elif self.is_abandoned and self._stays(fold):
            await self._record_rest([])
            self.is_left = True
            return UnavailableError("the agent was stopped before the task was done; its next start continues it")
        elif self.is_abandoned:
            endings = [lost_status(fold.state, "the agent was stopped before the task was done")]
        else:
            failure = Failure.of(AGENT_FAILED, "the handler canceled itself")
            endings = [TaskStatusChanged(fold.state, TaskState.FAILED, failure)]
        try:
            await self._record_rest(endings)
        except StoreError as error:
            return error
        return None

    async def _cancel_delegations(self) -> list[Fact]:
        """Wait for the cancellations of this run's delegated tasks, and cancel those that only earlier runs have followed.

        Returns the ends of their actions.
        """
        if self._ends_after is not None:
            await asyncio.wait(self._ends_after, timeout=CANCEL_GRACE_S)
        delegations, fold = self._host.delegations, self.live.fold
        if delegations is None or (self._opening and not fold.retries):
            return []
        try:
            await self._record_rest([])
            found = [each for each in await delegations.find_open(fold) if not each.has_ended]
        except StoreError as error:
            log.warning("task %s: its delegated tasks cannot be canceled: %s", self.task_id, error)
            return []
        return await delegations.cancel(found, self.token.reason or "")

    async def _record_rest(self, facts: list[Fact]) -> None:
        """Record the facts that the handler emitted before it was interrupted, and then `facts`."""
        facts = [*self.take_unrecorded(), *facts]
        try:
            if facts:
                await self._close(facts)
        except InvalidTransitionError:
            pass  # the handler's last append was committed: the task has already ended

    # -- properties, for the handler ---------------------------------------------------------------------------------------

    @property
    def session_id(self) -> str:
        return self.live.fold.session_id

    @property
    def conversation_id(self) -> str:
        """Id of the conversation that models see: that of the session, or of the session's thread."""
        return conversation_id(self.live.fold.session_id, self.live.fold.thread_id)

    @property
    def agent_name(self) -> str:
        return self.live.agent_name

    @property
    def attempt(self) -> int:
        """Number of this run in its task, from 1."""
        return self.live.fold.attempt

    @property
    def context(self) -> RunContext:
        """The context of this run; read only."""
        if self._context is None:
            self._context = self._made_context()
        return self._context

    def _made_context(self) -> RunContext:
        fold = self.live.fold
        known = None if fold.context is None else fold.run_context
        if known is not None:
            return known.copy(run_id=self.run_id, principal=self.principal)
        return RunContext(
            self.run_id,
            fold.session_id,
            agent_chain=[self.agent_name],
            created_at=iso_from_micros(fold.create_micros),
            principal=self.principal,
        )

    @property
    def budget(self) -> BudgetEnforcer:
        """Limits and usage of this run. For each limit the smaller of the agent's and the caller's applies.

        If neither limits the steps, each inference may take `DEFAULT_STEPS`.
        """
        if self._budget is None:
            limits = effective(self._host.controls.budget, self.context.budget)
            spent = self.live.fold.usage if self.journal is None else self.journal.usage
            # The budget is created on first use, but its time counts from the start of the run.
            so_far = BudgetUsage(runtime_seconds=time.monotonic() - self._since)
            usage = so_far if spent is None else spent.plus(so_far)
            warned = self.journal.warned if self.journal is not None else set[str]()
            self._budget = BudgetEnforcer(limits, default_steps=DEFAULT_STEPS, usage=usage, warned=warned)
        return self._budget

    @property
    def usage(self) -> BudgetUsage | None:
        """Usage of the task so far; None if nothing was ever counted."""
        if self._budget is None:
            return None if self.journal is None else self.journal.usage
        return self._budget.usage

    def _enter(self) -> None:
        """Make this the current run of the calling asyncio task. Only this run uses that task, so no reset is needed."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        _current.set(self)
        set_waiting_runs((*self._waiting_runs, (self.live.agent_name, self.run_id)))
        if self._host.has_spans:
            enter_run_span(self._span_trace)
        else:
            context = self.live.fold.context
            enter_run_trace(None if context is None else TraceContext.stored(context))
        self._since = time.monotonic()

    def _span_trace(self) -> TraceContext:
        """Return the trace context within the span of this run."""
        return trace_of(self.live.fold.context, self.task_id).within(span_id_of(self.task_id, self.run_id))

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Execute a coroutine on the run's event loop and wait for its result, from another thread. Canceled with the run.

        Raises:
            RuntimeError: Called on the run's own event loop, which would block forever.
        """
        loop = self._loop
        if loop is None or threading.get_ident() == self._thread:
            work.close()
            raise RuntimeError(
                "a synchronous call on the run's own loop would block it; await the async method instead"
            )
        future = asyncio.run_coroutine_threadsafe(work, loop)
        while not concurrent.futures.wait([future], CANCEL_CHECK_S).done:
            if self.token.is_cancelled:
                future.cancel()
                self.token.raise_if_cancelled()
        return future.result()

    def report_failure(self, error: ToolFailedError, *, peer: bool = False) -> ToolFailedError:
        """Return a tool's failure as the task's owner may see it. It is logged with its trace, once."""
        return self._host.controls.report_failure(error, self.task_id, peer=peer)

    def describe_failure(self, error: ProtolinkError) -> Failure:
        """Return the failure to record for an error, without secrets. A tool's failure must have been reported."""
        return self._host.controls.describe_failure(error)

    def is_own_flow_prompt(self, task: Task) -> bool:
        """Return whether the agent's own code, in this or an earlier run, has set the flow prompt of `task`.

        This is possible only for the task that the handler received. A caller's flow prompt stays the caller's when a handler
        passes it on. The flow prompt of any other task may come from a peer.
        """
        if self._given is None or task is not self._given.task:
            return False
        fold = self.live.fold
        unchanged = task.flow_state.get(FLOW_PROMPT) == fold.flow_state.get(FLOW_PROMPT)
        return not unchanged or FLOW_PROMPT not in fold.flow_from_caller

    def input_artifacts(self) -> list[tuple[int, Artifact]]:
        """Return the artifacts that the caller has sent with the input of this turn, each with its index in the task; read only."""
        fold, made = self.live.fold, self.journal.made if self.journal is not None else frozenset()
        last = self._given.artifact_count if self._given is not None else fold.artifact_count
        sent = enumerate(fold.artifacts[fold.turn_artifact : last], fold.turn_artifact)
        return [(index, artifact) for index, artifact in sent if artifact.id not in made]

    def note_size(self, unrecorded: int = 0) -> None:
        """Count the current size of the task against the limits of the service, which refuses new tasks beyond them.

        Args:
            unrecorded: Bytes of what has just been emitted.
        """
        self._host.slots.set_size(self.ticket, self.live.size + unrecorded)

    # -- actions ---------------------------------------------------------------------------------------------------------

    async def call_tool(self, tool_name: str, /, **arguments: Any) -> Any:
        """Call a tool of this agent, as an action of the run, and return its result. Raises as `Agent.call_tool`."""
        return await self._actions().call_tool(self, tool_name, arguments)

    async def call_agent(self, target: str, task: Task | Message | str) -> Task:
        """Send a task to another agent, as an action of the run, and return it when it ends or waits for input.

        Args:
            target: URL of the agent, or its name in the registry.
        """
        return await self._actions().call_agent(self, target, Task.of(task))

    def _actions(self) -> RunActions:
        if self._host.actions is None:
            raise UnimplementedError(f"agent {self.agent_name} has no actions")
        return self._host.actions

    def position(self, kind: str, name: str, asked: Any) -> str:
        """Return the position of the next action of the handler, or of the tool that the calling code executes.

        It is the same in every run that requests the same actions in the same order. Each call of a tool or of a hook counts its
        own actions, because a recovered run does not repeat finished calls and recorded decisions.
        """
        outer = [each for each in (executing_action(self), calling_hook(self.context)) if each]
        asked = [kind, name, asked, *outer]
        digest = hashlib.sha256(canonical_json(asked).encode()).hexdigest()[:32]
        if self._calls is None:
            self._calls = {}
        nth = self._calls[digest] = self._calls.get(digest, 0) + 1
        return f"{digest}/{self.turn}/{nth}"

    @property
    def turn(self) -> int:
        """Sequence of the last event before the turn of this run."""
        return self.live.fold.turn_sequence

    def action_record(self, position: str) -> ActionRecord | None:
        return None if self.journal is None else self.journal.actions.get(position)

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """Wait for the answer to a request that is in the log. Meanwhile the run holds no slot and its budget's clock is paused.

        Raises:
            ApprovalRequiredError: The agent has neither an approval handler nor remote approvals.
            Exception: Any exception of the approval handler.
        """
        controls, live = self._host.controls, self.live
        controls.require_approver(request)
        async with self._rest():
            with self.budget.paused():
                decision, recorded = await first_answer(
                    request,
                    self.context,
                    handler=controls.approval_handler,
                    outside=lambda: live.decision(request.request_id),
                    timeout_s=seconds_left(request, live.clock.micros()),
                )
                if not recorded:
                    decision = await self._answer(request, decision)
        return decision

    async def _answer(self, request: ApprovalRequest, decision: ApprovalDecision) -> ApprovalDecision:
        """Record an answer. Return the answer in the log, which may be a remote one that was recorded first."""
        try:
            await self.live.record([answer_event(request, decision)], run_id=self.run_id)
        except InvalidTransitionError:
            self.token.raise_if_cancelled()
            return await self.live.decision(request.request_id)
        return decision

    async def wait_while_paused(self) -> None:
        """Wait until the task is not paused. Meanwhile the run holds no slot and its budget's clock is paused."""
        # The first test is all that a task without controls costs.
        if self.live.fold.controls is None or not self.live.fold.is_pause_requested:
            return
        if self.token.is_cancelled or self.is_abandoned or self.is_taken:
            return  # the run ends
        await self.flush()
        with self.budget.paused():
            await self._pause()

    async def wait_between_actions(self) -> None:
        if not executing_action(self):
            await self.wait_while_paused()

    async def _pause(self) -> None:
        """Rest until the pause ends. Record its begin unless another part of the run, or an earlier run, has done so."""
        live = self.live
        async with self._rest():
            if not live.fold.is_paused:
                with suppress(InvalidTransitionError):  # the pause has ended, or began in another part of the run
                    await live.record([TaskPaused()], run_id=self.run_id)
            await live.wait_resumed()

    # -- the task --------------------------------------------------------------------------------------------------------

    def hand_out(self, *, changes: int | None = None) -> Task:
        """Return the task for the handler to work on. `changes` compares the handler's result with this task.

        Args:
            changes: Number of latest state changes in its `state_history`; None means all.
        """
        task = self.live.fold.to_task(changes=changes)
        fold = self.live.fold
        self._given = HandlerTask(task, task.messages, task.artifacts, fold.artifact_count, fold.metadata)
        return task

    def changes(self, task: Task, emitted: Mapping[str, Artifact], *, last: bool = False) -> list[Fact]:
        """Return the differences between the handler's `task` and the log, as facts; see `find_changes`."""
        return find_changes(self.live.fold, task, given=self._given, emitted=emitted, last=last)


def _answer_type_error(answer: object) -> TypeError:
    hint = "; is an await missing?" if isinstance(answer, Awaitable) else ""
    return TypeError(f"the handler must return a Task or None, not {type(answer).__name__}{hint}")


def _added_waiter(waiters: list[asyncio.Future[None]]) -> asyncio.Future[None]:
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiters.append(waiter)
    return waiter


def _wake(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    waiters.clear()
