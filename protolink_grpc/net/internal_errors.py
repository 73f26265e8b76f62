"""Internal errors are logged with their trace and shown to callers as an incident id."""

from protolink_grpc.errors import InternalError, ProtolinkError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.ids import new_uuid

log = get_logger(__name__)


def public_error(error: Exception, what: str) -> ProtolinkError:
    """A ProtolinkError as it is; for any other error, which is logged, an InternalError with an incident id."""
    if isinstance(error, ProtolinkError):
        return error
    incident = new_uuid()
    log.error("%s failed, incident %s", what, incident, exc_info=error)
    return InternalError(f"internal error, incident {incident}", incident=incident)
