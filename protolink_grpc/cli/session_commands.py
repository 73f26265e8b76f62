"""`session list`, `show`, `submit`, `watch`, `interrupt`, `promote`, `remove`, `update` and `start-thread`."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar, cast

from protolink_grpc.cli import output
from protolink_grpc.cli.agent_commands import EventPrinter, advise, show_task
from protolink_grpc.cli.connect import QUICK_S, agent_client, run, url_of, within
from protolink_grpc.cli.describe import clock, event_detail, time_ago
from protolink_grpc.cli.failure import CommandError, command_error
from protolink_grpc.cli.questions import WIDTH, note_task_continues
from protolink_grpc.cli.settings import Settings
from protolink_grpc.cli.timeline import span
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.errors import DeadlineExceededError, ThreadNotFoundError, UnavailableError
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.session import (
    DEFAULT_THREAD,
    Session,
    SessionCreated,
    SessionEvent,
    SessionItem,
    SessionPage,
    SessionUpdated,
    Thread,
    ThreadStarted,
    Turn,
    TurnEnded,
    TurnPromoted,
    TurnStarted,
    TurnState,
    TurnSubmitted,
)
from protolink_grpc.models.task import Task

T = TypeVar("T")

EVENT_TYPES: Final[dict[type, str]] = {
    SessionCreated: "session.created",
    SessionUpdated: "session.updated",
    ThreadStarted: "thread.started",
    TurnSubmitted: "turn.submitted",
    TurnPromoted: "turn.promoted",
    TurnStarted: "turn.started",
    TurnEnded: "turn.ended",
}
"""Types of a session's own events, in the form of those of a task's events."""

LABEL_CHARS: Final = 16
"""Maximum length of a turn id at the beginning of a line; of longer ones the end is shown, which differs between UUIDs."""

LAST_COLUMN_CHARS: Final = 20
"""Minimum width of the last column of a table, in characters."""


@dataclass(frozen=True, slots=True)
class TurnSubmission:
    """The arguments of `session submit`. The text `-` reads standard input; an empty id means a new one."""

    text: str
    thread_id: str = DEFAULT_THREAD
    turn_id: str = ""
    when_busy: str = "enqueue"


def list_sessions(settings: Settings, agent: str, *, archived: bool, limit: int, page_token: str) -> None:
    """Print one page of the caller's sessions, last changed first."""
    page = _call(
        settings,
        agent,
        "",
        lambda client, url: client.sessions.list(
            agent_url=url, page_size=limit, page_token=page_token, include_archived=archived
        ),
    )
    if settings.json:
        found = [_without(asdict(each), "threads", "open_turns") for each in page.sessions]
        output.document({"sessions": found, "next_page_token": page.next_page_token})
        return
    heads = ("SESSION", "TURNS", "CHANGED", *(["ARCHIVED"] if archived else []), "TITLE")
    rows = [
        (
            each.session_id,
            str(each.turn_count),
            time_ago(each.updated_at or ""),
            *(["yes" if each.archived else ""] if archived else []),
            each.title,
        )
        for each in page.sessions
    ]
    _show_table(heads, rows)
    if page.next_page_token:
        output.note("hint", f"there are more; the next page: --page-token {page.next_page_token}")


def show(settings: Settings, agent: str, session_id: str, *, thread: str, limit: int, page_token: str) -> None:
    """Print a session, its threads, its queues and a page of its turns, of one thread or of all."""

    async def fetch(client: AgentClient, url: str) -> SessionPage:
        page = await client.sessions.get(
            session_id, thread_id=thread, page_size=limit, page_token=page_token, agent_url=url
        )
        if thread and thread not in [each.thread_id for each in page.session.threads]:
            raise ThreadNotFoundError(f"session {session_id} has no thread {thread}", thread_id=thread)
        return page

    page = _call(settings, agent, session_id, fetch)
    if settings.json:
        output.document(asdict(page))
        return
    _show_fields(session_fields(page.session))
    for title, heads, rows in session_tables(page, thread):
        output.line()
        output.line(f"{title}:")
        _show_table(heads, rows)
    if page.next_page_token:
        output.note("hint", f"there are older turns: --page-token {page.next_page_token}")


