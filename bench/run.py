"""`make bench`: runs all measurements, prints a table and writes `bench/results/latest.json`.

    python -m bench.run [--quick] [--only send,stream] [--seconds 1] [--rounds 5] [--out PATH] [--profile]

The server and the load are separate processes on separate cores. A missed bar is reported and does not change the exit code, which
is 1 only if a measurement failed.
"""

import argparse
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from bench import (
    a2a,
    cancel,
    clients,
    flows,
    history,
    local,
    process,
    protolink,
    registry,
    send,
    sessions,
    steps,
    streams,
    telemetry,
    typed,
)
from bench.plan import QUICK, Plan, print_progress
from bench.profiles import profile
from bench.report import print_table, write_json
from bench.rows import Row
from protolink_grpc.net.event_loops import run

GROUPS: dict[str, Callable[[Plan], Awaitable[list[Row]]]] = {
    "send": send.send,
    "stream": streams.stream,
    "idle": streams.idle,
    "history": history.history,
    "session": sessions.sessions,
    "runtime": local.runtime,
    "store": local.store,
    "registry": registry.registry,
    "infer": steps.infer,
    "tools": steps.tools,
    "flow": flows.flows,
    "cancel": cancel.cancel,
    "a2a": a2a.unary_calls,
    "sse": a2a.sse,
    "sse-idle": a2a.sse_idle,
    "protolink": protolink.protolink,
    "typed": typed.typed,
    "telemetry": telemetry.telemetry,
    "clients": clients.clients,
}


async def measure(plan: Plan, groups: list[str]) -> tuple[list[Row], list[str]]:
    """Return the rows of these groups, in this order, and the groups whose measurement failed."""
    process.pin_load()
    rows: list[Row] = []
    failed = []
    for name in groups:
        try:
            rows += await GROUPS[name](plan)
        except Exception:  # of any kind: the results of the other groups must not be lost
            print_progress(f"the measurement of {name} failed:\n{traceback.format_exc()}")
            failed.append(name)
    return rows, failed


def select_groups(patterns: str) -> list[str]:
    """Return the names of the groups that match one of the patterns; all groups without a pattern."""
    wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    names = [name for name in GROUPS if not wanted or any(fnmatch(name, pattern) for pattern in wanted)]
    if not names:
        raise SystemExit(f"no group matches {patterns!r}; the groups are {', '.join(GROUPS)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure protolink_grpc against the bare gRPC floor.")
    parser.add_argument("--quick", action="store_true", help="only check that all measurements work")
    parser.add_argument("--only", default="", metavar="PATTERN", help=f"groups, from {', '.join(GROUPS)}")
    parser.add_argument("--seconds", type=float, help="length of one round of one case")
    parser.add_argument("--rounds", type=int, help="rounds per case; the result is the median")
    parser.add_argument("--out", type=Path, default=process.ROOT / "bench" / "results" / "latest.json")
    parser.add_argument("--profile", action="store_true", help="profile the servers instead of measuring")
    options = parser.parse_args()
    plan = QUICK if options.quick else Plan()
    plan = replace(plan, seconds=options.seconds or plan.seconds, rounds=options.rounds or plan.rounds)
    groups = select_groups(options.only)
    if options.profile:
        run(profile(plan))
        return
    if process.SERVER_CORE is None:
        print_progress("warning: server and load share a core, because there is only one or pinning is not supported")
    began = time.monotonic()
    rows, failed = run(measure(plan, groups))
    write_json(rows, options.out)
    print_table(rows)
    print_progress(f"{time.monotonic() - began:.0f} s; written to {options.out}")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
