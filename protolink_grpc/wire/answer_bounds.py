"""What of a task fits into one answer: callers receive 4 MiB by default. What a task means is decided elsewhere.

Of the header, fields that are too large are left out and named. Of messages and artifacts the newest are kept. A single one that
does not fit is shown without its parts, and named.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message as Protobuf
from plgrpc.v1 import task_pb2 as pb

BODY_BYTES: Final = 3 << 20
"""Bound of the messages and artifacts of one answer, about."""

HEADER_BYTES: Final = 512 << 10
"""Bound of everything else but the state changes."""

MAX_CHANGES: Final = 10_000
"""State changes of one answer, each of about 25 bytes: the latest ones."""

PREFIX_BYTES: Final = 6
"""Key and length of an item in its list, at most."""

SMALL_METADATA_BYTES: Final = 64 << 10
"""Metadata of a message or an artifact that is shown although its parts are not."""


@dataclass(frozen=True, slots=True)
class Window:
    """Which messages and artifacts of a task an answer shows, if they fit.

    Args:
        max_messages: The latest ones; 0 means all.
        before_message, before_artifact: Only those before this index of the whole task; None means all.
    """

    max_messages: int = 0
    before_message: int | None = None
    before_artifact: int | None = None

    def messages(self, first: int, count: int) -> tuple[int, int]:
        """The range of messages to show, of those of the view, which begin at `first`."""
        end = count if self.before_message is None else min(count, self.before_message)
        return min(end, max(first, end - self.max_messages) if self.max_messages else first), end

    def artifacts(self, first: int, count: int) -> tuple[int, int]:
        """As `messages`."""
        end = count if self.before_artifact is None else min(count, self.before_artifact)
        return min(first, end), end


WHOLE: Final = Window()


def total_size(items: Sequence[bytes | None]) -> int:
    """Bytes of a list of encoded items; None counts nothing."""
    return sum(map(len, filter(None, items))) + PREFIX_BYTES * len(items)


def newest(items: Sequence[bytes], room: int) -> list[bytes]:
    """The last items, as many as fit into `room` bytes."""
    for at in range(len(items) - 1, -1, -1):
        room -= len(items[at]) + PREFIX_BYTES
        if room < 0:
            return list(items[at + 1 :])
    return list(items)


def cut(
    messages: Sequence[bytes], artifacts: Sequence[bytes], end: int, end_artifact: int
) -> tuple[list[bytes], list[bytes], list[str]]:
    """The newest messages and artifacts that fit into one answer, and the fields that are left out of them.

    Each kind gets half of the room, and what the other does not need. There is always the latest message. An answer without
    messages has the latest artifact, so that a caller that asks for the rest, answer by answer, gets all of it.

    Args:
        end, end_artifact: Where the messages and the artifacts end in the whole task.
    """
    omitted: list[str] = []
    shown = newest(messages, max(BODY_BYTES // 2, BODY_BYTES - total_size(artifacts)))
    if messages and not shown:
        shown = [fitting(messages[-1], pb.Message, f"messages[{end - 1}]", omitted)]
    results = newest(artifacts, BODY_BYTES - total_size(shown))
    if artifacts and not results and not shown:
        results = [fitting(artifacts[-1], pb.Artifact, f"artifacts[{end_artifact - 1}]", omitted)]
    return shown, results, omitted


def fitting(item: bytes, kind: type[pb.Message] | type[pb.Artifact], path: str, omitted: list[str]) -> bytes:
    """An item as it is where it fits into an answer, else without its parts; their paths are added to `omitted`."""
    if len(item) <= BODY_BYTES:
        return item
    out = kind.FromString(item)
    out.ClearField("parts")
    out.parts.add().fallback_text = f"{len(item):,} bytes, which do not fit into this answer"
    omitted.append(f"{path}.parts")
    if len(out.metadata_json) > SMALL_METADATA_BYTES:
        out.ClearField("metadata_json")
        omitted.append(f"{path}.metadata_json")
    return out.SerializeToString()


def reduced(header: pb.Task, most: int = HEADER_BYTES) -> pb.Task:
    """A header without its largest fields, until it has at most so many bytes; `omitted` names them."""
    sizes = sorted(((_size(value), field.name) for field, value in header.ListFields()), reverse=True)
    left = header.ByteSize()
    for size, name in sizes:
        if left <= most:
            break
        left -= size
        header.ClearField(name)  # type: ignore[arg-type]  # the name of one of its fields
        header.omitted.append(name)
    return header


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())
    return value.ByteSize() if isinstance(value, Protobuf) else 0
