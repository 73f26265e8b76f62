"""The module of `Agent` in ProtoLink's documents. The code is in `agent`."""

from protolink_grpc.agent import Agent

__all__ = ["Agent"]
