"""The JSON form of events: keys, null values, and no shared objects."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.models import events
from protolink_grpc.models.action import RunAction
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.json_value import MAX_DEPTH
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.models.task import Task

KEYS = [
    "event_id",
    "version",
    "type",
    "run_id",
    "task_id",
    "agent_name",
    "sequence",
    "step",
    "span_id",
    "parent_span_id",
    "action_id",
    "parent_action_id",
    "delegation_id",
    "severity",
    "summary",
    "payload",
    "final",
    "timestamp",
    "metadata",
]

PAYLOADS: list[Any] = [
    None,
    {"own": [1, {"a": None}]},
    events.TaskSubmitted(Task.create("hello"), "anna", "request"),
    events.TaskStatusChanged(TaskState.SUBMITTED, TaskState.WORKING, context=RunContext(run_id="r")),
    events.TaskMessagesAdded((Message.agent("yes"), Message.user("no"))),
    events.TaskArtifactUpdated(Artifact(parts=[Part.file(data=b"\x00\xff", name="a.bin")])),
    events.TaskPatched({"key": None}, {"step": 1}),
    events.TaskProgress(40.0, "half"),
    events.ActionRequested(RunAction(kind="tool.call", name="add")),
    events.ActionEnded("tool.call", "add", result=(1, 2)),
    events.LlmStep("thought", step=3, content="so", data={"a": 1}),
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: type(payload).__name__)
def test_every_key_is_always_there_and_the_form_is_json(payload: Any) -> None:
    found = RunEvent(payload=payload, task_id="t", sequence=1).to_dict()
    assert list(found) == KEYS
    assert json.loads(json.dumps(found)) == found


def test_what_nobody_set_is_null() -> None:
    found = RunEvent("note", payload={}).to_dict()
    absent = {key for key, value in found.items() if value is None}
    assert absent == {
        "sequence",
        "step",
        "span_id",
        "parent_span_id",
        "action_id",
        "parent_action_id",
        "delegation_id",
    }


def test_the_envelope_is_written_as_it_is() -> None:
    event = RunEvent(
        payload=events.TaskProgress(),
        task_id="t",
        sequence=7,
        run_id="r",
        agent_name="hotel",
        action_id="a",
        severity="warning",
        summary="slow",
        final=True,
        timestamp="2026-01-02T03:04:05.000006+00:00",
        metadata={"k": 1},
    )
    found = event.to_dict()
    assert found["event_id"] == "t/7"
    assert found["version"] == "1.0"
    assert {key: found[key] for key in KEYS if hasattr(event, key) and key != "payload"} == {
        key: getattr(event, key) for key in KEYS if hasattr(event, key) and key != "payload"
    }


def test_step_comes_from_the_payload_that_has_it() -> None:
    assert RunEvent(payload=events.LlmStep("thought", step=3)).to_dict()["step"] == 3


@pytest.mark.parametrize("name", events.PROTOLINK_IDS)
def test_an_id_of_a_protolink_event_stays_in_its_key(name: str) -> None:
    told = RunEvent(payload=events.TaskProgress(message="half")).to_dict() | {name: "x1"}
    assert RunEvent.from_dict(told).to_dict()[name] == "x1"


def test_a_status_names_its_states() -> None:
    moved = events.TaskStatusChanged(TaskState.WORKING, TaskState.INPUT_REQUIRED)
    payload = RunEvent(payload=moved).to_dict()["payload"]
    assert (payload["previous_state"], payload["new_state"]) == ("working", "input-required")
    assert type(payload["new_state"]) is str


def test_a_submitted_task_and_its_messages_have_their_own_json_form() -> None:
    task = Task.create("hello")
    assert RunEvent(payload=events.TaskSubmitted(task)).to_dict()["payload"]["task"] == task.to_dict()
    message = Message.agent("yes")
    added = RunEvent(payload=events.TaskMessagesAdded((message,))).to_dict()
    assert added["payload"]["messages"] == [message.to_dict()]


def test_an_unknown_kind_has_an_empty_payload() -> None:
    assert RunEvent("newer.kind", summary="something new").to_dict()["payload"] == {}


def test_the_deepest_part_that_a_message_may_carry_can_be_written() -> None:
    value: Any = 0
    for _ in range(MAX_DEPTH):
        value = [value]
    task = Task.create(Message(parts=[Part.json(value)]))
    payload = RunEvent(payload=events.TaskSubmitted(task)).to_dict()["payload"]
    assert payload["task"]["messages"][0]["parts"][0]["content"] == value


@given(st.dictionaries(st.text(), st.lists(st.integers())))
def test_the_form_shares_nothing_with_the_event(content: dict[str, list[int]]) -> None:
    event = RunEvent("own", payload={"given": content}, metadata={"given": content})
    before = json.dumps(event.to_dict())
    taken = event.to_dict()
    for part in (taken["payload"]["given"], taken["metadata"]["given"]):
        part["new"] = 1
        for value in list(part.values()):
            if isinstance(value, list):
                value.append(0)
    assert json.dumps(event.to_dict()) == before


# What happened is in the payload; JSON of before, and of ProtoLink, says how an action ended in the type only.


def json_of(kind: str, outcome: str | None) -> dict[str, Any]:
    found = RunEvent(payload=events.ActionEnded("tool.call", "add"), task_id="t", sequence=1).to_dict()
    found["type"] = kind
    del found["payload"]["outcome"]
    return found if outcome is None else found | {"payload": found["payload"] | {"outcome": outcome}}


@pytest.mark.parametrize("outcome", ["completed", "failed", "denied", "rejected", "canceled"])
def test_json_without_an_outcome_takes_it_from_the_type(outcome: str) -> None:
    read = RunEvent.from_dict(json_of(f"action.{outcome}", None))
    assert read.payload == events.ActionEnded("tool.call", "add", outcome=outcome)
    assert read.to_dict()["payload"]["outcome"] == outcome


def test_json_with_an_outcome_is_read_by_it() -> None:
    read = RunEvent.from_dict(json_of("action.completed", "denied"))
    assert read.payload == events.ActionEnded("tool.call", "add", outcome="denied")


@pytest.mark.parametrize(("kind", "outcome"), [("action.parked", None), ("action.failed", "done")])
def test_json_whose_outcome_cannot_be_read_stays_as_it_is(kind: str, outcome: str | None) -> None:
    found = json_of(kind, outcome)
    read = RunEvent.from_dict(found)
    assert read.payload == found["payload"]
    assert read.to_dict() == found
