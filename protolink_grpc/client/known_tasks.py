"""What agents already have of unfinished tasks. Clients do not send it again, so the cost of a turn does not grow with the task."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from protolink_grpc.client.port import Sent
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.events import RunEvent, TaskMessagesAdded, TaskSubmitted
from protolink_grpc.models.lifecycle import StateChange
from protolink_grpc.models.message import Message
from protolink_grpc.models.task import Task

Item = TypeVar("Item", Message, Artifact)

KNOWN_TASKS = 1000
"""Unfinished tasks for which a client remembers which messages and artifacts the agent already has."""

TaskKey = tuple[str, str]
"""URL of the agent and id of the task."""


@dataclass(frozen=True, slots=True)
class KnownTask:
    """How much of a task the agent had in its last response, and the ids by which that part is recognized."""

    messages: int
    artifacts: int
    last_message: str
    last_artifact: str

    @classmethod
    def of(cls, task: Task) -> "KnownTask":
        messages, artifacts = task.messages, task.artifacts
        return cls(
            len(messages),
            len(artifacts),
            messages[-1].id if messages else "",
            artifacts[-1].id if artifacts else "",
        )

    def begins(self, task: Task) -> bool:
        """Return whether the caller's task begins with what the agent had."""
        return _id_of(task.messages, self.messages) == self.last_message and (
            _id_of(task.artifacts, self.artifacts) == self.last_artifact
        )


class KnownTasks:
    """The known parts of unfinished tasks. Above `KNOWN_TASKS` the oldest entry is dropped."""

    def __init__(self) -> None:
        self._known: OrderedDict[TaskKey, KnownTask] = OrderedDict()

    def __contains__(self, key: TaskKey) -> bool:
        return key in self._known

    def remember(self, key: TaskKey, known: KnownTask) -> None:
        self._known[key] = known
        if len(self._known) > KNOWN_TASKS:
            self._known.popitem(last=False)

    def remember_response(self, key: TaskKey, response: Task) -> None:
        """Remember what the agent has of a task that it has just returned completely; forget a finished task."""
        if response.is_terminal:
            self.forget(key)
        else:
            self.remember(key, KnownTask.of(response))

    def forget(self, key: TaskKey) -> None:
        self._known.pop(key, None)

    def count(self, key: TaskKey, task: Task) -> tuple[int, int]:
        """Return how many messages and artifacts the agent has: those of its last response, if the task still begins with them."""
        known = self._known.get(key)
        return (known.messages, known.artifacts) if known is not None and known.begins(task) else (0, 0)


def _id_of(items: Sequence[Message] | Sequence[Artifact], count: int) -> str:
    """Return the id of item number `count`, or an unused id if there are fewer items."""
    if not count:
        return ""
    return items[count - 1].id if count <= len(items) else "\n"


def unsent_part(task: Task, had: tuple[int, int]) -> Task:
    """Return the part of a task that the agent does not have. The agent ignores items it already has.

    Args:
        had: Number of messages and artifacts that the agent has.
    """
    if had == (0, 0) and not task.state_history:
        return task
    return replace(task, messages=task.messages[had[0] :], artifacts=task.artifacts[had[1] :], state_history=[])


def join_response(task: Task, had: tuple[int, int], sent: Sent) -> Task | None:
    """Return the complete task: what the caller has, joined with what the turn added. None if the caller lacks other parts.

    Args:
        task: The caller's task.
        had: Number of messages and artifacts that the agent had before.
        sent: The response. Its task is completed in place.
    """
    answer = sent.task
    if len(answer.messages) == sent.message_count and len(answer.artifacts) == sent.artifact_count:
        return answer
    messages = task.messages[: had[0]] + _join_items(task.messages[had[0] :], answer.messages)
    artifacts = task.artifacts[: had[1]] + _join_items(task.artifacts[had[1] :], answer.artifacts)
    history = _join_history(task, answer)
    if len(messages) != sent.message_count or len(artifacts) != sent.artifact_count or history is None:
        return None
    answer.messages, answer.artifacts, answer.state_history = messages, artifacts, history
    return answer


def last_message_of_turn(event: RunEvent) -> str:
    """Return the id of the last message that the turn started with.

    It shows whether the agent has the messages of this request: a repeated request adds none to the turn of the first one.
    """
    payload = event.payload
    added = payload.task if isinstance(payload, TaskSubmitted) else payload
    messages = added.messages if isinstance(added, Task | TaskMessagesAdded) else ()
    return messages[-1].id if messages else ""


def _join_items(known: list[Item], added: list[Item]) -> list[Item]:
    """Return the caller's items and the new ones. A new item replaces an old one with the same id."""
    latest = {item.id: item for item in added}
    joined = [latest.pop(item.id, item) for item in known]
    return joined + [item for item in added if item.id in latest]


def _join_history(task: Task, answer: Task) -> list[StateChange] | None:
    """Return the caller's state changes and those of the turn, or None if there is a gap between them."""
    known, added = task.state_history, answer.state_history
    return known + added if known and added and known[-1].new_state is added[0].previous_state else None
