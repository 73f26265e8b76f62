"""Writes the result as a table and as JSON."""

import json
import os
import platform
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.rows import Row
from protolink_grpc.net.event_loops import SCHEDULING_VARIABLE

PIPED_COLUMNS = 190
"""Width of the table in a pipe, wide enough for all cells."""


def interpreter() -> str:
    """Return version, compiler and build options of this Python. An optimized build is about 20 % faster than a plain one."""
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    options = [name for name in ("--enable-optimizations", "--with-lto") if name in arguments]
    build = " ".join(options) if options else "without --enable-optimizations and --with-lto"
    return f"{platform.python_implementation()} {platform.python_version()}, {platform.python_compiler()}, {build}"


def scheduling() -> str:
    """Return the scheduling class of the measured servers, including the floor."""
    off = os.environ.get(SCHEDULING_VARIABLE) == "0" or not hasattr(os, "SCHED_BATCH")
    return "normal" if off else "SCHED_BATCH"


def write_json(rows: Sequence[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "interpreter": interpreter(),
        "scheduling": scheduling(),
        "rows": [row.as_json() for row in rows],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def print_table(rows: Sequence[Row], console: Console | None = None) -> None:
    """Print all rows, and then the rows that missed their bar."""
    console = console or Console()
    if not console.is_terminal:
        console = Console(file=console.file, width=PIPED_COLUMNS)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("case", "in flight", "bytes", "per second", "p50 ms", "p99 ms", "CPU us", "x floor", "CPU x floor"):
        table.add_column(name, justify="left" if name == "case" else "right", no_wrap=True)
    for name in ("bar", "CPU by thread, note"):
        table.add_column(name)
    before = ""
    for row in rows:
        if before and before != row.case.partition(".")[0]:
            table.add_row()
        before = row.case.partition(".")[0]
        table.add_row(*_cells(row))
    console.print(table)
    console.print(f"\n{interpreter()}; servers scheduled as {scheduling()}.")
    _print_bars(rows, console)


def _cells(row: Row) -> list[str]:
    speed = f"{row.per_second:,.0f}" if row.per_second is not None else f"{row.value:,.1f} {row.unit.split()[0]}"
    return [
        row.case,
        _number(row.in_flight, ",d"),
        _number(row.bytes, ",d"),
        speed,
        _number(row.p50_ms, ".3f"),
        _number(row.p99_ms, ".3f"),
        _number(row.server_cpu_us, ",.1f"),
        _number(row.ratio_to_floor, ".2f"),
        _number(row.cpu_ratio_to_floor, ".2f"),
        _verdict(row),
        _remarks(row),
    ]


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _verdict(row: Row) -> str:
    if row.met is None:
        return ""
    return f"[green]met[/]: {row.bar}" if row.met else f"[red]MISSED by {row.missed_by}[/]: {row.bar}"


def _remarks(row: Row) -> str:
    # If one thread does all the work, the split has no information.
    split = row.cpu_split_us if len([share for share in row.cpu_split_us.values() if share >= 1]) > 1 else {}
    shares = ", ".join(f"{name} {share:.0f}" for name, share in split.items() if share >= 1)
    return "; ".join(filter(None, (shares, row.note)))


def _print_bars(rows: Sequence[Row], console: Console) -> None:
    held = [row for row in rows if row.met is not None]
    missed = [row for row in held if not row.met]
    console.print(f"\n{len(held) - len(missed)} of {len(held)} bars met.")
    for row in missed:
        amount = f" at {row.in_flight} in flight" if row.in_flight else ""
        console.print(f"  missed by {row.missed_by}: {row.case}{amount}, {row.bar}. {_remarks(row)}", soft_wrap=True)
