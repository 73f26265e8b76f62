"""The steps of flows: functions, agents and tools. `as_flow` makes a step of each kind of target."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.errors import InvalidArgumentError, ProtolinkError, ToolFailedError, error_text
from protolink_grpc.flows.flow import Flow, LocalTarget
from protolink_grpc.flows.prompts import prompt_for
from protolink_grpc.flows.results import Ending, Given, StepResult, copy_task
from protolink_grpc.flows.scope import Scope, StepCall
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.part import ToolCall
from protolink_grpc.models.task import Task


@checks_arguments
class Step(Flow):
    """A function as a step.

    Args:
        handler: Receives a copy of the flow's task, and returns it or another task. New messages, artifacts and metadata of the
            returned task are added to the flow's. None means the received task. A function that is not async runs in a thread.
        idempotent: A second call has no further effect, so a call that a crash interrupted is repeated. Otherwise a person must
            approve the repetition.
    """

    kind = "step"

    def __init__(
        self,
        handler: Callable[[Task], Task | Awaitable[Task | None] | None],
        *,
        name: str = "",
        idempotent: bool = False,
    ) -> None:
        if not callable(handler):
            raise InvalidArgumentError("must be a function", field="handler")
        super().__init__(name=name or getattr(handler, "__name__", type(handler).__name__))
        self.handler = handler
        self.idempotent = idempotent
        self._is_async = inspect.iscoroutinefunction(handler)

    async def _advance(self, work: Task, scope: Scope) -> Ending:
        async def leaf(scope: Scope, work: Task, call: StepCall) -> StepResult:
            return await scope.perform_function(work, call, self.name, self._call, idempotent=self.idempotent)

        return await scope.take(leaf, work)

    async def _call(self, work: Task) -> StepResult:
        task = copy_task(work)
        given = Given(task, task.messages, task.artifacts)
        try:
            done: Any = self.handler(task) if self._is_async else await asyncio.to_thread(self.handler, task)
            if inspect.isawaitable(done):
                done = await done
        except ProtolinkError:
            raise
        except Exception as error:
            kind = type(error).__name__
            message = f"step '{self.name}' failed: {kind}: {error_text(error)}"
            raise ToolFailedError(message, tool=self.name, error_type=kind) from error
        if done is None:
            done = task
        if not isinstance(done, Task):
            raise ToolFailedError(
                f"step '{self.name}' must return a Task or None, not {type(done).__name__}", tool=self.name
            )
        return StepResult.of(work, done, given=given)

    async def label(self, scope: Scope) -> str:
        about = inspect.getdoc(self.handler) if inspect.isfunction(self.handler) else None
        first = (about or "").partition("\n")[0]
        return f"{self.name}: {first}" if first else self.name


class AgentStep(Flow):
    """An agent as a step: an Agent object, or the name or URL of an agent."""

    kind = "agent"

    def __init__(
        self, agent: LocalTarget | str, *, client: AgentClient | None = None, registry: Any = None, name: str = ""
    ) -> None:
        shown = agent if isinstance(agent, str) else agent.card.name
        if not shown or shown.isspace():
            raise InvalidArgumentError("must be an agent, or its name or URL", field="target")
        super().__init__(client, registry, name=name or shown.partition("://")[2] or shown)
        self.agent = agent
        self.agent_name = shown

    async def _advance(self, work: Task, scope: Scope) -> Ending:
        target = await self.target(scope)

        async def leaf(scope: Scope, work: Task, call: StepCall) -> StepResult:
            prompt = await prompt_for(scope) if call.waiting is None else ""
            return await scope.perform_call(work, call, self.agent_name, target, self._tool_call(work), prompt)

        return await scope.take(leaf, work)

    def _tool_call(self, work: Task) -> ToolCall | None:
        """Return the tool call to send; None sends the output of the step before."""
        return None

    async def target(self, scope: Scope) -> str:
        """Return the name or URL for calls."""
        return self.agent if isinstance(self.agent, str) else await scope.flow.host.address(self.agent)

    async def label(self, scope: Scope) -> str:
        card: AgentCard | None
        if isinstance(self.agent, str):
            card = await scope.connection.card(self.agent)
        else:
            card = self.agent.card
        if card is None:
            return self.name
        skills = "; ".join(
            f"{skill.id}: {skill.description}" if skill.description else skill.id for skill in card.skills
        )
        return f"{card.name}: {card.description}" + (f" Skills: {skills}" if skills else "")

    def _shown_target(self) -> str:
        return self.agent_name


@checks_arguments
class ToolStep(AgentStep):
    """A call of one tool of an agent as a step. Its output is an artifact of the task.

    Args:
        agent: An Agent object, or the name or URL of an agent.
        args: The arguments, or a function that returns them for the task.
    """

    kind = "tool"

    def __init__(
        self,
        agent: LocalTarget | str,
        tool_name: str,
        args: Mapping[str, Any] | Callable[[Task], Mapping[str, Any]] | None = None,
        *,
        client: AgentClient | None = None,
        registry: Any = None,
        name: str = "",
    ) -> None:
        super().__init__(agent, client=client, registry=registry, name=name or tool_name)
        self.tool_name = tool_name
        self.args = args

    def _tool_call(self, work: Task) -> ToolCall | None:
        args: Any = self.args(copy_task(work)) if callable(self.args) else self.args
        if args is not None and not isinstance(args, Mapping):
            raise InvalidArgumentError("must be a mapping, or return one", field="args")
        return ToolCall(self.tool_name, plain(dict(args or {})))

    async def label(self, scope: Scope) -> str:
        return f"the tool {self.tool_name} of {self.agent_name}"


FlowTarget: TypeAlias = Flow | LocalTarget | str | Callable[[Task], Any]
"""What can be a step: a flow, an Agent, the name or URL of an agent, or a function from Task to Task."""


def as_flow(target: FlowTarget) -> Flow:
    """Return a target as a flow.

    Raises:
        InvalidArgumentError: The value cannot be a step.
    """
    if isinstance(target, Flow):
        target.check()
        return target
    if isinstance(target, str) or (isinstance(target, LocalTarget) and isinstance(target.card, AgentCard)):
        return AgentStep(target)
    if callable(target):
        return Step(target)
    raise InvalidArgumentError(
        f"a step is a flow, an Agent, the name or URL of an agent, or a function, not {type(target).__name__}",
        field="target",
    )
