"""`mcp`: an agent as the MCP server of the program that started this one."""

import sys

from protolink_grpc.cli import output
from protolink_grpc.cli.connect import run
from protolink_grpc.cli.failure import CommandError
from protolink_grpc.cli.load import load_agent
from protolink_grpc.storage import SQLiteStore


def serve_mcp(target: str, store: str) -> None:
    """Serve the agent at `module:attribute` until the input ends. Its ports are not opened.

    Args:
        store: File of the tasks; empty leaves the agent's own store unchanged.
    """
    agent = load_agent(target)
    if store:
        try:
            agent.relocate(store=SQLiteStore(store))
        except RuntimeError:
            raise CommandError(
                f"{target} is already running", hint="do not start it in its module; plgrpc mcp starts it"
            ) from None
    if sys.stdin.isatty():
        output.note(
            "note", "MCP clients start this command; it reads MCP messages from standard input, and Ctrl-D ends it"
        )
    run(agent.serve_mcp(), "")
