"""Approvals for callers: permission to answer, listing, watching and answering. Runs wait for them with `approval_answers`.

An approval is two events in the log of its task, the request and the answer. The request in the log only refers to the action. A
record in the store, written in the same step, contains the whole request. An answer is a normal append to the log. So it does not
matter whether the run waits in this process, in another process with the same store, or not at all because its process died: a
recovering run finds the answer in the log.
"""

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
from protolink_grpc.models.clock import Clock, iso_from_micros
from protolink_grpc.models.events import ApprovalDecided
from protolink_grpc.models.part import FileContent, Part, RouteDecision, ToolCall, ToolOutput
from protolink_grpc.models.payload import Payload, PayloadRef
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.watch import ApprovalChanges, WatchPosition
from protolink_grpc.runtime.actions.approval_answers import answer_event, expired_decision, seconds_left
from protolink_grpc.runtime.log import LiveTask
from protolink_grpc.storage.approvals import APPROVALS, ApprovalQuery, ApprovalRow, changed_approvals, find_approvals
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.storage.records import Page, Records, Revisions
from protolink_grpc.wire.actions import approval_from_bytes
from protolink_grpc.wire.events import event_from_frame

log = get_logger(__name__)

PAGE_BYTES = 1 << 20
"""Maximum bytes of a page or a batch, unless a single approval is larger. Source: gRPC receives 4 MiB per message by default."""

SCANS = 20
"""Maximum number of store pages that one listing reads. A listing that stops there returns fewer approvals and a cursor."""

BATCH = 64
"""Number of changes that a watch reads at a time."""

CheckEdit = Callable[[RunAction, dict[str, Any]], None]
"""Raises InvalidArgumentError if an action cannot run with these arguments."""


@checks_arguments
@dataclass(frozen=True, slots=True)
class Approvals:
    """Settings of an agent's approvals.

    Args:
        remote: Accept answers over ControlService and from other callers of the service. If false, callers can only read approvals.
        approvers: The principals that may answer: their names, or a function of a principal and a request that returns whether it
            may. None means the owner of the task. With approvers, the owner can only read the approval, unless it is one of them.
            An exception of the function counts as a no.
        expires_s: Default lifetime of a pending approval, in seconds, if the policy sets none; None means no limit.

    Raises:
        InvalidArgumentError: `expires_s` is not positive.
    """

    remote: bool = True
    approvers: Iterable[str] | Callable[[str, ApprovalRequest], bool] | None = None
    expires_s: float | None = None

    def __post_init__(self) -> None:
        if self.expires_s is not None and not self.expires_s > 0:
            raise InvalidArgumentError("must be more than 0", field="expires_s")
        if self.approvers is not None and not callable(self.approvers):
            names = [self.approvers] if isinstance(self.approvers, str) else self.approvers
            object.__setattr__(self, "approvers", frozenset(names))  # a frozen dataclass has no other way to set it

    def may_answer(self, principal: str, owner: str, request: ApprovalRequest) -> bool:
        """Return whether the principal may answer the request.

        Args:
            owner: Principal of the task.
        """
        approvers = self.approvers
        if approvers is None:
            return principal == owner
        if not callable(approvers):
            return principal in approvers
        try:
            return bool(approvers(principal, request))
        except Exception:  # of any kind: a bug must not grant a permission
            log.exception("`approvers` failed for request %s, so %s may not answer it", request.request_id, principal)
            return False

    def may_answer_for_others(self, principal: str) -> bool:
        """Return whether the principal can be an approver for tasks of other principals."""
        approvers = self.approvers
        return approvers is not None and (callable(approvers) or principal in approvers)


@dataclass(frozen=True, slots=True)
class ApprovalPage:
    """Approvals, oldest first, and the cursor of the next page or None. A page with a cursor may be short or empty."""

    approvals: list[Approval] = field(default_factory=list)
    next: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class _StoredApproval:
    """An approval in the store, and the id of the RPC that answered it.

    Attributes:
        size: Encoded bytes of its request and answer.
        request_id: Request id of the RPC that brought the answer; empty if the caller set none.
    """

    approval: Approval
    row: ApprovalRow
    size: int
    request_id: str = ""


