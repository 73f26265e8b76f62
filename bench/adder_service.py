"""A servicer of `adder.proto`, whose stubs are made when this module is imported."""

from typing import Any

import grpc

from protolink_grpc import rpc

pb: Any
pb_grpc: Any
pb, pb_grpc = grpc.protos_and_services("bench/adder.proto")


class AdderServicer(pb_grpc.AdderServicer):  # type: ignore[misc]  # generated at run time
    """Served by an agent, and by a bare server of grpcio."""

    @rpc(tool=False)
    async def Add(self, request: Any, context: Any) -> Any:
        return pb.AddResponse(result=request.a + request.b)

    @rpc(durable=False)
    async def AddDirect(self, request: Any, context: Any) -> Any:
        return pb.AddDirectResponse(result=request.a + request.b)
