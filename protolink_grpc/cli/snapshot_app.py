"""`plgrpc snapshot`: the commands and their options. `snapshot_commands` implements them and is loaded when one runs."""

from typing import Annotated

import typer

from protolink_grpc.cli.settings import Settings, with_settings

snapshot_app = typer.Typer(help="Show the current state of sessions and tasks.", rich_markup_mode=None)

AgentArgument = Annotated[str, typer.Argument(metavar="AGENT", help="URL (grpc://host:port), or name in the registry.")]
SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="Id of the session.")]
TaskArgument = Annotated[str, typer.Argument(metavar="TASK", help="Id of the task.")]


@snapshot_app.command("session")
@with_settings
def snapshot_session(settings: Settings, agent: AgentArgument, session: SessionArgument) -> None:
    """Show a session with the status of its threads."""
    from protolink_grpc.cli import snapshot_commands

    snapshot_commands.show_session(settings, agent, session)


@snapshot_app.command("thread")
@with_settings
def snapshot_thread(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument,
    thread: Annotated[str, typer.Argument(metavar="THREAD", help="Id of the thread.")] = "default",
) -> None:
    """Show a thread with its open tasks and newest turns."""
    from protolink_grpc.cli import snapshot_commands

    snapshot_commands.show_thread(settings, agent, session, thread)


@snapshot_app.command("queue")
@with_settings
def snapshot_queue(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument,
    thread: Annotated[
        str, typer.Argument(metavar="THREAD", help="Only this thread. Default: all threads.", show_default=False)
    ] = "",
) -> None:
    """Show the queued inputs of a session, and what they wait for."""
    from protolink_grpc.cli import snapshot_commands

    snapshot_commands.show_queue(settings, agent, session, thread)


@snapshot_app.command("tools")
@with_settings
def snapshot_tools(settings: Settings, agent: AgentArgument) -> None:
    """Show the tools and peers of an agent, and the policy for each."""
    from protolink_grpc.cli import snapshot_commands

    snapshot_commands.show_tools(settings, agent)


@snapshot_app.command("context")
@with_settings
def snapshot_context(settings: Settings, agent: AgentArgument, task: TaskArgument) -> None:
    """Show the prompt size of a task's latest model call."""
    from protolink_grpc.cli import snapshot_commands

    snapshot_commands.show_context(settings, agent, task)


@snapshot_app.command("artifacts")
@with_settings
def snapshot_artifacts(settings: Settings, agent: AgentArgument, task: TaskArgument) -> None:
    """Show the artifacts of a task without their content."""
    from protolink_grpc.cli import snapshot_commands

    snapshot_commands.show_artifacts(settings, agent, task)


@snapshot_app.command("evidence")
@with_settings
def snapshot_evidence(settings: Settings, agent: AgentArgument, task: TaskArgument) -> None:
    """Count the actions, approvals and policy decisions of a task."""
    from protolink_grpc.cli import snapshot_commands

    snapshot_commands.show_evidence(settings, agent, task)
