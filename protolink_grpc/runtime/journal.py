"""What earlier runs of a turn have done: the part of the log that a new run needs in order to go on where they stopped.

A run that takes over does the same work again, from the start; but whatever is in the journal is not done a second time: a model's
answer is taken from there, and so is the outcome of an action. Only a recovered run reads one; all others begin with nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from protolink_grpc.models.action import ApprovalDecision, ApprovalRequest, BudgetUsage, PolicyDecision, RunAction
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.events import (
    ActionEnded,
    ActionPolicyEvaluated,
    ActionRequested,
    ActionStarted,
    ApprovalDecided,
    ApprovalRequired,
    ContextPrepared,
    LlmCallCompleted,
    LlmCallStarted,
    LlmStep,
    RunEvent,
    TaskStatusChanged,
)
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.store.port import TaskStore
from protolink_grpc.wire.events import event_from_frame


@dataclass(slots=True)
class ActionRecord:
    """How far an action has come.

    Args:
        action: As it was prepared, before any edit.
        requests: The questions asked about it, oldest first.
        answers: What was answered, by request id.
        started: How often it began; an action that began and has no end is uncertain.
        arguments: What it was last begun with.
        ended: How it ended; `outcome` is the type of that event, for instance `action.completed`.
    """

    action: RunAction
    policy: PolicyDecision | None = None
    requests: list[ApprovalRequest] = field(default_factory=list)
    answers: dict[str, ApprovalDecision] = field(default_factory=dict)
    started: int = 0
    ended: ActionEnded | None = None
    outcome: str = ""


class Journal:
    """Answers of models by call id, actions by position, and what all that used up.

    Attributes:
        usage: Of the whole task: what earlier turns recorded, and what the runs of this one spent until they were cut off.
    """

    __slots__ = (
        "_by_action",
        "_by_request",
        "_estimates",
        "_last",
        "_since",
        "_waiting",
        "actions",
        "answers",
        "usage",
    )

    def __init__(self, usage: BudgetUsage | None = None) -> None:
        self.answers: dict[str, LlmCallCompleted] = {}
        self.actions: dict[str, ActionRecord] = {}
        self.usage = usage
        self.warned: set[str] = set()
        self._by_action: dict[str, ActionRecord] = {}
        self._by_request: dict[str, ActionRecord] = {}
        self._estimates: dict[int, int] = {}
        self._since: int | None = None
        self._last = 0
        self._waiting: dict[str, int] = {}

    @classmethod
    async def of_turn(cls, store: TaskStore, fold: TaskFold) -> "Journal":
        """The journal of the turn that `fold` is in."""
        journal, after = cls(fold.usage), fold.turn_sequence
        while frames := await store.read(fold.task_id, after, 1024):
            journal.take(event_from_frame(frame) for frame in frames)
            after += len(frames)
        return journal

    def take(self, events: Iterable[RunEvent]) -> None:
        """Take in the next events, in the order of the log."""
        for event in events:
            micros = micros_from_iso(event.timestamp)
            self._take(event, micros)
            self._last = micros
        self._count_time()

    def _count_time(self) -> None:
        """Count the time that a run has worked up to the last event; what comes after is not known to be work."""
        if self._since is not None and self._last > self._since:
            self._spend(BudgetUsage(runtime_seconds=(self._last - self._since) / 1e6))
            self._since = self._last

    def _take(self, event: RunEvent, micros: int) -> None:
        match event.payload:
            case TaskStatusChanged(attempt=attempt) if attempt:
                self._count_time()
                self._since = micros
            case LlmStep(kind="llm_step"):
                self._spend(BudgetUsage(steps=1))
            case ContextPrepared(manifest=manifest, step=step):
                self._estimates[step] = manifest.total_estimated_tokens
            case LlmCallStarted():
                self._spend(BudgetUsage(llm_calls=1))
            case LlmCallCompleted() as answer:
                known = answer.input_tokens
                estimate = self._estimates.get(answer.step, 0)
                tokens = BudgetUsage(
                    input_tokens=estimate if known is None else known, output_tokens=answer.output_tokens or 0
                )
                self._spend(tokens)
                self.answers[answer.call_id] = answer
            case ApprovalRequired(request=request):
                self._waiting[request.request_id] = micros
                record = self._by_action.get(request.action.action_id)
                if record is not None:
                    record.requests.append(request)
                    self._by_request[request.request_id] = record
            case ApprovalDecided(decision=decision):
                self._answered(decision, micros)
            case BudgetReported(decision=verdict) if verdict.allowed and verdict.limit_name:
                self.warned.add(verdict.limit_name)
            case _:
                self._take_action(event)

    def _take_action(self, event: RunEvent) -> None:
        payload = event.payload
        if isinstance(payload, ActionRequested):
            record = self._by_action.get(payload.action.action_id)
            if record is None:
                record = self._by_action[payload.action.action_id] = ActionRecord(payload.action)
                if payload.position:
                    self.actions[payload.position] = record
            return
        record = self._by_action.get(event.action_id)
        if record is None:
            return
        match payload:
            case ActionPolicyEvaluated(decision=decision):
                record.policy = decision
            case ActionStarted(kind=kind):
                record.started += 1
                if kind == "tool.call" and record.started == 1:
                    self._spend(BudgetUsage(tool_calls=1))
            case ActionEnded() as ended:
                record.ended, record.outcome = ended, event.type
                if ended.usage is not None:
                    self._spend(ended.usage)

    def _answered(self, decision: ApprovalDecision, micros: int) -> None:
        record = self._by_request.get(decision.request_id)
        if record is not None:
            record.answers[decision.request_id] = decision
        asked = self._waiting.pop(decision.request_id, None)
        if asked is not None and self._since is not None and not self._waiting:
            # Nobody works while a person thinks: that time is not the run's.
            self._since += micros - max(asked, self._since)

    def _spend(self, used: BudgetUsage) -> None:
        self.usage = used if self.usage is None else self.usage.plus(used)
