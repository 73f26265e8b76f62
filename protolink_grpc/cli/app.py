"""`plgrpc`: the commands and their options.

Every command imports its implementation when it runs, so that `--help` and completion do not load gRPC.
"""

import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache
from typing import Annotated, Any

import typer

from protolink_grpc.cli import output
from protolink_grpc.cli.approvals_app import approvals_app
from protolink_grpc.cli.conformance_app import conformance_app
from protolink_grpc.cli.eval_app import evaluate
from protolink_grpc.cli.failure import CommandError, ExitCode, ReaderGoneError, command_error, usage_error
from protolink_grpc.cli.gen_app import gen
from protolink_grpc.cli.proto_app import proto_app
from protolink_grpc.cli.run_commands import run_app
from protolink_grpc.cli.session_app import session_app
from protolink_grpc.cli.settings import (
    REGISTRY_VARIABLE,
    DebugOption,
    JsonOption,
    Output,
    OutputOption,
    Settings,
    is_json,
    parse_pairs,
    with_settings,
)
from protolink_grpc.cli.snapshot_app import snapshot_app
from protolink_grpc.cli.state_app import state_app
from protolink_grpc.cli.task_control_app import task_control_app
from protolink_grpc.errors import ProtolinkError

DEFAULT_REGISTRY_URL = "grpc://127.0.0.1:50050"

# Help is plain text: it reads the same in a pipe, and does not load rich.
app = typer.Typer(
    name="plgrpc",
    help="Call, run and diagnose agents.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
card_app = typer.Typer(help="Show agent cards.", rich_markup_mode=None)
task_app = typer.Typer(help="Show, follow and control tasks.", rich_markup_mode=None)
agents_app = typer.Typer(help="List and watch the agents in a registry.", rich_markup_mode=None)
app.add_typer(card_app, name="card")
task_app.add_typer(task_control_app)
app.add_typer(task_app, name="task")
app.add_typer(agents_app, name="agents")
app.add_typer(run_app, name="run")
app.add_typer(approvals_app, name="approvals")
app.add_typer(session_app, name="session")
app.add_typer(snapshot_app, name="snapshot")
app.add_typer(state_app, name="state")
app.add_typer(conformance_app, name="conformance")
app.add_typer(proto_app, name="proto")
app.command()(gen)
app.command("eval")(evaluate)

AgentArgument = Annotated[str, typer.Argument(metavar="AGENT", help="URL (grpc://host:port), or name in the registry.")]
TaskArgument = Annotated[str, typer.Argument(metavar="TASK_ID", help="Id of the task.")]
RequestIdOption = Annotated[
    str, typer.Option("--request-id", metavar="ID", help="Idempotency key: the same id never starts a second run.")
]
DeltasOption = Annotated[
    bool | None,
    typer.Option(
        "--deltas/--no-deltas",
        help="Show the text of a model as it is produced. Default: only on a terminal.",
        show_default=False,
    ),
]
TLSCertOption = Annotated[
    str, typer.Option("--tls-cert", metavar="FILE", help="Server certificate (PEM), for a grpcs:// URL.")
]
TLSKeyOption = Annotated[str, typer.Option("--tls-key", metavar="FILE", help="Private key of --tls-cert (PEM).")]
TLSCaOption = Annotated[
    str, typer.Option("--tls-ca", metavar="FILE", help="CA certificate (PEM) to verify clients, peers and registry.")
]
HttpOption = Annotated[
    str, typer.Option("--http", metavar="HOST:PORT", help="HTTP address beside the gRPC address: A2A, health, metrics.")
]
ClientCertOption = Annotated[bool, typer.Option("--require-client-cert", help="Reject clients without a certificate.")]
NameOption = Annotated[str, typer.Option("--name", help="Name of the agent.")]
RoleOption = Annotated[str, typer.Option("--role", help="Role of the agent, for instance worker.")]
TagOption = Annotated[list[str] | None, typer.Option("--tag", help="Tag of the agent; repeatable, all must match.")]
SkillOption = Annotated[
    list[str] | None, typer.Option("--skill", help="Skill of the agent; repeatable, all must match.")
]
MetaOption = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="KEY=VALUE", help="Metadata of the agent; repeatable, all must match."),
]


