"""One ProtoLink 0.8.3 agent as a peer: our verbs over its own wire, whatever carries that. How frames travel is decided elsewhere.

Such an agent keeps no tasks: each turn brings the whole task and gets it back whole. What was last seen of one is kept here, so
that only news are asked of the caller. A cut leaves nobody knowing what became of the work: it cannot be asked for again.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final

from protolink_grpc.a2a.client.remote_log import Reading, view_of_task
from protolink_grpc.client.backoff import Backoff
from protolink_grpc.client.http_channel import SAFE_TO_REPEAT, Sender
from protolink_grpc.client.lru_map import LRUMap
from protolink_grpc.client.no_control_service import NoControlService
from protolink_grpc.client.port import CalledTool, ListFilter, Sent, TaskList
from protolink_grpc.client.timeouts import limited_stream, time_limit
from protolink_grpc.errors import (
    DeadlineExceededError,
    InvalidAgentResponseError,
    InvalidArgumentError,
    ProtolinkError,
    RemoteError,
    TaskNotFoundError,
    UnavailableError,
    UncertainExecutionError,
    UnimplementedError,
)
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import CONTEXT_KEY, RunContext
from protolink_grpc.models.conversation import HistoryCompactionRequest, HistoryCompactionResult
from protolink_grpc.models.events import RunEvent, TaskMessagesAdded, TaskSubmitted
from protolink_grpc.models.ids import new_request_id
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import ToolCall, ToolOutput
from protolink_grpc.models.state import StateOperationRequest, StateOperationResult
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_target import TaskTarget, finished_error
from protolink_grpc.models.watch import StopAt

KIND: Final = "a ProtoLink agent"
CARD_PATH: Final = "/.well-known/agent.json"
OPEN_TASKS, DONE_TASKS = 1000, 100
"""Tasks of which the last answer is kept: as many unfinished ones as a client continues, and the latest that ended."""

OUTAGE_S = 10.0
"""How long sending is tried again. It carries a key under which the agent knows the request, and that it keeps for 300 s."""


@dataclass(slots=True)
class ProtolinkPeer:
    """What a client knows of one peer, from whichever loop it asks: the tasks as the peer last answered them.

    Attributes:
        name: The name on its card; empty before the client has asked for the card.
    """

    sender: Sender
    name: str = ""
    unfinished: LRUMap[Task] = field(default_factory=lambda: LRUMap(OPEN_TASKS))
    finished: LRUMap[Task] = field(default_factory=lambda: LRUMap(DONE_TASKS))
    streams: bool = True

    def note(self, task: Task) -> Task:
        """Keep an answer; it stays the peer's, so that whoever gets it gets a copy."""
        if task.is_terminal:
            self.unfinished.pop(task.id)
            self.finished.put(task.id, task)
        else:
            self.unfinished.put(task.id, task)
        return _copied(task)

    def known(self, task_id: str) -> Task | None:
        return self.unfinished.get(task_id) or self.finished.get(task_id)


