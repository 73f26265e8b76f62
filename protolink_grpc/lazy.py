"""Objects that are imported by name when they are first needed. It keeps heavy libraries, and upper layers, out of an import."""

from functools import cache
from importlib import import_module
from typing import Any


@cache
def load(name: str) -> Any:
    """The object named `module:attribute`, for instance `"protolink_grpc.client.grpc_agent:GrpcAgent"`. Its module is imported."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
