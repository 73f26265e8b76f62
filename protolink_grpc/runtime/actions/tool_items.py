"""The items of one call of a generator tool: bounded, and recorded in the log of its task, each once.

A call that a crash interrupted may be repeated. Readers already have the items that were recorded, so these stay: the repetition
must yield the same ones, and continues after them.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final

from protolink_grpc.errors import ToolFailedError
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.events import TaskArtifactUpdated
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.json_value import is_same_json, to_json
from protolink_grpc.models.payload import Payload, copy_value
from protolink_grpc.models.tool_items import ITEMS_KIND, item_part, items_of
from protolink_grpc.models.watch import StopAt
from protolink_grpc.runtime.actions.action_context import ActionContext, check_runtime
from protolink_grpc.runtime.admission import AcceptedTurn
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import content_size
from protolink_grpc.wire.events import unframe
from protolink_grpc.wire.payloads import payload_from_pb

MAX_BYTES: Final = 16 << 20
"""Maximum size of the items of one call: they stay in memory until the task ends."""

MAX_ITEM_BYTES: Final = 3 << 20
"""Maximum size of one item: its event must fit into the log, and its response into the 4 MiB that clients of gRPC accept."""

ITEM_BYTES: Final = 128
"""Size that is counted for each item beside its content: its event in the log, and its objects in memory."""


class ItemLog:
    """The items of one call in the log.

    Args:
        artifact_id: Id of the artifact that has the items. It is the same in every run of the turn.
        fold: The log, which may have items of an interrupted call.
        note_size: Called with the bytes of each item that is recorded.
    """

    def __init__(self, artifact_id: str, fold: TaskFold, note_size: Callable[[int], None] = lambda _: None) -> None:
        known = fold.artifact(artifact_id)
        self.artifact_id = artifact_id
        self._note_size = note_size
        self.recorded = [] if known is None else items_of(known)
        self.count = len(self.recorded)

    async def add(self, index: int, item: Any, size: int, action_context: ActionContext, action_id: str) -> bool:
        """Record an item of `size` bytes, unless the log has it. Return False if the log has another item at this index."""
        if index < len(self.recorded):
            return _is_same(self.recorded[index], item)
        artifact = Artifact(
            id=self.artifact_id, parts=[item_part(copy_value(item))], kind=ITEMS_KIND, action_id=action_id
        )
        await action_context.emit(TaskArtifactUpdated(artifact, append=index > 0))
        self.count = index + 1
        self._note_size(size)
        return True


class ToolItems:
    """Takes the items of one call: checks the budget and the size, and records the items.

    Args:
        log: None: the items are only in the result.
    """

    def __init__(self, tool: str, action_context: ActionContext, action_id: str, log: ItemLog | None) -> None:
        self._tool = tool
        self._action_context = action_context
        self._action_id = action_id
        self._log = log
        self._count = 0
        self._bytes = 0

    async def take(self, item: Any) -> None:
        """Take the next item.

        Raises:
            BudgetExceededError: A limit of the budget is exceeded.
            ToolFailedError: The item or all items are too large, or a repetition yields other items than the log has.
        """
        await check_runtime(self._action_context)
        size = _item_size(item)
        if size > MAX_ITEM_BYTES:
            raise self._error(f"yielded an item of more than {MAX_ITEM_BYTES >> 20} MiB")
        self._bytes += size
        if self._bytes > MAX_BYTES:
            raise self._error(f"yielded more than {MAX_BYTES >> 20} MiB")
        log, action_context = self._log, self._action_context
        if log is not None and not await log.add(self._count, item, size, action_context, self._action_id):
            raise self._error(
                f"was repeated after an interruption, and item {self._count} differs from the recorded one"
            )
        self._count += 1

    def check_end(self) -> None:
        """Raise ToolFailedError if a repetition ends before the items that the log has."""
        if self._log is not None and self._count < self._log.count:
            raise self._error(
                f"was repeated after an interruption, and yielded {self._count} instead of {self._log.count} items"
            )

    def _error(self, what: str) -> ToolFailedError:
        return ToolFailedError(f"Tool '{self._tool}' {what}", tool=self._tool)


async def read_items(service: TaskService, turn: AcceptedTurn, principal: str) -> AsyncGenerator[list[Any], None]:
    """Yield the items of the tool call of a turn in batches, from the first one, each after its commit, until the turn ends.

    The tool does not wait for this reader. Raises as `TaskService.watch`.
    """
    watch = service.watch(turn.task_id, principal, after=turn.after_sequence, stop_at=StopAt.INTERRUPTED)
    async with aclosing(watch) as batches:
        async for frames in batches:
            events = [event for event in map(unframe, frames) if event.WhichOneof("payload") == "task_artifact"]
            updates = [update for update in map(payload_from_pb, events) if isinstance(update, TaskArtifactUpdated)]
            items = [item for each in updates if each.artifact.kind == ITEMS_KIND for item in items_of(each.artifact)]
            if items:
                yield items


def _item_size(item: Any) -> int:
    """Return the approximate size of an item; that of a large one is exact, because a character may take several bytes."""
    size = content_size(item)
    return (len(to_json(item).encode()) if size > MAX_ITEM_BYTES // 8 else size) + ITEM_BYTES


def _is_same(recorded: Any, item: Any) -> bool:
    if isinstance(recorded, Payload) or isinstance(item, Payload):
        return bool(recorded == item)
    return is_same_json(recorded, item)
