"""Live text: the texts that models are producing, and the position of each reader in them.

Live text is not stored: the complete text is in the log. A call has one text. Its writer appends and never waits; each reader pulls
from its own position, so a slow reader gets larger pieces later. Three rules relate a text to the log:

- A reader gets the text only after the call's LlmCallStarted.
- Another LlmCallStarted of the same call, a retry, discards the earlier text: its pieces begin at offset 0 again.
- No piece follows the call's LlmCallCompleted.

So at any time, the pieces that a reader got after the latest LlmCallStarted, joined, are a prefix of the call's text.
"""

import asyncio
import sys
from bisect import bisect_right
from collections.abc import Iterable
from itertools import count
from math import ceil

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.events import TextDelta
from protolink_grpc.wire.events import delta_frame, turn_of_call

SEAL = 64
"""Number of small pieces after which they are joined: many small objects use more memory than their bytes."""

MAX_PULL = 1 << 20
"""Maximum bytes in one batch of deltas. Source: gRPC receives 4 MiB per message by default."""

NEVER = sys.maxsize


class _Text:
    """The text of one attempt of one call so far.

    Attributes:
        number: Serial number among all texts of the service; each attempt of a call has another one.
        after: Readers get the text only after the event with this sequence.
        principal: Owner of the task.
        run_id: Run that produces the text.
        length: Length that readers see, in bytes of UTF-8.
        written: Length of all that was written; greater than `length` if there was no room for the rest.
    """

    __slots__ = ("_ends", "_fresh", "_pieces", "after", "length", "number", "principal", "run_id", "written")

    def __init__(self, number: int, after: int, principal: str, run_id: str) -> None:
        self.number = number
        self.after = after
        self.principal = principal
        self.run_id = run_id
        self.length = self.written = 0
        self._pieces: list[bytes] = []
        self._ends: list[int] = []
        self._fresh: list[bytes] = []

    def append(self, text: bytes) -> None:
        self._fresh.append(text)
        self.length += len(text)
        self.written += len(text)
        if len(self._fresh) >= SEAL:
            self._seal()

    def _seal(self) -> None:
        if self._fresh:
            self._pieces.append(b"".join(self._fresh))
            self._ends.append(self.length)
            self._fresh = []

    def piece(self, offset: int, limit: int) -> str:
        """Return the text from `offset` < `length`: at most `limit` bytes of whole characters, but at least one character."""
        self._seal()
        at = bisect_right(self._ends, offset)
        start = offset - self._ends[at] + len(self._pieces[at])
        found: list[str] = []
        while limit > 0 and at < len(self._pieces):
            raw = self._pieces[at]
            end = _end_of_character(raw, start + limit)
            if end <= start:
                if found:
                    break
                end = _end_of_character(raw, start + LONGEST_CHARACTER)
            found.append(raw[start:end].decode())
            limit -= end - start
            if end < len(raw):
                break
            at, start = at + 1, 0
        return "".join(found)


LONGEST_CHARACTER = 4


def _end_of_character(raw: bytes, most: int) -> int:
    """Return the last position up to `most` at which a character ends."""
    end = min(most, len(raw))
    while 0 < end < len(raw) and raw[end] & 0xC0 == 0x80:
        end -= 1
    return end


