"""Small JSON documents of identity providers: bounded in time and size, in a thread, so that no event loop waits for them.

What they say is read elsewhere.
"""

import json
import time
from asyncio import wrap_future
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from protolink_grpc.errors import UnavailableError
from protolink_grpc.net.address import is_loopback

T = TypeVar("T")

MAX_BYTES = 1 << 20
"""Bound of one document: a key set has some kilobytes."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request.

    Args:
        form: Posted; without one the request is a GET.
        timeout_s: How long each step may take; the whole takes at most twice as long.
    """

    url: str
    form: Mapping[str, str] | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 5.0


def fetch_json(question: Question) -> tuple[int, Any]:
    """HTTP status and document. Blocks. Follows no redirect: the URL is the one whose owner is trusted.

    Raises:
        UnavailableError: No such answer could be had.
    """
    import httpx  # 0.2 s to load, and most servers never ask

    split = urlsplit(question.url)
    where = f"{split.scheme}://{split.netloc}{split.path}"
    try:
        # Calls to this machine must not go through somebody's proxy.
        with httpx.Client(timeout=question.timeout_s, trust_env=not is_loopback(split.hostname or "")) as client:
            status, body = _exchange(client, question)
        return status, json.loads(body)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        raise UnavailableError(f"{where} did not answer: {type(error).__name__}", url=where) from None
    except (ValueError, RecursionError):
        raise UnavailableError(f"{where} answered with something that is not a JSON document", url=where) from None


def _exchange(client: Any, question: Question) -> tuple[int, bytes]:
    until = time.monotonic() + question.timeout_s
    method = "GET" if question.form is None else "POST"
    # Undecoded: what is small on the wire can be large when it is unpacked.
    headers = {"accept": "application/json", "accept-encoding": "identity", **question.headers}
    body = b""
    with client.stream(method, question.url, data=question.form, headers=headers) as response:
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > MAX_BYTES:
                raise ValueError("too large")
            if time.monotonic() > until:
                raise TimeoutError
        return response.status_code, body


class Shared(Generic[T]):
    """Blocking work that runs once at a time, in a thread; who asks meanwhile gets the same result, on whatever event loop."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._lock = Lock()
        self._running: Future[T] | None = None

    @property
    def is_running(self) -> bool:
        return self._running is not None

    async def result(self) -> T:
        """What the work returns or raises. Canceling this ends the wait, not the work."""
        return await wrap_future(self.begin())

    def begin(self) -> "Future[T]":
        """Start the work, or join what runs already."""
        with self._lock:
            if self._running is None:
                self._running = Future()
                # From here on nobody who waits can cancel it for the others.
                self._running.set_running_or_notify_cancel()
                # A daemon: a provider that does not answer must not keep the process from ending.
                Thread(target=self._run, args=(self._running,), name="plgrpc-auth", daemon=True).start()
            return self._running

    def _run(self, future: "Future[T]") -> None:
        try:
            found = self._work()
        except Exception as error:
            self._end()
            future.set_exception(error)
        else:
            self._end()
            future.set_result(found)

    def _end(self) -> None:
        with self._lock:
            self._running = None
