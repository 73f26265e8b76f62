"""Sinks and the recorder: stored events, sequences and reports."""

from typing import Any

import pytest

from protolink_grpc.models import RunContext, TaskState
from protolink_grpc.models import events as ev
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.reports import InMemoryEventSink, RunRecorder


def logged(sequence: int) -> RunEvent:
    return RunEvent(payload=ev.TaskProgress(), task_id="t", sequence=sequence, run_id="r")


async def test_an_event_without_a_log_is_numbered_by_the_sink() -> None:
    sink = InMemoryEventSink()
    await sink.emit(RunEvent(type="task.progress", summary="Halfway done"))
    await sink.emit(RunEvent(type="task.progress", sequence=40, summary="a number of nobody's log"))
    assert [each["sequence"] for each in sink.to_list()] == [1, 2]


async def test_an_event_of_a_log_keeps_its_sequence() -> None:
    sink = InMemoryEventSink()
    for event in (logged(3), RunEvent("own", {}), logged(4), logged(9), RunEvent("own", {})):
        await sink.emit(event)
    assert [event.sequence for event in sink.events] == [3, 4, 4, 9, 10]


async def test_a_text_delta_has_no_sequence() -> None:
    sink = InMemoryEventSink()
    await sink.emit(logged(1))
    await sink.emit(RunEvent(payload=ev.TextDelta("c", 0, "to"), task_id="t"))
    await sink.emit(RunEvent("own", {}))
    assert [event.sequence for event in sink.events] == [1, None, 2]


async def test_emitted_events_are_not_changed() -> None:
    event = RunEvent("own", {})
    await InMemoryEventSink().emit(event)
    assert event.sequence is None


async def test_a_cleared_sink_starts_at_one_again() -> None:
    sink = InMemoryEventSink()
    await sink.emit(RunEvent("own", {}))
    sink.clear()
    assert sink.to_list() == []
    await sink.emit(RunEvent("own", {}))
    assert sink.events[0].sequence == 1


async def test_the_list_of_events_is_a_copy() -> None:
    sink = InMemoryEventSink()
    await sink.emit(logged(1))
    sink.events.clear()
    assert len(sink.events) == 1


async def test_stream_events_are_normalised_with_their_context() -> None:
    sink = InMemoryEventSink()
    kept = await sink.emit_task_event(
        {"type": "task_progress", "task_id": "t", "progress": 5, "message": "on"},
        RunContext(run_id="r", session_id="s"),
    )
    assert kept is sink.events[0]
    assert (kept.type, kept.run_id, kept.session_id, kept.sequence) == ("task.progress", "r", "s", 1)


@pytest.mark.parametrize("verb", ["record_task_event", "emit_task_event"])
async def test_a_recorder_adds_its_context_to_events(verb: str) -> None:
    recorder = RunRecorder(context=RunContext(run_id="r"))
    await getattr(recorder, verb)({"type": "task_progress", "progress": 5, "message": "on"})
    assert recorder.events[0].run_id == "r"


@pytest.mark.parametrize("verb", ["emit", "record_event"])
async def test_a_recorder_records_events(verb: str) -> None:
    recorder = RunRecorder()
    await getattr(recorder, verb)(logged(1))
    assert [event.sequence for event in recorder.events] == [1]


async def test_a_recorders_report_has_its_context_and_metadata() -> None:
    context = RunContext(run_id="r", session_id="s")
    recorder = RunRecorder(context)
    await recorder.emit(logged(1))
    report = recorder.to_report(metadata={"source": "integration-test"})
    assert (report.context, report.metadata) == (context, {"source": "integration-test"})
    assert report.events == recorder.events


async def test_a_recorders_report_is_redacted_on_request() -> None:
    recorder = RunRecorder()
    await recorder.emit(RunEvent("own", {"password": "hunter2", "room": 7}))
    report = recorder.to_report(redaction_policy=RedactionPolicy())
    assert report.events[0].payload == {"password": "[REDACTED]", "room": 7}
    assert recorder.events[0].payload == {"password": "hunter2", "room": 7}


async def test_a_task_in_the_stream_is_the_final_task_of_the_report() -> None:
    task: dict[str, Any] = {"id": "t", "state": "completed", "metadata": {"run_context": {"run_id": "r"}}}
    recorder = RunRecorder()
    await recorder.record_task_event(
        {
            "type": "task_status_update",
            "task_id": "t",
            "previous_state": "working",
            "new_state": "completed",
            "final": True,
            "metadata": {"task": task},
        }
    )
    report = recorder.to_report()
    assert report.final_task is not None
    assert (report.final_task.id, report.final_task.state, report.run_id) == ("t", TaskState.COMPLETED, "r")
