"""Watches: the position of a reader, where a watch ends, and batches of approvals. watch.proto has the rules."""

from dataclasses import dataclass
from enum import Enum

from protolink_grpc.models.action import Approval


@dataclass(frozen=True, slots=True)
class WatchPosition:
    """Up to where one batch of a watch informs its reader.

    Args:
        revision: Continue from here; 0 while a snapshot is incomplete.
        head: Last position that is known to exist.
        caught_up: The batch completes what existed when the watch began. True once in a watch.
        reset: A snapshot begins: what the reader knew before is void.
    """

    revision: int = 0
    head: int = 0
    caught_up: bool = False
    reset: bool = False


class StopAt(Enum):
    """Where a watch ends by itself."""

    TERMINAL = "terminal"
    INTERRUPTED = "interrupted"
    CURRENT = "current"


@dataclass(frozen=True, slots=True)
class ApprovalChanges:
    """Approvals that a watch shows, and up to where they inform its reader. There may be none: then it is the position alone."""

    approvals: list[Approval]
    position: WatchPosition
