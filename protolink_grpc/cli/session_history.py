"""`session start-thread`, `edit`, `rollback`, `resume` and `delete`."""

import sys
from dataclasses import asdict, dataclass

import typer

from protolink_grpc.cli import output
from protolink_grpc.cli.failure import usage_error
from protolink_grpc.cli.session_commands import call, read_input, show_fields, show_turn
from protolink_grpc.cli.session_text import moment, state_of
from protolink_grpc.cli.settings import Settings
from protolink_grpc.models.session import Thread


@dataclass(frozen=True, slots=True)
class NewThread:
    """The arguments of `session start-thread`. An empty id means a new one; without `from_thread` it has no origin."""

    thread_id: str = ""
    title: str = ""
    from_thread: str = ""
    from_turn: str = ""


def start_thread(settings: Settings, agent: str, session_id: str, new: NewThread) -> None:
    """Start a thread and print it."""
    thread = call(
        settings,
        agent,
        session_id,
        lambda client, url: client.sessions.start_thread(
            session_id,
            new.thread_id or None,
            title=new.title,
            from_thread=new.from_thread,
            from_turn=new.from_turn,
            agent_url=url,
        ),
    )
    _show_thread(settings, thread)


def edit(settings: Settings, agent: str, session_id: str, turn_id: str, text: str) -> None:
    """Replace the input of a queued turn, and print the turn."""
    given = read_input(text)
    turn = call(
        settings,
        agent,
        session_id,
        lambda client, url: client.sessions.replace_input(session_id, turn_id, given, agent_url=url),
    )
    show_turn(settings, turn)


def roll_back(settings: Settings, agent: str, session_id: str, turn_id: str, reason: str) -> None:
    """Go back to before a turn, and print its thread."""
    thread = call(
        settings,
        agent,
        session_id,
        lambda client, url: client.sessions.roll_back(session_id, turn_id, reason=reason, agent_url=url),
    )
    _show_thread(settings, thread)


def resume(settings: Settings, agent: str, session_id: str, thread_id: str, reason: str) -> None:
    """End the pauses of a thread, and print what it waits for."""
    found = call(
        settings,
        agent,
        session_id,
        lambda client, url: client.sessions.resume(session_id, thread_id=thread_id, reason=reason, agent_url=url),
    )
    if settings.json:
        output.document(asdict(found))
        return
    resumed = {each.turn_id for each in found.resumed}
    rows = [(each.turn_id, "resumed" if each.turn_id in resumed else state_of(each)) for each in found.open_turns]
    if found.waiting_turn is not None:
        rows.append((found.waiting_turn.turn_id, "waits for input"))
    if rows:
        output.columns(("TURN", "STATE"), rows)
    else:
        output.note("note", f"thread {thread_id} waits for nothing")


def delete(settings: Settings, agent: str, session_id: str, *, is_confirmed: bool) -> None:
    """Delete a session, after a question on a terminal, and print what was deleted."""
    if not is_confirmed:
        if not sys.stdin.isatty():
            raise usage_error("without a terminal a deletion needs --yes", "--yes deletes without a question")
        typer.confirm(f"Delete session {session_id} with its tasks and logs?", abort=True, err=True)
    deleted = call(settings, agent, session_id, lambda client, url: client.sessions.delete(session_id, agent_url=url))
    if settings.json:
        output.document(asdict(deleted))
        return
    counts = {
        "Threads": deleted.thread_count,
        "Turns": deleted.turn_count,
        "Tasks": deleted.task_count,
        "Events": deleted.event_count,
    } | {name.capitalize(): count for name, count in deleted.states.items()}
    show_fields([("Deleted", session_id), *((name, str(count)) for name, count in counts.items())])


def _show_thread(settings: Settings, thread: Thread) -> None:
    if settings.json:
        output.document(asdict(thread))
        return
    fields = [("Thread", thread.thread_id), ("Title", thread.title), ("Created", moment(thread.created_at))]
    if thread.from_thread_id:
        fields.append(("From", " ".join(filter(None, (thread.from_thread_id, thread.from_turn_id)))))
    if thread.rollback_count:
        fields.append(("Rollbacks", str(thread.rollback_count)))
    show_fields(fields)
