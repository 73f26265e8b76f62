"""The state of a flow in the log of its task: finished steps, decisions, and the question that the latest input answers.

A flow starts again from its beginning in every run of the task, and reads from its record what is already done. Unlike the journal
of the runtime, the record covers all turns of the task.
"""

import re
from collections.abc import Iterable
from typing import Any

from protolink_grpc.flows.results import StepResult, working_task
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.events import (
    ActionEnded,
    ActionRequested,
    RunEvent,
    TaskArtifactUpdated,
    TaskMessagesAdded,
    TaskStatusChanged,
    TaskSubmitted,
)
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import INTERRUPTED, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.references import References
from protolink_grpc.models.task import Task
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.wire.events import event_from_frame

POSITION = "flow:"
"""Prefix of the positions of a flow's actions."""

WORKFLOW = "workflow."
"""Prefix of the types of a flow's events."""

_ANSWERED = re.compile(r"\?\d+\Z")
"""The end of the position of a call with an answer."""

WAITING = "workflow.waiting"
DECIDED = "workflow.decided"
STARTED = "workflow.started"


class FlowRecord:
    """The record of the flow of one task.

    Attributes:
        task: The task as it was submitted; None if this is its first run.
        results: Results of the finished steps, by position.
        decisions: Decisions of functions, by path.
        inputs: Ids of the messages and artifacts that a part of a handler began with, by path.
        reported: (event type, path) of each event of the flow.
        answers: The messages that answered the questions of a step, oldest first, by path.
    """

    def __init__(self) -> None:
        self.task: Task | None = None
        self.results: dict[str, StepResult] = {}
        self.decisions: dict[str, Any] = {}
        self.inputs: dict[str, list[str]] = {}
        self.reported: set[tuple[str, str]] = set()
        self.answers: dict[str, list[tuple[Message, ...]]] = {}
        self._items: dict[str, Message | Artifact] = {}
        self._latest: dict[str, StepResult] = {}
        self._state = TaskState.SUBMITTED
        self._waiting_path = ""
        self._positions: dict[str, str] = {}

    @classmethod
    async def read(cls, store: TaskStore, fold: TaskFold) -> "FlowRecord":
        """Read the record of a task that had earlier runs."""
        record, references, after = cls(), References(), 0
        while frames := await store.read(fold.task_id, after, 1024):
            record.take(references.whole(event_from_frame(frame)) for frame in frames)
            after += len(frames)
        return record

    def take(self, events: Iterable[RunEvent]) -> None:
        """Apply the next events, in the order of the log."""
        for event in events:
            match event.payload:
                case TaskSubmitted() as submitted:
                    self.task = working_task(submitted.whole_task())
                case TaskStatusChanged(new_state=state):
                    self._state = state
                case TaskMessagesAdded(messages=messages):
                    self._items.update({message.id: message for message in messages})
                    if self._state in INTERRUPTED:
                        self.answers.setdefault(self._waiting_path, []).append(messages)
                case TaskArtifactUpdated(artifact=artifact):
                    self._items[artifact.id] = artifact
                case ActionRequested(action=action, position=position) if position.startswith(POSITION):
                    self._positions[action.action_id] = position
                case ActionEnded() as ended if event.action_id in self._positions:
                    self._end(self._positions[event.action_id], ended)
                case dict() as payload if event.type.startswith(WORKFLOW):
                    self._note(event.type, payload)

    @property
    def waiting(self) -> list[tuple[str, str]]:
        """The peer and the id of each task of another agent that waits for input."""
        return [pair for result in self._latest.values() for pair in result.ending("").waiting]

    def _end(self, position: str, ended: ActionEnded) -> None:
        if ended.outcome == "completed" and isinstance(ended.result, dict):
            self.results[position] = StepResult.from_dict(ended.result, self._items)
        elif ended.outcome != "canceled":
            failure = ended.failure or Failure(message=f"the step ended with the outcome {ended.outcome}")
            self.results[position] = StepResult(TaskState.FAILED, failure=failure)
        if position in self.results:
            self._latest[_ANSWERED.sub("", position)] = self.results[position]

    def _note(self, kind: str, payload: dict[str, Any]) -> None:
        path = str(payload.get("path", ""))
        self.reported.add((kind, path))
        if kind == WAITING:
            self._waiting_path = path
        elif kind == STARTED and isinstance(payload.get("input"), list):
            self.inputs[path] = payload["input"]
        elif kind == DECIDED:
            self.decisions[path] = payload.get("decision")
