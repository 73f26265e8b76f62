"""The fold of a log: objects that are read from it can be changed without changing the fold."""

import copy
import json
import operator
import pickle
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire_values import FACTS, FULL_ARTIFACT, FULL_CONTEXT, FULL_MESSAGE, NOON, full_payloads

from protolink_grpc.models import Artifact, FileContent, Message, Part, RunContext, Task, TaskState
from protolink_grpc.models import events as ev
from protolink_grpc.models.fold import CopyOnRead, TaskFold, copy_artifact, copy_message, copy_part
from protolink_grpc.models.json_value import normalize
from protolink_grpc.models.references import References
from protolink_grpc.models.task_control import LinkKind, TaskDescription, TaskLink
from protolink_grpc.models.task_metadata import DERIVED_KEYS

SUBMITTED, WORKING, INPUT_REQUIRED = TaskState.SUBMITTED, TaskState.WORKING, TaskState.INPUT_REQUIRED


def fold_of(*payloads: Any, fold: TaskFold | None = None) -> TaskFold:
    """A fold of these payloads, one a second."""
    fold = fold or TaskFold("task")
    for payload in payloads:
        sequence = fold.sequence + 1
        fold.apply(payload, sequence, sequence * 1_000_000, "run")
    return fold


def said(text: str, role: str = "user") -> Message:
    return Message(text, role, [Part("text", text)], NOON)


FIRST = "1970-01-01T00:00:01.000000+00:00"


def submitted(*texts: str, **metadata: Any) -> ev.TaskSubmitted:
    task = Task("task", messages=[said(text) for text in texts], metadata=metadata, created_at=FIRST)
    return ev.TaskSubmitted.of(task, "ada")


def moved(before: TaskState, after: TaskState, **more: Any) -> ev.TaskStatusChanged:
    return ev.TaskStatusChanged(before, after, **more)


# -- folding -------------------------------------------------------------------------------------------------------------


def test_a_fold_of_nothing_is_a_submitted_task_of_nobody() -> None:
    fold = TaskFold("task")
    assert (fold.state, fold.sequence, fold.principal) == (SUBMITTED, 0, "")
    assert not fold.is_settled


def test_a_submission_opens_the_task() -> None:
    task = Task(
        "task",
        messages=[said("hello")],
        artifacts=[Artifact("a", timestamp=NOON)],
        metadata={"own": 1, "session_id": "session"},
        flow_state={"step": 1},
        created_at="1970-01-01T00:00:00.500000+00:00",
    )
    fold = fold_of(ev.TaskSubmitted.of(task, "ada", "request"))
    assert (fold.principal, fold.session_id, fold.state) == ("ada", "session", SUBMITTED)
    assert (fold.metadata, fold.flow_state) == ({"own": 1}, {"step": 1})
    assert (fold.create_micros, fold.update_micros, fold.sequence) == (500_000, 1_000_000, 1)
    assert fold.message_ids == {"hello"}
    assert fold.artifact("a") is task.artifacts[0]


def test_a_task_without_a_session_is_a_session_of_its_own() -> None:
    assert fold_of(submitted("hello")).session_id == "task"


def test_derived_keys_are_not_believed() -> None:
    fold = fold_of(submitted("hello", **dict.fromkeys(DERIVED_KEYS - {"run_context", "session_id"}, "forged")))
    assert fold.metadata == {}
    metadata = fold.to_task().to_dict()["metadata"]
    assert set(metadata) == {"run_context", "run_id", "session_id"}
    assert "forged" not in str(metadata)


def test_the_context_of_a_submission_is_kept_and_replaced_by_that_of_a_run() -> None:
    task = Task("task")
    RunContext("first", created_at=NOON).attach_to_task(task)
    fold = fold_of(ev.TaskSubmitted.of(task, "ada"))
    assert fold.context == RunContext("first", created_at=NOON)
    fold_of(moved(SUBMITTED, WORKING, attempt=1), fold=fold)
    assert fold.context == RunContext("first", created_at=NOON)
    fold_of(moved(WORKING, WORKING, attempt=2, context=FULL_CONTEXT), fold=fold)
    assert fold.context == FULL_CONTEXT


