"""Every JSON reader of the models with arbitrary JSON: a value, or an error that names the field."""

import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import (
    Artifact,
    FileContent,
    Message,
    Part,
    PartType,
    RouteDecision,
    RunContext,
    Task,
    ToolCall,
    ToolOutput,
    from_json,
    report,
    to_json,
)
from protolink_grpc.models.json_form import JsonForm
from protolink_grpc.models.lifecycle import StateChange


def derived(base: type) -> Iterator[Any]:
    """All data classes with a derived JSON form."""
    for each in base.__subclasses__():
        # A data class with slots replaces the class that it is made of.
        if is_dataclass(each) and getattr(sys.modules[each.__module__], each.__name__, None) is each:
            yield each
        yield from derived(each)


MODELS: list[Any] = [*derived(JsonForm), FileContent, Part, StateChange, Task]
assert report.RunReport in MODELS  # and with it all that a report consists of
PART_TYPES = [value for name, value in vars(PartType).items() if name.isupper()]

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
# Near misses: the names, the words and the nesting that readers look for, filled with anything.
KEYS = sorted(
    {name for model in MODELS for name in model.__dataclass_fields__}
    | {"protocolVersion", "inputFormats", "securitySchemes", "additionalInterfaces", "maxConcurrency", "run_context"}
    | {"route", "key", "workspace", "parent_agent", "budgets", "cancelled", "state_history"}
)
WORDS = st.sampled_from(
    [*PART_TYPES, "user", "agent", "working", "completed", "allow", "warn", "2026-01-01T00:00:00Z", "YQ==", "a/b"]
)
NEAR = st.recursive(
    JSON | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=10),
    max_leaves=30,
)


@given(data=NEAR)
@settings(max_examples=150, deadline=None)
def test_each_reader_answers_or_refuses_and_what_it_read_survives(data: object):
    for model in MODELS:  # of one value, because to draw it takes most of the time
        try:
            value = model.from_dict(data)
        except InvalidArgumentError:
            continue
        assert model.from_dict(from_json(to_json(value.to_dict()))) == value, model


@given(metadata=st.dictionaries(st.sampled_from(KEYS), NEAR, max_size=8))
def test_a_context_is_read_from_any_metadata_or_refused(metadata: dict[str, Any]):
    task = Task(metadata=metadata)
    try:
        context = RunContext.ensure_task_context(task, agent_name="a")
    except InvalidArgumentError:
        assert "run_context" in metadata
        return
    assert RunContext.from_task(task).to_dict() == context.to_dict()


INSTANTS = st.datetimes().map(lambda moment: moment.isoformat() + "Z")
OBJECTS = st.dictionaries(TEXT, JSON, max_size=3)
NAMES = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=8)
OPTIONAL = st.none() | TEXT
CONTENTS = st.one_of(
    st.tuples(st.just("text"), TEXT),
    st.tuples(st.just("json"), JSON),
    st.tuples(st.just("x-future"), JSON),
    st.tuples(st.just("tool_call"), st.builds(ToolCall, NAMES, OBJECTS, NAMES)),
    st.tuples(st.just("tool_output"), st.builds(ToolOutput, NAMES, JSON, JSON)),
    st.tuples(
        st.sampled_from(["route", "decision"]),
        st.builds(RouteDecision, NAMES, OPTIONAL, st.none() | st.floats(0, 1), OBJECTS),
    ),
    st.tuples(
        st.sampled_from(["file", "image", "audio", "video"]),
        st.builds(FileContent, st.none() | st.binary(max_size=8), OPTIONAL, OPTIONAL, NAMES),
    ),
)
PARTS = st.builds(lambda pair, *rest: Part(*pair, *rest), CONTENTS, st.none() | OBJECTS, OPTIONAL)
PART_LISTS = st.lists(PARTS, max_size=3)
MESSAGES = st.builds(Message, NAMES, st.sampled_from(["user", "agent", "assistant", "system"]), PART_LISTS, INSTANTS)
ARTIFACTS = st.builds(Artifact, NAMES, PART_LISTS, OBJECTS, INSTANTS, NAMES, OPTIONAL, OPTIONAL, OPTIONAL, OPTIONAL)
TASKS = st.builds(
    Task,
    id=NAMES,
    messages=st.lists(MESSAGES, max_size=3),
    artifacts=st.lists(ARTIFACTS, max_size=2),
    metadata=OBJECTS,
    flow_state=OBJECTS,
    created_at=INSTANTS,
)


@given(task=TASKS)
@settings(max_examples=150, deadline=None)
def test_a_task_survives_its_json_whole(task: Task):
    written = task.to_dict()
    again = Task.from_dict(from_json(to_json(written)))
    assert again == task
    assert again.to_dict() == written == from_json(to_json(written))
    assert again.get_last_item() == task.get_last_item()
    assert again.get_output("none") == task.get_output("none")


@given(task=TASKS)
def test_reading_and_writing_leave_their_source_alone(task: Task):
    written = task.to_dict()
    text = to_json(written)
    Task.from_dict(written).metadata["new"] = 1
    assert to_json(written) == text == to_json(task.to_dict())
