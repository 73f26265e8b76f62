"""Parses the directives of a scripted agent: what to do, and which fault to simulate."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from protolink_grpc.models.message import Message

FAULTS = {
    "cut": "cut N TEXT: does TEXT, and its stream is cut after N events, and once again 30 events later; if it is a turn, the"
    " second cut is that of a stream of its session, after 30 of its events",
    "cut-end": "cut-end TEXT: does TEXT; each of its streams is cut right after an event that ends the task or makes it wait",
    "outage": "outage MILLIS N TEXT: does TEXT; once its stream has shown N events, the hostile address is down for MILLIS",
    "reset": "reset CODE N TEXT: does TEXT; after N events its stream gets an HTTP/2 RST_STREAM with that code, once",
    "early": "early N TEXT: does TEXT; its stream ends with status OK after N events, once",
    "gap": "gap N TEXT: does TEXT; the stream that starts it leaves out the event after the first N",
    "idle": "idle N MILLIS TEXT: its streams are cut after MILLIS of silence, N times; then it does TEXT",
    "forget": "forget N TEXT: does TEXT; its stream is cut after N events, and then there is no such task",
    "undecided": "undecided N TEXT: does TEXT; its stream is cut after N events, and each later one before any until its approval"
    " is answered; the first response to that answer gets lost",
}
"""The faults. Each stands before another verb."""

VERBS = {
    "echo": "echo TEXT: says TEXT",
    "count": "count N: N artifacts, 1 to N",
    "wait": "wait: works until it is canceled",
    "hold": "hold WORD: works until it is canceled",
    "flap": "flap WORD: works until it is canceled; its stream is cut after its first events, each later one before any",
    "down": "down WORD: works until it is canceled; at the hostile address, sending and getting it always fails",
    "ask": "ask QUESTION: waits for a message, then says it",
    "fail": "fail REASON: ends as failed",
    "approve": "approve it: asks for an approval; says approved or refused",
    "spend": "spend N: N model calls at 0.10 USD each, and a call of the tool echo after each but the last; says `spent N`",
    "ponder": "ponder: one model call that never ends",
    "whoami": "whoami: says the name of the caller",
    "header": "header NAME: says what the caller has sent under that name",
    "count-runs": "count-runs TOKEN: says how often a task with that word was run",
    "flaky": "flaky N TOKEN: count-runs TOKEN, whose first N answers get lost",
    "calls": "calls WORD: says how often the task with that word was called and run, and how many of its streams are open",
    "future": "future: an event, a part and a state of unknown kinds",
    **FAULTS,
}
"""The verbs, with a description of each."""

SECOND_CUT = 30
"""The number of events after which the first resumed stream of a `cut` task is cut again."""

COUNTED = frozenset({"hold", "flap", "down"})
"""Verbs whose tasks `calls` counts by their word."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the streams of a task.

    Args:
        kind: One of FAULTS.
        after: Number of events of the first stream before the fault; 0 for a fault that depends on silence (`idle`) or on an event
            (`cut-end`).
        times: How often the fault happens.
        number: Milliseconds of an outage or of silence, or the error code of a reset.
    """

    kind: str
    after: int = 0
    times: int = 1
    number: int = 0


@dataclass(frozen=True, slots=True)
class Directive:
    """A parsed directive.

    Args:
        verb: One of VERBS; `flaky` is in `failures`, and FAULTS are in `fault`.
        rest: The text after the verb.
        failures: How many responses are lost before one arrives.
        fault: The fault of its streams, or None.
    """

    verb: str
    rest: str = ""
    failures: int = 0
    fault: Fault | None = None

    @property
    def word(self) -> str:
        """The word by which `calls` finds the task, or empty."""
        return self.rest if self.verb in COUNTED else ""


def parse_directive(text: str) -> Directive | None:
    """Parse a text. Returns None if it is not a directive."""
    verb, _, rest = text.partition(" ")
    match verb:
        case _ if verb in FAULTS:
            return _parse_fault(verb, rest)
        case "flaky":
            number, _, token = rest.partition(" ")
            return Directive("count-runs", token, int(number)) if _is_count(number) and token else None
        case "count" | "spend":
            return Directive(verb, rest) if _is_count(rest) else None
        case "header" | "count-runs" | "calls" | "hold" | "flap" | "down" if not rest:
            return None
        case _:
            return Directive(verb, rest) if verb in VERBS else None


def _parse_fault(kind: str, rest: str) -> Directive | None:
    """Parse the numbers of a fault and the directive after them."""
    count = {"cut-end": 0, "outage": 2, "reset": 2, "idle": 2}.get(kind, 1)
    *words, inner = [*rest.split(" ", count), *[""] * count][: count + 1]
    # Zero is valid as an HTTP/2 error code, but not as a count.
    if not all(_is_count(word) or (kind == "reset" and index == 0 and word == "0") for index, word in enumerate(words)):
        return None
    directive, numbers = parse_directive(inner), [int(word) for word in words]
    if directive is None:
        return None
    match kind:
        case "cut":
            fault = Fault(kind, after=numbers[0], times=2)
        case "cut-end":
            fault = Fault(kind)
        case "idle":
            fault = Fault(kind, times=numbers[0], number=numbers[1])
        case "outage" | "reset":
            fault = Fault(kind, after=numbers[1], number=numbers[0])
        case _:
            fault = Fault(kind, after=numbers[0])
    return replace(directive, fault=fault)


MAX_COUNT = 1_000_000
"""The largest allowed number: larger ones would create too many events for a test."""


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(MAX_COUNT)) and 0 < int(text) <= MAX_COUNT


def latest_text(messages: Sequence[Message]) -> str:
    """The text of the last message, or empty."""
    return messages[-1].text if messages else ""
