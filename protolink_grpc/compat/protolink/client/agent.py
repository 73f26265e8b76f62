"""A client for a ProtoLink 0.8.3 agent, independent of the transport.

Such an agent stores no tasks: each request contains the whole task, and so does the response. This client keeps the last response,
so that the caller only passes additions. After an interruption the result of the work is unknown, because it cannot be requested
again.
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
from protolink_grpc.client.port import PROTOLINK, CalledTool, ListFilter, Sent, TaskList
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
"""Maximum number of unfinished and of finished tasks whose last response is kept."""

OUTAGE_S = 10.0
"""How long sending is retried, in seconds. The request has an idempotency key, which the agent keeps for 300 s."""


@dataclass(slots=True)
class ProtolinkPeer:
    """The state of a client for one peer, shared by all event loops: the peer's name and the last response for each task.

    Attributes:
        name: The name on its card; empty until the client has fetched the card.
    """

    sender: Sender
    name: str = ""
    unfinished: LRUMap[Task] = field(default_factory=lambda: LRUMap(OPEN_TASKS))
    finished: LRUMap[Task] = field(default_factory=lambda: LRUMap(DONE_TASKS))
    streams: bool = True

    def note(self, task: Task) -> Task:
        """Keep a response. Callers receive a copy of it."""
        if task.is_terminal:
            self.unfinished.pop(task.id)
            self.finished.put(task.id, task)
        else:
            self.unfinished.put(task.id, task)
        return _copy_task(task)

    def last_response(self, task_id: str) -> Task | None:
        return self.unfinished.get(task_id) or self.finished.get(task_id)


class ProtolinkAgent(NoControlService):
    """The methods that such an agent supports. Subclasses implement the transport: `_request` and `_open_stream`."""

    def __init__(self, peer: ProtolinkPeer) -> None:
        super().__init__(peer.sender.address.url, KIND)
        self._peer = peer
        self._sender = peer.sender

    async def _request(self, method: str, path: str, data: Any = None, *, key: str = "") -> Any:
        """Send one request and return its result, a JSON value.

        Args:
            key: Idempotency key.
        """
        raise NotImplementedError

    def _open_stream(self, path: str, data: Any) -> AsyncGenerator[Any, None]:
        """Yield the frames of one stream, JSON values. Closing the generator closes the connection."""
        raise NotImplementedError

    # -- Card ------------------------------------------------------------------------------------------------------------------

    async def protocol(self) -> str:
        return PROTOLINK

    async def card(self, timeout_s: float | None) -> AgentCard:
        async with time_limit(timeout_s, self.url):
            found = await self._request("GET", CARD_PATH)
        with self._check_response():
            card = AgentCard.from_dict(found)
        # Without server-sent events there is no route for streams.
        self._peer.streams = card.transport != "http"
        self._peer.name = card.name
        return card

    def _check_response(self) -> "ResponseCheck":
        return ResponseCheck(self.url)

    # -- Sending ---------------------------------------------------------------------------------------------------------------

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
        self._check_expected(expected)
        if not wait:
            raise self.unsupported_error("it responds only when a task is done, so submit_task is not supported")
        whole = self._complete_task(task, target is TaskTarget.CONTINUE)
        async with time_limit(timeout_s, self.url, task_id=task.id):
            whole = await self._add_receiver(whole)
            answer = self._peer.note(await self._send_turn(whole, request_id))
        return Sent(answer, len(answer.messages), len(answer.artifacts))

    async def _send_turn(self, task: Task, request_id: str) -> Task:
        """Send a task and return the agent's response. An interrupted request is retried with the same key."""
        data, backoff = task.to_dict(), Backoff(OUTAGE_S)
        while True:
            backoff.begin()
            try:
                found = await self._request("POST", "/tasks/", data, key=request_id)
            except UnavailableError as error:
                await backoff.wait_after(error)
                continue
            with self._check_response():
                return Task.from_dict(found)

    def _complete_task(self, task: Task, must_exist: bool) -> Task:
        """Return the complete task for the agent: its last response and the caller's additions.

        Raises:
            TaskNotFoundError: The task was continued, but this client no longer has the agent's last response.
            InvalidArgumentError: The task is new and already finished.
        """
        last = self._peer.unfinished.get(task.id)
        if last is None:
            if must_exist:
                raise TaskNotFoundError(
                    f"{self.url} stores no tasks, and this client no longer has {task.id}", task_id=task.id
                )
            if task.is_terminal and self._peer.finished.get(task.id) is None:
                raise finished_error(task.state)
            return task
        message_ids = {message.id for message in last.messages}
        artifact_ids = {artifact.id for artifact in last.artifacts}
        whole = _copy_task(last)
        whole.messages += [message for message in task.messages if message.id not in message_ids]
        whole.artifacts += [artifact for artifact in task.artifacts if artifact.id not in artifact_ids]
        whole.metadata |= task.metadata
        if task.context is not None:
            task.context.attach_to_task(whole)
        whole.flow_state |= task.flow_state
        return whole

    async def _add_receiver(self, task: Task) -> Task:
        """Return a delegated task with the receiver at the end of its agent chain, as ProtoLink's agents send it."""
        context = task.given_context()
        if context is None or not context.parent_run_id:
            return task
        name = self._peer.name or (await self.card(None)).name
        # Also if the chain already ends with that name: then an agent delegates to itself, and the receiver must detect that.
        chain = [*context.agent_chain, name]
        return replace(context, agent_chain=chain).attach_to_task(replace(task))

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
        self._check_expected(expected)
        turn = self._stream_turn(task, request_id, target is TaskTarget.CONTINUE)
        return limited_stream(turn, timeout_s, self.url, task_id=task.id)

    async def _stream_turn(self, task: Task, request_id: str, must_exist: bool) -> AsyncGenerator[list[RunEvent], None]:
        """Yield the events of a turn.

        Raises:
            UncertainExecutionError: Interrupted before the first event: sending again might start the work again.
            UnavailableError: Interrupted later.
        """
        whole = await self._add_receiver(self._complete_task(task, must_exist))
        if not self._peer.streams:
            async for events in self._events_of_turn(task, whole, request_id):
                yield events
            return
        sequence = 0
        try:
            async with aclosing(self._open_stream("/tasks/stream", whole.to_dict())) as frames:
                async for frame in frames:
                    found, final = self._read(frame, task.id)
                    if not sequence:
                        sequence = 1
                        yield [self._first_event(task, whole)]
                    if isinstance(found, dict):
                        sequence += 1
                        yield [self._event(found, sequence, task.id)]
                    if final:
                        return
            raise UnavailableError(
                f"the stream of task {task.id} at {self.url} was interrupted", url=self.url, task_id=task.id
            )
        except (UnavailableError, DeadlineExceededError) as error:
            if not sequence and "unreached" not in error.metadata and SAFE_TO_REPEAT not in error.metadata:
                raise self._uncertain_error(task.id, str(error)) from None
            raise
        except UnimplementedError:
            if sequence:
                raise
            self._peer.streams = False
        async for events in self._events_of_turn(task, whole, request_id):
            yield events

    async def _events_of_turn(self, task: Task, whole: Task, request_id: str) -> AsyncGenerator[list[RunEvent], None]:
        """Yield the events of a completed turn, for an agent without streams."""
        answer = self._peer.note(await self._send_turn(whole, request_id))
        reading = Reading(task.id, "")
        for event in _turn_events(reading, whole, answer):
            yield [event]

    def _first_event(self, task: Task, whole: Task) -> RunEvent:
        payload: Any = TaskMessagesAdded(tuple(_copy_task(task).messages))
        if len(whole.messages) == len(task.messages):
            payload = TaskSubmitted.of(_copy_task(whole))
        return RunEvent(payload=payload, task_id=task.id, sequence=1, session_id=whole.session_id or "")

    def _read(self, frame: Any, task_id: str) -> tuple[Any, bool]:
        """Convert a frame to an event. Also returns whether it is the last frame."""
        if not isinstance(frame, dict):
            raise InvalidAgentResponseError(f"{self.url} sent a frame that is not an object", url=self.url)
        if not frame.get("ok"):
            raise response_error(frame.get("error"), self.url, task_id=task_id)
        return frame.get("result"), frame.get("final") is True

    def _event(self, found: dict[str, Any], sequence: int, task_id: str) -> RunEvent:
        with self._check_response():
            event = RunEvent.from_task_event(found)
            metadata = found.get("metadata")
            task = metadata.get("task") if isinstance(metadata, dict) else None
            if task is not None:
                self._peer.note(Task.from_dict(task))
        # The sequence is that of this stream, because the event may be from another log.
        return replace(event, sequence=sequence, task_id=task_id)

    def _uncertain_error(self, task_id: str, why: str) -> UncertainExecutionError:
        return UncertainExecutionError(
            f"{why}; the outcome of task {task_id} is unknown, because a ProtoLink agent does not store tasks",
            task_id=task_id,
            url=self.url,
        )

    # -- Tasks -----------------------------------------------------------------------------------------------------------------

    async def watch(
        self, task_id: str, after: int, stop_at: StopAt, *, deltas: bool = False, timeout_s: float | None
    ) -> AsyncGenerator[list[RunEvent], None]:
        last = self._peer.last_response(task_id)
        if after:
            raise self._uncertain_error(task_id, f"the stream from {self.url} was interrupted")
        settled = last is not None and (last.state in TERMINAL or last.state in INTERRUPTED)
        if last is None or not (settled or stop_at is StopAt.CURRENT):
            raise self.unsupported_error("its tasks can be streamed only by the sender")
        for event in Reading(task_id, "").read(view_of_task(last), {}):
            yield [event]

    async def get(self, task_id: str, timeout_s: float | None) -> Task:
        last = self._peer.last_response(task_id)
        if last is None:
            raise self.unsupported_error("getting tasks is not supported")
        return _copy_task(last)

    async def list(self, wanted: ListFilter, timeout_s: float | None) -> TaskList:
        raise self.unsupported_error("listing tasks is not supported")

    # -- Canceling and tools ---------------------------------------------------------------------------------------------------

    async def cancel(self, task_id: str, reason: str, timeout_s: float | None) -> Task:
        data = {"id": task_id, "metadata": {"reason": reason} if reason else {}}
        async with time_limit(timeout_s, self.url, task_id=task_id):
            try:
                # A new key for each call: with the same key the agent would repeat its first response.
                found = await self._request("POST", "/tasks/cancel", data, key=new_request_id())
            except RemoteError as error:
                if error.code != "HTTP_500":
                    raise
                # This is its response if it is not working on such a task.
                raise TaskNotFoundError(f"{self.url} is not working on task {task_id}", task_id=task_id) from None
        with self._check_response():
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

    # -- State -----------------------------------------------------------------------------------------------------------------

    async def describe_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        return await self._on_state("describe", request, timeout_s)

    async def reset_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        return await self._on_state("reset", request, timeout_s)

    async def compact_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        return await self._on_state("compact", request, timeout_s)

    async def compact_history(
        self, request: HistoryCompactionRequest, timeout_s: float | None
    ) -> HistoryCompactionResult:
        # A separate route, which also works without a session and returns details.
        async with time_limit(timeout_s, self.url):
            found = await self._request("POST", "/llm/history/compact", request.to_dict(), key=new_request_id())
        with self._check_response():
            return HistoryCompactionResult.from_dict(found)

    async def _on_state(
        self, operation: str, request: StateOperationRequest, timeout_s: float | None
    ) -> StateOperationResult:
        async with time_limit(timeout_s, self.url):
            found = await self._request("POST", f"/state/{operation}", request.to_dict(), key=new_request_id())
        with self._check_response():
            return StateOperationResult.from_dict(found)


class ResponseCheck:
    """Raise InvalidAgentResponseError for invalid values from the peer, which are not the caller's mistake."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, InvalidArgumentError):
            raise InvalidAgentResponseError(f"{self._url} sent an invalid response: {error}", url=self._url) from None


def response_error(error: object, url: str, **metadata: str) -> ProtolinkError:
    """Build the error for `{"message": ..., "type": ...}`: that of the named type if it exists here, otherwise RemoteError."""
    fields = error if isinstance(error, Mapping) else {}
    message, kind = fields.get("message"), fields.get("type")
    text = f"{url}: {message if isinstance(message, str) else 'request refused'}"
    if kind == "TaskNotFoundError":
        return TaskNotFoundError(text, **metadata)
    if kind == "ValueError" and "No endpoint registered" in text:
        return UnimplementedError(text, **metadata)
    return RemoteError(text, remote_reason=kind if isinstance(kind, str) else "", **metadata)


def _copy_task(task: Task) -> Task:
    return Task.from_dict(task.to_dict())


def _turn_events(reading: Reading, whole: Task, answer: Task) -> Iterator[RunEvent]:
    yield from reading.begin(whole, {})
    yield from reading.read(view_of_task(answer), {})