class ApprovalService:
    """Lists, watches and answers the approvals of one agent's tasks for authenticated callers.

    Args:
        setting: None: approvals cannot be answered, only read.
        check_edit: Checks edited arguments before they are recorded; None accepts all.
        find_task: Returns a task by its id.
        is_stopped: Returns whether the service has stopped.
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

    # -- reading ---------------------------------------------------------------------------------------------------------

    async def page(self, principal: str, query: ApprovalQuery | None = None) -> ApprovalPage:
        """Return one page of the approvals that the principal may answer or whose task it owns, oldest first, without secrets.

        Args:
            query: None filters nothing out. Its agent and principal are ignored.
        """
        query = query or ApprovalQuery()
        owner = None if self._setting.may_answer_for_others(principal) else principal
        wanted = replace(query, agent_name=self._agent_name, principal=owner)
        shown: list[Approval] = []
        size, last = 0, query.after
        for _ in range(SCANS):
            found = await self.find(wanted)
            for row in found.records:
                stored = await self._read_visible(row, principal)
                if stored is not None:
                    size += stored.size
                    if shown and size > PAGE_BYTES:
                        return ApprovalPage(shown, last)
                    shown.append(self._redact(stored.approval))
                last = (row.create_micros, row.request_id)
                if len(shown) == query.page_size:
                    return ApprovalPage(shown, found.next if row is found.records[-1] else last)
            if found.next is None:
                return ApprovalPage(shown)
            wanted = replace(wanted, after=found.next)
        return ApprovalPage(shown, wanted.after)

    async def watch(
        self, principal: str, task_id: str = "", *, after_revision: int = 0
    ) -> AsyncGenerator[ApprovalChanges, None]:
        """Yield the changes after a revision, first the stored ones, then new ones.

        If the revision is unknown (0, too old, or of another store), the pending approvals are yielded first.

        Args:
            task_id: Only approvals of this task; empty means all tasks.
            after_revision: Revision at which an earlier watch ended.

        Yields:
            Batches with positions, by the rules of watch.proto. If an approval changes twice quickly, only its last state may
            be yielded.

        Raises:
            InvalidArgumentError: `after_revision` is negative.
            UnavailableError: The service has stopped.
        """
        if after_revision < 0:
            raise InvalidArgumentError("must not be negative", field="after_revision")
        try:
            revisions = await self._revisions()
            after, start, caught_up = after_revision, revisions.latest, False
            if not revisions.first <= after <= start:
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
                    # Also checked before the wait: see `LogWatcher.wait_growth`.
                    self._require_running()
                    await self._store.wait_change(APPROVALS, self._agent_name, after)
                    self._require_running()
        except StoreError:
            self._require_running()  # a stopped service has closed its store
            raise

    async def _snapshot(self, principal: str, task_id: str, start: int) -> AsyncGenerator[ApprovalChanges, None]:
        """Yield the pending approvals that were requested up to the revision `start`, in pieces."""
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
        """Yield the approvals that the principal may read, in batches, each with the revision that it covers.

        The last batch may be empty. It covers the revision of the last row.
        """
        batch: list[Approval] = []
        size = 0
        for row in rows:
            stored = None if task_id and row.task_id != task_id else await self._read_visible(row, principal)
            if stored is not None:
                size += stored.size
                if batch and size > PAGE_BYTES:
                    yield batch, after
                    batch, size = [], stored.size
                batch.append(self._redact(stored.approval))
            after = row.revision
        yield batch, after

    async def _read_visible(self, row: ApprovalRow, principal: str) -> _StoredApproval | None:
        """Return an approval if the principal may read it."""
        if row.principal != principal and not self._setting.may_answer_for_others(principal):
            return None
        stored = await self._read(row)
        if stored is None or row.principal == principal:
            return stored
        return stored if self._setting.may_answer(principal, row.principal, stored.approval.request) else None

    def read_pending(self, records: Records, approval_ids: Iterable[str], max_bytes: int) -> list[Approval]:
        """Return those of the approvals that are pending, oldest first, until they exceed `max_bytes`.

        Permissions are not checked.
        """
        whole = [records.get(APPROVALS, self._agent_name, each, whole=True) for each in approval_ids]
        found = [row for row in whole if row is not None and row.state is ApprovalState.PENDING]
        shown: list[Approval] = []
        size = 0
        for row in sorted(found, key=APPROVALS.position_of):
            size += len(row.record)
            if shown and size > max_bytes:
                break
            shown.append(self._redact(approval_from_bytes(row.record)))
        return shown

    async def find(self, query: ApprovalQuery) -> Page[ApprovalRow]:
        """Return one page of rows: states, without the requests. The query names the owner; permissions are not checked."""
        return await self._store.view(lambda records: find_approvals(records, query))

    async def _revisions(self) -> Revisions:
        return await self._store.view(lambda records: records.revisions(APPROVALS, self._agent_name))

    async def _changed(self, after: int, pending_until: int = 0) -> list[ApprovalRow]:
        agent_name = self._agent_name
        return await self._store.view(
            lambda records: changed_approvals(records, agent_name, after, BATCH, pending_until=pending_until)
        )

    async def _request_bytes(self, approval_id: str) -> bytes:
        """Return the stored request of an approval; empty if the approval does not exist."""
        row = await self._store.view(lambda records: records.get(APPROVALS, self._agent_name, approval_id, whole=True))
        return b"" if row is None else row.record

    async def request(self, approval_id: str) -> ApprovalRequest | None:
        """Return the request of an approval, not redacted; None if the approval does not exist. Permissions are not checked."""
        record = await self._request_bytes(approval_id)
        return approval_from_bytes(record).request if record else None

    async def _read(self, row: ApprovalRow) -> _StoredApproval | None:
        """Return the approval of a row; None if its task was deleted."""
        record = await self._request_bytes(row.request_id)
        if not record:
            return None
        pending, size = approval_from_bytes(record), len(record)
        decision, request_id = None, ""
        if row.answer_sequence and row.state is not ApprovalState.WITHDRAWN:
            for frame in await self._store.read(row.task_id, row.answer_sequence - 1, 1):
                answer, size = event_from_frame(frame).payload, size + len(frame)
                if isinstance(answer, ApprovalDecided):
                    decision, request_id = answer.decision, answer.request_id
            if decision is None:
                return None  # the task was deleted in the meantime
        return _StoredApproval(replace(pending, state=row.state, decision=decision), row, size, request_id)

    def _redact(self, approval: Approval) -> Approval:
        """Return the approval without secrets. Its fingerprint stays that of the action with secrets."""
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
        """Answer an approval, in whatever process its run waits. `decided_by` and `decided_at` are set here.

        Args:
            decision: If it approves, its fingerprint must be the etag of the approval.
            request_id: A retry with the same id and the same answer gets the result of the first one.
            any_etag: The answer may approve without a fingerprint, because its protocol has none.

        Returns:
            The approval after the call, and whether an earlier decision stands, so that nothing was recorded.

        Raises:
            UnimplementedError: The agent does not accept remote answers.
            ApprovalNotFoundError: The approval does not exist, or the principal may not read it.
            PermissionDeniedError: The principal may not answer it.
            ApprovalChangedError: The fingerprint is that of another action.
            InvalidArgumentError: The fingerprint is missing, the edited arguments are not allowed or invalid, or `request_id` was
                used for another answer.
            StoreError: The store failed; nothing was recorded.
        """
        if not self._remote:
            raise UnimplementedError(
                f"agent {self._agent_name} does not accept remote answers: Agent(approvals=Approvals()) enables them",
                agent=self._agent_name,
            )
        stored = await self._find(decision.request_id, principal)
        if not self._setting.may_answer(principal, stored.row.principal, stored.approval.request):
            raise PermissionDeniedError(
                f"{principal} may not answer approval {decision.request_id}", approval_id=decision.request_id
            )
        if stored.approval.state is not ApprovalState.PENDING:
            return self._earlier_answer(stored, decision, principal, request_id)
        now = self._clock.micros()
        request = stored.approval.request
        if seconds_left(request, now) == 0:
            await self._record(stored, expired_decision(request))
            return self._redact((await self._find(decision.request_id, principal)).approval), True
        if decision.approved and not decision.fingerprint and not any_etag:
            raise InvalidArgumentError("must be the etag of the approval", field=ETAG)
        self._check_answer(decision, stored.approval)
        answer = replace(decision, decided_by=principal, decided_at=iso_from_micros(now), expired=False)
        is_recorded = await self._record(stored, answer, request_id)
        stored = await self._find(decision.request_id, principal)
        if not is_recorded:
            return self._earlier_answer(stored, decision, principal, request_id)
        return self._redact(stored.approval), False

    def _earlier_answer(
        self, stored: _StoredApproval, decision: ApprovalDecision, principal: str, request_id: str
    ) -> tuple[Approval, bool]:
        """Return the result of `respond` for an approval that is already decided or withdrawn."""
        first = stored.approval.decision
        is_retry = bool(request_id) and stored.request_id == request_id
        if first is None or not is_retry or first.decided_by != principal:
            return self._redact(stored.approval), True
        if (first.approved, first.edited_arguments) != (decision.approved, decision.edited_arguments):
            raise InvalidArgumentError("was used for another answer to this approval", field="request_id")
        return self._redact(stored.approval), False

    async def _find(self, request_id: str, principal: str) -> _StoredApproval:
        row = await self._store.view(lambda records: records.get(APPROVALS, self._agent_name, request_id))
        stored = await self._read_visible(row, principal) if row is not None else None
        if stored is None:
            raise ApprovalNotFoundError(f"approval {request_id} does not exist", approval_id=request_id)
        return stored

    def _check_answer(self, decision: ApprovalDecision, approval: Approval) -> None:
        request = approval.request
        if decision.fingerprint and decision.fingerprint != approval.fingerprint:
            raise ApprovalChangedError(
                f"the etag of the answer is not that of approval {request.request_id}",
                approval_id=request.request_id,
                etag=approval.fingerprint,
            )
        if decision.edited_arguments is None:
            return
        if not request.editable:
            raise InvalidArgumentError("the policy does not allow edits of this action", field=EDITED)
        if not decision.approved:
            raise InvalidArgumentError("must not be set in a denial", field=EDITED)
        if self._check_edit is not None:
            try:
                self._check_edit(request.action, decision.edited_arguments)
            except InvalidArgumentError as error:
                raise error.within(EDITED) from None

    async def _record(self, stored: _StoredApproval, answer: ApprovalDecision, request_id: str = "") -> bool:
        """Append an answer. Return False if another answer, or the end of the task, was appended first."""
        fact = answer_event(stored.approval.request, answer, request_id)
        try:
            try:
                await (await self._find_task(stored.row.task_id)).record([fact])
            except LeaseLostError:
                # Another process took over the task between the read and the append: append with the new epoch.
                await (await self._find_task(stored.row.task_id)).record([fact])
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
    """Return a part without secrets. Bytes are unchanged: a partly redacted file, such as an image, would be unreadable."""
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
