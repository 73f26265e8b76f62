"""Takes a `<think>...</think>` block off the beginning of a streamed text: some servers leave a model's thinking in its answer."""

from typing import Literal

_OPEN = "<think>"
_CLOSE = "</think>"


class LeadingThought:
    """A filter for one answer. Tags may be cut anywhere; of a block that never ends nothing is text."""

    def __init__(self) -> None:
        self._state: Literal["start", "thought", "gap", "text"] = "start"
        self._held = ""

    def feed(self, piece: str) -> str:
        """What is known to be text now, and was not before."""
        if self._state == "text":
            return piece
        self._held += piece
        if self._state == "start":
            begin = self._held.lstrip()
            if not begin.startswith(_OPEN):
                return "" if _OPEN.startswith(begin) else self._release()
            self._state, self._held = "thought", begin[len(_OPEN) :]
        if self._state == "thought":
            _, closed, after = self._held.partition(_CLOSE)
            if not closed:
                # Only its end may still become the tag.
                self._held = self._held[1 - len(_CLOSE) :]
                return ""
            self._state, self._held = "gap", after
        self._held = self._held.lstrip()
        return self._release() if self._held else ""

    def rest(self) -> str:
        """What was held back when the answer ended."""
        return self._release() if self._state == "start" else ""

    def _release(self) -> str:
        self._state, held = "text", self._held
        self._held = ""
        return held