class ProtolinkAgent(NoControlService):
    """The verbs that such an agent has. Two implementations say how a request and a stream travel: `_ask` and `_frames`."""

    def __init__(self, peer: ProtolinkPeer) -> None:
        super().__init__(peer.sender.address.url, KIND)
        self._peer = peer
        self._sender = peer.sender

    async def _ask(self, method: str, path: str, data: Any = None, *, key: str = "") -> Any:
        """The result of one request, a JSON value.

        Args:
            key: Under which the agent knows a repetition.
        """
        raise NotImplementedError

    def _frames(self, path: str, data: Any) -> AsyncGenerator[Any, None]:
        """The frames of one stream, JSON values, until it ends however that is. Closing it closes what it came over."""
        raise NotImplementedError

    # -- what it is ----------------------------------------------------------------------------------------------------------

    async def card(self, timeout_s: float | None) -> AgentCard:
        async with time_limit(timeout_s, self.url):
            found = await self._ask("GET", CARD_PATH)
        with self._legible():
            card = AgentCard.from_dict(found)
        # Plain HTTP has no route for streams.
        self._peer.streams = card.transport != "http"
        self._peer.name = card.name
        return card

    def _legible(self) -> "Legible":
        return Legible(self.url)

    # -- sending -------------------------------------------------------------------------------------------------------------

    async def send(
        self,
        task: Task,
        request_id: str,
        *,
        target: TaskTarget = TaskTarget.CREATE_OR_CONTINUE,
        expected: int = 0,
        wait: bool,
        timeout_s: float | None,
    ) -> Sent:
        self._refuse_expected(expected)
        if not wait:
            raise self.unsupported_error("it responds only when a task is done, so submit_task is not supported")
        whole = self._whole(task, target is TaskTarget.CONTINUE)
        async with time_limit(timeout_s, self.url, task_id=task.id):
            whole = await self._addressed(whole)
            answer = self._peer.note(await self._sent(whole, request_id))
        return Sent(answer, len(answer.messages), len(answer.artifacts))

    async def _sent(self, task: Task, request_id: str) -> Task:
        """The agent's answer. Where it is cut off, the same request is made again: the agent knows it by its key."""
        data, backoff = task.to_dict(), Backoff(OUTAGE_S)
        while True:
            backoff.begin()
            try:
                found = await self._ask("POST", "/tasks/", data, key=request_id)
            except UnavailableError as error:
                await backoff.after(error)
                continue
            with self._legible():
                return Task.from_dict(found)

    def _whole(self, task: Task, must_exist: bool) -> Task:
        """The task with all that the agent needs to go on: what it was shown last, and what the caller adds.

        Raises:
            TaskNotFoundError: The agent has had it, and this client knows it no more.
            InvalidArgumentError: It has ended before the agent was given it.
        """
        known = self._peer.unfinished.get(task.id)
        if known is None:
            if must_exist:
                raise TaskNotFoundError(
                    f"{self.url} keeps no tasks, and this client has lost {task.id}", task_id=task.id
                )
            if task.is_terminal and self._peer.finished.get(task.id) is None:
                raise finished_error(task.state)
            return task
        said = {message.id for message in known.messages}
        made = {artifact.id for artifact in known.artifacts}
        whole = _copied(known)
        whole.messages += [message for message in task.messages if message.id not in said]
        whole.artifacts += [artifact for artifact in task.artifacts if artifact.id not in made]
        whole.metadata |= task.metadata
        whole.flow_state |= task.flow_state
        return whole

    async def _addressed(self, task: Task) -> Task:
        """Delegated work with the receiver at the end of its chain, as ProtoLink's agents send it."""
        if CONTEXT_KEY not in task.metadata:
            return task
        written, context = task.metadata[CONTEXT_KEY], RunContext.from_task(task)
        if not context.parent_run_id:
            return task
        name = self._peer.name or (await self.card(None)).name
        # Also where the chain ends with that name already: then an agent delegates to itself, and the receiver has to see that.
        chain = [*context.agent_chain, name]
        return replace(task, metadata={**task.metadata, CONTEXT_KEY: {**written, "agent_chain": chain}})

    def stream(
        self,
        task: Task,
        request_id: str,
        *,
        target: TaskTarget = TaskTarget.CREATE_OR_CONTINUE,
        expected: int = 0,
        deltas: bool = False,
        timeout_s: float | None,
    ) -> AsyncGenerator[list[RunEvent], None]:
        self._refuse_expected(expected)
        turn = self._streamed(task, request_id, target is TaskTarget.CONTINUE)
        return limited_stream(turn, timeout_s, self.url, task_id=task.id)

    async def _streamed(self, task: Task, request_id: str, must_exist: bool) -> AsyncGenerator[list[RunEvent], None]:
        """The events of a turn.

        Raises:
            UncertainExecutionError: Cut before anything was said: sending it again might begin it again.
            UnavailableError: Cut later.
        """
        whole = await self._addressed(self._whole(task, must_exist))
        if not self._peer.streams:
            async for events in self._all_at_once(task, whole, request_id):
                yield events
            return
        sequence = 0
        try:
            async with aclosing(self._frames("/tasks/stream", whole.to_dict())) as frames:
                async for frame in frames:
                    found, final = self._read(frame, task.id)
                    if not sequence:
                        sequence = 1
                        yield [self._begun(task, whole)]
                    if isinstance(found, dict):
                        sequence += 1
                        yield [self._event(found, sequence, task.id)]
                    if final:
                        return
            raise UnavailableError(f"{self.url} was cut off from task {task.id}", url=self.url, task_id=task.id)
        except (UnavailableError, DeadlineExceededError) as error:
            if not sequence and "unreached" not in error.metadata and SAFE_TO_REPEAT not in error.metadata:
                raise self._uncertain(task.id, str(error)) from None
            raise
        except UnimplementedError:
            if sequence:
                raise
            self._peer.streams = False
        async for events in self._all_at_once(task, whole, request_id):
            yield events

    async def _all_at_once(self, task: Task, whole: Task, request_id: str) -> AsyncGenerator[list[RunEvent], None]:
        """The events that an agent without streams would have told."""
        answer = self._peer.note(await self._sent(whole, request_id))
        reading = Reading(task.id, "")
        for event in _turn(reading, whole, answer):
            yield [event]

    def _begun(self, task: Task, whole: Task) -> RunEvent:
        payload: Any = TaskMessagesAdded(tuple(_copied(task).messages))
        if len(whole.messages) == len(task.messages):
            payload = TaskSubmitted.of(_copied(whole))
        return RunEvent(payload=payload, task_id=task.id, sequence=1, session_id=whole.session_id or "")

    def _read(self, frame: Any, task_id: str) -> tuple[Any, bool]:
        """What a frame brings, and whether it is the last one."""
        if not isinstance(frame, dict):
            raise InvalidAgentResponseError(f"{self.url} sent a frame that is no object", url=self.url)
        if not frame.get("ok"):
            raise failure(frame.get("error"), self.url, task_id=task_id)
        return frame.get("result"), frame.get("final") is True

    def _event(self, found: dict[str, Any], sequence: int, task_id: str) -> RunEvent:
        with self._legible():
            event = RunEvent.from_task_event(found)
            metadata = found.get("metadata")
            told = metadata.get("task") if isinstance(metadata, dict) else None
            if told is not None:
                self._peer.note(Task.from_dict(told))
        # Its place is the one in this stream: an event of another log inside of it has a sequence of that one.
        return replace(event, sequence=sequence, task_id=task_id)

    def _uncertain(self, task_id: str, why: str) -> UncertainExecutionError:
        return UncertainExecutionError(
            f"{why}; a ProtoLink agent cannot be asked what became of task {task_id}", task_id=task_id, url=self.url
        )

    # -- what was seen last --------------------------------------------------------------------------------------------------

    async def watch(
        self, task_id: str, after: int, stop_at: StopAt, *, deltas: bool = False, timeout_s: float | None
    ) -> AsyncGenerator[list[RunEvent], None]:
        known = self._peer.known(task_id)
        if after:
            raise self._uncertain(task_id, f"{self.url} was cut off")
        settled = known is not None and (known.state in TERMINAL or known.state in INTERRUPTED)
        if known is None or not (settled or stop_at is StopAt.CURRENT):
            raise self.unsupported_error("its tasks can be streamed only by the sender")
        for event in Reading(task_id, "").read(view_of_task(known), {}):
            yield [event]

    async def get(self, task_id: str, timeout_s: float | None) -> Task:
        known = self._peer.known(task_id)
        if known is None:
            raise self.unsupported_error("getting tasks is not supported")
        return _copied(known)

    async def list(self, wanted: ListFilter, timeout_s: float | None) -> TaskList:
        raise self.unsupported_error("listing tasks is not supported")

    # -- doing ---------------------------------------------------------------------------------------------------------------

    async def cancel(self, task_id: str, reason: str, timeout_s: float | None) -> Task:
        data = {"id": task_id, "metadata": {"reason": reason} if reason else {}}
        async with time_limit(timeout_s, self.url, task_id=task_id):
            try:
                # A key of its own: the agent would answer a second attempt with what the first one got.
                found = await self._ask("POST", "/tasks/cancel", data, key=new_request_id())
            except RemoteError as error:
                if error.code != "HTTP_500":
                    raise
                # That is how it says that it is not working on such a task.
                raise TaskNotFoundError(f"{self.url} is not working on task {task_id}", task_id=task_id) from None
        with self._legible():
            return self._peer.note(Task.from_dict(found))

    async def call_tool(
        self, call: ToolCall, request_id: str, task_id: str, session_id: str, timeout_s: float | None
    ) -> CalledTool:
        message = Message.tool_call(call.tool_name, call.args, call.call_id)
        task = replace(Task.create(message, session_id=session_id or None), id=task_id)
        done = (await self.send(task, request_id, wait=True, timeout_s=timeout_s)).task
        for artifact in reversed(done.artifacts):
            for part in artifact.parts:
                if isinstance(part.content, ToolOutput):
                    return CalledTool(part.content, done.id)
        return CalledTool(ToolOutput(call.call_id, done.raise_for_status().get_output()), done.id)

    # -- what it remembers ---------------------------------------------------------------------------------------------------

    async def describe_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        return await self._on_state("describe", request, timeout_s)

    async def reset_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        return await self._on_state("reset", request, timeout_s)

    async def compact_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        return await self._on_state("compact", request, timeout_s)

    async def compact_history(
        self, request: HistoryCompactionRequest, timeout_s: float | None
    ) -> HistoryCompactionResult:
        # By a route of its own: it works without a session, too, and says what it did.
        async with time_limit(timeout_s, self.url):
            found = await self._ask("POST", "/llm/history/compact", request.to_dict(), key=new_request_id())
        with self._legible():
            return HistoryCompactionResult.from_dict(found)

    async def _on_state(
        self, operation: str, request: StateOperationRequest, timeout_s: float | None
    ) -> StateOperationResult:
        async with time_limit(timeout_s, self.url):
            found = await self._ask("POST", f"/state/{operation}", request.to_dict(), key=new_request_id())
        with self._legible():
            return StateOperationResult.from_dict(found)


class Legible:
    """What a peer sent cannot be what its caller got wrong."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, InvalidArgumentError):
            raise InvalidAgentResponseError(f"{self._url} answered with what is none: {error}", url=self._url) from None


def failure(error: object, url: str, **metadata: str) -> ProtolinkError:
    """The error that `{"message": ..., "type": ...}` means: types that have a class here, else what the agent said."""
    said = error if isinstance(error, Mapping) else {}
    message, kind = said.get("message"), said.get("type")
    text = f"{url}: {message if isinstance(message, str) else 'refused'}"
    if kind == "TaskNotFoundError":
        return TaskNotFoundError(text, **metadata)
    if kind == "ValueError" and "No endpoint registered" in text:
        return UnimplementedError(text, **metadata)
    return RemoteError(text, remote_reason=kind if isinstance(kind, str) else "", **metadata)


def _copied(task: Task) -> Task:
    return Task.from_dict(task.to_dict())


def _turn(reading: Reading, whole: Task, answer: Task) -> Iterator[RunEvent]:
    yield from reading.begin(whole, {})
    yield from reading.read(view_of_task(answer), {})
