"""Fetches small JSON documents of identity providers in a thread, with limits of time and size."""

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
"""Maximum size of a document in bytes: a key set has a few kilobytes."""


@dataclass(frozen=True, slots=True)
class JsonRequest:
    """A request for a JSON document.

    Args:
        form: The form to post; without one the request is a GET.
        timeout_s: Timeout of each step in seconds; the whole request takes at most twice as long.
    """

    url: str
    form: Mapping[str, str] | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 5.0


def fetch_json(request: JsonRequest) -> tuple[int, Any]:
    """Fetch a document and return it with the HTTP status. Blocks, and does not follow redirects, because only this URL is trusted.

    Raises:
        UnavailableError: There was no valid response.
    """
    import httpx  # takes 0.2 s to import, and most servers never need it

    split = urlsplit(request.url)
    where = f"{split.scheme}://{split.netloc}{split.path}"
    try:
        # Calls to this machine must not go through a proxy.
        with httpx.Client(timeout=request.timeout_s, trust_env=not is_loopback(split.hostname or "")) as client:
            status, body = _exchange(client, request)
        return status, json.loads(body)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        raise UnavailableError(f"{where} did not answer: {type(error).__name__}", url=where) from None
    except (ValueError, RecursionError):
        raise UnavailableError(f"{where} answered with something that is not a JSON document", url=where) from None


def _exchange(client: Any, request: JsonRequest) -> tuple[int, bytes]:
    until = time.monotonic() + request.timeout_s
    method = "GET" if request.form is None else "POST"
    # Without decoding, because a small compressed body can be large when it is decompressed.
    headers = {"accept": "application/json", "accept-encoding": "identity", **request.headers}
    body = b""
    with client.stream(method, request.url, data=request.form, headers=headers) as response:
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > MAX_BYTES:
                raise ValueError("too large")
            if time.monotonic() > until:
                raise TimeoutError
        return response.status_code, body


class Shared(Generic[T]):
    """Blocking work that runs in a thread, once at a time. Concurrent callers on all event loops share the result."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._lock = Lock()
        self._running: Future[T] | None = None

    @property
    def is_running(self) -> bool:
        return self._running is not None

    async def result(self) -> T:
        """Return or raise the result of the work. Canceling this ends the wait, not the work."""
        return await wrap_future(self.begin())

    def begin(self) -> "Future[T]":
        """Start the work, unless it is running."""
        with self._lock:
            if self._running is None:
                self._running = Future()
                # From here on, no waiting caller can cancel it for the others.
                self._running.set_running_or_notify_cancel()
                # A daemon, so that a provider that does not answer does not prevent the process from ending.
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
