"""Flows: work on a task in an order that the code decides, recorded and resumed like any other run."""

from protolink_grpc.flows.description import FlowDescription
from protolink_grpc.flows.flow import Flow
from protolink_grpc.flows.graph import Graph
from protolink_grpc.flows.parallel import Parallel
from protolink_grpc.flows.pipeline import Pipeline
from protolink_grpc.flows.repeat import RepeatUntil
from protolink_grpc.flows.router import Router
from protolink_grpc.flows.steps import FlowTarget, Step, ToolStep

__all__ = [
    "Flow",
    "FlowDescription",
    "FlowTarget",
    "Graph",
    "Parallel",
    "Pipeline",
    "RepeatUntil",
    "Router",
    "Step",
    "ToolStep",
]
