"""The names of attributes and metrics: OpenTelemetry's semantic conventions for generative AI, and our own.

The conventions are those of `SEMCONV_VERSION`. They are not stable yet, so no other module contains their names.
Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

from typing import Any, Final

from protolink_grpc.models.json_value import to_json
from protolink_grpc.telemetry.spans import Span

SEMCONV_VERSION: Final = "1.44.0"
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/{SEMCONV_VERSION}"

OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
USAGE: Final = "gen_ai.client.token.usage"
USAGE_TYPE: Final = "gen_ai.token.type"
ERROR_TYPE: Final = "error.type"

RUN_DURATION: Final = "plgrpc.run.duration"
ACTION_DURATION: Final = "plgrpc.action.duration"
APPROVAL_WAIT: Final = "plgrpc.approval.wait"
COST: Final = "plgrpc.llm.cost"

OPERATIONS: Final = {"run": "invoke_agent", "agent_call": "invoke_agent", "llm": "chat", "tool": "execute_tool"}

PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "grok": "x_ai",
    "mistral": "mistral_ai",
}
"""Names of providers that differ in the conventions; others are the same, such as openai, anthropic and deepseek."""

_NAMES: Final = {
    "finish_reason": "",  # a list in the conventions
    "model": "gen_ai.request.model",
    "response_model": "gen_ai.response.model",
    "provider": "",  # see PROVIDERS
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_input_tokens": "gen_ai.usage.cache_read.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
    "session_id": "gen_ai.conversation.id",
}
"""Names of facts in the conventions. Other facts are `plgrpc.` and their name. `attributes_of` sets those without a name itself."""


def name_of(span: Span) -> str:
    """Return the name of a span, for instance `execute_tool add`."""
    return f"{OPERATIONS.get(span.kind, span.kind)} {span.name}".rstrip()


def provider_of(span: Span) -> str:
    """Return the name of the provider of a model call."""
    name = str(span.attributes.get("provider") or "unknown")
    return PROVIDERS.get(name, name)


def attributes_of(span: Span) -> dict[str, Any]:
    """Return the attributes of a span; its content only if the span has it."""
    found: dict[str, Any] = {"plgrpc.task.id": span.task_id, "plgrpc.run.id": span.run_id}
    if (operation := OPERATIONS.get(span.kind)) is not None:
        found["gen_ai.operation.name"] = operation
    for name, value in span.attributes.items():
        key = _NAMES.get(name, f"plgrpc.{name}")
        if key and value not in (None, ""):
            found[key] = value
    if span.error:
        found[ERROR_TYPE] = span.error
    match span.kind:
        case "run" | "agent_call":
            found["gen_ai.agent.name"] = span.name
        case "llm":
            found["gen_ai.provider.name"] = provider_of(span)
            if reason := span.attributes.get("finish_reason"):
                found["gen_ai.response.finish_reasons"] = [reason]
        case "tool":
            found |= {"gen_ai.tool.name": span.name, "gen_ai.tool.type": "function"}
            if call_id := found.pop("plgrpc.call_id", ""):
                found["gen_ai.tool.call.id"] = call_id
    return found | _content(span)


def _content(span: Span) -> dict[str, str]:
    """Return the input and output of a span as JSON texts."""
    found: dict[str, str] = {}
    if span.kind == "llm":
        if span.input:
            found["gen_ai.input.messages"] = to_json([_message("user", span.input)])
        if span.output:
            message = _message("assistant", span.output["text"], span.output["tool_calls"])
            message["finish_reason"] = span.attributes.get("finish_reason", "")
            found["gen_ai.output.messages"] = to_json([message])
        return found
    if span.input is not None:
        found["gen_ai.tool.call.arguments"] = to_json(span.input)
    if span.output is not None:
        found["gen_ai.tool.call.result"] = to_json(span.output)
    return found


def _message(role: str, text: str, calls: Any = ()) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"type": "text", "content": text}] if text else []
    parts += [
        {"type": "tool_call", "id": each["call_id"], "name": each["tool_name"], "arguments": each["args"]}
        for each in calls
    ]
    return {"role": role, "parts": parts}
