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
    """What `/healthz` and `/readyz` say: the shape that ProtoLink's own health routes have, without its counts.

    Args:
        drain: A server that goes down is alive, and gets no more work.
        about: What else there is to say: `transport`, `url`, `capabilities` and the like. Everybody can read it.
        obstacle: Why it should get no work now, in a word; empty where it should.
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
        return self._answer(200)

    async def _ready(self, request: Request) -> Response:
        return self._answer(503 if self._state() else 200)

    def _state(self) -> str:
        if self._drain.has_begun:
            return "draining"
        return self._obstacle() if self._obstacle is not None else ""

    def _answer(self, status: int) -> Response:
        state = self._state()
        body = {**(self._about() if self._about is not None else {}), "status": state or "ready", "ready": not state}
        headers = {"retry-after": str(RETRY_AFTER_S)} if status != 200 else None
        return Response(orjson.dumps(body), status, headers, "application/json")
