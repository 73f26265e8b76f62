"""Generated from the asynchronous classes by tests/contract/make_sync_stub.py. Do not edit."""

from collections.abc import Mapping, Sequence
from typing import Any, overload

from protolink_grpc.llms.base import LLM, T
from protolink_grpc.llms.context_policy import ContextSetting
from protolink_grpc.llms.direct import AgentCallback, AnyTool, EventCallback
from protolink_grpc.llms.input_media import Refusal
from protolink_grpc.llms.loop_host import InferSettings
from protolink_grpc.llms.prices import ModelPrice
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import (
    ConversationHistory,
    HistoryCompactionRequest,
    HistoryCompactionResult,
    LLMMessage,
)
from protolink_grpc.models.json_schema import SchemaLike
from protolink_grpc.models.json_value import JsonValue
from protolink_grpc.models.part import Part

class SyncLLM:
    def __init__(self, llm: LLM) -> None: ...
    def find_price(self) -> ModelPrice | None: ...
    def find_media_refusal(self) -> Refusal | None: ...
    def open(self) -> None: ...
    def aclose(self) -> None: ...
    @overload
    def infer(
        self,
        query: str,
        tools: Mapping[str, AnyTool] | None = None,
        *,
        output_type: type[T],
        agent_callback: AgentCallback | None = None,
        agent_cards: Sequence[AgentCard] = ...,
        streaming: bool = False,
        event_callback: EventCallback | None = None,
        run_context: RunContext | None = None,
        history: ConversationHistory | None = None,
        instructions: str = "",
        flow_prompt: str = "",
        settings: InferSettings | None = None,
        media: Sequence[Part] = ...,
        context_policy: ContextSetting = "auto",
    ) -> T: ...
    @overload
    def infer(
        self,
        query: str,
        tools: Mapping[str, AnyTool] | None = None,
        *,
        output_type: None = None,
        agent_callback: AgentCallback | None = None,
        agent_cards: Sequence[AgentCard] = ...,
        streaming: bool = False,
        event_callback: EventCallback | None = None,
        run_context: RunContext | None = None,
        history: ConversationHistory | None = None,
        output_schema: SchemaLike | None = None,
        instructions: str = "",
        flow_prompt: str = "",
        settings: InferSettings | None = None,
        media: Sequence[Part] = ...,
        context_policy: ContextSetting = "auto",
    ) -> JsonValue: ...
    @overload
    def infer(
        self,
        query: str,
        tools: Mapping[str, AnyTool] | None = None,
        *,
        output_type: Any,
        agent_callback: AgentCallback | None = None,
        agent_cards: Sequence[AgentCard] = ...,
        streaming: bool = False,
        event_callback: EventCallback | None = None,
        run_context: RunContext | None = None,
        history: ConversationHistory | None = None,
        instructions: str = "",
        flow_prompt: str = "",
        settings: InferSettings | None = None,
        media: Sequence[Part] = ...,
        context_policy: ContextSetting = "auto",
    ) -> Any: ...
    def compact_history(
        self,
        request: HistoryCompactionRequest | None = None,
        *,
        history: ConversationHistory | None = None,
        **fields: Any,
    ) -> HistoryCompactionResult: ...
    def summarize(self, messages: Sequence[LLMMessage], max_tokens: int = 512) -> str: ...
