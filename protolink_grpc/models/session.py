"""Sessions, their threads and turns, and the events of a session's own log.

A session belongs to one principal and one agent. Its turns point to the tasks that do the work; what happens inside a turn is in
the log of its task. The events of each turn are not frozen, as payloads of `RunEvent` are not; they are never changed.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.open_enum import OpenEnum

DEFAULT_THREAD: Final = "default"
"""The thread of tasks that name none. It always exists."""

MAX_TITLE_CHARS: Final = 1000

MAX_METADATA_BYTES: Final = 64 << 10
"""Maximum size of a session's metadata as JSON."""

ROLLED_BACK: Final = "rolled back"
"""The reason with which a rollback cancels turns, if the caller gives no other one."""

ROLLED_BACK_BY_NEXT: Final = f"{ROLLED_BACK} by the next turn"
"""The reason of a rollback by the policy `ROLLBACK` of a turn."""

MAX_REASON_CHARS: Final = 1000
"""Maximum length of the reason of an interruption, a rollback or a resume."""


def conversation_id(session_id: str, thread_id: str = "", number: int = 0) -> str:
    """Return the id of the conversation of a session, or of one of its threads.

    Ids of sessions and threads have no line breaks, so the conversation of a thread is never mistaken for that of a session.

    Args:
        thread_id: Empty means `default`.
        number: Number of rollbacks of the thread: each begins another conversation.
    """
    if number:
        return f"{session_id}\n{thread_id or DEFAULT_THREAD}\n{number}"
    return f"{session_id}\n{thread_id}" if thread_id and thread_id != DEFAULT_THREAD else session_id


def conversation_turn_id(task_id: str, after_sequence: int, position: str) -> str:
    """Return the id, within a conversation, of the messages of one inference.

    Args:
        after_sequence: Sequence of the last event before the turn of the task.
        position: See `Run.position`.
    """
    return f"{task_id}/{position}@{after_sequence}" if after_sequence else f"{task_id}/{position}"


def is_of_turn(text: str, turns: frozenset[tuple[str, int]]) -> bool:
    """Return whether an id of `conversation_turn_id` is of one of these turns, each a task and the sequence before the turn."""
    path, _, after = text.rpartition("@")
    sequence = int(after) if path and after.isdecimal() else 0
    path = path if sequence else text
    at = path.find("/")
    while at >= 0:  # an id of a task may have slashes
        if (path[:at], sequence) in turns:
            return True
        at = path.find("/", at + 1)
    return False


def is_conversation_of(conversation: str, session_id: str) -> bool:
    """Return whether a conversation is that of the session, or of one of its threads."""
    return conversation == session_id or conversation.startswith(f"{session_id}\n")


def split_conversation_id(text: str) -> tuple[str, str]:
    """Return the session and the thread of a conversation. The id may have a further part after the thread."""
    session_id, _, rest = text.partition("\n")
    return session_id, rest.partition("\n")[0] or DEFAULT_THREAD


class TurnState(OpenEnum):
    """The state of a turn. `ENDED`: its task has ended or waits for input. The next input is another turn."""

    QUEUED = "queued"
    ACTIVE = "active"
    ENDED = "ended"


class WhenBusy(OpenEnum):
    """What happens to a turn that is submitted to a thread with an active turn.

    `ENQUEUE`: it waits. `REJECT`: it is refused with ThreadBusyError. `INTERRUPT`: the active turns are canceled, and it is the
    next one. `START`: it starts at once, beside the active ones. `ROLLBACK`: as `INTERRUPT`, and the active turns are taken out of
    the conversation. `MERGE`: its input is added to the last turn in the queue; if there is none, it waits.
    """

    ENQUEUE = "enqueue"
    REJECT = "reject"
    INTERRUPT = "interrupt"
    START = "start"
    ROLLBACK = "rollback"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class Turn:
    """One input and the work on it.

    Args:
        turn_id: Unique in the session.
        task_id: The task of the turn. A task that waited for input has several turns.
        after_sequence: Sequence of the last event in the task's log before the turn; 0 if the turn has created the task.
        result: State of the task at the end of the turn; None before.
        reason: The reason of the task's last status; may be empty. That of an active turn is why it does not proceed: a pause, an
            approval or a slot.
        position: Position of the event with which it was submitted, among all events of the session.
        created_at, ended_at: ISO 8601; `ended_at` is None before the end.
        rolled_back: The thread was rolled back to before this turn: its conversation does not have it.
    """

    turn_id: str
    thread_id: str
    task_id: str
    after_sequence: int = 0
    state: TurnState = TurnState.ACTIVE
    result: TaskState | None = None
    reason: str = ""
    position: int = 0
    created_at: str | None = None
    ended_at: str | None = None
    when_busy: WhenBusy = WhenBusy.START
    rolled_back: bool = False


