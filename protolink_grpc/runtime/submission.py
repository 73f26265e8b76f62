"""What crosses the waist: submissions, where a watch ends, and the bounds of a service. Nothing here acts."""

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal

from protolink_grpc.errors import DelegationCycleError
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import TaskArtifactUpdated, TaskMessagesAdded, TaskPatched
from protolink_grpc.models.fold import DERIVED_KEYS, TaskFold
from protolink_grpc.models.message import Message
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.live import Fact

Recovery = Literal["auto", "lost", "resume"]
"""What becomes of a run whose process died: its task fails and says so, or another run goes on with it.

"auto" goes on where that repeats nothing: with the agent's own handler of tool calls and inference, which finds in the log what was
done. A handler of the user's begins anew, so its task fails unless "resume" is asked for. A run that waited for an approval goes on
in each case: nothing was under way.
"""

STALLED = 5
"""Runs of a task that may die in a row without any progress before it is given up: it may be what kills the process."""


class StopAt(Enum):
    """Where a watch ends by itself."""

    TERMINAL = "terminal"
    INTERRUPTED = "interrupted"
    CURRENT = "current"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one agent in one process.

    Args:
        max_concurrency: Runs at the same time; None means what the agent's card says, and 1 without a card.
        max_queue: Runs that may wait for their turn; more are refused with RESOURCE_EXHAUSTED.
        batch_events: Events in one batch of a watch at most.
        warm_tasks: Tasks whose fold is kept in memory after their run.
        warm_items: Messages and artifacts in those folds, all together.
        cancel_wait_s: How long a cancel waits for the run to end before it answers with the task as it is.
        lease_ttl_s: How long this process may be silent before others take over its tasks.
        delta_interval_s: Time between two batches of live text to one reader at least; the first piece is sent at once.
    """

    max_concurrency: int | None = None
    max_queue: int = 1000
    batch_events: int = 256
    warm_tasks: int = 1000
    warm_items: int = 100_000
    cancel_wait_s: float = 10.0
    lease_ttl_s: float = 15.0
    delta_interval_s: float = 0.025


@dataclass(slots=True)
class Submission:
    """What a caller contributes to a task.

    Args:
        task_id: The task; empty lets the service choose.
        must_exist: The task is to be continued, not created.
        messages: New messages; those whose id the log knows are left out.
        request_id: The same id from the same principal is the same request.
        encoded: The messages as bytes, where an edge has them; see `TaskSubmitted`.
        scopes: What the caller's credentials allow, as the edge has found out.
    """

    messages: list[Message] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    task_id: str = ""
    must_exist: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    flow_state: dict[str, Any] = field(default_factory=dict)
    session_id: str = ""
    context: RunContext | None = None
    request_id: str = ""
    encoded: tuple[bytes, ...] = ()
    scopes: frozenset[str] = frozenset()

    def known_as(self, principal: str) -> None:
        """Write into the context who asks and what the credentials allow; what the caller has put there goes."""
        context, scopes = self.context, tuple(sorted(self.scopes))
        if context is None and scopes:
            context = RunContext(session_id=self.session_id or None)
        if context is not None and (scopes or context.principal or context.scopes):
            self.context = replace(context, principal=principal, scopes=scopes)

    @classmethod
    def of(cls, task: Task, *, request_id: str = "") -> "Submission":
        """What `task` contributes; its state and history are the server's to say."""
        return cls(
            messages=task.messages,
            artifacts=task.artifacts,
            task_id=task.id,
            metadata=task.metadata,
            flow_state=task.flow_state,
            session_id=task.session_id or "",
            context=RunContext.from_task(task) if "run_context" in task.metadata else None,
            request_id=request_id,
        )

    def opening(self, task_id: str) -> Task:
        """The task that this submission creates, as its first event shows it."""
        task = Task(
            id=task_id,
            messages=self.messages,
            artifacts=self.artifacts,
            metadata={key: value for key, value in self.metadata.items() if key not in DERIVED_KEYS},
            flow_state=self.flow_state,
        )
        if self.context is not None:
            self.context.attach_to_task(task)
        task.metadata["session_id"] = self.session_id or task_id
        return task

    def additions(self, fold: TaskFold) -> list[Fact]:
        """What this submission adds to a task that exists; what the log knows already is left out."""
        added = [index for index, each in enumerate(self.messages) if each.id not in fold.message_ids]
        messages = tuple(self.messages[index] for index in added)
        encoded = tuple(self.encoded[index] for index in added) if self.encoded else ()
        facts: list[Fact] = [TaskMessagesAdded(messages, self.request_id, encoded)]
        facts += [TaskArtifactUpdated(each) for each in self.artifacts if fold.artifact(each.id) is None]
        free = {key: value for key, value in self.metadata.items() if key not in DERIVED_KEYS}
        patch = TaskPatched(_changed(fold.metadata, free), _changed(fold.flow_state, self.flow_state))
        if patch.metadata or patch.flow_state:
            facts.append(patch)
        return facts


def refuse_cycle(context: RunContext, agent_name: str) -> None:
    """Refuse work that has passed through this agent before, else two agents could delegate to each other for ever.

    Raises:
        DelegationCycleError: It has.
    """
    name = agent_name.casefold()
    before = context.agent_chain if context.parent_run_id else context.agent_chain[:-1]
    if name in (each.casefold() for each in before):
        raise DelegationCycleError(
            f"the work has passed through {agent_name} before: {' > '.join(context.agent_chain)}", agent=agent_name
        )


def _changed(known: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in now.items() if known.get(key) != value}
