"""Shortened tool results: the JSON that replaces a result in the prompt, and the tool with which the model reads the rest.

The complete result is in the log, as the result of its action, or in the storage of the conversation. A read returns a part of it
and is no action: it has no effect, and it shows only what the conversation contains.
"""

from collections.abc import Mapping
from typing import Any

from protolink_grpc.errors import ToolRejectedError
from protolink_grpc.llms.answers import READ_ARTIFACT
from protolink_grpc.llms.loop_host import Observation
from protolink_grpc.llms.port import ToolSpec
from protolink_grpc.models.json_value import to_json

READ_CHARS = 8000
"""The most characters of one read if results have no limit."""

READ_TOOL = ToolSpec(
    READ_ARTIFACT,
    "Reads more of a shortened result. `offset` and `limit` count characters of its JSON.",
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The `artifact` of the shortened result."},
            "offset": {"type": "integer", "minimum": 0},
            "limit": {"type": "integer", "minimum": 1},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    read_only=True,
)


class ContextArtifacts:
    """The shortened results of one inference, by name, oldest first.

    Args:
        max_artifacts: Number of results that can be read; the oldest ones are forgotten.
        max_chars: Number of characters of one result that can be read.
        native: Whether the model gets the tool as a definition. Otherwise each shortened result shows the call.
    """

    __slots__ = ("_max_artifacts", "_max_chars", "_native", "_texts")

    def __init__(self, max_artifacts: int, max_chars: int, *, native: bool) -> None:
        self._max_artifacts = max_artifacts
        self._max_chars = max_chars
        self._native = native
        self._texts: dict[str, str] = {}

    @property
    def is_empty(self) -> bool:
        return not self._texts

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The definition of `read_context_artifact`, if there is something to read and the model gets definitions."""
        return (READ_TOOL,) if self._texts and self._native else ()

    def add(self, name: str, text: str) -> None:
        self._texts[name] = text[: self._max_chars]
        while len(self._texts) > self._max_artifacts:
            del self._texts[next(iter(self._texts))]

    def preview(self, name: str, text: str, chars: int, *, without_files: bool = False) -> str:
        """Return the JSON that replaces a result: its name, its length and its first characters.

        Args:
            without_files: The result had files, which the model does not get.
        """
        found: dict[str, Any] = {"artifact": name, "total_chars": len(text)}
        if chars:
            found["preview"] = text[:chars]
        note = "This result is shortened, and its files are left out." if without_files else "This result is shortened."
        if self._max_artifacts and self._native:
            note += f" {READ_ARTIFACT} reads more of it."
        elif self._max_artifacts:
            call = {"type": "tool_call", "tool": READ_ARTIFACT, "args": {"name": name, "offset": chars}}
            note += f" To read more: {to_json(call)}"
        return to_json({**found, "note": note})

    def preview_chars(self, name: str, text: str, chars: int) -> int:
        """Return the number of characters with which `preview` has at most about `chars` characters."""
        room = max(chars - len(self.preview(name, text, 0)), 0)
        # Quotes in the preview are escaped, so it may be twice as long.
        return room if len(self.preview(name, text, room)) <= chars else room // 2

    def read(self, arguments: Mapping[str, Any], result_chars: int | None) -> Observation:
        """Return a part of a result: the observation of a call of `read_context_artifact`.

        Args:
            result_chars: Maximum length of a tool result in the prompt.
        """
        name, offset, limit = arguments.get("name"), arguments.get("offset", 0), arguments.get("limit", READ_CHARS)
        text = self._texts.get(name) if isinstance(name, str) else None
        if text is None:
            return _reject("name: there is no such shortened result", {"available": list(self._texts)})
        if not (_is_count(offset) and _is_count(limit) and limit):
            return _reject("offset and limit: must be whole numbers, and limit at least 1")
        most = (
            READ_CHARS if result_chars is None else max(result_chars // 2, 1)
        )  # quotes are escaped in the observation
        end = min(offset + min(limit, most), len(text))
        found = {"artifact": name, "offset": offset, "total_chars": len(text), "text": text[offset:end]}
        return Observation("ok", found | ({"next_offset": end} if end < len(text) else {}))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _reject(problem: str, details: dict[str, Any] | None = None) -> Observation:
    error = ToolRejectedError(problem, code="invalid_arguments", details=details)
    return Observation("rejected", error=error.to_dict())
