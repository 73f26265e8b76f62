"""JSON bodies: read strictly, because two readers of one body must not see two different things; written compactly."""

import json
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from protolink_grpc.errors import ContentTypeNotSupportedError, InvalidArgumentError, ProtolinkError
from protolink_grpc.models.json_value import from_json, json_complexity
from protolink_grpc.wire.bounds import LIGHT_COMPLEXITY, SMALL_BYTES, run_in_thread

LONG_BYTES = 512 << 10
"""Bodies of up to so many bytes are read on the loop: a text may be read twice, at some 100 MB/s."""

JSON, A2A_JSON = "application/json", "application/a2a+json"


async def read_object(
    body: bytes, *, max_complexity: int, field: str = "body", may_be_null: bool = False
) -> dict[str, Any]:
    """The JSON object of a body; an empty one is an empty object.

    Args:
        may_be_null: `null` is an empty object, too: some clients write it where a request has no fields.

    Raises:
        InvalidArgumentError: Not JSON, too deep, a key twice in one object, or no object; names `field`.
        MessageTooLargeError: As `read_json`.
    """
    value = await read_json(body, max_complexity=max_complexity, field=field) if body else {}
    if value is None and may_be_null:
        return {}
    if not isinstance(value, dict):
        raise InvalidArgumentError("must be a JSON object", field=field)
    return value


async def read_json(body: bytes, *, max_complexity: int, field: str = "body") -> Any:
    """The JSON value of a body, read in a thread where it is complex or long.

    Raises:
        InvalidArgumentError: Not JSON, too deep, or a key twice in one object; names `field`.
        MessageTooLargeError: Its complexity is above `max_complexity`; names `field`. Nothing was made of it.
    """
    if len(body) > LONG_BYTES or is_complex(body):
        return await run_in_thread(_parse, body, field, max_complexity)
    return _parse(body, field, max_complexity)


def is_complex(body: bytes) -> bool:
    """Whether what is read from a body should be converted in a thread, too."""
    return len(body) > SMALL_BYTES and json_complexity(body, LIGHT_COMPLEXITY) > LIGHT_COMPLEXITY


def _parse(body: bytes, field: str, max_complexity: int) -> Any:
    value = from_json(body, field=field, max_complexity=max_complexity)
    try:
        if orjson.dumps(value) == body:
            return value  # nothing was lost in reading it, so no key either
    except TypeError:
        pass  # an integer of more than 64 bits
    try:
        _WATCHFUL.decode(body.decode())
    except _DuplicateError as twice:
        raise InvalidArgumentError(f"has the key {twice} twice in one object", field=field) from None
    return value


class _DuplicateError(Exception):
    """A key that is there twice."""


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1:
        keys = {key for key, _ in pairs}
        if len(keys) != len(pairs):
            seen: set[str] = set()
            raise _DuplicateError(next(repr(key) for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]  # adding in passing


_WATCHFUL = json.JSONDecoder(object_pairs_hook=_unique)
"""Reads what is known to be JSON once more, only to find keys that are there twice."""


class JsonAnswer(Response):
    """A small answer in JSON; starlette's own makes its headers three times as slowly."""

    def __init__(self, body: bytes, status: int = 200, kind: str = JSON) -> None:
        self.body = body
        self.status_code = status
        self.background = None
        self.raw_headers = [(b"content-length", b"%d" % len(body)), (b"content-type", kind.encode())]


def write_json(value: Any) -> bytes:
    """JSON text; integers keep every digit up to 64 bits, longer ones too, the slow way."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def check_json(request: Request) -> None:
    """Pass when the body says that it is JSON, or when there is none. Raises ContentTypeNotSupportedError, which is a 415 here.

    A web page may send a body that says something else, or nothing, to any server without asking first.
    """
    given, has_body = "", False
    for name, value in request.scope["headers"]:
        if name == b"content-type":
            given = media_type(value.decode("latin-1"))
        elif name == b"transfer-encoding" or (name == b"content-length" and value != b"0"):
            has_body = True
    if given in (JSON, A2A_JSON) or given.endswith("+json") or not (given or has_body):
        return
    raise ContentTypeNotSupportedError(
        f"the body must be {JSON}, and its content type must say so", media_type=given[:100]
    )


def http_status(error: ProtolinkError) -> int:
    """The HTTP status of an error: that of its rule, and 415 where it is about the body itself, not about a part of a message."""
    about_body = isinstance(error, ContentTypeNotSupportedError) and "field" not in error.metadata
    return 415 if about_body else error.rule.http


def media_type(header: str | None) -> str:
    """The media type of a Content-Type header, without parameters, in lower case."""
    return (header or "").partition(";")[0].strip().lower()
