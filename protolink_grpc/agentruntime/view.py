"""Events of the Agent Runtime contract, computed from the log of a session or of one task.

This module has the envelope, and the facts of sessions, threads, turns and queues; `tasks` converts the events of
tasks. Nothing is stored: the same log always gives the same records.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from protolink_grpc.agentruntime.state import UNKNOWN, Mapped, Record, TaskRecords, run_id_of
from protolink_grpc.agentruntime.tasks import LOST, end_of, records_of
from protolink_grpc.agentruntime.threads import OpenTurn, ThreadRecords
from protolink_grpc.models import events as ev
from protolink_grpc.models import session as ses
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.lifecycle import INTERRUPTED, SETTLED, TERMINAL, TaskState
from protolink_grpc.models.session import DEFAULT_THREAD, SessionEvent, SessionItem
from protolink_grpc.models.task_control import LinkKind
from protolink_grpc.net.trace_context import span_id_of, trace_of
from protolink_grpc.storage.quiet_positions import QuietPosition

SCHEMA_VERSION: Final = "protolink-grpc-0.1"

PLACES: Final = 64
"""Sequences of each position: no event becomes more records."""

MAX_ENDED: Final = 1000
"""Number of ended tasks that a view knows. What it does not know of older ones is unknown in their later records."""

_WITHOUT_STEP: Final = ("session.", "thread.", "turn.", "task.", "run.", "queue.", "snapshot.")
"""Families of records that are not an item of a turn."""

_CHANGES_OF_THREADS: Final = (
    ev.TaskStatusChanged,
    ev.ApprovalRequired,
    ev.ApprovalDecided,
    ev.TaskPaused,
    ev.TaskResumed,
)
"""The events of tasks that can change the status of a thread."""


@dataclass(frozen=True, slots=True)
class _Source:
    """The event that records are made from. `ids` are those of its envelope."""

    event_id: str
    timestamp: str
    ids: Record
    refs: Record


@dataclass(frozen=True, slots=True)
class _EndedTask:
    """What later events of an ended task need. `trace_id` is empty if it follows from the id of the task."""

    thread_id: str
    trace_id: str
    state: TaskState


class AgentRuntimeView:
    """Converts the events of one session, or of one task, to records of the contract: all events, in order.

    The `sequence` of a record is the position of its event times `PLACES`, plus the index of the record within the event. In the
    export of a single task, the position is the event's sequence, and the turns are counted within the task.

    Args:
        session_id, agent_name: Those of the session; a task's events have their own.
        quiet: The position of the session after which the events begin; None means the first event.
    """

    def __init__(self, session_id: str = "", agent_name: str = "", quiet: QuietPosition | None = None) -> None:
        self._session_id = session_id
        self._runtime_id = _installation_of(agent_name) if quiet is None or not quiet.runtime_id else quiet.runtime_id
        self._tasks: dict[str, TaskRecords] = {}
        self._ended: dict[str, _EndedTask] = {}
        """The tasks that have ended last, in order."""
        self._turns: dict[str, OpenTurn] = {}
        self._threads: dict[str, ThreadRecords] = {}
        if quiet is not None:
            self._threads = {name: ThreadRecords.after(turn) for name, turn in quiet.last_turns.items()}
        self._turn_count = 0

    def of_session(self, item: SessionItem) -> Iterator[Record]:
        """Convert the next event of a session's stream."""
        yield from _number(item.position, self._of_item(item))

    def skip(self, item: SessionItem) -> None:
        """Take the next event of a session's stream into account without building its records."""
        deque(self._of_item(item), maxlen=0)

    def _of_item(self, item: SessionItem) -> Iterator[tuple[_Source, str, Record]]:
        event = item.event
        if isinstance(event, SessionEvent) and isinstance(event.payload, ses.SessionCreated):
            self._runtime_id = event.payload.runtime_id or self._runtime_id
        ids = {"runtimeId": self._runtime_id, "sessionId": self._session_id}
        if isinstance(event, RunEvent):
            source = _Source(event.event_id, event.timestamp, ids, _refs_of(event))
            task = self._open(event.task_id, is_new=event.sequence == 1)
            yield from self._of_task_event(event)
            found = self._change_status(task.thread_id) if isinstance(event.payload, _CHANGES_OF_THREADS) else ()
        else:
            kind = "unknown" if event.payload is None else type(event.payload).__name__
            source = _Source(f"{self._session_id}/{item.position}", event.created_at, ids, {"sourceType": kind})
            found = self._of_session_event(event)
        yield from ((source, *each) for each in found)

    def needs_earlier(self, items: Iterable[SessionItem]) -> bool:
        """Whether one of the next events is about a task, a turn or a history that is not known."""
        tasks, turns = self._tasks.keys() | self._ended.keys(), set(self._turns)
        for item in items:
            match item.event:
                case RunEvent(task_id=task_id, sequence=sequence, payload=payload):
                    if sequence != 1 and task_id not in tasks:
                        return True
                    if (blocker := _blocker_of(payload)) and blocker not in tasks:  # perhaps a draft of the session
                        return True
                    tasks.add(task_id)
                case SessionEvent(payload=ses.TurnSubmitted() as submitted):
                    if submitted.after_sequence and submitted.task_id not in tasks:
                        return True
                    tasks.add(submitted.task_id)
                    turns.add(submitted.turn_id)
                case SessionEvent(payload=ses.ThreadRolledBack()):
                    return True
                case SessionEvent(payload=ses.TurnMerged(into_turn_id=turn_id)) if turn_id not in turns:
                    return True
                case SessionEvent(payload=ses.TurnPromoted() | ses.TurnStarted() | ses.TurnEnded() as change):
                    if change.turn_id not in turns:
                        return True
        return False

    def of_task(self, event: RunEvent) -> Iterator[Record]:
        """Convert the next event of a task's log. Live text has no records."""
        if event.sequence is not None:
            yield from _number(event.sequence, self._of_whole_task(event, event.sequence))

    # -- A task alone ----------------------------------------------------------------------------------------------------

    def _of_whole_task(self, event: RunEvent, sequence: int) -> Iterator[tuple[_Source, str, Record]]:
        """Convert an event, and the turn's begin and end, which are computed from it."""
        source, payload = self._source_of(event), event.payload
        turn_id = f"{event.task_id}/turn/{self._turn_count}"
        if isinstance(payload, ev.TaskSubmitted | ev.TaskRetried) or (
            _is_from_sender(payload) and self._turn_count and not self._turns
        ):
            self._turn_count += 1
            turn_id = f"{event.task_id}/turn/{self._turn_count}"
            thread_id = payload.thread_id if isinstance(payload, ev.TaskSubmitted) else self._thread_of(event.task_id)
            begin = ses.TurnSubmitted(turn_id, thread_id or DEFAULT_THREAD, event.task_id, sequence - 1)
            ids = _attempt_ids(self._tasks[event.task_id], event) if event.task_id in self._tasks else {}
            yield from ((source, kind, ids | more) for kind, more in self._submit(OpenTurn(begin, sequence)))
        yield from self._of_task_event(event)
        if isinstance(payload, ev.TaskStatusChanged) and payload.new_state in SETTLED and self._turns:
            end = ses.TurnEnded(turn_id, payload.new_state, payload.reason)
            ids = _attempt_ids(self._tasks.get(event.task_id, TaskRecords()), event)
            found = (*self._end(end), _snapshot_updated(sequence, "task_snapshot"))
            yield from ((source, kind, ids | more) for kind, more in found)

    def _thread_of(self, task_id: str) -> str:
        known = self._tasks.get(task_id)
        return "" if known is None else known.thread_id

    def _of_task_event(self, event: RunEvent) -> Iterator[tuple[_Source, str, Record]]:
        task = self._open(event.task_id)
        source = self._source_of(event)
        blocked = () if task.is_started else self._blocked(task, event)
        for kind, more in chain(records_of(task, event), blocked):
            yield source, kind, {"threadId": task.thread_id, "turnId": task.turn_id} | _attempt_ids(task, event) | more
        if task.state in TERMINAL and task.turn_id not in self._turns:
            if event.state is not None and task.thread_id:
                self._thread(task.thread_id).end_waiting(event.task_id, event.state)
            self._forget(event.task_id)

    def _source_of(self, event: RunEvent) -> _Source:
        ids = {
            "runtimeId": self._runtime_id if self._session_id else self._installation_of_task(event),
            # A task without a session has its own id as session id; the contract wants different ids for different things.
            "sessionId": f"{event.task_id}/session" if event.session_id == event.task_id else event.session_id,
            "taskId": event.task_id,
            "runId": run_id_of(event.task_id, event.run_id),
        }
        return _Source(event.event_id, event.timestamp, ids, _refs_of(event))

    def _installation_of_task(self, event: RunEvent) -> str:
        if isinstance(event.payload, ev.TaskSubmitted):
            return event.payload.runtime_id or _installation_of(event.agent_name)
        return self._open(event.task_id).runtime_id or _installation_of(event.agent_name)

    def _blocked(self, task: TaskRecords, event: RunEvent) -> Mapped:
        """Show that a started draft waits, if tasks of the same session that block it have not ended."""
        if isinstance(event.payload, ev.TaskStartRequested) and task.blockers:
            known = {each: self._tasks[each] for each in sorted(task.blockers) if each in self._tasks}
            if blockers := [each for each, its in known.items() if its.state not in TERMINAL]:
                yield "task.blocked", {"payload": {"status": "blocked", "blockedBy": blockers}}

    def _forget(self, task_id: str) -> None:
        """Drop the state of an ended task, if there are others. A retry begins with a new one, in the same trace."""
        task = self._tasks.pop(task_id, None) if self._session_id else None
        if task is None:
            return
        self._ended.pop(task_id, None)
        own_trace = "" if task.trace_id == trace_of(None, task_id).trace_id else task.trace_id
        self._ended[task_id] = _EndedTask(task.thread_id, own_trace, task.state)
        if len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]

    def _open(self, task_id: str, *, is_new: bool = True) -> TaskRecords:
        """Return the state of a task, a new one if necessary.

        Args:
            is_new: The next event is the first one of the task.
        """
        task = self._tasks.get(task_id)
        if task is None:
            ended = self._ended.get(task_id)
            if ended is not None:
                task = TaskRecords(ended.thread_id, trace_id=ended.trace_id, state=ended.state, is_started=True)
            elif is_new or not self._session_id:
                task = TaskRecords()
            else:
                task = TaskRecords("", trace_id=UNKNOWN, is_started=True)
            self._tasks[task_id] = task
        return task

    # -- The session -----------------------------------------------------------------------------------------------------

    def _of_session_event(self, event: SessionEvent) -> Mapped:
        match event.payload:
            case ses.SessionCreated(title=title, metadata=metadata):
                yield "session.created", {"payload": {"title": title, "metadata": metadata}}
                yield "thread.started", {"threadId": DEFAULT_THREAD, "payload": {"title": ""}}
            case ses.SessionUpdated(title=title, metadata=metadata, archived=archived):
                yield "session.updated", {"payload": {"title": title, "metadata": metadata, "archived": archived}}
            case ses.ThreadStarted() as started:
                origin = {"fromThreadId": started.from_thread_id, "fromTurnId": started.from_turn_id}
                payload = {"title": started.title} | {key: value for key, value in origin.items() if value}
                yield "thread.started", {"threadId": started.thread_id, "payload": payload}
            case ses.ThreadRolledBack() as rolled_back:
                yield from self._roll_back(rolled_back)
            case ses.TurnMerged(turn_id=turn_id, into_turn_id=into):
                yield from self._change_queue(into, "merged", None, merged=turn_id)
            case ses.TurnSubmitted() as submitted:
                yield from self._submit(OpenTurn(submitted, event.position))
                yield from self._change_status(submitted.thread_id)
            case ses.TurnPromoted(turn_id=turn_id):
                yield from self._change_queue(turn_id, "promoted", 0)
            case ses.TurnStarted(turn_id=turn_id):
                yield from self._start(turn_id)
            case ses.TurnEnded() as ended:
                turn = self._turns.get(ended.turn_id)
                yield from self._end(ended)
                if turn is not None:
                    yield from self._change_status(turn.submitted.thread_id)
                yield _snapshot_updated(event.position, "session_snapshot", "thread_read_model")
            case None:
                yield "plgrpc.session.unknown", {"payload": {}}

    def _thread(self, thread_id: str) -> ThreadRecords:
        """Return the state of a thread, a new one if necessary."""
        return self._threads.setdefault(thread_id, ThreadRecords())

    def _change_status(self, thread_id: str) -> Mapped:
        """Show the status of a thread, if it has changed."""
        thread = self._threads.get(thread_id)
        if thread is not None and thread.has_new_status(self._tasks):
            payload = {"status": str(thread.status), "activeTurnIds": thread.active}
            yield "thread.updated", {"threadId": thread_id, "payload": payload}

    def _submit(self, turn: OpenTurn) -> Mapped:
        submitted = turn.submitted
        self._turns[submitted.turn_id] = turn
        self._open(submitted.task_id, is_new=not submitted.after_sequence).begin_turn(
            submitted.thread_id, submitted.turn_id
        )
        thread = self._thread(submitted.thread_id)
        thread.submit(turn)
        payload = {"status": "queued" if submitted.queued else "accepted", "policy": str(submitted.when_busy)}
        payload["inputRef"] = f"{submitted.task_id}/{submitted.after_sequence + 1}"
        yield "turn.submitted", _ids_of(submitted) | {"payload": payload}
        if submitted.queued:
            place = 0 if submitted.first else len(thread.queue)
            yield from self._change_queue(submitted.turn_id, "queued", place)

    def _start(self, turn_id: str) -> Mapped:
        turn = self._turns.get(turn_id)
        if turn is None:  # a memory store has dropped its submission
            return
        thread_id = turn.submitted.thread_id
        self._thread(thread_id).start(turn)
        yield from self._change_queue(turn_id, "started", None)
        yield from self._change_status(thread_id)

    def _roll_back(self, rolled_back: ses.ThreadRolledBack) -> Mapped:
        payload: Record = {"targetTurnId": rolled_back.turn_id, "reason": rolled_back.reason}
        yield "history.rollback.started", {"threadId": rolled_back.thread_id, "payload": payload}
        done = self._thread(rolled_back.thread_id).roll_back(rolled_back.turn_id)
        baseline = UNKNOWN if done.baseline is None else done.baseline
        payload |= {"removedTurns": done.removed, "baseline": {"turnId": baseline} if baseline else {}}
        if not done.is_complete:
            payload["isTruncated"] = True
        yield "history.rollback.completed", {"threadId": rolled_back.thread_id, "payload": payload}

    def _change_queue(self, turn_id: str, state: str, place: int | None, *, merged: str = "") -> Mapped:
        """Put a turn at a place of its thread's queue, or remove it if there is no place.

        Args:
            merged: Another input became a part of the turn, which stays at its place.
        """
        turn = self._turns.get(turn_id)
        if turn is None:  # a memory store has dropped its submission
            return
        submitted = turn.submitted
        queue = self._thread(submitted.thread_id).queue
        if turn_id in queue and not merged:
            queue.remove(turn_id)
        if place is not None:
            queue.insert(place, turn_id)
        payload = {"queuedTurnId": turn_id, "state": state, "policy": str(submitted.when_busy), "order": list(queue)}
        if merged:
            payload["mergedTurnId"] = merged
        yield "queue.changed", _ids_of(submitted) | {"queueId": turn_id, "payload": payload}

    def _end(self, ended: ses.TurnEnded) -> Mapped:
        turn = self._turns.get(ended.turn_id)
        if turn is None:
            kind, payload = _turn_end(ended, None)
            yield kind, {"turnId": ended.turn_id, "payload": payload}
            return
        submitted, thread = turn.submitted, self._thread(turn.submitted.thread_id)
        task = self._tasks.get(submitted.task_id)
        kind, payload = _turn_end(ended, None if task is None else task.failure)
        if ended.turn_id in thread.queue:
            yield from self._change_queue(ended.turn_id, "removed", None)
        thread.end(turn, ended)
        yield kind, _ids_of(submitted) | {"payload": payload}
        del self._turns[ended.turn_id]
        if ended.result in TERMINAL:
            self._forget(submitted.task_id)


