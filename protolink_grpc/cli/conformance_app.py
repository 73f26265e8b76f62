"""`plgrpc conformance`: its commands and their options. What they do is in `conformance_command`, loaded when one runs."""

from typing import Annotated

import typer

conformance_app = typer.Typer(help="Conformance tests for clients in any language.", rich_markup_mode=None)

VectorsOption = Annotated[
    str | None,
    typer.Option(
        "--vectors",
        metavar="DIR",
        help="Folder of the shared vectors, tests/vectors of a checkout; default: that of the one this runs from, if any.",
    ),
]


@conformance_app.command("serve")
def conformance_serve(
    *,
    vectors: VectorsOption = None,
    http: Annotated[
        str, typer.Option("--http", metavar="HOST:PORT", help="HTTP port of the agent that anybody may call.")
    ] = "127.0.0.1:0",
) -> None:
    """Run scripted agents and a registry for a client under test.

    Prints one JSON line with their addresses, and stops when standard input is closed.
    """
    from protolink_grpc.cli import conformance_command

    conformance_command.serve(vectors, http)


@conformance_app.command("run", context_settings={"ignore_unknown_options": True})
def conformance_run(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND [ARGS]", help="The program, after --.")],
    *,
    vectors: VectorsOption = None,
    timeout_s: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", help="A program that takes longer is ended, and has failed."),
    ] = 300.0,
) -> None:
    """Run a client's program against every case.

    The program gets agents and a registry of its own.

    The program finds the stage in its environment (PLGRPC_AGENT, ...) and prints a line per case: PASS CASE, FAIL CASE: WHY or
    SKIP CASE: WHY. docs/polyglot.md lists the cases.
    """
    from protolink_grpc.cli import conformance_command

    if not conformance_command.run_program(command, vectors, timeout_s):
        raise typer.Exit(1)
