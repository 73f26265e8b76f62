"""Errors of the command line: one sentence, a hint, and an exit code. This module prints nothing.

The exit codes are those of the A2A command line. They report whether the command succeeded, not the result of a task.
"""

from enum import IntEnum

from protolink_grpc.errors import InvalidArgumentError, ProtolinkError, ToolRejectedError


class ExitCode(IntEnum):
    OK = 0
    FAILURE = 1
    USAGE = 2
    UNREACHABLE = 3
    UNAUTHENTICATED = 4
    TIMEOUT = 5
    INTERRUPTED = 130
    """128 + SIGINT, as shells count."""
    BROKEN_PIPE = 141
    """128 + SIGPIPE: the reader closed the pipe, as `head` does."""


class CommandError(Exception):
    """The command failed. `code` is machine-readable; `hint` is advice for the user."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        code: str = "FAILURE",
        exit_code: ExitCode = ExitCode.FAILURE,
        metadata: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code
        self.exit_code = exit_code
        self.metadata = metadata or {}

    def to_dict(self) -> dict[str, object]:
        """Return the error document of `-o json`: that of the A2A command line, with additional metadata."""
        return {
            "error": {
                "code": self.code,
                "message": str(self),
                "hint": self.hint or None,
                "metadata": self.metadata,
            }
        }


class ReaderGoneError(Exception):
    """The reader of standard output has closed it. Not an OSError, because typer handles those itself."""


def usage_error(message: str, hint: str) -> CommandError:
    """Build the error for invalid arguments."""
    return CommandError(message, hint=hint, code="USAGE", exit_code=ExitCode.USAGE)


_EXIT_CODES = {
    "UNAVAILABLE": ExitCode.UNREACHABLE,
    # A name that does not resolve counts as an unreachable agent.
    "AGENT_NOT_FOUND": ExitCode.UNREACHABLE,
    "UNAUTHENTICATED": ExitCode.UNAUTHENTICATED,
    # Missing permissions have the exit code of authentication, as in the A2A command line.
    "PERMISSION_DENIED": ExitCode.UNAUTHENTICATED,
    "DEADLINE_EXCEEDED": ExitCode.TIMEOUT,
}

_HINTS = {
    "UNAVAILABLE": "check that the server is running and the address is correct; plgrpc doctor {target} checks both",
    "UNAUTHENTICATED": "pass credentials with --header, for instance --header 'authorization=Bearer TOKEN'",
    "PERMISSION_DENIED": "these credentials do not allow it; pass others with --header",
    "AGENT_NOT_FOUND": "plgrpc agents list shows the registered agents",
    "AGENT_AMBIGUOUS": "use the URL of one of them",
    "TASK_NOT_FOUND": "plgrpc task list {target} shows your tasks",
    "SESSION_NOT_FOUND": "plgrpc state describe {target} lists your sessions",
    "TASK_FINISHED": "a finished task accepts no messages; leave out --task to start a new one",
    "TASK_ALREADY_RUNNING": "follow it with: plgrpc task subscribe {target} {task_id}",
    "TASK_NOT_CANCELABLE": "see how it ended with: plgrpc task get {target} {task_id}",
    "APPROVAL_NOT_FOUND": "plgrpc approvals list {target} shows the approvals that you can answer",
    "APPROVAL_CHANGED": "review it again: plgrpc approvals show {target} {approval_id}",
    "APPROVAL_REQUIRED": "the agent has no approver: its author must set approval_handler, or approvals for remote answers",
    "APPROVAL_DENIED": "an approver denied it, or it expired; plgrpc approvals list {target} --state all shows the answer",
    "ACTION_DENIED": "the agent's policy does not allow it",
    "BUDGET_EXCEEDED": "the budget of the agent, or of the request, is used up; send a smaller request",
    "DELEGATION_CYCLE": "the agent was already part of the chain of delegations; use another agent",
    "SEQUENCE_OUT_OF_RANGE": "--after takes the sequence of an event in the log; 0 is the beginning",
    "POSITION_COMPACTED": "the beginning of the log is deleted; --after takes first_sequence - 1 or later, the task has the rest",
    "UNIMPLEMENTED": "plgrpc doctor {target} shows the services at this address",
    "RESOURCE_EXHAUSTED": "the server is busy; try again later",
    "ADDRESS_IN_USE": "set the addresses with --url and --http; port 0 takes a free port",
    "STORE_READ_ONLY": "choose a writable file with --store or --path",
    "STORE_VERSION": "upgrade protolink-grpc, or choose another file",
}


_TLS_HINTS = (
    ("the server's certificate is not trusted", "pass the certificate of its authority with --tls-ca"),
    ("the server may require a client certificate", "pass it with --tls-cert and --tls-key"),
)
"""Hints for an agent that is unreachable because of TLS, by the cause in the error."""


def command_error(error: ProtolinkError, target: str = "") -> CommandError:
    """Convert an error of the library to one of the command line. `target` is the agent or registry as typed."""
    return CommandError(
        str(error),
        hint=_hint(error, target),
        code=error.reason,
        exit_code=_EXIT_CODES.get(error.reason, ExitCode.FAILURE),
        metadata=error.metadata,
    )


def _hint(error: ProtolinkError, target: str) -> str:
    if isinstance(error, ToolRejectedError):
        return error.suggestion or ""
    target = target or error.metadata.get("url", "AGENT")
    task_id, approval_id = error.metadata.get("task_id", ""), error.metadata.get("approval_id", "")
    if error.reason == "DEADLINE_EXCEEDED" and task_id:
        return f"follow it with: plgrpc task subscribe {target} {task_id}"
    if isinstance(error, InvalidArgumentError):
        return ""
    if error.metadata.get("protocol") == "HTTP/1":
        return "an HTTP/1 server answers at this port; use the agent's gRPC address, which is in its card"
    hint = _HINTS.get(error.reason, "")
    if error.reason == "UNAVAILABLE":
        hint = next((each for cause, each in _TLS_HINTS if cause in str(error)), hint)
    return hint.format(target=target, task_id=task_id or "TASK", approval_id=approval_id or "APPROVAL")