class LiveTexts:
    """The live texts in the tasks of one agent. Used from one event loop.

    Args:
        interval_s: Minimum time between two pulls of one reader; the first piece is returned at once.
        max_bytes: Maximum bytes of all texts; a text that exceeds it is not shown any further.
        principal_share: Part of `max_bytes` that the tasks of one principal may use.
    """

    def __init__(self, interval_s: float = 0.025, *, max_bytes: int = 16 << 20, principal_share: float = 1.0) -> None:
        self.interval_s = interval_s
        self._max_bytes = max_bytes
        self._max_principal_bytes = ceil(max_bytes * principal_share)
        self._size = 0
        self._size_of: dict[str, int] = {}
        self._calls: dict[str, dict[str, _Text]] = {}
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._numbers = count(1)

    @property
    def size(self) -> int:
        """Bytes of all texts."""
        return self._size

    def write(
        self, task_id: str, call_id: str, offset: int, text: str, *, after: int, principal: str = "", run_id: str = ""
    ) -> None:
        """Append to a text; offset 0 begins a new one. Never waits.

        Args:
            after: Sequence of the call's LlmCallStarted, or a later one. Like the principal and the run id it is used only at
                offset 0.

        Raises:
            InvalidArgumentError: The text so far does not end at `offset`.
        """
        current = self._calls.get(task_id, {}).get(call_id)
        if offset == 0:
            if current is not None:
                self._free(current)
            current = _Text(next(self._numbers), after, principal, run_id)
            self._calls.setdefault(task_id, {})[call_id] = current
        elif current is None or offset != current.written:
            length = current.written if current is not None else 0
            raise InvalidArgumentError(f"{offset} does not continue a text of {length} bytes", field="offset")
        if not text:
            return
        raw = text.encode(errors="replace")
        if current.written > current.length or not self._has_room(current.principal, len(raw)):
            current.written += len(raw)
            return
        self._size += len(raw)
        self._size_of[current.principal] = self._size_of.get(current.principal, 0) + len(raw)
        current.append(raw)
        for waiting in self._waiting.pop(task_id, ()):
            if not waiting.done():
                waiting.set_result(None)

    def end(self, task_id: str, call_id: str) -> None:
        """Delete the text of a call."""
        texts = self._calls.get(task_id)
        text = texts.pop(call_id, None) if texts is not None else None
        if text is not None:
            self._free(text)
            if not texts:
                del self._calls[task_id]

    def drop(self, task_id: str) -> None:
        """Delete all texts of a task."""
        texts = self._calls.pop(task_id, None)
        if texts:
            for text in texts.values():
                self._free(text)

    def _has_room(self, principal: str, size: int) -> bool:
        own = self._size_of.get(principal, 0)
        return self._size + size <= self._max_bytes and own + size <= self._max_principal_bytes

    def _free(self, text: _Text) -> None:
        if not text.length:
            return
        self._size -= text.length
        left = self._size_of.pop(text.principal) - text.length
        if left:
            self._size_of[text.principal] = left

    def hide_superseded(self, task_id: str, frames: Iterable[bytes]) -> None:
        """Hide the text that these events supersede (a restarted or ended call) from all readers.

        Usually the writer has already deleted it before the event was recorded.
        """
        for frame in frames:
            turn = turn_of_call(frame)
            text = self.of(task_id).get(turn[0]) if turn is not None else None
            if turn is not None and text is not None and text.after < turn[1]:
                text.after = NEVER

    def of(self, task_id: str) -> dict[str, _Text]:
        """Return the texts of a task, by call id."""
        return self._calls.get(task_id, {})

    def reader(self, task_id: str) -> "TextReader":
        """Return a new reader, at the beginning of all texts."""
        return TextReader(self, task_id)

    async def wait_text(self, task_id: str, grown: "asyncio.Future[None]") -> None:
        """Wait until a text of the task grows, or `grown` is done."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(task_id, set())
        waiting.add(future)
        try:
            await asyncio.wait([grown, future], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.discard(future)
            if not waiting and self._waiting.get(task_id) is waiting:
                del self._waiting[task_id]


class TextReader:
    """The position of one reader in the live texts of a task."""

    __slots__ = ("_due", "_sent", "_task_id", "_texts")

    def __init__(self, texts: LiveTexts, task_id: str) -> None:
        self._texts = texts
        self._task_id = task_id
        self._sent: dict[str, tuple[int, int]] = {}
        self._due = 0.0

    def note_sent(self, frames: Iterable[bytes]) -> None:
        """Note that these events are sent to the reader."""
        self._texts.hide_superseded(self._task_id, frames)

    def pull(self, after: int, now: float) -> list[TextDelta]:
        """Return the text beyond this reader's position; nothing if its last pull was less than `interval_s` ago.

        Args:
            after: Sequence of the last event that the reader has.
            now: Seconds of any clock that does not step back.
        """
        if now < self._due:
            return []
        found: list[TextDelta] = []
        room = MAX_PULL
        for call_id, text, offset in self._find_unread(after):
            piece = text.piece(offset, room)
            found.append(TextDelta(call_id, offset, piece, text.run_id))
            size = len(piece.encode())
            self._sent[call_id] = (text.number, offset + size)
            room -= size
            if room < LONGEST_CHARACTER:
                return found  # there may be more text: the next pull need not wait
        if found:
            self._due = now + self._texts.interval_s
        return found

    def _find_unread(self, after: int) -> list[tuple[str, _Text, int]]:
        """Return the texts with more than this reader has, each with the reader's offset."""
        found = []
        for call_id, text in self._texts.of(self._task_id).items():
            if text.after <= after:
                number, offset = self._sent.get(call_id, (0, 0))
                offset = offset if number == text.number else 0
                if offset < text.length:
                    found.append((call_id, text, offset))
        return found

    def frames(self, after: int) -> list[bytes]:
        """Return the result of `pull` as frames."""
        pieces = self.pull(after, asyncio.get_running_loop().time())
        return [delta_frame(self._task_id, piece) for piece in pieces]

    async def wait(self, growth: "asyncio.Future[None]", after: int) -> None:
        """Wait until `frames` may return text, or `growth` is done."""
        if self._find_unread(after):
            await asyncio.wait([growth], timeout=max(0.0, self._due - asyncio.get_running_loop().time()))
        else:
            await self._texts.wait_text(self._task_id, growth)
