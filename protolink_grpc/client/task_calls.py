"""The calls of a client about tasks: sending, watching, reading, listing and canceling them."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, get_args, overload

from protolink_grpc.client.agent_access import AgentAccess
from protolink_grpc.client.known_tasks import (
    KnownTask,
    KnownTasks,
    TaskKey,
    join_response,
    last_message_of_turn,
    unsent_part,
)
from protolink_grpc.client.port import ListFilter, TaskList
from protolink_grpc.client.questions import Answer, question_task, read_answer
from protolink_grpc.client.resumption import resumed_batches
from protolink_grpc.errors import InvalidArgumentError, TaskExecutionError, TaskNotFoundError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.context import RunBudget, RunContext
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.ids import new_request_id
from protolink_grpc.models.lifecycle import SETTLED, TERMINAL, TaskState, parse_state
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.models.watch import StopAt
from protolink_grpc.net.address import comparable_url

Target = Literal["create", "continue", "create_or_continue"]


@checks_arguments
class TaskCalls(AgentAccess):
    """The methods of AgentClient about tasks."""

    @cached_property
    def _known(self) -> KnownTasks:
        """What agents already have of this client's unfinished tasks."""
        return KnownTasks()

    def has_begun(self, agent_url: str | None, task_id: str) -> bool:
        """Return whether, as far as this client knows, the agent has this task and it is unfinished."""
        return self._key(agent_url, task_id) in self._known

    async def send_task(
        self,
        agent_url: str | None,
        task: Task | Message | str,
        *,
        request_id: str | None = None,
        task_id: str | None = None,
        target: Target | None = None,
        expected_sequence: int = 0,
    ) -> Task:
        """Start or continue a task and wait until it ends or waits for input.

        Args:
            task: A new task, or a returned task with another message added. It is not modified, unless the client has a
                RuntimeTransport. A message or a text starts a new task, unless `task_id` is given.
            request_id: Idempotency key. A request with the same key returns the first request's task, whatever its content. None
                creates one for each call.
            task_id: The existing task to continue with a message or a text.
            target: "create" fails if the task's id exists, "continue" fails if it does not, "create_or_continue" accepts both.
                None means "create" for a message or a text alone, "continue" with `task_id` and for a task that waits at this
                agent, and "create_or_continue" for any other task.
            expected_sequence: The last event of the task that the caller has seen; 0 means any. If the task has newer events, the
                request is refused.

        Returns:
            The current task with its history. A failed task is returned, not raised: see `Task.raise_for_status`.

        Raises:
            TaskNotFoundError: The agent has no task with this id, or no longer has it.
            TaskAlreadyExistsError: The target is "create" and the id exists.
            SequenceConflictError: The last event of the task is not `expected_sequence`; the metadata has its `last_sequence`.
        """
        whole = _as_task(task, task_id)
        key = self._key(agent_url, whole.id)
        aim = self._choose_target(key, task, task_id, target)
        return await self._send(agent_url, whole, key, request_id, target=aim, expected=expected_sequence, wait=True)

    async def submit_task(
        self,
        agent_url: str | None,
        task: Task | Message | str,
        *,
        request_id: str | None = None,
        task_id: str | None = None,
        target: Target | None = None,
        expected_sequence: int = 0,
    ) -> Task:
        """Start or continue a task like `send_task`, and return as soon as the agent has accepted it."""
        whole = _as_task(task, task_id)
        key = self._key(agent_url, whole.id)
        aim = self._choose_target(key, task, task_id, target)
        return await self._send(agent_url, whole, key, request_id, target=aim, expected=expected_sequence, wait=False)

    async def _send(
        self,
        agent_url: str | None,
        task: Task,
        key: TaskKey,
        request_id: str | None,
        *,
        target: TaskTarget,
        expected: int,
        wait: bool,
    ) -> Task:
        agent, had = self._agent(agent_url), self._known.count(key, task)
        request, news = request_id or new_request_id(), unsent_part(task, had)
        try:
            sent = await agent.send(news, request, target=target, expected=expected, wait=wait, timeout_s=self.timeout)
        except TaskNotFoundError:
            self._known.forget(key)
            raise
        answer = join_response(task, had, sent) or await agent.get(sent.task.id, self.timeout)
        if self._transport_object is not None:
            self._transport_object.note_answer(task, answer)
        return self._remember_answer(agent_url, answer)

    def _choose_target(
        self, key: TaskKey, given: Task | Message | str, task_id: str | None, target: Target | None
    ) -> TaskTarget:
        """Return the target of a request for this task. Raises InvalidArgumentError if `target` is unknown."""
        if target is not None:
            try:
                return TaskTarget(target)
            except ValueError:
                raise InvalidArgumentError(f"must be one of {', '.join(get_args(Target))}", field="target") from None
        # A task that this agent had must still exist there. The state alone is not enough: the task may wait at another agent.
        if task_id is not None or key in self._known:
            return TaskTarget.CONTINUE
        return TaskTarget.CREATE_OR_CONTINUE if isinstance(given, Task) else TaskTarget.CREATE

    def _key(self, agent_url: str | None, task_id: str) -> TaskKey:
        url = agent_url or self.url or ""
        return url and comparable_url(url), task_id

    def _remember_answer(self, agent_url: str | None, answer: Task) -> Task:
        """Remember what the agent has of a task that it has just returned completely."""
        # Under the id in the response: a repeated request returns the task of the first one.
        self._known.remember_response(self._key(agent_url, answer.id), answer)
        return answer

    async def send_task_streaming(
        self,
        agent_url: str | None,
        task: Task | Message | str,
        *,
        request_id: str | None = None,
        task_id: str | None = None,
        target: Target | None = None,
        expected_sequence: int = 0,
        deltas: bool = False,
    ) -> AsyncGenerator[RunEvent, None]:
        """Start or continue a task and yield the events of this turn as they are committed, until it ends or waits.

        The stream is resumed after an interruption; each event is yielded exactly once.

        Args:
            task_id, target, expected_sequence: See `send_task`.
            deltas: Also yield the text that models are producing, as `llm.stream` events without a sequence, whose payload is a
                TextDelta. The deltas of one call are consecutive pieces of its text. After an `llm.call.started` of the same
                call, the text starts again. `llm.call.completed` has the complete text.

        A client with a transport object yields ProtoLink's events instead: see `protolink_grpc.transport`.
        """
        given, task = task, _as_task(task, task_id)
        convert = self._event_converter(agent_url, task)
        agent, request = self._agent(agent_url), request_id or new_request_id()
        key, sent = self._key(agent_url, task.id), KnownTask.of(task)
        news, aim = unsent_part(task, self._known.count(key, task)), self._choose_target(key, given, task_id, target)
        # A repeated request returns the task of the first one, even if the ids differ.
        watched, seen = task.id, 0

        def open_stream(after: int) -> AsyncGenerator[list[RunEvent], None]:
            if after:
                return agent.watch(watched, after, StopAt.INTERRUPTED, deltas=deltas, timeout_s=None)
            return agent.stream(news, request, target=aim, expected=expected_sequence, deltas=deltas, timeout_s=None)

        resumed = resumed_batches(open_stream, after=None, ends=SETTLED, outage_s=self.outage_s)
        try:
            async with aclosing(resumed) as batches:
                async for events in batches:
                    watched = events[0].task_id or watched
                    for event in events:
                        if not seen and event.task_id == task.id and last_message_of_turn(event) == sent.last_message:
                            self._known.remember(key, sent)
                        seen = event.sequence or seen
                        if event.state in TERMINAL:
                            self._known.forget(key)
                        if convert is None:
                            yield event
                        else:
                            for converted in await convert(event):
                                yield converted
        except TaskNotFoundError:
            self._known.forget(key)
            raise

    def _event_converter(self, agent_url: str | None, task: Task) -> Callable[[RunEvent], Awaitable[list[Any]]] | None:
        """Return the converter of a transport object for the stream of a task, or None without such an object."""
        transport = self._transport_object
        if transport is None:
            return None

        async def get_task(task_id: str) -> Task:
            answer = await self.get_task(task_id, agent_url=agent_url)
            transport.note_answer(task, answer)
            return answer

        return transport.event_converter(get_task)

    async def subscribe(
        self,
        task_id: str,
        *,
        agent_url: str | None = None,
        after: int = 0,
        stop_at: StopAt = StopAt.TERMINAL,
        deltas: bool = False,
    ) -> AsyncGenerator[RunEvent, None]:
        """Yield a task's events after a sequence: stored ones first, then live ones, each exactly once and in order.

        Args:
            after: Last sequence that the caller has; 0 means from the beginning.
            stop_at: Where the stream ends: at the first event after `after` that ends the task; at the first one that ends it or
                makes it wait; or at the last stored event. If the task waits and has no events after `after`, the stream covers
                its next turn. The stream of a finished task always ends. If the task was retried before the stream began, or
                before it was resumed after the end of the task, the retry follows.
            deltas: Also yield the text that models are producing, like `send_task_streaming`, beginning with the existing text.
        """
        agent = self._agent(agent_url)

        def open_stream(sequence: int) -> AsyncGenerator[list[RunEvent], None]:
            return agent.watch(task_id, sequence, stop_at, deltas=deltas, timeout_s=None)

        ends = SETTLED if stop_at is StopAt.INTERRUPTED else frozenset[TaskState]()
        resumed = resumed_batches(open_stream, after=after, ends=ends, outage_s=self.outage_s)
        async with aclosing(resumed) as batches:
            async for events in batches:
                for event in events:
                    yield event

    async def send_message(self, agent_url: str | None, message: Message | str) -> Message:
        """Send one message as a new task and return the agent's answer.

        Raises:
            TaskExecutionError: The task failed, was canceled, or ended without output; the error carries the task.
        """
        return answer_of(await self.send_task(agent_url, message))

    @overload
    async def ask(
        self,
        question: Message | str,
        *,
        output_type: type[Answer] = ...,
        agent_url: str | None = None,
        task_id: str | None = None,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
        request_id: str | None = None,
    ) -> Answer: ...
    @overload
    async def ask(
        self,
        question: Message | str,
        *,
        output_type: Any,
        agent_url: str | None = None,
        task_id: str | None = None,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
        request_id: str | None = None,
    ) -> Any: ...
    async def ask(
        self,
        question: Message | str,
        *,
        output_type: Any = str,
        agent_url: str | None = None,
        task_id: str | None = None,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
        request_id: str | None = None,
    ) -> Any:
        """Ask an agent, wait until its turn ends, and return the answer.

        Args:
            output_type: The type of the answer: a pydantic model, a dataclass, a TypedDict, an Enum, `int`, `list[Model]`, a
                Literal, a union. The agent's model gets its JSON Schema. With `str`, the question is an ordinary text.
            task_id: A task that waits for input, which the question answers. None starts a new task.
            session_id, budget, context: As in `Task.create`.
            request_id: As in `send_task`.

        Raises:
            TaskExecutionError: The task failed, was canceled, rejected, ended without an answer, or waits for input. `task` is the
                task and `metadata["state"]` its state; to answer a question of the agent, ask with the `task_id`.
            InvalidAgentResponseError: The answer is not a valid `output_type`, for instance because the agent has no model; names
                the field.
            InvalidArgumentError: No JSON Schema can describe `output_type`.
        """
        task = question_task(question, output_type, session_id=session_id, budget=budget, context=context)
        aim: Target = "create"
        if task_id is not None:
            task, aim = replace(task, id=task_id), "continue"
        answer = await self.send_task(agent_url, task, request_id=request_id, target=aim)
        return read_answer(answer, output_type)

    async def get_task(self, task_id: str, *, agent_url: str | None = None) -> Task:
        """Return the complete current task."""
        return self._remember_answer(agent_url, await self._agent(agent_url).get(task_id, self.timeout))

    async def list_tasks(
        self,
        *,
        agent_url: str | None = None,
        states: Sequence[TaskState | str] = (),
        session_id: str = "",
        updated_after: str = "",
        page_size: int = 0,
        page_token: str = "",
        include_total: bool = False,
    ) -> TaskList:
        """Return one page of the caller's tasks, most recently changed first.

        Args:
            updated_after: ISO 8601.
            include_total: Also count the matching tasks on all pages. This is slow for large numbers of tasks.
        """
        if updated_after:
            micros_from_iso(updated_after, field="updated_after")
        wanted = ListFilter(
            tuple(parse_state(state, field="states") for state in states),
            session_id,
            updated_after,
            page_size,
            page_token,
            include_total,
        )
        return await self._agent(agent_url).list(wanted, self.timeout)

    async def cancel_task(self, agent_url: str | None, task_id: str, *, reason: str | None = None) -> Task:
        """Cancel a task and return it."""
        return await self._agent(agent_url).cancel(task_id, reason or "", self.timeout)

    async def wait_task(self, task_id: str, *, agent_url: str | None = None) -> Task:
        """Wait until a task ends or waits for input, across interruptions and restarts, and return it."""
        agent = self._agent(agent_url)
        after = 0
        while (task := await agent.get(task_id, self.timeout)).state not in SETTLED:
            # An earlier turn may have ended waiting for input, which ends the subscription too: continue after each of those.
            async for event in self.subscribe(task_id, agent_url=agent_url, after=after, stop_at=StopAt.INTERRUPTED):
                after = event.sequence or after
        return self._remember_answer(agent_url, task)


def _as_task(given: Task | Message | str, task_id: str | None) -> Task:
    """Convert the input to a task, with `task_id` if given. Raises InvalidArgumentError for a task with another id."""
    task = Task.of(given)
    if task_id is None or task.id == task_id:
        return task
    if not task_id or isinstance(given, Task):
        raise InvalidArgumentError("must be the id of the given task, or be given with a message", field="task_id")
    return replace(task, id=task_id)


def answer_of(task: Task) -> Message:
    """Return the agent's last message in a task, or its last artifact as a message if there is no message.

    Raises:
        TaskExecutionError: The task failed, was canceled, or ended without output; the error carries the task.
    """
    task.raise_for_status()
    for index in range(len(task.messages) - 1, -1, -1):
        if task.messages[index].role in ("agent", "assistant"):
            return task.messages[index]
    if task.artifacts:
        return Message(role="agent", parts=[_to_text_part(part) for part in task.artifacts[-1].parts])
    raise TaskExecutionError(f"task {task.id} ended without an answer", task=task, task_id=task.id)


def _to_text_part(part: Part) -> Part:
    """Convert a part with a model's answer to a text part. Other parts are returned unchanged."""
    return Part.text(part.content) if part.type == "infer_output" and isinstance(part.content, str) else part
