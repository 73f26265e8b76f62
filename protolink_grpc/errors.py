"""The exceptions that this package raises on purpose, and the table of their gRPC, HTTP and JSON-RPC codes.

No network or disk access lives here; `wire.status` converts these exceptions to `google.rpc.Status` and back.

    ProtolinkError
    ├── InvalidArgumentError (ValueError)      the request is invalid; a retry cannot succeed
    │   ├── InvalidTransitionError             the lifecycle does not allow this change of state
    │   └── MessageTooLargeError               a message, part or list is over its limit
    ├── TaskNotFoundError (LookupError)        the task does not exist, or belongs to another principal
    ├── TaskAlreadyExistsError                 a new task has the id of an existing task
    ├── TaskFinishedError                      the task is terminal and accepts no more messages
    ├── TaskAlreadyRunningError                the task is already working; wait or cancel
    ├── TaskNotCancelableError                 the task is terminal
    ├── TaskExecutionError                     client side: the task ended failed, canceled or rejected
    ├── SequenceOutOfRangeError                the requested position is after the end of the log
    ├── PositionCompactedError                 the log no longer has the requested events
    ├── AgentNotFoundError (LookupError)       the registry or the process has no such agent
    ├── AgentConflictError                     the name or URL is registered to another principal
    ├── AmbiguousAgentError                    a name matches several agents
    ├── LeaseNotFoundError                     the lease is unknown or expired: register again
    ├── ToolError
    │   ├── ToolRejectedError                  the arguments or the tool name are invalid; nothing was executed
    │   ├── ToolTimeoutError (TimeoutError)    the tool exceeded its timeout
    │   └── ToolFailedError                    the tool raised, or its result cannot be serialised
    ├── ToolCorrectionLimitError               too many calls of one tool in a row were rejected
    ├── ActionPolicyError                      an action may not run
    │   ├── ActionDeniedError                  a policy denied the action
    │   │   └── ApprovalDeniedError            an approver denied the action, or its approval expired
    │   └── ApprovalRequiredError              the action needs an approval that cannot be obtained
    ├── ApprovalNotFoundError (LookupError)    the approval does not exist, or the caller has no access
    ├── ApprovalChangedError (ValueError)      the answer belongs to another action than the pending one
    ├── UncertainExecutionError                an action started before a crash, and its outcome is unknown
    ├── BudgetExceededError                    a limit of the run is reached
    ├── DelegationCycleError                   the work has passed through this agent before
    ├── SessionNotFoundError (LookupError)     nothing is stored for the session, or another principal owns it
    ├── ThreadNotFoundError (LookupError)      the session has no such thread
    ├── TurnNotFoundError (LookupError)        the session has no such turn
    ├── ThreadBusyError                        the thread has an active turn, and the new one was not to wait
    ├── TurnNotQueuedError                     the turn has left the queue
    ├── TaskStartedError                       the task has started, and the request is for tasks that have not
    ├── LinkCycleError                         the task would wait for itself, or be a part of itself
    ├── ModelError                             a call of a language model failed
    │   ├── ModelUnavailableError              the model is unreachable or overloaded
    │   │   └── ModelRateLimitedError          the provider limits the rate of requests or tokens
    │   └── ModelTimeoutError (TimeoutError)   the model did not answer in time
    ├── InferParseError                        a model's answers could not be parsed
    ├── RepeatedActionError                    a model repeated an action that keeps giving the same result
    ├── ContextLimitError                      the prompt does not fit the model's window
    ├── UnauthenticatedError
    ├── PermissionDeniedError
    ├── ResourceExhaustedError                 a queue or quota is full; retry after `retry_after_s`
    ├── DeadlineExceededError (TimeoutError)   the deadline passed before the work was done
    ├── RequestTimeoutError (TimeoutError)     the caller did not send its whole request in time
    ├── UnavailableError (ConnectionError)     the peer could not be reached, or is draining
    ├── UnimplementedError                     the method is in the contract but not implemented yet
    ├── UnsupportedOperationError              A2A: the agent, or the task in its state, does not support this
    ├── ContentTypeNotSupportedError           A2A: the card does not list the media type
    ├── PushNotSupportedError                  A2A: the agent sends no push notifications
    ├── ExtendedCardNotConfiguredError         A2A: the agent has no extended card
    ├── ExtensionRequiredError                 A2A: the request does not name an extension that the agent requires
    ├── VersionNotSupportedError               A2A: the protocol version is not supported
    ├── InvalidAgentResponseError              A2A: the response of a peer is invalid
    ├── AddressInUseError (OSError)            the port to listen on is taken
    ├── StoreError
    │   ├── SequenceConflictError              another writer appended first, or the expected last event differs
    │   ├── LeaseLostError                     another process owns the task now
    │   ├── StoreVersionError                  the file was written by a newer version
    │   ├── LogTooNewError                     the log has an event that this version cannot read and must not skip
    │   ├── StoreReadOnlyError
    │   └── StoreFullError
    ├── RemoteError                            client side: the reason is unknown to this version
    └── InternalError                          a fault of the server; carries only an incident id
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

DOMAIN = "protolink-grpc.github.io"
"""`google.rpc.ErrorInfo.domain` of every reason in `RULES`."""


class ProtolinkError(Exception):
    """Base of every exception this package raises on purpose.

    `str(error)` reaches the caller: one sentence, no secrets, no internals.
    `metadata` repeats each dynamic value of that sentence for programs; keys are snake_case, values are text.
    """

    reason: ClassVar[str] = ""

    retry_after_s: float | None = None
    """Minimum delay in seconds before a retry, as requested by the receiver; None means not stated."""

    origin: str = ""
    """Tool, peer or model provider that failed; empty for any other error."""

    failure: Any = None
    """The `models.Failure` of the task that caused this error; None if no task failed."""

    action_id: str = ""
    """The action of a run that failed with this error; empty for any other error."""

    def __init__(self, message: str, **metadata: str) -> None:
        super().__init__(message)
        self.metadata: dict[str, str] = metadata

    @property
    def rule(self) -> "Rule":
        """Codes of this error in gRPC, HTTP and JSON-RPC."""
        return RULES[self.reason]


def error_text(error: BaseException) -> str:
    """Return the text of an exception, with characters escaped that UTF-8 cannot encode, for instance from a file name."""
    try:
        return escape_surrogates(str(error))
    except Exception:  # `__str__` itself raised; the error is reported nevertheless
        return "(the text of this error cannot be read)"


def escape_surrogates(text: str) -> str:
    """Return the text with lone surrogates escaped, because UTF-8 cannot encode them."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


