"""`plgrpc approvals`: the commands and their options. `approvals_commands` implements them and is loaded when one runs."""

from enum import StrEnum
from typing import Annotated

import typer

from protolink_grpc.cli.settings import Settings, with_settings

approvals_app = typer.Typer(help="List, show, approve and deny pending actions.", rich_markup_mode=None)

AgentArgument = Annotated[str, typer.Argument(metavar="AGENT", help="URL (grpc://host:port), or name in the registry.")]
ApprovalArgument = Annotated[str, typer.Argument(metavar="APPROVAL_ID", help="Id of the approval.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Reason, recorded in the task's log.")]
EtagOption = Annotated[
    str,
    typer.Option(
        "--etag",
        metavar="ETAG",
        help="Etag that show printed; the answer is refused if the approval has changed since. Default: the current one.",
    ),
]


class State(StrEnum):
    """Values of `--state`: the states of an approval, and `all`."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    ALL = "all"


@approvals_app.command("list")
@with_settings
def approvals_list(
    settings: Settings,
    agent: AgentArgument,
    *,
    state: Annotated[
        list[State] | None, typer.Option("--state", help="Only approvals in this state; repeatable. Default: pending.")
    ] = None,
    task: Annotated[str, typer.Option("--task", metavar="TASK_ID", help="Only approvals of this task.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Approvals on one page.")] = 50,
    page_token: Annotated[str, typer.Option("--page-token", metavar="TOKEN", help="Token of the page to show.")] = "",
) -> None:
    """List approvals, oldest first."""
    from protolink_grpc.cli import approvals_commands

    states = [
        each.value for each in State if each is not State.ALL and (each in (state or ()) or State.ALL in (state or ()))
    ]
    approvals_commands.list_approvals(settings, agent, states, task, limit, page_token)


@approvals_app.command("show")
@with_settings
def approvals_show(settings: Settings, agent: AgentArgument, approval_id: ApprovalArgument) -> None:
    """Show an approval with its arguments and preview."""
    from protolink_grpc.cli import approvals_commands

    approvals_commands.show(settings, agent, approval_id)


@approvals_app.command("approve")
@with_settings
def approvals_approve(
    settings: Settings,
    agent: AgentArgument,
    approval_id: ApprovalArgument,
    *,
    reason: ReasonOption = "",
    edit: Annotated[
        str | None,
        typer.Option(
            "--edit", metavar="JSON", help="Run the action with these arguments instead, if the policy allows edits."
        ),
    ] = None,
    etag: EtagOption = "",
) -> None:
    """Approve a pending action."""
    from protolink_grpc.cli import approvals_commands

    approvals_commands.respond(settings, agent, approval_id, approved=True, reason=reason, edit=edit, etag=etag)


@approvals_app.command("deny")
@with_settings
def approvals_deny(
    settings: Settings,
    agent: AgentArgument,
    approval_id: ApprovalArgument,
    *,
    reason: ReasonOption = "",
    etag: EtagOption = "",
) -> None:
    """Deny a pending action."""
    from protolink_grpc.cli import approvals_commands

    approvals_commands.respond(settings, agent, approval_id, approved=False, reason=reason, etag=etag)
