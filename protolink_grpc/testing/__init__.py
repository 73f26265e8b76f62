"""Test support for code that calls agents: a scripted agent, and the conformance cases for clients in every language."""

from protolink_grpc.testing.directives import VERBS
from protolink_grpc.testing.scripted_agent import ScriptedAgent
from protolink_grpc.testing.stage import Stage, open_stage

__all__ = ["VERBS", "ScriptedAgent", "Stage", "open_stage"]
