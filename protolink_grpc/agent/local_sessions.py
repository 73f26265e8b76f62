"""The sessions of an agent in the same process, with the same methods as over the network."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.fold import copy_message
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.message import Message
from protolink_grpc.models.session import (
    DeletedSession,
    Session,
    SessionItem,
    SessionList,
    SessionPage,
    Thread,
    ThreadResumption,
    Turn,
    WhenBusy,
)
from protolink_grpc.models.task import Task
from protolink_grpc.net.page_tokens import (
    cursor_from_token,
    page_size_of,
    position_from_token,
    token_from_cursor,
    token_from_position,
)
from protolink_grpc.reports import SessionExport
from protolink_grpc.reports.export import check_cursor, convert_session, last_position
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.quiet_positions import QuietPosition
from protolink_grpc.wire.sessions import items_from_bytes
from protolink_grpc.wire.tasks import check_id

T = TypeVar("T")
U = TypeVar("U")


class OnItsLoop(Protocol):
    """Calls a function with the agent's service on the agent's event loop, and returns its result."""

    async def __call__(
        self, work: Callable[[TaskService], Coroutine[Any, Any, T]], timeout_s: float | None, /
    ) -> T: ...


class Batches(Protocol):
    """Yields the batches of a reader on the agent's event loop, each converted."""

    def __call__(
        self,
        open_batches: Callable[[TaskService], AsyncGenerator[T, None]],
        read: Callable[[T], U],
        timeout_s: float | None,
        task_id: str,
        /,
    ) -> AsyncGenerator[U, None]: ...


