"""The log of a task or of a session as JSON lines, in batches, so that the memory does not depend on the length of the log."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from protolink_grpc.agentruntime.view import PLACES, AgentRuntimeView
from protolink_grpc.errors import InvalidArgumentError, SequenceOutOfRangeError
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.references import References
from protolink_grpc.models.report import redact_json, to_json_line
from protolink_grpc.models.session import Session, SessionItem
from protolink_grpc.storage.quiet_positions import QuietPosition
from protolink_grpc.wire.events import event_from_frame
from protolink_grpc.wire.sessions import read_response

BATCH_BYTES = 256 << 10
"""Maximum length of a batch of lines in characters, including line ends; a single longer line has its own batch."""

INLINE_CHARS = 4 << 10
"""Maximum length of a value of a payload of the Agent Runtime contract, as JSON. A larger one is replaced by a reference."""

PREVIEW_CHARS = 1000
"""Length of the preview of a larger value."""

Record = dict[str, Any]
T = TypeVar("T")


class RunExport:
    """One export of one log from its first event. It is not for concurrent use.

    Args:
        format: One of `FORMATS`; empty means protolink.
        redaction_policy: Removes secrets; None removes nothing.

    Raises:
        InvalidArgumentError: There is no such format; names `format`.
    """

    def __init__(self, format: str = "", redaction_policy: RedactionPolicy | None = None) -> None:  # noqa: A002 -- the field's name
        create = FORMATS.get(format or "protolink")
        if create is None:
            raise InvalidArgumentError(f"must be one of {', '.join(FORMATS)}", field="format")
        self._to_lines = create(redaction_policy)

    def lines(self, events: Iterable[RunEvent]) -> Iterator[str]:
        """Return the lines of the next events."""
        for event in events:
            yield from self._to_lines(event)

    def batches(self, frames: Iterable[bytes]) -> list[list[str]]:
        """Return the lines of the next encoded events, in batches of at most `BATCH_BYTES`."""
        found: list[list[str]] = []
        size = 0
        for line in self.lines(map(event_from_frame, frames)):
            size += len(line) + 1
            if not found or size > BATCH_BYTES:
                found.append([])
                size = len(line) + 1
            found[-1].append(line)
        return found


class SessionExport:
    """The records of one session in the format of the Agent Runtime contract. It is not for concurrent use.

    Args:
        agent_name: The agent of the session.
        after: Sequence of the last record that the reader has; 0 means none.
        redaction_policy: As in RunExport.
        quiet: A position before `after`; None means the begin of the session.

    Attributes:
        start: The position after which the events are needed.
    """

    def __init__(
        self,
        session_id: str,
        agent_name: str,
        after: int = 0,
        redaction_policy: RedactionPolicy | None = None,
        quiet: QuietPosition | None = None,
    ) -> None:
        self._ids = session_id, agent_name
        self._after = after
        self._redaction = redaction_policy
        self._view = AgentRuntimeView(session_id, agent_name, quiet)
        self.start = 0 if quiet is None else quiet.position

    def records(self, items: Iterable[SessionItem]) -> Iterator[Record]:
        """Return the records of the next events of the session's stream."""
        for item in items:
            if self._is_before(item):
                self._view.skip(item)
                continue
            for record in self._view.of_session(item):
                if record["sequence"] > self._after:
                    yield _prepare(record, self._redaction)

    def _is_before(self, item: SessionItem) -> bool:
        """Whether the reader has all records of an event."""
        return item.position <= last_position(self._after)

    def lines(self, items: Iterable[SessionItem]) -> Iterator[tuple[int, str]]:
        """Return the sequences and the lines of the next records."""
        for record in self.records(items):
            yield record["sequence"], to_json_line(record)

    def needs_earlier(self, items: Sequence[SessionItem]) -> bool:
        """Whether the records of the next events depend on events before `start`. Then call `restart`."""
        return bool(self.start) and self._view.needs_earlier(items)

    def restart(self) -> None:
        """Forget all events, and begin with the first one of the session."""
        self._view, self.start = AgentRuntimeView(*self._ids), 0

    def skip(self, items: Iterable[SessionItem], end: int) -> bool:
        """Convert the next events before a position, without their records. Returns whether there was one at the position."""
        for item in items:
            if item.position >= end:
                return True
            self._view.skip(item)
        return False


