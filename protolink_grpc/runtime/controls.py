"""The settings of an agent that apply to all of its runs: approvers, the budget, and what callers see of failures."""

from dataclasses import dataclass

from protolink_grpc.errors import ApprovalRequiredError, InternalError, ProtolinkError, ToolFailedError, error_text
from protolink_grpc.logs import get_logger
from protolink_grpc.models.action import ApprovalRequest
from protolink_grpc.models.context import RunBudget
from protolink_grpc.models.failure import AGENT_FAILED, MAX_REASON, Failure
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.redaction import DEFAULT_REDACTION_POLICY, RedactionPolicy
from protolink_grpc.runtime.actions.approval_answers import ApprovalHandler
from protolink_grpc.tools.tool import log_tool_failure

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Controls:
    """Settings of an agent that apply to all of its runs.

    Args:
        budget: Limits that no caller can raise.
        approval_handler: Answers approvals in this process.
        remote_approvals: Callers may answer approvals, too.
        expose_errors: Show the texts of exceptions of the agent's own code to the task's owner.
        redaction: Policy for secrets in these texts.
    """

    budget: RunBudget = RunBudget()  # noqa: RUF009 -- frozen, and its metadata is never written
    approval_handler: ApprovalHandler | None = None
    remote_approvals: bool = False
    expose_errors: bool = True
    redaction: RedactionPolicy = DEFAULT_REDACTION_POLICY

    def require_approver(self, request: ApprovalRequest) -> None:
        """Check that an approval can be answered: by the handler, or by callers. Raises ApprovalRequiredError."""
        if self.approval_handler is None and not self.remote_approvals:
            raise no_approver_error(request)

    def report_error(self, error: Exception, task_id: str) -> Failure:
        """Return the failure to record for an error that ends a task. Errors of the agent's own code are logged."""
        if isinstance(error, ToolFailedError):
            error = self.report_failure(error, task_id)
        if isinstance(error, ProtolinkError):
            return self.describe_failure(error)
        if self.expose_errors:
            log.exception("task %s failed", task_id, exc_info=error)
            text = self.redaction.redact_text(f"{type(error).__name__}: {error_text(error)}")
            return Failure.of(AGENT_FAILED, text[:MAX_REASON])
        incident = new_uuid()
        log.error("task %s failed, incident %s", task_id, incident, exc_info=error)
        return Failure.of(InternalError.reason, f"the agent failed, incident {incident}")

    def describe_failure(self, error: ProtolinkError) -> Failure:
        """Return the failure to record for an error, without secrets. A tool's failure must have been reported."""
        return Failure.from_error(error).cleaned(self.redaction.redact_text, MAX_REASON)

    def report_failure(self, error: ToolFailedError, task_id: str, *, peer: bool = False) -> ToolFailedError:
        """Return a tool's failure as the task's owner may see it. It is logged with its trace, once.

        Args:
            peer: As in `ActionContext.report_failure`.
        """
        if error.is_reported:
            return error
        shown = error
        if self.expose_errors:
            clean = self.redaction.redact_text
            text = clean(str(error))
            if not peer:
                log_tool_failure(error, task_id)
            if text != str(error):
                shown = ToolFailedError(text, **error.metadata)
            known = Failure.from_error(error).cause
            shown.failure = None if known is None else known.cleaned(clean, MAX_REASON)
        else:
            incident, tool = new_uuid(), error.metadata.get("tool", "")
            log_tool_failure(error, task_id, incident)
            shown = ToolFailedError(f"tool '{tool}' failed, incident {incident}", tool=tool)
        shown.is_of_peer = error.is_of_peer
        shown.is_reported = True
        return shown


def no_approver_error(request: ApprovalRequest) -> ApprovalRequiredError:
    """Return the error for an action that needs an approval of an agent that can get none."""
    action = request.action
    return ApprovalRequiredError(
        f"{action.kind} '{action.name}' needs an approval, and this agent has neither a handler nor remote approvals",
        request=request,
        action_id=action.action_id,
    )
