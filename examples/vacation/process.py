"""An agent as a process: its registry, its files, and its end."""

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path

from protolink_grpc import Agent, SQLiteStore

REGISTRY = "PLGRPC_REGISTRY"
"""Environment variable with the registry's URL; without it an agent works alone."""

DIRECTORY = "VACATION_DIR"
"""Environment variable with the directory for the agents' files; without it they store everything in memory."""

LIFELINE = "--until-stdin-closes"
"""Argument that makes a process end with its parent, which holds the other end of its stdin and writes the registry's URL to it."""

GRACE_S = 6.0
"""How long a process may take to end after its parent, in seconds."""


def registry_url() -> str | None:
    """The registry's URL: from the parent, which sends it when the registry is ready, otherwise from the environment."""
    if LIFELINE not in sys.argv:
        return os.environ.get(REGISTRY)
    line = b""
    while not line.endswith(b"\n"):
        read = os.read(0, 1)
        if not read:
            raise SystemExit("the parent is gone")
        line += read
    return line.decode().strip()


def own_file(name: str) -> Path | None:
    """The path of a file in the demo's directory, or None without a directory."""
    directory = os.environ.get(DIRECTORY)
    return Path(directory, name) if directory else None


def own_store(agent_name: str) -> SQLiteStore | None:
    """The task store of that agent, or None for one in memory."""
    path = own_file(f"{agent_name}.db")
    return SQLiteStore(path) if path is not None else None


def serve(agent: Agent) -> None:
    """Run an agent in the foreground until a signal or the end of its parent."""
    begin()
    agent.run()


def begin() -> None:
    """The common start of all processes."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if LIFELINE in sys.argv:
        threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # Not with sys.stdin, whose lock, if a daemon thread holds it, aborts the interpreter at exit.
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(1)
