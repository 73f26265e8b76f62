"""The log of a task as JSON lines in batches, so that the memory does not depend on the length of the log."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.references import References
from protolink_grpc.models.report import redact_json, to_json_line
from protolink_grpc.reports.agentruntime import AgentRuntimeView
from protolink_grpc.wire.events import event_from_frame

BATCH_BYTES = 256 << 10
"""Maximum length of a batch of lines in characters, including line ends; a single longer line has its own batch."""


def _to_dicts(event: RunEvent) -> Iterable[dict[str, Any]]:
    return (event.to_dict(),)


FORMATS: dict[str, Callable[[], Callable[[RunEvent], Iterable[dict[str, Any]]]]] = {
    "protolink": lambda: _to_dicts,
    "agentruntime": lambda: AgentRuntimeView().records,
}
"""Creates the conversion of each format. It has state, so each export needs its own."""


class RunExport:
    """One export of one log from its first event. It is not for concurrent use.

    Args:
        format: One of `FORMATS`; empty means protolink.
        redaction_policy: Removes secrets; None removes nothing.

    Raises:
        InvalidArgumentError: There is no such format; names `format`.
    """

    def __init__(self, format: str = "", redaction_policy: RedactionPolicy | None = None) -> None:  # noqa: A002 -- the field's name
        create = FORMATS.get(format or "protolink")
        if create is None:
            raise InvalidArgumentError(f"must be one of {', '.join(FORMATS)}", field="format")
        self._read = create()
        self._redaction = redaction_policy
        self._references = References()

    def lines(self, events: Iterable[RunEvent]) -> Iterator[str]:
        """Return the lines of the next events."""
        for event in events:
            for record in self._read(self._references.whole(event)):
                yield to_json_line(redact_json(record, self._redaction))

    def batches(self, frames: Iterable[bytes]) -> list[list[str]]:
        """Return the lines of the next encoded events, in batches of at most `BATCH_BYTES`."""
        found: list[list[str]] = []
        size = 0
        for line in self.lines(map(event_from_frame, frames)):
            size += len(line) + 1
            if not found or size > BATCH_BYTES:
                found.append([])
                size = len(line) + 1
            found[-1].append(line)
        return found
