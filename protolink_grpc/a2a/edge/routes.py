"""The HTTP routes of A2A: the card, the OpenAPI description, JSON-RPC and HTTP+JSON, in v1.0 and v0.3."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from protolink_grpc.a2a.edge.card_route import CARD_METHOD, CardRoute
from protolink_grpc.a2a.edge.jsonrpc import JsonRpc
from protolink_grpc.a2a.edge.openapi import openapi_json
from protolink_grpc.a2a.edge.rest import Rest
from protolink_grpc.a2a.edge.rest_v03 import routes_v03
from protolink_grpc.a2a.operations import Operations
from protolink_grpc.a2a.v03.jsonrpc import JsonRpcV03
from protolink_grpc.edges.http.app import Gateway
from protolink_grpc.edges.http.json_body import JSON, write_json


def a2a_routes(gateway: Gateway, operations: Operations) -> list[BaseRoute]:
    """Return the routes of v1.0, and those of v0.3 unless the options disable it."""
    guard, streams, v03 = gateway.guard, gateway.streams, operations.options.v03
    described = write_json(openapi_json(operations.cards.public().card))

    async def description(request: Request) -> Response:
        public = operations.options.public_card
        if not public:  # the description contains the same information as the card
            await guard.principal(request, CARD_METHOD)
        return Response(described, 200, {"cache-control": f"{'public' if public else 'private'}, max-age=300"}, JSON)

    found: list[BaseRoute] = [
        Route("/.well-known/agent-card.json", CardRoute(guard, operations).respond, methods=["GET"]),
        Route(
            "/", JsonRpc(guard, operations, streams, JsonRpcV03(operations) if v03 else None).respond, methods=["POST"]
        ),
        Route("/openapi.json", description, methods=["GET"]),
    ]
    if v03:
        found += routes_v03(guard, operations, streams)
    return found + Rest(guard, operations, streams).routes()
