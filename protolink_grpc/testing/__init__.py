"""For tests of what speaks to agents: a scripted agent, and the conformance cases that clients in every language run."""

from protolink_grpc.testing.directives import VERBS
from protolink_grpc.testing.scripted_agent import ScriptedAgent
from protolink_grpc.testing.stage import Stage, open_stage

__all__ = ["VERBS", "ScriptedAgent", "Stage", "open_stage"]
