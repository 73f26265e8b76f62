"""The metadata of typed calls: ids, the context of the run that calls, and the usage of the call's task.

Entries whose names end with `-bin` are serialized messages of the contract.
"""

from typing import Final

from google.protobuf.message import DecodeError
from plgrpc.v1 import task_input_pb2, usage_pb2

from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError
from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.context import RunContext
from protolink_grpc.wire.context import OPTIONS
from protolink_grpc.wire.permissions import refuse_unknown_rules
from protolink_grpc.wire.tasks import check_id
from protolink_grpc.wire.usage import USAGE

REQUEST_ID: Final = "x-request-id"
"""Idempotency key of the call."""
TASK_ID: Final = "x-task-id"
"""Id of the call's task: of a request, chosen by the caller; of a response, the actual one."""
SESSION_ID: Final = "x-session-id"
"""Session of the call's task."""
RUN_OPTIONS: Final = "plgrpc-options-bin"
"""`plgrpc.v1.RunOptions` of the call's task: permissions, budget and the chain of agents. Set by a run that calls."""
USED: Final = "plgrpc-usage-bin"
"""`plgrpc.v1.Usage` of the call's task, in the response to a request with `RUN_OPTIONS`. Missing means unknown."""

MAX_OPTIONS_BYTES: Final = 8 << 10
"""Limit of `RUN_OPTIONS`. Servers of this package accept 32 KiB of metadata in all."""


def options_from_pb(pb: task_input_pb2.RunOptions, field: str, session_id: str) -> RunContext:
    """Convert the run options of a request.

    Args:
        session_id: The session of the request; empty means none.

    Raises:
        InvalidArgumentError: A value is invalid or not known; names the path below `field`.
    """
    check_id(pb.run_id, f"{field}.run_id")
    refuse_unknown_rules(pb.permissions, f"{field}.permissions")
    return OPTIONS.from_pb(pb, field, session_id=session_id or None)


def options_from_bytes(data: bytes, session_id: str) -> RunContext:
    """Read the value of `RUN_OPTIONS`.

    Raises:
        InvalidArgumentError: As `options_from_pb`, or the value is no such message.
        MessageTooLargeError: It has more than `MAX_OPTIONS_BYTES`.
    """
    if len(data) > MAX_OPTIONS_BYTES:
        raise MessageTooLargeError(
            f"has {len(data)} bytes, at most {MAX_OPTIONS_BYTES} are accepted", field=RUN_OPTIONS
        )
    try:
        options = task_input_pb2.RunOptions.FromString(data)
    except DecodeError:
        raise InvalidArgumentError("is not a valid plgrpc.v1.RunOptions", field=RUN_OPTIONS) from None
    return options_from_pb(options, RUN_OPTIONS, session_id)


def options_to_bytes(context: RunContext) -> bytes:
    """Return the value of `RUN_OPTIONS`. Raises MessageTooLargeError if it is too large for the metadata of a call."""
    data = OPTIONS.to_pb(context).SerializeToString()
    if len(data) > MAX_OPTIONS_BYTES:
        raise MessageTooLargeError(
            f"has {len(data)} bytes, and the metadata of a typed call may have {MAX_OPTIONS_BYTES} of it: delegate with a task",
            field="context",
        )
    return data


def usage_to_bytes(usage: BudgetUsage) -> bytes:
    """Return the value of `USED`."""
    return USAGE.to_pb(usage).SerializeToString()


def usage_from_bytes(data: bytes) -> BudgetUsage | None:
    """Read the value of `USED`; None if it is invalid, so that the usage is unknown."""
    try:
        return USAGE.from_pb(usage_pb2.Usage.FromString(data), USED)
    except (DecodeError, InvalidArgumentError):
        return None
