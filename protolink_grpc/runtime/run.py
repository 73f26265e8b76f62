"""What a handler may do while it works: report, publish, look at its cancellation. The engine owns everything else about a run."""

import asyncio
import concurrent.futures
import hashlib
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from protolink_grpc.errors import ApprovalRequiredError, InvalidArgumentError, InvalidTransitionError, ToolFailedError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.action import ApprovalDecision, ApprovalRequest, BudgetUsage
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.context import RunBudget, RunContext
from protolink_grpc.models.events import (
    ActionEnded,
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
    Payload,
    RunEvent,
    TaskArtifactUpdated,
    TaskMessagesAdded,
    TaskPatched,
    TaskProgress,
    TaskStatusChanged,
    TaskSubmitted,
    check_type,
)
from protolink_grpc.models.failure import MAX_REASON, Failure
from protolink_grpc.models.fold import DERIVED_KEYS, CopyOnRead, TaskFold, copy_artifact, copy_message
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.json_value import canonical_json, plain
from protolink_grpc.models.message import Message
from protolink_grpc.models.references import References
from protolink_grpc.models.task import Task
from protolink_grpc.policy.budget import BudgetEnforcer, effective
from protolink_grpc.policy.redaction import DEFAULT_REDACTION_POLICY, RedactionPolicy
from protolink_grpc.runtime.asking import ApprovalHandler, decided, first_answer, seconds_left
from protolink_grpc.runtime.cancellation import CancellationToken
from protolink_grpc.runtime.deltas import LiveTexts
from protolink_grpc.runtime.journal import ActionRecord, Journal
from protolink_grpc.runtime.live import Fact, LiveTask
from protolink_grpc.tools.tool import log_tool_failure
from protolink_grpc.wire.events import event_from_frame

log = get_logger(__name__)

GROUP = 64
"""Facts that one append takes at most while a handler reports faster than the store writes."""

DEFAULT_STEPS = 10
"""Steps of one inference where neither the task's caller nor its agent has limited them."""

CANCEL_CHECK_S = 0.02
"""How often a thread that waits for its run looks whether the run was canceled."""

FLOW_PROMPT = "prompt"
"""Key of `Task.flow_state` under which a flow tells a step where it stands."""

T = TypeVar("T")

# Not `A | B` where it is asked: that makes a union for each event that a handler emits.
_CALL_EVENTS = (LlmCallStarted, LlmCallCompleted, LlmCallFailed)
_OUTPUTS = (TaskMessagesAdded, TaskArtifactUpdated)

_current: ContextVar["Run | None"] = ContextVar("plgrpc_run", default=None)


def current_run() -> "Run | None":
    """The run in which the calling code works; None outside of one."""
    return _current.get()


@dataclass(frozen=True, slots=True)
class Controls:
    """What an agent imposes on all of its runs.

    Args:
        budget: Limits that no caller can raise.
        approval_handler: Answers approvals in this process.
        remote_approvals: Approvals can be answered from outside, too.
        expose_errors: Whether the text of an exception that the agent's own code raises is shown to the task's owner.
        redaction: What is struck out of such texts.
    """

    budget: RunBudget = RunBudget()  # noqa: RUF009 -- frozen, and nobody writes into its metadata
    approval_handler: ApprovalHandler | None = None
    remote_approvals: bool = False
    expose_errors: bool = True
    redaction: RedactionPolicy = DEFAULT_REDACTION_POLICY


