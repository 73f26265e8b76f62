"""What a reader of live text has received. It removes repetitions when a stream is opened again."""

from dataclasses import replace

from protolink_grpc.models.events import LlmCallCompleted, LlmCallStarted, RunEvent, TextDelta


class TextsRead:
    """The part of each live text that a caller has received, so that a stream that is opened again does not repeat it."""

    __slots__ = ("_shown", "_told")

    def __init__(self) -> None:
        self._shown: dict[str, int] = {}
        self._told: dict[str, int] = {}

    def begin_stream(self) -> None:
        """Note that a new stream begins, which sends each text from offset 0."""
        self._told.clear()

    def news(self, event: RunEvent) -> RunEvent | None:
        """Return a delta without the text already received, or None if nothing is left. Other events are returned unchanged."""
        payload = event.payload
        if isinstance(payload, TextDelta):
            return self._rest(event, payload)
        if isinstance(payload, LlmCallStarted | LlmCallCompleted):
            self._shown.pop(payload.call_id, None)
            self._told.pop(payload.call_id, None)
        return event

    def _rest(self, event: RunEvent, delta: TextDelta) -> RunEvent | None:
        raw = delta.text.encode(errors="replace")
        call_id, end = delta.call_id, delta.offset + len(raw)
        if delta.offset == 0 and call_id in self._told:
            self._shown[call_id] = 0  # in the middle of a stream: the text begins again
        self._told[call_id] = end
        known = self._shown.get(call_id, 0) - delta.offset
        if known >= len(raw):
            return None
        self._shown[call_id] = end
        if known <= 0:
            return event
        return replace(
            event, payload=replace(delta, offset=delta.offset + known, text=raw[known:].decode(errors="replace"))
        )
