"""Whether the process behind a worker still runs, where this machine can tell. Elsewhere the worker's lease decides."""

import os
import socket
from pathlib import Path


def process_identity() -> str:
    """`machine/pid/start`: comparable with `is_dead` on the same machine. `start` is empty where the system does not tell."""
    return f"{_machine()}/{os.getpid()}/{_start_ticks(os.getpid())}"


def is_dead(identity: str) -> bool:
    """True when that process ran on this machine and is gone for certain; False when it lives or nobody can tell."""
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
    # The number is taken, but maybe by another process by now.
    start = _start_ticks(int(pid))
    return bool(rest and start and rest != start)


def _machine() -> str:
    """This boot and this pid namespace: pids of another container or an earlier boot mean nothing here."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _start_ticks(pid: int) -> str:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        # A zombie has ended; only its parent has not noticed.
        return "zombie" if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        return ""
