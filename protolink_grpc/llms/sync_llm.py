"""The synchronous form of a language model.

`sync_llm.pyi` lists its methods for type checkers. It is generated from LLM (`tests/contract/make_sync_stub.py`), and a
contract test compares it with LLM.
"""

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any


class SyncLLM:
    """`infer`, `compact_history` and `summarize` as blocking calls, each of which runs its own event loop."""

    def __init__(self, llm: Any) -> None:
        self._llm = llm

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._llm, name, None) if not name.startswith("_") else None
        if not inspect.iscoroutinefunction(method):
            raise AttributeError(f"{type(self._llm).__name__}.sync has no {name}")
        return functools.wraps(method)(lambda *args, **kwargs: self._wait(method, name, *args, **kwargs))

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._llm) if hasattr(self, name)]

    def _wait(self, method: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        async def once() -> Any:
            try:
                return await method(*args, **kwargs)
            finally:
                await self._llm.aclose()  # its connections belong to this loop, which ends with the call

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(once())
        raise RuntimeError(f"an event loop is running in this thread: await {name}(...) instead of sync.{name}(...)")
