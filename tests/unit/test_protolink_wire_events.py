"""Conversion of events to ProtoLink's events and back: no event is lost, and ProtoLink's clients can read all of them."""

import json
from dataclasses import asdict, replace
from math import isfinite
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from protolink.core.events import RunEvent as PeerEvent
from protolink.models import Task as PeerTask
from wire_values import FULL_ARTIFACT, PAYLOADS, events, full_event, full_payloads, full_task

from protolink_grpc.compat.protolink.edge.events import StreamEvents, is_last
from protolink_grpc.compat.protolink.edge.shapes import card_json, on_one_line, task_json
from protolink_grpc.edges.http.json_body import write_json
from protolink_grpc.models import AgentCard, Artifact, ContextManifest, Part, RunAction, TaskState
from protolink_grpc.models import events as ev
from protolink_grpc.models.card import AgentInterface
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL

# A shared machine's pauses are no failure; each kind gets its own examples, so a few are many.
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
each_kind = pytest.mark.parametrize("kind", list(PAYLOADS), ids=lambda kind: kind.__name__)

PEER_STATES = {"submitted", "working", "input-required", "completed", "canceled", "failed", "unknown"}


def told(*shown: ev.RunEvent) -> list[dict[str, Any]]:
    stream = StreamEvents()
    return [each for event in shown for each in stream.of(event)]


def event(payload: Any, kind: str = "") -> ev.RunEvent:
    return ev.RunEvent(kind, payload, task_id="t", sequence=3, agent_name="a", action_id="action")


@given(events)
@relaxed
def test_every_event_is_json_that_protolink_reads(shown: ev.RunEvent) -> None:
    for each in told(shown):
        text = on_one_line(write_json(each))
        assert len(text.decode().splitlines()) == 1
        assert PeerEvent.from_task_event(json.loads(text)).timestamp == each["timestamp"]


@each_kind
def test_only_the_task_that_was_sent_is_not_told(kind: type) -> None:
    found = told(full_event(full_payloads()[kind]))
    assert bool(found) == (kind is not ev.TaskSubmitted)
    assert all(each["event_id"] for each in found)


def test_a_reduced_prompt_has_protolinks_name_and_the_summary() -> None:
    found = told(event(ev.ContextCompacted(900, 300, "summary", "They spoke.")))[-1]
    assert (found["llm_event_type"], found["content"]) == ("context_compacted", "They spoke.")
    assert found["metadata"].items() >= {"before_tokens": 900, "after_tokens": 300, "strategy": "summary"}.items()


SAID_AGAIN = (
    ev.TaskProgress,
    ev.TaskErrorReported,
    ev.ActionPolicyEvaluated,
    ev.ApprovalRequired,
    ev.ApprovalDecided,
    ev.ContextPrepared,
    ev.BudgetReported,
)


@pytest.mark.parametrize("kind", SAID_AGAIN, ids=lambda kind: kind.__name__)
@given(st.data())
@relaxed
def test_what_protolink_has_words_for_comes_back_as_it_was(kind: type, data: st.DataObject) -> None:
    # A manifest may be made of names that its reader does not take; one of proper names stands for all.
    payload = data.draw(PAYLOADS[kind]) if kind is not ev.ContextPrepared else full_payloads()[kind]
    *_, found = told(event(payload))  # what ProtoLink tells beside it comes first
    read = ev.RunEvent.from_task_event(json.loads(write_json(found)))
    assert (read.type, read.task_id) == (event(payload).type, "t")
    if isinstance(payload, ev.TaskProgress) and payload.progress is not None and not isfinite(payload.progress):
        payload = replace(payload, progress=None)  # JSON has no such number
    elif isinstance(payload, ev.TaskProgress) and not 0 <= (payload.progress or 0) <= 100:
        assert read.payload == found  # it has no event of its own, and is shown unchanged
        return
    if isinstance(payload, ev.TaskErrorReported):  # of a failure, ProtoLink has two words
        known = Failure.of(payload.failure.reason, payload.failure.message)
        payload = ev.TaskErrorReported(known, "continues" if payload.recoverable else "ends")
    if isinstance(payload, ev.ContextPrepared):  # ProtoLink has only the manifest
        payload = ev.ContextPrepared(payload.manifest, payload.step)
    if has_no_json(payload):
        # An infinite confidence, say, is null in JSON: what was read says the same again.
        (again,) = told(event(read.payload))
        assert write_json(again | {"timestamp": found["timestamp"]}) == write_json(found)
        return
    assert read.payload == payload


