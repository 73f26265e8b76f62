"""`plgrpc run`: the commands and their options. `runs` implements them and is loaded when one runs."""

from typing import Annotated

import typer

from protolink_grpc.cli.settings import Settings, with_settings

run_app = typer.Typer(help="List, report, replay, trace and compare runs.", rich_markup_mode=None)

StoreOption = Annotated[
    str, typer.Option("--store", metavar="FILE", help="SQLite file that stores the tasks, instead of an agent.")
]
RunOption = Annotated[str, typer.Option("--run-id", metavar="ID", help="Run to show. Default: the latest.")]
ReplayedRunOption = Annotated[str, typer.Option("--run-id", metavar="ID", help="Run to show. Default: all runs.")]


@run_app.command("list")
@with_settings
def run_list(
    settings: Settings,
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT", help="URL or name of the agent; leave it out with --store.", show_default=False
        ),
    ] = "",
    *,
    store: StoreOption = "",
    session: Annotated[str, typer.Option("--session", metavar="ID", help="Only runs of this session.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of runs to show.")] = 50,
) -> None:
    """List the latest run of each task.

    With an agent it lists your tasks there, with --store all tasks in the file. The last changed comes first.
    """
    from protolink_grpc.cli import runs

    runs.list_runs(settings, agent, store, session, limit)


@run_app.command("report")
@with_settings
def run_report(
    settings: Settings,
    first: Annotated[str, typer.Argument(metavar="AGENT", help="URL or name of the agent; with --store, the TASK_ID.")],
    second: Annotated[str, typer.Argument(metavar="TASK_ID", help="Id of the task.", show_default=False)] = "",
    *,
    store: StoreOption = "",
    run_id: RunOption = "",
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="File to write the report to, as JSON.")] = "",
) -> None:
    """Show the report of a run.

    It lists steps, actions, approvals, tokens and budget. By default it is the report of the task's latest run.
    """
    from protolink_grpc.cli import runs

    runs.report(settings, runs.Source.of(first, second, store, "report"), run_id, out)


@run_app.command("replay")
@with_settings
def run_replay(
    settings: Settings,
    first: Annotated[
        str,
        typer.Argument(
            metavar="FILE|AGENT",
            help="File with a report or an export, or URL or name of an agent; with --store, the TASK_ID.",
        ),
    ],
    second: Annotated[str, typer.Argument(metavar="TASK_ID", help="Id of the task.", show_default=False)] = "",
    *,
    store: StoreOption = "",
    run_id: ReplayedRunOption = "",
) -> None:
    """Show the events of a run as a timeline.

    A replay executes nothing.
    """
    from protolink_grpc.cli import runs

    runs.replay(settings, runs.Source.of(first, second, store, "replay"), run_id)


@run_app.command("trace")
@with_settings
def run_trace(
    settings: Settings,
    first: Annotated[
        str,
        typer.Argument(
            metavar="FILE|AGENT",
            help="File with traces, a report or an export, or URL or name of an agent; with --store, the TASK_ID.",
        ),
    ],
    second: Annotated[str, typer.Argument(metavar="TASK_ID", help="Id of the task.", show_default=False)] = "",
    *,
    store: StoreOption = "",
    run_id: ReplayedRunOption = "",
) -> None:
    """Show where the time of a run went.

    It prints a line for each run, model call, action and approval, with its duration and its place in time. With a file of traces
    (LocalTraceTelemetry), the runs of several agents are shown together.
    """
    from protolink_grpc.cli import runs

    runs.trace(settings, runs.Source.of(first, second, store, "trace"), run_id)


@run_app.command("diff")
@with_settings
def run_diff(
    settings: Settings,
    first: Annotated[str, typer.Argument(metavar="A", help="File with a report or an export, or id of a task.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The same, of the run to compare with A.")],
    *,
    store: StoreOption = "",
    agent: Annotated[
        str, typer.Option("--agent", metavar="AGENT", help="URL or name of the agent that has the tasks.")
    ] = "",
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="SECTION", help="Section to leave out, such as model-text; repeatable."),
    ] = None,
) -> None:
    """Show where two runs part, and what differs.

    Ids, times, durations and processes are not compared. The sections are state, input, output, actions, arguments, results,
    approvals, model-calls, model-text, policy, prompts, usage and events. The exit code is 0 if the runs are equal, 1 if they
    differ, and 2 or higher after an error.
    """
    from protolink_grpc.cli import run_diff as command

    raise typer.Exit(command.diff(settings, (first, second), store, agent, ignore or ()))
