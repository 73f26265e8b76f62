"""`plgrpc session`: the commands and their options. Their implementations are loaded when one runs."""

from enum import StrEnum
from typing import Annotated

import typer

from protolink_grpc.cli.failure import usage_error
from protolink_grpc.cli.settings import Settings, with_settings

session_app = typer.Typer(help="Show and control conversations.", rich_markup_mode=None)

AgentArgument = Annotated[str, typer.Argument(metavar="AGENT", help="URL (grpc://host:port), or name in the registry.")]
SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="Id of the session.")]
TurnArgument = Annotated[str, typer.Argument(metavar="TURN", help="Id of a queued turn.")]


class WhenBusy(StrEnum):
    """What `session submit` does if the thread has an active turn."""

    ENQUEUE = "enqueue"
    REJECT = "reject"
    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"
    MERGE = "merge"
    START = "start"


@session_app.command("list")
@with_settings
def session_list(
    settings: Settings,
    agent: AgentArgument,
    *,
    archived: Annotated[bool, typer.Option("--archived", help="Include archived sessions.")] = False,
    limit: Annotated[int, typer.Option("--limit", "--page-size", min=1, max=1000, help="Sessions on one page.")] = 50,
    page_token: Annotated[str, typer.Option("--page-token", metavar="TOKEN", help="Token of the page to show.")] = "",
) -> None:
    """List your sessions with an agent, last changed first."""
    from protolink_grpc.cli import session_commands

    session_commands.list_sessions(settings, agent, archived=archived, limit=limit, page_token=page_token)


@session_app.command("show")
@with_settings
def session_show(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument,
    *,
    thread: Annotated[str, typer.Option("--thread", metavar="THREAD", help="Only turns of this thread.")] = "",
    limit: Annotated[int, typer.Option("--limit", "--page-size", min=1, max=1000, help="Turns on one page.")] = 20,
    page_token: Annotated[str, typer.Option("--page-token", metavar="TOKEN", help="Token of the page to show.")] = "",
) -> None:
    """Show a session with its threads, queue and newest turns."""
    from protolink_grpc.cli import session_commands

    session_commands.show(settings, agent, session, thread=thread, limit=limit, page_token=page_token)


