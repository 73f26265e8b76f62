"""Users' own protobuf services: generated servicers whose calls are runs of the agent. Ports are opened elsewhere."""

from protolink_grpc.services.definition import rpc

__all__ = ["rpc"]
