"""Calls the hooks of a telemetry with the facts that an agent commits, on a thread of its own.

Theory of operation. The agent's event loop only puts committed facts into a bounded queue. A daemon thread reads the queue,
computes the spans, and calls the hooks. An async hook runs on an event loop of this thread. Therefore a hook can neither delay nor
fail a run: if it hangs, the queue becomes full and further facts are dropped and counted.
"""

import asyncio
import atexit
import contextvars
import inspect
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from protolink_grpc.logs import get_logger
from protolink_grpc.models.action import ApprovalRequest
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import (
    ActionEnded,
    ActionRequested,
    ActionStarted,
    ApprovalDecided,
    ApprovalRequired,
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
    RunEvent,
    TaskMessagesAdded,
    TaskStatusChanged,
    TaskSubmitted,
)
from protolink_grpc.models.lifecycle import SETTLED
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.log import AppendedFacts, Fact
from protolink_grpc.runtime.service import ServiceGauges, TaskService
from protolink_grpc.telemetry.base import Telemetry
from protolink_grpc.telemetry.hooks import HOOKS, HookCall, RunHooks
from protolink_grpc.telemetry.multi import MultiTelemetry
from protolink_grpc.telemetry.spans import NOTED, SpanReader, is_step

log = get_logger(__name__)

MAX_QUEUED = 10_000
"""Maximum number of appends in the queue of one telemetry."""

MAX_TASKS = 10_000
"""Maximum number of tasks whose runs a telemetry follows at the same time. The one without news for the longest time is dropped."""

HOOK_TIMEOUT_S = 30.0
"""Timeout of one call of an async hook, in seconds."""

BATCH_S = 0.02
"""How long the thread waits before it reads an empty queue again, in seconds: waking it for each append would slow down runs."""

CLOSE_TIMEOUT_S = 5.0
"""How long a stopping agent waits for its telemetry, in seconds."""

_READ = frozenset(
    {
        ActionEnded,
        ActionRequested,
        ActionStarted,
        ApprovalDecided,
        ApprovalRequired,
        LlmCallCompleted,
        LlmCallFailed,
        LlmCallStarted,
        TaskMessagesAdded,
        TaskStatusChanged,
        TaskSubmitted,
        *NOTED,
    }
)
"""Kinds of payloads that telemetry reads. Others, such as progress reports, are not queued."""


@dataclass(slots=True)  # not frozen, which would take four times as long to make
class _Append:
    """The facts of one append, with values of the fold, which may change before the thread reads them.

    Args:
        context: The context of the task after the facts.
        asked: Unanswered approvals with the times of their requests, if a run takes over from an earlier one.
        task: The task, if the telemetry captures content and a run begins or ends; None otherwise.
    """

    facts: Sequence[Fact]
    run_id: str
    micros: int
    task_id: str
    agent_name: str
    session_id: str
    context: RunContext | None
    asked: Sequence[tuple[ApprovalRequest, int]] = ()
    task: Task | None = None


@dataclass(slots=True)
class _FollowedTask:
    """The state of one task: its spans, and the context in which the hooks of its run are called."""

    reader: SpanReader
    hooks: RunHooks
    context: contextvars.Context = field(default_factory=contextvars.copy_context)


@dataclass(frozen=True, slots=True)
class _Stop:
    done: threading.Event | asyncio.Future[None]


