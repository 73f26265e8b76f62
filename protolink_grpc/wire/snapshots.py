"""Converts snapshots."""

from typing import Final

from plgrpc.v1 import snapshot_pb2 as pb

from protolink_grpc.models.snapshot import Gap, LinkedTask, TaskAttempt, TaskSnapshot
from protolink_grpc.wire import payloads as _codecs_of_events  # noqa: F401 -- has the codecs of links, workers and progress reports
from protolink_grpc.wire.compile import Codec

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
