"""`session list`, `show`, `submit`, `watch`, `interrupt`, `promote`, `remove` and `update`."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any, TypeVar, cast

from protolink_grpc.cli import output
from protolink_grpc.cli.agent_commands import EventPrinter, advise, show_task
from protolink_grpc.cli.connect import QUICK_S, agent_client, run, url_of, within
from protolink_grpc.cli.describe import time_ago
from protolink_grpc.cli.failure import CommandError, command_error, usage_error
from protolink_grpc.cli.questions import note_task_continues
from protolink_grpc.cli.session_text import (
    item_line,
    session_event_dict,
    session_fields,
    session_tables,
    state_of,
    turn_fields,
)
from protolink_grpc.cli.settings import Settings
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.errors import DeadlineExceededError, ThreadNotFoundError, UnavailableError
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.session import (
    DEFAULT_THREAD,
    SessionEvent,
    SessionItem,
    SessionPage,
    Turn,
    TurnState,
    TurnSubmitted,
)
from protolink_grpc.models.task import Task

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TurnSubmission:
    """The arguments of `session submit`. The text `-` reads standard input; an empty id means a new one."""

    text: str
    thread_id: str = DEFAULT_THREAD
    turn_id: str = ""
    when_busy: str = "enqueue"


def list_sessions(settings: Settings, agent: str, *, archived: bool, limit: int, page_token: str) -> None:
    """Print one page of the caller's sessions, last changed first."""
    page = call(
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
    output.columns(heads, rows)
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

    page = call(settings, agent, session_id, fetch)
    if settings.json:
        output.document(asdict(page))
        return
    show_fields(session_fields(page.session))
    for title, heads, rows in session_tables(page, thread):
        output.line()
        output.line(f"{title}:")
        output.columns(heads, rows)
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
    text = read_input(submission.text)

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
            show_fields(turn_fields(turn))
        await _follow(settings, agent, session_id, turn, client, url, EventPrinter(settings, deltas, agent=agent))
        return turn, await client.get_task(turn.task_id, agent_url=url)

    turn, task = call(settings, agent, session_id, work)
    if task is not None:
        if not settings.json:
            show_task(task)
        thread = [] if turn.thread_id == DEFAULT_THREAD else ["--thread", turn.thread_id]
        answer = settings.command("session submit", agent, session_id, "your answer", *thread)
        advise(settings, agent, task, answer=answer)
        return
    show_turn(settings, turn)
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

    call(settings, agent, session_id, work)


def interrupt(
    settings: Settings, agent: str, session_id: str, *, thread: str, turn: str, reason: str, clear_queue: bool
) -> None:
    """Cancel the open turns of a thread, or one turn, and print them."""
    turns = call(
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
        output.columns(("TURN", "STATE", "REASON"), [(each.turn_id, state_of(each), each.reason) for each in turns])
    else:
        output.note("note", f"turn {turn} has already ended" if turn else "there was no active turn")


def promote(settings: Settings, agent: str, session_id: str, turn_id: str) -> None:
    """Put a queued turn at the front of its thread's queue, and print it."""
    turn = call(
        settings, agent, session_id, lambda client, url: client.sessions.promote(session_id, turn_id, agent_url=url)
    )
    show_turn(settings, turn)


def remove(settings: Settings, agent: str, session_id: str, turn_id: str) -> None:
    """Remove a turn from the queue, and print it."""
    turn = call(
        settings, agent, session_id, lambda client, url: client.sessions.remove(session_id, turn_id, agent_url=url)
    )
    show_turn(settings, turn)


def update(settings: Settings, agent: str, session_id: str, *, title: str | None, archived: bool | None) -> None:
    """Change a session and print it; None leaves a value unchanged."""
    session = call(
        settings,
        agent,
        session_id,
        lambda client, url: client.sessions.update(session_id, title=title, archived=archived, agent_url=url),
    )
    if settings.json:
        output.document(asdict(session))
    else:
        show_fields(session_fields(session))


def read_input(text: str) -> str:
    """Return a text, or standard input for `-`. Raises CommandError if it is empty."""
    found = sys.stdin.read() if text == "-" else text
    if not found.strip():
        raise usage_error("the input is empty", "pass a text, or - for standard input")
    return found


# -- Calls -----------------------------------------------------------------------------------------------------------------


def call(settings: Settings, agent: str, session_id: str, work: Callable[[AgentClient, str], Awaitable[T]]) -> T:
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
            return "--after takes the position of an earlier line (for an export, its sequence); 0 is the beginning"
        case "UNIMPLEMENTED":
            checked = f"plgrpc doctor {agent} shows the services at this address"
            return f"agents of other systems have no sessions and snapshots; {checked}"
    return ""


# -- Printing --------------------------------------------------------------------------------------------------------------


def show_fields(fields: Sequence[tuple[str, str]]) -> None:
    for label, value in fields:
        output.field(label, value)


def show_turn(settings: Settings, turn: Turn) -> None:
    if settings.json:
        output.document(asdict(turn))
    else:
        show_fields(turn_fields(turn))


def _without(document: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


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
        output.json_line({"position": item.position, "session_event": session_event_dict(event)})
