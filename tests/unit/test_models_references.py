"""References between events: a log has each value once, and a reader from the beginning gets complete payloads."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protolink_grpc.models import (
    ApprovalDecision,
    ApprovalRequest,
    Artifact,
    Message,
    Part,
    PolicyDecision,
    PolicyEffect,
    Task,
)
from protolink_grpc.models import events as ev
from protolink_grpc.models.action import RunAction
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.json_value import canonical_json
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.part import ToolCall
from protolink_grpc.models.payload import Payload, PayloadRef
from protolink_grpc.models.references import References
from protolink_grpc.models.tool_items import ITEMS_KIND, item_part, reference_to_items
from protolink_grpc.wire.events import EventEncoder, encode_envelope, event_from_frame, unframe

ENCODER = EventEncoder(task_id="task", run_id="run", session_id="session", agent_name="agent")
VERDICT = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "it costs money", "money", ("money.spend",), {"rule": 1})
BIG = {"text": "x" * 10_000}
NOON = "2026-11-25T12:00:00.000000+00:00"


def written(*payloads: Any, batch: int = 1) -> list[bytes]:
    """The log that these payloads become, appended `batch` at a time. All are about the action `a`."""
    references, frames = References(), list[bytes]()
    for first in range(0, len(payloads), batch):
        some = payloads[first : first + batch]
        for nth, payload in enumerate(some):
            short = payload
            if isinstance(payload, ev.ActionRequested):
                short = references.abridged(payload, some[:nth])
            envelope = encode_envelope(RunEvent("", action_id="a"))
            frames.append(ENCODER.frame(short, len(frames) + 1, 1_000, envelope=envelope))
        for payload in some:
            references.resolve(payload, "a")
    return frames


def read(frames: list[bytes]) -> list[Any]:
    references = References()
    return [references.whole(event_from_frame(frame)).payload for frame in frames]


def asked(*calls: ToolCall) -> ev.LlmCallCompleted:
    return ev.LlmCallCompleted("llm", tool_calls=calls)


def brought(*calls: ToolCall) -> ev.TaskMessagesAdded:
    return ev.TaskMessagesAdded((Message("m", "user", [Part("tool_call", call) for call in calls]),))


def submitted(*calls: ToolCall) -> ev.TaskSubmitted:
    return ev.TaskSubmitted(Task("task", messages=list(brought(*calls).messages)))


def requested(arguments: dict[str, Any], call_id: str = "c", **more: Any) -> ev.ActionRequested:
    action = RunAction("tool.call", "pay", {"arguments": arguments, **more}, action_id="a", call_id=call_id)
    return ev.ActionRequested(action, position="here")


def call(arguments: dict[str, Any], call_id: str = "c") -> ToolCall:
    return ToolCall("pay", arguments, call_id)


WAITS = ev.TaskStatusChanged(TaskState.WORKING, TaskState.INPUT_REQUIRED)
ENDS = ev.TaskStatusChanged(TaskState.WORKING, TaskState.COMPLETED)
WORKS = ev.TaskStatusChanged(TaskState.SUBMITTED, TaskState.WORKING, attempt=1, cause="submitted")
LEFT_OUT = {
    "a call of a model": [asked(call(BIG))],
    "a call in a message": [brought(call(BIG))],
    "a call that the task was submitted with": [submitted(call(BIG)), WORKS],
    "the latest call with the id": [asked(call({})), brought(call(BIG))],
    "one of several calls": [asked(call({}, "other"), call(BIG), call({}, "another"))],
    "keys in another order": [asked(call({"b": 1, "text": BIG["text"], "a": 2}))],
    "a run that took over": [asked(call(BIG)), replace(WORKS, cause="recovered")],
}
WRITTEN = {
    "no call": [],
    "another call": [asked(call(BIG, "other"))],
    "other arguments": [asked(call({"text": "y"}))],
    "equal to Python, and not the same JSON": [asked(call({"n": 1}))],
    "an earlier call with the id": [asked(call(BIG)), asked(call({}))],
    "a call that an action has named": [asked(call(BIG)), requested(BIG)],
    "a call of an earlier turn": [asked(call(BIG)), WAITS],
}
ARGUMENTS = {
    "keys in another order": {"a": 2, "b": 1, "text": BIG["text"]},
    "equal to Python, and not the same JSON": {"n": 1.0},
}


@pytest.mark.parametrize("batch", [1, 2, 10])
@pytest.mark.parametrize("case", LEFT_OUT)
def test_a_payload_that_a_call_has_is_left_out_and_read_again(case: str, batch: int) -> None:
    action = requested(ARGUMENTS.get(case, BIG))
    frames = written(*LEFT_OUT[case], action, batch=batch)
    assert not unframe(frames[-1]).action_requested.action.HasField("payload")
    assert read(frames)[-1] == action


@pytest.mark.parametrize("batch", [1, 2, 10])
@pytest.mark.parametrize("case", WRITTEN)
def test_a_payload_that_no_open_call_has_is_written(case: str, batch: int) -> None:
    action = requested(ARGUMENTS.get(case, BIG))
    frames = written(*WRITTEN[case], action, batch=batch)
    assert unframe(frames[-1]).action_requested.action.HasField("payload")
    assert event_from_frame(frames[-1]).payload == read(frames)[-1] == action


@pytest.mark.parametrize("action", [requested(BIG, ""), requested(BIG, path="/data")], ids=["no id", "more"])
def test_a_payload_with_more_than_the_arguments_of_a_call_is_written(action: ev.ActionRequested) -> None:
    frames = written(asked(call(BIG)), action)
    assert read(frames)[-1] == event_from_frame(frames[-1]).payload == action


def test_a_question_refers_to_its_action_and_verdict() -> None:
    action = requested(BIG)
    request = ApprovalRequest(action.action, VERDICT, "run", "q", iso_from_micros(1_000), task_id="task")
    question = ev.ApprovalRequired(request)
    frames = written(asked(call(BIG)), action, ev.ActionPolicyEvaluated(VERDICT), question)
    assert len(frames[-1]) < 500
    assert read(frames)[-1] == question


@pytest.mark.parametrize("arguments", [None, {"text": "edited"}])
def test_a_beginning_has_the_requested_arguments_unless_it_says_others(arguments: dict[str, Any] | None) -> None:
    begun = ev.ActionStarted("tool.call", "pay", arguments)
    frames = written(requested(BIG), begun)
    assert unframe(frames[-1]).action_started.HasField("edited_arguments") is (arguments is not None)
    assert read(frames)[-1] == replace(begun, arguments=arguments or BIG)


def test_a_reader_that_begins_in_the_middle_sees_what_it_has() -> None:
    action = requested(BIG)
    question = ev.ApprovalRequired(ApprovalRequest(action.action, VERDICT, "run", "q", task_id="task"))
    log = written(asked(call(BIG)), action, question, ev.ActionStarted("tool.call", "pay"))
    partial, asks, begun = read(log[1:])
    assert (partial.action.name, partial.action.payload, partial.abridged) == ("pay", {}, True)
    assert (asks.request.request_id, asks.etag) == ("q", action.action.fingerprint)
    assert (asks.request.action.action_id, asks.request.action.name) == ("a", "pay")
    assert begun.arguments == {}
    (alone,) = read(log[2:3])
    assert (alone.request.action.kind, alone.request.action.action_id) == (ev.UNKNOWN_ACTION, "a")


@pytest.mark.parametrize("rest", [WAITS, ENDS], ids=["waits", "ends"])
def test_no_more_is_kept_than_what_is_open(rest: ev.TaskStatusChanged) -> None:
    references = References()
    for nth in range(1000):
        for payload in (
            asked(call(BIG, f"c{nth}")),
            requested(BIG, f"c{nth}"),
            ev.ActionEnded("tool.call", "pay"),
        ):
            references.resolve(payload, "a")
    assert (references._calls, references._actions) == ({}, {})
    references.resolve(asked(call(BIG)), "")
    references.resolve(requested(BIG, "other"), "a")
    references.resolve(items(1), "")
    references.resolve(rest, "")
    assert (references._calls, references._actions, references._items) == ({}, {}, {})


def items(*values: Any, append: bool = False, artifact_id: str = "i", kind: str = ITEMS_KIND) -> ev.TaskArtifactUpdated:
    parts = [item_part(value) for value in values]
    return ev.TaskArtifactUpdated(Artifact(artifact_id, parts, kind=kind, action_id="a", timestamp=NOON), append)


def output(result: Any = None, error: Any = None) -> ev.TaskArtifactUpdated:
    part = Part.tool_output("c", result, error)
    return ev.TaskArtifactUpdated(Artifact("o", [part], action_id="a", timestamp=NOON))


SUCCESS = ev.ActionEnded("tool.call", "count", outcome="completed")
REFERENCE = reference_to_items("i", 2)
value = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)


@given(st.lists(st.lists(value, min_size=1, max_size=4), min_size=1, max_size=5))
def test_the_items_of_a_tool_are_in_its_artifact_and_read_as_its_result(chunks: list[list[Any]]) -> None:
    whole = [each for chunk in chunks for each in chunk]
    updates = [items(*chunk, append=nth > 0) for nth, chunk in enumerate(chunks)]
    log = written(requested({}), *updates, SUCCESS, output(reference_to_items("i", len(whole))))
    ended, made = read(log)[-2:]
    assert ended == replace(SUCCESS, result=whole)
    assert made == output(whole)


@pytest.mark.parametrize(
    "payload",
    [
        replace(SUCCESS, outcome="failed", error={"code": "TOOL_FAILED"}),
        replace(SUCCESS, outcome="canceled"),
        replace(SUCCESS, result=[3]),
        output([3]),
        output(error={"code": "TOOL_FAILED"}),
        output(reference_to_items("another", 2)),
        output(Payload(PayloadRef("https://example.org/i"))),
    ],
)
def test_what_does_not_refer_to_items_stays(payload: Any) -> None:
    assert read(written(items(1, 2), payload))[-1] == payload


def test_only_items_of_the_same_action_are_referred_to() -> None:
    for other in (items(1, kind="result"), replace(items(1), artifact=replace(items(1).artifact, action_id="b"))):
        assert [each.result for each in read(written(other, SUCCESS)) if isinstance(each, ev.ActionEnded)] == [None]


def test_a_reader_that_begins_after_the_items_sees_the_reference() -> None:
    ended, made = read(written(items(1, 2), SUCCESS, output(REFERENCE))[1:])
    assert (ended.result, made) == (None, output(REFERENCE))
    assert REFERENCE.description == "2 items"


arguments = st.dictionaries(st.sampled_from("ab"), st.integers(0, 2) | st.booleans() | st.floats(0, 2), max_size=2)
ids = st.sampled_from(["c", "d", ""])
steps = st.one_of(
    st.builds(lambda *calls: asked(*calls), st.builds(call, arguments, ids), st.builds(call, arguments, ids)),
    st.builds(lambda made: brought(made), st.builds(call, arguments, ids)),
    st.builds(requested, arguments, ids),
    st.sampled_from([WAITS, WORKS]),
    st.just(ev.ApprovalDecided(ApprovalDecision(True, "q", decided_at=iso_from_micros(0)))),
)


@settings(deadline=None)
@given(st.lists(steps, max_size=12), st.integers(1, 5))
def test_every_log_reads_as_it_was_meant(payloads: list[Any], batch: int) -> None:
    log = read(written(*payloads, batch=batch))
    assert list(map(as_json, log)) == list(map(as_json, payloads))


def as_json(payload: Any) -> str:
    """As text: True is not 1."""
    return canonical_json(RunEvent(payload=payload).to_dict()["payload"])