def submit(
    settings: Settings,
    agent: str,
    session_id: str,
    submission: TurnSubmission,
    *,
    follow: bool,
    deltas: bool | None,
) -> None:
    """Submit a turn and print it. With `follow`, also print its events until its end, and then its task."""
    text = sys.stdin.read() if submission.text == "-" else submission.text

    async def work(client: AgentClient, url: str) -> tuple[Turn, Task | None]:
        turn = await client.sessions.submit(
            session_id,
            text,
            thread_id=submission.thread_id,
            turn_id=submission.turn_id or None,
            when_busy=submission.when_busy,
            agent_url=url,
        )
        if not follow:
            return turn, None
        if not settings.json:
            _show_fields(turn_fields(turn))
        await _follow(settings, agent, session_id, turn, client, url, EventPrinter(settings, deltas, agent=agent))
        return turn, await client.get_task(turn.task_id, agent_url=url)

    turn, task = _call(settings, agent, session_id, work)
    if task is not None:
        if not settings.json:
            show_task(task)
        thread = [] if turn.thread_id == DEFAULT_THREAD else ["--thread", turn.thread_id]
        answer = settings.command("session submit", agent, session_id, "your answer", *thread)
        advise(settings, agent, task, answer=answer)
        return
    _show_turn(settings, turn)
    if turn.state is TurnState.ENDED:
        output.note("hint", f"show its task with: {settings.command('task get', agent, turn.task_id)}")
    else:
        after = ["--after", str(turn.after_sequence)] if turn.after_sequence else []
        output.note("hint", f"follow it with: {settings.command('task subscribe', agent, turn.task_id, *after)}")


async def _follow(  # noqa: PLR0917 -- the parts of one stream
    settings: Settings,
    agent: str,
    session_id: str,
    turn: Turn,
    client: AgentClient,
    url: str,
    printer: EventPrinter,
) -> None:
    """Print the events of a turn until its end."""
    try:
        async with within(settings.timeout_s, f"turn {turn.turn_id}", task_id=turn.task_id, url=url):
            stream = client.sessions.stream(session_id, turn, deltas=printer.deltas, agent_url=url)
            async with aclosing(cast(Any, stream)) as events:
                async for event in events:
                    printer.show(event)
            printer.end()
    except asyncio.CancelledError:
        note_task_continues(settings, agent, turn.task_id)
        raise


def watch(settings: Settings, agent: str, session_id: str, *, after: int) -> None:
    """Print the events of a session after a position, stored and new, until interrupted."""

    async def work(client: AgentClient, url: str) -> None:
        position = after
        # A stream retries during an outage, so check first that the agent is reachable at all.
        page = await client.sessions.get(session_id, agent_url=url)
        labels = {turn.task_id: turn.turn_id for turn in (*page.turns, *page.session.open_turns)}
        items = cast(Any, client.sessions.subscribe(session_id, after=after, agent_url=url))
        try:
            async with within(settings.timeout_s, "the watch", url=url), aclosing(items) as stream:
                async for item in stream:
                    _show_item(settings, item, labels)
                    position = item.position
        except (asyncio.CancelledError, DeadlineExceededError, UnavailableError) as error:
            command = settings.command("session watch", agent, session_id, "--after", str(position))
            if isinstance(error, asyncio.CancelledError):
                output.note("hint", f"continue it with: {command}")
                raise
            failed = command_error(error, agent)
            failed.hint = f"continue it with: {command}"
            raise failed from error

    _call(settings, agent, session_id, work)


def interrupt(
    settings: Settings, agent: str, session_id: str, *, thread: str, turn: str, reason: str, clear_queue: bool
) -> None:
    """Cancel the open turns of a thread, or one turn, and print them."""
    turns = _call(
        settings,
        agent,
        session_id,
        lambda client, url: client.sessions.interrupt(
            session_id,
            thread_id=thread or DEFAULT_THREAD,
            turn=turn,
            reason=reason,
            clear_queue=clear_queue,
            agent_url=url,
        ),
    )
    if settings.json:
        output.document({"turns": [asdict(each) for each in turns]})
    elif turns:
        _show_table(("TURN", "STATE", "REASON"), [(each.turn_id, _state_of(each), each.reason) for each in turns])
    else:
        output.note("note", f"turn {turn} has already ended" if turn else "there was no active turn")


def promote(settings: Settings, agent: str, session_id: str, turn_id: str) -> None:
    """Put a queued turn at the front of its thread's queue, and print it."""
    turn = _call(
        settings, agent, session_id, lambda client, url: client.sessions.promote(session_id, turn_id, agent_url=url)
    )
    _show_turn(settings, turn)


def remove(settings: Settings, agent: str, session_id: str, turn_id: str) -> None:
    """Remove a turn from the queue, and print it."""
    turn = _call(
        settings, agent, session_id, lambda client, url: client.sessions.remove(session_id, turn_id, agent_url=url)
    )
    _show_turn(settings, turn)