def test_a_status_moves_the_task_and_is_remembered() -> None:
    fold = fold_of(
        submitted("hello"),
        moved(SUBMITTED, WORKING, attempt=1),
        ev.TaskStatusChanged.because(WORKING, TaskState.FAILED, "x"),
    )
    assert (fold.state, fold.reason, fold.attempt) == (TaskState.FAILED, "x", 1)
    assert [each[:3] for each in fold.history] == [
        (SUBMITTED, WORKING, 2_000_000),
        (WORKING, TaskState.FAILED, 3_000_000),
    ]
    assert fold.is_terminal
    assert fold.is_settled


@pytest.mark.parametrize("state", list(TaskState))
def test_a_task_is_settled_when_nothing_happens_without_a_further_request(state: TaskState) -> None:
    fold = fold_of(submitted("hello"), moved(SUBMITTED, state))
    assert fold.is_settled is (state not in (SUBMITTED, WORKING, TaskState.UNKNOWN))


def test_a_wish_to_cancel_is_kept_until_a_run_begins() -> None:
    wish = ev.CancelRequested("enough", "ada")
    fold = fold_of(submitted("hello"), moved(SUBMITTED, WORKING, attempt=1), wish)
    assert fold.cancel_requested is wish
    fold_of(moved(WORKING, WORKING, attempt=2), fold=fold)
    assert fold.cancel_requested is None


def test_messages_are_added_in_order() -> None:
    fold = fold_of(submitted("one", "two"), ev.TaskMessagesAdded((said("three"), said("four"))))
    assert [message.id for message in fold.messages] == ["one", "two", "three", "four"]
    assert fold.message_ids == {"one", "two", "three", "four"}


def test_a_turn_begins_with_the_message_that_ends_an_interruption() -> None:
    fold = fold_of(
        submitted("one"),
        moved(SUBMITTED, WORKING, attempt=1),
        ev.TaskArtifactUpdated(Artifact("a", timestamp=NOON)),
        ev.TaskMessagesAdded((said("asks", "agent"),)),
        moved(WORKING, INPUT_REQUIRED),
    )
    assert (fold.turn_message, fold.turn_artifact, fold.turn_change) == (0, 0, 0)
    fold_of(ev.TaskMessagesAdded((said("answers"),)), fold=fold)
    assert (fold.turn_message, fold.turn_artifact, fold.turn_change) == (2, 1, 2)
    fold_of(moved(INPUT_REQUIRED, WORKING, attempt=2), ev.TaskMessagesAdded((said("more"),)), fold=fold)
    assert (fold.turn_message, fold.turn_artifact, fold.turn_change) == (2, 1, 2)
    turn = fold.to_task(turn=True)
    assert [message.id for message in turn.messages] == ["answers", "more"]
    assert list(turn.artifacts) == []
    assert len(turn.metadata["state_history"]) == 1


def test_a_patch_changes_its_keys_and_none_removes_one() -> None:
    fold = fold_of(submitted("hello", a=1, b=2, c=None), ev.TaskPatched({"b": None, "d": {"x": 1}}, {"step": 1}))
    assert fold.metadata == {"a": 1, "c": None, "d": {"x": 1}}
    assert fold.flow_state == {"step": 1}
    fold_of(ev.TaskPatched({}, {"step": None, "missing": None}), fold=fold)
    assert fold.metadata == {"a": 1, "c": None, "d": {"x": 1}}
    assert fold.flow_state == {}


