"""The public card over HTTP: one document, with validators (ETag, Last-Modified) for client caches."""

from email.utils import formatdate, parsedate_to_datetime
from time import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from protolink_grpc.a2a.card import card_json, dual_card_json, etag
from protolink_grpc.a2a.operations import Operations
from protolink_grpc.a2a.values import V1
from protolink_grpc.edges.http.json_body import JSON, write_json
from protolink_grpc.edges.http.request_guard import RequestGuard

CARD_METHOD = "/lf.a2a.v1.A2AService/GetAgentCard"
"""Name of this route for access rules; A2A v1.0 has no RPC of this name."""


class CardRoute:
    """`/.well-known/agent-card.json` of one agent."""

    def __init__(self, guard: RequestGuard, operations: Operations) -> None:
        self._guard = guard
        self._operations = operations
        self._cached: dict[bool, tuple[str, bytes, str]] = {}

    async def respond(self, request: Request) -> Response:
        """Respond to one request."""
        options = self._operations.options
        if not options.public_card:
            await self._guard.principal(request, CARD_METHOD)
        tag, body, changed = self._current_card(dual=options.dual_card and options.v03 and not _requests_v1(request))
        headers = {
            "cache-control": f"{'public' if options.public_card else 'private'}, max-age={options.card_max_age_s}",
            "etag": tag,
            "last-modified": changed,
            "vary": "Accept-Encoding, A2A-Version",
        }
        if _is_current(request, tag, changed):
            return Response(None, 304, headers)
        return Response(body, 200, headers, JSON)

    def _current_card(self, *, dual: bool) -> tuple[str, bytes, str]:
        """Return tag, text and last change of the current card; an unchanged card keeps its time."""
        options = self._operations.options
        public = self._operations.cards.public()
        card: dict[str, Any] = dual_card_json(public) if dual else card_json(public)
        tag = etag(card)
        cached = self._cached.get(dual)
        if cached is None or cached[0] != tag:
            if options.signer is not None:
                card = options.signer.sign(card)
            cached = self._cached[dual] = tag, write_json(card), formatdate(time(), usegmt=True)
        return cached


def _requests_v1(request: Request) -> bool:
    """Return whether the request asks for v1.0, so that the card does not need the v0.3 fields."""
    return ".".join(request.headers.get("a2a-version", "").strip().split(".")[:2]) == V1


def _is_current(request: Request, tag: str, changed: str) -> bool:
    """Return whether the client's cached card is current. Source: RFC 9110 section 13; if a tag is given, the date is ignored."""
    tags = request.headers.get("if-none-match")
    if tags is not None:
        return any(each.strip().removeprefix("W/") in (tag, "*") for each in tags.split(","))
    since = request.headers.get("if-modified-since")
    if since is None:
        return False
    try:
        return parsedate_to_datetime(changed) <= parsedate_to_datetime(since)
    except (ValueError, TypeError):  # an invalid date, or one without a zone: send the card
        return False
