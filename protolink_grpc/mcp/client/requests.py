"""Requests of an MCP server to its client: questions to a person, and to the agent's model."""

from collections.abc import Sequence
from typing import Any

from protolink_grpc.errors import ProtolinkError, UnsupportedOperationError
from protolink_grpc.logs import get_logger
from protolink_grpc.mcp.client.calls import CallsInProgress
from protolink_grpc.models.conversation import LLMMessage

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

    async def sample(self, context: Any, params: Any) -> Any:
        """Ask the agent's model (`sampling/createMessage`)."""
        from mcp.types import CreateMessageResult, TextContent

        call = self._calls.current()
        if call is None:
            return refusal(UNKNOWN_CALL)
        try:
            messages = _messages_of(params)
            answer = await call.context.sample(messages, max_tokens=params.max_tokens, temperature=params.temperature)
        except ProtolinkError as error:
            log.info("MCP server %s: tool %s may not ask the model: %s", self._server, call.tool, error)
            return refusal(str(error))
        text, was_cut = _cut(answer.text, params.stop_sequences or ())
        reason = "stopSequence" if was_cut else _STOP_REASONS.get(answer.finish_reason)
        content = TextContent(type="text", text=text)
        return CreateMessageResult(role="assistant", content=content, model=answer.model, stop_reason=reason)


_STOP_REASONS = {"stop": "endTurn", "length": "maxTokens"}


def _messages_of(params: Any) -> list[LLMMessage]:
    """Return the messages of a sampling request. Its system prompt is text of the server, so it is in the first one.

    Raises:
        UnsupportedOperationError: It contains something other than text.
    """
    found = [LLMMessage(role="user", content=params.system_prompt)] if params.system_prompt else []
    for message in params.messages:
        blocks = message.content_as_list
        if any(each.type != "text" for each in blocks):
            raise UnsupportedOperationError("only texts can be passed on to the model")
        found.append(LLMMessage(role=message.role, content="\n".join(each.text for each in blocks)))
    return found


def _cut(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """Return the text before the first stop sequence, and whether there was one."""
    ends = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return (text[: min(ends)], True) if ends else (text, False)


def refusal(reason: str) -> Any:
    """Build the refusal of a request of the server (`mcp.types.ErrorData`)."""
    from mcp.types import INVALID_REQUEST, ErrorData

    return ErrorData(code=INVALID_REQUEST, message=reason)
