"""`plgrpc task`: the commands that control a task, and their options. Their implementations are loaded when one runs."""

from enum import StrEnum
from typing import Annotated

import typer

from protolink_grpc.cli.failure import usage_error
from protolink_grpc.cli.session_app import AgentArgument
from protolink_grpc.cli.settings import Settings, with_settings

task_control_app = typer.Typer(rich_markup_mode=None)

TaskArgument = Annotated[str, typer.Argument(metavar="TASK", help="Id of the task.")]
TargetArgument = Annotated[
    str, typer.Argument(metavar="TARGET", help="Id of the other task; an id or a URI for artifact and evidence.")
]
TitleOption = Annotated[str | None, typer.Option("--title", help="Title.", show_default=False)]
ObjectiveOption = Annotated[str | None, typer.Option("--objective", help="The aim of the work.", show_default=False)]
PriorityOption = Annotated[str | None, typer.Option("--priority", help="Priority, in any words.", show_default=False)]
AssigneeOption = Annotated[
    str | None, typer.Option("--assignee", help="Person or program that does the work.", show_default=False)
]
AcceptanceOption = Annotated[
    list[str] | None, typer.Option("--acceptance", metavar="TEXT", help="Criterion of acceptance; repeatable.")
]
ConstraintOption = Annotated[
    list[str] | None, typer.Option("--constraint", metavar="TEXT", help="Constraint of the work; repeatable.")
]

ReasonOption = Annotated[str, typer.Option("--reason", help="Reason, recorded in the task's log.")]


class Kind(StrEnum):
    """The kind of a link."""

    PARENT = "parent"
    BLOCKED_BY = "blocked_by"
    SOURCE = "source"
    ARTIFACT = "artifact"
    EVIDENCE = "evidence"


KindArgument = Annotated[Kind, typer.Argument(metavar="KIND", help=f"Kind of the link: {', '.join(Kind)}.")]


@task_control_app.command("show")
@with_settings
def task_show(settings: Settings, agent: AgentArgument, task: TaskArgument) -> None:
    """Show a task with its status, attempts and links."""
    from protolink_grpc.cli import task_control_commands

    task_control_commands.show(settings, agent, task)


@task_control_app.command("create")
@with_settings
def task_create(
    settings: Settings,
    agent: AgentArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The input; - reads standard input.")],
    *,
    title: TitleOption = None,
    objective: ObjectiveOption = None,
    priority: PriorityOption = None,
    assignee: AssigneeOption = None,
    acceptance: AcceptanceOption = None,
    constraint: ConstraintOption = None,
    blocked_by: Annotated[
        list[str] | None,
        typer.Option("--blocked-by", metavar="TASK", help="Task that has to end first; repeatable."),
    ] = None,
    parent: Annotated[str, typer.Option("--parent", metavar="TASK", help="Task that this one is a part of.")] = "",
    session: Annotated[str, typer.Option("--session", metavar="ID", help="Session of the task.")] = "",
    request_id: Annotated[
        str, typer.Option("--request-id", metavar="ID", help="Idempotency key: the same id is the same task.")
    ] = "",
) -> None:
    """Create a task that does not begin before it is started."""
    from protolink_grpc.cli import task_control_commands

    description = task_control_commands.Description(title, objective, priority, assignee, acceptance, constraint)
    links = [("blocked_by", each) for each in blocked_by or ()] + ([("parent", parent)] if parent else [])
    task_control_commands.create(
        settings, agent, text, description, links=links, session=session, request_id=request_id
    )


@task_control_app.command("update")
@with_settings
def task_update(
    settings: Settings,
    agent: AgentArgument,
    task: TaskArgument,
    *,
    title: TitleOption = None,
    objective: ObjectiveOption = None,
    priority: PriorityOption = None,
    assignee: AssigneeOption = None,
    acceptance: AcceptanceOption = None,
    constraint: ConstraintOption = None,
) -> None:
    """Change the description of a task.

    Each option replaces the earlier value; --acceptance and --constraint replace all earlier ones.
    """
    from protolink_grpc.cli import task_control_commands

    description = task_control_commands.Description(title, objective, priority, assignee, acceptance, constraint)
    if not description.changes:
        raise usage_error("nothing to change", "pass --title, --objective, --priority, --assignee, ...")
    task_control_commands.update(settings, agent, task, description)


