"""The status that ends a run: what a handler's answer implies, a cancellation, a lost run. Pure functions of values."""

from dataclasses import replace
from typing import Any

from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.events import CancelRequested, TaskStatusChanged
from protolink_grpc.models.failure import MAX_REASON, RUN_LOST, Failure
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import ToolOutput
from protolink_grpc.models.task import Task


def closing_status(
    state: TaskState,
    task: Task,
    output: Message | Artifact | None = None,
    usage: BudgetUsage | None = None,
    action: Failure | None = None,
) -> TaskStatusChanged:
    """The status that a handler's answer ends the run with: its own state, or the state that its output implies.

    Args:
        output: The last message or artifact of the run; None where it made none.
        action: Why the last action of the run that failed did so: it is known better than the output says it.
    """
    target = task.state
    if target not in TERMINAL and target not in INTERRUPTED:
        target, why = implied_state(output)
        if why is not None and action is not None and action.message == why.message:
            why = action
    elif target is TaskState.CANCELED:
        reason = task.metadata.get("cancel_reason")
        return TaskStatusChanged.because(state, target, str(reason)[:MAX_REASON] if reason else "", usage=usage)
    else:
        why = task.known_failure() if target in TERMINAL else None
    return TaskStatusChanged(
        state, target, None if why is None else why.cleaned(str, MAX_REASON).bounded(), usage=usage
    )


def implied_state(output: Message | Artifact | None) -> tuple[TaskState, Failure | None]:
    """The state that follows from the parts of an output, and its failure if it has one: an error comes before a question."""
    asks: TaskState | None = None
    for part in output.parts if output is not None else ():
        content: Any = part.content
        match part.type:
            case "error":
                return TaskState.FAILED, _failure_of(content)
            case "tool_output":
                error = content.error if isinstance(content, ToolOutput) else None
                if error:
                    return TaskState.FAILED, _failure_of(error)
            case "status":
                said = content.get("state") if isinstance(content, dict) else None
                asks = asks or (_ASKING.get(said) if isinstance(said, str) else None)
    return asks or TaskState.COMPLETED, None


def _failure_of(error: Any) -> Failure:
    known = Failure.from_value(error)
    if known.message:
        return known
    text = error.get("message") or error.get("code") or "unknown error" if isinstance(error, dict) else error
    return replace(known, message=str(text))


_ASKING = {spelling: state for state in INTERRUPTED for spelling in (state.value, state.value.replace("-", "_"))}
"""States of a status part that ask the caller for something; any other is a note and says nothing about the task."""


def lost_status(state: TaskState, why: str) -> TaskStatusChanged:
    """The status of a task whose run did not end by itself."""
    return TaskStatusChanged(state, TaskState.FAILED, Failure.of(RUN_LOST, f"run lost: {why}"))


def canceled_status(state: TaskState, request: CancelRequested) -> TaskStatusChanged:
    """The status of a task whose cancellation was requested."""
    return TaskStatusChanged(state, TaskState.CANCELED, cancel_reason=request.reason)
