"""An agent as a process: its registry, its files, and its end."""

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from protolink_grpc import Agent, SQLiteStore
from protolink_grpc.telemetry import LocalTraceTelemetry

REGISTRY = "PLGRPC_REGISTRY"
"""Environment variable with the registry's URL; without it an agent works alone."""

DIRECTORY = "DEMO_DIR"
"""Environment variable with the directory for the agents' files; without it they store everything in memory."""

LIFELINE = "--until-stdin-closes"
"""Argument that makes a process end with its parent. The parent writes the registry's URL to its stdin and keeps it open."""

TRACE = "DEMO_TRACE"
"""Environment variable with the file to which the agents append their traces; without it they record none."""

GRACE_S = 6.0
"""How long a process may take to end after its parent, in seconds."""


def registry_url() -> str | None:
    """Return the registry's URL: from the parent, which sends it when the registry is ready, or from the environment."""
    if LIFELINE not in sys.argv:
        return os.environ.get(REGISTRY)
    line = b""
    while not line.endswith(b"\n"):
        read = os.read(0, 1)
        if not read:
            raise SystemExit("the parent process has ended")
        line += read
    return line.decode().strip()


def own_file(name: str) -> Path | None:
    """Return the path of a file in the demo's directory, or None without a directory."""
    directory = os.environ.get(DIRECTORY)
    return Path(directory, name) if directory else None


def own_settings(agent_name: str) -> dict[str, Any]:
    """Return the settings of an agent in a demo: its registry, its task store in the directory, and the file of the traces."""
    path, trace = own_file(f"{agent_name}.db"), os.environ.get(TRACE)
    return {
        "registry": registry_url(),
        "store": SQLiteStore(path) if path is not None else None,
        "telemetry": LocalTraceTelemetry(path=trace) if trace else None,
    }


def serve(agent: Agent) -> None:
    """Run an agent in the foreground until a signal or the end of its parent."""
    begin()
    agent.run()


def begin() -> None:
    """Configure logging, and end this process with its parent if it was started with LIFELINE."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if LIFELINE in sys.argv:
        threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # os.read, because the interpreter aborts at exit if a daemon thread holds the lock of sys.stdin.
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(1)