def _snapshot_updated(position: int, *names: str) -> tuple[str, Record]:
    """Return that these read models reflect a position when they are read after it."""
    return "snapshot.updated", {"payload": {"readModels": list(names), "position": position}}


def _turn_end(ended: ses.TurnEnded, failure: Failure | None) -> tuple[str, Record]:
    """Return the record of a turn's end. The contract has no type for canceled and timed-out turns: they have failed."""
    status, details = end_of(ended.result, failure)
    status = "failed" if status == LOST else status
    if ended.result is TaskState.COMPLETED or ended.result in INTERRUPTED:
        return "turn.completed", {"status": "completed", "outcome": status}
    return "turn.failed", {"status": status, "statusReason": ended.reason, **details}


def _ids_of(turn: ses.TurnSubmitted) -> Record:
    return {"threadId": turn.thread_id, "turnId": turn.turn_id, "taskId": turn.task_id}


def _attempt_ids(task: TaskRecords, event: RunEvent) -> Record:
    # Before the first run of a task there is no span.
    span_id = span_id_of(event.task_id, event.run_id) if event.run_id else ""
    return {"attemptId": task.attempt_id, "traceId": task.trace_id, "spanId": span_id}


def _is_from_sender(payload: Any) -> bool:
    return isinstance(payload, ev.TaskMessagesAdded) and any(each.role == "user" for each in payload.messages)


