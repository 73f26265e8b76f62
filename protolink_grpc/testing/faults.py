"""What goes wrong on purpose: answers that get lost after the work is done, streams that are cut, events from the future.

It stands between an agent's runtime and its edges, so that every edge shows it; the runtime itself does everything right.
"""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from typing import Any

from protolink_pb.v1 import event_pb2

from protolink_grpc.errors import UnavailableError
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import StopAt, Submission
from protolink_grpc.server.call import Call
from protolink_grpc.testing.directives import SECOND_CUT, Directive, directive_of, latest
from protolink_grpc.wire.events import frame_event, is_delta, unframe
from protolink_grpc.wire.scalars import tag, varint

UNHEARD_OF = "example.unheard_of"
"""Type of the event whose kind nobody knows."""

FUTURE_KIND, FUTURE_FIELD = 1000, 1001
"""Numbers of the payload and of the envelope's field that no reader has code for."""

_FROM_THE_FUTURE = tag(FUTURE_KIND) + varint(5) + tag(1) + varint(3) + b"new"
_LATER_FIELD = varint(FUTURE_FIELD << 3) + b"\x2a"

received: ContextVar[Mapping[str, str] | None] = ContextVar("protolink_testing_received", default=None)
"""Metadata of the call that the running task answers, or that began the running run: a run inherits the context of its call."""


@asynccontextmanager
async def remember_metadata(call: Call) -> AsyncIterator[None]:
    """An interceptor: what the caller has sent, for a handler that is asked about it."""
    received.set(call.metadata)
    yield


class FaultyService:
    """A TaskService with faults around it; what is not here is the service's own.

    Args:
        scripts: What tasks were asked to do, by id; tasks that are not in it have no faults.
    """

    def __init__(self, service: TaskService, scripts: Mapping[str, Directive]) -> None:
        self._service = service
        self._scripts = scripts
        self._lost: Counter[str] = Counter()
        self._cuts: dict[str, list[int]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    async def send(self, submission: Submission, principal: str) -> TaskFold:
        """As TaskService; the answer may get lost once the work is done."""
        fold = await self._service.send(submission, principal)
        self._lose_answer(submission)
        return fold

    async def stream(
        self, submission: Submission, principal: str, *, deltas: bool = False
    ) -> AsyncGenerator[list[bytes], None]:
        """As TaskService; it may break off before the first event, or be cut later."""
        async with aclosing(self._service.stream(submission, principal, deltas=deltas)) as batches:
            async for frames in self._faulty(batches, submission):
                yield frames

    async def watch(
        self,
        task_id: str,
        principal: str,
        *,
        after: int = 0,
        stop_at: StopAt = StopAt.TERMINAL,
        deltas: bool = False,
    ) -> AsyncGenerator[list[bytes], None]:
        """As TaskService; it may be cut, unless it shows only what is stored."""
        watch = self._service.watch(task_id, principal, after=after, stop_at=stop_at, deltas=deltas)
        async with aclosing(watch) as batches:
            if stop_at is StopAt.CURRENT:
                async for frames in batches:
                    yield frames
                return
            async for frames in self._faulty(batches, None):
                yield frames

    async def _faulty(
        self, batches: AsyncGenerator[list[bytes], None], submission: Submission | None
    ) -> AsyncIterator[list[bytes]]:
        shown, cut_after = 0, 0
        async for frames in batches:
            if is_delta(frames[0]):
                yield frames
                continue
            if not shown:
                if submission is not None:
                    self._lose_answer(submission)
                cut_after = self._next_cut(unframe(frames[0]).task_id, begins=submission is not None)
            if cut_after and shown + len(frames) >= cut_after:
                yield self._rewritten(frames[: cut_after - shown])
                raise UnavailableError(f"this stream was cut after {cut_after} events, as was asked for")
            shown += len(frames)
            yield self._rewritten(frames)

    def _lose_answer(self, submission: Submission) -> None:
        directive = directive_of(latest(submission.messages))
        if directive is not None and self._lost[directive.rest] < directive.failures:
            self._lost[directive.rest] += 1
            raise UnavailableError(f"answer {self._lost[directive.rest]} got lost, as was asked for")

    def _next_cut(self, task_id: str, *, begins: bool) -> int:
        """Events after which this stream of a task is cut: the first that begins it, and the first that takes it up; else 0."""
        directive = self._scripts.get(task_id)
        if directive is None or not directive.cut_after:
            return 0
        cuts = self._cuts.setdefault(task_id, [directive.cut_after, SECOND_CUT])
        if begins is (len(cuts) == 2):
            return cuts.pop(0) if cuts else 0
        return 0

    def _rewritten(self, frames: list[bytes]) -> list[bytes]:
        event = unframe(frames[0])
        directive = self._scripts.get(event.task_id)
        if directive is None or directive.verb != "future":
            return frames
        return [_from_the_future(unframe(frame)) for frame in frames]


def _from_the_future(event: event_pb2.RunEvent) -> bytes:
    """The event with a field that nobody knows; the one of a kind unheard of with a payload of that kind."""
    if event.type == UNHEARD_OF:
        event.ClearField("custom")
        event.MergeFromString(_FROM_THE_FUTURE)
    event.MergeFromString(_LATER_FIELD)
    return frame_event(event)
