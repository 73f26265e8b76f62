"""The difference between a task as a handler left it and its log, as facts to append. Pure functions of values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.events import (
    TaskArtifactUpdated,
    TaskMessagesAdded,
    TaskPatched,
)
from protolink_grpc.models.fold import CopyOnRead, TaskFold, copy_artifact, copy_message
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.message import Message
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_metadata import own_metadata
from protolink_grpc.runtime.log import Fact

FLOW_PROMPT = "prompt"
"""Key of `Task.flow_state` under which a flow tells a step where it stands."""


@dataclass(frozen=True, slots=True)
class Given:
    """The task that a run gave to its handler, and the lists of that task: the handler may replace them with others."""

    task: Task
    messages: list[Message]
    artifacts: list[Artifact]


def find_changes(fold: TaskFold, task: Task, *, given: Given | None = None, last: bool = False) -> list[Fact]:
    """The facts by which `task`, as a handler left it, goes beyond the log.

    Costs what was added, not what was there before. Messages that are in the log already stay as they are.

    Args:
        given: What the handler got. Only its own lists are known to hold what the log holds. Any other list, for instance
            the lazy one of a peer's answer, is compared item by item. In the same way, a missing metadata key was removed
            where `task` is the given one; any other task only adds. Its flow prompt stays out of the log: it may be a peer's
            task, and the log says who set a prompt.
        last: The task ends with these facts, and its fold with it: messages need not be copied for later turns.
    """
    added = _added_messages(fold, task.messages, None if given is None else given.messages)
    messages = tuple(added) if last else tuple(copy_message(message) for message in added)
    said: list[Fact] = [TaskMessagesAdded(messages)] if messages else []
    new = _new_artifacts(fold, task.artifacts, None if given is None else given.artifacts)
    made: list[Fact] = [TaskArtifactUpdated(copy_artifact(each)) for each in new]
    facts = said + made if isinstance(task.get_last_item(), Artifact) else made + said
    free = own_metadata(task.metadata)
    is_given = given is not None and given.task is task
    metadata = _patch(fold.metadata, free, removing=is_given)
    flow_state = _patch(fold.flow_state, task.flow_state, removing=is_given)
    if not is_given:
        flow_state.pop(FLOW_PROMPT, None)
    if metadata or flow_state:
        facts.append(TaskPatched(metadata, flow_state))
    return facts


def find_last_output(facts: Sequence[Fact]) -> Message | Artifact | None:
    """The last artifact or message among the facts, those of users left out: they are what the task was given."""
    for fact in reversed(facts):
        if isinstance(fact, TaskArtifactUpdated):
            return fact.artifact
        for message in reversed(fact.messages) if isinstance(fact, TaskMessagesAdded) else ():
            if message.role in ("agent", "assistant"):
                return message
    return None


def _added_messages(fold: TaskFold, messages: list[Message], given: list[Message] | None) -> Iterator[Message]:
    # Elements of the given list that were there before are the log's own; what follows them was added by the handler.
    first = messages.first_added if isinstance(messages, CopyOnRead) and messages.extends(given) else 0
    for index in range(first, len(messages)):
        if messages[index].id not in fold.message_ids:
            yield messages[index]


def _new_artifacts(fold: TaskFold, artifacts: list[Artifact], given: list[Artifact] | None) -> Iterator[Artifact]:
    indexes: Any = range(len(artifacts))
    if isinstance(artifacts, CopyOnRead) and artifacts.extends(given):
        indexes = artifacts.looked_at()
    for index in indexes:
        artifact = artifacts[index]
        if fold.artifact(artifact.id) != artifact:
            yield artifact


def _patch(known: dict[str, Any], now: dict[str, Any], *, removing: bool) -> dict[str, Any]:
    if not known and not now:
        return {}
    patch = {key: plain(value) for key, value in now.items() if key not in known or known[key] != value}
    if removing:
        patch.update(dict.fromkeys(known.keys() - now.keys()))
    return patch
