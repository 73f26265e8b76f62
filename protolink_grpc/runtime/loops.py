"""Which event loop runs us: uvloop where it is installed, asyncio's own elsewhere."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop that nobody runs yet."""
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on the fastest loop there is."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs the calling code; None in code that no loop runs."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
