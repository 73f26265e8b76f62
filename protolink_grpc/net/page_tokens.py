"""Page sizes and page tokens of lists. A token is opaque to callers and encodes a position in the list."""

import base64
import binascii

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.json_value import from_json, to_json

MAX_PAGE_SIZE = 1000
DEFAULT_PAGE_SIZE = 50
"""Source: the comments of ListTasksRequest, ListApprovalsRequest and ListToolsRequest."""

PAGE_BYTES = 1 << 20
"""Maximum size of a page: gRPC clients receive 4 MiB by default, and a single item may be larger than this bound."""

MAX_TOKEN_CHARS = 4096
"""A token of this package contains a time and an id of at most 128 bytes."""


def page_size_of(requested: int) -> int:
    """Return the maximum number of items of a page. 0 requests the default.

    Raises:
        InvalidArgumentError: The size is out of bounds.
    """
    if not 0 <= requested <= MAX_PAGE_SIZE:
        raise InvalidArgumentError(f"must be from 0 to {MAX_PAGE_SIZE}", field="page_size")
    return requested or DEFAULT_PAGE_SIZE


def token_from_cursor(cursor: tuple[int, str] | None) -> str:
    """Encode a position in a list. None means that there is no next page and gives an empty token."""
    return "" if cursor is None else base64.urlsafe_b64encode(to_json(cursor).encode()).decode()


def token_from_name(name: str) -> str:
    """Encode a position in a list that is ordered by name: the page after `name`. Empty means that there is no next page."""
    return token_from_cursor((0, name) if name else None)


def name_from_token(token: str) -> str:
    """Decode a token of `token_from_name`. An empty token means the first page and gives an empty name.

    Raises:
        InvalidArgumentError: The token is not from `token_from_name`.
    """
    time, name = cursor_from_token(token) or (0, "")
    if time:  # the token belongs to a list that is ordered by time
        raise InvalidArgumentError("is not a token of this method", field="page_token")
    return name


def token_from_position(position: int) -> str:
    """Encode a position of a log. 0 means that there is no next page and gives an empty token."""
    return base64.urlsafe_b64encode(to_json([position]).encode()).decode() if position else ""


def position_from_token(token: str) -> int:
    """Decode a token of `token_from_position`. An empty token means the first page and gives 0.

    Raises:
        InvalidArgumentError: The token is not from `token_from_position`.
    """
    match _value_of(token) if token else [0]:
        case [int(position)] if type(position) is int and 0 <= position < 1 << 63:
            return position
        case _:
            raise InvalidArgumentError("is not a token of this method", field="page_token")


def cursor_from_token(token: str) -> tuple[int, str] | None:
    """Decode a token of `token_from_cursor`. An empty token means the first page and gives None.

    Raises:
        InvalidArgumentError: The token is not from `token_from_cursor`.
    """
    if not token:
        return None
    match _value_of(token):
        case [int(micros), str(task_id)] if type(micros) is int and abs(micros) < 1 << 63:
            return micros, task_id
        case _:
            raise InvalidArgumentError("is not a token of this method", field="page_token")


def _value_of(token: str) -> object:
    """Return the JSON value of a token, or None if it has none."""
    if len(token) > MAX_TOKEN_CHARS:
        return None
    try:
        return from_json(base64.urlsafe_b64decode(token.encode()))
    except (InvalidArgumentError, binascii.Error, ValueError):
        return None
