"""`make bench`: measure everything, print a table, write `bench/results/latest.json`.

    python -m bench.run [--quick] [--only send,stream] [--seconds 1] [--rounds 5] [--out PATH] [--profile]

Server and load generator are one process each on a core of their own. What misses a bar is said and counted; it is no failure of
the bench, which exits with 1 only when something could not be measured.
"""

import argparse
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from bench import a2a, cancel, clients, history, local, process, protolink, registry, send, steps, streams
from bench.plan import QUICK, Plan, say
from bench.profiles import profile
from bench.report import print_table, write_json
from bench.rows import Row
from protolink_grpc.net.event_loops import run

GROUPS: dict[str, Callable[[Plan], Awaitable[list[Row]]]] = {
    "send": send.send,
    "stream": streams.stream,
    "idle": streams.idle,
    "history": history.history,
    "runtime": local.runtime,
    "store": local.store,
    "registry": registry.registry,
    "infer": steps.infer,
    "tools": steps.tools,
    "cancel": cancel.cancel,
    "a2a": a2a.unary_calls,
    "sse": a2a.sse,
    "sse-idle": a2a.sse_idle,
    "protolink": protolink.protolink,
    "clients": clients.clients,
}


async def measure(plan: Plan, groups: list[str]) -> tuple[list[Row], list[str]]:
    """The rows of these groups, in this order, and the groups that could not be measured."""
    process.pin_load()
    rows: list[Row] = []
    failed = []
    for name in groups:
        try:
            rows += await GROUPS[name](plan)
        except Exception:  # whatever it is: the minutes that the other groups took must not be lost
            say(f"{name} could not be measured:\n{traceback.format_exc()}")
            failed.append(name)
    return rows, failed


def chosen(patterns: str) -> list[str]:
    """Names of the groups that match one of the patterns, all for none."""
    wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    names = [name for name in GROUPS if not wanted or any(fnmatch(name, pattern) for pattern in wanted)]
    if not names:
        raise SystemExit(f"nothing matches {patterns!r}; there are {', '.join(GROUPS)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure protolink_grpc against the bare gRPC floor.")
    parser.add_argument("--quick", action="store_true", help="only see whether everything works")
    parser.add_argument("--only", default="", metavar="PATTERN", help=f"groups, from {', '.join(GROUPS)}")
    parser.add_argument("--seconds", type=float, help="length of one round of one case")
    parser.add_argument("--rounds", type=int, help="rounds per case, of which the median counts")
    parser.add_argument("--out", type=Path, default=process.ROOT / "bench" / "results" / "latest.json")
    parser.add_argument("--profile", action="store_true", help="say where SendTask's time goes, and measure nothing")
    options = parser.parse_args()
    plan = QUICK if options.quick else Plan()
    plan = replace(plan, seconds=options.seconds or plan.seconds, rounds=options.rounds or plan.rounds)
    groups = chosen(options.only)
    if options.profile:
        run(profile(plan))
        return
    if process.SERVER_CORE is None:
        say("there is one core only, or no way to choose: server and load share it, and the numbers show it")
    began = time.monotonic()
    rows, failed = run(measure(plan, groups))
    write_json(rows, options.out)
    print_table(rows)
    say(f"{time.monotonic() - began:.0f} s; written to {options.out}")
    if failed:
        raise SystemExit(f"not measured: {', '.join(failed)}")


if __name__ == "__main__":
    main()