def update(settings: Settings, agent: str, session_id: str, *, title: str | None, archived: bool | None) -> None:
    """Change a session and print it; None leaves a value unchanged."""
    session = _call(
        settings,
        agent,
        session_id,
        lambda client, url: client.sessions.update(session_id, title=title, archived=archived, agent_url=url),
    )
    if settings.json:
        output.document(asdict(session))
    else:
        _show_fields(session_fields(session))


def start_thread(settings: Settings, agent: str, session_id: str, thread_id: str, title: str) -> None:
    """Start a thread and print it. An empty id means a new one."""
    thread = _call(
        settings,
        agent,
        session_id,
        lambda client, url: client.sessions.start_thread(session_id, thread_id or None, title=title, agent_url=url),
    )
    if settings.json:
        output.document(asdict(thread))
    else:
        created = _moment(thread.created_at)
        _show_fields([("Thread", thread.thread_id), ("Title", thread.title), ("Created", created)])


# -- Calls -----------------------------------------------------------------------------------------------------------------


def _call(settings: Settings, agent: str, session_id: str, work: Callable[[AgentClient, str], Awaitable[T]]) -> T:
    """Run a command with a client and the agent's URL. Errors get hints that show what exists.

    Raises:
        CommandError: The command has failed.
    """

    async def with_client() -> T:
        url = await url_of(settings, agent)
        return await work(agent_client(settings, QUICK_S), url)

    try:
        return run(with_client(), agent)
    except CommandError as error:
        error.hint = _hint(settings, agent, session_id, error) or error.hint
        raise


def _hint(settings: Settings, agent: str, session_id: str, error: CommandError) -> str:
    """Return the hint for an error that is special to sessions; otherwise empty."""
    shown = settings.command("session show", agent, session_id)
    match error.code:
        case "SESSION_NOT_FOUND":
            return f"{settings.command('session list', agent, '--archived')} shows your sessions"
        case "THREAD_NOT_FOUND":
            thread_id = error.metadata.get("thread_id", "THREAD")
            started = settings.command("session start-thread", agent, session_id, thread_id)
            return f"{shown} shows its threads; start this one with: {started}"
        case "TURN_NOT_FOUND":
            return f"{shown} shows its turns"
        case "TURN_NOT_QUEUED":
            return f"{shown} shows its queue"
        case "THREAD_BUSY":
            return "--when-busy enqueue waits for the active turn, and --when-busy interrupt cancels it"
        case "SEQUENCE_OUT_OF_RANGE":
            return "--after takes the position of an event; 0 is the beginning"
        case "UNIMPLEMENTED":
            checked = f"plgrpc doctor {agent} shows the services at this address"
            return f"agents of other systems have no sessions; {checked}"
    return ""


# -- Text ------------------------------------------------------------------------------------------------------------------


def _show_fields(fields: Sequence[tuple[str, str]]) -> None:
    for label, value in fields:
        output.field(label, value)


def _show_turn(settings: Settings, turn: Turn) -> None:
    if settings.json:
        output.document(asdict(turn))
    else:
        _show_fields(turn_fields(turn))


