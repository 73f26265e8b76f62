"""Which routes an agent has over HTTP: A2A in both of its versions, and ProtoLink's own wire."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from protolink_grpc.a2a.operations import Operations
from protolink_grpc.a2a.v03.jsonrpc import JsonRpcV03
from protolink_grpc.gateway.app import Gateway
from protolink_grpc.gateway.cards import CARD_METHOD, CardRoute
from protolink_grpc.gateway.json_body import JSON, write_json
from protolink_grpc.gateway.jsonrpc import JsonRpc
from protolink_grpc.gateway.openapi import openapi_json
from protolink_grpc.gateway.protolink_routes import agent_routes
from protolink_grpc.gateway.protolink_socket import behind_guard
from protolink_grpc.gateway.rest import Rest
from protolink_grpc.gateway.rest_v03 import routes_v03
from protolink_grpc.models.card import AgentCard
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.state.control import StateControl


def a2a_routes(gateway: Gateway, operations: Operations) -> list[BaseRoute]:
    """A2A in both of its versions, where the options want both."""
    door, streams, v03 = gateway.door, gateway.streams, operations.options.v03
    described = write_json(openapi_json(operations.public_card().card))

    async def description(request: Request) -> Response:
        public = operations.options.public_card
        if not public:  # it says what the card says
            await door.principal(request, CARD_METHOD)
        return Response(described, 200, {"cache-control": f"{'public' if public else 'private'}, max-age=300"}, JSON)

    found: list[BaseRoute] = [
        Route("/.well-known/agent-card.json", CardRoute(door, operations).show, methods=["GET"]),
        Route(
            "/", JsonRpc(door, operations, streams, JsonRpcV03(operations) if v03 else None).answer, methods=["POST"]
        ),
        Route("/openapi.json", description, methods=["GET"]),
    ]
    if v03:
        found += routes_v03(door, operations, streams)
    return found + Rest(door, operations, streams).routes()


def protolink_routes(
    gateway: Gateway, service: TaskService, card: Callable[[], AgentCard], control: StateControl | None, *, public: bool
) -> list[BaseRoute]:
    """ProtoLink's own wire."""
    return agent_routes(
        gateway.door,
        service,
        card,
        control,
        public_url=lambda: gateway.url,
        streams=gateway.streams,
        public_card=public,
        socket=behind_guard(gateway.options),
    )
