"""Where a reader of a watch is: watch.proto has the rules."""

from dataclasses import dataclass


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
