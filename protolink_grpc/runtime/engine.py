"""The engine: takes one run from its first event to its last.

Theory of operation. Each run is one asyncio task that belongs to the service, not to the call that caused it. It appends the
opening facts itself, so that a caller who hangs up in the middle cannot leave a submitted task that nobody runs. Then it waits
for a slot, lets the handler work on a copy of the task, and appends what the handler added together with the final state.
However the handler ends, by returning, raising, being canceled or by the service going down, exactly one status ends the run;
only a lost lease ends it silently, because then the log is another process's to write, and a stop of the service where its next
start goes on with the task.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from protolink_grpc.errors import (
    InternalError,
    InvalidTransitionError,
    LeaseLostError,
    ProtolinkError,
    StoreError,
    ToolFailedError,
    UnavailableError,
    said,
)
from protolink_grpc.logs import get_logger
from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import (
    CancelRequested,
    TaskErrorReported,
    TaskMessagesAdded,
    TaskStatusChanged,
    Worker,
)
from protolink_grpc.models.failure import AGENT_FAILED, MAX_REASON, RUN_LOST, Failure
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_run_id, new_uuid
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part, ToolOutput
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.journal import Journal
from protolink_grpc.runtime.latch import Latch
from protolink_grpc.runtime.live import Fact, LiveTask
from protolink_grpc.runtime.run import Controls, Run, last_output
from protolink_grpc.runtime.slots import Place, Slots
from protolink_grpc.store.port import RequestRecord
from protolink_grpc.wire.tracing import set_waiting_runs, waiting_run

log = get_logger(__name__)

Handler = Callable[[Task, Run], Awaitable[Task | None]]
"""What an agent does with a task: returns it changed, or None for the one that it was given."""

LATEST_CHANGES = 16
"""State changes in the `state_history` that a handler sees; the log has all."""


class Attempt:
    """One run under way.

    Attributes:
        accepted: Open once the opening facts are committed: None, or the record of the same request made earlier.
        ended: Open when the run has ended; with the StoreError that kept its end from being recorded, or the error that kept the
            request from being accepted.
        left: The service went down, and the task is as it was: the next start goes on with it.
        unwritten: The facts that end the run, as long as the store has not taken them.

    Args:
        run_id: Name of the run, new to its task; empty lets it be made.
        expected_sequence: Sequence with which the log has to end before the opening facts; 0 means any.
        resumable: States in which a service that goes down leaves the task to its next start.
        scopes: What the credentials of this turn's caller allow; None means what the log says.
        place: A place in `slots` that this attempt leaves at its end.
        waiting_runs: Runs, of any agent, that wait for this one; entries of `wire.tracing`.
        own_entry: What the entry of this run begins with.
        worker: What the log says about this process.
    """

    def __init__(
        self,
        live: LiveTask,
        opening: list[Fact],
        *,
        handler: Handler,
        slots: Slots,
        place: Place,
        principal: str,
        controls: Controls,
        run_id: str = "",
        request_id: str = "",
        expected_sequence: int = 0,
        cause: str = "submitted",
        scopes: frozenset[str] | None = None,
        resumable: frozenset[TaskState] = frozenset(),
        waiting_runs: tuple[str, ...] = (),
        own_entry: str,
        worker: Worker,
        on_end: Callable[["Attempt"], None],
    ) -> None:
        self.live = live
        self.run = Run(live, run_id or new_run_id(), principal, controls, self._rest)
        self.accepted: Latch[RequestRecord] = Latch()
        self.ended: Latch[None] = Latch()
        self._on_end = on_end
        self.lost = False
        self.taken = False
        self.left = False
        self.unwritten: list[Fact] = []
        self._entered = False
        self._opening = opening
        self._handler = handler
        self.place = place
        self._slots = slots
        self._waiting_runs = waiting_runs
        self._own_entry = own_entry
        self._request_id = request_id
        self._expected_sequence = expected_sequence
        self._cause = cause
        self._worker = worker
        self._scopes = scopes
        self._controls = controls
        self._resumable = resumable
        self._resting = 0
        self._task: asyncio.Task[None] | None = None
        self._heeding: asyncio.Task[None] | None = None

    def start(self) -> None:
        # The name says whose code it is in what the watchdog logs, and in debuggers.
        self._task = asyncio.get_running_loop().create_task(self._main(), name=f"run of task {self.run.task_id}")

    def cancel(self, reason: str | None) -> None:
        """Interrupt the handler; the wish must be in the log already."""
        if self.run.token.cancel(reason):
            self._interrupt()

    def heed(self) -> None:
        """Another process appended to this task: look whether it wishes the run to be canceled."""
        if self._heeding is None or self._heeding.done():
            self._heeding = asyncio.get_running_loop().create_task(self._heed())

    async def _heed(self) -> None:
        try:
            if not await self.confirm():
                return
        except StoreError as error:
            log.warning("task %s: cannot look at what another process appended: %s", self.run.task_id, error)
            return
        wish = self.live.fold.cancel_requested
        if wish is not None:
            self.cancel(wish.reason)

    async def confirm(self) -> bool:
        """Look into the store whether the task is still this run's; where another process has taken it, the run ends.

        Raises:
            StoreError: The store cannot be read.
        """
        try:
            await self.live.refresh()
        except LeaseLostError:
            self.taken = True
            self._interrupt()
        return not self.taken

    @property
    def is_resting(self) -> bool:
        """It waits for a person: nothing is under way that a stop would cut off."""
        return self._resting > 0

    @asynccontextmanager
    async def _rest(self) -> AsyncIterator[None]:
        """Give the slot to others while this run waits for somebody, and queue for one again afterwards."""
        self._resting += 1
        # What it has asked for and got is in memory as long as it rests.
        self._slots.weigh(self.place, self.live.size)
        self._slots.rest(self.place)
        try:
            yield
        finally:
            self._resting -= 1
            if not self._resting and not (self.run.token.is_cancelled or self.lost or self.taken):
                self._slots.resume(self.place)
                if self.place.turn is not None:
                    # Shielded: a handler may rest in several tasks, and each waits for the same turn.
                    await asyncio.shield(self.place.turn)

    def abandon(self) -> None:
        """Interrupt the handler because the service goes down; the run is recorded as lost, or left to the next start.

        One that waits for a person is always left, where the store is durable: its question is still open then.
        """
        self.lost = True
        if self._resting and self._resumable:
            self._resumable |= {TaskState.WORKING}
        self._interrupt()

    def _interrupt(self) -> None:
        # A task that is canceled before its first step takes none, and would not even end the run.
        if self._task is not None and self._entered:
            self._task.cancel()

    async def _main(self) -> None:
        self._entered = True
        turn = self.place.turn
        failure: BaseException | None = None
        try:
            if self.lost:
                raise asyncio.CancelledError
            record = await self._open(held=turn is None)
            # Also while it waits for a slot: the epoch under which it was accepted, or found, is its own.
            self.live.running = record is None
            self.accepted.open(record)
            if record is None:
                if turn is not None:
                    self._slots.weigh(self.place, self.live.size)
                    await turn
                    await self.live.record([self._begin()], run_id=self.run.run_id, claim=not self._opening)
                await self._work()
        except asyncio.CancelledError:
            failure = await self._interrupted()
        except LeaseLostError as error:
            log.warning("task %s was taken by another process, run %s ends here", self.run.task_id, self.run.run_id)
            failure = None if self.accepted.is_open else error
        except Exception as error:
            failure = error
        finally:
            self.live.running = False
            self._slots.leave(self.place)
            self.accepted.open(error=failure or _never_accepted())
            self.ended.open(error=failure)
            self._on_end(self)
            # The attempt and its task know each other; apart, they go at once, without the collector.
            self._task = None

    async def _open(self, *, held: bool) -> RequestRecord | None:
        facts = [*self._opening, self._begin()] if held else self._opening
        if not facts:
            return None
        return await self.live.record(
            facts,
            run_id=self.run.run_id,
            request_id=self._request_id,
            claim=True,
            expected=self._expected_sequence,
        )

    def _begin(self) -> TaskStatusChanged:
        fold = self.live.fold
        return TaskStatusChanged(
            fold.state,
            TaskState.WORKING,
            attempt=fold.attempt + 1,
            cause=self._cause,
            context=self._narrowed(fold),
            worker=self._worker,
        )

    def _narrowed(self, fold: TaskFold) -> RunContext | None:
        """The context of a turn whose caller may do other things than that of the turn before; None where nothing changes."""
        known, scopes = fold.context, self._scopes
        if scopes is None or tuple(sorted(scopes)) == (known.scopes if known is not None else ()):
            return None
        base = known or RunContext(self.run.run_id, fold.session_id)
        return replace(base, principal=self.run.principal, scopes=tuple(sorted(scopes)))

    async def _work(self) -> None:
        run, fold = self.run, self.live.fold
        task = run.hand_out(changes=LATEST_CHANGES)
        try:
            if not self._opening:  # it takes over from an earlier run
                run.journal = await Journal.of_turn(self.live.store, fold)
            run.enter()
            set_waiting_runs((*self._waiting_runs, waiting_run(self._own_entry, run.run_id)))
            answer = await self._handler(task, run)
            if answer is None:
                answer = task
            if not isinstance(answer, Task):
                raise TypeError(f"the handler must return a Task or None, not {type(answer).__name__}")
            run.token.raise_if_cancelled()
            await run.flush()
            facts = run.changes(answer, last=answer.state not in INTERRUPTED)
            end = closing(fold.state, answer, last_output(facts) or run.last_output, run.usage, run.failed_action)
            if end.new_state in INTERRUPTED and answer.state not in INTERRUPTED:
                facts = run.changes(answer)  # the task goes on: what the handler still holds must be copied
            await self._close([*facts, end])
        except (asyncio.CancelledError, LeaseLostError):
            raise
        except StoreError as error:
            log.error("task %s: %s", run.task_id, error)
            raise
        except Exception as error:
            await self._fail(error)

    async def _fail(self, error: Exception) -> None:
        failure = self._describe(error)
        fold = self.live.fold
        if fold.state in TERMINAL:
            return
        facts: list[Fact] = [
            TaskErrorReported(failure),
            TaskMessagesAdded((Message(role="agent", parts=[Part.error(failure.reason, failure.message)]),)),
            TaskStatusChanged(fold.state, TaskState.FAILED, failure, usage=self.run.usage),
        ]
        await self._close([*self.run.unrecorded(), *facts])

    async def _close(self, facts: list[Fact]) -> None:
        self.unwritten = facts
        await self.live.record(facts, run_id=self.run.run_id)
        self.unwritten = []

    def _describe(self, error: Exception) -> Failure:
        """Why the run failed, for the log. What the agent's own code raises is logged here with its trace."""
        if isinstance(error, ToolFailedError):
            error = self.run.reported(error)
        clean = self._controls.redaction.redact_text
        if isinstance(error, ProtolinkError):
            return Failure.from_error(error).cleaned(clean, MAX_REASON)
        if self._controls.expose_errors:
            log.exception("task %s failed", self.run.task_id, exc_info=error)
            return Failure.of(AGENT_FAILED, clean(f"{type(error).__name__}: {said(error)}")[:MAX_REASON])
        incident = new_uuid()
        log.error("task %s failed, incident %s", self.run.task_id, incident, exc_info=error)
        return Failure.of(InternalError.reason, f"the agent failed, incident {incident}")

    async def _interrupted(self) -> ProtolinkError | None:
        """Record why the run was interrupted; returns the error that kept it from being recorded, or why it is left."""
        fold = self.live.fold
        if not fold.sequence or fold.state in TERMINAL:
            return None
        if self.taken:
            log.warning("task %s was taken by another process, run %s ends here", self.run.task_id, self.run.run_id)
            return None
        token = self.run.token
        if token.is_cancelled:
            ending = TaskStatusChanged.because(fold.state, TaskState.CANCELED, token.reason, usage=self.run.usage)
        elif self.lost and fold.state in self._resumable:
            await self._record_rest([])
            self.left = True
            return UnavailableError("the agent was stopped before the task was done; its next start goes on with it")
        elif self.lost:
            ending = lost(fold.state, "the agent was stopped before the task was done")
        else:
            failure = Failure.of(AGENT_FAILED, "the handler canceled itself")
            ending = TaskStatusChanged(fold.state, TaskState.FAILED, failure)
        try:
            await self._record_rest([ending])
        except StoreError as error:
            return error
        return None

    async def _record_rest(self, facts: list[Fact]) -> None:
        """What the handler emitted before it was interrupted, and then `facts`."""
        facts = [*self.run.unrecorded(), *facts]
        try:
            if facts:
                await self._close(facts)
        except InvalidTransitionError:
            pass  # its last append was committed after all: the task has ended by itself


