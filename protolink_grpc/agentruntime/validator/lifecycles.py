"""The things of a log that begin and end, and which of them are open. `lifecycle_rules` has the rules about them."""

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from protolink_grpc.agentruntime.validator.event_file import Event

Key = tuple[str, str]
"""A session and an id in it."""


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """One kind of thing that begins and ends.

    Args:
        rule: Number of its rules.
        noun: For people.
        id: The field that identifies it.
        begin, during, end: Types of events.
        source: Document and line of the contract.
        ends_with_turn: It belongs to a turn and must have ended when the turn ends.
        again: The same id may begin again after its end.
    """

    rule: str
    noun: str
    id: str
    begin: str
    during: tuple[str, ...]
    end: tuple[str, ...]
    source: str
    ends_with_turn: bool = False
    again: bool = False


def _row(  # noqa: PLR0917 -- the columns of the table
    rule: str, noun: str, id_name: str, begin: str, during: str, end: str, source: str, *options: str
) -> Lifecycle:
    family = begin.rpartition(".")[0]
    parts = [tuple(f"{family}.{name}" for name in names.split()) for names in (during, end)]
    return Lifecycle(rule, noun, id_name, begin, parts[0], parts[1], source, "turn" in options, "again" in options)


LIFECYCLES: Final = (
    _row("R042", "turn", "turnId", "turn.submitted", "started", "completed failed", "CP:48"),
    _row("R026", "model call", "modelRequestId", "model.requested", "delta", "completed failed", "RES:75", "turn"),
    _row("R088", "tool call", "toolCallId", "tool.started", "args progress", "result failed", "TC:26", "turn"),
    _row("R045", "question", "actionId", "action.required", "", "resolved", "SPEC:254", "turn"),
    _row("R105", "permission request", "actionId", "permission.requested", "", "resolved", "PS:24", "turn"),
    _row("R065", "attempt", "runId", "task.attempt.started", "", "completed failed", "TASK:112"),
    _row("R128", "subagent", "subagentId", "subagent.spawned", "status input output", "completed failed", "SJ:14"),
    _row("R118", "process", "processId", "process.started", "output input", "completed failed terminated", "EE:16"),
    _row("R114", "hook run", "hookRunId", "hook.started", "", "completed failed", "HP:22"),
    _row("R131", "job", "jobId", "job.created", "started progress", "completed failed cancelled", "SJ:22"),
    _row("R055", "job item", "jobItemId", "job.item.started", "", "completed failed", "CP:80", "again"),
    _row("R024", "item", "stepId", "item.started", "updated", "completed", "RES:51"),
    _row("R033", "compaction", "threadId", "context.compaction.started", "", "completed failed", "TC:53", "again"),
    _row("R035", "rollback", "threadId", "history.rollback.started", "", "completed", "SH:22", "again"),
    _row("R160", "trial", "trialId", "benchmark.trial.started", "", "completed failed", "BI:24"),
)


MODEL_CALL: Final = next(row for row in LIFECYCLES if row.id == "modelRequestId")

SUBAGENT: Final = next(row for row in LIFECYCLES if row.id == "subagentId")


@dataclass(slots=True)
class Items:
    """The things of one lifecycle. `open` has the line of the first event of each. Of an ended one, only a hash is kept."""

    lifecycle: Lifecycle
    open: dict[Key, int] = field(default_factory=dict)
    turns: dict[Key, Key] = field(default_factory=dict)
    """The turn of each open one that must end with its turn."""
    _ended: set[int] = field(default_factory=set)

    def key(self, event: Event) -> Key | None:
        """Return the key of the thing that an event is about; None if the event does not name it."""
        name = event.text(self.lifecycle.id)
        return (event.text("sessionId"), name) if name else None

    def has_ended(self, key: Key) -> bool:
        return hash(key) in self._ended

    def open_in(self, turn: Key) -> list[Key]:
        return [key for key, its in self.turns.items() if its == turn]

    def apply(self, event: Event) -> None:
        """Note an event of the lifecycle. Without its begin, a thing begins with its first event."""
        key = self.key(event)
        if key is None:
            return
        if event.type in self.lifecycle.end:
            self.close(key)
        elif event.type == self.lifecycle.begin or not self.has_ended(key):
            self.open.setdefault(key, event.line)
            self._ended.discard(hash(key))
            if self.lifecycle.ends_with_turn and event.text("turnId"):
                self.turns.setdefault(key, event.turn)

    def close(self, key: Key) -> None:
        self.open.pop(key, None)
        self.turns.pop(key, None)
        self._ended.add(hash(key))


_BY_TYPE: Final = MappingProxyType(
    {kind: row.rule for row in LIFECYCLES for kind in (row.begin, *row.during, *row.end)}
)


class AllItems:
    """The things of all lifecycles."""

    def __init__(self) -> None:
        self._items = {row.rule: Items(row) for row in LIFECYCLES}

    def of(self, lifecycle: Lifecycle) -> Items:
        return self._items[lifecycle.rule]

    def apply(self, event: Event) -> None:
        rule = _BY_TYPE.get(event.type)
        if rule is not None:
            self._items[rule].apply(event)

    def close_turn(self, turn: Key) -> None:
        """Close what a turn has left open. Its rules have reported it."""
        for items in self._items.values():
            if items.lifecycle.ends_with_turn:
                for key in items.open_in(turn):
                    items.close(key)
