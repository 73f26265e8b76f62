"""The stream of one session: the entries of its log, and the events that they refer to, from the logs of its tasks."""

from collections.abc import AsyncGenerator, Callable, Iterator

from protolink_grpc.errors import SequenceOutOfRangeError, StoreError
from protolink_grpc.models.watch import WatchPosition
from protolink_grpc.runtime.watch import LogWatcher
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_queries import read_entries, require_head
from protolink_grpc.storage.session_rows import ENTRIES, HEADS, Entry, SessionHead, session_not_found_error
from protolink_grpc.wire.sessions import encode_segment, position_field, split_frames

BATCH_ENTRIES, BATCH_BYTES = 256, 1 << 20
"""Limits of one response of a session's stream: entries that are read, and bytes after which it is sent."""


class SessionWatcher:
    """The readers of the sessions of one store.

    Args:
        watching: Counts and stops the readers.
        is_open: Whether the service is open. Otherwise the store is closed.
    """

    def __init__(self, store: TaskStore, watching: LogWatcher, is_open: Callable[[], bool]) -> None:
        self._store = store
        self._watching = watching
        self._is_open = is_open

    async def watch(self, owner: str, session_id: str, after: int) -> AsyncGenerator[bytes, None]:
        """Yield the events of a session and of its tasks after a position, in the order of positions: stored ones, then new ones.

        Yields:
            Encoded SubscribeSessionResponses of up to about `BATCH_BYTES`; a larger event comes alone.

        Raises:
            SessionNotFoundError: The owner has no such session, or it was deleted meanwhile.
            SequenceOutOfRangeError: The session has no event at `after`.
            UnavailableError: The service was stopped.
        """
        self._watching.enter()
        try:
            head = await self._store.view(lambda records: require_head(records, owner, session_id))
            if not 0 <= after <= head.position:
                raise SequenceOutOfRangeError(
                    f"after_position {after} is not in session {session_id}, which ends with {head.position}",
                    after_position=str(after),
                    last_position=str(head.position),
                )
            position, end = after, head.position
            if position == end:
                yield position_field(WatchPosition(position, end, caught_up=True))
            while True:
                entries = await self._entries(head, position)
                async for body, last in self._bodies(entries, position):
                    caught_up = position < end <= last
                    position = last
                    yield body + position_field(WatchPosition(last, last, caught_up=True)) if caught_up else body
                if not entries:
                    if position < end:  # a memory store has dropped the last events
                        position = end
                        yield position_field(WatchPosition(position, end, caught_up=True))
                    await self._wait(head, position)
        except StoreError:
            if not self._is_open():  # and the store is closed
                raise self._watching.stopped_error() from None
            raise
        finally:
            self._watching.leave()

    async def _entries(self, head: SessionHead, after: int) -> list[Entry]:
        """Return entries after a position. Raises SessionNotFoundError if there are none, and the session was deleted."""

        def query(records: Records) -> list[Entry]:
            found = read_entries(records, head.number, after, BATCH_ENTRIES)
            if not found and _is_deleted(records, head):
                raise session_not_found_error(head.session_id)
            return found

        return await self._store.view(query)

    async def _wait(self, head: SessionHead, after: int) -> None:
        def has_changed(records: Records) -> bool:
            # A deletion before the wait wakes no reader.
            return bool(read_entries(records, head.number, after, 1)) or _is_deleted(records, head)

        change = self._store.wait_until(ENTRIES, head.number, has_changed)
        await self._watching.wait(change, lambda: self._store.view(has_changed))

    async def _bodies(self, entries: list[Entry], after: int) -> AsyncGenerator[tuple[bytes, int], None]:
        """Yield responses with the events of entries after a position, each with the position of its last event."""
        reader = _EntryReader(self._store, entries)
        segments: list[bytes] = []
        size = 0
        for entry in entries:
            pieces = [piece for each in await reader.read(entry, after) for piece in _split(*each)]
            for position, frames, task_id in pieces:
                segment = encode_segment(position, frames, task_id)
                if segments and size + len(segment) > BATCH_BYTES:
                    yield b"".join(segments), after
                    segments, size = [], 0
                segments.append(segment)
                size += len(segment)
                after = position + len(frames) - 1
            after = entry.position
        if segments:
            yield b"".join(segments), after


def _is_deleted(records: Records, head: SessionHead) -> bool:
    """Whether a session was deleted. Another one may have its id."""
    now = records.get(HEADS, head.owner, head.session_id)
    return now is None or now.number != head.number


class _EntryReader:
    """Reads the events of consecutive entries. Events of one task are read together, up to the limit of one read of the store."""

    def __init__(self, store: TaskStore, entries: list[Entry]) -> None:
        self._store = store
        self._last = {each.task_id: each.first_sequence + each.count - 1 for each in entries}
        self._ahead: dict[str, tuple[int, list[bytes]]] = {}
        """For each task the sequence of the first event that is read and not yet used, and those events."""

    async def read(self, entry: Entry, after: int) -> list[tuple[int, list[bytes], str]]:
        """Return the events of an entry after a position: position of the first one, frames, and the task or empty."""
        found: list[tuple[int, list[bytes], str]] = []
        position = entry.first_position
        if position + entry.leads - 1 > after and entry.lead:
            found.append((position, split_frames(entry.lead), ""))
        position += entry.leads
        if entry.count:
            skipped = max(0, min(after - position + 1, entry.count))
            if skipped < entry.count:
                frames = await self._events(entry.task_id, entry.first_sequence + skipped, entry.count - skipped)
                found.append((position + skipped, frames, entry.task_id))
            position += entry.count
        if entry.tail:
            found.append((position, split_frames(entry.tail), ""))
        return [_after(after, *each) for each in found if each[1] and each[0] + len(each[1]) - 1 > after]

    async def _events(self, task_id: str, first: int, count: int) -> list[bytes]:
        start, ahead = self._ahead.get(task_id, (first, []))
        found = ahead[first - start : first - start + count]
        rest = ahead[first - start + count :]
        while len(found) < count:
            following = first + len(found)
            read = await self._store.read(task_id, following - 1, self._last[task_id] - following + 1)
            if not read:
                break  # a memory store has dropped the task
            missing = count - len(found)
            found, rest = [*found, *read[:missing]], read[missing:]
        self._ahead[task_id] = (first + count, rest)
        return found


def _split(position: int, frames: list[bytes], task_id: str) -> Iterator[tuple[int, list[bytes], str]]:
    """Split consecutive events into pieces of up to `BATCH_BYTES`; a larger event comes alone."""
    begin = size = 0
    for index, frame in enumerate(frames):
        if index > begin and size + len(frame) > BATCH_BYTES:
            yield position + begin, frames[begin:index], task_id
            begin, size = index, 0
        size += len(frame)
    yield position + begin, frames[begin:], task_id


def _after(after: int, position: int, frames: list[bytes], task_id: str) -> tuple[int, list[bytes], str]:
    skipped = max(0, after - position + 1)
    return position + skipped, frames[skipped:], task_id
