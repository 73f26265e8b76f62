"""Calls to other agents.

A call within a run is recorded in its log, counts against its budget and is canceled with it.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar, cast, overload

import grpc
import grpc.aio

from protolink_grpc.agent.peer_stubs import PeerChannel
from protolink_grpc.agent.peer_tasks import PeerTasks
from protolink_grpc.agent.relay import Give, relay
from protolink_grpc.client.questions import Answer, question_task, read_answer
from protolink_grpc.client.sync import SyncFacade
from protolink_grpc.client.task_calls import answer_of
from protolink_grpc.errors import TaskExecutionError
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunBudget, RunContext
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import ToolOutput
from protolink_grpc.models.task import Task
from protolink_grpc.net.background_loop import background
from protolink_grpc.runtime.actions.delegation import Actions, Relay
from protolink_grpc.runtime.actions.gate import AGENT_CALL
from protolink_grpc.runtime.default_handler import content_without_ids
from protolink_grpc.runtime.run import Run, current_run

S = TypeVar("S")


async def call_peer(actions: Actions, tasks: PeerTasks, target: str, task: Task, *, relay: Relay | None = None) -> Task:
    """Send a task to a peer. Within a run this is an action of the run."""
    run = current_run()
    if run is None:
        return await tasks.run(target, task, relay=relay)
    return await call_peer_of_run(run, actions, target, task, relay=relay)


async def call_peer_of_run(run: Run, actions: Actions, target: str, task: Task, *, relay: Relay | None = None) -> Task:
    """Send a task to a peer as an action of a run, found in its journal by the messages and their number."""
    asked = [content_without_ids(message.parts) for message in task.messages]
    return await actions.send(run, target, task, position=run.position(AGENT_CALL, target, asked), relay=relay)


async def stream_peer(
    actions: Actions, tasks: PeerTasks, target: str, task: Task, *, deltas: bool = False
) -> AsyncGenerator[RunEvent, None]:
    """Like `call_peer`, but yield the task's events as they arrive. Closing the stream does not cancel the task."""
    if current_run() is None:
        peer = await tasks.peers.find(target)
        with peer.explain_refusals():
            async with aclosing(peer.client.send_task_streaming(peer.url, task, deltas=deltas)) as stream:
                async for each in stream:
                    yield each
        return

    def send(give: Give[RunEvent]) -> Coroutine[Any, Any, Task]:
        return call_peer(actions, tasks, target, task, relay=Relay(give, deltas))

    async with aclosing(relay(send)) as events:
        async for event in events:
            yield event


async def message_peer(actions: Actions, tasks: PeerTasks, target: str, message: Message | str) -> Message:
    """Like `call_peer`, with one message as a separate task; return the answer."""
    return answer_of(await call_peer(actions, tasks, target, Task.create(message)))


class AgentPeer:
    """A peer, which is looked up at each call, because its address may change."""

    def __init__(self, target: str, tasks: PeerTasks, actions: Actions) -> None:
        self.target = target
        self._tasks = tasks
        self._actions = actions

    async def card(self) -> AgentCard:
        """Return the peer's card, requested from the peer itself."""
        peer = await self._tasks.peers.find(self.target)
        with peer.explain_refusals():
            return await peer.client.get_agent_card(peer.url)

    async def run_task(self, task: Task) -> Task:
        """Send a task and return it when it ends or waits."""
        return await call_peer(self._actions, self._tasks, self.target, task)

    def run_task_streaming(self, task: Task, *, deltas: bool = False) -> AsyncGenerator[RunEvent, None]:
        """Send a task and yield its events. With `deltas`, also yield the text that models are producing."""
        return stream_peer(self._actions, self._tasks, self.target, task, deltas=deltas)

    async def send_message(self, message: Message | str) -> Message:
        """Send one message and return the answer."""
        return await message_peer(self._actions, self._tasks, self.target, message)

    @overload
    async def ask(
        self,
        question: Message | str,
        *,
        output_type: type[Answer] = ...,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Answer: ...
    @overload
    async def ask(
        self,
        question: Message | str,
        *,
        output_type: Any,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Any: ...
    async def ask(
        self,
        question: Message | str,
        *,
        output_type: Any = str,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Any:
        """Ask the peer, wait until its turn ends, and return the answer. Arguments and errors as in `AgentClient.ask`.

        Within a run, this is an action of the run, like `run_task`. To answer a question of the peer, which the error carries as
        `task`, add a message to that task and call `run_task`.
        """
        task = question_task(question, output_type, session_id=session_id, budget=budget, context=context)
        return read_answer(await self.run_task(task), output_type)

    @overload
    def ask_sync(
        self,
        question: Message | str,
        *,
        output_type: type[Answer] = ...,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Answer: ...
    @overload
    def ask_sync(
        self,
        question: Message | str,
        *,
        output_type: Any,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Any: ...
    def ask_sync(
        self,
        question: Message | str,
        *,
        output_type: Any = str,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Any:
        """As `ask`, for code that does not await. In the thread of a tool, the question is an action of the tool's run."""
        asked = self.ask(question, output_type=output_type, session_id=session_id, budget=budget, context=context)
        return _wait(asked)

    async def call_tool(self, tool_name: str, /, **arguments: Any) -> Any:
        """Run one of the peer's tools and return its result.

        Raises:
            TaskExecutionError: It failed or was rejected. The error has the task, whose artifact contains the structured error.
        """
        task = (await self.run_task(Task.create_tool_call(tool_name, arguments))).raise_for_status()
        part = task.get_last_part()
        if part is None or not isinstance(part.content, ToolOutput):
            raise TaskExecutionError(f"task {task.id} has no tool output", task=task, task_id=task.id)
        return part.content.result

    def call_tool_sync(self, tool_name: str, /, **arguments: Any) -> Any:
        """As `call_tool`, for code that does not await. In the thread of a tool, the call is an action of the tool's run."""
        return _wait(self.call_tool(tool_name, **arguments))

    def stub(self, kind: Callable[[grpc.aio.Channel], S]) -> S:
        """Return a generated stub, such as `CalculatorStub`, whose calls go to this peer.

        Calls to a name rotate over its instances. Each call has a request id, so a retry never runs twice. Within a run, a call is
        an action of the run: it is in the log, has a share of the budget and is canceled with the run; a recovering run gets the
        first response. There, a call waits without a limit unless it has a `timeout`.
        """
        channel: Any = PeerChannel(self.target, self._tasks, self._actions)
        return kind(channel)

    def stub_sync(self, kind: Callable[[grpc.Channel], S]) -> S:
        """As `stub`, for code that does not await. In the thread of a tool, the calls are actions of the tool's run."""
        channel: Any = PeerChannel(self.target, self._tasks, self._actions)
        return cast(S, SyncFacade(kind(channel), _wait))


def _wait(work: Coroutine[Any, Any, Any]) -> Any:
    """Wait for a coroutine: on the loop of the run whose tool has this thread, or else on the background loop."""
    run = current_run()
    return background.run(work) if run is None else run.wait_for(work)