def _show_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table. The last column is shortened so that lines have at most `WIDTH` characters, if the others leave room."""
    taken = sum(max(len(row[index]) for row in (heads, *rows)) + 2 for index in range(len(heads) - 1))
    room = max(WIDTH - taken, LAST_COLUMN_CHARS)
    output.columns(heads, [(*row[:-1], output.one_line(row[-1], room)) for row in rows])


def _without(document: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


def _state_of(turn: Turn) -> str:
    """Return the result of a turn, or its state before its end."""
    return str(turn.state if turn.result is None else turn.result)


def _moment(time: str | None) -> str:
    return f"{time} ({time_ago(time)})" if time else ""


def turn_fields(turn: Turn) -> list[tuple[str, str]]:
    """Return the fields of a turn."""
    return [
        ("Turn", turn.turn_id),
        ("Thread", turn.thread_id),
        ("Task", turn.task_id),
        ("State", _state_of(turn)),
        ("Reason", turn.reason),
    ]


def session_fields(session: Session) -> list[tuple[str, str]]:
    """Return the fields of a session."""
    return [
        ("Session", session.session_id),
        ("Title", session.title),
        ("Archived", "yes" if session.archived else ""),
        ("Metadata", to_json(session.metadata) if session.metadata else ""),
        ("Turns", str(session.turn_count)),
        ("Position", str(session.position)),
        ("Created", _moment(session.created_at)),
        ("Changed", _moment(session.updated_at)),
    ]


def session_tables(page: SessionPage, thread_id: str = "") -> Iterator[tuple[str, Sequence[str], list[Sequence[str]]]]:
    """Yield title, heads and rows of tables: the threads, and for each thread its queue and its turns on the page.

    Args:
        thread_id: Only the queue and the turns of this thread; empty means all threads.
    """
    session = page.session
    heads: Sequence[str] = ("THREAD", "ACTIVE", "QUEUED", "CREATED", "TITLE")
    yield "Threads", heads, [_thread_row(session, each) for each in session.threads]
    shown = [each.thread_id for each in session.threads if thread_id in ("", each.thread_id)]
    for name in shown:
        queue = [each for each in session.open_turns if each.thread_id == name and each.state is TurnState.QUEUED]
        rows: list[Sequence[str]] = [
            (str(place), each.turn_id, time_ago(each.created_at or ""), str(each.when_busy))
            for place, each in enumerate(queue, 1)
        ]
        if rows:
            yield f"Queue of thread {name}", ("ORDER", "TURN", "SUBMITTED", "POLICY"), rows
    for name in shown:
        rows = [_turn_row(each) for each in page.turns if each.thread_id == name]
        if rows:
            yield f"Turns of thread {name}", ("TURN", "STATE", "SUBMITTED", "ENDED", "REASON"), rows


def _thread_row(session: Session, thread: Thread) -> Sequence[str]:
    states = [each.state for each in session.open_turns if each.thread_id == thread.thread_id]
    active, queued = states.count(TurnState.ACTIVE), states.count(TurnState.QUEUED)
    created = time_ago(thread.created_at) if thread.created_at else ""
    return thread.thread_id, str(active), str(queued), created, thread.title


def _turn_row(turn: Turn) -> Sequence[str]:
    ended = ""
    if turn.created_at and turn.ended_at:
        ended = f"after {span(micros_from_iso(turn.ended_at) - micros_from_iso(turn.created_at))}"
    return turn.turn_id, _state_of(turn), time_ago(turn.created_at or ""), ended, turn.reason


def _show_item(settings: Settings, item: SessionItem, labels: dict[str, str]) -> None:
    """Print one event of a session's stream.

    Args:
        labels: For each task the id of its turn; updated by events.
    """
    event = item.event
    if isinstance(event, SessionEvent) and isinstance(event.payload, TurnSubmitted):
        labels[event.payload.task_id] = event.payload.turn_id
    if not settings.json:
        result = event.state if isinstance(event, RunEvent) else getattr(event.payload, "result", None)
        output.line(item_line(item, labels), word=str(result or ""))
    elif isinstance(event, RunEvent):
        output.json_line({"position": item.position, "event": event.to_dict()})
    else:
        output.json_line({"position": item.position, "session_event": _session_event_dict(event)})


def _session_event_dict(event: SessionEvent) -> dict[str, Any]:
    payload = {} if event.payload is None else asdict(event.payload)
    return {"type": _type_of(event), "created_at": event.created_at, "payload": payload}


def _type_of(event: SessionEvent) -> str:
    return EVENT_TYPES.get(type(event.payload), "session.unknown")


def item_line(item: SessionItem, labels: dict[str, str]) -> str:
    """Format an event of a session's stream: `#12 12:03:11 train task.submitted and a train`.

    The word after the time is the turn, or `-` for an event of the session itself.

    Args:
        labels: For each task the id of its turn.
    """
    event = item.event
    if isinstance(event, RunEvent):
        head = f"{clock(event.timestamp)} {_label(labels.get(event.task_id, event.task_id))} {event.type}"
        return output.one_line(f"#{item.position} {head} {event_detail(event)}", 200)
    head = f"{clock(event.created_at)} {_label(getattr(event.payload, 'turn_id', '')) or '-'} {_type_of(event)}"
    return output.one_line(f"#{item.position} {head} {_session_detail(event)}", 200)


def _label(turn_id: str) -> str:
    return turn_id if len(turn_id) <= LABEL_CHARS else f"…{turn_id[-8:]}"


def _session_detail(event: SessionEvent) -> str:
    match event.payload:
        case SessionCreated(title=title):
            return title
        case SessionUpdated(title=title, archived=archived):
            return f"{'archived ' if archived else ''}{title}"
        case ThreadStarted(thread_id=thread_id, title=title):
            return f"{thread_id} {title}"
        case TurnSubmitted() as turn:
            place = "" if not turn.queued else ", first in the queue" if turn.first else ", queued"
            return f"{turn.turn_id} in thread {turn.thread_id}{place}, task {turn.task_id}"
        case TurnEnded(turn_id=turn_id, result=result, reason=reason):
            return f"{turn_id} {result} {reason}"
        case TurnPromoted(turn_id=turn_id) | TurnStarted(turn_id=turn_id):
            return turn_id
        case _:
            return ""
