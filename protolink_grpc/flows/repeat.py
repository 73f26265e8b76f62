"""RepeatUntil: a step that is repeated until checks accept its result."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.errors import BudgetExceededError, InvalidArgumentError
from protolink_grpc.flows.description import Edge, FlowDescription, join
from protolink_grpc.flows.flow import Flow, Ports
from protolink_grpc.flows.results import COMPLETED, Ending, StepResult, copy_task
from protolink_grpc.flows.scope import Scope
from protolink_grpc.flows.steps import FlowTarget, as_flow
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.task import Task
from protolink_grpc.storage.port import TaskStore

Check = Callable[[Task], bool | Awaitable[bool]]


@checks_arguments
class RepeatUntil(Flow):
    """A step that is repeated until all checks pass. A step that fails or is canceled is not repeated.

    Args:
        checks: Functions that receive a copy of the task after the step and return whether they accept it. Each one is called once
            for each attempt; the log keeps the results.
        max_attempts: The flow fails after so many attempts, the first one included.
    """

    kind = "repeat"

    def __init__(
        self,
        step: FlowTarget,
        checks: Check | Sequence[Check],
        *,
        max_attempts: int,
        client: AgentClient | None = None,
        registry: Any = None,
        name: str = "",
        store: TaskStore | None = None,
    ) -> None:
        super().__init__(client, registry, name=name, store=store)
        if isinstance(max_attempts, bool) or max_attempts < 1:
            raise InvalidArgumentError("must be a positive integer", field="max_attempts")
        self.step = as_flow(step)
        self.checks: list[Check] = [checks] if callable(checks) else list(checks)
        if not self.checks:
            raise InvalidArgumentError("must contain a check", field="checks")
        self.max_attempts = max_attempts

    async def _advance(self, work: Task, scope: Scope) -> Ending:
        failed: list[str] = []
        for number in range(1, self.max_attempts + 1):
            place = scope.at(self.step.name if number == 1 else f"{self.step.name}#{number}")
            ending = await self.step.run(work, place)
            if not ending.is_completed:
                return ending
            failed = await place.decide(work, self._failed_checks)
            if not failed:
                return COMPLETED
        raise BudgetExceededError(
            f"step '{self.step.name}' was executed {self.max_attempts} times and does not pass: {', '.join(failed)}"
        )

    async def _failed_checks(self, task: Task) -> list[str]:
        """Return the names of the checks that do not accept the task."""
        failed = []
        for check in self.checks:
            accepted: Any = check(copy_task(task))
            if not (accepted if isinstance(accepted, bool) else await accepted):
                failed.append(getattr(check, "__name__", type(check).__name__))
        return failed

    async def introduce(self, scope: Scope) -> str:
        return await self.step.introduce(scope)

    def receive(self, result: StepResult) -> StepResult:
        return self.step.receive(result)

    async def label(self, scope: Scope) -> str:
        return await self.step.label(scope)

    def _draw(self, into: FlowDescription, path: str) -> tuple[Ports, Ports]:
        entries, exits = self.step._draw(into, join(path, self.step.name))
        into.edges += [Edge(a, b, "repeat") for a, _ in exits for b, _ in entries]
        return entries, exits
