"""`plgrpc state`: the commands and their options. `state_commands` implements them and is loaded when one runs."""

from enum import StrEnum
from typing import Annotated

import typer

from protolink_grpc.cli.failure import usage_error
from protolink_grpc.cli.settings import Settings, with_settings

state_app = typer.Typer(help="Describe, reset and compact an agent's memory.", rich_markup_mode=None)

AgentArgument = Annotated[str, typer.Argument(metavar="AGENT", help="URL (grpc://host:port), or name in the registry.")]
SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="Id of one of your sessions.")]
StoreOption = Annotated[
    list[str] | None,
    typer.Option("--store", metavar="NAME", help="Only this store, conversation or tools; repeatable."),
]


class Strategy(StrEnum):
    """How `state compact` shortens a conversation."""

    RECENT = "recent"
    TOKENS = "tokens"
    SUMMARY = "summary"


@state_app.command("describe")
@with_settings
def state_describe(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument = "",
    *,
    store: StoreOption = None,
    data: Annotated[bool, typer.Option("--data", help="Include the content.")] = False,
) -> None:
    """Show what an agent remembers of your sessions.

    Without SESSION it shows all your sessions.
    """
    from protolink_grpc.cli import state_commands

    state_commands.describe(settings, agent, session, store or (), include_data=data)


@state_app.command("reset")
@with_settings
def state_reset(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument = "",
    *,
    store: StoreOption = None,
    every: Annotated[bool, typer.Option("--all", help="Delete all your sessions.")] = False,
) -> None:
    """Delete what an agent remembers of a session."""
    from protolink_grpc.cli import state_commands

    if every == bool(session):
        raise usage_error("a session or --all is required", f"plgrpc state reset {agent} SESSION")
    state_commands.reset(settings, agent, session, store or ())


@state_app.command("compact")
@with_settings
def state_compact(
    settings: Settings,
    agent: AgentArgument,
    session: SessionArgument,
    *,
    strategy: Annotated[
        Strategy, typer.Option("--strategy", help="What to keep: the latest messages, the latest tokens, or a summary.")
    ] = Strategy.RECENT,
    max_messages: Annotated[
        int, typer.Option("--max-messages", min=2, help="For recent: number of messages to keep.")
    ] = 20,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=1, help="For tokens: number of tokens to keep.")
    ] = 4000,
    preserve_recent: Annotated[
        int, typer.Option("--preserve-recent", min=1, help="For summary: number of latest messages to keep unchanged.")
    ] = 6,
    summary_max_tokens: Annotated[
        int, typer.Option("--summary-max-tokens", min=1, help="For summary: maximum length of the summary in tokens.")
    ] = 512,
) -> None:
    """Shorten the conversation of a session."""
    from protolink_grpc.cli import state_commands
    from protolink_grpc.models.conversation import HistoryCompactionRequest

    request = HistoryCompactionRequest(
        strategy.value, max_messages, max_tokens, preserve_recent, summary_max_tokens, session
    )
    state_commands.compact(settings, agent, request)
