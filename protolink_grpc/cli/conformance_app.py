"""`plgrpc conformance`: the commands and their options. `conformance_command` implements them and is loaded when one runs."""

from enum import StrEnum
from typing import Annotated

import typer

from protolink_grpc.cli.settings import Settings, with_settings

conformance_app = typer.Typer(help="Test clients in any language, and event logs.", rich_markup_mode=None)

VectorsOption = Annotated[
    str | None,
    typer.Option(
        "--vectors",
        metavar="DIR",
        help="Folder with the shared vectors. Default: tests/vectors of the checkout that plgrpc runs from.",
    ),
]


@conformance_app.command("serve")
def conformance_serve(
    *,
    vectors: VectorsOption = None,
    http: Annotated[
        str, typer.Option("--http", metavar="HOST:PORT", help="HTTP address of the agent that needs no credentials.")
    ] = "127.0.0.1:0",
) -> None:
    """Run scripted agents and a registry for a client under test.

    It prints one JSON line with their addresses and stops when standard input is closed.
    """
    from protolink_grpc.cli import conformance_command

    conformance_command.serve(vectors, http)


@conformance_app.command("run", context_settings={"ignore_unknown_options": True})
def conformance_run(
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND [ARGS]", help="Program and its arguments, after --.")
    ],
    *,
    vectors: VectorsOption = None,
    timeout_s: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", help="A program that takes longer is stopped and fails."),
    ] = 300.0,
) -> None:
    """Run a client's program against every case.

    This command starts agents and a registry for the program and passes their addresses in
    environment variables (PLGRPC_AGENT, ...). The program prints one line per case:
    PASS CASE, FAIL CASE: WHY or SKIP CASE: WHY. docs/polyglot.md lists the cases.
    """
    from protolink_grpc.cli import conformance_command

    if not conformance_command.run_program(command, vectors, timeout_s):
        raise typer.Exit(1)


class Level(StrEnum):
    """Which rules an event log is checked with."""

    CORE = "core"
    LIME = "lime"


@conformance_app.command("agentruntime")
@with_settings
def conformance_agentruntime(
    settings: Settings,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Event log: one JSON object per line; - reads standard input.")
    ],
    *,
    snapshots: Annotated[
        list[str] | None,
        typer.Option(
            "--snapshots",
            metavar="FILE",
            help="Snapshot to compare with the log: the contract's document, or the JSON of snapshot session, thread, queue or "
            "evidence, of session show, or of task show; repeatable.",
        ),
    ] = None,
    level: Annotated[
        Level, typer.Option("--level", help="The rules of the contract's core, or those of its profile Lime, too.")
    ] = Level.CORE,
) -> None:
    """Validate an Agent Runtime event log.

    Each rule passed, failed, was not exercised (the log has nothing that it applies to) or is not checkable. The exit code is 0 if
    no rule failed, 1 if one failed, and 2 if the file is not an event log. docs/agentruntime.md lists the rules.
    """
    from protolink_grpc.cli import agentruntime_validation

    raise typer.Exit(agentruntime_validation.validate_file(settings, file, snapshots or (), level))