class Until(StrEnum):
    """When `task subscribe` ends."""

    TERMINAL = "terminal"
    INTERRUPTED = "interrupted"
    CURRENT = "current"


def _print_version(wanted: bool) -> None:
    if wanted:
        from protolink_grpc import __version__

        output.line(f"plgrpc {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Call, run and diagnose agents."""


@card_app.callback()
def card() -> None:
    """Show agent cards."""


@app.command()
def version(output_format: OutputOption = Output.TEXT, as_json: JsonOption = False) -> None:
    """Show the versions of package and protocol."""
    from protolink_grpc import __version__
    from protolink_grpc.models.card import PROTOCOL_VERSION

    if is_json(output_format, as_json):
        output.document({"version": __version__, "protocol_version": PROTOCOL_VERSION})
    else:
        output.field("Version", __version__)
        output.field("Protocol", PROTOCOL_VERSION)


@card_app.command("get")
@with_settings
def card_get(settings: Settings, agent: AgentArgument) -> None:
    """Show the card of an agent."""
    from protolink_grpc.cli.agent_commands import get_card

    get_card(settings, agent)


@app.command()
@with_settings
def send(
    settings: Settings,
    agent: AgentArgument,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="The message; - reads standard input.")] = None,
    *,
    data: Annotated[
        list[str] | None, typer.Option("--data", metavar="JSON", help="Send JSON as a part; repeatable.")
    ] = None,
    task: Annotated[str, typer.Option("--task", "--task-id", metavar="ID", help="Task to continue.")] = "",
    session: Annotated[
        str, typer.Option("--session", "--context-id", metavar="ID", help="Session of a new task.")
    ] = "",
    request_id: RequestIdOption = "",
    asynchronous: Annotated[
        bool, typer.Option("--async", help="Do not wait: print the id of the task and return.")
    ] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Print the events as they arrive.")] = False,
    deltas: DeltasOption = None,
) -> None:
    """Send a message and wait for the result.

    The wait also ends when the agent asks for more input. If the task needs an approval, the command
    that answers it is shown. The exit code is 0 as soon as the agent has answered, even if the task failed.
    """
    from protolink_grpc.cli.agent_commands import Sending
    from protolink_grpc.cli.agent_commands import send as run_send

    run_send(settings, agent, Sending(text, data or (), task, session, request_id, not asynchronous, stream, deltas))


@app.command()
@with_settings
def call(  # noqa: PLR0917 -- one per option
    settings: Settings,
    agent: AgentArgument,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="Name of the tool.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE|KEY:=JSON", help="Arguments: text, converted by the tool's schema, or JSON after :=."
        ),
    ] = None,
    session: Annotated[str, typer.Option("--session", "--context-id", metavar="ID", help="Session of the call.")] = "",
    request_id: RequestIdOption = "",
) -> None:
    """Call a tool of an agent and print its result."""
    from protolink_grpc.cli.call_command import call as run_call

    run_call(settings, agent, tool, arguments or (), session=session, request_id=request_id)


@app.command()
@with_settings
def tools(
    settings: Settings,
    agent: AgentArgument,
) -> None:
    """List the tools of an agent."""
    from protolink_grpc.cli.tools_command import tools as run_tools

    run_tools(settings, agent)


@task_app.command("get")
@with_settings
def task_get(
    settings: Settings,
    agent: AgentArgument,
    task_id: TaskArgument,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the task ends or needs input.")] = False,
) -> None:
    """Show the state and the results of a task."""
    from protolink_grpc.cli import task_commands

    task_commands.get(settings, agent, task_id, wait=wait)


@task_app.command("list")
@with_settings
def task_list(
    settings: Settings,
    agent: AgentArgument,
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            "--status",
            metavar="STATE",
            help="Only tasks in this state, or with this status (draft, blocked, ...); repeatable.",
        ),
    ] = None,
    session: Annotated[
        str, typer.Option("--session", "--context", metavar="ID", help="Only tasks of this session.")
    ] = "",
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Only tasks that changed after this time (ISO 8601).")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Tasks on one page.")] = 50,
    page_token: Annotated[str, typer.Option("--page-token", metavar="TOKEN", help="Token of the page to show.")] = "",
) -> None:
    """List your tasks on an agent, last changed first."""
    from protolink_grpc.cli import task_commands

    task_commands.list_tasks(settings, agent, state or (), session, since, limit, page_token)