def has_no_json(payload: Any) -> bool:
    """Whether a number in it is infinite or NaN."""
    try:
        json.dumps(asdict(payload), default=str, allow_nan=False)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize("outcome", ["completed", "failed", "rejected", "canceled", "denied"])
@pytest.mark.parametrize(("kind", "name"), [("tool.call", "tool"), ("agent.call", "agent_call")])
def test_the_end_of_an_action_comes_back_with_its_outcome(outcome: str, kind: str, name: str) -> None:
    ended = ev.ActionEnded(kind, "it", {"x": 1} if outcome == "completed" else None)
    if outcome != "completed":
        ended = replace(ended, error={"message": "no"}, outcome=outcome)
    (found,) = told(event(ended))
    words = {"completed": "result", "failed": "error", "rejected": "rejected", "canceled": "canceled"}
    assert found["llm_event_type"] == ("action_denied" if outcome == "denied" else f"{name}_{words[outcome]}")
    read = ev.RunEvent.from_task_event(found)
    assert (read.type, read.payload, read.action_id) == (f"action.{outcome}", ended, "action")


def test_an_outcome_that_protolink_has_no_word_for_is_told_as_an_error() -> None:
    (found,) = told(event(ev.ActionEnded("tool.call", "it", outcome="unknown-77"), "action.parked"))
    assert found["llm_event_type"] == "tool_error"


def test_a_result_that_was_kept_back_is_said_to_be() -> None:
    (found,) = told(event(ev.ActionEnded("tool.call", "it")))
    assert found["metadata"] == {"tool": "it", "result_omitted": True, "action_id": "action"}


@pytest.mark.parametrize("state", list(TaskState))
def test_a_stream_ends_with_the_state_in_which_a_task_rests(state: TaskState) -> None:
    (found,) = told(event(ev.TaskStatusChanged.because(TaskState.WORKING, state, "why")))
    assert found["new_state"] in PEER_STATES
    assert is_last(found) == (state in TERMINAL or state in INTERRUPTED)


def test_no_event_of_an_application_ends_a_stream() -> None:
    mine = ev.RunEvent("task_status_update", {"final": True}, task_id="t", sequence=1, final=True)
    assert not any(is_last(each) for each in told(mine))


def test_further_parts_of_an_artifact_are_not_taken_for_a_whole_one() -> None:
    (whole,) = told(event(ev.TaskArtifactUpdated(FULL_ARTIFACT)))
    (more,) = told(event(ev.TaskArtifactUpdated(FULL_ARTIFACT, append=True)))
    assert (whole["type"], whole["artifact"]["id"]) == ("task_artifact_update", "artifact")
    assert (more["type"], more["payload"]["append"]) == ("task.artifact", True)


texts = st.lists(st.text(max_size=5), max_size=4)


@given(texts, texts, st.integers(0, 20))
def test_the_chunks_of_a_call_are_its_text_however_much_of_it_was_seen_live(
    void: list[str], pieces: list[str], missed: int
) -> None:
    stream, shown = StreamEvents(), ""

    def show(payload: Any) -> str:
        found = stream.of(event(payload))
        return "".join(each["content"] for each in found if each.get("llm_event_type") == "llm_chunk")

    show(ev.LlmCallStarted("c", step=2))
    for piece in void:  # of a try that failed
        show(ev.TextDelta("c", 0, piece))
    show(ev.LlmCallStarted("c", attempt=2, step=2))
    whole = "".join(pieces)
    for piece in pieces[: max(0, len(pieces) - missed)]:
        shown += show(ev.TextDelta("c", len(shown.encode()), piece))
    shown += show(ev.LlmCallCompleted("c", step=2, text=whole))
    assert shown == whole


def test_a_chunk_has_the_step_of_its_call() -> None:
    found = told(
        event(ev.LlmCallStarted("a", step=2)), event(ev.LlmCallStarted("b", step=5)), event(ev.TextDelta("a", 0, "x"))
    )
    assert (found[-1]["step"], found[-1]["content"], found[-1]["event_id"]) == (2, "x", "t/a@0")


