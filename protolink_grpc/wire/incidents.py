"""Our own mistakes, as callers on any edge may hear of them: by a number. The trace stays in the log."""

from protolink_grpc.errors import InternalError, ProtolinkError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.ids import new_uuid

log = get_logger(__name__)


def answerable(error: Exception, what: str) -> ProtolinkError:
    """The error itself where it was raised on purpose; anything else is logged with its trace, and shown by its number only."""
    if isinstance(error, ProtolinkError):
        return error
    incident = new_uuid()
    log.error("%s failed, incident %s", what, incident, exc_info=error)
    return InternalError(f"internal error, incident {incident}", incident=incident)
