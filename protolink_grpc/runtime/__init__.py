"""What makes a run happen. No transport is known here."""

from protolink_grpc.models.cancellation import CancellationToken
from protolink_grpc.runtime.actions.approvals import Approvals
from protolink_grpc.runtime.actions.outside import ActionAuthorization, ActionAuthorizer
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.log import AppendedFacts, AppendObserver
from protolink_grpc.runtime.run import Run, current_run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission

__all__ = [
    "ActionAuthorization",
    "ActionAuthorizer",
    "AppendObserver",
    "AppendedFacts",
    "Approvals",
    "CancellationToken",
    "Limits",
    "Run",
    "Submission",
    "TaskService",
    "current_run",
]