@dataclass(frozen=True, slots=True)
class Thread:
    """An ordered part of a session.

    Args:
        created_at: ISO 8601; None for the thread `default`.
        from_thread_id: Thread that it is a branch of; empty if it began with an empty conversation.
        from_turn_id: Last turn of that thread whose conversation it has.
        rollback_count: Number of rollbacks so far.
    """

    thread_id: str = DEFAULT_THREAD
    title: str = ""
    created_at: str | None = None
    from_thread_id: str = ""
    from_turn_id: str = ""
    rollback_count: int = 0


@dataclass(frozen=True, slots=True)
class Session:
    """The state of a session.

    Args:
        session_id: Local to its owner.
        position: Position of the last event of the session and its tasks: the state that this value reflects.
        created_at, updated_at: Times of the first and of the last event, ISO 8601.
        threads: The thread `default`, then the others, oldest first. Empty in lists of sessions.
        open_turns: Active turns, then queued ones in the order in which they start. Empty in lists of sessions.
        turn_count: Number of all turns.
    """

    session_id: str
    title: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    archived: bool = False
    position: int = 0
    created_at: str | None = None
    updated_at: str | None = None
    threads: tuple[Thread, ...] = ()
    open_turns: tuple[Turn, ...] = ()
    turn_count: int = 0


# -- Events --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionCreated:
    """The session exists. `runtime_id` is the id of the store's installation; empty if unknown."""

    title: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    runtime_id: str = ""


@dataclass(frozen=True, slots=True)
class SessionUpdated:
    """Title, metadata or `archived` changed. All fields have their values after the change."""

    title: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    archived: bool = False


@dataclass(frozen=True, slots=True)
class ThreadStarted:
    """A thread exists. The fields are those of Thread."""

    thread_id: str
    title: str = ""
    from_thread_id: str = ""
    from_turn_id: str = ""


@dataclass(slots=True)
class TurnSubmitted:
    """A turn was accepted.

    Args:
        queued: It waits in the queue; otherwise it starts at once.
        first: It was put at the front of the queue.
    """

    turn_id: str
    thread_id: str
    task_id: str
    after_sequence: int = 0
    queued: bool = False
    when_busy: WhenBusy = WhenBusy.START
    first: bool = False


@dataclass(frozen=True, slots=True)
class TurnPromoted:
    """A queued turn was put at the front of its thread's queue."""

    turn_id: str


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A queued turn left the queue and starts."""

    turn_id: str


@dataclass(slots=True)
class TurnEnded:
    """A turn ended. `result` is the state of the task, `reason` that of its last status."""

    turn_id: str
    result: TaskState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ThreadRolledBack:
    """A thread went back to before a turn. Turns that were submitted after that turn, and have started, are rolled back, too."""

    thread_id: str
    turn_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TurnMerged:
    """An input that was submitted as `turn_id` was added to the queued turn `into_turn_id`."""

    turn_id: str
    into_turn_id: str


SessionPayload = (
    SessionCreated
    | SessionUpdated
    | ThreadStarted
    | TurnSubmitted
    | TurnPromoted
    | TurnStarted
    | TurnEnded
    | ThreadRolledBack
    | TurnMerged
)


@dataclass(frozen=True, slots=True)
class DeletedSession:
    """What was deleted with a session.

    Args:
        thread_count: With the thread `default`.
        event_count: Events of the tasks.
        states: Messages and items of the agent's state, by the name of the store.
    """

    thread_count: int = 0
    turn_count: int = 0
    task_count: int = 0
    event_count: int = 0
    states: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ThreadResumption:
    """What a thread does after it was resumed.

    Args:
        resumed: Turns whose pause has ended.
        open_turns: Active turns, then the queue.
        waiting_turn: The turn whose task waits for input; None if there is none.
    """

    resumed: tuple[Turn, ...] = ()
    open_turns: tuple[Turn, ...] = ()
    waiting_turn: Turn | None = None


@dataclass(frozen=True, slots=True)
class SessionPage:
    """A session, some of its turns (oldest first), and the token for older ones ("" if there are none)."""

    session: Session
    turns: tuple[Turn, ...] = ()
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class SessionList:
    """One page of sessions, last changed first, and the token of the next page ("" on the last one)."""

    sessions: tuple[Session, ...] = ()
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """One fact in a session's own log.

    Args:
        position: Position among all events of the session and of its tasks, from 1, without gaps.
        created_at: Time of the append, ISO 8601.
        payload: None for a kind that this version does not know.
    """

    position: int
    created_at: str
    payload: SessionPayload | None


@dataclass(frozen=True, slots=True)
class SessionItem:
    """One event of a session's stream: of the session itself, or of one of its tasks.

    Args:
        position: Position among all events of the session and of its tasks: where to continue.
    """

    position: int
    event: SessionEvent | RunEvent
