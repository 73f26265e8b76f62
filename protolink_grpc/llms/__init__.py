"""Language models behind one interface, and the inference loop."""

from protolink_grpc.llms.base import LLM
from protolink_grpc.llms.context_policy import ContextPolicy
from protolink_grpc.llms.factory import create_llm
from protolink_grpc.llms.hooks import AgentHooks, FinalOutput, ModelInput, ToolOutcome
from protolink_grpc.llms.loop_host import InferSettings
from protolink_grpc.llms.mock import MockLLM, ScriptedLLM
from protolink_grpc.llms.port import (
    LanguageModel,
    ModelRequest,
    ModelResponse,
    ModelToolCall,
    ModelUsage,
    TextChunk,
    ToolSpec,
)
from protolink_grpc.llms.prices import Price
from protolink_grpc.llms.profile import LLMModelProfile
from protolink_grpc.models.media import Media

__all__ = [
    "LLM",
    "AgentHooks",
    "ContextPolicy",
    "FinalOutput",
    "InferSettings",
    "LLMModelProfile",
    "LanguageModel",
    "Media",
    "MockLLM",
    "ModelInput",
    "ModelRequest",
    "ModelResponse",
    "ModelToolCall",
    "ModelUsage",
    "Price",
    "ScriptedLLM",
    "TextChunk",
    "ToolOutcome",
    "ToolSpec",
    "create_llm",
]
