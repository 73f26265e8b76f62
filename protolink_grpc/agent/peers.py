"""Other agents as an agent sees them: by URL or by name, calls made inside a run marked as its children."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.client.registry_client import RegistryClient
from protolink_grpc.errors import AgentNotFoundError, TaskExecutionError
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import CONTEXT_KEY
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import ToolOutput
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.background import background
from protolink_grpc.runtime.run import current_run


class Peers:
    """Finds and calls peers."""

    def __init__(self, client: AgentClient, registry: RegistryClient | None) -> None:
        self.client = client
        self._registry = registry

    async def url_of(self, target: str) -> str:
        """The URL of a peer.

        Raises:
            AgentNotFoundError: The registry has no such name, or there is no registry.
            AmbiguousAgentError: Several agents have that name.
        """
        if "://" in target:
            return target
        if self._registry is None:
            raise AgentNotFoundError(
                f"{target!r} is a name and this agent has no registry; use a URL, or give the agent a registry",
                name=target,
            )
        return (await self._registry.get(target)).card.url

    async def discover(self, filter_by: dict[str, Any] | None) -> list[AgentCard]:
        """Cards of the agents in the registry that match; none without a registry."""
        return [] if self._registry is None else await self._registry.discover(filter_by)

    async def call(self, target: str, task: Task) -> Task:
        """Send a task and return it when it ends or waits."""
        return await self.client.send_task(await self.url_of(target), _as_child(task))

    async def stream(self, target: str, task: Task) -> AsyncGenerator[RunEvent, None]:
        """Send a task and yield its events."""
        async with aclosing(self.client.send_task_streaming(await self.url_of(target), _as_child(task))) as events:
            async for event in events:
                yield event

    async def message(self, target: str, message: Message | str) -> Message:
        """Send one message and return the answer."""
        return await self.client.send_message(await self.url_of(target), message)


def _as_child(task: Task) -> Task:
    """Inside a run, mark a task that has no context of its own as that run's child."""
    run = current_run()
    if run is not None and run.task_id != task.id and CONTEXT_KEY not in task.metadata:
        run.context.child().attach_to_task(task)
    return task


class AgentPeer:
    """One peer, looked up at each call: it may move between two of them."""

    def __init__(self, target: str, peers: Peers) -> None:
        self.target = target
        self._peers = peers

    async def card(self) -> AgentCard:
        """The peer's card, asked from the peer itself."""
        return await self._peers.client.get_agent_card(await self._peers.url_of(self.target))

    async def run_task(self, task: Task) -> Task:
        """Send a task and return it when it ends or waits."""
        return await self._peers.call(self.target, task)

    def run_task_streaming(self, task: Task) -> AsyncGenerator[RunEvent, None]:
        """Send a task and yield its events."""
        return self._peers.stream(self.target, task)

    async def send_message(self, message: Message | str) -> Message:
        """Send one message and return the answer."""
        return await self._peers.message(self.target, message)

    async def call_tool(self, tool_name: str, /, **arguments: Any) -> Any:
        """Run one of the peer's tools and return its result.

        Raises:
            TaskExecutionError: It failed or was rejected; carries the task, with the structured error in its artifact.
        """
        task = (await self.run_task(Task.create_tool_call(tool_name, arguments))).raise_for_status()
        part = task.get_last_part()
        if part is None or not isinstance(part.content, ToolOutput):
            raise TaskExecutionError(f"task {task.id} has no tool output", task=task, task_id=task.id)
        return part.content.result

    def call_tool_sync(self, tool_name: str, /, **arguments: Any) -> Any:
        """`call_tool` for code that does not await."""
        return background.run(self.call_tool(tool_name, **arguments))
