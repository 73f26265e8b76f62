"""Identifiers: UUIDv7 text, ordered by time, so that ids created together are close in an index, and unguessable.

Layout (RFC 9562 section 5.7, monotonic by method 3 of section 6.2): 48 bits of milliseconds, 12 bits of the fraction of
that millisecond, 62 random bits. Ids of one process ascend strictly, across threads too; when the clock stands still or
steps back, the time part is incremented from that of the last id.
"""

import os
import threading
from collections.abc import Callable, Iterator
from time import time_ns

_BLOCK = 256
_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
_FRACTIONS = [f"{number:03x}" for number in range(4096)]
"""The texts of fractions of a millisecond, because formatting takes longer than reading one."""


def uuid_source(now: Callable[[], int] = time_ns, random: Callable[[int], bytes] = os.urandom) -> Callable[[], str]:
    """Return a function that generates UUIDv7 text, each id greater than the previous one.

    The function is safe to call from several threads and in forked child processes.

    Args:
        now: Returns nanoseconds since the epoch.
        random: Returns the given number of unpredictable bytes; called once for 256 ids, because the call is slow.
    """
    # A closure, not a class: access to enclosing variables costs half as much as to attributes, and this runs for every message.
    lock = threading.Lock()
    last = 0
    millisecond, head = -1, ""  # ids of the same millisecond share its text
    tails: list[str] = []

    def new() -> str:
        nonlocal last, millisecond, head
        with lock:
            tick = now() * 64 // 15625  # milliseconds * 4096, exactly: 1e6 ns / 4096 = 15625 / 64
            if tick <= last:
                tick = last + 1
            last = tick
            if not tails:
                tails.extend(_tails(random(8 * _BLOCK).hex()))
            if tick >> 12 != millisecond:
                millisecond = tick >> 12
                head = f"{millisecond >> 16:08x}-{millisecond & 0xFFFF:04x}-7"
            return head + _FRACTIONS[tick & 0xFFF] + tails.pop()

    def forget() -> None:
        """Reset the state in a forked child: the parent has the same tails, and a thread of the parent may hold the lock."""
        nonlocal lock
        lock = threading.Lock()
        tails.clear()

    if hasattr(os, "register_at_fork"):  # absent on Windows, which does not fork
        os.register_at_fork(after_in_child=forget)
    return new


def _tails(digits: str) -> Iterator[str]:
    """Yield `-vxxx-xxxxxxxxxxxx` for each 16 hex digits; two bits of the first digit are replaced by the variant."""
    for at in range(0, len(digits), 16):
        yield f"-{_VARIANT[digits[at]]}{digits[at + 1 : at + 4]}-{digits[at + 4 : at + 16]}"


new_uuid = uuid_source()
new_task_id = new_uuid
new_message_id = new_uuid
new_artifact_id = new_uuid
new_context_id = new_uuid
new_run_id = new_uuid
new_session_id = new_uuid
new_action_id = new_uuid
new_call_id = new_uuid
new_request_id = new_uuid
new_event_id = new_uuid


def _named(prefix: str | None) -> str:
    return f"{prefix}_{new_uuid()}" if prefix else new_uuid()


class IDGenerator:
    """Id generation under ProtoLink's method names; with a `prefix`, an id is `<prefix>_<uuid>`."""

    @staticmethod
    def generate_uuid(prefix: str | None = None) -> str:
        return _named(prefix)

    @staticmethod
    def generate_task_id(prefix: str | None = None) -> str:
        return _named(prefix)

    @staticmethod
    def generate_message_id(prefix: str | None = None) -> str:
        return _named(prefix)

    @staticmethod
    def generate_artifact_id(prefix: str | None = None) -> str:
        return _named(prefix)

    @staticmethod
    def generate_context_id(prefix: str | None = None) -> str:
        return _named(prefix)

    @staticmethod
    def generate_tool_call_id(prefix: str | None = None) -> str:
        return _named(prefix)

    @staticmethod
    def generate_tool_output_id(prefix: str | None = None) -> str:
        return _named(prefix)
