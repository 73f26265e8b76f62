"""One model call with pydantic-ai: sends a ModelRequest and yields pieces of text and one ModelResponse.

Loaded with the first call of a model, because it imports pydantic-ai. `pydantic_ai_errors` converts its errors.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, cast

import orjson
from pydantic_ai import messages as theirs
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from protolink_grpc.errors import ModelUnavailableError
from protolink_grpc.llms.input_media import fit_media
from protolink_grpc.llms.leading_thought import LeadingThought
from protolink_grpc.llms.port import ModelItem, ModelRequest, ModelResponse, ModelToolCall, ModelUsage, TextChunk
from protolink_grpc.llms.providers import Provider
from protolink_grpc.llms.pydantic_ai_connection import Connection
from protolink_grpc.llms.pydantic_ai_prompt import (
    WireNames,
    fits_anthropic,
    refuse_media,
    to_messages,
    to_parameters,
    unwrap_answer,
    wire_names,
    wrap_schema,
)
from protolink_grpc.models.media import Media

_COUNTED = ("input_tokens", "output_tokens")
_REASONING = ("reasoning_tokens", "thoughts_tokens", "thinking_tokens")
"""The providers' names for reasoning tokens."""


async def answer(
    connection: Connection,
    provider: Provider,
    request: ModelRequest,
    settings: Mapping[str, Any],
    until: float | None,
    *,
    url_media: Sequence[str] = (),
) -> AsyncGenerator[ModelItem, None]:
    """Send the request and yield the items of the answer.

    Args:
        settings: pydantic-ai's model settings.
        until: The deadline, in seconds of the event loop's clock.
        url_media: Media types of the files that the server downloads from their URLs.

    Raises:
        TimeoutError: `until` has passed.
        ModelUnavailableError: The stream ended too early.
        ContentTypeNotSupportedError: The model does not take a file of the request.
    """
    profile = connection.model.profile

    def refuse(media: Media) -> str:
        return refuse_media(media, profile, provider.dialect, url_media)

    messages = fit_media(request.messages, refuse, provider=provider.name, model=connection.model.model_name)
    request = replace(request, messages=messages)
    names = wire_names(request)
    schema, is_wrapped = _choose_schema(connection, provider, request)
    opening = connection.model.request_stream(
        to_messages(request, names),
        cast(ModelSettings, dict(settings)),  # a TypedDict of the common settings; further ones are allowed
        to_parameters(
            request.tools,
            schema,
            names,
            with_images=bool(profile.get("supports_image_output")) and provider.dialect == "google",
        ),
    )
    async with AsyncExitStack() as stack:
        async with asyncio.timeout_at(until):
            stream = await connection.open(stack, opening)
        pieces: list[str] = []
        thought = LeadingThought()
        events = aiter(stream)
        while True:
            # Not around the loop: the caller's own time between two pieces does not count.
            async with asyncio.timeout_at(until):
                event = await anext(events, None)
            text = thought.rest() if event is None else thought.feed(_text_of(event))
            if text:
                pieces.append(text)
                if not is_wrapped:
                    yield TextChunk(text)
            if event is None:
                break
        whole = "".join(pieces)
        if is_wrapped and whole:
            whole = unwrap_answer(whole)
            yield TextChunk(whole)
        response = _to_response(whole, stream.get(), names)
    if provider.finish_reason and not response.finish_reason:
        raise ModelUnavailableError(
            f"the provider's answer was cut off ({provider.name})",
            provider=provider.name,
            model=connection.model.model_name,
        )
    yield response


def _choose_schema(
    connection: Connection, provider: Provider, request: ModelRequest
) -> tuple[dict[str, Any] | None, bool]:
    """Return the schema for this provider and this model to enforce, or None, and whether it is that of `wrap_schema`."""
    schema = request.output_schema
    if schema is None or not connection.model.profile.get("supports_json_schema_output"):
        return None, False
    if provider.schema == "never" or (provider.schema == "without_tools" and request.tools):
        return None, False
    is_wrapped = schema.get("type") != "object"
    sent = wrap_schema(schema) if is_wrapped else schema
    if sent is None or (provider.dialect == "anthropic" and not fits_anthropic(sent)):
        return None, False
    return sent, is_wrapped


def _text_of(event: theirs.ModelResponseStreamEvent) -> str:
    """The text of a stream event; empty for reasoning and tool calls."""
    match event:
        case theirs.PartStartEvent(part=theirs.TextPart(content=text)):
            return text
        case theirs.PartDeltaEvent(delta=theirs.TextPartDelta(content_delta=text)):
            return text
        case _:
            return ""


def _to_response(text: str, whole: theirs.ModelResponse, names: WireNames) -> ModelResponse:
    calls = tuple(_to_call(part, names) for part in whole.parts if isinstance(part, theirs.ToolCallPart))
    # Reasons that pydantic-ai does not know keep the provider's name.
    reason = whole.finish_reason or str((whole.provider_details or {}).get("finish_reason") or "")
    if reason == "tool_call" or (calls and reason == "stop"):
        reason = "tool_calls"
    files = tuple(
        Media(part.content.media_type, part.content.data)
        for part in whole.parts
        if isinstance(part, theirs.FilePart) and part.content.data
    )
    return ModelResponse(text, calls, _to_usage(whole.usage), reason, whole.model_name or "", files)


def _to_call(part: theirs.ToolCallPart, names: WireNames) -> ModelToolCall:
    name, arguments = names.ours(part.tool_name), part.args or {}
    if isinstance(arguments, dict):
        return ModelToolCall(name, arguments, part.tool_call_id)
    try:
        value = orjson.loads(arguments)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return ModelToolCall(name, value, part.tool_call_id)
    return ModelToolCall(name, call_id=part.tool_call_id, raw=arguments)


def _to_usage(usage: RequestUsage) -> ModelUsage:
    # pydantic-ai reports zero if the provider sent no usage; every prompt has tokens.
    if not usage.input_tokens:
        return ModelUsage(None, usage.output_tokens or None)
    cached = {"cache_read_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
    counts = {**cached, **usage.details}
    details = {name: count for name, count in counts.items() if count and name not in _COUNTED}
    reasoning = next((usage.details[name] for name in _REASONING if usage.details.get(name)), None)
    return ModelUsage(usage.input_tokens, usage.output_tokens, details, usage.cache_read_tokens or None, reasoning)
