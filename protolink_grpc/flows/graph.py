"""Graph: named nodes with edges, conditions and loops."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.errors import BudgetExceededError, InvalidArgumentError
from protolink_grpc.flows.description import END, Edge, FlowDescription, join
from protolink_grpc.flows.flow import Flow, Ports
from protolink_grpc.flows.results import COMPLETED, Ending, StepResult
from protolink_grpc.flows.scope import Scope
from protolink_grpc.flows.steps import FlowTarget, as_flow
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.task import Task
from protolink_grpc.storage.port import TaskStore

Condition = Callable[[Task], str | Awaitable[str]]

MAX_ITERATIONS = 50


@checks_arguments
class Graph(Flow):
    """Named nodes, of which one is executed after the other. The edge of a node leads to the next one; without an edge it is the
    last.

    A graph is checked when it becomes part of an agent or another flow, and before it is executed.

    Args:
        max_iterations: The graph fails instead of executing more nodes, repetitions included.
        max_node_visits: The same for each node: one limit, or limits by node.
    """

    kind = "graph"

    def __init__(
        self,
        client: AgentClient | None = None,
        registry: Any = None,
        *,
        max_iterations: int = MAX_ITERATIONS,
        max_node_visits: int | Mapping[str, int] | None = None,
        name: str = "",
        store: TaskStore | None = None,
    ) -> None:
        super().__init__(client, registry, name=name, store=store)
        if max_iterations < 1:
            raise InvalidArgumentError("must be positive", field="max_iterations")
        limits = [max_node_visits] if isinstance(max_node_visits, int) else [*(max_node_visits or {}).values()]
        if any(limit < 1 for limit in limits):
            raise InvalidArgumentError("must be positive", field="max_node_visits")
        self.max_iterations = max_iterations
        self.max_node_visits = max_node_visits
        self.nodes: dict[str, Flow] = {}
        self.edges: dict[str, str] = {}
        self.conditional_edges: dict[str, tuple[Condition, dict[str, str]]] = {}
        self.entry_point: str | None = None

    # -- Building --------------------------------------------------------------------------------------------------------

    def add_node(self, node_name: str, target: FlowTarget) -> Self:
        """Add a node and return the graph.

        Raises:
            InvalidArgumentError: The name is taken, or is `__END__`.
        """
        if not node_name or "/" in node_name or node_name == END or node_name in self.nodes:
            raise InvalidArgumentError(f"'{node_name}' is taken, reserved, empty, or contains '/'", field="node_name")
        self.nodes[node_name] = as_flow(target)
        return self

    def add_edge(self, from_node: str, to_node: str) -> Self:
        """Add an edge, to a node or to `__END__`, and return the graph.

        Raises:
            InvalidArgumentError: A node is unknown, or `from_node` has an edge already.
        """
        self._check_free(from_node)
        self._check_known(to_node, "to_node", ends=True)
        self.edges[from_node] = to_node
        return self

    def add_conditional_edge(self, from_node: str, condition_fn: Condition, path_map: Mapping[str, str]) -> Self:
        """Add edges of which a function chooses one, and return the graph.

        Args:
            condition_fn: Receives a copy of the task after `from_node` and returns a key of `path_map`. It is called once for each
                visit; the log keeps its decision.
            path_map: The next node, or `__END__`, by key.

        Raises:
            InvalidArgumentError: As `add_edge`.
        """
        self._check_free(from_node)
        if not path_map:
            raise InvalidArgumentError("must not be empty", field="path_map")
        for to_node in path_map.values():
            self._check_known(to_node, "path_map", ends=True)
        self.conditional_edges[from_node] = (condition_fn, dict(path_map))
        return self

    def set_entry_point(self, node_name: str) -> Self:
        """Set the first node and return the graph. Raises InvalidArgumentError if it is unknown."""
        self._check_known(node_name, "node_name")
        self.entry_point = node_name
        return self

    def _check_known(self, node: str, field: str, *, ends: bool = False) -> None:
        if node not in self.nodes and not (ends and node == END):
            known = ", ".join(self.nodes) or "none"
            raise InvalidArgumentError(f"'{node}' is not a node of the graph; the nodes are: {known}", field=field)

    def _check_free(self, from_node: str) -> None:
        self._check_known(from_node, "from_node")
        if from_node in self.edges or from_node in self.conditional_edges:
            kind = "an edge" if from_node in self.edges else "a conditional edge"
            raise InvalidArgumentError(
                f"'{from_node}' already has {kind}; a node has one kind of edge", field="from_node"
            )

    def check(self) -> None:
        """Check the whole graph.

        Raises:
            InvalidArgumentError: The entry point is missing, a node cannot be reached, or `max_node_visits` names an unknown node.
        """
        if self.entry_point is None:
            raise InvalidArgumentError("the graph has no entry point; call set_entry_point", field="entry_point")
        reached, open_nodes = set[str](), [self.entry_point]
        while open_nodes:
            node = open_nodes.pop()
            if node not in reached and node != END:
                reached.add(node)
                open_nodes += self._successors(node)
        unreachable = [node for node in self.nodes if node not in reached]
        if unreachable:
            raise InvalidArgumentError(
                f"no way leads from '{self.entry_point}' to: {', '.join(unreachable)}", field="nodes"
            )
        for node in self.max_node_visits if isinstance(self.max_node_visits, Mapping) else ():
            self._check_known(node, "max_node_visits")

    def _successors(self, node: str) -> list[str]:
        if node in self.conditional_edges:
            return [*self.conditional_edges[node][1].values()]
        return [self.edges.get(node, END)]

    # -- Execution -------------------------------------------------------------------------------------------------------

    async def _advance(self, work: Task, scope: Scope) -> Ending:
        node, visits = self.entry_point or END, Counter[str]()
        while node != END:
            visits[node] += 1
            self._check_limits(node, visits)
            number = visits[node]
            place = scope.at(node if number == 1 else f"{node}#{number}", **self._receiver(node))
            ending = await self.nodes[node].run(work, place)
            if not ending.is_completed:
                return ending
            node = await self._next(node, work, place)
        return COMPLETED

    def _check_limits(self, node: str, visits: Counter[str]) -> None:
        if visits.total() > self.max_iterations:
            raise BudgetExceededError(
                f"graph '{self.name}' executed {self.max_iterations} nodes without reaching its end (max_iterations)"
            )
        limits = self.max_node_visits
        limit = limits.get(node) if isinstance(limits, Mapping) else limits
        if limit is not None and visits[node] > limit:
            raise BudgetExceededError(f"graph '{self.name}' executed node '{node}' {limit} times (max_node_visits)")

    def _receiver(self, node: str) -> dict[str, Any]:
        """Return what the step of a node needs to know about the next one. Behind a condition, the next one is not known."""
        if node in self.conditional_edges:
            return {"receiver": None, "is_last": False}
        following = self.edges.get(node, END)
        return {} if following == END else {"receiver": self.nodes[following], "is_last": False}

    async def _next(self, node: str, work: Task, place: Scope) -> str:
        if node not in self.conditional_edges:
            return self.edges.get(node, END)
        condition, path_map = self.conditional_edges[node]
        key = await place.decide(work, condition)
        if key not in path_map:
            keys = ", ".join(path_map)
            raise InvalidArgumentError(
                f"the condition of node '{node}' returned {key!r}; the keys are: {keys}", field="path_map"
            )
        return path_map[key]

    # -- Prompts and pictures --------------------------------------------------------------------------------------------

    async def introduce(self, scope: Scope) -> str:
        return await self.nodes[self.entry_point or ""].introduce(scope)

    def receive(self, result: StepResult) -> StepResult:
        return self.nodes[self.entry_point or ""].receive(result)

    async def label(self, scope: Scope) -> str:
        return await self.nodes[self.entry_point or ""].label(scope)

    def _draw(self, into: FlowDescription, path: str) -> tuple[Ports, Ports]:
        drawn = {name: node._draw(into, join(path, name)) for name, node in self.nodes.items()}
        last: Ports = []
        for name, (_, exits) in drawn.items():
            conditional = self.conditional_edges.get(name)
            ways = conditional[1].items() if conditional is not None else [("", self.edges.get(name, END))]
            for key, to_node in ways:
                ports = [(node, key or label) for node, label in exits]
                if to_node == END:
                    last += ports
                else:
                    into.edges += [Edge(a, b, label or own) for a, label in ports for b, own in drawn[to_node][0]]
        return drawn[self.entry_point or ""][0], last
