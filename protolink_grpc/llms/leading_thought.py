"""Removes a `<think>...</think>` block from the beginning of a streamed text: some servers leave the model's reasoning in it."""

from typing import Literal

_OPEN = "<think>"
_CLOSE = "</think>"


class LeadingThought:
    """A filter for one answer. Pieces may split tags anywhere. If the block is not closed, all text is removed."""

    def __init__(self) -> None:
        self._state: Literal["start", "thought", "gap", "text"] = "start"
        self._held = ""

    def feed(self, piece: str) -> str:
        """Add a piece of the answer and return the text that is now known to be outside of the block."""
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
                # Only the end may be the beginning of the closing tag.
                self._held = self._held[1 - len(_CLOSE) :]
                return ""
            self._state, self._held = "gap", after
        self._held = self._held.lstrip()
        return self._release() if self._held else ""

    def rest(self) -> str:
        """The text that is held back at the end of the answer."""
        return self._release() if self._state == "start" else ""

    def _release(self) -> str:
        self._state, held = "text", self._held
        self._held = ""
        return held