def test_an_artifact_is_replaced_or_grows_under_its_id() -> None:
    first = Artifact("a", [Part("text", "1")], {"k": 1}, NOON, name="name")
    later = "2026-06-12T13:00:00.000000+00:00"
    fold = fold_of(submitted("hello"), ev.TaskArtifactUpdated(first), ev.TaskArtifactUpdated(Artifact("b")))
    fold_of(ev.TaskArtifactUpdated(Artifact("a", [Part("text", "2")], timestamp=later), append=True), fold=fold)
    grown = fold.artifact("a")
    assert grown == Artifact("a", [Part("text", "1"), Part("text", "2")], {"k": 1}, later, name="name")
    assert first.parts == [Part("text", "1")]  # the event's own artifact stays as it was
    fold_of(ev.TaskArtifactUpdated(Artifact("a", [Part("text", "new")])), fold=fold)
    assert [artifact.id for artifact in fold.artifacts] == ["a", "b"]
    assert fold.artifacts[0].parts == [Part("text", "new")]
    assert fold.artifact("c") is None


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.booleans())))
def test_appended_parts_are_in_order_whenever_an_artifact_is_read(updates: list[tuple[str, bool, bool]]) -> None:
    fold, expected = fold_of(submitted("hello")), dict[str, list[Part]]()
    for number, (name, append, reads) in enumerate(updates):
        part = Part("json", number)
        fold_of(ev.TaskArtifactUpdated(Artifact(name, [part]), append), fold=fold)
        expected[name] = [*(expected.get(name, []) if append else []), part]
        assert (fold.has_artifact(name), fold.artifact_count) == (True, len(expected))
        if reads:
            seen = fold.artifact(name)
            assert seen is not None
            assert seen.parts == expected[name]
    assert {each.id: each.parts for each in fold.artifacts} == expected


def test_an_artifact_that_was_read_does_not_grow() -> None:
    fold = fold_of(submitted("hello"), ev.TaskArtifactUpdated(Artifact("a", [Part("text", "1")])))
    more = ev.TaskArtifactUpdated(Artifact("a", [Part("text", "2")]), append=True)
    first, task = fold.artifact("a"), fold.to_task()
    fold_of(more, more, fold=fold)
    second = fold.artifact("a")
    fold_of(more, fold=fold)
    lengths = [len(each.parts) for each in (first, task.artifacts[0], second, fold.artifacts[0]) if each is not None]
    assert lengths == [1, 1, 3, 4]


def test_a_first_chunk_begins_the_artifact() -> None:
    fold = fold_of(submitted("x"), ev.TaskArtifactUpdated(Artifact("a", [Part("text", "1")]), append=True))
    assert [part.content for part in fold.artifacts[0].parts] == ["1"]


@pytest.mark.parametrize(
    "payload",
    [each for kind, each in full_payloads().items() if kind is not ev.TaskSubmitted],
    ids=lambda p: type(p).__name__,
)
def test_every_kind_of_fact_moves_the_sequence_and_the_time(payload: Any) -> None:
    fold = fold_of(submitted("hello"))
    fold.apply(payload, 2, 5_000, "")
    assert (fold.sequence, fold.update_micros, fold.run_id) == (2, 5_000, "run")
    fold.apply(None, 3, 6_000, "other run")
    assert (fold.sequence, fold.update_micros, fold.run_id) == (3, 6_000, "other run")


# -- tasks made from a fold ----------------------------------------------------------------------------------------------


def full_fold() -> TaskFold:
    """A fold with everything, and with values in its messages that no decoder would have made."""

    @dataclass
    class Point:
        x: list[int]

    live = Message(
        "live", "agent", [Part("json", Point([1])), Part("trace", ({"a": [1]}, {2})), Part("x", {1, 2})], NOON
    )
    return fold_of(*full_payloads().values(), ev.TaskMessagesAdded((live, FULL_MESSAGE)))


def mutable(value: Any, found: dict[int, Any] | None = None) -> dict[int, Any]:
    """Everything changeable inside a value, by identity. Lists are read as their users read them."""
    found = {} if found is None else found
    if id(value) in found:
        return found
    if isinstance(value, list | set | dict) or (is_dataclass(value) and not isinstance(value, type)):
        if not (is_dataclass(value) and type(value).__dataclass_params__.frozen):
            found[id(value)] = value
        inner: Any = value
        if isinstance(value, dict):
            inner = value.values()
        elif is_dataclass(value):
            inner = [getattr(value, each.name) for each in fields(value)]
        for each in inner:
            mutable(each, found)
    elif isinstance(value, tuple):
        for each in value:
            mutable(each, found)
    return found


