"""Approvals seen from outside a run: who may answer them, listing, watching and answering. Runs that wait live elsewhere.

An approval is two facts in its task's log, the question and the answer. The log only refers to the action that waits; the store's
index has the whole question beside it, written in the same step. Answering is an append like any other, so it works wherever the
run waits: in this process, in another one on the same store, or nowhere, because its process died; a run that takes over finds the
answer in the log.
"""

import asyncio
import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from protolink_grpc.errors import (
    ApprovalChangedError,
    ApprovalNotFoundError,
    InvalidArgumentError,
    InvalidTransitionError,
    LeaseLostError,
    PermissionDeniedError,
    StoreError,
    UnavailableError,
    UnimplementedError,
)
from protolink_grpc.logs import get_logger
from protolink_grpc.models.action import (
    Approval,
    ApprovalDecision,
    ApprovalRequest,
    ApprovalState,
    RunAction,
)
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import Clock, iso_from_micros, micros_from_iso
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import ApprovalDecided, RunEvent
from protolink_grpc.models.part import FileContent, Part, RouteDecision, ToolCall, ToolOutput
from protolink_grpc.models.payload import Payload, PayloadRef
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.watch import ApprovalChanges, WatchPosition
from protolink_grpc.runtime.log import LiveTask
from protolink_grpc.storage.approvals import APPROVALS, ApprovalQuery, ApprovalRow, changed_approvals, find_approvals
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.storage.records import Page, Revisions
from protolink_grpc.tools.runner import ToolRunner
from protolink_grpc.wire.actions import approval_from_bytes
from protolink_grpc.wire.events import event_from_frame

log = get_logger(__name__)

PAGE_BYTES = 1 << 20
"""Where a page or a batch ends early: callers receive 4 MiB by default, and one preview may be large by itself."""

SCANS = 20
"""Pages of the store that one listing looks through at most; what it shows may be fewer than asked for, with a cursor."""

BATCH = 64
"""Changes that a watch reads at a time."""

CheckEdit = Callable[[RunAction, dict[str, Any]], None]
"""Whether an action could run with other arguments: raises InvalidArgumentError where it could not."""


@checks_arguments
@dataclass(frozen=True, slots=True)
class Approvals:
    """How an agent lets its approvals be answered.

    Args:
        remote: Accept answers over ControlService and from other callers of the service; if false, approvals are only shown.
        approvers: Who may answer: names of principals, or what says so about a principal and a request. None means the owner of the
            task; with approvers, only they may, and the owner merely sees it. One that raises has said no.
        expires_s: Default lifetime of a pending approval if the policy sets none; None means no limit.
    """

    remote: bool = True
    approvers: Iterable[str] | Callable[[str, ApprovalRequest], bool] | None = None
    expires_s: float | None = None

    def __post_init__(self) -> None:
        if self.expires_s is not None and not self.expires_s > 0:
            raise InvalidArgumentError("must be more than 0", field="expires_s")
        if self.approvers is not None and not callable(self.approvers):
            names = [self.approvers] if isinstance(self.approvers, str) else self.approvers
            object.__setattr__(self, "approvers", frozenset(names))  # frozen: the only moment to copy what was given

    def entitles(self, principal: str, owner: str, request: ApprovalRequest) -> bool:
        """Whether that principal may answer."""
        approvers = self.approvers
        if approvers is None:
            return principal == owner
        if not callable(approvers):
            return principal in approvers
        try:
            return bool(approvers(principal, request))
        except Exception:  # whatever it is: nobody gets a right from a mistake
            log.exception(
                "approvers of request %s could not be asked; %s may not answer", request.request_id, principal
            )
            return False

    def sees_all(self, principal: str) -> bool:
        """Whether that principal may be entitled to answer for tasks of others."""
        approvers = self.approvers
        return approvers is not None and (callable(approvers) or principal in approvers)


@dataclass(frozen=True, slots=True)
class ApprovalPage:
    """Approvals, oldest first, and the cursor of the next page or None. A page may be short, even empty, and have a next one."""

    approvals: list[Approval] = field(default_factory=list)
    next: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """An approval as it is in the log, and how many bytes it has there."""

    approval: Approval
    row: ApprovalRow
    size: int
    request_id: str = ""  # of the request that brought the answer


