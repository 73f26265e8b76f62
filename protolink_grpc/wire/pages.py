"""Page tokens of ListTasks: opaque to callers, a position in the list to us."""

import base64
import binascii

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.json_value import from_json, to_json

MAX_PAGE_SIZE = 1000
DEFAULT_PAGE_SIZE = 50
"""Source: the comments of ListTasksRequest."""


def token_from_cursor(cursor: tuple[int, str] | None) -> str:
    """An opaque page token, empty for no further page."""
    return "" if cursor is None else base64.urlsafe_b64encode(to_json(cursor).encode()).decode()


def cursor_from_token(token: str) -> tuple[int, str]:
    try:
        value = from_json(base64.urlsafe_b64decode(token.encode()))
    except (InvalidArgumentError, binascii.Error, ValueError):
        value = None
    match value:
        case [int(micros), str(task_id)] if type(micros) is int and abs(micros) < 1 << 63:
            return micros, task_id
        case _:
            raise InvalidArgumentError("is not a token of this method", field="page_token")
