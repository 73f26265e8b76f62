"""Page sizes and page tokens of lists. A token is opaque to callers and encodes a position in the list."""

import base64
import binascii

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.json_value import from_json, to_json

MAX_PAGE_SIZE = 1000
DEFAULT_PAGE_SIZE = 50
"""Source: the comments of ListTasksRequest, ListApprovalsRequest and ListToolsRequest."""

PAGE_BYTES = 1 << 20
"""Where a page ends early: callers receive 4 MiB by default, and one item may be large by itself."""

MAX_TOKEN_CHARS = 4096
"""A token of ours has a time and an id of at most 128 bytes."""


def page_size_of(asked: int) -> int:
    """How long a page may get: 0 asks for the default.

    Raises:
        InvalidArgumentError: Out of bounds.
    """
    if not 0 <= asked <= MAX_PAGE_SIZE:
        raise InvalidArgumentError(f"must be from 0 to {MAX_PAGE_SIZE}", field="page_size")
    return asked or DEFAULT_PAGE_SIZE


def token_from_cursor(cursor: tuple[int, str] | None) -> str:
    """An opaque page token, empty for no further page."""
    return "" if cursor is None else base64.urlsafe_b64encode(to_json(cursor).encode()).decode()


def token_from_name(name: str) -> str:
    """An opaque token of the page after that name, in a list that is ordered by name; empty for no further page."""
    return token_from_cursor((0, name) if name else None)


def name_from_token(token: str) -> str:
    """The name that a token stands for, empty for the first page.

    Raises:
        InvalidArgumentError: Not one of ours.
    """
    time, name = cursor_from_token(token) or (0, "")
    if time:  # it is of a list that is ordered by time
        raise InvalidArgumentError("is not a token of this method", field="page_token")
    return name


def cursor_from_token(token: str) -> tuple[int, str] | None:
    """The position that a token stands for, None for the first page.

    Raises:
        InvalidArgumentError: Not one of ours.
    """
    if not token:
        return None
    try:
        if len(token) > MAX_TOKEN_CHARS:
            raise InvalidArgumentError("is too long")
        value = from_json(base64.urlsafe_b64decode(token.encode()))
    except (InvalidArgumentError, binascii.Error, ValueError):
        value = None
    match value:
        case [int(micros), str(task_id)] if type(micros) is int and abs(micros) < 1 << 63:
            return micros, task_id
        case _:
            raise InvalidArgumentError("is not a token of this method", field="page_token")