def _never_accepted() -> UnavailableError:
    return UnavailableError("the agent was stopped before it accepted the request")


LOST = "run lost"
"""How the sentence begins of a task that failed because its run did not end by itself."""


def closing(
    state: TaskState,
    task: Task,
    output: Message | Artifact | None = None,
    usage: BudgetUsage | None = None,
    action: Failure | None = None,
) -> TaskStatusChanged:
    """The status with which a handler's answer ends the run: its state, or where it left the task working, what its output implies.

    Args:
        output: The last message or artifact of the run; None where it made none.
        action: Why the last action of the run that failed did so: it is known better than the output says it.
    """
    target = task.state
    if target not in TERMINAL and target not in INTERRUPTED:
        target, why = implied_state(output)
        if why is not None and action is not None and action.message == why.message:
            why = action
    elif target is TaskState.CANCELED:
        reason = task.metadata.get("cancel_reason")
        return TaskStatusChanged.because(state, target, str(reason)[:MAX_REASON] if reason else "", usage=usage)
    else:
        why = task.known_failure() if target in TERMINAL else None
    return TaskStatusChanged(
        state, target, None if why is None else why.cleaned(str, MAX_REASON).bounded(), usage=usage
    )


def implied_state(output: Message | Artifact | None) -> tuple[TaskState, Failure | None]:
    """The state that follows from the parts of an output, and its failure if it has one: an error comes before a question."""
    asks: TaskState | None = None
    for part in output.parts if output is not None else ():
        content: Any = part.content
        match part.type:
            case "error":
                return TaskState.FAILED, _failure_of(content)
            case "tool_output":
                error = content.error if isinstance(content, ToolOutput) else None
                if error:
                    return TaskState.FAILED, _failure_of(error)
            case "status":
                said = content.get("state") if isinstance(content, dict) else None
                asks = asks or (_ASKING.get(said) if isinstance(said, str) else None)
    return asks or TaskState.COMPLETED, None


def _failure_of(error: Any) -> Failure:
    known = Failure.from_value(error)
    if known.message:
        return known
    text = error.get("message") or error.get("code") or "unknown error" if isinstance(error, dict) else error
    return replace(known, message=str(text))


_ASKING = {spelling: state for state in INTERRUPTED for spelling in (state.value, state.value.replace("-", "_"))}
"""States of a status part that ask the caller for something; any other is a note and says nothing about the task."""


def lost(state: TaskState, why: str) -> TaskStatusChanged:
    """The status of a task whose run did not end by itself."""
    return TaskStatusChanged(state, TaskState.FAILED, Failure.of(RUN_LOST, f"{LOST}: {why}"))


def canceled(state: TaskState, request: CancelRequested) -> TaskStatusChanged:
    return TaskStatusChanged(state, TaskState.CANCELED, cancel_reason=request.reason)