class InvalidArgumentError(ProtolinkError, ValueError):
    """The request is invalid. `metadata["field"]` is the path of the invalid field in the caller's spelling."""

    reason = "INVALID_ARGUMENT"

    def __init__(self, message: str, *, field: str = "", **metadata: str) -> None:
        if field:
            metadata["field"] = field
        super().__init__(f"{field}: {message}" if field else message, **metadata)
        self.field = field
        self.detail = message

    def within(self, prefix: str) -> "InvalidArgumentError":
        """Return this error with `prefix` in front of its field path."""
        joined = f"{prefix}.{self.field}" if self.field and not self.field.startswith("[") else prefix + self.field
        rest = {key: value for key, value in self.metadata.items() if key != "field"}
        return type(self)(self.detail, field=joined, **rest)


class InvalidTransitionError(InvalidArgumentError):
    """A task cannot change from its state to the requested one. Read its state again."""

    reason = "INVALID_TRANSITION"


class MessageTooLargeError(InvalidArgumentError):
    """A message, part or list is larger than its limit. Send less."""

    reason = "MESSAGE_TOO_LARGE"


class TaskNotFoundError(ProtolinkError, LookupError):
    """The task does not exist, or belongs to another principal. Check the id; do not retry."""

    reason = "TASK_NOT_FOUND"


