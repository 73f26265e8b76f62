"""Text that models are producing, shown live: where its writers put it, how far each reader is, what a cut stream has left behind.

Nothing of it is stored: the finished text is in the log. A call has one text; its writer appends and goes on, and every reader
pulls from where it is, so that a slow one gets bigger pieces later and costs nobody anything. Three rules tie a text to the log:

- It is shown to a reader that has the call's LlmCallStarted already.
- A further LlmCallStarted of the same call, another try, makes the earlier text void: the call's pieces begin at offset 0 again.
- After the call's LlmCallCompleted none of its pieces follows.

So the pieces that a reader gets after the latest LlmCallStarted, put together, are a beginning of the call's text at any time.
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
"""Pieces of a text that are put together at the latest: a text of many small ones must not weigh more than its bytes."""

MAX_PULL = 1 << 20
"""Bytes in one batch of deltas: gRPC receives 4 MiB by default."""

NEVER = sys.maxsize


class _Text:
    """What one try of one call has produced so far.

    Attributes:
        number: Of this text among all of the service: another try of the same call is another text.
        after: Sequence that a reader has seen before it sees any of it.
        principal: Owner of its task.
        run_id: Run that produces it.
        length: Of what readers see, in bytes of UTF-8.
        written: Of all that was written; more than `length` where there was no room for the rest.
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
        """The text from `offset` < `length` on, at most `limit` bytes and whole characters, one at least."""
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
    """The last place up to `most` where a character ends."""
    end = min(most, len(raw))
    while 0 < end < len(raw) and raw[end] & 0xC0 == 0x80:
        end -= 1
    return end


class LiveTexts:
    """The texts under way in the tasks of one agent. Used from one event loop.

    Args:
        interval_s: Time between two pulls of one reader at least, however fast text comes; the first piece is shown at once.
        max_bytes: Bytes of all texts together; a text for which there is no more room is not shown any further.
        principal_share: Part of them that the tasks of one principal may have.
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
        """Append to a text; offset 0 begins it, or begins it again. Never waits.

        Args:
            after: Sequence of the log at or behind the call's LlmCallStarted. It, the principal and the run id are looked at
                where the text begins.

        Raises:
            InvalidArgumentError: The text so far does not end at `offset`.
        """
        known = self._calls.get(task_id, {}).get(call_id)
        if offset == 0:
            if known is not None:
                self._free(known)
            known = self._calls.setdefault(task_id, {})[call_id] = _Text(next(self._numbers), after, principal, run_id)
        elif known is None or offset != known.written:
            length = known.written if known is not None else 0
            raise InvalidArgumentError(f"{offset} does not continue a text of {length} bytes", field="offset")
        if not text:
            return
        raw = text.encode(errors="replace")
        if known.written > known.length or not self._has_room(known.principal, len(raw)):
            known.written += len(raw)
            return
        self._size += len(raw)
        self._size_of[known.principal] = self._size_of.get(known.principal, 0) + len(raw)
        known.append(raw)
        for waiting in self._waiting.pop(task_id, ()):
            if not waiting.done():
                waiting.set_result(None)

    def end(self, task_id: str, call_id: str) -> None:
        """Free the text of a call; its log says the rest."""
        texts = self._calls.get(task_id)
        text = texts.pop(call_id, None) if texts is not None else None
        if text is not None:
            self._free(text)
            if not texts:
                del self._calls[task_id]

    def drop(self, task_id: str) -> None:
        """Free all texts of a task: its run has ended."""
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

    def passed(self, task_id: str, frames: Iterable[bytes]) -> None:
        """Hide the live text that these events supersede (a restarted or ended call), from all readers.

        Usually the writer has already freed it before the event was recorded.
        """
        for frame in frames:
            turn = turn_of_call(frame)
            text = self.of(task_id).get(turn[0]) if turn is not None else None
            if turn is not None and text is not None and text.after < turn[1]:
                text.after = NEVER

    def of(self, task_id: str) -> dict[str, _Text]:
        """The texts under way in a task, by call."""
        return self._calls.get(task_id, {})

    def reader(self, task_id: str) -> "TextReader":
        """A reader that has nothing yet."""
        return TextReader(self, task_id)

    async def news(self, task_id: str, grown: "asyncio.Future[None]") -> None:
        """Wait until a text of the task grows, or `grown` is done. Canceling leaves nothing behind."""
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
    """How far one watcher of a task has been sent the texts under way."""

    __slots__ = ("_due", "_sent", "_task_id", "_texts")

    def __init__(self, texts: LiveTexts, task_id: str) -> None:
        self._texts = texts
        self._task_id = task_id
        self._sent: dict[str, tuple[int, int]] = {}
        self._due = 0.0

    def passed(self, frames: Iterable[bytes]) -> None:
        """These events go to the watcher."""
        self._texts.passed(self._task_id, frames)

    def pull(self, after: int, now: float) -> list[TextDelta]:
        """What there is beyond this reader's position, unless it pulled a moment ago.

        Args:
            after: Sequence of the last event that the watcher has.
            now: Seconds of any clock that does not step back.
        """
        if now < self._due:
            return []
        found: list[TextDelta] = []
        room = MAX_PULL
        for call_id, text, offset in self._behind(after):
            piece = text.piece(offset, room)
            found.append(TextDelta(call_id, offset, piece, text.run_id))
            size = len(piece.encode())
            self._sent[call_id] = (text.number, offset + size)
            room -= size
            if room < LONGEST_CHARACTER:
                return found  # there may be more: it need not wait
        if found:
            self._due = now + self._texts.interval_s
        return found

    def _behind(self, after: int) -> list[tuple[str, _Text, int]]:
        """The texts that have more than this reader, and how much it has."""
        found = []
        for call_id, text in self._texts.of(self._task_id).items():
            if text.after <= after:
                number, offset = self._sent.get(call_id, (0, 0))
                offset = offset if number == text.number else 0
                if offset < text.length:
                    found.append((call_id, text, offset))
        return found

    def frames(self, after: int) -> list[bytes]:
        """`pull`, framed."""
        pieces = self.pull(after, asyncio.get_running_loop().time())
        return [delta_frame(self._task_id, piece) for piece in pieces]

    async def wait(self, growth: "asyncio.Future[None]", after: int) -> None:
        """Wait until `frames` may return text, or `growth` is done."""
        if self._behind(after):
            await asyncio.wait([growth], timeout=max(0.0, self._due - asyncio.get_running_loop().time()))
        else:
            await self._texts.news(self._task_id, growth)