def insides(fold: TaskFold) -> list[Any]:
    facts = [getattr(fold, name) for name in TaskFold.__slots__ if name != "references"]
    return [*facts, *(getattr(fold.references, name) for name in References.__slots__)]


def test_a_task_shares_nothing_with_its_fold() -> None:
    fold = full_fold()
    task = fold.to_task()
    own = mutable(task)
    assert own
    assert [value for identity, value in mutable(insides(fold)).items() if identity in own] == []
    again = mutable(fold.to_task())
    assert [value for identity, value in again.items() if identity in own] == []


def test_whatever_is_done_to_a_task_its_fold_stays_as_it_was() -> None:
    fold = full_fold()
    expected = copy.deepcopy(fold.to_task())
    before = copy.deepcopy(insides(fold))
    task = fold.to_task()
    for message in task.messages:
        message.role = "system"
        for part in message.parts:
            part.metadata = {"changed": True}
            if isinstance(part.content, dict):
                part.content.clear()
        message.parts.clear()
    task.artifacts[0].metadata["changed"] = True
    task.artifacts.clear()
    task.messages.clear()
    task.metadata.clear()
    task.flow_state["changed"] = True
    assert copy.deepcopy(insides(fold)) == before
    assert fold.to_task() == expected


def test_a_task_has_the_typed_facts_in_its_metadata() -> None:
    fold = fold_of(
        submitted("hello", own=1),
        moved(SUBMITTED, WORKING, attempt=1, context=FULL_CONTEXT),
        ev.TaskStatusChanged.because(WORKING, TaskState.FAILED, "broken"),
    )
    task = fold.to_task()
    assert (task.id, task.state, task.created_at) == ("task", TaskState.FAILED, "1970-01-01T00:00:01.000000+00:00")
    assert RunContext.from_dict(task.metadata["run_context"]) == replace(FULL_CONTEXT, session_id="task")
    assert {key: task.metadata[key] for key in ("own", "run_id", "session_id", "error", "trace_id")} == {
        "own": 1,
        "run_id": "run",
        "session_id": "task",  # the task's, whatever the context says
        "error": "broken",
        "trace_id": FULL_CONTEXT.trace_id,
    }
    assert task.metadata["state_history"] == [
        {"previous_state": "submitted", "new_state": "working", "timestamp": "1970-01-01T00:00:02.000000+00:00"},
        {"previous_state": "working", "new_state": "failed", "timestamp": "1970-01-01T00:00:03.000000+00:00"},
    ]


@pytest.mark.parametrize(
    ("state", "key"),
    [(TaskState.FAILED, "error"), (TaskState.CANCELED, "cancel_reason"), (TaskState.REJECTED, "reject_reason")],
)
def test_the_reason_of_an_end_is_under_the_key_of_its_state(state: TaskState, key: str) -> None:
    task = fold_of(submitted("hello"), ev.TaskStatusChanged.because(SUBMITTED, state, "because")).to_task()
    assert {name for name in task.to_dict()["metadata"] if name.endswith(("reason", "error"))} == {key}
    assert task.metadata[key] == "because"


@pytest.mark.parametrize(("changes", "left"), [(None, 3), (0, 0), (1, 1), (2, 2), (3, 3), (99, 3)])
def test_a_task_has_as_many_of_the_latest_changes_as_asked_for(changes: int | None, left: int) -> None:
    fold = fold_of(
        submitted("x"), moved(SUBMITTED, WORKING), moved(WORKING, INPUT_REQUIRED), moved(INPUT_REQUIRED, WORKING)
    )
    history = fold.to_task(changes=changes).state_history
    assert [change.new_state for change in history] == ["working", "input-required", "working"][3 - left :]


def test_a_task_made_from_a_fold_reads_like_any_other() -> None:
    fold = full_fold()
    task = fold.to_task()
    assert task == replace(task, messages=list(task.messages), artifacts=list(task.artifacts))
    assert Task.from_dict(json.loads(json.dumps(task.to_dict()))) == Task.from_dict(task.to_dict())
    assert task.get_last_part_content() is not None