class ApprovalService:
    """The approvals of one agent's tasks, for callers that its service knows by their principal.

    Args:
        find_task: Returns a task by its id.
        check_edit: Looks at edited arguments before they are recorded; None accepts all.
        is_stopped: Whether the service is down.
    """

    def __init__(
        self,
        agent_name: str,
        store: TaskStore,
        *,
        clock: Clock,
        setting: Approvals | None,
        redaction: RedactionPolicy,
        check_edit: CheckEdit | None,
        find_task: Callable[[str], Awaitable[LiveTask]],
        is_stopped: Callable[[], bool],
    ) -> None:
        self._agent_name = agent_name
        self._store = store
        self._clock = clock
        self._remote = setting is not None and setting.remote
        self._setting = setting or Approvals()
        self._clean: Callable[[Any], Any] = redaction.redact
        self._check_edit = check_edit
        self._find_task = find_task
        self._is_stopped = is_stopped

    # -- showing ---------------------------------------------------------------------------------------------------------

    async def page(self, principal: str, query: ApprovalQuery) -> ApprovalPage:
        """One page of what the principal may see."""
        owner = None if self._setting.sees_all(principal) else principal
        wanted = replace(query, agent_name=self._agent_name, principal=owner)
        shown: list[Approval] = []
        size, last = 0, query.after
        for _ in range(SCANS):
            found = await self.find(wanted)
            for row in found.records:
                known = await self._visible(row, principal)
                if known is not None:
                    size += known.size
                    if shown and size > PAGE_BYTES:
                        return ApprovalPage(shown, last)
                    shown.append(self._shown(known.approval))
                last = (row.create_micros, row.request_id)
                if len(shown) == query.page_size:
                    return ApprovalPage(shown, found.next if row is found.records[-1] else last)
            if found.next is None:
                return ApprovalPage(shown)
            wanted = replace(wanted, after=found.next)
        return ApprovalPage(shown, wanted.after)

    async def watch(
        self, principal: str, task_id: str, after_revision: int = 0
    ) -> AsyncGenerator[ApprovalChanges, None]:
        """What changed after a revision, or what waits where that revision is not known; then what changes.

        Raises:
            InvalidArgumentError: `after_revision` is negative.
        """
        if after_revision < 0:
            raise InvalidArgumentError("must not be negative", field="after_revision")
        try:
            known = await self._revisions()
            after, start, caught_up = after_revision, known.latest, False
            if not known.first <= after <= start:
                async for piece in self._snapshot(principal, task_id, start):
                    yield piece
                after, caught_up = start, True
            while True:
                rows = await self._changed(after)
                async for approvals, revision in self._visible_batches(rows, principal, task_id, after):
                    catches_up = not caught_up and revision >= start
                    caught_up = caught_up or catches_up
                    if revision > after or catches_up:
                        yield ApprovalChanges(approvals, WatchPosition(revision, max(revision, start), catches_up))
                    after = revision
                if not rows:
                    # Checked before the wait, too: see `LogWatcher.wait_growth`.
                    self._require_running()
                    await self._store.wait_change(APPROVALS, self._agent_name, after)
                    self._require_running()
        except StoreError:
            self._require_running()  # a stopped service has closed its store
            raise

    async def _snapshot(self, principal: str, task_id: str, start: int) -> AsyncGenerator[ApprovalChanges, None]:
        """What waits and was asked for up to `start`, in pieces."""
        position, piece = WatchPosition(0, start, reset=True), list[Approval]()
        after, more = 0, True
        while more:
            found = await self._changed(after, start)
            rows = [row for row in found if row.revision <= start]
            more = len(rows) == BATCH
            async for approvals, _ in self._visible_batches(rows, principal, task_id, after):
                if piece and approvals:
                    yield ApprovalChanges(piece, position)
                    position, piece = WatchPosition(0, start), []
                piece += approvals
            after = rows[-1].revision if rows else after
        yield ApprovalChanges(piece, replace(position, revision=start, caught_up=True))

    def _require_running(self) -> None:
        if self._is_stopped():
            raise UnavailableError(f"agent {self._agent_name} was stopped", agent=self._agent_name)

    async def _visible_batches(
        self, rows: list[ApprovalRow], principal: str, task_id: str, after: int
    ) -> AsyncGenerator[tuple[list[Approval], int], None]:
        """Those that the principal may see, and the revision that each batch leads to: the last one to that of the last row."""
        batch: list[Approval] = []
        size = 0
        for row in rows:
            known = None if task_id and row.task_id != task_id else await self._visible(row, principal)
            if known is not None:
                size += known.size
                if batch and size > PAGE_BYTES:
                    yield batch, after
                    batch, size = [], known.size
                batch.append(self._shown(known.approval))
            after = row.revision
        yield batch, after

    async def _visible(self, row: ApprovalRow, principal: str) -> _Known | None:
        if row.principal != principal and not self._setting.sees_all(principal):
            return None
        known = await self._read(row)
        if known is None or row.principal == principal:
            return known
        return known if self._setting.entitles(principal, row.principal, known.approval.request) else None

    async def find(self, query: ApprovalQuery) -> Page[ApprovalRow]:
        """One page of rows, whoever may see them."""
        return await self._store.view(lambda records: find_approvals(records, query))

    async def _revisions(self) -> Revisions:
        return await self._store.view(lambda records: records.revisions(APPROVALS, self._agent_name))

    async def _changed(self, after: int, pending_until: int = 0) -> list[ApprovalRow]:
        agent_name = self._agent_name
        return await self._store.view(
            lambda records: changed_approvals(records, agent_name, after, BATCH, pending_until=pending_until)
        )

    async def _asked(self, approval_id: str) -> bytes:
        """What was put as the record of an approval, empty for an unknown one."""
        row = await self._store.view(lambda records: records.get(APPROVALS, self._agent_name, approval_id, whole=True))
        return b"" if row is None else row.record

    async def question(self, approval_id: str) -> ApprovalRequest | None:
        """What an approval asks, as it was asked; None for an unknown one."""
        record = await self._asked(approval_id)
        return approval_from_bytes(record).request if record else None

    async def _read(self, row: ApprovalRow) -> _Known | None:
        """What the store has; None where it has forgotten the task."""
        record = await self._asked(row.request_id)
        if not record:
            return None
        asked, size = approval_from_bytes(record), len(record)
        decision, request_id = None, ""
        if row.answer_sequence and row.state is not ApprovalState.WITHDRAWN:
            for frame in await self._store.read(row.task_id, row.answer_sequence - 1, 1):
                answered, size = event_from_frame(frame).payload, size + len(frame)
                if isinstance(answered, ApprovalDecided):
                    decision, request_id = answered.decision, answered.request_id
            if decision is None:
                return None  # the task was deleted in the meantime
        return _Known(replace(asked, state=row.state, decision=decision), row, size, request_id)

    def _shown(self, approval: Approval) -> Approval:
        """With secrets struck out; the fingerprint stays that of the action itself."""
        request, decision, clean = approval.request, approval.decision, self._clean
        action = replace(
            request.action,
            payload=clean(request.action.payload),
            metadata=clean(request.action.metadata),
            description=clean(request.action.description),
            artifacts=tuple(_clean_artifact(each, clean) for each in request.action.artifacts),
        )
        verdict = request.policy_decision
        policy = replace(verdict, reason=clean(verdict.reason), metadata=clean(verdict.metadata))
        if decision is not None:
            decision = replace(
                decision,
                reason=clean(decision.reason),
                edited_arguments=clean(decision.edited_arguments),
                metadata=clean(decision.metadata),
            )
        request = replace(request, action=action, policy_decision=policy, metadata=clean(request.metadata))
        return replace(approval, request=request, decision=decision)

    # -- answering -------------------------------------------------------------------------------------------------------

    async def respond(
        self, decision: ApprovalDecision, principal: str, request_id: str = "", *, any_etag: bool = False
    ) -> tuple[Approval, bool]:
        """Record an answer. Returns the approval as it is then, and whether it had been decided before, so that nothing changed.

        Args:
            request_id: When the principal gives the same answer under it again, the first one counts.
            any_etag: The answer need not say what the approver has seen: it came in a form that cannot.
        """
        if not self._remote:
            raise UnimplementedError(
                f"approvals of agent {self._agent_name} cannot be answered from outside: it was given no approvals setting",
                agent=self._agent_name,
            )
        known = await self._find(decision.request_id, principal)
        if not self._setting.entitles(principal, known.row.principal, known.approval.request):
            raise PermissionDeniedError(
                f"{principal} may not answer approval {decision.request_id}", approval_id=decision.request_id
            )
        if known.approval.state is not ApprovalState.PENDING:
            return self._answered(known, decision, principal, request_id)
        now = self._clock.micros()
        request = known.approval.request
        if seconds_left(request, now) == 0:
            await self._record(known, expired(request))
            return self._shown((await self._find(decision.request_id, principal)).approval), True
        if decision.approved and not decision.fingerprint and not any_etag:
            raise InvalidArgumentError("must be that of the approval as it was shown", field=ETAG)
        self._check(decision, known.approval)
        answer = replace(decision, decided_by=principal, decided_at=iso_from_micros(now), expired=False)
        done = await self._record(known, answer, request_id)
        known = await self._find(decision.request_id, principal)
        return (self._shown(known.approval), False) if done else self._answered(known, decision, principal, request_id)

    def _answered(
        self, known: _Known, decision: ApprovalDecision, principal: str, request_id: str
    ) -> tuple[Approval, bool]:
        """What an answer to an approval gets that has one, or is withdrawn."""
        first = known.approval.decision
        is_repeated = bool(request_id) and known.request_id == request_id
        if first is None or not is_repeated or first.decided_by != principal:
            return self._shown(known.approval), True
        if (first.approved, first.edited_arguments) != (decision.approved, decision.edited_arguments):
            raise InvalidArgumentError("was used for another answer to this approval", field="request_id")
        return self._shown(known.approval), False

    async def _find(self, request_id: str, principal: str) -> _Known:
        row = await self._store.view(lambda records: records.get(APPROVALS, self._agent_name, request_id))
        known = await self._visible(row, principal) if row is not None else None
        if known is None:
            raise ApprovalNotFoundError(f"approval {request_id} does not exist", approval_id=request_id)
        return known

    def _check(self, decision: ApprovalDecision, approval: Approval) -> None:
        request = approval.request
        if decision.fingerprint and decision.fingerprint != approval.fingerprint:
            raise ApprovalChangedError(
                f"the answer is about another action than the one that approval {request.request_id} asks for",
                approval_id=request.request_id,
                etag=approval.fingerprint,
            )
        if decision.edited_arguments is None:
            return
        if not request.editable:
            raise InvalidArgumentError("policy does not allow it to be edited", field=EDITED)
        if not decision.approved:
            raise InvalidArgumentError("a denial runs nothing, whatever the arguments", field=EDITED)
        if self._check_edit is not None:
            try:
                self._check_edit(request.action, decision.edited_arguments)
            except InvalidArgumentError as error:
                raise error.within(EDITED) from None

    async def _record(self, known: _Known, answer: ApprovalDecision, request_id: str = "") -> bool:
        """Append an answer; false when somebody else's, or the end of the task, came first."""
        fact = decided(known.approval.request, answer, request_id)
        try:
            try:
                await (await self._find_task(known.row.task_id)).record([fact])
            except LeaseLostError:
                # Another process took the task between our look and our append; the log is still where the answer belongs.
                await (await self._find_task(known.row.task_id)).record([fact])
        except InvalidTransitionError:
            return False
        return True


