"""Rules about things that begin and end. Each lifecycle has three or four of them."""

from protolink_grpc.agentruntime.validator.event_file import Event
from protolink_grpc.agentruntime.validator.lifecycles import LIFECYCLES, Lifecycle
from protolink_grpc.agentruntime.validator.log_state import LogState
from protolink_grpc.agentruntime.validator.rule import HOLDS, Outcome, RuleSet

RULES = RuleSet()


def _declare(row: Lifecycle) -> None:
    begin, ends = row.begin, " or ".join(row.end)
    noun = f"{'an' if row.noun[0] in 'aeiou' else 'a'} {row.noun}"
    subject = noun[0].upper() + noun[1:]
    once = "begins again only after its end" if row.again else "begins once"

    @RULES.rule(f"{row.rule}.1", f"{subject} {once}: one {begin} for each {row.id}.", row.source, begin)
    def check_begin(event: Event, log: LogState) -> Outcome:
        items = log.items.of(row)
        key = items.key(event)
        if key is None:
            return None
        if key in items.open:
            return f"{row.noun} {key[1]} is open since line {items.open[key]}"
        return f"{row.noun} {key[1]} has ended" if items.has_ended(key) and not row.again else HOLDS

    @RULES.rule(
        f"{row.rule}.2",
        f"Each event of {noun} follows its {begin}.",
        row.source,
        *row.during,
        *row.end,
        needs_beginning=True,
    )
    def check_has_begun(event: Event, log: LogState) -> Outcome:
        items = log.items.of(row)
        key = items.key(event)
        if key is None or (row.ends_with_turn and log.has_turn_ended(event)):
            return None  # X07 reports events after the end of their turn
        return HOLDS if key in items.open or items.has_ended(key) else f"no {begin} of {row.noun} {key[1]}"

    @RULES.rule(
        f"{row.rule}.3", f"{subject} ends once, and {ends} is its last event.", row.source, *row.during, *row.end
    )
    def check_has_not_ended(event: Event, log: LogState) -> Outcome:
        items = log.items.of(row)
        key = items.key(event)
        if key is None:
            return None
        return f"{row.noun} {key[1]} has ended" if items.has_ended(key) else HOLDS

    if not row.ends_with_turn:
        return

    @RULES.rule(
        f"{row.rule}.4", f"{subject} has ended when its turn ends.", row.source, "turn.completed", "turn.failed"
    )
    def check_turn_end(event: Event, log: LogState) -> Outcome:
        turn = log.turns.get(event.turn)
        if turn is None or row.begin not in turn.begun:
            return None
        items = log.items.of(row)
        found = items.open_in(event.turn)
        if not found:
            return HOLDS
        more = f" and {len(found) - 1} more are" if len(found) > 1 else " is"
        return f"{row.noun} {found[0][1]} of line {items.open[found[0]]}{more} open"


for _each in LIFECYCLES:
    _declare(_each)
