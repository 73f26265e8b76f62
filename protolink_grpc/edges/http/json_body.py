"""JSON bodies: parsed strictly, so that all parsers read the same value, and written compactly."""

import json
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from protolink_grpc.errors import ContentTypeNotSupportedError, InvalidArgumentError, ProtolinkError
from protolink_grpc.models.json_value import from_json, json_complexity
from protolink_grpc.wire.bounds import LIGHT_COMPLEXITY, SMALL_BYTES, run_in_thread

LONG_BYTES = 512 << 10
"""Bodies of up to this many bytes are parsed on the event loop: parsing takes about 100 MB/s, possibly twice."""

JSON, A2A_JSON = "application/json", "application/a2a+json"


async def read_object(
    body: bytes, *, max_complexity: int, field: str = "body", may_be_null: bool = False
) -> dict[str, Any]:
    """Parse the JSON object of a body. An empty body is an empty object.

    Args:
        may_be_null: Whether `null` counts as an empty object, because some clients send it for a request without fields.

    Raises:
        InvalidArgumentError: It is not JSON, nested too deeply, has a repeated key, or is not an object; names `field`.
        MessageTooLargeError: As `read_json`.
    """
    value = await read_json(body, max_complexity=max_complexity, field=field) if body else {}
    if value is None and may_be_null:
        return {}
    if not isinstance(value, dict):
        raise InvalidArgumentError("must be a JSON object", field=field)
    return value


async def read_json(body: bytes, *, max_complexity: int, field: str = "body") -> Any:
    """Parse the JSON value of a body, in a thread if it is complex or long.

    Raises:
        InvalidArgumentError: It is not JSON, nested too deeply, or has a repeated key; names `field`.
        MessageTooLargeError: Its complexity exceeds `max_complexity`; names `field`. It was not parsed.
    """
    if len(body) > LONG_BYTES or is_complex(body):
        return await run_in_thread(_parse, body, field, max_complexity)
    return _parse(body, field, max_complexity)


def is_complex(body: bytes) -> bool:
    """Return whether the conversion of the body's value should also run in a thread."""
    return len(body) > SMALL_BYTES and json_complexity(body, LIGHT_COMPLEXITY) > LIGHT_COMPLEXITY


def _parse(body: bytes, field: str, max_complexity: int) -> Any:
    value = from_json(body, field=field, max_complexity=max_complexity)
    try:
        if orjson.dumps(value) == body:
            return value  # encoding gives the same bytes, so no key was repeated
    except TypeError:
        pass  # an integer of more than 64 bits
    try:
        _DUPLICATE_CHECK.decode(body.decode())
    except _DuplicateError as duplicate:
        raise InvalidArgumentError(f"has the key {duplicate} twice in one object", field=field) from None
    return value


class _DuplicateError(Exception):
    """An object has a repeated key."""


def _check_keys(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1:
        keys = {key for key, _ in pairs}
        if len(keys) != len(pairs):
            seen: set[str] = set()
            raise _DuplicateError(next(repr(key) for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]  # adding in passing


_DUPLICATE_CHECK = json.JSONDecoder(object_pairs_hook=_check_keys)
"""Parses valid JSON again, only to find repeated keys."""


class JsonResponse(Response):
    """A small JSON response. Starlette's class takes three times as long to create its headers."""

    def __init__(self, body: bytes, status: int = 200, kind: str = JSON) -> None:
        self.body = body
        self.status_code = status
        self.background = None
        self.raw_headers = [(b"content-length", b"%d" % len(body)), (b"content-type", kind.encode())]


def write_json(value: Any) -> bytes:
    """Encode JSON. Integers of any size keep all digits; those over 64 bits take a slower path."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def check_json(request: Request) -> None:
    """Check that the body has a JSON content type or is empty. Raises ContentTypeNotSupportedError, which is a 415 here.

    Web pages may send bodies with other content types to any server without a CORS preflight request.
    """
    given, has_body = "", False
    for name, value in request.scope["headers"]:
        if name == b"content-type":
            given = media_type(value.decode("latin-1"))
        elif name == b"transfer-encoding" or (name == b"content-length" and value != b"0"):
            has_body = True
    if given in (JSON, A2A_JSON) or given.endswith("+json") or not (given or has_body):
        return
    raise ContentTypeNotSupportedError(f"the body must have the content type {JSON}", media_type=given[:100])


def http_status(error: ProtolinkError) -> int:
    """Return the HTTP status of an error: the one of its rule, or 415 if it is about the body's content type."""
    about_body = isinstance(error, ContentTypeNotSupportedError) and "field" not in error.metadata
    return 415 if about_body else error.rule.http


def media_type(header: str | None) -> str:
    """Return the media type of a Content-Type header, without parameters, in lower case."""
    return (header or "").partition(";")[0].strip().lower()
