"""Snapshots of sessions, threads, queues and tasks: read models that are computed when they are read.

A snapshot names the position that it reflects. The rows of a session are read in one transaction together with its position. What
only the logs of tasks say, for instance a pause, is read after that from their folds; if the session has changed meanwhile, all of
it is read again. The cost does not depend on the number of turns: lists have bounds, and only open tasks are read.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from protolink_grpc.errors import TaskNotFoundError
from protolink_grpc.models.action import Approval
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.lifecycle import INTERRUPTED, TaskState
from protolink_grpc.models.part import FileContent, Part
from protolink_grpc.models.session import Turn, TurnState
from protolink_grpc.models.snapshot import (
    THREAD_RESULTS,
    ArtifactsSnapshot,
    ArtifactSummary,
    Availability,
    ContextBoundarySnapshot,
    EvidenceSnapshot,
    Gap,
    QueuedTurn,
    QueueHold,
    QueueSnapshot,
    SessionSnapshot,
    TaskSnapshot,
    ThreadSnapshot,
    ThreadStatus,
    ToolInventorySnapshot,
)
from protolink_grpc.net.page_tokens import token_from_position
from protolink_grpc.runtime.actions.approvals import ApprovalService
from protolink_grpc.runtime.task_evidence import ContextReader, EvidenceReader
from protolink_grpc.runtime.tasks import not_found_error
from protolink_grpc.storage import session_queries as queries
from protolink_grpc.storage.port import TaskHead, TaskStore
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_rows import owner_of
from protolink_grpc.storage.session_snapshots import (
    LIST_BYTES,
    SessionRows,
    ThreadRows,
    read_queue_rows,
    read_session_rows,
    read_thread_rows,
)

MAX_TASKS: Final = 100
"""Maximum number of open tasks whose folds are read for one snapshot."""

MAX_APPROVALS: Final = 100
SESSION_ARTIFACTS: Final = 20
TASK_ARTIFACTS: Final = 1000
"""Maximum length of these lists. Source: the comments of snapshot.proto, and the bound of the artifacts of one request."""

ARTIFACT_HEADS: Final = 20
ARTIFACT_LOGS: Final = 5
"""Maximum number of the newest tasks whose heads, and whose logs, are read for the artifacts of a session."""

TASK_ARTIFACTS_BYTES: Final = 2 << 20
"""Maximum size of the artifacts of a task."""

ARTIFACT_BYTES: Final = 256
"""Approximate encoded size of an artifact without its name, URI and preview."""

PREVIEW_CHARS: Final = 200

_TEXTS: Final = ("text", "infer_output")
"""The types of parts whose content is a text for people."""

ATTEMPTS: Final = 5
"""How often a snapshot is read while its session keeps changing."""

READ_EVENTS: Final = 1024
"""How many events of a log are decoded together, in a thread."""


def _unavailable(*parts: str) -> tuple[Gap, ...]:
    return tuple(Gap(part, Availability.UNAVAILABLE, "not recorded") for part in parts)


def _unknown(*parts: str) -> tuple[Gap, ...]:
    return tuple(Gap(part, Availability.UNKNOWN, "the events and other snapshots have it") for part in parts)


_OF_BOTH: Final = (
    *_unavailable("sandbox", "execution_environment", "processes", "jobs", "channels"),
    *_unknown("routing", "limits", "subagents", "evidence"),
)
"""What the contract asks of the snapshots of sessions and threads, and these do not have."""

_NOT_IN_SESSIONS: Final = (*_OF_BOTH, *_unavailable("pinned_threads"), *_unknown("tasks"))
_NOT_IN_THREADS: Final = (*_OF_BOTH, *_unavailable("incidents", "diagnostics"), *_unknown("artifacts"))
_NO_VERIFICATION: Final = _unavailable("verification", "reviews", "audit_notes")
_NO_ARTIFACT_CHECKS: Final = _unavailable("versions", "validation", "differences")
_NO_CONTEXT_REFS: Final = _unavailable("context_refs", "context_warnings")
_NO_SOURCES: Final = _unavailable("queued_turns.source")
_CHANGING: Final = "the session kept changing while it was read: this is of a later position"

Inventory = Callable[[str, frozenset[str]], Awaitable[ToolInventorySnapshot]]
"""Returns the tools and peers of the agent, with their effects for a principal with these scopes."""


# -- Values of rows and folds ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What the log of a task adds to the rows.

    Args:
        reason: Of the pause, or of the end.
        slot_wait: Why its run has not begun; empty if it has.
        is_paused: Its run is paused.
        asked: Ids of its pending approvals, oldest first.
    """

    state: TaskState
    reason: str = ""
    is_paused: bool = False
    asked: tuple[str, ...] = ()
    slot_wait: str = ""