class TelemetryWorker:
    """The queue and the thread of one telemetry of one agent. The thread starts with the first fact.

    Attributes:
        dropped: Number of appends that were dropped because the queue was full.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        redaction: RedactionPolicy,
        *,
        max_queued: int = MAX_QUEUED,
        hook_timeout_s: float = HOOK_TIMEOUT_S,
        close_timeout_s: float = CLOSE_TIMEOUT_S,
    ) -> None:
        self.telemetry = telemetry
        self.dropped = 0
        self._redaction = redaction
        self._max_queued = max_queued
        self._hook_timeout_s = hook_timeout_s
        self._close_timeout_s = close_timeout_s
        self._hangs = False
        self._queue: SimpleQueue[_Append | _Stop] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._tasks: OrderedDict[str, _FollowedTask] = OrderedDict()
        self._hooks = _overridden(telemetry)
        self._failed: set[str] = set()
        self._runner: asyncio.Runner | None = None

    def add_service(self, service: TaskService) -> None:
        """Let the telemetry read the current numbers of a service that starts."""
        try:
            self.telemetry.add_service(service.agent_name, _ReadGauges(weakref.ref(service)))
        except Exception:
            self._log_failure("add_service")

    # -- on the event loop of the agent ----------------------------------------------------------------------------------

    def observe(self, appended: AppendedFacts) -> None:
        """Queue the facts of an append; an `AppendObserver`. It only notes what the fold has now; the thread does the rest."""
        for fact in appended.facts:
            if fact.__class__ in _READ or (isinstance(fact, RunEvent) and _is_read(fact)):
                break
        else:
            return
        queue, fold = self._queue, appended.fold
        if self._hangs or queue.qsize() >= self._max_queued:
            self._drop(fold.agent_name)
            return
        is_captured = self.telemetry.capture_content
        asked, task = self._state_of(appended) if is_captured or fold.asked else ((), None)
        queue.put(
            _Append(
                appended.facts,
                appended.run_id,
                appended.micros,
                fold.task_id,
                fold.agent_name,
                fold.session_id,
                fold.context,
                asked,
                task,
            )
        )
        if self._thread is None:
            self._start()

    def _drop(self, agent_name: str) -> None:
        self.dropped += 1
        if self.dropped == 1 and not self._hangs:
            log.warning(
                "the telemetry %s of agent %s is too slow or hangs: its queue of %d appends is full, further ones are lost",
                type(self.telemetry).__name__,
                agent_name,
                self._max_queued,
            )

    def _state_of(self, appended: AppendedFacts) -> "tuple[Sequence[tuple[ApprovalRequest, int]], Task | None]":
        """Return the unanswered approvals of a run that begins, and the task if a run begins or ends and content is captured."""
        fold, asked, task = appended.fold, list[tuple[ApprovalRequest, int]](), None
        for payload in appended.payloads:
            if isinstance(payload, TaskSubmitted | TaskStatusChanged):
                if isinstance(payload, TaskStatusChanged) and payload.attempt and fold.pending_approvals:
                    asked = [(request, fold.asked[key][1]) for key, request in fold.pending_approvals.items()]
                if self.telemetry.capture_content:
                    task = fold.to_task(changes=0)
        return asked, task

    def _start(self) -> None:
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="plgrpc-telemetry", daemon=True)
        self._thread.start()
        atexit.register(self._close_at_exit)

    async def aclose(self) -> None:
        """Call the hooks for everything queued, flush, and end the thread. Returns after the timeout in any case."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        atexit.unregister(self._close_at_exit)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put(_Stop(done))
        self._closing.set()
        if not (await asyncio.wait([done], timeout=self._close_timeout_s))[0]:
            self._abandon()

    def _close_at_exit(self) -> None:
        done = threading.Event()
        self._queue.put(_Stop(done))
        self._closing.set()
        if not done.wait(self._close_timeout_s):
            self._abandon()

    def _abandon(self) -> None:
        """Leave the thread alone: a hook hangs. If the agent is started again, its facts are dropped."""
        self._hangs = True
        log.warning(
            "a hook of the telemetry %s hangs, so this telemetry is not used any more; it did not end within %g s",
            type(self.telemetry).__name__,
            self._close_timeout_s,
        )

    # -- on the thread ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        queue, closing = self._queue, self._closing
        while not isinstance(item := queue.get(), _Stop):
            try:
                self._read(item)
            except Exception:
                self._log_failure("the reader")
            if queue.empty():
                closing.wait(BATCH_S)
        for followed in self._tasks.values():
            for span in followed.reader.end(time.time_ns() // 1000):
                self._call(followed.hooks.calls(span, None), followed)
        self._tasks.clear()
        self._call([("flush", ())], _FollowedTask(SpanReader("", ""), self._run_hooks()))
        if self._runner is not None:
            self._runner.close()
            self._runner = None
        _resolve(item.done)

    def _read(self, append: _Append) -> None:
        followed = self._follow(append)
        reader, hooks = followed.reader, followed.hooks
        run_id, micros = append.run_id, append.micros
        for fact in append.facts:
            payload: Any = fact
            action_id = ""
            if isinstance(fact, RunEvent):
                if not _is_read(fact):
                    continue
                payload, action_id = (fact, "") if is_step(fact) else (fact.payload, fact.action_id)
            elif fact.__class__ not in _READ:
                continue
            for span in reader.read(payload, run_id, micros, action_id):
                self._call(hooks.calls(span, append.task), followed)
            if isinstance(payload, NOTED):
                self._call(hooks.notes(payload, reader.run), followed)
            elif isinstance(payload, TaskStatusChanged) and payload.new_state in SETTLED:
                self._tasks.pop(append.task_id, None)

    def _follow(self, append: _Append) -> _FollowedTask:
        followed = self._tasks.get(append.task_id)
        if followed is None:
            captures = self.telemetry.capture_content
            reader = SpanReader(
                append.task_id, append.agent_name, append.session_id, append.context, keeps_content=captures
            )
            for request, micros in append.asked:
                reader.add_pending(request, append.run_id, micros)
            followed = self._tasks[append.task_id] = _FollowedTask(reader, self._run_hooks())
            if len(self._tasks) > MAX_TASKS:
                self._tasks.popitem(last=False)
        else:
            self._tasks.move_to_end(append.task_id)
        return followed

    def _run_hooks(self) -> RunHooks:
        return RunHooks(self._hooks.keys(), self.telemetry.capture_content, self._redaction)

    def _call(self, calls: Iterable[HookCall], followed: _FollowedTask) -> None:
        for name, arguments in calls:
            hook = self._hooks.get(name)
            if hook is None:
                continue
            try:
                result = followed.context.run(hook, *arguments)
                if result is not None and inspect.isawaitable(result):
                    self._wait(result, followed.context)
            except BaseException:  # of any kind, SystemExit too: the thread continues
                self._log_failure(name)

    def _wait(self, result: Any, context: contextvars.Context) -> None:
        async def wait() -> None:
            async with asyncio.timeout(self._hook_timeout_s):
                await result

        if self._runner is None:
            self._runner = asyncio.Runner()
        self._runner.run(wait(), context=context)

    def _log_failure(self, name: str) -> None:
        if name not in self._failed:
            self._failed.add(name)
            log.exception(
                "%s of the telemetry %s failed; its later failures are not logged", name, type(self.telemetry).__name__
            )


@dataclass(frozen=True, slots=True)
class _ReadGauges:
    """Returns the current numbers of a service, or None after its stop. Two of the same service are equal."""

    service: weakref.ref[TaskService]

    def __call__(self) -> ServiceGauges | None:
        running = self.service()
        return running.gauges if running is not None and running.is_accepting else None


def workers_of(telemetry: Telemetry | None, redaction: RedactionPolicy) -> list[TelemetryWorker]:
    """Return a worker for each telemetry, so that those of a MultiTelemetry do not wait for each other."""
    found = {id(each): each for each in _flatten(telemetry)}  # an object that is listed twice is called once
    return [TelemetryWorker(each, redaction) for each in found.values()]


def _flatten(telemetry: Telemetry | None) -> Iterator[Telemetry]:
    if isinstance(telemetry, MultiTelemetry):
        for each in telemetry.trackers:
            yield from _flatten(each)
    elif telemetry is not None:
        yield telemetry


def _overridden(telemetry: Telemetry) -> dict[str, Callable[..., Any]]:
    """Return the hooks that the telemetry overrides, by name."""
    kind = type(telemetry)
    return {name: getattr(telemetry, name) for name in HOOKS if getattr(kind, name) is not getattr(Telemetry, name)}


def _is_read(event: RunEvent) -> bool:
    return event.payload.__class__ in _READ or is_step(event)


def _resolve(done: "threading.Event | asyncio.Future[None]") -> None:
    if isinstance(done, threading.Event):
        done.set()
        return
    future = done

    def resolve() -> None:
        if not future.done():
            future.set_result(None)

    with suppress(RuntimeError):  # the loop has been closed
        future.get_loop().call_soon_threadsafe(resolve)
