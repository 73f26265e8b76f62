"""Flow: work on a task in an order that the code decides. The base class of all flows, and what can be a step of one."""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, runtime_checkable

from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.errors import ProtolinkError, StoreError
from protolink_grpc.flows.description import END, START, Edge, FlowDescription, Node
from protolink_grpc.flows.prompts import next_step_prompt
from protolink_grpc.flows.results import Ending, StepResult
from protolink_grpc.flows.scope import Scope
from protolink_grpc.lazy import load
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunBudget, RunContext
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.task import Task
from protolink_grpc.net.background_loop import background
from protolink_grpc.storage.port import TaskStore


@runtime_checkable
class LocalTarget(Protocol):
    """An Agent object."""

    card: AgentCard

    async def run_task(self, task: Any) -> Task: ...


class Flow:
    """Work on a task in a fixed order. Use a subclass.

    A flow is executed by a run of an agent, and its progress is in the log of this run: `Agent(flow=...)` makes an agent whose
    handler is the flow. Without such an agent, `execute` runs the flow on a small agent of its own in this process.

    Args:
        client: The client for calls to agents; by default that of the agent or of the flow around this one.
        registry: The registry for names of agents; by default that of the agent or of the flow around this one.
        name: The name in events and descriptions.
        store: The store of the flow's own agent, for `execute`; by default in memory. With a durable store, a flow of an earlier
            process continues when `execute` is called with a task of the same id.
    """

    kind: ClassVar[str] = "flow"

    def __init__(
        self,
        client: AgentClient | None = None,
        registry: Any = None,
        *,
        name: str = "",
        store: TaskStore | None = None,
    ) -> None:
        self.client = client
        self.registry = registry
        self.name = name or self.kind
        self.store = store
        self._own_agent: Any = None

    # -- For callers -----------------------------------------------------------------------------------------------------

    async def execute(self, task: Task) -> Task:
        """Execute the flow for a task and return the task when it has ended or waits for input.

        A task that waits is continued with the returned task and one more message. Within a handler the flow is a part of the
        handler's run. If this call is canceled, the flow is canceled, too.
        """
        execute = load("protolink_grpc.agent.flow_host:execute_flow")
        done: Task = await execute(self, task)
        return done

    async def invoke(
        self,
        prompt: str,
        *,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Any:
        """Execute the flow for a prompt and return its output.

        Raises:
            TaskExecutionError: The flow failed, was rejected or was canceled; carries the task.
        """
        task = Task.create_infer(prompt=prompt, session_id=session_id, budget=budget, context=context)
        return (await self.execute(task)).raise_for_status().get_output()

    @property
    def sync(self) -> "SyncFlow":
        """The same methods for code that does not await."""
        return SyncFlow(self)

    def own_agent(self, create: Callable[["Flow"], Any]) -> Any:
        """Return the agent that executes this flow for `execute`."""
        if self._own_agent is None:
            self._own_agent = create(self)
        return self._own_agent

    async def aclose(self) -> None:
        """Stop the flow's own agent, if `execute` has started it."""
        agent, self._own_agent = self._own_agent, None
        if agent is not None:
            await agent.aclose()

    def describe(self) -> FlowDescription:
        """Return the nodes and edges of the flow. The ids of nodes are the paths in its events."""
        description = FlowDescription(self.name, self.kind)
        first, last = self._draw(description, "")
        description.edges[:0] = [Edge(START, node, label) for node, label in first]
        description.edges += [Edge(node, END, label) for node, label in last]
        return description

    # -- For flows -------------------------------------------------------------------------------------------------------

    async def run(self, work: Task, scope: Scope) -> Ending:
        """Execute this part of a flow: change `work` and return how the part ended, or that it waits."""
        if self.client is not None or self.registry is not None:
            scope = scope.connected(self.client, self.registry)
        if scope.path:
            await scope.report("workflow.node.started", kind=self.kind)
        try:
            ending = await self._advance(work, scope)
        except StoreError:
            raise
        except ProtolinkError as error:
            scope.run.token.raise_if_cancelled()
            ending = Ending(TaskState.FAILED, scope.run.describe_failure(error), path=scope.path)
        except BaseException:
            if scope.is_cut and scope.path:
                await scope.report("workflow.node.abandoned")
            raise
        if scope.path:
            await scope.report_end(ending)
        return ending

    async def _advance(self, work: Task, scope: Scope) -> Ending:
        raise NotImplementedError

    async def introduce(self, scope: Scope) -> str:
        """Return the flow prompt for the step before this part."""
        return next_step_prompt(await self.label(scope))

    def receive(self, result: StepResult) -> StepResult:
        """Return the result of the step before this part in the form that this part reads."""
        return result

    async def label(self, scope: Scope) -> str:
        """Return a short description for prompts."""
        return self.name

    def check(self) -> None:
        """Raise InvalidArgumentError if the flow cannot be executed."""

    def _draw(self, into: FlowDescription, path: str) -> tuple["Ports", "Ports"]:
        """Add the nodes and edges of this part. Return its first nodes, and its last ones, each with the label of its edge."""
        node = Node(path or self.name, self.name, self.kind, self._shown_target())
        into.nodes.append(node)
        return [(node.id, "")], [(node.id, "")]

    def _shown_target(self) -> str:
        return ""


Ports = list[tuple[str, str]]


class SyncFlow:
    """A flow for code that does not await. It runs on the background event loop of the process."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def execute(self, task: Task) -> Task:
        """As `Flow.execute`."""
        return background.run(self._flow.execute(task))

    def invoke(
        self,
        prompt: str,
        *,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Any:
        """As `Flow.invoke`."""
        return background.run(self._flow.invoke(prompt, session_id=session_id, budget=budget, context=context))

    def close(self) -> None:
        """As `Flow.aclose`."""
        background.run(self._flow.aclose())
