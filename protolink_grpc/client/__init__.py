"""Clients of agents and registries, with the same methods over every protocol."""

from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.client.port import TaskList, TaskSummary
from protolink_grpc.client.registry_client import RegistryClient

__all__ = ["AgentClient", "RegistryClient", "TaskList", "TaskSummary"]