LARGE_BYTES = 4 << 10
"""Responses of a session's stream above this size are converted in a thread."""


async def convert_session(
    export: SessionExport,
    watch: Callable[[int], AsyncGenerator[bytes, None]],
    convert: Callable[[list[SessionItem]], T],
    *,
    stop_at_end: bool = False,
) -> AsyncGenerator[T, None]:
    """Yield what `convert` returns for the items of each response of a session's stream.

    Args:
        watch: Returns the encoded responses of the stream after a position.
        convert: Returns something of the export's records. Called in a thread for large responses, in order.
        stop_at_end: End after the last event that existed at the begin of the stream.
    """

    def read(body: bytes) -> tuple[list[SessionItem], bool, T | None]:
        items, is_caught_up = read_response(body)
        return items, is_caught_up, None if export.needs_earlier(items) else convert(items)

    async with aclosing(watch(export.start)) as responses:
        async for body in responses:
            items, is_caught_up, found = await _in_thread(read, body)
            if found is None:
                await _read_before(export, watch, items[0].position)
                found = await asyncio.to_thread(convert, items)
            yield found
            if stop_at_end and is_caught_up:
                return


async def _read_before(export: SessionExport, watch: Callable[[int], AsyncGenerator[bytes, None]], end: int) -> None:
    """Restart an export, and let it read the session up to before a position."""
    export.restart()
    async with aclosing(watch(0)) as responses:
        async for body in responses:
            if await _in_thread(lambda each: export.skip(read_response(each)[0], end), body):
                return


async def _in_thread(read: Callable[[bytes], T], body: bytes) -> T:
    return await asyncio.to_thread(read, body) if len(body) > LARGE_BYTES else read(body)


def last_position(after: int) -> int:
    """Return the last position of which a reader has all records, or -1."""
    return (after + 1) // PLACES - 1


def check_cursor(after: int, session: Session) -> None:
    """Check that a session has reached the record after which a reader continues.

    Raises:
        SequenceOutOfRangeError: It has not.
    """
    if not 0 <= after // PLACES <= session.position:
        raise SequenceOutOfRangeError(
            f"session {session.session_id} has no record {after}: its last position is {session.position}",
            after_position=str(after // PLACES),
            last_position=str(session.position),
        )


def _as_protolink(redaction: RedactionPolicy | None) -> Callable[[RunEvent], Iterable[str]]:
    references = References()
    return lambda event: (to_json_line(redact_json(references.whole(event).to_dict(), redaction)),)


def _as_agentruntime(redaction: RedactionPolicy | None) -> Callable[[RunEvent], Iterable[str]]:
    view = AgentRuntimeView()
    return lambda event: (to_json_line(_prepare(record, redaction)) for record in view.of_task(event))


FORMATS: dict[str, Callable[[RedactionPolicy | None], Callable[[RunEvent], Iterable[str]]]] = {
    "protolink": _as_protolink,
    "agentruntime": _as_agentruntime,
}
"""Creates the conversion of each format. It has state, so each export needs its own."""


def _prepare(record: Record, redaction: RedactionPolicy | None) -> Record:
    """Return the record to show. Large values are replaced after the redaction, which does not look into a preview."""
    shown = _as_json(record) if redaction is None else redact_json(record, redaction)
    source = shown["refs"]["sourceEventId"]
    return shown | {"payload": {name: _bounded(value, source) for name, value in shown["payload"].items()}}


def _as_json(value: Any) -> Any:
    """Return a value whose parts have their JSON form, as a redaction policy writes them. Its depth is not bounded."""
    if isinstance(value, dict):
        return {name: _as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    return value if value is None or isinstance(value, str | int) else plain(value)


def _bounded(value: Any, source: str) -> Any:
    """Return a value, or the reference to a large one: the event in which it is, its size in bytes, and its beginning."""
    if not isinstance(value, str | dict | list):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if len(text) <= INLINE_CHARS:
        return value
    return {"outputRef": source, "bytes": len(text.encode(errors="replace")), "preview": text[:PREVIEW_CHARS]}
