"""`plgrpc eval`: its options. `eval_command` implements it and is loaded when it runs."""

from typing import Annotated

import typer

from protolink_grpc.cli.settings import Settings, with_settings


@with_settings
def evaluate(
    settings: Settings,
    target: Annotated[
        str,
        typer.Argument(metavar="MODULE:AGENT|AGENT", help="An Agent of a module, or URL or name of a running agent."),
    ],
    cases: Annotated[str, typer.Argument(metavar="FILE", help="Cases: one JSON object per line.")],
    *,
    scorer: Annotated[
        list[str] | None,
        typer.Option(
            "--scorer",
            metavar="NAME",
            help="exact_match, contains, json_match, tool_used, tool_used:TOOL, or MODULE:FUNCTION; repeatable. "
            "Default: exact_match.",
        ),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", min=1, max=1000, help="Number of tasks for each case.")] = 1,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, max=256, help="Number of tasks at the same time.")
    ] = 4,
    store: Annotated[
        str, typer.Option("--store", metavar="FILE", help="SQLite file for the tasks of an Agent of a module.")
    ] = "",
    out: Annotated[
        str,
        typer.Option("--out", metavar="FILE", help="File for the report as JSON. An unfinished one is continued."),
    ] = "",
    baseline: Annotated[str, typer.Option("--baseline", metavar="FILE", help="Earlier report to compare with.")] = "",
    min_pass_rate: Annotated[
        float,
        typer.Option("--min-pass-rate", min=0, max=1, help="Exit with 1 if a smaller share of the samples passed."),
    ] = 0.0,
) -> None:
    """Evaluate an agent on the cases in a file.

    Each line of the file has an input, and optionally expected, id and metadata. Each sample is a task of its own. The exit code
    is 1 if there is a regression against the baseline, or if the pass rate is too low. --timeout is the time limit of each sample.
    """
    from protolink_grpc.cli.eval_command import EvaluationOptions
    from protolink_grpc.cli.eval_command import evaluate as run_evaluation

    options = EvaluationOptions(
        target, cases, tuple(scorer or ("exact_match",)), samples, concurrency, store, out, baseline, min_pass_rate
    )
    raise typer.Exit(run_evaluation(settings, options))
