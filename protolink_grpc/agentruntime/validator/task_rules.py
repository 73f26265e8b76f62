"""Rules about tasks, their attempts and their subagents. `lifecycle_rules` has those about the begin and end of an attempt."""

from typing import Final

from protolink_grpc.agentruntime.validator.event_file import Event
from protolink_grpc.agentruntime.validator.event_types import words
from protolink_grpc.agentruntime.validator.log_state import LogState
from protolink_grpc.agentruntime.validator.rule import HOLDS, Outcome, RuleSet
from protolink_grpc.agentruntime.validator.task_statuses import ATTEMPT_STATUSES, NEXT, STATUSES, status_after

MOVES: Final = tuple(
    f"task.{name}"
    for name in words(
        "created accepted queued started waiting blocked paused resumed retrying cancelled timed_out failed lost completed "
        "archived attempt.started"
    )
)
"""Types that change the status of a task."""

RULES = RuleSet()


@RULES.rule("R061.1", "The status of a task is one of the contract's 20.", "TASK:65", *MOVES, "task.updated")
def check_status(event: Event, log: LogState) -> Outcome:
    status = event.text("status")
    if not status or event.type == "task.attempt.started":
        return None
    return HOLDS if status in STATUSES else f"status {status!r}"


@RULES.rule(
    "R061.2",
    "The status of an attempt is one of the contract's.",
    "TASK:96",
    "task.attempt.started",
    "task.attempt.completed",
    "task.attempt.failed",
)
def check_attempt_status(event: Event, log: LogState) -> Outcome:
    status = event.text("status")
    if not status:
        return None
    return HOLDS if status in ATTEMPT_STATUSES else f"status {status!r}"


@RULES.rule("R080", "The status of a task follows from the one before.", "TASK:65", *MOVES, needs_beginning=True)
def check_transition(event: Event, log: LogState) -> Outcome:
    task_id = event.text("taskId")
    if not task_id:
        return None
    task = log.tasks.get(task_id)
    before = task.status if task is not None else ""
    after = status_after(event, before)
    if after == before and before and event.type != "task.created" and before not in NEXT[""]:
        return HOLDS
    return HOLDS if after in NEXT.get(before, ()) else f"{event.type}: from {before or 'no status'} to {after}"


@RULES.rule(
    "R051", "A task is cancelled after the cancellation was requested.", "CP:69", "task.cancelled", needs_beginning=True
)
def check_cancel_requested(event: Event, log: LogState) -> Outcome:
    task = log.tasks.get(event.text("taskId"))
    if task is None:
        return None
    return HOLDS if task.is_canceling else f"no task.cancel_requested of task {event.text('taskId')}"


@RULES.rule(
    "R068", "A task that is cancelled begins no further work.", "TASK:130", "task.delegated", "subagent.spawned"
)
def check_no_new_work(event: Event, log: LogState) -> Outcome:
    task = log.tasks.get(event.text("taskId"))
    if task is None:
        return None
    return f"the cancellation of task {event.text('taskId')} was requested" if task.is_canceling else HOLDS


@RULES.rule("R079.1", "A task with attempts is completed after a completed attempt.", "SPEC:245", "task.completed")
def check_completed_attempt(event: Event, log: LogState) -> Outcome:
    task = log.tasks.get(event.text("taskId"))
    if task is None or not task.attempt:
        return None
    return HOLDS if task.attempt == "task.attempt.completed" else f"the last event of its attempts is {task.attempt}"


@RULES.rule("R079.2", "A task ends after its attempt.", "SPEC:245", "task.failed", "task.cancelled", "task.timed_out")
def check_ended_attempt(event: Event, log: LogState) -> Outcome:
    task = log.tasks.get(event.text("taskId"))
    if task is None or not task.attempt:
        return None
    return "an attempt is open" if task.attempt == "task.attempt.started" else HOLDS


@RULES.rule("R072", "A task is completed after its subagents have ended.", "TASK:148", "task.completed")
def check_subagents(event: Event, log: LogState) -> Outcome:
    task = log.tasks.get(event.text("taskId"))
    if task is None or not (task.subagents or log.has_subagents):
        return None
    return f"subagent {min(task.subagents)} is open" if task.subagents else HOLDS


@RULES.rule(
    "R073", "Progress has a percentage, a phase, counters or references, or a summary.", "TASK:152", "task.progress"
)
def check_progress(event: Event, log: LogState) -> Outcome:
    names = (
        "percent",
        "phase",
        "step",
        "currentStep",
        "counters",
        "outputRefs",
        "summary",
        "taskProgress",
        "deliveryState",
    )
    return HOLDS if event.has(*names) or event.payload.get("percent") == 0 else "without facts"


@RULES.rule(
    "R067",
    "An edge between tasks has its kind, its target, its status and a time.",
    "TASK:130",
    "task.dependency.updated",
)
def check_edge(event: Event, log: LogState) -> Outcome:
    inside = event.record.get("taskRelationship")
    edge = inside if isinstance(inside, dict) else event.payload
    missing = [name for name in ("kind", "targetId", "status") if not edge.get(name)]
    if not edge.get("createdAt") and not edge.get("updatedAt"):
        missing.append("createdAt or updatedAt")
    return f"without {' and '.join(missing)}" if missing else HOLDS


@RULES.rule(
    "X10",
    "A task that did not succeed has a failureCategory.",
    "TASK:165",
    "task.failed",
    "task.timed_out",
    "task.attempt.failed",
)
def check_failure(event: Event, log: LogState) -> Outcome:
    return HOLDS if event.has("failureCategory", "lastError", "error") else "without failureCategory"


@RULES.rule("R128.4", "A subagent is spawned with its role or the agent that it is.", "SJ:14", "subagent.spawned")
def check_spawned(event: Event, log: LogState) -> Outcome:
    return HOLDS if event.has("role", "agent", "agentRef", "agentCardRef") else "without role or agent"