class TaskAlreadyExistsError(ProtolinkError):
    """A task with the id of the new task exists already; it may belong to any principal.

    Continue that task, or choose another id.
    """

    reason = "TASK_ALREADY_EXISTS"


class TaskFinishedError(ProtolinkError):
    """The task has ended and accepts no more messages. Send a new task."""

    reason = "TASK_FINISHED"


class TaskAlreadyRunningError(ProtolinkError):
    """The task is working and accepts no message now. Wait until its turn ends, or cancel it."""

    reason = "TASK_ALREADY_RUNNING"


class TaskNotCancelableError(ProtolinkError):
    """The task has already ended and cannot be canceled. Read its state."""

    reason = "TASK_NOT_CANCELABLE"


class TaskExecutionError(ProtolinkError):
    """A task ended without success. `task` is the final Task, `failure` its recorded reason."""

    reason = "TASK_FAILED"

    def __init__(self, message: str, *, task: Any = None, **metadata: str) -> None:
        super().__init__(message, **metadata)
        self.task = task
        if task is not None:
            self.failure = task.known_failure()


class SequenceOutOfRangeError(ProtolinkError):
    """The position to read from is after the end of the task's log. Start from the last sequence that was received."""

    reason = "SEQUENCE_OUT_OF_RANGE"


class PositionCompactedError(ProtolinkError):
    """The log begins after the requested position. Read the task and continue after its sequence.

    The stores of this version never drop events.
    """

    reason = "POSITION_COMPACTED"


class AgentNotFoundError(ProtolinkError, LookupError):
    """No agent with that name or URL is registered. Check the name, or wait until the agent is registered."""

    reason = "AGENT_NOT_FOUND"


class AgentConflictError(ProtolinkError):
    """The name or URL is registered to another principal. Choose another one."""

    reason = "AGENT_CONFLICT"


class AmbiguousAgentError(ProtolinkError):
    """Several agents have that name. Address the agent by its URL."""

    reason = "AGENT_AMBIGUOUS"


class LeaseNotFoundError(ProtolinkError):
    """The registration's lease is unknown or has expired. Register again."""

    reason = "LEASE_NOT_FOUND"


class ToolError(ProtolinkError):
    """A tool call failed."""

    reason = "TOOL_ERROR"


