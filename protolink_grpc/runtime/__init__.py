"""What makes a run happen. No transport is known here."""

from protolink_grpc.runtime.approvals import Approvals
from protolink_grpc.runtime.cancellation import CancellationToken
from protolink_grpc.runtime.detached import ActionAuthorization, ActionAuthorizer
from protolink_grpc.runtime.run import Run, current_run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Limits, StopAt, Submission, TaskTarget

__all__ = [
    "ActionAuthorization",
    "ActionAuthorizer",
    "Approvals",
    "CancellationToken",
    "Limits",
    "Run",
    "StopAt",
    "Submission",
    "TaskService",
    "TaskTarget",
    "current_run",
]