class LocalSessions:
    """The sessions of one principal with an agent in this process.

    Args:
        read_events: Converts a batch of frames.
        copy: Builds a submission with copies of a task's content.
        export: Creates the export of a session after a sequence, for events of the Agent Runtime contract. See SessionExport.
    """

    def __init__(
        self,
        principal: str,
        on_its_loop: OnItsLoop,
        batches: Batches,
        read_events: Callable[[list[bytes]], list[RunEvent]],
        copy: Callable[[Task], Submission],
        *,
        export: Callable[[str, int, QuietPosition | None], SessionExport],
    ) -> None:
        self._principal = principal
        self._on_its_loop = on_its_loop
        self._batches = batches
        self._read_events = read_events
        self._copy = copy
        self._export = export

    async def create(self, session_id: str, title: str, metadata: dict[str, Any], timeout_s: float | None) -> Session:
        check_id(session_id, "session_id")
        copy = plain(metadata)
        return await self._on_its_loop(
            lambda service: service.sessions.create(self._principal, session_id, title=title, metadata=copy), timeout_s
        )

    async def update(
        self,
        session_id: str,
        title: str | None,
        metadata: dict[str, Any] | None,
        archived: bool | None,
        timeout_s: float | None,
    ) -> Session:
        copy = None if metadata is None else plain(metadata)
        return await self._on_its_loop(
            lambda service: service.sessions.update(
                self._principal, session_id, title=title, metadata=copy, archived=archived
            ),
            timeout_s,
        )

    async def delete(self, session_id: str, timeout_s: float | None) -> DeletedSession:
        return await self._on_its_loop(lambda service: service.sessions.delete(self._principal, session_id), timeout_s)

    async def get(
        self, session_id: str, thread_id: str, page_size: int, page_token: str, timeout_s: float | None
    ) -> SessionPage:
        before, limit = position_from_token(page_token), page_size_of(page_size)
        session, turns, more = await self._on_its_loop(
            lambda service: service.sessions.get(
                self._principal, session_id, thread_id=thread_id, before=before, limit=limit
            ),
            timeout_s,
        )
        return SessionPage(session, tuple(turns), token_from_position(more))

    async def find(
        self, page_size: int, page_token: str, timeout_s: float | None, *, include_archived: bool
    ) -> SessionList:
        after, limit = cursor_from_token(page_token), page_size_of(page_size)
        found, following = await self._on_its_loop(
            lambda service: service.sessions.find(
                self._principal, after=after, limit=limit, include_archived=include_archived
            ),
            timeout_s,
        )
        return SessionList(tuple(found), token_from_cursor(following))

    async def start_thread(
        self,
        session_id: str,
        thread_id: str,
        title: str,
        timeout_s: float | None,
        *,
        from_thread: str,
        from_turn: str,
    ) -> Thread:
        check_id(session_id, "session_id")
        check_id(thread_id, "thread_id")
        return await self._on_its_loop(
            lambda service: service.sessions.start_thread(
                self._principal, session_id, thread_id, title=title, from_thread=from_thread, from_turn=from_turn
            ),
            timeout_s,
        )

    async def submit(
        self,
        task: Task,
        session_id: str,
        thread_id: str,
        turn_id: str,
        *,
        when_busy: WhenBusy,
        timeout_s: float | None,
    ) -> Turn:
        for value, field in ((session_id, "session_id"), (thread_id, "thread_id"), (turn_id, "turn_id")):
            check_id(value, field)
        submission = self._copy(task)
        submission.task_id = ""
        return await self._on_its_loop(
            lambda service: service.sessions.submit(
                submission, self._principal, session_id, thread_id=thread_id, turn_id=turn_id, when_busy=when_busy
            ),
            timeout_s,
        )

    def stream(
        self, session_id: str, turn_id: str, after: int, *, deltas: bool
    ) -> AsyncGenerator[list[RunEvent], None]:
        def open_stream(service: TaskService) -> AsyncGenerator[list[bytes], None]:
            return service.sessions.stream(self._principal, session_id, turn_id, after=after, deltas=deltas)

        return self._batches(open_stream, self._read_events, None, "")

    async def interrupt(
        self,
        session_id: str,
        thread_id: str,
        turn_id: str,
        reason: str,
        timeout_s: float | None,
        *,
        clear_queue: bool,
    ) -> tuple[Turn, ...]:
        found = await self._on_its_loop(
            lambda service: service.sessions.interrupt(
                self._principal,
                session_id,
                thread_id=thread_id,
                turn_id=turn_id,
                reason=reason,
                clear_queue=clear_queue,
            ),
            timeout_s,
        )
        return tuple(found)

    async def promote(self, session_id: str, turn_id: str, timeout_s: float | None) -> Turn:
        return await self._on_its_loop(
            lambda service: service.sessions.promote(self._principal, session_id, turn_id), timeout_s
        )

    async def remove(self, session_id: str, turn_id: str, timeout_s: float | None) -> Turn:
        return await self._on_its_loop(
            lambda service: service.sessions.remove(self._principal, session_id, turn_id), timeout_s
        )

    async def replace_input(
        self, session_id: str, turn_id: str, messages: Sequence[Message], timeout_s: float | None
    ) -> Turn:
        copies = [copy_message(each) for each in messages]
        return await self._on_its_loop(
            lambda service: service.sessions.replace_input(self._principal, session_id, turn_id, copies), timeout_s
        )

    async def roll_back(
        self, session_id: str, turn_id: str, reason: str, timeout_s: float | None
    ) -> tuple[Thread, int]:
        return await self._on_its_loop(
            lambda service: service.sessions.roll_back(self._principal, session_id, turn_id, reason=reason), timeout_s
        )

    async def resume(self, session_id: str, thread_id: str, reason: str, timeout_s: float | None) -> ThreadResumption:
        return await self._on_its_loop(
            lambda service: service.sessions.resume(self._principal, session_id, thread_id, reason=reason), timeout_s
        )

    def watch(self, session_id: str, after: int) -> AsyncGenerator[list[SessionItem], None]:
        def open_watch(service: TaskService) -> AsyncGenerator[bytes, None]:
            return service.sessions.watch(self._principal, session_id, after=after)

        return self._batches(open_watch, items_from_bytes, None, "")

    async def runtime_events(
        self, session_id: str, after: int, *, stop_at_end: bool
    ) -> AsyncGenerator[list[dict[str, Any]], None]:
        session = (await self.get(session_id, "", 1, "", None)).session
        check_cursor(after, session)
        quiet = await self._on_its_loop(
            lambda service: service.sessions.quiet_position(self._principal, session_id, last_position(after)), None
        )
        export = self._export(session_id, after, quiet)

        def open_events(service: TaskService) -> AsyncGenerator[list[dict[str, Any]], None]:
            def watch(position: int) -> AsyncGenerator[bytes, None]:
                return service.sessions.watch(self._principal, session_id, after=position)

            return convert_session(export, watch, lambda items: list(export.records(items)), stop_at_end=stop_at_end)

        def copy(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [plain(each) for each in records]

        async with aclosing(self._batches(open_events, copy, None, "")) as batches:
            async for records in batches:
                yield records
