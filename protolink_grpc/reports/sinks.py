"""Where run events go that an application wants to keep: sinks, and the recorder that makes a report of them.

They observe; nothing that they do reaches the run.
"""

from dataclasses import replace
from typing import Any, Protocol

from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import RunEvent, TextDelta
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.task import Task


class EventSink(Protocol):
    """Takes normalised events, one after the other. Applications write their own: for a terminal, a socket, a database."""

    async def emit(self, event: RunEvent) -> None:
        """Take the next event."""
        ...


@checks_arguments
class InMemoryEventSink:
    """Keeps events in the order in which they came.

    An event of a log keeps its sequence there. Any other gets the one after the highest so far; a text delta has none.
    """

    def __init__(self) -> None:
        self._events: list[RunEvent] = []
        self._sequence = 0

    @property
    def events(self) -> list[RunEvent]:
        """A copy of the list; the events are the sink's own."""
        return list(self._events)

    async def emit(self, event: RunEvent) -> None:
        """Keep an event."""
        self._keep(event)

    async def emit_task_event(self, event: object, context: RunContext | None = None) -> RunEvent:
        """Keep what a stream yields, as `RunEvent.from_task_event` reads it, and return it as it is kept."""
        return self._keep(RunEvent.from_task_event(event, context))

    def _keep(self, event: RunEvent) -> RunEvent:
        if isinstance(event.payload, TextDelta):
            kept = event
        elif event.sequence is not None and event.task_id:
            kept = event
            self._sequence = max(self._sequence, event.sequence)
        else:
            self._sequence += 1
            kept = replace(event, sequence=self._sequence)
        self._events.append(kept)
        return kept

    def to_list(self) -> list[dict[str, Any]]:
        """The events as JSON objects."""
        return [event.to_dict() for event in self._events]

    def clear(self) -> None:
        """Forget everything; sequences begin at 1 again."""
        self._events.clear()
        self._sequence = 0


@checks_arguments
class RunRecorder(InMemoryEventSink):
    """A sink that makes a report of what it has kept.

    Args:
        context: Envelope of the run, for the report and for events that name none.
    """

    def __init__(self, context: RunContext | None = None) -> None:
        super().__init__()
        self.context = context

    record_event = InMemoryEventSink.emit

    async def emit_task_event(self, event: object, context: RunContext | None = None) -> RunEvent:
        """Keep what a stream yields, as `RunEvent.from_task_event` reads it, and return it as it is kept."""
        return await super().emit_task_event(event, context or self.context)

    record_task_event = emit_task_event

    def to_report(
        self,
        context: RunContext | None = None,
        final_task: Task | None = None,
        metadata: dict[str, Any] | None = None,
        redaction_policy: RedactionPolicy | None = None,
    ) -> RunReport:
        """The report of what was kept so far, redacted when a policy is given. Arguments as in `RunReport.from_events`."""
        report = RunReport.from_events(self._events, context or self.context, final_task, metadata)
        return report if redaction_policy is None else report.redacted(redaction_policy)