EDITED = "edited_arguments"
ETAG = "etag"


def _clean_artifact(artifact: Artifact, clean: Callable[[Any], Any]) -> Artifact:
    parts = [_clean_part(part, clean) for part in artifact.parts]
    return replace(artifact, parts=parts, metadata=clean(artifact.metadata))


def _clean_value(value: Any, clean: Callable[[Any], Any]) -> Any:
    if not isinstance(value, Payload):
        return clean(value)
    inner = value.value
    if isinstance(inner, PayloadRef):
        inner = replace(inner, uri=clean(inner.uri))
    return replace(value, value=clean(inner) if value.is_json else inner, preview=clean(value.preview))


def _clean_part(part: Part, clean: Callable[[Any], Any]) -> Part:
    """Bytes stay: a person must see the picture that is asked about, and half of one is none."""
    content = part.content
    match content:
        case ToolCall():
            content = replace(content, args=_clean_value(content.args, clean))
        case ToolOutput():
            content = replace(content, result=_clean_value(content.result, clean), error=clean(content.error))
        case RouteDecision():
            content = replace(content, metadata=clean(content.metadata))
        case FileContent():
            payload = None if content.payload is None else _clean_value(content.payload, clean)
            content = replace(content, uri=clean(content.uri), payload=payload)
        case bytes():
            pass
        case _:
            content = _clean_value(content, clean)
    return replace(part, content=content, metadata=clean(part.metadata))