@session_app.command("submit")
@with_settings
def session_submit(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The input; - reads standard input.")],
    *,
    thread: Annotated[str, typer.Option("--thread", metavar="THREAD", help="Thread of the turn.")] = "default",
    turn_id: Annotated[
        str,
        typer.Option(
            "--turn-id", metavar="ID", help="Id of the turn, and idempotency key: the same id is the same turn."
        ),
    ] = "",
    when_busy: Annotated[
        WhenBusy,
        typer.Option(
            "--when-busy",
            help="If the thread has an active turn: wait; fail; cancel it; cancel it and take it out of the conversation;"
            " join the last queued turn; start beside it.",
        ),
    ] = WhenBusy.ENQUEUE,
    follow: Annotated[bool, typer.Option("--follow", help="Print the events of the turn until its end.")] = False,
    deltas: Annotated[
        bool | None,
        typer.Option(
            "--deltas/--no-deltas",
            help="With --follow, show the text of a model as it is produced. Default: only on a terminal.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Submit an input to a session.

    The session is created if necessary. With --follow the exit code is 0 as soon as the turn has ended, even if its task failed.
    """
    from protolink_grpc.cli import session_commands

    submission = session_commands.TurnSubmission(text, thread, turn_id, when_busy.value)
    session_commands.submit(settings, agent, session, submission, follow=follow, deltas=deltas)


@session_app.command("watch")
@with_settings
def session_watch(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument,
    *,
    after: Annotated[
        int, typer.Option("--after", min=0, metavar="POSITION", help="Start after this position; 0 is the beginning.")
    ] = 0,
) -> None:
    """Show the events of a session and its tasks, stored and new.

    Each line begins with the position of its event. Ctrl-C ends the command.
    """
    from protolink_grpc.cli import session_commands

    session_commands.watch(settings, agent, session, after=after)


@session_app.command("export")
@with_settings
def session_export(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument,
    *,
    after: Annotated[
        int,
        typer.Option(
            "--after", min=0, metavar="SEQUENCE", help="Start after the event with this sequence; 0 is the beginning."
        ),
    ] = 0,
) -> None:
    """Export a session as Agent Runtime events.

    Each line is a JSON object, without secrets. The export ends with the last event that the session has when the command starts.
    """
    from protolink_grpc.cli import session_export

    session_export.export(settings, agent, session, after=after)


@session_app.command("interrupt")
@with_settings
def session_interrupt(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument,
    *,
    thread: Annotated[
        str, typer.Option("--thread", metavar="THREAD", help="Thread to interrupt. Default: default.")
    ] = "",
    turn: Annotated[str, typer.Option("--turn", metavar="TURN", help="Only this turn, active or queued.")] = "",
    reason: Annotated[str, typer.Option("--reason", help="Reason, recorded in the log.")] = "",
    clear_queue: Annotated[bool, typer.Option("--clear-queue", help="Also remove the queued turns.")] = False,
) -> None:
    """Cancel the active turns of a thread.

    A task of the thread that waits for input is also canceled. With --turn it cancels only one turn.
    """
    from protolink_grpc.cli import session_commands

    if turn and (thread or clear_queue):
        raise usage_error(
            "--turn excludes --thread and --clear-queue", f"plgrpc session interrupt {agent} {session} --turn {turn}"
        )
    session_commands.interrupt(
        settings, agent, session, thread=thread, turn=turn, reason=reason, clear_queue=clear_queue
    )


@session_app.command("promote")
@with_settings
def session_promote(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument,
    turn: TurnArgument,
) -> None:
    """Put a turn at the front of its queue."""
    from protolink_grpc.cli import session_commands

    session_commands.promote(settings, agent, session, turn)


@session_app.command("remove")
@with_settings
def session_remove(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument,
    turn: TurnArgument,
) -> None:
    """Remove a turn from its queue."""
    from protolink_grpc.cli import session_commands

    session_commands.remove(settings, agent, session, turn)


@session_app.command("edit")
@with_settings
def session_edit(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument,
    turn: TurnArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The new input; - reads standard input.")],
) -> None:
    """Replace the input of a queued turn."""
    from protolink_grpc.cli import session_history

    session_history.edit(settings, agent, session, turn, text)


@session_app.command("rollback")
@with_settings
def session_rollback(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument,
    turn: Annotated[str, typer.Argument(metavar="TURN", help="Id of the first turn to take out.")],
    *,
    reason: Annotated[str, typer.Option("--reason", help="Reason, recorded in the log.")] = "",
) -> None:
    """Take a turn and all later ones out of the conversation.

    Active turns among them are canceled, and queued turns stay in the queue. The logs of the turns stay.
    """
    from protolink_grpc.cli import session_history

    session_history.roll_back(settings, agent, session, turn, reason)


@session_app.command("resume")
@with_settings
def session_resume(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument,
    *,
    thread: Annotated[str, typer.Option("--thread", metavar="THREAD", help="Thread to resume.")] = "default",
    reason: Annotated[str, typer.Option("--reason", help="Reason, recorded in the log.")] = "",
) -> None:
    """End the pauses of a thread, and show its open turns."""
    from protolink_grpc.cli import session_history

    session_history.resume(settings, agent, session, thread, reason)


@session_app.command("delete")
@with_settings
def session_delete(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a session with its tasks, logs and stored state.

    Open turns are canceled first. The deletion cannot be undone.
    """
    from protolink_grpc.cli import session_history

    session_history.delete(settings, agent, session, is_confirmed=yes)


@session_app.command("update")
@with_settings
def session_update(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument,
    *,
    title: Annotated[str | None, typer.Option("--title", help="New title.", show_default=False)] = None,
    archived: Annotated[
        bool | None,
        typer.Option("--archive/--unarchive", help="Hide the session in lists, or show it again.", show_default=False),
    ] = None,
) -> None:
    """Change the title of a session, or archive it."""
    from protolink_grpc.cli import session_commands

    if title is None and archived is None:
        raise usage_error("nothing to change", "pass --title, --archive or --unarchive")
    session_commands.update(settings, agent, session, title=title, archived=archived)


@session_app.command("start-thread")
@with_settings
def session_start_thread(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument,
    thread: Annotated[
        str, typer.Argument(metavar="THREAD", help="Id of the thread. Default: a new id.", show_default=False)
    ] = "",
    *,
    title: Annotated[str, typer.Option("--title", help="Title of the thread.")] = "",
    from_thread: Annotated[
        str, typer.Option("--from-thread", metavar="THREAD", help="Begin with the conversation of this thread.")
    ] = "",
    from_turn: Annotated[
        str,
        typer.Option("--from-turn", metavar="TURN", help="Last turn to include. Default: the last one that has ended."),
    ] = "",
) -> None:
    """Start a thread, with a queue and a conversation of its own.

    The session is created if necessary.
    """
    from protolink_grpc.cli import session_history

    if from_turn and not from_thread:
        raise usage_error("--from-turn needs --from-thread", "pass --from-thread default")
    new = session_history.NewThread(thread, title, from_thread, from_turn)
    session_history.start_thread(settings, agent, session, new)