# -- copies --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", FULL_MESSAGE.parts, ids=lambda part: f"{part.type} {type(part.content).__name__}")
def test_a_copied_part_is_equal_and_shares_nothing(part: Part) -> None:
    copied = copy_part(part)
    assert copied == part
    assert type(copied.content) is type(part.content)
    assert not mutable(copied).keys() & mutable(part).keys()


@pytest.mark.parametrize("content", [({"a": [1]},), {1, 2}, frozenset({3}), [({},)], {"a": ({},)}])
def test_a_copied_part_has_the_content_that_a_reader_of_the_log_would_get(content: Any) -> None:
    assert copy_part(Part("json", content)) == Part("json", normalize(content))


@pytest.mark.parametrize("content", ["text", 1, 2.5, True, None, b"raw", FileContent(b"raw")])
def test_what_cannot_change_is_not_copied(content: Any) -> None:
    assert copy_part(Part("x", content)).content is content


def test_copied_messages_and_artifacts_are_equal_and_share_nothing() -> None:
    for original, made in ((FULL_MESSAGE, copy_message(FULL_MESSAGE)), (FULL_ARTIFACT, copy_artifact(FULL_ARTIFACT))):
        assert made == original
        assert not mutable(made).keys() & mutable(original).keys()


# -- the list that copies on reading -------------------------------------------------------------------------------------


@dataclass(order=True)
class Item:
    value: int


def duplicate(item: Item) -> Item:
    return Item(item.value)


def outcome(action: Callable[[list[Any]], Any], target: list[Any]) -> tuple[str, Any]:
    """What an action answers, or the class of its refusal."""
    try:
        return "answer", action(target)
    except Exception as error:
        return "refusal", type(error)


indexes = st.integers(-7, 7)
bounds = st.none() | indexes
slices = st.builds(slice, bounds, bounds, st.none() | st.sampled_from([-2, -1, 1, 2, 3]))
values = st.integers(0, 5)
more = st.lists(values, max_size=3)


def bump(items: list[Item]) -> None:
    """Change elements in place, as handlers do with messages."""
    for item in items:
        item.value += 10


def unpack(target: list[Any]) -> Any:
    first, *rest = target
    return first, rest


def extend_itself(target: list[Any]) -> None:
    target.extend(target)


def each_twice(target: list[Any]) -> list[Any]:
    return [(next(iter(target)), item) for item in target]


