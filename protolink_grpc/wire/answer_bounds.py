"""Limits a task to the size of one response: clients receive 4 MiB by default. The meaning of a task is decided elsewhere.

Header fields that are too large are left out and named. Of the messages and artifacts, the newest are kept. A single one that
does not fit is shown without its parts, and its path is named.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message as Protobuf
from plgrpc.v1 import task_pb2 as pb

BODY_BYTES: Final = 3 << 20
"""Approximate bound of the messages and artifacts of one response."""

HEADER_BYTES: Final = 512 << 10
"""Bound of all other fields except the state changes."""

MAX_CHANGES: Final = 10_000
"""State changes in one response, each about 25 bytes; the latest are kept."""

PREFIX_BYTES: Final = 6
"""Maximum size of the key and length of a list item."""

SMALL_METADATA_BYTES: Final = 64 << 10
"""Maximum metadata of a message or artifact that is kept when its parts are left out."""


@dataclass(frozen=True, slots=True)
class Window:
    """The range of messages and artifacts that a response shows, as far as they fit.

    Args:
        max_messages: Number of latest messages; 0 means all.
        before_message, before_artifact: Only items before this index in the whole task; None means all.
    """

    max_messages: int = 0
    before_message: int | None = None
    before_artifact: int | None = None

    def messages(self, first: int, count: int) -> tuple[int, int]:
        """Return the range of messages to show, within a view whose first message has index `first`."""
        end = count if self.before_message is None else min(count, self.before_message)
        return min(end, max(first, end - self.max_messages) if self.max_messages else first), end

    def artifacts(self, first: int, count: int) -> tuple[int, int]:
        """Return the range of artifacts to show, like `messages`."""
        end = count if self.before_artifact is None else min(count, self.before_artifact)
        return min(first, end), end


WHOLE: Final = Window()


def total_size(items: Sequence[bytes | None]) -> int:
    """Return the size of a list of encoded items in bytes; None counts as 0."""
    return sum(map(len, filter(None, items))) + PREFIX_BYTES * len(items)


def newest(items: Sequence[bytes], room: int) -> list[bytes]:
    """Return as many of the last items as fit into `room` bytes."""
    for at in range(len(items) - 1, -1, -1):
        room -= len(items[at]) + PREFIX_BYTES
        if room < 0:
            return list(items[at + 1 :])
    return list(items)


def cut(
    messages: Sequence[bytes], artifacts: Sequence[bytes], end: int, end_artifact: int
) -> tuple[list[bytes], list[bytes], list[str]]:
    """Return the newest messages and artifacts that fit into one response, and the names of the fields that are left out.

    Each kind gets half of the room, plus what the other kind does not need. The latest message is always included. A response
    without messages includes the latest artifact, so that a caller that pages through the rest receives all of it.

    Args:
        end, end_artifact: End index of the messages and of the artifacts in the whole task.
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
    """Return an item unchanged if it fits into a response, else without its parts; omitted paths are added to `omitted`."""
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


def reduce_header(header: pb.Task, most: int = HEADER_BYTES) -> pb.Task:
    """Return a header without its largest fields, so that at most `most` bytes remain; `omitted` names these fields."""
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
