"""An agent's state across tasks: conversations, the values of tools, and the control over both."""

from protolink_grpc.state.conversation import ConversationMemory
from protolink_grpc.state.state import PrincipalState, State
from protolink_grpc.state.tool_memory import SessionMemory, ToolMemory
from protolink_grpc.storage.agent_storage import Conversation, Storage
from protolink_grpc.storage.in_memory_storage import InMemoryStorage
from protolink_grpc.storage.sqlite.storage import SQLiteStorage

__all__ = [
    "Conversation",
    "ConversationMemory",
    "InMemoryStorage",
    "PrincipalState",
    "SQLiteStorage",
    "SessionMemory",
    "State",
    "Storage",
    "ToolMemory",
]