def facts_of(fold: TaskFold) -> TaskFacts:
    controls = fold.controls
    if controls is None or not controls.is_paused:
        slot_wait = "" if fold.queued is None else fold.queued.reason
        return TaskFacts(fold.state, fold.reason, asked=tuple(fold.asked), slot_wait=slot_wait)
    reason = controls.pause.reason if controls.pause is not None else ""
    return TaskFacts(fold.state, reason, is_paused=True, asked=tuple(fold.asked))


def thread_status(thread: ThreadRows, facts: Mapping[str, TaskFacts]) -> tuple[ThreadStatus | None, str]:
    """Return the status of a thread, None if it is unknown, and its reason.

    Args:
        facts: Of the tasks of its active turns. If its last turn has ended with a question, also of that turn's task.
    """
    if thread.active:
        tasks = [facts.get(turn.task_id) for turn in thread.active]
        reasons = [block_reason(each) for each in tasks]
        if all(reasons):
            return ThreadStatus.BLOCKED, reasons[0]
        waits = ["" if each is None else each.slot_wait for each in tasks]
        return ThreadStatus.RUNNING, waits[0] if all(waits) else ""
    if thread.waiting:
        what = "an authorization" if thread.waiting[0].result is TaskState.AUTH_REQUIRED else "input"
        return ThreadStatus.BLOCKED, f"waits for {what}"
    if thread.queued:
        return ThreadStatus.QUEUED, f"turns that wait: {len(thread.queued)}"
    if thread.last is None:
        return None if thread.is_last_unknown else ThreadStatus.IDLE, ""
    result, reason = thread.last.result, thread.last.reason
    if result in INTERRUPTED and (known := facts.get(thread.last.task_id)) is not None:
        result, reason = known.state, known.reason  # canceled while it waited: that is no turn of its own
    return THREAD_RESULTS.get(result or TaskState.UNKNOWN), reason


def block_reason(facts: TaskFacts | None) -> str:
    """Return why the task of an active turn does not proceed; empty if it does."""
    if facts is None:
        return ""
    if facts.is_paused:
        return f"paused: {facts.reason}" if facts.reason else "paused"
    return f"waits for the approval {facts.asked[0]}" if facts.asked else ""


def preview_of(text: str) -> str:
    return text[:PREVIEW_CHARS]


def artifact_summary(task_id: str, artifact: Artifact) -> ArtifactSummary:
    """Return an artifact without its content."""
    texts = (part.content for part in artifact.parts if part.type in _TEXTS and isinstance(part.content, str))
    return ArtifactSummary(
        task_id,
        artifact.id,
        artifact.kind,
        artifact.name or "",
        artifact.uri or "",
        artifact.media_type or "",
        artifact.action_id or "",
        len(artifact.parts),
        sum(map(_size_of, artifact.parts)),
        preview_of("\n".join(islice(texts, PREVIEW_CHARS))),
        artifact.timestamp or None,
    )


def _size_of(part: Part) -> int:
    """Return the approximate size of the content of a part in bytes."""
    content = part.content
    if isinstance(content, FileContent):
        content = content.data if content.data is not None else content.uri or ""
    if isinstance(content, str | bytes):
        return len(content)
    return 0 if content is None else len(to_json(part.to_dict()["content"]))


def _within_bytes(tasks: Iterable[TaskSnapshot]) -> Iterator[TaskSnapshot]:
    """Yield the first tasks whose metadata are within `LIST_BYTES`."""
    size = 0
    for task in tasks:
        size += len(to_json(task.metadata))
        if size > LIST_BYTES:
            return
        yield task


def _artifacts_within(max_bytes: int, task_id: str, artifacts: Iterable[Artifact]) -> Iterator[ArtifactSummary]:
    """Yield summaries of the first artifacts that are within a size: the URI of an artifact may have its whole content."""
    size = 0
    for each in artifacts:
        summary = artifact_summary(task_id, each)
        size += ARTIFACT_BYTES + 4 * len(summary.name + summary.uri + summary.preview)
        if size > max_bytes:
            return
        yield summary


