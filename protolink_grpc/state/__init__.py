"""What an agent remembers from one task to the next: storages, conversations, what tools keep, and who may look at it."""

from protolink_grpc.state.conversation import ConversationMemory
from protolink_grpc.state.in_memory_storage import InMemoryStorage
from protolink_grpc.state.sqlite_storage import SQLiteStorage
from protolink_grpc.state.state import PrincipalState, State
from protolink_grpc.state.storage import Conversation, Storage
from protolink_grpc.state.tool_memory import SessionMemory, ToolMemory

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
