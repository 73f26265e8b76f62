"""`plgrpc proto`: the .proto file of an agent's tools."""

from pathlib import Path
from typing import Annotated, Any

import typer

from protolink_grpc.cli import output
from protolink_grpc.cli.failure import CommandError, usage_error
from protolink_grpc.cli.settings import DebugOption, JsonOption, Output, is_json

proto_app = typer.Typer(help="Export the tools of an agent as a protobuf service.", rich_markup_mode=None)

BREAKING_HINT = "undo these changes, or choose a new package, such as the next version; --breaking writes them anyway"


@proto_app.callback()
def main() -> None:
    """Export the tools of an agent as a protobuf service."""


@proto_app.command("export")
def export(
    target: Annotated[str, typer.Argument(metavar="MODULE:AGENT", help="The agent, as for serve.")],
    *,
    package: Annotated[str, typer.Option("--package", metavar="NAME", help="Package, such as acme.calculator.v1.")],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="PATH", help="Folder of the protos, or the .proto file itself."),
    ] = Path("proto"),
    service: Annotated[str, typer.Option("--service", metavar="NAME", help="Name of the service.")] = "",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="KEY=VALUE", help="Option of the file, such as go_package; repeatable, and kept."
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if the file would change.")] = False,
    breaking: Annotated[bool, typer.Option("--breaking", help="Also write changes that break older callers.")] = False,
    output_format: Annotated[
        Output, typer.Option("--output", help="Output format; json is one document.")
    ] = Output.TEXT,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Write the .proto file of an agent's tools.

    An existing file is the contract: fields keep their numbers, the numbers of removed fields are reserved, and changes that break
    callers with older stubs are refused. Serve it with Agent(..., typed=FILE).
    """
    from protolink_grpc.cli.load import load_agent
    from protolink_grpc.typed.proto_source import compile_proto
    from protolink_grpc.typed.service import export_proto, file_name

    agent = load_agent(target)
    name = service or agent.card.name
    path = out if out.suffix == ".proto" else out.joinpath(*package.split("."), file_name(name))
    committed = compile_proto(path)[-1] if path.is_file() else None
    try:
        made = export_proto(
            agent.card.name,
            agent.card.description,
            agent.function_tools,
            package,
            committed,
            service=service,
            options=_pairs(option or ()),
        )
    except TypeError as error:
        raise CommandError(
            str(error), hint="change the type hint, or give the tool another name", code="USAGE"
        ) from error
    breaks = [each for each in made.changes if each.breaking]
    old = path.read_text(encoding="utf-8") if committed is not None else ""
    differs = old != made.text
    wants_json = is_json(output_format, as_json)
    if wants_json:
        output.document(
            {"path": str(path), "changed": differs, "changes": [_change_json(each) for each in made.changes]}
        )
    else:
        for each in made.changes if committed is not None else ():
            output.line(f"{'breaking' if each.breaking else each.kind}: {each}")
    if breaks and not breaking:
        raise CommandError(
            f"{len(breaks)} change{'s' if len(breaks) > 1 else ''} would break callers of {path}: {'; '.join(map(str, breaks))}",
            hint=BREAKING_HINT,
            code="BREAKING",
        )
    if check:
        if differs:
            raise CommandError(
                f"{path} does not match the tools of the agent", hint="run this command without --check", code="DRIFT"
            )
    elif differs:
        _write(path, made.text)
    if not wants_json:
        output.field("Wrote" if differs else "Unchanged", str(path))


def _pairs(options: Any) -> dict[str, str]:
    found = {}
    for each in options:
        name, separator, value = each.partition("=")
        if not separator:
            raise usage_error(
                f"--option {each} has no value", "write it as --option go_package=example.com/calculator/v1"
            )
        found[name] = value
    return found


def _change_json(change: Any) -> dict[str, Any]:
    return {"kind": change.kind, "what": change.what, "text": change.text, "breaking": change.breaking}


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}", hint="choose another folder with --out") from error