# -- The service -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Reading:
    """The rows of a session, and what the logs of its open tasks add at the same position.

    Attributes:
        is_stable: The session has not changed between the first and the last read.
    """

    found: SessionRows
    facts: dict[str, TaskFacts] = field(default_factory=dict)
    approvals: list[Approval] = field(default_factory=list)
    tasks: list[TaskSnapshot] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    is_stable: bool = True

    def of_tasks(self, turns: Iterable[Turn]) -> tuple[Approval, ...]:
        """Return the pending approvals of the tasks of these turns."""
        task_ids = {each.task_id for each in turns}
        return tuple(each for each in self.approvals if each.request.task_id in task_ids)


class SnapshotService:
    """The snapshots of one agent. Every method is for one principal, and does not find sessions and tasks of others.

    Args:
        approvals: Reads the pending approvals.
        read_task: Returns the fold of a principal's task.
        read_head: Returns its head.
        describe_tasks: Returns the snapshots of tasks, without attempts and links.
        inventory: None: the agent has no tools.
    """

    def __init__(
        self,
        agent_name: str,
        store: TaskStore,
        *,
        approvals: ApprovalService,
        read_task: Callable[[str, str], Awaitable[TaskFold]],
        read_head: Callable[[str, str], Awaitable[TaskHead]],
        describe_tasks: Callable[[Sequence[TaskFold]], Awaitable[list[TaskSnapshot]]],
        inventory: Inventory | None = None,
    ) -> None:
        self._agent_name = agent_name
        self._store = store
        self._approvals = approvals
        self._read_task = read_task
        self._read_head = read_head
        self._describe_tasks = describe_tasks
        self._inventory = inventory

    # -- Sessions --------------------------------------------------------------------------------------------------------

    async def session(self, principal: str, session_id: str) -> SessionSnapshot:
        """Return a session with its threads. Raises SessionNotFoundError."""
        owner, durable = owner_of(self._agent_name, principal), self._store.durable
        reading = await self._read_stable(
            principal, lambda records: read_session_rows(records, owner, session_id, durable=durable)
        )
        found = reading.found
        threads = tuple(self._thread(reading, each) for each in found.threads)
        artifacts, gap = await self._recent_artifacts(principal, found.recent)
        return SessionSnapshot(
            found.session,
            threads,
            found.recent,
            token_from_position(found.more),
            tuple(reading.approvals),
            tuple(artifacts),
            (*found.gaps, *reading.gaps, *gap, *_NOT_IN_SESSIONS),
        )

    async def thread(self, principal: str, session_id: str, thread_id: str) -> ThreadSnapshot:
        """Return one thread. Raises SessionNotFoundError or ThreadNotFoundError."""
        owner, durable = owner_of(self._agent_name, principal), self._store.durable
        reading = await self._read_stable(
            principal,
            lambda records: read_thread_rows(records, owner, session_id, thread_id, durable=durable),
            with_tasks=True,
        )
        found = reading.found
        thread = self._thread(reading, found.threads[0])
        latest = next((turn for turn in reversed(found.recent) if turn.state is not TurnState.QUEUED), None)
        context = None if latest is None else await self._context_of_turn(principal, latest)
        return replace(
            thread,
            recent_turns=found.recent,
            open_tasks=tuple(reading.tasks),
            context=context,
            gaps=(*thread.gaps, *found.gaps, *reading.gaps, *_NOT_IN_THREADS),
        )

    async def queue(self, principal: str, session_id: str, thread_id: str = "") -> QueueSnapshot:
        """Return the queues of a session, or of one thread. Raises as `read_queue_rows`."""
        owner = owner_of(self._agent_name, principal)
        found = await self._store.view(lambda records: read_queue_rows(records, owner, session_id, thread_id))
        queued: list[QueuedTurn] = []
        gaps: tuple[Gap, ...] = ()
        for each in found.threads:
            for place, turn in enumerate(each.queued, 1):
                preview = await self._preview(principal, turn)
                if preview is None:
                    gaps = (Gap("queued_turns.preview", Availability.UNKNOWN, "the input of a turn was deleted"),)
                queued.append(QueuedTurn(turn, place, preview or ""))
        holds = tuple(
            QueueHold(each.thread.thread_id, each.active or each.waiting, not each.active and bool(each.waiting))
            for each in found.threads
            if each.queued
        )
        gaps += _NO_SOURCES if queued else ()
        return QueueSnapshot(session_id, found.head.position, tuple(queued), holds, gaps)

    def _thread(self, reading: _Reading, thread: ThreadRows) -> ThreadSnapshot:
        status, reason = thread_status(thread, reading.facts)
        gaps: tuple[Gap, ...] = ()
        if status is None:
            gaps = (Gap("status", Availability.UNKNOWN, "the result of its last turn is not known"),)
        elif not reading.is_stable and thread.active:
            gaps = (Gap("status", Availability.STALE, _CHANGING),)
        return ThreadSnapshot(
            reading.found.session.session_id,
            thread.thread,
            reading.found.head.position,
            status or ThreadStatus.IDLE,
            reason,
            thread.active,
            thread.queued,
            thread.waiting[0] if thread.waiting else None,
            last_outcome=thread.last,
            pending_approvals=reading.of_tasks(thread.started),
            gaps=gaps,
        )

    async def _read_stable(
        self, principal: str, read: Callable[[Records], SessionRows], *, with_tasks: bool = False
    ) -> _Reading:
        """Read rows and folds at one position.

        Args:
            with_tasks: Also return snapshots of the open tasks.
        """
        for _ in range(ATTEMPTS):
            reading = _Reading(await self._store.view(read))
            await self._read_folds(principal, reading, with_tasks=with_tasks)
            if not reading.facts or await self._read_approvals(reading):
                return reading
        reading.is_stable = False
        reading.gaps.append(Gap("pending_approvals", Availability.STALE, _CHANGING))
        return reading

    async def _read_folds(self, principal: str, reading: _Reading, *, with_tasks: bool) -> None:
        found, folds = reading.found, list[TaskFold]()
        turns = [turn for each in found.threads for turn in each.started]
        if with_tasks:
            turns += [turn for each in found.threads for turn in each.queued]
        for turn in turns[:MAX_TASKS]:
            with suppress(TaskNotFoundError):  # a memory store has dropped it
                folds.append(await self._read_task(turn.task_id, principal))
        if with_tasks:
            reading.tasks += _within_bytes(await self._describe_tasks(folds))
            if missing := len(turns) - len(reading.tasks):
                reading.gaps.append(Gap("open_tasks", Availability.UNKNOWN, f"{missing} open tasks are left out"))
        elif len(turns) > MAX_TASKS:
            what = f"only {MAX_TASKS} open tasks are read"
            reading.gaps.append(Gap("pending_approvals", Availability.UNKNOWN, what))
        reading.facts |= {fold.task_id: facts_of(fold) for fold in folds}
        for each in found.threads:
            if each.last is not None and each.last.result in INTERRUPTED and not each.has_open_turns:
                with suppress(TaskNotFoundError):
                    head = await self._read_head(each.last.task_id, principal)
                    reading.facts[head.task_id] = TaskFacts(head.state, head.reason)

    async def _read_approvals(self, reading: _Reading) -> bool:
        """Read the pending approvals of the folds. Returns whether the session has not changed since its rows were read."""
        head, asked = reading.found.head, [each for facts in reading.facts.values() for each in facts.asked]

        def query(records: Records) -> tuple[int, list[Approval]]:
            now = queries.require_head(records, head.owner, head.session_id)
            return now.position, self._approvals.read_pending(records, asked[:MAX_APPROVALS], LIST_BYTES)

        position, reading.approvals = await self._store.view(query)
        if len(reading.approvals) < len(asked) and position == head.position:
            missing = len(asked) - len(reading.approvals)
            what = f"{missing} pending approvals are left out"
            reading.gaps.append(Gap("pending_approvals", Availability.UNKNOWN, what))
        return position == head.position

    async def _preview(self, principal: str, turn: Turn) -> str | None:
        """Return the beginning of the input of a turn; None if its task was deleted."""
        try:
            fold = await self._read_task(turn.task_id, principal)
        except TaskNotFoundError:
            return None
        return preview_of("\n".join(each.text for each in fold.messages[fold.turn_message :]))

    async def _recent_artifacts(
        self, principal: str, turns: Sequence[Turn]
    ) -> tuple[list[ArtifactSummary], tuple[Gap, ...]]:
        """Return the artifacts of the newest turns, newest first."""
        found: list[ArtifactSummary] = []
        task_ids = list(dict.fromkeys(turn.task_id for turn in reversed(turns) if turn.state is not TurnState.QUEUED))
        logs = 0
        for index, task_id in enumerate(task_ids):
            if len(found) >= SESSION_ARTIFACTS:
                return found[:SESSION_ARTIFACTS], ()
            if index == ARTIFACT_HEADS or logs == ARTIFACT_LOGS:
                what = f"only the newest {index} tasks are read"
                return found, (Gap("recent_artifacts", Availability.UNKNOWN, what),)
            try:
                head = await self._read_head(task_id, principal)
                if head.artifacts:
                    logs += 1
                    fold = await self._read_task(task_id, principal)
                    newest = fold.artifacts[: -SESSION_ARTIFACTS - 1 : -1]
                    found += _artifacts_within(LIST_BYTES // ARTIFACT_LOGS, task_id, newest)
            except TaskNotFoundError:  # a memory store has dropped it
                continue
        return found[:SESSION_ARTIFACTS], ()

    # -- Tools -----------------------------------------------------------------------------------------------------------

    async def tools(self, principal: str, scopes: frozenset[str] = frozenset()) -> ToolInventorySnapshot:
        """Return the tools that the principal can use, and the peers that the agent's model can call."""
        return ToolInventorySnapshot() if self._inventory is None else await self._inventory(principal, scopes)

    # -- Tasks -----------------------------------------------------------------------------------------------------------

    async def context(self, principal: str, task_id: str) -> ContextBoundarySnapshot:
        """Return the context of the latest model call of a task. Raises TaskNotFoundError."""
        return await self._context(await self._read_head(task_id, principal), 0)

    async def artifacts(self, principal: str, task_id: str) -> ArtifactsSnapshot:
        """Return the artifacts of a task. Raises TaskNotFoundError."""
        fold = await self._read_task(task_id, principal)
        newest = _artifacts_within(TASK_ARTIFACTS_BYTES, task_id, fold.artifacts[: -TASK_ARTIFACTS - 1 : -1])
        kept = tuple(newest)[::-1]
        gaps = _NO_ARTIFACT_CHECKS
        if len(kept) < fold.artifact_count:
            what = f"{fold.artifact_count - len(kept)} older artifacts are left out"
            gaps = (Gap("artifacts", Availability.UNKNOWN, what), *gaps)
        return ArtifactsSnapshot(task_id, fold.sequence, kept, gaps)

    async def evidence(self, principal: str, task_id: str) -> EvidenceSnapshot:
        """Return what the log of a task proves. Raises TaskNotFoundError."""
        head = await self._read_head(task_id, principal)
        reader = EvidenceReader(task_id)
        await self._read_log(head, 0, reader.add_frames)
        return replace(reader.snapshot(), gaps=_NO_VERIFICATION)

    async def _context_of_turn(self, principal: str, turn: Turn) -> ContextBoundarySnapshot | None:
        """Return the context of the latest model call of a turn, None if there was no call."""
        try:
            head = await self._read_head(turn.task_id, principal)
        except TaskNotFoundError:
            return None
        context = await self._context(head, turn.after_sequence)
        return context if context.prepared_sequence or context.compactions else None

    async def _context(self, head: TaskHead, after: int) -> ContextBoundarySnapshot:
        reader = ContextReader(head.task_id)
        await self._read_log(head, after, reader.add_frames)
        found = reader.snapshot(head.sequence)
        gaps = (*found.gaps, *_NO_CONTEXT_REFS)
        if after:
            gaps = (Gap("compactions", Availability.UNKNOWN, f"only events after {after} are read"), *gaps)
        return replace(found, gaps=gaps)

    async def _read_log(self, head: TaskHead, after: int, add: Callable[[list[bytes]], None]) -> None:
        """Read the log of a task after a sequence, up to its head. The frames are decoded in a thread."""
        while after < head.sequence:
            frames = await self._store.read(head.task_id, after, min(READ_EVENTS, head.sequence - after))
            if not frames:
                raise not_found_error(head.task_id)  # a memory store has dropped it
            await asyncio.to_thread(add, frames)
            after += len(frames)
