"""JSON that a language model has written as text, with repairs for the usual mistakes. The time is linear in the length."""

import re

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.json_value import JsonValue, from_json

# A string, closed or not: after an unmatched quote the search must not start again at each following position.
JSON_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_REPAIRABLE = re.compile(JSON_STRING + r"|,(?=\s*+[}\]])", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")


def strip_thinking(text: str) -> str:
    """The text after a leading `<think>` block; empty if the block is not closed."""
    body = text.strip()
    if not body.startswith("<think>"):
        return body
    return body.partition("</think>")[2].strip()


def strip_code_fence(body: str) -> str:
    """The text in a code fence, or the text itself if it is not in one."""
    if not (body.startswith("```") and body.endswith("```") and "\n" in body):
        return body
    return body.partition("\n")[2][:-3].strip()


def try_parse_json(text: str) -> JsonValue:
    """Parse a JSON text, repaired if necessary. None if it is invalid, and for `null`."""
    for prepare in (str, _repair_json):
        try:
            return from_json(prepare(text))
        except InvalidArgumentError:
            continue
    return None


def _repair_json(text: str) -> str:
    """Remove trailing commas, and escape control characters in strings."""
    return _REPAIRABLE.sub(lambda found: "" if found[0] == "," else _CONTROL.sub(_escape, found[0]), text)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