ACTIONS: list[st.SearchStrategy[Callable[[list[Any]], Any]]] = [
    st.builds(lambda i: lambda target: target[i], indexes | slices),
    st.builds(lambda i: lambda target: bump([target[i]]), indexes),
    st.builds(lambda i: lambda target: bump(target[i]), slices),
    st.builds(lambda i, v: lambda target: target.__setitem__(i, Item(v)), indexes, values),
    st.builds(lambda i, v: lambda target: target.__setitem__(i, [Item(each) for each in v]), slices, more),
    st.builds(lambda i: lambda target: target.__delitem__(i), indexes | slices),
    st.builds(lambda v: lambda target: target.append(Item(v)), values),
    st.builds(lambda v: lambda target: target.extend([Item(each) for each in v]), more),
    st.builds(lambda v: lambda target: target.extend(Item(each) for each in v), more),
    st.just(extend_itself),
    st.builds(lambda i, v: lambda target: target.insert(i, Item(v)), indexes, values),
    st.builds(lambda i: lambda target: target.pop(i), indexes),
    st.just(lambda target: target.pop()),
    st.builds(lambda v: lambda target: target.remove(Item(v)), values),
    st.builds(lambda v: lambda target: target.index(Item(v)), values),
    st.builds(lambda v, i, j: lambda target: target.index(Item(v), i, j), values, indexes, indexes),
    st.builds(lambda v: lambda target: target.count(Item(v)), values),
    st.builds(lambda v: lambda target: Item(v) in target, values),
    st.just(lambda target: target.reverse()),
    st.builds(lambda r: lambda target: target.sort(key=lambda item: item.value, reverse=r), st.booleans()),
    st.just(lambda target: target.sort()),
    st.just(lambda target: target.clear()),
    st.just(len),
    st.just(bool),
    st.just(repr),
    st.just(list),
    st.just(tuple),
    st.just(sorted),
    st.just(lambda target: list(reversed(target))),
    st.just(lambda target: list(enumerate(target))),
    st.just(lambda target: max(target)),
    st.just(lambda target: [*target]),
    st.just(lambda target: {"all": [*target]}),
    st.just(unpack),
    st.just(each_twice),
    st.just(lambda target: bump(list(target))),
    st.just(lambda target: [].extend(target)),
    st.just(lambda target: target.copy()),
    st.just(lambda target: bump(target.copy())),
    st.just(copy.copy),
    st.just(copy.deepcopy),
    st.just(lambda target: bump(copy.deepcopy(target))),
    st.just(lambda target: pickle.loads(pickle.dumps(target))),
    st.builds(lambda v: lambda target: target + [Item(each) for each in v], more),
    st.builds(lambda v: lambda target: [Item(each) for each in v] + target, more),
    st.just(lambda target: operator.add(target, (1,))),
    st.just(lambda target: operator.add((1,), target)),
    st.just(lambda target: target + None),
    st.builds(lambda n: lambda target: target * n, st.integers(-1, 2)),
    st.builds(lambda n: lambda target: n * target, st.integers(-1, 2)),
    st.builds(lambda n: lambda target: bump((n * target)[:1]), st.integers(0, 2)),
    st.builds(lambda v: lambda target: target == [Item(each) for each in v], more),
    st.builds(lambda v: lambda target: target != [Item(each) for each in v], more),
    st.builds(lambda v: lambda target: [Item(each) for each in v] == target, more),
    st.builds(lambda v: lambda target: target < [Item(each) for each in v], more),
    st.builds(lambda v: lambda target: target >= [Item(each) for each in v], more),
    st.just(lambda target: target == target[:]),
    st.just(lambda target: target == tuple(target)),
    st.just(hash),
]


def added(target: list[Any], items: list[Item]) -> list[Any]:
    target += items
    return target


def multiplied(target: list[Any], count: int) -> list[Any]:
    target *= count
    return target


# What goes on with another list than before, as `task.messages = task.messages + [reply]` does.
REPLACEMENTS: list[st.SearchStrategy[Callable[[list[Any]], list[Any]]]] = [
    st.builds(lambda v: lambda target: target + [Item(each) for each in v], more),
    st.builds(lambda v: lambda target: added(target, [Item(each) for each in v]), more),
    st.builds(lambda n: lambda target: multiplied(target, n), st.integers(0, 2)),
    st.just(lambda target: added(target, target)),
]


@settings(max_examples=2 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), start=st.lists(values, max_size=5), length=st.integers(0, 8))
def test_a_list_that_copies_on_reading_behaves_like_a_list_and_changes_no_original(
    data: st.DataObject, start: list[int], length: int
) -> None:
    originals = [Item(value) for value in start]
    lazy: list[Any] = CopyOnRead(originals, duplicate)
    plain: list[Any] = [Item(value) for value in start]
    for _ in range(length):
        if data.draw(st.integers(0, 4)) == 0:
            replacement = data.draw(st.one_of(*REPLACEMENTS))
            if len(plain) < 50:
                lazy, plain = replacement(lazy), replacement(plain)
        else:
            action = data.draw(st.one_of(*ACTIONS))
            got, wanted = outcome(action, lazy), outcome(action, plain)
            assert got == wanted or (got[1] is lazy and wanted[1] is plain)
            assert not contains(got, originals)
    assert lazy == plain
    assert plain == lazy
    assert not contains(list(lazy), originals)
    assert [item.value for item in originals] == start


def contains(answer: Any, originals: list[Item]) -> bool:
    """Whether an original is handed out in an answer."""
    if isinstance(answer, tuple | list):
        return any(contains(each, originals) for each in answer)
    return any(answer is original for original in originals)


