"""The options of all commands that call a server, declared once and added to each command's signature."""

import functools
import inspect
import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from protolink_grpc.cli.failure import usage_error

REGISTRY_VARIABLE = "PLGRPC_REGISTRY"

P = ParamSpec("P")


class Output(StrEnum):
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of the shared options.

    Args:
        json: Print only JSON on standard output.
        registry: URL of the registry for agent names; empty for none.
        timeout_s: Timeout in seconds; None means the command's default.
        headers: Metadata of every call. May hold credentials: never printed.
        ca_file, cert_file, key_file: PEM files, empty for none.
    """

    json: bool = False
    registry: str = ""
    timeout_s: float | None = None
    headers: tuple[tuple[str, str], ...] = ()
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def command(self, verb: str, agent: str, *arguments: str) -> str:
        """Return a command for a hint, complete except for the values of headers."""
        return f"plgrpc {verb} {shlex.join([agent, *arguments, *self.flags()])}"

    def flags(self) -> list[str]:
        """Return the options to repeat in a hint. Values of headers may be secret and are not repeated."""
        found = []
        if self.registry and self.registry != os.environ.get(REGISTRY_VARIABLE):
            found += ["--registry", self.registry]
        for flag, path in (("--tls-ca", self.ca_file), ("--tls-cert", self.cert_file), ("--tls-key", self.key_file)):
            if path:
                found += [flag, path]
        for name, _ in self.headers:
            found += ["--header", f"{name}=..."]
        return found


OutputOption = Annotated[
    Output,
    typer.Option(
        "--output", "-o", help="Output format; json is one document, or one JSON object per line for streams."
    ),
]
RegistryOption = Annotated[
    str,
    typer.Option(
        "--registry", envvar=REGISTRY_VARIABLE, metavar="URL", help="Registry that resolves the names of agents."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="The same as -o json.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show tracebacks and the log.")]


def _settings(  # noqa: PLR0917 -- called by name; the order is that of the help
    output: OutputOption = Output.TEXT,
    as_json: JsonOption = False,
    registry: RegistryOption = "",
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            min=0.001,
            metavar="SECONDS",
            help="Time limit. Default: 300 to wait for a task, none for streams, 30 otherwise.",
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            "--svc-param",
            metavar="KEY=VALUE",
            help="Metadata of every call (x-api-key=KEY); repeatable.",
        ),
    ] = None,
    tls_ca: Annotated[
        str, typer.Option("--tls-ca", metavar="FILE", help="CA certificate (PEM), for grpcs:// URLs.")
    ] = "",
    tls_cert: Annotated[
        str, typer.Option("--tls-cert", metavar="FILE", help="Client certificate (PEM), for mTLS.")
    ] = "",
    tls_key: Annotated[str, typer.Option("--tls-key", metavar="FILE", help="Private key of --tls-cert (PEM).")] = "",
    debug: DebugOption = False,
) -> Settings:
    # `debug` is handled by `app.main`, before anything is parsed.
    headers = tuple(parse_header(each) for each in header or ())
    for option, path in (("--tls-ca", tls_ca), ("--tls-cert", tls_cert), ("--tls-key", tls_key)):
        require_file(path, option)
    return Settings(is_json(output, as_json), registry, timeout, headers, tls_ca, tls_cert, tls_key)


def is_json(output: Output, as_json: bool) -> bool:
    """Return whether one of the two options for JSON is set."""
    return as_json or output is Output.JSON


def parse_header(text: str) -> tuple[str, str]:
    """Parse `key=value` to gRPC metadata.

    Raises:
        CommandError: The text has another form, or contains invalid characters. The error does not contain the value, which may be
            secret.
    """
    key, separator, value = text.partition("=")
    key = key.strip().lower()
    if not separator or not re.fullmatch(r"[a-z0-9_.-]+", key):
        raise usage_error("--header takes KEY=VALUE", "for instance --header 'authorization=Bearer TOKEN'")
    if key.endswith("-bin") or key.startswith("grpc-") or not re.fullmatch(r"[ -~]*", value):
        raise usage_error(
            f"the header {key} cannot be sent",
            "names ending in -bin or beginning with grpc- are reserved by gRPC; values are printable ASCII text",
        )
    return key, value


def require_file(path: str, option: str) -> None:
    """Check that the file of an option exists. An empty path means that the option is not set.

    Raises:
        CommandError: The file does not exist.
    """
    if path and not os.path.isfile(path):
        raise usage_error(f"file {path} not found", f"{option} takes a PEM file")


def parse_pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    """Parse repeated `key=value` options to a dict."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise usage_error(f"{option} takes KEY=VALUE, not {text!r}", f"for instance {option} zone=eu")
        pairs[key] = value
    return pairs


def with_settings(command: Callable[Concatenate[Settings, P], None]) -> Callable[..., None]:
    """Add the shared options to a command, which receives them as its first argument."""
    shared = {
        each.name: each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for each in inspect.signature(_settings).parameters.values()
    }
    own = list(inspect.signature(command).parameters.values())[1:]

    @functools.wraps(command)
    def run_command(*args: Any, **options: Any) -> None:
        settings = _settings(**{name: options.pop(name) for name in shared})
        command(settings, *args, **options)

    # typer reads the parameters from the signature and their types from the annotations.
    parameters = [*own, *shared.values()]
    setattr(run_command, "__signature__", inspect.Signature(parameters))  # noqa: B010 -- unknown to typeshed
    run_command.__annotations__ = {each.name: each.annotation for each in parameters}
    return run_command
