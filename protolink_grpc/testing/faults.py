"""Simulated faults: lost responses, interrupted streams, events of unknown kinds.

They are applied between an agent's runtime and its edges, so that all protocols have them. The runtime itself works normally.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn

import grpc
from plgrpc.v1 import event_pb2, session_service_pb2, task_pb2

from protolink_grpc.edges.grpc.call import Call, current_call
from protolink_grpc.errors import TaskNotFoundError, UnavailableError
from protolink_grpc.models.action import Approval, ApprovalDecision
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.session import Turn
from protolink_grpc.models.watch import StopAt
from protolink_grpc.runtime.actions.approvals import ApprovalService
from protolink_grpc.runtime.admission import AcceptedTurn
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.sessions import SessionService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.port import TaskHead
from protolink_grpc.testing.directives import SECOND_CUT, Directive, Fault, latest_text, parse_directive
from protolink_grpc.testing.hostile_proxy import Break, HostileProxy
from protolink_grpc.wire.events import find_settling, frame_event, is_delta, unframe
from protolink_grpc.wire.scalars import tag, varint
from protolink_grpc.wire.watch import is_position

UNKNOWN_EVENT_TYPE = "example.unheard_of"
"""Type of the event of an unknown kind."""

FALLBACK_TEXT = "A part from the future"
"""The fallback text of the part of an unknown kind."""

FUTURE_STATE = 77
"""Number of a state that is not in the contract."""

FUTURE_KIND, FUTURE_FIELD = 1000, 1001
"""Numbers of a payload and of an envelope field that are not in the contract."""

_UNKNOWN_PAYLOAD = tag(FUTURE_KIND) + varint(5) + tag(1) + varint(3) + b"new"
_UNKNOWN_FIELD = varint(FUTURE_FIELD << 3) + b"\x2a"

received: ContextVar[Mapping[str, str] | None] = ContextVar("plgrpc_testing_received", default=None)
"""Metadata of the call that started the current run, which inherits the call's context."""


@asynccontextmanager
async def remember_metadata(call: Call) -> AsyncIterator[None]:
    """An interceptor that stores the caller's metadata for the `header` and `whoami` directives."""
    received.set(call.metadata)
    yield


@dataclass(eq=False, slots=True)
class Script:
    """The directive of one task and the state of its fault.

    Attributes:
        left: How often the fault will still happen.
        over: Set when the fault has happened as often as requested.
        has_begun: Whether a stream has delivered events of the task.
        is_forgotten: Whether the agent answers that the task does not exist.
    """

    directive: Directive
    left: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)
    has_begun: bool = False
    is_forgotten: bool = False

    def __post_init__(self) -> None:
        self.left = self.directive.fault.times if self.directive.fault is not None else 0

    def count(self) -> None:
        """Count one occurrence of the fault."""
        self.left -= 1
        if self.left <= 0:
            self.over.set()


@dataclass(slots=True)
class Tally:
    """The number of calls about the task with one word; `open` is the number of its open streams."""

    calls: int = 0
    runs: int = 0
    open: int = 0


@dataclass(slots=True)
class Scripts:
    """The scripts of an agent's tasks by id, and tallies by word. Tasks without a script have no faults."""

    tasks: dict[str, Script] = field(default_factory=dict)
    tallies: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))


