"""The journal: what earlier runs of a turn have done, read from the log, so that a recovering run can continue their work.

A recovering run starts again from the beginning of the turn. It takes responses of models and outcomes of actions from the journal
instead of repeating the calls. Only a recovering run reads a journal.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from protolink_grpc.llms.manifest import LAST_MESSAGE
from protolink_grpc.models.action import (
    ApprovalDecision,
    ApprovalRequest,
    BudgetUsage,
    ContextManifest,
    PolicyDecision,
    RunAction,
)
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.cost import sum_of
from protolink_grpc.models.events import (
    ActionEnded,
    ActionPolicyEvaluated,
    ActionRequested,
    ActionStarted,
    ApprovalDecided,
    ApprovalRequired,
    BudgetReported,
    ContextCompacted,
    ContextPrepared,
    LlmCallCompleted,
    LlmCallStarted,
    LlmStep,
    PeerTaskLinked,
    RunEvent,
    TaskArtifactUpdated,
    TaskInputReplaced,
    TaskMessagesAdded,
    TaskPaused,
    TaskResumed,
    TaskStatusChanged,
    TaskSubmitted,
)
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.message import Message
from protolink_grpc.models.references import References
from protolink_grpc.models.task import Task
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.wire.events import event_from_frame


@dataclass(slots=True)
class ActionRecord:
    """The recorded progress of an action.

    Args:
        action: The action as it was prepared, before any edit.
        requests: Its approval requests that are still valid, oldest first. A request to repeat the action is valid for one start.
        answers: The answers, by request id.
        started: How often it was started. An action that was started and has no end is uncertain.
        arguments: Arguments of its last start.
        peer_task: The latest ids of its task at another agent; None if they are unknown.
        ended: Its end; None before it.
    """

    action: RunAction
    policy: PolicyDecision | None = None
    requests: list[ApprovalRequest] = field(default_factory=list)
    answers: dict[str, ApprovalDecision] = field(default_factory=dict)
    started: int = 0
    arguments: dict[str, Any] | None = None
    peer_task: PeerTaskLinked | None = None
    ended: ActionEnded | None = None


@dataclass(frozen=True, slots=True)
class Delegation:
    """Work that an action has sent to another agent.

    Args:
        link: The ids of its task there.
        has_ended: The action has ended; it was canceled.
    """

    action: RunAction
    link: PeerTaskLinked
    has_ended: bool


class Journal:
    """Responses of models by call id, actions by position, decisions of inferences by key, and the budget that they used.

    Attributes:
        history_ends: Ids of the last messages of the conversations that inferences began with, by the key of the inference; "" for
            an empty conversation.
        decisions: Events of inferences whose metadata has a key, `decision`.
        item: The input of the turn: the latest of the messages and artifacts that it began with.
        made: Ids of the messages and artifacts that the turn's runs have published.
        warned: Names of budget limits whose warning is in the log.
    """

    __slots__ = (
        "_begun",
        "_by_action",
        "_by_request",
        "_estimates",
        "_last",
        "_manifest",
        "_opening",
        "_rests",
        "_spent",
        "_waiting",
        "_worked",
        "actions",
        "answers",
        "decisions",
        "history_ends",
        "item",
        "made",
        "warned",
    )

    def __init__(self, usage: BudgetUsage | None = None) -> None:
        self.answers: dict[str, LlmCallCompleted] = {}
        self.actions: dict[str, ActionRecord] = {}
        self.decisions: dict[str, RunEvent] = {}
        self.history_ends: dict[str, str] = {}
        self._manifest: ContextManifest | None = None
        self.item: Message | Artifact | None = None
        self.made: set[str] = set()
        self.warned: set[str] = set()
        self._opening: Task | None = Task("")
        self._by_action: dict[str, ActionRecord] = {}
        self._by_request: dict[str, ActionRecord] = {}
        self._estimates: dict[int, int] = {}
        self._spent = usage
        self._worked = 0
        self._begun: int | None = None
        self._last = 0
        self._waiting: dict[str, int] = {}
        self._rests: list[tuple[int, int]] = []

    @classmethod
    async def of_turn(cls, store: TaskStore, fold: TaskFold) -> "Journal":
        """Read the journal of the current turn of a task."""
        journal, after = cls(fold.usage), fold.turn_sequence
        if fold.retries:
            # The log does not repeat the input of a retried turn.
            messages, artifacts = fold.input_end
            journal._opening = Task(
                "",
                messages=fold.messages[fold.turn_message : messages],
                artifacts=fold.artifacts[fold.turn_artifact : artifacts],
            )
        await journal._read(store, fold.task_id, after)
        return journal

    @classmethod
    async def of_all_attempts(cls, store: TaskStore, fold: TaskFold) -> "Journal":
        """Read the journal of the current turn, with the failed attempts before a retry. Only its actions are complete."""
        journal = cls()
        await journal._read(store, fold.task_id, 0 if fold.retries else fold.turn_sequence)
        return journal

    async def _read(self, store: TaskStore, task_id: str, after: int) -> None:
        references = References()
        while frames := await store.read(task_id, after, 1024):
            self.take(references.whole(event_from_frame(frame)) for frame in frames)
            after += len(frames)

    def open_delegations(self) -> list[Delegation]:
        """Return the work at other agents whose action has not ended, or was canceled."""
        found: list[Delegation] = []
        for record in self._by_action.values():
            ended, link = record.ended, record.peer_task or _link_of_call(record)
            if link is not None and link.task_id and (ended is None or ended.outcome == "canceled"):
                found.append(Delegation(record.action, link, ended is not None))
        return found

    def action_failure(self, action_id: str) -> Failure | None:
        """Return the recorded failure of an action of this turn; None if it did not fail."""
        record = self._by_action.get(action_id)
        return None if record is None or record.ended is None else record.ended.failure

    @property
    def usage(self) -> BudgetUsage | None:
        """Usage of the whole task: as recorded by earlier turns, plus that of this turn's runs until they were interrupted."""
        worked = self._worked + self._current_run_micros()
        if not worked:
            return self._spent
        return (self._spent or BudgetUsage()).plus(BudgetUsage(runtime_seconds=worked / 1e6))

    def take(self, events: Iterable[RunEvent]) -> None:
        """Apply the next events, in the order of the log."""
        for event in events:
            micros = micros_from_iso(event.timestamp)
            self._take(event, micros)
            self._last = micros

    def _take(self, event: RunEvent, micros: int) -> None:
        match event.payload:
            case TaskStatusChanged(attempt=attempt):
                self._begin(micros if attempt else None)
            case TaskSubmitted(task=task):
                self._publish([*task.messages, *task.artifacts])
            case TaskMessagesAdded(messages=messages):
                self._publish(messages)
            case TaskInputReplaced(messages=messages):
                self._replace_input(messages)
            case TaskArtifactUpdated(artifact=artifact):
                self._publish([artifact])
            case ApprovalRequired(request=request):
                self._waiting[request.request_id] = micros
                record = self._by_action.get(request.action.action_id)
                if record is not None:
                    record.requests.append(request)
                    self._by_request[request.request_id] = record
            case ApprovalDecided(decision=decision):
                self._take_answer(decision, micros)
            case TaskPaused():
                self._waiting[_PAUSE] = micros
            case TaskResumed():
                self._end_wait(_PAUSE, micros)
            case BudgetReported(decision=verdict) if verdict.allowed and verdict.limit_name:
                self.warned.add(verdict.limit_name)
            case _:
                self._take_call(event)

    def _publish(self, items: Iterable[Message | Artifact]) -> None:
        if self._opening is None:
            self.made.update(each.id for each in items)
            return
        for each in items:
            if isinstance(each, Message):
                self._opening.messages.append(each)
            else:
                self._opening.artifacts.append(each)

    def _replace_input(self, messages: Iterable[Message]) -> None:
        """Replace the messages of the turn, which has not begun."""
        if self._opening is not None:
            self._opening.messages = list(messages)

    def _take_call(self, event: RunEvent) -> None:
        """Apply events of model calls. An interrupted step is repeated and counts as one step."""
        match event.payload:
            case ContextPrepared(manifest=manifest, step=step):
                self._estimates[step] = manifest.total_estimated_tokens
                self._manifest = manifest
            case ContextCompacted() | LlmStep() if "decision" in event.metadata:
                self.decisions[str(event.metadata["decision"])] = event
            case LlmCallStarted(call_id=call_id, step=step):
                self._take_history_end(call_id.rpartition("/")[0])
                self._spend(BudgetUsage(llm_calls=1, input_tokens=self._estimates.get(step, 0)))
            case LlmCallCompleted() as answer:
                self.answers[answer.call_id] = answer
                # The estimate was added when the call started.
                input_tokens, estimate = answer.input_tokens, self._estimates.get(answer.step, 0)
                output_tokens = answer.output_tokens
                if output_tokens is None:
                    output_tokens = int(answer.metrics.get("estimated_output_tokens", 0))
                self._spend(
                    BudgetUsage(
                        steps=1,
                        input_tokens=0 if input_tokens is None else input_tokens - estimate,
                        output_tokens=output_tokens,
                        costs=() if answer.cost is None else sum_of((answer.cost,)),
                        cached_input_tokens=answer.cached_input_tokens or 0,
                        reasoning_tokens=answer.reasoning_tokens or 0,
                    )
                )
            case _:
                self._take_action(event)

    def _take_history_end(self, key: str) -> None:
        """Note the end of the history of an inference, which its first manifest has."""
        if self._manifest is not None and key not in self.history_ends:
            facts = [item.metadata for item in self._manifest.context_items if item.kind == "history"]
            if not facts or LAST_MESSAGE in facts[0]:  # manifests of earlier versions do not have it
                self.history_ends[key] = str(facts[0][LAST_MESSAGE]) if facts else ""

    def _take_action(self, event: RunEvent) -> None:
        payload = event.payload
        if isinstance(payload, ActionRequested):
            self._take_request(payload)
            return
        record = self._by_action.get(event.action_id)
        if record is None:
            return
        match payload:
            case ActionPolicyEvaluated(decision=decision):
                record.policy = decision
            case ActionStarted(arguments=arguments):
                record.started += 1
                record.arguments = arguments
                record.requests = [each for each in record.requests if not each.uncertain]
            case PeerTaskLinked() as link:
                record.peer_task = link
            case ActionEnded() as ended:
                record.ended = ended
                if ended.usage is not None:
                    # The time of delegated work is already part of the waiting time of this run.
                    self._spend(replace(ended.usage, runtime_seconds=0.0, metadata={}))

    def _take_request(self, payload: ActionRequested) -> None:
        action = payload.action
        if action.action_id in self._by_action:
            return
        record = self._by_action[action.action_id] = ActionRecord(action)
        if payload.position:
            self.actions[payload.position] = record
        if action.kind not in ("agent.call", "flow.step"):
            self._spend(BudgetUsage(tool_calls=1))

    def _spend(self, used: BudgetUsage) -> None:
        self._spent = used if self._spent is None else self._spent.plus(used)

    # Time that the run waits for a person, or is paused, does not count as its runtime.

    def _begin(self, micros: int | None) -> None:
        """Apply the begin of a run; None is its end."""
        if self._opening is not None:
            self.item, self._opening = self._opening.get_last_item(), None
        self._worked += self._current_run_micros()
        self._begun, self._rests = micros, []

    def _current_run_micros(self) -> int:
        """Return the working time of the current run until the last event."""
        if self._begun is None:
            return 0
        rests = self._rests
        asked = [since for since in self._waiting.values() if since >= self._begun]
        if asked:
            rests = _add_span(rests, min(asked), self._last)
        return self._last - self._begun - sum(end - start for start, end in rests)

    def _take_answer(self, decision: ApprovalDecision, micros: int) -> None:
        record = self._by_request.get(decision.request_id)
        if record is not None:
            record.answers[decision.request_id] = decision
        self._end_wait(decision.request_id, micros)

    def _end_wait(self, key: str, micros: int) -> None:
        since = self._waiting.pop(key, None)
        if since is not None and self._begun is not None:
            # The current run resumed the wait of an earlier run at some time after the last event.
            self._rests = _add_span(self._rests, since if since >= self._begun else self._last, micros)


def _link_of_call(record: ActionRecord) -> PeerTaskLinked | None:
    """Return the ids that the task of a started typed call has if the call is a task; None for other actions."""
    url = (record.arguments or record.action.payload).get("url")
    is_call = record.action.kind == "agent.call" and "method" in record.action.payload
    return PeerTaskLinked(url=url, task_id=record.action.action_id) if is_call and record.started and url else None


_PAUSE = ""
"""Key of a pause among the waits for approvals, whose request ids are never empty."""


def _add_span(rests: list[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """Return ordered spans without overlaps, with one more span that ends last."""
    apart = [span for span in rests if span[1] < start]
    return [*apart, (min([start, *(span[0] for span in rests[len(apart) :])]), end)]