# -- tasks and cards -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", list(TaskState))
def test_a_task_of_every_state_is_one_that_protolink_reads(state: TaskState) -> None:
    fold = TaskFold("t")
    fold.apply(ev.TaskSubmitted.of(full_task(), "ada"), 1, 1, "run")
    if state is not TaskState.SUBMITTED:
        fold.apply(ev.TaskStatusChanged.because(TaskState.SUBMITTED, state, "why"), 2, 2, "run")
    task = PeerTask.from_dict(json.loads(write_json(task_json(fold))))
    assert task.state.value in PEER_STATES
    assert [change["new_state"] in PEER_STATES for change in task.metadata.get("state_history", ())] == [True] * len(
        fold.history
    )
    assert len(task.messages[0].parts) == len(fold.messages[0].parts)
    if state in (TaskState.FAILED, TaskState.REJECTED):
        assert task.metadata["error"] == "why"


def test_a_task_shares_nothing_with_the_log() -> None:
    fold = TaskFold("t")
    fold.apply(ev.TaskSubmitted.of(full_task(), "ada"), 1, 1, "run")
    before = write_json(task_json(fold))
    found = task_json(fold)
    found["messages"][0]["parts"].clear()
    found["metadata"]["fact"].clear()
    assert write_json(task_json(fold)) == before


def test_a_card_names_the_gateway_first_and_the_agent_itself_besides() -> None:
    other = AgentInterface("grpc://other:1")
    card = AgentCard(name="n", description="d", url="grpc://agent:1", interfaces=[other])
    found = card_json(card, "https://gateway.example")
    assert (found["url"], found["transport"]) == ("https://gateway.example", "sse")
    assert [(each["url"], each["transport"]) for each in found["additionalInterfaces"]] == [
        ("wss://gateway.example", "websocket"),
        ("grpc://agent:1", "grpc"),
        ("grpc://other:1", "grpc"),
    ]
    assert card_json(card, "http://gateway.example", socket=True)["url"] == "ws://gateway.example"
    assert len(found["capabilities"]) == 13


def test_a_card_names_each_address_once() -> None:
    url = "http://gateway.example"
    card = AgentCard(name="n", description="d", url=url, transport="http", interfaces=[AgentInterface(url, "json-rpc")])
    assert [each["url"] for each in card_json(card, url)["additionalInterfaces"]] == ["ws://gateway.example"]


@given(st.text())
def test_a_line_stays_one_line_and_says_the_same(text: str) -> None:
    raw = on_one_line(write_json({"text": text}))
    assert len(raw.decode().splitlines()) == 1
    assert json.loads(raw) == {"text": text}


def test_the_chunks_that_follow_from_facts_are_told_beside_them() -> None:
    stream = StreamEvents()
    action = RunAction("tool.call", "add", {"arguments": {"a": 1}})
    log: list[Any] = [
        ev.ContextPrepared(ContextManifest(), 1),
        ev.LlmCallStarted("m/0/1", step=1),
        ev.LlmCallCompleted("m/0/1", step=1, text="I add"),
        ev.ActionRequested(action, position="m/0/1/0"),
        ev.TaskArtifactUpdated(Artifact("a", [Part.text("a tool made this")])),
        ev.ContextPrepared(ContextManifest(), 2),
        ev.LlmCallStarted("m/0/2", step=2),
        ev.LlmCallFailed("m/0/2", "p", "m", 2, 1, Failure("MODEL_UNAVAILABLE", "busy", retry_delay_s=0.5), True),
        ev.LlmCallStarted("m/0/2", attempt=2, step=2),
        ev.LlmCallCompleted("m/0/2", step=2, text='{"type": "final", "content": "1"}'),
        ev.TaskArtifactUpdated(Artifact("b", [Part.text("1")])),
    ]
    said = [each for payload in log for each in stream.of(event(payload))]
    kinds = [each.get("llm_event_type", each["type"]) for each in said]
    assert kinds == [
        *("llm_step", "context_prepared", "llm_call_started", "llm_chunk", "llm_call_completed"),
        *("llm_action", "action_requested", "task_artifact_update"),
        *("llm_step", "context_prepared", "llm_call_started", "llm_retry", "llm_call_started"),
        *("llm_chunk", "llm_call_completed", "llm_final", "task_artifact_update"),
    ]
    by_kind = {each.get("llm_event_type"): each for each in said}

    def facts(kind: str) -> Any:
        return {key: value for key, value in by_kind[kind]["metadata"].items() if key != "action_id"}

    assert facts("llm_action") == {"action": "tool_call", "payload": {"tool": "add", "args": {"a": 1}}}
    assert facts("llm_retry") == {"reason": "transport", "error": "busy", "attempt": 1, "delay_s": 0.5}
    assert (by_kind["llm_final"]["content"], by_kind["llm_final"]["final"], by_kind["llm_final"]["step"]) == (
        "1",
        True,
        2,
    )
    assert facts("llm_step") == {}
