"""Converts snapshots."""

from typing import Final

from plgrpc.v1 import approval_pb2, event_pb2, task_control_pb2
from plgrpc.v1 import snapshot_pb2 as pb

from protolink_grpc.models import snapshot as values
from protolink_grpc.models.action import Approval
from protolink_grpc.models.snapshot import Gap, LinkedTask, TaskAttempt, TaskSnapshot
from protolink_grpc.models.task_control import LinkKind, TaskStatus
from protolink_grpc.wire import payloads as _codecs_of_events  # noqa: F401 -- has the codecs of links, workers and progress reports
from protolink_grpc.wire import tools as _codec_of_tools  # noqa: F401 -- has the codec of ToolDescription
from protolink_grpc.wire.actions import approval_from_pb, approval_to_pb
from protolink_grpc.wire.compile import Codec, Special, enum_numbers, register_conversion
from protolink_grpc.wire.scalars import EnumNumbers

_OUTCOMES: Final = EnumNumbers(str, enum_numbers(str, event_pb2.ActionOutcome.DESCRIPTOR), field="outcome", unset="")
"""The outcome "" is that of an action which has not ended."""


def _read_approval(approval: approval_pb2.Approval) -> Approval:
    return approval_from_pb(approval, "")


register_conversion(Approval, approval_pb2.Approval, approval_to_pb, _read_approval)

STATUSES: Final = enum_numbers(TaskStatus, task_control_pb2.TaskStatus.DESCRIPTOR, field="status")
LINK_KINDS: Final = enum_numbers(LinkKind, task_control_pb2.LinkKind.DESCRIPTOR, field="kind")

GAP: Final = Codec(Gap, pb.Gap)
LINKED_TASK: Final = Codec(LinkedTask, pb.LinkedTask)
TASK_ATTEMPT: Final = Codec(TaskAttempt, pb.TaskAttempt, started_at="start_time", ended_at="end_time")
TASK_SNAPSHOT: Final = Codec(
    TaskSnapshot,
    pb.TaskSnapshot,
    created_at="create_time",
    updated_at="update_time",
    started_at="start_time",
    ended_at="end_time",
)
COMPACTION: Final = Codec(values.CompactionSummary, pb.CompactionSummary, created_at="create_time")
CONTEXT_BOUNDARY: Final = Codec(values.ContextBoundarySnapshot, pb.ContextBoundarySnapshot)
ARTIFACT_SUMMARY: Final = Codec(values.ArtifactSummary, pb.ArtifactSummary, created_at="create_time")
ARTIFACTS: Final = Codec(values.ArtifactsSnapshot, pb.ArtifactsSnapshot)
THREAD_SNAPSHOT: Final = Codec(values.ThreadSnapshot, pb.ThreadSnapshot)
SESSION_SNAPSHOT: Final = Codec(values.SessionSnapshot, pb.SessionSnapshot)
QUEUED_TURN: Final = Codec(values.QueuedTurn, pb.QueuedTurn)
QUEUE_HOLD: Final = Codec(values.QueueHold, pb.QueueHold)
QUEUE_SNAPSHOT: Final = Codec(values.QueueSnapshot, pb.QueueSnapshot)
TOOL_ENTRY: Final = Codec(values.ToolInventoryEntry, pb.ToolInventoryEntry)
TOOL_INVENTORY: Final = Codec(values.ToolInventorySnapshot, pb.ToolInventorySnapshot, snapshot_at="snapshot_time")
ACTION_COUNT: Final = Codec(
    values.ActionCount,
    pb.ActionCount,
    outcome=Special(
        "outcome", lambda counted: _OUTCOMES[counted.outcome], lambda counted: _OUTCOMES.read(counted.outcome)
    ),
)
POLICY_COUNT: Final = Codec(values.PolicyCount, pb.PolicyCount)
EVIDENCE: Final = Codec(values.EvidenceSnapshot, pb.EvidenceSnapshot)
