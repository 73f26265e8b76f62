"""Events from JSON and from ProtoLink's streams: lossless conversions; unknown content is kept."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire_values import PAYLOADS, full_event, full_payloads

from protolink_grpc.compat.protolink.stream_events import _LLM_SHAPES
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import Artifact, ContextManifest, Message, Part, RunAction, RunContext, Task, TaskState
from protolink_grpc.models import events as ev
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.json_value import MAX_DEPTH

NOON = "2026-06-12T12:00:00.000001+00:00"
FULL = full_payloads()


def stream_event(kind: str, **more: Any) -> dict[str, Any]:
    return {"event_id": "e", "type": kind, "task_id": "t", "timestamp": NOON, "metadata": {}} | more


def llm_event(kind: str, step: int = 2, content: str = "", **metadata: Any) -> dict[str, Any]:
    return stream_event(
        "task_llm_stream",
        agent_name="hotel",
        llm_event_type=kind,
        step=step,
        content=content,
        final=False,
        metadata=metadata,
    )


# -- JSON ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FULL, ids=lambda kind: kind.__name__)
def test_an_event_of_each_kind_survives_json(kind: type) -> None:
    event = full_event(FULL[kind])
    again = RunEvent.from_dict(json.loads(json.dumps(event.to_dict())))
    assert type(again.payload) is kind
    assert again.to_dict() == event.to_dict()


@pytest.mark.parametrize(
    "payload",
    [ev.ContextPrepared(ContextManifest()), ev.LlmCallStarted("call"), ev.LlmCallCompleted("call")],
    ids=lambda payload: type(payload).__name__,
)
def test_an_event_whose_later_fields_are_unset_survives_json(payload: Any) -> None:
    again = RunEvent.from_dict(json.loads(json.dumps(RunEvent(payload=payload, task_id="t", sequence=1).to_dict())))
    assert again.payload == payload


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(payload=st.one_of(*PAYLOADS.values()))
def test_any_payload_of_its_own_type_survives_json(payload: Any) -> None:
    written = RunEvent(payload=payload, task_id="t", sequence=1).to_dict()
    assert RunEvent.from_dict(written).to_dict() == written


def test_the_json_form_has_no_bytes_that_repeat_the_messages() -> None:
    added = ev.TaskMessagesAdded((Message.user("hello"),), encoded=(b"\x0a\x01",))
    assert set(RunEvent(payload=added).to_dict()["payload"]) == {"messages", "request_id"}


def test_a_delta_and_a_step_of_one_type_are_distinguished() -> None:
    delta = RunEvent(payload=ev.TextDelta("c", 3, "to be"), task_id="t")
    assert RunEvent.from_dict(delta.to_dict()).payload == delta.payload


def test_an_event_without_a_payload_survives_json() -> None:
    assert RunEvent.from_dict(RunEvent("task.progress", summary="Halfway done").to_dict()).payload is None


def test_an_applications_own_payload_of_a_known_type_loses_nothing() -> None:
    own = {"progress": 3, "eta_s": 7}
    assert RunEvent.from_dict({"type": "task.progress", "payload": own}).payload == own


def test_an_invalid_payload_is_kept_unchanged() -> None:
    payload = {"request": {"action": {"kind": ""}}, "step": 3, "delegation_id": "d"}
    event = RunEvent.from_dict({"type": "approval.required", "payload": payload})
    assert event.payload == payload
    assert (event.to_dict()["step"], event.to_dict()["delegation_id"]) == (3, "d")


def test_a_field_that_a_later_version_adds_is_skipped() -> None:
    written = RunEvent(payload=ev.TaskProgress(1.0, "on")).to_dict()
    written["payload"]["later"] = True
    assert RunEvent.from_dict(written).payload == ev.TaskProgress(1.0, "on")


def test_a_part_of_maximum_depth_can_be_read() -> None:
    value: Any = 0
    for _ in range(MAX_DEPTH):
        value = [value]
    event = RunEvent(payload=ev.TaskMessagesAdded((Message(parts=[Part.json(value)]),)))
    assert RunEvent.from_dict(event.to_dict()).to_dict() == event.to_dict()


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ([], ""),
        ({}, "type"),
        ({"type": "x", "sequence": -1}, "sequence"),
        ({"type": "x", "severity": "loud"}, "severity"),
        ({"type": "x", "payload": 7}, "payload"),
        ({"type": "x", "timestamp": "noon"}, "timestamp"),
    ],
)
def test_an_invalid_event_is_refused_with_the_name_of_the_field(written: Any, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        RunEvent.from_dict(written)
    assert refused.value.field == field


# -- streams -------------------------------------------------------------------------------------------------------------


def test_run_events_pass_unchanged() -> None:
    event = RunEvent(payload=ev.TaskProgress(), task_id="t", sequence=4, run_id="r", session_id="s")
    assert RunEvent.from_task_event(event, RunContext(run_id="other"), 9) is event


def test_a_context_fills_in_only_missing_fields() -> None:
    event = RunEvent(payload=ev.TaskProgress(), run_id="r")
    seen = RunEvent.from_task_event(event, RunContext(run_id="other", session_id="s"), 9)
    assert (seen.run_id, seen.session_id, seen.sequence) == ("r", "s", 9)
    assert event.sequence is None


def test_the_json_form_of_our_events_is_a_task_event_too() -> None:
    event = full_event(ev.TaskProgress(5.0, "on"))
    assert RunEvent.from_task_event(event.to_dict()).to_dict() == event.to_dict()


def test_an_object_with_to_dict_is_read_from_its_json_form() -> None:
    class Update:
        def to_dict(self) -> dict[str, Any]:
            return stream_event("task_progress", progress=40, message="Searching")

    seen = RunEvent.from_task_event(Update())
    assert (seen.type, seen.summary, seen.payload) == ("task.progress", "Searching", ev.TaskProgress(40, "Searching"))


def test_a_status_is_promoted_with_the_reason_of_its_task() -> None:
    task = {"metadata": {"error": "no rooms", "run_context": {"run_id": "r", "session_id": "s"}}}
    seen = RunEvent.from_task_event(
        stream_event(
            "task_status_update", previous_state="working", new_state="failed", final=True, metadata={"task": task}
        )
    )
    assert seen.payload == ev.TaskStatusChanged(TaskState.WORKING, TaskState.FAILED, Failure(message="no rooms"))
    assert (seen.type, seen.final, seen.run_id, seen.session_id) == ("task.status", True, "r", "s")
    assert seen.metadata == {"task": task, "source_type": "task_status_update"}


def test_a_status_without_a_previous_state_comes_from_unknown() -> None:
    seen = RunEvent.from_task_event(stream_event("task_status_update", previous_state=None, new_state="working"))
    assert seen.payload == ev.TaskStatusChanged(TaskState.UNKNOWN, TaskState.WORKING)


def test_an_artifact_and_an_error_are_promoted() -> None:
    artifact = Artifact(id="a", parts=[Part.text("x")])
    seen = RunEvent.from_task_event(stream_event("task_artifact_update", artifact=artifact.to_dict()))
    assert (seen.type, seen.payload) == ("task.artifact", ev.TaskArtifactUpdated(artifact))
    failed = RunEvent.from_task_event(stream_event("task_error", error_code="E", error_message="m", recoverable=True))
    assert (failed.type, failed.severity, failed.payload) == (
        "task.error",
        "error",
        ev.TaskErrorReported(Failure("E", "m"), "continues"),
    )


PROMOTED = {
    "context_prepared": "context.prepared",
    "llm_call_started": "llm.call.started",
    "llm_call_completed": "llm.call.completed",
    "budget_warning": "budget.warning",
    "budget_exceeded": "budget.exceeded",
    "action_requested": "action.requested",
    "policy_decision": "action.policy",
    "approval_required": "approval.required",
    "approval_decision": "approval.decided",
    "action_denied": "action.denied",
    "tool_start": "action.started",
    "agent_call_start": "action.started",
    "tool_result": "action.completed",
    "agent_call_result": "action.completed",
    "tool_error": "action.failed",
    "agent_call_error": "action.failed",
    "tool_rejected": "action.rejected",
    "agent_call_rejected": "action.rejected",
    "tool_canceled": "action.canceled",
    "agent_call_canceled": "action.canceled",
}
STAYING = [
    *("llm_step", "llm_context", "llm_chunk", "llm_call_metrics", "llm_response", "llm_action", "llm_final"),
    *("llm_parse_error", "llm_retry", "llm_error", "context_compacted", "run_yielded", "retrieval_started"),
]


@pytest.mark.parametrize(("source", "promoted"), PROMOTED.items())
def test_each_kind_of_a_models_stream_gets_its_documented_type(source: str, promoted: str) -> None:
    # Without the metadata of its kind the type is still correct, and nothing is lost.
    seen = RunEvent.from_task_event(llm_event(source, own=1))
    assert seen.type == promoted
    assert seen.metadata["own"] == 1


def test_the_promotion_table_is_the_documented_one() -> None:
    promoted = {source: kind for source, (kind, _, _) in _LLM_SHAPES.items() if kind != "llm.stream"}
    assert promoted == PROMOTED


@pytest.mark.parametrize("source", STAYING)
def test_the_rest_of_a_models_stream_stays_a_stream(source: str) -> None:
    seen = RunEvent.from_task_event(llm_event(source, 3, "so", note=1))
    assert (seen.type, seen.payload) == ("llm.stream", ev.LlmStep(source, 3, "so", {"note": 1}))
    assert seen.to_dict()["step"] == 3


def test_promoted_values_are_in_the_payload() -> None:
    manifest = ContextManifest(user_tokens=7, created_at=NOON)
    prepared = RunEvent.from_task_event(llm_event("context_prepared", manifest=manifest.to_dict()))
    assert prepared.to_dict()["payload"]["manifest"] == manifest.to_dict()
    action = RunAction("tool.call", "add", action_id="a1", created_at=NOON)
    asked = RunEvent.from_task_event(llm_event("action_requested", action=action.to_dict(), span_id="s1"))
    assert asked.to_dict()["payload"]["action"] == action.to_dict()
    assert (asked.action_id, asked.to_dict()["span_id"]) == ("a1", "s1")


def test_the_usage_of_a_call_is_taken_from_its_metrics() -> None:
    usage = {"input_tokens": 11, "output_tokens": None, "total_tokens": 11, "estimated": True}
    seen = RunEvent.from_task_event(
        llm_event("llm_call_completed", provider="mock", model="m", latency_ms=1.5, metrics={"usage": usage})
    )
    call = seen.payload
    assert isinstance(call, ev.LlmCallCompleted)
    assert (call.input_tokens, call.output_tokens, call.duration_micros) == (11, None, 1500)


def test_an_event_of_another_version_is_kept_unchanged() -> None:
    seen = RunEvent.from_task_event(llm_event("approval_required", request="call me"))
    assert isinstance(seen.payload, dict)
    assert seen.payload["request"] == "call me"
    assert seen.payload["llm_event_type"] == "approval_required"


@pytest.mark.parametrize("event", [None, 7, "x", [], {}, Task.create("hello")])
def test_other_objects_are_refused(event: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        RunEvent.from_task_event(event)
