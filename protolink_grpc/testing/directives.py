"""The small language that a scripted agent is spoken to in: what a text asks it to do, and what goes wrong on the way.

Here texts are read; nothing is done.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from protolink_grpc.models.message import Message

VERBS = {
    "echo": "echo TEXT: says TEXT",
    "count": "count N: N artifacts, 1 to N",
    "wait": "wait: until somebody cancels",
    "ask": "ask QUESTION: waits for a message, then says it",
    "fail": "fail REASON: ends as failed",
    "approve": "approve it: asks for an approval; says approved or refused",
    "whoami": "whoami: says the name of the caller",
    "header": "header NAME: says what the caller has sent under that name",
    "count-runs": "count-runs TOKEN: says how often a task with that word was run",
    "flaky": "flaky N TOKEN: count-runs TOKEN, whose first N answers get lost",
    "cut": "cut N TEXT: does TEXT, and its stream is cut after N events, and once again 30 events later",
    "future": "future: an event of a kind that nobody knows",
}
"""What each verb does. A `cut` stands before another verb."""

SECOND_CUT = 30
"""Events that the first subscription to a task that was cut shows before it is cut, too."""


@dataclass(frozen=True, slots=True)
class Directive:
    """What one text asks for.

    Args:
        verb: One of VERBS, `flaky` and `cut` left out: these are the two numbers.
        rest: What follows the verb.
        failures: Answers that get lost before one arrives.
        cut_after: Events after which the first stream is cut; 0 cuts nothing.
    """

    verb: str
    rest: str = ""
    failures: int = 0
    cut_after: int = 0

    @property
    def is_faulty(self) -> bool:
        """Whether the events of its task are shown otherwise than they are."""
        return self.cut_after > 0 or self.verb == "future"


def directive_of(text: str) -> Directive | None:
    """What a text asks for; None where it is not in the language."""
    verb, _, rest = text.partition(" ")
    match verb:
        case "cut":
            number, _, inner = rest.partition(" ")
            cut = directive_of(inner) if _is_count(number) else None
            return cut and replace(cut, cut_after=int(number))
        case "flaky":
            number, _, token = rest.partition(" ")
            return Directive("count-runs", token, int(number)) if _is_count(number) and token else None
        case "count":
            return Directive(verb, rest) if _is_count(rest) else None
        case "header" | "count-runs" if not rest:
            return None
        case _:
            return Directive(verb, rest) if verb in VERBS else None


MAX_COUNT = 1_000_000
"""Larger numbers are none: somebody has to read what they make."""


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(MAX_COUNT)) and 0 < int(text) <= MAX_COUNT


def latest(messages: Sequence[Message]) -> str:
    """The text of the last message; empty where there is none."""
    return messages[-1].text if messages else ""
