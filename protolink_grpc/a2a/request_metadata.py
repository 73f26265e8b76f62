"""The values that a client of this package adds to the metadata of an A2A request: limits of the run, and a request id."""

from typing import Any

from protolink_grpc.a2a.values import OWN_KEY
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.context import CONTEXT_KEY, RunContext
from protolink_grpc.wire.tasks import check_id

REQUEST_KEY = "request_id"
"""Key in the request metadata `{"plgrpc": {"run_context": {...}, "request_id": "..."}}`. `run_context` holds limits and
permissions that narrow the run; `request_id` replaces the header `Idempotency-Key` for clients that cannot set headers."""


def split_metadata(metadata: dict[str, Any]) -> tuple[dict[str, Any], RunContext | None, str]:
    """Return the request metadata without this package's key, the run context under that key, and the request id."""
    own = metadata.get(OWN_KEY)
    if not isinstance(own, dict) or own.keys().isdisjoint((CONTEXT_KEY, REQUEST_KEY)):
        return metadata, None, ""
    given, request_id, context = own.get(CONTEXT_KEY), own.get(REQUEST_KEY, ""), None
    if not isinstance(request_id, str):
        raise InvalidArgumentError("must be a string", field=f"metadata.{OWN_KEY}.{REQUEST_KEY}")
    try:
        if given is not None:
            context = RunContext.from_dict(_restore_integers(given))
            check_id(context.run_id, "run_id")
    except InvalidArgumentError as error:
        raise error.within(f"metadata.{OWN_KEY}.{CONTEXT_KEY}") from None
    return {key: value for key, value in metadata.items() if key != OWN_KEY}, context, request_id


def _restore_integers(value: Any) -> Any:
    """Return a JSON value with integers instead of floats without a fraction: the numbers of a protobuf Struct are doubles."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _restore_integers(each) for key, each in value.items()}
    return [_restore_integers(each) for each in value] if isinstance(value, list) else value


def choose_request_id(header: str, given: str) -> str:
    """Return the request id from the idempotency key or from the metadata; empty if neither has one.

    Raises:
        InvalidArgumentError: It is too long or not printable, or the two differ.
    """
    if header and given and header != given:
        raise InvalidArgumentError(f"differs from metadata.{OWN_KEY}.{REQUEST_KEY}", field="Idempotency-Key")
    return check_id(header or given, "Idempotency-Key" if header else f"metadata.{OWN_KEY}.{REQUEST_KEY}")
