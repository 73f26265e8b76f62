"""One agent as one process: where it finds the registry, where it keeps its files, and when it ends."""

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
"""Environment variable with the directory for the agents' files; without it they keep everything in memory."""

LIFELINE = "--until-stdin-closes"
"""Argument that ties a process to its parent, which holds the other end of its stdin and tells agents the registry's URL by it."""

GRACE_S = 6.0
"""How long a process may take to end after its parent is gone."""


def registry_url() -> str | None:
    """The registry's URL: from the parent, which says it as soon as the registry is up, else from the environment."""
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
    """A file of that name in the mesh's directory, None without one."""
    directory = os.environ.get(DIRECTORY)
    return Path(directory, name) if directory else None


def own_store(agent_name: str) -> SQLiteStore | None:
    """The task log of that agent, None for one in memory."""
    path = own_file(f"{agent_name}.db")
    return SQLiteStore(path) if path is not None else None


def serve(agent: Agent) -> None:
    """Run an agent in the foreground until a signal, or until the parent is gone."""
    begin()
    agent.run()


def begin() -> None:
    """What every process of the mesh does first."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if LIFELINE in sys.argv:
        threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # Not through sys.stdin: its lock, held by a daemon thread, would abort the interpreter at exit.
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(1)
