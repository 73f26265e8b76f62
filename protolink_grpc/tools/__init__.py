"""Typed Python functions as tools: schema, validation and bounded execution."""

from protolink_grpc.tools.context import Progress, ToolContext
from protolink_grpc.tools.runner import ToolRunner
from protolink_grpc.tools.tool import ActionBuilder, BaseTool, Tool
from protolink_grpc.tools.toolbox import Toolbox

__all__ = ["ActionBuilder", "BaseTool", "Progress", "Tool", "ToolContext", "ToolRunner", "Toolbox"]
