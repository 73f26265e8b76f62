"""Detects whether the process of a worker on this machine still runs. For other machines the worker's lease decides."""

import os
import socket
from pathlib import Path


def process_identity() -> str:
    """Return `machine/pid/start` for `is_dead`. `start` is empty if the system does not provide it."""
    return f"{_machine()}/{os.getpid()}/{_start_ticks(os.getpid())}"


def is_dead(identity: str) -> bool:
    """Return whether that process ran on this machine and has certainly ended; False if this is unknown."""
    machine, _, rest = identity.rpartition("/")
    machine, _, pid = machine.rpartition("/")
    if machine != _machine() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    # The process id exists, but may belong to another process now.
    start = _start_ticks(int(pid))
    return bool(rest and start and rest != start)


def _machine() -> str:
    """Identify this boot and pid namespace, because pids of another container or an earlier boot are not comparable."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _start_ticks(pid: int) -> str:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        # A zombie has ended; only its parent has not reaped it yet.
        return "zombie" if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        return ""