@task_app.command("cancel")
@with_settings
def task_cancel(
    settings: Settings,
    agent: AgentArgument,
    task_id: TaskArgument,
    reason: Annotated[str, typer.Option("--reason", help="Reason, recorded in the task's log.")] = "",
) -> None:
    """Cancel a task."""
    from protolink_grpc.cli import task_commands

    task_commands.cancel(settings, agent, task_id, reason)


@task_app.command("subscribe")
@with_settings
def task_subscribe(
    settings: Settings,
    agent: AgentArgument,
    task_id: TaskArgument,
    after: Annotated[
        int, typer.Option("--after", min=0, metavar="SEQUENCE", help="Start after this event; 0 is the beginning.")
    ] = 0,
    until: Annotated[
        Until,
        typer.Option(
            "--until",
            help="When to stop: the task has ended, it has ended or waits for input, or all events so far were shown.",
        ),
    ] = Until.TERMINAL,
    *,
    deltas: DeltasOption = None,
) -> None:
    """Show the events of a task, stored and new."""
    from protolink_grpc.cli import task_commands

    task_commands.subscribe(settings, agent, task_id, after=after, stop_at=until.value, deltas=deltas)


@agents_app.command("list")
@with_settings
def agents_list(
    settings: Settings,
    *,
    name: NameOption = "",
    role: RoleOption = "",
    tag: TagOption = None,
    skill: SkillOption = None,
    meta: MetaOption = None,
) -> None:
    """List registered agents that match."""
    from protolink_grpc.cli import registry_commands
    from protolink_grpc.wire.registry import AgentFilter

    wanted = AgentFilter(name, role, tag or (), skill or (), parse_pairs(meta, "--meta"))
    registry_commands.list_agents(settings, wanted)


@agents_app.command("watch")
@with_settings
def agents_watch(
    settings: Settings,
    *,
    name: NameOption = "",
    role: RoleOption = "",
    tag: TagOption = None,
    skill: SkillOption = None,
    meta: MetaOption = None,
) -> None:
    """Show registered agents, then changes as they happen."""
    from protolink_grpc.cli import registry_commands
    from protolink_grpc.wire.registry import AgentFilter

    wanted = AgentFilter(name, role, tag or (), skill or (), parse_pairs(meta, "--meta"))
    registry_commands.watch_agents(settings, wanted)


@app.command()
@with_settings
def doctor(
    settings: Settings,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="URL of an agent or registry, or an agent's name.")],
) -> None:
    """Check an address step by step: name, port, TLS, card."""
    from protolink_grpc.cli.doctor import doctor as run_doctor

    raise typer.Exit(run_doctor(settings, target))


