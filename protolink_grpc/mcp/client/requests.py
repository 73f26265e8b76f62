"""Requests of an MCP server to its client: questions to a person."""

from typing import Any

from protolink_grpc.errors import ProtolinkError
from protolink_grpc.logs import get_logger
from protolink_grpc.mcp.client.calls import CallsInProgress

log = get_logger(__name__)

MAX_MESSAGE_CHARS = 4000

UNKNOWN_CALL = (
    "this client answers requests only during a call of a tool, and only if it can tell which call they belong to"
)


class ServerRequests:
    """Answers the requests of one server for the call that they belong to. Its methods are callbacks of the SDK."""

    def __init__(self, server: str, calls: CallsInProgress) -> None:
        self._server = server
        self._calls = calls

    async def elicit(self, context: Any, params: Any) -> Any:
        """Ask a person (`elicitation/create`). A question without an answer is declined."""
        from mcp.types import ElicitResult

        call = self._calls.current()
        if call is None:
            return refusal(UNKNOWN_CALL)
        is_form = params.mode == "form"
        schema, url = (params.requested_schema, "") if is_form else (None, params.url)
        try:
            answer = await call.context.ask(params.message[:MAX_MESSAGE_CHARS], schema, url=url)
        except ProtolinkError as error:  # for instance because the call has ended meanwhile
            return refusal(str(error))
        if not answer.accepted:
            log.info("MCP server %s: a question of tool %s was declined: %s", self._server, call.tool, answer.reason)
            # MCP has no field for the reason, but every result has `_meta`.
            return ElicitResult(action="decline", _meta={"reason": answer.reason})
        return ElicitResult(action="accept", content=answer.values if is_form else None)


def refusal(reason: str) -> Any:
    """Build the refusal of a request of the server (`mcp.types.ErrorData`)."""
    from mcp.types import INVALID_REQUEST, ErrorData

    return ErrorData(code=INVALID_REQUEST, message=reason)
