"""The routes for liveness and readiness, which need no credentials."""

from collections.abc import Callable
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from protolink_grpc.edges.http.drain import Drain

RETRY_AFTER_S = 5
"""Value of Retry-After of a server that is not ready, in seconds."""


class Health:
    """The routes `/healthz` and `/readyz`, in the form of ProtoLink's health routes without their counts.

    Args:
        drain: A server that shuts down is alive but not ready.
        about: Returns further fields, such as `transport`, `url` and `capabilities`. They are public.
        obstacle: Returns in one word why the server should get no work now, or an empty text.
    """

    def __init__(
        self,
        drain: Drain,
        about: Callable[[], dict[str, Any]] | None = None,
        obstacle: Callable[[], str] | None = None,
    ) -> None:
        self._drain = drain
        self._about = about
        self._obstacle = obstacle

    def routes(self) -> list[Route]:
        return [Route("/healthz", self._alive), Route("/readyz", self._ready)]

    async def _alive(self, request: Request) -> Response:
        return self._respond(200)

    async def _ready(self, request: Request) -> Response:
        return self._respond(503 if self._state() else 200)

    def _state(self) -> str:
        if self._drain.has_begun:
            return "draining"
        return self._obstacle() if self._obstacle is not None else ""

    def _respond(self, status: int) -> Response:
        state = self._state()
        body = {**(self._about() if self._about is not None else {}), "status": state or "ready", "ready": not state}
        headers = {"retry-after": str(RETRY_AFTER_S)} if status != 200 else None
        return Response(orjson.dumps(body), status, headers, "application/json")
