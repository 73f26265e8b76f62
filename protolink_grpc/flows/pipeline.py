"""Pipeline: steps one after the other."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.errors import BudgetExceededError, InvalidArgumentError
from protolink_grpc.flows.description import Edge, FlowDescription, join
from protolink_grpc.flows.flow import Flow, Ports
from protolink_grpc.flows.results import COMPLETED, Ending, StepResult
from protolink_grpc.flows.scope import Scope
from protolink_grpc.flows.steps import FlowTarget, as_flow
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.task import Task
from protolink_grpc.storage.port import TaskStore


@checks_arguments
class Pipeline(Flow):
    """Steps one after the other. Each one receives the task with the results of those before it.

    Args:
        steps: More can be added with `add_step`.
        max_steps: The pipeline fails instead of beginning another step after so many.
    """

    kind = "pipeline"

    def __init__(
        self,
        steps: Iterable[FlowTarget] | None = None,
        client: AgentClient | None = None,
        registry: Any = None,
        *,
        max_steps: int | None = None,
        name: str = "",
        store: TaskStore | None = None,
    ) -> None:
        super().__init__(client, registry, name=name, store=store)
        if max_steps is not None and max_steps < 0:
            raise InvalidArgumentError("must not be negative", field="max_steps")
        self.max_steps = max_steps
        self.steps: list[Flow] = []
        for step in steps or ():
            self.add_step(step)

    def add_step(self, step: FlowTarget) -> Self:
        """Add a step at the end and return the pipeline."""
        self.steps.append(as_flow(step))
        return self

    def check(self) -> None:
        if not self.steps:
            raise InvalidArgumentError("a pipeline needs a step", field="steps")

    async def _advance(self, work: Task, scope: Scope) -> Ending:
        for index, step in enumerate(self.steps):
            if self.max_steps is not None and index >= self.max_steps:
                raise BudgetExceededError(f"pipeline {self.name} has more than {self.max_steps} steps")
            changes: dict[str, Any] = {}
            if index + 1 < len(self.steps):
                changes = {"receiver": self.steps[index + 1], "is_last": False}
            ending = await step.run(work, scope.at(_name(index, step), **changes))
            if not ending.is_completed:
                return ending
        return COMPLETED

    async def introduce(self, scope: Scope) -> str:
        return await self.steps[0].introduce(scope)

    def receive(self, result: StepResult) -> StepResult:
        return self.steps[0].receive(result)

    async def label(self, scope: Scope) -> str:
        return await self.steps[0].label(scope)

    def _draw(self, into: FlowDescription, path: str) -> tuple[Ports, Ports]:
        return draw_in_a_row(self.steps, into, path)


def draw_in_a_row(steps: Sequence[Flow], into: FlowDescription, path: str) -> tuple[Ports, Ports]:
    """Add steps with an edge from each to the next one."""
    first: Ports = []
    last: Ports = []
    for index, step in enumerate(steps):
        entries, exits = step._draw(into, join(path, _name(index, step)))
        if index == 0:
            first = entries
        else:
            into.edges += [Edge(a, b, label or own) for a, label in last for b, own in entries]
        last = exits
    return first, last


def _name(index: int, step: Flow) -> str:
    return f"{index}:{step.name}"
