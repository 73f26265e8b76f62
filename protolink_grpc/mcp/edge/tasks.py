"""The tasks extension of MCP: a call that takes long is a task of the agent with the same id. It imports the SDK.

Source: https://github.com/modelcontextprotocol/ext-tasks (`io.modelcontextprotocol/tasks`, for the protocol of 2026-07-28).
"""

from typing import Any

from mcp import MCPError
from mcp.types import RequestParams
from mcp.types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.fold import TaskFold

EXTENSION = "io.modelcontextprotocol/tasks"

POLL_INTERVAL_MS = 1000
"""Suggested interval between two reads of a task, in milliseconds."""


class TaskParams(RequestParams):  # type: ignore[misc]  # the SDK is an extra, whose types are not read
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateTaskParams(TaskParams):
    """The parameters of `tasks/update`.

    Args:
        input_responses: Responses by the keys of the requests.
    """

    input_responses: dict[str, Any]


def takes_tasks(context: Any) -> bool:
    """Return whether the client of a request (`mcp.server.ServerRequestContext`) declares the extension in it."""
    capabilities = context.session.client_capabilities
    return (
        context.protocol_version in MODERN_PROTOCOL_VERSIONS
        and capabilities is not None
        and EXTENSION in (capabilities.extensions or {})
    )


def missing_extension_error() -> MCPError:
    """Return the error of a request about a task by a client that does not declare the extension."""
    data: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    return MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, f"the client does not declare the extension {EXTENSION}", data)


def created_task(fold: TaskFold, status: str) -> dict[str, Any]:
    """Return the result of a call that continues as a task (CreateTaskResult)."""
    return {"resultType": "task", **_task(fold, status)}


def detailed_task(fold: TaskFold, status: str, **more: Any) -> dict[str, Any]:
    """Return the result of `tasks/get`.

    Args:
        more: `inputRequests`, `result` or `error`, as the status requires.
    """
    return {"resultType": "complete", **_task(fold, status), **more}


def _task(fold: TaskFold, status: str) -> dict[str, Any]:
    shown = {
        "taskId": fold.task_id,
        "status": status,
        "createdAt": iso_from_micros(fold.create_micros),
        "lastUpdatedAt": iso_from_micros(fold.update_micros),
        "ttlMs": None,  # the log of a task has no end
        "pollIntervalMs": POLL_INTERVAL_MS,
    }
    return shown | ({"statusMessage": fold.reason} if fold.reason else {})
