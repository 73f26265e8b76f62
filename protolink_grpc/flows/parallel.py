"""Parallel: branches at the same time, whose results are merged in the order of the branches."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.flows.description import FlowDescription, join
from protolink_grpc.flows.flow import Flow, Ports
from protolink_grpc.flows.prompts import branches_prompt
from protolink_grpc.flows.results import COMPLETED, Ending, Given, StepResult, working_task
from protolink_grpc.flows.scope import Cut, Scope
from protolink_grpc.flows.steps import FlowTarget, as_flow
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.context import RunBudget
from protolink_grpc.models.task import Task
from protolink_grpc.policy.limits import smaller
from protolink_grpc.storage.port import TaskStore

BRANCH_ERRORS = "branch_errors"
"""Key of `Task.metadata` with the failures of branches under `on_error="collect"`: state and reason by the name of the branch."""


@checks_arguments
class Parallel(Flow):
    """Branches at the same time, each with its own copy of the task.

    New messages and artifacts are merged by id in the order of the branches. If two branches set the same metadata key, the later
    branch wins. Each branch may use an equal share of the rest of the run's budget.

    If several branches wait for input, the flow asks one question at a time, in the order of the branches.

    Args:
        on_error: "fail": the first branch that does not complete cancels the others and ends the flow with its reason. "collect":
            the others continue, and the failures are in `metadata["branch_errors"]`; the flow fails if no branch completes.
    """

    kind = "parallel"

    def __init__(
        self,
        branches: Iterable[FlowTarget],
        client: AgentClient | None = None,
        registry: Any = None,
        *,
        on_error: Literal["fail", "collect"] = "fail",
        name: str = "",
        store: TaskStore | None = None,
    ) -> None:
        super().__init__(client, registry, name=name, store=store)
        if on_error not in ("fail", "collect"):
            raise InvalidArgumentError("must be fail or collect", field="on_error")
        self.on_error = on_error
        self.branches = [as_flow(branch) for branch in branches]
        self.check()

    def check(self) -> None:
        if not self.branches:
            raise InvalidArgumentError("a parallel flow needs a branch", field="branches")

    def _names(self) -> list[str]:
        return [f"{index}:{branch.name}" for index, branch in enumerate(self.branches)]

    def _unique_names(self) -> list[str]:
        """Return the names of the branches, with an index if there are several with the same name."""
        count = Counter(branch.name for branch in self.branches)
        pairs = zip(self._names(), self.branches, strict=True)
        return [branch.name if count[branch.name] == 1 else indexed for indexed, branch in pairs]

    async def _advance(self, work: Task, scope: Scope) -> Ending:
        cut = Cut()
        share = _share_of(scope, len(self.branches))
        scopes = [scope.at(name, publishes=False, share=share, cuts=(*scope.cuts, cut)) for name in self._names()]
        copies = [working_task(work) for _ in scopes]
        endings = await self._run_branches(copies, scopes, cut)
        # All of them before the first merge, because they are differences to the task before the branches.
        results = [
            StepResult.of(work, copy, given=Given(copy, copy.messages, copy.artifacts))
            for copy, ending in zip(copies, endings, strict=True)
            if ending is not None
        ]
        for result in results:
            result.apply(work)
            if scope.publishes:
                await scope.flow.publish(result)
        return self._join(work, scope, endings)

    def _is_open(self, scope: Scope, scopes: list[Scope]) -> bool:
        """Return whether a branch is to be executed. After a crash, it is not if it would only be canceled again."""
        if scope.has_reported("abandoned"):
            return False
        has_failed = self.on_error == "fail" and any(each.has_reported("failed", "canceled") for each in scopes)
        return not has_failed or scope.has_reported("completed", "failed", "canceled")

    async def _run_branches(self, copies: list[Task], scopes: list[Scope], cut: Cut) -> list[Ending | None]:
        """Run the branches and return their ends; None for a branch that was canceled because of another one."""
        running = {
            index: asyncio.ensure_future(branch.run(copies[index], scopes[index]))
            for index, branch in enumerate(self.branches)
            if self._is_open(scopes[index], scopes)
        }
        try:
            pending = set(running.values())
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                raised = [each for each in done if not each.cancelled() and each.exception() is not None]
                if raised:
                    cut.reason = "another branch of the flow failed"
                    raise raised[0].exception() or AssertionError
                if self.on_error == "fail" and any(_has_failed(each) for each in done):
                    break
            if pending:
                cut.reason = "another branch of the flow failed"
        finally:
            for each in running.values():
                each.cancel()
            if running:
                await asyncio.wait(running.values())
        found: list[Ending | None] = [None] * len(scopes)
        for index, each in running.items():
            if not each.cancelled():
                found[index] = each.result()
        return found

    def _join(self, work: Task, scope: Scope, endings: list[Ending | None]) -> Ending:
        failed = [
            (name, ending)
            for name, ending in zip(self._unique_names(), endings, strict=True)
            if ending is not None and not ending.is_completed and not ending.is_waiting
        ]
        waiting = [ending for ending in endings if ending is not None and ending.is_waiting]
        if failed and self.on_error == "fail":
            for ending in waiting:
                for target, task_id in ending.waiting:
                    scope.connection.cancel(target, task_id, "another branch of the flow failed")
            return failed[0][1]
        if waiting:
            return replace(waiting[0], waiting=tuple(pair for each in waiting for pair in each.waiting))
        if failed:
            work.metadata[BRANCH_ERRORS] = {
                name: {"state": ending.state.value, "reason": ending.reason} for name, ending in failed
            }
            if len(failed) == len(endings):
                return failed[0][1]
        return COMPLETED

    async def introduce(self, scope: Scope) -> str:
        return branches_prompt([await branch.label(scope) for branch in self.branches])

    async def label(self, scope: Scope) -> str:
        return " and ".join([await branch.label(scope) for branch in self.branches])

    def _draw(self, into: FlowDescription, path: str) -> tuple[Ports, Ports]:
        first: Ports = []
        last: Ports = []
        for name, branch in zip(self._names(), self.branches, strict=True):
            entries, exits = branch._draw(into, join(path, name))
            first += entries
            last += exits
        return first, last


def _has_failed(branch: "asyncio.Task[Ending]") -> bool:
    if branch.cancelled():
        return True
    ending = branch.result()
    return not ending.is_completed and not ending.is_waiting


def _share_of(scope: Scope, branches: int) -> RunBudget | None:
    """Return the part of the budget for each branch: an equal share of the rest, at least one of each; None without limits."""
    rest = scope.run.budget.remainder()
    own = scope.share
    limits: dict[str, Any] = {}
    for name in ("max_steps", "max_llm_calls", "max_tool_calls", "max_input_tokens", "max_output_tokens"):
        left = getattr(rest, name)
        if own is not None:
            left = smaller(left, getattr(own, name))
        limits[name] = None if left is None else -(-left // branches)
    cost = rest.max_cost
    if own is not None and own.max_cost is not None and (cost is None or own.max_cost.micros < cost.micros):
        cost = own.max_cost
    if cost is not None:
        cost = replace(cost, micros=-(-cost.micros // branches))
    budget = RunBudget(**limits, max_cost=cost)
    return None if budget == RunBudget() else budget