@app.command()
def serve(
    target: Annotated[
        str,
        typer.Argument(metavar="MODULE:AGENT", help="An Agent, a subclass of Agent, or a function that returns one."),
    ],
    *,
    url: Annotated[str, typer.Option("--url", metavar="URL", help="URL to serve at; port 0 takes a free port.")] = "",
    listen: Annotated[
        str, typer.Option("--listen", metavar="URL", help="URL to listen at, if it differs from --url.")
    ] = "",
    http: HttpOption = "",
    registry: Annotated[
        str,
        typer.Option(
            "--registry",
            envvar=REGISTRY_VARIABLE,
            metavar="URL",
            help="Registry to register with, and to find agents in.",
        ),
    ] = "",
    store: Annotated[str, typer.Option("--store", metavar="FILE", help="SQLite file that stores the tasks.")] = "",
    tls_cert: TLSCertOption = "",
    tls_key: TLSKeyOption = "",
    tls_ca: TLSCaOption = "",
    require_client_cert: ClientCertOption = False,
    output_format: OutputOption = Output.TEXT,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run an agent until SIGTERM or SIGINT."""
    from protolink_grpc.cli import serve_command

    _log_to_stderr(debug)
    serving = serve_command.Serving(
        url,
        registry,
        store,
        tls_cert,
        tls_key,
        tls_ca,
        require_client_cert,
        json=is_json(output_format, as_json),
        listen=listen,
        http=http,
    )
    serve_command.serve(target, serving)


@app.command("mcp")
def serve_mcp(
    target: Annotated[
        str,
        typer.Argument(metavar="MODULE:AGENT", help="An Agent, a subclass of Agent, or a function that returns one."),
    ],
    *,
    store: Annotated[str, typer.Option("--store", metavar="FILE", help="SQLite file that stores the tasks.")] = "",
    debug: DebugOption = False,
) -> None:
    """Serve an agent over MCP on standard input and output."""
    from protolink_grpc.cli import mcp_command

    _log_to_stderr(debug)
    mcp_command.serve_mcp(target, store)


@app.command("registry")
def run_registry(
    *,
    url: Annotated[str, typer.Option("--url", metavar="URL", help="URL to serve at.")] = DEFAULT_REGISTRY_URL,
    path: Annotated[
        str, typer.Option("--path", metavar="FILE", help="SQLite file that stores the registrations.")
    ] = "",
    http: Annotated[
        str, typer.Option("--http", metavar="HOST:PORT", help="HTTP address for ProtoLink's own routes.")
    ] = "",
    tls_cert: TLSCertOption = "",
    tls_key: TLSKeyOption = "",
    tls_ca: TLSCaOption = "",
    require_client_cert: ClientCertOption = False,
    output_format: OutputOption = Output.TEXT,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run a registry until SIGTERM or SIGINT."""
    from protolink_grpc.cli import serve_command

    _log_to_stderr(debug)
    serving = serve_command.Serving(
        url, "", path, tls_cert, tls_key, tls_ca, require_client_cert, json=is_json(output_format, as_json), http=http
    )
    serve_command.serve_registry(serving)


def _log_to_stderr(debug: bool) -> None:
    from protolink_grpc.models.redaction import RedactingFilter  # compiling its patterns takes time

    level = logging.DEBUG if debug else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")
    for handler in logging.getLogger().handlers:
        handler.addFilter(RedactingFilter())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code. Errors go to standard error: `error:` and `hint:` lines, or one document."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    if debug and os.environ["GRPC_VERBOSITY"] == "NONE":
        os.environ["GRPC_VERBOSITY"] = "ERROR"  # the log lines of gRPC's C core, which the package turns off by default
    try:
        code = _run(given, debug)
        output.flush()
    except ReaderGoneError:
        # Python flushes again at exit, which would fail for the closed pipe too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.BROKEN_PIPE
    return code


# typer exports only one of its usage errors. Their common base class depends on the library that typer uses.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


@cache
def build_commands() -> Callable[..., Any]:
    """Build the commands with their options, which takes several times as long as most commands run."""
    return typer.main.get_command(app)


def _run(given: list[str], debug: bool) -> int:
    as_json = _is_json_requested(given)
    try:
        code = build_commands()(given, prog_name="plgrpc", standalone_mode=False)
        return code if isinstance(code, int) else ExitCode.OK
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except ReaderGoneError:
        raise
    except _UsageError as error:
        failed = _usage_error(error)
    except CommandError as error:
        failed = error
        if debug:
            traceback.print_exc()
    except ProtolinkError as error:
        failed = command_error(error)
    except Exception as error:
        if debug:
            traceback.print_exc()
        text = f"{type(error).__name__}: {error}"
        failed = CommandError(text, hint="this is a bug; --debug shows the traceback", code="INTERNAL")
    output.failure(failed, as_json=as_json)
    return failed.exit_code


def _usage_error(error: Exception) -> CommandError:
    context = getattr(error, "ctx", None)
    message = getattr(error, "format_message", error.__str__)().replace(": Value error, ", ": ")  # a prefix of pydantic
    path = context.command_path if context is not None else "plgrpc"
    hint = f"{path} --help shows the commands and options"
    if re.fullmatch(r"-\d.*", getattr(error, "option_name", "")):
        hint = f"an argument that begins with - follows --, as in: {path} -- -1"
    if context is not None and context.parent is None and hasattr(error, "option_name"):
        hint += "; options of a command follow its name"
    return usage_error(message.strip().rstrip("."), hint)


def _is_json_requested(given: Sequence[str]) -> bool:
    """Return whether `--json` or a form of `-o json` is in the arguments, even if the arguments are invalid."""
    for index, each in enumerate(given):
        following = given[index + 1] if index + 1 < len(given) else ""
        if each in ("-ojson", "-o=json", "--output=json", "--json") or (
            each in ("-o", "--output") and following == "json"
        ):
            return True
    return False
