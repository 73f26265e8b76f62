"""The process that works on runs, as the log names it."""

import os
import socket
from functools import cache

from protolink_grpc import __version__
from protolink_grpc.models.events import Worker
from protolink_grpc.models.ids import new_uuid


def this_worker() -> Worker:
    """The same value throughout a process, another one in each process."""
    return _worker_of(os.getpid())


@cache
def _worker_of(pid: int) -> Worker:  # the key keeps a forked process from using the name of its parent
    # The end of a UUIDv7 is random.
    return Worker(new_uuid()[-12:], __version__, socket.gethostname())
