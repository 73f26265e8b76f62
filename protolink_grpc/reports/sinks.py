"""Sinks for run events, and a recorder that creates a report. They observe a run and do not affect it."""

from dataclasses import replace
from typing import Any, Protocol

from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import RunEvent, TextDelta
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.task import Task


class EventSink(Protocol):
    """Receives events one after the other. Applications implement it, for instance for a terminal or a database."""

    async def emit(self, event: RunEvent) -> None:
        """Receive the next event."""
        ...


@checks_arguments
class InMemoryEventSink:
    """Stores events in the order of their arrival.

    An event of a log keeps its sequence. Any other gets the next sequence; deltas have none.
    """

    def __init__(self) -> None:
        self._events: list[RunEvent] = []
        self._sequence = 0

    @property
    def events(self) -> list[RunEvent]:
        """A copy of the list. The events themselves are not copied."""
        return list(self._events)

    async def emit(self, event: RunEvent) -> None:
        """Store an event."""
        self._store(event)

    async def emit_task_event(self, event: object, context: RunContext | None = None) -> RunEvent:
        """Convert an item of a stream with `RunEvent.from_task_event`, store it and return the stored event."""
        return self._store(RunEvent.from_task_event(event, context))

    def _store(self, event: RunEvent) -> RunEvent:
        if isinstance(event.payload, TextDelta):
            stored = event
        elif event.sequence is not None and event.task_id:
            stored = event
            self._sequence = max(self._sequence, event.sequence)
        else:
            self._sequence += 1
            stored = replace(event, sequence=self._sequence)
        self._events.append(stored)
        return stored

    def to_list(self) -> list[dict[str, Any]]:
        """The events as JSON objects."""
        return [event.to_dict() for event in self._events]

    def clear(self) -> None:
        """Delete all events. Sequences start at 1 again."""
        self._events.clear()
        self._sequence = 0


@checks_arguments
class RunRecorder(InMemoryEventSink):
    """A sink that creates a report of its events.

    Args:
        context: Context of the run, for the report and for events without one.
    """

    def __init__(self, context: RunContext | None = None) -> None:
        super().__init__()
        self.context = context

    record_event = InMemoryEventSink.emit

    async def emit_task_event(self, event: object, context: RunContext | None = None) -> RunEvent:
        """Convert an item of a stream with `RunEvent.from_task_event`, store it and return the stored event."""
        return await super().emit_task_event(event, context or self.context)

    record_task_event = emit_task_event

    def to_report(
        self,
        context: RunContext | None = None,
        final_task: Task | None = None,
        metadata: dict[str, Any] | None = None,
        redaction_policy: RedactionPolicy | None = None,
    ) -> RunReport:
        """Return the report of the events so far, redacted if a policy is given. Arguments as in `RunReport.from_events`."""
        report = RunReport.from_events(self._events, context or self.context, final_task, metadata)
        return report if redaction_policy is None else report.redacted(redaction_policy)
