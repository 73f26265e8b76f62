"""Event loops (uvloop if it is installed, otherwise asyncio's), and the scheduling class of their threads."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from protolink_grpc.errors import AddressInUseError, StoreError

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Create an event loop."""
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine like `asyncio.run`, on the fastest available loop."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


def run_server(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine like `run`, for a server process: its threads are scheduled as batch work (`schedule_as_batch`).

    Raises:
        RuntimeError: An event loop is running in this thread.
        SystemExit: In the main thread, a port is in use or the store cannot be used. The program then ends with one line of text,
            because a traceback has nothing more that helps. The cause is the error itself, which other threads raise.
    """
    if running_loop() is not None:
        main.close()
        raise RuntimeError(
            "an event loop is running in this thread, and a server in the foreground needs its own; await serve() and aclose(), "
            "use `async with`, or call start(background=True)"
        )
    schedule_as_batch()
    try:
        return run(main)
    except (AddressInUseError, StoreError) as error:
        if threading.current_thread() is not threading.main_thread():
            raise
        raise SystemExit(f"error: {error}") from error


SCHEDULING_VARIABLE = "PLGRPC_BATCH_SCHEDULING"
"""Environment variable that, set to `0`, keeps a server's process in the normal scheduling class."""


def schedule_as_batch() -> bool:
    """Put the calling thread, and the threads that it starts from now on, into Linux's scheduling class SCHED_BATCH.

    A request passes between gRPC's threads and the event loop's thread. In the normal class each wake-up may preempt the
    thread that caused it, on the same core, while that thread still has work to do. In the batch class a thread finishes its time
    slice first, so that a request costs fewer switches. Priority and share of the processor stay the same. Child
    processes inherit the class.

    It is for server processes of this package, not for programs that embed an agent. Only the main thread may set it.

    Returns:
        Whether the class is set. It is not set on other systems, if it is not permitted, if `PLGRPC_BATCH_SCHEDULING` is `0`, or
        if the process was started in a class other than the normal one.
    """
    if not hasattr(os, "SCHED_BATCH") or os.environ.get(SCHEDULING_VARIABLE) == "0":
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    try:
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        return os.sched_getscheduler(0) == os.SCHED_BATCH
    except OSError:  # not permitted, for instance in a sandbox; the server works without it
        return False


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running event loop, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