class Run:
    """One attempt at a task, from its handler's point of view. Used from the event loop that the handler runs in.

    Attributes:
        journal: What earlier runs of the same turn have done; None where there were none.
        failed_action: Why the last action of this run that did not succeed failed; None where all did.
        last_output: The last artifact, or message of an agent, that the handler has published; None before the first.
        texts: Where readers find the text that models are producing; None before the run begins and after its end.
    """

    def __init__(
        self,
        live: LiveTask,
        run_id: str,
        principal: str,
        controls: Controls,
        rest: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        self.run_id = run_id
        self.principal = principal
        self.token = CancellationToken()
        self.journal: Journal | None = None
        self.last_output: Message | Artifact | None = None
        self.texts: LiveTexts | None = None
        self._live = live
        self._controls = controls
        self._rest = rest
        self._given: Given | None = None
        self._context: RunContext | None = None
        self._budget: BudgetEnforcer | None = None
        self._since = time.monotonic()
        self._calls: dict[str, int] = {}
        self._pending: list[Fact] = []
        self._recording = 0
        self._flushing: asyncio.Task[None] | None = None
        self._scheduled: asyncio.Handle | None = None
        self._failure: BaseException | None = None
        self.failed_action: Failure | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    @property
    def task_id(self) -> str:
        return self._live.fold.task_id

    @property
    def session_id(self) -> str:
        return self._live.fold.session_id

    @property
    def agent_name(self) -> str:
        return self._live.agent_name

    @property
    def attempt(self) -> int:
        """Number of this run in its task, from 1."""
        return self._live.fold.attempt

    @property
    def context(self) -> RunContext:
        """The envelope of this run; read only."""
        if self._context is None:
            self._context = self._made_context()
        return self._context

    def _made_context(self) -> RunContext:
        base = self._live.fold.run_context or RunContext(self.run_id, self.session_id).with_agent(self.agent_name)
        return base.copy(run_id=self.run_id, principal=self.principal)

    @property
    def budget(self) -> BudgetEnforcer:
        """What this run may use up, and has: the agent's limits and the caller's, whichever is smaller.

        Where nobody has limited the steps, each inference may take `DEFAULT_STEPS`.
        """
        if self._budget is None:
            limits = effective(self._controls.budget, self.context.budget)
            spent = self._live.fold.usage if self.journal is None else self.journal.usage
            # The clock has run since the run began, though nobody has looked at it.
            so_far = BudgetUsage(runtime_seconds=time.monotonic() - self._since)
            self._budget = BudgetEnforcer(limits, default_steps=DEFAULT_STEPS)
            warned = self.journal.warned if self.journal is not None else ()
            self._budget.restore_usage(so_far if spent is None else spent.plus(so_far), warned=warned)
        return self._budget

    @property
    def usage(self) -> BudgetUsage | None:
        """What the task has used up so far; None where nothing was ever counted."""
        if self._budget is None:
            return None if self.journal is None else self.journal.usage
        return self._budget.usage

    def enter(self) -> None:
        """Make this the current run of the calling task, which is the run's own: nothing has to be undone."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        _current.set(self)
        self._since = time.monotonic()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something as a part of this run and wait for it, from a thread that works for it; canceled with the run.

        Raises:
            RuntimeError: Called on the loop of the run, which would wait for itself forever.
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

    def reported(self, error: ToolFailedError, *, peer: bool = False) -> ToolFailedError:
        """A tool's failure as the task's owner may see it; it is logged with its trace, once."""
        if error.is_reported:
            return error
        controls = self._controls
        shown = error
        if controls.expose_errors:
            clean = controls.redaction.redact_text
            text = clean(str(error))
            if not peer:
                log_tool_failure(error, self.task_id)
            if text != str(error):
                shown = ToolFailedError(text, **error.metadata)
            known = Failure.from_error(error).cause
            shown.failure = None if known is None else known.cleaned(clean, MAX_REASON)
        else:
            incident, tool = new_uuid(), error.metadata.get("tool", "")
            log_tool_failure(error, self.task_id, incident)
            shown = ToolFailedError(f"tool '{tool}' failed, incident {incident}", tool=tool)
        shown.is_of_peer = error.is_of_peer
        shown.is_reported = True
        return shown

    def is_own_flow_prompt(self, task: Task) -> bool:
        """Whether the agent's own code has set the flow prompt of `task`: on the task that its handler got, in this run or before.

        What a caller sent is not, however often a handler passes it on, and neither is anything on another task: that may come
        from a peer.
        """
        if self._given is None or task is not self._given.task:
            return False
        fold = self._live.fold
        unchanged = task.flow_state.get(FLOW_PROMPT) == fold.flow_state.get(FLOW_PROMPT)
        return not unchanged or FLOW_PROMPT not in fold.flow_from_caller

    # -- actions ---------------------------------------------------------------------------------------------------------

    def position(self, kind: str, name: str, asked: Any) -> str:
        """A name for the next action that a handler asks for: the same in every run that asks for the same things in turn."""
        digest = hashlib.sha256(canonical_json([kind, name, asked]).encode()).hexdigest()[:32]
        nth = self._calls[digest] = self._calls.get(digest, 0) + 1
        return f"{digest}/{self.turn}/{nth}"

    @property
    def turn(self) -> int:
        """Sequence of the event after which the turn began that this run works on."""
        return self._live.fold.turn_sequence

    def recorded(self, position: str) -> ActionRecord | None:
        return None if self.journal is None else self.journal.actions.get(position)

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """Wait for somebody to answer a request that is in the log. Holds no slot meanwhile, and the budget's clock stands.

        Raises:
            ApprovalRequiredError: There is nobody to ask.
            Exception: Whatever the approval handler raises.
        """
        controls, live = self._controls, self._live
        if controls.approval_handler is None and not controls.remote_approvals:
            raise nobody_to_ask(request)
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
        """Record an answer; returns the one that counts, which may have come from outside meanwhile."""
        try:
            await self._live.record([decided(request, decision)], run_id=self.run_id)
        except InvalidTransitionError:
            self.token.raise_if_cancelled()
            return await self._live.decision(request.request_id)
        return decision

    # -- reporting -------------------------------------------------------------------------------------------------------

    async def progress(self, percent: float | None, message: str = "") -> None:
        """Say how far the work is: percent from 0 to 100, or None where that is unknown.

        Raises:
            InvalidArgumentError: Another value; names `progress`.
        """
        await self.emit(TaskProgress(percent, message))

    async def artifact(self, artifact: Artifact, *, append: bool = False, last_chunk: bool = False) -> None:
        """Publish an artifact now; with `append`, further parts of one with the same id."""
        await self.emit(TaskArtifactUpdated(copy_artifact(artifact), append, last_chunk))

    def has_artifact(self, artifact_id: str) -> bool:
        """Whether an artifact of that id is in the log; what was emitted is there after `flush`."""
        return self._live.fold.artifact(artifact_id) is not None

    def has_message(self, message_id: str) -> bool:
        """Whether a message of that id is in the log."""
        return message_id in self._live.fold.message_ids

    async def message(self, message: Message) -> None:
        """Publish a message now."""
        await self.emit(TaskMessagesAdded((copy_message(message),)))

    def hand_out(self, *, changes: int | None = None) -> Task:
        """The task for the handler to work on. What it returns is compared with this one.

        Args:
            changes: How many of the latest state changes its `state_history` has; None means all.
        """
        task = self._live.fold.to_task(changes=changes)
        self._given = Given(task, task.messages, task.artifacts)
        return task

    def changes(self, task: Task, *, last: bool = False) -> list[Fact]:
        """The facts by which `task`, as the handler left it, goes beyond the log; see `changes`."""
        return changes(self._live.fold, task, given=self._given, last=last)

    async def publish(self, task: Task) -> None:
        """Publish what was added to `task` since the handler got it, or since the last call."""
        await self.flush()
        facts = self.changes(task)
        if facts:
            self.last_output = last_output(facts) or self.last_output
            await self._live.record(facts, run_id=self.run_id)

    async def emit(self, item: Any) -> None:
        """Record a fact soon: at the next turn of the loop, together with what else is emitted until then.

        Args:
            item: A payload of `models.events`, a RunEvent, a Message, an Artifact, or a dict for a kind of the application.

        Raises:
            InvalidArgumentError: Something else, or a fact that only the engine may record.
            StoreError: An earlier fact could not be recorded.
        """
        fact = as_fact(item)
        if isinstance(fact, RunEvent) and fact.task_id and fact.task_id != self.task_id:
            fact = _without_flow_prompt(fact)
        self._pending.append(fact)
        payload = fact.payload if isinstance(fact, RunEvent) else fact
        if isinstance(payload, _OUTPUTS):
            self.last_output = last_output((payload,)) or self.last_output
        elif isinstance(payload, _CALL_EVENTS):
            self.end_delta(payload.call_id)
        elif isinstance(payload, ActionEnded):
            self.failed_action = payload.failure or self.failed_action
        if self._failure is not None:
            raise self._failure
        if len(self._pending) >= GROUP:
            await self.flush()
            # A handler that never awaits would starve the readers of what it reports.
            await asyncio.sleep(0)
        elif self._scheduled is None:
            self._scheduled = asyncio.get_running_loop().call_soon(self._flush_soon)

    def _flush_soon(self) -> None:
        self._scheduled = None
        if self._pending and (self._flushing is None or self._flushing.done()):
            self._flushing = asyncio.ensure_future(self._flush_quietly())

    async def _flush_quietly(self) -> None:
        try:
            await self.flush()
        except Exception as error:
            self._failure = error

    async def flush(self) -> None:
        """Wait until everything emitted so far is recorded."""
        flushing = self._flushing
        if flushing is not None and flushing is not asyncio.current_task() and not flushing.done():
            await asyncio.shield(flushing)
        if self._failure is not None:
            raise self._failure
        while self._pending:
            facts, self._pending = self._pending[: 4 * GROUP], self._pending[4 * GROUP :]
            self._recording += len(facts)
            try:
                await self._live.record(facts, run_id=self.run_id)
            except Exception as error:
                self._failure = error
                raise
            finally:
                self._recording -= len(facts)
        if self._recording:
            # Another task of this run has taken what we emitted along.
            await self._live.at_rest()
            if self._failure is not None:
                raise self._failure

    def has_recorded(self, event: RunEvent) -> bool:
        """Whether the event is one of this task's log, as `recorded_during` yields them."""
        return event.sequence is not None and event.task_id == self.task_id

    async def recorded_during(self, work: "asyncio.Task[Any]") -> AsyncGenerator[RunEvent, None]:
        """Yield the events that are recorded until `work`, a part of this run, has ended: each once, in the order of the log.

        Closing the generator cancels `work` and waits for its end. What `work` raises is raised after the last event.

        Raises:
            StoreError: The log cannot be read, or a fact could not be recorded.
        """
        live, store = self._live, self._live.store
        after, growth, references = live.fold.sequence, None, References()
        try:
            while True:
                if work.done():
                    await self.flush()
                for frame in await store.read(live.fold.task_id, after, 4 * GROUP):
                    after += 1
                    yield references.whole(event_from_frame(frame))
                if after < live.fold.sequence:
                    continue
                if work.done():
                    break
                growth = asyncio.ensure_future(store.wait(live.fold.task_id, after))
                await asyncio.wait([work, growth], return_when=asyncio.FIRST_COMPLETED)
                growth.cancel()
            work.result()
        finally:
            pending = [each for each in (work, growth) if each is not None and not each.done()]
            for each in pending:
                each.cancel()
            if pending:
                await asyncio.wait(pending)

    def delta(self, call_id: str, offset: int, text: str) -> None:
        """Show the next piece of a model's text to readers that asked for deltas: live, volatile, and without waiting for them.

        The call's LlmCallStarted comes first. A further one, for another try, makes what was shown void, and the text begins at 0
        again. LlmCallCompleted ends it, and so does the end of the run, after which pieces go nowhere. Lone surrogates, which UTF-8
        cannot hold, are shown as `?`.

        Args:
            offset: Where the text so far ends, in bytes of UTF-8; 0 begins it.

        Raises:
            InvalidArgumentError: It ends elsewhere.
        """
        if self.texts is not None:
            # What was emitted is recorded in this order: a reader with this sequence has it all.
            after = self._live.fold.sequence + self._recording + len(self._pending)
            self.texts.write(
                self.task_id, call_id, offset, text, after=after, principal=self.principal, run_id=self.run_id
            )

    def end_delta(self, call_id: str) -> None:
        """Free the text of a call; emitting its LlmCallCompleted, or a further LlmCallStarted, does it too."""
        if self.texts is not None:
            self.texts.end(self.task_id, call_id)

    def unrecorded(self) -> list[Fact]:
        """What was emitted and is not recorded yet; it is the caller's to record from now on."""
        facts, self._pending = self._pending, []
        return facts


def nobody_to_ask(request: ApprovalRequest) -> ApprovalRequiredError:
    """The error of an action that needs an approval where nobody can give one."""
    action = request.action
    return ApprovalRequiredError(
        f"{action.kind} '{action.name}' needs an approval, and this agent has neither a handler nor remote approvals",
        request=request,
        action_id=action.action_id,
    )


def as_fact(item: Any) -> Fact:
    """What a handler emits, as a fact.

    Raises:
        InvalidArgumentError: Nothing that can be recorded; says what can.
    """
    payload = item.payload if isinstance(item, RunEvent) else item
    match payload:
        case Message():
            return TaskMessagesAdded((copy_message(payload),))
        case Artifact():
            return TaskArtifactUpdated(copy_artifact(payload))
        case TaskSubmitted() | TaskStatusChanged():
            raise InvalidArgumentError(
                f"{type(payload).__name__} is recorded by the engine; change the task's state instead", field="event"
            )
        case dict():
            return item if isinstance(item, RunEvent) else RunEvent(type="custom", payload=plain(payload))
        case TaskProgress():
            payload.check()
            made: Fact = item
            return made
        case None if isinstance(item, RunEvent):
            return item
        case _ if isinstance(payload, Payload):
            if isinstance(item, RunEvent):
                check_type(item.type, payload)
            fact: Fact = item
            return fact
        case _:
            raise InvalidArgumentError(
                f"a {type(item).__name__} cannot be recorded; emit a RunEvent, Message, Artifact, "
                "a payload such as TaskProgress, or a dict",
                field="event",
            )


@dataclass(frozen=True, slots=True)
class Given:
    """What a run gave its handler: the task, and its lists as they were then, because the handler may put others in their place."""

    task: Task
    messages: list[Message]
    artifacts: list[Artifact]


def _without_flow_prompt(event: RunEvent) -> RunEvent:
    """An event of another task, without a flow prompt: in the log of this task it would count as the agent's own."""
    patch = event.payload
    if not isinstance(patch, TaskPatched) or FLOW_PROMPT not in patch.flow_state:
        return event
    rest = {key: value for key, value in patch.flow_state.items() if key != FLOW_PROMPT}
    return replace(event, payload=TaskPatched(patch.metadata, rest))


def changes(fold: TaskFold, task: Task, *, given: Given | None = None, last: bool = False) -> list[Fact]:
    """The facts by which `task`, as a handler left it, goes beyond the log.

    Costs what was added, not what was there before. Messages that are in the log already stay as they are.

    Args:
        given: What the handler got. Only its own lists are known to hold what the log holds. Any other list, for instance
            the lazy one of a peer's answer, is compared item by item. In the same way, a missing metadata key was removed
            where `task` is the given one; any other task only adds. Its flow prompt stays out of the log: it may be a peer's
            task, and the log says who set a prompt.
        last: The task ends with these facts, and its fold with it: messages need not be copied for later turns.
    """
    added = _added_messages(fold, task.messages, None if given is None else given.messages)
    messages = tuple(added) if last else tuple(copy_message(message) for message in added)
    said: list[Fact] = [TaskMessagesAdded(messages)] if messages else []
    new = _new_artifacts(fold, task.artifacts, None if given is None else given.artifacts)
    made: list[Fact] = [TaskArtifactUpdated(copy_artifact(each)) for each in new]
    facts = said + made if isinstance(task.get_last_item(), Artifact) else made + said
    free = {key: task.metadata[key] for key in task.metadata if key not in DERIVED_KEYS}
    is_given = given is not None and given.task is task
    metadata = _patch(fold.metadata, free, removing=is_given)
    flow_state = _patch(fold.flow_state, task.flow_state, removing=is_given)
    if not is_given:
        flow_state.pop(FLOW_PROMPT, None)
    if metadata or flow_state:
        facts.append(TaskPatched(metadata, flow_state))
    return facts


def last_output(facts: Sequence[Fact]) -> Message | Artifact | None:
    """The last artifact or message among the facts, those of users left out: they are what the task was given."""
    for fact in reversed(facts):
        if isinstance(fact, TaskArtifactUpdated):
            return fact.artifact
        for message in reversed(fact.messages) if isinstance(fact, TaskMessagesAdded) else ():
            if message.role in ("agent", "assistant"):
                return message
    return None


def _added_messages(fold: TaskFold, messages: list[Message], given: list[Message] | None) -> Iterator[Message]:
    # Elements of the given list that were there before are the log's own; what follows them was added by the handler.
    first = messages.first_added if isinstance(messages, CopyOnRead) and messages.extends(given) else 0
    for index in range(first, len(messages)):
        if messages[index].id not in fold.message_ids:
            yield messages[index]


def _new_artifacts(fold: TaskFold, artifacts: list[Artifact], given: list[Artifact] | None) -> Iterator[Artifact]:
    indexes: Any = range(len(artifacts))
    if isinstance(artifacts, CopyOnRead) and artifacts.extends(given):
        indexes = artifacts.looked_at()
    for index in indexes:
        artifact = artifacts[index]
        if fold.artifact(artifact.id) != artifact:
            yield artifact


def _patch(known: dict[str, Any], now: dict[str, Any], *, removing: bool) -> dict[str, Any]:
    if not known and not now:
        return {}
    patch = {key: plain(value) for key, value in now.items() if key not in known or known[key] != value}
    if removing:
        patch.update(dict.fromkeys(known.keys() - now.keys()))
    return patch