class ToolRejectedError(ToolError):
    """The call was rejected before it was executed: `changes_made` is always false.

    Args:
        code: Machine-readable kind, for instance `invalid_arguments` or `unknown_tool`.
        details: JSON-compatible facts about the rejection.
        suggestion: A way to correct the call, one sentence.
    """

    reason = "TOOL_REJECTED"

    def __init__(
        self,
        message: str,
        *,
        code: str = "rejected",
        details: dict[str, Any] | None = None,
        suggestion: str | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.code = code
        self.details = details or {}
        self.suggestion = suggestion

    @classmethod
    def from_dict(cls, data: dict[str, Any], *, source: str = "") -> "ToolRejectedError":
        """Read the output of `to_dict`; values of an unexpected type are ignored.

        Args:
            source: Name of the rejecting party, put before the message; empty adds nothing.
        """
        message, details, suggestion = data.get("message") or "rejected", data.get("details"), data.get("suggestion")
        return cls(
            f"{source}: {message}" if source else str(message),
            code=str(data.get("code") or "rejected"),
            details=details if isinstance(details, dict) else None,
            suggestion=suggestion if isinstance(suggestion, str) else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the `tool_output.error` object, in the form that peers of every version read."""
        return {
            "status": "rejected",
            "changes_made": False,
            "code": self.code,
            "message": str(self),
            "details": self.details,
            "suggestion": self.suggestion,
        }


class ToolTimeoutError(ToolError, TimeoutError):
    """The tool timed out; it may have had effects. Check them before retrying the call."""

    reason = "TOOL_TIMEOUT"


class ToolFailedError(ToolError):
    """A tool's code raised, or its result cannot be used.

    Attributes:
        is_reported: This process has logged the error, and its text contains only what the caller may see.
        is_of_peer: The failed work was delegated to another agent.
    """

    reason = "TOOL_FAILED"
    is_reported = False
    is_of_peer = False


class ToolCorrectionLimitError(ProtolinkError):
    """Too many calls of one tool by a model were rejected in a row.

    Args:
        attempts: Rejected calls in a row.
        limit: Rejected calls that the run allows.
        last_error: The last rejection, a ToolRejectedError.
    """

    reason = "TOOL_CORRECTION_LIMIT"

    def __init__(self, message: str, *, tool_name: str = "", attempts: int = 0, limit: int = 0, last_error: Any = None):
        super().__init__(message, tool_name=tool_name, attempts=str(attempts), limit=str(limit))
        self.tool_name = tool_name
        self.attempts = attempts
        self.limit = limit
        self.last_error = last_error


class ActionPolicyError(ProtolinkError):
    """An action may not run. No part of it was executed."""

    reason = "ACTION_FORBIDDEN"


class ActionDeniedError(ActionPolicyError):
    """A policy denied the action. The subclass ApprovalDeniedError means that an approver denied it.

    Args:
        action: The RunAction.
        decision: The PolicyDecision.
        approval: The ApprovalDecision if the policy required an approval.
    """

    reason = "ACTION_DENIED"

    def __init__(
        self, message: str, *, action: Any = None, decision: Any = None, approval: Any = None, **metadata: str
    ) -> None:
        super().__init__(message, **metadata)
        self.action = action
        self.decision = decision
        self.approval = approval


class ApprovalDeniedError(ActionDeniedError):
    """An approver denied the action, or its approval expired. `approval` is the ApprovalDecision."""

    reason = "APPROVAL_DENIED"


class ApprovalRequiredError(ActionPolicyError):
    """An action needs an approval that cannot be obtained: no approval handler is set, and callers cannot answer either.

    `request` is the ApprovalRequest.
    """

    reason = "APPROVAL_REQUIRED"

    def __init__(self, message: str, *, request: Any = None, **metadata: str) -> None:
        super().__init__(message, **metadata)
        self.request = request


class ApprovalNotFoundError(ProtolinkError, LookupError):
    """The approval does not exist, or the caller may not see it. List the open approvals."""

    reason = "APPROVAL_NOT_FOUND"


class ApprovalChangedError(ProtolinkError, ValueError):
    """The decision is about another version of the action than the one that waits. Read the approval again and decide again."""

    reason = "APPROVAL_CHANGED"


class UncertainExecutionError(ProtolinkError):
    """The action was started and its outcome is unknown. Check its effects before repeating it."""

    reason = "UNCERTAIN_EXECUTION"


class BudgetExceededError(ProtolinkError):
    """A limit of the run is reached; the work above the limit was not started. `decision` is the BudgetDecision."""

    reason = "BUDGET_EXCEEDED"

    def __init__(self, message: str, *, decision: Any = None, **metadata: str) -> None:
        super().__init__(message, **metadata)
        self.decision = decision


class DelegationCycleError(ProtolinkError):
    """The delegation would form a cycle: this agent is already in the delegation chain, or the run would wait for itself.

    Delegate to another agent.
    """

    reason = "DELEGATION_CYCLE"


class SessionNotFoundError(ProtolinkError, LookupError):
    """Nothing is stored for the session, or it belongs to another principal. Check the id."""

    reason = "SESSION_NOT_FOUND"


class ThreadNotFoundError(ProtolinkError, LookupError):
    """The session has no thread with this id. Start it with StartThread, or check the id."""

    reason = "THREAD_NOT_FOUND"


class TurnNotFoundError(ProtolinkError, LookupError):
    """The session has no turn with this id. Check the id; do not retry."""

    reason = "TURN_NOT_FOUND"


class ThreadBusyError(ProtolinkError):
    """The thread has an active turn, and the new one was not to wait for it; `policy` has the policy."""

    reason = "THREAD_BUSY"


class TurnNotQueuedError(ProtolinkError):
    """The turn is not in the queue any more: it has started or ended. Read the session."""

    reason = "TURN_NOT_QUEUED"


class TaskStartedError(ProtolinkError):
    """The task has started, and the request is only for tasks that have not. Read the task."""

    reason = "TASK_STARTED"


class LinkCycleError(ProtolinkError):
    """The link would make a task wait for itself, or be a part of itself. Remove another link first."""

    reason = "LINK_CYCLE"


class ModelError(ProtolinkError):
    """A call of a language model failed. `retry_after_s` is the provider's hint in seconds; None means no hint."""

    reason = "MODEL_FAILED"

    def __init__(self, message: str, *, retry_after_s: float | None = None, **metadata: str) -> None:
        super().__init__(message, **metadata)
        self.retry_after_s = retry_after_s


class ModelUnavailableError(ModelError):
    """The model is overloaded or unreachable; a later retry may succeed."""

    reason = "MODEL_UNAVAILABLE"


@dataclass(frozen=True, slots=True)
class ReportedRateLimit:
    """One rate limit of a model provider, as it has reported it. None means not reported.

    Args:
        unit: `requests`, `tokens`, `input_tokens`, `output_tokens`, or another name of the provider; empty if it is not stated.
        limit: Number of units that are allowed in the provider's period.
        remaining: Number of units that are left in the period.
        reset_s: Seconds until the whole limit is available again, counted from the response.
    """

    unit: str = ""
    limit: int | None = None
    remaining: int | None = None
    reset_s: float | None = None


class ModelRateLimitedError(ModelUnavailableError):
    """The provider limits the rate of requests or tokens; a retry after `retry_after_s` may succeed.

    Args:
        limits: The limits that the provider has reported.
    """

    reason = "MODEL_RATE_LIMITED"

    def __init__(
        self,
        message: str,
        *,
        retry_after_s: float | None = None,
        limits: Sequence[ReportedRateLimit] = (),
        **metadata: str,
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s, **metadata)
        self.limits = tuple(limits)


class ModelTimeoutError(ModelError, TimeoutError):
    """The language model timed out. Retry, or allow more time."""

    reason = "MODEL_TIMEOUT"


class InferParseError(ProtolinkError):
    """Too many answers of a model in a row could not be parsed as an action.

    Args:
        attempts: Unparsable answers in a row.
        step: Step of the loop, from 1.
        raw_response: The last answer.
        last_error: The parse error of the last answer.
        explanation: A possible remedy.
    """

    reason = "INFER_PARSE_FAILED"

    def __init__(
        self,
        message: str,
        *,
        attempts: int = 0,
        step: int = 0,
        raw_response: str = "",
        last_error: str = "",
        explanation: str = "",
    ) -> None:
        super().__init__(message, attempts=str(attempts), step=str(step))
        self.attempts = attempts
        self.step = step
        self.raw_response = raw_response
        self.last_error = last_error
        self.explanation = explanation


class RepeatedActionError(ProtolinkError):
    """A model was stopped because it repeated the same actions with the same results. Change the instructions or the tools."""

    reason = "ACTION_REPEATED"


class ContextLimitError(ProtolinkError):
    """The prompt does not fit into the model's context window. Shorten the conversation, or use another model."""

    reason = "CONTEXT_LIMIT"


class UnauthenticatedError(ProtolinkError):
    """The credentials are missing, expired or wrong. Send valid ones."""

    reason = "UNAUTHENTICATED"


class PermissionDeniedError(ProtolinkError):
    """The principal is authenticated but not authorized. Ask the operator for access."""

    reason = "PERMISSION_DENIED"


class ResourceExhaustedError(ProtolinkError):
    """A queue or quota is full. `retry_after_s` is a hint in seconds, not a guarantee."""

    reason = "RESOURCE_EXHAUSTED"

    retry_after_s: float

    def __init__(self, message: str, *, retry_after_s: float = 1.0, **metadata: str) -> None:
        super().__init__(message, **metadata)
        self.retry_after_s = retry_after_s


class DeadlineExceededError(ProtolinkError, TimeoutError):
    """The deadline passed before the work was done; the task continues. Read it later by its id."""

    reason = "DEADLINE_EXCEEDED"


class RequestTimeoutError(ProtolinkError, TimeoutError):
    """The request was not received completely in time. Check the connection, then retry."""

    reason = "REQUEST_TIMEOUT"


class UnavailableError(ProtolinkError, ConnectionError):
    """The agent is unreachable or shutting down. Retry with the same request id and backoff."""

    reason = "UNAVAILABLE"


class UnimplementedError(ProtolinkError):
    """The agent does not implement this method or option. Do not use it with this agent."""

    reason = "UNIMPLEMENTED"


class UnsupportedOperationError(ProtolinkError):
    """The operation is not supported by the agent, or not in the task's current state. Read the agent's card."""

    reason = "UNSUPPORTED_OPERATION"


class ContentTypeNotSupportedError(ProtolinkError):
    """The agent does not accept the media type. Use one that its card lists."""

    reason = "CONTENT_TYPE_NOT_SUPPORTED"


class PushNotSupportedError(ProtolinkError):
    """The agent sends no push notifications. Stream the task, or poll it."""

    reason = "PUSH_NOTIFICATION_NOT_SUPPORTED"


class ExtendedCardNotConfiguredError(ProtolinkError):
    """There is no extended card for this caller. Use the public card."""

    reason = "EXTENDED_AGENT_CARD_NOT_CONFIGURED"


class ExtensionRequiredError(ProtolinkError):
    """The agent requires an extension that the request does not declare. Implement and declare it."""

    reason = "EXTENSION_SUPPORT_REQUIRED"


class VersionNotSupportedError(ProtolinkError):
    """The agent does not support that version of A2A. Use one that its card lists."""

    reason = "VERSION_NOT_SUPPORTED"


class InvalidAgentResponseError(ProtolinkError):
    """Another agent's response is invalid, or its card's signature is not trusted. Report it to that agent's operator."""

    reason = "INVALID_AGENT_RESPONSE"


class AddressInUseError(ProtolinkError, OSError):
    """The port to listen on is in use or not permitted. Choose another port."""

    reason = "ADDRESS_IN_USE"


class StoreError(ProtolinkError):
    """A store operation failed."""

    reason = "STORE_UNAVAILABLE"


class SequenceConflictError(StoreError):
    """The log does not end with the expected event: another writer appended first, or `expected_sequence` is outdated.

    Read the task, then decide whether to send the request for its current state.
    """

    reason = "SEQUENCE_CONFLICT"


class LeaseLostError(StoreError):
    """Another process runs the task now. Retry."""

    reason = "LEASE_LOST"


class StoreVersionError(StoreError):
    """The store's file has a version that this agent cannot read. Start an agent of a matching version."""

    reason = "STORE_VERSION"


class LogTooNewError(StoreError):
    """A log has an event that only a later version can read and that must not be skipped; `task_id` names the log."""

    reason = "LOG_TOO_NEW"


class StoreReadOnlyError(StoreError):
    """The agent's store is read-only. Retry after the operator has repaired it."""

    reason = "STORE_READ_ONLY"


class StoreFullError(StoreError):
    """The agent's store has no space left. Retry after the operator has freed space."""

    reason = "STORE_FULL"


class RemoteError(ProtolinkError):
    """A peer returned a reason that has no class in this version; `remote_reason` holds it.

    `code` is gRPC's. DATA_LOSS without a reason is the client's own error: an event is missing in a stream.
    """

    reason = "REMOTE_ERROR"

    def __init__(self, message: str, *, remote_reason: str = "", code: str = "UNKNOWN", **metadata: str) -> None:
        super().__init__(message, **metadata)
        self.remote_reason = remote_reason
        self.code = code


class InternalError(ProtolinkError):
    """Internal error of the agent. Report the incident id, which is in the metadata, to its operator."""

    reason = "INTERNAL"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of `RULES`.

    Args:
        grpc: Name of the gRPC status code.
        http: HTTP status.
        jsonrpc: JSON-RPC error code; the code of A2A if A2A defines one.
        retryable: Whether the same, unchanged request may succeed later.
    """

    grpc: str
    http: int
    jsonrpc: int
    retryable: bool = False


# Source: A2A v1.0.1 section 5.4 where A2A has a row, AIP-193 otherwise.
RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "INVALID_ARGUMENT": Rule("INVALID_ARGUMENT", 400, -32602),
        "INVALID_TRANSITION": Rule("FAILED_PRECONDITION", 400, -32004),
        "MESSAGE_TOO_LARGE": Rule("INVALID_ARGUMENT", 413, -32602),
        "TASK_NOT_FOUND": Rule("NOT_FOUND", 404, -32001),
        "TASK_ALREADY_EXISTS": Rule("ALREADY_EXISTS", 409, -32602),
        "TASK_FINISHED": Rule("FAILED_PRECONDITION", 400, -32004),
        "TASK_ALREADY_RUNNING": Rule("FAILED_PRECONDITION", 400, -32004),
        "TASK_NOT_CANCELABLE": Rule("FAILED_PRECONDITION", 400, -32002),
        "TASK_FAILED": Rule("ABORTED", 500, -32603),
        "SEQUENCE_OUT_OF_RANGE": Rule("OUT_OF_RANGE", 400, -32602),
        "POSITION_COMPACTED": Rule("OUT_OF_RANGE", 400, -32602),
        "AGENT_NOT_FOUND": Rule("NOT_FOUND", 404, -32602),
        "AGENT_CONFLICT": Rule("ALREADY_EXISTS", 409, -32602),
        "AGENT_AMBIGUOUS": Rule("FAILED_PRECONDITION", 400, -32602),
        "LEASE_NOT_FOUND": Rule("NOT_FOUND", 404, -32602),
        "TOOL_ERROR": Rule("ABORTED", 500, -32603),
        "TOOL_REJECTED": Rule("INVALID_ARGUMENT", 400, -32602),
        "TOOL_TIMEOUT": Rule("ABORTED", 500, -32603),
        "TOOL_FAILED": Rule("ABORTED", 500, -32603),
        "TOOL_CORRECTION_LIMIT": Rule("ABORTED", 500, -32603),
        "ACTION_FORBIDDEN": Rule("PERMISSION_DENIED", 403, -32600),
        "ACTION_DENIED": Rule("PERMISSION_DENIED", 403, -32600),
        "APPROVAL_DENIED": Rule("FAILED_PRECONDITION", 403, -32600),
        "APPROVAL_REQUIRED": Rule("FAILED_PRECONDITION", 403, -32600),
        "APPROVAL_NOT_FOUND": Rule("NOT_FOUND", 404, -32602),
        "APPROVAL_CHANGED": Rule("FAILED_PRECONDITION", 409, -32602),
        "UNCERTAIN_EXECUTION": Rule("ABORTED", 500, -32603),
        "BUDGET_EXCEEDED": Rule("FAILED_PRECONDITION", 429, -32603),
        "DELEGATION_CYCLE": Rule("FAILED_PRECONDITION", 400, -32602),
        "SESSION_NOT_FOUND": Rule("NOT_FOUND", 404, -32602),
        "THREAD_NOT_FOUND": Rule("NOT_FOUND", 404, -32602),
        "TURN_NOT_FOUND": Rule("NOT_FOUND", 404, -32602),
        "THREAD_BUSY": Rule("FAILED_PRECONDITION", 409, -32602),
        "TURN_NOT_QUEUED": Rule("FAILED_PRECONDITION", 409, -32602),
        "TASK_STARTED": Rule("FAILED_PRECONDITION", 409, -32602),
        "LINK_CYCLE": Rule("FAILED_PRECONDITION", 409, -32602),
        "MODEL_FAILED": Rule("ABORTED", 502, -32603),
        "MODEL_UNAVAILABLE": Rule("UNAVAILABLE", 503, -32603, retryable=True),
        "MODEL_RATE_LIMITED": Rule("UNAVAILABLE", 503, -32603, retryable=True),
        "MODEL_TIMEOUT": Rule("ABORTED", 504, -32603, retryable=True),
        "INFER_PARSE_FAILED": Rule("ABORTED", 500, -32603),
        "ACTION_REPEATED": Rule("ABORTED", 500, -32603),
        "CONTEXT_LIMIT": Rule("FAILED_PRECONDITION", 400, -32603),
        "UNAUTHENTICATED": Rule("UNAUTHENTICATED", 401, -32600),
        "PERMISSION_DENIED": Rule("PERMISSION_DENIED", 403, -32600),
        "RESOURCE_EXHAUSTED": Rule("RESOURCE_EXHAUSTED", 429, -32603, retryable=True),
        "DEADLINE_EXCEEDED": Rule("DEADLINE_EXCEEDED", 504, -32603, retryable=True),
        "REQUEST_TIMEOUT": Rule("DEADLINE_EXCEEDED", 408, -32600),
        "UNAVAILABLE": Rule("UNAVAILABLE", 503, -32603, retryable=True),
        "UNIMPLEMENTED": Rule("UNIMPLEMENTED", 501, -32004),
        "UNSUPPORTED_OPERATION": Rule("FAILED_PRECONDITION", 400, -32004),
        "CONTENT_TYPE_NOT_SUPPORTED": Rule("INVALID_ARGUMENT", 400, -32005),
        "PUSH_NOTIFICATION_NOT_SUPPORTED": Rule("FAILED_PRECONDITION", 400, -32003),
        "EXTENDED_AGENT_CARD_NOT_CONFIGURED": Rule("FAILED_PRECONDITION", 400, -32007),
        "EXTENSION_SUPPORT_REQUIRED": Rule("FAILED_PRECONDITION", 400, -32008),
        "VERSION_NOT_SUPPORTED": Rule("FAILED_PRECONDITION", 400, -32009),
        "INVALID_AGENT_RESPONSE": Rule("INTERNAL", 500, -32006),
        "ADDRESS_IN_USE": Rule("FAILED_PRECONDITION", 500, -32603),
        "STORE_UNAVAILABLE": Rule("UNAVAILABLE", 503, -32603, retryable=True),
        "SEQUENCE_CONFLICT": Rule("ABORTED", 409, -32603),
        "LEASE_LOST": Rule("ABORTED", 409, -32603, retryable=True),
        "STORE_VERSION": Rule("FAILED_PRECONDITION", 500, -32603),
        "LOG_TOO_NEW": Rule("FAILED_PRECONDITION", 500, -32603),
        # Not RESOURCE_EXHAUSTED: that code means the caller's own quota, and these are outages of the server.
        "STORE_READ_ONLY": Rule("UNAVAILABLE", 503, -32603, retryable=True),
        "STORE_FULL": Rule("UNAVAILABLE", 503, -32603, retryable=True),
        "REMOTE_ERROR": Rule("UNKNOWN", 502, -32603),
        "INTERNAL": Rule("INTERNAL", 500, -32603),
    }
)


def classes() -> dict[str, type[ProtolinkError]]:
    """Return every error class by its reason, collected from the class tree."""
    found: dict[str, type[ProtolinkError]] = {}
    pending: list[type[ProtolinkError]] = [ProtolinkError]
    while pending:
        cls = pending.pop()
        if cls.reason:
            found.setdefault(cls.reason, cls)
        pending.extend(cls.__subclasses__())
    return found
