"""The result of a tool call, from its recorded output or from the artifacts of its task."""

from collections.abc import Iterable
from typing import Any

from protolink_grpc.errors import (
    BudgetExceededError,
    ProtolinkError,
    ToolError,
    ToolFailedError,
    ToolRejectedError,
    classes,
)
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.failure import Failure, FailureCategory
from protolink_grpc.models.part import ToolOutput


def require_result(output: ToolOutput, task_id: str) -> Any:
    """The result of a tool call. Raises its error, with the task's id in the metadata, if the call failed."""
    if output.error is not None:
        error = recorded_error(output.error)
        error.metadata.setdefault("task_id", task_id)
        raise error
    return output.result


def find_tool_output(artifacts: Iterable[Artifact]) -> ToolOutput | None:
    """The output of the tool among the artifacts of its task, or None."""
    for artifact in artifacts:
        for part in artifact.parts:
            if isinstance(part.content, ToolOutput):
                return part.content
    return None


def recorded_error(value: Any) -> ProtolinkError:
    """The exception for the `error` of a recorded action, with the origin and the cause of its failure."""
    found = value if isinstance(value, dict) else {}
    return with_failure(_build_error(found, str(found.get("message", value))), Failure.from_value(value))


def _build_error(found: dict[str, Any], message: str) -> ProtolinkError:
    if found.get("status") == "rejected":
        return ToolRejectedError.from_dict(found)
    kind = classes().get(str(found.get("code")), ToolFailedError)
    return kind(message) if issubclass(kind, ToolError | BudgetExceededError) else ToolFailedError(message)


def with_failure(error: ProtolinkError, failure: Failure) -> ProtolinkError:
    """Set the facts of a recorded failure that are no part of the sentence of its error, and return the error."""
    error.origin, error.failure, error.retry_after_s = failure.origin, failure.cause, failure.retry_delay_s
    if isinstance(error, ToolFailedError):
        error.is_of_peer = failure.category == FailureCategory.PEER
    return error