def test_nothing_is_copied_before_somebody_looks_and_then_once() -> None:
    copied: list[int] = []

    def watched(item: Item) -> Item:
        copied.append(item.value)
        return duplicate(item)

    lazy = CopyOnRead([Item(value) for value in range(1000)], watched)
    longer = operator.add(lazy, [Item(1000)])
    longer.append(Item(1001))
    lazy.append(Item(1002))
    assert len(lazy) == 1001
    assert copied == []
    assert lazy[3] is lazy[3]
    assert lazy[-2].value == 999
    assert [item.value for item in lazy[10:12]] == [10, 11]
    assert next(iter(lazy)).value == 0
    assert copied == [3, 999, 10, 11, 0]
    assert lazy.first_added == 1000
    assert lazy.changed() == [1000]
    lazy[3].value = lazy[999].value = -1
    assert lazy.changed() == [3, 999, 1000]
    assert [item.value for item in longer[-2:]] == [1000, 1001]
    assert copied == [3, 999, 10, 11, 0]


def test_after_elements_moved_all_count_as_changed() -> None:
    lazy = CopyOnRead([Item(1), Item(2)], duplicate)
    lazy.reverse()
    lazy.append(Item(0))
    assert lazy.first_added == 0
    assert lazy.changed() == [0, 1, 2]


def test_an_iteration_sees_what_is_appended_meanwhile_and_stops_where_the_list_ends() -> None:
    lazy = CopyOnRead([Item(1), Item(2)], duplicate)
    seen = []
    for item in lazy:
        seen.append(item.value)
        if len(seen) < 4:
            lazy.append(Item(10 + len(seen)))
    assert seen == [1, 2, 11, 12, 13]
    backwards = reversed(CopyOnRead([Item(1), Item(2)], duplicate))
    assert next(backwards).value == 2
    shrinking = CopyOnRead([Item(1), Item(2), Item(3)], duplicate)
    for item in reversed(shrinking):
        assert item.value == 3
        shrinking.clear()


def test_a_failing_copy_fails_the_reader_and_leaves_the_original() -> None:
    def refuse(item: Item) -> Item:
        raise ValueError("cannot be copied")

    originals = [Item(1)]
    lazy = CopyOnRead(originals, refuse)
    for _ in range(2):  # the second look must not get the original either
        with pytest.raises(ValueError, match="cannot be copied"):
            lazy[0]


def test_a_task_with_such_lists_has_the_same_json_as_one_with_plain_lists() -> None:
    messages, artifacts = [FULL_MESSAGE, said("hello")], [FULL_ARTIFACT]
    lazy = Task(
        "task",
        messages=CopyOnRead(messages, copy_message),
        artifacts=CopyOnRead(artifacts, copy_artifact),
        metadata=dict(FACTS),
        created_at=NOON,
    )
    plain = Task("task", messages=messages, artifacts=artifacts, metadata=dict(FACTS), created_at=NOON)
    assert json.dumps(lazy.to_dict()) == json.dumps(plain.to_dict())
    assert lazy == plain
    assert pickle.loads(pickle.dumps(lazy)) == plain
    assert copy.deepcopy(lazy) == plain
    lazy.to_dict()["messages"][0]["parts"].clear()
    assert lazy == plain


def test_events_of_the_owner_do_not_end_the_rest_of_a_run_that_was_resumed() -> None:
    fold = fold_of(
        submitted("hello"),
        moved(SUBMITTED, WORKING, attempt=1),
        ev.TaskPauseRequested("", "ada"),
        ev.TaskPaused(),
        ev.TaskResumed("", "ada"),
    )
    link = TaskLink(LinkKind.SOURCE, "other")
    for payload in (
        ev.TaskDescribed(TaskDescription(title="greeting"), "ada"),
        ev.TaskLinked(link),
        ev.TaskUnlinked(link),
        ev.TaskPauseRequested("", "ada"),
        ev.TaskResumed("", "ada"),
    ):
        assert fold_of(payload, fold=fold).rests_in_pause
    assert not fold_of(ev.TaskMessagesAdded((said("hi", "agent"),)), fold=fold).rests_in_pause