def _blocker_of(payload: Any) -> str:
    """Return the task that must end before another one starts, if the event links it; otherwise an empty text."""
    is_blocked = isinstance(payload, ev.TaskLinked) and payload.link.kind is LinkKind.BLOCKED_BY
    return payload.link.target if is_blocked else ""


def _refs_of(event: RunEvent) -> Record:
    return {"sourceType": event.type, "sourceSequence": event.sequence or 0}


def _installation_of(agent_name: str) -> str:
    """Return the id of the installation for a log that does not have it."""
    return f"protolink-grpc/{agent_name or UNKNOWN}"


def _number(position: int, found: Iterable[tuple[_Source, str, Record]]) -> Iterator[Record]:
    """Put the records of one position into the envelope."""
    seen: Counter[str] = Counter()
    for index, (source, kind, more) in enumerate(found):
        name = f"{source.event_id}/{kind}"
        record: Record = {
            "type": kind,
            "eventId": f"{name}/{seen[kind]}" if seen[kind] else name,
            "timestamp": source.timestamp,
            "sequence": position * PLACES + index,
            "schemaVersion": SCHEMA_VERSION,
            **source.ids,
            "payload": {},
            "refs": source.refs | {"sourceEventId": source.event_id},
        }
        seen[kind] += 1
        if not kind.startswith(_WITHOUT_STEP):
            record["stepId"] = source.event_id
        # In the contract, an id is absent or not empty.
        yield {key: value for key, value in (record | more).items() if value != ""}
