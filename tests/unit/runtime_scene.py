"""A context for actions that keeps every fact in a list, and the facts that were committed at each request for an approval."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from protolink_grpc.errors import ToolFailedError
from protolink_grpc.models.action import ApprovalDecision, ApprovalRequest
from protolink_grpc.models.cancellation import CancellationToken
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.context import RunBudget, RunContext
from protolink_grpc.models.events import ApprovalDecided, Payload, RunEvent
from protolink_grpc.models.references import References
from protolink_grpc.policy.budget import BudgetEnforcer
from protolink_grpc.runtime.actions.delegation import Actions
from protolink_grpc.runtime.actions.gate import Gate
from protolink_grpc.runtime.controls import no_approver_error
from protolink_grpc.runtime.journal import ActionRecord, Journal
from protolink_grpc.tools.tool import Tool
from protolink_grpc.tools.toolbox import Toolbox

Answers = Callable[[ApprovalRequest], ApprovalDecision]

FIRST_MICROS = 1_700_000_000_000_000


def at(events: Iterable[Any], *, first: int = 1) -> list[RunEvent]:
    """Facts as a log has them: one second apart."""
    made = (each if isinstance(each, RunEvent) else RunEvent(payload=each) for each in events)
    return [
        replace(event, sequence=sequence, timestamp=iso_from_micros(FIRST_MICROS + sequence * 1_000_000))
        for sequence, event in enumerate(made, first)
    ]


class ActionContext:
    """`runtime.gate.ActionContext` without a run.

    Args:
        answers: The approver; None means that no approver is configured.
        journal: What earlier runs did.

    Attributes:
        log: The facts, oldest first.
        committed: How many of them had to be on disk so far.
        asked: The questions that were put to `answers`, each with the number of facts on disk by then.
    """

    def __init__(
        self,
        answers: Answers | None = None,
        *,
        context: RunContext | None = None,
        budget: RunBudget | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.token = CancellationToken()
        self.context = context or RunContext(run_id="run-1", session_id="session-1", agent_chain=["agent"])
        self.budget = BudgetEnforcer(budget or RunBudget(), usage=None if journal is None else journal.usage)
        self.task_id = "task-1"
        self.principal = "ann"
        self.log: list[RunEvent] = []
        self.committed = 0
        self.asked: list[tuple[ApprovalRequest, int]] = []
        self.answers = answers
        self.on_emit: Callable[[RunEvent], None] = lambda event: None
        self._journal = journal

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.log]

    def payload(self, kind: str) -> Any:
        """The payload of the only event of that type, as a reader of the whole log sees it."""
        references = References()
        (event,) = [each for each in map(references.whole, self.log) if each.type == kind]
        return event.payload

    def action_record(self, position: str) -> ActionRecord | None:
        return None if self._journal is None else self._journal.actions.get(position)

    async def emit(self, item: Payload | RunEvent) -> None:
        event = item if isinstance(item, RunEvent) else RunEvent(payload=item)
        self.log.append(event)
        self.on_emit(event)

    async def flush(self) -> None:
        self.committed = len(self.log)

    async def wait_while_paused(self) -> None:
        return

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        self.asked.append((request, self.committed))
        if self.answers is None:
            raise no_approver_error(request)
        decision = self.answers(request)
        await self.emit(RunEvent(payload=ApprovalDecided(decision), action_id=request.action.action_id))
        return decision

    def report_failure(self, error: ToolFailedError, *, peer: bool = False) -> ToolFailedError:
        return error


def journal_of(*logs: list[RunEvent]) -> Journal:
    """What a run that takes over finds after those of `logs`, one per run."""
    journal = Journal()
    journal.take(at(event for log in logs for event in log))
    return journal


def actions_of(*tools: Tool, policy: Any = None, expires_s: float | None = None) -> Actions:
    toolbox = Toolbox()
    for tool in tools:
        toolbox.add(tool)
    return Actions(toolbox, Gate(policy, expires_s))


def yes(request: ApprovalRequest) -> ApprovalDecision:
    return ApprovalDecision(True, request.request_id, decided_by="ann")


def no(request: ApprovalRequest) -> ApprovalDecision:
    return ApprovalDecision(False, request.request_id, "not today", decided_by="ann")


@asynccontextmanager
async def nothing() -> AsyncIterator[None]:
    yield