@task_control_app.command("start")
@with_settings
def task_start(
    settings: Settings,
    agent: AgentArgument,
    task: TaskArgument,
    *,
    external: Annotated[
        bool, typer.Option("--external", help="The work is done outside of the agent: complete or fail ends the task.")
    ] = False,
) -> None:
    """Start a task that was created.

    If other tasks block it, it starts when they have ended.
    """
    from protolink_grpc.cli import task_control_commands

    task_control_commands.start(settings, agent, task, external=external)


@task_control_app.command("progress")
@with_settings
def task_progress(
    settings: Settings,
    agent: AgentArgument,
    task: TaskArgument,
    percent: Annotated[
        float | None, typer.Argument(metavar="PERCENT", min=0, max=100, help="From 0 to 100.", show_default=False)
    ] = None,
    *,
    message: Annotated[str, typer.Option("--message", "-m", help="One sentence for people.")] = "",
) -> None:
    """Report the progress of a task."""
    from protolink_grpc.cli import task_control_commands

    if percent is None and not message:
        raise usage_error("nothing to report", "pass PERCENT or --message")
    task_control_commands.report_progress(settings, agent, task, percent, message)


@task_control_app.command("complete")
@with_settings
def task_complete(
    settings: Settings,
    agent: AgentArgument,
    task: TaskArgument,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The result; - reads standard input.", show_default=False)
    ] = "",
) -> None:
    """End a task with success, for work outside of the agent."""
    from protolink_grpc.cli import task_control_commands

    task_control_commands.complete(settings, agent, task, text)


@task_control_app.command("fail")
@with_settings
def task_fail(
    settings: Settings,
    agent: AgentArgument,
    task: TaskArgument,
    reason: Annotated[str, typer.Argument(metavar="REASON", help="Reason, recorded in the task's log.")],
) -> None:
    """End a task with a failure, for work outside of the agent."""
    from protolink_grpc.cli import task_control_commands

    task_control_commands.fail(settings, agent, task, reason)


@task_control_app.command("link")
@with_settings
def task_link(
    settings: Settings,
    agent: AgentArgument,
    task: TaskArgument,
    kind: KindArgument,
    target: TargetArgument,
    *,
    reason: ReasonOption = "",
) -> None:
    """Link a task to another one, or to something else."""
    from protolink_grpc.cli import task_control_commands

    task_control_commands.link(settings, agent, task, kind.value, target, reason=reason)


@task_control_app.command("unlink")
@with_settings
def task_unlink(
    settings: Settings,
    agent: AgentArgument,
    task: TaskArgument,
    kind: KindArgument,
    target: TargetArgument,
) -> None:
    """Remove a link of a task."""
    from protolink_grpc.cli import task_control_commands

    task_control_commands.unlink(settings, agent, task, kind.value, target)


@task_control_app.command("pause")
@with_settings
def task_pause(
    settings: Settings,
    agent: AgentArgument,
    task: TaskArgument,
    *,
    reason: ReasonOption = "",
) -> None:
    """Pause a task before its next action or model call."""
    from protolink_grpc.cli import task_control_commands

    task_control_commands.pause(settings, agent, task, reason)


@task_control_app.command("resume")
@with_settings
def task_resume(
    settings: Settings,
    agent: AgentArgument,
    task: TaskArgument,
    *,
    reason: ReasonOption = "",
) -> None:
    """End the pause of a task."""
    from protolink_grpc.cli import task_control_commands

    task_control_commands.resume(settings, agent, task, reason)


@task_control_app.command("retry")
@with_settings
def task_retry(
    settings: Settings,
    agent: AgentArgument,
    task: TaskArgument,
    *,
    reason: ReasonOption = "",
    request_id: Annotated[
        str, typer.Option("--request-id", metavar="ID", help="Idempotency key: the same id is the same retry.")
    ] = "",
) -> None:
    """Begin the work on an ended task again, with the same input."""
    from protolink_grpc.cli import task_control_commands

    task_control_commands.retry(settings, agent, task, reason, request_id)
