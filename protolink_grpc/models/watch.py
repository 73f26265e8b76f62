"""Watches: the position of a reader, where a watch ends, and batches of approvals. watch.proto has the rules."""

from dataclasses import dataclass
from enum import Enum

from protolink_grpc.models.action import Approval


@dataclass(frozen=True, slots=True)
class WatchPosition:
    """The position of a reader after one batch of a watch.

    Args:
        revision: Position to continue from; 0 while a snapshot is incomplete.
        head: Last position that is known to exist.
        caught_up: The batch has the last entry that existed when the watch began. True once in a watch.
        reset: A snapshot begins: the reader discards its earlier entries.
    """

    revision: int = 0
    head: int = 0
    caught_up: bool = False
    reset: bool = False


class StopAt(Enum):
    """The point at which a watch ends by itself."""

    TERMINAL = "terminal"
    INTERRUPTED = "interrupted"
    CURRENT = "current"


@dataclass(frozen=True, slots=True)
class ApprovalChanges:
    """A batch of a watch of approvals, with its position. A batch without approvals only moves the position."""

    approvals: list[Approval]
    position: WatchPosition
