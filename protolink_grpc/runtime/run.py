"""What a handler may do while it works: report, publish, look at its cancellation. The engine owns everything else about a run."""

import asyncio
import logging
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from protolink_grpc.errors import InvalidArgumentError, ToolFailedError
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import (
    Payload,
    RunEvent,
    TaskArtifactUpdated,
    TaskErrorReported,
    TaskMessagesAdded,
    TaskPatched,
    TaskProgress,
    TaskStatusChanged,
    TaskSubmitted,
)
from protolink_grpc.models.fold import DERIVED_KEYS, CopyOnRead, TaskFold, copy_artifact, copy_message
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.message import Message
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.cancellation import CancellationToken
from protolink_grpc.runtime.live import Fact, LiveTask

log = logging.getLogger(__name__)

GROUP = 64
"""Facts that one append takes at most while a handler reports faster than the store writes."""

_current: ContextVar["Run | None"] = ContextVar("protolink_run", default=None)


def current_run() -> "Run | None":
    """The run in which the calling code works; None outside of one."""
    return _current.get()


class Run:
    """One attempt at a task, from its handler's point of view. Used from the event loop that the handler runs in."""

    def __init__(self, live: LiveTask, run_id: str, principal: str, *, expose_errors: bool = True) -> None:
        self.run_id = run_id
        self.principal = principal
        self.token = CancellationToken()
        self._live = live
        self._expose_errors = expose_errors
        self._pending: list[Fact] = []
        self._flushing: asyncio.Task[None] | None = None
        self._scheduled: asyncio.Handle | None = None
        self._failure: BaseException | None = None

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
        """The envelope of this run."""
        known = self._live.fold.context
        chain = [*known.agent_chain] if known else []
        if not chain or chain[-1] != self.agent_name:
            chain.append(self.agent_name)
        base = known or RunContext(run_id=self.run_id)
        return base.copy(run_id=self.run_id, session_id=self.session_id, agent_chain=chain)

    def enter(self) -> None:
        """Make this the current run of the calling task, which is the run's own: nothing has to be undone."""
        _current.set(self)

    def shown(self, error: ToolFailedError) -> ToolFailedError:
        """A tool's failure as the task's owner may see it. What is kept from him is logged with its trace."""
        if self._expose_errors:
            return error
        incident, tool = new_uuid(), error.metadata.get("tool", "")
        log.error("task %s: tool '%s' failed, incident %s", self.task_id, tool, incident, exc_info=error)
        return ToolFailedError(f"tool '{tool}' failed, incident {incident}", tool=tool)

    # -- reporting -------------------------------------------------------------------------------------------------------

    async def progress(self, percent: float | None, message: str = "") -> None:
        """Say how far the work is: percent from 0 to 100, or None where nobody knows."""
        await self.emit(TaskProgress(percent, message))

    async def artifact(self, artifact: Artifact, *, append: bool = False, last_chunk: bool = False) -> None:
        """Publish an artifact now; with `append`, further parts of one with the same id."""
        await self.emit(TaskArtifactUpdated(copy_artifact(artifact), append, last_chunk))

    async def message(self, message: Message) -> None:
        """Publish a message now."""
        await self.emit(TaskMessagesAdded((copy_message(message),)))

    async def publish(self, task: Task) -> None:
        """Publish what was added to `task` since the handler got it, or since the last call."""
        await self.flush()
        facts = changes(self._live.fold, task)
        if facts:
            await self._live.record(facts, run_id=self.run_id)

    async def emit(self, item: Any) -> None:
        """Record a fact soon: at the next turn of the loop, together with what else is emitted until then.

        Args:
            item: A payload of `models.events`, a RunEvent, a Message, an Artifact, or a dict for a kind of the application.

        Raises:
            InvalidArgumentError: Something else, or a fact that only the engine may record.
            StoreError: An earlier fact could not be recorded.
        """
        self._pending.append(as_fact(item))
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
            await self._live.record(facts, run_id=self.run_id)


_REPORTABLE = (TaskProgress, TaskArtifactUpdated, TaskMessagesAdded, TaskPatched, TaskErrorReported)


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
        case None if isinstance(item, RunEvent):
            return item
        case _ if isinstance(payload, Payload):
            fact: Fact = item
            return fact
        case _:
            raise InvalidArgumentError(
                f"a {type(item).__name__} cannot be recorded; emit a RunEvent, Message, Artifact, "
                "a payload such as TaskProgress, or a dict",
                field="event",
            )


def changes(fold: TaskFold, task: Task, *, last: bool = False, given: bool = True) -> list[Fact]:
    """The facts by which `task`, as a handler left it, goes beyond the log.

    Costs what was added, not what was there before. Messages that are in the log already stay as they are.

    Args:
        last: The task ends with these facts, and its fold with it: messages need not be copied for later turns.
        given: It is the task that the handler got, so that a metadata key that is missing was removed. A task that the handler made
            itself only adds.
    """
    added = _added_messages(fold, task.messages)
    messages = tuple(added) if last else tuple(copy_message(message) for message in added)
    said: list[Fact] = [TaskMessagesAdded(messages)] if messages else []
    made: list[Fact] = [TaskArtifactUpdated(copy_artifact(each)) for each in _new_artifacts(fold, task.artifacts)]
    facts = said + made if isinstance(task.get_last_item(), Artifact) else made + said
    free = {key: task.metadata[key] for key in task.metadata if key not in DERIVED_KEYS}
    metadata = _patch(fold.metadata, free, removing=given)
    flow_state = _patch(fold.flow_state, task.flow_state, removing=given)
    if metadata or flow_state:
        facts.append(TaskPatched(metadata, flow_state))
    return facts


def _added_messages(fold: TaskFold, messages: list[Message]) -> Iterator[Message]:
    # `untouched` elements are the log's own; what follows them was added by the handler.
    lazy = messages if isinstance(messages, CopyOnRead) else None
    for index in range(lazy.first_added if lazy is not None else 0, len(messages)):
        if messages[index].id not in fold.message_ids:
            yield messages[index]


def _new_artifacts(fold: TaskFold, artifacts: list[Artifact]) -> Iterator[Artifact]:
    indexes: Any = range(len(artifacts))
    if isinstance(artifacts, CopyOnRead):
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
