"""Hides internal errors from callers: they are logged with their traceback, and callers receive an incident id."""

from protolink_grpc.errors import InternalError, ProtolinkError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.ids import new_uuid

log = get_logger(__name__)


def public_error(error: Exception, what: str) -> ProtolinkError:
    """Return the error that a caller may see: a ProtolinkError unchanged, for others an InternalError with an incident id.

    The others are logged; `what` names the failed operation in the log.
    """
    if isinstance(error, ProtolinkError):
        return error
    incident = new_uuid()
    log.error("%s failed, incident %s", what, incident, exc_info=error)
    return InternalError(f"internal error, incident {incident}", incident=incident)