class FaultyService:
    """A TaskService with faults. All other methods and attributes are those of the service.

    Args:
        scripts: The scripts of the tasks with faults, added by the agent when it starts a task.
        proxy: The proxy that can break connections; without it, those faults only cut the stream.
    """

    def __init__(self, service: TaskService, scripts: Scripts, proxy: HostileProxy | None = None) -> None:
        self._service = service
        self._scripts = scripts
        self._proxy = proxy
        self._lost: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    @property
    def sessions(self) -> "FaultySessions":
        """The sessions of the service, with faults."""
        return FaultySessions(self._service.sessions, self._scripts, self._lose_answer, self._apply_fault)

    @property
    def approvals(self) -> "FaultyApprovals":
        """The approvals of the service, with faults."""
        return FaultyApprovals(self._service.approvals, self._scripts, self._cut)

    async def send(self, submission: Submission, principal: str) -> TaskFold:
        """As TaskService. The response may be lost after the work is done or has started."""
        directive = self._count_call(submission)
        if self._is_down(directive):
            await self._service.submit(submission, principal)
            await self._cut("this task is down at this address")
        fold = await self._service.send(submission, principal)
        self._lose_answer(submission)
        return fold

    async def submit(self, submission: Submission, principal: str, *, waits: bool = False) -> AcceptedTurn:
        """As TaskService. The response may be lost."""
        directive = self._count_call(submission)
        turn = await self._service.submit(submission, principal, waits=waits)
        if self._is_down(directive):
            await self._cut("this task is down at this address")
        return turn

    async def stream(
        self, submission: Submission, principal: str, *, deltas: bool = False, positions: bool = False
    ) -> AsyncGenerator[list[bytes], None]:
        """As TaskService. The stream may be cut before the first event or later."""
        directive = self._count_call(submission)
        batches = self._service.stream(submission, principal, deltas=deltas, positions=positions)
        with self._count_open(directive):
            async with aclosing(self._apply_fault(batches, submission)) as faulty:
                async for frames in faulty:
                    yield frames

    async def watch(
        self,
        task_id: str,
        principal: str,
        *,
        after: int = 0,
        stop_at: StopAt = StopAt.TERMINAL,
        deltas: bool = False,
        positions: bool = False,
    ) -> AsyncGenerator[list[bytes], None]:
        """As TaskService. The stream may be cut, unless it contains only stored events."""
        self._check_known(task_id)
        watch = self._service.watch(
            task_id, principal, after=after, stop_at=stop_at, deltas=deltas, positions=positions
        )
        if stop_at is StopAt.CURRENT:
            async with aclosing(watch) as batches:
                async for frames in batches:
                    yield frames
            return
        script = self._scripts.tasks.get(task_id)
        directive = script.directive if script is not None else None
        if directive is not None and directive.word:
            self._scripts.tallies[directive.word].calls += 1
        with self._count_open(directive):
            async with aclosing(self._apply_fault(watch, None, script)) as faulty:
                async for frames in faulty:
                    yield frames

    async def get(self, task_id: str, principal: str) -> TaskFold:
        """As TaskService, unless the task is down or forgotten."""
        await self._check_readable(task_id)
        return await self._service.get(task_id, principal)

    async def head(self, task_id: str, principal: str) -> TaskHead:
        """As TaskService, unless the task is down or forgotten."""
        await self._check_readable(task_id)
        return await self._service.head(task_id, principal)

    async def cancel(
        self, task_id: str, principal: str, *, reason: str = "", metadata: dict[str, Any] | None = None
    ) -> TaskFold:
        """As TaskService, unless the task is forgotten."""
        self._check_known(task_id)
        return await self._service.cancel(task_id, principal, reason=reason, metadata=metadata)

    async def _check_readable(self, task_id: str) -> None:
        self._check_known(task_id)
        script = self._scripts.tasks.get(task_id)
        if script is not None and self._is_down(script.directive):
            await self._cut("this task is down at this address")

    def _check_known(self, task_id: str) -> None:
        script = self._scripts.tasks.get(task_id)
        if script is not None and script.is_forgotten:
            raise TaskNotFoundError(f"task {task_id} not found", task_id=task_id)

    def _count_call(self, submission: Submission) -> Directive | None:
        """Count the call and return the directive of the submission."""
        directive = parse_directive(latest_text(submission.messages))
        if directive is not None and directive.word:
            self._scripts.tallies[directive.word].calls += 1
        return directive

    @contextmanager
    def _count_open(self, directive: Directive | None) -> Iterator[None]:
        if directive is None or not directive.word:
            yield
            return
        tally = self._scripts.tallies[directive.word]
        tally.open += 1
        try:
            yield
        finally:
            tally.open -= 1

    def _is_down(self, directive: Directive | None) -> bool:
        return directive is not None and directive.verb == "down" and self._is_hostile()

    def _is_hostile(self) -> bool:
        """Whether the current call came through the proxy."""
        call = current_call()
        if self._proxy is None or call is None or call.context is None:
            return False
        return self._proxy.carries(call.context.peer())

    async def _cut(self, why: str) -> NoReturn:
        """End the call like a broken connection: with UNAVAILABLE and without ErrorInfo."""
        call = current_call()
        if call is not None and call.context is not None:
            await call.context.abort(grpc.StatusCode.UNAVAILABLE, why)
        raise UnavailableError(why)

    async def _apply_fault(
        self, batches: AsyncGenerator[list[bytes], None], submission: Submission | None, script: Script | None = None
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield the batches until the fault happens. A subscription passes its `script`; a submission or a turn gets one later."""
        shown, cut_after = 0, 0
        if script is not None:
            cut_after = await self._next_cut(script, begins=False)
        async with aclosing(batches):
            while True:
                try:
                    async with asyncio.timeout(_silence_s(script)) as silence:
                        frames = await anext(batches, None)
                except TimeoutError:
                    if script is None or not silence.expired():
                        raise
                    script.count()
                    await self._cut("this stream was silent for too long, as requested")
                if frames is None:
                    return
                if is_delta(frames[0]) or is_position(frames[0]):
                    yield frames
                    continue
                position = [frames.pop()] if is_position(frames[-1]) else []
                if not shown and submission is not None:
                    self._lose_answer(submission)
                if script is None:
                    # A run adds its script when it starts, which may be after its first event.
                    script = self._scripts.tasks.get(unframe(frames[0]).task_id)
                    cut_after = await self._next_cut(script, begins=True) if script is not None else 0
                if script is not None and _is_cut_at_end(script) and (end := find_settling(frames)) is not None:
                    yield self._rewrite(frames[: end + 1])
                    await self._cut("this stream was cut after an end, as requested")
                if script is not None and cut_after and _has_gap(script):
                    if len(frames) <= cut_after - shown:
                        cut_after -= len(frames)
                    else:
                        del frames[cut_after - shown]
                        cut_after = 0
                    if frames:
                        yield self._rewrite(frames) + position
                    continue
                if script is None or not cut_after or shown + len(frames) < cut_after:
                    shown += len(frames)
                    yield self._rewrite(frames) + position
                    continue
                if shown < cut_after:
                    yield self._rewrite(frames[: cut_after - shown])
                marker = await self._fail(script, cut_after)
                if marker:
                    yield [marker]
                    await asyncio.Event().wait()  # the proxy closes the connection
                return

    async def _next_cut(self, script: Script, *, begins: bool) -> int:
        """The number of events after which this stream breaks, 0 for never. `begins` means that the stream starts the task."""
        directive, has_begun = script.directive, script.has_begun
        script.has_begun = True
        if directive.verb == "flap":
            if has_begun:
                await self._cut("every further stream of this task is cut, as requested")
            return 1
        fault = directive.fault
        if has_begun and _is_undecided(script):
            await self._cut("every further stream of this task is cut until its approval is answered, as requested")
        if fault is None or fault.kind in ("idle", "cut-end") or not script.left:
            return 0
        if fault.kind == "undecided":
            return fault.after if begins else 0
        # The stream that starts the task breaks first. If the fault happens twice, the first resumed stream breaks too.
        if begins is (script.left == fault.times):
            script.count()
            return fault.after if begins else SECOND_CUT
        return 0

    async def _fail(self, script: Script, shown: int) -> bytes:  # noqa: RET503 -- it ends with what never returns
        """Break a stream that has delivered so many events.

        Returns:
            The marker that makes the proxy break the connection; empty if the stream just ends.
        """
        fault = script.directive.fault
        why = f"this stream was cut after {shown} events, as requested"
        match fault:
            case Fault("cut"):
                raise UnavailableError(why)
            case Fault("early"):
                return b""
            case Fault("reset" | "outage", number=number) if self._proxy is not None and self._is_hostile():
                return self._proxy.marker(Break.RESET if fault.kind == "reset" else Break.OUTAGE, number)
            case Fault("forget"):
                script.is_forgotten = True
        await self._cut(why)

    def _lose_answer(self, submission: Submission) -> None:
        directive = parse_directive(latest_text(submission.messages))
        if directive is not None and self._lost[directive.rest] < directive.failures:
            self._lost[directive.rest] += 1
            raise UnavailableError(f"answer {self._lost[directive.rest]} was lost, as requested")

    def _rewrite(self, frames: list[bytes]) -> list[bytes]:
        event = unframe(frames[0])
        script = self._scripts.tasks.get(event.task_id)
        if script is None or script.directive.verb != "future":
            return frames
        return [_add_unknown_values(unframe(frame)) for frame in frames]


class FaultyApprovals:
    """An ApprovalService with faults. All other methods are those of the service.

    Args:
        cut: Ends the current call like a broken connection.
    """

    def __init__(self, service: ApprovalService, scripts: Scripts, cut: Callable[[str], Awaitable[NoReturn]]) -> None:
        self._service = service
        self._scripts = scripts
        self._cut = cut

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    async def respond(
        self, decision: ApprovalDecision, principal: str, *args: Any, **options: Any
    ) -> tuple[Approval, bool]:
        """As ApprovalService. The first response about an `undecided` task is lost."""
        approval, already_decided = await self._service.respond(decision, principal, *args, **options)
        script = self._scripts.tasks.get(approval.request.task_id)
        if script is not None and _is_undecided(script):
            script.over.set()
            await self._cut("this response was lost, as requested")
        return approval, already_decided


class FaultySessions:
    """A SessionService with faults. All other methods and attributes are those of the service.

    Args:
        lose_answer: Raises if the response about a submission is to be lost.
        apply_fault: Applies the fault of a task to the stream that starts it.
    """

    def __init__(
        self,
        service: SessionService,
        scripts: Scripts,
        lose_answer: Callable[[Submission], None],
        apply_fault: Callable[[AsyncGenerator[list[bytes], None], None], AsyncGenerator[list[bytes], None]],
    ) -> None:
        self._service = service
        self._scripts = scripts
        self._lose_answer = lose_answer
        self._apply_fault = apply_fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    async def submit(self, submission: Submission, principal: str, session_id: str, **options: Any) -> Turn:
        """As SessionService. The response may be lost."""
        turn = await self._service.submit(submission, principal, session_id, **options)
        self._lose_answer(submission)
        return turn

    async def stream(
        self, principal: str, session_id: str, turn_id: str, **options: Any
    ) -> AsyncGenerator[list[bytes], None]:
        """As SessionService. The first stream of a turn may be cut."""
        batches = self._service.stream(principal, session_id, turn_id, **options)
        async with aclosing(self._apply_fault(batches, None)) as faulty:
            async for frames in faulty:
                yield frames

    async def watch(self, principal: str, session_id: str, *, after: int = 0) -> AsyncGenerator[bytes, None]:
        """As SessionService. The stream is cut if it contains a turn whose own stream was cut once, and is to be cut again."""
        shown = Counter[str]()
        async with aclosing(self._service.watch(principal, session_id, after=after)) as bodies:
            async for body in bodies:
                response = session_service_pb2.SubscribeSessionResponse.FromString(body)
                for index, segment in enumerate(response.segments):
                    script = self._scripts.tasks.get(segment.task_id)
                    if script is None or not _is_cut_again(script):
                        continue
                    left = SECOND_CUT - shown[segment.task_id]
                    shown[segment.task_id] += len(segment.events)
                    if len(segment.events) >= left:
                        script.count()
                        del segment.events[left:], response.segments[index + 1 :]
                        response.ClearField("position")
                        yield response.SerializeToString()
                        raise UnavailableError(f"this stream was cut after {SECOND_CUT} events, as requested")
                yield body


def _is_cut_again(script: Script) -> bool:
    """Whether the first stream of that task was cut, and one more is to be cut."""
    fault = script.directive.fault
    return fault is not None and fault.kind == "cut" and script.left == fault.times - 1


def _is_cut_at_end(script: Script) -> bool:
    """Whether each stream of that task is cut after an event that ends the task or makes it wait."""
    fault = script.directive.fault
    return fault is not None and fault.kind == "cut-end"


def _has_gap(script: Script) -> bool:
    """Whether the stream that starts that task leaves out an event."""
    fault = script.directive.fault
    return fault is not None and fault.kind == "gap"


def _is_undecided(script: Script) -> bool:
    """Whether the streams of that task are cut because its approval is pending."""
    fault = script.directive.fault
    return fault is not None and fault.kind == "undecided" and not script.over.is_set()


def _silence_s(script: Script | None) -> float | None:
    """After how many seconds without events a stream of that task is cut; None for never."""
    fault = script.directive.fault if script is not None and script.left else None
    return fault.number / 1000 if fault is not None and fault.kind == "idle" else None


def _add_unknown_values(event: event_pb2.RunEvent) -> bytes:
    """Add unknown values to an event: a field, and for some events the kind of the payload, of a part, or of the state."""
    match event.WhichOneof("payload"):
        case "custom" if event.event_type == UNKNOWN_EVENT_TYPE:
            event.ClearField("custom")
            event.MergeFromString(_UNKNOWN_PAYLOAD)
        case "task_artifact":
            for part in event.task_artifact.artifact.parts:
                part.Clear()
                part.fallback_text = FALLBACK_TEXT
                part.MergeFromString(_UNKNOWN_PAYLOAD)
        case "task_status" if event.task_status.new_state == task_pb2.TASK_STATE_WORKING:
            event.task_status.new_state = FUTURE_STATE  # type: ignore[assignment]  # on purpose
    event.MergeFromString(_UNKNOWN_FIELD)
    return frame_event(event)
