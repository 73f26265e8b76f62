"""`plgrpc gen` and its options. `gen_command` implements it and is loaded when it runs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from protolink_grpc.cli.settings import DebugOption, JsonOption, Output, OutputOption, is_json


class Lang(StrEnum):
    """Values of `--lang`. `proto` means the contract itself, for all other languages."""

    GO = "go"
    TS = "ts"
    JAVA = "java"
    RUST = "rust"
    PYTHON = "python"
    BETTERPROTO = "betterproto"
    PROTO = "proto"


def gen(
    *,
    lang: Annotated[Lang, typer.Option("--lang", help="Language of the stubs; proto writes the contract's protos.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder to write into.")],
    proto: Annotated[
        list[Path] | None,
        typer.Option(
            "--proto",
            metavar="FILE",
            help="Proto of yours, which may import plgrpc/v1; repeatable. Needs the language's protoc plugins.",
        ),
    ] = None,
    include: Annotated[
        list[Path] | None,
        typer.Option(
            "--include",
            "-I",
            metavar="DIR",
            help="Folder to search for protos and their imports; repeatable. Default: the folders of the protos.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files that differ.")] = False,
    output_format: OutputOption = Output.TEXT,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Generate client stubs for a language.

    By default these are the stubs of the contract; with --proto they are the stubs of your own protos. The contract's
    stubs in other languages than Python come with: pip install protolink-grpc-stubs
    """
    from protolink_grpc.cli.gen_command import write_stubs

    write_stubs(lang, out, proto or (), include or (), force=force, as_json=is_json(output_format, as_json))
