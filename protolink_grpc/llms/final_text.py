"""An incremental decoder for the text of a final answer under the JSON contract, so that it can be streamed.

It decodes `{"type": "final", "content": "..."}` piece by piece and returns only the content: no braces, no escapes, no tool calls.
The returned text is always a prefix of the content that `answers.read_action` parses from the whole answer. The time is linear in
the length.
"""

import json
import re

_LEAD = re.compile(r"\s*+(?:```[a-zA-Z]*+\s*+)?+\{")
_KEY = re.compile(r'\s*+,?+\s*+"([^"\\]{0,64}+)"\s*+:\s*+(?=\S)')
_TYPE = re.compile(r'"([^"\\]{0,64}+)"')
_TEXT = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*+', re.DOTALL)
_THINK = "<think>"
_MAX_LEAD_CHARS = 256
"""Maximum length of the lead, a key or a type. Longer text is not an action."""

_decoder = json.JSONDecoder(strict=False)


class FinalText:
    """Decodes one answer. Returns nothing if `type` does not come before `content`, as the contract requires."""

    __slots__ = ("_buffer", "_held", "_is_final", "_state")

    def __init__(self) -> None:
        self._buffer = ""
        self._held = ""
        self._is_final = False
        self._state = "think"

    def feed(self, text: str) -> str:
        """Add a piece of the answer and return the content text that it completes, often empty."""
        if self._state == "done":
            return ""
        self._buffer += text
        while self._state != "content":
            before = self._state, len(self._buffer)
            getattr(self, f"_{self._state}")()
            if self._state == "done":
                return ""
            if (self._state, len(self._buffer)) == before:
                return ""  # needs more input
        return self._content()

    def _think(self) -> None:
        body = self._buffer.lstrip()
        if body and not _THINK.startswith(body[: len(_THINK)]):
            self._state = "lead"
        elif body.startswith(_THINK):
            self._state = "thinking"

    def _thinking(self) -> None:
        _, closed, rest = self._buffer.partition("</think>")
        # Keep only what may be the beginning of the end tag.
        self._buffer = rest if closed else self._buffer[-8:]
        self._state = "lead" if closed else "thinking"

    def _lead(self) -> None:
        self._take(_LEAD, "key")

    def _key(self) -> None:
        found = self._take(_KEY, "type")
        if found is not None and found[1] == "content":
            opened = self._is_final and self._buffer.startswith('"')
            self._buffer = self._buffer[1:]
            self._state = "content" if opened else "done"
        elif found is not None and found[1] != "type":
            self._state = "skip" if self._buffer.startswith('"') else "done"
            self._buffer = self._buffer[1:]

    def _type(self) -> None:
        found = self._take(_TYPE, "key")
        self._is_final = found is not None and found[1] == "final"
        if found is not None and not self._is_final:
            self._state = "done"

    def _skip(self) -> None:
        """Skip the text of another field, for example `thought`."""
        self._buffer = self._buffer[_end_of(_TEXT, self._buffer) :]
        if self._buffer.startswith('"'):
            self._buffer = self._buffer[1:]
            self._state = "key"

    def _content(self) -> str:
        end = _end_of(_TEXT, self._buffer)
        spelled, self._buffer = self._buffer[:end], self._buffer[end:]
        if self._buffer.startswith('"'):
            self._state = "done"
        try:
            decoded: str = self._held + _decoder.decode(f'"{spelled}"')
        except ValueError:  # an invalid escape: the whole answer is invalid too
            self._state = "done"
            return ""
        self._held = ""
        if (
            self._state != "done" and decoded and "\ud800" <= decoded[-1] <= "\udbff"
        ):  # the first half of a surrogate pair
            decoded, self._held = decoded[:-1], decoded[-1]
        return decoded if decoded.isascii() else _join_surrogates(decoded)

    def _take(self, pattern: re.Pattern[str], state: str) -> re.Match[str] | None:
        """If the buffer starts with `pattern`, remove it and enter `state`. Give up if it can no longer match."""
        found = pattern.match(self._buffer)
        if found is not None:
            self._buffer = self._buffer[found.end() :]
            self._state = state
        elif len(self._buffer) > _MAX_LEAD_CHARS:
            self._state = "done"
        return found


def _end_of(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.match(text)
    return found.end() if found else 0


def _join_surrogates(text: str) -> str:
    """Join surrogate pairs, which are written as two escapes, to one character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
