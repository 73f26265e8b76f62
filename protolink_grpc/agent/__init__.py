"""Agents and registries: the classes that users create."""

from protolink_grpc.agent.agent import Agent
from protolink_grpc.agent.agent_peer import AgentPeer
from protolink_grpc.agent.config import (
    MemoryConfig,
    ModelConfig,
    PeerConfig,
    RuntimeConfig,
    SafetyConfig,
    ServingConfig,
    ToolConfig,
)
from protolink_grpc.agent.registry import Registry

__all__ = [
    "Agent",
    "AgentPeer",
    "MemoryConfig",
    "ModelConfig",
    "PeerConfig",
    "Registry",
    "RuntimeConfig",
    "SafetyConfig",
    "ServingConfig",
    "ToolConfig",
]
