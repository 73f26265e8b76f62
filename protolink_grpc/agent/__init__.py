"""What a user writes: agents and registries."""

from protolink_grpc.agent.agent import Agent
from protolink_grpc.agent.peers import AgentPeer
from protolink_grpc.agent.registry import Registry

__all__ = ["Agent", "AgentPeer", "Registry"]
