"""The language model of a scripted agent: it works offline, has a price, and follows the directive in the user's message."""

import asyncio
from collections.abc import AsyncIterator

from protolink_grpc.llms.base import LLM
from protolink_grpc.llms.mock import place
from protolink_grpc.llms.port import ModelItem, ModelRequest, ModelResponse, ModelToolCall, ModelUsage
from protolink_grpc.llms.profile import LLMModelProfile
from protolink_grpc.testing.directives import Directive, parse_directive

USAGE = ModelUsage(input_tokens=1000, output_tokens=100)
"""The usage of each call. With the prices below, a call costs 0.10 USD."""

TOOL = "echo"
"""The tool that each answer except the last one calls, with the number of the answer as its text."""


class PricedModel(LLM):
    """Answers `spend N` with N - 1 tool calls and a text, and never answers `ponder`."""

    def __init__(self) -> None:
        super().__init__("scripted", "priced")
        self.native_tools = True
        self.profile = LLMModelProfile(input_cost_per_million=90.0, output_cost_per_million=100.0)

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        """As `llms.port.LanguageModel.generate`."""
        message_id, answers = place(request.messages)
        text = next((each.content for each in request.messages if each.id == message_id), "")
        directive, number = parse_directive(text) or Directive("spend", "1"), answers + 1
        if directive.verb == "ponder":
            await asyncio.Event().wait()
        if number < int(directive.rest):
            call = ModelToolCall(TOOL, {"text": str(number)}, f"call-{number}")
            yield ModelResponse("", (call,), USAGE, "tool_calls", self.model)
        else:
            yield ModelResponse(f"spent {number}", (), USAGE, "stop", self.model)