ApprovalHandler = Callable[[ApprovalRequest, RunContext], Awaitable[ApprovalDecision | bool] | ApprovalDecision | bool]
"""What an application brings to answer approvals: sync ones run on a thread, where they may block."""

EXPIRED = "nobody answered in time"


async def answer_of(handler: ApprovalHandler, request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
    """What the handler says about a request. It sees copies: nothing that it does to them changes what will run.

    Raises:
        ValueError: It answers another request.
        TypeError: Its answer is neither an ApprovalDecision nor a bool.
        ApprovalChangedError: Its answer has the fingerprint of another action.
    """
    seen = ApprovalRequest.from_dict(request.to_dict())
    if _is_async(handler):
        answer: Any = handler(seen, context.copy())
    else:
        answer = await _on_a_thread(functools.partial(handler, seen, context.copy()))
    if inspect.isawaitable(answer):
        answer = await answer
    if isinstance(answer, bool):
        return ApprovalDecision(answer, request.request_id, decided_by="approval_handler")
    if not isinstance(answer, ApprovalDecision):
        raise TypeError(f"an approval handler must return an ApprovalDecision or a bool, not {type(answer).__name__}")
    if answer.request_id != request.request_id:
        raise ValueError(f"the approval handler answered request {answer.request_id}, not {request.request_id}")
    if answer.fingerprint and answer.fingerprint != request.action.fingerprint:
        raise ApprovalChangedError(
            f"the approval handler answered request {request.request_id} as if it asked for another action",
            request_id=request.request_id,
        )
    return answer if request.editable else replace(answer, edited_arguments=None)


async def _on_a_thread(call: Callable[[], Any]) -> Any:
    """Call it on a thread that keeps nothing waiting, should the answer come from elsewhere first: neither others nor the exit."""
    runner = ToolRunner(max_workers=1)
    try:
        return await runner.run(call)
    finally:
        await runner.aclose(grace_s=0)


def _is_async(handler: ApprovalHandler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def expired(request: ApprovalRequest) -> ApprovalDecision:
    """Return the denial for a request that has expired."""
    return ApprovalDecision(False, request.request_id, EXPIRED, expired=True)


def said_about(decision: ApprovalDecision) -> str:
    """One line for people about an answer."""
    verdict = "approved" if decision.approved else "denied"
    by = f" by {decision.decided_by}" if decision.decided_by else ""
    return f"{verdict}{by}: {decision.reason}" if decision.reason else f"{verdict}{by}"


def decided(request: ApprovalRequest, decision: ApprovalDecision, request_id: str = "") -> RunEvent:
    """The answer as the fact that it is, wherever it was given."""
    return RunEvent(
        payload=ApprovalDecided(decision, request_id), action_id=request.action.action_id, summary=said_about(decision)
    )


def seconds_left(request: ApprovalRequest, now_micros: int) -> float | None:
    """Return the seconds until the request expires, 0 if it has; None means never."""
    if request.expires_at is None:
        return None
    return max(0.0, (micros_from_iso(request.expires_at) - now_micros) / 1e6)


async def first_answer(
    request: ApprovalRequest,
    context: RunContext,
    *,
    handler: ApprovalHandler | None,
    outside: Callable[[], Awaitable[ApprovalDecision]],
    timeout_s: float | None,
) -> tuple[ApprovalDecision, bool]:
    """The first answer to a request, and whether it came from outside, where it is recorded already.

    An answer that is edited where nothing may be edited keeps the asked arguments.

    Raises:
        Whatever the handler raises, and what `answer_of` raises about its answer.
    """
    remote = asyncio.ensure_future(outside())
    waits: set[asyncio.Future[ApprovalDecision]] = {remote}
    if handler is not None:
        waits.add(asyncio.ensure_future(answer_of(handler, request, context)))
    try:
        done, _ = await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if remote in done:
            return remote.result(), True
        for answered in done:
            return answered.result(), False
        return expired(request), False
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
