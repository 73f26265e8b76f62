"""The result of a step as a value, how it changes the task of the flow, and how a flow or a part of it ends."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, TypeVar

from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.fold import CopyOnRead, copy_artifact, copy_message
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.task import Task, stored_metadata
from protolink_grpc.models.task_metadata import own_metadata
from protolink_grpc.runtime.facts import FLOW_PROMPT


@dataclass(frozen=True, slots=True)
class Ending:
    """How a flow, or a part of it, ended or why it waits.

    Args:
        state: Completed, failed, rejected, canceled, or a state that waits for the sender.
        failure: Why it failed or was rejected.
        path: The step that failed or waits; empty if it completed.
        waiting: (target, task id) of each task of another agent that waits for input.
    """

    state: TaskState = TaskState.COMPLETED
    failure: Failure | None = None
    cancel_reason: str = ""
    path: str = ""
    waiting: tuple[tuple[str, str], ...] = ()

    @property
    def is_completed(self) -> bool:
        return self.state is TaskState.COMPLETED

    @property
    def is_waiting(self) -> bool:
        return self.state in INTERRUPTED

    @property
    def node(self) -> str:
        """The last name of the path."""
        return self.path.rpartition("/")[2]

    @property
    def reason(self) -> str:
        return self.failure.message if self.failure is not None else self.cancel_reason


COMPLETED = Ending()


Item = TypeVar("Item", Message, Artifact)


class Given(NamedTuple):
    """A task that a function received, and its original lists, which the function may replace."""

    task: Task
    messages: list[Message]
    artifacts: list[Artifact]


@dataclass(slots=True)
class StepResult:
    """What a step added to the task of the flow, and the state in which it left its own task.

    Args:
        task_id: The task of a peer; empty for a function.
        messages, artifacts: New messages, and new or changed artifacts, oldest first.
        metadata, flow_state: Changed keys; None removes a key.
        ends_with_artifact: The newest of these items is an artifact.
        usage: What a task that waits has used so far.
        target: Name or URL of the peer with a task that waits.
        peer: Metadata of this task by which its client finds it at the peer.
    """

    state: TaskState = TaskState.COMPLETED
    task_id: str = ""
    messages: list[Message] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    flow_state: dict[str, Any] = field(default_factory=dict)
    ends_with_artifact: bool = False
    failure: Failure | None = None
    cancel_reason: str = ""
    usage: BudgetUsage | None = None
    target: str = ""
    peer: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, before: Task, after: Task, *, given: Given | None = None, leave_out: str = "") -> Self:
        """Return the difference between two tasks.

        Args:
            given: The copy of `before` that a function received: items that it has not read are not compared. If it is `after`,
                missing keys were removed.
            leave_out: Id of a message that is no part of the result.
        """
        is_copy = given is not None and after is given.task
        known = {message.id for message in before.messages} | {leave_out}
        artifacts = {artifact.id: artifact for artifact in before.artifacts}
        new = [copy_message(each) for each in _added_to(after.messages, given) if each.id not in known]
        changed = [
            copy_artifact(each) for each in _changed_in(after.artifacts, given) if artifacts.get(each.id) != each
        ]
        state = after.state if after.state in TERMINAL or after.state in INTERRUPTED else TaskState.COMPLETED
        return cls(
            state,
            after.id if after.id != before.id else "",
            new,
            changed,
            _changed(own_metadata(stored_metadata(before)), own_metadata(stored_metadata(after)), is_copy),
            _changed(_without_prompt(before.flow_state), _without_prompt(after.flow_state), is_copy),
            bool(changed) and (not new or isinstance(after.get_last_item(), Artifact)),
            after.known_failure() if state in (TaskState.FAILED, TaskState.REJECTED) else None,
            after.reason if state is TaskState.CANCELED else "",
            after.usage if state in INTERRUPTED else None,
        )

    def ending(self, path: str) -> Ending:
        """Return the end of the step at `path`."""
        if self.state is TaskState.COMPLETED:
            return COMPLETED
        waiting = ((self.target, self.task_id),) if self.target and self.state in INTERRUPTED else ()
        return Ending(self.state, self.failure, self.cancel_reason, path, waiting)

    def apply(self, task: Task) -> None:
        """Add the result to a task: messages by id, artifacts by id. Applying it again changes nothing.

        The task shares the items with the result, so it must be a working task of a flow, whose items are never changed.
        """
        known = {message.id for message in task.messages}
        new = [each for each in self.messages if each.id not in known]
        for add_artifacts in (not self.ends_with_artifact, self.ends_with_artifact):
            if add_artifacts:
                for artifact in self.artifacts:
                    put_artifact(task, artifact)
            else:
                for message in new:
                    task.add_message(message)
        _patch(task.metadata, self.metadata)
        _patch(task.flow_state, self.flow_state)

    def to_dict(self, *, by_id: bool = False) -> dict[str, Any]:
        """Return the JSON form, without empty fields.

        Args:
            by_id: Write only the ids of messages and artifacts, which are in the log.
        """
        if by_id:
            ids = {
                "message_ids": [each.id for each in self.messages],
                "artifact_ids": [each.id for each in self.artifacts],
            }
            return replace(self, messages=[], artifacts=[]).to_dict() | ids
        found: dict[str, Any] = {
            "state": self.state.value,
            "task_id": self.task_id,
            "messages": [message.to_dict() for message in self.messages],
            "artifacts": [artifact.to_dict() for artifact in self.artifacts],
            "metadata": plain(self.metadata),
            "flow_state": plain(self.flow_state),
            "ends_with_artifact": self.ends_with_artifact,
            "failure": None if self.failure is None else self.failure.to_dict(),
            "cancel_reason": self.cancel_reason,
            "usage": None if self.usage is None else self.usage.to_dict(),
            "target": self.target,
            "peer": plain(self.peer),
        }
        return {name: value for name, value in found.items() if value}

    @classmethod
    def from_dict(cls, data: dict[str, Any], items: Mapping[str, Message | Artifact]) -> Self:
        """Read what `to_dict` wrote.

        Args:
            items: The messages and artifacts in the log, by id.
        """
        failure, usage = data.get("failure"), data.get("usage")
        return cls(
            TaskState(data["state"]),
            data.get("task_id", ""),
            [
                *map(Message.from_dict, data.get("messages", ())),
                *_items_of_kind(Message, items, data.get("message_ids", ())),
            ],
            [
                *map(Artifact.from_dict, data.get("artifacts", ())),
                *_items_of_kind(Artifact, items, data.get("artifact_ids", ())),
            ],
            dict(data.get("metadata", {})),
            dict(data.get("flow_state", {})),
            bool(data.get("ends_with_artifact", False)),
            None if failure is None else Failure.from_dict(failure),
            data.get("cancel_reason", ""),
            None if usage is None else BudgetUsage.from_dict(usage),
            data.get("target", ""),
            dict(data.get("peer", {})),
        )


def _items_of_kind(kind: type[Item], items: Mapping[str, Message | Artifact], ids: Iterable[str]) -> list[Item]:
    return [each for each in map(items.get, ids) if isinstance(each, kind)]


def put_artifact(task: Task, artifact: Artifact) -> None:
    """Add an artifact to a task, or replace the one with the same id."""
    for index, known in enumerate(task.artifacts):
        if known.id == artifact.id:
            task.artifacts[index] = artifact
            return
    task.add_artifact(artifact)


def working_task(task: Task) -> Task:
    """Return a task with the content of `task` for the execution of a flow, which shares the items and never changes them."""
    return _task_with(task, list(task.messages), list(task.artifacts))


def copy_task(work: Task) -> Task:
    """Return a copy of a working task for a function, which may change it. An item is copied when it is read."""
    return _task_with(work, CopyOnRead(work.messages, copy_message), CopyOnRead(work.artifacts, copy_artifact))


def _task_with(task: Task, messages: list[Message], artifacts: list[Artifact]) -> Task:
    own, flow_state, session = own_metadata(stored_metadata(task)), task.flow_state, task.session_id
    made = Task(
        task.id,
        TaskState.WORKING,
        messages,
        artifacts,
        plain(own) if own else {},
        plain(flow_state) if flow_state else {},
        task.created_at,
        session_id=session,
    )
    made.take_order(task)
    return made


def _added_to(messages: list[Message], given: Given | None) -> list[Message]:
    """Return the messages that may be new."""
    if given is not None and isinstance(messages, CopyOnRead) and messages.extends(given.messages):
        return [messages[index] for index in range(messages.first_added, len(messages))]
    return list(messages)


def _changed_in(artifacts: list[Artifact], given: Given | None) -> list[Artifact]:
    """Return the artifacts that may be new or changed."""
    if given is not None and isinstance(artifacts, CopyOnRead) and artifacts.extends(given.artifacts):
        return [artifacts[index] for index in artifacts.changed()]
    return list(artifacts)


def _changed(before: dict[str, Any], after: dict[str, Any], removing: bool) -> dict[str, Any]:
    changed = {key: plain(value) for key, value in after.items() if key not in before or before[key] != value}
    return changed | dict.fromkeys(before.keys() - after.keys()) if removing else changed


def _patch(values: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        if value is None:
            values.pop(key, None)
        else:
            values[key] = plain(value)


def _without_prompt(flow_state: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in flow_state.items() if key != FLOW_PROMPT}
